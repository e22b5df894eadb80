//! The result cache: who gets a stored answer, and who never does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_protocol::Capabilities;
use trunkline_testkit::{Flavour, Server, SqlClient, Trunkline, wait_until};

use crate::backends;
use crate::stage::{
    PASSWORD, SOON, USER, client, fails, is_available, new_schema, one_server, shared_server,
    status, text,
};
use crate::wire::{MODERN, PLAIN, Shape, Wire, code, login};

const RULES: &str = r#"
[[rule]]
id = 10
match_digest = "FROM (t|warned|nothing)\\b"
cache_ttl = 600000
[[rule]]
id = 20
match_digest = "FROM brief"
cache_ttl = 300
[[rule]]
id = 30
match_digest = "^SELECT \\?,"
cache_ttl = 600000
attributes = '{"cache": "always"}'
"#;

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20)); \
    INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three'); \
    CREATE TABLE brief (a INT); INSERT INTO brief VALUES (1); CREATE TABLE nothing (a INT); \
    CREATE TABLE warned (a VARCHAR(20)); INSERT INTO warned VALUES ('x')";

struct Scene {
    server: &'static Server,
    schema: String,
    proxy: Trunkline,
}

impl Scene {
    fn new(flavour: Flavour, settings: &str) -> Result<Self> {
        let server = shared_server(flavour)?;
        let schema = new_schema(server, TABLES)?;
        let config = format!("{settings}\n{}{RULES}", one_server(server, 2, 20));
        Ok(Self { server, schema, proxy: Trunkline::start(&config)? })
    }

    fn client(&self) -> Result<SqlClient> {
        client(&self.proxy, &self.schema)
    }

    /// Changes a row behind the proxy's back.
    fn change(&self, id: u32, a: &str) -> Result<()> {
        let schema = &self.schema;
        self.server.sql(&format!("UPDATE {schema}.t SET a = '{a}' WHERE id = {id}"))?;
        Ok(())
    }

    fn counter(&self, name: &str) -> Result<u64> {
        let value = status(&self.proxy)?.pointer(&format!("/counters/{name}")).cloned();
        value.and_then(|value| value.as_u64()).with_context(|| format!("no counter {name}"))
    }
}

const ONE: &str = "SELECT a FROM t WHERE id = 1";

fn who_gets_it(flavour: Flavour) -> Result<()> {
    let scene = Scene::new(flavour, "")?;
    let (mut first, mut second) = (scene.client()?, scene.client()?);
    ensure!(text(&mut first, ONE)? == "one");
    scene.change(1, "changed")?;
    ensure!(text(&mut first, ONE)? == "one", "stored");
    ensure!(text(&mut second, ONE)? == "one", "stored for everybody alike");
    ensure!(scene.counter("cache_hits")? == 2);
    // Whatever changes an answer makes it another one.
    ensure!(text(&mut second, "SELECT a FROM t WHERE id = 2")? == "two");
    ensure!(text(&mut second, "SELECT a  FROM t WHERE id = 1")? == "changed", "another text");
    second.sql("SET NAMES latin1")?;
    ensure!(text(&mut second, ONE)? == "changed", "another character set");
    second.sql("SET NAMES utf8mb4; SET time_zone = '+03:00'")?;
    ensure!(text(&mut second, ONE)? == "changed", "another time zone");
    let mut third = scene.client()?;
    third.sql("SET sql_mode = 'ANSI_QUOTES'")?;
    ensure!(text(&mut third, ONE)? == "changed", "another SQL mode");
    // A transaction sees what it sees.
    first.sql("BEGIN")?;
    ensure!(text(&mut first, ONE)? == "changed");
    first.sql("UPDATE t SET a = 'mine' WHERE id = 1")?;
    ensure!(text(&mut first, ONE)? == "mine");
    first.sql("ROLLBACK")?;
    ensure!(text(&mut first, ONE)? == "one", "what a transaction reads is not stored");
    first.sql("SET autocommit = 0")?;
    ensure!(text(&mut first, ONE)? == "changed");
    first.sql("ROLLBACK; SET autocommit = 1")?;
    // A session's own table of the name hides the other.
    let mut fourth = scene.client()?;
    fourth.sql("CREATE TEMPORARY TABLE t (id INT, a VARCHAR(20))")?;
    fourth.sql("INSERT INTO t VALUES (1, 'temporary')")?;
    ensure!(text(&mut fourth, ONE)? == "temporary");
    ensure!(text(&mut first, ONE)? == "one");
    Ok(())
}

