//! Mirroring: copies run elsewhere, once, and nobody waits for them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{AuthPlugin, Flavour, Server, SqlClient, Trunkline, wait_until};

use crate::backends;
use crate::stage::{
    PASSWORD, SOON, USER, client, is_available, new_schema, one_server, shared_server, status, text,
};

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(20));";

/// The proxy before one server in hostgroups 0 and 7, another one in 5, and nobody in 6.
struct Scene {
    first: &'static Server,
    second: &'static Server,
    schema: String,
    config: String,
    proxy: Trunkline,
}

impl Scene {
    fn new(settings: &str, rules: &str) -> Result<Option<Self>> {
        if !is_available(Flavour::MariaDb, "mirror") {
            return Ok(None);
        }
        let first = shared_server(Flavour::MariaDb)?;
        let second = backends::mariadb("mirror")?.context("there is a first one")?;
        // Another test may have made it.
        drop(second.create_user(USER, PASSWORD, AuthPlugin::ServerDefault));
        let schema = new_schema(first, TABLE)?;
        let again = "DROP DATABASE IF EXISTS";
        second
            .sql(&format!("{again} {schema}; CREATE DATABASE {schema}; USE {schema}; {TABLE}"))?;
        let other = |hostgroup: u32, address: &str| {
            format!("[[server]]\nhostgroup = {hostgroup}\naddress = \"{address}\"\n")
        };
        let config = format!(
            "catalog_wait_ms = 10000\n{settings}\n\
             {}{}{}{}{}{rules}",
            one_server(first, 1, 20),
            other(5, &second.address()),
            other(6, "127.0.0.1:1"),
            other(7, &first.address()),
            other(8, &first.address().replace("127.0.0.1", "localhost")),
        );
        let proxy = Trunkline::start(&config)?;
        Ok(Some(Self { first, second, schema, config, proxy }))
    }

    fn client(&self) -> Result<SqlClient> {
        client(&self.proxy, &self.schema)
    }

    fn rows(&self, server: &Server) -> Result<String> {
        let sql = "SELECT COALESCE(GROUP_CONCAT(a ORDER BY a), '')";
        Ok(server.value(&format!("{sql} FROM {}.t", self.schema))?.unwrap_or_default())
    }

    fn counter(&self, name: &str) -> Result<u64> {
        let value = status(&self.proxy)?.pointer(&format!("/counters/{name}")).cloned();
        value.and_then(|value| value.as_u64()).with_context(|| format!("no counter {name}"))
    }

    /// Waits until the second server shows these rows.
    fn wait_copied(&self, rows: &str) -> Result<()> {
        wait_until("all copies are seen", SOON, || {
            Ok((self.rows(self.second)? == rows).then_some(()))
        })
        .with_context(|| format!("{:?} of {}", self.rows(self.second), self.told()))
    }

    /// What the proxy says of its copies, for whoever reads of a failure.
    fn told(&self) -> String {
        let Ok(status) = status(&self.proxy) else { return String::from("a proxy that is gone") };
        let counters = status.pointer("/counters").and_then(serde_json::Value::as_object);
        let counters = counters.into_iter().flatten().filter(|(name, _)| name.contains("mirror"));
        let counters: Vec<_> = counters.map(|(name, value)| format!("{name} {value}")).collect();
        format!("{counters:?} {:?}", status.pointer("/mirrors"))
    }

    /// Waits until so many copies have ended.
    fn wait_run(&self, count: u64) -> Result<()> {
        wait_until("the copies have ended", SOON, || {
            Ok((self.counter("mirrors_run")? >= count).then_some(()))
        })
        .with_context(|| self.told())?;
        ensure!(self.counter("mirrors_run")? == count);
        Ok(())
    }
}

#[test]
fn copies_run_once_and_only_elsewhere() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = '^INSERT INTO t'\nmirror_hostgroup = 5\n\
                 [[rule]]\nid = 2\nmatch_digest = '^INSERT INTO `t`'\nmirror_hostgroup = 0\n\
                 [[rule]]\nid = 3\nmatch_digest = '^REPLACE INTO t'\nmirror_hostgroup = 7\n\
                 [[rule]]\nid = 4\nmatch_digest = '^(BEGIN|COMMIT|SET)'\nmirror_hostgroup = 5\n";
    let Some(scene) = Scene::new("", rules)? else { return Ok(()) };
    let mut one = scene.client()?;
    one.sql("INSERT INTO t (a) VALUES ('text')")?;
    one.execute("INSERT INTO t (a) VALUES (?)", &["prepared"])?;
    scene.wait_run(2)?;
    scene.wait_copied("prepared,text")?;
    // Not to its own hostgroup, and not to its own server under another number.
    one.sql("INSERT INTO `t` (a) VALUES ('own')")?;
    one.sql("REPLACE INTO t (a) VALUES ('same server')")?;
    ensure!(scene.counter("mirrors_skipped")? == 2);
    ensure!(scene.rows(scene.first)? == "own,prepared,same server,text");
    // What belongs to a session stays there; a write within a transaction has its copy by itself.
    one.sql("SET @x = 1")?;
    one.sql("BEGIN")?;
    one.sql("INSERT INTO t (a) VALUES ('in a transaction')")?;
    one.sql("COMMIT")?;
    scene.wait_run(3)?;
    scene.wait_copied("in a transaction,prepared,text")?;
    ensure!(scene.counter("mirrors_skipped")? == 5);
    ensure!(scene.counter("mirrors_failed")? == 0);
    // A copy is nobody's client.
    let sessions = status(&scene.proxy)?;
    let clients = sessions.pointer("/workers/0/clients").and_then(serde_json::Value::as_u64);
    ensure!(clients == Some(1), "{clients:?}");
    Ok(())
}

