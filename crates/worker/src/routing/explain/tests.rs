use super::*;
use crate::tests::{WRITER_AND_READER, analysis, snapshot};

#[test]
fn a_statement_follows_the_two_words() {
    assert_eq!(after_words(b"EXPLAIN ROUTE SELECT 1"), Some(&b"SELECT 1"[..]));
    assert_eq!(after_words(b" explain\troute\n SELECT 1"), Some(&b"SELECT 1"[..]));
}

#[test]
fn other_words_explain_no_route() {
    for text in ["EXPLAIN SELECT 1", "EXPLAIN ROUTES", "EXPLAINROUTE 1", "EXPLAIN ROUTE", ""] {
        assert_eq!(after_words(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn several_statements_are_told_by_the_first() {
    assert_eq!(kind(&analysis("SELECT 1")), "SELECT");
    assert_eq!(kind(&analysis("SELECT 1; DO 1")), "SELECT, the first of 2 statements");
    assert_eq!(kind(&analysis("  ")), "no statement at all");
}

#[test]
fn what_speaks_against_a_read_is_said() {
    for (text, part) in [
        ("SELECT 1", "reads, if what it names only reads"),
        ("SELECT 'a", "it ends inside a quote"),
        ("SELECT LAST_INSERT_ID()", "depends on the connection's past {\"last_insert_id\"}"),
        ("SET @a = 1", "leaves something behind"),
        ("CREATE TABLE t (a INT)", "commits implicitly"),
        ("COMMIT", "begins or ends a transaction"),
        ("UPDATE t SET a = 1", "UPDATE is not a read"),
        ("SELECT a FROM t FOR SHARE", "it locks, writes"),
        ("FROBNICATE", "it is not understood"),
    ] {
        let said = access(&analysis(text));
        assert!(said.contains(part), "{text}: {said}");
    }
}

/// What is said of a statement of `app`, by its name.
fn explained(config: &str, sql: &str) -> Vec<(&'static str, String)> {
    let snapshot = snapshot(config);
    let user = std::sync::Arc::clone(snapshot.users.get("app").expect("the user"));
    let asking = Explaining {
        user: &user,
        schema: b"s",
        flag: 0,
        client_addr: None,
        proxy_addr: None,
        proxy_port: None,
        modes: Modes::default(),
        transactions: Transactions::default(),
        sql: sql.as_bytes(),
        now_ms: 0,
        catalog: None,
    };
    explain(&snapshot, &asking)
}

fn said(config: &str, sql: &str, name: &str) -> String {
    let rows = explained(config, sql);
    let found = rows.iter().find(|(it, _)| *it == name);
    found.map(|(_, text)| text.clone()).unwrap_or_else(|| panic!("no {name} in {rows:?}"))
}

#[test]
fn a_read_is_said_to_go_to_a_reader() {
    let hostgroup = said(WRITER_AND_READER, "SELECT a FROM t", "hostgroup");
    assert_eq!(hostgroup, "20, a reader: outside transactions it only reads");
}

#[test]
fn a_write_is_said_to_go_to_the_writer() {
    let hostgroup = said(WRITER_AND_READER, "DELETE FROM t", "hostgroup");
    assert_eq!(hostgroup, "10, the writer: it may write");
}

#[test]
fn a_comment_is_said_to_decide() {
    let hostgroup = said(WRITER_AND_READER, "/* hostgroup=20 */ SELECT 1", "hostgroup");
    assert_eq!(hostgroup, "20, as a comment says");
    let hostgroup = said(WRITER_AND_READER, "/* hostgroup=20 */ DELETE FROM t", "hostgroup");
    assert_eq!(hostgroup, "10, the writer of what a comment names: it may write");
}

/// With one rule more.
fn ruled_by(rule: &str) -> String {
    format!("{WRITER_AND_READER}[[rule]]\nid = 5\n{rule}\napply = true\n")
}

#[test]
fn a_rule_is_said_to_decide() {
    let config = ruled_by("match_digest = \"SELECT\"\ndestination_hostgroup = 10");
    assert_eq!(said(&config, "SELECT a FROM t", "hostgroup"), "10, as a rule says");
    assert_eq!(said(&config, "SELECT a FROM t", "rule"), "5: matches, hostgroup 10, apply");
    assert!(said(&config, "DELETE FROM t", "rule").starts_with("5: no:"));
}

#[test]
fn a_rules_answer_is_said_and_nothing_behind_it() {
    let rows = explained(&ruled_by("match_digest = \"SELECT\"\nerror_msg = \"no\""), "SELECT 1");
    let expected = ("answer", "error 1148 (42000), from a rule: no".to_owned());
    assert_eq!(rows.last(), Some(&expected));
}

#[test]
fn what_rules_order_is_said() {
    let config = ruled_by("match_digest = \"SELECT\"\ndelay = 5\ntimeout = 6\ncache_ttl = 7");
    let orders = said(&config, "SELECT a FROM t", "orders");
    assert_eq!(orders, "delay 5 ms, timeout 6 ms, cache_ttl 7 ms");
    assert_eq!(said(&config, "SELECT a FROM t", "cache"), "an answer up to 7 ms old will do");
    assert!(said(&config, "SELECT NOW()", "cache").starts_with("not asked"));
}

#[test]
fn what_would_hold_the_session_is_said() {
    let pins = said(WRITER_AND_READER, "CREATE TEMPORARY TABLE t (a INT)", "pins");
    assert_eq!(pins, "temporary_table: the session stays on its connection");
    assert!(said(WRITER_AND_READER, "BEGIN", "pins").starts_with("transaction"));
}

#[test]
fn a_fast_forward_users_statements_are_not_looked_at() {
    let config = WRITER_AND_READER.replace("name = \"app\"", "name = \"app\"\nfast_forward = true");
    let rows = explained(&config, "SELECT 1");
    assert_eq!(rows.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["user", "server"]);
}

#[test]
fn servers_are_said_with_their_state() {
    let server = said(WRITER_AND_READER, "DELETE FROM t", "server");
    assert_eq!(server, "127.0.0.1:3306, weight 1, ONLINE");
}
