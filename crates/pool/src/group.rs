//! The pool of one worker: which server of a hostgroup serves a statement.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use foldhash::fast::FixedState;
use slab::Slab;
use trunkline_topology::{Balance, Draws, HostgroupId, RefusalCause, Server, ServerKey};

use crate::{AccountId, ConnId, Hold, Slot, SlotId, Waiters, turns::Sharing};

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
pub(crate) struct Group<C> {
    pub(crate) slots: Vec<SlotId>,
    pub(crate) waiters: Waiters<C>,
    pub(crate) balance: Balance,
    /// Whether its servers are of several ranks, or some are far and others near.
    pub(crate) has_tiers: bool,
    /// Whether it takes nothing for now, whatever its servers are.
    pub(crate) is_paused: bool,
    /// One of the two.
    pub(crate) is_special: bool,
    /// When its servers were tried last though they were shunned, ms.
    pub(crate) tried_ms: u64,
}

/// For whom a server is chosen, and when.
#[derive(Debug, Clone, Copy)]
pub struct Asker {
    /// As whom the connection is to be logged in.
    pub account: AccountId,
    /// The worker's clock, ms.
    pub now_ms: u64,
    /// The client's address; `None` over a Unix socket.
    pub source: Option<IpAddr>,
    /// The only servers of the hostgroup that come into question; `None` for all.
    pub only: Option<Only>,
}

/// Some servers of a hostgroup, by their places in it. Those behind the first 64 are none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Only(u64);

impl Only {
    /// Whether none is among them.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, at: usize) -> bool {
        u32::try_from(at).is_ok_and(|at| self.0.checked_shr(at).unwrap_or_default() & 1 != 0)
    }
}

