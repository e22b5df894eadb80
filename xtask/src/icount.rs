//! `cargo xtask icount`: instructions of the hot functions, by callgrind, against the figures in
//! the repository.
//!
//! Instruction counts don't depend on how busy the machine is, so a few percent mean something.
//! They do depend on the compiler and on what the processor offers (AVX2), which `figures.md`
//! names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::find_program;

use crate::release;
use crate::run::first_line;

/// The file with the figures, below the workspace.
const FIGURES: &str = "bench/icount/figures.md";
/// Calls in the shorter of the two runs of each case.
const CALLS: u64 = 2_000;
/// How much more a case may cost before it is an error, as a share.
const TOLERANCE: f64 = 0.03;

/// What `cargo xtask icount` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Write the new figures instead of comparing with the old ones
    #[arg(long)]
    update: bool,
    /// Only cases whose name contains this
    filter: Option<String>,
}

/// One case with its figure.
struct Figure {
    name: String,
    what: String,
    instructions: f64,
}

/// Counts every case and compares, or writes, the figures.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    ensure!(
        !(arguments.update && arguments.filter.is_some()),
        "--update writes all figures and takes no filter"
    );
    let valgrind = find_program("valgrind").context(
        "valgrind is not installed; this installs it:\n\n    \
         sudo apt-get install --no-install-recommends -y valgrind\n",
    )?;
    let program = release::build(root, "trunkline-icount")?;
    let known = std::fs::read_to_string(root.join(FIGURES)).unwrap_or_default();
    let known = read_figures(&known, "`");
    let mut figures = Vec::new();
    let mut slower = Vec::new();
    println!("{:<34} {:>12} {:>12} {:>9}", "case", "instructions", "known", "change");
    for (name, what) in cases(&program)? {
        let is_wanted = arguments.filter.as_ref().is_none_or(|filter| name.contains(filter));
        if !is_wanted {
            continue;
        }
        let once = count(&valgrind, &program, &name, CALLS)?;
        let twice = count(&valgrind, &program, &name, 2 * CALLS)?;
        let instructions = per_call(once, twice);
        let before = known.get(&name).copied();
        let change = before.map(|before| instructions / before - 1.0);
        println!(
            "{name:<34} {instructions:>12.1} {:>12} {:>9}",
            before.map_or_else(|| "–".to_owned(), |before| format!("{before:.1}")),
            change.map_or_else(|| "new".to_owned(), |change| format!("{:+.1} %", change * 100.0)),
        );
        if change.is_some_and(|change| change > TOLERANCE) {
            slower.push(name.clone());
        }
        figures.push(Figure { name, what, instructions });
    }
    if arguments.update {
        std::fs::write(root.join(FIGURES), figures_text(&figures))?;
        println!("== written: {FIGURES}");
        return Ok(());
    }
    ensure!(
        slower.is_empty(),
        "more than {:.0} % above {FIGURES}: {} (--update writes the new figures)",
        TOLERANCE * 100.0,
        slower.join(", ")
    );
    Ok(())
}

/// Name and meaning of each case, from the program itself.
fn cases(program: &Path) -> Result<Vec<(String, String)>> {
    let output = Command::new(program).output()?;
    ensure!(output.status.success(), "{} does not list its cases", program.display());
    let text = String::from_utf8(output.stdout)?;
    let cases = text.lines().filter_map(|line| line.split_once('\t'));
    Ok(cases.map(|(name, what)| (name.to_owned(), what.to_owned())).collect())
}

/// Makes glibc copy with vector instructions whatever the length: callgrind counts every byte of
/// `rep movsb` as an instruction, which says nothing about the processor.
pub const NO_REP_MOVSB: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824",
);

/// Instructions of a whole run.
fn count(valgrind: &Path, program: &Path, case: &str, calls: u64) -> Result<u64> {
    let output = Command::new(valgrind)
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([case, &calls.to_string()])
        .env(NO_REP_MOVSB.0, NO_REP_MOVSB.1)
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{case} failed under callgrind:\n{text}");
    collected(&text).with_context(|| format!("callgrind says no count:\n{text}"))
}

/// callgrind's closing line is `==PID== Collected : 123456`.
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "a run of seconds fits into 52 bits")]
fn per_call(once: u64, twice: u64) -> f64 {
    twice.saturating_sub(once) as f64 / CALLS as f64
}

fn figures_text(figures: &[Figure]) -> String {
    let compiler = first_line(Command::new("rustc").arg("--version")).unwrap_or_default();
    let mut text = format!(
        "# Instructions of the hot functions\n\n\
         <!-- Written by `cargo xtask icount --update`; do not edit. -->\n\n\
         Per call, counted by callgrind in the release profile: the difference between {CALLS} \
         and {} calls. {compiler},\n{} with the vector instructions that the processor and \
         valgrind have.\n`cargo xtask icount` fails when a case is more than {:.0} % above its \
         figure.\n\n\
         | case | instructions | one call is |\n|---|---:|---|\n",
        2 * CALLS,
        std::env::consts::ARCH,
        TOLERANCE * 100.0,
    );
    for Figure { name, what, instructions } in figures {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "| `{name}` | {instructions:.1} | {what} |");
    }
    text
}

/// The figures in the second column of tables, by the name in the first one, which stands between
/// two of `marks`; lines of another shape are passed over.
pub fn read_figures(text: &str, marks: &str) -> BTreeMap<String, f64> {
    let figure = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let name = cells.next()?.strip_prefix(marks)?.strip_suffix(marks)?;
        Some((name.to_owned(), cells.next()?.parse().ok()?))
    };
    text.lines().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let figure = |name: &str, instructions| Figure {
            name: name.into(),
            what: "with `code` | in it".into(),
            instructions,
        };
        let text = figures_text(&[figure("a/b", 12.25), figure("c", 7.0)]);
        let known: Vec<_> = read_figures(&text, "`").into_iter().collect();
        assert_eq!(known, [("a/b".to_owned(), 12.2), ("c".to_owned(), 7.0)]);
    }

    #[test]
    fn callgrinds_count_is_found() {
        let text = "==7== Events    : Ir\n==7== Collected : 123456\n==7== \n";
        assert_eq!(collected(text), Some(123_456));
        assert_eq!(collected("killed"), None);
        assert!((per_call(10_000, 30_000) - 10.0).abs() < f64::EPSILON);
    }
}
