use trunkline_catalog::{Name, Object};
use trunkline_protocol::packet::ok::OkPacket;
use trunkline_topology::HostgroupId;

use super::*;
use crate::{
    ClientId,
    tests::{OK, ONE_CONNECTION, Reply, TestWorker},
};

const CONN: ConnId = ConnId { index: 0, generation: 1 };

fn session() -> (TestWorker, ClientId) {
    let mut world = TestWorker::new();
    let client = world.log_in();
    (world, client)
}

fn replied(id: u64) -> Outcome {
    Outcome { last_insert_id: id, ..Outcome::default() }
}

/// Has a session learn of a statement of this text.
fn learn(world: &mut TestWorker, client: ClientId, text: &str, outcome: &Outcome) -> bool {
    let mut statement = world.statement(text);
    statement.meaning.proof.hidden = Hidden::empty();
    world.session(client).learn_insert_id(false, &statement, outcome)
}

#[test]
fn an_id_that_was_generated_is_sure() {
    let (mut world, client) = session();
    assert!(learn(&mut world, client, "INSERT INTO t (a) VALUES (1)", &replied(41)));
    let session = world.session(client);
    assert_eq!(session.last_insert_id, 41);
    assert!(session.past.knows_insert_id());
}

#[test]
fn an_id_that_the_text_may_have_given_is_reported_only() {
    let (mut world, client) = session();
    assert!(learn(&mut world, client, "INSERT INTO t (a) VALUES (41)", &replied(41)));
    assert!(world.session(client).past.is_insert_id_reported());
}

#[test]
fn a_statement_without_an_id_changes_nothing() {
    let (mut world, client) = session();
    learn(&mut world, client, "INSERT INTO t (a) VALUES (1)", &replied(41));
    assert!(!learn(&mut world, client, "DELETE FROM t", &replied(0)));
    assert_eq!(world.session(client).last_insert_id, 41);
}

#[test]
fn what_may_leave_an_id_untold_leaves_it_on_its_connection() {
    let (mut world, client) = session();
    assert!(learn(&mut world, client, "CALL p()", &replied(0)));
    assert_eq!(world.session(client).past.insert_id, InsertId::OnConnection);
}

#[test]
fn a_trigger_may_have_given_the_id() {
    let (mut world, client) = session();
    let mut statement = world.statement("INSERT INTO t (a) VALUES (1)");
    statement.meaning.proof.hidden = Hidden::GIVES_VALUES;
    world.session(client).learn_insert_id(false, &statement, &replied(41));
    assert!(world.session(client).past.is_insert_id_reported());
}

#[test]
fn what_is_only_prepared_leaves_no_id() {
    let (mut world, client) = session();
    let mut statement = world.statement("INSERT INTO t (a) VALUES (1)");
    statement.command.purpose = Purpose::Prepare;
    assert!(!world.session(client).learn_insert_id(false, &statement, &replied(41)));
}

#[test]
fn an_insert_without_a_schema_leaves_its_connection_and_the_id_as_they_were() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    let told = OkPacket { last_insert_id: 41, affected_rows: 1, ..OK };
    world.run(client, "INSERT INTO s.t (a) VALUES (1)", Reply::Says(told));
    let conns = world.conns();
    let insert = "INSERT INTO t (a) VALUES (2)";
    let refused = Reply::Error(1046, "No database selected");
    assert!(world.run(client, insert, refused).starts_with("error 1046"));
    assert_eq!(world.conns(), conns);
    assert!(world.session(client).past.knows_insert_id());
    assert_eq!(world.session(client).last_insert_id, 41);
    // A name that nobody knows may have a trigger, which may give any error.
    for error in [1046, 1062] {
        let mut world = TestWorker::with(ONE_CONNECTION);
        let client = world.log_in();
        world.run(client, "INSERT INTO s.t (a) VALUES (1)", Reply::Says(told));
        world.run(client, "INSERT INTO s.t (a) VALUES (2)", Reply::Error(error, "by a trigger"));
        assert!(!world.session(client).past.knows_insert_id(), "{error}");
        assert!(!world.session(client).leases.is_empty(), "it keeps its connection: {error}");
    }
}

