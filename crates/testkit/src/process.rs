//! A child process that can't outlive the test.

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::folder::TempFolder;
use crate::wait::wait_until;

/// How long a killed process may take to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);
/// How many bytes of a log an error shows.
const TAIL_BYTES: usize = 4_000;

/// What the watchdog runs: `$1` is the process group, `$2` a folder to remove or nothing.
///
/// `read` ends when the test's end of the pipe closes, however the test came to its end.
const WATCHDOG: &str = r#"
while read -r _; do :; done
kill -s KILL -- "-$1" 2>/dev/null
[ -z "$2" ] || rm -rf -- "$2" 2>/dev/null || { sleep 1; rm -rf -- "$2"; }
"#;

/// The signals that tests send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: apply the changed file.
    Hangup,
    /// SIGTERM: stop gracefully.
    Terminate,
    /// SIGKILL: end at once.
    Kill,
    /// SIGSTOP: freeze.
    Stop,
    /// SIGCONT: go on.
    Continue,
    /// SIGINT: what Ctrl-C sends.
    Interrupt,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Signal::Hangup => "HUP",
            Signal::Terminate => "TERM",
            Signal::Kill => "KILL",
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
            Signal::Interrupt => "INT",
        }
    }
}

/// A running child in a process group of its own, with its output in a file.
///
/// Dropped, it is killed with its group. When this process is killed itself, a watchdog (a shell
/// that reads a pipe from us) does it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    watchdog: Option<Child>,
    log: PathBuf,
    /// Where this process's part of the log begins: a restarted server appends.
    log_start: usize,
}

impl Process {
    /// Starts `command` with no input and with both outputs appended to the file `log`.
    ///
    /// `name` says in errors what it is. The watchdog also removes `folder`, if there is one.
    ///
    /// # Errors
    /// When the log can't be opened or the program can't be started.
    pub fn spawn(
        name: &str,
        mut command: Command,
        log: &Path,
        folder: Option<&Path>,
    ) -> Result<Process> {
        let file = open_log(log)?;
        let log_start = usize::try_from(file.metadata()?.len())?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let mut child = command.spawn().with_context(|| {
            format!("cannot start {name} ({})", command.get_program().to_string_lossy())
        })?;
        let watchdog = match spawn_watchdog(child.id(), folder.filter(|_| !TempFolder::kept())) {
            Ok(watchdog) => Some(watchdog),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        Ok(Process { name: name.to_owned(), child, watchdog, log: log.to_path_buf(), log_start })
    }

    /// The process id; its process group has the same number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its end, or `None` while it runs.
    ///
    /// # Errors
    /// When the system can't say.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            // Its number may be given to a stranger from now on, so nobody may kill it any more.
            self.dismiss_watchdog();
        }
        Ok(status)
    }

    /// Sends a signal to the process alone, not to its group. Behind [`Signal::Stop`] it stands
    /// still.
    ///
    /// # Errors
    /// When it has ended, or does not stop within twenty seconds.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if let Some(status) = self.exit_status()? {
            bail!("cannot signal {}: it has ended ({status})", self.name);
        }
        send(signal, &self.pid().to_string())?;
        if signal == Signal::Stop {
            // The signal is on its way still: on a busy machine its threads run on for a while.
            let folder = PathBuf::from(format!("/proc/{}/task", self.pid()));
            wait_until(&format!("{} stands still", self.name), STOPS_WITHIN, || {
                stands_still(&folder).map(|stands| stands.then_some(()))
            })?;
        }
        Ok(())
    }

    /// Waits for it to end by itself.
    ///
    /// # Errors
    /// When it still runs after `timeout`; it is left running.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let what = format!("{} ends", self.name);
        wait_until(&what, timeout, || self.exit_status())
    }

    /// SIGKILL to the whole group, and waits until it is gone.
    ///
    /// # Errors
    /// When it doesn't go away within twenty seconds.
    pub fn kill(&mut self) -> Result<()> {
        if self.exit_status()?.is_none() {
            // The group first: children must not be left without their parent's number.
            let _ = send(Signal::Kill, &format!("-{}", self.pid()));
            let _ = self.child.kill();
            self.wait(KILL_TIMEOUT)?;
        }
        Ok(())
    }

    /// What it has written since it was started; invalid UTF-8 is replaced.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.log_start..).unwrap_or_default()).into_owned()
    }

    /// The file with its output.
    #[must_use]
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The end of its log, for an error's text.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let mut start = log.len().saturating_sub(TAIL_BYTES);
        while !log.is_char_boundary(start) {
            start += 1;
        }
        log.get(start..).unwrap_or_default().to_owned()
    }

    /// Waits until `ready` gives a value, and gives up at once when the process ends.
    ///
    /// # Errors
    /// When it ends or the deadline passes; both show the end of the log.
    pub fn wait_ready<T>(
        &mut self,
        timeout: Duration,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let what = format!("{} is ready", self.name);
        let outcome = wait_until(&what, timeout, || {
            if let Some(status) = self.exit_status()? {
                bail!("{} ended before it was ready ({status})", self.name);
            }
            Ok(ready())
        });
        outcome.with_context(|| format!("end of its log:\n{}", self.log_tail()))
    }

    fn dismiss_watchdog(&mut self) {
        if let Some(mut watchdog) = self.watchdog.take() {
            // Killed before its pipe closes: it must not fire.
            let _ = watchdog.kill();
            let _ = watchdog.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("testkit: {error:#}");
        }
    }
}

