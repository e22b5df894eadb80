//! The guided part: single statements through the proxy, and which server answered each.

use anyhow::{Context, Result};
use trunkline_stats::Report;
use trunkline_testkit::{SqlClient, Trunkline};

use super::cluster::Cluster;
use super::screen::grouped;

/// Schema of the tour and of the small application.
pub const SCHEMA: &str = "shop";
/// How often the read that shows the balance is sent.
const READS: u32 = 40;
/// Width of the column with the statements.
const STATEMENT_WIDTH: usize = 45;

const ORDERS: &str = "orders (id INT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40), \
    amount INT, written_by INT)";
const INSERT: &str = "INSERT INTO orders (item, amount, written_by) VALUES \
    ('handset', 3, @@server_id), ('cord', 5, @@server_id), ('jack', 8, @@server_id)";

/// One that is made through the proxy.
const CREATE_RECEIPTS: &str = "CREATE TABLE receipts (id INT AUTO_INCREMENT PRIMARY KEY)";

/// Statements sent together, and what is shown for them.
struct Step {
    shown: &'static str,
    statements: &'static [&'static str],
}

const STEPS: [Step; 7] = [
    Step {
        shown: "SELECT item, amount FROM orders WHERE id = 1",
        statements: &["SELECT item, amount FROM orders WHERE id = 1"],
    },
    Step {
        shown: "UPDATE orders SET amount = amount + 1 …",
        statements: &["UPDATE orders SET amount = amount + 1 WHERE id = 1"],
    },
    Step {
        shown: "SELECT amount FROM orders … FOR UPDATE",
        statements: &["SELECT amount FROM orders WHERE id = 1 FOR UPDATE"],
    },
    Step {
        shown: "START TRANSACTION; SELECT …; UPDATE …; COMMIT",
        statements: &[
            "START TRANSACTION",
            "SELECT amount FROM orders WHERE id = 2",
            "UPDATE orders SET amount = amount - 1 WHERE id = 2",
            "COMMIT",
        ],
    },
    Step {
        shown: "START TRANSACTION READ ONLY; SELECT …; COMMIT",
        statements: &["START TRANSACTION READ ONLY", "SELECT SUM(amount) FROM orders", "COMMIT"],
    },
    Step {
        shown: "SELECT GET_LOCK(…); SELECT …; … RELEASE_ALL…",
        statements: &[
            "SELECT GET_LOCK('till', 1)",
            "SELECT amount FROM orders WHERE id = 3",
            "SELECT RELEASE_ALL_LOCKS()",
        ],
    },
    Step { shown: "SHOW TABLES", statements: &["SHOW TABLES"] },
];

/// Runs the tour; nothing else may use the proxy meanwhile.
pub fn run(cluster: &Cluster) -> Result<()> {
    println!("== making the schema {SCHEMA} with a table orders on the primary");
    let primary = cluster.servers().next().context("there is no primary")?;
    primary.sql(&format!("CREATE DATABASE {SCHEMA}"))?;
    primary.sql(&format!("CREATE TABLE {SCHEMA}.{ORDERS}"))?;
    println!("== statements through the proxy, and who answered (from the proxy's own counters)");
    let heading = "statement";
    println!("   {heading:STATEMENT_WIDTH$}  answered by");
    cluster.wait_caught_up()?;
    let mut client = cluster.connect(SCHEMA)?;
    show(cluster, "INSERT INTO orders … VALUES (…), (…), (…)", || {
        run_all(&mut client, &[INSERT])
    })?;
    // A replica answers what it has; the tour is not about how late it may be.
    cluster.wait_caught_up()?;
    for step in &STEPS {
        show(cluster, step.shown, || run_all(&mut client, step.statements))?;
    }
    show(cluster, &format!("SELECT COUNT(*) FROM orders, {READS} times"), || {
        (0..READS).try_for_each(|_| run_all(&mut client, &["SELECT COUNT(*) FROM orders"]))
    })?;
    let zones = zones_seen(cluster, &mut client)?;
    println!("   each of these reads, wherever it ran, saw the session's time_zone, {zones}");
    show(cluster, "CREATE TABLE receipts (…)", || run_all(&mut client, &[CREATE_RECEIPTS]))?;
    show(cluster, "SELECT COUNT(*) FROM receipts", || {
        run_all(&mut client, &["SELECT COUNT(*) FROM receipts"])
    })?;
    println!(
        "   what was made through the proxy is read on the primary for 10 s, as replicas may lag"
    );
    check_rows(cluster)
}