fn what_is_stored(flavour: Flavour) -> Result<()> {
    let scene = Scene::new(flavour, "")?;
    let mut one = scene.client()?;
    // Time, chance and locks are not; errors are not.
    for sql in [
        "SELECT NOW(6), a FROM t WHERE id = 1",
        "SELECT RAND(), a FROM t WHERE id = 1",
        "SELECT CURRENT_TIMESTAMP, a FROM t",
        "SELECT CONNECTION_ID(), a FROM t",
        "SELECT a FROM t WHERE id = 1 FOR UPDATE",
        "SELECT @x, a FROM t",
        "SELECT SQL_NO_CACHE a FROM t",
    ] {
        let before = scene.counter("cache_stored")?;
        one.sql(sql)?;
        one.sql(sql)?;
        ensure!(scene.counter("cache_stored")? == before, "stored: {sql}");
    }
    fails(&mut one, "SELECT missing FROM t", 1054)?;
    scene.server.sql(&format!("ALTER TABLE {}.t ADD missing INT DEFAULT 5", scene.schema))?;
    ensure!(text(&mut one, "SELECT missing FROM t")? == "5", "an error was stored");
    // Empty results are, unless told otherwise; results with warnings are not.
    let before = scene.counter("cache_hits")?;
    ensure!(one.sql("SELECT a FROM nothing")?.is_empty());
    ensure!(one.sql("SELECT a FROM nothing")?.is_empty());
    ensure!(scene.counter("cache_hits")? == before + 1);
    for _ in 0..2 {
        one.sql("SELECT a + 1 FROM warned")?;
    }
    ensure!(scene.counter("cache_hits")? == before + 1, "warnings were stored");
    // A rule may insist.
    let always = "SELECT 'always', RAND()";
    let (first, second) = (one.sql(always)?, one.sql(always)?);
    ensure!(first == second, "{first:?} {second:?}");
    // Time passes.
    ensure!(text(&mut one, "SELECT a FROM brief")? == "1");
    scene.server.sql(&format!("UPDATE {}.brief SET a = 2", scene.schema))?;
    wait_until("the answer has expired", SOON, || {
        Ok((text(&mut one, "SELECT a FROM brief")? == "2").then_some(()))
    })
}

/// What a statement leaves behind is its session's own, also when it was answered from the cache.
fn traces(flavour: Flavour) -> Result<()> {
    let scene = Scene::new(flavour, "")?;
    let (mut one, mut other) = (scene.client()?, scene.client()?);
    let all = "SELECT a FROM t ORDER BY id";
    ensure!(one.sql(all)?.len() == 3);
    fails(&mut other, "SELECT nonsense", 1054)?;
    other.sql("SELECT 1 UNION SELECT 2")?;
    ensure!(text(&mut other, "SELECT FOUND_ROWS()")? == "2");
    fails(&mut other, "SELECT nonsense", 1054)?;
    ensure!(other.sql(all)?.len() == 3);
    ensure!(scene.counter("cache_hits")? == 1);
    ensure!(text(&mut other, "SELECT FOUND_ROWS()")? == "3");
    ensure!(other.sql(all)?.len() == 3);
    ensure!(text(&mut other, "SELECT ROW_COUNT()")? == "-1");
    fails(&mut other, "SELECT nonsense", 1054)?;
    ensure!(other.sql(all)?.len() == 3);
    let warnings = other.sql("SHOW WARNINGS")?;
    ensure!(warnings.is_empty(), "{warnings:?}");
    Ok(())
}

fn prepared(flavour: Flavour) -> Result<()> {
    let scene = Scene::new(flavour, "")?;
    let (mut one, mut other) = (scene.client()?, scene.client()?);
    let sql = "SELECT a FROM t WHERE id = ?";
    let get = |client: &mut SqlClient, id: &str| -> Result<String> {
        let rows = client.execute(sql, &[id])?;
        rows.into_iter().flatten().flatten().next().context("no value")
    };
    ensure!(get(&mut one, "1")? == "one" && get(&mut one, "2")? == "two");
    scene.change(1, "changed")?;
    ensure!(get(&mut one, "1")? == "one" && get(&mut other, "1")? == "one");
    ensure!(get(&mut other, "3")? == "three");
    ensure!(text(&mut other, ONE)? == "changed", "rows of text are not rows of values");
    ensure!(scene.counter("cache_hits")? == 2);
    Ok(())
}

