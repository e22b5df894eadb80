//! The manual's page: a table of what came of the suites, and why tests are left out.

use std::collections::BTreeSet;

use super::outcome::Outcome;
use super::{CONNECTIONS, Compared};

/// What the page says before its tables.
const HEAD: &str = "# Drivers

What drivers of seven languages see through Trunkline is what they see directly: `e2e/drivers` runs
one scenario with each of them and compares (see its README for the drivers and their versions, and
its `KNOWN.md` for what differs). Each runs in clear and with TLS. Beside that, the tests which the
authors of drivers wrote for them run directly and through Trunkline, multiplexing on. `cargo xtask
suites` gets the suites, runs them and writes this page.

Not here: asyncmy, later versions of PyMySQL, and mysql2 and mariadb for Node have no tests in their
packages; those of MySQL Connector/J are in no archive that is published; those of MariaDB
Connector/J are of 2.7.6, the last in Debian's sources; those of mysql2 for Ruby are not in Debian's
archive any more. Debian 12 has no trilogy for Ruby. MySQL Connector/Python's are for MySQL alone
(`cargo xtask suites Connector/Python --on mysql`), without those that wait for a time-out.

";

/// The first line of each table.
const RESULTS: &str = "| suite | version | server | tests | run | passed through |";
const DIFFERS: &str = "| suite | server | test | why it differs |";
const FAILS: &str = "| suite | server | test | why it fails |";

/// The whole page. Rows of suites that have not run now are those of the `old` page.
pub fn page(all: &[Compared], old: &str) -> String {
    let mut page = HEAD.to_owned();
    page.push_str(&format!(
        "MariaDB 10.11 and MySQL 9.7, two workers, {CONNECTIONS} server connections.\n*Run* counts \
         the tests that pass directly; what\nfails or is skipped there shows nothing about the \
         proxy.\n\n"
    ));
    let mut table = |first: &str, rows: BTreeSet<String>| {
        let columns = first.matches('|').count().saturating_sub(1);
        page.push_str(&format!("{first}\n|{}\n", "---|".repeat(columns)));
        let kept = kept(old, first, all).map(str::to_owned);
        for row in kept.chain(rows).collect::<BTreeSet<String>>() {
            page.push_str(&format!("{row}\n"));
        }
        match first {
            RESULTS => page.push_str("\nTests that end otherwise through Trunkline:\n\n"),
            DIFFERS => page.push_str("\nTests that fail on the server itself:\n\n"),
            _ => {}
        }
    };
    table(RESULTS, all.iter().map(row).collect());
    table(DIFFERS, reasons(all, true));
    table(FAILS, reasons(all, false));
    page
}

/// The rows of a table of the old page but those of suites that have run now on their server.
fn kept<'a>(old: &'a str, first: &str, all: &[Compared]) -> impl Iterator<Item = &'a str> {
    let table = old.split_once(first).map_or("", |(_, rest)| rest);
    let rows = table.lines().skip(2).take_while(|line| !line.is_empty());
    let ran = |row: &&str| {
        all.iter().any(|compared| {
            row.starts_with(&format!("| {} |", compared.suite.name))
                && row.contains(&format!(" | {} | ", compared.server))
        })
    };
    rows.filter(move |row| !ran(row)).collect::<Vec<_>>().into_iter()
}

/// One row of the table.
pub fn row(compared: &Compared) -> String {
    let passed = |name: &&String| compared.through.get(*name) == Some(&Outcome::Passed);
    let direct = compared.direct.iter().filter(|(_, outcome)| **outcome == Outcome::Passed);
    let run: Vec<&String> = direct.map(|(name, _)| name).collect();
    format!(
        "| {} | {} | {} | {} | {} | {} |",
        compared.suite.name,
        compared.suite.version,
        compared.server,
        compared.direct.len(),
        run.len(),
        run.iter().filter(|name| passed(name)).count(),
    )
}

/// Rows of tests and why they are as they are: those that differ `through` Trunkline, or those
/// that fail directly.
fn reasons(all: &[Compared], through: bool) -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for compared in all {
        let suite = compared.suite;
        let (known, names): (_, Vec<&str>) = match through {
            true => {
                (suite.differs, compared.differences().into_iter().map(|(name, ..)| name).collect())
            }
            false => {
                let failed = compared.direct.iter().filter(|(_, end)| **end == Outcome::Failed);
                (suite.skipped, failed.map(|(name, _)| name.as_str()).collect())
            }
        };
        let mut others = 0;
        for name in names {
            let reason = known.iter().find(|(part, _)| name.contains(part));
            // What fails without the proxy is its author's business.
            others += usize::from(reason.is_none() && !through);
            if reason.is_some() || through {
                let (shown, why) = reason.copied().unwrap_or((name, "not looked into"));
                rows.insert(format!("| {} | {} | {shown} | {why} |", suite.name, compared.server));
            }
        }
        if others > 0 {
            let what = format!("{others} others | not looked into |");
            rows.insert(format!("| {} | {} | {what}", suite.name, compared.server));
        }
    }
    rows
}
