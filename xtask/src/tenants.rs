//! `cargo xtask tenants`: one tenant floods a real server with scans of a table while 49 others
//! read single rows through the proxy: what that costs them with and without tenants. And what a
//! server answers at four times the load that saturates it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use trunkline_testkit::{AuthPlugin, MariaDb, Options, Server, Trunkline};

use crate::watch::Latencies;
use crate::{release, servers};

/// Who floods; the passwords are the names.
const FLOOD: &str = "flood";
/// The others.
const OTHERS: usize = 49;
/// What the flood reads, and how many rows that are.
const SCAN: &str = "SELECT COUNT(*) FROM ten.big WHERE pad LIKE '%9a8b7c%'";
const ROWS: u32 = 200_000;
/// How long one of the others rests between two statements.
const RESTS: Duration = Duration::from_millis(50);
/// What is not counted, at the beginning of each measurement.
const WARM_UP: Duration = Duration::from_secs(2);
/// p99 of the others may rise by so much.
const RISE_MAX: f64 = 1.5;
/// So much of the best must be answered at four times the load that saturates.
const GOODPUT_MIN: f64 = 0.9;
/// Work for the server that takes no lock and no disk.
const WORK: &str = "SELECT BENCHMARK(20000, MD5('a'))";
/// Clients of the work; the last is four times what saturates two cores.
const LOADS: [usize; 5] = [1, 2, 4, 8, 32];

/// What `cargo xtask tenants` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// How long is measured, each time
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Clients of the tenant that floods
    #[arg(long, default_value_t = 16)]
    flood: usize,
    /// Turns
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only print what was measured, whatever it is
    #[arg(long)]
    no_limits: bool,
    /// A program that is built already
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Measures in turns, prints the tables, and fails where a promise is broken.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    servers::ensure_mariadb()?;
    let binary = match &arguments.program {
        Some(program) => program.clone(),
        None => release::build(root, "trunkline")?,
    };
    let server = MariaDb::start(Options::id(1))?;
    prepare(&server)?;
    let mut broken = flood(arguments, &binary, &server)?;
    broken.extend(overload(arguments, &binary, &server)?);
    match arguments.no_limits {
        true => broken.iter().for_each(|line| println!("{line}")),
        false => ensure!(broken.is_empty(), "promises were broken:\n{}", broken.join("\n")),
    }
    Ok(())
}

fn prepare(server: &Server) -> Result<()> {
    server.create_user(FLOOD, FLOOD, AuthPlugin::Native)?;
    for nth in 0..OTHERS {
        server.create_user(&name(nth), &name(nth), AuthPlugin::Native)?;
    }
    server.sql("CREATE DATABASE ten")?;
    server.sql("CREATE TABLE ten.big (id INT PRIMARY KEY, pad VARCHAR(200)) ENGINE=InnoDB")?;
    server.sql(&format!(
        "INSERT INTO ten.big SELECT seq, REPEAT(MD5(seq), 6) FROM ten.seq_1_to_{ROWS}"
    ))?;
    Ok(())
}

fn name(nth: usize) -> String {
    format!("t{nth:02}")
}

/// A configuration with these settings and sections.
fn config(server: &Server, settings: &str, sections: &str) -> String {
    let mut text = format!(
        "workers = 1\n{settings}\n[[server]]\nhostgroup = 10\naddress = \"{}\"\n\
         max_connections = 140\n{sections}\n",
        server.address()
    );
    for user in (0..OTHERS).map(name).chain([FLOOD.to_owned()]) {
        text.push_str(&format!(
            "[[user]]\nname = \"{user}\"\npassword = \"{user}\"\ndefault_hostgroup = 10\n"
        ));
    }
    text
}

