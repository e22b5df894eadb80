//! The proxy itself, as a process.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::accounting;
use crate::folder::TempFolder;
use crate::http::http_get;
use crate::mysql::{mysql_public_key, proxy_key};
use crate::namespace::{Overlay, overlaid};
use crate::port::{free_port, is_listening, is_listening_unix, release_port};
use crate::process::{Process, Signal};
use crate::sql::SqlClient;
use crate::wait::wait_until;

const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// The binary to test: `TRUNKLINE_BIN`, or `trunkline` beside the running test executable.
///
/// # Errors
/// When it isn't there; says what builds it.
pub fn trunkline_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TRUNKLINE_BIN") {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "TRUNKLINE_BIN names no file: {}", path.display());
        return Ok(path);
    }
    let exe = std::env::current_exe()?;
    // A test lies in target/PROFILE/deps, xtask in target/PROFILE.
    let profile = exe.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let profile = profile.context("the test executable lies nowhere")?;
    let other = if profile.ends_with("release") { "debug" } else { "release" };
    let candidates = [profile.join("trunkline"), profile.with_file_name(other).join("trunkline")];
    let found = candidates.iter().find(|file| file.is_file());
    found.cloned().with_context(|| {
        format!("no trunkline in {} (cargo build -p trunkline makes it)", profile.display())
    })
}

/// A place in the proxy's log, to look for what comes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMark(usize);

/// A running proxy with its file, ports and log.
#[derive(Debug)]
pub struct Trunkline {
    // First, so that it ends before its folder goes.
    process: Mutex<Process>,
    port: u16,
    http_port: u16,
    /// In database mode.
    admin_port: Option<u16>,
    binary: PathBuf,
    folder: TempFolder,
}

/// The Unix socket for clients, in the proxy's folder.
const SOCKET: &str = "trunkline.sock";

/// How long statements wait for what their names mean, where a configuration does not say so: the
/// most that it may.
const NAMES_WAIT_MS: u32 = 10_000;

/// Starts that are tried where ports are taken.
const TRIES_MAX: u32 = 3;

/// What a proxy says whose port is taken.
const PORT_TAKEN: &str = "Address already in use";

impl Drop for Trunkline {
    fn drop(&mut self) {
        for port in [Some(self.port), Some(self.http_port), self.admin_port].into_iter().flatten() {
            release_port(port);
        }
    }
}

impl Trunkline {
    /// Writes the configuration to a file of its own and runs `trunkline serve -c FILE`; returns
    /// when it listens.
    ///
    /// In the text, `{port}`, `{http}` and `{folder}` stand for a free port for clients, one for
    /// HTTP and the folder of the file. A text without a `listen` or `http_listen` setting gets
    /// `127.0.0.1:{port}` with `unix:{folder}/trunkline.sock`, and `127.0.0.1:{http}`: two lines
    /// more, before its own. A text without `catalog_wait_ms` waits for names as long as it may. A
    /// text with its own `listen` must name `{port}` there. Where a `MySQL` server was started
    /// before, a text without `server_public_key` gets its key.
    ///
    /// # Errors
    /// When there is no binary, or it ends or doesn't listen within twenty seconds; with its log.
    pub fn start(config: &str) -> Result<Trunkline> {
        Trunkline::start_with(config, &[])
    }

