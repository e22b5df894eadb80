//! What is remembered of servers ends when they are others, or set otherwise.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Options, Server, SqlClient, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, SOON, USER, before, client, is_available, one_server, start, start_two, text,
};
use crate::varieties::{acted, split, start_acting};

fn of_each(name: &str, check: impl Fn(Flavour) -> Result<()>) -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, name) {
            check(flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// A row of its own that a new session leaves behind by its `INSERT` alone.
fn stays(proxy: &Trunkline, server: &Server, row: u32) -> Result<()> {
    let mut one = client(proxy, "here")?;
    one.sql(&format!("INSERT INTO t VALUES ({row})"))?;
    drop(one);
    row_stays(server, row)
}

/// Where the session has not committed it, it is gone with its transaction.
fn row_stays(server: &Server, row: u32) -> Result<()> {
    let is_over = || {
        let open = "SELECT COUNT(*) FROM information_schema.INNODB_TRX";
        Ok((server.value(open)?.as_deref() == Some("0")).then_some(()))
    };
    wait_until("its transaction to end", SOON, is_over)?;
    let count = server.value(&format!("SELECT COUNT(*) FROM here.t WHERE a = {row}"))?;
    ensure!(count.as_deref() == Some("1"), "row {row} is lost");
    Ok(())
}

fn make_table(server: &Server) -> Result<()> {
    server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT) ENGINE = InnoDB")?;
    Ok(())
}

fn check_default_of_autocommit(flavour: Flavour) -> Result<()> {
    let (server, other) = start_two(flavour)?;
    [&server, &other].into_iter().try_for_each(make_table)?;
    let proxy = before(&server, 1, 2)?;
    let begins_with = |value: &str| -> Result<()> {
        let begun = text(&mut client(&proxy, "here")?, "SELECT @@autocommit")?;
        ensure!(begun == value, "a session begins with {begun}");
        Ok(())
    };
    let switch = |value: &str| -> Result<()> {
        let mut one: SqlClient = client(&proxy, "")?;
        one.sql(&format!("SET GLOBAL autocommit = {value}"))?;
        Ok(())
    };
    for (row, on) in (1..).zip(["DEFAULT", "0 + 1"]) {
        switch("0")?;
        begins_with("0")?;
        switch(on)?;
        stays(&proxy, &server, row).with_context(|| format!("behind {on}"))?;
        begins_with("1")?;
    }
    // What the proxy has not seen is known from the next connection, or reset of one.
    switch("0")?;
    begins_with("0")?;
    server.sql("SET GLOBAL autocommit = 1")?;
    let mut one = client(&proxy, "here")?;
    one.sql("SELECT GET_LOCK('here', 0)")?;
    drop(one);
    let is_reset = || {
        let begun = text(&mut client(&proxy, "here")?, "SELECT @@autocommit")?;
        Ok((begun == "1").then_some(()))
    };
    wait_until("the connection to be reset", SOON, is_reset)?;
    stays(&proxy, &server, 3).context("behind a reset")?;
    // Another server has a default of its own.
    switch("0")?;
    begins_with("0")?;
    let mark = proxy.reload(&one_server(&other, 1, 2))?;
    proxy.wait_log(mark, "in force", SOON)?;
    stays(&proxy, &other, 4).context("on another server")
}

#[test]
fn writes_stay_on_servers_whose_sessions_began_without_autocommit_once() -> Result<()> {
    of_each("writes_stay_on_servers", check_default_of_autocommit)
}

fn check_reset(flavour: Flavour) -> Result<()> {
    let server = start(flavour, Options::default())?;
    make_table(&server)?;
    let proxy = before(&server, 1, 1)?;
    let mut one = client(&proxy, "here")?;
    ensure!(text(&mut one, "SELECT @@autocommit")? == "1");
    server.sql("SET GLOBAL autocommit = 0")?;
    let mut other = client(&proxy, "here")?;
    other.sql("SET @left = 1")?;
    drop(other);
    one.sql("INSERT INTO t VALUES (1)")?;
    ensure!(text(&mut one, "SELECT @@autocommit")? == "1");
    drop(one);
    row_stays(&server, 1)
}

#[test]
fn a_session_keeps_autocommit_behind_a_reset_with_another_default() -> Result<()> {
    of_each("a_session_keeps_autocommit", check_reset)
}

fn check_new_definition(flavour: Flavour) -> Result<()> {
    let (writer, reader) = start_acting(flavour, &[])?;
    for server in [&writer, &reader] {
        server.sql("CREATE VIEW here.v AS SELECT here.act() AS a")?;
    }
    let proxy = split(&writer, &reader)?;
    let mut one = client(&proxy, "here")?;
    one.sql("DROP VIEW v")?;
    one.sql("CREATE TABLE v (a INT)")?;
    for _ in 0..3 {
        one.sql("SELECT a FROM v")?;
    }
    let acted = acted(&writer, &reader)?;
    ensure!(acted == ["0", "0"], "on the writer and the reader: {acted:?}");
    Ok(())
}

#[test]
fn what_was_defined_before_anybody_asked_is_not_read_where_it_may_be_what_it_was() -> Result<()> {
    of_each("what_was_defined_before_anybody_asked", check_new_definition)
}

#[test]
fn a_character_set_is_what_its_name_meant_when_it_was_said() -> Result<()> {
    let name = "a_character_set_is_what_its_name_meant_when_it_was_said";
    if !is_available(Flavour::MariaDb, name) {
        return Ok(());
    }
    let server = start(Flavour::MariaDb, Options::default())?;
    server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT, said VARCHAR(64))")?;
    let proxy = before(&server, 1, 2)?;
    let mut one = client(&proxy, "here")?;
    // With another old_mode `utf8` has three bytes, and no such collation.
    one.sql("SET old_mode = ''")?;
    one.sql("SET NAMES utf8 COLLATE utf8mb4_bin")?;
    one.sql("SET old_mode = DEFAULT")?;
    for row in 1..=3 {
        let mut other = client(&proxy, "here")?;
        other.sql("SET NAMES latin1")?;
        other.sql("DO 1")?;
        one.sql(&format!("INSERT INTO t VALUES ({row}, @@collation_connection)"))?;
    }
    let said = server.value("SELECT GROUP_CONCAT(DISTINCT said) FROM here.t")?;
    ensure!(said.as_deref() == Some("utf8mb4_bin"), "{said:?}");
    // Nor is it another one where a session before has left its old_mode.
    let mut two = client(&proxy, "here")?;
    two.sql("SET old_mode = ''")?;
    two.sql("DO 1")?;
    let mut three = client(&proxy, "here")?;
    three.sql("SET NAMES utf8")?;
    two.sql("DO 1")?;
    let said = text(&mut three, "SELECT @@character_set_client")?;
    ensure!(said == "utf8mb3", "{said}");
    Ok(())
}

