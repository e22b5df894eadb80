//! Plug-ins beyond the usual ones, passwords that are being changed, and accounts of the servers
//! that are not the clients'.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use trunkline_protocol::auth::ed25519;
use trunkline_session::backend::{ServerHandshake, ServerLogin, TlsWish};
use trunkline_testkit::{
    AuthPlugin, Flavour, Server, TempFolder, Trunkline, find_program, skipped, wait_until,
};

use crate::backends::{self, Config, PASSWORD, TIMEOUT};
use crate::tls::{certs, servers};
use crate::wire::{Endpoint, MODERN, Wire, login, refused};

fn clear(password: &str) -> String {
    format!("\"{}\"", password.replace('\\', "\\\\"))
}

/// The public key of a password as MariaDB stores it.
fn public_key(password: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String =
        ed25519::public_key(password.as_bytes()).iter().map(|byte| format!("{byte:08b}")).collect();
    let digit = |bits: &[u8]| {
        let value = bits.iter().fold(0, |value, bit| value * 2 + usize::from(bit - b'0'));
        char::from(DIGITS[value << (6 - bits.len())])
    };
    bits.as_bytes().chunks(6).map(digit).collect()
}

/// The server with MariaDB's plug-in, or `None` where it is not installed.
fn signing_server(test: &str) -> Result<Option<&'static Server>> {
    let Some(server) = backends::mariadb(test)? else { return Ok(None) };
    let found = "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'ed25519'";
    if server.value(found)?.as_deref() == Some("0")
        && let Err(error) = server.sql("INSTALL SONAME 'auth_ed25519'")
    {
        // Another test may have been quicker.
        if server.value(found)?.as_deref() == Some("0") {
            skipped(test, &format!("the server has no auth_ed25519: {error:#}"));
            return Ok(None);
        }
    }
    Ok(Some(server))
}

fn value_of(proxy: &Trunkline, user: &str, password: &str) -> Result<Option<String>> {
    Wire::login(proxy, user, password, "")?.value("SELECT CURRENT_USER()")
}

#[test]
fn servers_with_client_ed25519_are_logged_in_to() -> Result<()> {
    let name = "signed";
    let Some(server) = signing_server(name)? else { return Ok(()) };
    let quoted = PASSWORD.replace('\\', "\\\\").replace('\'', "''");
    server.sql(&format!("DROP USER IF EXISTS {name}"))?;
    server.sql(&format!("CREATE USER {name} IDENTIFIED VIA ed25519 USING PASSWORD('{quoted}')"))?;
    let stored = format!("SELECT authentication_string FROM mysql.user WHERE user = '{name}'");
    assert_eq!(server.value(&stored)?, Some(public_key(PASSWORD)));
    let proxy = Config::new("", server).user(name).start()?;
    // Nonces are by chance, and one may end with a NUL.
    for _ in 0..20 {
        assert_eq!(value_of(&proxy, name, PASSWORD)?, Some(format!("{name}@%")));
    }
    // A wrong password in the proxy's hands is told as the server tells it.
    let wrong = Config::new("", server).user_with(name, "password = \"wrong\"").start()?;
    let answer = Wire::login(&wrong, name, "wrong", "")?.one("SELECT 1")?;
    assert_eq!(answer.error().map(|error| error.code), Some(1045), "{answer:?}");
    Ok(())
}

