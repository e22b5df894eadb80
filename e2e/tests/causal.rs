//! Causal reads: on replicas a session sees what it has written, whatever each replica lacks.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Replication, Server, SqlClient, Trunkline, wait_until};

use crate::stage::{FLAVOURS, SOON, client, fails, is_available, replication, text, user};

/// Statements that stop and start what a replica applies, and that delay it by so much.
struct Words {
    stop: &'static str,
    start: &'static str,
    delay: &'static str,
}

fn words(flavour: Flavour) -> Words {
    match flavour {
        Flavour::MariaDb => Words {
            stop: "STOP SLAVE SQL_THREAD",
            start: "START SLAVE SQL_THREAD",
            delay: "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY=1; START SLAVE",
        },
        Flavour::MySql => Words {
            stop: "STOP REPLICA SQL_THREAD",
            start: "START REPLICA SQL_THREAD",
            delay: "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY=1; START REPLICA",
        },
    }
}

/// A proxy before a primary and its replicas, with these settings.
fn proxy(replication: &Replication, settings: &str) -> Result<Trunkline> {
    Trunkline::start(&before(replication, settings))
}

fn before(replication: &Replication, settings: &str) -> String {
    let server = |hostgroup, server: &Server| {
        format!("[[server]]\nhostgroup = {hostgroup}\naddress = \"{}\"\n", server.address())
    };
    let replicas: String = replication.replicas().iter().map(|it| server(20, it)).collect();
    format!(
        "workers = 2\ncatalog_wait_ms = 10000\n{settings}\n{}{replicas}\
         [[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n\
         read_write_split = \"auto\"\n\
         [[hostgroup]]\nhostgroup_id = 20\nbalance = \"random\"\n{}",
        server(10, replication.primary()),
        user(10)
    )
}

/// The value of a counter; 0 as long as it is not shown.
fn counted(proxy: &Trunkline, outcome: &str) -> Result<f64> {
    let labels = format!("outcome=\"{outcome}\"");
    Ok(proxy.metric("trunkline_causal_reads_total", &labels)?.unwrap_or_default())
}

/// What came of reads behind writes of the same session.
#[derive(Debug, Default)]
struct Rounds {
    stale: u32,
    on_replicas: u32,
    all: u32,
}

/// Writes and reads in turns, with texts and with prepared statements.
fn rounds(client: &mut SqlClient, count: u32) -> Result<Rounds> {
    let mut rounds = Rounds::default();
    for round in 0..count {
        // Never what is there already, which would change nothing.
        let value = format!("{}.{round}", client.connection_id());
        client.sql(&format!("UPDATE mark.note SET text = '{value}' WHERE id = 1"))?;
        let read = "SELECT CONCAT(note.text, ' ', server.name) FROM mark.note, mark.server \
                    WHERE note.id = ";
        let found = match round % 2 {
            0 => text(client, &format!("{read}1"))?,
            _ => {
                let rows = client.execute(&format!("{read}?"), &["1"])?;
                rows.into_iter().flatten().flatten().next().context("a value")?
            }
        };
        let (read, name) = found.split_once(' ').context("two words")?;
        rounds.all += 1;
        rounds.stale += u32::from(read != value);
        rounds.on_replicas += u32::from(name != "primary");
    }
    Ok(rounds)
}

/// A primary with two replicas, the second of which is a second behind.
fn late_replica(flavour: Flavour) -> Result<Replication> {
    let replication = replication(flavour, 2)?;
    replication.primary().sql("INSERT INTO mark.note (id, text) VALUES (1, 'begin')")?;
    replication.wait_caught_up(SOON)?;
    replication.replicas()[1].sql(words(flavour).delay)?;
    Ok(replication)
}

/// Waits until reads of a session that has written are answered by a replica.
fn wait_followed(proxy: &Trunkline) -> Result<()> {
    wait_until("replicas are followed", SOON, || {
        let mut client = client(proxy, "")?;
        // With `causal_fallback = "error"` it fails as long as nobody follows them.
        let found = rounds(&mut client, 1).unwrap_or_default();
        Ok((found.on_replicas == 1).then_some(()))
    })
}

