//! The configuration file: what a reload changes, and what a wrong file does not.

use std::fs;
use std::process::Command;

use anyhow::Result;
use trunkline_testkit::{TempFolder, trunkline_binary};

use crate::backends::{self, Config, PASSWORD, TIMEOUT, status};
use crate::stage::wait_pins;
use crate::wire::{Wire, refused};

/// A write whose names are not told in time holds its session, on a busy machine too.
const PATIENT: &str = "catalog_wait_ms = 10000";

#[test]
fn a_reload_changes_users_rules_and_servers_and_drops_nobody() -> Result<()> {
    let Some(server) = backends::mariadb("a_reload_changes")? else { return Ok(()) };
    for name in ["staying", "leaving", "coming"] {
        backends::account(server, name)?;
    }
    let proxy = Config::new(PATIENT, server).user("staying").user("leaving").start()?;
    let mut staying = Wire::login(&proxy, "staying", PASSWORD, "staying")?;
    let mut leaving = Wire::login(&proxy, "leaving", PASSWORD, "")?;
    staying.one("CREATE TABLE t (a INT)")?;
    staying.one("BEGIN")?;
    staying.one("INSERT INTO t VALUES (1)")?;
    assert_eq!(refused(Wire::login(&proxy, "coming", PASSWORD, ""))?.code, 1045);

    let rule = "[[rule]]\nid = 1\nmatch_digest = \"^SELECT 'blocked'\"\n\
                error_msg = \"not here\"\napply = true\n";
    let rule = rule.replace("'blocked'", "blocked");
    let socket = format!("unix:{}", server.socket().display());
    let other = format!("[[server]]\nhostgroup = 30\naddress = \"{socket}\"\n");
    let config =
        Config::new(PATIENT, server).user("staying").user("coming").more(&other).more(&rule);
    let mark = proxy.reload(config.text())?;
    proxy.wait_log(mark, "in force", TIMEOUT)?;

    // The transaction goes on where it was.
    staying.one("INSERT INTO t VALUES (2)")?;
    assert!(staying.one("COMMIT")?.is_ok());
    assert_eq!(staying.value("SELECT COUNT(*) FROM t")?.as_deref(), Some("2"));
    assert_eq!(staying.fails("SELECT blocked FROM t")?.parts(), (1148, "42000", "not here"));
    assert_eq!(leaving.value("SELECT 5")?.as_deref(), Some("5"));
    assert_eq!(refused(Wire::login(&proxy, "leaving", PASSWORD, ""))?.code, 1045);
    let mut coming = Wire::login(&proxy, "coming", PASSWORD, "")?;
    assert_eq!(coming.value("SELECT 6")?.as_deref(), Some("6"));
    let servers = status(&proxy, "/servers")?;
    assert_eq!(servers.as_array().map(Vec::len), Some(2), "{servers:#}");
    assert_eq!(status(&proxy, "/process/configuration/version")?, 2);

    // The other server takes over, and the first one goes. What the table is may not be told yet.
    wait_pins(&proxy, &[])?;
    let config = Config::at(PATIENT, &socket).user("staying").user("coming");
    let mark = proxy.reload(config.text())?;
    proxy.wait_log(mark, "in force", TIMEOUT)?;
    assert_eq!(staying.value("SELECT 7")?.as_deref(), Some("7"));
    let host = "SELECT SUBSTRING_INDEX(host, ':', 1) FROM information_schema.processlist
                WHERE id = CONNECTION_ID()";
    assert_eq!(staying.value(host)?.as_deref(), Some("localhost"));
    assert_eq!(staying.fails("SELECT blocked FROM t")?.code, 1054, "the rule has gone");
    Ok(())
}

#[test]
fn an_unchanged_file_changes_nothing() -> Result<()> {
    let Some(server) = backends::mariadb("an_unchanged_file")? else { return Ok(()) };
    backends::account(server, "unchanged")?;
    let config = Config::new("", server).user("unchanged");
    let proxy = config.start()?;
    let mark = proxy.reload(config.text())?;
    proxy.wait_log(mark, "nothing new", TIMEOUT)?;
    assert_eq!(status(&proxy, "/process/configuration/version")?, 1);
    Ok(())
}