#[test]
fn issue_16_writes_to_a_temporary_table_are_not_copied() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = '.'\nmirror_hostgroup = 5\n";
    let Some(scene) = Scene::new("", rules)? else { return Ok(()) };
    let mut one = scene.client()?;
    one.sql("INSERT INTO t (a) VALUES ('copied')")?;
    scene.wait_run(1)?;
    one.sql("CREATE TEMPORARY TABLE t (id INT, a VARCHAR(40))")?;
    one.sql("INSERT INTO t (a) VALUES ('own')")?;
    one.sql("DELETE FROM t")?;
    one.sql("DROP TEMPORARY TABLE t")?;
    one.sql("INSERT INTO t (a) VALUES ('copied again')")?;
    scene.wait_copied("copied,copied again")?;
    scene.wait_run(2)?;
    ensure!(scene.rows(scene.first)? == "copied,copied again");
    Ok(())
}

#[test]
fn answers_are_compared_with_their_copies() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = '^SELECT'\nmirror_hostgroup = 5\n\
                 attributes = '{\"mirror\": \"compare\"}'\n";
    let Some(scene) = Scene::new("", rules)? else { return Ok(()) };
    for (server, value) in [(scene.first, "same"), (scene.second, "same")] {
        server.sql(&format!("INSERT INTO {}.t (a) VALUES ('{value}')", scene.schema))?;
    }
    let mut one = scene.client()?;
    let sums = |expected: [u64; 4]| {
        wait_until("the answers are compared", SOON, || {
            let status = status(&scene.proxy)?;
            let rows = status.pointer("/mirrors").and_then(serde_json::Value::as_array);
            let sum = |name: &str| -> u64 {
                let rows = rows.into_iter().flatten();
                rows.filter_map(|row| row.get(name)?.as_u64()).sum()
            };
            let names = ["compared", "errors_differ", "rows_differ", "values_differ"];
            Ok((names.map(sum) == expected).then_some(()))
        })
        .with_context(|| format!("{expected:?} are expected of {}", scene.told()))
    };
    ensure!(text(&mut one, "SELECT a FROM t")? == "same");
    sums([1, 0, 0, 0])?;
    scene.second.sql(&format!("UPDATE {}.t SET a = 'other'", scene.schema))?;
    ensure!(text(&mut one, "SELECT a FROM t")? == "same");
    sums([2, 0, 0, 1])?;
    scene.second.sql(&format!("INSERT INTO {}.t (a) VALUES ('more')", scene.schema))?;
    let rows = one.execute("SELECT a FROM t WHERE id > ?", &["0"])?;
    ensure!(rows.len() == 1);
    sums([3, 0, 1, 1])?;
    scene.second.sql(&format!("DROP TABLE {}.t", scene.schema))?;
    ensure!(text(&mut one, "SELECT a FROM t")? == "same");
    sums([4, 1, 1, 1])
}

