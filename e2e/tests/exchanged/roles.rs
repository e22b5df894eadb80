//! Hostgroups that change their roles by a reload, and servers that are taken out: no write that
//! has not been sent yet goes to those who are readers by then.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{AuthPlugin, Server, SqlClient, Trunkline, wait_until};

use super::{config, rows, with_two};
use crate::stage::{PASSWORD, SOON, USER, client, fails, status};
use crate::wire::Wire;

fn tables(servers: [&Server; 2]) -> Result<()> {
    for server in servers {
        server.sql(
            "CREATE DATABASE here; CREATE TABLE here.t (a INT); CREATE TABLE here.later (a INT);
             CREATE DATABASE there; CREATE TABLE there.t (a INT)",
        )?;
    }
    Ok(())
}

/// The rows of both servers' `here.t` are these.
fn have(expected: [(&Server, &str); 2]) -> Result<()> {
    for (server, expected) in expected {
        let found = rows(server)?;
        ensure!(found.as_deref() == Some(expected), "{found:?}, not {expected:?}");
    }
    Ok(())
}

/// Gives the proxy a configuration, and waits until it is in force.
fn reload(proxy: &Trunkline, config: &str) -> Result<()> {
    let mark = proxy.reload(config)?;
    proxy.wait_log(mark, "in force", SOON)?;
    Ok(())
}

/// Waits until so many statements wait for a connection of hostgroup 10.
fn wait_queued(proxy: &Trunkline, count: u64) -> Result<()> {
    wait_until("statements wait for a connection", SOON, || {
        let waiting = status(proxy)?;
        let waiting = waiting.pointer("/waiting/10").and_then(serde_json::Value::as_u64);
        Ok((waiting == Some(count)).then_some(()))
    })
}

/// Which of two servers takes the writes; inserts into `later` are delayed.
fn roles(one: &Server, other: &Server, (writer, reader): (u32, u32)) -> String {
    format!(
        "workers = 1\n[[replication]]\nwriter_hostgroup = {writer}\nreader_hostgroup = {reader}\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\nmax_connections = 1\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\nmax_connections = 1\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = {writer}\n\
         [[rule]]\nid = 1\nmatch_digest = \"INTO later\"\ndelay = 2000\napply = true\n",
        one.address(),
        other.address(),
    )
}

/// What waits for a connection, or is delayed, goes to the writer of the time when it is sent.
fn check_waiting(one: &Server, other: &Server) -> Result<()> {
    for server in [one, other] {
        server.sql(
            "CREATE DATABASE here; CREATE TABLE here.t (a INT); CREATE TABLE here.later (a INT)",
        )?;
    }
    let proxy = Trunkline::start(&roles(one, other, (10, 20)))?;
    let mut holder = client(&proxy, "here")?;
    let (mut queued, mut delayed) = (client(&proxy, "here")?, client(&proxy, "here")?);
    holder.sql("BEGIN")?;
    holder.sql("INSERT INTO t VALUES (1)")?;
    std::thread::scope(|scope| {
        let queued = scope.spawn(move || queued.sql("INSERT INTO t VALUES (2)"));
        let delayed = scope.spawn(move || delayed.sql("INSERT INTO later VALUES (3)"));
        wait_until("one waits, one is delayed", SOON, || {
            let status = status(&proxy)?;
            let number = |path| status.pointer(path).and_then(serde_json::Value::as_u64);
            let waits = number("/waiting/10") == Some(1);
            Ok((waits && number("/counters/statements_delayed") == Some(1)).then_some(()))
        })?;
        reload(&proxy, &roles(one, other, (20, 10)))?;
        drop(holder);
        for thread in [queued, delayed] {
            thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        anyhow::Ok(())
    })?;
    for (server, count) in [(one, "0"), (other, "2")] {
        let found =
            server.value("SELECT (SELECT COUNT(*) FROM here.t) + COUNT(*) FROM here.later")?;
        ensure!(found.as_deref() == Some(count), "{found:?}, not {count}");
    }
    Ok(())
}

#[test]
fn issue_16_a_write_that_waits_goes_to_the_writer_of_now() -> Result<()> {
    with_two("issue_16_a_write_that_waits_goes_to_the_writer_of_now", check_waiting)
}

/// Two users, both of hostgroup 10, or the first one of 20.
fn two_users(one: &Server, other: &Server, first: u32) -> String {
    format!(
        "workers = 1\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\nmax_connections = 1\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = {first}\n\
         [[user]]\nname = \"second\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 10\n",
        one.address(),
        other.address(),
    )
}

/// A session whose change of user fails is its first user's again, as that one is configured by
/// then.
fn check_failed_change(one: &Server, other: &Server) -> Result<()> {
    tables([one, other])?;
    one.create_user("second", PASSWORD, AuthPlugin::ServerDefault)?;
    let proxy = Trunkline::start(&two_users(one, other, 10))?;
    let mut holder = client(&proxy, "here")?;
    let mut changing = Wire::login(&proxy, USER, PASSWORD, "here")?;
    holder.sql("BEGIN")?;
    holder.sql("INSERT INTO t VALUES (1)")?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let refusal = changing.change_user("second", PASSWORD, "nowhere");
            (refusal, changing)
        });
        wait_queued(&proxy, 1)?;
        reload(&proxy, &two_users(one, other, 20))?;
        drop(holder);
        let (refusal, mut changing) =
            thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        let refusal = refusal.err().context("there is no such schema")?.to_string();
        ensure!(refusal.contains("1049"), "{refusal}");
        changing.one("INSERT INTO here.t VALUES (2)")?;
        anyhow::Ok(())
    })?;
    have([(one, ""), (other, "2")])
}

