//! Connections that say nothing.

use std::collections::VecDeque;

use anyhow::Result;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "silent",
    what: "10,000 connections that say nothing, opened anew when they are closed",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 96, slower: 2.0, answers: &["gave way"] },
    run,
};

/// Connections that are wanted at a time.
const CONNECTIONS: u32 = 10_000;

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
        open.push_back(field.open(field.proxy.port())?);
        if number % 1_000 == 999 {
            field.a_newcomer_is_served()?;
        }
    }
    field.counted("gave way", "trunkline_client_refusals_total", "cause=\"half_open\"")
}
