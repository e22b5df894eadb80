//! What is proven while not every server can be asked, and of servers that were started again or
//! are another one by the same name.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use trunkline_protocol::packet::status::AUTOCOMMIT;
use trunkline_testkit::{
    Flavour, Options, Server, TempFolder, Trunkline, can_overlay, skipped, wait_until,
};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, client, fails, is_available, one_server, start, start_two, text,
};
use crate::wire::{Endpoint, PLAIN, Wire, login};

fn user() -> String {
    format!("[[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 10\n")
}

/// A writer and a reader, and a rule that sends what reads the view to the writer.
fn split(writer: &Server, reader: &Server) -> String {
    format!(
        "workers = 1\n[[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n\
         read_write_split = \"auto\"\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\n{}\
         [[rule]]\nid = 1\nmatch_digest = \"FROM v\"\ndestination_hostgroup = 10\napply = true\n",
        writer.address(),
        reader.address(),
        user(),
    )
}

/// The view does something on the writer, and nothing on the reader, which does not know that yet.
/// The writer lets the account in once, so that its dictionary can't be asked.
fn check_reader(writer: &Server, reader: &Server) -> Result<()> {
    let engine = match writer.flavour() {
        Flavour::MariaDb => "Aria TRANSACTIONAL=0",
        Flavour::MySql => "MyISAM",
    };
    for server in [writer, reader] {
        server.sql(&format!(
            "CREATE DATABASE here; CREATE TABLE here.done (a INT) ENGINE = {engine}"
        ))?;
    }
    reader.sql("CREATE VIEW here.v AS SELECT 1 AS a")?;
    writer.sql("SET GLOBAL log_bin_trust_function_creators = 1")?;
    writer.sql(
        "CREATE FUNCTION here.act() RETURNS INT BEGIN \
         INSERT INTO done VALUES (1); DO SLEEP(2); RETURN 1; END",
    )?;
    writer.sql(&format!(
        "CREATE VIEW here.v AS SELECT here.act() AS a;
         ALTER USER '{USER}'@'%' WITH MAX_USER_CONNECTIONS 1"
    ))?;
    let proxy = Trunkline::start(&split(writer, reader))?;
    let mut client = client(&proxy, "here")?;
    // It is logged in before the dictionary's connection, and stays so.
    client.sql("DO 1")?;
    let done = "SELECT COUNT(*) FROM here.done WHERE a = 1";
    let told = std::thread::scope(|scope| {
        let reads = scope.spawn(move || text(&mut client, "SELECT a FROM v"));
        let thread = wait_until("the view is read on the writer", SOON, || {
            writer.value(
                "SELECT MAX(id) FROM information_schema.processlist WHERE state = 'User sleep'",
            )
        })?;
        writer.sql(&format!("KILL {thread}"))?;
        Ok::<_, anyhow::Error>(reads.join())
    })?;
    ensure!(matches!(told, Ok(Err(_))), "{told:?}");
    let count = writer.value(done)?;
    ensure!(count.as_deref() == Some("1"), "it was carried out {count:?} times");
    Ok(())
}

#[test]
fn issue_16_a_readers_dictionary_proves_nothing_for_the_writer() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_a_readers_dictionary_proves_nothing_for_the_writer") {
            let (writer, reader) = start_two(flavour)?;
            check_reader(&writer, &reader).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// A view sets a role for whoever reads it, and the account is let in once, so that nobody can ask
