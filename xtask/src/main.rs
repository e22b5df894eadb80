//! The one door to everything a developer runs: `cargo xtask servers|test|demo|bench|tidy|…`.

#![forbid(unsafe_code)]

mod admin;
mod adversary;
mod attack;
mod bench;
mod causal;
mod client;
mod console;
mod demo;
mod drivers;
mod failover;
mod functions;
mod icount;
mod interrupt;
mod profile;
mod release;
mod run;
mod servers;
mod sim;
mod slowed;
mod stand;
mod suites;
mod tenants;
mod test;
mod tidy;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Everything a developer of Trunkline runs")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Gets the real servers that tests start: packages, and a MySQL tree in the cache folder
    Servers,
    /// Gets the drivers of other languages that tests use, and builds the programs on them
    Drivers,
    /// Asks real servers which functions are their own, for the table that statements are judged by
    Functions(functions::Arguments),
    /// Runs the test suites of drivers' authors directly and through Trunkline
    Suites(suites::Arguments),
    /// Runs all tests, real servers included; further arguments go to `cargo test`
    Test(test::Arguments),
    /// Builds the web console, and drives it in a real browser before real servers
    Console(console::Arguments),
    /// Shows Trunkline at work: a real primary, two replicas, and a live picture of the traffic
    Demo(demo::Arguments),
    /// Compares a direct connection, HAProxy, Trunkline and others under sysbench
    Bench(bench::Arguments),
    /// Measures the admin port: loads of a million rows and readings of many, beside traffic
    Admin(admin::Arguments),
    /// Attacks a proxy in the ways that were measured, and prints what each costs either side
    Attack(attack::Arguments),
    /// Counts the instructions of the hot functions with callgrind
    Icount(icount::Arguments),
    /// Counts the instructions of each step of the way of a statement with callgrind
    Profile(profile::Arguments),
    /// Slows one of three real servers down, and measures what clients notice
    Slowed(slowed::Arguments),
    /// Have one tenant flood a real server while 49 others read, with and without tenants
    Tenants(tenants::Arguments),
    /// Has writers of real clusters fail, and measures what clients notice and whether it is true
    Failover(failover::Arguments),
    /// Reads behind writes on real clusters, in every scope, and looks for one that is stale
    Causal(causal::Arguments),
    /// Simulates the data plane under faults, seed by seed
    #[command(disable_help_flag = true)]
    Sim(sim::Arguments),
    /// Plays histories of clusters whose servers fail, are promoted and misunderstood
    #[command(disable_help_flag = true)]
    Histories(sim::Histories),
    /// Runs drawn programs of several sessions through the proxy and on direct twins
    #[command(disable_help_flag = true)]
    Adversary(adversary::Arguments),
    /// Checks the layers between crates and the house style of the sources
    Tidy,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Servers => servers::ensure(),
        Task::Drivers => drivers::ensure(&workspace_root()),
        Task::Functions(arguments) => functions::run(&workspace_root(), &arguments),
        Task::Suites(arguments) => suites::run(&workspace_root(), &arguments),
        Task::Test(arguments) => test::run(&workspace_root(), &arguments),
        Task::Console(arguments) => console::run(&workspace_root(), &arguments),
        Task::Demo(arguments) => demo::run(&workspace_root(), &arguments),
        Task::Bench(arguments) => bench::run(&workspace_root(), arguments),
        Task::Admin(arguments) => admin::run(&workspace_root(), &arguments),
        Task::Attack(arguments) => attack::run(&workspace_root(), &arguments),
        Task::Icount(arguments) => icount::run(&workspace_root(), &arguments),
        Task::Profile(arguments) => profile::run(&workspace_root(), &arguments),
        Task::Slowed(arguments) => slowed::run(&workspace_root(), &arguments),
        Task::Tenants(arguments) => tenants::run(&workspace_root(), &arguments),
        Task::Failover(arguments) => failover::run(&workspace_root(), &arguments),
        Task::Causal(arguments) => causal::run(&workspace_root(), &arguments),
        Task::Sim(arguments) => sim::run(&workspace_root(), &arguments),
        Task::Histories(arguments) => sim::histories(&workspace_root(), &arguments),
        Task::Adversary(arguments) => adversary::run(&workspace_root(), &arguments),
        Task::Tidy => tidy_task(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn tidy_task() -> Result<()> {
    let report = tidy::check(&workspace_root())?;
    print!("{report}");
    anyhow::ensure!(report.errors() == 0, "the tree is not tidy");
    Ok(())
}

/// The folder of the workspace's Cargo.toml.
fn workspace_root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}
