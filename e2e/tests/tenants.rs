//! Tenants take turns on a server that runs so many statements at once.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use trunkline_testkit::{SqlClient, Trunkline, wait_until};

use crate::backends::{self, PASSWORD, TIMEOUT};
use crate::stage::{fails, text};

const FLOOD: &str = "ten_flood";
const LATE: &str = "ten_late";
/// What the flood has waiting behind its first statement.
const WAITING: usize = 3;
/// How long the first one takes, and those that wait.
const FIRST: Duration = Duration::from_secs(2);
const BEHIND: Duration = Duration::from_millis(300);

fn admin(proxy: &Trunkline) -> Result<SqlClient> {
    SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")
}

/// Waits until a column of a tenant's row says so.
fn wait_stats(admin: &mut SqlClient, name: &str, column: &str, wanted: usize) -> Result<()> {
    let query = format!("SELECT {column} FROM stats_tenants WHERE name = '{name}'");
    let wanted = wanted.to_string();
    wait_until(&format!("{name}: {column} = {wanted}"), TIMEOUT, || {
        // It has no row before its first statement.
        let rows = admin.sql(&query)?;
        let value = rows.first().and_then(|row| row.first()).cloned().flatten();
        Ok((value == Some(wanted.clone())).then_some(()))
    })
}

/// A statement of the flood; when it was answered.
fn sleep(proxy: &Trunkline, time: Duration) -> Result<Instant> {
    let mut client = proxy.connect(FLOOD, PASSWORD, "")?;
    client.value(&format!("SELECT SLEEP({})", time.as_secs_f64()))?;
    Ok(Instant::now())
}

#[test]
fn who_has_used_little_goes_before_a_flood_and_deadlines_are_kept() -> Result<()> {
    let Some(server) = backends::mariadb("who_has_used_little")? else { return Ok(()) };
    for name in [FLOOD, LATE] {
        backends::account(server, name)?;
    }
    let settings = "tenant_by = \"user\"\nserver_concurrency = 1\n";
    let config = backends::Config::new(settings, server).user(FLOOD).user(LATE);
    let text_of_one = config.text().replacen("workers = 2", "workers = 1", 1);
    let proxy = Trunkline::start_database(&text_of_one)?;
    let mut admin = admin(&proxy)?;
    let mut late = proxy.connect(LATE, PASSWORD, LATE)?;
    ensure!(text(&mut late, "SELECT 1")? == "1");
    thread::scope(|scope| {
        let proxy = &proxy;
        let begun = Instant::now();
        let first = scope.spawn(move || sleep(proxy, FIRST));
        wait_stats(&mut admin, FLOOD, "running", 1)?;
        let flood = [BEHIND; WAITING].map(|time| scope.spawn(move || sleep(proxy, time)));
        wait_stats(&mut admin, FLOOD, "waiting", WAITING)?;
        let hinted = "SELECT /*+ MAX_EXECUTION_TIME(100) */ 1";
        let error = fails(&mut late, hinted, 3024)?;
        ensure!(error.contains("nothing was executed"), "{error}");
        ensure!(text(&mut late, "SELECT 2")? == "2");
        let answered = Instant::now();
        let join = |it: thread::ScopedJoinHandle<'_, Result<Instant>>| {
            it.join().map_err(|_| anyhow!("a client panicked"))?
        };
        ensure!(answered - begun >= FIRST, "it had begun already");
        join(first)?;
        for behind in flood {
            ensure!(answered < join(behind)?, "it waited behind the flood");
        }
        anyhow::Ok(())
    })?;
    let late = "SELECT COUNT(*) FROM stats_tenants WHERE name = 'ten_late' AND late = 1 \
                AND queued >= 1 AND server_time_us > 0 AND waiting = 0";
    ensure!(admin.value(late)?.as_deref() == Some("1"));
    Ok(())
}

#[test]
fn tenants_are_loaded_and_shown() -> Result<()> {
    let Some(server) = backends::mariadb("tenants_are_loaded_and_shown")? else { return Ok(()) };
    let name = "ten_shown";
    backends::account(server, name)?;
    let settings = "tenant_by = \"user\"\nserver_concurrency = \"auto\"\n";
    let config = backends::Config::new(settings, server).user(name);
    let proxy = Trunkline::start_database(config.text())?;
    let mut admin = admin(&proxy)?;
    admin.sql(&format!(
        "INSERT INTO trunkline_tenants (name, weight, share_min, share_max, priority) \
         VALUES ('{name}', 7, 10, 60, 3), ('*', 1, 0, 25, 0)"
    ))?;
    admin.sql("LOAD MYSQL FIREWALL TO RUNTIME")?;
    ensure!(admin.value("SELECT COUNT(*) FROM runtime_trunkline_tenants")?.as_deref() == Some("2"));
    let mut client = proxy.connect(name, PASSWORD, name)?;
    ensure!(text(&mut client, "SELECT 1")? == "1");
    let shown = format!(
        "SELECT COUNT(*) FROM stats_tenants WHERE name = '{name}' AND weight = 7 AND priority = 3 \
         AND share_min = 10 AND share_max = 60 AND statements >= 1"
    );
    ensure!(admin.value(&shown)?.as_deref() == Some("1"));
    admin.sql(&format!("UPDATE trunkline_tenants SET share_min = 90 WHERE name = '{name}'"))?;
    let wrong = admin.sql("LOAD MYSQL FIREWALL TO RUNTIME").err().map(|it| format!("{it:#}"));
    let wrong = wrong.unwrap_or_default();
    ensure!(wrong.contains("share_min") && wrong.contains("share_max"), "{wrong}");
    let route = admin.sql("EXPLAIN ROUTE SELECT 1")?;
    let text = format!("{route:?}");
    ensure!(text.contains("priority 3, weight 7, 10 to 60 %"), "{text}");
    Ok(())
}
