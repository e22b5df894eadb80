mod hold;

use trunkline_topology::ServerState;

use crate::ClientId;
use crate::tests::{Login, MYSQL, ONE_CONNECTION, Reply, Setup, TWO_SERVERS, TestWorker};

const WRITES: [&str; 3] =
    ["INSERT INTO s.t VALUES (1)", "INSERT INTO s.t VALUES (2)", "INSERT INTO s.t VALUES (3)"];

#[test]
fn nothing_is_opened_before_somebody_needs_it() {
    let mut world = TestWorker::new();
    world.log_in();
    assert_eq!(world.opened(), 0);
}

#[test]
fn a_statement_waits_until_its_connection_is_logged_in() {
    let mut world = TestWorker::new();
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, WRITES[0]);
    assert_eq!((world.opened(), world.heard().len()), (1, 0));
    let conn = world.conns()[0];
    world.come_up(conn);
    assert_eq!(world.asked().last().map(String::as_str), Some(WRITES[0]));
}

#[test]
fn whoever_waits_longest_is_served_first() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let clients = [(); 3].map(|()| world.log_in());
    for (client, text) in clients.iter().zip(WRITES) {
        world.ask(*client, text);
    }
    for (client, text) in clients.iter().zip(WRITES) {
        assert_eq!(world.asked(), [text]);
        world.reply(text, Reply::Ok);
        assert_eq!(world.answer(*client), "ok");
    }
}

#[test]
fn who_waits_in_vain_is_told_why() {
    let config = format!("connect_timeout_server_max = 1000\n{ONE_CONNECTION}");
    let mut world = TestWorker::with(&config);
    let (one, other) = (world.log_in(), world.log_in());
    world.ask(one, "SELECT SLEEP(9)");
    world.ask(other, WRITES[0]);
    world.pass_ms(900);
    assert_eq!(world.answer(other), "");
    world.pass_ms(200);
    let answer = world.answer(other);
    assert!(answer.starts_with("error 9001: Max connect timeout reached"), "{answer}");
    assert!(answer.contains("hostgroup 10 after 1100ms"), "{answer}");
    assert!(answer.ends_with("its 1 online servers are at max_connections"), "{answer}");
}

#[test]
fn a_queue_that_is_full_takes_nobody() {
    let mut world = TestWorker::with(&format!("queue_max = 1\n{ONE_CONNECTION}"));
    let clients = [(); 3].map(|()| world.log_in());
    for (client, text) in clients.iter().zip(WRITES) {
        world.ask(*client, text);
    }
    assert!(world.answer(clients[2]).ends_with("1 statements wait already"));
    assert_eq!(world.answer(clients[1]), "");
}

#[test]
fn a_client_that_goes_leaves_the_queue() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let clients = [(); 3].map(|()| world.log_in());
    for (client, text) in clients.iter().zip(WRITES) {
        world.ask(*client, text);
    }
    world.leave(clients[1]);
    world.reply(WRITES[0], Reply::Ok);
    assert_eq!(world.asked(), [WRITES[2]]);
}

#[test]
fn a_hostgroup_without_a_server_online_keeps_its_statements_waiting() {
    let config = TWO_SERVERS
        .replace("hostgroup = 10\naddress", "hostgroup = 10\nstatus = \"OFFLINE_SOFT\"\naddress");
    let mut world = TestWorker::with(&config);
    let client = world.log_in();
    world.ask(client, WRITES[0]);
    assert_eq!(world.opened(), 0);
    world.pass_ms(11_000);
    let answer = world.answer(client);
    assert!(answer.ends_with("none of its 2 servers is online"), "{answer}");
}

#[test]
fn a_server_without_weight_gets_nothing() {
    let config = TWO_SERVERS.replace(":3306\"", ":3306\"\nweight = 0");
    let mut world = TestWorker::with(&config);
    let clients = [(); 3].map(|()| world.log_in());
    for (client, text) in clients.iter().zip(WRITES) {
        world.ask(*client, text);
        assert_eq!(world.address_asked(text), "127.0.0.1:3307");
    }
}

#[test]
fn the_connection_of_another_account_is_logged_in_anew_on_mysql() {
    let config = ONE_CONNECTION;
    let mut world = TestWorker::of(Setup { config, version: MYSQL, ..Setup::default() });
    let one = world.log_in();
    let other = world.log_in_as(&Login { user: "other", password: "other", ..Login::default() });
    world.run(one, WRITES[0], Reply::Ok);
    world.ask(other, WRITES[1]);
    assert_eq!((world.opened(), world.times_heard("CHANGE_USER")), (1, 1));
    assert_eq!(world.asked(), [WRITES[1]]);
}

#[test]
fn the_connection_of_another_account_is_replaced_on_mariadb() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let one = world.log_in();
    let other = world.log_in_as(&Login { user: "other", password: "other", ..Login::default() });
    world.run(one, WRITES[0], Reply::Ok);
    world.ask(other, WRITES[1]);
    assert_eq!((world.opened(), world.times_heard("CHANGE_USER")), (2, 0));
    assert_eq!(world.conns().len(), 1);
}

#[test]
fn the_cap_on_a_servers_connections_holds() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let clients = [(); 3].map(|()| world.log_in());
    for (client, text) in clients.iter().zip(WRITES) {
        world.ask(*client, text);
    }
    let (_, slot) = world.core().servers.pool.slots().next().expect("a server");
    assert_eq!(slot.server.health.connections(), 1);
}

