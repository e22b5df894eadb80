//! `cargo xtask sim`: builds the simulator optimised, with its assertions, and runs it.

use std::path::Path;

use anyhow::Result;

use crate::run::{cargo, step};

/// What `cargo xtask sim` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// For the simulator; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs the simulator in the workspace's folder.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let mut command = cargo(root);
    command.args(["run", "--quiet", "--profile", "sim", "--package", "trunkline-sim", "--"]);
    step("the simulator", command.args(&arguments.rest))
}
