//! Step 7: a statement gets a connection, a place in the queue, or a refusal that says why.

use std::sync::Arc;

use trunkline_pool::{AccountId, Asker, Choice, ConnId, ConnState, Hold, Slot, SlotId, Waiter};
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{HostgroupId, RefusalCause, ServerState};

use crate::{
    ClientId,
    causal::place::ReadPlace,
    clients::client::{Client, Lease, Phase, Stage},
    exchange::hidden::may_read_past,
    rooms::{Core, Exchange, Lender},
    servers::Servers,
    servers::conn::{AccountKey, Conn, ConnPhase},
};

/// A connection that rested longer than this is looked at before a statement is written to it,
/// ms: its server may have closed it.
const PROBE_AFTER_MS: u64 = 1_000;

/// Who waits before a statement.
#[derive(Debug, Clone, Copy, Default)]
struct QueueAhead {
    /// More than there are connections coming up.
    is_long: bool,
    /// Somebody of its account.
    has_account: bool,
}

/// Whether it is of the tenant that a planted bug starves.
pub(super) fn is_second(waiter: &Waiter<ClientId>) -> bool {
    waiter.tenant.index() == 2
}

impl Servers {
    /// Whether nothing of a connection's account is left there when another one logs in on it. A
    /// MariaDB keeps the default role of its user, and with it the rights; any server the client
    /// certificate of whoever opened it.
    fn may_change_user(&self, conn: &Conn, account: AccountId) -> bool {
        let name = |account| self.logins.accounts.key(account).map(AccountKey::server_user);
        let (Some(own), Some(other)) = (name(conn.login.account), name(account)) else {
            return false;
        };
        let tls = self.pool.slot(conn.slot).map(|slot| &slot.server.tls);
        let is_same_tls = tls.is_some_and(|tls| tls.params_of(own) == tls.params_of(other));
        own == other || conn.server.flavor == Flavor::MySql && is_same_tls
    }
}

impl Client {
    /// Whether its statement was lost with a connection: others of that server may be dead too.
    fn lost_a_connection(&self) -> bool {
        matches!(&self.phase, Phase::Running(statement) if statement.target.was_lost)
    }
}

impl Exchange {
    /// Finds a connection for the statement that a client has under way.
    pub(crate) fn acquire(&mut self, client: &mut Client) {
        self.core.prove_again(client);
        if self.drops_copy(client, None)
            || self.awaits_position(client)
            || self.acquire_last(client)
        {
            return;
        }
        let Some((hostgroup, account)) = client.wanted() else {
            return;
        };
        let has_tenants = self.core.servers.pool.has_tenants();
        if has_tenants {
            self.core.name_tenant(client);
        }
        // Whoever waits already is served first, unless a connection is coming up for each.
        let ahead = self.core.ahead_of(client, hostgroup, account);
        if !ahead.is_long && self.acquire_shared(client, hostgroup, account) {
            return;
        }
        if ahead.has_account {
            return self.enqueue(client, hostgroup, account, RefusalCause::AllBusy);
        }
        if has_tenants && self.awaits_turn(client, hostgroup, account) {
            return;
        }
        match self.core.choose(client, hostgroup, account) {
            Choice::Open(slot) => {
                self.enqueue(client, hostgroup, account, RefusalCause::ConnectTimeout);
                self.core.open(slot, hostgroup, account, client);
            }
            Choice::ChangeUser(_, conn) => {
                self.enqueue(client, hostgroup, account, RefusalCause::ConnectTimeout);
                self.core.with_conn(conn, |core, conn| {
                    core.change_account(client, conn, hostgroup, account)
                });
            }
            Choice::Replace(_, conn) => {
                self.enqueue(client, hostgroup, account, RefusalCause::ConnectTimeout);
                self.core.with_conn(conn, |core, conn| {
                    core.replace_fetched(client, conn, hostgroup, account)
                });
            }
            Choice::Idle(_, conn) => {
                self.with_conn(conn, |exchange, conn| exchange.lease_proven(client, conn));
            }
            Choice::Wait(RefusalCause::AllAtMaxConnections)
                if has_plant!(self.core, CapOffByOne)
                    && self.opens_beyond(client, hostgroup, account) => {}
            Choice::Wait(cause) => self.enqueue(client, hostgroup, account, cause),
        }
    }

