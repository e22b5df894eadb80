//! Settings that came to the proxy later, and change no answer of the world: causal reads, the
//! outcomes of lost `COMMIT`s, transactions that are repeated, the slow log, and ranks of servers.

use super::{Act, Plan};
use crate::{Micros, rng::Rng};

/// While so long clients come, µs.
const SPAN_US: Micros = 1_500_000;
/// The longest pause of a hostgroup, ms.
const PAUSE_MS_MAX: u64 = 60;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if rng.chance(1, 3) {
        read_causally(rng, plan);
    }
    if rng.chance(1, 6) {
        let servers = plan.configs.first().map_or(&[][..], |config| config.servers.as_slice());
        if let Some(server) = rng.pick(servers) {
            let (at, for_ms) = (rng.below(SPAN_US), rng.between(1, PAUSE_MS_MAX));
            plan.acts.push((at, Act::Pause(server.hostgroup, for_ms)));
        }
    }
    let finds_outcomes = rng.chance(1, 4);
    let has_slow_log = rng.chance(1, 4);
    let repeats = rng.chance(1, 4);
    for config in &mut plan.configs {
        if finds_outcomes {
            config.words.insert("commit_outcome", "\"auto\"".into());
            let times_ms = [100, 400, 3_000];
            let time_ms = rng.pick(&times_ms).copied().unwrap_or(400);
            config.settings.insert("commit_outcome_timeout", time_ms);
        }
        if has_slow_log {
            config.words.insert("slow_log", "\"slow.log\"".into());
            config
                .settings
                .insert("slow_log_threshold", rng.pick(&[0, 1, 5]).copied().unwrap_or(0));
        }
        if repeats {
            config.words.insert("transaction_replay", "true".into());
        }
        if rng.chance(1, 5) {
            config.servers.iter_mut().for_each(|server| server.rank = u32::from(rng.chance(1, 2)));
        }
    }
}

/// Reads see what their session, their user or anybody has written, or what is older than a bound.
/// Servers are followed now and then, by time alone: what waits for a transaction waits in vain,
/// and goes to the writer or runs all the same.
fn read_causally(rng: &mut Rng, plan: &mut Plan) {
    let scope = rng
        .pick(&["\"session\"", "\"user\"", "\"global\"", "\"bounded:5\""])
        .copied()
        .unwrap_or("\"session\"");
    let fallback = rng.pick(&["\"writer\"", "\"writer\"", "\"stale\""]).copied();
    for _ in 0..rng.below(40) {
        plan.acts.push((rng.below(SPAN_US), Act::Follow));
    }
    for config in &mut plan.configs {
        config.words.insert("causal_reads", scope.into());
        config.words.insert("causal_fallback", fallback.unwrap_or("\"writer\"").into());
        config.settings.insert("causal_wait_ms", rng.pick(&[0, 1, 20]).copied().unwrap_or(0));
    }
}