#[test]
fn issue_16_who_fails_to_change_its_user_is_the_one_of_now() -> Result<()> {
    with_two("issue_16_who_fails_to_change_its_user_is_the_one_of_now", check_failed_change)
}

/// One user, whose account on the servers has this password.
fn rotated(one: &Server, other: &Server, (writer, reader): (u32, u32), password: &str) -> String {
    format!(
        "workers = 1\n[[replication]]\nwriter_hostgroup = {writer}\nreader_hostgroup = {reader}\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\n\
         [[user]]\nname = \"second\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = {writer}\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = {writer}\n\
         backend_user = \"rotated\"\nbackend_password = \"{password}\"\n",
        one.address(),
        other.address(),
    )
}

/// Sessions follow their user though its account on the servers has another password by now, or
/// there is no such user any more.
fn check_rotated(one: &Server, other: &Server) -> Result<()> {
    tables([one, other])?;
    for server in [one, other] {
        server.create_user("rotated", PASSWORD, AuthPlugin::ServerDefault)?;
        server.create_user("second", PASSWORD, AuthPlugin::ServerDefault)?;
    }
    let proxy = Trunkline::start(&rotated(one, other, (10, 20), PASSWORD))?;
    let mut session = client(&proxy, "here")?;
    let mut gone = proxy.connect("second", PASSWORD, "here")?;
    session.sql("INSERT INTO t VALUES (1)")?;
    gone.sql("INSERT INTO t VALUES (2)")?;
    for server in [one, other] {
        server.sql("ALTER USER rotated@'%' IDENTIFIED BY 'another one'")?;
    }
    reload(&proxy, &rotated(one, other, (10, 20), "another one"))?;
    let swapped = rotated(one, other, (20, 10), "another one");
    reload(&proxy, &swapped.replace("name = \"second\"", "name = \"third\""))?;
    session.sql("INSERT INTO t VALUES (3)")?;
    gone.sql("INSERT INTO t VALUES (4)")?;
    have([(one, "1,2"), (other, "3,4")])
}

#[test]
fn issue_16_sessions_follow_their_user_behind_a_change_of_its_account() -> Result<()> {
    with_two("issue_16_sessions_follow_their_user_behind_a_change_of_its_account", check_rotated)
}

/// A writer hangs while a write waits for its schema there, and another server takes its place.
fn check_hung(one: &Server, other: &Server) -> Result<()> {
    tables([one, other])?;
    let proxy = Trunkline::start(&roles(one, other, (10, 20)))?;
    let (mut here, mut there) = (client(&proxy, "here")?, client(&proxy, "there")?);
    there.sql("INSERT INTO t VALUES (1)")?;
    here.sql("INSERT INTO t VALUES (1)")?;
    let waits = || -> Result<u64> {
        let status = status(&proxy)?;
        let waits = status.pointer("/counters/statements_awaited_state");
        waits.and_then(serde_json::Value::as_u64).context("no counter")
    };
    let before = waits()?;
    one.pause()?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || there.sql("INSERT INTO t VALUES (2)"));
        wait_until("a write waits for its schema", SOON, || Ok((waits()? > before).then_some(())))?;
        reload(&proxy, &roles(other, one, (10, 20)))?;
        one.resume()?;
        thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        anyhow::Ok(())
    })?;
    for (server, expected) in [(one, "1"), (other, "2")] {
        let found = server.value("SELECT GROUP_CONCAT(a) FROM there.t")?;
        ensure!(found.as_deref() == Some(expected), "{found:?}, not {expected}");
    }
    Ok(())
}

#[test]
fn issue_16_a_write_that_waits_for_its_schema_leaves_a_server_that_is_taken_out() -> Result<()> {
    let name = "issue_16_a_write_that_waits_for_its_schema_leaves_a_server_that_is_taken_out";
    with_two(name, check_hung)
}

