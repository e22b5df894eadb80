//! `trunkline check`.

use std::process::ExitCode;

use anyhow::Result;
use trunkline_proxy::TlsSetup;

use crate::{
    cli::CheckArgs,
    complain,
    config_file::{ConfigFile, summary},
    show,
};

/// Says that the file is valid and what is in it, or everything that is wrong with it.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let file = ConfigFile::new(&args.file);
    let checked = file.read().and_then(|mut read| {
        read.warnings.extend(TlsSetup::check(&read.config, &file.tls_folders())?);
        Ok(read)
    });
    match checked {
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
