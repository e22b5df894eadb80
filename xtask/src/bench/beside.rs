//! A statement of 200 ms beside 256 clients with fast ones: what it does to their tail.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use trunkline_testkit::{Server, SqlClient};

use super::cell::{Cell, Probe};
use super::target::Target;
use super::{Arguments, USER, load_on};
use crate::interrupt::Interrupt;

/// Clients with fast statements.
const CLIENTS: u32 = 256;

/// What is beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    /// Always slow, and known to be.
    Known,
    /// Of a digest that nobody has seen.
    Unknown,
    /// Of a digest that is fast 50 times of 51.
    UsuallyFast,
}

const KINDS: [Kind; 4] = [Kind::Nothing, Kind::Known, Kind::Unknown, Kind::UsuallyFast];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Known => "known to be slow",
            Self::Unknown => "unknown",
            Self::UsuallyFast => "usually fast",
        }
    }

    fn statement(self, turn: u64) -> String {
        match self {
            Self::Unknown => format!("SELECT SLEEP(0.2) AS turn_{turn}"),
            Self::UsuallyFast if !turn.is_multiple_of(51) => "SELECT SLEEP(0.0)".to_owned(),
            Self::Nothing | Self::Known | Self::UsuallyFast => "SELECT SLEEP(0.2)".to_owned(),
        }
    }
}

/// The tail of the fast ones beside one kind.
#[derive(Debug)]
pub struct Beside {
    kind: Kind,
    cell: Cell,
    /// Statements of 200 ms that ran meanwhile.
    slow: u64,
}

/// All kinds, one after another; nothing if it is left out.
pub fn measure_all(
    arguments: &Arguments,
    server: &Server,
    target: &Target,
    interrupt: &Interrupt,
) -> Result<Vec<Beside>> {
    let mut found = Vec::new();
    if arguments.beside == 0 {
        return Ok(found);
    }
    println!("== a statement of 200 ms beside {CLIENTS} clients, {} s each", arguments.beside);
    let mut probe = Probe::new(server)?;
    for kind in KINDS {
        interrupt.check()?;
        let has_ended = AtomicBool::new(false);
        let beside = thread::scope(|scope| {
            let slow = scope.spawn(|| run_slow(target, kind, &has_ended));
            let load = load_on(target, arguments, CLIENTS);
            let cell = probe.measure(target, &load, 0, CLIENTS, arguments.beside);
            has_ended.store(true, Ordering::Relaxed);
            let slow = slow.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            anyhow::Ok(Beside { kind, cell: cell?, slow: slow? })
        })
        .with_context(|| format!("beside a slow statement: {}", kind.name()))?;
        let Cell { p50_ms, p99_ms, p999_ms, max_ms, .. } = beside.cell;
        println!(
            "   {:<16} p50 {p50_ms:>7.2}  p99 {p99_ms:>7.2}  p99.9 {p999_ms:>7.2}  \
             most {max_ms:>7.1} ms",
            kind.name()
        );
        found.push(beside);
    }
    Ok(found)
}

/// Runs statements of one kind until told to stop; how many of them were slow.
fn run_slow(target: &Target, kind: Kind, has_ended: &AtomicBool) -> Result<u64> {
    if kind == Kind::Nothing {
        return Ok(0);
    }
    let mut client = SqlClient::tcp(target.port, USER, USER, "sbtest")?;
    let mut slow = 0;
    for turn in 1.. {
        if has_ended.load(Ordering::Relaxed) {
            break;
        }
        let statement = kind.statement(turn);
        slow += u64::from(statement.contains("0.2"));
        client.sql(&statement)?;
    }
    Ok(slow)
}

/// The table.
pub fn markdown(found: &[Beside]) -> String {
    let mut text = format!(
        "\nA statement of 200 ms beside {CLIENTS} clients, ms:\n\n\
         | the statement | times | p50 | p99 | p99.9 | most |\n|---|---:|---:|---:|---:|---:|\n"
    );
    for Beside { kind, cell, slow } in found {
        let Cell { p50_ms, p99_ms, p999_ms, max_ms, .. } = cell;
        text.push_str(&format!(
            "| {} | {slow} | {p50_ms:.2} | {p99_ms:.2} | {p999_ms:.2} | {max_ms:.1} |\n",
            kind.name()
        ));
    }
    text
}

/// One row for the JSON file.
pub fn to_json(beside: &Beside) -> Value {
    let Cell { p50_ms, p99_ms, p999_ms, max_ms, qps, .. } = beside.cell;
    json!({
        "statement": beside.kind.name(), "times": beside.slow, "qps": qps, "p50_ms": p50_ms,
        "p99_ms": p99_ms, "p999_ms": p999_ms, "max_ms": max_ms,
    })
}
