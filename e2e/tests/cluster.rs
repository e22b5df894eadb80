//! `[[cluster]]`: servers are discovered, and their roles are followed, whoever changes them.

mod failover;
mod kinds;
mod mending;
mod metadata;
mod replay;
mod switchover;
mod targets;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{
    AuthPlugin, Flavour, MariaDb, Options, Replication, Server, SqlClient, TempFolder, Trunkline,
    error_code, http_get, wait_until,
};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, client, fails, is_available, replication, text, user,
};

/// The statement whose answer is the name of the server that ran it.
const WHO: &str = "SELECT name FROM mark.server";
/// A write, and who has done it: a read that runs where writes do.
const WRITER: &str = "SELECT name FROM mark.server FOR UPDATE";

/// The error of what was lost with a connection, and ends its session.
const LOST: u16 = 2013;
/// The error of a transaction that was lost with its connection.
const ROLLED_BACK: u16 = 1213;

/// Writes a client's next number, or its next two in a transaction, by the client's own number; how
/// many these are.
fn write_next(client: &mut SqlClient, number: u32, next: u32) -> (u32, Result<()>) {
    let insert = |n| format!("INSERT INTO mark.number (client, n) VALUES ({number}, {n})");
    if number.is_multiple_of(2) {
        return (1, client.sql(&insert(next)).map(drop));
    }
    let statements = ["BEGIN".to_owned(), insert(next), insert(next + 1), "COMMIT".to_owned()];
    (2, statements.iter().try_for_each(|statement| client.sql(statement).map(drop)))
}

fn start(seeds: &[&Server]) -> Result<Trunkline> {
    start_with("", seeds)
}

fn start_with(settings: &str, seeds: &[&Server]) -> Result<Trunkline> {
    let seeds: Vec<_> = seeds.iter().map(|seed| format!("\"{}\"", seed.address())).collect();
    Trunkline::start(&format!(
        "{settings}workers = 2\ncatalog_wait_ms = 10000\nmonitor_read_only_interval = 200\n\
         [[cluster]]\nname = \"shop\"\nkind = \"replication\"\nwriter_hostgroup = 10\n\
         reader_hostgroup = 20\nseeds = [{}]\n{}{RAW}",
        seeds.join(", "),
        user(10)
    ))
}

/// Settings of a program that notes events, in a folder that every account may write to; and where
/// it notes them.
fn note_events(folder: &Path) -> Result<(String, PathBuf)> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
    let (script, told) = (folder.join("note"), folder.join("told"));
    fs::write(&script, "#!/bin/sh\necho \"$1 $2 $3 $4\" >> \"$5\"\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    fs::write(&told, "")?;
    fs::set_permissions(&told, fs::Permissions::from_mode(0o666))?;
    let settings = format!(
        "script_user = \"nobody\"\n\
         cluster_event_script = \"{} $EVENT $INITIATOR $MASTERLIST $CLUSTER {}\"\n",
        script.display(),
        told.display()
    );
    Ok((settings, told))
}

/// A user whose bytes go straight through.
const RAW: &str = "[[user]]\nname = \"raw\"\npassword = \"raw\"\ndefault_hostgroup = 10\n\
                   fast_forward = true\n";

/// What an orchestrator does: the primary becomes read-only, a replica takes over when it has all
/// that the primary has, and the others follow it.
fn switch_over(replication: &Replication, to: usize) -> Result<()> {
    let (old, new) = (replication.primary(), &replication.replicas()[to]);
    let words = Words::of(old.flavour());
    old.sql(words.read_only)?;
    replication.wait_caught_up(SOON)?;
    new.sql(words.promote)?;
    for server in [old].into_iter().chain(replication.replicas()) {
        if server.port() != new.port() {
            follow(server, new)?;
        }
    }
    Ok(())
}

fn follow(server: &Server, source: &Server) -> Result<()> {
    server.sql(&(Words::of(server.flavour()).follow)(source.port()))?;
    Ok(())
}

