//! Servers that change places by a reload: what is written to whom by sessions that were there.

mod roles;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{AuthPlugin, Flavour, Options, Server, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, client, fails, is_available, start, start_two, text,
};

/// Hostgroups 10 and 20, the user's own one, and a rule that caches.
fn config(ten: &Server, twenty: &Server, own: u32) -> String {
    format!(
        "workers = 1\n[[server]]\nhostgroup = 10\naddress = \"{}\"\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = {own}\n\
         [[rule]]\nid = 1\nmatch_digest = \"FROM cached\"\ncache_ttl = 600000\napply = true\n",
        ten.address(),
        twenty.address(),
    )
}

fn rows(server: &Server) -> Result<Option<String>> {
    server.value("SELECT COALESCE(GROUP_CONCAT(a ORDER BY a), '') FROM here.t")
}

fn check(one: &Server, other: &Server) -> Result<()> {
    for (server, name) in [(one, "one"), (other, "other")] {
        server.sql(&format!(
            "CREATE DATABASE here; CREATE TABLE here.t (a INT);
             CREATE TABLE here.cached AS SELECT '{name}' AS name;
             SET time_zone = '+00:00'; CREATE TABLE here.cached_times (at TIMESTAMP);
             INSERT INTO here.cached_times VALUES ('2020-01-01 00:00:00')"
        ))?;
    }
    let proxy = Trunkline::start(&config(one, other, 10))?;
    let (mut plain, mut held, mut begun) =
        (client(&proxy, "here")?, client(&proxy, "here")?, client(&proxy, "here")?);
    let cached = "SELECT name FROM cached";
    wait_until("the answer is cached", SOON, || {
        ensure!(text(&mut plain, cached)? == "one");
        let status = crate::stage::status(&proxy)?;
        let hits = status.pointer("/rule_hits/1").and_then(serde_json::Value::as_u64);
        Ok((hits >= Some(3)).then_some(()))
    })?;
    held.sql("SET @count = (SELECT COUNT(*) FROM t)")?;
    begun.sql("BEGIN")?;
    begun.sql("INSERT INTO t VALUES (1)")?;

    proxy.reload(&config(other, one, 10))?;
    let port = other.port().to_string();
    wait_until("the servers have changed places", SOON, || {
        Ok((text(&mut plain, "SELECT @@port")? == port).then_some(()))
    })?;
    plain.sql("INSERT INTO t VALUES (2)")?;
    let told = fails(&mut held, "INSERT INTO t VALUES (3)", 2013)?;
    ensure!(told.contains("user_variable") && told.contains("taken out"), "{told}");
    begun.sql("INSERT INTO t VALUES (4)")?;
    begun.sql("COMMIT")?;
    begun.sql("INSERT INTO t VALUES (5)")?;
    ensure!(rows(one)?.as_deref() == Some("1,4"), "{:?}", rows(one)?);
    ensure!(rows(other)?.as_deref() == Some("2,5"), "{:?}", rows(other)?);
    ensure!(text(&mut plain, cached)? == "other", "what the former server answered");

    proxy.reload(&config(other, one, 20))?;
    let port = one.port().to_string();
    wait_until("the user has another hostgroup", SOON, || {
        Ok((text(&mut plain, "SELECT @@port")? == port).then_some(()))
    })?;
    plain.sql("INSERT INTO t VALUES (6)")?;
    ensure!(rows(one)?.as_deref() == Some("1,4,6"), "{:?}", rows(one)?);

    // What the answer depends on may be a default of the server's.
    let time = "SELECT at FROM cached_times";
    plain.sql("SET GLOBAL time_zone = '+00:00'")?;
    let before = text(&mut client(&proxy, "here")?, time)?;
    plain.sql("SET GLOBAL time_zone = '+05:00'")?;
    let behind = text(&mut client(&proxy, "here")?, time)?;
    ensure!(before.contains(" 00:00") && behind.contains(" 05:00"), "{before}, then {behind}");
    Ok(())
}

/// Two servers of their own for a check, if there are any.
fn with_two(name: &str, check: impl Fn(&Server, &Server) -> Result<()>) -> Result<()> {
    let flavour = Flavour::MariaDb;
    if !is_available(flavour, name) {
        return Ok(());
    }
    check(&start(flavour, Options::default())?, &start(flavour, Options::default())?)
}

#[test]
fn issue_16_sessions_write_to_the_servers_of_now() -> Result<()> {
    with_two("issue_16_sessions_write_to_the_servers_of_now", check)
}

