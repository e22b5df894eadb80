//! Who encrypts: clients, connections to servers, or both.

use super::Plan;
use crate::rng::Rng;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 4) {
        return;
    }
    plan.offers_tls = rng.chance(3, 4);
    let has_tls = rng.chance(3, 4);
    plan.cluster.hosts.iter_mut().for_each(|host| host.offers_tls = has_tls);
    // One that has none can't be required to.
    let words: &[Option<&'static str>] = match has_tls {
        true => &[None, Some("preferred"), Some("required")],
        false => &[None, Some("preferred")],
    };
    let mut word = rng.pick(words).copied().flatten();
    for config in &mut plan.configs {
        if rng.chance(1, 6) {
            word = rng.pick(words).copied().flatten();
        }
        config.servers.iter_mut().for_each(|server| server.tls = word);
    }
    for client in &mut plan.clients {
        client.encrypts = rng.chance(1, 2);
    }
}
