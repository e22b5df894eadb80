use trunkline_protocol::packet::ok::OkPacket;

use crate::{
    Action, ClientId, KillAnswer, KillAsker, KillRequest, KillScope,
    tests::{MYSQL, ONE_CONNECTION, Reply, Setup, TestWorker},
};

/// The number that a client was greeted with.
fn number(world: &mut TestWorker, client: ClientId) -> u32 {
    world.core().clients.table.get(client).expect("a client").origin.number
}

fn request(number: u32, scope: KillScope) -> KillRequest {
    let asker = KillAsker { worker: 0, client: None, ticket: 7 };
    KillRequest { number, scope, user: None, asker }
}

#[test]
fn a_statement_that_ends_itself_is_interrupted() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let answer = world.answered(client, "KILL QUERY CONNECTION_ID()");
    assert_eq!(answer, "error 1317: Query execution was interrupted");
    assert!(!world.is_closed(client));
}

#[test]
fn a_session_that_ends_itself_is_told_so_in_its_servers_words() {
    for (setup, expected) in [
        (Setup::default(), "error 1927: Connection was killed"),
        (
            Setup { version: MYSQL, ..Setup::default() },
            "error 1317: Query execution was interrupted",
        ),
    ] {
        let mut world = TestWorker::of(setup);
        let client = world.log_in();
        let text = format!("KILL {}", number(&mut world, client));
        assert_eq!(world.answered(client, &text), expected);
        assert!(world.is_closed(client));
    }
}

#[test]
fn a_number_that_nobody_has_is_unknown() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    assert_eq!(world.answered(client, "KILL 77"), "error 1094: Unknown thread id: 77");
}

#[test]
fn a_number_beyond_all_is_unknown() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let answer = world.answered(client, "KILL 4294967297");
    assert_eq!(answer, "error 1094: Unknown thread id: 4294967297");
}

#[test]
fn nobody_ends_another_users_session() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (client, other) = (world.log_in(), world.connect());
    world.try_to_log_in(
        other,
        &crate::tests::Login { user: "other", password: "other", ..Default::default() },
    );
    let text = format!("KILL {}", number(&mut world, other));
    assert_eq!(world.answered(client, &text), "error 1095: You are not owner of thread 2");
    assert!(!world.is_closed(other));
}

#[test]
fn nobody_ends_who_has_not_logged_in() {
    let mut world = TestWorker::new();
    let (client, _other) = (world.log_in(), world.connect());
    assert_eq!(world.answered(client, "KILL 2"), "error 1095: You are not owner of thread 2");
}

#[test]
fn an_idle_session_ends_at_once() {
    let mut world = TestWorker::new();
    let (client, other) = (world.log_in(), world.log_in());
    assert_eq!(world.answered(client, "KILL 2"), "ok");
    assert!(world.is_closed(other));
}

#[test]
fn ending_the_statement_of_an_idle_session_ends_nothing() {
    let mut world = TestWorker::new();
    let (client, other) = (world.log_in(), world.log_in());
    assert_eq!(world.answered(client, "KILL QUERY 2"), "ok");
    assert!(!world.is_closed(other));
}

#[test]
fn a_kill_among_other_statements_is_refused() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    assert!(world.answered(client, "SELECT 1; KILL 2").starts_with("error 1235"));
}

#[test]
fn a_kill_of_a_running_statement_goes_to_its_server_by_that_ones_number() {
    let mut world = TestWorker::new();
    let (killer, victim) = (world.log_in(), world.log_in());
    world.ask(victim, "SELECT SLEEP(9)");
    world.ask(killer, "KILL QUERY 2");
    assert_eq!(world.asked(), ["SELECT SLEEP(9)", "KILL QUERY 100"]);
    assert_eq!(world.answer(killer), "");
    world.reply("KILL QUERY 100", Reply::Ok);
    assert_eq!(world.answer(killer), "ok");
    world.reply("SELECT SLEEP(9)", Reply::Error(1317, "Query execution was interrupted"));
    assert_eq!(world.answer(victim), "error 1317: Query execution was interrupted");
    assert!(!world.is_closed(victim));
}