#[test]
fn what_a_session_has_written_it_reads_on_replicas() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "what_a_session_has_written") {
            continue;
        }
        let replication = late_replica(flavour)?;
        // Without causal reads the replica that is late is read from all the same.
        let plain = proxy(&replication, "")?;
        let found = rounds(&mut client(&plain, "")?, 40)?;
        ensure!(found.stale > 0 && found.on_replicas == found.all, "{flavour:?}: {found:?}");
        drop(plain);

        let causal = proxy(&replication, "causal_reads = \"session\"")?;
        wait_followed(&causal)?;
        let mut writer = client(&causal, "")?;
        let found = rounds(&mut writer, 200)?;
        ensure!(found.stale == 0, "{flavour:?}: {found:?}");
        ensure!(found.on_replicas * 10 >= found.all * 9, "{flavour:?}: {found:?}");
        ensure!(counted(&causal, "waited")? + counted(&causal, "reached")? >= 180.0);

        // A write that changes nothing has met what others have written: that is seen as well.
        for round in 0..10 {
            let update = format!("UPDATE mark.note SET text = 'met {round}' WHERE id = 1");
            replication.primary().sql(&update)?;
            writer.sql(&update)?;
            let found = text(&mut writer, "SELECT text FROM mark.note WHERE id = 1")?;
            ensure!(found == format!("met {round}"), "{flavour:?}: {found}");
        }

        wide_scopes(&replication)?;
        // What others have written it need not see: it is not waited for, and the late replica
        // answers as well.
        let mut reader = client(&causal, "")?;
        let begun = Instant::now();
        let name = text(&mut reader, "SELECT name FROM mark.server")?;
        ensure!(name != "primary" && begun.elapsed() < Duration::from_secs(5), "{name}");
    }
    Ok(())
}

/// What was written past the proxy is seen by a read whose comment names the transaction.
fn given_transactions(replication: &Replication) -> Result<()> {
    let (primary, flavour) = (replication.primary(), replication.primary().flavour());
    let has = match flavour {
        Flavour::MariaDb => "SELECT @@GLOBAL.gtid_binlog_pos",
        Flavour::MySql => "SELECT REPLACE(@@GLOBAL.gtid_executed, '\n', '')",
    };
    let causal = proxy(replication, "causal_reads = \"session\"\ncausal_wait_ms = 3000")?;
    wait_followed(&causal)?;
    let mut reader = client(&causal, "")?;
    let before = counted(&causal, "writer")?;
    for round in 0..20 {
        primary.sql(&format!("UPDATE mark.note SET text = 'past {round}' WHERE id = 1"))?;
        let gtid = primary.value(has)?.context("a position")?;
        let read = format!("/* min_gtid={gtid} */ SELECT text FROM mark.note WHERE id = 1");
        let found = text(&mut reader, &read)?;
        ensure!(found == format!("past {round}"), "{flavour:?}: {found} with {gtid}");
    }
    let by_writer = counted(&causal, "writer")? - before;
    ensure!(by_writer == 0.0, "{flavour:?}: the writer has answered {by_writer} times");
    let unknown = match flavour {
        Flavour::MariaDb => "77-1-5",
        Flavour::MySql => "3e11fa47-71ca-11e1-9e33-c80aa9429562:5",
    };
    for gtid in [unknown, "nonsense"] {
        let read = format!("/* min_gtid={gtid} */ SELECT text FROM mark.note WHERE id = 1");
        let refused = fails(&mut reader, &read, 1148)?;
        ensure!(refused.contains(gtid), "{flavour:?}: {refused}");
    }
    Ok(())
}

/// What a session has written another one reads that gives its token, through another proxy too.
fn carried_tokens(replication: &Replication) -> Result<()> {
    let flavour = replication.primary().flavour();
    let settings = "causal_reads = \"session\"\ncausal_wait_ms = 3000";
    let (first, second) = (proxy(replication, settings)?, proxy(replication, settings)?);
    wait_followed(&first)?;
    wait_followed(&second)?;
    let mut writer = client(&first, "")?;
    ensure!(text(&mut writer, "show causal token;")? == "t1");
    let mut readers = [client(&first, "")?, client(&second, "")?];
    for round in 0..20 {
        writer.sql(&format!("UPDATE mark.note SET text = 'carried {round}' WHERE id = 1"))?;
        let token = text(&mut writer, "SHOW CAUSAL TOKEN")?;
        let read = format!(
            "/* trunkline_token={token} */ SELECT CONCAT(note.text, ' ', server.name) \
             FROM mark.note, mark.server WHERE note.id = 1"
        );
        for reader in &mut readers {
            let found = text(reader, &read)?;
            let is_seen = found.starts_with(&format!("carried {round} replica"));
            ensure!(is_seen, "{flavour:?}: {found} with {token}");
        }
    }
    // Whoever only the writer is known to answer, says so.
    fails(&mut writer, "INSERT INTO mark.note (id, text) VALUES (1, 'twice')", 1062)?;
    let token = text(&mut writer, "SHOW CAUSAL TOKEN")?;
    ensure!(token.ends_with(",writer"), "{flavour:?}: {token}");
    let read = format!("/* trunkline_token={token} */ SELECT name FROM mark.server");
    for reader in &mut readers {
        ensure!(text(reader, &read)? == "primary", "{flavour:?}");
    }
    for wrong in ["0-1-5", "t1.10,77:4-5"] {
        let read = format!("/* trunkline_token={wrong} */ SELECT name FROM mark.server");
        fails(&mut readers[0], &read, 1148)?;
    }
    let off = proxy(replication, "")?;
    let refused = fails(&mut client(&off, "")?, "SHOW CAUSAL TOKEN", 1148)?;
    ensure!(refused.contains("causal_reads is off everywhere"), "{refused}");
    Ok(())
}

