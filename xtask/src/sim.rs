//! `cargo xtask sim` and `cargo xtask histories`: builds the simulator optimised, with its
//! assertions, and runs it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::run::{cargo, step};

/// Seeds that coverage is measured with, unless others are given.
const COVERED: [&str; 5] = ["--seeds", "1500", "--first", "0", "--no-shrink"];
/// What decides: coverage is of these.
const DECIDING: [&str; 3] = ["crates/worker/src", "crates/pool/src", "crates/session/src/tracker"];
/// The least part of their lines that the simulator alone has to run, in hundredths.
const LINES_MIN: f64 = 85.0;

/// What `cargo xtask sim` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Measures which lines of the deciding crates the simulator runs (rustup component add
    /// llvm-tools)
    #[arg(long)]
    coverage: bool,
    /// For the simulator; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs the simulator in the workspace's folder.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    if arguments.coverage {
        return cover(root, &arguments.rest);
    }
    let mut command = cargo(root);
    command.args(["run", "--quiet", "--profile", "sim", "--package", "trunkline-sim", "--"]);
    step("the simulator", command.args(&arguments.rest))
}

/// What `cargo xtask histories` takes.
#[derive(clap::Args)]
pub struct Histories {
    /// For the program; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Plays histories of clusters.
pub fn histories(root: &Path, arguments: &Histories) -> Result<()> {
    let mut command = cargo(root);
    command.args(["run", "--quiet", "--profile", "sim", "--package", "trunkline-sim"]);
    command.args(["--bin", "trunkline-histories", "--"]);
    step("histories of clusters", command.args(&arguments.rest))
}

/// Runs seeds in a build that counts, and says what it did not reach.
fn cover(root: &Path, seeds: &[String]) -> Result<()> {
    let tools = llvm_tools()?;
    let target = root.join("target/coverage");
    let mut build = cargo(root);
    build
        .args(["build", "--quiet", "--profile", "sim", "--package", "trunkline-sim"])
        .arg("--target-dir")
        .arg(&target)
        // What build scripts count goes nowhere.
        .env("LLVM_PROFILE_FILE", "/dev/null")
        .env("RUSTFLAGS", "-C instrument-coverage");
    step("a build that counts", &mut build)?;
    let (program, counts) = (target.join("sim/trunkline-sim"), target.join("sim.profraw"));
    let mut play = Command::new(&program);
    play.current_dir(root).env("LLVM_PROFILE_FILE", &counts);
    match seeds {
        [] => play.args(COVERED),
        given => play.args(given),
    };
    // A seed that fails covers what it covers all the same.
    let played = step("the simulator", &mut play);
    let profile = target.join("sim.profdata");
    let mut merge = Command::new(tools.join("llvm-profdata"));
    step("what was counted", merge.args(["merge", "-sparse", "-o"]).args([&profile, &counts]))?;
    let mut report = Command::new(tools.join("llvm-cov"));
    report.current_dir(root).arg("report").arg(&program).arg("-instr-profile").arg(&profile);
    let output = report.args(DECIDING).output().context("llvm-cov does not run")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let page = target.join("report.txt");
    fs::write(&page, &text)?;
    let lines = lines_of(&text).context("llvm-cov's report has no sum")?;
    println!("{text}\n{lines:.2} % of the lines; the report is {}", page.display());
    played?;
    ensure!(lines >= LINES_MIN, "the simulator runs {lines:.2} % of the lines, not {LINES_MIN} %");
    Ok(())
}

/// Where rustup's llvm-tools are.
fn llvm_tools() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output()?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let tools = libraries.with_file_name("bin");
    let is_there = tools.join("llvm-cov").exists();
    ensure!(
        is_there,
        "there is no llvm-cov in {}: rustup component add llvm-tools",
        tools.display()
    );
    Ok(tools)
}

/// The part of the lines that ran, in hundredths: the third of the sum's three percentages.
fn lines_of(report: &str) -> Option<f64> {
    let sum = report.lines().find(|line| line.starts_with("TOTAL"))?;
    let mut parts = sum.split_whitespace().filter_map(|word| word.strip_suffix('%'));
    parts.nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_report_is_read() {
        let report = "Filename  Regions  Missed  Cover\na.rs 1 0 100.00%\n\
                      TOTAL 10 1 90.00% 5 1 80.00% 100 13 87.25% 0 0 -\n";
        assert_eq!(lines_of(report), Some(87.25));
        assert_eq!(lines_of("error"), None);
    }
}
