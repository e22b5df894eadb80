//! MySQL, from a tree of its own beside the distribution's packages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::Result;

use crate::server::{Flavour, Layout, Options, Server, as_current_user};
use crate::template::{run_quietly, template};
use crate::tree::Tree;

/// The redo log's size, when the data directory is made and when it is used: each server's folder
/// is copied with it. The smallest that there is.
const REDO_LOG: &str = "--innodb-redo-log-capacity=8M";
/// Pages that are written twice save a server whose machine lost its power; ours lose theirs never,
/// and would copy 16 MiB more.
const NO_DOUBLE_WRITES: &str = "--innodb-doublewrite=OFF";

/// Starts MySQL servers.
#[derive(Debug)]
pub struct MySql;

impl MySql {
    /// Starts a server with binary log and GTIDs, ready to answer. The performance schema is off
    /// unless `options.args` says `--performance-schema=ON`.
    ///
    /// # Errors
    /// When there is no tree ([`mysql_available`]), or the server doesn't get ready; with the end
    /// of its log.
    pub fn start(options: Options) -> Result<Server> {
        Server::start(Flavour::MySql, options)
    }
}

/// The folder of the MySQL tree, or why MySQL can't be started here.
///
/// # Errors
/// A sentence that says where it was looked for and what makes it.
pub fn mysql_available() -> Result<PathBuf, String> {
    MySqlTree::find().map(|tree| tree.0.root)
}

/// The folder that MySQL's programs are run from.
#[derive(Clone, Debug)]
pub struct MySqlTree(Tree);

/// The server, within its tree.
const SERVER: &str = "usr/sbin/mysqld";

impl MySqlTree {
    /// Looks for the tree `mysql` in the servers folder.
    ///
    /// # Errors
    /// A sentence that says where it was looked for and what makes it.
    pub fn find() -> Result<MySqlTree, String> {
        Tree::find("mysql", SERVER).map(MySqlTree)
    }

    /// A command that runs a program of the tree, given by its path inside it
    /// (`usr/sbin/mysqld`).
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        self.0.command(program)
    }

    fn server(&self) -> PathBuf {
        self.0.root.join(SERVER)
    }

    fn place_args(&self) -> [String; 3] {
        let root = self.0.root.display();
        [
            format!("--basedir={root}/usr"),
            format!("--lc-messages-dir={root}/usr/share/mysql"),
            format!("--plugin-dir={root}/usr/lib/mysql/plugin"),
        ]
    }
}

pub(crate) fn data_template() -> Result<PathBuf> {
    let tree = MySqlTree::find().map_err(anyhow::Error::msg)?;
    let mut args: Vec<String> =
        ["--no-defaults", "--initialize-insecure", "--disable-log-bin", REDO_LOG, NO_DOUBLE_WRITES]
            .map(str::to_owned)
            .into();
    args.extend(tree.place_args());
    args.extend(as_current_user());
    template("mysql", &tree.server(), &args, |folder| {
        let mut command = tree.command(SERVER);
        command.args(&args).arg(format!("--datadir={}", folder.display()));
        run_quietly("mysqld --initialize-insecure", &mut command)?;
        // It holds the server's UUID, which two servers of a replication must not share.
        let _ = std::fs::remove_file(folder.join("auto.cnf"));
        Ok(())
    })
}

/// The public key of all servers that were started by this process, which have the template's;
/// `None` before the first.
pub fn mysql_public_key() -> Option<&'static Path> {
    PUBLIC_KEY.get().map(PathBuf::as_path)
}

/// An RSA key for proxies, which make one of their own otherwise, at each start; `None` without
/// MySQL's tree.
pub(crate) fn proxy_key() -> Option<PathBuf> {
    MySqlTree::find().ok()?;
    data_template().ok().map(|folder| folder.join("private_key.pem")).filter(|key| key.is_file())
}

static PUBLIC_KEY: OnceLock<PathBuf> = OnceLock::new();

pub(crate) fn command(layout: &Layout) -> Result<Command> {
    let key = data_template()?.join("public_key.pem");
    if key.is_file() {
        PUBLIC_KEY.get_or_init(|| key);
    }
    let tree = MySqlTree::find().map_err(anyhow::Error::msg)?;
    let mut command = tree.command(SERVER);
    command
        .args(["--no-defaults", REDO_LOG, NO_DOUBLE_WRITES])
        .args(tree.place_args())
        .args(layout.common_args())
        .arg(format!("--secure-file-priv={}", layout.folder.display()))
        .args([
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--mysqlx=0",
            "--performance-schema=OFF",
            "--report-host=127.0.0.1",
            "--innodb-buffer-pool-dump-at-shutdown=0",
        ]);
    Ok(command)
}
