use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::{DIGESTS_MAX, DigestLine, Sketch, Sums, codec::tests::full};

/// A folder that goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("trunkline-history-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(fs::remove_dir_all(&path));
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

const BYTES_MAX: u64 = 10_000_000;
/// The beginning of a day.
const DAY: u64 = 20_000 * 86_400;

fn read(folder: &Path, resolution: Resolution, from: u64, to: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    visit(folder, resolution, from, to, |frame| frames.push(frame)).expect("readable");
    frames
}

#[test]
fn frames_become_those_of_longer_times() {
    let folder = Folder::new();
    let mut history = History::open(&folder.0, BYTES_MAX).expect("a folder");
    for number in 0..2 * 360 + 1 {
        history.add(&full(DAY + number * 10)).expect("written");
    }
    assert_eq!(read(&folder.0, Resolution::TenSeconds, 0, u64::MAX).len(), 721);
    let minutes = read(&folder.0, Resolution::Minute, 0, u64::MAX);
    assert_eq!(minutes.len(), 120);
    assert!(minutes.iter().all(|frame| frame.seconds == 60 && frame.all.count == 24));
    let hours = read(&folder.0, Resolution::Hour, 0, u64::MAX);
    assert_eq!(hours.len(), 2);
    assert_eq!((hours[1].begin, hours[1].all.count), (DAY + 3_600, 4 * 360));
    assert_eq!(hours[1].digests[0].sums.latency.count(), 4 * 360);
    assert_eq!(hours[1].clients, 300);
    // Only what was asked for.
    let some = read(&folder.0, Resolution::Minute, DAY + 60, DAY + 180);
    assert_eq!(some.iter().map(|frame| frame.begin - DAY).collect::<Vec<_>>(), [60, 120]);
    assert_eq!(history.bytes(), bytes_of(&folder.0));
}

#[test]
fn what_was_pending_is_there_after_a_restart() {
    let folder = Folder::new();
    // Ended within an hour, within a minute, without a word.
    let mut history = History::open(&folder.0, BYTES_MAX).expect("a folder");
    (0..3).for_each(|number| history.add(&full(DAY + 3_540 + number * 10)).expect("written"));
    drop(history);
    let mut history = History::open(&folder.0, BYTES_MAX).expect("the folder");
    (3..8).for_each(|number| history.add(&full(DAY + 3_540 + number * 10)).expect("written"));
    drop(history);
    let mut history = History::open(&folder.0, BYTES_MAX).expect("the folder");
    history.add(&full(DAY + 7_200)).expect("written");
    let minutes = read(&folder.0, Resolution::Minute, 0, u64::MAX);
    let counts: Vec<u64> = minutes.iter().map(|frame| frame.all.count / 4).collect();
    assert_eq!(counts, [6, 2]);
    let hours = read(&folder.0, Resolution::Hour, 0, u64::MAX);
    let counts: Vec<u64> = hours.iter().map(|frame| frame.all.count / 4).collect();
    assert_eq!(counts, [6, 2]);
}

#[test]
fn what_is_damaged_ends_its_file_and_nothing_else() {
    let folder = Folder::new();
    for run in 0..2 {
        let mut history = History::open(&folder.0, BYTES_MAX).expect("a folder");
        (0..5).for_each(|number| history.add(&full(DAY + run * 100 + number * 10)).expect("ok"));
    }
    let first = &segments(&folder.0, Resolution::TenSeconds).expect("files")[0];
    let mut bytes = fs::read(&first.path).expect("a file");
    let at = bytes.len() / 2;
    bytes[at] ^= 0x40;
    fs::write(&first.path, &bytes[..bytes.len() - 3]).expect("written");
    let begins: Vec<u64> = read(&folder.0, Resolution::TenSeconds, 0, u64::MAX)
        .iter()
        .map(|frame| frame.begin - DAY)
        .collect();
    assert!(begins.starts_with(&[0]) && begins.ends_with(&[100, 110, 120, 130, 140]));
    assert!(begins.len() < 10, "{begins:?}");
}

