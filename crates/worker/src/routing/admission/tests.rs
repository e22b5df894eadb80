use super::*;
use crate::tests::{Reply, TWO_SERVERS, TestWorker, snapshot};

/// What a statement is refused with that is beyond the only limit.
fn said(limit: &str) -> String {
    let snapshot = snapshot(&format!("{TWO_SERVERS}[[limit]]\nrate = 5\n{limit}"));
    refusal(snapshot.guards.limits.first().expect("a limit"))
}

#[test]
fn a_refusal_says_which_limit_it_was() {
    for (limit, of) in [
        ("scope = \"user\"\nname = \"app\"", "user 'app'"),
        ("scope = \"user\"", "each user"),
        ("scope = \"digest\"", "each digest"),
        ("scope = \"digest\"\nname = \"0x12\"", "digest 0x0000000000000012"),
    ] {
        let expected = format!("the limit of 5 statements a second for {of} is exceeded");
        assert_eq!(said(limit), expected);
    }
}

const LIMITED: &str = "[[limit]]\nscope = \"user\"\nrate = 1\nburst = 1\n";

#[test]
fn a_statement_beyond_the_limit_is_refused_and_the_session_goes_on() {
    let mut world = TestWorker::with(&format!("{TWO_SERVERS}{LIMITED}"));
    let client = world.log_in();
    assert_eq!(world.run(client, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
    assert!(world.answered(client, "SELECT 1").starts_with("error 1226: the limit of 1"));
    world.pass_ms(1_100);
    assert_eq!(world.run(client, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
}

#[test]
fn what_ends_a_transaction_is_not_limited() {
    let mut world = TestWorker::with(&format!("{TWO_SERVERS}{LIMITED}"));
    let client = world.log_in();
    world.run(client, "SELECT 1", Reply::Rows(&["1"]));
    assert_eq!(world.run(client, "ROLLBACK", Reply::Ok), "ok");
}

#[test]
fn a_statement_that_may_wait_for_a_token_waits() {
    let mut world = TestWorker::with(&format!("{TWO_SERVERS}{LIMITED}wait_max_ms = 2000\n"));
    let client = world.log_in();
    world.run(client, "SELECT 1", Reply::Rows(&["1"]));
    world.ask(client, "SELECT 2");
    assert_eq!(world.asked(), [""; 0]);
    world.pass_ms(1_100);
    assert_eq!(world.asked(), ["SELECT 2"]);
}

#[test]
fn what_limits_have_done_is_counted() {
    let mut world = TestWorker::with(&format!("{TWO_SERVERS}{LIMITED}"));
    let client = world.log_in();
    world.run(client, "SELECT 1", Reply::Rows(&["1"]));
    world.answered(client, "SELECT 1");
    let sums = world.worker.commands.limit_sums();
    let sums = sums.get(&0).expect("a limit");
    assert_eq!((sums.passed, sums.delayed, sums.refused), (1, 0, 1));
}

const FIREWALL: &str = "firewall_whitelist_enabled = true\nfirewall_whitelist_errormsg = \"no\"\n";

#[test]
fn a_statement_that_is_on_no_list_is_denied() {
    let user = "[[firewall_user]]\nusername = \"app\"\nmode = \"PROTECTING\"\n";
    let mut world = TestWorker::with(&format!("{FIREWALL}{TWO_SERVERS}{user}"));
    let client = world.log_in();
    assert_eq!(world.answered(client, "SELECT 1"), "error 1148: no");
    assert!(
        world.logged().iter().any(|it| it.starts_with("firewall denied a statement of user app"))
    );
}

#[test]
fn a_statement_that_is_detected_runs() {
    let user = "[[firewall_user]]\nusername = \"app\"\nmode = \"DETECTING\"\n";
    let mut world = TestWorker::with(&format!("{FIREWALL}{TWO_SERVERS}{user}"));
    let client = world.log_in();
    assert_eq!(world.run(client, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
    assert_eq!(world.core().fx.stats.counters.statements_detected, 1);
}

#[test]
fn a_user_that_nobody_looks_after_runs_what_it_wants() {
    let user = "[[firewall_user]]\nusername = \"app\"\nmode = \"OFF\"\n";
    let mut world = TestWorker::with(&format!("{FIREWALL}{TWO_SERVERS}{user}"));
    let client = world.log_in();
    assert_eq!(world.run(client, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
    assert_eq!(world.core().fx.stats.counters.statements_detected, 0);
}
