//! `cargo xtask profile`: what each step of the way of a statement costs, in instructions.
//!
//! One statement's way is counted by callgrind as in `icount`, and each instruction is put down
//! to the source file that it was compiled from, inlined code included. What comes from the
//! standard library counts for the file that it was inlined into.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{TempFolder, find_program, skipped};

use crate::icount::{NO_REP_MOVSB, read_figures};
use crate::release;

/// The file with the figures, below the workspace.
const FIGURES: &str = "bench/icount/profile.md";
/// Statements in the shorter of the two runs.
const CALLS: u64 = 2_000;
/// How much more the whole way may cost before it is an error, as a share.
const TOLERANCE: f64 = 0.03;
/// The cases, and what each is in a heading.
const CASES: [(&str, &str); 1] = [("statement/point_select", "A point select as text")];

/// The steps, each with the beginnings of its files' paths; the first that fits counts.
const STEPS: [(&str, &[&str]); 13] = [
    ("the played client and server", &["bench/icount/"]),
    (
        "1–3 read, frame, decode",
        &[
            "crates/protocol/src/codec/",
            "crates/protocol/src/command/",
            "crates/worker/src/commands/",
            "crates/worker/src/bytes.rs",
            "crates/worker/src/compressed.rs",
        ],
    ),
    ("4 analyse and digest", &["crates/sql/", "crates/worker/src/statement/analysis.rs"]),
    ("5 rules and split", &["crates/rules/", "crates/worker/src/routing/"]),
    (
        "7 choose a connection",
        &[
            "crates/pool/",
            "crates/topology/",
            "crates/worker/src/acquire/",
            "crates/worker/src/servers/",
            "crates/worker/src/statement/pace.rs",
        ],
    ),
    (
        "8 synchronise, prepare, send",
        &[
            "crates/worker/src/exchange/send.rs",
            "crates/worker/src/exchange/preparing.rs",
            "crates/worker/src/prepared/",
            "crates/session/",
        ],
    ),
    (
        "9 relay",
        &[
            "crates/protocol/src/response/",
            "crates/protocol/src/packet/",
            "crates/worker/src/reply",
        ],
    ),
    (
        "10 release and account",
        &["crates/worker/src/exchange/", "crates/worker/src/session_past", "crates/stats/"],
    ),
    ("the shell: batches, reads, writes", &["crates/worker/src/shell"]),
    ("the worker's outboxes, tables", &["crates/worker/"]),
    ("other crates of ours", &["crates/"]),
    ("allocator, copies, comparisons (libc)", &["./malloc", "./string", "./elf", "./nptl"]),
    ("libraries", &[""]),
];

/// What `cargo xtask profile` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Write the new figures instead of comparing with the old ones
    #[arg(long)]
    update: bool,
}

/// Instructions by step of [`STEPS`].
type Costs = [u64; STEPS.len()];

/// Counts the cases and compares, or writes, the figures.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let Some(valgrind) = find_program("valgrind") else {
        skipped("profile", "valgrind is not installed");
        return Ok(());
    };
    let program = release::build(root, "trunkline-icount")?;
    let known = std::fs::read_to_string(root.join(FIGURES)).unwrap_or_default();
    let known = read_figures(&known, "**");
    let mut text = heading();
    let mut dearer = Vec::new();
    for (case, what) in CASES {
        let once = count(root, &valgrind, &program, case, CALLS)?;
        let twice = count(root, &valgrind, &program, case, 2 * CALLS)?;
        let mut per_call = [0.0; STEPS.len()];
        for ((cost, twice), once) in per_call.iter_mut().zip(twice).zip(once) {
            *cost = share(twice.saturating_sub(once));
        }
        let (table, total) = table_of(what, &per_call);
        println!("{table}");
        if let Some(before) = known.get(what).filter(|before| total > **before * (1.0 + TOLERANCE))
        {
            dearer.push(format!("{what}: {total:.0}, was {before:.0}"));
        }
        text.push_str(&table);
    }
    if arguments.update {
        std::fs::write(root.join(FIGURES), text)?;
        println!("== written: {FIGURES}");
        return Ok(());
    }
    ensure!(
        dearer.is_empty(),
        "more than {:.0} % above {FIGURES}: {} (--update writes the new figures)",
        TOLERANCE * 100.0,
        dearer.join("; ")
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a run of seconds fits into 52 bits")]
fn share(instructions: u64) -> f64 {
    instructions as f64 / CALLS as f64
}

fn heading() -> String {
    format!(
        "# What a statement costs, by step\n\n\
         <!-- Written by `cargo xtask profile --update`; do not edit. -->\n\n\
         Instructions of one statement in the release profile, counted by callgrind: the \
         difference between {CALLS} and {} statements.\nThe steps are those of ARCHITECTURE.md. \
         `cargo xtask profile` fails when the worker's sum is more than {:.0} % above its \
         figure.\n",
        2 * CALLS,
        TOLERANCE * 100.0
    )
}

/// A case's table, and the sum of what is the worker's.
fn table_of(what: &str, per_call: &[f64; STEPS.len()]) -> (String, f64) {
    let played = per_call.first().copied().unwrap_or_default();
    let total: f64 = per_call.iter().sum::<f64>() - played;
    let mut text = format!("\n## {what}\n\n| step | instructions | share |\n|---|---:|---:|\n");
    for ((name, _), cost) in STEPS.iter().zip(per_call).skip(1).filter(|(_, cost)| **cost >= 0.5) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "| {name} | {cost:.0} | {:.0} % |", cost / total * 100.0);
    }
    let _ = writeln!(text, "| **{what}** | {total:.0} | |");
    let _ = writeln!(text, "| beside it: the played client and server | {played:.0} | |");
    (text, total)
}

