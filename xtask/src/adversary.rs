//! `cargo xtask adversary`: builds the proxy and the adversary, and lets them meet.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::run::{cargo, step};

/// Memory that is a folder, on Linux: making schemas anew takes a third of the time there.
const MEMORY: &str = "/dev/shm";

/// What `cargo xtask adversary` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// For the adversary; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds what is needed and runs the adversary in the workspace's folder. `TRUNKLINE_BIN` names
/// another proxy, which is not built.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let mut build = cargo(root);
    build.args(["build", "--quiet", "--package", "trunkline-adversary"]);
    if std::env::var_os("TRUNKLINE_BIN").is_none() {
        build.args(["--package", "trunkline"]);
    }
    step("the proxy and the adversary", &mut build)?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let mut command = Command::new(target.join("debug/trunkline-adversary"));
    command.current_dir(root).args(&arguments.rest);
    if std::env::var_os("TMPDIR").is_none() && Path::new(MEMORY).is_dir() {
        command.env("TMPDIR", MEMORY);
    }
    step("the adversary", &mut command)
}
