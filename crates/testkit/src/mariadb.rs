//! MariaDB, from the distribution's packages; a later release from a tree of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::server::{Flavour, Layout, Options, Server, as_current_user};
use crate::servers_dir::find_program;
use crate::template::{run_quietly, template};
use crate::tree::Tree;

/// Must be the same when the data directory is made and when it is used, or the first start
/// makes the log files anew. Each server's folder is copied with it, so it is small.
const LOG_FILE_SIZE: &str = "--innodb-log-file-size=8M";

/// Leaves one account that can do everything, and only through the Unix socket: the folder around
/// that is closed to other users, the port is not.
const CLOSE_ACCOUNTS: &str = "DELETE FROM mysql.global_priv \
    WHERE User = '' AND Host <> '' OR User = 'root' AND Host <> 'localhost';\n";

/// Starts MariaDB servers.
#[derive(Debug)]
pub struct MariaDb;

impl MariaDb {
    /// Starts a server with binary log and GTIDs, ready to answer.
    ///
    /// # Errors
    /// When MariaDB isn't installed, or the server doesn't get ready; with the end of its log.
    pub fn start(options: Options) -> Result<Server> {
        Server::start(Flavour::MariaDb, options)
    }
}

/// Where `mariadbd` is, or why MariaDB can't be started here.
///
/// # Errors
/// A sentence that says what is missing and what installs it.
pub fn mariadb_available() -> Result<PathBuf, String> {
    find_program("mariadbd")
        .filter(|_| find_program("mariadb-install-db").is_some())
        .ok_or_else(|| "mariadbd is not installed (cargo xtask servers installs it)".to_owned())
}

/// The folder that a later release of MariaDB is run from: with `parsec`, and clients that check
/// certificates by the password.
#[derive(Clone, Debug)]
pub struct MariaDbTree(Tree);

/// The server, within its tree.
const SERVER: &str = "usr/sbin/mariadbd";
/// What makes the system's tables, within the tree and in this order.
const SYSTEM_TABLES: [&str; 5] = [
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mariadb_sys_schema.sql",
];

impl MariaDbTree {
    /// Looks for the tree `mariadb` in the servers folder.
    ///
    /// # Errors
    /// A sentence that says where it was looked for and what makes it.
    pub fn find() -> Result<MariaDbTree, String> {
        Tree::find("mariadb", SERVER).map(MariaDbTree)
    }

    /// A command that runs a program of the tree, given by its path inside it
    /// (`usr/bin/mariadb`).
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        self.0.command(program)
    }

    /// Where clients of the tree find their plug-ins.
    #[must_use]
    pub fn client_plugins(&self) -> PathBuf {
        self.0.libraries().join("libmariadb3/plugin")
    }

    fn server(&self) -> Command {
        let root = self.0.root.display();
        let mut command = self.command(SERVER);
        command.args(["--no-defaults", LOG_FILE_SIZE]);
        command.arg(format!("--basedir={root}/usr"));
        command.arg(format!("--lc-messages-dir={root}/usr/share/mariadb"));
        command.arg(format!("--plugin-dir={root}/usr/lib/mysql/plugin"));
        command
    }
}

/// The server's own script makes the tables with programs that would need its loader.
fn newer_template() -> Result<PathBuf> {
    let tree = MariaDbTree::find().map_err(anyhow::Error::msg)?;
    let mut args = vec![LOG_FILE_SIZE.to_owned()];
    args.extend(as_current_user());
    template("mariadb-newer", &tree.0.root.join(SERVER), &args, |folder| {
        let mut sql =
            "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n".to_owned();
        for file in SYSTEM_TABLES {
            let path = tree.0.root.join("usr/share/mariadb").join(file);
            let text = std::fs::read_to_string(&path);
            sql += &text.with_context(|| format!("cannot read {}", path.display()))?;
        }
        bootstrap(tree.server(), folder, &(sql + CLOSE_ACCOUNTS))
    })
}

pub(crate) fn data_template(is_newer: bool) -> Result<PathBuf> {
    if is_newer {
        return newer_template();
    }
    let server = mariadb_available().map_err(anyhow::Error::msg)?;
    let install = find_program("mariadb-install-db").context("mariadb-install-db is missing")?;
    let mut args: Vec<String> = [
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        LOG_FILE_SIZE,
    ]
    .map(str::to_owned)
    .into();
    args.extend(as_current_user());
    template("mariadb", &server, &args, |folder| {
        let mut command = Command::new(&install);
        command.args(&args).arg(format!("--datadir={}", folder.display()));
        run_quietly("mariadb-install-db", &mut command)?;
        close_accounts(&server, folder)
    })
}

fn close_accounts(server: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new(server);
    command.args(["--no-defaults", LOG_FILE_SIZE]);
    bootstrap(command, folder, CLOSE_ACCOUNTS)
}

/// `--bootstrap` runs the statements of its input on a data directory and ends.
fn bootstrap(mut server: Command, folder: &Path, statements: &str) -> Result<()> {
    use std::io::Write;
    let mut child = server
        .arg("--bootstrap")
        .args(as_current_user())
        .arg(format!("--datadir={}", folder.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("no input")?.write_all(statements.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("mariadbd --bootstrap failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

pub(crate) fn command(layout: &Layout, is_newer: bool) -> Result<Command> {
    let mut command = match is_newer {
        true => MariaDbTree::find().map_err(anyhow::Error::msg)?.server(),
        false => {
            let mut command = Command::new(mariadb_available().map_err(anyhow::Error::msg)?);
            command.args(["--no-defaults", LOG_FILE_SIZE]);
            command
        }
    };
    command.args(layout.common_args()).args([
        "--gtid-strict-mode=1",
        "--log-slave-updates=1",
        "--binlog-format=ROW",
        "--innodb-buffer-pool-dump-at-shutdown=0",
    ]);
    Ok(command)
}