struct Words {
    read_only: &'static str,
    promote: &'static str,
    follow: fn(u16) -> String,
}

impl Words {
    fn of(flavour: Flavour) -> Self {
        match flavour {
            Flavour::MariaDb => Self {
                read_only: "SET GLOBAL read_only = 1",
                promote: "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0",
                follow: |port| {
                    format!(
                        "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port},
                         MASTER_USER='replica', MASTER_PASSWORD='replica', MASTER_CONNECT_RETRY=1,
                         MASTER_USE_GTID=current_pos; START SLAVE; SET GLOBAL read_only=1"
                    )
                },
            },
            Flavour::MySql => Self {
                read_only: "SET GLOBAL super_read_only = 1",
                promote: "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = 0, \
                          read_only = 0",
                follow: |port| {
                    format!(
                        "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1',
                         SOURCE_PORT={port}, SOURCE_USER='replica', SOURCE_PASSWORD='replica',
                         SOURCE_CONNECT_RETRY=1, SOURCE_AUTO_POSITION=1,
                         GET_SOURCE_PUBLIC_KEY=1; START REPLICA; SET GLOBAL super_read_only=1"
                    )
                },
            },
        }
    }
}

/// Waits until the statement is answered by that server.
fn wait_who(proxy: &Trunkline, statement: &str, wanted: &str) -> Result<()> {
    let mut last = String::new();
    wait_until("the server", SOON, || {
        last = match client(proxy, "").and_then(|mut client| text(&mut client, statement)) {
            Ok(name) => name,
            Err(error) => format!("{error:#}"),
        };
        Ok((last == wanted).then_some(()))
    })
    .with_context(|| format!("{statement} is answered by {last}, not {wanted}"))
}

#[test]
fn the_rest_of_a_cluster_is_discovered_and_a_switchover_is_followed() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "the_rest_of_a_cluster_is_discovered") {
            continue;
        }
        let replication = replication(flavour, 2)?;
        let replicas = replication.replicas();
        // The primary is found by its replicas.
        let proxy = start(&[&replicas[0], &replicas[1]])?;
        wait_who(&proxy, WRITER, "primary")?;
        wait_who(&proxy, WHO, "replica2")?;

        let mut held = client(&proxy, "")?;
        held.sql("START TRANSACTION")?;
        ensure!(text(&mut held, WRITER)? == "primary");

        // Of a write whose names nobody has asked for yet, a refusal is told.
        client(&proxy, "")?.sql("INSERT INTO mark.note (text) VALUES ('first')")?;
        let is_over = AtomicBool::new(false);
        let writes = thread::scope(|scope| {
            let writer = scope.spawn(|| write_until(&proxy, &is_over));
            let switched = switch_over(&replication, 0);
            let followed = switched.and_then(|()| wait_who(&proxy, WRITER, "replica1"));
            is_over.store(true, Ordering::Relaxed);
            let writes = writer.join().expect("no panic")?;
            followed.map(|()| writes)
        })?;
        // Its server is another one's replica now: not even a read of its transaction runs there.
        fails(&mut held, WHO, ROLLED_BACK)?;
        held.sql("START TRANSACTION")?;
        ensure!(text(&mut held, WRITER)? == "replica1");
        wait_who(&proxy, WHO, "replica2").or_else(|_| wait_who(&proxy, WHO, "primary"))?;
        let count = replicas[0].value("SELECT COUNT(*) FROM mark.note")?;
        let writes = writes + 1;
        ensure!(count == Some(writes.to_string()), "{count:?} rows of {writes} writes");
    }
    Ok(())
}

/// Writes one row after the other until it is over; how many. None may fail, nor be done twice,
/// though the server may refuse one since it has just become read-only.
fn write_until(proxy: &Trunkline, is_over: &AtomicBool) -> Result<u64> {
    let mut client = client(proxy, "")?;
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        let insert = format!("INSERT INTO mark.note (text) VALUES ('{count}')");
        client.sql(&insert).with_context(|| format!("write {count}"))?;
        count += 1;
    }
    ensure!(count > 0, "nothing was written");
    Ok(count)
}

