//! MariaDB, from the distribution's packages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::server::{Flavour, Layout, Options, Server, as_current_user};
use crate::servers_dir::find_program;
use crate::template::{run_quietly, template};

/// Must be the same when the data directory is made and when it is used, or the first start
/// makes the log files anew.
const LOG_FILE_SIZE: &str = "--innodb-log-file-size=32M";

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

pub(crate) fn data_template() -> Result<PathBuf> {
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

/// `--bootstrap` runs the statements of its input on a data directory and ends.
fn close_accounts(server: &Path, folder: &Path) -> Result<()> {
    use std::io::Write;
    let mut child = Command::new(server)
        .args(["--no-defaults", "--bootstrap", LOG_FILE_SIZE])
        .args(as_current_user())
        .arg(format!("--datadir={}", folder.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("no input")?.write_all(CLOSE_ACCOUNTS.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("mariadbd --bootstrap failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

pub(crate) fn command(layout: &Layout) -> Result<Command> {
    let mut command = Command::new(mariadb_available().map_err(anyhow::Error::msg)?);
    command.args(["--no-defaults", LOG_FILE_SIZE]).args(layout.common_args()).args([
        "--gtid-strict-mode=1",
        "--log-slave-updates=1",
        "--binlog-format=ROW",
        "--innodb-buffer-pool-dump-at-shutdown=0",
    ]);
    Ok(command)
}