/// for what the view means.
fn check_role(server: &Server) -> Result<()> {
    server.sql(&format!(
        "CREATE DATABASE here; SET GLOBAL log_bin_trust_function_creators = 1;
         CREATE ROLE untold; GRANT untold TO '{USER}'@'%'"
    ))?;
    server.sql(
        "CREATE FUNCTION here.act() RETURNS INT NO SQL SQL SECURITY INVOKER BEGIN \
         SET ROLE untold; RETURN 1; END",
    )?;
    server.sql(&format!(
        "CREATE SQL SECURITY INVOKER VIEW here.v AS SELECT here.act() AS a;
         ALTER USER '{USER}'@'%' WITH MAX_USER_CONNECTIONS 1"
    ))?;
    let proxy = Trunkline::start(&one_server(server, 1, 1))?;
    let role = "SELECT COALESCE(CURRENT_ROLE(), 'NONE')";
    let mut one = client(&proxy, "here")?;
    // It is logged in before the dictionary's connection.
    ensure!(text(&mut one, role)? == "NONE");
    ensure!(text(&mut one, "SELECT a FROM v")? == "1");
    drop(one);
    let mut other = client(&proxy, "here")?;
    // The server lets the account in again once it has ended the former connection.
    let found = wait_until("another session is served", SOON, || Ok(text(&mut other, role).ok()))?;
    ensure!(found == "NONE", "another session has the role {found}");
    Ok(())
}

#[test]
fn issue_16_a_role_behind_an_untold_name_reaches_nobody_else() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_a_role_behind_an_untold_name_reaches_nobody_else") {
            let server = start(flavour, Options::default())?;
            check_role(&server).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// A proof is of an age when what it proved is to run: behind a rule's delay, or again for its
/// warnings.
fn check_age(writer: &Server, reader: &Server) -> Result<()> {
    let act = "CREATE FUNCTION here.act() RETURNS INT BEGIN INSERT INTO done VALUES (1); \
               RETURN 1; END";
    for server in [writer, reader] {
        server.sql(
            "CREATE DATABASE here; CREATE TABLE here.done (a INT);
             CREATE TABLE here.t (a VARCHAR(9)); INSERT INTO here.t VALUES ('x');
             SET GLOBAL log_bin_trust_function_creators = 1",
        )?;
        server.sql(act)?;
    }
    let proxy = Trunkline::start(&format!(
        "catalog_age_max = 500\n{}[[rule]]\nid = 2\nmatch_digest = \"AS late\"\ndelay = 1500\napply = true\n",
        split(writer, reader)
    ))?;
    let (mut warned, mut late) = (client(&proxy, "here")?, client(&proxy, "here")?);
    for _ in 0..3 {
        text(&mut warned, "SELECT a FROM t")?;
    }
    text(&mut warned, "SELECT CAST(a AS SIGNED) AS a FROM t")?;
    std::thread::scope(|scope| {
        let delayed = scope.spawn(move || text(&mut late, "SELECT a AS late FROM t"));
        wait_until("it is held back", SOON, || {
            let delays = proxy.metric("trunkline_statement_delays_total", "")?;
            Ok((delays == Some(1.0)).then_some(()))
        })?;
        for server in [writer, reader] {
            server.sql("DROP TABLE here.t; CREATE VIEW here.t AS SELECT here.act() AS a")?;
        }
        ensure!(delayed.join().map_err(|_| anyhow!("it panicked"))?? == "1");
        Ok(())
    })?;
    let count = |server: &Server| server.value("SELECT COUNT(*) FROM here.done");
    ensure!(count(reader)?.as_deref() == Some("0"), "what acts has run on the reader");
    ensure!(count(writer)?.as_deref() == Some("1"), "what acts has not run once on the writer");
    let _ = text(&mut warned, "SHOW WARNINGS");
    ensure!(count(reader)?.as_deref() == Some("0"), "its warnings have run it on the reader");
    ensure!(count(writer)?.as_deref() == Some("1"), "its warnings have run it on the writer");
    Ok(())
}

#[test]
fn issue_16_a_proof_that_is_too_old_proves_nothing() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_a_proof_that_is_too_old_proves_nothing") {
            let (writer, reader) = start_two(flavour)?;
            check_age(&writer, &reader).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

