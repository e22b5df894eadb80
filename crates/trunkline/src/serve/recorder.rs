//! Records the numbers of the past: a frame of every ten seconds, made of reports that workers
//! give anyway, written by a thread of its own. A disk that is full, slow or gone loses frames, and
//! holds up nobody ([decision 0081](../../../../docs/decisions/0081-history.md)).

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use tokio::time::{MissedTickBehavior, interval};
use trunkline_admin::{StatusSource, recorded_figures};
use trunkline_history::{Frame, History, Observer};
use trunkline_stats::{DigestOrder, DigestQuery, HistoryFigures};

use super::reporter::Reporter;

/// How much time a frame covers.
const FRAME: Duration = Duration::from_secs(10);
/// Rows of each worker's digest table that are looked at. Those with the most time since the start
/// are nearly always those with the most time now.
const DIGESTS: DigestQuery = DigestQuery { order: DigestOrder::SumTime, rows_max: 2_000 };
/// Frames that may wait for the disk.
const FRAMES_MAX: usize = 2;

/// What has become of frames, and where they are.
#[derive(Debug, Default)]
pub struct RecorderCounts {
    bytes: AtomicU64,
    written: AtomicU64,
    lost: AtomicU64,
    folder: OnceLock<PathBuf>,
}

impl RecorderCounts {
    /// Where they are written, if they are.
    pub fn folder(&self) -> Option<PathBuf> {
        self.folder.get().cloned()
    }

    /// The numbers now.
    pub fn figures(&self) -> HistoryFigures {
        HistoryFigures {
            bytes: self.bytes.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}

/// Records until the process ends. Nothing is recorded without a thread.
pub fn start(folder: PathBuf, size_mb: u64, reporter: Arc<Reporter>) {
    let counts = reporter.recorded();
    let kept_in = folder.clone();
    let (frames, taken) = sync_channel(FRAMES_MAX);
    let writer = Writer {
        folder,
        bytes_max: size_mb.saturating_mul(1_000_000),
        history: None,
        is_failing: false,
        counts: Arc::clone(&counts),
    };
    let thread = thread::Builder::new().name("history".to_owned());
    if let Err(error) = thread.spawn(move || writer.run(&taken)) {
        tracing::warn!("no history is kept: {error}");
        return;
    }
    debug_assert!(counts.folder.get().is_none(), "one history is kept");
    drop(counts.folder.set(kept_in));
    tokio::spawn(keep_recording(reporter, frames, counts));
}

async fn keep_recording(
    reporter: Arc<Reporter>,
    frames: SyncSender<Frame>,
    counts: Arc<RecorderCounts>,
) {
    let mut observer = Observer::default();
    let mut tick = interval(FRAME);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let report = reporter.report(DIGESTS).await;
        let topology = reporter.topology();
        let Some(frame) = observer.frame(&report, &topology, recorded_figures(&report)) else {
            continue;
        };
        match frames.try_send(frame) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                counts.lost.fetch_add(1, Ordering::Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => return,
        }
    }
}

/// Writes what it is given.
struct Writer {
    folder: PathBuf,
    bytes_max: u64,
    history: Option<History>,
    /// Whether the last frame was lost, which was said.
    is_failing: bool,
    counts: Arc<RecorderCounts>,
}

impl Writer {
    fn run(mut self, frames: &Receiver<Frame>) {
        // What was kept before is tidied at once.
        let opened = self.open();
        self.tell(opened);
        while let Ok(frame) = frames.recv() {
            let written = self.write(&frame);
            let count = if written.is_ok() { &self.counts.written } else { &self.counts.lost };
            count.fetch_add(1, Ordering::Relaxed);
            self.tell(written);
        }
    }

    fn open(&mut self) -> io::Result<()> {
        let history = History::open(&self.folder, self.bytes_max)?;
        self.counts.bytes.store(history.bytes(), Ordering::Relaxed);
        self.history = Some(history);
        Ok(())
    }

    fn write(&mut self, frame: &Frame) -> io::Result<()> {
        if self.history.is_none() {
            self.open()?;
        }
        let Some(history) = &mut self.history else { return Ok(()) };
        history.add(frame)?;
        self.counts.bytes.store(history.bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Says once that frames are lost, and once that they are not any more.
    fn tell(&mut self, outcome: io::Result<()>) {
        let folder = self.folder.display();
        match outcome {
            Err(error) if !self.is_failing => {
                tracing::warn!("the history is not kept in {folder}: {error}");
                self.is_failing = true;
            }
            Ok(()) if self.is_failing => {
                let lost = self.counts.lost.load(Ordering::Relaxed);
                tracing::warn!("the history is kept again in {folder}; {lost} frames are missing");
                self.is_failing = false;
            }
            Ok(()) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn frames_are_lost_and_counted_while_the_disk_fails() {
        let folder = std::env::temp_dir().join(format!("trunkline-rec-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::write(&folder, "in the way").expect("written");
        let counts = Arc::new(RecorderCounts::default());
        let mut writer = Writer {
            folder: folder.clone(),
            bytes_max: 1_000_000,
            history: None,
            is_failing: false,
            counts: Arc::clone(&counts),
        };
        let frame = |begin| Frame { begin, seconds: 10, ..Frame::default() };
        let (frames, taken) = sync_channel(4);
        frames.send(frame(10)).expect("room");
        drop(frames);
        let opened = writer.open();
        writer.tell(opened);
        assert!(writer.is_failing);
        let written = writer.write(&frame(10));
        assert!(written.is_err());
        writer.tell(written);
        fs::remove_file(&folder).expect("removed");
        writer.run(&taken);
        let figures = counts.figures();
        assert_eq!((figures.written, figures.lost), (1, 0));
        assert!(figures.bytes > 0);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
