//! Variables that servers read when a statement runs, and not when it is prepared: sessions that
//! differ in them share their statements.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Server};

use super::{Param, T, Twin, block, on_each, prepared_again, proxy_with};
use crate::stage::{PASSWORD, USER};
use crate::wire::{Outcome, Shape, Wire, code};

/// A variable, and a statement that shows whether it has been read.
struct Case {
    set: &'static str,
    text: &'static str,
    params: &'static [i64],
    /// Run in front of each execution.
    before: &'static str,
    /// What is looked at behind each execution.
    seen: Seen,
}

#[derive(Clone, Copy)]
enum Seen {
    /// Its answer says it all.
    Answer,
    /// The answer to this text too.
    Also(&'static str),
    /// By how much this number of the session's status has grown too.
    Status(&'static str),
}

/// A case that is seen by its answer.
const fn case(set: &'static str, text: &'static str, params: &'static [i64]) -> Case {
    Case { set, text, params, before: "DO 0", seen: Seen::Answer }
}

const fn seen(case: Case, before: &'static str, seen: Seen) -> Case {
    Case { before, seen, ..case }
}

const WORDS: &str = "CREATE TABLE n (a INT PRIMARY KEY AUTO_INCREMENT, b INT);
    CREATE TABLE parent (id INT PRIMARY KEY);
    CREATE TABLE child (id INT, FOREIGN KEY (id) REFERENCES parent (id));
    CREATE TABLE w (a INT PRIMARY KEY, b VARCHAR(20));
    INSERT INTO w VALUES (1, 'aaaaaaaaaa'), (2, 'bbbbbbbbbb'), (3, 'cccccccccc');
    CREATE TABLE x (a INT PRIMARY KEY, b CHAR(250));
    INSERT INTO x SELECT p.a * 9 + q.a * 3 + r.a, REPEAT(r.b, 25) FROM w p, w q, w r;
    CREATE VIEW v AS SELECT GROUP_CONCAT(b ORDER BY a) AS g FROM w";

const NUMBERS: &str = "INSERT INTO n (b) VALUES (?), (2)";
const NUMBERED: Seen = Seen::Also("SELECT a FROM n ORDER BY a");
const LARGE: &str = "SELECT COUNT(*) FROM (SELECT CONCAT(p.b, q.a) AS m, COUNT(*) FROM x p, x q, w \
                     GROUP BY m) AS k";
const SORTED: &str = "SELECT COUNT(*) FROM (SELECT p.a FROM x p, x q, w ORDER BY CONCAT(p.b, q.b, \
                      w.b) LIMIT 1000000) AS k";

/// On both families.
const CASES: [Case; 16] = [
    case("sql_select_limit = 2", "SELECT a FROM w WHERE a > ?", &[0]),
    case("sql_select_limit = 2", "SELECT a FROM w UNION ALL SELECT a FROM w", &[]),
    case("max_join_size = 1", "SELECT p.a FROM w p, w q WHERE p.a > ?", &[0]),
    case("max_join_size = 1, sql_big_selects = 0", "SELECT p.a FROM w p, w q", &[]),
    case("sql_safe_updates = 1", "UPDATE w SET b = b WHERE b <> ?", &[0]),
    case("sql_safe_updates = 1", "DELETE FROM w WHERE b = ?", &[77]),
    case("sql_safe_updates = 1", "DELETE w FROM w, n WHERE w.b = ?", &[77]),
    case("foreign_key_checks = 0", "INSERT INTO child VALUES (?)", &[7]),
    seen(case("auto_increment_increment = 10", NUMBERS, &[1]), "TRUNCATE n", NUMBERED),
    seen(
        case("auto_increment_increment = 10, auto_increment_offset = 5", NUMBERS, &[1]),
        "TRUNCATE n",
        NUMBERED,
    ),
    case("sql_notes = 0", "DROP TABLE IF EXISTS nowhere", &[]),
    seen(
        case("max_error_count = 1", "SELECT CAST(b AS SIGNED) FROM w WHERE a > ?", &[0]),
        "DO 0",
        Seen::Also("SHOW WARNINGS"),
    ),
    seen(
        case("long_query_time = 0", "SELECT a FROM w WHERE a = ?", &[1]),
        "DO 0",
        Seen::Status("Slow_queries"),
    ),
    seen(case("sort_buffer_size = 32768", SORTED, &[]), "DO 0", Seen::Status("Sort_merge_passes")),
    seen(
        case("tmp_table_size = 1024", LARGE, &[]),
        "DO 0",
        Seen::Status("Created_tmp_disk_tables"),
    ),
    case("time_zone = '+05:00'", "SELECT FROM_UNIXTIME(?)", &[86_400]),
];

const RECURSIVE: &str = "WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM c WHERE n \
                         < ?) SELECT COUNT(*) FROM c";

/// One execution as its client sees it.
fn run(wire: &mut Wire, id: u32, case: &Case) -> Result<String> {
    wire.one(case.before)?;
    let status = |wire: &mut Wire| -> Result<i64> {
        let Seen::Status(name) = case.seen else { return Ok(0) };
        let outcome = wire.one(&format!("SHOW SESSION STATUS LIKE '{name}'"))?;
        let rows = outcome.text_rows();
        let value =
            rows.first().and_then(|row| row.get(1)?.as_deref()).context("no such status")?;
        Ok(value.parse()?)
    };
    let before = status(wire)?;
    let params: Vec<Param> = case.params.iter().map(|value| Param::Int(*value)).collect();
    let body = [&id.to_le_bytes()[..], &block(0, &params, true)].concat();
    let bytes = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
    let grown = status(wire)? - before;
    let also = match case.seen {
        Seen::Also(text) => wire.one(text)?.text_rows(),
        Seen::Answer | Seen::Status(_) => Vec::new(),
    };
    Ok(format!("{} {grown} {also:?}", bytes.escape_ascii()))
}

fn prepare(wire: &mut Wire, text: &str) -> Result<u32> {
    let bytes = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
    ensure!(bytes[4] == 0, "{text}: {}", bytes.escape_ascii());
    Ok(u32::from_le_bytes(bytes[5..9].try_into()?))
}

/// A statement that is prepared, run, and run again under another value gives what one gives that
/// is prepared under that.
fn is_read_late(server: &Server, schema: &str, case: &Case) -> Result<()> {
    let mut wire = Wire::login(server, USER, PASSWORD, schema)?;
    let early = prepare(&mut wire, case.text)?;
    let usual = run(&mut wire, early, case)?;
    wire.one(&format!("SET {}", case.set))?;
    let then = run(&mut wire, early, case)?;
    let late = prepare(&mut wire, case.text)?;
    let fresh = run(&mut wire, late, case)?;
    ensure!(then == fresh, "read when it is prepared\n  {then}\n  {fresh}");
    ensure!(usual != fresh, "it shows nothing: {fresh}");
    Ok(())
}

#[test]
fn what_is_read_when_a_statement_runs_is_not_kept_from_its_preparation() -> Result<()> {
    let test = "what_is_read_when_a_statement_runs_is_not_kept_from_its_preparation";
    on_each(test, WORDS, |server, schema| {
        let recursive = match server.flavour() {
            Flavour::MariaDb => case("max_recursive_iterations = 3", RECURSIVE, &[9]),
            Flavour::MySql => case("cte_max_recursion_depth = 3", RECURSIVE, &[9]),
        };
        for case in CASES.iter().chain([&recursive]) {
            let what = || format!("{}: {}", case.set, case.text);
            is_read_late(server, schema, case).with_context(what)?;
        }
        // The length of concatenated groups is the preparation's on MySQL, through a view too.
        for text in ["SELECT g FROM v WHERE 1 = ?", "SELECT GROUP_CONCAT(b) FROM w WHERE a > ?"] {
            let late = is_read_late(server, schema, &case("group_concat_max_len = 8", text, &[1]));
            ensure!(late.is_ok() == (server.flavour() == Flavour::MariaDb), "{text}: {late:?}");
        }
        Ok(())
    })
}

/// Servers do not let a transaction set these; and nothing of a text depends on them.
#[test]
fn a_statement_is_prepared_again_in_a_transaction_whatever_is_logged() -> Result<()> {
    let test = "a_statement_is_prepared_again_in_a_transaction_whatever_is_logged";
    on_each(test, T, |server, schema| {
        let proxy = proxy_with(server, "max_stmts_per_connection = 1", 3)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let one = client.prepare("SELECT a FROM t WHERE a > ?")?;
        let two = client.prepare("SELECT COUNT(*) FROM t WHERE a > ?")?;
        client.query("SET sql_log_bin = 0")?;
        if server.flavour() == Flavour::MariaDb {
            client.query("SET gtid_domain_id = 3")?;
        }
        client.query("BEGIN")?;
        client.query("DELETE FROM t WHERE a = 12345")?;
        let before = prepared_again(&proxy)?;
        for _ in 0..2 {
            client.execute(one, &[Param::Int(0)])?;
            client.execute(two, &[Param::Int(0)])?;
        }
        ensure!(prepared_again(&proxy)? > before, "nothing was prepared again");
        client.query("COMMIT")?;
        Ok(())
    })
}

#[test]
fn sessions_share_statements_whatever_is_read_when_they_run() -> Result<()> {
    let test = "sessions_share_statements_whatever_is_read_when_they_run";
    on_each(test, &format!("{T};{WORDS}"), |server, schema| {
        // One statement a connection, so that a session with one of its own prepares again.
        let proxy = proxy_with(server, "max_stmts_per_connection = 1", 3)?;
        let sets = [
            "SET group_concat_max_len = 8, sql_select_limit = 2, sql_safe_updates = 1",
            "SET group_concat_max_len = 14, long_query_time = 5",
            "SET tmp_table_size = 65536, max_error_count = 5",
        ];
        let mut clients = Vec::new();
        for set in sets {
            let mut client = Twin::new(server, &proxy, schema)?;
            client.query(set)?;
            let plain = client.prepare("SELECT a, b FROM t WHERE a > ?")?;
            let joined = client.prepare("SELECT g FROM v WHERE 1 = ?")?;
            let own = client.prepare("SELECT GROUP_CONCAT(b) FROM w WHERE a >= ?")?;
            clients.push((client, plain, joined, own));
        }
        let (first, plain, ..) = &mut clients[0];
        first.execute(*plain, &[Param::Int(0)])?;
        let again = prepared_again(&proxy)?;
        for _ in 0..3 {
            for (client, plain, ..) in &mut clients {
                client.execute(*plain, &[Param::Int(0)])?;
            }
        }
        ensure!(prepared_again(&proxy)? == again, "prepared for a session of its own");
        // Each has the length of its own session.
        for _ in 0..2 {
            for (client, _, joined, own) in &mut clients {
                client.execute(*joined, &[Param::Int(1)])?;
                client.execute(*own, &[Param::Int(1)])?;
            }
        }
        // What was a table has become such a view.
        clients[0].0.proxied.one("DROP TABLE t")?;
        clients[0].0.proxied.one("CREATE VIEW t AS SELECT 1 AS a, g AS b FROM v")?;
        for _ in 0..2 {
            for (client, plain, ..) in &mut clients {
                let found = client.execute(*plain, &[Param::Int(0)])?;
                ensure!(matches!(found.as_slice(), [Outcome::Rows { .. }]), "{found:?}");
            }
        }
        Ok(())
    })
}