/// Connections and waiting sessions of one worker. `C` names a client.
#[derive(Debug)]
pub struct Pool<C> {
    pub(crate) slots: Slab<Slot>,
    by_key: HashMap<ServerKey, SlotId, FixedState>,
    pub(crate) groups: HashMap<HostgroupId, Group<C>, FixedState>,
    pub(crate) draws: Draws,
    /// How long the share of a server grows that comes back, ms.
    pub(crate) slow_start_ms: u64,
    /// Statements that near servers had no room for, not told of yet.
    pub(crate) spilled: u64,
    /// How many statements each server runs at once, and what tenants are entitled to.
    pub(crate) sharing: Sharing,
    /// False while certainly nobody waits, in any hostgroup. Asked with every statement, so that
    /// no hostgroup has to be looked for.
    may_wait: bool,
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
            draws: Draws::new(seed),
            slow_start_ms: 0,
            spilled: 0,
            sharing: Sharing::default(),
            may_wait: false,
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
            // One that had gone and came back between two looks is counted anew: what its old
            // connections took they give back to the old count.
            let is_known = |id: &SlotId| {
                let slot = self.slots.get(id.0);
                slot.is_some_and(|slot| Arc::ptr_eq(&slot.server.health, &server.health))
            };
            let known = gone.get(&server.key).copied().filter(is_known);
            let id = match known.and_then(|_| gone.remove(&server.key)) {
                Some(id) => id,
                None => SlotId(self.slots.insert(Slot::new(Arc::clone(server)))),
            };
            if let Some(slot) = self.slots.get_mut(id.0) {
                slot.server = Arc::clone(server);
            }
            self.by_key.insert(server.key.clone(), id);
            self.group_mut(server.key.hostgroup).slots.push(id);
        }
        for group in self.groups.values_mut() {
            let tier = |id: &SlotId| self.slots.get(id.0).map(Slot::tier);
            let first = group.slots.first().map(tier);
            group.has_tiers = group.slots.iter().map(tier).any(|tier| Some(tier) != first);
            group.is_special = group.has_tiers || group.is_paused;
        }
        for id in gone.values() {
            if let Some(slot) = self.slots.get_mut(id.0) {
                slot.removed = true;
            }
        }
        self.set_limits();
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

    /// Says how servers are chosen from now on. Hostgroups that are not named have the default.
    pub fn set_balance(
        &mut self,
        slow_start_ms: u64,
        of_groups: impl Iterator<Item = (HostgroupId, Balance)>,
    ) {
        self.slow_start_ms = slow_start_ms;
        self.groups.values_mut().for_each(|group| group.balance = Balance::default());
        for (hostgroup, balance) in of_groups {
            self.group_mut(hostgroup).balance = balance;
        }
    }

    pub(crate) fn group_mut(&mut self, hostgroup: HostgroupId) -> &mut Group<C> {
        let waiters = || {
            let mut waiters = Waiters::default();
            waiters.set_terms(self.sharing.terms.as_deref());
            waiters
        };
        let empty = || Group {
            slots: Vec::new(),
            waiters: waiters(),
            balance: Balance::default(),
            has_tiers: false,
            is_paused: false,
            is_special: false,
            tried_ms: 0,
        };
        self.groups.entry(hostgroup).or_insert_with(empty)
    }

    /// Says whether a hostgroup takes nothing for now.
    pub fn set_paused(&mut self, hostgroup: HostgroupId, is_paused: bool) {
        let group = self.group_mut(hostgroup);
        group.is_paused = is_paused;
        group.is_special = group.has_tiers || is_paused;
    }

    fn is_paused(&self, hostgroup: HostgroupId) -> bool {
        self.groups.get(&hostgroup).is_some_and(|group| group.is_paused)
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
        self.may_wait = true;
        &mut self.group_mut(hostgroup).waiters
    }

    /// Whether anybody waits for a hostgroup.
    #[inline]
    pub fn is_waited_for(&self, hostgroup: HostgroupId) -> bool {
        let is_there = |group: &Group<C>| !group.waiters.is_empty();
        self.may_wait && self.groups.get(&hostgroup).is_some_and(is_there)
    }

    /// Why nobody who waits for a hostgroup is served, when that was looked at last.
    pub fn hold(&self, hostgroup: HostgroupId) -> Option<Hold> {
        self.groups.get(&hostgroup)?.waiters.hold()
    }

    /// Whether anybody waits for any hostgroup.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        self.may_wait && self.groups.values().any(|group| !group.waiters.is_empty())
    }

    /// Finds out whether those who waited have all gone. To be called now and then.
    pub fn settle_waiters(&mut self) {
        self.may_wait = self.has_waiters();
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

    /// Chooses for one statement.
    ///
    /// A server is drawn as the hostgroup's [`Balance`] says. When it has no idle connection, one
    /// to it is opened, or else weights would count for nothing where traffic is light; while one
    /// comes up, any other online server's idle connection is better than waiting.
    /// `can_change_user` tells which accounts' idle connections can be logged in as the asker's.
    pub fn choose(
        &mut self,
        hostgroup: HostgroupId,
        asker: &Asker,
        can_change_user: impl Fn(AccountId) -> bool,
    ) -> Choice {
        let (account, now_ms) = (asker.account, asker.now_ms);
        let drawn = match self.draw(hostgroup, asker) {
            Ok(drawn) => drawn,
            Err(cause) => return Choice::Wait(cause),
        };
        if let Some(conn) = self.slots.get_mut(drawn.0).and_then(|slot| idle_of(slot, account)) {
            return Choice::Idle(drawn, conn);
        }
        if let Some(slot) = self.slots.get_mut(drawn.0)
            && slot.has_room()
            && slot.connecting() == 0
            && slot.take_place(asker.now_ms)
        {
            return Choice::Open(drawn);
        }
        let mut others = self.online(hostgroup, now_ms);
        if let Some(only) = asker.only {
            others.retain(|id| self.is_among(hostgroup, *id, only));
        }
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
            if slot.take_place(asker.now_ms) {
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

    /// Those servers of a hostgroup that take statements and that `fits` says yes to.
    pub fn only(
        &self,
        hostgroup: HostgroupId,
        now_ms: u64,
        fits: impl Fn(&Server) -> bool,
    ) -> Only {
        let slots = self.groups.get(&hostgroup).map_or(&[][..], |group| &group.slots);
        let is_one = |id: &SlotId| {
            let slot = self.slots.get(id.0);
            self.is_usable(*id, now_ms) && slot.is_some_and(|slot| fits(&slot.server))
        };
        let bits = slots.iter().take(64).enumerate();
        let bits = bits.filter(|(_, id)| is_one(id)).map(|(at, _)| 1 << at);
        Only(bits.fold(0, |all, bit: u64| all | bit))
    }

    fn is_among(&self, hostgroup: HostgroupId, id: SlotId, only: Only) -> bool {
        let slots = self.groups.get(&hostgroup).map_or(&[][..], |group| &group.slots);
        slots.iter().position(|slot| *slot == id).is_some_and(|at| only.has(at))
    }

    /// Chooses for one statement that is to run on this server and no other.
    pub fn choose_on(
        &mut self,
        id: SlotId,
        asker: &Asker,
        can_change_user: impl Fn(AccountId) -> bool,
    ) -> Choice {
        let (account, now_ms) = (asker.account, asker.now_ms);
        let hostgroup = self.slots.get(id.0).map(|slot| slot.server.key.hostgroup);
        if !self.is_usable(id, now_ms) || hostgroup.is_some_and(|id| self.is_paused(id)) {
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
        if slot.take_place(asker.now_ms) {
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

    /// Chooses for a statement that may follow others on their connection. `depth`
    /// tells how many are in flight on one that it fits. `None` when none of them takes more and
    /// there is no other to begin with: then it is as any statement.
    ///
    /// Few connections are shared by many: their number follows the load, and never a statement
    /// waits for another connection that would go out at once on one of these.
    pub fn choose_shared(
        &mut self,
        hostgroup: HostgroupId,
        asker: &Asker,
        depth_max: usize,
        depth: impl Fn(ConnId) -> Option<usize>,
    ) -> Option<SharedChoice> {
        let drawn = self.draw(hostgroup, asker).ok()?;
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
        if slot.shared().len() < slot.shared_width().max() as usize && slot.has_place() {
            if let Some(conn) = slot.pop_idle(asker.account) {
                return Some(SharedChoice::Idle(conn));
            }
            if least.is_none_or(|(depth, _)| depth > 0)
                && slot.connecting() == 0
                && slot.take_place(asker.now_ms)
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
    pub fn choose_dedicated(&mut self, hostgroup: HostgroupId, asker: &Asker) -> DedicatedChoice {
        let drawn = match self.draw(hostgroup, asker) {
            Ok(drawn) => drawn,
            Err(cause) => return DedicatedChoice::None(cause),
        };
        let others = self.online(hostgroup, asker.now_ms);
        let by_preference = || std::iter::once(drawn).chain(others.iter().copied());
        let has_place = |slot: &Slot| slot.take_place(asker.now_ms);
        if let Some(id) = by_preference().find(|id| self.slots.get(id.0).is_some_and(has_place)) {
            return DedicatedChoice::Open(id);
        }
        let replaced = by_preference().find_map(|id| {
            let conn = self.slots.get_mut(id.0)?.take_oldest_idle(|_| true)?;
            Some(DedicatedChoice::Replace(id, conn))
        });
        replaced.unwrap_or(DedicatedChoice::None(RefusalCause::AllAtMaxConnections))
    }
}

fn idle_of(slot: &mut Slot, account: AccountId) -> Option<ConnId> {
    match slot.has_room() {
        true => slot.pop_idle(account),
        false => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
