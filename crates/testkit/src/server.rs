//! A real database server in a folder of its own.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::accounting;
use crate::folder::TempFolder;
use crate::namespace::{Overlay, overlaid};
use crate::port::free_port;
use crate::process::{Process, Signal};
use crate::sql::{Row, SqlClient, first_value};
use crate::template::copy_folder;
use crate::{mariadb, mysql};

/// How long a server may take to answer after it was started.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to stop when asked.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// How many ports are tried when somebody else takes the one that was free a moment ago.
const PORT_ATTEMPTS: u32 = 3;

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// MariaDB, from the distribution's packages, or a later one from its tree.
    MariaDb,
    /// MySQL, from the tree in the servers folder.
    MySql,
}

impl Flavour {
    /// Its name in small letters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Flavour::MariaDb => "mariadb",
            Flavour::MySql => "mysql",
        }
    }
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Replication's number, different for each server of a replication.
    pub server_id: u32,
    /// Further arguments; they come last, so they win over ours.
    pub args: Vec<String>,
    /// A folder to keep the data in, made if missing and used as it is if not; it stays. `None`
    /// is a temporary one.
    pub folder: Option<PathBuf>,
    /// A later release of MariaDB, from its tree. There is one of MySQL only.
    pub is_newer: bool,
    /// Files that the server sees in place of the system's.
    pub overlays: Vec<Overlay>,
    /// The TCP port; `None` is any that is free.
    pub port: Option<u16>,
}

impl Default for Options {
    fn default() -> Options {
        let (args, overlays) = (Vec::new(), Vec::new());
        Options { server_id: 1, args, folder: None, is_newer: false, overlays, port: None }
    }
}

impl Options {
    /// The defaults with a server id.
    #[must_use]
    pub fn id(server_id: u32) -> Options {
        Options { server_id, ..Options::default() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Options {
        self.args.push(arg.into());
        self
    }
}

/// The authentication plugin of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthPlugin {
    /// What the server gives when not asked: native on MariaDB, caching_sha2 on MySQL.
    ServerDefault,
    /// `mysql_native_password`; MySQL 9 has it no more.
    Native,
    /// `caching_sha2_password`; MariaDB 10.11 doesn't have it.
    CachingSha2,
}

/// Where a server keeps its things.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    pub(crate) server_id: u32,
}

impl Layout {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("sock")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// What both flavours understand. A killed process loses nothing that the system has already
    /// taken, so the tests need no flush to disk at each commit.
    pub(crate) fn common_args(&self) -> Vec<String> {
        let mut args = vec![
            format!("--datadir={}", self.data().display()),
            format!("--socket={}", self.socket().display()),
            format!("--pid-file={}", self.folder.join("pid").display()),
            // A server that starts deletes the temporary tables of all others in the same folder.
            format!("--tmpdir={}", self.folder.display()),
            format!("--port={}", self.port),
            format!("--server-id={}", self.server_id),
        ];
        let fixed = [
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--log-bin=bin",
            "--sync-binlog=0",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-buffer-pool-size=64M",
            "--max-connections=2000",
            "--back-log=1024",
            "--max-allowed-packet=64M",
        ];
        args.extend(fixed.map(str::to_owned));
        args.extend(as_current_user());
        args
    }
}

/// A server that runs as long as this value lives. All its methods take `&self`, so that one
/// thread can kill it under another's statements.
///
/// The account `root` has no password and is reached through the Unix socket only.
#[derive(Debug)]
pub struct Server {
    // First, so that it ends before its folder goes.
    process: Mutex<Option<Process>>,
    flavour: Flavour,
    layout: Layout,
    args: Mutex<Vec<String>>,
    temp: Option<TempFolder>,
    is_newer: bool,
    overlays: Vec<Overlay>,
}

impl Server {
    pub(crate) fn start(flavour: Flavour, options: Options) -> Result<Server> {
        let (folder, temp) = match options.folder {
            Some(folder) => (folder, None),
            None => {
                let temp = TempFolder::new(flavour.name())?;
                (temp.path().to_path_buf(), Some(temp))
            }
        };
        std::fs::create_dir_all(&folder)?;
        let layout = Layout { folder, port: 0, server_id: options.server_id };
        if !layout.data().exists() {
            let template = match flavour {
                Flavour::MariaDb => mariadb::data_template(options.is_newer)?,
                Flavour::MySql => mysql::data_template()?,
            };
            copy_folder(&template, &layout.data())?;
        }
        let process = Mutex::new(None);
        let Options { args, is_newer, overlays, .. } = options;
        let args = Mutex::new(args);
        let mut server = Server { process, flavour, layout, args, temp, is_newer, overlays };
        match options.port {
            Some(port) => {
                server.layout.port = port;
                server.launch()?;
            }
            None => server.start_on_some_port()?,
        }
        Ok(server)
    }