    /// One more than a server may have; only a planted bug asks for it.
    fn opens_beyond(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        account: AccountId,
    ) -> bool {
        let is_at_cap = |slot: &Slot| {
            slot.server.key.hostgroup == hostgroup
                && slot.server.health.connections() == slot.server.max_connections
        };
        let Some(slot) =
            self.core.servers.pool.slots().find(|(_, slot)| is_at_cap(slot)).map(|(id, _)| id)
        else {
            return false;
        };
        if let Some(slot) = self.core.servers.pool.slot(slot) {
            slot.server.health.take_connection_beyond();
        }
        self.enqueue(client, hostgroup, account, RefusalCause::ConnectTimeout);
        self.core.open(slot, hostgroup, account, client);
        true
    }

    /// A statement that reads what the last one left behind gets the same connection again, if
    /// nobody has used it since. One that may write goes nowhere but to its own hostgroup.
    fn acquire_last(&mut self, client: &mut Client) -> bool {
        let Phase::Running(statement) = &client.phase else {
            return false;
        };
        let session = &*client.session;
        let finds_by_null = self.core.env.shared.finds_by_null();
        let reads = may_read_past(statement, session, session.flavor(), finds_by_null);
        let Some((conn_id, turn)) = reads.place(session) else {
            return false;
        };
        let account = session.login.account;
        let may_leave =
            statement.meaning.is_read && statement.target.reads != ReadPlace::OnlyOnWriter;
        let hostgroup = statement.target.hostgroup;
        self.core.drop_outdated_of(client);
        let leased = self.with_conn(conn_id, |exchange, conn| {
            let is_untouched =
                conn.holder.turn == turn && conn.holder.last_client == Some(client.id);
            let is_paused = exchange.core.servers.pauses.contains_key(&conn.server.hostgroup);
            let shows = !client.is_causal() || exchange.core.may_read_there(client, conn);
            let may_run_there =
                !is_paused && shows && (may_leave || conn.server.hostgroup == hostgroup);
            let fits = is_untouched && may_run_there && conn.login.account == account;
            let is_taken = fits && exchange.core.servers.take_free(conn);
            if is_taken {
                exchange.lease(client, conn);
            }
            is_taken
        });
        leased == Some(true)
    }

    pub(super) fn enqueue(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        account: AccountId,
        cause: RefusalCause,
    ) {
        if cause == RefusalCause::NoServer {
            return self.refuse_statement(client, hostgroup, cause, 0, None);
        }
        let was_held = self.core.servers.pool.hold(hostgroup).is_some();
        if was_held || cause == RefusalCause::NoneOnline {
            self.core.look_at_hold(hostgroup);
        }
        let is_held = self.core.servers.pool.hold(hostgroup).is_some();
        let mut waiter = self.core.waiter(client, account);
        waiter.begin_by_ms = self.core.begin_by_ms(client);
        if let Some(by_ms) = waiter.begin_by_ms
            && self.refuses_late(client, hostgroup, by_ms)
        {
            return;
        }
        let max = self.core.env.snapshot.settings.queue_max;
        if has_plant!(self.core, WaiterForgotten)
            && self.core.servers.pool.waiters(hostgroup).len() >= 2
        {
            return;
        }
        let has_place = self.core.servers.pool.waiters(hostgroup).push(waiter, max);
        self.core.fx.stats.counters.statements_held += u64::from(has_place && is_held);
        self.core.fx.stats.counters.holds_refused += u64::from(!has_place && is_held);
        if !has_place {
            return self.refuse_statement(client, hostgroup, RefusalCause::QueueFull, 0, None);
        }
        if cause == RefusalCause::AllAtMaxConnections {
            self.core.ask_peers(hostgroup);
        }
    }

    /// An idle connection, already off its list, becomes the session's; the statement goes out.
    pub(super) fn lease(&mut self, client: &mut Client, conn: &mut Conn) {
        if self.core.prove_again(client) {
            self.core.requeue(client);
            return self.core.freed(conn);
        }
        if self.drops_copy(client, Some(conn)) {
            return self.core.freed(conn);
        }
        self.lease_proven(client, conn);
    }

    /// Leases an idle connection, already off its list, to a session whose statement has been
    /// proven just now.
    fn lease_proven(&mut self, client: &mut Client, conn: &mut Conn) {
        let is_shared = self.core.fits_to_share(client, conn);
        self.lease_as(client, conn, is_shared);
    }

