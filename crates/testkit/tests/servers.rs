//! The testkit tried on real servers.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests; the lint exempts only the functions marked as such"
)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use trunkline_testkit::{
    AuthPlugin, Flavour, HaProxy, MariaDb, MySql, Options, Replication, Server, Sysbench,
    TempFolder, Trunkline, error_code, find_program, is_listening, mariadb_available,
    mysql_available, skipped, wait_until,
};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Whether MariaDB can be had; says loudly when not.
fn mariadb(test: &str) -> bool {
    mariadb_available().inspect_err(|reason| skipped(test, reason)).is_ok()
}

fn mysql(test: &str) -> bool {
    mysql_available().inspect_err(|reason| skipped(test, reason)).is_ok()
}

/// What every flavour must do.
fn check_life(server: &Server, plugin: AuthPlugin) -> Result<()> {
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b TEXT)")?;
    server.sql("INSERT INTO d.t VALUES (1, 'it''s'), (2, NULL)")?;
    server.create_user("app", "p'w\\d", plugin)?;
    let mut client = server.connect("app", "p'w\\d", "d")?;
    let rows = client.sql("SELECT a, b FROM t ORDER BY a")?;
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(rows, [vec![some("1"), some("it's")], vec![some("2"), None]]);
    assert!(client.sql("DO 1; SELECT 1; SELECT 2, 3; DO 2")?.len() == 1);
    assert_eq!(error_code(&client.sql("SELECT * FROM nowhere").unwrap_err()), Some(1146));
    assert_eq!(error_code(&server.connect("app", "wrong", "").unwrap_err()), Some(1045));
    assert!(server.connect("root", "", "").is_err(), "root must not be reachable over TCP");
    assert!(server.cpu_micros()? > 1_000 && server.rss_bytes()? > 10_000_000);

    let (port, pid) = (server.port(), server.pid()?);
    server.kill_hard()?;
    assert!(!server.is_running() && !is_listening(port));
    assert!(client.sql("SELECT 1").is_err());
    server.restart()?;
    assert!(server.port() == port && server.pid()? != pid);
    assert_eq!(server.value("SELECT COUNT(*) FROM d.t")?.as_deref(), Some("2"));

    let status = server.stop_gracefully()?.expect("it ran");
    assert!(status.success(), "{status}");
    assert!(server.stop_gracefully()?.is_none());
    server.restart()
}

fn check_pause(server: &Server) -> Result<()> {
    server.pause()?;
    let (tx, rx) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| tx.send(server.sql("SELECT 1")));
        assert!(rx.recv_timeout(Duration::from_millis(300)).is_err(), "it answered while paused");
        server.resume()?;
        rx.recv_timeout(TIMEOUT)??;
        Ok(())
    })
}

/// Rows arrive, replicas refuse writes, and both survive restarts of either side.
fn check_replication(replication: &Replication) -> Result<()> {
    let (primary, replica) = (replication.primary(), &replication.replicas()[0]);
    primary.create_user("app", "secret", AuthPlugin::ServerDefault)?;
    primary.sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)")?;
    primary.sql("INSERT INTO d.t VALUES (1)")?;
    replication.wait_caught_up(TIMEOUT)?;
    let refused = replica.connect("app", "secret", "d")?.sql("INSERT INTO t VALUES (99)");
    assert_eq!(error_code(&refused.unwrap_err()), Some(1290));

    replica.restart()?;
    primary.kill_hard()?;
    primary.restart()?;
    primary.sql("INSERT INTO d.t VALUES (2)")?;
    replication.wait_caught_up(TIMEOUT)?;
    for server in replication.replicas() {
        assert_eq!(server.value("SELECT COUNT(*) FROM d.t")?.as_deref(), Some("2"));
    }
    let refused = replica.connect("app", "secret", "d")?.sql("INSERT INTO t VALUES (99)");
    assert_eq!(error_code(&refused.unwrap_err()), Some(1290));
    Ok(())
}

#[test]
fn mariadb_lives_dies_and_comes_back() -> Result<()> {
    if !mariadb("mariadb_lives_dies_and_comes_back") {
        return Ok(());
    }
    let server = MariaDb::start(Options::default())?;
    assert_eq!(server.flavour(), Flavour::MariaDb);
    assert!(server.value("SELECT VERSION()")?.is_some_and(|v| v.contains("MariaDB")));
    check_life(&server, AuthPlugin::Native)?;
    check_pause(&server)?;
    assert!(server.create_user("x", "x", AuthPlugin::CachingSha2).is_err());
    let (folder, port) = (server.folder().to_path_buf(), server.port());
    drop(server);
    assert!(!is_listening(port) && !folder.exists());
    Ok(())
}

#[test]
fn mysql_lives_dies_and_comes_back() -> Result<()> {
    if !mysql("mysql_lives_dies_and_comes_back") {
        return Ok(());
    }
    let server = MySql::start(Options::default().arg("--performance-schema=ON"))?;
    assert_eq!(server.value("SELECT @@performance_schema")?.as_deref(), Some("1"));
    check_life(&server, AuthPlugin::CachingSha2)?;
    check_pause(&server)?;
    assert!(server.create_user("x", "x", AuthPlugin::Native).is_err());
    Ok(())
}

#[test]
fn mariadb_replicates() -> Result<()> {
    if !mariadb("mariadb_replicates") {
        return Ok(());
    }
    check_replication(&Replication::mariadb(2)?)
}

#[test]
fn mysql_replicates() -> Result<()> {
    if !mysql("mysql_replicates") {
        return Ok(());
    }
    check_replication(&Replication::mysql(1)?)
}

