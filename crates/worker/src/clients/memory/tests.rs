use std::sync::Arc;

use trunkline_budget::Budget;
use trunkline_protocol::codec::frame::put_payload;

use super::*;
use crate::{
    Shared,
    tests::{Reply, Setup, TWO_SERVERS, TestWorker},
};

const MIB: usize = 1 << 20;

/// A worker with a budget of so many MiB.
fn world(max: u64) -> (TestWorker, Arc<Budget>) {
    let budget = Arc::new(Budget::new(max << 20));
    let shared = Arc::new(Shared::new(None, 16).with_budget(Arc::clone(&budget)));
    (TestWorker::of(Setup { config: TWO_SERVERS, shared, ..Setup::default() }), budget)
}

/// The first `len` bytes of an `INSERT` of `whole`.
fn begin_of_statement(whole: usize, len: usize) -> Vec<u8> {
    let mut bytes = Header { payload_len: whole, seq: 0 }.bytes().to_vec();
    bytes.extend_from_slice(b"\x03INSERT INTO s.t VALUES ('");
    bytes.resize(len, b'x');
    bytes
}

/// Sends bytes in reads of 64 KiB, as far as the client is read; returns how many were taken.
fn send(world: &mut TestWorker, client: ClientId, bytes: &[u8]) -> usize {
    let mut taken = 0;
    for piece in bytes.chunks(STEP_LEN) {
        if world.core().clients.get(client).is_some_and(|client| client.io.is_paused) {
            break;
        }
        world.happens(|worker| worker.client_read(client, piece));
        taken += piece.len();
    }
    taken
}

fn charged(world: &mut TestWorker) -> u64 {
    world.core().clients.memory.purse.used()
}

#[test]
fn little_is_not_charged_and_much_is_until_it_is_gone() {
    let (mut world, budget) = world(16);
    let client = world.log_in();
    send(&mut world, client, &begin_of_statement(10_000, 9_000));
    assert_eq!((charged(&mut world), budget.total()), (0, 0));
    send(&mut world, client, &[b'x'; 1_000 + HEADER_LEN]);
    let client = world.log_in();
    let statement = begin_of_statement(MIB, MIB / 2);
    send(&mut world, client, &statement);
    assert!(charged(&mut world) >= statement.len() as u64);
    world.leave(client);
    assert_eq!((charged(&mut world), world.core().clients.memory.listed.len()), (0, 0));
}

#[test]
fn a_statement_that_is_larger_than_may_ever_be_is_refused_and_its_rest_thrown_away() {
    let (mut world, budget) = world(4);
    let client = world.log_in();
    let whole = 3 * MIB;
    let statement = begin_of_statement(whole, HEADER_LEN + whole);
    let taken = send(&mut world, client, &statement);
    assert_eq!(taken, statement.len());
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1041: Out of memory: 3145732 bytes are"), "{answer}");
    assert_eq!(budget.refusals(Refusal::TooLarge), 1);
    world.pass_ms(200);
    assert_eq!(charged(&mut world), 0);
    world.run(client, "SELECT 1", Reply::Rows(&["1"]));
}

#[test]
fn who_begins_a_statement_near_the_limit_is_not_read_until_there_is_memory() {
    let (mut world, budget) = world(16);
    let client = world.log_in();
    let others = budget.charge(Class::Admin, Kind::Admin, 9 * MIB).expect("room");
    let statement = begin_of_statement(MIB, HEADER_LEN + MIB);
    let taken = send(&mut world, client, &statement);
    assert!(taken < 2 * STEP_LEN, "{taken}");
    assert_eq!((budget.waiting(), budget.waits()), (1, 1));
    world.pass_ms(20);
    assert_eq!(budget.waiting(), 1);
    drop(others);
    world.pass_ms(20);
    assert_eq!(budget.waiting(), 0);
    let rest = statement[taken..].to_vec();
    assert_eq!(send(&mut world, client, &rest), rest.len());
    assert_eq!(world.asked().last().map(String::len), Some(MIB - 1));
}

#[test]
fn who_waits_in_vain_is_refused_and_goes_on() {
    let (mut world, budget) = world(16);
    let client = world.log_in();
    let _others = budget.charge(Class::Admin, Kind::Admin, 11 * MIB).expect("room");
    let statement = begin_of_statement(MIB, HEADER_LEN + MIB);
    let taken = send(&mut world, client, &statement);
    world.pass_ms(trunkline_budget::WAIT_MS_MAX + 50);
    let rest = statement[taken..].to_vec();
    assert_eq!(send(&mut world, client, &rest), rest.len());
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1041: Out of memory: "), "{answer}");
    assert_eq!((budget.waiting(), budget.refusals(Refusal::Full)), (0, 1));
}