#[test]
fn a_connection_that_a_kill_may_hit_late_is_cleansed_before_the_next_statement() {
    let mut world = TestWorker::new();
    let (killer, victim) = (world.log_in(), world.log_in());
    world.run(victim, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    world.ask(victim, "INSERT INTO s.x VALUES (1)");
    world.ask(killer, "KILL QUERY 2");
    world.reply("INSERT INTO s.x VALUES (1)", Reply::Ok);
    world.ask(victim, "INSERT INTO s.x VALUES (2)");
    assert_eq!(world.asked(), ["KILL QUERY 100"], "the next statement could be hit");
    world.reply("KILL QUERY 100", Reply::Ok);
    assert_eq!(world.times_heard("PING"), 1);
    assert_eq!(world.asked(), ["INSERT INTO s.x VALUES (2)"]);
}

#[test]
fn a_session_that_is_killed_while_it_writes_is_told_that_it_may_be_done() {
    let mut world = TestWorker::new();
    let victim = world.log_in();
    world.ask(victim, "INSERT INTO s.t VALUES (1)");
    world.happens(|worker| worker.kill_asked(request(1, KillScope::Session)));
    let answer = world.answer(victim);
    assert!(answer.starts_with("error 2013") && answer.contains("killed"), "{answer}");
    assert!(world.is_closed(victim));
}

#[test]
fn the_connection_of_a_killed_session_is_nobodys_any_more() {
    let mut world = TestWorker::new();
    let victim = world.log_in();
    world.ask(victim, "SELECT SLEEP(9)");
    let conn = world.conn_asked("SELECT SLEEP(9)");
    world.happens(|worker| worker.kill_asked(request(1, KillScope::Session)));
    assert_eq!(world.answer(victim), "error 1317: Query execution was interrupted");
    assert_eq!(world.asked(), ["SELECT SLEEP(9)", "KILL 100"]);
    world.reply("KILL 100", Reply::Ok);
    world.reply("SELECT SLEEP(9)", Reply::Error(1317, "Query execution was interrupted"));
    assert!(!world.conns().contains(&conn));
}

#[test]
fn an_administrator_is_told_when_a_kill_was_carried_out() {
    let mut world = TestWorker::new();
    let victim = world.log_in();
    world.ask(victim, "SELECT SLEEP(9)");
    world.happens(|worker| worker.kill_asked(request(1, KillScope::Statement)));
    assert_eq!(world.administrator_told(), None);
    world.reply("KILL QUERY 100", Reply::Ok);
    assert_eq!(world.administrator_told(), Some(KillAnswer::Done));
}

#[test]
fn a_server_that_refuses_a_kill_is_heard() {
    let mut world = TestWorker::new();
    let victim = world.log_in();
    world.ask(victim, "SELECT SLEEP(9)");
    world.happens(|worker| worker.kill_asked(request(1, KillScope::Statement)));
    world.reply("KILL QUERY 100", Reply::Error(1095, "You are not owner of thread 100"));
    let answer = world.administrator_told();
    assert!(matches!(&answer, Some(KillAnswer::Failed(error)) if error.code == 1095), "{answer:?}");
}

#[test]
fn a_thread_that_has_gone_by_itself_counts_as_ended() {
    let mut world = TestWorker::new();
    let victim = world.log_in();
    world.ask(victim, "SELECT SLEEP(9)");
    world.happens(|worker| worker.kill_asked(request(1, KillScope::Statement)));
    world.reply("KILL QUERY 100", Reply::Error(1094, "Unknown thread id: 100"));
    assert_eq!(world.administrator_told(), Some(KillAnswer::Done));
}

#[test]
fn a_queued_statement_is_ended_without_a_server() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, victim) = (world.log_in(), world.log_in());
    world.ask(one, "SELECT SLEEP(9)");
    world.ask(victim, "INSERT INTO s.t VALUES (1)");
    world.happens(|worker| worker.kill_asked(request(2, KillScope::Statement)));
    assert_eq!(world.answer(victim), "error 1317: Query execution was interrupted");
    assert_eq!(world.asked(), ["SELECT SLEEP(9)"]);
    world.reply("SELECT SLEEP(9)", Reply::Rows(&["0"]));
    assert_eq!(world.times_heard("INSERT"), 0);
}

