//! What COM_RESET_CONNECTION and COM_CHANGE_USER leave on a connection of the servers: what they
//! leave must end with its session.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Server};

use super::{MARIADB, MYSQL};
use crate::stage::{FLAVOURS, PASSWORD, USER, is_available, new_schema, shared_server};
use crate::wire::Wire;

/// Something that a session may leave: what makes it, what shows it, and whether it is still there
/// behind a reset and behind a change of user to the same account.
struct Left {
    name: &'static str,
    make: &'static [&'static str],
    show: &'static str,
    by_reset: bool,
    by_change: bool,
    only: Option<Flavour>,
}

/// Gone by both.
const fn gone(name: &'static str, make: &'static [&'static str], show: &'static str) -> Left {
    Left { name, make, show, by_reset: false, by_change: false, only: None }
}

/// Left by both on the one flavour that has it.
const fn kept(
    name: &'static str,
    make: &'static [&'static str],
    show: &'static str,
    only: Option<Flavour>,
) -> Left {
    Left { name, make, show, by_reset: true, by_change: true, only }
}

const ROLE: &[&str] = &["SET ROLE hidden_role"];
const PROFILES: &str = "SELECT COUNT(*) > 0 FROM information_schema.PROFILING";
const PROFILING: &[&str] = &["SET profiling = 1", "SELECT 4711"];
const TRACING: &[&str] = &["SET optimizer_trace = 'enabled=on'", "SELECT b FROM t WHERE b = 4711"];
const TRACES: &str = "SELECT QUERY FROM information_schema.OPTIMIZER_TRACE";

const LIST: [Left; 27] = [
    gone("a user variable", &["SET @a = 1"], "SELECT @a"),
    gone("a variable", &["SET sort_buffer_size = 65536"], "SELECT @@sort_buffer_size"),
    gone("the time", &["SET timestamp = 1"], "SELECT @@timestamp < 10"),
    gone("character sets", &["SET NAMES latin1"], "SELECT @@character_set_client"),
    gone("a temporary table", &["CREATE TEMPORARY TABLE mine (a INT)"], "SELECT 1 FROM mine"),
    gone("a named lock", &["DO GET_LOCK('reset', 0)"], "SELECT IS_USED_LOCK('reset') IS NULL"),
    gone("locked tables", &["LOCK TABLES t READ"], "SELECT COUNT(*) FROM u"),
    gone("a transaction", &["BEGIN", "INSERT INTO t (b) VALUES (7)"], "SELECT COUNT(*) FROM t"),
    gone("autocommit", &["SET autocommit = 0"], "SELECT @@autocommit"),
    gone("a statement of SQL", &["PREPARE p FROM 'SELECT 1'"], "EXECUTE p"),
    gone("a handler", &["HANDLER t OPEN AS h"], "HANDLER h READ FIRST"),
    gone("an insert id", &["INSERT INTO u (b) VALUES (9)"], "SELECT LAST_INSERT_ID()"),
    gone("the next insert id", &["SET insert_id = 5000"], "SELECT @@insert_id"),
    gone("a row count", &["UPDATE u SET b = b + 1"], "SELECT ROW_COUNT()"),
    gone("warnings", &["SELECT CAST('x' AS SIGNED)"], "SELECT @@warning_count"),
    gone("a count of statements", &["DO 1"], "SHOW SESSION STATUS LIKE 'Com_do'"),
    Left { only: MARIADB, ..gone("a value", &["DO NEXTVAL(s)"], "SELECT LASTVAL(s)") },
    Left { only: MARIADB, ..gone("a GTID", &["DELETE FROM t"], "SELECT @@last_gtid") },
    kept(
        "a count of rows",
        &["SELECT 1 UNION SELECT 2 UNION SELECT 3"],
        "SELECT FOUND_ROWS()",
        None,
    ),
    kept("a role", ROLE, "SELECT CURRENT_ROLE()", MARIADB),
    Left { by_change: false, ..kept("a role", ROLE, "SELECT CURRENT_ROLE()", MYSQL) },
    kept("profiles", PROFILING, PROFILES, MARIADB),
    Left { only: MYSQL, ..gone("profiles", PROFILING, PROFILES) },
    kept("traces", TRACING, TRACES, MYSQL),
    Left { only: MARIADB, ..gone("traces", TRACING, TRACES) },
    Left { only: None, ..gone("tracing", TRACING, "SELECT @@optimizer_trace") },
    gone("profiling", PROFILING, "SELECT @@profiling"),
];

/// A value, or that there is none, or the error.
fn shown(wire: &mut Wire, text: &str) -> String {
    wire.value(text).map_or_else(|_| "an error".to_owned(), |value| format!("{value:?}"))
}

/// Whether it is there behind `end`, as a new connection would not have it.
fn is_left(
    server: &Server,
    schema: &str,
    left: &Left,
    end: impl FnOnce(&mut Wire) -> Result<()>,
) -> Result<bool> {
    let mut wire = Wire::login(server, USER, PASSWORD, schema)?;
    for text in left.make {
        wire.query(text).with_context(|| (*text).to_owned())?;
    }
    end(&mut wire)?;
    let found = shown(&mut wire, left.show);
    let fresh = shown(&mut Wire::login(server, USER, PASSWORD, schema)?, left.show);
    Ok(found != fresh)
}

#[test]
fn what_a_reset_leaves() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "what_a_reset_leaves") {
            continue;
        }
        let server = shared_server(flavour)?;
        let sequence = if flavour == Flavour::MariaDb { "CREATE SEQUENCE s;" } else { "" };
        let schema = new_schema(
            server,
            &format!(
                "{sequence} CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT);
                 CREATE TABLE u LIKE t; INSERT INTO t (b) VALUES (4711); INSERT INTO u (b) VALUES (1);
                 CREATE ROLE IF NOT EXISTS hidden_role; GRANT hidden_role TO {USER}@'%'"
            ),
        )?;
        for left in LIST.iter().filter(|left| left.only.is_none_or(|only| only == flavour)) {
            let by_reset =
                is_left(server, &schema, left, |wire| wire.single(0x1F, b"").map(|_| ()))?;
            let by_change =
                is_left(server, &schema, left, |wire| wire.change_user(USER, PASSWORD, &schema))?;
            let expected = (left.by_reset, left.by_change);
            let name = left.name;
            ensure!(
                (by_reset, by_change) == expected,
                "{flavour:?}: {name}: {by_reset}, {by_change}"
            );
        }
    }
    Ok(())
}
