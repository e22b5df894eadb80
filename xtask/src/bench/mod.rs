//! `cargo xtask bench`: a direct connection, HAProxy, Trunkline and others, interleaved in one run.
//!
//! Reading order: [`target`] (who is measured), [`cell`] (one measurement), [`table`] (medians and
//! ratios), [`beside`] (a slow statement among fast ones), [`idle`] (memory of clients that do
//! nothing), [`limits`] (file descriptors).

mod beside;
mod cell;
mod idle;
pub mod limits;
mod table;
mod target;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{AuthPlugin, HaProxy, MariaDb, Options, Server, Sysbench, Trunkline};

use crate::interrupt::Interrupt;
use crate::run::first_line;
use crate::{release, servers};
use cell::Cell;
use target::{Peer, Target};

/// The account of the bench; its password is the same word.
const USER: &str = "bench";
/// How long a peer may take until it serves our account.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);
/// MariaDB's own connections and those of an operator, beside the clients.
const CONNECTIONS_SPARE: u32 = 200;

/// What `cargo xtask bench` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds that each cell is measured
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Numbers of clients, comma-separated
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,256,1024")]
    clients: Vec<u32>,
    /// Each cell is measured so often; the tables show medians
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// A script of sysbench
    #[arg(long, default_value = "oltp_point_select")]
    workload: String,
    /// Rows of the one table
    #[arg(long, default_value_t = 100_000)]
    table_size: u32,
    /// Trunkline's workers; HAProxy has one thread
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Trunkline's cap on connections to the server, in each hostgroup
    #[arg(long, default_value_t = 16)]
    server_connections: u32,
    /// Another proxy that serves the account bench/bench and the schema sbtest: NAME:PORT:PID
    #[arg(long = "peer", value_name = "NAME:PORT:PID")]
    peers: Vec<Peer>,
    /// Port of the MariaDB that is started, so that peers can be pointed at it before
    #[arg(long)]
    server_port: Option<u16>,
    /// Prepared statements and binary results instead of texts
    #[arg(long)]
    prepared: bool,
    /// Unix sockets on all ways but HAProxy's, which stays on TCP
    #[arg(long)]
    unix: bool,
    /// Seconds of 256 clients with and without a statement of 200 ms beside them; 0 leaves it out
    #[arg(long, default_value_t = 0)]
    beside: u32,
    /// Idle clients for the measurement of memory; 0 leaves it out
    #[arg(long, default_value_t = 10_000)]
    idle: u32,
    /// A minute for a first look: 1 and 32 clients, one round of 2 seconds, 1000 idle clients
    #[arg(long)]
    quick: bool,
}