/// A user whose account on the servers has another name and password than its own.
fn renamed(writer: &Server, reader: &Server, account: &str) -> String {
    format!(
        "workers = 1\n[[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n\
         read_write_split = \"auto\"\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\n\
         [[user]]\nname = \"shop\"\npassword = \"shop's own\"\ndefault_hostgroup = 10\n\
         backend_user = \"{account}\"\nbackend_password = \"{PASSWORD}\"\n\
         [[rule]]\nid = 1\nmatch_digest = \"cached WHERE\"\ncache_ttl = 600000\napply = true\n",
        writer.address(),
        reader.address(),
    )
}

fn check_renamed(writer: &Server, reader: &Server) -> Result<()> {
    for (server, name) in [(writer, "writer"), (reader, "reader")] {
        server.sql(&format!(
            "CREATE DATABASE here; CREATE TABLE here.cached AS SELECT '{name}' AS name"
        ))?;
        server.create_user("poor", PASSWORD, AuthPlugin::ServerDefault)?;
        server.sql(
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM poor@'%'; GRANT INSERT ON here.* TO poor@'%'",
        )?;
    }
    let proxy = Trunkline::start(&renamed(writer, reader, USER))?;
    let shop = || proxy.connect("shop", "shop's own", "here");
    let mut client = shop()?;
    ensure!(text(&mut client, "SELECT name FROM cached")? == "reader", "names were not known");
    for _ in 0..3 {
        ensure!(text(&mut client, "SELECT name FROM cached WHERE 1")? == "reader");
    }
    proxy.reload(&renamed(writer, reader, "poor"))?;
    wait_until("new sessions have the other account", SOON, || {
        let account = text(&mut shop()?, "SELECT CURRENT_USER()")?;
        Ok(account.starts_with("poor").then_some(()))
    })?;
    fails(&mut shop()?, "SELECT name FROM cached WHERE 1", 1142)?;
    Ok(())
}

#[test]
fn issue_16_an_account_on_the_servers_proves_and_reads_as_itself() -> Result<()> {
    with_two("issue_16_an_account_on_the_servers_proves_and_reads_as_itself", check_renamed)
}

/// A server that is taken out is not written to by sessions that hold something there; what has
/// begun ends there.
#[test]
fn issue_16_who_holds_something_leaves_a_server_that_is_offline_hard() -> Result<()> {
    if !is_available(
        Flavour::MariaDb,
        "issue_16_who_holds_something_leaves_a_server_that_is_offline_hard",
    ) {
        return Ok(());
    }
    let (one, other) = start_two(Flavour::MariaDb)?;
    for server in [&one, &other] {
        server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT)")?;
    }
    let config = |status: &str| {
        format!(
            "workers = 1\n[[server]]\nhostgroup = 10\naddress = \"{}\"\nstatus = \"{status}\"\n\
             [[server]]\nhostgroup = 10\naddress = \"{}\"\nstatus = \"{}\"\n\
             [[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 10\n",
            one.address(),
            other.address(),
            if status == "ONLINE" { "OFFLINE_SOFT" } else { "ONLINE" },
        )
    };
    let proxy = Trunkline::start(&config("ONLINE"))?;
    let (mut plain, mut held, mut begun) =
        (client(&proxy, "here")?, client(&proxy, "here")?, client(&proxy, "here")?);
    held.sql("SET @count = (SELECT COUNT(*) FROM t)")?;
    begun.sql("BEGIN")?;
    begun.sql("INSERT INTO t VALUES (1)")?;
    proxy.reload(&config("OFFLINE_HARD"))?;
    let port = other.port().to_string();
    wait_until("the other server is asked", SOON, || {
        Ok((text(&mut plain, "SELECT @@port")? == port).then_some(()))
    })?;
    let told = fails(&mut held, "INSERT INTO t VALUES (2)", 2013)?;
    ensure!(told.contains("user_variable") && told.contains("taken out"), "{told}");
    begun.sql("INSERT INTO t VALUES (3)")?;
    begun.sql("COMMIT")?;
    begun.sql("INSERT INTO t VALUES (4)")?;
    ensure!(rows(&one)?.as_deref() == Some("1,3"), "{:?}", rows(&one)?);
    ensure!(rows(&other)?.as_deref() == Some("4"), "{:?}", rows(&other)?);
    Ok(())
}

