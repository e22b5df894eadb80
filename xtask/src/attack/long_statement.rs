//! A literal of sixty megabytes, again and again.

use anyhow::Result;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "long_statement",
    what: "one client, a SELECT with a literal of 60 MB, one after the other",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 256, slower: 2.0, answers: &["OK"] },
    run,
};

fn run(field: &Field<'_>) -> Result<()> {
    let statement = format!("DO LENGTH('{}')", "x".repeat(60 << 20));
    let mut peer = field.log_in()?;
    while !field.is_over() {
        field.answered(peer.ask(&statement)?);
    }
    Ok(())
}