/// Byte for byte what the server says directly, whoever it was that filled the cache.
fn framings(flavour: Flavour) -> Result<()> {
    let sql = "SELECT id, a FROM t ORDER BY id";
    let wants = [PLAIN, MODERN, PLAIN.union(Capabilities::SESSION_TRACK)];
    for filler in wants {
        let scene = Scene::new(flavour, "")?;
        let mut wire = connect(&scene, &scene.proxy, filler)?;
        wire.exchange(code::QUERY, sql.as_bytes(), Shape::Results)?;
        for (hits, wanted) in (1..).zip(wants) {
            let mut direct = connect(&scene, scene.server, wanted)?;
            let expected = direct.exchange(code::QUERY, sql.as_bytes(), Shape::Results)?;
            let mut wire = connect(&scene, &scene.proxy, wanted)?;
            let answer = wire.exchange(code::QUERY, sql.as_bytes(), Shape::Results)?;
            let (answer, expected) = (alike(&answer), alike(&expected));
            ensure!(answer == expected, "{filler:?} {wanted:?}: {answer:x?} {expected:x?}");
            ensure!(scene.counter("cache_hits")? == hits);
        }
        pipelined(&scene)?;
    }
    Ok(())
}

/// An answer's packets; without the flag of the first EOF that says that no index was used, which
/// a server that sends no such packet tells at the end only.
fn alike(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = crate::wire::payloads(bytes);
    for packet in &mut packets {
        if let [0xFE, _, _, flags, _] = packet.as_mut_slice() {
            *flags &= !0x20;
        }
    }
    packets
}

fn connect(
    scene: &Scene,
    endpoint: impl Into<crate::wire::Endpoint>,
    wanted: Capabilities,
) -> Result<Wire> {
    Wire::login_with(endpoint, login(USER, PASSWORD, &scene.schema, wanted))
}

/// Answers come in the order of the statements, hits or not.
fn pipelined(scene: &Scene) -> Result<()> {
    let mut wire = connect(scene, &scene.proxy, MODERN)?;
    let texts = ["SELECT SLEEP(0.05)", "SELECT id, a FROM t ORDER BY id", "SELECT 7"];
    for text in texts {
        wire.send(code::QUERY, text.as_bytes())?;
    }
    let mut firsts = Vec::new();
    for _ in texts {
        let bytes = wire.reply_bytes(Shape::Results)?;
        let outcome = wire.outcomes(&bytes)?.pop().context("no result")?;
        firsts.extend(outcome.text_rows().into_iter().next().into_iter().flatten().next());
    }
    ensure!(firsts == ["0", "1", "7"].map(|value| Some(value.to_owned())), "{firsts:?}");
    Ok(())
}

/// Many who ask for the same at once are one statement on the server.
fn one_execution(flavour: Flavour) -> Result<()> {
    let scene = Scene::new(flavour, "")?;
    let sql = "SELECT 'always', SLEEP(0.5), a FROM t WHERE id = 1";
    let mut clients = (0..12).map(|_| scene.client()).collect::<Result<Vec<_>>>()?;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(move || text(client, sql))).collect();
        threads.into_iter().try_for_each(|thread| {
            let value = thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
            ensure!(value == "always");
            Ok(())
        })
    })?;
    ensure!(begin.elapsed() < Duration::from_millis(5_000));
    ensure!(scene.counter("cache_stored")? == 1, "{}", scene.counter("cache_stored")?);
    ensure!(scene.counter("cache_waits")? + scene.counter("cache_hits")? >= 11);
    // One whose filler is killed goes on by itself.
    let slow = "SELECT 'always', SLEEP(0.6), a FROM t WHERE id = 2";
    let mut filler = scene.client()?;
    let id = filler.connection_id();
    let waits = scene.counter("cache_waits")?;
    std::thread::scope(|scope| {
        let killed = scope.spawn(move || filler.sql(slow).is_err());
        let mut waiter = scene.client()?;
        let waiting = scope.spawn(move || text(&mut waiter, slow));
        wait_until("one waits for the other", SOON, || {
            Ok((scene.counter("cache_waits")? > waits).then_some(()))
        })?;
        scene.client()?.sql(&format!("KILL {id}"))?;
        let value = waiting.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        ensure!(value == "always");
        killed.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        Ok(())
    })
}

fn soft_ttl(flavour: Flavour) -> Result<()> {
    let scene = Scene::new(flavour, "query_cache_soft_ttl_pct = 1")?;
    let mut one = scene.client()?;
    ensure!(text(&mut one, "SELECT a FROM t WHERE id = 3")? == "three");
    let hinted = "/* cache_ttl=20000 */ SELECT 'soft', a FROM brief";
    one.sql(hinted)?;
    scene.server.sql(&format!("UPDATE {}.brief SET a = 9", scene.schema))?;
    wait_until("the answer is renewed before it expires", Duration::from_secs(10), || {
        let rows = one.sql(hinted)?;
        let value = rows.into_iter().flatten().nth(1).flatten();
        Ok((value.as_deref() == Some("9")).then_some(()))
    })
}

