//! Transactions that have begun for their clients and for no server yet: the `BEGIN` goes out with
//! the first statement behind it, in the same write.
//!
//! The session has no connection meanwhile. The statement waits for the answer to the `BEGIN` only
//! where it may do something and this server has not accepted such a `BEGIN` before, as with the
//! `SET`s that bring a connection to its session's state. `docs/decisions/0076`.

use trunkline_pool::ConnId;
use trunkline_protocol::packet::status;
use trunkline_session::tracker::{PinReason, SessionState};
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::{Client, Lease, Session},
    exchange::send::{put_own_query, text_hash},
    rooms::Core,
    servers::conn::{Conn, InFlight, Owner},
    servers::trackers::{GALERA_WAITS, holds_begin},
};

/// A transaction of which no server knows yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Where it is to be.
    pub(crate) hostgroup: HostgroupId,
    /// The split has sent it to readers: the writer will do.
    pub(crate) may_leave_reader: bool,
    pub(crate) access: BegunAccess,
}

/// What its `BEGIN` says of what may be done in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BegunAccess {
    /// Nothing.
    Unsaid,
    ReadOnly,
    ReadWrite,
}

/// Variables of sessions whose `BEGIN` may be held, and refused or ended then. Besides
/// [`GALERA_WAITS`], which says more.
const MAY_HOLD_BEGIN: [&str; 3] =
    ["wsrep_causal_reads", "group_replication_consistency", "max_statement_time"];

impl BegunAccess {
    /// The statement that begins it.
    fn text(self) -> &'static [u8] {
        match self {
            Self::Unsaid => b"START TRANSACTION",
            Self::ReadOnly => b"START TRANSACTION READ ONLY",
            Self::ReadWrite => b"START TRANSACTION READ WRITE",
        }
    }
}

/// Whether this is the hash of a statement that begins a transaction late.
#[cold]
pub(crate) fn is_begin(text: u64) -> bool {
    let all = [BegunAccess::Unsaid, BegunAccess::ReadOnly, BegunAccess::ReadWrite];
    all.into_iter().any(|access| text_hash(access.text()) == text)
}

impl Begun {
    /// The flags of a reply behind its `BEGIN`, beside those of the session.
    pub(crate) fn status(self) -> u16 {
        match self.access {
            BegunAccess::ReadOnly => status::IN_TRANS | status::IN_TRANS_READONLY,
            BegunAccess::Unsaid | BegunAccess::ReadWrite => status::IN_TRANS,
        }
    }
}

impl Session {
    /// Its transaction that is to begin on a connection that it holds before its statement goes
    /// there.
    #[inline]
    pub(super) fn begins_on(&self, conn: ConnId) -> Option<Begun> {
        let is_there = |lease: &Lease| lease.conn == conn && !lease.is_begun;
        self.settings.begun.filter(|_| self.leases.iter().any(is_there))
    }

    /// See [`Self::begins_on`]: its `BEGIN` is sent.
    fn begin_on(&mut self, conn: ConnId) {
        self.lease_mut(conn).into_iter().for_each(|lease| lease.is_begun = true);
    }

    /// Its transaction is open on the connection to which its `BEGIN` has been sent, if that is
    /// this one.
    pub(super) fn settle_begun(&mut self, conn: ConnId) {
        let mut leases = self.leases.iter_mut();
        let Some(lease) = leases.find(|lease| lease.conn == conn && lease.is_begun) else { return };
        lease.is_begun = false;
        if let Some(begun) = self.settings.begun.take() {
            lease.pins.set(PinReason::Transaction, true);
            lease.is_in_trans = true;
            lease.only_reads = begun.access == BegunAccess::ReadOnly;
            lease.begun_apart = begun.access != BegunAccess::Unsaid;
        }
    }
}

impl Core {
    /// Whether a statement that is no read must not go out before its server has begun the
    /// transaction. A read may: its reply is dropped where the `BEGIN` is refused. So may any
    /// statement behind a `BEGIN` that the server has accepted before. A server that has become
    /// read-only refuses `READ WRITE`; one of a cluster any of them, if its session is to wait for
    /// the other members and that takes too long; and MariaDB's limit of time may end it.
    pub(super) fn waits_for_begin(&self, begun: Begun, conn: &Conn, state: &SessionState) -> bool {
        let proof = (conn.slot, conn.server.incarnation, text_hash(begun.access.text()));
        let is_proven =
            begun.access != BegunAccess::ReadWrite && self.servers.accepted_sets.contains(&proof);
        let is_held = || {
            let galera = state.variable(GALERA_WAITS).is_some_and(holds_begin);
            galera || MAY_HOLD_BEGIN.iter().any(|name| state.variable(name).is_some())
        };
        !is_proven || self.env.shared.holds_begin() || is_held()
    }

    /// Appends the `BEGIN` of the session's transaction to a connection that it holds.
    pub(super) fn put_begin(&mut self, client: &mut Client, conn: &mut Conn, begun: Begun) {
        client.session.begin_on(conn.id);
        if has_plant!(self, BeginLost) {
            return;
        }
        let text = begun.access.text();
        let relay = conn.own_relay();
        let owner = Owner::Sync(client.id, Some(text_hash(text)));
        conn.in_flight.push_back(InFlight {
            owner,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        let takes_attributes = conn.server.takes_attributes;
        self.fx.stats.counters.transactions_begun_late += 1;
        self.write_server(conn, |out| put_own_query(out, text, takes_attributes));
    }
}

#[cfg(test)]
mod tests;