#[test]
fn a_connection_that_rested_for_long_is_looked_at_before_it_is_used() {
    use crate::Action;
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, WRITES[0], Reply::Ok);
    let conn = world.conns()[0];
    let probes = |world: &mut TestWorker| {
        let actions = world.actions();
        actions.iter().filter(|it| matches!(it, Action::Probe(id) if *id == conn)).count()
    };
    world.actions();
    world.run(client, WRITES[1], Reply::Ok);
    assert_eq!(probes(&mut world), 0);
    world.pass_ms(1_500);
    world.run(client, WRITES[2], Reply::Ok);
    assert_eq!(probes(&mut world), 1);
}

#[test]
fn no_connection_is_used_again_that_was_opened_before_its_server_was_shunned() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, WRITES[0], Reply::Ok);
    let conn = world.conns()[0];
    let slot = world.core().servers.slot_of(conn).expect("a server");
    let slot = world.core().servers.pool.slot(slot).expect("a server");
    slot.server.health.retire_connections();
    world.run(client, WRITES[1], Reply::Ok);
    assert!(!world.conns().contains(&conn));
}

#[test]
fn a_server_that_refuses_connections_is_passed_over_for_the_other() {
    let mut world = TestWorker::with(&format!("shun_on_failures = 1\n{TWO_SERVERS}"));
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, WRITES[0]);
    let first = world.conns()[0];
    world.fail(first);
    let states: Vec<_> = {
        let core = world.core();
        let now_ms = core.env.now.ms();
        core.servers.pool.slots().map(|(_, slot)| slot.server.health.state(now_ms)).collect()
    };
    assert_eq!(states.iter().filter(|state| **state == ServerState::Online).count(), 1);
    let next = *world.conns().last().expect("another one");
    assert_ne!(next, first);
    world.come_up(next);
    world.is_automatic = true;
    assert_eq!(world.answer(client), "");
}

#[test]
fn a_connection_from_before_a_shun_does_not_end_it() {
    let mut world = TestWorker::with(&format!(
        "shun_on_failures = 1\n{}",
        ONE_CONNECTION.replace("max_connections = 1", "max_connections = 2")
    ));
    world.is_automatic = false;
    let one = world.log_in();
    let other = world.log_in_as(&Login { user: "other", password: "other", ..Login::default() });
    world.ask(one, WRITES[0]);
    world.ask(other, WRITES[1]);
    let conns = world.conns();
    world.fail(conns[0]);
    // It is not used, so it would be made again and again, as fast as the server lets in.
    world.come_up(conns[1]);
    assert_eq!(world.opened(), 2);
    let now_ms = world.core().env.now.ms();
    let core = world.core();
    let state = core.servers.pool.slots().next().map(|(_, slot)| slot.server.health.state(now_ms));
    assert_eq!(state, Some(ServerState::Shunned));
}

#[test]
fn a_statement_that_names_its_server_goes_to_no_other() {
    let config = TWO_SERVERS.replace(":3307\"", ":3307\"\ncomment = \"second\"");
    let mut world = TestWorker::with(&config);
    for _ in 0..5 {
        let client = world.log_in();
        let text = "SELECT a FROM s.t -- maxscale route to server second";
        world.ask(client, text);
        assert_eq!(world.address_asked(text), "127.0.0.1:3307");
    }
}

#[test]
fn who_waits_in_vain_is_not_told_of_room_on_servers_that_are_offline() {
    let config = TWO_SERVERS
        .replace(":3306\"", ":3306\"\nmax_connections = 1")
        .replace(":3307\"", ":3307\"\nstatus = \"OFFLINE_SOFT\"");
    let mut world = TestWorker::with(&format!("connect_timeout_server_max = 1000\n{config}"));
    let (one, other) = (world.log_in(), world.log_in());
    world.ask(one, "SELECT SLEEP(9)");
    world.ask(other, WRITES[0]);
    world.pass_ms(1_100);
    let answer = world.answer(other);
    assert!(answer.ends_with("its 1 online servers are at max_connections"), "{answer}");
}

#[test]
fn the_only_server_is_tried_before_its_shun_is_over_and_one_among_others_is_not() {
    let one = ONE_CONNECTION.replace("max_connections = 1", "max_connections = 50");
    for (config, is_tried) in [(one.as_str(), true), (TWO_SERVERS, false)] {
        let mut world = TestWorker::with(&format!("shun_on_failures = 1\n{config}"));
        world.is_automatic = false;
        let client = world.log_in();
        world.ask(client, WRITES[0]);
        world.fail(world.conns()[0]);
        for _ in 0..2 {
            let opened = world.opened();
            world.pass_ms(250);
            assert_eq!(world.opened() > opened, is_tried);
            if is_tried {
                world.fail(*world.conns().last().expect("a try"));
            }
        }
        let counters = &world.core().fx.stats.counters;
        assert_eq!(counters.servers_shunned, 1, "one outage is one shun");
        if !is_tried {
            continue;
        }
        world.is_automatic = true;
        world.pass_ms(250);
        world.reply(WRITES[0], Reply::Ok);
        assert_eq!(world.answer(client), "ok");
    }
}
