//! Statements that a rule makes cacheable.

use trunkline_protocol::packet::{ok::OkPacket, status};

use crate::tests::{OK, Reply, TWO_SERVERS, TestWorker};

const TEXT: &str = "SELECT a FROM s.t WHERE id = 1";

fn cached() -> TestWorker {
    let rule = "[[rule]]\nid = 1\nmatch_digest = \"SELECT\"\ncache_ttl = 5000\napply = true\n";
    TestWorker::with(&format!("{TWO_SERVERS}{rule}"))
}

#[test]
fn an_equal_statement_is_answered_without_a_server() {
    let mut world = cached();
    let (one, other) = (world.log_in(), world.log_in());
    assert_eq!(world.run(one, TEXT, Reply::Rows(&["x"])), "rows x");
    assert_eq!(world.answered(other, TEXT), "rows x");
}

#[test]
fn an_answer_is_too_old_after_its_time() {
    let mut world = cached();
    let client = world.log_in();
    world.run(client, TEXT, Reply::Rows(&["x"]));
    world.pass_ms(5_001);
    assert_eq!(world.run(client, TEXT, Reply::Rows(&["y"])), "rows y");
}

#[test]
fn another_literal_is_another_statement() {
    let mut world = cached();
    let client = world.log_in();
    world.run(client, TEXT, Reply::Rows(&["x"]));
    let other = "SELECT a FROM s.t WHERE id = 2";
    assert_eq!(world.run(client, other, Reply::Rows(&["y"])), "rows y");
}

#[test]
fn another_state_is_another_answer() {
    let mut world = cached();
    let client = world.log_in();
    world.run(client, TEXT, Reply::Rows(&["x"]));
    world.run(client, "SET time_zone = '+01:00'", Reply::Ok);
    assert_eq!(world.run(client, TEXT, Reply::Rows(&["y"])), "rows y");
}

#[test]
fn an_error_is_not_stored() {
    let mut world = cached();
    let client = world.log_in();
    world.run(client, TEXT, Reply::Error(1205, "Lock wait timeout exceeded"));
    assert_eq!(world.run(client, TEXT, Reply::Rows(&["x"])), "rows x");
}

#[test]
fn an_equal_statement_waits_for_the_answer_to_the_first() {
    let mut world = cached();
    let (one, other) = (world.log_in(), world.log_in());
    world.ask(one, TEXT);
    world.ask(other, TEXT);
    assert_eq!(world.asked(), [TEXT]);
    world.reply(TEXT, Reply::Rows(&["x"]));
    assert_eq!([one, other].map(|client| world.answer(client)), ["rows x", "rows x"]);
}

#[test]
fn who_waits_for_an_answer_that_does_not_come_asks_for_itself() {
    let mut world = cached();
    let (one, other) = (world.log_in(), world.log_in());
    world.ask(one, TEXT);
    world.ask(other, TEXT);
    world.pass_ms(1_001);
    assert_eq!(world.asked(), [TEXT, TEXT]);
    assert_eq!(world.answer(other), "");
}

#[test]
fn in_a_transaction_nothing_is_answered_from_the_cache() {
    let mut world = cached();
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, TEXT, Reply::Rows(&["x"]));
    let status = status::AUTOCOMMIT | status::IN_TRANS;
    world.run(other, "BEGIN", Reply::Says(OkPacket { status, ..OK }));
    assert_eq!(world.run(other, TEXT, Reply::RowsIn(&["y"], status)), "rows y");
}

#[test]
fn a_hint_of_0_takes_the_order_back() {
    let mut world = cached();
    let client = world.log_in();
    let text = "SELECT /* cache_ttl=0 */ a FROM s.t";
    world.run(client, text, Reply::Rows(&["x"]));
    assert_eq!(world.run(client, text, Reply::Rows(&["y"])), "rows y");
}

#[test]
fn hits_and_misses_are_counted_by_their_rule() {
    let mut world = cached();
    let client = world.log_in();
    world.run(client, TEXT, Reply::Rows(&["x"]));
    world.answered(client, TEXT);
    let figures = world.core().fx.stats.cache_mut(1);
    assert_eq!((figures.hits, figures.misses), (1, 1));
}