    fn start_on_some_port(&mut self) -> Result<()> {
        let mut attempt = 1;
        loop {
            self.layout.port = free_port()?;
            let Err(error) = self.launch() else {
                return Ok(());
            };
            let taken = format!("{error:#}").contains("already in use");
            if !taken || attempt == PORT_ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
        }
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> Result<()> {
        let mut command = match self.flavour {
            Flavour::MariaDb => mariadb::command(&self.layout, self.is_newer)?,
            Flavour::MySql => mysql::command(&self.layout)?,
        };
        command.args(self.extra_args().iter()).current_dir(&self.layout.folder);
        if !self.overlays.is_empty() {
            command = overlaid(&command, &self.overlays);
        }
        let name = format!("{} server {}", self.flavour.name(), self.layout.server_id);
        let folder = self.temp.as_ref().map(TempFolder::path);
        let mut process = Process::spawn(&name, command, &self.layout.log(), folder)?;
        process.wait_ready(READY_TIMEOUT, || {
            let mut client = self.root().ok()?;
            client.value("SELECT 1").ok()
        })?;
        *self.running() = Some(process);
        Ok(())
    }

    /// Whose server it is.
    #[must_use]
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The TCP port on 127.0.0.1; it stays the same over restarts.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.layout.port
    }

    /// `127.0.0.1:PORT`, as a configuration wants it.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.layout.port)
    }

    /// The Unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.layout.socket()
    }

    /// The folder of data, socket and log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.layout.folder
    }

    /// The server id of replication.
    #[must_use]
    pub fn server_id(&self) -> u32 {
        self.layout.server_id
    }

    /// The process id; an error while it doesn't run.
    ///
    /// # Errors
    /// When it was stopped or has ended.
    pub fn pid(&self) -> Result<u32> {
        self.with_process(|process| Ok(process.pid()))
    }

    /// Whether the process runs (or is paused).
    #[must_use]
    pub fn is_running(&self) -> bool {
        let mut running = self.running();
        running.as_mut().is_some_and(|process| matches!(process.exit_status(), Ok(None)))
    }

    /// What it has logged since its last start.
    #[must_use]
    pub fn log(&self) -> String {
        self.running().as_ref().map(Process::log).unwrap_or_default()
    }

    /// CPU time so far, in microseconds, since the last start.
    ///
    /// # Errors
    /// When it doesn't run.
    pub fn cpu_micros(&self) -> Result<u64> {
        accounting::cpu_micros(self.pid()?)
    }

    /// Memory in RAM, in bytes.
    ///
    /// # Errors
    /// When it doesn't run.
    pub fn rss_bytes(&self) -> Result<u64> {
        accounting::rss_bytes(self.pid()?)
    }

    /// A connection as root, who may do everything, through the Unix socket.
    ///
    /// # Errors
    /// When it doesn't answer.
    pub fn root(&self) -> Result<SqlClient> {
        SqlClient::socket(&self.socket(), "root", "", "")
    }

    /// A connection over TCP. An empty `schema` means none.
    ///
    /// # Errors
    /// When it doesn't answer or refuses the log-in.
    pub fn connect(&self, user: &str, password: &str, schema: &str) -> Result<SqlClient> {
        SqlClient::tcp(self.port(), user, password, schema)
    }

    /// Runs statements as root on a connection of their own; rows of the last result set.
    ///
    /// # Errors
    /// The server's error, with the statement.
    pub fn sql(&self, statements: &str) -> Result<Vec<Row>> {
        self.root()?.sql(statements)
    }

    /// The first column of the first row, as root.
    ///
    /// # Errors
    /// The server's error, or that there is no row.
    pub fn value(&self, statement: &str) -> Result<Option<String>> {
        first_value(self.sql(statement)?, statement)
    }

    /// Makes (or makes anew) the account `name`@`%` that may do all but write to a read-only
    /// server.
    ///
    /// # Errors
    /// When the server doesn't have the plugin, or refuses.
    pub fn create_user(&self, name: &str, password: &str, plugin: AuthPlugin) -> Result<()> {
        let (account, password) = (format!("{}@'%'", quote(name)), quote(password));
        let identified = match (self.flavour, plugin) {
            (Flavour::MariaDb, AuthPlugin::ServerDefault | AuthPlugin::Native) => {
                format!("VIA mysql_native_password USING PASSWORD({password})")
            }
            (Flavour::MySql, AuthPlugin::ServerDefault | AuthPlugin::CachingSha2) => {
                format!("WITH caching_sha2_password BY {password}")
            }
            (Flavour::MariaDb, AuthPlugin::CachingSha2) => {
                bail!("user {name}: MariaDB 10.11 has no caching_sha2_password")
            }
            (Flavour::MySql, AuthPlugin::Native) => {
                bail!("user {name}: MySQL 9 has no mysql_native_password")
            }
        };
        // A statement that goes astray to a replica must fail there, as it does in production.
        let revoke = match self.flavour {
            Flavour::MariaDb => "READ_ONLY ADMIN",
            Flavour::MySql => "SUPER, CONNECTION_ADMIN",
        };
        self.sql(&format!(
            "DROP USER IF EXISTS {account}; CREATE USER {account} IDENTIFIED {identified};
             GRANT ALL ON *.* TO {account}; REVOKE {revoke} ON *.* FROM {account}"
        ))?;
        Ok(())
    }

    /// Freezes the process (SIGSTOP): connections stay open, nothing answers.
    ///
    /// # Errors
    /// When it doesn't run.
    pub fn pause(&self) -> Result<()> {
        self.with_process(|process| process.signal(Signal::Stop))
    }

    /// Lets a frozen process go on (SIGCONT).
    ///
    /// # Errors
    /// When it doesn't run.
    pub fn resume(&self) -> Result<()> {
        self.with_process(|process| process.signal(Signal::Continue))
    }

    /// Kills the process (SIGKILL) and waits until it is gone. What clients were told is
    /// committed survives. Does nothing when it doesn't run.
    ///
    /// # Errors
    /// When it doesn't go away.
    pub fn kill_hard(&self) -> Result<()> {
        let process = self.running().take();
        process.map_or(Ok(()), |mut process| process.kill())
    }

    /// Asks it to stop (SIGTERM) and waits for its end. `None` when it didn't run.
    ///
    /// # Errors
    /// When it doesn't end within a minute; it is killed then.
    pub fn stop_gracefully(&self) -> Result<Option<ExitStatus>> {
        let Some(mut process) = self.running().take() else {
            return Ok(None);
        };
        if process.exit_status()?.is_none() {
            process.signal(Signal::Terminate)?;
        }
        process.wait(STOP_TIMEOUT).map(Some)
    }

    /// Starts it again with the same data and port, after a graceful stop if it still runs;
    /// returns when it answers.
    ///
    /// # Errors
    /// When it doesn't stop or doesn't get ready; with the end of its log.
    pub fn restart(&self) -> Result<()> {
        self.stop_gracefully()?;
        self.launch()
    }

    /// Adds an argument that holds from the next start on.
    pub fn add_arg(&self, arg: impl Into<String>) {
        self.extra_args().push(arg.into());
    }

    fn running(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extra_args(&self) -> MutexGuard<'_, Vec<String>> {
        self.args.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_process<T>(&self, act: impl FnOnce(&mut Process) -> Result<T>) -> Result<T> {
        let mut running = self.running();
        let process = running.as_mut().with_context(|| {
            format!("{} server {} doesn't run", self.flavour.name(), self.layout.server_id)
        })?;
        act(process)
    }
}

/// A string literal of SQL.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Servers refuse to run as root unless told to. They may here: the account that could abuse it
/// is reached through a folder closed to others, the files they may write lie in that folder, and
/// another user could not read a server tree below root's home.
pub(crate) fn as_current_user() -> Option<String> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
    is_root.then(|| "--user=root".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_quoted() {
        assert_eq!(quote(r"it's a \ b"), r"'it''s a \\ b'");
        assert_eq!(quote(""), "''");
    }
}
