//! What the history says of a time: sums, and lines over it.

use std::{collections::BTreeMap, io, ops::ControlFlow, path::Path};

use crate::{Frame, Resolution, Sums, visit_while};

/// The most points of a line.
pub const POINTS_MAX: u64 = 240;
/// The most frames that are read.
const FRAMES_MAX: u64 = 5_000;

/// A time, and what happened in it.
#[derive(Debug, Default)]
pub struct Period {
    /// When it begins, Unix seconds.
    pub from: u64,
    /// When it ends.
    pub to: u64,
    /// How many of its seconds the history knows.
    pub known: u64,
    /// Everything together; nothing where only lines were asked for.
    pub total: Frame,
    /// One after the other.
    pub points: Vec<Point>,
    /// How long a point is, s.
    pub step: u64,
    /// What the history was read by.
    pub resolution: Option<Resolution>,
    /// Points that were asked for at most.
    pub points_max: u64,
    /// Whether `total` is wanted.
    pub is_summed: bool,
}

/// What happened in a part of a period.
#[derive(Debug, Clone, Default)]
pub struct Point {
    /// How many seconds of it are known.
    pub known: u64,
    /// All statements.
    pub all: Sums,
    /// Statements that waited for a connection.
    pub queue: Sums,
    /// Clients, at most.
    pub clients: u64,
    /// Statements that waited for a connection at a time, at most.
    pub waiting: u64,
    /// Refusals.
    pub refusals: u64,
    /// Statements by hostgroup.
    pub hostgroups: BTreeMap<u32, Sums>,
    /// Statements of the digests that lines were asked of.
    pub digests: BTreeMap<u64, Sums>,
}

impl Period {
    /// Reads a time at the finest resolution that covers it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn read(folder: &Path, from: u64, to: u64) -> io::Result<Self> {
        let asked = Self { from, to, points_max: POINTS_MAX, is_summed: true, ..Self::default() };
        asked.best(folder)
    }

    /// Reads lines of at most so many points, and no total: that takes less time.
    ///
    /// # Errors
    /// Those of the system.
    pub fn read_lines(folder: &Path, from: u64, to: u64, points_max: u64) -> io::Result<Self> {
        let points_max = points_max.clamp(1, POINTS_MAX);
        Self { from, to, points_max, ..Self::default() }.best(folder)
    }

    fn best(self, folder: &Path) -> io::Result<Self> {
        let Self { from, to, points_max, is_summed, .. } = self;
        let mut best = self;
        for resolution in Resolution::ALL {
            let seconds = to.saturating_sub(from);
            if seconds / resolution.seconds() > FRAMES_MAX {
                continue;
            }
            let empty = Self { from, to, points_max, is_summed, ..Self::default() };
            let found = empty.read_at(folder, resolution)?;
            if found.known > best.known || best.resolution.is_none() {
                best = found;
            }
            if best.known.saturating_mul(10) >= seconds.saturating_mul(9) {
                break;
            }
        }
        Ok(best)
    }

    fn read_at(mut self, folder: &Path, resolution: Resolution) -> io::Result<Self> {
        self.resolution = Some(resolution);
        let seconds = self.to.saturating_sub(self.from).max(1);
        self.step = seconds.div_ceil(self.points_max).max(resolution.seconds());
        let count = usize::try_from(seconds.div_ceil(self.step)).unwrap_or(1);
        self.points = vec![Point::default(); count];
        walk(folder, resolution, self.from, self.to, |frame| self.add(frame))?;
        Ok(self)
    }

    fn add(&mut self, frame: &Frame) {
        self.known = self.known.saturating_add(frame.seconds).min(self.to - self.from);
        let middle = frame.begin + frame.seconds / 2;
        let at = self.place(middle);
        if let Some(point) = self.points.get_mut(at) {
            point.known += frame.seconds;
            point.all.merge(&frame.all);
            point.queue.merge(&frame.queue);
            point.clients = point.clients.max(frame.clients);
            point.waiting = point.waiting.max(frame.waiting.iter().map(|(_, count)| count).sum());
            point.refusals += frame.refusals.iter().map(|(_, count)| count).sum::<u64>();
            for (hostgroup, sums) in frame.hostgroups() {
                point.hostgroups.entry(hostgroup).or_default().merge(&sums);
            }
        }
        if self.is_summed {
            self.total.merge(frame);
        }
    }

    fn place(&self, at: u64) -> usize {
        let place = at.saturating_sub(self.from).checked_div(self.step).unwrap_or_default();
        usize::try_from(place).unwrap_or(usize::MAX).min(self.points.len().saturating_sub(1))
    }

    /// Reads the lines of some digests.
    ///
    /// # Errors
    /// Those of the system.
    pub fn read_digests(&mut self, folder: &Path, digests: &[u64]) -> io::Result<()> {
        let Some(resolution) = self.resolution else { return Ok(()) };
        walk(folder, resolution, self.from, self.to, |frame| {
            let at = self.place(frame.begin + frame.seconds / 2);
            let Some(point) = self.points.get_mut(at) else { return };
            for line in frame.digests.iter().filter(|line| digests.contains(&line.digest)) {
                point.digests.entry(line.digest).or_default().merge(&line.sums);
            }
        })
    }

    /// So many a second, of what happened in the known part of the period.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn rate(&self, count: u64) -> f64 {
        count as f64 / self.known.max(1) as f64
    }
}

