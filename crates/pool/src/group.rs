//! The pool of one worker: which server of a hostgroup serves a statement.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::FixedState;
use slab::Slab;
use trunkline_topology::{HostgroupId, RefusalCause, Server, ServerKey, ServerState};

use crate::{AccountId, ConnId, Slot, SlotId, Waiters};

/// What to do for a statement that needs a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// This idle connection is the session's; it left the idle list.
    Idle(SlotId, ConnId),
    /// Open a connection to this server; its place under the global cap is taken already.
    Open(SlotId),
    /// Log this idle connection in as the wanted account; it left the idle list.
    ChangeUser(SlotId, ConnId),
    /// Close this idle connection, which left the idle list, and open one of the wanted account in
    /// its place: it can't be logged in as that account, and the cap leaves no room beside it.
    Replace(SlotId, ConnId),
    /// Wait; the cause is what a refusal at the deadline would say.
    Wait(RefusalCause),
}

/// What to do for a statement that may follow others on their connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedChoice {
    /// Send it behind those in flight on this connection to this server.
    Join(SlotId, ConnId),
    /// Begin with this idle connection, which left the idle list.
    Idle(ConnId),
    /// Open a connection to this server; its place under the global cap is taken already.
    Open(SlotId),
}

/// What to do for a connection that is to serve one session alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedicatedChoice {
    /// Open a connection to this server; its place under the global cap is taken already.
    Open(SlotId),
    /// Close this idle connection, which left the idle list, and open one in its place.
    Replace(SlotId, ConnId),
    /// There is none, for this cause.
    None(RefusalCause),
}

/// A hostgroup as one worker sees it.
#[derive(Debug)]
struct Group<C> {
    slots: Vec<SlotId>,
    waiters: Waiters<C>,
}

/// Connections and waiting sessions of one worker. `C` names a client.
#[derive(Debug)]
pub struct Pool<C> {
    slots: Slab<Slot>,
    by_key: HashMap<ServerKey, SlotId, FixedState>,
    groups: HashMap<HostgroupId, Group<C>, FixedState>,
    random: u64,
}

/// Connections to one server that are being opened at the same time.
const CONNECTING_MAX: u32 = 16;
/// Statements in flight for each shared connection, before there is one more of them.
const PER_SHARED: usize = 24;

impl<C: Copy + PartialEq> Pool<C> {
    /// An empty pool; `seed` starts the weighted choice of servers.
    pub fn new(seed: u64) -> Self {
        Self {
            slots: Slab::new(),
            by_key: HashMap::with_hasher(FixedState::default()),
            groups: HashMap::with_hasher(FixedState::default()),
            random: seed | 1,
        }
    }

