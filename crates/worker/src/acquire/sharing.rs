//! Step 7, the cheap way: reads of several sessions follow each other on one connection.
//!
//! A server answers commands in the order in which they come, so a statement may be sent while
//! others are in flight: several leave in one write, and their answers come back in one read.
//! Only statements share a connection that read, leave nothing behind, depend on nothing that a
//! session left there, and have been short lately: whoever is behind waits for them. When one of
//! them takes long after all, those behind it are answered elsewhere, as they are reads, and the
//! late answers are thrown away. `docs/decisions/0010`.

pub(crate) mod coalesce;

use std::sync::Arc;

use trunkline_catalog::Catalog;
use trunkline_pool::{AccountId, ConnId, ConnState, SharedChoice, Waiter};
use trunkline_sql::analysis::Depends;
use trunkline_topology::{HostgroupId, Pipeline, RefusalCause};

use crate::{
    ClientId,
    clients::Clients,
    clients::client::{Client, Phase, Purpose, Stage},
    prepared::runs_among_others,
    rooms::{Core, Exchange, Lender},
    servers::Servers,
    servers::conn::{Conn, Owner},
};

/// A longer command has a connection of its own, bytes.
const COMMAND_LEN_MAX: usize = 16 * 1024;
/// A client that has this much of its answers yet to take holds nobody else up, bytes.
pub(crate) const BEHIND_LEN_MAX: usize = 64 * 1024;
/// A statement that takes longer than this holds nobody else up, µs. More while the server is so
/// busy that many would be sent again.
const STUCK_US_MIN: u64 = 20_000;
const STUCK_US_MAX: u64 = 320_000;

/// How long statements behind a slow one wait, and what came of it in the last second.
#[derive(Debug)]
pub(crate) struct Patience {
    stuck_us: u64,
    shared: u64,
    pub(crate) resent: u64,
    /// False while certainly nothing is behind another statement on a shared connection.
    has_followers: bool,
}

impl Default for Patience {
    fn default() -> Self {
        Self { stuck_us: STUCK_US_MIN, shared: 0, resent: 0, has_followers: false }
    }
}

impl Patience {
    /// A second is over: when one in a hundred was sent again the servers are busy, not stuck.
    fn adapt(&mut self) {
        let is_impatient = self.resent > 8 && self.resent * 100 > self.shared;
        self.stuck_us = match is_impatient {
            true => (self.stuck_us * 2).min(STUCK_US_MAX),
            false => (self.stuck_us / 2).max(STUCK_US_MIN),
        };
        (self.shared, self.resent) = (0, 0);
    }
}

impl Servers {
    /// Once a second.
    pub(crate) fn adapt_patience(&mut self) {
        self.sharing.patience.adapt();
    }
}

impl Client {
    fn executes(&self) -> bool {
        matches!(&self.phase, Phase::Running(statement)
                if statement.command.purpose == Purpose::Execute)
    }
}

impl Core {
    /// How many may be in flight on the connection that the client's statement shares; `None` when
    /// it has to be alone.
    #[inline]
    fn depth_max(&self, client: &Client, hostgroup: HostgroupId) -> Option<usize> {
        let (statement, session) = client.running()?;
        let known = statement.meaning.known.as_ref()?;
        let fits = (statement.meaning.is_read || has_plant!(self, WriteShared))
            && !statement.target.never_share
            && (statement.command.purpose == Purpose::Query
                || statement.command.purpose == Purpose::Execute
                    && runs_among_others(client, None))
            && known.analysis.statements == 1
            && known.analysis.depends == Depends::empty()
            && known.found_rows.is_told()
            && session.leases.is_empty()
            && session.settings.begun.is_none()
            && !session.settings.state.is_autocommit_off()
            && !session.settings.state.finds_inserted_by_null(self.env.shared.finds_by_null())
            && statement.command.frames.len() <= COMMAND_LEN_MAX
            && statement
                .command
                .attributes
                .as_ref()
                .is_none_or(|block| block.len() <= COMMAND_LEN_MAX);
        if !fits {
            return None;
        }
        let snapshot = &self.env.snapshot;
        let of_hostgroup = || match snapshot.pipelines {
            true => snapshot.hostgroup(hostgroup).map(|group| group.pipeline),
            false => None,
        };
        let depth =
            match statement.target.directives.pipeline.or_else(of_hostgroup).unwrap_or_default() {
                Pipeline::Auto if known.pace.is_short() => {
                    self.env.snapshot.settings.pipeline_depth_max
                }
                Pipeline::Auto | Pipeline::Off => return None,
                Pipeline::Depth(depth) => usize::from(depth.get()),
            };
        (depth > 1).then_some(depth)
    }