#[test]
fn a_copy_neither_slows_nor_fails_its_original() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = '^SELECT .one'\nmirror_hostgroup = 6\n\
                 [[rule]]\nid = 2\nmatch_digest = '^INSERT'\nmirror_hostgroup = 5\n\
                 [[rule]]\nid = 3\nmatch_digest = '^SELECT `two`'\nmirror_hostgroup = 5\n";
    let settings = "connect_timeout_server_max = 3000\nmirror_max_concurrency = 1\n\
                    mirror_max_queue_length = 2";
    let Some(scene) = Scene::new(settings, rules)? else { return Ok(()) };
    let mut one = scene.client()?;
    // A table that is locked there and not here.
    let mut lock = scene.second.root()?;
    lock.sql(&format!("USE {}", scene.schema))?;
    lock.sql("LOCK TABLES t WRITE")?;
    let begin = Instant::now();
    for _ in 0..6 {
        one.sql("INSERT INTO t (a) VALUES ('x')")?;
    }
    ensure!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    ensure!(scene.rows(scene.first)? == "x,x,x,x,x,x");
    let (queued, dropped) = (scene.counter("mirrors_queued")?, scene.counter("mirrors_dropped")?);
    ensure!(queued + dropped == 6 && (2..=3).contains(&queued), "{queued} {dropped}");
    lock.sql("UNLOCK TABLES")?;
    scene.wait_run(queued)?;
    // Nobody is there.
    let begin = Instant::now();
    ensure!(text(&mut one, "SELECT `one` FROM (SELECT 1 AS one) AS t")? == "1");
    ensure!(begin.elapsed() < Duration::from_millis(400), "{:?}", begin.elapsed());
    scene.wait_run(queued + 1)?;
    ensure!(scene.counter("mirrors_failed")? == 1);
    // A client that leaves does not take its copy along.
    one.sql("INSERT INTO t (a) VALUES ('last')")?;
    drop(one);
    wait_until("the copy has run", SOON, || {
        Ok(scene.rows(scene.second)?.contains("last").then_some(()))
    })
}

/// One copy may run at once, and that one waits for a lock.
const ONE_AT_ONCE: &str = "mirror_max_concurrency = 1";

#[test]
fn a_copy_that_waits_is_dropped_when_its_hostgroup_has_become_another() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = '^INSERT'\nmirror_hostgroup = 5\n";
    let Some(scene) = Scene::new(ONE_AT_ONCE, rules)? else { return Ok(()) };
    let mut lock = scene.second.root()?;
    lock.sql(&format!("USE {}; LOCK TABLES t WRITE", scene.schema))?;
    let mut one = scene.client()?;
    one.sql("INSERT INTO t (a) VALUES ('runs')")?;
    one.sql("INSERT INTO t (a) VALUES ('waits')")?;
    let moved = scene.config.replace(&scene.second.address(), &scene.first.address());
    let mark = scene.proxy.reload(&moved)?;
    scene.proxy.wait_log(mark, "in force", SOON)?;
    lock.sql("UNLOCK TABLES")?;
    wait_until("the copy that waited is over", SOON, || {
        let over = scene.counter("mirrors_run")? + scene.counter("mirrors_skipped")?;
        Ok((over == 2).then_some(()))
    })?;
    ensure!(scene.rows(scene.first)? == "runs,waits");
    ensure!(scene.rows(scene.second)? == "runs");
    ensure!(scene.counter("mirrors_skipped")? == 1);
    Ok(())
}

#[test]
fn a_copy_that_has_become_a_write_is_dropped() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = '^INSERT'\nmirror_hostgroup = 5\n";
    let Some(scene) = Scene::new(ONE_AT_ONCE, rules)? else { return Ok(()) };
    scene.first.sql(&format!(
        "USE {}; CREATE TABLE v (a INT); INSERT INTO v VALUES (5); CREATE TABLE log (a INT)",
        scene.schema
    ))?;
    let writes = "CREATE FUNCTION f() RETURNS INT DETERMINISTIC \
                  BEGIN INSERT INTO log VALUES (1); RETURN 9; END";
    let mut root = scene.first.root()?;
    root.sql(&format!("USE {}", scene.schema))?;
    root.sql(writes)?;
    root.sql("CREATE VIEW vf AS SELECT f() AS a")?;
    let mut lock = scene.second.root()?;
    lock.sql(&format!("USE {}; LOCK TABLES t WRITE", scene.schema))?;
    let mut one = scene.client()?;
    ensure!(text(&mut one, "SELECT a FROM v")? == "5");
    one.sql("INSERT INTO t (a) VALUES ('runs')")?;
    ensure!(text(&mut one, "/* mirror=7 */ SELECT a FROM v")? == "5");
    one.sql("RENAME TABLE v TO before_it, vf TO v")?;
    lock.sql("UNLOCK TABLES")?;
    wait_until("the copy that waited is over", SOON, || {
        let over = scene.counter("mirrors_run")? + scene.counter("mirrors_skipped")?;
        Ok((over == 2).then_some(()))
    })?;
    ensure!(root.value("SELECT COUNT(*) FROM log")?.as_deref() == Some("0"));
    ensure!(scene.counter("mirrors_skipped")? == 1);
    Ok(())
}

#[test]
fn copies_go_through_rules_of_their_own() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = '^INSERT'\nmirror_flagOUT = 9\n\
                 [[rule]]\nid = 2\nflagIN = 9\nmatch_pattern = 'elsewhere'\n\
                 destination_hostgroup = 5\n\
                 [[rule]]\nid = 3\nflagIN = 9\nmatch_pattern = 'nowhere'\nerror_msg = 'no'\n";
    let Some(scene) = Scene::new("", rules)? else { return Ok(()) };
    let mut one = scene.client()?;
    for value in ["elsewhere", "nowhere", "at home"] {
        one.sql(&format!("INSERT INTO t (a) VALUES ('{value}')"))?;
    }
    scene.wait_run(1)?;
    ensure!(scene.rows(scene.second)? == "elsewhere");
    ensure!(scene.counter("mirrors_skipped")? == 2);
    // A hint says so for one statement.
    one.sql("/* mirror=5 */ SELECT a FROM t")?;
    scene.wait_run(2)
}

