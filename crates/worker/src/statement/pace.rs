//! How long the statements of one digest take, to know which of them may share a connection.

use std::cell::Cell;

/// Statements that are measured alone before any of their digest shares a connection.
const SAMPLES_MIN: u8 = 4;
/// A digest whose statements take longer than this on average shares no connection, µs.
const SHORT_US: u32 = 5_000;
/// One statement that takes this long ends the privilege at once, µs.
const LONG_US: u32 = 10_000;
/// What a statement with an error or a warning counts as, µs: nobody looks at its diagnostics
/// once others have run behind it. About 25 good ones make up for it.
const BAD_US: u32 = 200_000;

/// So many times as long as usual may a statement take on a server that answers nothing.
const SILENT_TIMES: u64 = 16;
/// A server is not silent before it has answered nothing for this long, µs.
const SILENT_US_MIN: u64 = 500_000;

/// What is known of one digest's statements.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    samples: Cell<u8>,
    average_us: Cell<u32>,
}

impl Pace {
    /// A statement took the server this long.
    pub(crate) fn observe(&self, service_us: u64, is_good: bool) {
        let measured = u32::try_from(service_us).unwrap_or(u32::MAX);
        let us = if is_good { measured } else { measured.max(BAD_US) };
        let average = self.average_us.get();
        let next = match self.samples.get() {
            0 => us,
            _ if us >= LONG_US => average.max(us),
            _ => average - average / 8 + us / 8,
        };
        self.average_us.set(next);
        self.samples.set(self.samples.get().saturating_add(1));
    }

    /// How long one of its statements may go unanswered, on a server that answers nothing else
    /// either, before it is sent elsewhere, µs. `None` while little is known of them.
    pub(crate) fn patience_us(&self) -> Option<u64> {
        let known = self.samples.get() >= SAMPLES_MIN;
        let usual_us = u64::from(self.average_us.get());
        known.then(|| (usual_us * SILENT_TIMES).max(SILENT_US_MIN))
    }

    /// Whether its statements have been short lately, and few of them unknown.
    pub(crate) fn is_short(&self) -> bool {
        self.samples.get() >= SAMPLES_MIN && self.average_us.get() <= SHORT_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: &[u64]) -> Pace {
        let pace = Pace::default();
        samples.iter().for_each(|us| pace.observe(*us, true));
        pace
    }

    #[test]
    fn an_unknown_digest_is_not_short() {
        assert!(!after(&[100, 100, 100]).is_short());
        assert!(after(&[100, 100, 100, 100]).is_short());
        assert!(!after(&[6_000; 10]).is_short());
    }

    #[test]
    fn the_patience_with_a_silent_server_is_learned() {
        assert_eq!(after(&[100, 100, 100]).patience_us(), None);
        assert_eq!(after(&[100; 4]).patience_us(), Some(500_000));
        assert_eq!(after(&[200_000; 9]).patience_us(), Some(3_200_000));
    }

    #[test]
    fn a_slow_one_loses_the_privilege_at_once_and_earns_it_back_slowly() {
        let pace = after(&[100; 200]);
        pace.observe(200_000, true);
        assert!(!pace.is_short());
        let needed = (1..).find(|_| {
            pace.observe(100, true);
            pace.is_short()
        });
        assert!((20..40).contains(&needed.expect("some day")), "{needed:?}");
        pace.observe(100, false);
        assert!(!pace.is_short());
    }
}
