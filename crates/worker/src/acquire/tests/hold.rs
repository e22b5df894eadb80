//! Statements are held while their cluster has no writer.

use std::sync::Arc;

use trunkline_topology::WriterCell;

use super::{ClientId, Login, Reply, TestWorker, WRITES};

const CLUSTER: &str = r#"
connect_timeout_server_max = 1000
[[cluster]]
name = "shop"
writer_hostgroup = 10
reader_hostgroup = 20
hold_timeout = "5s"
seeds = ["127.0.0.1:3306", "127.0.0.1:3307"]
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
[[user]]
name = "raw"
password = "raw"
default_hostgroup = 10
fast_forward = true
"#;

fn start(config: &str) -> (TestWorker, Arc<WriterCell>) {
    let mut world = TestWorker::with(config);
    let cell = Arc::clone(&world.core().env.snapshot.clusters[0].cell);
    (world, cell)
}

fn log_in_raw(world: &mut TestWorker) -> ClientId {
    world.log_in_as(&Login { user: "raw", password: "raw", ..Login::default() })
}

#[test]
fn a_write_waits_for_a_writer_and_goes_there_at_once() {
    let (mut world, cell) = start(CLUSTER);
    let client = world.log_in();
    world.ask(client, WRITES[0]);
    world.pass_ms(4_000);
    assert_eq!((world.answer(client).as_str(), world.opened()), ("", 0));
    assert_eq!(world.doing(client), "held: no writer of cluster shop");
    cell.set(Some(1));
    world.pass_ms(10);
    assert_eq!(world.address_asked(WRITES[0]), "127.0.0.1:3307");
    world.reply(WRITES[0], Reply::Ok);
    assert_eq!(world.answer(client), "ok");
    let counters = world.core().fx.stats.counters;
    assert_eq!((counters.statements_held, counters.holds_timed_out), (1, 0));
    assert!((4_000_000..=4_020_000).contains(&counters.hold_time_us), "{counters:?}");
}

#[test]
fn the_error_behind_a_hold_says_what_was_waited_for() {
    let (mut world, cell) = start(CLUSTER);
    let client = world.log_in();
    let held_in_vain = |world: &mut TestWorker| {
        world.ask(client, WRITES[0]);
        world.pass_ms(4_900);
        assert_eq!(world.answer(client), "");
        world.pass_ms(200);
        world.answer(client)
    };
    let begin = "error 9001: Max connect timeout reached while reaching hostgroup 10 after 5100ms: \
                 cluster shop has no writer";
    let end = "; nothing was executed, so it can be tried again";
    assert_eq!(held_in_vain(&mut world), format!("{begin} (none has been found so far){end}"));
    cell.set(Some(0));
    cell.set(None);
    let known = "127.0.0.1:3306, the last one, does not take writes any more";
    assert_eq!(held_in_vain(&mut world), format!("{begin} ({known}){end}"));
    // The session goes on.
    cell.set(Some(1));
    assert_eq!(world.run(client, WRITES[1], Reply::Ok), "ok");
    let counters = world.core().fx.stats.counters;
    assert_eq!((counters.statements_held, counters.holds_timed_out), (2, 2));
    assert_eq!(counters.statements_refused_no_writer, 2);
}

#[test]
fn a_writer_that_refuses_connections_is_none_and_its_hold_does_not_begin_anew() {
    let (mut world, cell) = start(&format!("shun_on_failures = 1\n{CLUSTER}"));
    cell.set(Some(0));
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, WRITES[0]);
    let mut answer = String::new();
    for _ in 0..600 {
        for conn in world.conns() {
            world.fail(conn);
        }
        world.pass_ms(10);
        answer = world.answer(client);
        if !answer.is_empty() {
            break;
        }
    }
    assert!(answer.contains("cluster shop has no writer (127.0.0.1:3306 cannot be"), "{answer}");
    let counters = world.core().fx.stats.counters;
    assert_eq!((counters.statements_held, counters.holds_timed_out), (1, 1));
    assert!(world.opened() > 10, "it is tried while somebody waits for it");
}

#[test]
fn those_who_find_the_queue_full_are_refused_at_once() {
    let (mut world, _) = start(&format!("queue_max = 1\n{CLUSTER}"));
    let clients = [(); 2].map(|()| world.log_in());
    for (client, text) in clients.iter().zip(WRITES) {
        world.ask(*client, text);
    }
    let answer = world.answer(clients[1]);
    assert!(answer.contains("1 statements are held already: cluster shop has no"), "{answer}");
    assert!(answer.ends_with("nothing was executed, so it can be tried again"), "{answer}");
    assert_eq!(world.core().fx.stats.counters.holds_refused, 1);
    assert_eq!(world.answer(clients[0]), "");
}

#[test]
fn a_fast_forward_client_is_held_until_there_is_a_writer() {
    let (mut world, cell) = start(CLUSTER);
    let [first, second, third] = [(); 3].map(|()| log_in_raw(&mut world));
    world.ask(first, WRITES[0]);
    world.leave(third);
    world.pass_ms(3_000);
    assert_eq!(
        (world.doing(first).as_str(), world.opened()),
        ("held: no writer of cluster shop", 0)
    );
    cell.set(Some(0));
    world.pass_ms(10);
    assert_eq!((world.opened(), world.doing(second).as_str()), (2, "forwarding"));
    assert_eq!(world.asked(), [WRITES[0]]);

    cell.set(None);
    let late = log_in_raw(&mut world);
    world.pass_ms(4_900);
    assert!(!world.is_closed(late));
    world.pass_ms(200);
    let answer = world.answer(late);
    assert!(answer.starts_with("error 9001") && answer.contains("cluster shop has no"), "{answer}");
    assert!(world.is_closed(late));
}
