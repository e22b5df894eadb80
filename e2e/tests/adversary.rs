//! A few programs of the adversary: those that differed once, and some by fixed seeds. `cargo xtask
//! adversary` draws others.

use anyhow::{Result, bail};
use trunkline_adversary::{Finding, Hunt, Plan, Wish};
use trunkline_testkit::{Flavour, mariadb_available, mysql_available, skipped};

/// Programs that differed once.
const ONCE: &str = include_str!("adversary/once.txt");

/// The seeds of each family.
const SEEDS: [u64; 2] = [30_000, 30_001];

/// Words of lines that are left out, each for a known plain difference: docs/internals/adversary.md
/// lists them with their scripts.
const AVOIDED: [&str; 13] = [
    // Columns of expressions over `@@last_gtid` have another name.
    "@@last_gtid",
    // MySQL's warning that `FOUND_ROWS()` is deprecated; counts that stored code asks for.
    "FOUND_ROWS",
    "ROW_COUNT",
    "v_lid2",
    // It shows the proxy's own statements.
    "optimizer_trace",
    // Conditions, and how many there are, behind statements that leave them as they are.
    "GET DIAGNOSTICS",
    "SHOW COUNT",
    "@@warning_count",
    // With a split a reader refuses with 1290 what the transaction forbids with 1792.
    "READ ONLY",
    // The proxy does not prepare a `KILL`.
    "KILL QUERY CONNECTION_ID",
    "KILL CONNECTION_ID",
    // MariaDB's character set behind a change of user that failed.
    ".user nobody",
    // A session takes over global variables that were set after it began.
    "SET GLOBAL autocommit",
];

fn nothing_differs(family: Flavour) -> Result<()> {
    let avoid = AVOIDED.map(str::to_owned).to_vec();
    let mut hunt = Hunt::start(family, Wish { avoid, ..Wish::default() }, false)?;
    let plans = Plan::read_all(ONCE)?;
    for (number, plan) in (0..).zip(plans.iter().filter(|plan| plan.family == family)) {
        none(hunt.plan(number, plan)?)?;
    }
    for seed in SEEDS {
        none(hunt.seed(seed)?)?;
    }
    let tally = hunt.tally;
    println!("{}: {} programs, {} statements", family.name(), tally.programs, tally.statements);
    Ok(())
}

fn none(finding: Option<Finding>) -> Result<()> {
    match finding {
        None => Ok(()),
        Some(found) => bail!("{} differs\n{}\n{}", found.seed, found.plan, found.difference),
    }
}

#[test]
fn programs_are_answered_as_directly_by_mariadb() -> Result<()> {
    if let Err(reason) = mariadb_available() {
        skipped("adversary", &reason);
        return Ok(());
    }
    nothing_differs(Flavour::MariaDb)
}

#[test]
fn programs_are_answered_as_directly_by_mysql() -> Result<()> {
    if let Err(reason) = mysql_available() {
        skipped("adversary", &reason);
        return Ok(());
    }
    nothing_differs(Flavour::MySql)
}
