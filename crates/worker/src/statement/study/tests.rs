use trunkline_protocol::codec::frame::put_payload;

use super::*;
use crate::{
    clients::client::Phase,
    tests::{Reply, TWO_SERVERS, TestWorker, snapshot},
};

/// Has a client send this text in reads of 64 KiB; it asks for more than one.
fn send(world: &mut TestWorker, client: ClientId, text: &str) {
    let mut bytes = Vec::new();
    put_payload(&mut bytes, 0, &[b"\x03", text.as_bytes()].concat());
    for piece in bytes.chunks(64 * 1024) {
        world.happens(|worker| worker.client_read(client, piece));
    }
}

/// One rule.
fn ruled(rule: &str) -> String {
    format!("{TWO_SERVERS}[[rule]]\nid = 1\n{rule}\n")
}

/// Texts that the worker has asked the rules about itself, and matches of the first rule.
fn evaluated(world: &TestWorker) -> (u64, u64) {
    let router = &world.worker.commands.router;
    (router.decisions.counters().evaluated, router.hits.count(0))
}

fn long_text() -> String {
    format!("INSERT INTO s.t VALUES ('{}')", "x".repeat(100_000))
}

#[test]
fn others_are_served_while_a_long_text_is_read() {
    let mut world = TestWorker::new();
    world.is_studious = false;
    let (client, other) = (world.log_in(), world.log_in());
    send(&mut world, client, &long_text());
    assert_eq!(world.times_heard("INSERT"), 0);
    world.run(other, "SELECT 1", Reply::Rows(&["1"]));
    world.study();
    world.happens(|_| ());
    assert_eq!(world.asked(), [long_text()]);
    world.reply(&long_text(), Reply::Ok);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn a_long_text_is_what_it_would_be_without_a_student() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let text = format!("SET @x = '{}'", "x".repeat(100_000));
    send(&mut world, client, &text);
    let modes = Modes {
        version: world.worker.commands.exchange.statements.analyses.version(),
        ..Modes::default()
    };
    let known = match &world.core().clients.get(client).expect("a client").phase {
        Phase::Running(statement) => Rc::clone(statement.meaning.known.as_ref().expect("a text")),
        other => panic!("{other:?}"),
    };
    let direct = trunkline_sql::analysis::analyse(text.as_bytes(), &modes);
    assert_eq!(known.analysis, direct);
    assert_eq!(&*known.digest_text, b"SET @x = ?");
}

#[test]
fn a_command_behind_a_long_text_waits_for_it() {
    let mut world = TestWorker::new();
    world.is_studious = false;
    let client = world.log_in();
    send(&mut world, client, &long_text());
    world.ask(client, "SELECT 2");
    assert!(world.asked().is_empty());
    world.study();
    world.happens(|_| ());
    world.reply(&long_text(), Reply::Ok);
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.asked(), ["SELECT 2"]);
}

#[test]
fn what_is_read_of_a_client_that_has_gone_is_nobodys() {
    let mut world = TestWorker::new();
    world.is_studious = false;
    let client = world.log_in();
    send(&mut world, client, &long_text());
    world.leave(client);
    world.study();
    world.happens(|_| ());
    assert!(world.asked().is_empty());
}

#[test]
fn a_client_that_sent_a_long_text_ahead_is_read_on() {
    let mut world = TestWorker::new();
    world.is_studious = false;
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    send(&mut world, client, &long_text());
    let is_paused = |world: &mut TestWorker| {
        world.core().clients.get(client).is_some_and(|client| client.io.is_paused)
    };
    assert!(is_paused(&mut world), "more than 64 KiB were sent ahead");
    world.reply("SELECT 1", Reply::Rows(&["1"]));
    assert!(!is_paused(&mut world), "nothing is sent ahead any more");
}

#[test]
fn a_long_text_waits_for_a_client_that_takes_no_answers() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.stall(client);
    world.run(client, "SELECT 1", Reply::Rows(&[&"x".repeat(3 << 20)]));
    send(&mut world, client, &long_text());
    assert!(world.asked().is_empty());
    world.take_bytes(client);
    assert_eq!(world.asked(), [long_text()]);
}

#[test]
fn rules_are_asked_about_a_long_text_where_it_is_read() {
    let rule = ruled("match_pattern = \"INTO s.t\"\nreplace_pattern = \"INTO s.u\"");
    let mut world = TestWorker::with(&rule);
    let client = world.log_in();
    send(&mut world, client, &long_text());
    let new = long_text().replace("s.t", "s.u");
    assert_eq!(world.asked(), std::slice::from_ref(&new));
    let known = match &world.core().clients.get(client).expect("a client").phase {
        Phase::Running(statement) => Rc::clone(statement.meaning.known.as_ref().expect("a text")),
        other => panic!("{other:?}"),
    };
    let modes = Modes {
        version: world.worker.commands.exchange.statements.analyses.version(),
        ..Modes::default()
    };
    assert_eq!(known.analysis, trunkline_sql::analysis::analyse(new.as_bytes(), &modes));
    world.reply(&new, Reply::Ok);
    assert_eq!(world.answer(client), "ok");
    assert_eq!(evaluated(&world), (0, 1));
}

#[test]
fn a_rule_denies_a_long_text() {
    let mut world = TestWorker::with(&ruled("match_pattern = \"INTO s.t\"\nerror_msg = \"no\""));
    let client = world.log_in();
    send(&mut world, client, &long_text());
    assert_eq!(world.answer(client), "error 1148: no");
    assert_eq!(evaluated(&world), (0, 1));
}

#[test]
fn rules_that_are_loaded_while_a_long_text_is_read_are_asked() {
    let mut world = TestWorker::with(&ruled("match_pattern = \"INTO s.u\"\nerror_msg = \"no\""));
    world.is_studious = false;
    let client = world.log_in();
    send(&mut world, client, &long_text());
    let loaded = snapshot(&ruled("match_pattern = \"INTO s.t\"\nerror_msg = \"not any more\""));
    world.happens(|worker| worker.apply_snapshot(loaded));
    world.study();
    world.happens(|_| ());
    assert_eq!(world.answer(client), "error 1148: not any more");
    assert_eq!(evaluated(&world), (1, 1));
}
