use trunkline_protocol::packet::{ok::OkPacket, status};
use trunkline_topology::{Address, HostgroupId};

use super::*;
use crate::{
    ClientId,
    tests::{Login, OK, ONE_CONNECTION, Reply, TestWorker},
};

const IN_TRANS: Reply<'_> =
    Reply::Says(OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK });
const WRITE: &str = "INSERT INTO s.t VALUES (1)";
const TEN: Share = Share { connections_max: 10, percent_max: 90 };

fn server(port: u16) -> ServerKey {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
    ServerKey { hostgroup: HostgroupId(10), address }
}

fn wish(server: &ServerKey, users: &[&str]) -> Vec<Wish> {
    let users = users.iter().map(|user| (*user).to_owned()).collect();
    vec![Wish { server: server.clone(), users }]
}

fn conn(index: u32) -> ConnId {
    ConnId { index, generation: 0 }
}

fn holding(user: &str, count: u32, since_ms: u64, index: u32) -> Vec<Holding> {
    vec![Holding { user: user.to_owned(), count, since_ms, conn: conn(index) }]
}

#[test]
fn the_session_that_rested_longest_gives_way_whichever_worker_has_it() {
    let (board, server) = (ShareBoard::default(), server(3306));
    board.wish(0, wish(&server, &["late"]));
    let hold = |worker, holdings, now_ms| board.hold(worker, &server, holdings, TEN, now_ms);
    assert_eq!(hold(0, holding("greedy", 6, 700, 1), 1_000), None, "6 of 10 are not too much");
    assert_eq!(hold(1, holding("greedy", 4, 500, 2), 1_000), Some(conn(2)), "10 of 10 are");
    assert_eq!(hold(0, holding("greedy", 6, 700, 1), 1_100), None, "one at a time");
    assert_eq!(hold(1, holding("greedy", 3, 900, 3), 1_300), None, "9 of 10 are not too much");
    assert_eq!(hold(1, holding("greedy", 4, 900, 3), 1_600), None, "the other worker has it");
    assert_eq!(hold(0, holding("greedy", 6, 700, 1), 1_600), Some(conn(1)));
}

#[test]
fn nobody_gives_way_to_sessions_of_the_same_user_or_for_other_servers() {
    let (board, here, there) = (ShareBoard::default(), server(3306), server(3307));
    let hold = |server: &ServerKey| board.hold(0, server, holding("greedy", 10, 1, 1), TEN, 1_000);
    assert_eq!(hold(&here), None, "nobody waits");
    board.wish(0, wish(&here, &["greedy"]));
    assert_eq!(hold(&here), None, "its own statements wait");
    board.wish(1, wish(&there, &["late"]));
    assert_eq!(hold(&here), None, "the others wait for another server");
    assert_eq!(board.asked_for(), [here.clone(), there]);
    board.wish(0, wish(&here, &["greedy", "late"]));
    assert_eq!(hold(&here), Some(conn(1)));
    board.wish(0, Vec::new());
    board.wish(1, Vec::new());
    assert_eq!(board.asked_for(), []);
}

#[test]
fn what_a_worker_said_long_ago_does_not_count() {
    let (board, server) = (ShareBoard::default(), server(3306));
    board.wish(0, wish(&server, &["late"]));
    assert_eq!(board.hold(1, &server, holding("greedy", 5, 1, 1), TEN, 1_000), None);
    let later_ms = 1_000 + SAID_FOR_MS;
    assert_eq!(board.hold(0, &server, holding("greedy", 5, 2, 2), TEN, later_ms), None);
}

fn log_in_as(world: &mut TestWorker, user: &str) -> ClientId {
    world.log_in_as(&Login { user, password: user, ..Login::default() })
}

#[test]
fn a_statement_of_another_user_gets_the_connection_of_a_session_that_does_nothing() {
    let config = format!("connect_timeout_server_max = 1000\n{ONE_CONNECTION}");
    let mut world = TestWorker::with(&config);
    let (greedy, late) = (world.log_in(), log_in_as(&mut world, "other"));
    assert_eq!(world.run(greedy, "BEGIN", IN_TRANS), "ok");
    world.ask(late, WRITE);
    world.pass_ms(490);
    assert_eq!(world.core().fx.stats.counters.pinned_sessions_gave_way, 0);
    world.pass_ms(100);
    assert_eq!(world.core().fx.stats.counters.pinned_sessions_gave_way, 1);
    world.reply(WRITE, Reply::Ok);
    assert_eq!(world.answer(late), "ok");
    world.ask(greedy, WRITE);
    let answer = world.answer(greedy);
    assert!(answer.contains("pinned_share_max"), "{answer}");
}

#[test]
fn a_session_that_works_keeps_its_connection_and_so_does_one_with_its_own_users_behind_it() {
    let config = format!("connect_timeout_server_max = 1000\n{ONE_CONNECTION}");
    for (text, is_running, other) in [(WRITE, true, "other"), ("BEGIN", false, "app")] {
        let mut world = TestWorker::with(&config);
        let (greedy, late) = (world.log_in(), log_in_as(&mut world, other));
        match is_running {
            true => world.ask(greedy, text),
            false => assert_eq!(world.run(greedy, text, IN_TRANS), "ok"),
        }
        world.ask(late, "INSERT INTO s.t VALUES (2)");
        world.pass_ms(1_200);
        assert!(world.answer(late).starts_with("error 9001"));
        assert_eq!(world.core().fx.stats.counters.pinned_sessions_gave_way, 0, "{other}");
    }
}

#[test]
fn a_share_of_all_connections_protects_nobody() {
    let config =
        format!("connect_timeout_server_max = 1000\npinned_share_max = 100\n{ONE_CONNECTION}");
    let mut world = TestWorker::with(&config);
    let (greedy, late) = (world.log_in(), log_in_as(&mut world, "other"));
    assert_eq!(world.run(greedy, "BEGIN", IN_TRANS), "ok");
    world.ask(late, WRITE);
    world.pass_ms(1_200);
    assert!(world.answer(late).starts_with("error 9001"));
    assert_eq!(world.run(greedy, "COMMIT", Reply::Ok), "ok");
}
