//! Once a second: servers that do much worse than the others of their hostgroup go, and come back.

use trunkline_pool::{SlotId, Verdict};
use trunkline_topology::OutlierLimits;

use crate::rooms::Core;

/// A statement that has run for this long has run for all of the time since the last look, µs.
const LOOK_US: u64 = 1_000_000;

impl Core {
    /// Decides of each server by what its statements met in the last second.
    pub(crate) fn judge_servers(&mut self) {
        let settings = &self.env.snapshot.settings;
        let limits = OutlierLimits {
            latency_factor: settings.outlier_latency_factor,
            failed_percent: settings.outlier_failed_percent,
            base_ms: settings.outlier_ejection_ms,
        };
        self.count_unanswered();
        for (slot, verdict) in self.servers.pool.judge(self.env.now.us, &limits) {
            self.tell_verdict(slot, verdict);
        }
        self.fx.stats.counters.statements_spilled += self.servers.pool.take_spilled();
    }

    fn count_unanswered(&mut self) {
        let since_us = self.env.now.us.saturating_sub(LOOK_US);
        let (conns, pool) = (&mut self.servers.conns, &mut self.servers.pool);
        conns.for_each(|_, conn| {
            let is_stuck = (1..since_us).contains(&conn.holder.busy_since_us);
            if let Some(slot) = pool.slot_mut(conn.slot).filter(|_| is_stuck) {
                slot.seen.stuck += 1;
            }
        });
    }

    fn tell_verdict(&mut self, slot: SlotId, verdict: Verdict) {
        let Some(slot) = self.servers.pool.slot(slot) else { return };
        let key = slot.server.key.clone();
        let named = || format!("server {} of hostgroup {}", key.address, key.hostgroup);
        match verdict {
            Verdict::Ejected(out_ms, evidence) => {
                self.fx.stats.counters.servers_ejected += 1;
                self.fx.log(true, || format!("{} ejected for {out_ms} ms: {evidence}", named()));
            }
            Verdict::Readmitted => {
                self.fx.stats.counters.servers_readmitted += 1;
                self.fx.log(false, || format!("{} answers well and is back", named()));
            }
        }
    }
}
