use super::*;
use crate::tests::{ONE_CONNECTION, Reply, TWO_SERVERS, TestWorker};
use trunkline_topology::ServerState;

#[test]
fn tls_is_wished_for_as_the_mode_says() {
    assert!(matches!(tls_wanted(TlsMode::Disabled), TlsWish::Never));
    assert!(matches!(tls_wanted(TlsMode::Preferred), TlsWish::Offered));
    for mode in [TlsMode::Required, TlsMode::VerifyCa, TlsMode::VerifyIdentity] {
        assert!(matches!(tls_wanted(mode), TlsWish::Always), "{mode:?}");
    }
}

#[test]
fn who_wants_zstd_takes_zlib_where_there_is_no_zstd() {
    let zstd = compression_wanted(ServerCompression::Zstd);
    assert!(zstd.contains(Capabilities::ZSTD_COMPRESSION_ALGORITHM));
    assert!(zstd.contains(Capabilities::COMPRESS));
}

#[test]
fn compression_is_wanted_only_where_it_is_configured() {
    assert_eq!(compression_wanted(ServerCompression::Off), Capabilities::EMPTY);
    assert_eq!(compression_wanted(ServerCompression::Zlib), Capabilities::COMPRESS);
}

#[test]
fn attributes_are_sent_as_they_are_in_their_order() {
    let attributes: [Attribute; 2] =
        [(b"b"[..].into(), b"1"[..].into()), (b"a"[..].into(), b""[..].into())];
    let expected = [(b"b".to_vec(), b"1".to_vec()), (b"a".to_vec(), Vec::new())];
    assert_eq!(as_sent(&attributes), expected);
}

#[test]
fn a_mariadb_of_11_names_not_all_that_changes() {
    let names = |version: &str| names_changes(&crate::tests::greeting(version, 1));
    assert!(names("10.11.6-MariaDB") && names("8.4.3") && names("9.7.0"));
    assert!(!names("11.8.2-MariaDB") && !names("12.0.1-MariaDB"));
}

fn refused(world: &mut TestWorker, code: u16, text: &str) {
    let conn = *world.conns().last().expect("a connection");
    let mut greeting = Vec::new();
    crate::tests::greeting(crate::tests::MARIADB, 1).put(&mut greeting, 0);
    world.happens(|worker| {
        worker.server_connected(conn);
        worker.server_read(conn, &greeting);
    });
    let mut error = Vec::new();
    trunkline_protocol::packet::err::put_err(&mut error, 2, code, b"28000", text);
    world.say(conn, &error);
}

#[test]
fn who_waits_with_wrong_credentials_is_told_at_once() {
    let mut world = TestWorker::new();
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    refused(&mut world, 1045, "Access denied for user 'app'");
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1045") && answer.contains("refused the account"), "{answer}");
    assert!(world.logged().iter().any(|line| line.contains("refused user app")));
}

#[test]
fn a_server_that_is_full_is_passed_over() {
    let mut world = TestWorker::new();
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    refused(&mut world, 1040, "Too many connections");
    assert_eq!(world.answer(client), "");
    assert_eq!((world.opened(), world.conns().len()), (2, 1));
}

#[test]
fn an_account_at_its_own_limit_leaves_the_server_to_others() {
    for code in [1203, 1226] {
        let mut world = TestWorker::with(&format!("shun_on_failures = 1\n{TWO_SERVERS}"));
        world.is_automatic = false;
        let client = world.log_in();
        world.ask(client, "SELECT 1");
        refused(&mut world, code, "User 'app' has exceeded the 'max_user_connections' resource");
        assert_eq!((world.answer(client), world.conns().len()), (String::new(), 0));
        assert_eq!(world.core().fx.stats.counters.servers_shunned, 0);
        // It is asked again by itself.
        world.pass_ms(20);
        assert_eq!(world.conns().len(), 1);
    }
}

#[test]
fn a_server_that_greets_without_end_breaks_the_protocol() {
    let mut world = TestWorker::new();
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    let conn = world.conns()[0];
    world.happens(|worker| worker.server_connected(conn));
    world.say(conn, &[0xFF; 64 * 1024]);
    world.say(conn, &[0xFF; 8]);
    assert!(world.core().servers.conns.get(conn).is_none());
    assert_eq!(world.core().fx.stats.counters.server_protocol_errors, 1);
}

#[test]
fn a_password_does_not_stay_in_the_outbox_of_its_login() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    assert_eq!(world.run(client, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
    let conn = world.conns()[0];
    let core = world.core();
    let outbox = &core.servers.conns.get(conn).expect("a connection").io.outbox;
    assert_eq!((outbox.len(), outbox.held()), (0, 0));
}

#[test]
fn the_last_failure_is_told_to_who_waits_in_vain() {
    let config = format!("connect_timeout_server_max = 1000\nshun_on_failures = 1\n{TWO_SERVERS}");
    let mut world = TestWorker::with(&config);
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    for _ in 0..2 {
        let conn = *world.conns().last().expect("a connection");
        world.fail(conn);
    }
    world.pass_ms(1_100);
    let answer = world.answer(client);
    assert!(answer.contains("connection refused"), "{answer}");
}

#[test]
fn a_full_server_is_not_a_dead_one() {
    let config = ONE_CONNECTION.replace("max_connections = 1", "max_connections = 50");
    let mut world = TestWorker::with(&format!("shun_on_failures = 1\n{config}"));
    let (first, second) = (world.log_in(), world.log_in());
    world.ask(first, "INSERT INTO s.t VALUES (1)");
    let kept = world.conns()[0];
    world.is_automatic = false;
    world.ask(second, "INSERT INTO s.t VALUES (2)");
    refused(&mut world, 1040, "Too many connections");
    assert_eq!((world.conns(), world.opened()), (vec![kept], 2));
    assert_eq!(world.core().fx.stats.counters.servers_shunned, 0);
    // It is asked again after a moment, once, and not as fast as it says no.
    for (pass_ms, opened) in [(20, 2), (100, 2), (150, 3)] {
        world.pass_ms(pass_ms);
        assert_eq!(world.opened(), opened, "{pass_ms} ms later");
    }
    refused(&mut world, 1040, "Too many connections");
    // A connection that works serves whoever waits.
    world.is_automatic = true;
    world.reply("INSERT INTO s.t VALUES (1)", Reply::Ok);
    assert_eq!(world.answer(first), "ok");
    assert_eq!(world.conn_asked("INSERT INTO s.t VALUES (2)"), kept);
}

#[test]
fn what_fails_for_want_of_something_of_the_machines_own_shuns_nobody() {
    let mut world = TestWorker::with(&format!("shun_on_failures = 1\n{TWO_SERVERS}"));
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    for times in 1..=3 {
        let conn = *world.conns().last().expect("a connection");
        world.fail_here(conn);
        assert_eq!(world.opened(), times, "not as fast as it fails");
        world.pass_ms(20);
    }
    let now_ms = world.core().env.now.ms();
    let states: Vec<_> = {
        let slots = world.core().servers.pool.slots();
        slots.map(|(_, slot)| slot.server.health.state(now_ms)).collect()
    };
    assert_eq!(states, [ServerState::Online; 2]);
    assert_eq!(world.core().fx.stats.counters.servers_shunned, 0);
}
