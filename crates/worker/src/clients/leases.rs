//! The server connections that are one session's alone, and how a session parts from one.

use std::ops::{Deref, DerefMut};

use trunkline_pool::ConnId;
use trunkline_protocol::packet::status;
use trunkline_session::tracker::PinReason;

use crate::{
    clients::client::{Lease, Session},
    replay::Kept,
};

/// The connections that a session holds.
///
/// **Invariant:** one goes only by [`Session::leave`] and its like, so that nothing of the session
/// counts on a connection that it does not hold (`what_counts_on_a_connection_goes_with_it`).
#[derive(Debug, Default)]
pub(crate) struct Leases(Vec<Lease>);

impl Deref for Leases {
    type Target = [Lease];

    #[inline]
    fn deref(&self) -> &[Lease] {
        &self.0
    }
}

impl DerefMut for Leases {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Lease] {
        &mut self.0
    }
}

impl Leases {
    #[inline]
    pub(crate) fn push(&mut self, lease: Lease) {
        debug_assert!(self.0.iter().all(|held| held.conn != lease.conn));
        self.0.push(lease);
    }
}

/// A session's last: they go with it.
impl IntoIterator for Leases {
    type Item = Lease;
    type IntoIter = std::vec::IntoIter<Lease>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// What a session has left.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) lease: Lease,
    /// What was kept of its transaction, which can be repeated elsewhere where it was lost.
    pub(crate) kept: Option<Box<Kept>>,
}

impl Session {
    /// Leaves a connection, however that comes about. What the session counted on there is over: a
    /// transaction is open no more unless another connection has one, or one is to begin, and what
    /// was kept of it is handed out. A repetition under way goes on with another connection, and
    /// a transaction whose `BEGIN` has not been answered begins on the next one.
    #[inline]
    pub(crate) fn leave(&mut self, conn: ConnId) -> Option<Left> {
        let place = self.leases.0.iter().position(|lease| lease.conn == conn)?;
        let lease = self.leases.0.swap_remove(place);
        let kept = self.parted(&lease);
        Some(Left { lease, kept })
    }

    /// Leaves the connections of which `leaves` says so.
    pub(crate) fn leave_where(&mut self, leaves: impl FnMut(&mut Lease) -> bool) -> Vec<Lease> {
        let left: Vec<_> = self.leases.0.extract_if(.., leaves).collect();
        for lease in &left {
            self.parted(lease);
        }
        left
    }

    /// Leaves all of its connections.
    pub(crate) fn leave_all(&mut self) -> Vec<Lease> {
        self.leave_where(|_| true)
    }

    /// What goes with a connection that the session does not hold any more.
    #[inline]
    fn parted(&mut self, lease: &Lease) -> Option<Box<Kept>> {
        if lease.pins.has(PinReason::Transaction) && !self.is_in_any_transaction() {
            self.settings.status &= !(status::IN_TRANS | status::IN_TRANS_READONLY);
        }
        self.transaction.kept.take_if(|kept| kept.conn == lease.conn)
    }
}

#[cfg(test)]
mod tests;
