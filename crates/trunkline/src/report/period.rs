//! What the history says of a time: sums, and lines over it.

use std::{collections::BTreeMap, io, path::Path};

use trunkline_history::{Frame, Resolution, Sums, visit};

/// The most points of a line.
const POINTS_MAX: u64 = 240;
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
    /// Everything together.
    pub total: Frame,
    /// One after the other.
    pub points: Vec<Point>,
    /// How long a point is, s.
    pub step: u64,
    /// What the history was read by.
    pub resolution: Option<Resolution>,
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
        let mut best = Self { from, to, ..Self::default() };
        for resolution in Resolution::ALL {
            let seconds = to.saturating_sub(from);
            if seconds / resolution.seconds() > FRAMES_MAX {
                continue;
            }
            let found = Self::read_at(folder, from, to, resolution)?;
            if found.known > best.known || best.resolution.is_none() {
                best = found;
            }
            if best.known.saturating_mul(10) >= seconds.saturating_mul(9) {
                break;
            }
        }
        Ok(best)
    }

    fn read_at(folder: &Path, from: u64, to: u64, resolution: Resolution) -> io::Result<Self> {
        let mut period = Self { from, to, resolution: Some(resolution), ..Self::default() };
        let seconds = to.saturating_sub(from).max(1);
        period.step = seconds.div_ceil(POINTS_MAX).max(resolution.seconds());
        let count = usize::try_from(seconds.div_ceil(period.step)).unwrap_or(1);
        period.points = vec![Point::default(); count];
        visit(folder, resolution, from, to, |frame| period.add(&frame))?;
        Ok(period)
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
            point.refusals += frame.refusals.iter().map(|(_, count)| count).sum::<u64>();
            for (hostgroup, sums) in frame.hostgroups() {
                point.hostgroups.entry(hostgroup).or_default().merge(&sums);
            }
        }
        self.total.merge(frame);
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
        visit(folder, resolution, self.from, self.to, |frame| {
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
