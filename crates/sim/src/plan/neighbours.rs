//! Proxies that share what they have stored, in a cache that is slow at times, and at times is not
//! there.

use super::{Act, Fault, Plan};
use crate::{Micros, rng::Rng};

/// While so long things are done, µs.
const SPAN_US: Micros = 1_500_000;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan, has_faults: bool) {
    let stores = plan.configs.iter().any(|config| config.cache_ttl_ms.is_some());
    if !stores || rng.chance(1, 3) {
        return;
    }
    for _ in 0..rng.below(3) {
        plan.acts.push((rng.below(SPAN_US), Act::Flush));
    }
    if rng.chance(1, 4) {
        return;
    }
    plan.shares_answers = true;
    let timeout_ms = rng.pick(&[20, 3]).copied().unwrap_or(20);
    let soft_pct = rng.pick(&[0, 50]).copied().unwrap_or(0);
    for config in &mut plan.configs {
        config.settings.insert("query_cache_redis_timeout", timeout_ms);
        config.settings.insert("query_cache_soft_ttl_pct", soft_pct);
    }
    for _ in 0..rng.between(5, 60) {
        plan.acts.push((rng.below(SPAN_US), Act::Forget));
    }
    for _ in 0..if has_faults { rng.below(3) } else { 0 } {
        let for_us = rng.between(1_000, 500_000);
        plan.faults.push((rng.below(SPAN_US), Fault::NoNeighbours(for_us)));
    }
}
