//! Who does not get to whom: partitions between any two ends, and the monitor, whose way to a
//! server is not the traffic's.

use super::{Fault, MonitorSpec, Plan};
use crate::{HostId, Micros, rng::Rng};

/// When ends are parted, µs.
const SPAN_US: Micros = 1_500_000;
/// How long at the most, µs.
const APART_MAX_US: Micros = 500_000;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if rng.chance(1, 3) {
        plan.monitor = Some(MonitorSpec {
            every_us: rng.pick(&[5_000, 50_000, 200_000]).copied().unwrap_or(50_000),
            misses_max: rng.pick(&[1, 3]).copied().unwrap_or(1),
        });
        let lag_max = rng.pick(&[1, 20, 100]).copied().unwrap_or(20);
        limit_lag(&mut rng.split("lag", 0), plan, lag_max);
    }
    if !rng.chance(1, 4) {
        return;
    }
    for _ in 0..rng.between(1, 3) {
        let at = rng.below(SPAN_US);
        let fault = part(rng, plan);
        plan.faults.push((at, fault));
    }
}

/// Readers may lag by so much.
fn limit_lag(rng: &mut Rng, plan: &mut Plan, lag_max: u32) {
    let looks = rng.pick(&[1, 1, 3]).copied().unwrap_or(1);
    let unknown = rng.pick(&[60, 0, 1_000]).copied().unwrap_or(60);
    for config in &mut plan.configs {
        config.settings.insert("monitor_replication_lag_count", looks);
        config.settings.insert("monitor_slave_lag_when_null", unknown);
        let is_writers = |group| config.users.iter().any(|user| user.hostgroup == group);
        for server in config.servers.iter_mut().filter(|server| !is_writers(server.hostgroup)) {
            server.lag_max = lag_max;
        }
    }
}

fn part(rng: &mut Rng, plan: &Plan) -> Fault {
    let host = HostId(rng.index(plan.cluster.hosts.len()));
    let us = rng.between(1_000, APART_MAX_US);
    match rng.below(4) {
        0 => Fault::PartitionAll(us),
        1 => {
            let parts = rng.index(3) + 2;
            Fault::CutOffClients(rng.index(parts), parts, us)
        }
        2 => Fault::CutOffWorker(rng.index(plan.workers), host, us),
        _ => Fault::CutOffMonitor(host, us),
    }
}
