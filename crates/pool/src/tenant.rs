//! Tenants: on whose account statements run, and what each is entitled to.
//!
//! A tenant's account holds the server time that its statements took, divided by its weight. Of
//! those that wait with the highest priority, the tenant with the least goes next: start-time fair
//! queueing with measured costs. `docs/decisions/0091`.

use std::collections::BTreeSet;

use trunkline_topology::Terms;

/// A tenant, by its number within a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TenantId(u16);

impl TenantId {
    /// All tenants together that are beyond [`TENANTS_MAX`], and everybody while there are none.
    pub const OTHERS: Self = Self(0);

    /// The tenant with this number; [`OTHERS`](Self::OTHERS) beyond [`TENANTS_MAX`].
    pub fn new(number: usize) -> Self {
        let number = u16::try_from(number).ok();
        number.filter(|it| usize::from(*it) < TENANTS_MAX).map_or(Self::OTHERS, Self)
    }

    /// Dense number, for tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Tenants that a worker tells apart, [`TenantId::OTHERS`] included.
pub const TENANTS_MAX: usize = 1_024;
/// A tenant keeps its guaranteed share free for so long after its last statement, ms.
const KEPT_MS: u64 = 1_000;
/// Priorities that there are.
const PRIORITIES: usize = Terms::PRIORITY_MAX as usize + 1;
/// Server time of one µs at weight 1, in the units of accounts.
const UNIT: u64 = 1_000;

const _: () =
    assert!(UNIT >= Terms::WEIGHT_MAX as u64, "a µs counts for something at every weight");

/// How many statements a hostgroup's servers take at once, and how many run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// All places, of this worker; `None` without a limit.
    pub places: Option<u32>,
    /// Those that are taken.
    pub taken: u32,
}

impl Room {
    fn is_full(self) -> bool {
        self.places.is_some_and(|places| self.taken >= places)
    }

    /// The room if nothing ran: for what takes no place.
    pub fn emptied(self) -> Self {
        Self { taken: 0, ..self }
    }
}

/// One tenant in one hostgroup.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    terms: Terms,
    /// Server time of what has ended, by weight.
    used: u64,
    /// Statements that run, and those of them that have a connection to themselves.
    running: u32,
    alone: u32,
    waiting: u32,
    /// What a statement takes on average, µs.
    mean_us: u64,
    /// When a statement of it began, ended or waited last, ms.
    active_ms: u64,
    /// Since when the front of its queue is the front, µs; 0 while nobody waits.
    front_us: u64,
    /// How long the front of its queue waited for its turn lately, µs; 0 while that is not known.
    turn_us: u64,
}

impl Account {
    /// What it has used, with an estimate of what runs.
    fn standing(&self) -> u64 {
        let estimate = self.mean_us.max(1).saturating_mul(u64::from(self.running));
        self.used.saturating_add(self.by_weight(estimate))
    }

    fn by_weight(&self, us: u64) -> u64 {
        us.saturating_mul(UNIT) / u64::from(self.terms.weight.clamp(1, Terms::WEIGHT_MAX))
    }

    fn guaranteed(&self, places: u32) -> u32 {
        part(places, self.terms.share_min)
    }

    fn ceiling(&self, places: u32) -> u32 {
        part(places, self.terms.share_max).max(1)
    }

    /// Where it is in the order of those that wait: the least is next.
    fn rank(&self) -> Rank {
        (Terms::PRIORITY_MAX.saturating_sub(self.terms.priority), self.standing())
    }

    fn priority(&self) -> usize {
        usize::try_from(self.terms.priority).unwrap_or(usize::MAX)
    }

    fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting == 0
    }
}

/// By priority.
type Clocks = [u64; PRIORITIES];

/// Priority, the highest as 0, and standing.
type Rank = (u32, u64);

/// So many per cent of the places, rounded down.
fn part(places: u32, percent: u32) -> u32 {
    u32::try_from(u64::from(places) * u64::from(percent) / 100).unwrap_or(u32::MAX)
}

/// The accounts of one hostgroup's tenants, and whose turn it is.
#[derive(Debug, Default)]
pub struct Accounts {
    /// By [`TenantId`].
    accounts: Vec<Account>,
    /// Those whose statements wait, by their rank.
    order: BTreeSet<(Rank, TenantId)>,
    /// Those that have a guaranteed share.
    guaranteed: Vec<TenantId>,
    /// The greatest standing at which a statement has begun, by priority. Never goes back.
    clocks: Clocks,
}

impl Accounts {
    /// Takes over what tenants are entitled to, by [`TenantId`]. What they have used stays.
    pub fn set_terms(&mut self, terms: &[Terms]) {
        let terms = terms.get(..TENANTS_MAX).unwrap_or(terms);
        self.guaranteed.clear();
        for (tenant, terms) in (0..).map(TenantId::new).zip(terms) {
            self.change(tenant, |account, _| account.terms = *terms);
            if terms.share_min > 0 {
                self.guaranteed.push(tenant);
            }
        }
    }

    /// Changes an account and keeps the order.
    fn change<R>(&mut self, tenant: TenantId, change: impl FnOnce(&mut Account, Clocks) -> R) -> R {
        if self.accounts.len() <= tenant.index() {
            self.accounts.resize(tenant.index() + 1, Account::default());
        }
        let mut none = Account::default();
        let account = self.accounts.get_mut(tenant.index()).unwrap_or(&mut none);
        let before = (account.waiting > 0).then(|| account.rank());
        let result = change(account, self.clocks);
        let after = (account.waiting > 0).then(|| account.rank());
        if before != after {
            before.map(|rank| self.order.remove(&(rank, tenant)));
            after.map(|rank| self.order.insert((rank, tenant)));
        }
        result
    }

