//! Transactions that begin on a server with their first statement: told as directly, in fewer round
//! trips, and without a connection while their clients think.

use anyhow::{Context, Result, ensure};
use trunkline_protocol::packet::ok::{self, OkPacket};
use trunkline_protocol::packet::track::Changes;
use trunkline_protocol::{Capabilities, packet::status};
use trunkline_testkit::{AuthPlugin, Flavour, Options, Server, Trunkline, error_code};

use crate::stage::{
    FLAVOURS, PASSWORD, USER, before, client, is_available, new_schema, one_server, pins,
    shared_server, start, status as status_of, text,
};
use crate::wire::{Endpoint, MODERN, Outcome, PLAIN, Shape, Wire, code, login, payloads};

const TABLE: &str = "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)";

fn on_both(test: &str, check: impl Fn(&Server) -> Result<()>) -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, test) {
            check(shared_server(flavour)?).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

fn counter(proxy: &Trunkline, name: &str) -> Result<u64> {
    let found = status_of(proxy)?;
    let counters = found.get("counters").context("no counters")?;
    counters.get(name).and_then(|value| value.as_u64()).with_context(|| format!("no {name}"))
}

/// What a session has said before.
const STATES: [&[&str]; 23] = [
    &[],
    &["BEGIN"],
    &["START TRANSACTION READ ONLY"],
    &["START TRANSACTION READ WRITE"],
    &["BEGIN", "INSERT INTO t (b) VALUES (1)"],
    &["BEGIN", "SELECT 1"],
    &["BEGIN", "COMMIT"],
    &["BEGIN", "SELECT * FROM missing"],
    &["BEGIN", "SAVEPOINT s"],
    &["SET autocommit = 0"],
    &["SET autocommit = 0", "INSERT INTO t (b) VALUES (2)"],
    &["SET autocommit = 0", "SAVEPOINT s"],
    &["SET autocommit = 0", "BEGIN"],
    &["SET autocommit = 0", "SET autocommit = 1"],
    &["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"],
    &["SET SESSION TRANSACTION READ ONLY"],
    &["SET completion_type = 1"],
    &["LOCK TABLES t WRITE"],
    &["SELECT CAST('abc' AS SIGNED)"],
    &["SELECT * FROM missing"],
    &["INSERT INTO t (b) VALUES (3), (4)"],
    &["XA START 'own'", "INSERT INTO t (b) VALUES (5)"],
    &["SET sql_mode = 'ORACLE'"],
];

/// What is said of transactions then.
const SAID: [&str; 32] = [
    "BEGIN",
    "begin work",
    "START TRANSACTION",
    "START TRANSACTION READ ONLY",
    "START TRANSACTION READ WRITE",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "COMMIT AND CHAIN",
    "COMMIT AND NO CHAIN NO RELEASE",
    "ROLLBACK",
    "ROLLBACK AND CHAIN",
    "SAVEPOINT s",
    "ROLLBACK TO SAVEPOINT s",
    "RELEASE SAVEPOINT s",
    "SET autocommit = 0",
    "SET SESSION autocommit = ON",
    "SET autocommit = 2",
    "SET TRANSACTION READ ONLY",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "LOCK TABLES t WRITE",
    "UNLOCK TABLES",
    "CREATE TABLE IF NOT EXISTS u (a INT)",
    "XA START 'own'",
    "BEGIN; INSERT INTO t (b) VALUES (6)",
    "BEGIN; COMMIT",
    "SELECT ROW_COUNT(), FOUND_ROWS()",
    "COMMIT TRANSACTION",
    "ROLLBACK WORK 1",
    "COMMIT AND RELEASE",
    "START TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "START TRANSACTION READ ONLY,",
    "SET autocommit = DEFAULT",
];

/// What it comes to.
const LOOKS: [&str; 9] = [
    "SHOW WARNINGS",
    "SELECT ROW_COUNT(), FOUND_ROWS(), LAST_INSERT_ID()",
    "SELECT @@autocommit",
    "INSERT INTO t (b) VALUES (7)",
    "SAVEPOINT r",
    "ROLLBACK",
    "UNLOCK TABLES",
    "COMMIT",
    "SELECT b, COUNT(*) FROM t GROUP BY b",
];

/// A session whose answers are compared, in a schema of its own.
struct Told {
    wire: Wire,
    schema: String,
}

impl Told {
    fn of(server: &Server, to: impl Into<Endpoint>, capabilities: Capabilities) -> Result<Told> {
        let schema = new_schema(server, TABLE)?;
        let wire = Wire::login_with(to, login(USER, PASSWORD, &schema, capabilities))?;
        Ok(Told { wire, schema })
    }

    /// An answer as text. Servers tell changes in no particular order.
    fn answer(&mut self, text: &str) -> Result<String> {
        let text = text.replace("own", &self.schema);
        let bytes = self.wire.exchange(code::QUERY, text.as_bytes(), Shape::Results)?;
        let packets = payloads(&bytes);
        let track = self.wire.capabilities.contains(Capabilities::SESSION_TRACK);
        if let [packet] = packets.as_slice()
            && let Ok(ok) = ok::parse(packet, track)
        {
            let changes = Changes::new(ok.changes);
            let mut changes: Vec<_> = changes.map(|change| format!("{change:?}")).collect();
            changes.sort();
            return Ok(format!("{:?} {changes:?}", OkPacket { changes: b"", ..ok }));
        }
        let mut shown = Vec::new();
        for outcome in self.wire.outcomes(&bytes)? {
            shown.push(match outcome {
                Outcome::Rows { status, .. } => format!("{:?} {status}", outcome.text_rows()),
                Outcome::Ok { .. } | Outcome::Error(_) => format!("{outcome:?}"),
            });
        }
        Ok(shown.join("; ").replace(&self.schema, "own"))
    }

    /// Nothing of what was said is left.
    fn reset(&mut self) -> Result<()> {
        for text in ["XA END 'own'", "XA ROLLBACK 'own'"] {
            self.answer(text)?;
        }
        self.wire.single(code::RESET_CONNECTION, b"")?;
        Ok(())
    }
}

/// Every statement about transactions in every state: as directly, or else as through a proxy that
/// sends it at once.
#[test]
fn all_that_is_said_of_transactions_is_answered_as_directly() -> Result<()> {
    on_both("all_that_is_said_of_transactions_is_answered_as_directly", |server| {
        for capabilities in [MODERN.union(Capabilities::MULTI_STATEMENTS), PLAIN] {
            let proxy = before(server, 1, 2)?;
            let config = format!("lazy_transactions = \"off\"\n{}", one_server(server, 1, 2));
            let eager_proxy = Trunkline::start(&config)?;
            let mut direct = Told::of(server, server, capabilities)?;
            let mut client = Told::of(server, &proxy, capabilities)?;
            let mut eager = Told::of(server, &eager_proxy, capabilities)?;
            let mut differences = Vec::new();
            // What is told of changes is all that differs with the other.
            let step = if capabilities == PLAIN { 4 } else { 1 };
            for state in STATES.into_iter().step_by(step) {
                for said in SAID {
                    let all = state.iter().chain([&said]).chain(&LOOKS);
                    for (place, text) in all.enumerate() {
                        let (expected, found) = (direct.answer(text)?, client.answer(text)?);
                        let sent_at_once = eager.answer(text)?;
                        if expected != found && found != sent_at_once {
                            let line = format!(
                                "{state:?}, {said}; {place}: {text}\n{found:?}, directly\n\
                                 {expected:?}"
                            );
                            differences.push(line);
                        }
                    }
                    for session in [&mut direct, &mut client, &mut eager] {
                        session.reset()?;
                    }
                }
            }
            ensure!(
                differences.is_empty(),
                "{} differences with {capabilities:?}\n{}",
                differences.len(),
                differences.join("\n")
            );
            ensure!(counter(&proxy, "transactions_begun_late")? > 0);
            ensure!(counter(&proxy, "transactions_ended_unsent")? > 0);
        }
        Ok(())
    })
}

/// Writes to sockets since the proxy has started, of its only worker.
fn writes(proxy: &Trunkline) -> Result<u64> {
    let (_, page) = trunkline_testkit::http_get(proxy.http_port(), "/metrics")?;
    let of = |line: &str| line.split_whitespace().last().and_then(|it| it.parse::<f64>().ok());
    let lines = page.lines().filter(|it| it.starts_with("trunkline_worker_socket_writes_total"));
    let sum: f64 = lines.filter_map(of).sum();
    ensure!(sum > 0.0, "no such metric");
    Ok(sum as u64)
}

/// Commands that leave the proxy in a write of their own, for so many transactions.
fn round_trips(proxy: &Trunkline, schema: &str, said: &[&str], count: u64) -> Result<u64> {
    let mut one = Wire::login_with(proxy, login(USER, PASSWORD, schema, MODERN))?;
    let mut run = |count: u64| -> Result<()> {
        for _ in 0..count {
            for text in said {
                ensure!(one.one(text)?.error().is_none(), "{text}");
            }
        }
        Ok(())
    };
    // What is sent for the first time waits for its answer.
    run(2)?;
    let since = writes(proxy)?;
    run(count)?;
    let told = count * said.len() as u64;
    Ok(writes(proxy)? - since - told)
}

#[test]
fn a_transaction_takes_a_round_trip_less() -> Result<()> {
    on_both("a_transaction_takes_a_round_trip_less", |server| {
        const COUNT: u64 = 200;
        // The proxy's own now and then, and what keeps connections warm.
        const OTHERS: u64 = 20;
        let schema = new_schema(server, &format!("{TABLE}; INSERT INTO t (b) VALUES (1)"))?;
        let (update, select) =
            ("UPDATE t SET b = b + 1 WHERE a = 1", "SELECT b FROM t WHERE a = 1");
        let lazy = one_server(server, 1, 2);
        let eager = format!("lazy_transactions = \"off\"\n{lazy}");
        for (config, said, each) in [
            (&lazy, &["BEGIN", update, "COMMIT"][..], 2),
            (&lazy, &["BEGIN", select, update, "COMMIT"][..], 3),
            (&lazy, &["BEGIN", "COMMIT"][..], 0),
            (&lazy, &["SET autocommit=0", update, "COMMIT", "SET autocommit=1"][..], 2),
            (&eager, &["BEGIN", update, "COMMIT"][..], 3),
        ] {
            let proxy = Trunkline::start(config)?;
            let found = round_trips(&proxy, &schema, said, COUNT)?;
            let expected = COUNT * each;
            ensure!(
                (expected..expected + OTHERS).contains(&found),
                "{said:?}: {found} writes to the server for {COUNT} transactions"
            );
        }
        Ok(())
    })
}

/// On the only connection of the server.
#[test]
fn nobody_holds_a_connection_who_thinks_behind_a_begin() -> Result<()> {
    on_both("nobody_holds_a_connection_who_thinks_behind_a_begin", |server| {
        let schema = new_schema(server, TABLE)?;
        let proxy = before(server, 1, 1)?;
        let (mut one, mut other) = (client(&proxy, &schema)?, client(&proxy, &schema)?);
        for begin in ["BEGIN", "START TRANSACTION READ WRITE"] {
            one.sql(begin)?;
            ensure!(pins(&proxy)?.is_empty(), "{:?}", pins(&proxy)?);
            other.sql("INSERT INTO t (b) VALUES (1)")?;
            one.sql("INSERT INTO t (b) VALUES (2)")?;
            ensure!(pins(&proxy)?.contains_key("transaction"), "{:?}", pins(&proxy)?);
            one.sql("ROLLBACK")?;
            ensure!(text(&mut other, "SELECT SUM(b = 2) FROM t")? == "0");
        }
        // What another client does meanwhile is not in its transaction.
        one.sql("SET autocommit = 0")?;
        other.sql("INSERT INTO t (b) VALUES (3)")?;
        one.sql("INSERT INTO t (b) VALUES (4)")?;
        one.sql("ROLLBACK")?;
        ensure!(text(&mut other, "SELECT SUM(b = 3), SUM(b = 4) FROM t")? == "1");
        ensure!(text(&mut other, "SELECT SUM(b = 4) FROM t")? == "0");
        Ok(())
    })
}

/// Between the `BEGIN` and the statement behind it the connection goes, or all of the server.
#[test]
fn a_connection_that_is_lost_behind_a_begin_is_not_missed() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_connection_that_is_lost_behind_a_begin_is_not_missed") {
            continue;
        }
        let server = start(flavour, Options::default())?;
        let schema = new_schema(&server, TABLE)?;
        let proxy = before(&server, 1, 1)?;
        let mut one = client(&proxy, &schema)?;
        one.sql("INSERT INTO t (b) VALUES (1)")?;
        one.sql("BEGIN")?;
        server.restart()?;
        one.sql("INSERT INTO t (b) VALUES (2)")?;
        one.sql("ROLLBACK")?;
        ensure!(server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?.as_deref() == Some("1"));
    }
    Ok(())
}