/// Where rules alone split reads from writes, nothing says that a hostgroup has readers: what no
/// rule sends anywhere is for the user's own, whatever holds the session elsewhere.
fn check_rules_only(writer: &Server, reader: &Server) -> Result<()> {
    for server in [writer, reader] {
        server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT)")?;
    }
    let proxy = Trunkline::start(&format!(
        "{}[[rule]]\nid = 2\nmatch_digest = \"alone\"\ndestination_hostgroup = 20\nmultiplex = 0\n\
         apply = true\n\
         [[rule]]\nid = 3\nmatch_digest = \"^SELECT\"\ndestination_hostgroup = 20\napply = true\n",
        config(writer, reader, 10)
    ))?;
    let holds = ["SELECT GET_LOCK('x', 1)", "SELECT @v := 1", "SELECT COUNT(*) AS alone FROM t"];
    let writes = [
        "INSERT INTO t VALUES (1)",
        "PREPARE p FROM 'INSERT INTO t VALUES (1)'",
        "EXECUTE p",
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "COMMIT",
        "XA START 'x'",
        "INSERT INTO t VALUES (1)",
        "XA END 'x'",
        "XA COMMIT 'x' ONE PHASE",
    ];
    for hold in holds {
        let mut session = client(&proxy, "here")?;
        session.sql(hold)?;
        ensure!(text(&mut session, "SELECT @@port")? == reader.port().to_string(), "{hold}");
        for write in writes {
            session.sql(write).with_context(|| format!("{write} behind {hold}"))?;
        }
    }
    ensure!(rows(reader)?.as_deref() == Some(""), "writes on the reader: {:?}", rows(reader)?);
    let written = writer.value("SELECT COUNT(*) FROM here.t")?;
    ensure!(written.as_deref() == Some("12"), "{written:?}");
    Ok(())
}

#[test]
fn issue_16_writes_do_not_follow_a_session_to_where_rules_have_sent_its_reads() -> Result<()> {
    let name = "issue_16_writes_do_not_follow_a_session_to_where_rules_have_sent_its_reads";
    for flavour in FLAVOURS {
        if is_available(flavour, name) {
            let (writer, reader) = start_two(flavour)?;
            check_rules_only(&writer, &reader).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// A user's default hostgroup is another one by a reload: what a session holds where it was is not
/// there, and writes that are to see it are not carried out without it.
fn check_moved(one: &Server, other: &Server) -> Result<()> {
    for server in [one, other] {
        server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT)")?;
    }
    let proxy = Trunkline::start(&config(one, other, 10))?;
    let (mut table, mut lock) = (client(&proxy, "here")?, client(&proxy, "here")?);
    let (mut begun, mut plain) = (client(&proxy, "here")?, client(&proxy, "here")?);
    table.sql("CREATE TEMPORARY TABLE t (a INT)")?;
    lock.sql("SELECT GET_LOCK('here', 0)")?;
    begun.sql("BEGIN")?;
    begun.sql("INSERT INTO t VALUES (1)")?;
    proxy.reload(&config(one, other, 20))?;
    let port = other.port().to_string();
    wait_until("the user is elsewhere", SOON, || {
        Ok((text(&mut plain, "SELECT @@port")? == port).then_some(()))
    })?;
    for (session, held) in [(&mut table, "temporary_table"), (&mut lock, "named_lock")] {
        let told = fails(session, "INSERT INTO t VALUES (2)", 2013)?;
        ensure!(told.contains(held), "{told}");
    }
    begun.sql("INSERT INTO t VALUES (3)")?;
    begun.sql("COMMIT")?;
    begun.sql("INSERT INTO t VALUES (4)")?;
    ensure!(rows(one)?.as_deref() == Some("1,3"), "{:?}", rows(one)?);
    ensure!(rows(other)?.as_deref() == Some("4"), "{:?}", rows(other)?);
    Ok(())
}

#[test]
fn issue_16_who_holds_something_does_not_write_beside_it_when_its_user_moves() -> Result<()> {
    let name = "issue_16_who_holds_something_does_not_write_beside_it_when_its_user_moves";
    with_two(name, check_moved)
}

/// A session loses its schema on one server and holds something on another one.
fn check_schema_lost(one: &Server, other: &Server) -> Result<()> {
    for server in [one, other] {
        server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT)")?;
    }
    let rule = "[[rule]]\nid = 2\nmatch_digest = \"there\"\ndestination_hostgroup = 20\n\
                apply = true\n";
    let proxy = Trunkline::start(&format!("{}{rule}", config(one, other, 10)))?;
    let mut session = client(&proxy, "here")?;
    session.sql("SELECT GET_LOCK('mine', 0) AS there")?;
    session.sql("CREATE TEMPORARY TABLE there (a INT)")?;
    session.sql("DROP DATABASE here")?;
    session.sql("INSERT INTO there VALUES (5)")?;
    ensure!(text(&mut session, "SELECT a FROM there")? == "5");
    let free = other.value("SELECT IS_FREE_LOCK('mine')")?;
    ensure!(free.as_deref() == Some("0"), "the lock is gone");
    Ok(())
}

#[test]
fn issue_16_who_loses_its_schema_keeps_what_it_holds_elsewhere() -> Result<()> {
    let name = "issue_16_who_loses_its_schema_keeps_what_it_holds_elsewhere";
    with_two(name, check_schema_lost)
}