fn check_restarted(server: &Server) -> Result<()> {
    server.sql(
        "CREATE DATABASE here; CREATE TABLE here.t (a INT, at DATETIME);
         INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (9001, 'N');
         INSERT INTO mysql.time_zone_name VALUES ('Far/Away', 9001);
         INSERT INTO mysql.time_zone_transition_type VALUES (9001, 0, 18000, 0, 'FAR')",
    )?;
    let config = format!(
        "workers = 1\n[[server]]\nhostgroup = 10\naddress = \"{}\"\n{}\
         [[rule]]\nid = 1\nmatch_digest = \"cached\"\ncache_ttl = 600000\napply = true\n",
        server.address(),
        user()
    );
    let proxy = Trunkline::start(&config)?;
    let (mut far, mut plain) = (client(&proxy, "here")?, client(&proxy, "here")?);
    far.sql("SET time_zone = 'Far/Away'")?;
    far.sql("INSERT INTO t VALUES (1, NOW())")?;
    // Its state was given to a connection that another session had.
    plain.sql("INSERT INTO t VALUES (2, NOW())")?;
    far.sql("INSERT INTO t VALUES (3, NOW())")?;
    let cached = "SELECT @@default_week_format AS cached";
    for _ in 0..3 {
        ensure!(text(&mut plain, cached)? == "0");
    }
    server.sql("DELETE FROM mysql.time_zone_name WHERE Name = 'Far/Away'")?;
    server.add_arg("--default-week-format=3");
    server.restart()?;
    wait_until("the server is back", SOON, || {
        Ok(text(&mut plain, "SELECT COUNT(*) FROM t").is_ok().then_some(()))
    })?;
    // The state is refused now, and nothing runs without it.
    fails(&mut far, "INSERT INTO t VALUES (4, NOW())", 1298)?;
    let rows = server.value("SELECT GROUP_CONCAT(a ORDER BY a) FROM here.t")?;
    ensure!(rows.as_deref() == Some("1,2,3"), "{rows:?}");
    let mut behind = client(&proxy, "here")?;
    ensure!(text(&mut behind, cached)? == "3", "an answer of before the restart");
    Ok(())
}

#[test]
fn issue_16_what_a_server_accepted_is_not_believed_of_the_next() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_what_a_server_accepted_is_not_believed_of_the_next") {
            let server = start(flavour, Options::default())?;
            check_restarted(&server).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// MySQL drops a number that has a point and an exponent without digits, and reads on.
#[test]
fn issue_16_numbers_that_mysql_drops_hide_nothing() -> Result<()> {
    if !is_available(Flavour::MySql, "issue_16_numbers_that_mysql_drops_hide_nothing") {
        return Ok(());
    }
    let (writer, reader) = start_two(Flavour::MySql)?;
    for server in [&writer, &reader] {
        server.sql("CREATE DATABASE here; CREATE TABLE here.done (a INT AUTO_INCREMENT KEY)")?;
        server.sql("SET GLOBAL log_bin_trust_function_creators = 1")?;
        server.sql(
            "CREATE FUNCTION here.act() RETURNS INT BEGIN INSERT INTO done VALUES (NULL); \
             RETURN 1; END",
        )?;
    }
    let proxy = Trunkline::start(&split(&writer, &reader))?;
    let mut one = client(&proxy, "here")?;
    for (count, number) in ["1.e", ".5e", "00.E"].into_iter().enumerate() {
        ensure!(text(&mut one, &format!("SELECT 3 {number}-- act()"))? == "2", "{number}");
        let (here, there) = ("SELECT COUNT(*) FROM here.done", (count + 1).to_string());
        ensure!(reader.value(here)?.as_deref() == Some("0"), "{number} has run on the reader");
        ensure!(writer.value(here)? == Some(there), "{number} has not run once on the writer");
    }
    Ok(())
}