/// What others have written is seen in wider scopes, and nothing that is older than a bound.
fn wide_scopes(replication: &Replication) -> Result<()> {
    let flavour = replication.primary().flavour();
    for scope in ["user", "hostgroup", "global"] {
        let causal = proxy(replication, &format!("causal_reads = \"{scope}\""))?;
        wait_followed(&causal)?;
        let (mut writer, mut reader) = (client(&causal, "")?, client(&causal, "")?);
        for round in 0..60 {
            let value = format!("{scope} {round}");
            writer.sql(&format!("UPDATE mark.note SET text = '{value}' WHERE id = 1"))?;
            let found = text(&mut reader, "SELECT text FROM mark.note WHERE id = 1")?;
            ensure!(found == value, "{flavour:?}, {scope}: {found} in place of {value}");
        }
        let labels = format!("scope=\"{scope}\"");
        let reads = causal.metric("trunkline_causal_reads_by_scope_total", &labels)?;
        ensure!(reads.unwrap_or_default() >= 60.0, "{scope}: {reads:?}");
        ensure!(counted(&causal, "waited")? + counted(&causal, "reached")? >= 50.0, "{scope}");
    }
    // The late replica is a second behind as long as something is written.
    let causal = proxy(replication, "causal_reads = \"bounded:400\"")?;
    let (mut writer, mut reader) = (client(&causal, "")?, client(&causal, "")?);
    let begun = Instant::now();
    let mut on_replicas = 0;
    while begun.elapsed() < Duration::from_secs(3) {
        let now = begun.elapsed();
        let write = format!("UPDATE mark.note SET text = '{}' WHERE id = 1", now.as_millis());
        writer.sql(&write)?;
        let asked = begun.elapsed();
        let row = text(
            &mut reader,
            "SELECT CONCAT(note.text, ' ', server.name) FROM mark.note, mark.server WHERE note.id = 1",
        )?;
        let (written, name) = row.split_once(' ').context("two words")?;
        on_replicas += u32::from(name != "primary");
        // At first there is what was there before.
        if let (Ok(written), true) = (written.parse::<u64>(), asked > Duration::from_secs(2)) {
            let age = asked.saturating_sub(Duration::from_millis(written));
            ensure!(age < Duration::from_millis(700), "{flavour:?}: {name} shows {age:?}");
        }
    }
    ensure!(on_replicas > 20, "{flavour:?}: {on_replicas} reads on replicas");
    drop((writer, reader, causal));
    given_transactions(replication)?;
    carried_tokens(replication)
}