    /// Takes over a configuration's servers. Slots that it no longer has are marked removed.
    /// Returns those that were removed or changed their server entry's identity.
    pub fn apply<'a>(&mut self, servers: impl Iterator<Item = &'a Arc<Server>>) -> Vec<SlotId> {
        let mut gone: HashMap<ServerKey, SlotId, FixedState> = std::mem::take(&mut self.by_key);
        for group in self.groups.values_mut() {
            group.slots.clear();
        }
        for server in servers {
            let id = match gone.remove(&server.key) {
                Some(id) => id,
                None => SlotId(self.slots.insert(Slot::new(Arc::clone(server)))),
            };
            if let Some(slot) = self.slots.get_mut(id.0) {
                slot.server = Arc::clone(server);
            }
            self.by_key.insert(server.key.clone(), id);
            self.group_mut(server.key.hostgroup).slots.push(id);
        }
        for id in gone.values() {
            if let Some(slot) = self.slots.get_mut(id.0) {
                slot.removed = true;
            }
        }
        gone.into_values().collect()
    }

    /// Drops a removed slot once its last connection has gone.
    pub fn sweep(&mut self, id: SlotId) -> bool {
        let is_over =
            self.slots.get(id.0).is_some_and(|slot| slot.removed && slot.counts().total() == 0);
        if is_over {
            self.slots.remove(id.0);
        }
        is_over
    }

    fn group_mut(&mut self, hostgroup: HostgroupId) -> &mut Group<C> {
        let empty = || Group { slots: Vec::new(), waiters: Waiters::default() };
        self.groups.entry(hostgroup).or_insert_with(empty)
    }

    /// Connections being opened for a hostgroup.
    pub fn connecting(&self, hostgroup: HostgroupId) -> usize {
        let slots = self.groups.get(&hostgroup).map_or(&[][..], |group| &group.slots);
        let counts = slots.iter().filter_map(|id| self.slots.get(id.0)).map(Slot::counts);
        counts.map(|counts| counts.of(crate::ConnState::Connecting) as usize).sum()
    }

    /// A slot by its number.
    pub fn slot(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(id.0)
    }

    /// A slot by its number.
    pub fn slot_mut(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(id.0)
    }

    /// A slot by its server's identity.
    pub fn slot_of(&self, key: &ServerKey) -> Option<SlotId> {
        self.by_key.get(key).copied()
    }

    /// All slots, removed ones too.
    pub fn slots(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        self.slots.iter().map(|(id, slot)| (SlotId(id), slot))
    }

    /// The queue of a hostgroup.
    pub fn waiters(&mut self, hostgroup: HostgroupId) -> &mut Waiters<C> {
        &mut self.group_mut(hostgroup).waiters
    }

    /// Whether anybody waits for a hostgroup.
    #[inline]
    pub fn is_waited_for(&self, hostgroup: HostgroupId) -> bool {
        self.groups.get(&hostgroup).is_some_and(|group| !group.waiters.is_empty())
    }

    /// Hostgroups where sessions wait.
    pub fn waited_for(&self) -> impl Iterator<Item = (HostgroupId, &Waiters<C>)> {
        let waits = self.groups.iter().filter(|(_, group)| !group.waiters.is_empty());
        waits.map(|(id, group)| (*id, &group.waiters))
    }

    /// Whether a hostgroup has a server that takes statements now.
    pub fn has_online(&self, hostgroup: HostgroupId, now_ms: u64) -> bool {
        let Some(group) = self.groups.get(&hostgroup) else {
            return false;
        };
        group.slots.iter().any(|id| self.is_usable(*id, now_ms))
    }

    fn is_usable(&self, id: SlotId, now_ms: u64) -> bool {
        self.slots.get(id.0).is_some_and(|slot| {
            slot.server.weight > 0 && slot.server.health.state(now_ms) == ServerState::Online
        })
    }

    /// Chooses for one statement of `account`.
    ///
    /// A server is drawn by weight. When it has no idle connection, one to it is opened, or else
    /// weights would count for nothing where traffic is light; while one comes up, any other
    /// online server's idle connection is better than waiting. `can_change_user` tells which
    /// accounts' idle connections can be logged in as `account`.
    pub fn choose(
        &mut self,
        hostgroup: HostgroupId,
        account: AccountId,
        now_ms: u64,
        can_change_user: impl Fn(AccountId) -> bool,
    ) -> Choice {
        let drawn = match self.draw(hostgroup, now_ms) {
            Ok(drawn) => drawn,
            Err(cause) => return Choice::Wait(cause),
        };
        if let Some(conn) = self.slots.get_mut(drawn.0).and_then(|slot| idle_of(slot, account)) {
            return Choice::Idle(drawn, conn);
        }
        if let Some(slot) = self.slots.get_mut(drawn.0)
            && slot.has_room()
            && slot.connecting() == 0
            && slot.server.health.try_take_connection(slot.server.max_connections)
        {
            return Choice::Open(drawn);
        }
        let others = self.online(hostgroup, now_ms);
        for id in others.iter().copied() {
            if let Some(conn) = self.slots.get_mut(id.0).and_then(|slot| idle_of(slot, account)) {
                return Choice::Idle(id, conn);
            }
        }
        let mut cause = RefusalCause::AllAtMaxConnections;
        for id in std::iter::once(drawn).chain(others.iter().copied()) {
            let Some(slot) = self.slots.get_mut(id.0) else { continue };
            if !slot.has_room() || slot.connecting() >= CONNECTING_MAX {
                cause = RefusalCause::AllBusy;
                continue;
            }
            if slot.server.health.try_take_connection(slot.server.max_connections) {
                return Choice::Open(id);
            }
            if let Some(conn) = slot.take_oldest_idle(&can_change_user) {
                return Choice::ChangeUser(id, conn);
            }
        }
        let replaced = std::iter::once(drawn).chain(others).find_map(|id| {
            let slot = self.slots.get_mut(id.0)?;
            let can_open = slot.has_room() && slot.connecting() < CONNECTING_MAX;
            let conn = slot.take_oldest_idle(|other| can_open && other != account)?;
            Some(Choice::Replace(id, conn))
        });
        replaced.unwrap_or(Choice::Wait(cause))
    }

    /// Chooses for one statement of `account` that is to run on this server and no other.
    pub fn choose_on(
        &mut self,
        id: SlotId,
        account: AccountId,
        now_ms: u64,
        can_change_user: impl Fn(AccountId) -> bool,
    ) -> Choice {
        if !self.is_usable(id, now_ms) {
            return Choice::Wait(RefusalCause::NoneOnline);
        }
        let Some(slot) = self.slots.get_mut(id.0) else {
            return Choice::Wait(RefusalCause::NoServer);
        };
        if let Some(conn) = idle_of(slot, account) {
            return Choice::Idle(id, conn);
        }
        if !slot.has_room() || slot.connecting() >= CONNECTING_MAX {
            return Choice::Wait(RefusalCause::AllBusy);
        }
        if slot.server.health.try_take_connection(slot.server.max_connections) {
            return Choice::Open(id);
        }
        if let Some(conn) = slot.take_oldest_idle(&can_change_user) {
            return Choice::ChangeUser(id, conn);
        }
        match slot.take_oldest_idle(|other| other != account) {
            Some(conn) => Choice::Replace(id, conn),
            None => Choice::Wait(RefusalCause::AllAtMaxConnections),
        }
    }

    /// Chooses for a statement of `account` that may follow others on their connection. `depth`
    /// tells how many are in flight on one that it fits. `None` when none of them takes more and
    /// there is no other to begin with: then it is as any statement.
    ///
    /// Few connections are shared by many: their number follows the load, and never a statement
    /// waits for another connection that would go out at once on one of these.
    pub fn choose_shared(
        &mut self,
        hostgroup: HostgroupId,
        account: AccountId,
        now_ms: u64,
        depth_max: usize,
        depth: impl Fn(ConnId) -> Option<usize>,
    ) -> Option<SharedChoice> {
        let drawn = self.draw(hostgroup, now_ms).ok()?;
        let slot = self.slots.get_mut(drawn.0)?;
        let mut in_flight = 0;
        let mut least: Option<(usize, ConnId)> = None;
        for conn in slot.shared() {
            let Some(depth) = depth(*conn) else { continue };
            in_flight += depth;
            if least.is_none_or(|(known, _)| depth < known) {
                least = Some((depth, *conn));
            }
        }
        let by_load = u32::try_from(in_flight / PER_SHARED + 1).unwrap_or(u32::MAX);
        slot.shared_width().keep_at_least(by_load);
        if slot.shared().len() < slot.shared_width().max() as usize {
            if let Some(conn) = slot.pop_idle(account) {
                return Some(SharedChoice::Idle(conn));
            }
            if least.is_none_or(|(depth, _)| depth > 0)
                && slot.connecting() == 0
                && slot.server.health.try_take_connection(slot.server.max_connections)
            {
                return Some(SharedChoice::Open(drawn));
            }
        }
        let (depth, conn) = least.filter(|(depth, _)| *depth < depth_max)?;
        if depth > 0 {
            slot.shared_width().note_full();
        }
        Some(SharedChoice::Join(drawn, conn))
    }

    /// Chooses for a connection that serves one session alone: opened, in place of an idle one if
    /// need be, or none at all.
    pub fn choose_dedicated(&mut self, hostgroup: HostgroupId, now_ms: u64) -> DedicatedChoice {
        let drawn = match self.draw(hostgroup, now_ms) {
            Ok(drawn) => drawn,
            Err(cause) => return DedicatedChoice::None(cause),
        };
        let others = self.online(hostgroup, now_ms);
        let by_preference = || std::iter::once(drawn).chain(others.iter().copied());
        let has_place =
            |slot: &Slot| slot.server.health.try_take_connection(slot.server.max_connections);
        if let Some(id) = by_preference().find(|id| self.slots.get(id.0).is_some_and(has_place)) {
            return DedicatedChoice::Open(id);
        }
        let replaced = by_preference().find_map(|id| {
            let conn = self.slots.get_mut(id.0)?.take_oldest_idle(|_| true)?;
            Some(DedicatedChoice::Replace(id, conn))
        });
        replaced.unwrap_or(DedicatedChoice::None(RefusalCause::AllAtMaxConnections))
    }

    fn online(&self, hostgroup: HostgroupId, now_ms: u64) -> Vec<SlotId> {
        let slots = self.groups.get(&hostgroup).map_or(&[][..], |group| &group.slots);
        slots.iter().copied().filter(|id| self.is_usable(*id, now_ms)).collect()
    }

    /// Draws an online server by weight.
    fn draw(&mut self, hostgroup: HostgroupId, now_ms: u64) -> Result<SlotId, RefusalCause> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let Some(group) = self.groups.get(&hostgroup) else {
            return Err(RefusalCause::NoServer);
        };
        if group.slots.is_empty() {
            return Err(RefusalCause::NoServer);
        }
        let weight = |id: &SlotId| match self.is_usable(*id, now_ms) {
            true => self.slots.get(id.0).map_or(0, |slot| u64::from(slot.server.weight)),
            false => 0,
        };
        let total: u64 = group.slots.iter().map(weight).sum();
        if total == 0 {
            return Err(RefusalCause::NoneOnline);
        }
        let mut left = self.random % total;
        for id in &group.slots {
            let share = weight(id);
            if left < share {
                return Ok(*id);
            }
            left -= share;
        }
        Err(RefusalCause::NoneOnline)
    }
}