/// A hint's variable stays its own session's, on its own connection, and ends with it. Who tracks
/// nothing is not told of it by the server, and neither is the proxy.
#[test]
fn issue_16_what_a_hint_of_mysql_leaves_set_reaches_nobody_else() -> Result<()> {
    let name = "issue_16_what_a_hint_of_mysql_leaves_set_reaches_nobody_else";
    if !is_available(Flavour::MySql, name) {
        return Ok(());
    }
    let server = start(Flavour::MySql, Options::default())?;
    server.sql("CREATE DATABASE here; CREATE TABLE here.done (a INT AUTO_INCREMENT KEY)")?;
    let proxy = Trunkline::start(&one_server(&server, 1, 3))?;
    let client = || Wire::login_with(&proxy, login(USER, PASSWORD, "here", PLAIN));
    for hint in ["SET_VAR(timestamp=5)", "SET_VAR(insert_id=500)"] {
        let mut one = client()?;
        for ends in [false, true] {
            one.query(&format!("SELECT /*+ {hint} */ NOW()"))?;
            if ends {
                one = client()?;
            }
            // They take all connections that nobody holds.
            let mut others = [client()?, client()?];
            for other in &mut others {
                other.query("BEGIN")?;
                let (now, later) = (other.value("SELECT NOW(6)")?, other.value("SELECT NOW(6)")?);
                ensure!(now < later, "the time stands still behind {hint}");
                other.query("INSERT INTO done VALUES (NULL)")?;
                let id = other.value("SELECT LAST_INSERT_ID() BETWEEN 1 AND 8")?;
                ensure!(id.as_deref() == Some("1"), "an id of another session's hint, {hint}");
            }
        }
    }
    Ok(())
}

/// Whether a greeting says that autocommit is on.
fn greets_with_autocommit(endpoint: impl Into<Endpoint>) -> Result<bool> {
    Ok(Wire::open(endpoint)?.read_greeting()?.status & AUTOCOMMIT != 0)
}

/// The first session behind a restart begins as the server's sessions begin by then.
#[test]
fn issue_16_a_default_of_autocommit_is_of_one_start_of_a_server() -> Result<()> {
    let name = "issue_16_a_default_of_autocommit_is_of_one_start_of_a_server";
    if !is_available(Flavour::MariaDb, name) {
        return Ok(());
    }
    let server = start(Flavour::MariaDb, Options::default())?;
    server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT)")?;
    let proxy = Trunkline::start(&one_server(&server, 1, 10))?;
    ensure!(text(&mut client(&proxy, "here")?, "SELECT @@autocommit")? == "1");
    for (arg, value) in [("--autocommit=0", "0"), ("--autocommit=1", "1")] {
        server.add_arg(arg);
        server.restart()?;
        wait_until("no connection to the server of before is left", SOON, || {
            Ok((proxy.metric("trunkline_server_connections", "")? == Some(0.0)).then_some(()))
        })?;
        let mut first = client(&proxy, "here")?;
        first.sql("INSERT INTO t VALUES (1)")?;
        ensure!(text(&mut first, "SELECT @@autocommit")? == value, "behind {arg}");
        drop(first);
        ensure!(greets_with_autocommit(&proxy)? == (value == "1"), "behind {arg}");
        ensure!(greets_with_autocommit(&server)? == (value == "1"), "directly: {arg}");
    }
    let rows = server.value("SELECT COUNT(*) FROM here.t")?;
    ensure!(rows.as_deref() == Some("1"), "what was not committed: {rows:?}");
    Ok(())
}

