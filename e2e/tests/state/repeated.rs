//! `SET`s that a session says again: those that change nothing cost no round trip, those that act
//! beyond the session are carried out each time.

use anyhow::{Result, ensure};
use trunkline_testkit::{Flavour, Options};

use super::{counter, sets_on};
use crate::stage::{
    FLAVOURS, before, client, fails, is_available, new_schema, pins, shared_server, start, text,
};

#[test]
fn a_set_that_changes_nothing_asks_no_server() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_set_that_changes_nothing_asks_no_server") {
            continue;
        }
        let server = start(flavour, Options::default())?;
        let proxy = before(&server, 1, 2)?;
        let mut one = client(&proxy, "")?;
        let sets = [
            "SET time_zone = '+02:00', sql_select_limit = 10",
            "SET NAMES utf8mb4",
            "SET autocommit = 1",
            "SET sql_mode = '', wait_timeout = 1000",
        ];
        for set in sets {
            one.sql(set)?;
        }
        ensure!(pins(&proxy)?.is_empty());
        let (before_sets, answered) = (sets_on(&server)?, counter(&proxy, "statements_answered")?);
        for set in sets.iter().cycle().take(40) {
            one.sql(set)?;
        }
        ensure!(sets_on(&server)? == before_sets, "the server was asked");
        ensure!(counter(&proxy, "statements_answered")? == answered + 40);
        // What does change something is asked.
        one.sql("SET time_zone = '+03:00'")?;
        one.sql(sets[0])?;
        ensure!(text(&mut one, "SELECT @@time_zone")? == "+02:00");
        fails(&mut one, "SET time_zone = 'nowhere'", 1298)?;
        fails(&mut one, "SET time_zone = 'nowhere'", 1298)?;
        // In a transaction the server is asked as always.
        one.sql("BEGIN")?;
        one.sql(sets[0])?;
        one.sql("COMMIT")?;
        ensure!(sets_on(&server)? >= before_sets + 3);
    }
    Ok(())
}

/// What was set otherwise meanwhile, by this session or by another, is set again.
#[test]
fn a_set_beyond_the_session_is_carried_out_each_time() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_set_beyond_the_session_is_carried_out_each_time") {
            continue;
        }
        let server = start(flavour, Options::default())?;
        let proxy = before(&server, 1, 2)?;
        let (mut one, mut other) = (client(&proxy, "")?, client(&proxy, "")?);
        let mut forms = vec!["SET GLOBAL ", "SET sql_select_limit = 10, GLOBAL ", "SET @@global."];
        if flavour == Flavour::MySql {
            forms.push("SET PERSIST ");
        }
        for form in forms {
            for value in ["61", "62", "61", "62"] {
                one.sql(&format!("{form}net_write_timeout = {value}"))?;
                ensure!(text(&mut one, "SELECT @@global.net_write_timeout")? == value, "{form}");
                other.sql("SET GLOBAL net_write_timeout = 63")?;
                one.sql(&format!("{form}net_write_timeout = {value}"))?;
                ensure!(text(&mut one, "SELECT @@global.net_write_timeout")? == value, "{form}");
            }
        }
        one.sql("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE")?;
        one.sql("SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED")?;
        one.sql("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE")?;
        let name = match flavour {
            Flavour::MariaDb => "tx_isolation",
            Flavour::MySql => "transaction_isolation",
        };
        ensure!(text(&mut one, &format!("SELECT @@global.{name}"))? == "SERIALIZABLE");
    }
    Ok(())
}

#[test]
fn a_password_is_set_each_time() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_password_is_set_each_time") {
            continue;
        }
        let server = shared_server(flavour)?;
        server.sql("CREATE USER IF NOT EXISTS e2e_changed IDENTIFIED BY 'none'")?;
        let proxy = before(server, 1, 2)?;
        let mut one = client(&proxy, "")?;
        let mut last = String::new();
        for password in ["first", "second", "first", "second"] {
            let value = match flavour {
                Flavour::MariaDb => format!("PASSWORD('{password}')"),
                Flavour::MySql => format!("'{password}'"),
            };
            one.sql(&format!("SET PASSWORD FOR e2e_changed = {value}"))?;
            let hash = "SELECT HEX(authentication_string) FROM mysql.user \
                        WHERE user = 'e2e_changed'";
            let now = server.value(hash)?.unwrap_or_default();
            ensure!(!now.is_empty() && now != last, "{flavour:?}: still {now}");
            last = now;
        }
        server.sql("DROP USER e2e_changed")?;
    }
    Ok(())
}

/// What a `SET` changes beside, or statements change in between, is set each time.
#[test]
fn issue_16_a_set_that_has_an_effect_is_carried_out() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "issue_16_a_set_that_has_an_effect_is_carried_out") {
            continue;
        }
        let server = shared_server(flavour)?;
        let tables = "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY);
             CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET @a = 7";
        let schema = new_schema(server, tables)?;
        let proxy = before(server, 1, 2)?;
        let mut one = client(&proxy, &schema)?;
        for _ in 0..3 {
            one.sql("SET max_join_size = 2")?;
            ensure!(text(&mut one, "SELECT @@sql_big_selects")? == "0", "{flavour:?}");
            one.sql("SET sql_big_selects = 1")?;
            ensure!(text(&mut one, "SELECT @@sql_big_selects")? == "1", "{flavour:?}");
        }
        one.sql("SET max_join_size = 18446744073709551615")?;
        for _ in 0..3 {
            one.sql("SET last_insert_id = 0")?;
            ensure!(text(&mut one, "SELECT LAST_INSERT_ID()")? == "0", "{flavour:?}");
            one.sql("INSERT INTO t VALUES (NULL)")?;
            ensure!(text(&mut one, "SELECT LAST_INSERT_ID()")? != "0", "{flavour:?}");
            one.sql("SET @a = 1")?;
            ensure!(text(&mut one, "SELECT @a")? == "1", "{flavour:?}");
        }
        // On another connection the limit is the same.
        let mut other = client(&proxy, &schema)?;
        one.sql("SET max_join_size = 2")?;
        other.sql("BEGIN")?;
        other.sql("SELECT * FROM t")?;
        ensure!(text(&mut one, "SELECT @@sql_big_selects")? == "0", "{flavour:?}");
        other.sql("COMMIT")?;
        ensure!(text(&mut other, "SELECT @@sql_big_selects")? == "1", "{flavour:?}");
    }
    Ok(())
}