/// A server that takes no writes refuses the `BEGIN` when it comes, and nothing behind it is
/// carried out: neither there nor outside of the transaction.
#[test]
fn a_begin_that_is_refused_late_is_told_and_ends_the_session() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_begin_that_is_refused_late_is_told_and_ends_the_session") {
            continue;
        }
        let server = start(flavour, Options::default())?;
        let schema = new_schema(&server, TABLE)?;
        server.create_user("plain", PASSWORD, AuthPlugin::ServerDefault)?;
        let revoke = match flavour {
            Flavour::MariaDb => "REVOKE ALL, GRANT OPTION FROM plain; ",
            Flavour::MySql => "REVOKE ALL, GRANT OPTION FROM plain; ",
        };
        server.sql(&format!("{revoke} GRANT SELECT, INSERT ON {schema}.* TO plain"))?;
        let user = format!(
            "[[user]]\nname = \"plain\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 0\n"
        );
        let proxy = Trunkline::start(&format!("{}{user}", one_server(&server, 1, 2)))?;
        let write = "INSERT INTO t (b) VALUES (1)";
        for said in [write, "SELECT COUNT(*) FROM t"] {
            server.sql("SET GLOBAL read_only = 1")?;
            let mut one = proxy.connect("plain", PASSWORD, &schema)?;
            one.sql("START TRANSACTION READ WRITE")?;
            let refused = one.sql(said).expect_err("it was carried out");
            ensure!(error_code(&refused) == Some(1290), "{said}: {refused:#}");
            ensure!(one.sql("SELECT 1").is_err(), "the session goes on without its transaction");
            server.sql("SET GLOBAL read_only = 0")?;
            ensure!(server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))? == Some("0".into()));
        }
        // Without the word, a server that is read-only begins it.
        server.sql("SET GLOBAL read_only = 1")?;
        let mut one = Wire::login_with(&proxy, login("plain", PASSWORD, &schema, MODERN))?;
        ensure!(one.one("BEGIN")?.status() & status::IN_TRANS != 0);
        ensure!(one.fails(write)?.code == 1290);
        ensure!(one.one("SELECT 1 FROM t")?.status() & status::IN_TRANS != 0);
        ensure!(one.one("COMMIT")?.status() & status::IN_TRANS == 0);
    }
    Ok(())
}

