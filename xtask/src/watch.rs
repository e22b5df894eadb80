//! Two clients that send a small statement all the while, one through the proxy and one directly to
//! the server: what the second one waits for too is the machine's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::client::Client;

/// The schema of both clients.
pub const SCHEMA: &str = "sbtest";
/// Between two statements of a client.
const PACE: Duration = Duration::from_micros(500);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Through the proxy.
    Through,
    /// Directly to the server.
    Direct,
}

/// Latencies as the two clients see them.
#[derive(Default)]
pub struct Watch {
    stopping: AtomicBool,
    through: Mutex<Vec<Duration>>,
    direct: Mutex<Vec<Duration>>,
}

/// What both have seen since the last look.
#[derive(Debug, Default)]
pub struct Seen {
    pub through: Latencies,
    pub direct: Latencies,
}

impl Watch {
    /// Sends statements until it is told to stop.
    pub fn keep(&self, side: Side, port: u16, user: &str, statement: &str) -> Result<()> {
        let mut client = Client::connect(port, user, SCHEMA)?;
        while !self.stopping.load(Ordering::Relaxed) {
            let begun = Instant::now();
            client.run(statement)?;
            let took = begun.elapsed();
            self.side(side).lock().unwrap_or_else(PoisonError::into_inner).push(took);
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    /// Both clients end after the statement that they run.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// What was seen since the last look.
    pub fn take(&self) -> Seen {
        let take = |side| {
            let mut seen = self.side(side).lock().unwrap_or_else(PoisonError::into_inner);
            Latencies::of(std::mem::take(&mut *seen))
        };
        Seen { through: take(Side::Through), direct: take(Side::Direct) }
    }

    fn side(&self, side: Side) -> &Mutex<Vec<Duration>> {
        match side {
            Side::Through => &self.through,
            Side::Direct => &self.direct,
        }
    }
}

/// Latencies, the shortest first.
#[derive(Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Those in any order.
    pub fn of(mut all: Vec<Duration>) -> Latencies {
        all.sort();
        Latencies(all)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// So many percent are as short, ms; 0 when there is none.
    pub fn share_ms(&self, percent: usize) -> f64 {
        let at = self.0.len().saturating_sub(1) * percent / 100;
        self.0.get(at).map_or(0.0, |took| took.as_secs_f64() * 1_000.0)
    }

    /// The longest one, ms.
    pub fn longest_ms(&self) -> f64 {
        self.share_ms(100)
    }

    /// How many are longer than this.
    pub fn above(&self, limit: Duration) -> usize {
        self.0.iter().filter(|took| **took > limit).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_from_the_shortest() {
        let latencies = Latencies::of((0..=100).rev().map(Duration::from_millis).collect());
        let shares = [50, 99].map(|percent| latencies.share_ms(percent));
        assert_eq!((shares, latencies.longest_ms()), ([50.0, 99.0], 100.0));
        assert_eq!((latencies.len(), latencies.above(Duration::from_millis(97))), (101, 3));
        assert_eq!(Latencies::default().longest_ms(), 0.0);
    }
}
