//! `cargo xtask admin`: what administering costs, and what it costs those who are served meanwhile.
//!
//! Two clients send a small statement twice a millisecond, one through the proxy and one directly
//! to the server: what the second one waits for too is the machine's.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{AuthPlugin, MariaDb, Options, Server, SqlClient, Sysbench, Trunkline};

use crate::client::Client;
use crate::interrupt::Interrupt;
use crate::watch::{Latencies, Side, Watch};
use crate::{release, servers};

/// The account; its password is the same word.
const USER: &str = "bench";
/// What must not be seen on the data port.
const SPIKE: Duration = Duration::from_millis(5);
/// Seconds of one run of sysbench beside the loads.
const TRAFFIC_SECONDS: u32 = 10;

/// What `cargo xtask admin` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Users of one load
    #[arg(long, default_value_t = 100_000)]
    users: u32,
    /// Fast routing rules of one load
    #[arg(long, default_value_t = 1_000_000)]
    routes: u32,
    /// Digests that are read
    #[arg(long, default_value_t = 100_000)]
    digests: u32,
    /// INSERTs and LOADs under sysbench
    #[arg(long, default_value_t = 10_000)]
    loads: u32,
    /// Trunkline's workers
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// A program that is built already
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Measures and prints.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    servers::ensure_mariadb()?;
    let binary = match &arguments.program {
        Some(program) => program.clone(),
        None => release::build(root, "trunkline")?,
    };
    let interrupt = Interrupt::listen()?;
    let server = MariaDb::start(Options::default())?;
    server.create_user(USER, USER, AuthPlugin::Native)?;
    server.sql("CREATE DATABASE sbtest")?;
    let proxy = Trunkline::start_database_binary(&binary, &config(&server, arguments))?;
    let mut admin = SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")?;
    let watch = Watch::default();
    std::thread::scope(|scope| {
        let through = scope.spawn(|| watch.keep(Side::Through, proxy.port(), USER, "SELECT 1"));
        let direct = scope.spawn(|| watch.keep(Side::Direct, server.port(), USER, "SELECT 1"));
        let measured = measure(arguments, &mut admin, &proxy, &watch, &interrupt);
        watch.stop();
        for client in [through, direct] {
            client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        measured
    })?;
    interrupt.check()?;
    if arguments.loads > 0 {
        loads_under_traffic(arguments.loads, &mut admin, &server, &proxy, &interrupt)?;
    }
    Ok(())
}

fn config(server: &Server, arguments: &Arguments) -> String {
    format!(
        "workers = {}\nquery_digests_max = {}\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\nmax_connections = 64\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{USER}\"\ndefault_hostgroup = 10\n",
        arguments.workers,
        arguments.digests.saturating_add(10_000),
        server.address(),
    )
}

fn measure(
    arguments: &Arguments,
    admin: &mut SqlClient,
    proxy: &Trunkline,
    watch: &Watch,
    interrupt: &Interrupt,
) -> Result<()> {
    println!("| | took | data port: p50, p99, longest, above 5 ms | directly to the server |");
    println!("|---|---|---|---|");
    during(watch, "nothing, for 5 s", || {
        std::thread::sleep(Duration::from_secs(5));
        Ok(())
    })?;
    let numbers = |count: u32| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
             INSERT INTO"
        )
    };
    let users = format!(
        "{} mysql_users (username, password, default_hostgroup) \
         SELECT 'many' || i, 'pw' || i, 10 FROM n",
        numbers(arguments.users)
    );
    let routes = format!(
        "{} mysql_query_rules_fast_routing \
         (username, schemaname, flagIN, destination_hostgroup, comment) \
         SELECT 'many' || (i % 100000), 'schema' || i, 0, 10, '' FROM n",
        numbers(arguments.routes)
    );
    let users_load = "LOAD MYSQL USERS TO RUNTIME";
    let routes_load = "LOAD MYSQL QUERY RULES TO RUNTIME";
    let steps = [
        (format!("INSERT of {} users", arguments.users), users.as_str()),
        (format!("{users_load}, {} new", arguments.users), users_load),
        (format!("{users_load}, none new"), users_load),
        (format!("INSERT of {} routes", arguments.routes), routes.as_str()),
        (format!("{routes_load}, {} new fast routes", arguments.routes), routes_load),
        (format!("{routes_load}, none new"), routes_load),
        (format!("{users_load}, with these routes"), users_load),
    ];
    for (name, sql) in &steps {
        interrupt.check()?;
        during(watch, name, || admin.sql(sql).map(drop))?;
    }
    if arguments.digests == 0 {
        return Ok(());
    }
    let mut client = Client::connect(proxy.port(), USER, "sbtest")?;
    during(watch, &format!("statements with {} digests", arguments.digests), || {
        (0..arguments.digests).try_for_each(|number| client.run(&format!("SELECT 1 AS c{number}")))
    })?;
    let all = "SELECT count(*), sum(count_star) FROM stats_mysql_query_digest";
    let first = "SELECT digest_text, sum_time FROM stats_mysql_query_digest \
                 ORDER BY sum_time DESC LIMIT 10";
    for sql in [all, all, all, first, first, "SELECT * FROM stats_mysql_query_digest"] {
        interrupt.check()?;
        during(watch, &format!("`{sql}`"), || admin.sql(sql).map(drop))?;
    }
    Ok(())
}

