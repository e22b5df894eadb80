//! Servers that do much worse than the others of their hostgroup: out, on trial, and in again.

use trunkline_topology::{
    Circuit, Evidence, HostgroupId, OutlierLimits, ServerState, Window, may_eject, worst,
};

use crate::{Pool, Slot, SlotId};

/// What was decided of a server that did worse than its peers, or has done so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is out for so long, ms.
    Ejected(u64, Evidence),
    /// It answered well on trial.
    Readmitted,
}

impl<C: Copy + PartialEq> Pool<C> {
    /// A second is over: decides of each server by what this worker's statements met there, and
    /// begins to count anew.
    pub fn judge(&mut self, now_us: u64, limits: &OutlierLimits) -> Vec<(SlotId, Verdict)> {
        let mut verdicts = Vec::new();
        let hostgroups: Vec<HostgroupId> = self.groups.keys().copied().collect();
        for hostgroup in hostgroups {
            verdicts.extend(self.judge_group(hostgroup, now_us / 1_000, limits));
        }
        for (_, slot) in &mut self.slots {
            let slow_looks = slot.seen.slow_looks;
            slot.seen = Window { slow_looks, ..Window::default() };
            slot.latency.second_over(now_us);
        }
        verdicts
    }

    fn judge_group(
        &mut self,
        hostgroup: HostgroupId,
        now_ms: u64,
        limits: &OutlierLimits,
    ) -> Vec<(SlotId, Verdict)> {
        let Some(group) = self.groups.get(&hostgroup) else { return Vec::new() };
        let places = group.slots.iter().copied();
        // Who has not the hostgroup's role in its cluster is no peer.
        let is_peer = |slot: &Slot| slot.server.weight > 0 && !slot.server.health.is_standby();
        let counts = |id: &SlotId| self.slots.get(id.0).is_some_and(is_peer);
        let ids: Vec<SlotId> = places.filter(counts).collect();
        let slots = ids.iter().filter_map(|id| self.slots.get(id.0));
        let mut seen: Vec<Window> = slots.map(|slot| slot.window(now_ms)).collect();
        for (at, id) in ids.iter().enumerate() {
            let has_news = seen.get(at).is_some_and(|it| it.is_in && it.answered > 0);
            let is_slow = has_news && limits.slowness(&seen, at).is_some();
            let Some(slot) = self.slots.get_mut(id.0) else { continue };
            slot.seen.slow_looks = if is_slow { slot.seen.slow_looks.saturating_add(1) } else { 0 };
            if let Some(it) = seen.get_mut(at) {
                it.slow_looks = slot.seen.slow_looks;
            }
        }
        let mut verdicts = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            let slot = self.slots.get(id.0);
            let verdict = slot.and_then(|slot| slot.end_trial(&seen, at, now_ms, limits));
            verdicts.extend(verdict.map(|verdict| (*id, verdict)));
        }
        verdicts.extend(self.eject_worst(&ids, &seen, now_ms, limits));
        verdicts
    }

    fn eject_worst(
        &self,
        ids: &[SlotId],
        seen: &[Window],
        now_ms: u64,
        limits: &OutlierLimits,
    ) -> Option<(SlotId, Verdict)> {
        let (at, evidence) = worst(seen, limits)?;
        let id = *ids.get(at)?;
        let ejection = self.slots.get(id.0)?.server.health.ejection();
        let out_ms = ejection.eject(now_ms, limits.base_ms)?;
        // Another worker may have ejected another one at the same time: then one of them stays.
        let slots = ids.iter().filter_map(|id| self.slots.get(id.0));
        let taking = slots.filter(|slot| slot.window(now_ms).is_in).count();
        if taking == 0 || !may_eject(ids.len(), taking + 1) {
            ejection.undo();
            return None;
        }
        Some((id, Verdict::Ejected(out_ms, evidence)))
    }
}

impl Slot {
    /// What was seen of it since it was looked at last.
    fn window(&self, now_ms: u64) -> Window {
        let health = &self.server.health;
        let is_online = health.state(now_ms) == ServerState::Online;
        let is_in = is_online && health.ejection().circuit(now_ms) == Circuit::Closed;
        Window { latency_us: self.latency.us(), is_in, ..self.seen }
    }

