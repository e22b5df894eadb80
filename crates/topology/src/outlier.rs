//! Which server of a hostgroup does so much worse than the others that it is taken out for a while.
//!
//! A worker looks once a second at what its own statements have met ([`Window`]), and
//! [`worst`] names the one that is to go, with the evidence. [`Ejection`] is what all workers then
//! see of it: out until a time, half open after that, in again by one good answer, with a small
//! share at first.

use std::{
    fmt,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst},
};

/// What a worker has seen of one server since it looked last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Statements that it answered, those that failed too.
    pub answered: u32,
    /// Statements that it failed by its own fault: it was lost, or said that it is ill.
    pub failed: u32,
    /// Connections there on which the same statement has run for all of that time.
    pub stuck: u32,
    /// What statements take there, µs; 0 when that is not known.
    pub latency_us: u64,
    /// Looks in a row, with this one, in which it was much slower than the others.
    pub slow_looks: u32,
    /// Whether it takes statements.
    pub is_in: bool,
}

/// From when on a server is an outlier, and for how long it is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlierLimits {
    /// So many times the median latency of the others; 0 for never.
    pub latency_factor: u64,
    /// So many of a hundred statements failed; 0 for never.
    pub failed_percent: u32,
    /// The first time out, ms. It doubles with each that follows soon.
    pub base_ms: u64,
}

/// Why a server is ejected: the evidence, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// So many of so many statements failed by its fault.
    Failed(u32, u32),
    /// Its statements take so long, those of the others so long, µs.
    Slow(u64, u64),
    /// It has answered nothing, with so many connections that wait, while the others did.
    Silent(u32),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failed, of) => {
                write!(f, "{failed} of its last {of} statements failed by its fault")
            }
            Self::Slow(own, others) => {
                write!(f, "a statement takes {own} µs there, and {others} µs on the others")
            }
            Self::Silent(stuck) => {
                write!(f, "it answered nothing for a second, with {stuck} statements in flight")
            }
        }
    }
}

impl Window {
    /// Whether nothing was answered, and at least so many connections waited all the time.
    pub fn is_silent(&self, stuck_min: u32) -> bool {
        self.answered == 0 && self.stuck >= stuck_min
    }
}

/// Connections that wait without which a server is not taken for silent: it may run a report.
const STUCK_MIN: u32 = 2;
/// Statements without which nothing is concluded from how many failed.
const ANSWERED_MIN: u32 = 10;
/// A server whose statements take less than this is not slow, whatever the others do, µs.
const SLOW_US_MIN: u64 = 5_000;
/// Looks in a row in which a server has to be slow before it goes.
const SLOW_LOOKS_MIN: u32 = 2;
/// One part of a hostgroup's servers may be out at a time: a third.
const OUT_PART: usize = 3;
/// The longest time out, ms.
const OUT_MS_MAX: u64 = 300_000;

impl OutlierLimits {
    /// Whether this server is much slower than the others, and the median of these, µs.
    pub fn slowness(&self, seen: &[Window], at: usize) -> Option<u64> {
        let own = seen.get(at)?;
        if self.latency_factor == 0 || own.latency_us < SLOW_US_MIN {
            return None;
        }
        let others = seen.iter().enumerate().filter(|(other, it)| *other != at && it.is_in);
        let mut others: Vec<u64> =
            others.map(|(_, it)| it.latency_us).filter(|us| *us > 0).collect();
        others.sort_unstable();
        let median = *others.get(others.len() / 2)?;
        (own.latency_us > median.saturating_mul(self.latency_factor)).then_some(median)
    }

    fn evidence(&self, seen: &[Window], at: usize) -> Option<Evidence> {
        let own = seen.get(at)?;
        let percent = u64::from(own.failed) * 100;
        let limit = u64::from(self.failed_percent) * u64::from(own.answered);
        if self.failed_percent > 0 && own.answered >= ANSWERED_MIN && percent >= limit {
            return Some(Evidence::Failed(own.failed, own.answered));
        }
        if self.latency_factor > 0 && own.is_silent(STUCK_MIN) {
            let others = seen.iter().enumerate().filter(|(other, _)| *other != at);
            let answered: u32 = others.map(|(_, it)| it.answered).sum();
            return (answered >= ANSWERED_MIN).then_some(Evidence::Silent(own.stuck));
        }
        let median = self.slowness(seen, at).filter(|_| own.slow_looks >= SLOW_LOOKS_MIN)?;
        Some(Evidence::Slow(own.latency_us, median))
    }
}

