use trunkline_protocol::response::ServerError;

use super::*;
use crate::tests::{ONE_CONNECTION, Reply, TWO_SERVERS, TestWorker};

fn failed(code: u16) -> Outcome {
    let error = ServerError { code, sqlstate: *b"70100", message: Box::default() };
    Outcome { error: Some(error), ..Outcome::default() }
}

fn told(ending: Option<Ending>, outcome: &Outcome) -> bool {
    let mut world = TestWorker::new();
    let mut statement = world.statement("SELECT 1");
    statement.ending = ending;
    reported_timeout(&statement, outcome)
}

#[test]
fn a_withheld_answer_was_told_as_the_end_of_its_time() {
    assert!(told(Some(Ending::Withheld), &Outcome::default()));
}

#[test]
fn an_interruption_was_told_so_and_a_result_was_not() {
    assert!(told(Some(Ending::TimedOut), &failed(1907)));
    assert!(!told(Some(Ending::TimedOut), &failed(1062)));
    assert!(!told(Some(Ending::TimedOut), &Outcome::default()));
}

#[test]
fn a_killed_statement_has_not_run_out_of_its_time() {
    assert!(!told(Some(Ending::Killed), &failed(1907)));
    assert!(!told(None, &failed(1907)));
}

const LIMITED: &str = "default_query_timeout = 1000\n";
const TOLD: &str = "error 1907: Query execution was interrupted, query_timeout exceeded";

#[test]
fn a_read_that_takes_too_long_is_ended_on_its_server() {
    let mut world = TestWorker::with(&format!("{LIMITED}{TWO_SERVERS}"));
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(9)");
    world.pass_ms(999);
    assert_eq!(world.asked(), ["SELECT SLEEP(9)"]);
    world.pass_ms(2);
    assert_eq!(world.asked(), ["SELECT SLEEP(9)", "KILL QUERY 100"]);
    world.reply("SELECT SLEEP(9)", Reply::Error(1317, "Query execution was interrupted"));
    assert_eq!(world.answer(client), TOLD);
    assert!(!world.is_closed(client));
}

#[test]
fn a_write_that_was_done_in_the_end_is_said_to_be_done() {
    let mut world = TestWorker::with(&format!("{LIMITED}{TWO_SERVERS}"));
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.t VALUES (1)");
    world.pass_ms(1_001);
    // MariaDB would end a wait for a replica, too, and say OK.
    assert!(world.asked().contains(&"KILL SOFT QUERY 100".to_owned()), "{:?}", world.asked());
    world.reply("INSERT INTO s.t VALUES (1)", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn a_queued_statement_whose_time_is_over_is_never_sent() {
    let mut world = TestWorker::with(&format!("{LIMITED}{ONE_CONNECTION}"));
    let (one, other) = (world.log_in(), world.log_in());
    world.ask(one, "INSERT INTO s.t VALUES (1)");
    world.pass_ms(500);
    world.ask(other, "INSERT INTO s.t VALUES (2)");
    world.pass_ms(499);
    assert_eq!(world.answer(other), "");
    world.pass_ms(502);
    assert_eq!(world.answer(other), TOLD);
    world.reply("INSERT INTO s.t VALUES (1)", Reply::Ok);
    assert_eq!(world.times_heard("INSERT INTO s.t VALUES (2)"), 0);
}

#[test]
fn a_server_that_does_not_end_a_statement_loses_its_connection() {
    let mut world = TestWorker::with(&format!("{LIMITED}{TWO_SERVERS}"));
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.t VALUES (1)");
    let conn = world.conn_asked("INSERT INTO s.t VALUES (1)");
    world.pass_ms(1_001);
    world.reply("KILL SOFT QUERY 100", Reply::Ok);
    world.pass_ms(12_001);
    assert!(!world.conns().contains(&conn));
    let answer = world.answer(client);
    assert!(answer.starts_with("error 2013") && answer.contains("query_timeout"), "{answer}");
}

#[test]
fn a_statement_that_a_rule_delays_waits_for_its_time() {
    let rule = "[[rule]]\nid = 1\nmatch_digest = \"INSERT\"\ndelay = 500\napply = true\n";
    let mut world = TestWorker::with(&format!("{TWO_SERVERS}{rule}"));
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.t VALUES (1)");
    world.pass_ms(498);
    assert_eq!(world.asked(), [""; 0]);
    world.pass_ms(2);
    assert_eq!(world.asked(), ["INSERT INTO s.t VALUES (1)"]);
}