/// Settings, users, hostgroups and rules say whether transactions are lazy.
#[test]
fn who_wants_it_begins_transactions_at_once() -> Result<()> {
    on_both("who_wants_it_begins_transactions_at_once", |server| {
        let schema = new_schema(server, TABLE)?;
        let base = one_server(server, 1, 2);
        let off = "lazy_transactions = \"off\"\n";
        let group = "[[hostgroup]]\nhostgroup_id = 0\n";
        let rule = |word: &str| {
            format!(
                "[[rule]]\nid = 1\nmatch_digest = \"^BEGIN\"\n\
                 attributes = '{{\"lazy_transactions\":\"{word}\"}}'\n"
            )
        };
        for (config, is_lazy) in [
            (base.clone(), true),
            (format!("{off}{base}"), false),
            (format!("{base}{off}"), false),
            (format!("{base}{group}{off}"), false),
            (format!("{base}lazy_transactions = \"begin\"\n{group}{off}"), true),
            (format!("{base}{}", rule("off")), false),
            (format!("{off}{base}{}", rule("begin")), true),
        ] {
            let proxy = Trunkline::start(&config)?;
            let mut one = client(&proxy, &schema)?;
            one.sql("BEGIN")?;
            ensure!(pins(&proxy)?.is_empty() == is_lazy, "{config}");
            one.sql("INSERT INTO t (b) VALUES (1)")?;
            one.sql("ROLLBACK")?;
            ensure!(text(&mut one, "SELECT COUNT(*) FROM t")? == "0");
        }
        Ok(())
    })
}