/// Does something, and prints how long that took and what the clients saw meanwhile.
fn during(watch: &Watch, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    watch.take();
    let begun = Instant::now();
    work().with_context(|| name.to_owned())?;
    let took = begun.elapsed();
    let seen = watch.take();
    let (through, direct) = (line(&seen.through), line(&seen.direct));
    println!("| {name} | {:.3} s | {through} | {direct} |", took.as_secs_f64());
    Ok(())
}

fn line(seen: &Latencies) -> String {
    let above = seen.above(SPIKE);
    format!(
        "{:.3}, {:.2}, {:.2} ms, {above} of {}",
        seen.share_ms(50),
        seen.share_ms(99),
        seen.longest_ms(),
        seen.len()
    )
}

/// INSERTs and LOADs of rules and servers while sysbench reads and writes: none of its statements
/// may fail.
fn loads_under_traffic(
    loads: u32,
    admin: &mut SqlClient,
    server: &Server,
    proxy: &Trunkline,
    interrupt: &Interrupt,
) -> Result<()> {
    admin.sql("DELETE FROM mysql_query_rules_fast_routing; LOAD MYSQL QUERY RULES TO RUNTIME")?;
    admin
        .sql("DELETE FROM mysql_users WHERE username LIKE 'many%'; LOAD MYSQL USERS TO RUNTIME")?;
    let sysbench = |port: u16| {
        Sysbench::new("oltp_read_write", port, USER, USER)
            .arg("--table-size=10000")
            .arg("--db-ps-mode=disable")
            .arg("--mysql-ignore-errors=1213")
    };
    sysbench(server.port()).prepare()?;
    let stopping = AtomicBool::new(false);
    let begun = Instant::now();
    let (queries, longest_ms) = std::thread::scope(|scope| -> Result<(u64, f64)> {
        let traffic = scope.spawn(|| -> Result<(u64, f64)> {
            let (mut queries, mut longest_ms) = (0, 0.0_f64);
            while !stopping.load(Ordering::Relaxed) {
                // What fails ends sysbench, but for deadlocks.
                let load = sysbench(proxy.port()).threads(8).seconds(TRAFFIC_SECONDS);
                let report = load.run()?;
                ensure!(report.reconnects == 0, "{report:?}");
                queries += report.queries;
                longest_ms = longest_ms.max(report.max_ms);
            }
            Ok((queries, longest_ms))
        });
        let worked = (1..=loads).try_for_each(|load| -> Result<()> {
            interrupt.check()?;
            let id = load % 50 + 1;
            admin.sql(&format!(
                "REPLACE INTO mysql_query_rules (rule_id, active, match_digest, apply) \
                 VALUES ({id}, 1, '^SELECT nothing{load}', 1)"
            ))?;
            match load % 10 {
                0 => {
                    admin.sql(&format!("UPDATE mysql_servers SET comment = '{load}'"))?;
                    admin.sql("LOAD MYSQL SERVERS TO RUNTIME").map(drop)
                }
                _ => admin.sql("LOAD MYSQL QUERY RULES TO RUNTIME").map(drop),
            }
        });
        stopping.store(true, Ordering::Relaxed);
        let seen = traffic.join().map_err(|_| anyhow::anyhow!("sysbench's thread panicked"))?;
        worked?;
        seen
    })?;
    let revision = admin.value("SELECT max(revision) FROM disk.config_history")?;
    println!(
        "{loads} INSERTs and LOADs in {:.1} s under sysbench: {queries} statements, none failed, \
         the longest transaction {longest_ms} ms; revision {}",
        begun.elapsed().as_secs_f64(),
        revision.unwrap_or_default(),
    );
    Ok(())
}