    fn get(&self, tenant: TenantId) -> Account {
        self.accounts.get(tenant.index()).copied().unwrap_or_default()
    }

    /// A statement waits.
    pub fn wait(&mut self, tenant: TenantId, now_us: u64) {
        self.change(tenant, |account, clocks| {
            account.wake(clocks, now_us);
            if account.waiting == 0 {
                account.front_us = now_us.max(1);
            }
            account.waiting += 1;
        });
    }

    /// A statement waits no longer, whether it begins or not.
    pub fn leave(&mut self, tenant: TenantId) {
        self.change(tenant, |account, _| {
            debug_assert!(account.waiting > 0);
            account.waiting = account.waiting.saturating_sub(1);
        });
    }

    /// A statement begins on a server, `alone` on its connection or behind others.
    pub fn begin(&mut self, tenant: TenantId, alone: bool, now_us: u64) {
        let (priority, standing) = self.change(tenant, |account, clocks| {
            account.wake(clocks, now_us);
            let standing = account.standing();
            account.running += 1;
            account.alone += u32::from(alone);
            if account.front_us != 0 {
                let took_us = now_us.saturating_sub(account.front_us);
                account.turn_us = match account.turn_us {
                    0 => took_us,
                    turn_us => turn_us - turn_us / 8 + took_us / 8,
                };
                account.front_us = if account.waiting > 0 { now_us } else { 0 };
            }
            (account.priority(), standing)
        });
        if let Some(clock) = self.clocks.get_mut(priority) {
            *clock = (*clock).max(standing);
        }
    }

    /// A statement that had begun is over, and took the server so long.
    pub fn end(&mut self, tenant: TenantId, alone: bool, took_us: u64, now_us: u64) {
        self.change(tenant, |account, _| {
            // One that began before there were tenants was not counted.
            account.running = account.running.saturating_sub(1);
            account.alone = account.alone.saturating_sub(u32::from(alone));
            account.used = account.used.saturating_add(account.by_weight(took_us.max(1)));
            account.mean_us = match account.mean_us {
                0 => took_us,
                mean_us => mean_us - mean_us / 8 + took_us / 8,
            };
            account.active_ms = now_us / 1_000;
        });
    }

    /// Whether a statement of a tenant may begin now, whoever waits.
    pub fn may_begin(&self, tenant: TenantId, room: Room, now_us: u64) -> bool {
        let Some(places) = room.places else { return true };
        let account = self.get(tenant);
        if room.is_full() || account.alone >= account.ceiling(places) {
            return false;
        }
        account.alone < account.guaranteed(places)
            || room.taken.saturating_add(self.kept(tenant, places, now_us)) < places
    }

    /// Places that are kept free for others than this tenant.
    fn kept(&self, tenant: TenantId, places: u32, now_us: u64) -> u32 {
        let others = self.guaranteed.iter().filter(|other| **other != tenant);
        let others = others.map(|other| self.get(*other));
        let is_active =
            |account: &Account| account.waiting > 0 || account.active_ms + KEPT_MS > now_us / 1_000;
        others
            .filter(is_active)
            .map(|account| account.guaranteed(places).saturating_sub(account.alone))
            .fold(0, u32::saturating_add)
    }

    /// Those tenants that wait and may begin: first who has less than its guaranteed share, then by
    /// priority and standing.
    pub fn in_turn(&self, room: Room, now_us: u64) -> impl Iterator<Item = TenantId> + '_ {
        let lacks = move |tenant: &TenantId| {
            let account = self.get(*tenant);
            let guaranteed = room.places.map(|places| account.guaranteed(places));
            guaranteed.is_some_and(|guaranteed| account.alone < guaranteed)
        };
        let first = self.guaranteed.iter().copied();
        let first = first.filter(move |tenant| self.get(*tenant).waiting > 0 && lacks(tenant));
        let then = self.order.iter().map(|(_, tenant)| *tenant);
        first
            .chain(then.filter(move |tenant| !lacks(tenant)))
            .filter(move |tenant| self.may_begin(*tenant, room, now_us))
    }

    /// All tenants that wait, who is next first.
    pub fn waiting(&self) -> impl DoubleEndedIterator<Item = TenantId> + '_ {
        self.order.iter().map(|(_, tenant)| *tenant)
    }

    /// How long a statement of a tenant that begins to wait now will wait, as the tenant's turns
    /// have come lately, µs; 0 while nothing is known of that.
    pub fn expected_wait_us(&self, tenant: TenantId) -> u64 {
        let account = self.get(tenant);
        account.turn_us.saturating_mul(u64::from(account.waiting))
    }

    /// Statements of a tenant that run and that wait.
    pub fn counts(&self, tenant: TenantId) -> (u32, u32) {
        let account = self.get(tenant);
        (account.running, account.waiting)
    }
}

impl Account {
    /// It wants something again: what it did not use meanwhile is gone, but for its burst.
    fn wake(&mut self, clocks: Clocks, now_us: u64) {
        if self.is_idle() {
            let clock = clocks.get(self.priority()).copied().unwrap_or_default();
            let burst = self.by_weight(u64::from(self.terms.burst_ms) * 1_000);
            self.used = self.used.max(clock.saturating_sub(burst));
        }
        self.active_ms = now_us / 1_000;
    }
}

#[cfg(test)]
mod tests;