#[test]
fn a_kill_goes_beyond_max_connections_and_its_carrier_does_not_stay() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let victim = world.log_in();
    world.ask(victim, "SELECT SLEEP(9)");
    world.happens(|worker| worker.kill_asked(request(1, KillScope::Statement)));
    assert_eq!(world.conns().len(), 2);
    world.reply("KILL QUERY 100", Reply::Ok);
    assert_eq!(world.conns().len(), 1);
}

#[test]
fn a_kill_whose_carrier_is_lost_behind_its_sending_fails_and_its_target_is_not_reused() {
    let mut world = TestWorker::new();
    let victim = world.log_in();
    world.ask(victim, "SELECT a FROM s.t");
    world.happens(|worker| worker.kill_asked(request(1, KillScope::Statement)));
    let carrier = world.conn_asked("KILL QUERY 100");
    world.lose(carrier);
    let answer = world.administrator_told();
    assert!(matches!(answer, Some(KillAnswer::Failed(_))), "{answer:?}");
    world.reply("SELECT a FROM s.t", Reply::Rows(&["x"]));
    assert_eq!(world.conns(), []);
}

#[test]
fn a_kill_that_takes_too_long_is_given_up() {
    let mut world = TestWorker::new();
    let victim = world.log_in();
    world.ask(victim, "SELECT SLEEP(90)");
    world.happens(|worker| worker.kill_asked(request(1, KillScope::Statement)));
    world.pass_ms(11_000);
    let answer = world.administrator_told();
    assert!(matches!(answer, Some(KillAnswer::Failed(_))), "{answer:?}");
}

#[test]
fn carriers_are_counted_by_their_server() {
    let mut world = TestWorker::new();
    let victim = world.log_in();
    world.ask(victim, "SELECT SLEEP(9)");
    let address = world.address_asked("SELECT SLEEP(9)").to_owned();
    world.happens(|worker| worker.kill_asked(request(1, KillScope::Statement)));
    let keys: Vec<_> =
        world.core().servers.pool.slots().map(|(_, slot)| slot.server.key.clone()).collect();
    for key in keys {
        let expected = usize::from(key.address.to_string() == address);
        assert_eq!(world.worker.kill_carriers(&key), expected, "{key:?}");
    }
}

/// The first of three workers, and its only client.
fn one_of_three() -> (TestWorker, ClientId) {
    let mut world = TestWorker::of(Setup { workers: 3, ..Setup::default() });
    let client = world.log_in();
    (world, client)
}

fn asked_elsewhere(world: &mut TestWorker) -> (usize, KillRequest) {
    let asked = world.actions().into_iter().find_map(|action| match action {
        Action::Kill { to, request } => Some((to, *request)),
        _ => None,
    });
    asked.expect("another worker is asked")
}