/// What ends a transaction and goes on behind it does not go on where the server was taken out, or
/// where its user is no more.
fn check_chain(one: &Server, other: &Server) -> Result<()> {
    tables([one, other])?;
    chains(one, other, &config(other, one, 10), (1213, "taken out"))?;
    chains(one, other, &config(one, other, 20), (2013, "another one now"))
}

fn chains(one: &Server, other: &Server, changed: &str, told: (u16, &str)) -> Result<()> {
    let (code, why) = told;
    let statements = ["COMMIT AND CHAIN", "BEGIN", "CREATE TABLE made (a INT)", "COMMIT"];
    let proxy = Trunkline::start(&config(one, other, 10))?;
    let mut sessions = Vec::new();
    for statement in statements {
        let mut session = client(&proxy, "here")?;
        if statement == "COMMIT" {
            session.sql("SET completion_type = 'CHAIN'")?;
        }
        session.sql("BEGIN")?;
        session.sql("INSERT INTO t VALUES (1)")?;
        sessions.push((session, statement));
    }
    reload(&proxy, changed)?;
    for (session, statement) in &mut sessions {
        session.sql("INSERT INTO t VALUES (2)")?;
        let told = fails(session, statement, code)?;
        ensure!(told.contains(why), "{told}");
    }
    let found =
        one.value("SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'made'")?;
    ensure!(found.as_deref() == Some("0"), "{found:?}");
    wait_until("the transactions are rolled back", SOON, || {
        Ok((rows(one)?.as_deref() == Some("")).then_some(()))
    })
}

#[test]
fn issue_16_what_goes_on_behind_a_transaction_leaves_a_server_that_is_taken_out() -> Result<()> {
    let name = "issue_16_what_goes_on_behind_a_transaction_leaves_a_server_that_is_taken_out";
    with_two(name, check_chain)
}

/// A fast-forward session ends with its server.
fn check_forwarded(one: &Server, other: &Server) -> Result<()> {
    tables([one, other])?;
    let forwards = |ten: &Server, twenty: &Server, own: u32| {
        let config = config(ten, twenty, own);
        config.replace("default_hostgroup", "fast_forward = true\ndefault_hostgroup")
    };
    let proxy = Trunkline::start(&forwards(one, other, 10))?;
    let mut session = client(&proxy, "here")?;
    session.sql("INSERT INTO t VALUES (1)")?;
    reload(&proxy, &forwards(other, one, 10))?;
    ensure!(session.sql("INSERT INTO t VALUES (2)").is_err(), "its server was taken out");
    let mut session = client(&proxy, "here")?;
    session.sql("INSERT INTO t VALUES (3)")?;
    reload(&proxy, &forwards(other, one, 20))?;
    ensure!(session.sql("INSERT INTO t VALUES (4)").is_err(), "its user is elsewhere");
    have([(one, "1"), (other, "3")])
}

#[test]
fn issue_16_a_fast_forward_session_ends_where_its_server_is_taken_out() -> Result<()> {
    with_two("issue_16_a_fast_forward_session_ends_where_its_server_is_taken_out", check_forwarded)
}

/// What changes a session and finds no connection ends it: commands that are on their way were
/// meant for behind it.
fn check_refused(one: &Server, other: &Server) -> Result<()> {
    tables([one, other])?;
    let config = format!("connect_timeout_server_max = 1000\n{}", roles(one, other, (10, 20)));
    let proxy = Trunkline::start(&config)?;
    let mut holder = client(&proxy, "here")?;
    let mut plain = client(&proxy, "here")?;
    let changing = [
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "SET autocommit = 0, sql_notes = 1",
        "USE there",
        "CREATE TEMPORARY TABLE t (a INT)",
    ];
    let mut sessions = Vec::<(SqlClient, &str)>::new();
    for statement in changing {
        sessions.push((client(&proxy, "here")?, statement));
    }
    holder.sql("BEGIN")?;
    holder.sql("INSERT INTO t VALUES (1)")?;
    for (session, statement) in &mut sessions {
        fails(session, statement, 9001)?;
        ensure!(session.sql("INSERT INTO t VALUES (2)").is_err(), "behind {statement}");
    }
    fails(&mut plain, "INSERT INTO t VALUES (3)", 9001)?;
    holder.sql("COMMIT")?;
    plain.sql("INSERT INTO t VALUES (4)")?;
    ensure!(rows(one)?.as_deref() == Some("1,4"), "{:?}", rows(one)?);
    Ok(())
}

#[test]
fn issue_16_what_changes_a_session_and_finds_no_connection_ends_it() -> Result<()> {
    with_two("issue_16_what_changes_a_session_and_finds_no_connection_ends_it", check_refused)
}
