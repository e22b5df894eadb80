//! The thread that writes the query log and the audit log, so that no worker waits for a disk.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use tracing::warn;
use trunkline_config::Settings;
use trunkline_net::private;

/// Lines that may wait; more are dropped and counted.
const LINES_MAX: usize = 16_384;
/// How long whoever has the files opened anew waits for a disk that does not answer.
const REOPEN_TIME_MAX: Duration = Duration::from_secs(5);
/// How often a full queue is tried meanwhile.
const QUEUE_LOOK: Duration = Duration::from_millis(10);

/// Which log a line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// Statements.
    Query,
    /// Logins and changes.
    Audit,
}

enum Message {
    Line(Log, String),
    /// The files and their sizes are these from now on.
    Configure(Box<Settings>),
    /// Files were renamed by somebody else: open them anew.
    Reopen,
    /// Say that all before was written.
    Flush(SyncSender<()>),
}

/// The end that gives lines. Nothing here waits for a disk for long.
#[derive(Debug, Clone)]
pub struct EventLog {
    messages: SyncSender<Message>,
    /// Files and sizes that found no room among the lines: in force when those are written.
    late: Late,
}

type Late = Arc<Mutex<Option<Box<Settings>>>>;

fn lock(late: &Late) -> MutexGuard<'_, Option<Box<Settings>>> {
    late.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventLog {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's reason why there is none.
    pub(crate) fn start(settings: &Settings) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(LINES_MAX);
        let mut files = Files::default();
        files.configure(settings);
        let late = Late::default();
        let of_thread = Arc::clone(&late);
        let run = move || files.run(&receiver, &of_thread);
        thread::Builder::new().name("event-log".to_owned()).spawn(run)?;
        Ok(Self { messages: sender, late })
    }

    /// Gives a line; false when it was dropped, because the disk does not keep up.
    pub fn write(&self, log: Log, line: String) -> bool {
        self.messages.try_send(Message::Line(log, line)).is_ok()
    }

    pub(crate) fn configure(&self, settings: &Settings) {
        let message = Message::Configure(Box::new(settings.clone()));
        let unsent = match self.messages.try_send(message) {
            Err(TrySendError::Full(Message::Configure(settings))) => Some(settings),
            // The thread ends with the process.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => None,
        };
        *lock(&self.late) = unsent;
    }

    /// Opens the files anew, after somebody has renamed them; returns when what came before is
    /// written.
    ///
    /// # Errors
    /// When that takes longer than 5 s; it is done all the same when the disk answers again.
    pub fn reopen(&self) -> Result<(), String> {
        let (done, flushed) = sync_channel(1);
        let deadline = Instant::now() + REOPEN_TIME_MAX;
        let left = || deadline.saturating_duration_since(Instant::now());
        let late =
            || Err(format!("the logs are not written: no answer within {REOPEN_TIME_MAX:?}"));
        for mut message in [Message::Reopen, Message::Flush(done)] {
            while let Err(TrySendError::Full(unsent)) = self.messages.try_send(message) {
                if left().is_zero() {
                    return late();
                }
                message = unsent;
                thread::sleep(QUEUE_LOOK);
            }
        }
        match flushed.recv_timeout(left()) {
            // The thread ends with the process.
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(()),
            Err(RecvTimeoutError::Timeout) => late(),
        }
    }
}

/// One file, open while it is written to.
#[derive(Debug, Default)]
struct LogFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    len: u64,
    has_failed: bool,
}

#[derive(Debug, Default)]
struct Files {
    query: LogFile,
    audit: LogFile,
    len_max: u64,
    kept: u32,
}

impl Files {
    fn configure(&mut self, settings: &Settings) {
        (self.len_max, self.kept) = (settings.event_log_size, settings.event_log_files);
        self.query.point_at(&settings.query_log);
        self.audit.point_at(&settings.audit_log);
    }

    fn run(mut self, messages: &Receiver<Message>, late: &Late) {
        while let Ok(first) = messages.recv() {
            let mut next = Some(first);
            while let Some(message) = next {
                self.take(message);
                next = messages.try_recv().ok();
            }
            // What is written is in the file before the thread rests.
            self.query.flush();
            self.audit.flush();
            let late = lock(late).take();
            if let Some(settings) = late {
                self.configure(&settings);
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Line(Log::Query, line) => self.query.write(&line, self.len_max, self.kept),
            Message::Line(Log::Audit, line) => self.audit.write(&line, self.len_max, self.kept),
            Message::Configure(settings) => self.configure(&settings),
            Message::Reopen => {
                self.query.close();
                self.audit.close();
            }
            Message::Flush(done) => {
                self.query.flush();
                self.audit.flush();
                // Who asked may have gone.
                let _ = done.try_send(());
            }
        }
    }
}

impl LogFile {
    fn point_at(&mut self, path: &str) {
        if self.path != Path::new(path) {
            self.close();
            self.path = PathBuf::from(path);
            // What was said of another file says nothing of this one.
            self.has_failed = false;
        }
    }

