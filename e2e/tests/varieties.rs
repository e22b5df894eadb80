//! Servers with other settings than most: what they make of names, bytes and settings is known, or
//! taken for the worst.

use anyhow::{Context, Result, ensure};
use trunkline_session::backend::ServerLogin;
use trunkline_testkit::{Flavour, Options, Server, SqlClient, Trunkline};

use crate::stage::{FLAVOURS, PASSWORD, USER, before, client, is_available, start, text};
use crate::wire::{PLAIN, Shape, Wire, login};

/// A writer and a reader that know nothing of each other.
pub fn split(writer: &Server, reader: &Server) -> Result<Trunkline> {
    Trunkline::start(&format!(
        "workers = 1\n[[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 10\n",
        writer.address(),
        reader.address(),
    ))
}

/// Two servers with these arguments, and a function on both that leaves a row where it runs.
pub fn start_acting(flavour: Flavour, args: &[&str]) -> Result<(Server, Server)> {
    let options = || args.iter().fold(Options::default(), |options, arg| options.arg(*arg));
    let (writer, reader) = (start(flavour, options())?, start(flavour, options())?);
    for server in [&writer, &reader] {
        server.sql("CREATE DATABASE here; CREATE TABLE here.done (a INT)")?;
        server.sql("SET GLOBAL log_bin_trust_function_creators = 1")?;
        server.sql(
            "CREATE FUNCTION here.act() RETURNS INT BEGIN INSERT INTO done VALUES (1); \
             RETURN 1; END",
        )?;
    }
    Ok((writer, reader))
}

/// How often it has run on the writer and on the reader.
pub fn acted(writer: &Server, reader: &Server) -> Result<[String; 2]> {
    let count = |server: &Server| {
        server.value("SELECT COUNT(*) FROM here.done")?.context("no count of what was done")
    };
    Ok([count(writer)?, count(reader)?])
}

#[test]
fn a_name_in_ddl_is_folded_as_the_server_folds_it() -> Result<()> {
    let name = "a_name_in_ddl_is_folded_as_the_server_folds_it";
    if !is_available(Flavour::MariaDb, name) {
        return Ok(());
    }
    let (writer, reader) = start_acting(Flavour::MariaDb, &["--lower-case-table-names=1"])?;
    for server in [&writer, &reader] {
        server.sql("CREATE TABLE here.vi (a INT); INSERT INTO here.vi VALUES (1)")?;
    }
    let proxy = split(&writer, &reader)?;
    let (mut one, mut other) = (client(&proxy, "here")?, client(&proxy, "here")?);
    for _ in 0..2 {
        ensure!(text(&mut one, "SELECT a FROM vi")? == "1");
    }
    other.sql("DROP TABLE `V\u{130}`")?;
    other.sql("CREATE VIEW `V\u{130}` AS SELECT act() AS a")?;
    reader.sql("DROP TABLE here.vi; CREATE VIEW here.vi AS SELECT here.act() AS a")?;
    text(&mut one, "SELECT a FROM vi")?;
    let acted = acted(&writer, &reader)?;
    ensure!(acted == ["1", "0"], "on the writer and the reader: {acted:?}");
    Ok(())
}

/// In latin1 the function is a part of a string, in gbk it is not.
const IN_GBK: &[u8] = b"SELECT '\xBF\\', act() -- '";

/// A client that says latin1, or utf8mb4, when it logs in, and nothing else.
fn check_charset(args: &[&str], settings: &str, collation: u16, sees_act: bool) -> Result<()> {
    let (writer, reader) = start_acting(Flavour::MariaDb, args)?;
    for server in [&writer, &reader] {
        server.sql(settings)?;
    }
    let proxy = split(&writer, &reader)?;
    // The very first text of the proxy, one of the same session, and one of another.
    for round in 1..=2 {
        let named = ServerLogin { collation, ..login(USER, PASSWORD, "here", PLAIN) };
        let mut one = Wire::login_with(&proxy, named)?;
        for count in [2 * round - 1, 2 * round] {
            one.exchange(3, IN_GBK, Shape::Results)?;
            let expected = if sees_act { count } else { 0 };
            let acted = acted(&writer, &reader)?;
            ensure!(acted == [expected.to_string(), "0".to_owned()], "{count}: {acted:?}");
        }
    }
    Ok(())
}