    /// As [`Trunkline::start`], with environment variables.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(config: &str, env: &[(&str, &str)]) -> Result<Trunkline> {
        Trunkline::start_binary(&trunkline_binary()?, config, env)
    }

    /// As [`Trunkline::start_with`], from a binary of one's own: two builds can be compared.
    ///
    /// # Errors
    /// As there.
    pub fn start_binary(binary: &Path, config: &str, env: &[(&str, &str)]) -> Result<Trunkline> {
        let command = || {
            let mut command = Command::new(binary);
            command.envs(env.iter().copied());
            command
        };
        Trunkline::start_command(command, config, &[])
    }

    /// As [`Trunkline::start`], with files that the proxy sees in place of the system's: where
    /// [`can_overlay`](crate::can_overlay) says so.
    ///
    /// # Errors
    /// As there.
    pub fn start_overlaid(config: &str, overlays: &[Overlay]) -> Result<Trunkline> {
        let binary = trunkline_binary()?;
        Trunkline::start_command(|| Command::new(&binary), config, overlays)
    }

    /// Starts it; with other ports where somebody else took one of them meanwhile.
    fn start_command(
        command: impl Fn() -> Command,
        config: &str,
        over: &[Overlay],
    ) -> Result<Trunkline> {
        let mut tries = 1;
        loop {
            match Trunkline::try_command(command(), config, over) {
                Err(error) if tries < TRIES_MAX && format!("{error:#}").contains(PORT_TAKEN) => {
                    tries += 1;
                }
                tried => return tried,
            }
        }
    }

    fn try_command(mut command: Command, config: &str, over: &[Overlay]) -> Result<Trunkline> {
        let binary = PathBuf::from(command.get_program());
        let folder = TempFolder::new("proxy")?;
        let (port, http_port) = (free_port()?, free_port()?);
        let file = folder.path().join("trunkline.toml");
        let text = complete(config, port, http_port, folder.path());
        let has_http = text.contains(&format!(":{http_port}\""));
        std::fs::write(&file, &text)?;
        command.args(["serve", "-c"]).arg(&file);
        command.current_dir(folder.path());
        if !over.is_empty() {
            command = overlaid(&command, over);
        }
        let log = folder.path().join("log");
        let mut process = Process::spawn("trunkline", command, &log, Some(folder.path()))?;
        let socket = folder.path().join(SOCKET);
        let has_socket = text.contains(&format!("unix:{}", socket.display()));
        let is_ready = || {
            is_listening(port)
                && (!has_http || is_listening(http_port))
                && (!has_socket || is_listening_unix(&socket))
        };
        process.wait_ready(READY_TIMEOUT, || is_ready().then_some(()))?;
        let process = Mutex::new(process);
        Ok(Trunkline { process, port, http_port, admin_port: None, binary, folder })
    }

    /// Runs `trunkline serve -D FOLDER -c FILE` with an empty folder, which begins with the
    /// configuration; returns when it and the admin port listen. The text is as for
    /// [`Trunkline::start`].
    ///
    /// # Errors
    /// As there.
    pub fn start_database(config: &str) -> Result<Trunkline> {
        Trunkline::start_database_binary(&trunkline_binary()?, config)
    }

    /// As [`Trunkline::start_database`], from a binary of one's own.
    ///
    /// # Errors
    /// As there.
    pub fn start_database_binary(binary: &Path, config: &str) -> Result<Trunkline> {
        let folder = TempFolder::new("proxy")?;
        let (port, http_port, admin_port) = (free_port()?, free_port()?, free_port()?);
        let text = complete(config, port, http_port, folder.path());
        let text = format!("admin_listen = \"127.0.0.1:{admin_port}\"\n{text}");
        std::fs::write(folder.path().join("trunkline.toml"), text)?;
        let process = Mutex::new(spawn_database(binary, folder.path(), &[])?);
        let (admin_port, binary) = (Some(admin_port), binary.to_owned());
        let started = Trunkline { process, port, http_port, admin_port, binary, folder };
        started.wait_database()?;
        Ok(started)
    }

    /// Ends a proxy in database mode as a power failure would, and starts it again with its
    /// folder.
    ///
    /// # Errors
    /// When it does not come up again; with its log.
    pub fn kill_and_restart(&self, arguments: &[&str]) -> Result<()> {
        {
            let mut process = self.process();
            process.kill()?;
            *process = spawn_database(&self.binary, self.folder.path(), arguments)?;
        }
        self.wait_database()
    }

    fn wait_database(&self) -> Result<()> {
        let ports = [Some(self.port), self.admin_port];
        let is_ready = || ports.into_iter().flatten().all(is_listening);
        self.process().wait_ready(READY_TIMEOUT, || is_ready().then_some(()))
    }

    /// The admin port on 127.0.0.1, in database mode; else 0.
    #[must_use]
    pub fn admin_port(&self) -> u16 {
        self.admin_port.unwrap_or(0)
    }

    /// The folder of the database.
    #[must_use]
    pub fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The port for clients on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of metrics and status on 127.0.0.1.
    #[must_use]
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// The Unix socket for clients, when the text had no `listen` of its own.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    /// The configuration file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.folder.path().join("trunkline.toml")
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.process().exit_status(), Ok(None))
    }

    /// A client's connection through the proxy. An empty `schema` means none.
    ///
    /// # Errors
    /// When it refuses.
    pub fn connect(&self, user: &str, password: &str, schema: &str) -> Result<SqlClient> {
        SqlClient::tcp(self.port, user, password, schema)
    }

    /// Writes a changed configuration and sends SIGHUP. The mark is the end of the log before it,
    /// for [`Trunkline::wait_log`].
    ///
    /// # Errors
    /// When the file can't be written or the proxy has ended.
    pub fn reload(&self, config: &str) -> Result<LogMark> {
        let text = complete(config, self.port, self.http_port, self.folder.path());
        std::fs::write(self.config_file(), text)?;
        let mark = self.log_mark();
        self.signal(Signal::Hangup)?;
        Ok(mark)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process().signal(signal)
    }

    /// SIGTERM, and waits for its end.
    ///
    /// # Errors
    /// When it has already ended, or hasn't after `timeout` (it is left running).
    pub fn terminate(&self, timeout: Duration) -> Result<ExitStatus> {
        self.signal(Signal::Terminate)?;
        self.wait(timeout)
    }

    /// Waits for its end; others may use the proxy meanwhile.
    ///
    /// # Errors
    /// When it still runs after `timeout`.
    pub fn wait(&self, timeout: Duration) -> Result<ExitStatus> {
        wait_until("trunkline ends", timeout, || self.process().exit_status())
            .with_context(|| format!("end of its log:\n{}", self.process().log_tail()))
    }

    /// All it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.process().log()
    }

    /// The end of the log as it is now.
    #[must_use]
    pub fn log_mark(&self) -> LogMark {
        LogMark(self.log().len())
    }

    /// Waits for a line behind `mark` that contains `needle`, and gives it.
    ///
    /// # Errors
    /// When none comes within `timeout`; with the end of the log.
    pub fn wait_log(&self, mark: LogMark, needle: &str, timeout: Duration) -> Result<String> {
        let what = format!("log says {needle:?}");
        let look = || {
            let log = self.log();
            let behind = log.get(mark.0..).unwrap_or_default();
            Ok(behind.lines().find(|line| line.contains(needle)).map(str::to_owned))
        };
        wait_until(&what, timeout, look)
            .with_context(|| format!("end of its log:\n{}", self.process().log_tail()))
    }

    /// GETs a path from its HTTP port: status and body.
    ///
    /// # Errors
    /// When it doesn't answer.
    pub fn http(&self, path: &str) -> Result<(u16, String)> {
        http_get(self.http_port, path)
    }

    /// The text of `/metrics`.
    ///
    /// # Errors
    /// When it doesn't answer with 200.
    pub fn metrics(&self) -> Result<String> {
        self.body("/metrics")
    }

    /// The sum of a metric over its series whose labels contain `labels` (empty: all of them), or
    /// `None` when there is no such series. `labels` is text like `hostgroup="10"`.
    ///
    /// # Errors
    /// When the proxy doesn't answer with 200.
    pub fn metric(&self, name: &str, labels: &str) -> Result<Option<f64>> {
        Ok(sum_of(&self.metrics()?, name, labels))
    }

    /// The text of `/status`, a JSON object.
    ///
    /// # Errors
    /// When it doesn't answer with 200.
    pub fn status_json(&self) -> Result<String> {
        self.body("/status")
    }

    /// CPU time so far, in microseconds.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu_micros(&self) -> Result<u64> {
        accounting::cpu_micros(self.pid())
    }

    /// Memory in RAM, in bytes.
    ///
    /// # Errors
    /// When it has ended.
    pub fn rss_bytes(&self) -> Result<u64> {
        accounting::rss_bytes(self.pid())
    }

    /// The most memory that it has had in RAM, in bytes.
    ///
    /// # Errors
    /// When it has ended.
    pub fn peak_rss_bytes(&self) -> Result<u64> {
        accounting::peak_rss_bytes(self.pid())
    }

    fn body(&self, path: &str) -> Result<String> {
        let (status, body) = self.http(path)?;
        if status != 200 {
            bail!("{path} answered {status}: {body:.300}");
        }
        Ok(body)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts it in database mode with the files of `folder`.
fn spawn_database(binary: &Path, folder: &Path, arguments: &[&str]) -> Result<Process> {
    let mut command = Command::new(binary);
    command.arg("serve").arg("-D").arg(folder.join("data"));
    command.arg("-c").arg(folder.join("trunkline.toml")).args(arguments);
    command.current_dir(folder);
    Process::spawn("trunkline", command, &folder.join("log"), Some(folder))
}

/// Adds the listeners a text lacks and fills in the ports. They are top-level keys, so they stand
/// before the first table.
fn complete(config: &str, port: u16, http_port: u16, folder: &Path) -> String {
    let has = |key: &str| {
        config.lines().any(|line| {
            let rest = line.trim_start().strip_prefix(key);
            rest.is_some_and(|rest| rest.trim_start().starts_with('='))
        })
    };
    let mut text = String::new();
    if !has("listen") {
        text.push_str("listen = [\"127.0.0.1:{port}\", \"unix:{folder}/trunkline.sock\"]\n");
    }
    if !has("http_listen") {
        text.push_str("http_listen = \"127.0.0.1:{http}\"\n");
    }
    // A whole run of tests with the other driver: `TRUNKLINE_TEST_IO=io_uring cargo test -p e2e`.
    if let Some(io) = std::env::var("TRUNKLINE_TEST_IO").ok().filter(|_| !has("io")) {
        text.push_str(&format!("io = \"{io}\"\n"));
    }
    // Without TLS a password goes only to servers whose key is known.
    if let Some(key) = mysql_public_key().filter(|_| !has("server_public_key")) {
        text.push_str(&format!("server_public_key = \"{}\"\n", key.display()));
    }
    // To make one takes most of the time of a start.
    if let Some(key) = proxy_key().filter(|_| !has("caching_sha2_password_private_key_path")) {
        text.push_str(&format!("caching_sha2_password_private_key_path = \"{}\"\n", key.display()));
    }
    // How soon a busy machine's servers say what names mean is no test's business but those that
    // set it.
    if !has("catalog_wait_ms") {
        text.push_str(&format!("catalog_wait_ms = {NAMES_WAIT_MS}\n"));
    }
    text.push_str(config);
    text.replace("{port}", &port.to_string())
        .replace("{http}", &http_port.to_string())
        .replace("{folder}", &folder.to_string_lossy())
}

/// A line of the text format is `name{labels} value` or `name value`.
fn sum_of(metrics: &str, name: &str, labels: &str) -> Option<f64> {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (set, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest.strip_prefix(' ')?),
        };
        let number = value.split_ascii_whitespace().next()?.parse::<f64>().ok()?;
        set.contains(labels).then_some(number)
    });
    values.reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_added_only_where_they_lack() {
        let folder = Path::new("/f");
        let key = "caching_sha2_password_private_key_path=\"\"\n";
        let bare = complete(&format!("{key}workers = 1\n"), 1, 2, folder);
        assert_eq!(
            bare,
            format!(
                "listen = [\"127.0.0.1:1\", \"unix:/f/trunkline.sock\"]\n\
                 http_listen = \"127.0.0.1:2\"\ncatalog_wait_ms = 10000\n{key}workers = 1\n"
            )
        );
        let own =
            format!("listen = [\"[::1]:{{port}}\"]\nhttp_listen=\"\"\ncatalog_wait_ms=1\n{key}");
        let wanted = format!("listen = [\"[::1]:7\"]\nhttp_listen=\"\"\ncatalog_wait_ms=1\n{key}");
        assert_eq!(complete(&own, 7, 2, folder), wanted);
    }

    #[test]
    fn series_are_summed_by_labels() {
        let text = "# TYPE a counter\na{h=\"1\",s=\"x\"} 2\na{h=\"2\"} 3.5\na_b 100\nc 7\n";
        assert_eq!(sum_of(text, "a", ""), Some(5.5));
        assert_eq!(sum_of(text, "a", "h=\"2\""), Some(3.5));
        assert_eq!(sum_of(text, "c", ""), Some(7.0));
        assert_eq!(sum_of(text, "d", ""), None);
    }
}
