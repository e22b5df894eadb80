//! A result with more columns than fit into two bytes.

use anyhow::{Result, bail};

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "columns",
    what: "a SELECT of 70,000 columns, one after the other",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 64, slower: 2.0, answers: &["result of 70000 columns"] },
    run,
};

/// Columns, which MariaDB sends; their definitions, a row and two EOFs.
const COLUMNS: usize = 70_000;

fn run(field: &Field<'_>) -> Result<()> {
    let statement = format!("SELECT {}", vec!["1"; COLUMNS].join(","));
    let mut peer = field.log_in()?;
    while !field.is_over() {
        if let Err(answer) = peer.command(0x03, statement.as_bytes())? {
            bail!("the statement was not taken: {answer}");
        }
        match peer.result()? {
            Ok(packets) if packets == COLUMNS as u64 + 4 => {
                field.answered(format!("result of {COLUMNS} columns"));
            }
            Ok(packets) => bail!("a result of {packets} packets"),
            Err(answer) => bail!("the statement was answered with {answer}"),
        }
    }
    Ok(())
}
