//! A new configuration, between two batches of events.

use std::sync::Arc;

use trunkline_catalog::Proof;
use trunkline_config::Snapshot;
use trunkline_pool::Slot;
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_session::tracker::PinReason;
use trunkline_topology::{HostgroupId, Server, User};

use crate::{
    clients::client::{Client, Phase, Stage, Statement},
    effects::Wake,
    exchange::leaving::{MOVED, may_leave},
    exchange::rolled_back::Lost,
    exchange::send::LOST,
    rooms::{Commands, Core, Exchange, Lender},
    routing::kept::has_state,
    routing::route::Route,
    servers::Servers,
};

/// Why a connection is left on which nothing of a write has been sent yet.
const READERS: &str = "its hostgroup is the readers' now";

impl Servers {
    /// A host name that has lost an address may mean another server now: connections that were
    /// opened before are not used again, though a session that holds one keeps it, as it would
    /// directly.
    fn leave_addresses(&self, snapshot: &Snapshot) {
        for (_, slot) in self.pool.slots() {
            let before = &slot.server;
            let now = snapshot.hostgroup(before.key.hostgroup).into_iter();
            let now = now.flat_map(|group| &group.servers).find(|it| it.key == before.key);
            let has_lost = |now: &Arc<Server>| {
                before.resolved.iter().any(|address| !now.resolved.contains(address))
            };
            if now.is_some_and(has_lost) {
                before.health.retire_connections();
            }
        }
    }
}

impl Commands {
    /// See [`Worker::apply_snapshot`](crate::Worker::apply_snapshot).
    pub(crate) fn on_apply_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.exchange.statements.analyses.configure(&snapshot);
        self.exchange.core.fx.stats.slow_above_us =
            snapshot.settings.long_query_time.saturating_mul(1_000);
        if !Arc::ptr_eq(&self.exchange.core.env.snapshot.rules, &snapshot.rules) {
            self.router.hits = trunkline_rules::Hits::new(&snapshot.rules);
        }
        if !Arc::ptr_eq(&self.router.guards, &snapshot.guards) {
            self.router.limits = crate::routing::admission::share_of(
                &snapshot.guards,
                self.exchange.core.env.options.workers,
            );
            self.router.guards = Arc::clone(&snapshot.guards);
        }
        let former = std::mem::replace(&mut self.exchange.core.env.snapshot, snapshot);
        self.exchange.core.servers.logins.password_turns.clear();
        let snapshot = Arc::clone(&self.exchange.core.env.snapshot);
        self.exchange.core.env.shared.apply_users(&snapshot);
        let now_ms = self.exchange.core.env.now.ms();
        for since in snapshot.causal.begun_since(&former.causal) {
            since.begin(now_ms);
        }
        let asked = |snapshot: &Snapshot| {
            let settings = &snapshot.settings;
            (settings.server_users_account.clone(), settings.server_users_hostgroup)
        };
        if asked(&former) != asked(&snapshot) {
            self.exchange.core.env.shared.current_users().forget();
        }
        self.exchange.core.resize_cache();
        self.exchange.core.apply_users(&former);
        self.exchange.leave_new_readers(&former);
        self.exchange.core.apply_servers();
        self.exchange.end_forwards();
        self.exchange.core.servers.logins.last_failures.clear();
        self.exchange.core.fx.stats.counters.snapshots_applied += 1;
        if has_plant!(self.exchange.core, SnapshotClearsLeases) {
            self.exchange.core.clients.table.for_each_mut(|_, entry| {
                let client = entry.client_mut();
                client.into_iter().for_each(|client| drop(client.session.leave_all()));
            });
        }
    }
}

/// The result cache takes at most one of so many parts of the memory of all.
const CACHE_PART: u64 = 4;

impl Core {
    /// Sessions go where their users go now; what one holds where it was is lost, as with its
    /// connection: writes that are to see it would go elsewhere.
    fn apply_users(&mut self, former: &Snapshot) {
        for id in self.clients.ids_where(|_| true) {
            self.with_client(id, |core, client| core.follow_user(client, Some(former)));
        }
    }

    /// A session, and the one that it goes back to if its change of user fails, go where their
    /// users go now. Those of a user that is gone stay where they are, but for a hostgroup that has
    /// become the readers' since `before`.
    pub(super) fn follow_user(&mut self, client: &mut Client, before: Option<&Snapshot>) {
        for session in client.sessions_mut() {
            let former = session.login.user.default_hostgroup;
            let user = match self.env.snapshot.today(&session.login.user) {
                Some(today) if Arc::ptr_eq(today, &session.login.user) => continue,
                Some(today) if today.backend == session.login.user.backend => Arc::clone(today),
                // It keeps the account on the servers that it logged in with.
                Some(today) => {
                    let backend = session.login.user.backend.clone();
                    Arc::new(User { backend, ..User::clone(today) })
                }
                None => {
                    let writer = before.and_then(|it| new_writer(it, &self.env.snapshot, former));
                    let Some(default_hostgroup) = writer else { continue };
                    Arc::new(User { default_hostgroup, ..User::clone(&session.login.user) })
                }
            };
            let moves = user.default_hostgroup != former;
            if let Some(begun) = session.settings.begun.as_mut().filter(|it| it.hostgroup == former)
            {
                begun.hostgroup = user.default_hostgroup;
            }
            for lease in session.leases.iter_mut().filter(|_| moves) {
                lease.is_left |= lease.hostgroup == former;
                lease.is_left &= lease.hostgroup != user.default_hostgroup;
                if lease.hostgroup == former && has_state(lease) {
                    let held: Vec<_> = lease.pins.reasons().map(PinReason::name).collect();
                    let held = held.join(", ");
                    let text = format!("{LOST} ({MOVED}); it held the session's {held}");
                    session.lost = Some(Lost::Session(text));
                }
            }
            session.login.user = user;
        }
    }

