//! How often TLS may begin: a handshake costs the proxy a signature, and the client nothing.

use std::collections::HashMap;

use trunkline_topology::Origin;

/// Handshakes of one origin that need not wait.
const AT_ONCE: u64 = 20;
/// Beyond them, one may begin in so many ms.
const INTERVAL_MS: u64 = 100;
/// The longest wait, ms; who would wait longer is closed.
const WAIT_MS_MAX: u64 = 5_000;
/// Origins that are remembered. Beyond it, the one that has to wait least is forgotten.
const ROWS_MAX: usize = 4_096;

/// When each origin has used up what it may.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    /// By origin, the time at which it would have as many as this one handshake after the other.
    until_ms: HashMap<Origin, u64>,
}

impl Handshakes {
    /// How long the next handshake from there has to wait, ms; `None` when it may not begin.
    pub(super) fn turn(&mut self, origin: Origin, now_ms: u64) -> Option<u64> {
        if self.until_ms.len() >= ROWS_MAX && !self.until_ms.contains_key(&origin) {
            self.until_ms.retain(|_, until_ms| *until_ms > now_ms);
            let least = self.until_ms.iter().min_by_key(|(_, until_ms)| **until_ms);
            if let Some(least) = least.map(|(origin, _)| *origin)
                && self.until_ms.len() >= ROWS_MAX
            {
                self.until_ms.remove(&least);
            }
        }
        let until_ms = self.until_ms.entry(origin).or_insert(now_ms);
        let begin_ms = (*until_ms).max(now_ms);
        let wait_ms = begin_ms.saturating_sub(now_ms + (AT_ONCE - 1) * INTERVAL_MS);
        if wait_ms > WAIT_MS_MAX {
            return None;
        }
        *until_ms = begin_ms + INTERVAL_MS;
        debug_assert!(self.until_ms.len() <= ROWS_MAX);
        Some(wait_ms)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn from(number: u32) -> Origin {
        Origin::machine(Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn some_begin_at_once_and_others_wait_for_their_turn() {
        let mut handshakes = Handshakes::default();
        for _ in 0..AT_ONCE {
            assert_eq!(handshakes.turn(from(1), 1_000), Some(0));
        }
        assert_eq!(handshakes.turn(from(1), 1_000), Some(100));
        assert_eq!(handshakes.turn(from(1), 1_050), Some(150));
        assert_eq!(handshakes.turn(from(2), 1_050), Some(0), "another one does not wait");
        let waits = (0..100).map_while(|_| handshakes.turn(from(1), 1_050)).last();
        assert_eq!(waits, Some(4_950));
        assert_eq!(handshakes.turn(from(1), 1_050), None);
        assert_eq!(handshakes.turn(from(1), 60_000), Some(0), "it has not come for long");
    }

    #[test]
    fn many_origins_do_not_make_one_forgotten_that_waits() {
        let mut handshakes = Handshakes::default();
        for _ in 0..50 {
            handshakes.turn(from(0), 0);
        }
        for number in 1..10_000 {
            handshakes.turn(from(number), 1);
        }
        assert_eq!(handshakes.until_ms.len(), ROWS_MAX);
        assert!(handshakes.turn(from(0), 1) > Some(2_000));
    }
}
