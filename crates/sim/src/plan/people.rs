//! What operators do to users and to single workers while sessions live.

use super::{Act, Plan};
use crate::{Micros, rng::Rng};

/// When a worker is told to stop, µs.
const SPAN_US: Micros = 1_500_000;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if plan.configs.len() > 1 && rng.chance(1, 2) {
        change_user(rng, plan);
    }
    if plan.workers > 1 && rng.chance(1, 8) {
        let worker = rng.index(plan.workers);
        plan.acts.push((rng.below(SPAN_US), Act::StopWorker(worker, rng.between(0, 1_000))));
    }
}

/// A user comes, goes, or gets another password with one of the configurations.
fn change_user(rng: &mut Rng, plan: &mut Plan) {
    let Some(user) = plan.configs.first().and_then(|config| rng.pick(&config.users)) else {
        return;
    };
    let name = user.name.clone();
    let changed = 1 + rng.index(plan.configs.len() - 1);
    match rng.below(3) {
        // It is not there yet.
        0 => {
            for config in plan.configs.iter_mut().take(changed) {
                config.users.retain(|user| user.name != name);
            }
        }
        // It goes, and may come back.
        1 => {
            let back = changed + 1 + rng.index(plan.configs.len());
            for config in plan.configs.iter_mut().take(back).skip(changed) {
                config.users.retain(|user| user.name != name);
            }
        }
        _ => change_password(rng, plan, &name, changed),
    }
}

/// Servers take both passwords all the time; of the clients, some know the new one only.
fn change_password(rng: &mut Rng, plan: &mut Plan, name: &str, changed: usize) {
    let new = format!("{name} has another");
    for config in plan.configs.iter_mut().skip(changed) {
        let users = config.users.iter_mut().filter(|user| user.name == name);
        users.for_each(|user| user.password.clone_from(&new));
    }
    for account in plan.cluster.accounts.iter_mut().filter(|account| account.user == name) {
        account.second = Some(new.clone());
    }
    for client in plan.clients.iter_mut().filter(|client| client.identity.user == name) {
        if client.refusal.is_none() && rng.chance(1, 2) {
            client.identity.password.clone_from(&new);
        }
    }
}