// long: one story, each part of which goes on from the one before.
#[test]
fn what_no_replica_shows_the_writer_answers_or_an_error() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "what_no_replica_shows") {
            continue;
        }
        let (words, replication) = (words(flavour), replication(flavour, 1)?);
        let replica = &replication.replicas()[0];
        replication.primary().sql("INSERT INTO mark.note (id, text) VALUES (1, 'begin')")?;
        replication.wait_caught_up(SOON)?;
        let who = |client: &mut SqlClient, wanted: &str| -> Result<()> {
            let found = text(client, "SELECT name FROM mark.server")?;
            ensure!(found == wanted, "{flavour:?}: {found} answered in place of {wanted}");
            Ok(())
        };
        let write = "UPDATE mark.note SET text = CONCAT(text, '+') WHERE id = 1";

        let settings = "causal_reads = \"session\"\ncausal_wait_ms = 300";
        let writers = proxy(&replication, settings)?;
        let settings =
            "causal_reads = \"session\"\ncausal_wait_ms = 50\ncausal_fallback = \"error\"";
        let failing = proxy(&replication, settings)?;
        let plain = proxy(&replication, "")?;
        wait_followed(&writers)?;
        wait_followed(&failing)?;
        replica.sql(words.stop)?;

        let mut session = client(&writers, "")?;
        who(&mut session, "replica1")?;
        session.sql(write)?;
        let begun = Instant::now();
        who(&mut session, "primary")?;
        ensure!(begun.elapsed() >= Duration::from_millis(300), "it waited");
        ensure!(counted(&writers, "writer")? >= 1.0);
        // A transaction that only reads begins where its reads see it.
        session.sql("START TRANSACTION READ ONLY")?;
        who(&mut session, "primary")?;
        session.sql("COMMIT")?;
        let mut other = client(&failing, "")?;
        other.sql(write)?;
        let said = fails(&mut other, "SELECT name FROM mark.server", 9001)?;
        ensure!(said.contains("shows what this read has to see"), "{said}");

        // What was written before anybody followed it is not known by its number.
        let mut early = client(&plain, "")?;
        early.sql(write)?;
        who(&mut early, "replica1")?;
        plain.reload(&before(&replication, "causal_reads = \"session\""))?;
        wait_until("its reads see it", SOON, || {
            Ok((text(&mut early, "SELECT name FROM mark.server")? == "primary").then_some(()))
        })?;
        for _ in 0..10 {
            who(&mut early, "primary")?;
        }

        replica.sql(words.start)?;
        replication.wait_caught_up(SOON)?;
        for session in [&mut session, &mut early] {
            wait_until("it is read from again", SOON, || {
                Ok((text(session, "SELECT name FROM mark.server")? == "replica1").then_some(()))
            })?;
        }
        who(&mut other, "replica1")?;

        // An error tells no number: until the next write, the writer is read from.
        session.sql("INSERT INTO mark.note (id, text) VALUES (7, 'seven')")?;
        fails(&mut session, "INSERT INTO mark.note (id, text) VALUES (7, 'again')", 1062)?;
        who(&mut session, "primary")?;
        session.sql(write)?;
        who(&mut session, "replica1")?;
    }
    Ok(())
}

/// Has a replica log what it applies, and keep it invisible for as long as nobody acknowledges it:
/// for 2 s, once. Whoever reads its binary log would think that it shows it.
fn open_window(replica: &Server) -> Result<()> {
    let statements = match replica.flavour() {
        Flavour::MariaDb => {
            "SET GLOBAL rpl_semi_sync_master_enabled = 0;
             SET GLOBAL rpl_semi_sync_master_timeout = 2000;
             SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC;
             SET GLOBAL rpl_semi_sync_master_wait_no_slave = 1;
             SET GLOBAL rpl_semi_sync_master_enabled = 1"
        }
        Flavour::MySql => {
            "SET GLOBAL rpl_semi_sync_source_enabled = 0;
             SET GLOBAL rpl_semi_sync_source_timeout = 2000;
             SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC;
             SET GLOBAL rpl_semi_sync_source_wait_no_replica = 1;
             SET GLOBAL rpl_semi_sync_source_enabled = 1"
        }
    };
    replica.sql(statements)?;
    Ok(())
}

#[test]
fn what_is_logged_and_not_visible_is_not_read() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "what_is_logged_and_not_visible") {
            continue;
        }
        let replication = replication(flavour, 1)?;
        let replica = &replication.replicas()[0];
        replication.primary().sql("INSERT INTO mark.note (id, text) VALUES (1, 'begin')")?;
        replication.wait_caught_up(SOON)?;
        if flavour == Flavour::MySql {
            replica.sql(
                "SET GLOBAL super_read_only = 0; SET sql_log_bin = 0;
                 INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so';
                 SET GLOBAL super_read_only = 1",
            )?;
        }
        let causal = proxy(&replication, "causal_reads = \"session\"\ncausal_wait_ms = 500")?;
        wait_followed(&causal)?;
        replication.wait_caught_up(SOON)?;
        let mut session = client(&causal, "")?;
        for round in 0..2 {
            open_window(replica)?;
            let value = format!("window {round}");
            session.sql(&format!("UPDATE mark.note SET text = '{value}' WHERE id = 1"))?;
            let logged = |server: &Server| server.value("SELECT @@GLOBAL.gtid_binlog_pos");
            if flavour == Flavour::MariaDb {
                let wanted = logged(replication.primary())?;
                wait_until("the replica has logged it", SOON, || {
                    Ok((logged(replica)? == wanted).then_some(()))
                })?;
            }
            let found = text(&mut session, "SELECT text FROM mark.note WHERE id = 1")?;
            let there = replica.value("SELECT text FROM mark.note WHERE id = 1")?;
            ensure!(found == value, "{flavour:?}: {found} in place of {value}");
            ensure!(there.as_deref() != Some(&value), "{flavour:?}: the window was not open");
            // When nobody has acknowledged it in time, it becomes visible.
            wait_until("the replica shows it", SOON, || {
                Ok((text(&mut session, "SELECT name FROM mark.server")? == "replica1")
                    .then_some(()))
            })?;
        }
    }
    Ok(())
}