    pub(crate) fn resize_cache(&self) {
        const MIB: u64 = 1 << 20;
        let wanted = self.env.snapshot.settings.query_cache_size_mb.saturating_mul(MIB);
        let shared = &self.env.shared;
        shared.cache().resize(wanted.min(shared.budget().max() / CACHE_PART));
    }

    pub(crate) fn apply_servers(&mut self) {
        let snapshot = Arc::clone(&self.env.snapshot);
        self.servers.leave_addresses(&snapshot);
        let removed = self.servers.pool.apply(snapshot.servers());
        self.apply_sharing();
        let balances = snapshot.hostgroups.values().map(|group| (group.id, group.balance));
        self.servers.pool.set_balance(snapshot.settings.slow_start_ms, balances);
        self.drop_outdated(None);
        for slot in removed {
            self.servers.sweep_slot(slot);
        }
        let waited_for: Vec<_> = self.servers.pool.waited_for().map(|(id, _)| id).collect();
        for hostgroup in waited_for {
            self.fx.wake(Wake::Queue(hostgroup));
        }
    }
}

impl Exchange {
    /// What may write and has not been sent yet goes to the writer of those whom its hostgroup is
    /// the readers of from now on.
    fn leave_new_readers(&mut self, former: &Snapshot) {
        let is_unsent = |client: &Client| match &client.phase {
            Phase::Running(statement) => {
                let is_unsent = matches!(
                    statement.stage,
                    Stage::Held(_)
                        | Stage::Queued
                        | Stage::Returning
                        | Stage::Synchronising(_)
                        | Stage::Preparing(_)
                );
                is_unsent && !statement.meaning.is_read && !client.is_mirror
            }
            _ => false,
        };
        for id in self.core.clients.ids_where(is_unsent) {
            let client = self.core.clients.get_mut(id);
            let Some((statement, session)) = client.and_then(Client::running_mut) else { continue };
            let conn = statement.stage.conn();
            if conn.is_some_and(|conn| !may_leave(session, statement, conn)) {
                continue;
            }
            let Some(waits_for) = waits_for(statement) else { continue };
            let left = *waits_for;
            let Some(writer) = new_writer(former, &self.core.env.snapshot, left) else { continue };
            *waits_for = writer;
            statement.meaning.proof = Proof::NOTHING;
            if let Some(conn) = conn {
                self.with_conn(conn, |exchange, conn| exchange.lose_conn(conn, READERS));
            } else if self
                .core
                .servers
                .pool
                .waiters(left)
                .take(|waiter| waiter.client == id)
                .is_some()
            {
                self.core.with_client(id, Core::requeue);
            }
        }
    }

    /// Fast-forward sessions end whose server is taken out, or is not the one of their user any
    /// more: nobody sees where a statement of theirs begins.
    fn end_forwards(&mut self) {
        let Servers { conns, pool, .. } = &self.core.servers;
        let is_left = |client: &Client| {
            let Phase::Forward(conn) = client.phase else { return false };
            // A replica that is sent a binary log stays.
            let conn = conns.get(conn).filter(|conn| conn.login.forwards == Some(client.id));
            conn.is_some_and(|conn| {
                let is_out = pool.slot(conn.slot).is_some_and(Slot::is_out);
                is_out || conn.server.hostgroup != client.session.login.user.default_hostgroup
            })
        };
        for id in self.core.clients.ids_where(is_left) {
            self.with_client(id, Self::close_client);
        }
    }

    /// See [`Worker::apply_greeting`](crate::Worker::apply_greeting).
    pub(crate) fn on_apply_greeting(&mut self, greeting: Arc<Greeting>) {
        self.core.env.greeting = greeting;
        self.statements.analyses.learn_version(self.core.env.shared.server_version());
    }
}

/// The hostgroup that a statement waits for a connection of, or is going to when a rule delays it
/// no more; `None` where it goes on one that its session holds.
fn waits_for(statement: &mut Statement) -> Option<&mut HostgroupId> {
    match &mut statement.stage {
        Stage::Held(held) => match &mut held.route {
            Route::Hostgroup(to) | Route::Reader(to) => Some(to),
            _ => None,
        },
        _ => Some(&mut statement.target.hostgroup),
    }
}

/// The writer of those whom a hostgroup is the readers of, which it was not before.
fn new_writer(former: &Snapshot, today: &Snapshot, hostgroup: HostgroupId) -> Option<HostgroupId> {
    let group = today.reader_group(hostgroup)?;
    former.reader_group(hostgroup).is_none().then_some(group.writer_hostgroup)
}

#[cfg(test)]
mod tests;
