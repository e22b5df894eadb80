//! What is watched and nothing more: a firewall that detects, and rules that log.

use super::Plan;
use crate::rng::Rng;

/// A rule behind all others, which logs what it meets and changes nothing.
const LOGGED: &str = "[[rule]]\nid = 2000\nmatch_pattern = \"kv\"\nlog = true\n";
/// Of whom nothing is on the firewall's lists.
const DETECTED: [&str; 4] = ["app", "web", "batch", "direct"];

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if rng.chance(1, 6) {
        plan.configs.iter_mut().for_each(|config| config.tables.push_str(LOGGED));
    }
    if rng.chance(1, 6) {
        for config in &mut plan.configs {
            config.words.insert("firewall_whitelist_enabled", "true".into());
            for name in DETECTED {
                let table =
                    format!("[[firewall_user]]\nusername = \"{name}\"\nmode = \"DETECTING\"\n");
                config.tables.push_str(&table);
            }
        }
    }
}