fn run(flavour: Flavour, name: &str, tests: &[fn(Flavour) -> Result<()>]) -> Result<()> {
    match is_available(flavour, name) {
        true => tests.iter().try_for_each(|test| test(flavour)),
        false => Ok(()),
    }
}

#[test]
fn a_stored_answer_is_for_those_alike_on_mariadb() -> Result<()> {
    let tests = [who_gets_it, what_is_stored, traces];
    run(Flavour::MariaDb, "a_stored_answer_is_for_those_alike_on_mariadb", &tests)
}

#[test]
fn a_stored_answer_is_for_those_alike_on_mysql() -> Result<()> {
    let tests = [who_gets_it, what_is_stored, traces];
    run(Flavour::MySql, "a_stored_answer_is_for_those_alike_on_mysql", &tests)
}

#[test]
fn a_stored_answer_is_in_its_clients_own_form_on_mariadb() -> Result<()> {
    let tests = [prepared, framings];
    run(Flavour::MariaDb, "a_stored_answer_is_in_its_clients_own_form_on_mariadb", &tests)
}

#[test]
fn a_stored_answer_is_in_its_clients_own_form_on_mysql() -> Result<()> {
    let tests = [prepared, framings];
    run(Flavour::MySql, "a_stored_answer_is_in_its_clients_own_form_on_mysql", &tests)
}

#[test]
fn equal_statements_are_executed_once_on_mariadb() -> Result<()> {
    let tests = [one_execution, soft_ttl];
    run(Flavour::MariaDb, "equal_statements_are_executed_once_on_mariadb", &tests)
}

#[test]
fn equal_statements_are_executed_once_on_mysql() -> Result<()> {
    run(Flavour::MySql, "equal_statements_are_executed_once_on_mysql", &[one_execution, soft_ttl])
}

#[test]
fn the_admin_port_empties_the_cache_and_counts_it() -> Result<()> {
    let Some(server) = backends::mariadb("the_admin_port_empties_the_cache")? else {
        return Ok(());
    };
    let name = "cache_admin";
    backends::account(server, name)?;
    server.sql(&format!("CREATE TABLE {name}.t (a INT); INSERT INTO {name}.t VALUES (1)"))?;
    let config = backends::Config::new("", server).user(name);
    let proxy = Trunkline::start_database(config.text())?;
    let mut admin = SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")?;
    admin.sql(
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, cache_ttl, apply) \
         VALUES (1, 1, '^SELECT a FROM t', 600000, 1)",
    )?;
    admin.sql("LOAD MYSQL QUERY RULES TO RUNTIME")?;
    let mut client = proxy.connect(name, backends::PASSWORD, name)?;
    for _ in 0..3 {
        ensure!(text(&mut client, "SELECT a FROM t")? == "1");
    }
    server.sql(&format!("UPDATE {name}.t SET a = 2"))?;
    ensure!(text(&mut client, "SELECT a FROM t")? == "1");
    let global = |admin: &mut SqlClient, variable: &str| {
        admin.value(&format!(
            "SELECT Variable_Value FROM stats_mysql_global WHERE Variable_Name = '{variable}'"
        ))
    };
    ensure!(global(&mut admin, "Query_Cache_Entries")?.as_deref() == Some("1"));
    ensure!(global(&mut admin, "Query_Cache_count_GET_OK")?.as_deref() == Some("3"));
    let row = admin.sql("SELECT hits, misses, stored FROM stats_cache WHERE rule_id = 1")?;
    ensure!(row == [["3", "1", "1"].map(|value| Some(value.to_owned()))], "{row:?}");
    let hits = "SELECT count_star FROM stats_mysql_query_digest WHERE hostgroup = -1";
    ensure!(admin.value(hits)?.as_deref() == Some("3"));
    admin.sql("PROXYSQL FLUSH QUERY CACHE")?;
    ensure!(global(&mut admin, "Query_Cache_Entries")?.as_deref() == Some("0"));
    ensure!(text(&mut client, "SELECT a FROM t")? == "2");
    admin.sql("SET mysql-query_cache_size_MB = 0")?;
    admin.sql("LOAD MYSQL VARIABLES TO RUNTIME")?;
    server.sql(&format!("UPDATE {name}.t SET a = 3"))?;
    wait_until("the cache is switched off", SOON, || {
        Ok((text(&mut client, "SELECT a FROM t")? == "3").then_some(()))
    })
}
