//! Building one program as it is shipped, and finding out where it lies.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::run::cargo;

/// Builds `package` in the release profile, cargo's own progress shown, and gives its program.
pub fn build(root: &Path, package: &str) -> Result<PathBuf> {
    println!("== building {package} in release (the first time takes a few minutes)");
    let start = Instant::now();
    let mut command = cargo(root);
    command
        .args(["build", "--release", "--package", package])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run cargo build")?;
    let output = child.stdout.take().context("no output")?;
    let mut program = None;
    for line in BufReader::new(output).lines() {
        program = executable(&line?, package).or(program);
    }
    let status = child.wait()?;
    ensure!(status.success(), "building {package} failed ({status})");
    let seconds = start.elapsed().as_secs_f64();
    println!("== building {package} in release: done in {seconds:.1} s");
    program.with_context(|| format!("cargo did not say where the program {package} lies"))
}

/// The program that one message of cargo tells of, when it is the one of that name.
fn executable(message: &str, name: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_it = message.pointer("/target/name")?.as_str() == Some(name);
    let path = message.get("executable")?.as_str()?;
    is_it.then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_cargos_messages() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":"/t/a"}"#;
        assert_eq!(executable(message, "a"), Some(PathBuf::from("/t/a")));
        assert_eq!(executable(message, "b"), None);
        let library = r#"{"target":{"name":"a"},"executable":null}"#;
        assert_eq!(executable(library, "a"), None);
        assert_eq!(executable("no JSON", "a"), None);
    }
}
