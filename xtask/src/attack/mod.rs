//! `cargo xtask attack`: the measured attacks, one after the other, each on a proxy of its own with
//! a real server behind it and a neighbour who only wants to read.
//!
//! Reading order: [`foremost`] (workers that wait for nobody), [`field`] (what an attack may use),
//! [`peer`] (a client that minds no manners), [`outcome`] (what was measured and promised), then
//! one file for each attack.

mod admin_export;
mod admin_guesses;
mod admin_long_data;
mod bombs;
mod columns;
mod digests;
mod endless_statistics;
mod exports;
mod field;
mod foremost;
mod guesses;
mod http_guesses;
mod long_data;
mod long_ruled;
mod long_statement;
mod outcome;
mod peer;
mod pinned;
mod silent;
mod silent_admin;
mod slow_http;
mod slow_logins;
mod tls_handshakes;
mod unfinished;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use trunkline_stats::{Histogram, Report};
use trunkline_testkit::{AuthPlugin, MariaDb, Options, Server, Trunkline, cpu_micros};

use crate::bench::limits;
use crate::interrupt::Interrupt;
use crate::watch::{SCHEMA, Seen, Side, Watch};
use crate::{release, servers};
use field::Field;
use outcome::{HEAD, Outcome, Promise};

/// Who attacks; the password is the same word.
const ATTACKER: &str = "attacker";
/// Who only wants to read; the password is the same word.
const NEIGHBOUR: &str = "neighbour";
/// What the neighbour sends.
const POINT_SELECT: &str = "SELECT note FROM item WHERE id = 1";
/// The budget of the proxy, bytes.
const BUDGET: u64 = 256 << 20;
/// How long the neighbour is watched before an attack.
const CALM: Duration = Duration::from_secs(3);
/// After an attack, until its memory should have gone back.
const SETTLE: Duration = Duration::from_secs(5);

/// All of them, in the order of the table.
const ATTACKS: &[&Attack] = &[
    &bombs::ATTACK,
    &unfinished::ATTACK,
    &long_data::ATTACK,
    &long_statement::ATTACK,
    &long_ruled::REWRITTEN,
    &long_ruled::MIRRORED,
    &long_ruled::EXECUTED,
    &long_ruled::PREPARED,
    &columns::ATTACK,
    &exports::ATTACK,
    &digests::ATTACK,
    &pinned::ATTACK,
    &silent::ATTACK,
    &slow_logins::ATTACK,
    &guesses::ATTACK,
    &silent_admin::ATTACK,
    &tls_handshakes::ATTACK,
    &admin_guesses::ATTACK,
    &admin_long_data::ATTACK,
    &admin_export::ATTACK,
    &endless_statistics::ATTACK,
    &slow_http::ATTACK,
    &http_guesses::ATTACK,
];

/// An attack.
struct Attack {
    /// What `--only` takes.
    name: &'static str,
    /// What is done, for the table.
    what: &'static str,
    /// Lines of the configuration, beside those of all.
    settings: &'static str,
    /// Lines of the attacker's account.
    attacker: &'static str,
    /// What must hold.
    promise: Promise,
    /// Does it, for as long as the field lasts; an error is a promise that was broken.
    run: fn(&Field<'_>) -> Result<()>,
}

/// What `cargo xtask attack` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only attacks whose names contain this
    #[arg(long)]
    only: Option<String>,
    /// The longest time that one attack goes on
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Trunkline's workers
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Workers wait for a core like everybody else, and batches are as long as the machine makes
    /// them; otherwise workers come first, which takes root
    #[arg(long)]
    beside: bool,
    /// A program that is built already
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Measures, prints the table, and fails when a promise was broken.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    let only = arguments.only.as_deref().unwrap_or_default();
    let chosen: Vec<&Attack> =
        ATTACKS.iter().copied().filter(|attack| attack.name.contains(only)).collect();
    ensure!(!chosen.is_empty(), "no attack is named `{only}`: there are {}", names());
    servers::ensure_mariadb()?;
    let binary = match &arguments.program {
        Some(program) => program.clone(),
        None => release::build(root, "trunkline")?,
    };
    let descriptors = limits::raise()?;
    let interrupt = Interrupt::listen()?;
    let server = MariaDb::start(Options::default())?;
    prepare(&server)?;
    let mut outcomes = Vec::new();
    for attack in chosen {
        interrupt.check()?;
        eprintln!("== {}: {}", attack.name, attack.what);
        let outcome = measure(attack, arguments, &binary, &server, descriptors);
        let outcome = outcome.with_context(|| attack.name)?;
        eprintln!("{}", outcome.row());
        outcome.broken.iter().for_each(|broken| eprintln!("   BROKEN: {broken}"));
        outcomes.push(outcome);
    }
    println!("{HEAD}");
    outcomes.iter().for_each(|outcome| println!("{}", outcome.row()));
    let broken: Vec<String> = outcomes.iter().filter_map(Outcome::complaint).collect();
    ensure!(broken.is_empty(), "promises were broken:\n{}", broken.join("\n"));
    Ok(())
}

fn names() -> String {
    ATTACKS.iter().map(|attack| attack.name).collect::<Vec<_>>().join(", ")
}

fn prepare(server: &Server) -> Result<()> {
    for user in [ATTACKER, NEIGHBOUR] {
        server.create_user(user, user, AuthPlugin::Native)?;
    }
    server.sql(&format!(
        "SET GLOBAL max_allowed_packet = 1073741824; SET GLOBAL max_connections = 1000; \
         CREATE DATABASE {SCHEMA}; \
         CREATE TABLE {SCHEMA}.item (id INT PRIMARY KEY, note VARCHAR(60)); \
         INSERT INTO {SCHEMA}.item SELECT seq, REPEAT('n', 40) FROM seq_1_to_1000"
    ))?;
    Ok(())
}