    /// Whether the client's statement can follow what is in flight on a shared connection, or be
    /// the first on one that is shared from now on.
    pub(super) fn fits_to_share(&self, client: &Client, conn: &Conn) -> bool {
        let depth_max = self.depth_max(client, conn.server.hostgroup);
        depth_max.is_some_and(|depth_max| self.has_room_for(client, conn, depth_max))
    }

    /// Whether a statement that need not be alone fits on this connection: in its session's state,
    /// with fewer than `depth_max` in flight.
    #[inline]
    fn has_room_for(&self, client: &Client, conn: &Conn, depth_max: usize) -> bool {
        conn.left.dirt.is_none()
            && (!client.is_causal() || self.may_read_there(client, conn))
            && Arc::ptr_eq(&conn.state, &client.session.settings.state)
            && conn.left.schemas_defined == self.env.shared.schemas_defined()
            && conn.in_flight.len() < depth_max
            && (!client.executes() || runs_among_others(client, Some(conn)))
    }

    /// A statement on a shared connection is to be ended. In front it is left alone there, and its
    /// server can be told to end it: true. Behind others its answer is for nobody: false.
    pub(crate) fn single_out(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        let front = conn.in_flight.front();
        let is_front = front.is_some_and(|entry| entry.owner == Owner::Client(client.id));
        match is_front {
            true => self.leave_front_alone(conn),
            false => self.leave_shared(client, conn),
        }
        is_front
    }

    /// Looks at the statements in front of shared connections.
    #[inline]
    pub(crate) fn overtake_slow(&mut self) {
        if self.servers.sharing.patience.has_followers {
            self.overtake_stuck();
        }
    }

    fn overtake_stuck(&mut self) {
        let since_us = self.env.now.us.saturating_sub(self.servers.sharing.patience.stuck_us);
        let mut stuck = Vec::new();
        let mut has_followers = false;
        // Loops: with every batch, adapters would cost more than all the rest here.
        for (_, slot) in self.servers.pool.slots() {
            for id in slot.shared() {
                let Some(conn) = self.servers.conns.get(*id) else { continue };
                if conn.in_flight.len() > 1 {
                    has_followers = true;
                    if (1..since_us).contains(&conn.holder.busy_since_us) {
                        stuck.push(*id);
                    }
                }
            }
        }
        self.servers.sharing.patience.has_followers = has_followers;
        for conn in stuck {
            self.with_conn(conn, Self::leave_front_alone);
        }
    }
}

impl Exchange {
    /// Finds a place for a statement behind others, or a connection that others will follow on.
    /// False when it has to be alone.
    pub(super) fn acquire_shared(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        account: AccountId,
    ) -> bool {
        let Some(depth_max) = self.core.depth_max(client, hostgroup) else {
            return false;
        };
        let state = Arc::clone(&client.session.settings.state);
        let wants_stmt = client.executes();
        let defined = self.core.env.shared.schemas_defined();
        let asker = self.core.asker(client, account);
        let (conns, pool) = (&self.core.servers.conns, &mut self.core.servers.pool);
        let depth = |conn: ConnId| {
            let conn = conns.get(conn)?;
            let fits = conn.login.account == account
                && conn.left.dirt.is_none()
                && Arc::ptr_eq(&conn.state, &state)
                && conn.left.schemas_defined == defined
                && (!wants_stmt || runs_among_others(client, Some(conn)));
            fits.then_some(conn.in_flight.len())
        };
        let choice = pool.choose_shared(hostgroup, &asker, depth_max, depth);
        match choice {
            Some(SharedChoice::Join(slot, conn)) => {
                let epoch =
                    self.core.servers.pool.slot(slot).map(|slot| slot.server.health.epoch());
                let joined = self.with_conn(conn, |exchange, conn| {
                    let is_current = epoch == Some(conn.server.epoch);
                    if is_current {
                        exchange.join(client, conn);
                    }
                    is_current
                });
                return joined == Some(true);
            }
            Some(SharedChoice::Idle(conn)) => {
                self.core.servers.taken(conn);
                self.with_conn(conn, |exchange, conn| {
                    let is_shared = exchange.core.has_room_for(client, conn, depth_max);
                    exchange.lease_as(client, conn, is_shared);
                });
            }
            Some(SharedChoice::Open(slot)) => {
                self.enqueue(client, hostgroup, account, RefusalCause::ConnectTimeout);
                self.core.open(slot, hostgroup, account, client);
            }
            None => return false,
        }
        true
    }