    fn close(&mut self) {
        self.flush();
        self.file = None;
    }

    fn flush(&mut self) {
        let flushed = self.file.as_mut().map_or(Ok(()), Write::flush);
        self.note(flushed);
    }

    fn write(&mut self, line: &str, len_max: u64, kept: u32) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        let written = self.append(line, len_max, kept);
        self.note(written);
    }

    fn append(&mut self, line: &str, len_max: u64, kept: u32) -> io::Result<()> {
        let more = line.len() as u64 + 1;
        if self.len > 0 && self.len + more > len_max && self.file.is_some() {
            self.close();
            rotate(&self.path, kept)?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                // There may be texts of statements in it.
                let (file, warning) = private::open_log(&self.path)?;
                warning.into_iter().for_each(|warning| warn!("{warning}"));
                self.len = file.metadata()?.len();
                self.file.insert(BufWriter::new(file))
            }
        };
        file.write_all(line.as_bytes())?;
        file.write_all(b"\n")?;
        self.len += more;
        Ok(())
    }

    /// A file that can't be written is complained of once, until it can be.
    fn note(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.has_failed = self.has_failed && self.file.is_none(),
            Err(error) => {
                if !self.has_failed {
                    warn!("{} can't be written: {error}", self.path.display());
                }
                self.has_failed = true;
                // What could not be written is lost; it is opened anew for the next line.
                if let Some(file) = self.file.take() {
                    drop(file.into_parts());
                }
            }
        }
    }
}

/// `log.9` goes, `log.8` becomes `log.9`, and so on; `log` becomes `log.1`.
fn rotate(path: &Path, kept: u32) -> io::Result<()> {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..kept).rev() {
        let from = numbered(number);
        if from.exists() {
            fs::rename(from, numbered(number + 1))?;
        }
    }
    fs::rename(path, numbered(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("event-log-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn settings(path: &Path) -> Settings {
        Settings {
            query_log: path.display().to_string(),
            event_log_size: 4_096,
            event_log_files: 2,
            ..Settings::default()
        }
    }

    #[test]
    fn files_are_renamed_when_they_are_long_and_few_are_kept() {
        let folder = folder("rotation");
        let path = folder.join("q.log");
        let log = EventLog::start(&settings(&path)).expect("a thread");
        for number in 0..100 {
            assert!(log.write(Log::Query, format!("{number:0200}")));
            // Nothing is written for a log that is off.
            assert!(log.write(Log::Audit, "no".to_owned()));
        }
        log.reopen().expect("written");
        let mut names: Vec<String> = fs::read_dir(&folder)
            .expect("a folder")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        assert_eq!(names, ["q.log", "q.log.1", "q.log.2"]);
        let last = fs::read_to_string(&path).expect("a file");
        assert!(last.ends_with(&format!("{:0200}\n", 99)));
        let before = fs::metadata(folder.join("q.log.1")).expect("a file").len();
        assert!((3_900..=4_096).contains(&before), "{before}");
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_file_that_was_renamed_is_made_anew_and_one_that_can_not_be_is_no_end() {
        let folder = folder("reopen");
        let path = folder.join("q.log");
        let log = EventLog::start(&settings(&path)).expect("a thread");
        log.write(Log::Query, "one".to_owned());
        log.reopen().expect("written");
        fs::rename(&path, folder.join("moved")).expect("renamed");
        log.write(Log::Query, "two".to_owned());
        log.reopen().expect("written");
        assert_eq!(fs::read_to_string(folder.join("moved")).expect("a file"), "one\n");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "two\n");
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        log.configure(&settings(&pipe));
        log.write(Log::Query, "lost".to_owned());
        log.configure(&settings(&path));
        log.write(Log::Query, "three".to_owned());
        log.reopen().expect("written");
        assert_eq!(fs::read_to_string(&path).expect("a file"), "two\nthree\n");
        fs::remove_dir_all(folder).expect("removed");
    }
}
