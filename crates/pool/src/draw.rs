//! The server that a statement goes to, among those of a hostgroup.

use slab::Slab;
use trunkline_topology::{Address, Ejection, HostgroupId, RefusalCause, ServerState, Servers};

use crate::{Asker, Only, Pool, Slot, SlotId};

/// How often shunned servers are tried where nothing else takes statements, ms.
const TRY_EVERY_MS: u64 = 200;

/// The servers of a hostgroup, or those of a tier, as a choice sees them.
struct View<'a> {
    slots: &'a Slab<Slot>,
    ids: &'a [SlotId],
    now_ms: u64,
    slow_start_ms: u64,
    /// Only servers of this tier.
    tier: Option<Tier>,
    /// Servers that are out because they did worse than their peers count as well: nothing else
    /// is left.
    is_lenient: bool,
    /// Only these servers.
    only: Option<Only>,
}

/// Which servers come first: those of the lowest rank, and of these the near ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tier {
    pub(crate) rank: u32,
    pub(crate) is_far: bool,
}

impl View<'_> {
    #[inline]
    fn slot(&self, at: usize) -> Option<&Slot> {
        self.slots.get(self.ids.get(at)?.0)
    }

    /// The first tier that has a server which takes statements, from `least` on.
    fn first_tier(&self, least: Tier) -> Option<Tier> {
        let usable = (0..self.ids.len()).filter(|at| self.weight(*at) > 0);
        let tiers = usable.filter_map(|at| self.slot(at)).map(Slot::tier);
        tiers.filter(|tier| *tier >= least).min()
    }
}

impl Servers for View<'_> {
    #[inline]
    fn len(&self) -> usize {
        self.ids.len()
    }

    #[inline]
    fn weight(&self, at: usize) -> u64 {
        let Some(slot) = self.slot(at) else { return 0 };
        if self.only.is_some_and(|only| !only.has(at)) {
            return 0;
        }
        let health = &slot.server.health;
        let parts = match self.is_lenient {
            true if health.state(self.now_ms) == ServerState::Online => Ejection::PARTS,
            true => 0,
            false => health.parts(self.now_ms, self.slow_start_ms),
        };
        match self.tier {
            Some(tier) if tier != slot.tier() => 0,
            _ => u64::from(slot.server.weight) * parts,
        }
    }

    #[inline]
    fn in_flight(&self, at: usize) -> u64 {
        self.slot(at).map_or(0, |slot| u64::from(slot.server.health.in_flight()))
    }

    #[inline]
    fn latency(&self, at: usize) -> u64 {
        self.slot(at).map_or(0, |slot| slot.latency.fine())
    }

    fn address(&self, at: usize) -> Option<&Address> {
        self.slot(at).map(|slot| &slot.server.key.address)
    }
}

impl<C: Copy + PartialEq> Pool<C> {
    /// Whether a server takes statements, those of its peers or those that are for it alone.
    pub(crate) fn is_usable(&self, id: SlotId, now_ms: u64) -> bool {
        self.slots.get(id.0).is_some_and(|slot| {
            slot.server.weight > 0 && slot.server.health.state(now_ms) == ServerState::Online
        })
    }

    /// Somebody waits for a hostgroup in which nothing takes statements: those that are shunned are
    /// tried, every 200 ms, though their time is not over. Whether any is.
    pub fn try_shunned(&mut self, hostgroup: HostgroupId, now_ms: u64) -> bool {
        if self.has_online(hostgroup, now_ms) {
            return false;
        }
        let Some(group) = self.groups.get_mut(&hostgroup) else { return false };
        if now_ms < group.tried_ms + TRY_EVERY_MS {
            return false;
        }
        group.tried_ms = now_ms;
        let slots = group.slots.iter().filter_map(|id| self.slots.get(id.0));
        slots.for_each(|slot| slot.server.health.end_shun(now_ms));
        self.has_online(hostgroup, now_ms)
    }

    /// Whether a hostgroup has another server than this one that takes statements.
    pub fn has_other_online(&self, than: SlotId, hostgroup: HostgroupId, now_ms: u64) -> bool {
        let Some(group) = self.groups.get(&hostgroup) else { return false };
        group.slots.iter().any(|id| *id != than && self.is_usable(*id, now_ms))
    }

