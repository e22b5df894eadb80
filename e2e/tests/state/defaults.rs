//! Defaults and rights that a client has set for new sessions reach those that log in behind it.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Options, Server, Trunkline};

use crate::stage::{FLAVOURS, USER, client, fails, is_available, one_server, start, text};

/// What is set, what asks for it, and its answer behind that.
const DEFAULTS: [(&str, &str, &str); 5] = [
    ("SET GLOBAL group_concat_max_len = 4321", "SELECT @@group_concat_max_len", "4321"),
    ("SET GLOBAL sql_mode = 'ANSI_QUOTES'", "SELECT @@sql_mode", "ANSI_QUOTES"),
    ("SET @@GLOBAL.time_zone = '+03:00'", "SELECT @@time_zone", "+03:00"),
    ("SET @a = 1, GLOBAL sort_buffer_size = 65536", "SELECT @@sort_buffer_size", "65536"),
    ("SET GLOBAL autocommit = 0", "SELECT @@autocommit", "0"),
];

fn check(server: &Server) -> Result<()> {
    server.sql(&format!(
        "GRANT ALL ON *.* TO {}@'%'; CREATE DATABASE here; CREATE TABLE here.t (a INT)",
        USER
    ))?;
    let proxy = Trunkline::start(&one_server(server, 2, 10))?;
    let mut setter = client(&proxy, "here")?;
    for (set, question, wanted) in DEFAULTS {
        // Connections of both workers rest.
        for _ in 0..6 {
            client(&proxy, "here")?.sql("SELECT 1")?;
        }
        setter.sql(set)?;
        for _ in 0..6 {
            let found = text(&mut client(&proxy, "here")?, question)?;
            ensure!(found == wanted, "{set}: {found} behind it, not {wanted}");
        }
    }
    // Autocommit is off for those that log in now, and what they do not commit is gone.
    client(&proxy, "here")?.sql("INSERT INTO t VALUES (1)")?;
    let mut one = client(&proxy, "here")?;
    ensure!(text(&mut one, "SELECT COUNT(*) FROM t")? == "0");
    setter.sql("INSERT INTO t VALUES (1)")?;
    ensure!(server.value("SELECT COUNT(*) FROM here.t")?.as_deref() == Some("1"), "set before");
    setter.sql("SET GLOBAL autocommit = 1")?;
    client(&proxy, "here")?.sql("INSERT INTO t VALUES (1)")?;
    ensure!(server.value("SELECT COUNT(*) FROM here.t")?.as_deref() == Some("2"));
    Ok(())
}

#[test]
fn issue_16_a_new_session_begins_with_the_defaults_of_now() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_a_new_session_begins_with_the_defaults_of_now") {
            check(&start(flavour, Options::default())?).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// Connections of both workers rest in this schema.
fn rest(proxy: &Trunkline, schema: &str) -> Result<()> {
    for _ in 0..6 {
        client(proxy, schema)?.sql("SELECT COUNT(*) FROM t")?;
    }
    Ok(())
}

/// Servers apply default roles at the login, and rights on a schema when it is chosen.
fn check_accounts(server: &Server) -> Result<()> {
    server.sql(&format!(
        "REVOKE ALL PRIVILEGES, GRANT OPTION FROM {USER}@'%'; GRANT CREATE USER ON *.* TO {USER}@'%'"
    ))?;
    for schema in ["here", "there"] {
        server.sql(&format!(
            "CREATE DATABASE {schema}; CREATE TABLE {schema}.t (a INT);
             GRANT ALL ON {schema}.* TO {USER}@'%' WITH GRANT OPTION"
        ))?;
    }
    server.sql(&format!("CREATE ROLE accountant; GRANT accountant TO {USER}@'%'"))?;
    let proxy = Trunkline::start(&one_server(server, 2, 10))?;
    let forms = match server.flavour() {
        Flavour::MariaDb => vec![
            ("SET DEFAULT ROLE accountant".to_owned(), true),
            ("SET DEFAULT ROLE NONE".to_owned(), false),
        ],
        Flavour::MySql => vec![
            (format!("SET DEFAULT ROLE accountant TO {USER}@'%'"), true),
            (format!("SELECT 1; ALTER USER {USER}@'%' DEFAULT ROLE NONE"), false),
            (format!("ALTER USER {USER}@'%' DEFAULT ROLE ALL"), true),
            (format!("SET DEFAULT ROLE NONE TO {USER}@'%'"), false),
        ],
    };
    for (set, is_given) in forms {
        rest(&proxy, "here")?;
        client(&proxy, "here")?.sql(&set)?;
        for _ in 0..6 {
            let found = text(&mut client(&proxy, "here")?, "SELECT CURRENT_ROLE()")?;
            ensure!(found.contains("accountant") == is_given, "{set}: {found}");
        }
    }
    rest(&proxy, "there")?;
    client(&proxy, "here")?.sql(&format!("REVOKE SELECT ON there.* FROM {USER}@'%'"))?;
    for _ in 0..6 {
        fails(&mut client(&proxy, "there")?, "SELECT COUNT(*) FROM t", 1142)?;
    }
    Ok(())
}

#[test]
fn issue_16_a_new_session_begins_with_the_roles_and_rights_of_now() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_a_new_session_begins_with_the_roles_and_rights_of_now") {
            let server = start(flavour, Options::default())?;
            check_accounts(&server).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}