#[test]
fn servers_with_one_id_are_refused_as_replicas() -> Result<()> {
    if !mariadb("servers_with_one_id_are_refused_as_replicas") {
        return Ok(());
    }
    let one = Arc::new(MariaDb::start(Options::default())?);
    let error = Replication::start(Arc::clone(&one), vec![one]).unwrap_err();
    assert_eq!(error.to_string(), "server ids are not distinct: [1]");
    Ok(())
}

#[test]
fn a_kept_folder_is_used_again() -> Result<()> {
    if !mariadb("a_kept_folder_is_used_again") {
        return Ok(());
    }
    let parent = TempFolder::new("kept")?;
    let folder = parent.path().join("m");
    let options = Options { folder: Some(folder), ..Options::default() };
    MariaDb::start(options.clone())?.sql("CREATE DATABASE kept")?;
    let again = MariaDb::start(options)?;
    assert_eq!(again.sql("SHOW DATABASES LIKE 'kept'")?.len(), 1);
    Ok(())
}

#[test]
fn a_bad_argument_is_told_with_the_servers_own_words() {
    if !mariadb("a_bad_argument_is_told_with_the_servers_own_words") {
        return;
    }
    let error = MariaDb::start(Options::default().arg("--no-such-option")).unwrap_err();
    assert!(format!("{error:#}").contains("no-such-option"), "{error:#}");
}

#[test]
fn sysbench_runs_through_haproxy() -> Result<()> {
    if !mariadb("sysbench_runs_through_haproxy") {
        return Ok(());
    }
    let server = MariaDb::start(Options::default())?;
    server.sql("CREATE DATABASE sbtest")?;
    server.create_user("sb", "sb", AuthPlugin::ServerDefault)?;
    let relay = HaProxy::start(server.port())?;
    let load = Sysbench::new("oltp_read_write", relay.port(), "sb", "sb")
        .arg("--table-size=500")
        .threads(2);
    load.prepare()?;
    let before = relay.cpu_micros()?;
    let report = load.run()?;
    assert!(report.transactions > 0 && report.qps > report.tps, "{report:?}");
    assert!(relay.cpu_micros()? > before && relay.rss_bytes()? > 0);
    load.cleanup()?;
    server.kill_hard()?;
    let refused = load.run().unwrap_err();
    assert!(format!("{refused:#}").contains("FATAL"), "{refused:#}");
    Ok(())
}

/// Stands in for the proxy: listens, answers over HTTP, logs signals.
const FAKE_PROXY: &str = r#"#!/bin/sh
# What whoever began the tests ignores (nohup), no shell can trap.
[ -n "$AGAIN" ] || AGAIN=1 exec env --default-signal=HUP "$0" "$@"
[ "$1 $2" = "serve -c" ] || { echo "wrong arguments: $*"; exit 2; }
grep -q broken "$3" && { echo "line 3: what is broken"; exit 1; }
port=$(sed -n 's/^listen = ."127.0.0.1:\([0-9]*\)".*/\1/p' "$3")
http=$(sed -n 's/^http_listen = "127.0.0.1:\([0-9]*\)"/\1/p' "$3")
cat >fake.cfg <<END
defaults
    mode http
    timeout connect 9s
    timeout client 9s
    timeout server 9s
listen clients
    bind 127.0.0.1:$port
listen http
    bind 127.0.0.1:$http
    http-request return status 200 content-type text/plain string "m{a=\"1\"} 3\n" if { path /metrics }
    http-request return status 404
END
trap 'echo "reloaded $(grep -c . "$3")"' HUP
trap 'kill $proxy; exit 0' TERM
PATH=$PATH:/usr/sbin haproxy -db -f fake.cfg &
proxy=$!
# dash may miss a signal that comes just before `wait`.
while kill -0 $proxy 2>/dev/null; do sleep 0.1; done
"#;

#[test]
fn a_proxy_is_started_reloaded_asked_and_ended() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if find_program("haproxy").is_none() {
        skipped("a_proxy_is_started_reloaded_asked_and_ended", "haproxy is not installed");
        return Ok(());
    }
    let folder = TempFolder::new("fake")?;
    let binary = folder.path().join("trunkline");
    std::fs::write(&binary, FAKE_PROXY)?;
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o700))?;

    // The stand-in has no Unix socket, and no key; that of names is the kit's.
    let listen = "listen = [\"127.0.0.1:{port}\"]\n\
                  caching_sha2_password_private_key_path = \"\"\n";
    let proxy = Trunkline::start_binary(&binary, &format!("{listen}workers = 1\n"), &[])?;
    assert!(is_listening(proxy.port()));
    assert_eq!(proxy.metric("m", "a=\"1\"")?, Some(3.0));
    let missing = proxy.status_json().unwrap_err();
    assert!(missing.to_string().contains("answered 404"), "{missing:#}");
    let mark = proxy.reload(&format!("{listen}workers = 2\nmore = 1\n"))?;
    assert_eq!(proxy.wait_log(mark, "reloaded", TIMEOUT)?, "reloaded 6");
    assert!(proxy.terminate(TIMEOUT)?.success());
    assert!(!proxy.is_running());

    let error = Trunkline::start_binary(&binary, "broken", &[]).unwrap_err();
    assert!(format!("{error:#}").contains("line 3: what is broken"), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn the_client_works_inside_an_asynchronous_test() -> Result<()> {
    if !mariadb("the_client_works_inside_an_asynchronous_test") {
        return Ok(());
    }
    let server = MariaDb::start(Options::default())?;
    wait_until("an answer", TIMEOUT, || server.value("SELECT 5"))?;
    Ok(())
}
