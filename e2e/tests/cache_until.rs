//! Answers that are kept until a table changes that they depend on, before real servers.

use std::{sync::Arc, thread};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Options, Server, SqlClient, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, SOON, client, is_available, new_schema, shared_replication, start, status, text, user,
};

const RULE: &str = r#"
[[rule]]
id = 7
match_digest = "^SELECT "
attributes = '{"cache": "until-changed"}'
"#;

const TABLES: &str = "
    CREATE TABLE tick (id INT PRIMARY KEY, a INT);
    CREATE TABLE item (id INT PRIMARY KEY, a INT); INSERT INTO item VALUES (1, 0), (2, 0);
    CREATE TABLE source (id INT PRIMARY KEY); CREATE TABLE plain (a INT) ENGINE = MyISAM;
    CREATE TABLE parent (id INT PRIMARY KEY); INSERT INTO parent VALUES (1), (2);
    CREATE TABLE child (id INT PRIMARY KEY, parent INT,
        FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE grandchild (id INT PRIMARY KEY, child INT,
        FOREIGN KEY (child) REFERENCES child (id) ON DELETE CASCADE);
    INSERT INTO child VALUES (1, 1), (2, 2); INSERT INTO grandchild VALUES (1, 1), (2, 2);
    CREATE VIEW seen AS SELECT id, a FROM item;
    CREATE TRIGGER made AFTER INSERT ON source FOR EACH ROW
        UPDATE item SET a = a + 100 WHERE id = 1;
    CREATE PROCEDURE raise() UPDATE item SET a = a + 1000 WHERE id = 1";

struct Scene {
    server: Arc<Server>,
    proxy: Trunkline,
    session: SqlClient,
}

impl Scene {
    fn new(flavour: Flavour) -> Result<Self> {
        let server = Arc::new(start(flavour, Options::id(1))?);
        server.sql(match flavour {
            Flavour::MariaDb => "RESET MASTER",
            Flavour::MySql => "RESET BINARY LOGS AND GTIDS",
        })?;
        server.sql(&format!("CREATE DATABASE shop; USE shop; {TABLES}"))?;
        let proxy = Trunkline::start(&format!(
            "workers = 2\nmonitor_read_only_interval = 200\nexplain_route_users = \"*\"\n\
             [[cluster]]\nname = \"shop\"\nkind = \"replication\"\nwriter_hostgroup = 10\n\
             reader_hostgroup = 20\nseeds = [\"{}\"]\nbinlog_stream = true\n{}{RULE}",
            server.address(),
            user(10)
        ))?;
        wait_until("the cluster has a writer", SOON, || {
            let stream = status(&proxy)?.pointer("/process/monitor/streams/0/server").cloned();
            let server = stream.and_then(|it| it.as_str().map(str::to_owned));
            Ok(server.filter(|server| !server.is_empty()))
        })?;
        let session = client(&proxy, "shop")?;
        Ok(Self { server, proxy, session })
    }

    fn figure(&self, name: &str) -> Result<u64> {
        let value = status(&self.proxy)?.pointer(&format!("/cache/7/{name}")).cloned();
        Ok(value.and_then(|value| value.as_u64()).unwrap_or_default())
    }

    /// Whether the next answer comes from the cache; the answer.
    fn ask(&mut self, sql: &str) -> Result<(String, bool)> {
        let before = self.figure("hits")?;
        let answer = text(&mut self.session, sql)?;
        Ok((answer, self.figure("hits")? > before))
    }

    /// Asks until an answer comes from the cache; the answer. Others commit something meanwhile.
    fn wait_kept(&mut self, sql: &str) -> Result<String> {
        let mut number = 0;
        wait_until("the answer is kept", SOON, || {
            number += 1;
            self.server.sql(&format!("REPLACE INTO shop.tick VALUES (1, {number})"))?;
            let (answer, is_kept) = self.ask(sql)?;
            Ok(is_kept.then_some(answer))
        })
        .with_context(|| {
            let explained = self.explain(sql).unwrap_or_default();
            format!("{sql}: {explained:?}\n{}", self.proxy.log())
        })
    }

    fn explain(&mut self, sql: &str) -> Result<String> {
        let rows = self.session.sql(&format!("EXPLAIN ROUTE {sql}"))?;
        let rows = rows.iter().map(|row| {
            let cells = row.iter().map(|cell| cell.clone().unwrap_or_default());
            cells.collect::<Vec<_>>().join(": ")
        });
        Ok(rows.collect::<Vec<_>>().join("\n"))
    }

    /// A change that is made behind the proxy's back shows in an answer that was kept.
    fn changes(&mut self, change: &str, sql: &str, before: &str, after: &str) -> Result<()> {
        let kept = self.wait_kept(sql)?;
        ensure!(kept == before, "before {change}: {kept} in place of {before}");
        self.server.sql(&format!("USE shop; {change}"))?;
        wait_until("the change shows", SOON, || {
            let (answer, _) = self.ask(sql)?;
            ensure!(answer == before || answer == after, "{change}: {answer}");
            Ok((answer == after).then_some(()))
        })
        .with_context(|| change.to_owned())?;
        let kept = self.wait_kept(sql)?;
        ensure!(kept == after, "behind {change}: {kept} in place of {after}");
        Ok(())
    }
}

/// Replicas answer, and what they answer is kept.
fn on_replicas(flavour: Flavour) -> Result<()> {
    let replication = shared_replication(flavour)?;
    let primary = replication.primary();
    let schema = new_schema(
        primary,
        "CREATE TABLE t (a INT); INSERT INTO t VALUES (0);
         CREATE TABLE u (id INT PRIMARY KEY, a INT)",
    )?;
    replication.wait_caught_up(SOON)?;
    let servers = replication.replicas().iter().chain([primary]);
    let seeds: Vec<String> = servers.map(|it| format!("\"{}\"", it.address())).collect();
    let proxy = Trunkline::start(&format!(
        "workers = 2\nmonitor_read_only_interval = 200\n\
         [[cluster]]\nname = \"shop\"\nkind = \"replication\"\nwriter_hostgroup = 10\n\
         reader_hostgroup = 20\nseeds = [{}]\nbinlog_stream = true\n{}{RULE}\
         destination_hostgroup = 20\n",
        seeds.join(", "),
        user(10)
    ))?;
    let session = client(&proxy, &schema)?;
    let mut it = Scene { server: Arc::clone(primary), proxy, session };
    let sql = "SELECT CONCAT(t.a, ' ', server.name) FROM t, mark.server";
    for number in 0..20 {
        let value = number.to_string();
        wait_until("a replica's answer is kept", SOON, || {
            let (answer, is_kept) = it.ask(sql)?;
            let (found, name) = answer.split_once(' ').context("two words")?;
            ensure!(name.starts_with("replica"), "{name}");
            // Something has to be committed on MariaDB before anything is kept.
            it.server.sql(&format!("REPLACE INTO {schema}.u VALUES (1, RAND() * 1e9)"))?;
            Ok((found == value && is_kept).then_some(()))
        })
        .with_context(|| format!("{value}\n{}", it.proxy.log()))?;
        it.server.sql(&format!("UPDATE {schema}.t SET a = {}", number + 1))?;
    }
    Ok(())
}

#[test]
fn answers_of_replicas_are_kept_until_something_changes_them() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "answers_of_replicas_are_kept") {
            on_replicas(flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

const ITEM: &str = "SELECT a FROM item WHERE id = 1";

fn whatever_changes_a_table(flavour: Flavour) -> Result<()> {
    let mut it = Scene::new(flavour)?;
    let hits = it.figure("hits")?;
    it.wait_kept(ITEM)?;
    ensure!(it.figure("hits")? > hits);
    let explained = it.explain(ITEM)?;
    ensure!(explained.contains("until a change of what it depends on: shop.item\n"), "{explained}");
    // Of other tables nothing is lost.
    it.server.sql("USE shop; REPLACE INTO tick VALUES (2, 2); INSERT INTO plain VALUES (1)")?;
    let changed = it.figure("changed")?;
    it.wait_kept(ITEM)?;
    ensure!(it.figure("changed")? == changed, "a change of another table");

    it.changes("UPDATE item SET a = 1 WHERE id = 1", ITEM, "0", "1")?;
    it.changes("UPDATE seen SET a = 2 WHERE id = 1", ITEM, "1", "2")?;
    it.changes("INSERT INTO source VALUES (1)", ITEM, "2", "102")?;
    it.changes("CALL raise()", ITEM, "102", "1102")?;
    it.changes("ALTER TABLE item ADD b INT DEFAULT 9", "SELECT COUNT(*) FROM item", "2", "2")?;
    it.changes("UPDATE item SET b = 5", "SELECT b FROM item WHERE id = 1", "9", "5")?;
    it.changes(
        "SET SESSION binlog_format = STATEMENT; UPDATE item SET a = 7 WHERE id = 1",
        ITEM,
        "1102",
        "7",
    )?;
    it.changes(
        "XA START 'x'; UPDATE item SET a = 8 WHERE id = 1; XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'",
        ITEM,
        "7",
        "8",
    )?;
    let view = "SELECT a FROM seen WHERE id = 1";
    it.changes("UPDATE item SET a = 9 WHERE id = 1", view, "8", "9")?;
    it.changes("CREATE OR REPLACE VIEW seen AS SELECT id, 77 AS a FROM item", view, "9", "77")?;
    let child = "SELECT COUNT(*) FROM child";
    it.wait_kept(child)?;
    let explained = it.explain(child)?;
    ensure!(explained.contains(": shop.child, shop.parent\n"), "{explained}");
    let grandchild = "SELECT COUNT(*) FROM grandchild";
    it.changes("DELETE FROM parent WHERE id = 1", grandchild, "2", "1")?;
    it.changes("UPDATE parent SET id = 3 WHERE id = 2", "SELECT parent FROM child", "2", "3")?;
    it.changes("TRUNCATE TABLE grandchild", grandchild, "1", "0")?;
    let rows = it.figure("changed")?;
    ensure!(rows > 10, "{rows}");

    // A new session gets what is kept, unless it has written something.
    for first in [true, false] {
        it.session = client(&it.proxy, "shop")?;
        it.session.sql("SET NAMES utf8mb4")?;
        match first {
            true => _ = it.wait_kept(ITEM)?,
            false => ensure!(it.ask(ITEM)?.1, "the first statement of a session"),
        }
    }

    // What can't be followed is not kept.
    it.server.sql("USE shop; DELETE FROM plain; INSERT INTO plain VALUES (4)")?;
    for _ in 0..3 {
        let (answer, is_kept) = it.ask("SELECT a FROM plain")?;
        ensure!(answer == "4" && !is_kept);
    }
    let explained = it.explain("SELECT a FROM plain")?;
    ensure!(explained.contains("shop.plain is not known to depend on InnoDB"), "{explained}");
    it.session.sql("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")?;
    for _ in 0..3 {
        ensure!(!it.ask(ITEM)?.1, "a session that reads what is not committed");
    }
    Ok(())
}

#[test]
fn answers_are_kept_until_something_changes_them() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "answers_are_kept_until_something_changes_them") {
            whatever_changes_a_table(flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// Has commits wait behind the log, for 2 s, with their rows invisible: nobody acknowledges them.
fn open_window(server: &Server) -> Result<()> {
    server.sql(match server.flavour() {
        Flavour::MariaDb => {
            "SET GLOBAL rpl_semi_sync_master_timeout = 2000;
             SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC;
             SET GLOBAL rpl_semi_sync_master_wait_no_slave = 1;
             SET GLOBAL rpl_semi_sync_master_enabled = 1"
        }
        Flavour::MySql => {
            "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so';
             SET GLOBAL rpl_semi_sync_source_timeout = 2000;
             SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC;
             SET GLOBAL rpl_semi_sync_source_wait_no_replica = 1;
             SET GLOBAL rpl_semi_sync_source_enabled = 1"
        }
    })?;
    Ok(())
}

fn doubt(flavour: Flavour) -> Result<()> {
    let mut it = Scene::new(flavour)?;
    // What a session has written it reads.
    it.wait_kept(ITEM)?;
    for number in 1..=300 {
        it.session.sql(&format!("UPDATE item SET a = {number} WHERE id = 1"))?;
        for _ in 0..3 {
            let answer = text(&mut it.session, ITEM)?;
            ensure!(answer == number.to_string(), "{answer} behind the write of {number}");
        }
        if number % 50 == 0 {
            it.wait_kept(ITEM)?;
        }
    }
    it.session.sql("BEGIN; UPDATE item SET a = 1000 WHERE id = 1")?;
    ensure!(it.ask(ITEM)? == ("1000".to_owned(), false), "within its transaction");
    it.session.sql("ROLLBACK")?;
    ensure!(it.wait_kept(ITEM)? == "300");

    // An event comes before its rows can be read: an answer of that time is not kept.
    open_window(&it.server)?;
    let changed = it.figure("changed")?;
    let writer = Arc::clone(&it.server);
    let write =
        thread::spawn(move || writer.sql("UPDATE shop.item SET a = 301 WHERE id = 1").map(drop));
    let window = (|| {
        wait_until("the event has come", SOON, || {
            ensure!(it.ask(ITEM)?.0 == "300", "the window is not open");
            Ok((it.figure("changed")? > changed).then_some(()))
        })?;
        for _ in 0..5 {
            let (answer, is_kept) = it.ask(ITEM)?;
            ensure!(answer == "300" && !is_kept, "{answer}, {is_kept}");
        }
        Ok(())
    })();
    write.join().map_err(|_| anyhow::anyhow!("the writer has panicked"))??;
    window?;
    wait_until("it can be read", SOON, || Ok((it.ask(ITEM)?.0 == "301").then_some(())))?;
    ensure!(it.wait_kept(ITEM)? == "301");

    // Nothing holds that was kept before the stream was cut.
    let (lost, command) = (it.figure("late")? + it.figure("changed")?, "Binlog Dump%");
    let dump = format!(
        "SELECT id FROM information_schema.processlist WHERE command LIKE '{command}' LIMIT 1"
    );
    let dump = it.server.value(&dump)?.context("no stream")?;
    it.server.sql(&format!("KILL {dump}"))?;
    wait_until("no answer is given", SOON, || {
        it.ask(ITEM)?;
        Ok((it.figure("late")? + it.figure("changed")? > lost).then_some(()))
    })?;
    ensure!(it.wait_kept(ITEM)? == "301");

    // Nor where servers are not set up for it any more.
    it.server.sql("SET GLOBAL TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")?;
    let late = it.figure("late")?;
    wait_until("no answer is given", SOON, || {
        it.ask(ITEM)?;
        Ok((it.figure("late")? > late).then_some(()))
    })?;
    it.server.sql("UPDATE shop.item SET a = 302 WHERE id = 1")?;
    ensure!(it.ask(ITEM)? == ("302".to_owned(), false));
    let explained = it.explain(ITEM)?;
    ensure!(explained.contains("its transaction_isolation is READ-UNCOMMITTED"), "{explained}");
    Ok(())
}

#[test]
fn in_doubt_no_answer_is_kept() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "in_doubt_no_answer_is_kept") {
            doubt(flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}
