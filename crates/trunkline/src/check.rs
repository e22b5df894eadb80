//! `trunkline check`.

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    cli::CheckArgs,
    complain,
    config_file::{ConfigFile, summary},
    show,
};

/// Says that the file is valid and what is in it, or everything that is wrong with it.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let file = ConfigFile::new(&args.file);
    match file.read() {
        Ok(read) => {
            for warning in &read.warnings {
                complain(&format!("warning: {warning}"));
            }
            show(&format!("{}: ok: {}\n", file.path().display(), summary(&read.config)));
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) => {
            errors.iter().for_each(|error| complain(error));
            Ok(ExitCode::FAILURE)
        }
    }
}
