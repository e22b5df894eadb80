//! `cargo xtask failover`: three real servers behind the proxy, clients that write all the while,
//! and one fault after the other. What clients notice, and whether what they were told is true.
//!
//! Reading order: `fault` (what is done), `load` (the clients), `page` (the table and the picture).

mod fault;
mod load;
mod page;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use trunkline_testkit::{Flavour, mysql_available};

use self::fault::Fault;
use self::load::{Seen, Truth};
use self::page::Line;
use crate::stand::{Kind, Plan, Stand};
use crate::{release, servers};

/// What goes before a fault, and behind its end.
const CALM: Duration = Duration::from_millis(500);

/// What `cargo xtask failover` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only these servers: `mariadb`, `mysql`, or `group` (Group Replication)
    #[arg(long)]
    server: Option<String>,
    /// Only this fault, by its number or name: 1 kill, 2 stop, 3 switchover, 4 hang, 5 return,
    /// 6 restart, 7 two
    #[arg(long)]
    fault: Option<String>,
    /// How often each fault is repeated
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Clients
    #[arg(long, default_value_t = 64)]
    clients: u32,
    /// Transactions that were cut run again
    #[arg(long)]
    replay: bool,
    /// It is found out what became of a lost COMMIT (`commit_outcome = "auto"`)
    #[arg(long)]
    outcomes: bool,
    /// Replicas do not acknowledge what they have (asynchronous replication)
    #[arg(long)]
    asynchronous: bool,
    /// A program that is built already
    #[arg(long)]
    program: Option<PathBuf>,
    /// Where the proxies' logs of all rounds are written
    #[arg(long)]
    log: Option<PathBuf>,
    /// Where the page is written; its picture is beside it
    #[arg(long)]
    page: Option<PathBuf>,
}

/// How servers replicate, and what proxies do about what is lost.
#[derive(Clone, Copy)]
struct Wishes {
    replay: bool,
    outcomes: bool,
    asynchronous: bool,
}

impl Wishes {
    fn of(arguments: &Arguments) -> Self {
        let Arguments { replay, outcomes, asynchronous, .. } = *arguments;
        Self { replay, outcomes, asynchronous }
    }

    fn plan(self, kind: Kind, fault: Fault) -> Plan {
        Plan {
            kind,
            asynchronous: self.asynchronous,
            proxies: fault.proxies(),
            settings: format!(
                "promote_unreachable = {}\ntransaction_replay = {}\ncommit_outcome = \"{}\"\n",
                fault == Fault::Stop,
                self.replay,
                if self.outcomes { "auto" } else { "off" },
            ),
            cluster: String::new(),
            tables: String::new(),
            users: Vec::new(),
        }
    }
}

/// Repeats the faults, prints the table, and fails where a promise was broken.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    servers::ensure_mariadb()?;
    let binary = match &arguments.program {
        Some(program) => program.clone(),
        None => release::build(root, "trunkline")?,
    };
    let faults = Fault::chosen(arguments.fault.as_deref())?;
    let mut lines = Vec::new();
    for kind in Kind::ALL {
        let is_chosen = arguments.server.as_ref().is_none_or(|it| it.to_lowercase() == kind.name());
        if !is_chosen {
            continue;
        }
        if kind.flavour() == Flavour::MySql
            && let Err(reason) = mysql_available()
        {
            println!("{}: left out: {reason}", kind.name());
            continue;
        }
        for fault in faults.iter().filter(|fault| kind != Kind::Group || fault.is_of_groups()) {
            lines.push(repeat(kind, *fault, &binary, arguments)?);
        }
    }
    ensure!(!lines.is_empty(), "no such servers, or no such fault of them: mariadb, mysql, group");
    let page = page::text(&lines, arguments.clients, &Wishes::of(arguments));
    println!("\n{page}");
    if let Some(path) = &arguments.page {
        page::write(path, &page, &lines)?;
        println!("written: {}", path.display());
    }
    let broken: Vec<String> = lines.iter().filter_map(Line::broken).collect();
    // Without acknowledgements of replicas, what a lost writer alone had is lost.
    ensure!(broken.is_empty() || arguments.asynchronous, "broken:\n{}", broken.join("\n"));
    Ok(())
}

/// One fault, as often as is asked for.
fn repeat(kind: Kind, fault: Fault, binary: &Path, arguments: &Arguments) -> Result<Line> {
    let mut line = Line::new(kind, fault);
    let plan = Wishes::of(arguments).plan(kind, fault);
    let mut kept: Option<Stand> = None;
    for round in 0..arguments.rounds {
        let stand = match kept.take() {
            Some(stand) => stand,
            None => Stand::start(&plan, binary)?,
        };
        let (seen, truth) = play(&stand, fault, round, arguments.clients)?;
        println!(
            "{} {}, round {} of {}: {}",
            kind.name(),
            fault.name(),
            round + 1,
            arguments.rounds,
            page::told(&seen, &truth)
        );
        line.take(seen, truth);
        match stand.settle() {
            Ok(()) => kept = Some(stand),
            // What a killed writer had alone keeps it from replicating again.
            Err(_) => {
                line.rebuilt += 1;
                write_logs(&stand, arguments)?;
            }
        }
    }
    if let Some(stand) = kept {
        write_logs(&stand, arguments)?;
    }
    Ok(line)
}

fn write_logs(stand: &Stand, arguments: &Arguments) -> Result<()> {
    arguments.log.as_ref().map_or(Ok(()), |path| stand.write_logs(path))
}

fn play(stand: &Stand, fault: Fault, round: u32, clients: u32) -> Result<(Seen, Truth)> {
    // Numbers of clients are not used twice.
    let first = round * clients;
    let seen = load::write_while(stand, first..first + clients, || {
        std::thread::sleep(CALM);
        let begun = std::time::Instant::now();
        fault.happen(stand)?;
        std::thread::sleep(CALM);
        Ok(begun)
    })?;
    let truth = load::compare(stand, first..first + clients, &seen)?;
    Ok((seen, truth))
}
