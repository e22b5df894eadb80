use trunkline_protocol::packet::{ok::OkPacket, status};
use trunkline_rules::{Effects, Multiplex};
use trunkline_session::tracker::{PinReason, Pins};
use trunkline_topology::{HostgroupId, Pipeline};

use super::{
    directives::Directives,
    split::{Split, Transactions},
};
use crate::{
    ClientId,
    tests::{OK, Reply, TestWorker, WRITER_AND_READER},
};

const WRITER: &str = "127.0.0.1:3306";
const READER: &str = "127.0.0.1:3307";
const IN_TRANS: Reply<'_> =
    Reply::Says(OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK });

/// Where a statement goes.
fn goes_to(world: &mut TestWorker, client: ClientId, text: &str) -> String {
    world.ask(client, text);
    let address = world.address_asked(text).to_owned();
    world.reply(text, Reply::Ok);
    world.answer(client);
    address
}

#[test]
fn reads_go_to_the_reader_and_writes_to_the_writer() {
    let mut world = TestWorker::with(WRITER_AND_READER);
    let client = world.log_in();
    assert_eq!(goes_to(&mut world, client, "SELECT a FROM s.t"), READER);
    assert_eq!(goes_to(&mut world, client, "INSERT INTO s.t VALUES (1)"), WRITER);
    assert_eq!(goes_to(&mut world, client, "SELECT a FROM s.t FOR UPDATE"), WRITER);
}

#[test]
fn in_a_transaction_reads_stay_on_the_writer() {
    let mut world = TestWorker::with(WRITER_AND_READER);
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    assert_eq!(goes_to(&mut world, client, "SELECT a FROM s.t"), WRITER);
}

#[test]
fn without_autocommit_reads_go_to_the_writer() {
    let mut world = TestWorker::with(WRITER_AND_READER);
    let client = world.log_in();
    world.run(client, "SET autocommit = 0", Reply::Says(OkPacket { status: 0, ..OK }));
    world.ask(client, "SELECT a FROM s.t");
    assert_eq!(world.address_asked("SELECT a FROM s.t"), WRITER);
}

#[test]
fn a_transaction_that_only_reads_is_on_the_reader() {
    let mut world = TestWorker::with(WRITER_AND_READER);
    let client = world.log_in();
    assert_eq!(goes_to(&mut world, client, "START TRANSACTION READ ONLY"), READER);
}

#[test]
fn reads_go_to_the_writer_where_no_reader_is_online() {
    let config = WRITER_AND_READER.replace(":3307\"", ":3307\"\nstatus = \"OFFLINE_SOFT\"");
    let mut world = TestWorker::with(&config);
    let client = world.log_in();
    assert_eq!(goes_to(&mut world, client, "SELECT a FROM s.t"), WRITER);
}