    /// A connection off its list runs this statement first, and others behind it.
    pub(super) fn share(&mut self, client: &mut Client, conn: &mut Conn) {
        conn.holder.owner = None;
        conn.holder.last_client = None;
        conn.holder.turn += 1;
        conn.left.shared_version = self.core.env.shared.catalog().version();
        self.core.servers.set_state(conn, ConnState::Shared);
        self.join(client, conn);
        self.fill(conn);
    }

    fn join(&mut self, client: &mut Client, conn: &mut Conn) {
        // What it leaves behind others overwrite.
        client.session.last_conn = None;
        if client.executes() {
            conn.take_stmt(client);
        }
        let depth = conn.in_flight.len();
        self.core.servers.sharing.patience.shared += 1;
        self.core.servers.sharing.coalescing.sent();
        self.core.fx.stats.counters.statements_pipelined += u64::from(depth > 0);
        self.core.fx.stats.counters.shared_depth += depth as u64;
        self.send_statement(client, conn, Stage::Shared(conn.id));
        self.core.servers.sharing.patience.has_followers |= conn.in_flight.len() > 1;
        if has_plant!(self.core, ReplyToNeighbour)
            && let [.., last, own] = conn.in_flight.make_contiguous()
            && matches!((last.owner, own.owner), (Owner::Client(_), Owner::Client(_)))
        {
            std::mem::swap(&mut last.owner, &mut own.owner);
        }
    }

    /// Those who wait longest follow on this connection, as far as they fit.
    pub(crate) fn fill(&mut self, conn: &mut Conn) {
        let hostgroup = conn.server.hostgroup;
        while self.core.servers.pool.is_waited_for(hostgroup) {
            let takes_more = self.core.servers.pool.slot(conn.slot).is_some_and(|slot| {
                slot.shared().contains(&conn.id) && slot.server.health.epoch() == conn.server.epoch
            });
            if !takes_more {
                return;
            }
            if self.core.servers.pool.hold(hostgroup).is_some() {
                return;
            }
            let now_us = self.core.env.now.us;
            let next = self.core.servers.pool.queued(hostgroup, now_us).next().copied();
            let Some(waiter) = next else { return };
            let is_account = waiter.account == conn.login.account;
            let went = self.with_client(waiter.client, |exchange, client| {
                exchange.follow_or_leave(client, conn, is_account, &waiter)
            });
            if went != Some(true) {
                return;
            }
        }
    }

    /// The first of those who wait follows on this connection, or is no read any more and leaves
    /// the queue. False where it waits on.
    fn follow_or_leave(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        is_account: bool,
        waiter: &Waiter<ClientId>,
    ) -> bool {
        let hostgroup = conn.server.hostgroup;
        let is_outdated = self.core.prove_again(client);
        let fits = is_account && self.core.fits_to_share(client, conn);
        if !is_outdated && !fits {
            return false;
        }
        self.core.servers.pool.waiters(hostgroup).take(|known| known.client == client.id);
        match is_outdated {
            true => self.core.requeue(client),
            false => {
                self.core.count_queue_time(waiter);
                self.join(client, conn);
            }
        }
        true
    }
}

/// Whether the statement that a client has under way may be sent once more.
pub(crate) fn may_be_sent_twice(
    clients: &Clients,
    (catalog, now_ms): (&Catalog, u64),
    id: ClientId,
) -> bool {
    clients.get(id).is_some_and(|client| {
        matches!(&client.phase, Phase::Running(statement)
            if statement.may_be_sent_twice(catalog, now_ms))
    })
}

#[cfg(test)]
mod tests;
