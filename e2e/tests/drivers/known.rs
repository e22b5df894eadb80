//! `e2e/drivers/KNOWN.md`: what differs and is known. Whatever else differs fails a test, and so
//! does what is known but does not differ any more.

use anyhow::{Result, bail, ensure};
use trunkline_testkit::Flavour;

use crate::compare::Difference;

const KNOWN: &str = include_str!("../../drivers/KNOWN.md");

/// The step of a row that says: each session of this driver holds a server connection, so there
/// must be enough of them.
const HOLDS_CONNECTIONS: &str = "(every step)";

/// How much of a result an error shows.
const SHOWN_CHARS: usize = 600;

/// One row of the table.
struct Known<'a> {
    steps: Vec<&'a str>,
    /// Names of runs; one that ends with `*` means all that begin so.
    runs: Vec<&'a str>,
    /// `None` means both.
    server: Option<&'a str>,
    /// Whether it differs by chance, so that it may also be the same.
    by_chance: bool,
}

impl Known<'_> {
    fn is_for(&self, run: &str, flavour: Flavour) -> bool {
        let named = self.runs.iter().any(|name| matches(name, run));
        let is_out = |name: &str| name.strip_prefix('!').is_some_and(|name| matches(name, run));
        let excluded = self.runs.iter().any(|name| is_out(name));
        named && !excluded && self.server.is_none_or(|server| server == flavour.name())
    }
}

fn matches(pattern: &str, run: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => run.starts_with(prefix),
        None => run == pattern,
    }
}

/// The rows: `| step | driver | server | reason |`, several in a cell with commas between them.
fn rows() -> Result<Vec<Known<'static>>> {
    let mut rows = Vec::new();
    for line in KNOWN.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [steps, runs, server, reason] = cells[..] else {
            bail!("a row of KNOWN.md has not four cells: {line}");
        };
        ensure!(!reason.is_empty(), "a row of KNOWN.md has no reason: {line}");
        let list = |cell: &'static str| cell.split(',').map(str::trim).collect::<Vec<_>>();
        let server = Some(server).filter(|server| *server != "both");
        let by_chance = reason.starts_with("By chance: ");
        rows.push(Known { steps: list(steps), runs: list(runs), server, by_chance });
    }
    Ok(rows)
}

/// Fails when something differs that is not known, or is known and does not differ.
pub fn judge(run: &str, flavour: Flavour, differences: &[Difference]) -> Result<()> {
    let rows = rows()?;
    let own = || rows.iter().filter(|row| row.is_for(run, flavour));
    let known: Vec<&str> = own().flat_map(|row| row.steps.iter().copied()).collect();
    let certain = own().filter(|row| !row.by_chance).flat_map(|row| row.steps.iter().copied());
    let mut report = String::new();
    for Difference { step, direct, through } in differences {
        if !known.contains(&step.as_str()) {
            let (direct, through) = (shortened(direct), shortened(through));
            report.push_str(&format!("\n{step}\n  direct:  {direct}\n  through: {through}\n"));
        }
    }
    for step in certain.filter(|step| *step != HOLDS_CONNECTIONS) {
        if !differences.iter().any(|difference| difference.step == step) {
            report.push_str(&format!("\n{step}\n  is in KNOWN.md but does not differ\n"));
        }
    }
    ensure!(report.is_empty(), "{run} on {}:\n{report}", flavour.name());
    Ok(())
}

/// Whether it is known that every session of this driver holds a server connection.
pub fn holds_connections(run: &str, flavour: Flavour) -> Result<bool> {
    let rows = rows()?;
    let mut own = rows.iter().filter(|row| row.is_for(run, flavour));
    Ok(own.any(|row| row.steps.contains(&HOLDS_CONNECTIONS)))
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

/// Fails when a row names no run at all.
pub fn check_names(names: &[&str]) -> Result<()> {
    for row in rows()? {
        for run in &row.runs {
            let run = run.trim_start_matches('!');
            ensure!(names.iter().any(|name| matches(run, name)), "KNOWN.md: no driver is {run}");
        }
        ensure!(
            row.server.is_none_or(|server| ["mariadb", "mysql"].contains(&server)),
            "KNOWN.md: {:?} is no server",
            row.server
        );
    }
    Ok(())
}
