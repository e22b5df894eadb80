//! What several sessions have written, over all workers: positions that only grow.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Acquire, Release, SeqCst},
        },
    },
};

use super::{OriginId, need::Need};
use crate::HostgroupId;

/// Origins of one position. Where there are more, the writer is read from.
const LANES: usize = 16;
/// The most positions.
const POSITIONS_MAX: usize = 65_536;

/// Transactions of one origin, up to the last one.
#[derive(Debug, Default)]
struct Lane {
    /// The origin's number; 0 for none. Set once.
    origin: AtomicU32,
    last: AtomicU64,
}

/// What the sessions of a user, or all, have written in a hostgroup.
#[derive(Debug, Default)]
pub struct SharedPosition {
    lanes: [Lane; LANES],
    /// Something was written that no number tells of.
    is_untracked: AtomicBool,
    /// The last ticket of a write whose number was not told.
    doubted: AtomicU64,
    /// The last ticket of a write that has told its number.
    told: AtomicU64,
    /// Writes that may be under way, and that no session hears of any more.
    unheard: AtomicU32,
}

impl SharedPosition {
    /// A session has written up to this transaction. To be called before its client is told.
    pub fn raise(&self, origin: OriginId, last: u64) {
        for lane in &self.lanes {
            let taken = lane.origin.compare_exchange(0, origin.get(), SeqCst, Acquire);
            if taken.is_ok() || taken == Err(origin.get()) {
                lane.last.fetch_max(last, SeqCst);
                return;
            }
        }
        self.is_untracked.store(true, Release);
    }

    /// A session may have written something whose number it was not told.
    pub fn doubt(&self, ticket: Ticket) {
        self.doubted.fetch_max(ticket.0, SeqCst);
    }

    /// A write has told its number that was sent with this ticket: what was in doubt before has
    /// lower ones.
    pub fn end_doubt(&self, ticket: Ticket) {
        self.told.fetch_max(ticket.0, SeqCst);
    }

    /// A write may be under way that no session hears of any more.
    pub fn begin_unheard(&self) {
        self.unheard.fetch_add(1, SeqCst);
    }

    /// Such a write has ended; what it has written, if anything, is in doubt from now on.
    pub fn end_unheard(&self, ticket: Ticket) {
        self.doubt(ticket);
        self.unheard.fetch_sub(1, SeqCst);
    }

    /// A session has written something that no number will tell of.
    pub fn lose_track(&self) {
        self.is_untracked.store(true, Release);
    }

    /// A read has to see what was written up to now.
    pub(super) fn add_to(&self, need: &mut Need) {
        // Before what is in doubt, which one that ends leaves first.
        let unheard = self.unheard.load(SeqCst);
        let (doubted, told) = (self.doubted.load(SeqCst), self.told.load(SeqCst));
        let is_in_doubt = doubted > told || unheard > 0;
        if is_in_doubt || self.is_untracked.load(Acquire) {
            need.want_writer();
        }
        for lane in &self.lanes {
            let Some(origin) = OriginId::from_number(lane.origin.load(SeqCst)) else { break };
            // There may be gaps before it, which others may have written.
            need.want(origin, 1, lane.last.load(SeqCst));
        }
    }
}

/// When a statement was sent, or a doubt came up: what was sent later has a greater one, or the
/// same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ticket(u64);

/// Whose writes a position has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// A user; `None` for everybody.
    user: Option<Arc<str>>,
    hostgroup: HostgroupId,
}

/// The positions of all users and hostgroups.
#[derive(Debug, Default)]
pub struct SharedPositions {
    positions: Mutex<HashMap<Key, Arc<SharedPosition>>>,
    /// Doubts that there were.
    doubts: AtomicU64,
}

impl SharedPositions {
    /// What a user has written in a hostgroup, or everybody; `None` when there are too many
    /// positions. Whoever asks often remembers what was said.
    pub fn of(&self, user: Option<&str>, hostgroup: HostgroupId) -> Option<Arc<SharedPosition>> {
        let key = Key { user: user.map(Arc::from), hostgroup };
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        if positions.len() >= POSITIONS_MAX && !positions.contains_key(&key) {
            return None;
        }
        Some(Arc::clone(positions.entry(key).or_default()))
    }

    /// For a statement that is about to be sent.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.doubts.load(SeqCst))
    }

    /// For a doubt: greater than those of all that was sent before.
    pub fn doubt_ticket(&self) -> Ticket {
        Ticket(self.doubts.fetch_add(1, SeqCst).wrapping_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        causal::{Origins, Want},
        gtid::Origin,
    };

    fn need(position: &SharedPosition) -> Need {
        let mut need = Need::default();
        position.add_to(&mut need);
        need
    }

    #[test]
    fn a_position_only_grows_and_wants_all_up_to_it() {
        let origins = Origins::default();
        let id = origins.id(&Origin::Domain(0)).expect("a number");
        let position = SharedPosition::default();
        assert!(need(&position).is_empty());
        position.raise(id, 7);
        position.raise(id, 5);
        assert_eq!(need(&position).wants(), [Want { origin: id, first: 1, last: 7 }]);
    }

    #[test]
    fn a_doubt_ends_with_a_write_that_was_sent_after_it_only() {
        let positions = SharedPositions::default();
        let of = |user| positions.of(user, HostgroupId(1)).expect("a position");
        assert!(Arc::ptr_eq(&of(Some("a")), &of(Some("a"))));
        assert!(!Arc::ptr_eq(&of(Some("a")), &of(None)));
        let position = of(None);
        let before = positions.ticket();
        position.doubt(positions.doubt_ticket());
        // Another session's write, under way since before: its number may be a lower one.
        position.end_doubt(before);
        assert!(need(&position).needs_writer());
        position.end_doubt(positions.ticket());
        assert!(!need(&position).needs_writer());
        position.doubt(positions.doubt_ticket());
        assert!(need(&position).needs_writer());
    }

    #[test]
    fn a_write_that_nobody_waits_for_is_in_doubt_until_one_that_was_sent_after_its_end() {
        let positions = SharedPositions::default();
        let position = positions.of(None, HostgroupId(1)).expect("a position");
        position.begin_unheard();
        position.end_doubt(positions.ticket());
        assert!(need(&position).needs_writer());
        let before = positions.ticket();
        position.end_unheard(positions.doubt_ticket());
        position.end_doubt(before);
        assert!(need(&position).needs_writer());
        position.end_doubt(positions.ticket());
        assert!(!need(&position).needs_writer());
    }

    #[test]
    fn writes_of_more_origins_than_are_kept_are_read_from_the_writer() {
        let (origins, position) = (Origins::default(), SharedPosition::default());
        for domain in 0..16 {
            position.raise(origins.id(&Origin::Domain(domain)).expect("a number"), 1);
        }
        assert!(!need(&position).needs_writer());
        position.raise(origins.id(&Origin::Domain(16)).expect("a number"), 1);
        assert!(need(&position).needs_writer());
    }

    #[test]
    fn several_threads_raise_one_position() {
        let (origins, position) = (Origins::default(), SharedPosition::default());
        let ids: Vec<OriginId> =
            (0..3).map(|domain| origins.id(&Origin::Domain(domain)).expect("a number")).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for last in 1..=1_000 {
                        ids.iter().for_each(|id| position.raise(*id, last));
                    }
                });
            }
        });
        let need = need(&position);
        let mut wants: Vec<_> = need.wants().iter().map(|want| (want.origin, want.last)).collect();
        wants.sort_unstable();
        assert_eq!(wants, ids.iter().map(|id| (*id, 1_000)).collect::<Vec<_>>());
    }
}
