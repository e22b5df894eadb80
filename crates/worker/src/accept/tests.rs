use std::sync::Arc;

use trunkline_stats::SessionQuery;
use trunkline_topology::{HostName, TlsOffer};

use super::host_names::needs_name;
use crate::{
    Peer, Shared,
    tests::{Login, Setup, TWO_SERVERS, TestWorker, local_peer, peer_at, snapshot},
};

pub(super) fn at(addr: &str) -> Peer {
    peer_at(addr.parse().expect("an address"))
}

fn told(world: &mut TestWorker, peer: Peer) -> String {
    let id = world.connect_from(peer).expect("it is answered");
    world.answer(id)
}

#[test]
fn a_client_is_greeted_with_its_number_and_nonce() {
    let mut world = TestWorker::new();
    let client = world.connect();
    let greeted = world.got(client);
    assert!(greeted.windows(15).any(|part| part == b"10.11.6-MariaDB"));
    assert!(greeted.windows(12).any(|part| part == [b'm'; 12]));
}

#[test]
fn a_worker_that_stops_takes_nobody() {
    let mut world = TestWorker::new();
    world.happens(|worker| worker.stop_gracefully(u64::MAX));
    assert_eq!(world.connect_from(local_peer()), None);
}

#[test]
fn whoever_comes_beyond_the_cap_is_told_so_and_closed() {
    let mut world = TestWorker::with(&format!("max_connections = 1\n{TWO_SERVERS}"));
    world.log_in();
    let client = world.connect_from(local_peer()).expect("it is answered");
    assert_eq!(world.answer(client), "error 1040: Too many connections");
    assert!(world.is_closed(client));
}

