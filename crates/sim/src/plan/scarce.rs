//! Long statements, of which several at once are more than the budget of memory
//! (`memory_max`): clients wait for their turn, are refused, or give way.

use super::Plan;
use crate::{
    Micros,
    client::{ClientSpec, Deed, Step},
    rng::Rng,
    statement::{Act, Statement, Tag},
};

/// Tags of what is added begin here; nothing else comes so far.
const TAGS_FROM: u64 = 980_000;
/// They come within this time, µs.
const GATHER_US: Micros = 40_000;
/// Bytes of the longest text.
const TEXT_MAX: u64 = 400_000;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 16) {
        return;
    }
    plan.memory_max = rng.pick(&[600_000, 1_200_000, 3_000_000]).copied();
    let mut tags = TAGS_FROM;
    for client in plan.clients.iter_mut().filter(|client| !client.is_direct) {
        if rng.chance(2, 3) {
            say_much(rng, client, &mut tags);
        }
    }
}

/// A few long texts, between them what shows whether the session has gone on.
fn say_much(rng: &mut Rng, client: &mut ClientSpec, tags: &mut u64) {
    client.starts_us = rng.below(GATHER_US);
    let mut steps = Vec::new();
    for _ in 0..rng.between(1, 3) {
        let len = usize::try_from(rng.between(20_000, TEXT_MAX)).unwrap_or_default();
        for act in [Act::Length { text: "m".repeat(len) }, Act::Database] {
            *tags += 1;
            let statement = Statement::new(Tag::new(client.place, *tags), act);
            steps.push(Step { pause_us: rng.below(2_000), deed: Deed::Query(vec![statement]) });
        }
    }
    client.script.splice(0..0, steps);
}