/// What `/api/v1/topology` says of the server at this address.
fn role(proxy: &Trunkline, server: &Server) -> Result<String> {
    let (_, body) = http_get(proxy.http_port(), "/api/v1/topology")?;
    let topology: Value = serde_json::from_str(&body)?;
    let servers = topology.pointer("/clusters/0/servers").and_then(Value::as_array);
    let is_it = |it: &&Value| it.get("address").and_then(Value::as_str) == Some(&server.address());
    let found = servers.into_iter().flatten().find(is_it);
    let role = found.and_then(|it| it.get("role")).and_then(Value::as_str);
    Ok(role.unwrap_or("no member").to_owned())
}

fn wait_role(proxy: &Trunkline, server: &Server, wanted: &str) -> Result<()> {
    let mut last = String::new();
    wait_until("the role", SOON, || {
        last = role(proxy, server)?;
        Ok((last == wanted).then_some(()))
    })
    .with_context(|| format!("{} is {last}, not {wanted}", server.address()))
}

#[test]
fn a_promotion_is_followed_and_the_old_primary_is_fenced_until_it_replicates() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_promotion_is_followed") {
            continue;
        }
        let replication = replication(flavour, 2)?;
        let (old, replicas) = (replication.primary(), replication.replicas());
        let (new, other) = (&replicas[0], &replicas[1]);
        let folder = TempFolder::new("events")?;
        let (script, told) = note_events(folder.path())?;
        old.create_user("raw", "raw", AuthPlugin::ServerDefault)?;
        replication.wait_caught_up(SOON)?;
        let proxy = start_with(&script, &[old, new, other])?;
        for (server, wanted) in [(old, "writer"), (new, "reader"), (other, "reader")] {
            wait_role(&proxy, server, wanted)?;
        }
        let mut session = client(&proxy, "")?;
        session.sql("INSERT INTO mark.note (text) VALUES ('before')")?;
        replication.wait_caught_up(SOON)?;
        old.kill_hard()?;
        // While nobody writes, writes are held and reads go on.
        let waits = thread::scope(|scope| {
            let insert = "INSERT INTO mark.note (text) VALUES ('after')";
            let proxy = &proxy;
            let waiting = scope.spawn(move || client(proxy, "")?.sql(insert));
            let raw = scope.spawn(move || proxy.connect("raw", "raw", "")?.sql(insert));
            wait_until("two are held", SOON, || {
                let held = proxy.metric("trunkline_statements_held", "hostgroup=\"10\"")?;
                Ok((held == Some(2.0)).then_some(()))
            })?;
            let reads = wait_until("a read", SOON, || {
                let who = client(proxy, "").and_then(|mut client| text(&mut client, WHO));
                Ok(who.is_ok_and(|who| who.starts_with("replica")).then_some(()))
            });
            let promoted = new.sql(Words::of(flavour).promote).and_then(|_| follow(other, new));
            let written = waiting.join().expect("no panic");
            let forwarded = raw.join().expect("no panic");
            reads.and(promoted).and(written).and(forwarded).map(|_| ())
        });
        waits.context("a write waits for the next writer")?;
        wait_role(&proxy, new, "writer")?;
        ensure!(new.value("SELECT COUNT(*) FROM mark.note")? == Some("3".to_owned()));

        // It comes back as if nothing had happened.
        old.restart()?;
        wait_role(&proxy, old, "fenced")?;
        wait_who(&proxy, WRITER, "replica1")?;
        follow(old, new)?;
        wait_role(&proxy, old, "reader")?;
        let metric = |name: &str, labels: &str| proxy.metric(name, labels);
        ensure!(metric("trunkline_cluster_writers", "cluster=\"shop\"")? == Some(1.0));
        let was_fenced = "cluster=\"shop\",event=\"fenced\"";
        ensure!(metric("trunkline_cluster_events_total", was_fenced)? == Some(1.0));
        for (role, value) in [("reader", 1.0), ("fenced", 0.0)] {
            let labels = format!("cluster=\"shop\",server=\"{}\",role=\"{role}\"", old.address());
            let is = metric("trunkline_cluster_server_role", &labels)?;
            ensure!(is == Some(value), "{role}: {is:?}");
        }
        let line = format!("new_master {} {} shop", new.address(), new.address());
        wait_until("the script has run", SOON, || {
            let told = fs::read_to_string(&told)?;
            Ok(told.lines().any(|it| it == line).then_some(()))
        })?;
        let checks = "check=\"read_only\",outcome=\"ok\"";
        ensure!(metric("trunkline_monitor_checks_total", checks)?.is_some_and(|it| it > 3.0));
    }
    Ok(())
}