/// Instructions of a whole run, by step.
fn count(root: &Path, valgrind: &Path, program: &Path, case: &str, calls: u64) -> Result<Costs> {
    let folder = TempFolder::new("profile")?;
    let file = folder.path().join("callgrind");
    let output = Command::new(valgrind)
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args([case, &calls.to_string()])
        .env(NO_REP_MOVSB.0, NO_REP_MOVSB.1)
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{case} failed under callgrind:\n{text}");
    let root = root.canonicalize()?;
    let root = root.to_str().context("the workspace's path is not text")?;
    costs_in(&std::fs::read_to_string(file)?, root)
}

/// Reads callgrind's file: `fl=` begins a function's home file, `fi=` and `fe=` change to a file
/// that was inlined and back, lines of two numbers are costs, and the line behind `calls=` is
/// what was called, which counts there. Names come once with a number, then as the number alone.
fn costs_in(text: &str, root: &str) -> Result<Costs> {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut costs = Costs::default();
    let (mut home, mut here, mut is_call) = (None, None, false);
    for line in text.lines() {
        let begins = |prefix: &str| line.strip_prefix(prefix);
        if let Some(name) = begins("fl=") {
            home = file_step(name, root, &mut names);
            here = home;
        } else if let Some(name) = begins("fi=").or(begins("fe=")) {
            here = file_step(name, root, &mut names);
        } else if let Some(name) = begins("cfi=").or(begins("cfl=")) {
            file_step(name, root, &mut names);
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let cost = line.split(' ').nth(1).context("a line without a cost")?;
            if !std::mem::take(&mut is_call)
                && let Some(place) = ours_first(here, home).and_then(|step| costs.get_mut(step))
            {
                *place += cost.parse::<u64>()?;
            }
        }
    }
    Ok(costs)
}

/// Code of a library, inlined into ours, is ours.
fn ours_first(here: Option<usize>, home: Option<usize>) -> Option<usize> {
    let libraries = Some(STEPS.len() - 1);
    if here == libraries { home } else { here }
}

/// The step of `(number) path` or of a number known already.
fn file_step<'a>(name: &'a str, root: &str, names: &mut HashMap<&'a str, usize>) -> Option<usize> {
    let (number, path) =
        name.split_once(") ").map_or((name, None), |(number, path)| (number, Some(path)));
    let number = number.trim_start_matches('(').trim_end_matches(')');
    if let Some(path) = path {
        names.insert(number, step_of(path, root));
    }
    names.get(number).copied()
}

/// The place in [`STEPS`] that a source file belongs to. callgrind cuts some paths short at the
/// front.
fn step_of(path: &str, root: &str) -> usize {
    let ours = path.strip_prefix(root).map(|path| path.trim_start_matches('/'));
    let ours = ours.or_else(|| {
        let tail = root.rsplit('/').next().unwrap_or(root);
        path.split_once(&format!("{tail}/")).map(|(_, path)| path)
    });
    let path = ours.unwrap_or(path);
    let fits = |(_, starts): &(&str, &[&str])| starts.iter().any(|start| path.starts_with(start));
    STEPS.iter().position(fits).unwrap_or(STEPS.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
positions: line
events: Ir

fl=(1) /w/crates/sql/src/digest/mod.rs
fn=(1) digest
10 5
fi=(2) /rustc/library/core/src/option.rs
+3 7
fe=(1)
calls=1 +3
* 1000
+1 2
cfi=(3) ./malloc/malloc.c

fl=(3)
fn=(2) malloc
1 11
";

    #[test]
    fn costs_go_to_the_files_that_they_come_from() {
        let costs = costs_in(FILE, "/w").expect("costs");
        let of = |name: &str| {
            STEPS.iter().zip(costs).find(|((step, _), _)| step.starts_with(name)).map(|it| it.1)
        };
        // What a library's inlined code costs is the function's; what was called is not.
        assert_eq!(of("4 "), Some(14));
        assert_eq!(of("allocator"), Some(11));
        assert_eq!(costs.iter().sum::<u64>(), 25);
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut costs = [10.0; STEPS.len()];
        costs[0] = 3.0;
        let (text, total) = table_of("A statement", &costs);
        assert!((total - 120.0).abs() < f64::EPSILON);
        let known: Vec<_> = read_figures(&text, "**").into_iter().collect();
        assert_eq!(known, [("A statement".to_owned(), 120.0)]);
        assert!(text.contains("| 9 relay | 10 | 8 % |"), "{text}");
    }
}
