//! Limits on rates: statements wait for a token, and some are refused.

use super::{LimitSpec, Plan, RuleSpec};
use crate::rng::Rng;

/// What is refused when it comes too often: reads that leave nothing behind.
const OFTEN: &str = "LENGTH";

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 6) {
        return;
    }
    let scope = rng.pick(&["user", "digest"]).copied().unwrap_or("user");
    let rate = rng.pick(&[400, 2_000]).copied().unwrap_or(400);
    for config in &mut plan.configs {
        config.rules.push(RuleSpec { contains: Some(OFTEN), ..RuleSpec::default() });
        config.limits = Some(LimitSpec { scope, rate, contains: OFTEN });
    }
}