#[test]
fn the_oldest_leave_when_there_is_no_room() {
    let folder = Folder::new();
    let bytes_max = 400_000;
    let mut history = History::open(&folder.0, bytes_max).expect("a folder");
    for number in 0..3_000 {
        history.add(&full(DAY + number * 10)).expect("written");
        assert!(history.bytes() <= bytes_max);
    }
    let frames = read(&folder.0, Resolution::TenSeconds, 0, u64::MAX);
    let first = frames.first().expect("a frame").begin;
    assert!(first > DAY && first < DAY + 20_000, "{first}");
    assert_eq!(frames.last().expect("a frame").begin, DAY + 29_990);
    drop(history);
    // Less room than before.
    let history = History::open(&folder.0, bytes_max / 2).expect("the folder");
    assert!(history.bytes() <= bytes_max / 2 + 50_000, "{}", history.bytes());
}

#[test]
fn a_folder_that_can_not_be_had_is_an_error() {
    let folder = Folder::new();
    fs::write(&folder.0, "a file").expect("written");
    assert!(History::open(&folder.0, BYTES_MAX).is_err());
    fs::remove_file(&folder.0).expect("removed");
}

/// As busy as it gets: a thousand digests on ten servers, in each hour. Ten seconds and minutes
/// have a limit that is reached within days, so only hours and days need all of the time; those are
/// made here without the ten seconds in between. A tenth of the time must fit into a tenth of the
/// room, where texts are written ten times as often. With `TRUNKLINE_HISTORY_DAYS=90` it is all of
/// the time.
#[test]
fn ninety_days_fit_into_the_default() {
    let folder = Folder::new();
    let days = std::env::var("TRUNKLINE_HISTORY_DAYS").ok().and_then(|days| days.parse().ok());
    let days: u64 = days.unwrap_or(9);
    let bytes_max = 200_000_000 / 90 * days;
    let mut history = History::open(&folder.0, bytes_max).expect("a folder");
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    for hour in 0..days * 24 {
        let mut frame = busy(DAY + hour * 3_600, &mut next);
        frame.seconds = 3_600;
        for files in &mut history.files {
            if files.resolution >= Resolution::Hour {
                files.add(&folder.0, &frame).expect("written");
            }
        }
    }
    let first = |resolution| read(&folder.0, resolution, 0, DAY + 86_400).first().cloned();
    assert_eq!(first(Resolution::Hour).expect("an hour").begin, DAY);
    assert_eq!(first(Resolution::Day).expect("a day").begin, DAY);
    let shares: u64 = Resolution::ALL.iter().map(|it| it.share()).sum();
    assert_eq!(shares, 100);
    let bytes = history.bytes();
    println!("{days} days of hours and days take {bytes} bytes");
    assert!(bytes <= bytes_max / 100 * 45, "{bytes}");
}

/// A frame with all the lines that it may have.
fn busy(begin: u64, next: &mut impl FnMut(u64) -> u64) -> Frame {
    let mut sums = |scale: u64| {
        let mut latency = Sketch::default();
        let base = 100 * (1 + next(50));
        let mut sums = Sums::default();
        for place in [1, 2, 3, 5, 8] {
            let count = next(scale) + 1;
            latency.add(base * place, count);
            sums.count += count;
            sums.sum_us += base * place * count;
        }
        sums.errors = next(3);
        sums.latency = latency;
        sums
    };
    let digests = (1..=DIGESTS_MAX as u64).map(|digest| DigestLine {
        digest: digest.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        hostgroup: 10,
        text: format!("SELECT c{digest} FROM a_table_{digest} WHERE id = ? AND name = ? LIMIT ?"),
        sums: sums(20_000),
        rows_sent: digest * 17,
        rows_affected: 0,
    });
    let digests = digests.collect();
    let servers = (0..10).map(|number| crate::ServerLine {
        hostgroup: 10,
        address: format!("10.0.0.{number}:3306"),
        sums: sums(2_000_000),
        counters: [begin, 5, begin * 3, begin * 1_000, begin * 20_000],
        ..crate::ServerLine::default()
    });
    let servers = servers.collect();
    let figures = (0..180).map(|number| (format!("Figure_{number}"), begin * number)).collect();
    Frame { begin, seconds: 10, digests, servers, figures, all: sums(20_000_000), ..full(begin) }
}
