//! Settings that came to the proxy later, and change no answer of the world: causal reads, the
//! outcomes of lost `COMMIT`s, the slow log, ranks of servers, and digests with more or less in
//! them.

use super::Plan;
use crate::rng::Rng;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if rng.chance(1, 3) {
        read_causally(rng, plan);
    }
    let finds_outcomes = rng.chance(1, 4);
    let has_slow_log = rng.chance(1, 4);
    let digits = rng.chance(1, 6);
    for config in &mut plan.configs {
        if finds_outcomes {
            config.words.insert("commit_outcome", "\"auto\"".into());
        }
        if has_slow_log {
            config.words.insert("slow_log", "\"slow.log\"".into());
            config
                .settings
                .insert("slow_log_threshold", rng.pick(&[0, 1, 5]).copied().unwrap_or(0));
        }
        if digits {
            config.words.insert("query_digests_no_digits", "true".into());
        }
        if rng.chance(1, 5) {
            config.servers.iter_mut().for_each(|server| server.rank = u32::from(rng.chance(1, 2)));
        }
    }
}

/// Reads see what their session, their user or anybody has written. No replica has ever told what
/// it has, so that they wait for as long as they may, and go to the writer or run all the same.
fn read_causally(rng: &mut Rng, plan: &mut Plan) {
    let scope = rng
        .pick(&["\"session\"", "\"user\"", "\"global\"", "\"bounded:5\""])
        .copied()
        .unwrap_or("\"session\"");
    let fallback = rng.pick(&["\"writer\"", "\"writer\"", "\"stale\""]).copied();
    for config in &mut plan.configs {
        config.words.insert("causal_reads", scope.into());
        config.words.insert("causal_fallback", fallback.unwrap_or("\"writer\"").into());
        config.settings.insert("causal_wait_ms", rng.pick(&[0, 1, 20]).copied().unwrap_or(0));
    }
}
