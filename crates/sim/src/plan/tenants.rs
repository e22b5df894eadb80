//! Servers that run few statements at once, and tenants that take turns.

use super::Plan;
use crate::rng::Rng;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 5) {
        return;
    }
    let concurrency = rng.pick(&["2", "3", "8", "\"auto\""]).copied().unwrap_or("2");
    let scope = rng.weighted(&[(4, "\"user\""), (2, "\"schema\""), (1, "\"off\"")]).copied();
    let share_max = rng.pick(&[100, 100, 50, 1]).copied().unwrap_or(100);
    let weight = rng.pick(&[1, 7]).copied().unwrap_or(1);
    for config in &mut plan.configs {
        config.words.insert("server_concurrency", concurrency.into());
        config.words.insert("tenant_by", scope.unwrap_or("\"user\"").into());
        config.tables.push_str(&format!(
            "[[tenant]]\nname = \"app\"\nweight = {weight}\nshare_max = {share_max}\n\
             [[tenant]]\nname = \"web\"\nshare_min = 30\nburst_ms = 0\n"
        ));
    }
}
