//! Who may log in, how, and what the others are told.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use trunkline_protocol::auth::native;
use trunkline_testkit::{
    AuthPlugin, Flavour, MySqlTree, Server, TempFolder, find_program, skipped, wait_until,
};

use crate::backends::{self, Config, PASSWORD, TIMEOUT};
use crate::wire::{Endpoint, ErrorPacket, MODERN, Wire, login, refused};

/// [`PASSWORD`] as a server stores it for `caching_sha2_password`, with a salt in plain letters.
pub const SHA2_HASH: &str =
    "$A$005$TwentyBytesOfSaltHert/4RFm3R15zJH6VfsgMi5UJpUoCTrkZMIu8zOCyKEnB";

/// `SHA1(SHA1(password))` as servers write it.
fn native_hash() -> String {
    let stage2 = native::stage2(&native::stage1(PASSWORD.as_bytes()));
    let hex: Vec<String> = stage2.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("*{}", hex.concat())
}

fn toml(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The ways to write [`PASSWORD`] into a configuration, by name.
fn ways(folder: &Path) -> Result<[(&'static str, String); 4]> {
    let file = folder.join("password");
    std::fs::write(&file, format!("{PASSWORD}\n"))?;
    Ok([
        ("clear", format!("password = {}", toml(PASSWORD))),
        ("file", format!("password_file = {}", toml(&file.to_string_lossy()))),
        ("native", format!("password_hash = {}", toml(&native_hash()))),
        ("sha2", format!("password_hash = {}", toml(SHA2_HASH))),
    ])
}

/// Without the number that a text may carry.
fn denied(error: &ErrorPacket) -> (u16, &str, &str) {
    error.parts()
}

fn check_way(server: &Server, way: &str, keys: &str) -> Result<()> {
    let name = format!("way_{way}");
    backends::account(server, &name)?;
    let proxy = Config::new("", server).user_with(&name, keys).start()?;
    for password in ["wrong", ""] {
        let direct = refused(Wire::login(server, &name, password, ""))?;
        let error = refused(Wire::login(&proxy, &name, password, ""))?;
        assert_eq!(denied(&error), denied(&direct), "{way}");
        assert_eq!((error.code, &*error.sqlstate), (1045, "28000"));
    }
    let mut client = Wire::login(&proxy, &name, PASSWORD, "")?;
    let answer = client.one("SELECT CURRENT_USER()")?;
    if way == "native" && server.flavour() == Flavour::MySql {
        // Its hash opens no account with caching_sha2: that is said, and the client kept.
        let error = answer.error().context("a native hash opened a caching_sha2 account")?;
        assert!(error.text.contains("password"), "{error:?}");
        return Ok(());
    }
    assert_eq!(answer.text_rows()[0][0], Some(format!("{name}@%")), "{way}: {answer:?}");
    let mut again = Wire::login(&proxy, &name, PASSWORD, &name)?;
    assert_eq!(again.value("SELECT DATABASE()")?, Some(name.clone()));
    if way == "sha2" {
        // The password itself goes over the wire once, encrypted; then its proof is remembered.
        assert!(client.steps.contains(&"more 4".to_owned()), "{:?}", client.steps);
        assert!(again.steps.contains(&"more 3".to_owned()), "{:?}", again.steps);
        assert!(refused(Wire::login(&proxy, &name, "wrong", "")).is_ok());
    }
    let mut local = Wire::login(Endpoint::Unix(proxy.socket()), &name, PASSWORD, "")?;
    assert_eq!(local.value("SELECT 5")?.as_deref(), Some("5"));
    Ok(())
}

fn check_ways(server: Option<&Server>) -> Result<()> {
    let Some(server) = server else { return Ok(()) };
    let folder = TempFolder::new("ways")?;
    for (way, keys) in ways(folder.path())? {
        check_way(server, way, &keys).with_context(|| format!("password as {way}"))?;
    }
    Ok(())
}

#[test]
fn passwords_are_stored_in_four_ways_before_mariadb() -> Result<()> {
    check_ways(backends::mariadb("passwords_are_stored_in_four_ways_before_mariadb")?)
}

#[test]
fn passwords_are_stored_in_four_ways_before_mysql() -> Result<()> {
    check_ways(backends::mysql("passwords_are_stored_in_four_ways_before_mysql")?)
}

#[test]
fn the_full_exchange_works_over_the_unix_socket() -> Result<()> {
    for server in backends::each("the_full_exchange_works_over_the_unix_socket")? {
        backends::account(server, "full_local")?;
        let keys = format!("password_hash = {}", toml(SHA2_HASH));
        let proxy = Config::new("", server).user_with("full_local", &keys).start()?;
        let socket = Endpoint::Unix(proxy.socket());
        let wrong = refused(Wire::login(socket.clone(), "full_local", "wrong", ""))?;
        assert_eq!((wrong.code, &*wrong.sqlstate), (1045, "28000"));
        let mut client = Wire::login(socket.clone(), "full_local", PASSWORD, "")?;
        assert!(client.steps.contains(&"more 4".to_owned()), "{:?}", client.steps);
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
        let client = Wire::login(&proxy, "full_local", PASSWORD, "")?;
        assert!(client.steps.contains(&"more 3".to_owned()), "{:?}", client.steps);
    }
    Ok(())
}

#[test]
fn strangers_are_told_what_a_server_tells_them() -> Result<()> {
    for server in backends::each("strangers_are_told")? {
        backends::account(server, "known_user")?;
        let keys = format!("password = {}\nactive = false", toml(PASSWORD));
        let proxy =
            Config::new("", server).user("known_user").user_with("retired", &keys).start()?;
        for (user, password) in
            [("stranger", "x"), ("stranger", ""), ("known_user", "x"), ("known_user", "")]
        {
            let direct = refused(Wire::login(server, user, password, ""))?;
            let error = refused(Wire::login(&proxy, user, password, ""))?;
            assert_eq!(direct.parts(), error.parts());
        }
        let retired = refused(Wire::login(&proxy, "retired", PASSWORD, ""))?;
        let text = "Access denied for user 'retired'@'127.0.0.1' (using password: YES)";
        assert_eq!(retired.parts(), (1045, "28000", text));
    }
    Ok(())
}

#[test]
fn an_unknown_schema_is_refused_in_the_servers_words() -> Result<()> {
    for server in backends::each("an_unknown_schema")? {
        backends::account(server, "schemaless")?;
        let proxy = Config::new("", server).user("schemaless").start()?;
        let direct = refused(Wire::login(server, "schemaless", PASSWORD, "nowhere"))?;
        for _ in 0..2 {
            let error = refused(Wire::login(&proxy, "schemaless", PASSWORD, "nowhere"))?;
            assert_eq!(direct.parts(), error.parts());
        }
        assert!(Wire::login(&proxy, "schemaless", PASSWORD, "schemaless").is_ok());
    }
    Ok(())
}

#[test]
fn limits_on_connections_are_kept() -> Result<()> {
    let Some(server) = backends::mariadb("limits_on_connections")? else { return Ok(()) };
    backends::account(server, "limited")?;
    backends::account(server, "others")?;
    let keys = format!("password = {}\nmax_connections = 2", toml(PASSWORD));
    let proxy = Config::new("max_connections = 4", server)
        .user_with("limited", &keys)
        .user("others")
        .start()?;
    let enter = |user: &str| Wire::login(&proxy, user, PASSWORD, "");
    let (one, two) = (enter("limited")?, enter("limited")?);
    let error = refused(enter("limited"))?;
    let text = "User 'limited' has exceeded the 'max_user_connections' resource (current value: 2)";
    assert_eq!(error.parts(), (1226, "42000", text));
    drop(one);
    let again = wait_until("a place for the user", TIMEOUT, || Ok(enter("limited").ok()))?;

    // Those who were refused count until their sockets have ended.
    let enter_soon = || wait_until("a place", TIMEOUT, || Ok(enter("others").ok()));
    let (three, four) = (enter_soon()?, enter_soon()?);
    let error = refused(enter("others"))?;
    assert_eq!((error.code, &*error.text), (1040, "Too many connections"));
    drop(three);
    let five = enter_soon()?;
    for mut client in [two, again, four, five] {
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
    }
    Ok(())
}

#[test]
fn a_password_changed_by_reload_counts_at_once() -> Result<()> {
    let Some(server) = backends::mariadb("a_password_changed")? else { return Ok(()) };
    backends::account(server, "changing")?;
    let keys = format!("password_hash = {}", toml(SHA2_HASH));
    let proxy = Config::new("", server).user_with("changing", &keys).start()?;
    let mut kept = Wire::login(&proxy, "changing", PASSWORD, "")?;
    assert_eq!(kept.value("SELECT 1")?.as_deref(), Some("1"));

    server.create_user("changing", "new one", AuthPlugin::ServerDefault)?;
    let config = Config::new("", server).user_with("changing", "password = \"new one\"");
    let mark = proxy.reload(config.text())?;
    proxy.wait_log(mark, "in force", TIMEOUT)?;
    assert_eq!(refused(Wire::login(&proxy, "changing", PASSWORD, ""))?.code, 1045);
    let mut client = Wire::login(&proxy, "changing", "new one", "")?;
    assert_eq!(client.value("SELECT 2")?.as_deref(), Some("2"));
    assert_eq!(kept.value("SELECT 3")?.as_deref(), Some("3"));
    Ok(())
}

/// A way to run a client program that a machine may have.
struct Program {
    name: &'static str,
    command: Command,
}

fn programs(test: &str) -> Vec<Program> {
    let mut programs = Vec::new();
    match find_program("mariadb") {
        Some(path) => programs.push(Program { name: "mariadb", command: Command::new(path) }),
        None => skipped(test, "there is no mariadb client"),
    }
    match MySqlTree::find() {
        Ok(tree) => {
            let command = tree.command("usr/bin/mysql");
            programs.push(Program { name: "mysql", command });
        }
        Err(reason) => skipped(test, &reason),
    }
    programs
}

fn run_program(program: &mut Program, place: &[String], user: &str, pass: &str) -> Result<String> {
    program.command.arg("--no-defaults").args(place);
    if program.name == "mysql" {
        // Over TCP it asks for the key to encrypt a password with only when told to.
        program.command.args(["--get-server-public-key", "--ssl-mode=DISABLED"]);
    }
    program.command.args(["--batch", "--skip-column-names", "-e", "SELECT DATABASE(), 6 * 7"]);
    program.command.arg(format!("--user={user}")).arg(format!("--password={pass}")).arg(user);
    let output = program.command.output()?;
    ensure!(
        output.status.success(),
        "{}: {}",
        program.name,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn a_client_that_pins_the_proxys_key_logs_in() -> Result<()> {
    let user = "pins_a_key";
    let Some(server) = backends::mysql(user)? else { return Ok(()) };
    backends::account(server, user)?;
    let key = |name: &str| server.folder().join("data").join(name).display().to_string();
    let settings = format!("caching_sha2_password_private_key_path = '{}'", key("private_key.pem"));
    // The proxy knows a hash alone, so that the first login has to send the password itself.
    let keys = format!("password_hash = {}", toml(SHA2_HASH));
    let proxy = Config::new(&settings, server).user_with(user, &keys).start()?;
    let enter = |pinned: &str| -> Result<std::process::Output> {
        let tree = MySqlTree::find().map_err(anyhow::Error::msg)?;
        let mut command = tree.command("usr/bin/mysql");
        command.args(["--no-defaults", "--host=127.0.0.1", "--ssl-mode=DISABLED"]);
        command.args(["--default-auth=caching_sha2_password", "-e", "SELECT 6 * 7"]);
        command.arg(format!("--server-public-key-path={pinned}"));
        command.arg(format!("--port={}", proxy.port())).arg(format!("--user={user}"));
        Ok(command.arg(format!("--password={PASSWORD}")).output()?)
    };
    // A key of somebody else's: what is encrypted for it is no password.
    let folder = TempFolder::new("other-key")?;
    let other = folder.path().join("public_key.pem");
    std::fs::write(&other, trunkline_crypto::PrivateKey::generate()?.public_key_pem())?;
    let refused = enter(&other.display().to_string())?;
    ensure!(!refused.status.success(), "{refused:?}");
    let output = enter(&key("public_key.pem"))?;
    ensure!(output.status.success(), "{output:?}\n{}", proxy.log());
    ensure!(String::from_utf8_lossy(&output.stdout).contains("42"), "{output:?}");
    Ok(())
}

#[test]
fn ordinary_clients_log_in() -> Result<()> {
    let test = "ordinary_clients_log_in";
    let folder = TempFolder::new("clients")?;
    for server in backends::each(test)? {
        for (way, keys) in ways(folder.path())? {
            if way == "native" && server.flavour() == Flavour::MySql {
                continue;
            }
            let user = format!("cli_{way}");
            backends::account(server, &user)?;
            let proxy = Config::new("", server).user_with(&user, &keys).start()?;
            let tcp = vec!["--host=127.0.0.1".into(), format!("--port={}", proxy.port())];
            let unix = vec![format!("--socket={}", proxy.socket().display())];
            for place in [tcp, unix] {
                for mut program in programs(test) {
                    // MySQL's client has no native plug-in any more.
                    if program.name == "mysql" && way == "native" {
                        continue;
                    }
                    let answer = run_program(&mut program, &place, &user, PASSWORD)
                        .with_context(|| format!("{} with {way} at {place:?}", program.name))?;
                    assert_eq!(answer, format!("{user}\t42"), "{}", program.name);
                }
            }
            let mut client = proxy.connect(&user, PASSWORD, &user)?;
            assert_eq!(client.value("SELECT 6 * 7")?.as_deref(), Some("42"), "mysql_async, {way}");
        }
    }
    Ok(())
}

#[test]
fn an_empty_password_is_a_password() -> Result<()> {
    for server in backends::each("an_empty_password")? {
        server.create_user("nobody_asks", "", AuthPlugin::ServerDefault)?;
        let proxy = Config::new("", server).user_with("nobody_asks", "password = \"\"").start()?;
        let mut client = Wire::login_with(&proxy, login("nobody_asks", "", "", MODERN))?;
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
        match refused(Wire::login(&proxy, "nobody_asks", "x", "")) {
            Ok(error) => assert_eq!(error.code, 1045),
            Err(error) => bail!("{error:#}"),
        }
    }
    Ok(())
}
