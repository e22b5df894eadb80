//! `trunkline check`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use trunkline_proxy::TlsSetup;

use crate::{
    cli::CheckArgs,
    complain,
    config_file::{ConfigFile, Read, summary},
    import::read_any,
    show,
};

/// Shows what came of a check as JSON, for programs.
fn show_json(checked: Result<Read, Vec<String>>) -> ExitCode {
    let (errors, warnings, code) = match checked {
        Ok(read) => (Vec::new(), read.warnings, ExitCode::SUCCESS),
        Err(errors) => (errors, Vec::new(), ExitCode::FAILURE),
    };
    show(&format!("{}\n", json!({ "errors": errors, "warnings": warnings })));
    code
}

/// Says that the file is valid and what is in it, or everything that is wrong with it.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let file = ConfigFile::new(&args.file);
    let checked = read_any(&file).and_then(|mut read| {
        read.warnings.extend(TlsSetup::check(&read.config, &file.tls_folders())?);
        Ok(read)
    });
    match checked {
        _ if args.json => Ok(show_json(checked)),
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