/// Whether one server more may be out of so many, of which so many take statements.
pub fn may_eject(servers: usize, taking: usize) -> bool {
    let out = servers.saturating_sub(taking);
    (out + 1) * OUT_PART <= servers && taking > 1
}

/// The place of the server that is to be ejected, and why; at most one at a time.
pub fn worst(seen: &[Window], limits: &OutlierLimits) -> Option<(usize, Evidence)> {
    let taking = seen.iter().filter(|it| it.is_in).count();
    if !may_eject(seen.len(), taking) {
        return None;
    }
    let found = (0..seen.len()).filter(|at| seen.get(*at).is_some_and(|it| it.is_in));
    let found = found.filter_map(|at| Some((at, limits.evidence(seen, at)?)));
    // What fails is worse than what is slow.
    found.max_by_key(|(_, evidence)| match evidence {
        Evidence::Failed(failed, of) => (2, u64::from(failed * 100 / of.max(&1))),
        Evidence::Silent(stuck) => (1, u64::from(*stuck)),
        Evidence::Slow(own, _) => (0, *own),
    })
}

/// Whether a server is out for what it did, as all workers see it.
#[derive(Debug, Default)]
pub struct Ejection {
    /// Until when it is out, ms; 0 when it is in.
    until_ms: AtomicU64,
    /// Times that it went out, one soon after the other.
    times: AtomicU32,
    /// When it came back, or comes back from a shun, ms: its share grows from then on.
    back_ms: AtomicU64,
}

/// What an [`Ejection`] is at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circuit {
    /// The server is in.
    Closed,
    /// It is out.
    Open,
    /// Its time is over; it takes one statement at a time until one has been answered well.
    HalfOpen,
}

impl Ejection {
    /// What it is at `now_ms`.
    #[inline]
    pub fn circuit(&self, now_ms: u64) -> Circuit {
        match self.until_ms.load(std::sync::atomic::Ordering::Relaxed) {
            0 => Circuit::Closed,
            until_ms if now_ms < until_ms => Circuit::Open,
            _ => Circuit::HalfOpen,
        }
    }

    /// Takes the server out, for longer each time, and gives how long, ms. `None` when it is out
    /// already, or somebody else was quicker.
    pub fn eject(&self, now_ms: u64, base_ms: u64) -> Option<u64> {
        let before = self.until_ms.load(SeqCst);
        if now_ms < before {
            return None;
        }
        let back_ms = self.back_ms.load(SeqCst);
        let times = self.times.load(SeqCst);
        let last_ms = out_ms(base_ms, times);
        // One that was well for longer than it was out begins anew.
        let is_soon = before > 0 || now_ms < back_ms.saturating_add(last_ms.saturating_mul(2));
        let times = if is_soon { times.saturating_add(1) } else { 1 };
        let out_ms = out_ms(base_ms, times);
        let until_ms = now_ms.saturating_add(out_ms);
        self.until_ms.compare_exchange(before, until_ms, SeqCst, SeqCst).ok()?;
        self.times.store(times, SeqCst);
        Some(out_ms)
    }

    /// Takes an ejection back that was one too many.
    pub fn undo(&self) {
        self.until_ms.store(0, SeqCst);
    }

    /// The server has answered well while half open: it is in again.
    pub fn readmit(&self, now_ms: u64) {
        self.until_ms.store(0, SeqCst);
        self.back_ms.store(now_ms, SeqCst);
    }

    /// The server comes back from something else at this time.
    pub fn comes_back_at(&self, at_ms: u64) {
        self.back_ms.store(at_ms, SeqCst);
    }

    /// The part of its weight that it has at `now_ms`, in [`PARTS`](Self::PARTS): all of it once
    /// it has been back for `slow_start_ms`.
    #[inline]
    pub fn parts(&self, now_ms: u64, slow_start_ms: u64) -> u64 {
        let back_ms = self.back_ms.load(std::sync::atomic::Ordering::Relaxed);
        let since_ms = now_ms.wrapping_sub(back_ms);
        if back_ms == 0 || since_ms >= slow_start_ms {
            return Self::PARTS;
        }
        (since_ms * Self::PARTS / slow_start_ms.max(1)).max(1)
    }

    /// All of a weight.
    pub const PARTS: u64 = 16;
}

fn out_ms(base_ms: u64, times: u32) -> u64 {
    let doubled = base_ms.saturating_mul(1 << times.saturating_sub(1).min(16));
    doubled.min(OUT_MS_MAX.max(base_ms))
}

#[cfg(test)]
mod tests;
