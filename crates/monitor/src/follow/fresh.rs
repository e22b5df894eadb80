//! How old what a replica shows may be at most: it shows all that its writer had at some moment.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use super::said::Said;

/// The most moments of which it is awaited that a replica shows them.
const PENDING_MAX: usize = 64;

/// What a writer had at some moment.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    /// Before it was asked, on the workers' clock, ms: all that was committed by then is in it.
    pub(super) at_ms: u64,
    pub(super) had: Said,
}

/// What is known of one replica.
#[derive(Debug, Default)]
pub(super) struct Freshness(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What the replica has said last; `None` as long as it is not followed.
    said: Option<Said>,
    /// Moments of which it does not show all yet, in order.
    pending: VecDeque<Mark>,
    fresh_ms: Option<u64>,
}

impl Freshness {
    /// The replica says that it shows this. Gives the last moment of which it shows all.
    pub(super) fn says(&self, said: &Said) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.said = Some(said.clone());
        state.catch_up()
    }

    /// The writer had this. Gives the last moment of which the replica shows all.
    pub(super) fn mark(&self, mark: &Mark) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pending.len() < PENDING_MAX {
            state.pending.push_back(mark.clone());
        }
        state.catch_up()
    }

    /// Nobody follows the replica, or another one writes: what was awaited is not the point.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    /// Another server writes, or nobody knows what the writer has.
    pub(super) fn forget_marks(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.pending.clear();
    }
}

impl State {
    fn catch_up(&mut self) -> Option<u64> {
        let said = self.said.as_ref()?;
        let shown = self.pending.iter().take_while(|mark| said.has(&mark.had)).count();
        self.fresh_ms =
            self.pending.drain(..shown).next_back().map(|mark| mark.at_ms).or(self.fresh_ms);
        self.fresh_ms
    }
}

#[cfg(test)]
mod tests {
    use trunkline_topology::gtid::Position;

    use super::*;

    fn said(text: &str) -> Said {
        Said::Position(Position::parse(text).expect("a position"))
    }

    #[test]
    fn a_replica_is_as_fresh_as_the_last_moment_of_which_it_shows_all() {
        let fresh = Freshness::default();
        let mark = |at_ms, text| fresh.mark(&Mark { at_ms, had: said(text) });
        assert_eq!(mark(100, "0-1-5"), None, "nobody follows it");
        assert_eq!(fresh.says(&said("0-1-4")), None);
        assert_eq!(fresh.says(&said("0-1-5")), Some(100));
        assert_eq!(mark(200, "0-1-5"), Some(200), "nothing was written meanwhile");
        assert_eq!(mark(300, "0-1-6"), Some(200));
        assert_eq!(mark(400, "0-1-8"), Some(200));
        assert_eq!(fresh.says(&said("0-1-7")), Some(300));
        assert_eq!(fresh.says(&said("0-1-9")), Some(400));
        fresh.forget();
        assert_eq!(mark(500, "0-1-9"), None);
    }

    #[test]
    fn not_more_is_kept_than_is_needed() {
        let fresh = Freshness::default();
        fresh.says(&said("0-1-1"));
        for at_ms in 0..1_000 {
            fresh.mark(&Mark { at_ms, had: said(&format!("0-1-{}", at_ms + 2)) });
        }
        assert_eq!(fresh.says(&said("0-1-5000")), Some(63));
        assert_eq!(fresh.mark(&Mark { at_ms: 2_000, had: said("0-1-7") }), Some(2_000));
    }
}
