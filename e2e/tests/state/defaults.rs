//! Defaults and rights that a client has set for new sessions reach those that log in behind it.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{AuthPlugin, Flavour, Options, Server, Trunkline};

use crate::stage::{
    FLAVOURS, PASSWORD, USER, client, fails, is_available, one_server, start, statements_of, text,
};

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

/// A server that takes one connection, which users with and without a default role share in turn.
fn check_role_over_users(server: &Server) -> Result<()> {
    for user in ["carl", "dora"] {
        server.create_user(user, PASSWORD, AuthPlugin::ServerDefault)?;
        server.sql(&format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {user}@'%'"))?;
    }
    let default = match server.flavour() {
        Flavour::MariaDb => "SET DEFAULT ROLE reader FOR carl@'%'",
        Flavour::MySql => "ALTER USER carl@'%' DEFAULT ROLE reader",
    };
    server.sql(&format!(
        "CREATE DATABASE secret; CREATE TABLE secret.s (a INT); INSERT INTO secret.s VALUES (7);
         CREATE ROLE reader; GRANT SELECT ON secret.* TO reader; GRANT reader TO carl@'%';
         GRANT reader TO CURRENT_USER(); {default}"
    ))?;
    let user = |name: &str| format!("[[user]]\nname = \"{name}\"\npassword = \"{PASSWORD}\"\n");
    let config = format!("{}{}{}", one_server(server, 1, 1), user("carl"), user("dora"));
    let proxy = Trunkline::start(&config)?;
    let mut carl = proxy.connect("carl", PASSWORD, "")?;
    let mut dora = proxy.connect("dora", PASSWORD, "")?;
    for _ in 0..3 {
        ensure!(text(&mut carl, "SELECT a FROM secret.s")? == "7");
        fails(&mut dora, "SELECT a FROM secret.s", 1142)?;
        let role = text(&mut dora, "SELECT COALESCE(NULLIF(CURRENT_ROLE(), 'NONE'), 'none')")?;
        ensure!(role == "none", "dora has the role {role}");
    }
    Ok(())
}

#[test]
fn issue_16_a_connection_that_changes_hands_has_no_role_of_the_user_before() -> Result<()> {
    let name = "issue_16_a_connection_that_changes_hands_has_no_role_of_the_user_before";
    for flavour in FLAVOURS {
        if is_available(flavour, name) {
            let server = start(flavour, Options::default())?;
            check_role_over_users(&server).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// The one server is writer and reader: two hostgroups have connections to it.
fn check_own_reader(server: &Server) -> Result<()> {
    server.sql(&format!("GRANT ALL ON *.* TO {USER}@'%'"))?;
    server.sql("CREATE DATABASE here; CREATE TABLE here.t (a INT)")?;
    let reader = format!("[[server]]\nhostgroup = 9\naddress = \"{}\"\n", server.address());
    let group = "[[replication]]\nwriter_hostgroup = 0\nreader_hostgroup = 9\n";
    let proxy = Trunkline::start(&format!("{}{reader}{group}", one_server(server, 1, 10)))?;
    let mut setter = client(&proxy, "here")?;
    let asked = "SELECT CONCAT(FROM_UNIXTIME(0)) FROM t LIMIT 1";
    setter.sql("INSERT INTO t VALUES (1)")?;
    for _ in 0..3 {
        client(&proxy, "here")?.sql(asked)?;
    }
    ensure!(statements_of(&proxy, 9)? > 0, "no read went to the reader");
    setter.sql("SET GLOBAL time_zone = '+03:00'")?;
    let found = text(&mut client(&proxy, "here")?, asked)?;
    ensure!(found == "1970-01-01 03:00:00", "{found}");
    Ok(())
}

#[test]
fn issue_16_new_defaults_are_met_in_every_hostgroup_of_their_server() -> Result<()> {
    let name = "issue_16_new_defaults_are_met_in_every_hostgroup_of_their_server";
    for flavour in FLAVOURS {
        if is_available(flavour, name) {
            let server = start(flavour, Options::default())?;
            check_own_reader(&server).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}
