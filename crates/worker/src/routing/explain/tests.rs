//! What is shown is what happens to the statement of such a session.

use trunkline_config::parse;
use trunkline_pool::ConnId;

use super::*;
use crate::{clients::client::Lease, routing::split::Transactions};

const CONFIG: &str = r#"
[[server]]
hostgroup = 10
address = "10.0.0.10:3306"
[[server]]
hostgroup = 20
address = "10.0.0.20:3306"
[[server]]
hostgroup = 30
address = "10.0.0.30:3306"
[[replication]]
writer_hostgroup = 10
reader_hostgroup = 20
[[user]]
name = "app"
password = "p"
default_hostgroup = 10
"#;

/// A connection of a session that is held there for these reasons.
fn lease(hostgroup: u32, reasons: &[PinReason]) -> Lease {
    let mut pins = Pins::default();
    reasons.iter().for_each(|reason| pins.pin(*reason));
    Lease {
        hostgroup: HostgroupId(hostgroup),
        conn: ConnId { index: hostgroup, generation: 1 },
        is_in_trans: pins.has(PinReason::Transaction),
        pins,
        only_reads: false,
        standing: Default::default(),
        begun_apart: false,
        is_begun: false,
        is_left: false,
        is_in_doubt: false,
        has_written: false,
        pinned_by: None,
    }
}

/// What is shown of a statement, a line for each row.
fn shown_to(user: &str, settings: &str, rules: &str, held: Held<'_>, sql: &str) -> String {
    let no_files = |_: &str| Err("no files here".to_owned());
    let text = format!("{settings}{CONFIG}{rules}");
    let snapshot = parse(&text, "test.toml", &no_files).expect("a configuration").snapshot(None);
    let asking = Explaining {
        asker: Asker {
            user: snapshot.user(user).expect("a user"),
            schema: b"shop",
            flag: 0,
            client_addr: None,
            proxy_addr: None,
            proxy_port: None,
        },
        modes: Modes::default(),
        sql: sql.as_bytes(),
        now_ms: 0,
        catalog: None,
    };
    let mut out = Rows::default();
    let mut analyses = Analyses::new(&snapshot.settings);
    explain_to(&mut out, &snapshot, &asking, &mut analyses, held);
    out.0.into_iter().map(|(step, detail)| format!("{step}: {detail}\n")).collect()
}

fn shown(rules: &str, leases: &[Lease], sql: &str) -> String {
    shown_to("app", "", rules, Held::nothing(Modes::default()).with(leases), sql)
}

fn expect(said: &str, line: &str) {
    assert!(said.lines().any(|said| said == line), "{line} is not in\n{said}");
}

const TO_READERS: &str = "[[rule]]\nid = 1\ndestination_hostgroup = 20\n";

#[test]
fn a_session_that_is_held_is_told_where_its_own_statement_goes() {
    let check = |rules: &str, leases: &[Lease], sql: &str, hostgroup: &str| {
        expect(&shown(rules, leases, sql), &format!("hostgroup: {hostgroup}"));
    };
    let open = [lease(10, &[PinReason::Transaction])];
    let variable = [lease(10, &[PinReason::UserVariable])];
    let select = "SELECT a FROM t";
    check("", &[], select, "20, a reader: outside transactions it only reads");
    check("", &open, select, "10, where the session's transaction is");
    check(TO_READERS, &open, select, "10, where the session's transaction is");
    check("", &variable, select, "10, where the session is held");
    let stays = "10, where the session has what it may see, whoever names another hostgroup";
    check(TO_READERS, &variable, select, stays);
    check("", &variable, "/* hostgroup=20 */ SELECT a FROM t", stays);
    // What the last statement left to be read holds a session no more.
    let brief = [lease(10, &[PinReason::Warnings])];
    check("", &brief, select, "20, a reader: outside transactions it only reads");
    check("", &brief, "SHOW WARNINGS", "10, where the session is held");
    let reader = Lease { only_reads: true, ..lease(20, &[PinReason::Transaction]) };
    let leaves = "10, the writer: the transaction leaves its reader for what may write";
    check("", &[reader], "INSERT INTO t VALUES (1)", leaves);
}