#[test]
fn clients_prove_the_password_of_a_public_key() -> Result<()> {
    let name = "keyed";
    let Some(server) = backends::mariadb(name)? else { return Ok(()) };
    backends::account(server, name)?;
    let keys = format!(
        "password_hash = \"{}\"\nbackend_password = {}",
        public_key("front"),
        clear(PASSWORD)
    );
    let proxy = Config::new("", server).user_with(name, &keys).start()?;
    assert_eq!(value_of(&proxy, name, "front")?, Some(format!("{name}@%")));
    let mut client = Wire::login(&proxy, name, "front", "")?;
    assert!(client.steps.contains(&"switch".to_owned()), "{:?}", client.steps);
    client.change_user(name, "front", "")?;
    assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
    for wrong in ["", PASSWORD] {
        assert_eq!(refused(Wire::login(&proxy, name, wrong, ""))?.code, 1045);
    }
    // The program that everybody has, by its own plug-in.
    let Some(program) = find_program("mariadb") else {
        skipped(name, "there is no mariadb client");
        return Ok(());
    };
    let mut command = Command::new(program);
    command.args(["--no-defaults", "--host=127.0.0.1", "--batch", "--skip-column-names"]);
    command.arg(format!("--port={}", proxy.port())).args(["--user", name, "--password=front"]);
    let output = command.args(["-e", "SELECT 6 * 7"]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "mariadb: {errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "42");
    Ok(())
}

/// A login by `mysql_clear_password`, as clients make it that are told to.
fn clear_login(endpoint: impl Into<Endpoint>, user: &str, tls: bool) -> Result<bool> {
    let mut client = Wire::open(endpoint)?;
    let wanted = ServerLogin {
        tls: if tls { TlsWish::Always } else { TlsWish::Never },
        is_local: true,
        ..login(user, PASSWORD, "", MODERN)
    };
    client.tls = tls.then(|| certs::client(&[&rustls::version::TLS13], None)).transpose()?;
    let outcome = client.shake(ServerHandshake::new(wanted), Vec::new());
    Ok(outcome.is_ok() && client.value("SELECT 5")?.as_deref() == Some("5"))
}

#[test]
fn the_clear_plug_in_is_taken_where_nobody_can_listen() -> Result<()> {
    let name = "clear_through";
    for server in backends::each(name)? {
        backends::account(server, name)?;
        let proxy = Config::new("", server).user(name).start()?;
        assert!(clear_login(&proxy, name, true)?, "{}", backends::flavour(server));
        assert!(clear_login(Endpoint::Unix(proxy.socket()), name, false)?);
    }
    Ok(())
}

#[test]
fn the_full_exchange_sends_the_password_itself_through_tls() -> Result<()> {
    let name = "full_through";
    for server in backends::each(name)? {
        backends::account(server, name)?;
        let keys = format!("password_hash = \"{}\"", crate::auth::SHA2_HASH);
        let proxy = Config::new("", server).user_with(name, &keys).start()?;
        let config = certs::client(&[&rustls::version::TLS13], None)?;
        let enter =
            |password: &str| Wire::login_tls(&proxy, login(name, password, "", MODERN), &config);
        let mut first = enter(PASSWORD)?;
        // Asked for, sent, taken: no key in between, as it is encrypted already.
        let behind = first.steps.iter().position(|step| step == "more 4").context("not asked")?;
        assert_eq!(first.steps[behind + 1..], ["ok"], "{:?}", first.steps);
        assert_eq!(first.value("SELECT 5")?.as_deref(), Some("5"));
        // From now on the quick way is enough.
        let second = enter(PASSWORD)?;
        assert!(second.steps.contains(&"more 3".to_owned()), "{:?}", second.steps);
        assert_eq!(refused(enter("wrong"))?.code, 1045);
    }
    Ok(())
}

/// An account of the server with this plug-in; whether the server has it.
fn plugged(server: &Server, name: &str, plugin: &str) -> Result<bool> {
    let quoted = PASSWORD.replace('\\', "\\\\").replace('\'', "''");
    server.sql(&format!("DROP USER IF EXISTS {name}"))?;
    let how = match plugin {
        "ed25519" | "mysql_native_password" => {
            format!("VIA {plugin} USING PASSWORD('{quoted}')")
        }
        plugin => format!("WITH {plugin} BY '{quoted}'"),
    };
    if let Err(error) = server.sql(&format!("CREATE USER {name} IDENTIFIED {how}")) {
        skipped(name, &format!("the server has no {plugin}: {error:#}"));
        return Ok(false);
    }
    Ok(true)
}

#[test]
fn servers_are_logged_in_to_by_every_plug_in_over_every_transport() -> Result<()> {
    let name = "plugged_in";
    let folder = TempFolder::new("plugged")?;
    let ca = certs::Ca::new(folder.path(), "ca")?;
    let shown =
        ca.sign("server", certs::Wanted { dns: "localhost", ..certs::Wanted::default() })?;
    for flavour in servers::flavours(name) {
        let server = &servers::start(flavour, &ca, &shown)?;
        if flavour == Flavour::MariaDb
            && let Err(error) = server.sql("INSTALL SONAME 'auth_ed25519'")
        {
            skipped(name, &format!("the server has no auth_ed25519: {error:#}"));
        }
        let plugins = match flavour {
            Flavour::MariaDb => ["mysql_native_password", "ed25519"],
            Flavour::MySql => ["caching_sha2_password", "sha256_password"],
        };
        for plugin in plugins {
            if !plugged(server, name, plugin)? {
                continue;
            }
            let socket = server.socket().display().to_string();
            for (address, keys, is_encrypted) in [
                (server.address(), "tls = \"disabled\"", false),
                (server.address(), "tls = \"required\"", true),
                (socket, "", false),
            ] {
                // What the server remembers of the password is gone: it asks for all of it.
                server.sql("FLUSH PRIVILEGES")?;
                let address = format!("{address}\"\n{keys}\n#");
                let proxy = Config::at("", &address).user(name).start()?;
                let who = value_of(&proxy, name, PASSWORD)
                    .with_context(|| format!("{plugin} {address}"))?;
                assert_eq!(who, Some(format!("{name}@%")), "{plugin} {address}");
                let metric = "trunkline_backend_connections_encrypted";
                backends::wait_metric(&proxy, metric, "", |n| (n > 0.0) == is_encrypted)?;
            }
        }
    }
    Ok(())
}

#[test]
fn clients_and_servers_have_different_names_and_passwords() -> Result<()> {
    for server in backends::each("different_names")? {
        let (front, back, other) = ("fronted", "backed", "backed_anew");
        for name in [back, other] {
            backends::account(server, name)?;
        }
        let mapped = |user: &str, password: &str| {
            let keys = format!(
                "password = \"front\"\nbackend_user = \"{user}\"\nbackend_password = {password}"
            );
            Config::new("", server).user_with(front, &keys)
        };
        let proxy = mapped(back, &clear(PASSWORD)).start()?;
        let mut kept = Wire::login(&proxy, front, "front", "")?;
        assert_eq!(kept.value("SELECT CURRENT_USER()")?, Some(format!("{back}@%")));
        assert_eq!(refused(Wire::login(&proxy, front, PASSWORD, ""))?.code, 1045);
        assert_eq!(refused(Wire::login(&proxy, back, PASSWORD, ""))?.code, 1045);

        // A new account counts for new clients; nobody gets the old one's connections.
        let mark = proxy.reload(mapped(other, &clear(PASSWORD)).text())?;
        proxy.wait_log(mark, "in force", TIMEOUT)?;
        assert_eq!(value_of(&proxy, front, "front")?, Some(format!("{other}@%")));
        assert_eq!(kept.value("SELECT CURRENT_USER()")?, Some(format!("{back}@%")));

        // The account's new password is found out of a file or a variable, without a restart.
        server.create_user(other, "rotated", AuthPlugin::ServerDefault)?;
        let file = proxy.config_file().with_file_name("back.password");
        std::fs::write(&file, "rotated\n")?;
        let config = mapped(other, "").text().replace("backend_password = ", "");
        let config = format!("{config}backend_password_file = \"{}\"\n", file.display());
        let mark = proxy.reload(&config)?;
        proxy.wait_log(mark, "in force", TIMEOUT)?;
        assert_eq!(value_of(&proxy, front, "front")?, Some(format!("{other}@%")));
        let log = proxy.log();
        ensure!(!log.contains("rotated") && !log.contains(PASSWORD), "{log}");
    }
    Ok(())
}

#[test]
fn passwords_come_from_the_environment() -> Result<()> {
    let name = "environed";
    let Some(server) = backends::mariadb(name)? else { return Ok(()) };
    backends::account(server, name)?;
    let keys = "password_env = \"FRONT_PASSWORD\"\nbackend_password_env = \"BACK_PASSWORD\"";
    let config = Config::new("", server).user_with(name, keys);
    let environment = [("FRONT_PASSWORD", "front"), ("BACK_PASSWORD", PASSWORD)];
    let proxy = Trunkline::start_with(config.text(), &environment)?;
    assert_eq!(value_of(&proxy, name, "front")?, Some(format!("{name}@%")));
    let error = Trunkline::start(config.text()).err().context("it starts without them")?;
    assert!(format!("{error:#}").contains("`FRONT_PASSWORD` is not set"), "{error:#}");
    Ok(())
}

#[test]
fn a_password_is_changed_while_clients_use_either() -> Result<()> {
    for server in backends::each("a_password_is_changed_while")? {
        let name = "rotating";
        let set = |password: &str| server.create_user(name, password, AuthPlugin::ServerDefault);
        let keys = "password = \"new one\"\nretained_password = \"old one\"";
        set("old one")?;
        let proxy = Config::new("", server).user_with(name, keys).start()?;
        // The server has the old one only: it is found, whichever a client has.
        let expected = Some(format!("{name}@%"));
        for password in ["new one", "old one"] {
            assert_eq!(value_of(&proxy, name, password)?, expected, "{password}");
        }
        assert_eq!(refused(Wire::login(&proxy, name, "neither", ""))?.code, 1045);
        // Now it has the new one; connections of before have to go for that to be seen.
        set("new one")?;
        let ids = format!(
            "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE user = '{name}'"
        );
        for id in server.value(&ids)?.unwrap_or_default().split(',').filter(|id| !id.is_empty()) {
            server.sql(&format!("KILL {id}"))?;
        }
        for password in ["old one", "new one"] {
            let attempt = || Ok(value_of(&proxy, name, password).ok().filter(|it| *it == expected));
            wait_until("the new password to be found", TIMEOUT, attempt)?;
        }
        // A password that no server takes is said, once both were tried.
        set("a third one")?;
        let fresh = Config::new("", server).user_with(name, keys).start()?;
        let answer = Wire::login(&fresh, name, "new one", "")?.one("SELECT 1")?;
        assert_eq!(answer.error().map(|error| error.code), Some(1045), "{answer:?}");
    }
    Ok(())
}
