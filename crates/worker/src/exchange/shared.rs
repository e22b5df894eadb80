//! Step 10 for reads that share a connection.

use trunkline_pool::ConnState;
use trunkline_protocol::error::ErrorKind;
use trunkline_stats::ResetReason;

use crate::{
    acquire::sharing::may_be_sent_twice,
    clients::client::{Client, Phase},
    effects::Wake,
    exchange::send::LOST,
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, Owner},
    servers::dirt::Dirt,
};

impl Core {
    /// Leaves the statement in front alone, if it shares its connection: see
    /// [`leave_front_alone`](Self::leave_front_alone).
    pub(crate) fn let_others_overtake(&mut self, conn: &mut Conn) {
        if conn.list == ConnState::Shared && conn.in_flight.len() > 1 {
            self.leave_front_alone(conn);
        }
    }

    /// The statement in front takes long, or its client takes its answer slowly: those behind it
    /// are answered elsewhere, and nobody joins any more.
    pub(crate) fn leave_front_alone(&mut self, conn: &mut Conn) {
        let is_delivered = has_plant!(self, OvertakenReplyDelivered);
        debug_assert!(conn.list == ConnState::Shared);
        let (clients, catalog) = (&self.clients, self.env.shared.catalog());
        let now_ms = self.env.now.ms();
        let ticket = catalog.begin_copies();
        let mut behind = Vec::new();
        for entry in conn.in_flight.iter_mut().skip(1) {
            if let Owner::Client(client) = entry.owner
                && may_be_sent_twice(clients, (catalog, now_ms), client)
            {
                debug_assert!(!entry.relay.has_begun());
                if !is_delivered {
                    entry.owner = Owner::Nobody;
                    entry.relay.set_discard();
                }
                behind.push(client);
            }
        }
        if !behind.is_empty() {
            conn.left.copies = Some(ticket);
        }
        if let Some(slot) = self.servers.pool.slot_mut(conn.slot) {
            slot.close_shared(conn.id);
        }
        for client in behind {
            self.servers.sharing.patience.resent += 1;
            self.fx.stats.counters.statements_overtaken += 1;
            self.with_client(client, Self::send_elsewhere);
        }
    }

    /// A read that shared a connection goes to one of its own.
    fn send_elsewhere(&mut self, client: &mut Client) {
        if let Phase::Running(statement) = &mut client.phase {
            debug_assert!(statement.meaning.is_read);
            statement.target.never_share = true;
            self.requeue(client);
        }
    }

    /// The client of a statement on a shared connection goes: its answer is for nobody.
    pub(crate) fn leave_shared(&mut self, client: &mut Client, conn: &mut Conn) {
        for entry in &mut conn.in_flight {
            if entry.owner == Owner::Client(client.id) {
                entry.owner = Owner::Nobody;
                entry.relay.set_discard();
            }
        }
        if std::mem::take(&mut conn.io.is_paused) {
            self.resume_server(conn);
        }
    }

    /// What ran on a shared connection, heard of or not, may have been something else than it was
    /// proven to be: names have been defined anew meanwhile.
    fn soil_outdated(&mut self, conn: &mut Conn) {
        if conn.left.shared_version != self.env.shared.catalog().version() {
            conn.soil(Dirt::Reset(ResetReason::Unknown));
        }
    }

    /// A connection off its list that nobody has is reset when no `KILL` can hit it any more.
    fn park_until_kills_done(&mut self, conn: &mut Conn) {
        conn.holder.since_ms = self.env.now.ms();
        let is_quiet = conn.in_flight.is_empty();
        self.servers.set_state(conn, ConnState::AwaitingKill);
        if is_quiet {
            self.reset_conn(conn, None);
        }
    }

    /// Whether the reads on a shared connection may be sent again is what is proven of them by now.
    pub(crate) fn prove_all_again(&mut self, conn: &Conn) {
        for entry in &conn.in_flight {
            if let Owner::Client(client) = entry.owner {
                self.with_client(client, Self::prove_again);
            }
        }
    }
}

impl Exchange {
    /// A statement on a shared connection has been answered: with the last one it is free.
    /// `took_us` is what it took with its wait behind others; `None` when nobody waited for it.
    #[inline]
    pub(super) fn settle_shared(&mut self, conn: &mut Conn, took_us: Option<u64>) {
        debug_assert!(conn.list == ConnState::Shared);
        let is_quiet = conn.in_flight.is_empty();
        let depth = conn.in_flight.len();
        if let Some(took_us) = took_us
            && let Some(slot) = self.core.servers.pool.slot_mut(conn.slot)
        {
            slot.shared_width().answered(self.core.env.now.us, took_us);
            let in_flight = (slot.shared().len() * depth) as u64;
            self.core.servers.sharing.coalescing.answered(took_us, in_flight);
        }
        if is_quiet {
            conn.end_copies();
            self.core.soil_outdated(conn);
        }
        if is_quiet && conn.may_be_hit() {
            self.core.park_until_kills_done(conn);
        } else if is_quiet {
            self.core.freed(conn);
        } else if self.core.servers.pool.is_waited_for(conn.server.hostgroup) {
            self.core.fx.wake(Wake::Shared(conn.id));
        }
    }

    /// A read has changed its connection's state all the same, by a function that a view hides:
    /// those behind it are answered elsewhere, and the connection is reset.
    pub(crate) fn clean_shared(&mut self, conn: &mut Conn) {
        debug_assert!(conn.list == ConnState::Shared);
        conn.holder.since_ms = self.core.env.now.ms();
        let is_quiet = conn.in_flight.is_empty();
        let (clients, catalog) = (&self.core.clients, self.core.env.shared.catalog());
        let now_ms = self.core.env.now.ms();
        let ticket = catalog.begin_copies();
        let (mut behind, mut lost) = (Vec::new(), Vec::new());
        for entry in &mut conn.in_flight {
            if let Owner::Client(client) = entry.owner {
                entry.owner = Owner::Nobody;
                entry.relay.set_discard();
                match may_be_sent_twice(clients, (catalog, now_ms), client) {
                    true => behind.push(client),
                    false => lost.push(client),
                }
            }
        }
        if !behind.is_empty() {
            conn.left.copies = Some(ticket);
        }
        self.core.servers.set_state(conn, ConnState::Resetting);
        if is_quiet {
            self.core.reset_conn(conn, None);
        }
        for client in behind {
            self.core.with_client(client, Core::send_elsewhere);
        }
        for client in lost {
            self.with_client(client, |exchange, client| {
                let error = ErrorKind::ConnectionLost.says(LOST);
                exchange.fail_statement(client, error, Some(&mut *conn));
            });
        }
    }
}