#[test]
fn a_rule_for_readers_is_obeyed_in_a_transaction_that_is_open_without_autocommit() {
    let leases = [lease(30, &[PinReason::Transaction])];
    let mut held = Held::nothing(Modes::default()).with(&leases);
    held.transactions = Transactions { autocommit_off: true, serializable: false };
    let rules = format!(
        "{TO_READERS}[[user]]\nname = \"free\"\npassword = \"p\"\n\
                         default_hostgroup = 10\ntransaction_persistent = false\n"
    );
    let said = shown_to("free", "", &rules, held, "SELECT a FROM t");
    expect(&said, "hostgroup: 20, as a rule says");
    let said = shown_to("free", "", &rules, held.with(&[]), "SELECT a FROM t");
    let begins = "10, the writer of the readers that a rule names: autocommit is off";
    expect(&said, &format!("hostgroup: {begins}"));
}

#[test]
fn a_statement_that_is_refused_is_told_why() {
    let leases = [lease(20, &[PinReason::UserVariable])];
    let said = shown("", &leases, "UPDATE t SET a = @a");
    let refusal = "answer: error 1148 (42000): a user variable that this statement reads may be";
    assert!(said.contains(refusal), "{said}");
    assert!(!said.contains("hostgroup: "), "{said}");
}

#[test]
fn comments_are_those_of_the_text_that_is_sent() {
    let rewrites = "[[rule]]\nid = 1\nmatch_pattern = \"old\"\n\
                    replace_pattern = \"/* hostgroup=30 */ new\"\n";
    let said = shown(rewrites, &[], "SELECT a FROM old");
    expect(&said, "sent as: SELECT a FROM /* hostgroup=30 */ new");
    expect(&said, "hostgroup: 30, as a comment says");
    let removes = "[[rule]]\nid = 1\nmatch_pattern = \"^/.*/ \"\nreplace_pattern = \"\"\n";
    let said = shown(removes, &[], "/* hostgroup=30 */ SELECT a FROM t");
    expect(&said, "sent as: SELECT a FROM t");
    expect(&said, "hostgroup: 20, a reader: outside transactions it only reads");
}

#[test]
fn comments_are_listened_to_only_with_digests() {
    let held = || Held::nothing(Modes::default());
    let sql = "/* hostgroup=30;cache_ttl=500 */ SELECT a FROM t";
    let said = shown_to("app", "", "", held(), sql);
    expect(&said, "hostgroup: 30, as a comment says");
    expect(&said, "cache: an answer up to 500 ms old will do");
    let said = shown_to("app", "query_digests = false\n", "", held(), sql);
    expect(&said, "hostgroup: 20, a reader: outside transactions it only reads");
    assert!(!said.contains("cache: "), "{said}");
}

#[test]
fn it_is_said_which_writes_a_read_has_to_see() {
    let said = |settings: &str, rules: &str| {
        let held = Held::nothing(Modes::default());
        shown_to("app", settings, rules, held, "SELECT a FROM t")
    };
    let check = |settings: &str, rules: &str, expected: &str| {
        expect(&said(settings, rules), &format!("causal reads: {expected}"));
    };
    assert!(!said("", "").contains("causal reads"));
    let session = "session: what this session has written (on the servers of hostgroup 10)";
    check("causal_reads = \"session\"\n", "", session);
    let bounded = "bounded:250: all that is older than 250 ms";
    check("causal_reads = \"bounded:250\"\n", "", bounded);
    let from = format!("{TO_READERS}gtid_from_hostgroup = 30\n");
    check("", &from, "session: what this session has written (in hostgroup 30)");
    let global = format!("{TO_READERS}causal_reads = \"global\"\n");
    check("", &global, "global: what anybody has written (on the servers of hostgroup 10)");
}

#[test]
fn comments_that_say_what_a_read_has_to_see_are_explained() {
    let held = || Held::nothing(Modes::default());
    let sql = "/* min_gtid=0-1-5;max_lag_ms=9 */ SELECT a FROM t";
    let said = shown_to("app", "", "", held(), sql);
    let unfollowed = "hostgroup: 10, the writer: a comment says what it has to see, and \
                      `causal_reads` is off everywhere";
    expect(&said, unfollowed);
    let said = shown_to("app", "causal_reads = \"session\"\n", "", held(), sql);
    expect(&said, "hostgroup: 20, a reader: outside transactions it only reads");
    expect(&said, "causal reads: and the transactions 0-1-5, as a comment says");
    expect(&said, "causal reads: and all that is older than 9 ms, as a comment says");
    let wrong = "/* causal_reads=all */ SELECT a FROM t";
    let said = shown_to("app", "causal_reads = \"session\"\n", "", held(), wrong);
    assert!(said.contains("causal reads: error 1148 (42000): a comment's causal_reads"), "{said}");
}
