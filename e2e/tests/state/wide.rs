//! Sessions whose texts are of several bytes for each character share connections with others.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::Trunkline;

use crate::stage::{FLAVOURS, client, is_available, new_schema, one_server, shared_server};

/// One connection, of which one session has texts of two bytes for each character.
#[test]
fn issue_16_wide_characters_of_one_session_leave_others_their_settings() -> Result<()> {
    const WRITE: &str = "INSERT INTO t SELECT @@time_zone, @@character_set_connection";
    for flavour in FLAVOURS {
        if !is_available(
            flavour,
            "issue_16_wide_characters_of_one_session_leave_others_their_settings",
        ) {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = new_schema(server, "CREATE TABLE t (zone TEXT, charset TEXT)")?;
        let proxy = Trunkline::start(&one_server(server, 1, 1))?;
        let (mut wide, mut other) = (client(&proxy, &schema)?, client(&proxy, &schema)?);
        wide.sql("SET character_set_connection = latin1, time_zone = '-03:00'")?;
        other.sql("SET NAMES utf8mb4, time_zone = '+05:00'")?;
        for charset in ["latin1", "ucs2", "utf16", "utf32"] {
            wide.sql(&format!("SET character_set_connection = {charset}"))?;
            for _ in 0..2 {
                wide.sql(WRITE).with_context(|| format!("{flavour:?}, {charset}"))?;
                other.sql(WRITE).with_context(|| format!("{flavour:?}, behind {charset}"))?;
            }
        }
        let found = format!("SELECT DISTINCT zone, charset FROM {schema}.t ORDER BY charset");
        let rows = server.sql(&found)?;
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|row| row.into_iter().flatten().collect()).collect();
        let expected: [Vec<&str>; 5] = [
            vec!["-03:00", "latin1"],
            vec!["-03:00", "ucs2"],
            vec!["-03:00", "utf16"],
            vec!["-03:00", "utf32"],
            vec!["+05:00", "utf8mb4"],
        ];
        ensure!(rows == expected, "{flavour:?}: {rows:?}");
    }
    Ok(())
}

/// What gives a routine its session's `FOUND_ROWS()` is understood in every character set.
#[test]
fn issue_16_a_routine_finds_its_sessions_rows_in_every_character_set() -> Result<()> {
    for flavour in FLAVOURS {
        let test = "issue_16_a_routine_finds_its_sessions_rows_in_every_character_set";
        if !is_available(flavour, test) {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = new_schema(
            server,
            "CREATE TABLE t (rows_found INT);
             CREATE PROCEDURE p() INSERT INTO t VALUES (FOUND_ROWS())",
        )?;
        let proxy = Trunkline::start(&one_server(server, 1, 1))?;
        let mut other = client(&proxy, &schema)?;
        for setting in ["NAMES binary", "character_set_connection = ucs2", "NAMES swe7"] {
            let mut session = client(&proxy, &schema)?;
            session.sql(&format!("SET {setting}"))?;
            session.sql("SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3")?;
            other.sql("SELECT 7")?;
            session.sql("CALL p()").with_context(|| format!("{flavour:?}, {setting}"))?;
        }
        let found = server.sql(&format!("SELECT rows_found FROM {schema}.t"))?;
        let found: Vec<_> = found.into_iter().flatten().flatten().collect();
        ensure!(found == ["3", "3", "3"], "{flavour:?}: {found:?}");
    }
    Ok(())
}