    /// Leases an idle connection, already off its list, to one session or, as the first of several,
    /// to a statement that others may follow.
    pub(super) fn lease_as(&mut self, client: &mut Client, conn: &mut Conn, is_shared: bool) {
        let now_ms = self.core.env.now.ms();
        // On a shared connection nothing is kept for anybody.
        let id = client.id;
        self.core.fetch_traces(conn, Some(client), Some(id), !is_shared);
        debug_assert!(matches!(conn.phase, ConnPhase::Ready));
        let rested_ms = now_ms.saturating_sub(conn.holder.since_ms);
        if rested_ms > PROBE_AFTER_MS || client.lost_a_connection() {
            self.core.fx.act(crate::Action::Probe(conn.id));
        }
        if is_shared {
            return self.share(client, conn);
        }
        conn.soil_with_names(client);
        conn.soil_with_gtid(client);
        conn.holder.owner = Some(client.id);
        if conn.holder.last_client.replace(client.id) != Some(client.id) {
            conn.holder.turn += 1;
        }
        self.core.servers.set_state(conn, ConnState::Leased);
        let session = &mut *client.session;
        debug_assert!(session.lease_mut(conn.id).is_none());
        session.leases.push(Lease {
            hostgroup: conn.server.hostgroup,
            conn: conn.id,
            pins: Default::default(),
            is_in_trans: false,
            only_reads: false,
            standing: Default::default(),
            begun_apart: false,
            is_begun: false,
            is_left: false,
            is_in_doubt: false,
            has_written: false,
            pinned_by: None,
        });
        self.dispatch(client, conn);
    }

    /// Gives a connection that has become free to whoever waits longest for its like, or lets it
    /// rest.
    pub(crate) fn recycle(&mut self, conn_id: ConnId) {
        let left = self.with_conn(conn_id, Self::give_on).flatten();
        if let Some(hostgroup) = left {
            // Its place under the cap is somebody else's now, or somebody of another account may
            // wait for room that this connection takes.
            self.pump(hostgroup);
        }
    }

    /// Gives a connection on that has become free. Where nobody who waits has got it, tells the
    /// hostgroup in which somebody may be served otherwise.
    fn give_on(&mut self, conn: &mut Conn) -> Option<HostgroupId> {
        // Its last session may have taken it again meanwhile.
        if conn.list != ConnState::Freed {
            return None;
        }
        let (hostgroup, slot) = (conn.server.hostgroup, conn.slot);
        if self.core.is_done_with(conn) {
            self.core.retire_conn(conn, None);
            return Some(hostgroup);
        }
        if self.core.offer_to_peer(conn) {
            return None;
        }
        let has_room = self.core.servers.pool.slot_mut(slot).is_some_and(Slot::has_room);
        let next = match has_room {
            true => self.core.next_waiter(hostgroup, conn.login.account, slot),
            false => None,
        };
        if let Some(waiter) = next {
            self.core.count_queue_time(&waiter);
            self.with_client(waiter.client, |exchange, client| exchange.lease(client, conn));
            return None;
        }
        self.core.let_rest(conn);
        Some(hostgroup)
    }

    /// A statement looks for a connection again, unless it has been answered meanwhile.
    pub(crate) fn acquire_again(&mut self, client: &mut Client) {
        if let Phase::Running(statement) = &mut client.phase
            && statement.stage == Stage::Returning
        {
            statement.stage = Stage::Queued;
            self.acquire(client);
        }
    }
}

impl Core {
    /// Who waits before this statement for what it wants. Who waits for another server than it may
    /// run on, or for one alone where it may run on any, does not keep it.
    fn ahead_of(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        account: AccountId,
    ) -> QueueAhead {
        let mut ahead = QueueAhead::default();
        if !self.servers.pool.is_waited_for(hostgroup) {
            return ahead;
        }
        let connecting = self.servers.pool.connecting(hostgroup);
        let (own, mut count) = (client.pinned_server(), 0);
        for waiter in self.servers.pool.queued(hostgroup, self.env.now.us) {
            let other = self.clients.get(waiter.client).and_then(Client::pinned_server);
            if other.is_some_and(|server| Some(server) != own) {
                continue;
            }
            count += 1;
            ahead.is_long = count > connecting;
            ahead.has_account |= waiter.account == account;
            if ahead.is_long && ahead.has_account {
                break;
            }
        }
        ahead
    }

    /// Has an idle connection of another account, already off its list, log in anew or, where
    /// something of the account would be left there, replaces it. False where that fails.
    pub(super) fn change_account(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        hostgroup: HostgroupId,
        account: AccountId,
    ) -> bool {
        if self.servers.may_change_user(conn, account) {
            self.log_in_again(conn, account, client);
            return true;
        }
        self.replace_fetched(client, conn, hostgroup, account)
    }

    /// Replaces an idle connection, already off its list, when what sessions left there has been
    /// fetched. False where that fails.
    pub(super) fn replace_fetched(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        hostgroup: HostgroupId,
        account: AccountId,
    ) -> bool {
        self.fetch_before_parting(conn, Some(client))
            || self.replace(conn, hostgroup, account, client).is_some()
    }