#[test]
fn what_a_primary_answers_after_another_one_has_taken_over_is_not_told() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "what_a_primary_answers_after_another_one") {
            continue;
        }
        let replication = replication(flavour, 1)?;
        let (old, new) = (replication.primary(), &replication.replicas()[0]);
        let seeds = [old, new].map(|server| format!("\"{}\"", server.address())).join(", ");
        old.create_user("raw", "raw", AuthPlugin::ServerDefault)?;
        replication.wait_caught_up(SOON)?;
        let proxy = Trunkline::start(&format!(
            "workers = 1\ncatalog_wait_ms = 10000\nmonitor_read_only_interval = 200\n\
             monitor_read_only_timeout = 200\nmonitor_account = \"{USER}\"\n\
             [[cluster]]\nname = \"shop\"\nwriter_hostgroup = 10\nreader_hostgroup = 20\n\
             seeds = [{seeds}]\n{RAW}{}",
            user(10)
        ))?;
        wait_role(&proxy, old, "writer")?;
        wait_role(&proxy, new, "reader")?;
        let mut session = client(&proxy, "")?;
        session.sql("BEGIN; INSERT INTO mark.note (text) VALUES ('late')")?;
        let mut forwarded = proxy.connect("raw", "raw", "")?;
        forwarded.sql("SET @a = 1")?;
        old.pause()?;
        let committed = thread::scope(|scope| {
            let commit = scope.spawn(|| session.sql("COMMIT"));
            let promoted = new.sql(Words::of(flavour).promote);
            let followed = promoted.and_then(|_| wait_role(&proxy, new, "writer"));
            let resumed = old.resume();
            let committed = commit.join().expect("no panic");
            followed.and(resumed).map(|()| committed)
        })?;
        let error = committed.err().context("COMMIT was answered")?;
        ensure!(error_code(&error) == Some(LOST), "{error:#}");
        wait_role(&proxy, old, "fenced")?;
        let went_on = forwarded.sql("INSERT INTO mark.note (text) VALUES ('raw')");
        ensure!(went_on.is_err(), "a user with fast_forward writes to the old primary");
        ensure!(
            old.value("SELECT COUNT(*) FROM mark.note WHERE text = 'raw'")? == Some("0".into())
        );
    }
    Ok(())
}

#[test]
fn replicas_are_discovered_from_their_source() -> Result<()> {
    if !is_available(Flavour::MariaDb, "replicas_are_discovered_from_their_source") {
        return Ok(());
    }
    let primary = Arc::new(MariaDb::start(Options::id(1))?);
    let replica = MariaDb::start(Options::id(2).arg("--report-host=127.0.0.1"))?;
    let replication = Replication::start(primary, vec![Arc::new(replica)])?;
    let (primary, replica) = (replication.primary(), &replication.replicas()[0]);
    primary.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
    let proxy = start(&[primary])?;
    wait_role(&proxy, primary, "writer")?;
    wait_role(&proxy, replica, "reader")
}