#[test]
fn texts_are_read_in_the_servers_character_set_where_it_takes_no_other() -> Result<()> {
    let name = "texts_are_read_in_the_servers_character_set_where_it_takes_no_other";
    if !is_available(Flavour::MariaDb, name) {
        return Ok(());
    }
    let skips = ["--skip-character-set-client-handshake", "--character-set-server=gbk"];
    for collation in [8, 45] {
        check_charset(&skips, "DO 1", collation, true)
            .with_context(|| format!("without handshake, {collation}"))?;
    }
    // It is for those who may not administer connections.
    let init = format!(
        "SET GLOBAL init_connect = 'SET NAMES gbk'; \
         REVOKE ALL PRIVILEGES, GRANT OPTION FROM {USER}; GRANT ALL ON here.* TO {USER}"
    );
    check_charset(&[], &init, 8, true).context("init_connect")?;
    check_charset(&[], "DO 1", 8, false).context("as named")
}

/// A session's list of statements, though the server keeps one for everybody.
fn check_profiles(flavour: Flavour) -> Result<()> {
    let server = start(flavour, Options::default())?;
    server.sql(
        "CREATE DATABASE here; CREATE TABLE here.t (a VARCHAR(40)); SET GLOBAL profiling = 1",
    )?;
    let proxy = before(&server, 1, 1)?;
    let mut others = client(&proxy, "here")?;
    let mut one = client(&proxy, "here")?;
    let shown = |one: &mut SqlClient| -> Result<String> {
        let profiles = one.sql("SHOW PROFILES")?;
        Ok(format!("{profiles:?}{:?}", one.sql("SELECT * FROM information_schema.PROFILING")?))
    };
    for round in ["at first", "behind a reset"] {
        others.sql("UPDATE t SET a = 'secret'")?;
        let shown = shown(&mut one)?;
        ensure!(!shown.contains("secret") && !shown.contains("query end"), "{round}: {shown}");
        // What is unseen has the connection reset, or replaced.
        others.sql("SET @a = 1")?;
        others.sql("SELECT GET_LOCK('here', 0)")?;
        others = client(&proxy, "here")?;
    }
    // Nothing is left of the `SET` that has seen to it.
    one.sql("SELECT 1")?;
    let warnings = one.sql("SHOW WARNINGS")?;
    ensure!(warnings.is_empty(), "{warnings:?}");
    let mut new = client(&proxy, "here")?;
    let warnings = new.sql("SHOW WARNINGS")?;
    ensure!(warnings.is_empty(), "{warnings:?}");
    // Who asks for it has a list, of statements of one's own.
    one.sql("SET profiling = 1")?;
    one.sql("SELECT 'own'")?;
    let own = shown(&mut one)?;
    ensure!(own.contains("own") && !own.contains("secret"), "{own}");
    drop(one);
    let shown = shown(&mut new)?;
    ensure!(!shown.contains("own") && !shown.contains("secret"), "{shown}");
    Ok(())
}

#[test]
fn profiles_of_other_sessions_are_not_shown_where_servers_keep_them() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "profiles_of_other_sessions_are_not_shown") {
            check_profiles(flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// The last texts that the optimizer has worked on.
fn check_traces(server: &Server) -> Result<()> {
    server.sql(
        "CREATE DATABASE here; CREATE TABLE here.t (a VARCHAR(40)); CREATE DATABASE there;
         CREATE VIEW there.traces AS SELECT query FROM information_schema.OPTIMIZER_TRACE;
         SET GLOBAL optimizer_trace = 'enabled=on', GLOBAL optimizer_trace_offset = -9,
         GLOBAL optimizer_trace_limit = 9",
    )?;
    let proxy = before(server, 1, 1)?;
    let (mut others, mut one) = (client(&proxy, "here")?, client(&proxy, "here")?);
    for _ in 0..2 {
        others.sql("UPDATE t SET a = 'secret'")?;
        others.sql("SELECT GET_LOCK('here', 0)")?;
        others = client(&proxy, "here")?;
        for text in
            ["SELECT query FROM information_schema.OPTIMIZER_TRACE", "SELECT * FROM there.traces"]
        {
            let shown = format!("{:?}", one.sql(text)?);
            ensure!(!shown.contains("secret"), "{text}: {shown}");
        }
    }
    one.sql("SET optimizer_trace = 'enabled=on', optimizer_trace_limit = 9")?;
    one.sql("UPDATE t SET a = 'own'")?;
    let own = one.sql("SELECT query FROM information_schema.OPTIMIZER_TRACE")?;
    ensure!(format!("{own:?}").contains("own"), "{own:?}");
    Ok(())
}

#[test]
fn traces_of_other_sessions_are_not_shown_where_servers_keep_them() -> Result<()> {
    let name = "traces_of_other_sessions_are_not_shown_where_servers_keep_them";
    if !is_available(Flavour::MySql, name) {
        return Ok(());
    }
    check_traces(&start(Flavour::MySql, Options::default())?)
}