fn config(attack: &Attack, workers: u32, server: &Server) -> String {
    let mut text = format!(
        "workers = {workers}\nmemory_max = {BUDGET}\n{}\n\
         [[server]]\nhostgroup = 10\naddress = \"{address}\"\nmax_connections = 200\n\
         [[server]]\nhostgroup = 11\naddress = \"{address}\"\nmax_connections = 200\n",
        attack.settings,
        address = server.address(),
    );
    for (user, further) in [(ATTACKER, attack.attacker), (NEIGHBOUR, "")] {
        text.push_str(&format!(
            "[[user]]\nname = \"{user}\"\npassword = \"{user}\"\ndefault_hostgroup = 10\n\
             {further}\n"
        ));
    }
    text
}

/// What a proxy has taken.
#[derive(Clone, Copy)]
struct Spent {
    at: Instant,
    proxy_micros: u64,
    own_micros: u64,
}

impl Spent {
    fn now(proxy: &Trunkline) -> Result<Spent> {
        let own_micros = cpu_micros(std::process::id())?;
        Ok(Spent { at: Instant::now(), proxy_micros: proxy.cpu_micros()?, own_micros })
    }

    /// Seconds, and CPU microseconds of the proxy and of this process, since `before`.
    fn since(self, before: Spent) -> (f64, u64, u64) {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let of = |now: u64, before: u64| now.saturating_sub(before);
        let proxy = of(self.proxy_micros, before.proxy_micros);
        (seconds, proxy, of(self.own_micros, before.own_micros))
    }
}

fn measure(
    attack: &Attack,
    arguments: &Arguments,
    binary: &Path,
    server: &Server,
    descriptors: u64,
) -> Result<Outcome> {
    let config = config(attack, arguments.workers, server);
    let proxy = Trunkline::start_database_binary(binary, &config)?;
    if !arguments.beside {
        foremost::make(&proxy)?;
    }
    let watch = Watch::default();
    let keep = |side, port| watch.keep(side, port, NEIGHBOUR, POINT_SELECT);
    std::thread::scope(|scope| {
        let through = scope.spawn(|| keep(Side::Through, proxy.port()));
        let direct = scope.spawn(|| keep(Side::Direct, server.port()));
        let measured = beside(attack, arguments, &proxy, &watch, descriptors);
        watch.stop();
        let mut outcome = measured?;
        for (who, client) in [("neighbour", through), ("client without the proxy", direct)] {
            let ended = client.join().map_err(|_| anyhow!("a client panicked"))?;
            if let Err(error) = ended {
                outcome.broken.push(format!("the {who} was not served: {error:#}"));
            }
        }
        Ok(outcome)
    })
}

/// Watches the neighbour, attacks, and looks at what is left.
fn beside(
    attack: &Attack,
    arguments: &Arguments,
    proxy: &Trunkline,
    watch: &Watch,
    descriptors: u64,
) -> Result<Outcome> {
    let begun = Spent::now(proxy)?;
    watch.take();
    std::thread::sleep(CALM);
    let (calm, before) = (watch.take(), Spent::now(proxy)?);
    let (calm_seconds, calm_proxy, calm_own) = before.since(begun);
    let (rss, batches) = (proxy.rss_bytes()?, batches(proxy)?);
    let field = Field::new(proxy, Duration::from_secs(arguments.seconds), descriptors);
    let attacked = (attack.run)(&field);
    let (during, after): (Seen, Spent) = (watch.take(), Spent::now(proxy)?);
    let (seconds, micros, own) = after.since(before);
    let peak = proxy.peak_rss_bytes()?;
    let batches = self::batches(proxy)?.since(&batches);
    std::thread::sleep(SETTLE);
    let beyond = |micros: u64, calm: u64| {
        #[expect(clippy::cast_precision_loss, reason = "microseconds of minutes")]
        let (micros, calm) = (micros as f64, calm as f64);
        (micros - calm / calm_seconds * seconds).max(0.0) / 1e6
    };
    let mut outcome = Outcome {
        what: attack.what,
        name: attack.name,
        seconds,
        sent: field.sent(),
        connections: field.connections(),
        attacker_cpu: beyond(own, calm_own),
        grown: peak.saturating_sub(rss),
        left: proxy.rss_bytes()?.saturating_sub(rss),
        proxy_cpu: beyond(micros, calm_proxy),
        calm,
        during,
        longest_batch_us: longest_us(&batches),
        answers: field.answers(),
        broken: Vec::new(),
    };
    outcome.check(&attack.promise);
    if let Err(error) = attacked {
        outcome.broken.push(format!("{error:#}"));
    }
    ensure!(proxy.is_running(), "the proxy has ended; the end of its log:\n{}", proxy.log());
    Ok(outcome)
}

/// How long the rounds of the workers' loops took so far.
fn batches(proxy: &Trunkline) -> Result<Histogram> {
    let report: Report = serde_json::from_str(&proxy.status_json()?)?;
    Ok(report.batch)
}

/// The longest one, at most a quarter too long.
fn longest_us(durations: &Histogram) -> u64 {
    let longest = durations.buckets().last();
    longest.map_or(0, |(_, longest_us, _)| longest_us.min(durations.max_us()))
}