    /// The servers of a hostgroup that take statements, in the order in which they come into
    /// question.
    pub(crate) fn online(&self, hostgroup: HostgroupId, now_ms: u64) -> Vec<SlotId> {
        let Some(group) = self.groups.get(&hostgroup) else { return Vec::new() };
        let slots = group.slots.iter().copied();
        let online: Vec<SlotId> = slots.filter(|id| self.is_usable(*id, now_ms)).collect();
        let is_in = |id: &SlotId| {
            let slot = self.slots.get(id.0);
            slot.is_some_and(|slot| slot.server.health.parts(now_ms, self.slow_start_ms) > 0)
        };
        let mut chosen: Vec<SlotId> = online.iter().copied().filter(is_in).collect();
        if chosen.is_empty() {
            chosen = online;
        }
        if group.has_tiers {
            let tier = |id: &SlotId| self.slots.get(id.0).map(Slot::tier);
            chosen.sort_by_key(tier);
            let rank = |id: &SlotId| tier(id).map(|tier| tier.rank);
            let first = chosen.first().and_then(rank);
            chosen.retain(|id| rank(id) == first);
        }
        chosen
    }

    /// The server of a hostgroup that a statement goes to.
    #[inline]
    pub(crate) fn draw(
        &mut self,
        hostgroup: HostgroupId,
        asker: &Asker,
    ) -> Result<SlotId, RefusalCause> {
        let Some(group) = self.groups.get(&hostgroup).filter(|group| !group.slots.is_empty())
        else {
            return Err(RefusalCause::NoServer);
        };
        let mut view = View {
            slots: &self.slots,
            ids: &group.slots,
            now_ms: asker.now_ms,
            slow_start_ms: self.slow_start_ms,
            tier: None,
            is_lenient: false,
            only: None,
        };
        if group.is_special || asker.only.is_some() {
            return match group.is_paused {
                true => Err(RefusalCause::NoneOnline),
                false => self.draw_by_tier(hostgroup, asker),
            };
        }
        if let [only] = *group.slots
            && view.weight(0) > 0
        {
            return Ok(only);
        }
        let mut drawn = group.balance.choose(&view, &mut self.draws, asker.source);
        if drawn.is_none() {
            view.is_lenient = true;
            drawn = group.balance.choose(&view, &mut self.draws, asker.source);
        }
        let drawn = drawn.and_then(|at| group.slots.get(at).copied());
        drawn.ok_or(RefusalCause::NoneOnline)
    }

    /// The server of a hostgroup whose servers are of several ranks, or far and near: one of the
    /// lowest rank, a near one as long as that has room.
    fn draw_by_tier(
        &mut self,
        hostgroup: HostgroupId,
        asker: &Asker,
    ) -> Result<SlotId, RefusalCause> {
        let Self { slots, groups, draws, slow_start_ms, spilled, .. } = self;
        let group = groups.get(&hostgroup).ok_or(RefusalCause::NoServer)?;
        let (now_ms, slow_start_ms) = (asker.now_ms, *slow_start_ms);
        for is_lenient in [false, true] {
            let ids = &group.slots;
            let only = asker.only;
            let view = |tier| View { slots, ids, now_ms, slow_start_ms, tier, is_lenient, only };
            let first = view(None).first_tier(Tier { rank: 0, is_far: false });
            let Some(first) = first else { continue };
            let mut draw = |tier: Tier| {
                let at = group.balance.choose(&view(Some(tier)), draws, asker.source)?;
                ids.get(at).copied()
            };
            let Some(near) = draw(first) else { continue };
            let far = Tier { is_far: true, ..first };
            if first.is_far || view(None).first_tier(far) != Some(far) {
                return Ok(near);
            }
            let further = draw(far);
            let has_room = slots.get_mut(near.0).is_some_and(Slot::takes_more);
            return Ok(match further {
                Some(further) if !has_room => {
                    *spilled += 1;
                    further
                }
                _ => near,
            });
        }
        Err(RefusalCause::NoneOnline)
    }

    /// Statements that went to far servers as near ones had no room, since this was asked last.
    pub fn take_spilled(&mut self) -> u64 {
        std::mem::take(&mut self.spilled)
    }
}