#[test]
fn a_wrong_file_changes_nothing_and_names_the_line() -> Result<()> {
    let Some(server) = backends::mariadb("a_wrong_file")? else { return Ok(()) };
    backends::account(server, "careful")?;
    let config = Config::new("", server).user("careful");
    let proxy = config.start()?;
    let mut client = Wire::login(&proxy, "careful", PASSWORD, "")?;
    for (wrong, needle) in [
        ("[[user]]\nname = \"x\"\npasword = \"y\"\n", "pasword"),
        ("[[user]]\nname = \"x\"\n", "has no `password`"),
        ("[[server]]\nhostgroup = 1\naddress = \"10.0.0.1:99999\"\n", "address"),
        ("[[rule]]\nid = 1\nmatch_digest = \"(\"\n", "match_digest"),
        ("[[user]]\nname = \"careful\"\npassword = \"z\"\n", "careful"),
        ("[[broken\n", "trunkline.toml"),
    ] {
        let text = config.clone().more(wrong);
        let mark = proxy.reload(text.text())?;
        let line = proxy.wait_log(mark, needle, TIMEOUT)?;
        // The line in the file: two to four are added before the text.
        let first = text.text().lines().count() + 2 - wrong.lines().count() + 1;
        let last = first + 2 + wrong.lines().count();
        let is_named = (first..=last).any(|number| line.contains(&format!(":{number}")));
        assert!(is_named, "no line of {first} to {last} in: {line}");
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
        assert!(Wire::login(&proxy, "careful", PASSWORD, "").is_ok());
    }
    assert_eq!(status(&proxy, "/process/configuration/version")?, 1);
    assert!(status(&proxy, "/process/configuration/last_error")?.is_string());
    assert_eq!(proxy.metric("trunkline_configuration_failed", "")?, Some(1.0));
    Ok(())
}

fn check(text: &str) -> Result<(bool, String)> {
    let folder = TempFolder::new("check")?;
    let file = folder.path().join("t.toml");
    std::fs::write(&file, text)?;
    let output = Command::new(trunkline_binary()?).arg("check").arg(&file).output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn check_says_what_serve_would() -> Result<()> {
    let good = "listen = [\"127.0.0.1:0\"]\n[[server]]\nhostgroup = 1\naddress = \"[::1]:3306\"\n\
                [[user]]\nname = \"u\"\npassword = \"p\"\ndefault_hostgroup = 1\n";
    let (ok, said) = check(&good.replace("127.0.0.1:0", "127.0.0.1:6033"))?;
    assert!(ok && said.contains("ok"), "{said}");
    let (ok, said) = check(&format!("worker = 2\n{good}"))?;
    assert!(!ok && said.contains("worker") && said.contains("workers"), "{said}");
    assert!(said.contains("t.toml:1"), "{said}");
    let (ok, said) = check("")?;
    assert!(!ok && said.contains("[[server]]"), "{said}");
    Ok(())
}

#[test]
fn a_configuration_of_proxysql_is_served_from_a_folder() -> Result<()> {
    let folder = TempFolder::new("cnf")?;
    let file = folder.path().join("proxysql.cnf");
    fs::write(&file, "mysql_users=( { username=\"u\"; password=\"p\"; } )\n")?;
    let output =
        Command::new(trunkline_binary()?).args(["serve", "--config"]).arg(&file).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("serve --datadir FOLDER"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    Ok(())
}

#[test]
fn the_greeting_follows_the_setting() -> Result<()> {
    let Some(server) = backends::mariadb("the_greeting_follows")? else { return Ok(()) };
    backends::account(server, "greeted")?;
    let config = Config::new("", server).user("greeted");
    let proxy = config.start()?;
    let greeting = |user: &str| -> Result<String> {
        Ok(Wire::login(&proxy, user, PASSWORD, "")?.greeting()?.server_version.clone())
    };
    let learned = greeting("greeted")?;
    assert!(learned.contains("MariaDB"), "{learned}");
    let set = Config::new("server_version = \"8.0.99-own\"", server).user("greeted");
    let mark = proxy.reload(set.text())?;
    proxy.wait_log(mark, "in force", TIMEOUT)?;
    assert_eq!(greeting("greeted")?, "8.0.99-own");
    let mark = proxy.reload(config.text())?;
    proxy.wait_log(mark, "in force", TIMEOUT)?;
    assert_eq!(greeting("greeted")?, learned);
    Ok(())
}

#[test]
fn a_local_server_is_reached_by_the_path_of_its_socket() -> Result<()> {
    for server in backends::each("a_local_server_is_reached")? {
        backends::account(server, "local")?;
        // As operators write it, without a scheme.
        let path = server.socket().display().to_string();
        let proxy = Config::at("", &path).user("local").start()?;
        let mut client = Wire::login(&proxy, "local", PASSWORD, "local")?;
        client.one("CREATE TABLE t (a INT)")?;
        client.one("INSERT INTO t VALUES (1), (2)")?;
        assert_eq!(client.value("SELECT SUM(a) FROM t")?.as_deref(), Some("3"));
        let long = client.value("SELECT REPEAT('x', 9000000)")?;
        assert_eq!(long.map(|text| text.len()), Some(9_000_000));
        let host = "SELECT SUBSTRING_INDEX(host, ':', 1) FROM information_schema.processlist
                    WHERE id = CONNECTION_ID()";
        assert_eq!(client.value(host)?.as_deref(), Some("localhost"), "{path}");
        let row = format!("server=\"unix:{path}\",state=\"ONLINE\"");
        assert_eq!(proxy.metric("trunkline_server_state", &row)?, Some(1.0));
    }
    Ok(())
}
