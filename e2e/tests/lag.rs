//! Replicas that lag by more than their `max_replication_lag` take nothing new until they have
//! caught up.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{Flavour, Server, Trunkline, wait_until};

use crate::stage::{FLAVOURS, SOON, client, is_available, replication, status, text, user};

/// The statement whose answer is the name of the server that ran it.
const WHO: &str = "SELECT name FROM mark.server";

/// Statements that stop and start a part of a replica's work, and that delay it by so much.
struct Words {
    stop: &'static str,
    start: &'static str,
    delay: fn(u32) -> String,
}

fn words(flavour: Flavour) -> Words {
    match flavour {
        Flavour::MariaDb => Words {
            stop: "STOP SLAVE SQL_THREAD",
            start: "START SLAVE SQL_THREAD",
            delay: |sec| format!("STOP SLAVE; CHANGE MASTER TO MASTER_DELAY={sec}; START SLAVE"),
        },
        Flavour::MySql => Words {
            stop: "STOP REPLICA SQL_THREAD",
            start: "START REPLICA SQL_THREAD",
            delay: |sec| {
                format!(
                    "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY={sec}; START REPLICA"
                )
            },
        },
    }
}

/// Waits until the reader has this state.
fn wait_state(proxy: &Trunkline, wanted: &str) -> Result<()> {
    let mut last = String::new();
    wait_until("the reader's state", SOON, || {
        let status = status(proxy)?;
        let servers = status.get("servers").and_then(Value::as_array).context("no servers")?;
        let is_reader = |it: &&Value| it.get("hostgroup").and_then(Value::as_u64) == Some(20);
        let reader = servers.iter().find(is_reader).context("no reader")?;
        last = reader.get("state").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok((last == wanted).then_some(()))
    })
    .with_context(|| format!("it is {last}, not {wanted}"))
}

fn start(primary: &Server, replica: &Server) -> Result<Trunkline> {
    start_with("", primary, replica)
}

fn start_with(settings: &str, primary: &Server, replica: &Server) -> Result<Trunkline> {
    Trunkline::start(&format!(
        "{settings}workers = 1\nmonitor_replication_lag_interval = 100\ncatalog_wait_ms = 10000\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\nmax_replication_lag = 1\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\nmax_replication_lag = 1\n\
         [[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n\
         read_write_split = \"auto\"\n{}",
        primary.address(),
        replica.address(),
        user(10)
    ))
}

#[test]
fn reads_leave_a_replica_that_lags_and_come_back_when_it_has_caught_up() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "reads_leave_a_replica_that_lags") {
            continue;
        }
        let replication = replication(flavour, 1)?;
        let (primary, replica) = (replication.primary(), &replication.replicas()[0]);
        let (words, proxy) = (words(flavour), start(primary, replica)?);
        let mut reader = client(&proxy, "")?;
        let who = |client: &mut _, wanted: &str| {
            let found = text(client, WHO)?;
            ensure!(found == wanted, "{found} answered in place of {wanted}");
            Ok(())
        };
        wait_state(&proxy, "ONLINE")?;
        who(&mut reader, "replica1")?;

        // A transaction that has begun there goes on there.
        let mut held = client(&proxy, "")?;
        held.sql("START TRANSACTION READ ONLY")?;
        who(&mut held, "replica1")?;
        replica.sql(words.stop)?;
        wait_state(&proxy, "SHUNNED_REPLICATION_LAG").context("its replication does not run")?;
        who(&mut reader, "primary")?;
        who(&mut held, "replica1")?;
        held.sql("COMMIT")?;
        who(&mut held, "primary")?;
        replica.sql(words.start)?;
        wait_state(&proxy, "ONLINE").context("its replication runs again")?;
        who(&mut reader, "replica1")?;

        replica.sql(&(words.delay)(3_600))?;
        primary.sql("INSERT INTO mark.note (text) VALUES ('late')")?;
        wait_state(&proxy, "SHUNNED_REPLICATION_LAG").context("it is behind")?;
        who(&mut reader, "primary")?;
        replica.sql(&(words.delay)(0))?;
        wait_state(&proxy, "ONLINE").context("it has caught up")?;
        who(&mut reader, "replica1")?;
    }
    Ok(())
}

/// The columns that pt-heartbeat writes.
const HEARTBEATS: &str = "CREATE TABLE mark.heartbeat (ts VARCHAR(26) NOT NULL, \
                          server_id INT UNSIGNED NOT NULL PRIMARY KEY) ENGINE = InnoDB";

#[test]
fn a_replica_whose_heartbeats_are_old_takes_no_reads() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_replica_whose_heartbeats_are_old") {
            continue;
        }
        let replication = replication(flavour, 1)?;
        let (primary, replica) = (replication.primary(), &replication.replicas()[0]);
        primary.sql(HEARTBEATS)?;
        // By what its replication says, it would never be behind.
        let settings = "monitor_replication_lag_use_percona_heartbeat = \"mark.heartbeat\"\n\
                        monitor_heartbeat_interval = 100\nmonitor_slave_lag_when_null = 0\n";
        let (words, proxy) = (words(flavour), start_with(settings, primary, replica)?);
        let mut reader = client(&proxy, "")?;
        wait_until("a heartbeat", SOON, || {
            let noted = replica.value("SELECT MAX(server_id) FROM mark.heartbeat")?;
            Ok((noted == primary.value("SELECT @@GLOBAL.server_id")?).then_some(()))
        })?;
        wait_state(&proxy, "ONLINE")?;
        replica.sql(words.stop)?;
        wait_state(&proxy, "SHUNNED_REPLICATION_LAG").context("its newest heartbeat is old")?;
        ensure!(text(&mut reader, WHO)? == "primary");
        replica.sql(words.start)?;
        wait_state(&proxy, "ONLINE").context("it has newer ones")?;
    }
    Ok(())
}
