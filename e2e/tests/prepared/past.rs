//! Prepared statements that ask for what an earlier statement left, after others have used the
//! connection.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::Flavour;

use super::{block, on_each, proxy_with, rows};
use crate::stage::{PASSWORD, USER, client};
use crate::wire::{MODERN, Shape, Wire, code, login};

const T: &str = "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(3)) ENGINE = InnoDB;
                 CREATE TABLE d (a INT); CREATE TABLE p (a INT)";

/// What is left, and who asks for it. `{t}` is a table of the side's own.
const CASES: [(&str, &[&str]); 5] = [
    ("INSERT INTO {t} VALUES (1), (2), (3)", &["SELECT ROW_COUNT()"]),
    ("INSERT INTO nothing VALUES (1)", &["SELECT ROW_COUNT()", "SHOW ERRORS", "SHOW WARNINGS"]),
    ("SELECT 1 UNION SELECT 2", &["SELECT FOUND_ROWS()", "SELECT ROW_COUNT()"]),
    (
        "SELECT CAST('abc' AS SIGNED), CAST('d' AS SIGNED)",
        &["SHOW WARNINGS", "SHOW WARNINGS LIMIT 1, 1", "SHOW ERRORS", "SELECT @@warning_count"],
    ),
    ("SELECT CAST('abc' AS SIGNED)", &["SHOW COUNT(*) WARNINGS", "SHOW COUNT(*) ERRORS"]),
];

fn prepare(wire: &mut Wire, text: &str) -> Result<Option<u32>> {
    let reply = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
    match reply.get(4..9) {
        Some([0, id @ ..]) => Ok(Some(u32::from_le_bytes(id.try_into()?))),
        _ => Ok(None),
    }
}

/// A row; of a number its value, whose type may be a shorter one.
fn shown(row: &[u8]) -> Vec<u8> {
    let value = match row {
        [0, 0, value @ ..] => value,
        other => return other.to_vec(),
    };
    let number = match (<[u8; 4]>::try_from(value), <[u8; 8]>::try_from(value)) {
        (Ok(short), _) => Some(i64::from(i32::from_le_bytes(short))),
        (_, Ok(long)) => Some(i64::from_le_bytes(long)),
        _ => None,
    };
    number.map_or(row.to_vec(), |number| number.to_string().into_bytes())
}

fn execute(wire: &mut Wire, id: u32) -> Result<Vec<Vec<u8>>> {
    let body = [&id.to_le_bytes()[..], &block(0, &[], false)].concat();
    let reply = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
    let outcomes = wire.outcomes(&reply)?;
    Ok(rows(&outcomes)?.iter().map(|row| shown(row)).collect())
}

#[test]
fn what_was_left_is_found_by_prepared_statements_after_others_had_the_connection() -> Result<()> {
    on_each("what_was_left_is_found_by_prepared_statements", T, |server, schema| {
        let proxy = proxy_with(server, "", 1)?;
        let log_in = || login(USER, PASSWORD, schema, MODERN);
        let mut direct = Wire::login_with(server, log_in())?;
        let mut through = Wire::login_with(&proxy, log_in())?;
        for (leaves, texts) in CASES {
            for text in texts {
                let (Some(there), own) =
                    (prepare(&mut direct, text)?, prepare(&mut through, text)?)
                else {
                    // MySQL prepares none of those that show warnings.
                    ensure!(server.flavour() == Flavour::MySql, "{text}");
                    ensure!(prepare(&mut through, text)?.is_none(), "{text}");
                    continue;
                };
                let own = own.with_context(|| text.to_string())?;
                for others in [false, true] {
                    direct.query(&leaves.replace("{t}", "d"))?;
                    through.query(&leaves.replace("{t}", "p"))?;
                    if others {
                        // It waits until nothing holds the first any more.
                        client(&proxy, schema)?.sql("SELECT COUNT(*) FROM t; DO 1")?;
                    }
                    let (found, expected) =
                        (execute(&mut through, own)?, execute(&mut direct, there)?);
                    let shown = format!("{text} behind {leaves}, others: {others}");
                    ensure!(found == expected, "{shown}: {found:02x?}, not {expected:02x?}");
                }
            }
        }
        // Prepared again on a reset connection, in the state of before.
        for (set, text) in [
            ("SET sql_mode = 'ANSI_QUOTES'", "SELECT ROW_COUNT()"),
            ("USE information_schema", "SELECT ROW_COUNT(), FOUND_ROWS()"),
        ] {
            let there = prepare(&mut direct, text)?.context("not prepared")?;
            let own = prepare(&mut through, text)?.context("not prepared")?;
            for (wire, table) in [(&mut direct, "d"), (&mut through, "p")] {
                wire.query(set)?;
                // It becomes a connection that is reset.
                client(&proxy, schema)?.sql("SET @k = 1")?;
                wire.query(&format!("INSERT INTO {schema}.{table} VALUES (7), (8)"))?;
            }
            let (found, expected) = (execute(&mut through, own)?, execute(&mut direct, there)?);
            ensure!(found == expected, "{set}: {found:02x?}, not {expected:02x?}");
        }
        let number = through.greeting()?.connection_id;
        let id = prepare(&mut through, "SELECT CONNECTION_ID()")?.context("not prepared")?;
        let found = execute(&mut through, id)?;
        ensure!(found == [number.to_string().into_bytes()], "{found:02x?}, greeted with {number}");
        Ok(())
    })
}