/// Behind an answer of the writer's, a text is what that would read.
fn check_two_modes(flavour: Flavour) -> Result<()> {
    let (writer, reader) = start_acting(flavour, &[])?;
    for server in [&writer, &reader] {
        server.sql("CREATE TABLE here.t (a INT)")?;
    }
    reader.sql("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES'")?;
    let proxy = split(&writer, &reader)?;
    let mut one = client(&proxy, "here")?;
    for _ in 0..3 {
        one.sql("SELECT a FROM t")?;
        one.sql("UPDATE t SET a = 1")?;
        one.sql(r"SELECT '\', act(), ' -- '")?;
    }
    let acted = acted(&writer, &reader)?;
    ensure!(acted == ["0", "0"], "on the writer and the reader: {acted:?}");
    Ok(())
}

#[test]
fn what_servers_read_otherwise_goes_to_the_writer() -> Result<()> {
    of_each("what_servers_read_otherwise_goes_to_the_writer", check_two_modes)
}

/// Of a session that logged in before, on connections that are opened behind.
fn check_set_mode(flavour: Flavour) -> Result<()> {
    let (writer, reader) = start_acting(flavour, &[])?;
    for server in [&writer, &reader] {
        server.sql("CREATE TABLE here.t (a INT)")?;
    }
    let proxy = split(&writer, &reader)?;
    let mut one = client(&proxy, "here")?;
    one.sql("SELECT a FROM t")?;
    one.sql("UPDATE t SET a = 1")?;
    let set = "SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES'";
    client(&proxy, "here")?.sql(set)?;
    reader.sql(set)?;
    let of_proxy = format!("WHERE user = '{USER}'");
    let list = format!("SELECT id FROM information_schema.PROCESSLIST {of_proxy}");
    for id in reader.sql(&list)?.into_iter().flatten().flatten() {
        reader.sql(&format!("KILL {id}"))?;
    }
    for _ in 0..3 {
        one.sql(r"SELECT '\', act(), ' -- '")?;
    }
    let [_, there] = acted(&writer, &reader)?;
    ensure!(there == "0", "on the reader: {there}");
    Ok(())
}

#[test]
fn what_was_set_for_new_sessions_is_read_so_from_then_on() -> Result<()> {
    of_each("what_was_set_for_new_sessions", check_set_mode)
}
