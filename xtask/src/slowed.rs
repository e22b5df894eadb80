//! `cargo xtask slowed`: three real servers behind the proxy, of which one is stopped and let go on
//! in short steps. What its share falls to, and what all clients' latencies are beside those with
//! the other two alone.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use trunkline_testkit::{AuthPlugin, MariaDb, Options, Server, Trunkline};

use crate::watch::Latencies;
use crate::{release, servers};

/// The account; the password is the same word.
const USER: &str = "slowed";
/// A read that says which server has answered it.
const READ: &str = "SELECT @@port, MD5('a')";
/// How long the slowed server stands, and goes on, at a time.
const STANDS: Duration = Duration::from_millis(40);
const GOES: Duration = Duration::from_millis(10);
/// What is not counted, at the beginning.
const WARM_UP: Duration = Duration::from_secs(3);
/// p99 of all three may be so many times that of the two alone.
const SLOWER_MAX: f64 = 1.5;

/// What `cargo xtask slowed` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// How long is measured, each time
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Clients
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Only this choice of a server, `p2c` or another
    #[arg(long)]
    balance: Option<String>,
    /// A program that is built already
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Measures, prints the table, and fails when `p2c` does not keep its promise.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    servers::ensure_mariadb()?;
    let binary = match &arguments.program {
        Some(program) => program.clone(),
        None => release::build(root, "trunkline")?,
    };
    let all = [1, 2, 3].map(|id| MariaDb::start(Options::id(id)));
    let [slow, one, other] = all;
    let all = [slow?, one?, other?];
    for server in &all {
        server.create_user(USER, USER, AuthPlugin::Native)?;
    }
    let [slow, others @ ..] = &all;
    println!("| balance | servers | reads/s | p50 ms | p99 ms | share of the slowed one |");
    println!("|---|---|---:|---:|---:|---:|");
    let mut broken = Vec::new();
    for balance in ["random", "leastconn", "p2c"] {
        if arguments.balance.as_deref().is_some_and(|only| only != balance) {
            continue;
        }
        let alone = measure(arguments, &binary, balance, others, None)?;
        println!("{}", alone.row(balance, "two", slow.port()));
        let slowed = measure(arguments, &binary, balance, &all, Some(slow))?;
        println!("{}", slowed.row(balance, "three, one slowed", slow.port()));
        let limit_ms = alone.latencies.share_ms(99) * SLOWER_MAX;
        let p99_ms = slowed.latencies.share_ms(99);
        if balance == "p2c" && p99_ms > limit_ms {
            broken.push(format!("{balance}: p99 is {p99_ms:.2} ms, above {limit_ms:.2} ms"));
        }
    }
    ensure!(broken.is_empty(), "promises were broken:\n{}", broken.join("\n"));
    Ok(())
}

/// What clients have seen.
struct Seen {
    latencies: Latencies,
    /// Who answered each read, by port.
    ports: Vec<u16>,
    seconds: u64,
}

impl Seen {
    fn row(&self, balance: &str, servers: &str, slow: u16) -> String {
        let of_slow = self.ports.iter().filter(|port| **port == slow).count();
        let share = of_slow as f64 * 100.0 / self.ports.len().max(1) as f64;
        format!(
            "| {balance} | {servers} | {} | {:.2} | {:.2} | {share:.1} % |",
            self.ports.len() as u64 / self.seconds,
            self.latencies.share_ms(50),
            self.latencies.share_ms(99),
        )
    }
}

fn measure(
    arguments: &Arguments,
    binary: &Path,
    balance: &str,
    servers: &[Server],
    slow: Option<&Server>,
) -> Result<Seen> {
    let proxy = Trunkline::start_binary(binary, &config(balance, servers), &[])?;
    let seconds = arguments.seconds.max(1);
    let begins = Instant::now() + WARM_UP;
    let ends = begins + Duration::from_secs(seconds);
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let brake = scope.spawn(|| slow.map_or(Ok(()), |slow| slow_down(slow, &is_over)));
        let clients: Vec<_> =
            (0..arguments.clients).map(|_| scope.spawn(|| read(&proxy, begins, ends))).collect();
        let seen = clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| Err(anyhow!("a client panicked"))));
        let seen: Result<Vec<_>> = seen.collect();
        is_over.store(true, Relaxed);
        brake.join().map_err(|_| anyhow!("the brake panicked"))??;
        seen
    })?;
    let all: Vec<(Duration, u16)> = seen.into_iter().flatten().collect();
    let latencies = Latencies::of(all.iter().map(|(took, _)| *took).collect());
    Ok(Seen { latencies, ports: all.iter().map(|(_, port)| *port).collect(), seconds })
}

/// Stops a server and lets it go on, again and again, and goes on at the end.
fn slow_down(server: &Server, is_over: &AtomicBool) -> Result<()> {
    while !is_over.load(Relaxed) {
        server.pause()?;
        std::thread::sleep(STANDS);
        server.resume()?;
        std::thread::sleep(GOES);
    }
    Ok(())
}

fn read(proxy: &Trunkline, begins: Instant, ends: Instant) -> Result<Vec<(Duration, u16)>> {
    let mut client = proxy.connect(USER, USER, "")?;
    let mut seen = Vec::new();
    loop {
        let begun = Instant::now();
        if begun >= ends {
            return Ok(seen);
        }
        let port = client.value(READ)?.context("a server without a port")?;
        if begun >= begins {
            seen.push((begun.elapsed(), port.parse()?));
        }
    }
}

fn config(balance: &str, servers: &[Server]) -> String {
    let mut text = "workers = 1\n".to_owned();
    for server in servers {
        text.push_str(&format!(
            "[[server]]\nhostgroup = 10\naddress = \"{}\"\nmax_connections = 100\n",
            server.address()
        ));
    }
    text.push_str(&format!(
        "[[hostgroup]]\nhostgroup_id = 10\nbalance = \"{balance}\"\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{USER}\"\ndefault_hostgroup = 10\n"
    ));
    text
}