/// The others alone and beside the flood, with tenants off and on, in turns.
fn flood(arguments: &Arguments, binary: &Path, server: &Server) -> Result<Vec<String>> {
    let off = config(server, "", "");
    let on = config(
        server,
        "tenant_by = \"user\"\nserver_concurrency = 4",
        "[[tenant]]\nname = \"*\"\nshare_max = 25",
    );
    println!("| turn | 49 tenants with | reads/s | p50 ms | p99 ms | scans/s | p99 of alone |");
    println!("|---:|---|---:|---:|---:|---:|---:|");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for turn in 1..=arguments.rounds.max(1) {
        for (word, text, rises) in [("off", &off, &mut without), ("on", &on, &mut with)] {
            let alone = neighbours(arguments, binary, text, 0)?;
            let p99 = alone.latencies.share_ms(99);
            println!("{}", alone.row(turn, &format!("nobody else, tenants {word}"), p99));
            let flooded = neighbours(arguments, binary, text, arguments.flood)?;
            println!("{}", flooded.row(turn, &format!("the flood, tenants {word}"), p99));
            rises.push(flooded.latencies.share_ms(99) / p99);
        }
    }
    let (without, with) = (median(without), median(with));
    println!("\np99 of the 49, median of the turns: {without:.2} × without, {with:.2} × with\n");
    let is_broken = with > RISE_MAX;
    Ok(is_broken.then(|| format!("p99 rises by {with:.2} ×")).into_iter().collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// What the others have seen, and how much of the flood was served.
struct Seen {
    latencies: Latencies,
    reads: u64,
    scans: u64,
    seconds: u64,
}

impl Seen {
    fn row(&self, turn: usize, what: &str, alone_ms: f64) -> String {
        let p99_ms = self.latencies.share_ms(99);
        format!(
            "| {turn} | {what} | {} | {:.2} | {p99_ms:.2} | {} | {:.2} × |",
            self.reads / self.seconds,
            self.latencies.share_ms(50),
            self.scans / self.seconds,
            p99_ms / alone_ms,
        )
    }
}

fn neighbours(arguments: &Arguments, binary: &Path, config: &str, flood: usize) -> Result<Seen> {
    let proxy = Trunkline::start_binary(binary, config, &[])?;
    let seconds = arguments.seconds.max(1);
    let begins = Instant::now() + WARM_UP;
    let ends = begins + Duration::from_secs(seconds);
    let scans = AtomicU64::new(0);
    let seen = std::thread::scope(|scope| {
        let scanning: Vec<_> =
            (0..flood).map(|_| scope.spawn(|| scan(&proxy, &scans, begins, ends))).collect();
        let proxy = &proxy;
        let reading: Vec<_> =
            (0..OTHERS).map(|nth| scope.spawn(move || read(proxy, nth, begins, ends))).collect();
        let joined = reading.into_iter().map(|it| it.join().map_err(|_| anyhow!("a panic"))?);
        let seen: Result<Vec<Vec<Duration>>> = joined.collect();
        for scanning in scanning {
            scanning.join().map_err(|_| anyhow!("a panic"))??;
        }
        seen
    })?;
    let all: Vec<Duration> = seen.into_iter().flatten().collect();
    let reads = all.len() as u64;
    Ok(Seen { latencies: Latencies::of(all), reads, scans: scans.load(Relaxed), seconds })
}

fn scan(proxy: &Trunkline, scans: &AtomicU64, begins: Instant, ends: Instant) -> Result<()> {
    let mut client = proxy.connect(FLOOD, FLOOD, "")?;
    while Instant::now() < ends {
        client.value(SCAN)?;
        if Instant::now() >= begins {
            scans.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

/// Reads single rows, with rests between.
fn read(proxy: &Trunkline, nth: usize, begins: Instant, ends: Instant) -> Result<Vec<Duration>> {
    let user = name(nth);
    let mut client = proxy.connect(&user, &user, "")?;
    let mut seen = Vec::new();
    for id in (1 + nth * 7..).step_by(OTHERS) {
        let begun = Instant::now();
        if begun >= ends {
            break;
        }
        let id = id % ROWS as usize + 1;
        client.value(&format!("SELECT pad FROM ten.big WHERE id = {id}"))?;
        if begun >= begins {
            seen.push(begun.elapsed());
        }
        std::thread::sleep(RESTS);
    }
    Ok(seen)
}

/// What is answered by the number of clients, with `server_concurrency` off and found by trying.
fn overload(arguments: &Arguments, binary: &Path, server: &Server) -> Result<Vec<String>> {
    println!("| turn | server_concurrency | {} clients, statements/s |", list(LOADS));
    println!("|---:|---|---|");
    let mut shares = Vec::new();
    for turn in 1..=arguments.rounds.max(1) {
        for setting in ["off", "auto"] {
            let text = config(server, &format!("server_concurrency = \"{setting}\""), "");
            let mut rates = Vec::new();
            for clients in LOADS {
                rates.push(work(arguments, binary, &text, clients)?);
            }
            println!("| {turn} | {setting} | {} |", list(rates.iter()));
            let best = rates.iter().max().copied().unwrap_or_default();
            if let (Some(last), "auto") = (rates.last(), setting) {
                shares.push(*last as f64 / best.max(1) as f64);
            }
        }
    }
    let share = median(shares);
    println!("\nat 4 × the load that saturates: {:.0} % of the best, with auto", share * 100.0);
    let is_broken = share < GOODPUT_MIN;
    Ok(is_broken.then(|| format!("goodput falls to {share:.2} of the best")).into_iter().collect())
}

fn list(items: impl IntoIterator<Item = impl ToString>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// Statements of pure work that so many clients get answered per second.
fn work(arguments: &Arguments, binary: &Path, config: &str, clients: usize) -> Result<u64> {
    let proxy = Trunkline::start_binary(binary, config, &[])?;
    let seconds = arguments.seconds.max(1);
    let begins = Instant::now() + WARM_UP;
    let ends = begins + Duration::from_secs(seconds);
    let (answered, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let done = (|| {
                    let mut client = proxy.connect(FLOOD, FLOOD, "")?;
                    while Instant::now() < ends {
                        client.value(WORK)?;
                        answered.fetch_add(u64::from(Instant::now() >= begins), Relaxed);
                    }
                    anyhow::Ok(())
                })();
                has_failed.fetch_or(done.is_err(), Relaxed);
            });
        }
    });
    ensure!(!has_failed.load(Relaxed), "a client failed");
    Ok(answered.load(Relaxed) / seconds)
}
