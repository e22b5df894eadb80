//! Users that nobody wrote into the configuration: servers' grant tables tell them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, MariaDb, MySql, Options, Server, Trunkline, wait_until};

use super::{behind, from};
use crate::backends::{self, Config, PASSWORD, TIMEOUT};
use crate::tls::certs;
use crate::wire::{Endpoint, MODERN, Wire, login, refused};

/// Reads the tables on the server, and is nobody's account on the proxy.
const READER: &str = "grant_reader";

/// Servers of their own: accounts come and go here that other tests should not meet.
pub fn servers(test: &str) -> Result<Vec<Server>> {
    let mut servers = Vec::new();
    if backends::mariadb(test)?.is_some() {
        servers.push(MariaDb::start(Options::default())?);
    }
    if backends::mysql(test)?.is_some() {
        servers.push(MySql::start(Options::default())?);
    }
    for server in &servers {
        backends::account(server, READER)?;
        server.sql(&format!("GRANT SELECT ON mysql.* TO {READER}"))?;
    }
    Ok(servers)
}

fn proxy(server: &Server, settings: &str) -> Result<Trunkline> {
    config(server, settings).start()
}

/// A proxy that takes its users from this server.
pub fn config(server: &Server, settings: &str) -> Config {
    let settings = format!(
        "server_users_account = \"{READER}\"\nserver_users_hostgroup = 10\n\
         proxy_protocol_networks = [\"127.0.0.1\"]\n{settings}"
    );
    let password = PASSWORD.replace('\\', "\\\\");
    let keys = format!("password = \"{password}\"\nactive = false");
    Config::new(&settings, server).user_with(READER, &keys)
}

/// An account with this password, by the server's default plug-in.
pub fn create(server: &Server, name: &str, host: &str, password: &str, more: &str) -> Result<()> {
    let password = password.replace('\\', "\\\\").replace('\'', "''");
    server.sql(&format!(
        "CREATE USER '{name}'@'{host}' IDENTIFIED BY '{password}' {more}; \
         GRANT SELECT ON *.* TO '{name}'@'{host}'"
    ))?;
    Ok(())
}

fn value(mut client: Wire, statement: &str) -> Result<Option<String>> {
    client.value(statement)
}

#[test]
fn users_of_servers_log_in_without_being_configured() -> Result<()> {
    for server in servers("users_of_servers_log_in")? {
        create(&server, "known", "%", "first", "")?;
        let proxy = proxy(&server, "")?;
        let mut client = Wire::login(&proxy, "known", "first", "mysql")?;
        assert_eq!(client.value("SELECT CURRENT_USER()")?.as_deref(), Some("known@%"));
        assert_eq!(refused(Wire::login(&proxy, "known", "wrong", ""))?.code, 1045);
        assert_eq!(refused(Wire::login(&proxy, "known", "", ""))?.code, 1045);
        assert_eq!(refused(Wire::login(&proxy, "stranger", "first", ""))?.code, 1045);
        // Who reads the tables is no user of the proxy.
        assert_eq!(refused(Wire::login(&proxy, READER, PASSWORD, ""))?.code, 1045);

        // One that is new is found at its first login, and a new password at its first.
        create(&server, "newcomer", "%", "second", "")?;
        let newcomer = Wire::login(&proxy, "newcomer", "second", "")?;
        assert_eq!(value(newcomer, "SELECT 6 * 7")?.as_deref(), Some("42"));
        server.sql("ALTER USER known IDENTIFIED BY 'third'")?;
        let changed = Wire::login(&proxy, "known", "third", "")?;
        assert_eq!(value(changed, "SELECT 6 * 7")?.as_deref(), Some("42"));
        assert_eq!(refused(Wire::login(&proxy, "known", "first", ""))?.code, 1045);
        client.change_user("newcomer", "second", "")?;
        assert_eq!(client.value("SELECT CURRENT_USER()")?.as_deref(), Some("newcomer@%"));
        let local = Wire::login(Endpoint::Unix(proxy.socket()), "newcomer", "second", "")?;
        assert_eq!(value(local, "SELECT 5")?.as_deref(), Some("5"));
    }
    Ok(())
}

/// Where logins ask for nothing, the interval decides.
fn forgets_accounts_at_the_interval(server: &Server) -> Result<()> {
    create(server, "leaver", "%", "first", "")?;
    let proxy = proxy(server, "server_users_interval = 1000\nserver_users_check_timeout = 0")?;
    let mut client = Wire::login(&proxy, "leaver", "first", "")?;
    assert_eq!(client.value("SELECT 1")?.as_deref(), Some("1"));
    server.sql("ALTER USER leaver ACCOUNT LOCK")?;
    wait_until("the lock", TIMEOUT, || {
        Ok(Wire::login(&proxy, "leaver", "first", "").is_err().then_some(()))
    })?;
    server.sql("ALTER USER leaver ACCOUNT UNLOCK")?;
    let again = wait_until("the lock's end", TIMEOUT, || {
        Ok(Wire::login(&proxy, "leaver", "first", "").ok())
    })?;
    assert_eq!(value(again, "SELECT 2")?.as_deref(), Some("2"));
    assert_eq!(proxy.metric("trunkline_server_user_lookups_total", "result=\"told\"")?, Some(0.0));
    Ok(())
}

