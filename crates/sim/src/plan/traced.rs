//! A collector of spans: workers write down what becomes of statements.

use super::Plan;
use crate::rng::Rng;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 4) {
        return;
    }
    let sample = rng.pick(&["0.0", "0.3", "1.0"]).copied().unwrap_or("1.0");
    let slow_ms = rng.pick(&[0, 1, 5]).copied().unwrap_or_default();
    for config in &mut plan.configs {
        config.words.insert("trace_otlp", "\"http://collector:4318\"".into());
        config.words.insert("trace_sample", sample.into());
        config.settings.insert("trace_slow_ms", slow_ms);
    }
}
