//! `trunkline serve`: the process from its start to its end.
//!
//! Reading order: [`start`](mod@start) (what happens before the first client), [`supervisor`]
//! (what happens while clients are served), then what both use.

mod start;

mod supervisor;

mod limits;
mod log;
mod notify;
mod reporter;
mod signals;

use std::{process::ExitCode, time::SystemTime};

use tokio::runtime::Builder;

use crate::{cli::ServeArgs, complain, config_file::ConfigFile};

/// Serves until it is told to stop. The exit code is 0 after a graceful stop.
pub fn run(args: ServeArgs) -> ExitCode {
    let started = SystemTime::now();
    let file = ConfigFile::new(&args.config);
    let read = match file.read() {
        Ok(read) => read,
        Err(errors) => {
            errors.iter().for_each(|error| complain(error));
            return ExitCode::FAILURE;
        }
    };
    let log = log::Log::start(&read.config.settings);
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("no control plane: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        match start::start(file, read, log, started).await? {
            Some(supervisor) => supervisor.run().await,
            None => Ok(()),
        }
    });
    // Look-ups and reports that still run on other threads are not waited for.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
