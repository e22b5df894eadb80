//! Large configurations: what they cost grows with their size and no faster.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use trunkline_testkit::{Sysbench, find_program, skipped};

use super::begin;
use crate::backends::{self, PASSWORD};

const USERS: u32 = 20_000;
const ROUTES: u32 = 100_000;
/// Far more than it takes without optimisation on two busy cores, far less than what grows with
/// the square (release figures for five times as much are in `docs/performance.md`).
const TIME_MAX: Duration = Duration::from_secs(40);

#[test]
fn many_users_and_routes_are_loaded_under_traffic() -> Result<()> {
    let Some(server) = backends::mariadb("many_users_and_routes")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_many")?;
    let stopping = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let traffic = scope.spawn(|| -> Result<u64> {
            let mut client = proxy.connect("adm_many", PASSWORD, "")?;
            let mut statements = 0;
            while !stopping.load(Ordering::Relaxed) {
                ensure!(client.value("SELECT 1")?.as_deref() == Some("1"));
                statements += 1;
            }
            Ok(statements)
        });
        let rows = |count: u32, insert: &str| {
            format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
                 INSERT INTO {insert} FROM n"
            )
        };
        let loaded = (|| -> Result<()> {
            let users = "mysql_users (username, password, default_hostgroup) \
                         SELECT 'many' || i, 'pw' || i, 10";
            let routes = "mysql_query_rules_fast_routing \
                          (username, schemaname, flagIN, destination_hostgroup, comment) \
                          SELECT 'many' || i, 'schema' || i, 0, 10, ''";
            for (count, insert, load) in [
                (USERS, users, "LOAD MYSQL USERS TO RUNTIME"),
                (ROUTES, routes, "LOAD MYSQL QUERY RULES TO RUNTIME"),
            ] {
                admin.sql(&rows(count, insert))?;
                let begun = Instant::now();
                admin.sql(load)?;
                ensure!(begun.elapsed() < TIME_MAX, "{load}: {:?}", begun.elapsed());
            }
            Ok(())
        })();
        stopping.store(true, Ordering::Relaxed);
        let statements = traffic.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        loaded?;
        ensure!(statements > 10, "only {statements} statements");
        Ok(())
    })?;
    assert_eq!(
        admin.value("SELECT count(*) FROM runtime_mysql_users")?,
        Some((USERS + 1).to_string())
    );
    Ok(())
}

#[test]
fn every_digest_is_read_once() -> Result<()> {
    const DIGESTS: usize = 2_000;
    let Some(server) = backends::mariadb("every_digest_is_read")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_digests")?;
    let mut client = proxy.connect("adm_digests", PASSWORD, "")?;
    for number in 0..DIGESTS {
        client.sql(&format!("SELECT 1 AS c{number}"))?;
    }
    let of = "FROM stats_mysql_query_digest WHERE digest_text LIKE 'SELECT ? AS c%'";
    let counted = admin.sql(&format!("SELECT count(*), sum(count_star), min(count_star) {of}"))?;
    let expected = [DIGESTS, DIGESTS, 1].map(|number| Some(number.to_string()));
    assert_eq!(counted, [expected.to_vec()]);
    // A reset begins anew, and takes nothing twice.
    assert!(admin.sql("SELECT * FROM stats_mysql_query_digest_reset")?.len() >= DIGESTS);
    let left = admin.value(&format!("SELECT count(*) {of}"))?;
    assert_eq!(left.as_deref(), Some("0"));
    Ok(())
}

/// INSERTs and LOADs while sysbench reads and writes; `cargo xtask admin` does ten thousand.
#[test]
fn loads_under_sysbench_fail_no_statement() -> Result<()> {
    const TEST: &str = "loads_under_sysbench";
    const LOADS: u32 = 40;
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    if find_program("sysbench").is_none() {
        skipped(TEST, "sysbench is not installed (cargo xtask servers installs it)");
        return Ok(());
    }
    let (proxy, mut admin) = begin(server, "adm_sysbench")?;
    let sysbench = |port: u16| {
        Sysbench::new("oltp_read_write", port, "adm_sysbench", PASSWORD)
            .arg("--mysql-db=adm_sysbench")
            .arg("--table-size=2000")
            .arg("--mysql-ignore-errors=1213")
            .threads(4)
    };
    sysbench(server.port()).prepare()?;
    let stopping = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let traffic = scope.spawn(|| -> Result<u64> {
            let mut queries = 0;
            while !stopping.load(Ordering::Relaxed) {
                // A statement that fails ends sysbench with an error, but for a deadlock.
                let report = sysbench(proxy.port()).seconds(3).run()?;
                ensure!(report.reconnects == 0, "{report:?}");
                queries += report.queries;
            }
            Ok(queries)
        });
        let worked = (1..=LOADS).try_for_each(|load| -> Result<()> {
            let id = load % 40 + 1;
            admin.sql(&format!(
                "REPLACE INTO mysql_query_rules (rule_id, active, match_digest, apply) \
                 VALUES ({id}, 1, '^SELECT nothing{load}', 1)"
            ))?;
            admin.sql("LOAD MYSQL QUERY RULES TO RUNTIME")?;
            if load % 10 == 0 {
                admin.sql(&format!("UPDATE mysql_servers SET comment = '{load}'"))?;
                admin.sql("LOAD MYSQL SERVERS TO RUNTIME")?;
            }
            Ok(())
        });
        stopping.store(true, Ordering::Relaxed);
        let queries =
            traffic.join().map_err(|_| anyhow::anyhow!("sysbench's thread panicked"))??;
        worked?;
        ensure!(queries > 100, "only {queries} statements");
        Ok(())
    })?;
    let revision = admin.value("SELECT max(revision) FROM disk.config_history")?;
    assert_eq!(revision, Some((LOADS + LOADS / 10).to_string()));
    Ok(())
}
