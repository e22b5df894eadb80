//! The shared cache: proxies that give each other's answers, and go on without it when it fails.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{
    Flavour, Options, Redis, Server, Signal, SqlClient, TempFolder, Trunkline, can_overlay,
    redis_available, skipped, wait_until,
};

use crate::stage::{
    SOON, client, is_available, new_schema, one_server, shared_server, start, status, text,
};

const SECRET: &str = "e2e-redis-secret";
const RULES: &str = "\n[[rule]]\nid = 10\nmatch_digest = \"FROM t\\\\b\"\ncache_ttl = 600000\n";
const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20)); \
    INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four'), (5, 'five')";

struct Scene {
    server: &'static Server,
    schema: String,
    redis: Redis,
    folder: TempFolder,
}

impl Scene {
    fn new() -> Result<Self> {
        let server = shared_server(Flavour::MariaDb)?;
        let schema = new_schema(server, TABLES)?;
        let folder = TempFolder::new("shared-cache")?;
        std::fs::write(folder.path().join("secret"), format!("{SECRET}\n"))?;
        Ok(Self { server, schema, redis: Redis::start(SECRET)?, folder })
    }

    /// A proxy that shares, when it does so.
    fn proxy(&self, timeout_ms: u64) -> Result<Trunkline> {
        let proxy = Trunkline::start(&self.config(timeout_ms))?;
        wait_up(&proxy, 1)?;
        Ok(proxy)
    }

    fn config(&self, timeout_ms: u64) -> String {
        let secret = self.folder.path().join("secret");
        format!(
            "query_cache_redis = \"{}\"\nquery_cache_redis_password_file = \"{}\"\n\
             query_cache_redis_timeout = {timeout_ms}\n{}{RULES}",
            self.redis.url(),
            secret.display(),
            one_server(self.server, 2, 20),
        )
    }

    fn client(&self, proxy: &Trunkline) -> Result<SqlClient> {
        client(proxy, &self.schema)
    }

    /// Changes a row behind the proxies' back.
    fn change(&self, id: u32) -> Result<()> {
        let schema = &self.schema;
        self.server.sql(&format!("UPDATE {schema}.t SET a = 'changed' WHERE id = {id}"))?;
        Ok(())
    }
}

fn by_id(id: u32) -> String {
    format!("SELECT a FROM t WHERE id = {id}")
}

fn figure(proxy: &Trunkline, path: &str) -> Result<u64> {
    let value = status(proxy)?.pointer(path).and_then(serde_json::Value::as_u64);
    value.with_context(|| format!("no {path}"))
}

fn wait_up(proxy: &Trunkline, wanted: u64) -> Result<()> {
    wait_until("the shared cache is asked, or not", SOON, || {
        Ok((figure(proxy, "/process/cache/shared_up")? == wanted).then_some(()))
    })
}

fn can_run(name: &str) -> bool {
    let found = redis_available().inspect_err(|reason| skipped(name, reason));
    found.is_ok() && is_available(Flavour::MariaDb, name)
}

#[test]
fn proxies_give_each_others_answers() -> Result<()> {
    if !can_run("proxies_give_each_others_answers") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let (first, second) = (scene.proxy(5_000)?, scene.proxy(5_000)?);
    ensure!(text(&mut scene.client(&first)?, &by_id(1))? == "one");
    wait_until("the answer is stored", SOON, || {
        Ok((figure(&first, "/process/cache/shared_stored")? == 1).then_some(()))
    })?;
    scene.change(1)?;
    let mut other = scene.client(&second)?;
    // What one of them alone has seen keeps nothing from the others.
    other.sql("FLUSH PRIVILEGES")?;
    // Its connections are closed behind that: one stands, so that it is the same server for all.
    ensure!(text(&mut other, "SELECT 2 + 3")? == "5");
    ensure!(text(&mut other, &by_id(1))? == "one", "it asked a server");
    ensure!(figure(&second, "/counters/cache_shared_hits")? == 1);
    // Now it is in its own memory.
    ensure!(text(&mut scene.client(&second)?, &by_id(1))? == "one");
    ensure!(figure(&second, "/counters/cache_shared_asked")? == 1);
    // Whatever changes an answer makes it another one.
    other.sql("SET time_zone = '+03:00'")?;
    ensure!(text(&mut other, &by_id(1))? == "changed", "another time zone");
    // Neither texts nor names are in the server's keys.
    let keys = scene.redis.say(&format!("AUTH {SECRET}\r\nKEYS *\r\nPING\r\n"))?;
    ensure!(keys.contains("trunkline:1:") && !keys.contains("SELECT"), "{keys}");
    // What is not an answer of ours is none.
    ensure!(text(&mut scene.client(&first)?, &by_id(2))? == "two");
    wait_until("the answer is stored", SOON, || {
        Ok((figure(&first, "/process/cache/shared_stored")? == 2).then_some(()))
    })?;
    let keys = scene.redis.say(&format!("AUTH {SECRET}\r\nKEYS *\r\nPING\r\n"))?;
    let names = keys.lines().filter(|line| line.starts_with("trunkline:1:"));
    let names = names.filter(|name| !name.ends_with("generation"));
    let spoil: String = names.map(|name| format!("SET {name} spoilt PX 60000\r\n")).collect();
    scene.redis.say(&format!("AUTH {SECRET}\r\n{spoil}PING\r\n"))?;
    scene.change(2)?;
    ensure!(text(&mut scene.client(&second)?, &by_id(2))? == "changed");
    Ok(())
}

