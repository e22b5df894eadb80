//! What operators have written down: the query log, of which the lines are text or digests, and the
//! audit log.

use super::Plan;
use crate::rng::Rng;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 4) {
        return;
    }
    let redact = if rng.chance(1, 3) { "true" } else { "false" };
    let threshold = rng.pick(&[0, 0, 1, 5]).copied().unwrap_or_default();
    let sample = rng.pick(&[1, 1, 3]).copied().unwrap_or(1);
    for config in &mut plan.configs {
        config.words.insert("audit_log", "\"audit.log\"".into());
        config.words.insert("query_log", "\"query.log\"".into());
        config.words.insert("query_log_all", "true".into());
        config.words.insert("query_log_redact", redact.into());
        config.settings.insert("query_log_threshold", threshold);
        config.settings.insert("query_log_sample", sample);
    }
}