#[test]
fn the_greediest_gives_way_to_those_who_wait() {
    let (mut world, budget) = world(16);
    let greedy: Vec<_> = (0..3).map(|_| world.log_in()).collect();
    let modest = world.log_in();
    for (client, len) in greedy.iter().zip([3 * MIB, 5 * MIB, 2 * MIB]) {
        send(&mut world, *client, &begin_of_statement(9 * MIB, len));
    }
    let statement = begin_of_statement(MIB, HEADER_LEN + MIB);
    let taken = send(&mut world, modest, &statement);
    assert!(taken < statement.len());
    world.pass_ms(PATIENCE_MS + 50);
    assert_eq!(budget.refusals(Refusal::Greediest), 1);
    world.pass_ms(20);
    let skips = |world: &mut TestWorker, id| {
        world.core().clients.get(id).is_some_and(|client| client.skips())
    };
    assert!(skips(&mut world, greedy[1]) && !skips(&mut world, greedy[0]));
    let rest = statement[taken..].to_vec();
    assert_eq!(send(&mut world, modest, &rest), rest.len());
}

#[test]
fn long_parameters_and_prepared_texts_find_no_memory_where_there_is_none() {
    let (mut world, budget) = world(16);
    let client = world.log_in();
    let _others = budget.charge(Class::Admin, Kind::Admin, 11 * MIB).expect("room");
    world.send(client, &[b"\x16SELECT '", &[b'x'; FREE_LEN][..], b"'"].concat());
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1041: Out of memory: "), "{answer}");
}

#[test]
fn what_was_sent_behind_a_refused_statement_is_not_carried_out() {
    let (mut world, _budget) = world(4);
    let client = world.log_in();
    let mut bytes = begin_of_statement(3 * MIB, HEADER_LEN + 3 * MIB);
    put_payload(&mut bytes, 0, b"\x03INSERT INTO s.t VALUES (2)");
    send(&mut world, client, &bytes);
    assert!(world.answer(client).starts_with("error 1041: "));
    assert!(world.is_closed(client) && world.asked().is_empty());
}

#[test]
fn nothing_is_prepared_last_behind_a_text_that_was_refused() {
    let (mut world, _budget) = world(4);
    let client = world.log_in();
    world.send(client, b"\x16INSERT INTO s.t VALUES (7)");
    world.reply("PREPARE INSERT INTO s.t VALUES (7)", Reply::Prepared(1, 0));
    world.answers(client);
    let mut bytes = begin_of_statement(3 * MIB, HEADER_LEN + 3 * MIB);
    bytes[HEADER_LEN] = code::STMT_PREPARE;
    put_payload(&mut bytes, 0, b"\x17\xFF\xFF\xFF\xFF\0\x01\0\0\0");
    send(&mut world, client, &bytes);
    let answers = world.answers(client);
    assert!(answers[0].starts_with("error 1041: "), "{answers:?}");
    assert!(answers[1].starts_with("error 1243: "), "{answers:?}");
    assert!(world.asked().is_empty());
}

/// Fills a client's outbox beyond what may wait for it, and has it send commands ahead; how many.
fn send_ahead_unread(world: &mut TestWorker, client: ClientId) -> usize {
    world.stall(client);
    let answer = "x".repeat(3 * MIB);
    world.run(client, "SELECT 1", Reply::Rows(&[&answer]));
    let mut bytes = Vec::new();
    let command = [b"\x03DO '", &[b'x'; 1_000][..], b"'"].concat();
    let count = 2 * FREE_LEN / command.len();
    for _ in 0..count {
        put_payload(&mut bytes, 0, &command);
    }
    send(world, client, &bytes);
    count
}

#[test]
fn whole_commands_that_wait_for_their_turn_are_never_refused() {
    let (mut world, budget) = world(16);
    let client = world.log_in();
    let count = send_ahead_unread(&mut world, client);
    let _others = budget.charge(Class::Admin, Kind::Admin, 11 * MIB).expect("room");
    let modest = world.log_in();
    send(&mut world, modest, &begin_of_statement(MIB, HEADER_LEN + MIB));
    world.pass_ms(trunkline_budget::WAIT_MS_MAX + 50);
    assert_eq!(budget.refusals(Refusal::Greediest), 0);
    world.take_bytes(client);
    let mut answered = 0;
    while let Some(text) = world.asked().first().cloned() {
        world.reply(&text, Reply::Ok);
        answered += 1;
    }
    assert_eq!(answered, count);
    assert_eq!(world.answers(client)[1..], vec!["ok"; count]);
}
