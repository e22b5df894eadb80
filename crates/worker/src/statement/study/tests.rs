use trunkline_protocol::codec::frame::put_payload;

use super::*;
use crate::{
    clients::{client::Phase, frames::Frames},
    tests::{MYSQL, ONE_CONNECTION, Reply, Setup, TWO_SERVERS, TestWorker, snapshot},
};

/// Has a client send this text in reads of 64 KiB; it asks for more than one.
fn send(world: &mut TestWorker, client: ClientId, text: &str) {
    send_command(world, client, code::QUERY, text);
}

fn send_command(world: &mut TestWorker, client: ClientId, code: u8, text: &str) {
    let mut bytes = Vec::new();
    put_payload(&mut bytes, 0, &[&[code], text.as_bytes()].concat());
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
    // It is read once more.
    world.study();
    world.happens(|_| ());
    assert_eq!(world.answer(client), "");
    world.study();
    world.happens(|_| ());
    assert_eq!(world.answer(client), "error 1148: not any more");
    assert_eq!(evaluated(&world), (0, 1));
}

#[test]
fn rules_that_are_loaded_while_a_long_text_waits_for_its_names_are_asked() {
    let mut world = TestWorker::with(&ruled("match_pattern = \"INTO s.u\"\nerror_msg = \"no\""));
    world.is_studious = false;
    world.tells_names = false;
    let client = world.log_in();
    send(&mut world, client, &long_text());
    world.study();
    world.happens(|_| ());
    assert!(world.asked().is_empty(), "it waits for its names");
    let loaded = snapshot(&ruled("match_pattern = \"INTO s.t\"\nerror_msg = \"not any more\""));
    world.happens(|worker| worker.apply_snapshot(loaded));
    world.happens(|worker| worker.catalog_told(vec![client]));
    world.study();
    world.happens(|_| ());
    assert_eq!(world.answer(client), "error 1148: not any more");
    assert_eq!(evaluated(&world), (0, 1));
}

#[test]
fn rules_that_are_loaded_again_and_again_are_asked_by_the_worker_in_the_end() {
    let loaded = |text: &str| snapshot(&ruled(&format!("match_pattern = \"{text}\"")));
    let mut world = TestWorker::with(&ruled("match_pattern = \"x\""));
    world.is_studious = false;
    let client = world.log_in();
    send(&mut world, client, &long_text());
    for times in 0.. {
        assert!(times < 20, "it is read for ever");
        let snapshot = loaded(&format!("pattern {times}"));
        world.happens(|worker| worker.apply_snapshot(snapshot));
        world.study();
        world.happens(|_| ());
        if world.asked() == [long_text()] {
            break;
        }
    }
    assert_eq!(evaluated(&world), (1, 0));
}