fn idle_of(slot: &mut Slot, account: AccountId) -> Option<ConnId> {
    match slot.has_room() {
        true => slot.pop_idle(account),
        false => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ConnState::{Connecting, Idle, Leased, Pinned, Shared, Unlisted};
    use trunkline_topology::ServerHealth;

    pub(crate) fn server(port: u16, weight: u32, max_connections: u32) -> Arc<Server> {
        let address = format!("127.0.0.1:{port}").parse().expect("address");
        let key = ServerKey { hostgroup: HostgroupId(1), address };
        let health = Arc::new(ServerHealth::default());
        let compression = Default::default();
        let resolved = Vec::new();
        let tls = Default::default();
        Arc::new(Server {
            key,
            resolved,
            weight,
            max_connections,
            max_replication_lag: 0,
            compression,
            tls,
            keys: Default::default(),
            health,
        })
    }

    pub(crate) const GROUP: HostgroupId = HostgroupId(1);
    const ACCOUNT: AccountId = AccountId(0);
    pub(crate) const NEW: ConnId = ConnId { index: 0, generation: 0 };

    fn pool(servers: &[Arc<Server>]) -> Pool<u32> {
        let mut pool = Pool::new(7);
        pool.apply(servers.iter());
        pool
    }

    fn choose(pool: &mut Pool<u32>) -> Choice {
        pool.choose(GROUP, ACCOUNT, 0, |_| false)
    }

    #[test]
    fn servers_are_drawn_by_weight() {
        let mut pool = pool(&[server(1, 1, 10), server(2, 3, 10), server(3, 0, 10)]);
        let mut drawn = [0; 3];
        for _ in 0..4_000 {
            drawn[pool.draw(GROUP, 0).expect("online").0] += 1;
        }
        assert_eq!(drawn[2], 0);
        assert!((850..1_150).contains(&drawn[0]), "{drawn:?}");
    }

    #[test]
    fn a_statement_waits_with_its_cause() {
        let mut empty = pool(&[]);
        assert_eq!(choose(&mut empty), Choice::Wait(RefusalCause::NoServer));
        let shunned = server(1, 1, 10);
        shunned.health.shun(100);
        let mut pool = pool(&[shunned]);
        assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::NoneOnline));
        assert!(matches!(pool.choose(GROUP, ACCOUNT, 100, |_| false), Choice::Open(_)));
    }

    #[test]
    fn the_cap_is_never_passed() {
        let mut pool = pool(&[server(1, 1, 2)]);
        for _ in 0..2 {
            let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
            pool.slot_mut(id).expect("slot").relist(ACCOUNT, NEW, Unlisted, Leased);
        }
        assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::AllAtMaxConnections));
    }

    #[test]
    fn a_server_without_a_connection_gets_its_share_and_holds_nobody_up() {
        let mut pool = pool(&[server(1, 1, 1_000), server(2, 1, 1_000)]);
        let (one, two) = (SlotId(0), SlotId(1));
        for index in 0..200 {
            pool.slot_mut(one).expect("slot").relist(
                ACCOUNT,
                ConnId { index, generation: 0 },
                Unlisted,
                Idle,
            );
        }
        let drawn: Vec<Choice> = (0..100).map(|_| choose(&mut pool)).collect();
        assert!(drawn.contains(&Choice::Open(two)), "the second server is never connected to");
        pool.slot_mut(two).expect("slot").relist(ACCOUNT, NEW, Unlisted, Connecting);
        let drawn: Vec<Choice> = (0..50).map(|_| choose(&mut pool)).collect();
        assert!(drawn.iter().all(|choice| matches!(choice, Choice::Idle(..))), "{drawn:?}");
    }

    #[test]
    fn another_account_is_reached_by_change_user_when_the_cap_leaves_no_room() {
        let mut pool = pool(&[server(1, 1, 1)]);
        let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
        let conn = ConnId { index: 5, generation: 0 };
        pool.slot_mut(id).expect("slot").relist(AccountId(9), conn, Unlisted, Idle);
        assert_eq!(pool.choose(GROUP, ACCOUNT, 0, |_| true), Choice::ChangeUser(id, conn));
    }

    #[test]
    fn a_named_server_is_the_only_one_that_is_chosen() {
        let mut pool = pool(&[server(1, 1, 10), server(2, 1, 1)]);
        let (other, named) = (SlotId(0), SlotId(1));
        let idle = |index| ConnId { index, generation: 0 };
        pool.slot_mut(other).expect("slot").relist(ACCOUNT, idle(1), Unlisted, Idle);
        let choose = |pool: &mut Pool<u32>| pool.choose_on(named, ACCOUNT, 0, |_| false);
        assert_eq!(choose(&mut pool), Choice::Open(named));
        pool.slot_mut(named).expect("slot").relist(ACCOUNT, NEW, Unlisted, Leased);
        assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::AllAtMaxConnections));
        pool.slot_mut(named).expect("slot").relist(ACCOUNT, NEW, Leased, Unlisted);
        pool.slot_mut(named).expect("slot").relist(ACCOUNT, idle(2), Unlisted, Idle);
        assert_eq!(choose(&mut pool), Choice::Idle(named, idle(2)));
        pool.slot(named).expect("slot").server.health.set_state(ServerState::OfflineSoft);
        assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::NoneOnline));
    }

    #[test]
    fn what_cannot_change_its_account_makes_room_for_those_who_wait() {
        let mut pool = pool(&[server(1, 1, 1)]);
        let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
        let conn = ConnId { index: 5, generation: 0 };
        pool.slot_mut(id).expect("slot").relist(AccountId(9), conn, Unlisted, Idle);
        assert_eq!(choose(&mut pool), Choice::Replace(id, conn));
        assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::AllAtMaxConnections));
        pool.slot_mut(id).expect("slot").relist(AccountId(9), conn, Unlisted, Idle);
        assert_eq!(pool.choose_dedicated(GROUP, 0), DedicatedChoice::Replace(id, conn));
    }

    #[test]
    fn few_connections_work_at_once_unless_their_statements_run_for_long() {
        let mut pool = pool(&[server(1, 1, 100)]);
        for _ in 0..crate::Width::default().max() {
            let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
            pool.slot_mut(id).expect("slot").relist(ACCOUNT, NEW, Unlisted, Leased);
        }
        let id = pool.slots().next().expect("slot").0;
        let conn = ConnId { index: 99, generation: 0 };
        pool.slot_mut(id).expect("slot").relist(ACCOUNT, conn, Unlisted, Idle);
        assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::AllBusy));
        pool.slot_mut(id).expect("slot").set_stuck(1);
        assert_eq!(choose(&mut pool), Choice::Idle(id, conn));
    }

    #[test]
    fn statements_that_share_use_few_connections_and_more_under_load() {
        let mut pool = pool(&[server(1, 1, 100)]);
        let conn = |index| ConnId { index, generation: 0 };
        let one = SlotId(0);
        for index in 0..4 {
            pool.slot_mut(one).expect("slot").relist(ACCOUNT, conn(index), Unlisted, Idle);
        }
        let share = |pool: &mut Pool<u32>, depth: usize| {
            pool.choose_shared(GROUP, ACCOUNT, 0, 64, |_| Some(depth))
        };
        for index in [3, 2] {
            assert_eq!(share(&mut pool, 1), Some(SharedChoice::Idle(conn(index))));
            pool.slot_mut(one).expect("slot").relist(ACCOUNT, conn(index), Unlisted, Shared);
        }
        assert!(matches!(share(&mut pool, 8), Some(SharedChoice::Join(..))));
        assert_eq!(share(&mut pool, 30), Some(SharedChoice::Idle(conn(1))));
        pool.slot_mut(one).expect("slot").relist(ACCOUNT, conn(1), Unlisted, Shared);
        let deep = pool.choose_shared(GROUP, ACCOUNT, 0, 1, |_| Some(1));
        assert_eq!(deep, None, "what is full takes no more");
        let alien = pool.choose_shared(GROUP, ACCOUNT, 0, 64, |_| None);
        assert_eq!(alien, None, "what does not fit is not joined");
        pool.slot_mut(one).expect("slot").relist(ACCOUNT, conn(3), Shared, Unlisted);
        assert_eq!(pool.slot(one).expect("slot").shared(), [conn(1), conn(2)]);
    }

    #[test]
    fn pinned_connections_do_not_keep_others_waiting() {
        let mut pool = pool(&[server(1, 1, 100)]);
        for _ in 0..50 {
            let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
            let slot = pool.slot_mut(id).expect("slot");
            slot.relist(ACCOUNT, NEW, Unlisted, Pinned);
        }
    }

    #[test]
    fn a_removed_server_goes_with_its_last_connection() {
        let mut pool = pool(&[server(1, 1, 10)]);
        let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
        pool.slot_mut(id).expect("slot").relist(ACCOUNT, NEW, Unlisted, Leased);
        assert_eq!(pool.apply([].into_iter()), [id]);
        assert!(!pool.sweep(id));
        pool.slot_mut(id).expect("slot").relist(ACCOUNT, NEW, Leased, Unlisted);
        assert!(pool.sweep(id));
    }
}