#[test]
fn the_place_of_a_client_that_went_is_the_next_ones() {
    let mut world = TestWorker::with(&format!("max_connections = 1\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.leave(client);
    world.log_in();
}

#[test]
fn a_client_that_was_never_let_in_gives_no_place_back() {
    let mut world = TestWorker::with(&format!("max_connections = 1\n{TWO_SERVERS}"));
    world.log_in();
    for _ in 0..3 {
        assert!(told(&mut world, local_peer()).starts_with("error 1040"));
    }
    assert_eq!(world.core().env.shared.clients(), 1);
}

#[test]
fn so_many_come_from_one_address_and_no_more() {
    let config = format!("max_connections_per_address = 1\n{TWO_SERVERS}");
    let mut world = TestWorker::with(&config);
    let first = world.connect_from(at("192.0.2.1")).expect("it is let in");
    let second = world.connect_from(at("192.0.2.1")).expect("it has not logged in");
    assert_eq!(world.try_to_log_in(first, &Login::default()), "ok");
    assert!(world.try_to_log_in(second, &Login::default()).starts_with("error 1040"));
    assert!(told(&mut world, at("192.0.2.1")).starts_with("error 1040"));
    assert!(!told(&mut world, at("192.0.2.2")).starts_with("error"));
    world.leave(first);
    assert!(!told(&mut world, at("192.0.2.1")).starts_with("error"));
}

#[test]
fn a_listener_takes_those_only_that_its_list_names() {
    let config = format!(
        "listen = [\"0.0.0.0:6033\"]\nlisten_allow = [\"0.0.0.0:6033=10.0.0.0/8\"]\n{TWO_SERVERS}"
    );
    let mut world = TestWorker::with(&config);
    assert!(!told(&mut world, at("10.1.2.3")).starts_with("error"));
    let answer = told(&mut world, at("192.0.2.1"));
    assert_eq!(answer, "error 1130: Host '192.0.2.1' is not allowed to connect to this server");
}

/// [`TWO_SERVERS`] and a second user, with these settings.
fn two_users(settings: &str) -> String {
    let other = TWO_SERVERS.split("[[user]]").nth(1).expect("a user").replace("app", "other");
    format!("{settings}\n{TWO_SERVERS}\n[[user]]{other}")
}

/// What a client from there is told that logs in so.
fn tries(world: &mut TestWorker, from: &str, user: &str, password: &str) -> String {
    let client = world.connect_from(at(from)).expect("it is greeted");
    world.try_to_log_in(client, &Login { user, password, ..Login::default() })
}

#[test]
fn a_name_whose_logins_failed_waits_there() {
    let config = two_users("failed_logins_max = 1\nfailed_login_delay = 1500");
    let mut world = TestWorker::with(&config);
    let fails = |world: &mut TestWorker, user| {
        assert!(tries(world, "192.0.2.1", user, "wrong").starts_with("error 1045"), "{user}");
        let blocked = format!(
            "error 1129: Host '192.0.2.1' is blocked because of many failed logins as '{user}'; \
             try again in 2 s"
        );
        for password in ["app", "wrong"] {
            assert_eq!(tries(world, "192.0.2.1", user, password), blocked);
        }
    };
    fails(&mut world, "app");
    fails(&mut world, "nobody");
    // Neighbours, and the same name from elsewhere, log in.
    assert_eq!(tries(&mut world, "192.0.2.1", "other", "other"), "ok");
    assert_eq!(tries(&mut world, "192.0.2.2", "app", "app"), "ok");
    world.pass_ms(1_500);
    assert_eq!(tries(&mut world, "192.0.2.1", "app", "app"), "ok");
    let counters = &world.core().fx.stats.counters;
    assert_eq!((counters.failed_login_blocks, counters.clients_refused_blocked), (2, 4));
    let logged = world.logged();
    let lines: Vec<_> = logged.iter().filter(|line| line.contains("have to wait")).collect();
    assert!(lines[0].ends_with("logins as \"app\" from 192.0.2.1 fail: they have to wait 1500 ms"));
    assert_eq!(lines.len(), 2);
}

#[test]
fn who_was_greeted_before_others_failed_guesses_no_further() {
    let config = format!("failed_logins_max = 1\n{TWO_SERVERS}");
    let mut world = TestWorker::with(&config);
    let clients = [(); 2].map(|()| world.connect_from(at("192.0.2.1")).expect("it is let in"));
    let wrong = Login { password: "wrong", ..Login::default() };
    assert!(world.try_to_log_in(clients[0], &wrong).starts_with("error 1045"));
    assert!(world.try_to_log_in(clients[1], &Login::default()).starts_with("error 1129"));
}

#[test]
fn guesses_at_many_names_do_not_shut_out_who_is_known_there() {
    let limits = "failed_logins_max = 3\nfailed_logins_per_address_max = 2";
    let mut world = TestWorker::with(&two_users(limits));
    assert_eq!(tries(&mut world, "192.0.2.1", "app", "app"), "ok");
    for user in ["one", "two"] {
        assert!(tries(&mut world, "192.0.2.1", user, "guess").starts_with("error 1045"));
    }
    let blocked = "error 1129: Host '192.0.2.1' is blocked because of many failed logins; try \
                   again in 150 s";
    // Whether there is such a user, who is known and what was right is not told.
    for (user, password) in [("three", "guess"), ("other", "other"), ("app", "guess")] {
        assert_eq!(tries(&mut world, "192.0.2.1", user, password), blocked, "{user}");
    }
    assert_eq!(tries(&mut world, "192.0.2.1", "app", "app"), "ok");
    assert_eq!(tries(&mut world, "192.0.2.2", "other", "other"), "ok");
    world.pass_ms(150_000);
    assert_eq!(tries(&mut world, "192.0.2.1", "other", "other"), "ok");
}

#[test]
fn accounts_of_the_system_are_told_apart_over_a_unix_socket() {
    let mut world = TestWorker::with(&format!("failed_logins_max = 1\n{TWO_SERVERS}"));
    let mut tries = |uid, password| {
        let peer = Peer { client_uid: Some(uid), is_local: true, ..Peer::default() };
        let client = world.connect_from(peer).expect("it is greeted");
        world.try_to_log_in(client, &Login { password, ..Login::default() })
    };
    assert!(tries(1_000, "wrong").starts_with("error 1045"));
    assert!(tries(1_000, "app").starts_with("error 1129: Host 'localhost' is blocked"));
    assert_eq!(tries(1_001, "app"), "ok");
}

#[test]
fn a_login_that_takes_too_long_is_closed() {
    let mut world = TestWorker::with(&format!("connect_timeout_client = 1000\n{TWO_SERVERS}"));
    let client = world.connect();
    world.pass_ms(999);
    assert!(!world.is_closed(client));
    world.pass_ms(2);
    assert!(world.is_closed(client));
}

const BALANCER: &str = "proxy_protocol_networks = \"192.0.2.9\"\n";

/// A client of a balancer, which has sent this before the client's own login.
fn balanced(world: &mut TestWorker, header: &[u8]) -> crate::ClientId {
    let client = world.connect_from(at("192.0.2.9")).expect("it is greeted");
    world.got(client);
    world.happens(|worker| worker.client_read(client, header));
    client
}

#[test]
fn a_client_of_a_balancer_comes_from_where_that_says() {
    let mut world = TestWorker::with(&format!("{BALANCER}{TWO_SERVERS}"));
    let client = balanced(&mut world, b"PROXY TCP4 198.51.100.7 192.0.2.1 40000 6033\r\n");
    assert_eq!(world.try_to_log_in(client, &Login::default()), "ok");
    let list = world.worker.sessions(SessionQuery { rows_max: 9, pinned_only: false });
    assert_eq!(list.sessions[0].client, "198.51.100.7");
}

#[test]
fn failed_logins_count_where_a_balancers_header_says() {
    let mut world = TestWorker::with(&format!("failed_logins_max = 1\n{BALANCER}{TWO_SERVERS}"));
    let mut tries = |from: &str, password| {
        let header = format!("PROXY TCP4 {from} 192.0.2.1 40000 6033\r\n");
        let client = balanced(&mut world, header.as_bytes());
        world.try_to_log_in(client, &Login { password, ..Login::default() })
    };
    assert!(tries("198.51.100.7", "wrong").starts_with("error 1045"));
    assert!(tries("198.51.100.7", "app").starts_with("error 1129: Host '198.51.100.7' is"));
    assert_eq!(tries("198.51.100.8", "app"), "ok");
}

#[test]
fn a_balancer_that_sends_no_header_is_a_client_itself() {
    let mut world = TestWorker::with(&format!("{BALANCER}{TWO_SERVERS}"));
    let client = world.connect_from(at("192.0.2.9")).expect("it is greeted");
    assert_eq!(world.try_to_log_in(client, &Login::default()), "ok");
}

#[test]
fn a_header_that_is_wrong_is_refused() {
    let mut world = TestWorker::with(&format!("{BALANCER}{TWO_SERVERS}"));
    let client = balanced(&mut world, b"PROXY TCP4 somewhere 192.0.2.1 40000 6033\r\n");
    assert!(world.answer(client).starts_with("error 1043: Bad handshake: the PROXY header"));
    assert!(world.is_closed(client));
}

#[test]
fn a_header_that_does_not_come_to_its_end_is_said_to_be_late() {
    let mut world = TestWorker::with(&format!("{BALANCER}{TWO_SERVERS}"));
    let client = balanced(&mut world, b"PROXY TCP4 198.51.");
    world.pass_ms(20_000);
    assert!(world.answer(client).ends_with("the PROXY header did not come in time"));
}

#[test]
fn a_header_from_elsewhere_is_no_login() {
    let mut world = TestWorker::new();
    let client = world.connect_from(at("192.0.2.8")).expect("it is greeted");
    world.got(client);
    let header = b"PROXY TCP4 198.51.100.7 192.0.2.1 40000 6033\r\n";
    world.happens(|worker| worker.client_read(client, header));
    assert!(world.answer(client).starts_with("error 1043"));
    let logged = world.logged();
    assert!(logged.iter().any(|line| line.contains("is not in proxy_protocol_networks")));
}

#[test]
fn so_many_clients_over_all_workers_and_no_more() {
    let shared = Arc::new(Shared::new(None, 16));
    let config = &format!("max_connections = 1\n{TWO_SERVERS}");
    let worker = |index| {
        let shared = Arc::clone(&shared);
        TestWorker::of(Setup { config, index, workers: 2, shared, ..Setup::default() })
    };
    let (mut one, mut other) = (worker(0), worker(1));
    one.log_in();
    assert!(told(&mut other, local_peer()).starts_with("error 1040"));
}

#[test]
fn nobody_waits_for_a_name_where_no_host_is_named() {
    assert!(!needs_name(&snapshot(TWO_SERVERS), &at("192.0.2.1")));
}

/// A user may come from hosts of this name only.
fn names_hosts() -> String {
    TWO_SERVERS.replace("name = \"app\"", "name = \"app\"\nallow_from = \"%.example.com\"")
}

#[test]
fn a_name_is_asked_for_once() {
    let snapshot = snapshot(&names_hosts());
    assert!(needs_name(&snapshot, &at("192.0.2.1")));
    for host_name in [HostName::Nameless, HostName::Named("a.example.com".into())] {
        assert!(!needs_name(&snapshot, &Peer { host_name, ..at("192.0.2.1") }));
    }
}

#[test]
fn a_unix_socket_has_no_name() {
    assert!(!needs_name(&snapshot(&names_hosts()), &Peer::default()));
}

#[test]
fn tls_is_not_offered_without_a_certificate() {
    let mut world = TestWorker::new();
    let peer = Peer { tls: Some(TlsOffer::Required), ..at("192.0.2.1") };
    assert!(!world.core().env.may_encrypt(&peer));
    world.worker.offer_tls(true);
    assert!(world.core().env.may_encrypt(&peer));
}

#[test]
fn a_listeners_word_on_tls_goes_before_the_setting() {
    let mut world = TestWorker::with(&format!("have_ssl = false\n{TWO_SERVERS}"));
    world.worker.offer_tls(true);
    let with = |tls| Peer { tls, ..at("192.0.2.1") };
    let env = &world.core().env;
    assert!(!env.may_encrypt(&with(None)));
    assert!(env.may_encrypt(&with(Some(TlsOffer::Optional))));
    assert!(!env.may_encrypt(&with(Some(TlsOffer::Off))));
}

#[test]
fn tls_is_required_by_the_setting_but_not_over_a_unix_socket() {
    let mut world = TestWorker::with(&format!("require_secure_transport = true\n{TWO_SERVERS}"));
    let env = &world.core().env;
    assert!(env.must_encrypt(&at("192.0.2.1")));
    assert!(!env.must_encrypt(&Peer::default()));
}

#[test]
fn a_listener_may_require_tls_or_do_without() {
    let mut world = TestWorker::with(&format!("require_secure_transport = true\n{TWO_SERVERS}"));
    let env = &world.core().env;
    assert!(env.must_encrypt(&Peer { tls: Some(TlsOffer::Required), ..Peer::default() }));
    assert!(!env.must_encrypt(&Peer { tls: Some(TlsOffer::Off), ..at("192.0.2.1") }));
}
