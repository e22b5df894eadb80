//! The thread that writes the query log, the slow log and the audit log, so that no worker waits
//! for a disk.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use tracing::{info, warn};
use trunkline_config::Settings;
use trunkline_net::private;

/// Lines that may wait; more are dropped and counted.
const LINES_MAX: usize = 16_384;
/// Bytes of them, likewise.
const BYTES_MAX: usize = 32 << 20;
/// How long whoever has the files opened anew waits for a disk that does not answer.
const REOPEN_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes that are gathered before they are written.
const BUFFER_LEN: usize = 64 << 10;
/// How long nothing is tried on a file that can't be written.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How often a full queue is tried meanwhile.
const QUEUE_LOOK: Duration = Duration::from_millis(10);

/// Which log a line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// Statements.
    Query,
    /// Statements that took long.
    Slow,
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
    lost: Arc<Lost>,
}

/// Lines that were taken and could not be written, of each log; and what waits for that.
#[derive(Debug, Default)]
struct Lost {
    query: AtomicU64,
    slow: AtomicU64,
    audit: AtomicU64,
    /// Bytes of lines that wait to be taken.
    waiting: AtomicUsize,
}

impl Lost {
    fn of(&self, log: Log) -> &AtomicU64 {
        match log {
            Log::Query => &self.query,
            Log::Slow => &self.slow,
            Log::Audit => &self.audit,
        }
    }
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
        let lost = Arc::<Lost>::default();
        let mut files = Files::new(&lost);
        files.configure(settings);
        let late = Late::default();
        let of_thread = Arc::clone(&late);
        let run = move || files.run(&receiver, &of_thread);
        thread::Builder::new().name("event-log".to_owned()).spawn(run)?;
        Ok(Self { messages: sender, late, lost })
    }

    /// How many lines of a log were taken and could not be written: the disk is full, or fails.
    pub fn lost(&self, log: Log) -> u64 {
        self.lost.of(log).load(Ordering::Relaxed)
    }

    /// Gives a line; false when it was dropped, because the disk does not keep up.
    pub fn write(&self, log: Log, line: String) -> bool {
        let (len, waiting) = (line.len(), &self.lost.waiting);
        if waiting.load(Ordering::Relaxed) + len > BYTES_MAX {
            return false;
        }
        waiting.fetch_add(len, Ordering::Relaxed);
        let is_taken = self.messages.try_send(Message::Line(log, line)).is_ok();
        if !is_taken {
            waiting.fetch_sub(len, Ordering::Relaxed);
        }
        is_taken
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
#[derive(Debug)]
struct LogFile {
    log: Log,
    lost: Arc<Lost>,
    path: PathBuf,
    file: Option<File>,
    /// Its length; it ends with a whole line.
    len: u64,
    /// Lines that are yet to be written.
    buffer: Vec<u8>,
    /// How many those are.
    waiting: u64,
    failure: Option<Failure>,
}

/// A file can't be written.
#[derive(Debug, Clone, Copy)]
struct Failure {
    /// When that was found out last.
    at: Instant,
    /// Lines that were lost since it began.
    lost: u64,
}

#[derive(Debug)]
struct Files {
    query: LogFile,
    slow: LogFile,
    audit: LogFile,
    len_max: u64,
    kept: u32,
}

impl Files {
    fn new(lost: &Arc<Lost>) -> Self {
        let file = |log| LogFile {
            log,
            lost: Arc::clone(lost),
            path: PathBuf::new(),
            file: None,
            len: 0,
            buffer: Vec::new(),
            waiting: 0,
            failure: None,
        };
        Self {
            query: file(Log::Query),
            slow: file(Log::Slow),
            audit: file(Log::Audit),
            len_max: 0,
            kept: 0,
        }
    }

    fn all(&mut self) -> [&mut LogFile; 3] {
        [&mut self.query, &mut self.slow, &mut self.audit]
    }

    fn configure(&mut self, settings: &Settings) {
        (self.len_max, self.kept) = (settings.event_log_size, settings.event_log_files);
        self.query.point_at(&settings.query_log);
        self.slow.point_at(&settings.slow_log);
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
            self.all().into_iter().for_each(LogFile::flush);
            let late = lock(late).take();
            if let Some(settings) = late {
                self.configure(&settings);
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Line(log, line) => {
                self.query.lost.waiting.fetch_sub(line.len(), Ordering::Relaxed);
                let (len_max, kept) = (self.len_max, self.kept);
                let file = match log {
                    Log::Query => &mut self.query,
                    Log::Slow => &mut self.slow,
                    Log::Audit => &mut self.audit,
                };
                file.write(&line, len_max, kept);
            }
            Message::Configure(settings) => self.configure(&settings),
            Message::Reopen => self.all().into_iter().for_each(LogFile::close),
            Message::Flush(done) => {
                self.all().into_iter().for_each(LogFile::flush);
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
            self.failure = None;
        }
    }

    /// What comes next goes to a file that is opened anew.
    fn close(&mut self) {
        self.flush();
        self.file = None;
        if let Some(failure) = &mut self.failure {
            failure.at = failure.at.checked_sub(RETRY_PAUSE).unwrap_or(failure.at);
        }
    }

    fn write(&mut self, line: &str, len_max: u64, kept: u32) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        if self.failure.is_some_and(|failure| failure.at.elapsed() < RETRY_PAUSE) {
            return self.lose(1);
        }
        let more = line.len() as u64 + 1;
        let ready = self.open().and_then(|()| {
            let len = self.len + self.buffer.len() as u64;
            if len == 0 || len + more <= len_max {
                return Ok(());
            }
            self.close();
            rotate(&self.path, kept)?;
            self.open()
        });
        if let Err(error) = ready {
            self.fail(&error);
            return self.lose(1);
        }
        self.buffer.extend_from_slice(line.as_bytes());
        self.buffer.push(b'\n');
        self.waiting += 1;
        if self.buffer.len() >= BUFFER_LEN {
            self.flush();
        }
    }

    fn open(&mut self) -> io::Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        // There may be texts of statements in it.
        let (mut file, warning) = private::open_log(&self.path)?;
        warning.into_iter().for_each(|warning| warn!("{warning}"));
        self.len = file.metadata()?.len();
        if self.len > 0 && !ends_with_line(&self.path)? {
            // A process that was killed left it so.
            self.len = append_whole(&mut file, b"\n", self.len)?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Writes what is gathered, or loses it.
    fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let written = match &mut self.file {
            Some(file) => append_whole(file, &self.buffer, self.len),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        self.buffer.clear();
        let lines = std::mem::take(&mut self.waiting);
        match written {
            Ok(len) => {
                self.len = len;
                if let Some(Failure { lost, .. }) = self.failure.take() {
                    info!("{} is written again; {lost} lines were lost", self.path.display());
                }
            }
            Err(error) => {
                self.fail(&error);
                self.lose(lines);
            }
        }
    }

    /// A file that can't be written is complained of once, until it was.
    fn fail(&mut self, error: &io::Error) {
        self.file = None;
        let lost = match self.failure {
            Some(failure) => failure.lost,
            None => {
                warn!("{} can't be written, its lines are lost: {error}", self.path.display());
                0
            }
        };
        self.failure = Some(Failure { at: Instant::now(), lost });
    }

    fn lose(&mut self, lines: u64) {
        self.lost.of(self.log).fetch_add(lines, Ordering::Relaxed);
        if let Some(failure) = &mut self.failure {
            failure.lost += lines;
        }
    }
}

/// What lines are appended to.
trait Appended: Write {
    /// Takes away what is behind so many bytes.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Appended for File {
    fn cut(&mut self, len: u64) -> io::Result<()> {
        // It is shorter when somebody has emptied it meanwhile.
        if self.metadata()?.len() > len { self.set_len(len) } else { Ok(()) }
    }
}

/// Appends bytes to what is `len` bytes long, all or none: a full disk may take a part of them,
/// and the next line must not be glued to that. The new length.
fn append_whole(out: &mut impl Appended, bytes: &[u8], len: u64) -> io::Result<u64> {
    let written = out.write_all(bytes).and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(len + bytes.len() as u64),
        Err(error) => {
            // If that fails too, the next one who opens it sees a torn line.
            drop(out.cut(len));
            Err(error)
        }
    }
}

/// Whether a file that is not empty ends with a whole line.
fn ends_with_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
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
    fn what_waits_for_a_file_is_bounded_in_bytes() {
        let (sender, receiver) = sync_channel(LINES_MAX);
        let lost = Arc::<Lost>::default();
        let log = EventLog { messages: sender, late: Late::default(), lost: Arc::clone(&lost) };
        let line = || "x".repeat(1 << 20);
        let taken = (0..100).filter(|_| log.write(Log::Query, line())).count();
        assert_eq!(taken, BYTES_MAX >> 20);
        let mut files = Files::new(&lost);
        files.take(receiver.recv().expect("a line"));
        assert!(log.write(Log::Query, line()) && !log.write(Log::Query, line()));
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

    /// A disk with room for so many bytes more.
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.room);
            self.bytes.extend_from_slice(bytes.get(..len).expect("a part"));
            self.room -= len;
            match len {
                0 => Err(io::ErrorKind::StorageFull.into()),
                len => Ok(len),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Appended for Disk {
        fn cut(&mut self, len: u64) -> io::Result<()> {
            self.bytes.truncate(usize::try_from(len).expect("short"));
            Ok(())
        }
    }

    #[test]
    fn what_a_full_disk_takes_a_part_of_is_taken_back() {
        let mut disk = Disk { bytes: Vec::new(), room: 6 };
        assert_eq!(append_whole(&mut disk, b"one\n", 0).ok(), Some(4));
        assert!(append_whole(&mut disk, b"two\n", 4).is_err());
        assert_eq!(disk.bytes, b"one\n");
        disk.room = 100;
        assert_eq!(append_whole(&mut disk, b"three\n", 4).ok(), Some(10));
        assert_eq!(disk.bytes, b"one\nthree\n");
    }

    #[test]
    fn lost_lines_are_counted_and_told_once() {
        let folder = folder("lost");
        let (lost, path) = (Arc::<Lost>::default(), folder.join("q.log"));
        let mut files = Files::new(&lost);
        // A folder that is not there stands for any reason.
        files.configure(&settings(&folder.join("none").join("q.log")));
        for _ in 0..3 {
            files.query.write("lost", 4_096, 2);
        }
        files.query.flush();
        assert_eq!(lost.of(Log::Query).load(Ordering::Relaxed), 3);
        assert_eq!(files.query.failure.map(|failure| failure.lost), Some(3));
        assert_eq!(lost.of(Log::Audit).load(Ordering::Relaxed), 0);
        // A buffer that takes lines is no disk that does: it has still failed.
        fs::create_dir(folder.join("none")).expect("a folder");
        files.query.close();
        files.query.write("kept", 4_096, 2);
        assert!(files.query.failure.is_some());
        files.query.flush();
        assert!(files.query.failure.is_none());
        let kept = fs::read_to_string(folder.join("none").join("q.log")).expect("a file");
        assert_eq!(kept, "kept\n");
        // What a process that was killed has left is a line of its own.
        fs::write(&path, "whole\nto").expect("written");
        files.configure(&settings(&path));
        files.query.write("next", 4_096, 2);
        files.query.flush();
        assert_eq!(fs::read_to_string(&path).expect("a file"), "whole\nto\nnext\n");
        fs::remove_dir_all(folder).expect("removed");
    }
}
