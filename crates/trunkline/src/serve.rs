//! `trunkline serve`: the process from its start to its end.
//!
//! Reading order: [`origin`] (what is read), [`start`](mod@start) (what happens before the first
//! client), [`supervisor`] (what happens while clients are served), [`control`] (what the admin
//! port asks for), then what they use.

mod origin;

mod start;

mod supervisor;
mod unproven;

mod control;

mod cpus;
mod failovers;
pub(crate) mod limits;
mod log;
mod notify;
mod questions;
mod recorder;
mod reporter;
mod signals;
mod tracer;

use std::{
    env,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
    time::SystemTime,
};

use tokio::runtime::Builder;

use crate::{cli::ServeArgs, complain};
use supervisor::Ended;

/// Serves until it is told to stop. The exit code is 0 after a graceful stop.
pub fn run(args: ServeArgs) -> ExitCode {
    let started = SystemTime::now();
    let (origin, read, database) = match origin::read(&args) {
        Ok(read) => read,
        Err(errors) => {
            errors.iter().for_each(|error| complain(error));
            return ExitCode::FAILURE;
        }
    };
    let log = log::Log::start(&read.config.settings);
    // The threads beside the control plane, which compute for administrators.
    let mut builder = Builder::new_current_thread();
    let runtime = match builder.enable_all().on_thread_start(limits::give_way).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("no control plane: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        match start::start(origin, read, database, log, started).await? {
            Some(supervisor) => supervisor.run().await,
            None => Ok(Ended::Stopped),
        }
    });
    // Look-ups and reports that still run on other threads are not waited for.
    runtime.shutdown_background();
    match outcome {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::ToRestart) => restart(),
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Puts the program that the command line names in this process's place: another version, if it
/// was replaced meanwhile. What was saved is what it begins with.
fn restart() -> ExitCode {
    let mut arguments = env::args_os();
    let Some(program) = arguments.next() else { return ExitCode::FAILURE };
    let arguments = arguments.filter(|argument| argument != "--initial");
    let error = Command::new(&program).args(arguments).exec();
    tracing::error!("can't begin anew with {}: {error}", program.display());
    ExitCode::FAILURE
}