#[test]
fn a_password_that_changed_is_none_within_a_second() -> Result<()> {
    for server in servers("a_password_that_changed")? {
        create(&server, "proven", "%", "first", "")?;
        create(&server, "asked_often", "%", "first", "")?;
        // It is not the interval that finds it out.
        let proxy = proxy(&server, "server_users_interval = 86400000")?;
        let told = || proxy.metric("trunkline_server_user_lookups_total", "result=\"told\"");
        let enter = |name: &str, password: &str| Wire::login(&proxy, name, password, "");
        // The first time by the password itself, from then on by the quick way.
        for _ in 0..2 {
            assert_eq!(value(enter("proven", "first")?, "SELECT 5")?.as_deref(), Some("5"));
        }
        let begun = Instant::now();
        server.sql("ALTER USER proven IDENTIFIED BY 'second'")?;
        wait_until("the old password's end", TIMEOUT, || {
            Ok(enter("proven", "first").is_err().then_some(()))
        })?;
        ensure!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!(value(enter("proven", "second")?, "SELECT 6")?.as_deref(), Some("6"));
        server.sql("DROP USER proven")?;
        wait_until("the user's end", TIMEOUT, || {
            Ok(enter("proven", "second").is_err().then_some(()))
        })?;
        // Many logins of one user ask one question a second.
        let (begun, before) = (Instant::now(), told()?.context("a count")?);
        for _ in 0..50 {
            drop(enter("asked_often", "first")?);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let questions = told()?.context("a count")? - before;
        ensure!(questions >= 1.0 && questions <= seconds + 1.0, "{questions} in {seconds} s");
        forgets_accounts_at_the_interval(&server)?;
    }
    Ok(())
}

#[test]
fn host_patterns_decide_who_a_client_is() -> Result<()> {
    for server in servers("host_patterns_decide")? {
        // The server sees the proxy's address; what a client may be is decided by its own.
        create(&server, "placed", "127.0.0.1", "inside", "")?;
        create(&server, "placed", "10.1.%", "inside", "")?;
        create(&server, "placed", "10.1.2.3", "elsewhere", "")?;
        create(&server, "placed", "192.168.0.0/255.255.0.0", "masked", "")?;
        let proxy = proxy(&server, "")?;
        let enter =
            |address: &str, password: &str| behind(&proxy, &from(address), "placed", password);
        let inside = enter("10.1.7.7", "inside")?;
        assert_eq!(value(inside, "SELECT 5")?.as_deref(), Some("5"));
        // A more specific account hides the other one.
        assert_eq!(refused(enter("10.1.2.3", "inside"))?.code, 1045);
        assert_eq!(refused(enter("203.0.113.9", "inside"))?.code, 1045);
        assert_eq!(refused(enter("10.2.2.3", "inside"))?.code, 1045);
        // Who proves a password that the server does not take for the proxy's host reaches
        // nothing, and no connection of another one's.
        let mut masked = enter("192.168.4.4", "masked")?;
        let error = masked.one("SELECT 5")?;
        assert_eq!(error.error().map(|error| error.code), Some(1045), "{error:?}");
        let inside = enter("10.1.7.8", "inside")?;
        assert_eq!(value(inside, "SELECT 6")?.as_deref(), Some("6"));
    }
    Ok(())
}

#[test]
fn requirements_and_limits_of_accounts_are_kept() -> Result<()> {
    for server in servers("requirements_and_limits")? {
        create(&server, "sealed", "%", "first", "REQUIRE SSL")?;
        create(&server, "few", "%", "first", "WITH MAX_USER_CONNECTIONS 1")?;
        let proxy = proxy(&server, "")?;
        let error = refused(Wire::login(&proxy, "sealed", "first", ""))?;
        assert!(error.code == 1045 && error.text.contains("TLS is required"), "{error:?}");
        let config = certs::client(&[&rustls::version::TLS13], None)?;
        assert!(Wire::login_tls(&proxy, login("sealed", "first", "", MODERN), &config).is_ok());
        let first = Wire::login(&proxy, "few", "first", "")?;
        assert_eq!(refused(Wire::login(&proxy, "few", "first", ""))?.code, 1226);
        drop(first);
    }
    Ok(())
}

#[test]
fn clients_of_one_account_share_connections() -> Result<()> {
    for server in servers("clients_of_one_account_share")? {
        create(&server, "shared", "%", "first", "")?;
        let proxy = proxy(&server, "")?;
        let mut clients = Vec::new();
        for _ in 0..12 {
            let mut client = Wire::login(&proxy, "shared", "first", "")?;
            assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
            clients.push(client);
        }
        let count = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'shared'";
        let connections: u32 = server.value(count)?.context("a count")?.parse()?;
        assert!((1..=4).contains(&connections), "{connections} connections for 12 clients");
    }
    Ok(())
}

#[test]
fn users_stay_while_no_server_can_be_asked() -> Result<()> {
    let Some(_) = backends::mariadb("users_stay")? else { return Ok(()) };
    let server = MariaDb::start(Options::default())?;
    backends::account(&server, READER)?;
    server.sql(&format!("GRANT SELECT ON mysql.* TO {READER}"))?;
    create(&server, "patient", "%", "first", "")?;
    let proxy = proxy(&server, "server_users_interval = 1000\nconnect_timeout_server_max = 2000")?;
    drop(Wire::login(&proxy, "patient", "first", "")?);
    server.kill_hard()?;
    let mark = proxy.log_mark();
    proxy.wait_log(mark, "servers' users can't be read", TIMEOUT)?;
    assert!(Wire::login(&proxy, "patient", "first", "").is_ok());
    let begun = Instant::now();
    assert_eq!(refused(Wire::login(&proxy, "patient", "wrong", ""))?.code, 1045);
    assert!(begun.elapsed() < Duration::from_secs(9), "a refusal took {:?}", begun.elapsed());
    assert_eq!(server.flavour(), Flavour::MariaDb);
    Ok(())
}