#[test]
fn a_number_of_another_worker_is_asked_for_there() {
    let (mut world, client) = one_of_three();
    world.ask(client, "KILL QUERY 5");
    let (to, request) = asked_elsewhere(&mut world);
    assert_eq!((to, request.number, request.scope), (1, 5, KillScope::Statement));
    assert_eq!(request.user.as_deref(), Some("app"));
    assert_eq!(world.answer(client), "");
    world.happens(|worker| worker.kill_answered(request.asker, KillAnswer::Done));
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn an_answer_to_an_earlier_kill_is_nobodys() {
    let (mut world, client) = one_of_three();
    world.ask(client, "KILL 5");
    let (_, request) = asked_elsewhere(&mut world);
    let asker = KillAsker { ticket: request.asker.ticket.wrapping_add(1), ..request.asker };
    world.happens(|worker| worker.kill_answered(asker, KillAnswer::Done));
    assert_eq!(world.answer(client), "");
}

#[test]
fn a_kill_that_nobody_answers_is_given_up() {
    let (mut world, client) = one_of_three();
    world.ask(client, "KILL 5");
    world.pass_ms(19_000);
    assert_eq!(world.answer(client), "");
    world.pass_ms(2_000);
    assert!(world.answer(client).contains("what came of the KILL is not known"));
}

#[test]
fn a_worker_that_has_stopped_can_not_be_asked() {
    let (mut world, client) = one_of_three();
    world.ask(client, "KILL 5");
    let (_, request) = asked_elsewhere(&mut world);
    world.happens(|worker| worker.kill_undelivered(request.asker));
    assert!(world.answer(client).contains("the worker that knows this session has stopped"));
}

#[test]
fn another_worker_is_told_what_came_of_its_kill() {
    let (mut world, client) = one_of_three();
    let asker = KillAsker { worker: 2, client: Some(client), ticket: 9 };
    let scope = KillScope::Session;
    world.happens(|worker| worker.kill_asked(KillRequest { number: 1, scope, user: None, asker }));
    let told = world.actions().into_iter().find_map(|action| match action {
        Action::Killed { asker, answer } => Some((asker, answer)),
        _ => None,
    });
    assert_eq!(told, Some((asker, KillAnswer::Done)));
    assert!(world.is_closed(client));
}

#[test]
fn numbers_of_workers_are_apart() {
    let mut world = TestWorker::of(Setup { index: 1, workers: 3, ..Setup::default() });
    let numbers = [(); 3].map(|()| {
        let client = world.connect();
        number(&mut world, client)
    });
    assert_eq!(numbers, [2, 5, 8]);
}

/// Two clients of a server that takes one connection, which the first one's transaction holds; the
/// second sends these commands in one piece.
fn behind_a_transaction(commands: &[&str]) -> (TestWorker, ClientId, ClientId) {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (holder, sender) = (world.log_in(), world.log_in());
    let open = trunkline_protocol::packet::status::IN_TRANS;
    world.run(holder, "BEGIN", Reply::Says(OkPacket { status: open, ..OkPacket::default() }));
    let mut bytes = Vec::new();
    for text in commands {
        let payload = [b"\x03", text.as_bytes()].concat();
        trunkline_protocol::codec::frame::put_payload(&mut bytes, 0, &payload);
    }
    world.happens(|worker| worker.client_read(sender, &bytes));
    (world, holder, sender)
}

const INTERRUPTED: &str = "error 1317: Query execution was interrupted";

#[test]
fn nothing_runs_that_was_sent_ahead_behind_what_a_kill_met_unsent() {
    let (mut world, holder, sender) =
        behind_a_transaction(&["BEGIN", "INSERT INTO s.t VALUES (1)"]);
    assert_eq!(world.answered(holder, "KILL QUERY 2"), "ok");
    assert_eq!(world.answer(sender), INTERRUPTED);
    assert!(world.is_closed(sender));
}

#[test]
fn a_session_with_nothing_sent_ahead_goes_on_behind_a_kill_of_its_statement() {
    let (mut world, holder, sender) = behind_a_transaction(&["BEGIN"]);
    assert_eq!(world.answered(holder, "KILL QUERY 2"), "ok");
    assert_eq!(world.answer(sender), INTERRUPTED);
    assert!(!world.is_closed(sender));
}

#[test]
fn what_was_sent_ahead_runs_behind_a_look_that_a_kill_met_unsent() {
    for look in ["SELECT @u AS v", "SELECT LAST_INSERT_ID()", "SELECT a FROM s.t"] {
        let (mut world, holder, sender) = behind_a_transaction(&[look, "SET @u = 1"]);
        assert_eq!(world.answered(holder, "KILL QUERY 2"), "ok");
        assert_eq!(world.answer(sender), INTERRUPTED, "{look}");
        assert!(!world.is_closed(sender), "{look}");
    }
    for text in ["SELECT @u := 1", "SELECT GET_LOCK('a', 1)", "SELECT 1 INTO @u", "SELECT f()"] {
        let (mut world, holder, sender) = behind_a_transaction(&[text, "SET @u = 1"]);
        assert_eq!(world.answered(holder, "KILL QUERY 2"), "ok");
        assert_eq!(world.answer(sender), INTERRUPTED, "{text}");
        assert!(world.is_closed(sender), "{text}");
    }
}
