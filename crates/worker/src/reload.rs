//! A new configuration, between two batches of events.

use std::sync::Arc;

use trunkline_config::Snapshot;
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_session::tracker::PinReason;
use trunkline_topology::Server;

use crate::{ClientId, Worker, client::Lease, dispatch::LOST, kept::has_state};

/// Why what a session holds is lost where its user has another default hostgroup.
const MOVED: &str = "its user's default hostgroup is another one now";

impl Worker {
    /// Takes over a published configuration. Statements under way go on as they began; servers
    /// that are gone lose their idle connections now and the others when their sessions leave.
    pub fn apply_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.analyses.configure(&snapshot.settings);
        if !Arc::ptr_eq(&self.snapshot.rules, &snapshot.rules) {
            self.rule_hits = trunkline_rules::Hits::new(&snapshot.rules);
        }
        if !Arc::ptr_eq(&self.guards, &snapshot.guards) {
            self.limits = crate::admission::share_of(&snapshot.guards, self.options.workers);
            self.guards = Arc::clone(&snapshot.guards);
        }
        self.snapshot = snapshot;
        self.password_turns.clear();
        let snapshot = Arc::clone(&self.snapshot);
        self.shared.retain_users(|key| snapshot.has_key(key));
        self.resize_cache();
        self.apply_users();
        self.apply_servers();
        self.last_failures.clear();
        self.stats.counters.snapshots_applied += 1;
        if has_plant!(self, SnapshotClearsLeases) {
            for id in self.clients.keys_where(|client| client.session.is_some()) {
                let session = self.clients.get_mut(id).and_then(|client| client.session.as_mut());
                session.into_iter().for_each(|session| session.leases.clear());
            }
        }
    }

    /// Sessions go where their users go now; what one holds where it was is lost, as with its
    /// connection: writes that are to see it would go elsewhere. Whose account on the servers has
    /// changed keeps what it logged in with.
    fn apply_users(&mut self) {
        for id in self.clients.keys_where(|client| client.session.is_some()) {
            self.follow_user(id);
        }
    }

    /// A session, and the one that it goes back to if its change of user fails, go where their
    /// users go now.
    pub(crate) fn follow_user(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        for session in [&mut client.session, &mut client.former].into_iter().flatten() {
            let Some(today) = self.snapshot.today(&session.user) else { continue };
            if Arc::ptr_eq(today, &session.user) || today.backend != session.user.backend {
                continue;
            }
            let former = session.user.default_hostgroup;
            let is_left = |lease: &Lease| lease.hostgroup == former && has_state(lease);
            let left = session.leases.iter().find(|lease| is_left(lease));
            if let Some(lease) = left.filter(|_| today.default_hostgroup != former) {
                let held: Vec<_> = lease.pins.reasons().map(PinReason::name).collect();
                let held = held.join(", ");
                session.lost = Some(format!("{LOST} ({MOVED}); it held the session's {held}"));
            }
            session.user = Arc::clone(today);
        }
    }

    /// What the servers greet with has become known or has changed; new clients see it.
    pub fn apply_greeting(&mut self, greeting: Arc<Greeting>) {
        self.greeting = greeting;
        self.analyses.learn_version(self.shared.server_version());
    }

    pub(crate) fn resize_cache(&self) {
        const MIB: u64 = 1 << 20;
        self.cache.resize(self.snapshot.settings.query_cache_size_mb.saturating_mul(MIB));
    }

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

    pub(crate) fn apply_servers(&mut self) {
        let snapshot = Arc::clone(&self.snapshot);
        self.leave_addresses(&snapshot);
        let removed = self.pool.apply(snapshot.servers());
        self.drop_outdated();
        for slot in removed {
            self.sweep_slot(slot);
        }
        let waited_for: Vec<_> = self.pool.waited_for().map(|(id, _)| id).collect();
        for hostgroup in waited_for {
            self.pump(hostgroup);
        }
    }
}