/// The path of a socket is another server's where another proxy runs.
#[test]
fn issue_16_answers_of_servers_that_only_a_host_itself_names_are_its_own() -> Result<()> {
    let test = "issue_16_answers_of_servers_that_only_a_host_itself_names_are_its_own";
    if !can_run(test) {
        return Ok(());
    }
    if !can_overlay() {
        skipped(test, "no mount namespace is to be had (root can make one)");
        return Ok(());
    }
    let scene = Scene::new()?;
    let other = start(Flavour::MariaDb, Options::default())?;
    let schema = &scene.schema;
    other.sql(&format!("CREATE DATABASE {schema}; USE {schema}; {TABLES}"))?;
    other.sql(&format!("UPDATE {schema}.t SET a = 'of the other server'"))?;
    let socket = scene.server.socket();
    let by_socket = scene.config(5_000).replace(
        &format!("address = \"{}\"", scene.server.address()),
        &format!("address = \"unix:{}\"", socket.display()),
    );
    let here = Trunkline::start(&by_socket)?;
    let elsewhere = Trunkline::start_overlaid(&by_socket, &[(other.socket(), socket)])?;
    for (proxy, wanted) in [(&here, "one"), (&elsewhere, "of the other server")] {
        wait_up(proxy, 1)?;
        ensure!(text(&mut scene.client(proxy)?, &by_id(1))? == wanted);
        wait_until("the answer is stored", SOON, || {
            Ok((figure(proxy, "/process/cache/shared_stored")? == 1).then_some(()))
        })?;
    }
    // Who is on the same host shares them.
    let third = Trunkline::start(&by_socket)?;
    wait_up(&third, 1)?;
    ensure!(text(&mut scene.client(&third)?, &by_id(1))? == "one");
    ensure!(figure(&third, "/counters/cache_shared_hits")? == 1);
    Ok(())
}

#[test]
fn a_shared_cache_that_fails_fails_nobody() -> Result<()> {
    if !can_run("a_shared_cache_that_fails_fails_nobody") {
        return Ok(());
    }
    let mut scene = Scene::new()?;
    let proxy = scene.proxy(30)?;
    let mut one = scene.client(&proxy)?;
    ensure!(text(&mut one, &by_id(1))? == "one");
    // It hangs: who asked goes on after a moment, and nobody asks any more.
    scene.redis.signal(Signal::Stop)?;
    ensure!(text(&mut one, &by_id(2))? == "two");
    wait_up(&proxy, 0)?;
    let asked = figure(&proxy, "/counters/cache_shared_asked")?;
    ensure!(text(&mut one, &by_id(3))? == "three");
    ensure!(figure(&proxy, "/counters/cache_shared_asked")? == asked);
    ensure!(figure(&proxy, "/process/cache/shared_failures")? >= 1);
    scene.redis.signal(Signal::Continue)?;
    wait_up(&proxy, 1)?;
    // It dies.
    scene.redis.signal(Signal::Kill)?;
    ensure!(text(&mut one, &by_id(4))? == "four");
    wait_up(&proxy, 0)?;
    ensure!(text(&mut one, &by_id(5))? == "five");
    ensure!(text(&mut one, &by_id(5))? == "five", "its own memory is there all the same");
    Ok(())
}

#[test]
fn a_flush_is_for_all_proxies() -> Result<()> {
    if !can_run("a_flush_is_for_all_proxies") {
        return Ok(());
    }
    let scene = Scene::new()?;
    let first = Trunkline::start_database(&scene.config(5_000))?;
    wait_up(&first, 1)?;
    let second = scene.proxy(5_000)?;
    ensure!(text(&mut scene.client(&first)?, &by_id(1))? == "one");
    wait_until("the answer is stored", SOON, || {
        Ok((figure(&first, "/process/cache/shared_stored")? == 1).then_some(()))
    })?;
    scene.change(1)?;
    let mut admin = SqlClient::tcp(first.admin_port(), "admin", "admin", "")?;
    admin.sql("PROXYSQL FLUSH QUERY CACHE")?;
    let third = scene.proxy(5_000)?;
    ensure!(text(&mut scene.client(&third)?, &by_id(1))? == "changed");
    ensure!(text(&mut scene.client(&second)?, &by_id(1))? == "changed");
    ensure!(text(&mut scene.client(&first)?, &by_id(1))? == "changed");
    // A setting that has gone stops the sharing, and nothing else.
    admin.sql("SET trunkline-query_cache_redis = ''")?;
    admin.sql("LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    wait_up(&first, 0)?;
    ensure!(text(&mut scene.client(&first)?, &by_id(2))? == "two");
    Ok(())
}
