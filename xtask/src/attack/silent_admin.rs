//! Connections to the admin port that say nothing.

use std::collections::VecDeque;

use anyhow::Result;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "silent_admin",
    what: "1,000 connections to the admin port that say nothing",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 32, slower: 2.0, answers: &["gave way"] },
    run,
};

/// Connections that are wanted at a time.
const CONNECTIONS: u32 = 1_000;

fn run(field: &Field<'_>) -> Result<()> {
    let mut open = VecDeque::new();
    let most = field.within(CONNECTIONS) as usize;
    for number in 0_u32.. {
        if field.is_over() {
            break;
        }
        if open.len() == most {
            open.pop_front();
        }
        open.push_back(field.open(field.proxy.admin_port())?);
        if number % 1_000 == 999 {
            field.an_administrator_is_served()?;
        }
    }
    field.counted("gave way", "trunkline_admin_refusals_total", "cause=\"displaced\"")
}