#[test]
fn a_read_whose_tables_are_a_transactions_temporary_ones_stays_there() {
    let mut world = TestWorker::with(WRITER_AND_READER);
    let client = world.log_in();
    world.run(client, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    assert_eq!(goes_to(&mut world, client, "SELECT a FROM s.x"), WRITER);
}

/// With one rule.
fn ruled(rule: &str) -> TestWorker {
    TestWorker::with(&format!("{WRITER_AND_READER}[[rule]]\nid = 1\n{rule}\napply = true\n"))
}

#[test]
fn a_rule_sends_statements_where_it_says() {
    let mut world = ruled("match_digest = \"^SELECT b\"\ndestination_hostgroup = 10");
    let client = world.log_in();
    assert_eq!(goes_to(&mut world, client, "SELECT b FROM s.t"), WRITER);
    assert_eq!(goes_to(&mut world, client, "SELECT a FROM s.t"), READER);
}

#[test]
fn a_rule_may_answer_in_a_servers_place() {
    let mut world = ruled("match_digest = \"DROP\"\nerror_msg = \"not here\"");
    let client = world.log_in();
    assert_eq!(world.answered(client, "DROP TABLE s.t"), "error 1148: not here");
    let mut world = ruled("match_digest = \"DROP\"\nOK_msg = \"as if\"");
    let client = world.log_in();
    assert_eq!(world.answered(client, "DROP TABLE s.t"), "ok");
}

#[test]
fn a_rule_rewrites_what_is_sent() {
    let mut world = ruled("match_pattern = \"old_table\"\nreplace_pattern = \"new_table\"");
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.old_table VALUES (1)");
    assert_eq!(world.asked(), ["INSERT INTO s.new_table VALUES (1)"]);
}

#[test]
fn a_rule_that_makes_a_kill_is_not_obeyed() {
    let mut world = ruled("match_pattern = \"^end (.*)$\"\nreplace_pattern = \"KILL \\\\1\"");
    let client = world.log_in();
    assert!(world.answered(client, "end 1").starts_with("error 1235"));
}

#[test]
fn a_rule_holds_a_session_on_its_connection() {
    let mut world = ruled("match_digest = \"INSERT\"\nmultiplex = 0");
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    let reasons: Vec<_> = world.session(client).leases[0].pins.reasons().collect();
    assert_eq!(reasons, [PinReason::Rule]);
}

#[test]
fn what_reads_a_variable_stays_where_its_session_has_it() {
    let mut world = ruled("match_digest = \"^SELECT @\"\ndestination_hostgroup = 20");
    let client = world.log_in();
    world.run(client, "SELECT 1 INTO @a", Reply::Ok);
    let held = world.session(client).leases.iter().any(|it| it.pins.has(PinReason::UserVariable));
    assert!(held);
    world.ask(client, "SELECT @a");
    // What its session has on its own hostgroup it may see there.
    assert_eq!(world.address_asked("SELECT @a"), WRITER);
}

#[test]
fn a_variable_is_read_where_it_was_set_last() {
    let mut world = ruled("match_pattern = \"elsewhere\"\ndestination_hostgroup = 20");
    let client = world.log_in();
    world.run(client, "SELECT @a := 1 /* elsewhere */", Reply::Rows(&["1"]));
    world.run(client, "SELECT @a := 2", Reply::Rows(&["2"]));
    let leases = &world.session(client).leases;
    let has = |hostgroup: u32| leases.iter().any(|it| it.hostgroup == HostgroupId(hostgroup));
    assert!(has(10) && !has(20));
    world.ask(client, "SELECT @a");
    assert_eq!(world.address_asked("SELECT @a"), WRITER);
}

#[test]
fn the_split_says_where_and_why() {
    let (home, readers) = (HostgroupId(10), HostgroupId(20));
    for split in [Split::NoGroup, Split::RulesOnly, Split::MayWrite, Split::NoReader] {
        assert_eq!(split.hostgroup(home), home, "{split:?}");
    }
    for split in [Split::Read(readers), Split::ReadOnlyTransaction(readers)] {
        assert_eq!(split.hostgroup(home), readers, "{split:?}");
        assert!(split.reason().starts_with("a reader"), "{split:?}");
    }
    assert!(Split::AutocommitOff.reason().contains("autocommit is off"));
}

#[test]
fn what_a_session_has_said_of_its_transactions_is_in_its_state() {
    let mut world = TestWorker::with(WRITER_AND_READER);
    let client = world.log_in();
    let mut state = (*world.session(client).settings.state).clone();
    let plain = Transactions::of(&state);
    assert!(!plain.autocommit_off && !plain.serializable);
    state.set_variable("autocommit", b"0");
    state.set_variable("transaction_isolation", b"'SERIALIZABLE'");
    let said = Transactions::of(&state);
    assert!(said.autocommit_off && said.serializable);
}

fn orders(effects: Effects) -> Directives {
    let mut orders = Directives::default();
    orders.take_effects(&effects);
    orders
}

#[test]
fn a_delay_by_rules_adds_up_and_a_time_is_the_last_one_said() {
    let mut orders =
        orders(Effects { delay_ms: Some(5), timeout_ms: Some(7), ..Effects::default() });
    orders.take_effects(&Effects { delay_ms: Some(6), timeout_ms: Some(8), ..Effects::default() });
    assert_eq!((orders.delay_ms, orders.timeout_ms), (11, 8));
}

#[test]
fn a_rule_holds_and_lets_go() {
    let mut pins = Pins::default();
    orders(Effects { multiplex: Some(Multiplex::Off), ..Effects::default() }).hold(&mut pins);
    assert!(pins.has(PinReason::Rule));
    orders(Effects::default()).hold(&mut pins);
    assert!(pins.has(PinReason::Rule));
    orders(Effects { multiplex: Some(Multiplex::On), ..Effects::default() }).hold(&mut pins);
    assert!(pins.is_empty());
}

#[test]
fn a_statement_shares_no_connection_where_rules_say_so() {
    let mut world = TestWorker::with(WRITER_AND_READER);
    let mut shares = |effects: Effects| {
        let mut statement = world.statement("SELECT 1");
        statement.obey(orders(effects));
        !statement.target.never_share
    };
    assert!(shares(Effects::default()));
    assert!(!shares(Effects { pipeline: Some(Pipeline::Off), ..Effects::default() }));
    assert!(!shares(Effects { multiplex: Some(Multiplex::Off), ..Effects::default() }));
}

#[test]
fn a_rules_retries_go_before_the_setting() {
    let mut world = TestWorker::with(&format!("query_retries_on_failure = 4\n{WRITER_AND_READER}"));
    let mut statement = world.statement("SELECT 1");
    statement.obey(Directives::default());
    assert_eq!(statement.target.retries_left, 4);
    statement.obey(orders(Effects { retries: Some(2), ..Effects::default() }));
    assert_eq!(statement.target.retries_left, 2);
}
