//! Defaults that a client has set for new sessions reach those that log in behind it.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Options, Server, Trunkline};

use crate::stage::{FLAVOURS, client, is_available, one_server, start, text};

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
        crate::stage::USER
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