    /// What becomes of it where it is half open, and something was heard of what it was given.
    fn end_trial(
        &self,
        seen: &[Window],
        at: usize,
        now_ms: u64,
        limits: &OutlierLimits,
    ) -> Option<Verdict> {
        let ejection = self.server.health.ejection();
        if ejection.circuit(now_ms) != Circuit::HalfOpen {
            return None;
        }
        let own = seen.get(at)?;
        let evidence = match limits.slowness(seen, at) {
            _ if own.is_silent(1) => Evidence::Silent(own.stuck),
            _ if own.answered == 0 => return None,
            _ if own.failed > 0 => Evidence::Failed(own.failed, own.answered),
            Some(others_us) => Evidence::Slow(own.latency_us, others_us),
            None => {
                ejection.readmit(now_ms);
                return Some(Verdict::Readmitted);
            }
        };
        let out_ms = ejection.eject(now_ms, limits.base_ms)?;
        Some(Verdict::Ejected(out_ms, evidence))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trunkline_topology::Server;

    use super::*;
    use crate::{
        Asker,
        group::tests::{ASKER, GROUP, server},
    };

    const LIMITS: OutlierLimits =
        OutlierLimits { latency_factor: 5, failed_percent: 50, base_ms: 10_000 };
    const SECOND_US: u64 = 1_000_000;

    fn pool(servers: &[Arc<Server>]) -> Pool<u32> {
        let mut pool = Pool::new(7);
        pool.apply(servers.iter());
        pool.set_balance(1_600, [].into_iter());
        pool
    }

    fn servers(count: u16) -> Vec<Arc<Server>> {
        (1..=count).map(|port| server(port, 1, 10)).collect()
    }

    /// A second in which each server answers 100 statements, each in so long, and some fail.
    fn second(pool: &mut Pool<u32>, at_us: u64, did: &[(u64, u32)]) -> Vec<(usize, Verdict)> {
        for (at, (took_us, failed)) in did.iter().enumerate() {
            let slot = pool.slot_mut(SlotId(at)).expect("slot");
            if *took_us > 0 {
                slot.seen.answered = 100;
                (1..=20).for_each(|part| slot.latency.observe(*took_us, at_us - 20 + part));
            }
            slot.seen.failed = *failed;
        }
        pool.judge(at_us, &LIMITS).into_iter().map(|(id, verdict)| (id.index(), verdict)).collect()
    }

    fn shares(pool: &mut Pool<u32>, now_ms: u64, len: usize) -> Vec<u32> {
        let mut counts = vec![0; len];
        let asker = Asker { now_ms, ..ASKER };
        (0..300).for_each(|_| counts[pool.draw(GROUP, &asker).expect("one").index()] += 1);
        counts
    }

    #[test]
    fn a_slow_server_goes_after_two_looks_and_comes_back_by_one_good_answer() {
        let mut pool = pool(&servers(3));
        let slow = [(1_000, 0), (1_000, 0), (50_000, 0)];
        assert_eq!(second(&mut pool, 10 * SECOND_US, &slow), []);
        let out = Verdict::Ejected(10_000, Evidence::Slow(50_000, 1_000));
        assert_eq!(second(&mut pool, 11 * SECOND_US, &slow), [(2, out)]);
        assert_eq!(shares(&mut pool, 12_000, 3)[2], 0);
        let peers = [(1_000, 0), (1_000, 0), (0, 0)];
        for sec in 12..=21 {
            assert_eq!(second(&mut pool, sec * SECOND_US, &peers), [], "second {sec}");
        }
        // Half open: one statement at a time.
        let health = Arc::clone(&pool.slot(SlotId(2)).expect("slot").server.health);
        assert_eq!(health.ejection().circuit(21_500), Circuit::HalfOpen);
        pool.slot_mut(SlotId(2)).expect("slot").latency = Default::default();
        assert!(shares(&mut pool, 21_500, 3)[2] > 0);
        health.begin_statement();
        assert_eq!(shares(&mut pool, 21_500, 3)[2], 0);
        health.end_statement();
        let well = [(1_000, 0), (1_000, 0), (1_000, 0)];
        assert_eq!(second(&mut pool, 22 * SECOND_US, &well), [(2, Verdict::Readmitted)]);
        // Its share grows from a sixteenth.
        let early = shares(&mut pool, 22_000, 3)[2];
        assert!(early < 40, "{early}");
        let late = shares(&mut pool, 23_600, 3)[2];
        assert!(late > 60, "{late}");
    }

    #[test]
    fn a_trial_that_fails_takes_it_out_for_twice_as_long() {
        let mut pool = pool(&servers(3));
        let failing = [(1_000, 0), (1_000, 60), (1_000, 0)];
        let out = |ms| Verdict::Ejected(ms, Evidence::Failed(60, 100));
        assert_eq!(second(&mut pool, 10 * SECOND_US, &failing), [(1, out(10_000))]);
        assert_eq!(second(&mut pool, 19 * SECOND_US, &failing), []);
        assert_eq!(second(&mut pool, 21 * SECOND_US, &failing), [(1, out(20_000))]);
    }

    #[test]
    fn one_that_answers_nothing_is_ejected_and_stays_out_while_its_trial_is_not_answered() {
        let mut pool = pool(&servers(3));
        let silent = [(1_000, 0), (0, 0), (1_000, 0)];
        pool.slot_mut(SlotId(1)).expect("slot").seen.stuck = 3;
        let out = |ms, stuck| (1, Verdict::Ejected(ms, Evidence::Silent(stuck)));
        assert_eq!(second(&mut pool, 10 * SECOND_US, &silent), [out(10_000, 3)]);
        assert_eq!(second(&mut pool, 20 * SECOND_US, &silent), [], "nobody has tried it");
        pool.slot_mut(SlotId(1)).expect("slot").seen.stuck = 1;
        assert_eq!(second(&mut pool, 21 * SECOND_US, &silent), [out(20_000, 1)]);
    }

    #[test]
    fn neither_of_two_goes_and_one_alone_serves_whatever_it_did() {
        let mut two = pool(&servers(2));
        let bad = [(1_000, 0), (90_000, 100)];
        assert_eq!(second(&mut two, 10 * SECOND_US, &bad), []);
        assert_eq!(second(&mut two, 11 * SECOND_US, &bad), []);
        // The others went for other reasons after it was ejected.
        let servers = servers(3);
        let mut three = pool(&servers);
        let bad = [(1_000, 0), (1_000, 0), (1_000, 100)];
        assert_eq!(second(&mut three, 10 * SECOND_US, &bad).len(), 1);
        servers[0].health.shun(60_000);
        servers[1].health.shun(60_000);
        assert_eq!(shares(&mut three, 11_000, 3), [0, 0, 300]);
    }

    #[test]
    fn of_two_workers_that_eject_at_once_one_does() {
        let servers = servers(3);
        let (mut one, mut other) = (pool(&servers), pool(&servers));
        let first = second(&mut one, 10 * SECOND_US, &[(1_000, 100), (1_000, 0), (1_000, 0)]);
        let then = second(&mut other, 10 * SECOND_US, &[(1_000, 0), (1_000, 100), (1_000, 0)]);
        assert_eq!((first.len(), then.len()), (1, 0));
    }
}