#[test]
fn a_write_that_is_refused_as_its_server_is_read_only_leaves_the_id_as_it_was() {
    let told = OkPacket { last_insert_id: 41, affected_rows: 1, ..OK };
    for (hidden, is_known) in [(Hidden::empty(), true), (Hidden::GIVES_VALUES, false)] {
        let mut world = TestWorker::with(ONE_CONNECTION);
        let group = HostgroupId(10);
        let name = Name { group, schema: (*b"s").into(), table: (*b"t").into() };
        let object = Object { writing: hidden, ..Object::PLAIN_TABLE };
        world.core().env.shared.catalog().store(name, Some(object), u64::MAX);
        let client = world.log_in();
        world.run(client, "INSERT INTO s.t (a) VALUES (1)", Reply::Says(told));
        let text = "The server is running with the --read-only option so it cannot execute this";
        world.ask(client, "REPLACE INTO s.t (a) VALUES (2)");
        world.reply("REPLACE INTO s.t (a) VALUES (2)", Reply::Error(1290, text));
        world.pass_ms(20_000);
        let answer = world.answer(client);
        assert!(answer.starts_with("error"), "{answer}");
        assert_eq!(world.session(client).past.knows_insert_id(), is_known, "{hidden:?}");
        assert_eq!(world.session(client).last_insert_id, 41);
    }
}

fn reported(base: u64, reported: &[u64]) -> InsertId {
    InsertId::Reported { base, reported: reported.to_vec() }
}

/// What a session takes the id for that its connection gave.
fn taken(before: InsertId, given: Option<u64>) -> u64 {
    let (mut world, client) = session();
    let session = world.session(client);
    session.last_insert_id = 5;
    session.past.insert_id = before;
    take_insert_id(session, CONN, given);
    session.last_insert_id
}

#[test]
fn a_given_id_that_was_reported_is_the_sessions() {
    assert_eq!(taken(reported(1, &[7, 8]), Some(7)), 7);
}

#[test]
fn a_given_id_that_was_never_reported_is_anothers() {
    assert_eq!(taken(reported(1, &[7, 8]), Some(9)), 1);
}

#[test]
fn an_id_on_the_connection_is_what_that_gives() {
    assert_eq!(taken(InsertId::OnConnection, Some(9)), 9);
    assert_eq!(taken(InsertId::OnConnection, None), 5);
}

#[test]
fn a_sure_id_is_not_overwritten() {
    assert_eq!(taken(InsertId::Sure, Some(9)), 5);
}

#[test]
fn a_connection_that_gave_another_id_is_not_where_it_was_left() {
    let (mut world, client) = session();
    let session = world.session(client);
    session.last_insert_id = 5;
    session.insert_conn = Some((CONN, 1));
    take_insert_id(session, CONN, Some(5));
    assert_eq!(session.insert_conn, Some((CONN, 1)));
    take_insert_id(session, CONN, Some(6));
    assert_eq!(session.insert_conn, None);
}

#[test]
fn so_many_reported_ids_are_told_apart() {
    let (mut world, client) = session();
    let session = world.session(client);
    for id in 1..=20 {
        let next = session.reported(id > 1, id);
        // Behind the first all are on the same connection, where they are added.
        session.past.insert_id = next;
    }
    let InsertId::Reported { base, reported } = &session.past.insert_id else {
        panic!("{:?}", session.past.insert_id)
    };
    assert_eq!((*base, reported.len(), reported.last()), (0, REPORTED_MAX, Some(&20)));
}

#[test]
fn an_id_is_read_from_what_a_set_reports() {
    let mut changes = vec![0, 18, 14];
    changes.extend_from_slice(b"last_insert_id");
    changes.extend_from_slice(b"\x0241");
    let outcome = Outcome { changes, ..Outcome::default() };
    assert_eq!(reported_insert_id(&outcome), Some(41));
    assert_eq!(reported_insert_id(&Outcome::default()), None);
}

#[test]
fn statements_that_generate_ids_are_known_by_their_kind() {
    use StatementKind as Kind;
    assert!([Kind::Insert, Kind::Replace, Kind::Load].into_iter().all(gives_values));
    assert!(![Kind::Update, Kind::Select, Kind::Call].into_iter().any(gives_values));
}