/// Shows the frames of a resolution in a time, and behind them those of finer ones: a frame is
/// written when its time is over, and an hour takes an hour.
fn walk(
    folder: &Path,
    resolution: Resolution,
    from: u64,
    to: u64,
    mut show: impl FnMut(&Frame),
) -> io::Result<()> {
    let (mut end, mut left) = (from, FRAMES_MAX);
    let finer = Resolution::ALL.into_iter().rev().filter(|it| *it <= resolution);
    for resolution in finer {
        let behind = end;
        visit_while(folder, resolution, from, to, |frame| {
            if behind > from && frame.begin < behind {
                return ControlFlow::Continue(());
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            end = end.max(frame.end());
            show(&frame);
            ControlFlow::Continue(())
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{DigestLine, History};

    #[test]
    fn what_is_not_over_yet_is_read_of_finer_frames() {
        let folder = std::env::temp_dir().join(format!("trunkline-period-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        let mut history = History::open(&folder, 10_000_000).expect("opened");
        let start = 1_790_553_600 / 3_600 * 3_600;
        // Two hours, ten minutes and half a minute.
        let frames = (2 * 3_600 + 600 + 30) / 10;
        for at in 0..frames {
            let sums = Sums { count: 10, ..Sums::default() };
            let line = DigestLine { digest: 7, text: "x".into(), sums, ..DigestLine::default() };
            let frame = Frame {
                begin: start + at * 10,
                seconds: 10,
                all: Sums { count: 20, ..Sums::default() },
                waiting: vec![(1, 2), (2, at)],
                digests: vec![line],
                ..Frame::default()
            };
            history.add(&frame).expect("written");
        }
        let to = start + frames * 10;
        let week = 7 * 86_400;
        let mut period = Period::read_lines(&folder, to - week, to, 60).expect("read");
        assert_eq!((period.points.len(), period.step), (60, week / 60));
        assert_eq!(period.known, frames * 10);
        let last = period.points.last().expect("points");
        assert_eq!((last.all.count, last.known), (frames * 20, frames * 10));
        assert_eq!(last.waiting, frames - 1 + 2);
        assert_eq!(period.total, Frame::default());
        period.read_digests(&folder, &[7]).expect("read");
        let last = period.points.last().expect("points");
        assert_eq!(last.digests.get(&7).map(|sums| sums.count), Some(frames * 10));
        let hour = Period::read(&folder, to - 3_600, to).expect("read");
        assert_eq!((hour.resolution, hour.known), (Some(Resolution::TenSeconds), 3_600));
        assert_eq!(hour.total.all.count, 360 * 20);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