/// A MySQL does not tell that its sessions begin without autocommit. What a session that began with
/// it writes behind a restart is committed, as it is told.
#[test]
fn issue_16_a_session_keeps_autocommit_over_a_restart_of_its_server() -> Result<()> {
    let name = "issue_16_a_session_keeps_autocommit_over_a_restart_of_its_server";
    for flavour in FLAVOURS {
        if !is_available(flavour, name) {
            continue;
        }
        let server = start(flavour, Options::default())?;
        server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT)")?;
        let proxy = Trunkline::start(&one_server(&server, 1, 10))?;
        let mut session = client(&proxy, "here")?;
        session.sql("INSERT INTO t VALUES (1)")?;
        server.add_arg("--autocommit=0");
        server.restart()?;
        wait_until("the session goes on", SOON, || {
            Ok(session.sql("INSERT INTO t VALUES (2)").is_ok().then_some(()))
        })?;
        ensure!(text(&mut session, "SELECT @@autocommit")? == "1", "{flavour:?}");
        drop(session);
        let rows = server.value("SELECT GROUP_CONCAT(a) FROM here.t")?;
        ensure!(rows.as_deref() == Some("1,2"), "{flavour:?}: {rows:?}");
    }
    Ok(())
}

/// Carries connections to `port` of another loopback address to a server.
fn relay(from: (Ipv4Addr, u16), to: u16) -> Result<()> {
    let listener = TcpListener::bind(from)?;
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { return };
            let pump = |from: &TcpStream, to: &TcpStream| {
                let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
                std::thread::spawn(move || {
                    let _ended = io::copy(&mut from, &mut to);
                    let _gone = to.shutdown(std::net::Shutdown::Both);
                });
            };
            pump(&client, &server);
            pump(&server, &client);
        }
    });
    Ok(())
}

#[test]
fn issue_16_connections_follow_a_name_to_its_new_address() -> Result<()> {
    let test = "issue_16_connections_follow_a_name_to_its_new_address";
    if !is_available(Flavour::MariaDb, test) {
        return Ok(());
    }
    if !can_overlay() {
        skipped(test, "no mount namespace is to be had (root can make one)");
        return Ok(());
    }
    let (one, other) = start_two(Flavour::MariaDb)?;
    for server in [&one, &other] {
        server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT)")?;
    }
    let second = Ipv4Addr::new(127, 0, 0, 2);
    relay((second, one.port()), other.port())?;
    let folder = TempFolder::new("hosts")?;
    let hosts = folder.path().join("hosts");
    let name = |address: Ipv4Addr| {
        let text = format!("127.0.0.1 localhost\n{address} primary.example.com\n");
        std::fs::write(&hosts, text)
    };
    name(Ipv4Addr::LOCALHOST)?;
    let switch = folder.path().join("nsswitch.conf");
    std::fs::write(&switch, "hosts: files\n")?;
    let config = format!(
        "workers = 2\nresolve_interval = 100\n[[server]]\nhostgroup = 10\n\
         address = \"primary.example.com:{}\"\n{}",
        one.port(),
        user()
    );
    let overlays = [
        (hosts.clone(), Path::new("/etc/hosts").to_owned()),
        (switch, Path::new("/etc/nsswitch.conf").to_owned()),
    ];
    let proxy = Trunkline::start_overlaid(&config, &overlays)?;
    let (mut plain, mut begun) = (client(&proxy, "here")?, client(&proxy, "here")?);
    plain.sql("INSERT INTO t VALUES (1)")?;
    begun.sql("BEGIN")?;
    begun.sql("INSERT INTO t VALUES (2)")?;
    name(second)?;
    let port = other.port().to_string();
    wait_until("the name has another address", SOON, || {
        Ok((text(&mut plain, "SELECT @@port")? == port).then_some(()))
    })?;
    for number in 3..9 {
        plain.sql(&format!("INSERT INTO t VALUES ({number})"))?;
    }
    // What was begun ends where it was, as it would directly.
    begun.sql("COMMIT")?;
    begun.sql("INSERT INTO t VALUES (9)")?;
    let rows = |server: &Server| server.value("SELECT GROUP_CONCAT(a ORDER BY a) FROM here.t");
    ensure!(rows(&one)?.as_deref() == Some("1,2"), "{:?}", rows(&one)?);
    ensure!(rows(&other)?.as_deref() == Some("3,4,5,6,7,8,9"), "{:?}", rows(&other)?);
    Ok(())
}
