//! Whether a replica lags too much. Who asks the servers, and when, is no matter of this: a look
//! comes in, the decision goes out.

/// What a server says of its replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// It follows nobody.
    Independent,
    /// It is so far behind, s.
    Behind(u64),
    /// It can't tell: its replication does not run.
    Unknown,
}

/// How much a server may lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LagLimit {
    /// The most, s; 0 for no limit.
    pub max_sec: u64,
    /// What counts where a replica can't tell, s.
    pub unknown_sec: u64,
    /// Looks beyond the limit, one after the other, before it is out; at least one.
    pub looks: u32,
}

/// What is remembered of one server's looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LagWatch {
    /// Looks beyond the limit since the last one within it.
    beyond: u32,
}

impl LagWatch {
    /// Whether a server that is out for its lag, or not, is to be out after this look. A look that
    /// found no answer is none: it leaves everything as it was.
    ///
    /// ```
    /// use trunkline_topology::{LagLimit, LagWatch, Replication};
    ///
    /// let limit = LagLimit { max_sec: 10, unknown_sec: 60, looks: 2 };
    /// let mut watch = LagWatch::default();
    /// assert!(!watch.look(false, Replication::Behind(11), &limit));
    /// assert!(watch.look(false, Replication::Behind(11), &limit));
    /// assert!(!watch.look(true, Replication::Behind(10), &limit));
    /// ```
    pub fn look(&mut self, is_out: bool, seen: Replication, limit: &LagLimit) -> bool {
        let lag_sec = match seen {
            Replication::Independent => 0,
            Replication::Behind(lag_sec) => lag_sec,
            Replication::Unknown => limit.unknown_sec,
        };
        if limit.max_sec == 0 || lag_sec <= limit.max_sec {
            self.beyond = 0;
            return false;
        }
        self.beyond = self.beyond.saturating_add(1);
        is_out || self.beyond >= limit.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: LagLimit = LagLimit { max_sec: 10, unknown_sec: 60, looks: 1 };

    fn looks(limit: &LagLimit, seen: &[Replication]) -> Vec<bool> {
        let (mut watch, mut is_out) = (LagWatch::default(), false);
        seen.iter()
            .map(|seen| {
                is_out = watch.look(is_out, *seen, limit);
                is_out
            })
            .collect()
    }

    #[test]
    fn what_lags_by_more_than_the_limit_is_out_until_it_has_caught_up() {
        use Replication::Behind;
        let seen = [Behind(0), Behind(10), Behind(11), Behind(500), Behind(10)];
        assert_eq!(looks(&LIMIT, &seen), [false, false, true, true, false]);
    }

    #[test]
    fn a_replica_that_cannot_tell_lags_as_much_as_is_said_of_such() {
        assert_eq!(looks(&LIMIT, &[Replication::Unknown]), [true]);
        let limit = LagLimit { unknown_sec: 0, ..LIMIT };
        assert_eq!(looks(&limit, &[Replication::Unknown]), [false]);
    }

    #[test]
    fn who_follows_nobody_and_who_has_no_limit_never_lags() {
        assert_eq!(looks(&LIMIT, &[Replication::Independent]), [false]);
        let limit = LagLimit { max_sec: 0, ..LIMIT };
        assert_eq!(looks(&limit, &[Replication::Behind(1 << 40)]), [false]);
    }

    #[test]
    fn several_looks_in_a_row_are_waited_for_before_it_is_out() {
        use Replication::Behind;
        let limit = LagLimit { looks: 3, ..LIMIT };
        let seen = [Behind(11), Behind(11), Behind(1), Behind(11), Behind(11), Behind(11)];
        assert_eq!(looks(&limit, &seen), [false, false, false, false, false, true]);
    }
}
