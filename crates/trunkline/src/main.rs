//! The `trunkline` command. What it does is wired together here and done in the other crates.
//!
//! Reading order: [`cli`] (the command line), [`config_file`] (the file that all commands read),
//! then one module for each command or family of them: [`bundle`], [`check`], [`doctor`],
//! [`explain`], [`report`], [`status`], [`sessions`], [`topology`], [`changes`], [`top`],
//! [`lists`], [`orders`], [`import`], [`describe`], [`serve`]; [`paint`] has the colours.

mod allocator;
mod changes;
mod cli;

mod config_file;

mod bundle;
mod check;
mod describe;
mod doctor;
mod explain;
mod import;
mod lists;
mod orders;
mod paint;
mod report;
mod sessions;
mod status;
mod top;
mod topology;

mod serve;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => return serve::run(args),
        Command::Check(args) => check::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Bundle(args) => bundle::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Sessions(args) => sessions::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Servers(args) => lists::run_servers(&args),
        Command::Digests(args) => lists::run_digests(&args),
        Command::Topology(args) => topology::run(&args),
        Command::Changes(args) => changes::run(&args),
        Command::Tenants(args) => lists::run_tenants(&args),
        Command::Rules(args) => lists::run_rules(&args),
        Command::Kill(args) => orders::run_kill(&args),
        Command::Pause(args) => orders::run_pause(&args),
        Command::Resume(args) => orders::run_resume(&args),
        Command::Drain(args) => orders::run_drain(&args),
        Command::Reload(args) => orders::run_reload(&args),
        Command::Switchover(args) => orders::run_switchover(&args),
        Command::Rejoin(args) => orders::run_rejoin(&args),
        Command::Maintenance(args) => orders::run_maintenance(&args),
        Command::Completions(args) => describe::run_completions(&args),
        Command::Man(args) => describe::run_man(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Export(args) => import::run_export(&args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("trunkline: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard output. A reader that has gone, as in `trunkline status | head`, is no
/// error.
fn show(text: &str) {
    let mut out = io::stdout().lock();
    // There is nobody left to tell.
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Writes one line to standard error.
fn complain(line: &str) {
    // There is nobody left to tell.
    drop(writeln!(io::stderr().lock(), "{line}"));
}