/// A setting is made once and then seen on whichever connection serves the session.
fn zones_seen(cluster: &Cluster, client: &mut SqlClient) -> Result<String> {
    let mut zones = Vec::new();
    show(cluster, "SET time_zone = '+05:00'", || run_all(client, &["SET time_zone = '+05:00'"]))?;
    show(cluster, "SELECT TIMEDIFF(NOW(), …) FROM …, 8 times", || {
        for _ in 0..8 {
            let read = "SELECT TIMEDIFF(NOW(), UTC_TIMESTAMP()) FROM orders LIMIT 1";
            zones.push(client.value(read)?.unwrap_or_default());
        }
        Ok(())
    })?;
    zones.sort_unstable();
    zones.dedup();
    anyhow::ensure!(
        zones == ["05:00:00"],
        "a session setting was lost: reads saw the offsets {zones:?}"
    );
    Ok("+05:00".to_owned())
}

/// The rows themselves say which server executed the INSERT, and that the replicas have them.
fn check_rows(cluster: &Cluster) -> Result<()> {
    cluster.wait_caught_up()?;
    let question =
        format!("SELECT COUNT(*), MIN(written_by), MAX(written_by) FROM {SCHEMA}.orders");
    for server in cluster.servers() {
        let rows = server.sql(&question)?;
        let row: Vec<String> = rows.into_iter().flatten().map(Option::unwrap_or_default).collect();
        let name = cluster.name_of(&server.address());
        anyhow::ensure!(row == ["3", "1", "1"], "{name} holds other rows: {row:?}");
        println!("   {name} itself says: 3 orders, all written by server #1");
    }
    Ok(())
}

fn run_all(client: &mut SqlClient, statements: &[&str]) -> Result<()> {
    statements.iter().try_for_each(|statement| client.sql(statement).map(drop))
}

/// Runs something and prints one line with the servers that it reached.
fn show(cluster: &Cluster, what: &str, act: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = report(cluster.proxy())?;
    act().with_context(|| format!("through the proxy: {what}"))?;
    let after = report(cluster.proxy())?;
    let servers: Vec<String> = answered(&before, &after)
        .into_iter()
        .map(|(address, statements)| {
            let name = cluster.name_of(&address);
            match statements {
                1 => name,
                more => format!("{name} ×{}", grouped(more)),
            }
        })
        .collect();
    let servers =
        if servers.is_empty() { "trunkline itself".to_owned() } else { servers.join(", ") };
    println!("   {what:STATEMENT_WIDTH$}  {servers}");
    Ok(())
}

/// The proxy's numbers now.
pub fn report(proxy: &Trunkline) -> Result<Report> {
    let text = proxy.status_json()?;
    serde_json::from_str(&text).context("/status of another shape")
}

/// Servers that got statements between two reports, with how many.
fn answered(before: &Report, after: &Report) -> Vec<(String, u64)> {
    let count = |report: &Report, hostgroup, address: &str| {
        let rows = report.servers.iter();
        let mut found = rows.filter(|row| row.hostgroup == hostgroup && row.address == address);
        found.next().map_or(0, |row| row.counters.statements)
    };
    let rows = after.servers.iter().filter_map(|row| {
        let earlier = count(before, row.hostgroup, &row.address);
        let more = row.counters.statements.saturating_sub(earlier);
        (more > 0).then(|| (row.address.clone(), more))
    });
    rows.collect()
}