fn open_log(log: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))
}

fn spawn_watchdog(group: u32, folder: Option<&Path>) -> Result<Child> {
    Command::new("sh")
        .args(["-c", WATCHDOG, "testkit-watchdog"])
        .arg(group.to_string())
        .arg(folder.map(Path::as_os_str).unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start the watchdog (sh)")
}

/// Through the shell's own `kill`, since this crate has no unsafe code and a minimal system may
/// lack the program of that name.
fn send(signal: Signal, target: &str) -> Result<()> {
    let status = Command::new("sh")
        .args(["-c", r#"kill -s "$1" -- "$2""#, "sh", signal.name(), target])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot run sh")?;
    if !status.success() {
        bail!("cannot send SIG{} to process {target}", signal.name());
    }
    Ok(())
}

/// How long a process may take to stand still behind a SIGSTOP.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

/// Whether all threads are stopped, of the process whose folder of threads in `/proc` this is.
fn stands_still(folder: &Path) -> Result<bool> {
    for thread in fs::read_dir(folder)? {
        // One that has ended meanwhile does nothing either.
        let stat = fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if state.is_some_and(|state| !matches!(state, 'T' | 'Z' | 'X')) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn is_alive(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
    }

    fn gone(pid: u32) {
        let look = || Ok((!is_alive(pid)).then_some(()));
        wait_until("process is gone", Duration::from_secs(10), look).unwrap();
    }

    #[test]
    fn a_dropped_process_takes_its_children_with_it() {
        let folder = TempFolder::new("p").unwrap();
        let log = folder.path().join("log");
        let command = shell("sleep 1000 & echo $!; wait");
        let mut process = Process::spawn("sleeper", command, &log, None).unwrap();
        let child: u32 = process
            .wait_ready(Duration::from_secs(10), || {
                std::fs::read_to_string(&log).ok()?.trim().parse().ok()
            })
            .unwrap();
        assert!(is_alive(child));
        drop(process);
        gone(child);
    }

    #[test]
    fn the_watchdog_kills_and_tidies_when_its_pipe_closes() {
        let folder = TempFolder::new("w").unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let mut child = shell("sleep 1000 & wait").process_group(0).spawn().unwrap();
        let mut watchdog = spawn_watchdog(child.id(), Some(&inner)).unwrap();
        drop(watchdog.stdin.take());
        assert!(!child.wait().unwrap().success());
        watchdog.wait().unwrap();
        assert!(!inner.exists());
    }

    #[test]
    fn an_early_end_is_told_with_the_log() {
        let folder = TempFolder::new("e").unwrap();
        let log = folder.path().join("log");
        let command = shell("echo no such option >&2; exit 3");
        let mut process = Process::spawn("broken", command, &log, None).unwrap();
        let error = process.wait_ready::<()>(Duration::from_secs(10), || None).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("no such option") && text.contains("exit status: 3"), "{text}");
        assert!(process.signal(Signal::Hangup).is_err());
    }

    #[test]
    fn a_stopped_process_is_still_killed() {
        let folder = TempFolder::new("s").unwrap();
        let log = folder.path().join("log");
        let mut process = Process::spawn("sleeper", shell("sleep 1000"), &log, None).unwrap();
        process.signal(Signal::Stop).unwrap();
        let stands = stands_still(&PathBuf::from(format!("/proc/{}/task", process.pid())));
        assert!(stands.unwrap());
        process.kill().unwrap();
        gone(process.pid());
    }
}
