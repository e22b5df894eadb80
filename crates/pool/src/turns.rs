//! Who is next for a server that runs so many statements at once, and on whose account.

use trunkline_topology::{Concurrency, HostgroupId, Terms};

use crate::{
    AccountId, Pool, SlotId,
    tenant::{Accounts, Room, TenantId},
    waiters::Waiter,
};

/// How servers are shared.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    concurrency: Concurrency,
    /// What tenants are entitled to, by [`TenantId`]; `None` without tenants.
    pub(crate) terms: Option<Vec<Terms>>,
}

/// A statement that counts on its server, from when it is sent to when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// On whose account it runs.
    pub tenant: TenantId,
    /// Whether it has a connection to itself.
    pub is_alone: bool,
}

impl<C: Copy + PartialEq> Pool<C> {
    /// Says how many statements each server runs at once, and what tenants are entitled to, by
    /// [`TenantId`]; `None` without tenants. What has been found out and used stays.
    pub fn set_sharing(&mut self, concurrency: Concurrency, terms: Option<Vec<Terms>>) {
        self.sharing = Sharing { concurrency, terms };
        self.set_limits();
        let terms = self.sharing.terms.as_deref();
        self.groups.values_mut().for_each(|group| group.waiters.set_terms(terms));
    }

    /// Says what one more tenant is entitled to.
    pub fn add_terms(&mut self, tenant: TenantId, terms: Terms) {
        let Some(all) = &mut self.sharing.terms else { return };
        if all.len() <= tenant.index() {
            all.resize(tenant.index() + 1, terms);
        }
        let all = self.sharing.terms.as_deref();
        self.groups.values_mut().for_each(|group| group.waiters.set_terms(all));
    }

    pub(crate) fn set_limits(&mut self) {
        let concurrency = self.sharing.concurrency;
        self.slots.iter_mut().for_each(|(_, slot)| slot.limit.set(concurrency));
    }

    /// Whether it is counted what servers run: there are tenants, or a limit.
    #[inline]
    pub fn counts_places(&self) -> bool {
        self.sharing.terms.is_some() || self.sharing.concurrency != Concurrency::Off
    }

    /// Whether there are tenants.
    #[inline]
    pub fn has_tenants(&self) -> bool {
        self.sharing.terms.is_some()
    }

    /// A statement is sent to a server.
    pub fn begin(&mut self, slot: SlotId, place: Place, now_us: u64) {
        let Some(slot) = self.slots.get_mut(slot.0) else { return };
        slot.running += u32::from(place.is_alone);
        let taken = slot.taken();
        slot.limit.note_running(taken);
        let hostgroup = slot.server.key.hostgroup;
        if let Some(accounts) = self.accounts_mut(hostgroup) {
            accounts.begin(place.tenant, place.is_alone, now_us);
        }
    }

    /// A statement that was counted is over, and took the server so long.
    pub fn end(&mut self, slot: SlotId, place: Place, took_us: u64, now_us: u64) {
        let Some(slot) = self.slots.get_mut(slot.0) else { return };
        debug_assert!(!place.is_alone || slot.running > 0);
        slot.running = slot.running.saturating_sub(u32::from(place.is_alone));
        slot.limit.answered(now_us, took_us);
        let hostgroup = slot.server.key.hostgroup;
        if let Some(accounts) = self.accounts_mut(hostgroup) {
            accounts.end(place.tenant, place.is_alone, took_us, now_us);
        }
    }

    fn accounts_mut(&mut self, hostgroup: HostgroupId) -> Option<&mut Accounts> {
        self.sharing.terms.as_ref()?;
        self.groups.get_mut(&hostgroup)?.waiters.accounts_mut()
    }

    /// What the tenants of a hostgroup have used, where there are any.
    pub fn accounts(&self, hostgroup: HostgroupId) -> Option<&Accounts> {
        self.groups.get(&hostgroup)?.waiters.accounts()
    }

    /// What the accounts of all hostgroups say.
    pub fn all_accounts(&self) -> impl Iterator<Item = &Accounts> {
        self.groups.values().filter_map(|group| group.waiters.accounts())
    }

    /// How many statements a hostgroup's servers take at once, and how many they run.
    pub fn room(&self, hostgroup: HostgroupId) -> Room {
        let slots = self.groups.get(&hostgroup).map_or(&[][..], |group| &group.slots);
        let slots = slots.iter().filter_map(|id| self.slots.get(id.0));
        let all = slots.map(|slot| slot.concurrency());
        all.fold(Room { places: Some(0), taken: 0 }, |room, slot| match (room.places, slot) {
            (Some(places), Some((max, taken))) => {
                Room { places: Some(places + max), taken: room.taken + taken }
            }
            _ => Room { places: None, taken: 0 },
        })
    }

    /// Connections of an account that come up in a hostgroup.
    pub fn coming(&self, hostgroup: HostgroupId, account: AccountId) -> u32 {
        let slots = self.groups.get(&hostgroup).map_or(&[][..], |group| &group.slots);
        slots.iter().filter_map(|id| self.slots.get(id.0)).map(|slot| slot.coming(account)).sum()
    }

    /// Whether a tenant's statement may begin in a hostgroup now, whoever waits there.
    pub fn may_begin(&self, hostgroup: HostgroupId, tenant: TenantId, now_us: u64) -> bool {
        let accounts = self.accounts(hostgroup);
        accounts.is_none_or(|accounts| accounts.may_begin(tenant, self.room(hostgroup), now_us))
    }

    /// Who waits for a hostgroup and is next behind so many that can't be served now.
    pub fn next_in_turn(
        &self,
        hostgroup: HostgroupId,
        passed: usize,
        now_us: u64,
    ) -> Option<Waiter<C>> {
        self.in_turn(hostgroup, now_us).nth(passed).copied()
    }

    /// Those that wait for a hostgroup and may begin now, who is next first.
    pub fn in_turn(&self, hostgroup: HostgroupId, now_us: u64) -> impl Iterator<Item = &Waiter<C>> {
        let room = match self.sharing.terms {
            Some(_) => self.room(hostgroup),
            None => Room { places: None, taken: 0 },
        };
        let group = self.groups.get(&hostgroup).into_iter();
        group.flat_map(move |group| group.waiters.in_turn(room, now_us))
    }

    /// Who waits for a hostgroup and is kept by no ceiling, whether there is room or not: who is
    /// next first.
    pub fn queued(&self, hostgroup: HostgroupId, now_us: u64) -> impl Iterator<Item = &Waiter<C>> {
        let room = match self.sharing.terms {
            Some(_) => self.room(hostgroup).emptied(),
            None => Room { places: None, taken: 0 },
        };
        let group = self.groups.get(&hostgroup).into_iter();
        group.flat_map(move |group| group.waiters.in_turn(room, now_us))
    }
}

#[cfg(test)]
mod tests;
