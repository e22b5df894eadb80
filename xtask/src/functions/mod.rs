//! What a name before a parenthesis calls, asked of real servers: a function of the server's own,
//! or a stored function that somebody gave the name.
//!
//! The answers are the table that the analysis of statements judges by. It is made by servers, not
//! by manuals: a stored function of each name is created, called in each way of writing, and looked
//! for afterwards.

mod ask;
mod table;

use std::path::Path;

use anyhow::{Result, ensure};
use trunkline_testkit::{Flavour, MariaDb, MySql, Options, Server, SqlClient};

use ask::{Answers, candidates};

/// The generated file, in the workspace.
const TABLE: &str = "crates/sql/src/analysis/function/table.rs";

/// How to run it.
#[derive(clap::Args)]
pub struct Arguments {
    /// Writes nothing; fails where servers answer otherwise than the table says
    #[arg(long)]
    check: bool,
    /// With --check: asks this server instead of those that are started, as HOST:PORT. A schema
    /// `trunkline_functions` is made there, and dropped again
    #[arg(long, requires = "check")]
    server: Option<String>,
    /// The account on that server
    #[arg(long, default_value = "root")]
    user: String,
    /// Its password
    #[arg(long, default_value = "")]
    password: String,
}

/// Asks the servers, and writes the table or compares with it.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let path = root.join(TABLE);
    if let Some(address) = &arguments.server {
        let mut client = SqlClient::address(address, &arguments.user, &arguments.password, "")?;
        let names = candidates(&mut [&mut client])?;
        let answers = ask::ask(&mut client, &names)?;
        return table::compare_one(&std::fs::read_to_string(&path)?, &answers);
    }
    let servers = started()?;
    let mut clients: Vec<SqlClient> = servers.iter().map(Server::root).collect::<Result<_>>()?;
    let names = candidates(&mut clients.iter_mut().collect::<Vec<_>>())?;
    println!("{} names", names.len());
    let all = std::thread::scope(|scope| {
        let names = &names;
        let threads: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(|| ask::ask(client, names))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Answers>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Result<Vec<Answers>>>()
    })?;
    let text = table::render(&all);
    if arguments.check {
        let is_same = std::fs::read_to_string(&path)? == text;
        ensure!(is_same, "{TABLE} is not what the servers answer: run cargo xtask functions");
        println!("{TABLE} is what the servers answer");
        return Ok(());
    }
    std::fs::write(&path, text)?;
    println!("wrote {TABLE}");
    Ok(())
}

/// One server of each version that can be had here.
fn started() -> Result<Vec<Server>> {
    let quiet = Options::default().arg("--skip-log-bin");
    let newer = Options { is_newer: true, ..quiet.clone() };
    let servers =
        vec![MariaDb::start(quiet.clone())?, MariaDb::start(newer)?, MySql::start(quiet)?];
    debug_assert!(servers.iter().any(|server| server.flavour() == Flavour::MySql));
    Ok(servers)
}