#[test]
fn no_write_is_copied_to_a_replica_of_its_server_in_whichever_hostgroup_that_is() -> Result<()> {
    let rules = "[[replication]]\nwriter_hostgroup = 7\nreader_hostgroup = 5\n\
                 [[rule]]\nid = 1\nmatch_digest = '^INSERT'\nmirror_hostgroup = 5\n\
                 [[rule]]\nid = 2\nmatch_digest = '^SELECT'\nmirror_hostgroup = 5\n";
    let Some(scene) = Scene::new("", rules)? else { return Ok(()) };
    let mut one = scene.client()?;
    one.sql("INSERT INTO t (a) VALUES ('once')")?;
    // What is proven to read is copied, once it is known what its names are there.
    wait_until("a read is copied", SOON, || {
        one.sql("SELECT a FROM t")?;
        Ok((scene.counter("mirrors_run")? > 0).then_some(()))
    })?;
    ensure!(scene.rows(scene.first)? == "once");
    ensure!(scene.rows(scene.second)?.is_empty(), "the replica has the copy as well");
    Ok(())
}

#[test]
fn no_write_is_copied_to_its_own_server_by_another_name() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = '^INSERT'\nmirror_hostgroup = 8\n";
    let Some(scene) = Scene::new("", rules)? else { return Ok(()) };
    ensure!(scene.first.address().starts_with("127.0.0.1:"), "{}", scene.first.address());
    let mut one = scene.client()?;
    one.sql("INSERT INTO t (a) VALUES ('once')")?;
    ensure!(scene.counter("mirrors_skipped")? == 1);
    ensure!(scene.rows(scene.first)? == "once");
    Ok(())
}

#[test]
fn what_its_names_mean_where_a_copy_or_a_hint_leads_is_what_counts() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = '^SELECT a FROM m'\nmirror_hostgroup = 5\n";
    let Some(scene) = Scene::new("", rules)? else { return Ok(()) };
    let schema = &scene.schema;
    // A table on the first server; on the second a view that takes a lock and writes.
    scene.first.sql(&format!(
        "USE {schema}; CREATE TABLE m (a INT); INSERT INTO m VALUES (1);
         CREATE TABLE n (a INT); INSERT INTO n VALUES (1)"
    ))?;
    let lock = format!("{schema}.lock");
    let mut root = scene.second.root()?;
    root.sql(&format!("USE {schema}"))?;
    root.sql(&format!(
        "CREATE FUNCTION takes() RETURNS INT DETERMINISTIC
         BEGIN INSERT INTO t (a) VALUES ('taken'); RETURN GET_LOCK('{lock}', 0); END"
    ))?;
    root.sql("CREATE VIEW m AS SELECT takes() AS a")?;
    root.sql("CREATE VIEW n AS SELECT takes() + 1 AS a")?;
    let (mut one, mut other) = (scene.client()?, scene.client()?);
    ensure!(text(&mut one, "SELECT a FROM m")? == "1");
    scene.wait_run(1)?;
    ensure!(scene.rows(scene.second)? == "taken");
    let released = format!("/* hostgroup=5 */ SELECT COALESCE(RELEASE_LOCK('{lock}'), 'nobody')");
    ensure!(text(&mut other, &released)? == "nobody", "the copy's lock is another session's");
    // The second one has a reader; where a comment leads there, its view counts.
    let reader = format!(
        "[[server]]\nhostgroup = 9\naddress = '{}'\ncomment = 'standby'\n\
         [[replication]]\nwriter_hostgroup = 5\nreader_hostgroup = 9\n",
        scene.second.address()
    );
    let mark = scene.proxy.reload(&format!("{}{reader}", scene.config))?;
    scene.proxy.wait_log(mark, "in force", SOON)?;
    ensure!(text(&mut one, "SELECT a FROM n")? == "1");
    ensure!(text(&mut one, "/* maxscale route to server standby */ SELECT a FROM n")? == "1");
    // Nor does a client's word have its writes copied to a reader.
    let skipped = scene.counter("mirrors_skipped")?;
    one.sql("/* mirror=9 */ INSERT INTO t (a) VALUES ('hinted')")?;
    ensure!(scene.counter("mirrors_skipped")? == skipped + 1);
    ensure!(scene.rows(scene.second)? == "taken", "a reader was written to");
    Ok(())
}