    /// Closes an idle connection, already off its list, and opens one in its place, unless
    /// another worker was quicker to take that.
    pub(super) fn replace(
        &mut self,
        idle: &mut Conn,
        hostgroup: HostgroupId,
        account: AccountId,
        client: &Client,
    ) -> Option<ConnId> {
        let slot = idle.slot;
        self.discard_idle(idle);
        let server = &self.servers.pool.slot(slot)?.server;
        if !server.health.try_take_connection(server.max_connections) {
            return None;
        }
        self.open(slot, hostgroup, account, client)
    }

    /// For whom a server is chosen.
    #[inline]
    pub(super) fn asker(&self, client: &Client, account: AccountId) -> Asker {
        let (now_ms, source) = (self.env.now.ms(), client.origin.peer.client_addr);
        Asker { account, now_ms, source, only: self.only(client) }
    }

    /// The server that the statement under way is to run on, if it is one alone.
    pub(super) fn named_server(&self, client: &Client) -> Option<SlotId> {
        self.servers.pool.slot_of(client.pinned_server()?)
    }

    pub(super) fn choose(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        account: AccountId,
    ) -> Choice {
        let named = self.named_server(client);
        let asker = self.asker(client, account);
        let accounts = &self.servers.logins.accounts;
        let wanted = accounts.key(account).map(|key| key.behaviour);
        let can_change = |other: AccountId| {
            other != account && accounts.key(other).map(|key| key.behaviour) == wanted
        };
        let choice = match named {
            Some(slot) => self.servers.pool.choose_on(slot, &asker, can_change),
            None => self.servers.pool.choose(hostgroup, &asker, can_change),
        };
        self.servers.chosen(choice)
    }

    /// Takes whoever waits longest for a connection like this out of the queue.
    fn next_waiter(
        &mut self,
        hostgroup: HostgroupId,
        account: AccountId,
        slot: SlotId,
    ) -> Option<Waiter<ClientId>> {
        let waiters = self.servers.pool.waiters(hostgroup);
        if waiters.is_empty() || waiters.hold() == Some(Hold::Paused) {
            return None;
        }
        let server = Arc::clone(&self.servers.pool.slot(slot)?.server);
        let (clients, now_ms) = (&self.clients, self.env.now.ms());
        let suits = |id: ClientId| {
            let client = clients.get(id);
            let is_forward = client.is_some_and(|it| matches!(it.phase, Phase::AwaitServer(_)));
            let named = client.and_then(Client::pinned_server);
            let may_read = client.is_some_and(|client| client.may_read_on(&server, now_ms));
            !is_forward && may_read && named.is_none_or(|named| *named == server.key)
        };
        let fits = |waiter: &Waiter<ClientId>| waiter.account == account && suits(waiter.client);
        if !self.servers.pool.has_tenants() {
            return self.servers.pool.waiters(hostgroup).take(fits);
        }
        // Whoever is next gets what he needs, if it is another connection: none of this one's
        // account comes before.
        let now_us = self.env.now.us;
        let mut in_turn = self.servers.pool.in_turn(hostgroup, now_us);
        let is_passed = |it: &Waiter<ClientId>| has_plant!(self, TenantStarved) && is_second(it);
        let next = in_turn.find(|it| suits(it.client) && !is_passed(it)).filter(|it| fits(it))?;
        let client = next.client;
        drop(in_turn);
        self.servers.pool.waiters(hostgroup).take(|waiter| waiter.client == client)
    }

    /// The cause that a session which has waited in vain is told.
    pub(crate) fn cause_now(&mut self, hostgroup: HostgroupId) -> RefusalCause {
        let now_ms = self.env.now.ms();
        if let Some(Hold::NoWriter { .. }) = self.servers.pool.hold(hostgroup) {
            return RefusalCause::NoWriter;
        }
        if !self.servers.pool.has_online(hostgroup, now_ms) {
            return RefusalCause::NoneOnline;
        }
        let room = self.servers.pool.room(hostgroup);
        if room.places.is_some_and(|places| room.taken >= places) {
            return RefusalCause::AllBusy;
        }
        let mut slots = self.servers.pool.slots().map(|(_, slot)| slot);
        let has_room = slots.any(|slot| {
            slot.server.key.hostgroup == hostgroup
                && slot.server.health.state(now_ms) == ServerState::Online
                && slot.server.health.connections() < slot.server.max_connections
        });
        match has_room {
            true => RefusalCause::ConnectTimeout,
            false => RefusalCause::AllAtMaxConnections,
        }
    }
}