/// The buffer of a client's command under way that nobody has copied.
fn buffer(world: &mut TestWorker, client: ClientId) -> Arc<Vec<u8>> {
    match &world.core().clients.get(client).expect("a client").phase {
        Phase::Running(statement) => match &statement.command.frames {
            Frames::Whole(buffer) => Arc::clone(buffer),
            Frames::Own(_) => panic!("it was copied"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_rules_make_of_a_long_text_is_sent_from_where_it_was_made() {
    let rule = ruled("match_pattern = \"INTO s.t\"\nreplace_pattern = \"INTO s.u\"");
    let config = format!("catalog_wait_ms = 0\n{rule}");
    let mut world = TestWorker::of(Setup { config: &config, version: MYSQL, ..Setup::default() });
    world.is_studious = false;
    let client = world.log_in();
    world.run(client, "SELECT 1", Reply::Rows(&["1"]));
    send(&mut world, client, &long_text());
    world.study();
    let buffer = buffer(&mut world, client);
    // Its statement has it, and the connection's outbox, and this test.
    assert_eq!(Arc::strong_count(&buffer), 3);
    world.happens(|_| ());
    assert_eq!(world.asked(), [long_text().replace("s.t", "s.u")]);
}

/// A rule that copies statements to hostgroup 30, and what it says else.
fn mirrored(more: &str) -> String {
    let server = "[[server]]\nhostgroup = 30\naddress = \"127.0.0.1:3308\"\n";
    ruled(&format!("match_digest = \"INSERT\"\n{more}\n{server}"))
}

#[test]
fn a_copy_of_a_long_text_for_a_mirror_has_the_buffer_of_its_original() {
    for rewrites in ["", "match_pattern = \"INTO s.t\"\nreplace_pattern = \"INTO s.u\"\n"] {
        let mut world = TestWorker::with(&mirrored(&format!("{rewrites}mirror_hostgroup = 30")));
        let client = world.log_in();
        send(&mut world, client, &long_text());
        let buffer = buffer(&mut world, client);
        // The original, its copy, and this test; both are sent already.
        assert_eq!(Arc::strong_count(&buffer), 3, "{rewrites}");
        let text =
            if rewrites.is_empty() { long_text() } else { long_text().replace("s.t", "s.u") };
        assert_eq!(world.asked(), [text.clone(), text]);
    }
}

#[test]
fn rules_are_asked_about_a_long_copy_where_its_original_is_read() {
    let copied = "mirror_flagOUT = 5\n[[rule]]\nid = 2\nflagIN = 5\n\
                  match_pattern = \"xxx\"\ndestination_hostgroup = 30\n";
    let mut world = TestWorker::with(&mirrored(copied));
    let client = world.log_in();
    send(&mut world, client, &long_text());
    assert_eq!(world.asked(), [long_text(), long_text()]);
    assert_eq!(evaluated(&world), (0, 1));
    assert_eq!(world.worker.commands.router.hits.count(1), 1);
}

/// A client prepares this; the server gives it the id 77.
fn prepare(world: &mut TestWorker, client: ClientId, text: &str) {
    send_command(world, client, code::STMT_PREPARE, text);
    world.reply(&format!("PREPARE {text}"), Reply::Prepared(77, 0));
    world.got(client);
}

fn execute(world: &mut TestWorker, client: ClientId) {
    world.send(client, &[0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn a_long_text_that_is_prepared_stays_in_the_buffer_that_it_came_in() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    send_command(&mut world, client, code::STMT_PREPARE, &long_text());
    let buffer = buffer(&mut world, client);
    world.reply(&format!("PREPARE {}", long_text()), Reply::Prepared(77, 0));
    world.got(client);
    let stmt = world.session(client).prepared.get(1).expect("a statement");
    assert!(matches!(&stmt.entry.text, Text::Part(part, _) if Arc::ptr_eq(part, &buffer)));
    assert_eq!(*stmt.entry.text, *long_text().as_bytes());
    let read = Contents::of(long_text().as_bytes(), &Modes::default(), Contents::NOTHING);
    assert_eq!(stmt.entry.contents, read);
    // It is prepared again for each execution, from there.
    execute(&mut world, client);
    world.reply(&format!("PREPARE {}", long_text()), Reply::Prepared(78, 0));
    world.reply("EXECUTE 78", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn others_are_served_while_rules_are_asked_about_a_long_text_that_is_executed() {
    let mut world = TestWorker::with(&ruled("match_pattern = \"INTO s.t\"\nerror_msg = \"no\""));
    world.core();
    let (client, other) = (world.log_in(), world.log_in());
    let loaded = ruled("match_pattern = \"INTO s.u\"\nerror_msg = \"no\"");
    let loaded = snapshot(&loaded);
    world.happens(|worker| worker.apply_snapshot(loaded));
    prepare(&mut world, client, &long_text());
    let before = evaluated(&world).0;
    world.is_studious = false;
    execute(&mut world, client);
    assert_eq!(world.times_heard("EXECUTE"), 0);
    world.run(other, "SELECT 1", Reply::Rows(&["1"]));
    // A rule that is loaded meanwhile counts.
    let denied = snapshot(&ruled("match_pattern = \"INTO s.t\"\nerror_msg = \"no\""));
    world.happens(|worker| worker.apply_snapshot(denied));
    for _ in 0..2 {
        world.study();
        world.happens(|_| ());
    }
    assert_eq!(world.answer(client), "error 1148: no");
    assert_eq!(evaluated(&world).0, before + 1, "of the other client's text");
}

#[test]
fn what_rules_make_of_a_long_text_that_is_prepared_is_made_beside_the_worker() {
    let rule = "match_pattern = \"INTO s.t\"\nreplace_pattern = \"INTO s.u\"\n\
                attributes = '{\"protects\":true}'";
    let mut world = TestWorker::with(&ruled(rule));
    let client = world.log_in();
    let new = long_text().replace("s.t", "s.u");
    send_command(&mut world, client, code::STMT_PREPARE, &long_text());
    buffer(&mut world, client);
    world.reply(&format!("PREPARE {new}"), Reply::Prepared(77, 0));
    let stmt = world.session(client).prepared.get(1).expect("a statement");
    let came = stmt.came.as_ref().expect("another text came");
    assert!(matches!(came.text, Text::Part(..)) && *came.text == *long_text().as_bytes());
    assert!(matches!(stmt.entry.text, Text::Part(..)) && *stmt.entry.text == *new.as_bytes());
    execute(&mut world, client);
    world.reply(&format!("PREPARE {new}"), Reply::Prepared(78, 0));
    world.reply("EXECUTE 78", Reply::Ok);
    assert_eq!(evaluated(&world).0, 0);
}

#[test]
fn a_rule_that_is_loaded_later_rewrites_a_long_text_that_was_prepared() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, &long_text());
    let rule = "match_pattern = \"INTO s.t\"\nreplace_pattern = \"INTO s.u\"\n\
                attributes = '{\"protects\":true}'";
    let loaded = snapshot(&ruled(rule));
    world.happens(|worker| worker.apply_snapshot(loaded));
    let new = long_text().replace("s.t", "s.u");
    for id in [78, 79] {
        execute(&mut world, client);
        world.reply(&format!("PREPARE {new}"), Reply::Prepared(id, 0));
        world.reply(&format!("EXECUTE {id}"), Reply::Ok);
        assert_eq!(world.answer(client), "ok");
    }
    let stmt = world.session(client).prepared.get(1).expect("a statement");
    assert!(matches!(stmt.entry.text, Text::Part(..)) && *stmt.entry.text == *new.as_bytes());
    assert_eq!(evaluated(&world).0, 0);
}

#[test]
fn a_long_text_is_read_anew_once_when_settings_make_other_digests() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, &long_text());
    let loaded = snapshot(&format!("query_digests_lowercase = true\n{TWO_SERVERS}"));
    world.happens(|worker| worker.apply_snapshot(loaded));
    world.is_studious = false;
    for (id, studies) in [(78, 1), (79, 0)] {
        execute(&mut world, client);
        assert_eq!(world.waiting_studies(), studies);
        world.study();
        world.happens(|_| ());
        world.reply(&format!("PREPARE {}", long_text()), Reply::Prepared(id, 0));
        world.reply(&format!("EXECUTE {id}"), Reply::Ok);
        assert_eq!(world.answer(client), "ok");
    }
}

#[test]
fn a_long_execution_of_a_short_text_is_read_once() {
    let mut world = TestWorker::with(&ruled("match_pattern = \"INTO s.u\"\nerror_msg = \"no\""));
    let client = world.log_in();
    prepare(&mut world, client, "DO 1");
    world.is_studious = false;
    let mut bytes = Vec::new();
    let payload = [&[0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0][..], &[0; 100_000]].concat();
    put_payload(&mut bytes, 0, &payload);
    for piece in bytes.chunks(64 * 1024) {
        world.happens(|worker| worker.client_read(client, piece));
    }
    world.study();
    world.happens(|_| ());
    assert_eq!(world.waiting_studies(), 0);
    world.reply("EXECUTE 77", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn a_long_text_that_asks_for_a_row_count_which_is_elsewhere_is_refused() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (client, other) = (world.log_in(), world.log_in());
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    world.run(other, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    send(&mut world, client, &format!("SELECT ROW_COUNT(), '{}'", "x".repeat(100_000)));
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1235") && answer.contains("more than 64 KiB"), "{answer}");
    assert!(world.asked().is_empty());
}

#[test]
fn a_route_of_a_long_text_is_not_explained() {
    let mut world = TestWorker::with(&format!("explain_route_users = \"*\"\n{TWO_SERVERS}"));
    let client = world.log_in();
    send(&mut world, client, &format!("EXPLAIN ROUTE {}", long_text()));
    let answer = world.answer(client);
    assert!(answer.contains("EXPLAIN ROUTE of more than 64 KiB"), "{answer}");
}

#[test]
fn a_long_command_without_a_text_is_malformed_and_not_put_together() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    send_command(&mut world, client, code::INIT_DB, &"x".repeat(100_000));
    assert_eq!(world.answer(client), "error 1835: Malformed communication packet");
    send_command(&mut world, client, code::INIT_DB, &"x".repeat(17 << 20));
    assert_eq!(world.answer(client), "error 1835: Malformed communication packet");
    assert!(world.is_closed(client));
}