/// What was measured under which conditions.
struct Run {
    arguments: Arguments,
    conditions: Vec<(&'static str, String)>,
    cells: Vec<Cell>,
    beside: Vec<beside::Beside>,
    idle: Option<idle::Idle>,
}

/// Measures, prints the tables, and writes them under `bench/runs/`.
pub fn run(root: &Path, mut arguments: Arguments) -> Result<()> {
    if arguments.quick {
        arguments.seconds = 2;
        arguments.rounds = 1;
        arguments.clients = vec![1, 32];
        arguments.idle = arguments.idle.min(1_000);
    }
    ensure!(
        arguments.seconds > 0 && arguments.rounds > 0 && arguments.workers > 0,
        "--seconds, --rounds and --workers begin at 1"
    );
    ensure!(arguments.clients.iter().all(|clients| *clients > 0), "--clients begins at 1");
    servers::ensure_mariadb()?;
    let binary = release::build(root, "trunkline")?;
    // A thousand threads of sysbench need more descriptors than a shell commonly allows.
    let descriptors = limits::raise()?;
    let interrupt = Interrupt::listen()?;
    let start = Instant::now();
    let (server, port) = start_server(&arguments)?;
    let haproxy = HaProxy::start(port)?;
    let server_address = match arguments.unix {
        true => PathBuf::from(format!("unix:{}", server.socket().display())),
        false => PathBuf::from(format!("127.0.0.1:{port}")),
    };
    let config = target::trunkline_config(&server_address, &arguments, false);
    let trunkline = Trunkline::start_binary(&binary, &config, &[])?;
    let mut direct = Target::new("direct", port, None);
    let mut own = Target::new("Trunkline", trunkline.port(), Some(trunkline.pid()));
    if arguments.unix {
        direct = direct.by_socket(server.socket());
        own = own.by_socket(trunkline.socket());
    }
    let mut targets =
        vec![direct, Target::new("HAProxy", haproxy.port(), Some(haproxy.pid())), own.clone()];
    targets.extend(arguments.peers.iter().map(Peer::target));
    for target in &targets {
        target.wait_ready(PEER_TIMEOUT)?;
    }
    let cells = measure_all(&arguments, &server, &targets, &interrupt)?;
    let beside = beside::measure_all(&arguments, &server, &own, &interrupt)?;
    let refused = trunkline.metric("trunkline_statement_errors_total", "")?;
    drop(trunkline);
    drop(haproxy);
    if refused.unwrap_or(0.0) > 0.0 {
        println!("== Trunkline counted {} statements with errors", refused.unwrap_or(0.0));
    }
    let idle = measure_idle(&arguments, &binary, &server_address, descriptors, &interrupt)?;
    let conditions = conditions(&server, &binary)?;
    let run = Run { arguments, conditions, cells, beside, idle };
    table::publish(root, &run)?;
    println!("== done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn start_server(arguments: &Arguments) -> Result<(Server, u16)> {
    println!("== starting MariaDB and preparing {} rows", arguments.table_size);
    let most = arguments.clients.iter().copied().max().unwrap_or(0);
    let connections = most.max(1_200) + CONNECTIONS_SPARE;
    let mut options = Options::default()
        .arg(format!("--max-connections={connections}"))
        .arg(format!("--thread-cache-size={connections}"))
        .arg("--back-log=4096")
        .arg("--innodb-buffer-pool-size=256M");
    if let Some(port) = arguments.server_port {
        options = options.arg(format!("--port={port}"));
    }
    let server = MariaDb::start(options)?;
    let port = arguments.server_port.unwrap_or_else(|| server.port());
    server.create_user(USER, USER, AuthPlugin::Native)?;
    server.sql("CREATE DATABASE sbtest")?;
    sysbench(arguments, port).prepare()?;
    Ok((server, port))
}

/// The load, without clients and time.
fn sysbench(arguments: &Arguments, port: u16) -> Sysbench {
    Sysbench::new(&arguments.workload, port, USER, USER)
        .arg(format!("--table-size={}", arguments.table_size))
        .arg(if arguments.prepared { "--db-ps-mode=auto" } else { "--db-ps-mode=disable" })
        .arg("--rand-type=uniform")
        .arg("--histogram=on")
}

/// The load on one target.
fn load_on(target: &Target, arguments: &Arguments, clients: u32) -> Sysbench {
    let load = sysbench(arguments, target.port).threads(clients);
    match &target.socket {
        Some(path) => load.socket(path),
        None => load,
    }
}

/// All cells. Within a round the targets follow each other for each number of clients, and each
/// round another one begins, so that what disturbs the machine for a while disturbs all of them.
fn measure_all(
    arguments: &Arguments,
    server: &Server,
    targets: &[Target],
    interrupt: &Interrupt,
) -> Result<Vec<Cell>> {
    let total = arguments.rounds as usize * arguments.clients.len() * targets.len();
    println!("== {}: {total} cells of {} s", arguments.workload, arguments.seconds);
    let mut probe = cell::Probe::new(server)?;
    let mut cells = Vec::with_capacity(total);
    for round in 0..arguments.rounds {
        for clients in &arguments.clients {
            for index in 0..targets.len() {
                let turn = (index + round as usize) % targets.len();
                let Some(target) = targets.get(turn) else {
                    continue;
                };
                interrupt.check()?;
                let load = load_on(target, arguments, *clients);
                let cell = probe
                    .measure(target, &load, round, *clients, arguments.seconds)
                    .with_context(|| format!("{} with {clients} clients", target.name))?;
                println!("   {:>3}/{total}  {}", cells.len() + 1, cell.line());
                cells.push(cell);
            }
        }
    }
    Ok(cells)
}

fn measure_idle(
    arguments: &Arguments,
    binary: &Path,
    server: &Path,
    descriptors: u64,
    interrupt: &Interrupt,
) -> Result<Option<idle::Idle>> {
    let clients = limits::clients_within(arguments.idle, descriptors);
    if clients == 0 {
        return Ok(None);
    }
    interrupt.check()?;
    println!("== {clients} idle clients");
    if clients < arguments.idle {
        println!("   (a process may open {descriptors} files here, so not {})", arguments.idle);
    }
    // A process of its own: what a load has left behind is another question.
    let config = target::trunkline_config(server, arguments, true);
    let trunkline = Trunkline::start_binary(binary, &config, &[])?;
    let idle = idle::measure(&trunkline, clients)?;
    println!("   {}", idle.line());
    Ok(Some(idle))
}

/// What a reader needs to know to judge the numbers.
fn conditions(server: &Server, binary: &Path) -> Result<Vec<(&'static str, String)>> {
    let version = |command: &mut Command| first_line(command).unwrap_or_default();
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mariadb = server.value("SELECT VERSION()")?.unwrap_or_default();
    let haproxy = trunkline_testkit::find_program("haproxy").unwrap_or_default();
    let sysbench = trunkline_testkit::find_program("sysbench").unwrap_or_default();
    Ok(vec![
        ("CPU", format!("{cpu}, {cores} cores")),
        ("kernel", version(Command::new("uname").arg("-r"))),
        ("load average at the end", load.trim().to_owned()),
        ("MariaDB", mariadb),
        ("HAProxy", version(Command::new(haproxy).arg("-v"))),
        ("sysbench", version(Command::new(sysbench).arg("--version"))),
        ("Trunkline", version(Command::new(binary).arg("--version"))),
    ])
}
