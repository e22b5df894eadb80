//! Clients of the proxy.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use trunkline_protocol::Capabilities;
use trunkline_protocol::auth::native;
use trunkline_protocol::packet::ok;
use trunkline_testkit::{
    MySqlTree, Signal, TempFolder, Trunkline, drivers_dir, find_program, skipped, wait_until,
};

use super::certs::{self, Ca, Wanted, client};
use super::{anybody, enter, mode, quoted, run, shown, wait_said};
use crate::backends::{self, Config, PASSWORD, TIMEOUT, proxy_for, wait_metric};
use crate::wire::{Endpoint, MODERN, Wire, code, login, refused};

#[test]
fn clients_are_encrypted_without_configuration() -> Result<()> {
    for server in backends::each("clients_are_encrypted_without_configuration")? {
        let proxy = proxy_for(server, "tls_default", "")?;
        let long = "SELECT REPEAT('x', 3000000), 7";
        let mut plain = Wire::login(&proxy, "tls_default", PASSWORD, "")?;
        let expected = plain.one(long)?;
        for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
            let mut wire = enter(&proxy, "tls_default", &client(&[version], None)?)?;
            assert_eq!(wire.value("SELECT 5")?.as_deref(), Some("5"));
            assert_eq!(wire.one(long)?, expected, "{name}");
            let sent = format!("SELECT LENGTH('{}')", "y".repeat(300_000));
            assert_eq!(wire.value(&sent)?.as_deref(), Some("300000"));
            let (_, sessions) = proxy.http("/sessions")?;
            assert!(sessions.contains(&format!("\"tls\":\"{name} ")), "{name}: {sessions}");
            wait_metric(&proxy, "trunkline_clients_encrypted", "", |n| n == 1.0)?;
            // The server's side is its own.
            let status = wire.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?;
            assert_eq!(status[0].text_rows()[0][1].as_deref(), Some(""));
            // Statements that follow each other, and a change of user.
            wire.change_user("tls_default", PASSWORD, "tls_default")?;
            assert_eq!(wire.value("SELECT DATABASE()")?.as_deref(), Some("tls_default"));
            drop(wire);
            wait_metric(&proxy, "trunkline_clients_encrypted", "", |n| n == 0.0)?;
        }
        let own = proxy.config_file().with_extension("toml.tls");
        assert_eq!(mode(&own)?, 0o700);
        for file in ["trunkline-cert.pem", "trunkline-key.pem"] {
            assert_eq!(mode(&own.join(file))?, 0o600, "{file}");
        }
    }
    Ok(())
}

#[test]
fn our_own_certificate_is_kept_in_the_data_folder() -> Result<()> {
    let Some(server) = backends::mariadb("our_own_certificate_is_kept")? else { return Ok(()) };
    backends::account(server, "tls_kept")?;
    let proxy = Config::new("", server).user("tls_kept");
    let proxy = Trunkline::start_database(proxy.text())?;
    let certificate = |wire: &Wire| -> Result<Vec<u8>> {
        let chain = wire.tls_conn()?.peer_certificates().context("a certificate")?;
        Ok(chain[0].to_vec())
    };
    let first = certificate(&enter(&proxy, "tls_kept", &anybody()?)?)?;
    assert_eq!(mode(&proxy.data_folder().join("trunkline-key.pem"))?, 0o600);
    proxy.kill_and_restart(&[])?;
    assert_eq!(certificate(&enter(&proxy, "tls_kept", &anybody()?)?)?, first);
    Ok(())
}

#[test]
fn real_clients_are_encrypted() -> Result<()> {
    let Some(server) = backends::mariadb("real_clients_are_encrypted")? else { return Ok(()) };
    let proxy = proxy_for(server, "tls_real", "")?;
    let port = proxy.port().to_string();
    match find_program("mariadb") {
        None => skipped("real_clients_are_encrypted", "there is no mariadb client"),
        Some(program) => {
            for version in ["TLSv1.2", "TLSv1.3"] {
                let mut client = Command::new(&program);
                client.args(["--no-defaults", "--ssl", "-h127.0.0.1", "-utls_real", "-Ne"]);
                client.args(["SELECT 5; \\s", "-P", &port]);
                client.arg(format!("--password={PASSWORD}"));
                client.arg(format!("--tls-version={version}"));
                let said = run(client)?;
                assert!(said.starts_with("5\n"), "{said}");
                assert!(said.contains("Cipher in use is"), "{said}");
            }
        }
    }
    match MySqlTree::find() {
        Err(reason) => skipped("real_clients_are_encrypted", &reason),
        Ok(tree) => {
            let labels = "result=\"tls13\"";
            let count = || proxy.metric("trunkline_client_tls_handshakes_total", labels);
            for (mode, handshakes) in [("DISABLED", 0.0), ("PREFERRED", 1.0), ("REQUIRED", 1.0)] {
                let before = count()?.context("a count")?;
                let mut client = tree.command("usr/bin/mysql");
                client.args(["--no-defaults", "-h127.0.0.1", "-utls_real", "-P", &port, "-Ne"]);
                client.arg("SELECT 5").arg(format!("--password={PASSWORD}"));
                client.arg(format!("--ssl-mode={mode}"));
                assert_eq!(run(client)?, "5\n", "{mode}");
                assert_eq!(count()?, Some(before + handshakes), "{mode}");
            }
        }
    }
    match find_program("openssl") {
        None => skipped("real_clients_are_encrypted", "there is no openssl"),
        Some(program) => {
            let mut client = Command::new(program);
            client.args(["s_client", "-starttls", "mysql", "-connect"]);
            client.arg(format!("127.0.0.1:{port}")).stdin(Stdio::null());
            let said = run(client)?;
            assert!(said.contains("Trunkline self-signed certificate"), "{said}");
        }
    }
    Ok(())
}

#[test]
fn encrypted_clients_compress_forward_and_kill() -> Result<()> {
    for server in backends::each("encrypted_clients_compress")? {
        backends::account(server, "tls_more")?;
        let password = PASSWORD.replace('\\', "\\\\");
        let forward = format!("password = \"{password}\"\nfast_forward = true");
        backends::account(server, "tls_fast")?;
        let proxy =
            Config::new("", server).user("tls_more").user_with("tls_fast", &forward).start()?;
        for name in ["tls_more", "tls_fast"] {
            for wanted in [MODERN, MODERN | Capabilities::COMPRESS] {
                let login = login(name, PASSWORD, "", wanted);
                let mut wire = Wire::login_tls(&proxy, login, &anybody()?)?;
                let text = "SELECT REPEAT('abc', 100000)";
                assert_eq!(wire.value(text)?.map(|value| value.len()), Some(300_000), "{name}");
            }
        }
        let mut running = enter(&proxy, "tls_more", &anybody()?)?;
        let id = running.greeting()?.connection_id;
        running.send(code::QUERY, b"SELECT SLEEP(30)")?;
        let mut other = enter(&proxy, "tls_more", &anybody()?)?;
        wait_until("the statement runs", TIMEOUT, || {
            let text = "SELECT COUNT(*) FROM information_schema.processlist
                 WHERE user = 'tls_more' AND info LIKE 'SELECT SLEEP(30)%'";
            Ok((server.value(text)?.as_deref() != Some("0")).then_some(()))
        })?;
        assert!(other.one(&format!("KILL QUERY {id}"))?.is_ok());
        running.reply_bytes(crate::wire::Shape::Results)?;
        assert_eq!(running.value("SELECT 6")?.as_deref(), Some("6"));
    }
    Ok(())
}

#[test]
fn sessions_are_resumed() -> Result<()> {
    let Some(server) = backends::mariadb("sessions_are_resumed")? else { return Ok(()) };
    let proxy = proxy_for(server, "tls_resumed", "")?;
    for version in [&TLS12, &TLS13] {
        let config = client(&[version], None)?;
        let mut kinds = Vec::new();
        for _ in 0..3 {
            let mut wire = enter(&proxy, "tls_resumed", &config)?;
            assert_eq!(wire.value("SELECT 5")?.as_deref(), Some("5"));
            kinds.push(wire.tls_conn()?.handshake_kind());
        }
        let resumed = Some(HandshakeKind::Resumed);
        assert_eq!(kinds, [Some(HandshakeKind::Full), resumed, resumed], "{version:?}");
    }
    let count = |result| proxy.metric("trunkline_client_tls_handshakes_total", result);
    assert_eq!(count("result=\"tls12_resumed\"")?, Some(2.0));
    assert_eq!(count("result=\"tls13_resumed\"")?, Some(2.0));
    Ok(())
}

#[test]
fn clients_in_clear_are_refused_where_tls_is_required() -> Result<()> {
    let Some(server) = backends::mariadb("clients_in_clear_are_refused")? else { return Ok(()) };
    backends::account(server, "tls_must")?;
    let own = [trunkline_testkit::free_port()?, trunkline_testkit::free_port()?];
    let settings = format!(
        "listen = [\"127.0.0.1:{{port}}\", \"unix:{{folder}}/trunkline.sock\", \
         \"127.0.0.1:{0}\", \"127.0.0.1:{1}\"]\nrequire_secure_transport = true\n\
         listen_tls = [\"127.0.0.1:{0}=off\", \"127.0.0.1:{1}=required\"]",
        own[0], own[1]
    );
    let proxy = Config::new(&settings, server).user("tls_must").start()?;
    for port in [proxy.port(), own[1]] {
        let error = refused(Wire::login(Endpoint::Tcp(port), "tls_must", PASSWORD, ""))?;
        assert_eq!((error.code, &*error.sqlstate), (3159, "HY000"), "{error:?}");
        let login = login("tls_must", PASSWORD, "", MODERN);
        let mut wire = Wire::login_tls(Endpoint::Tcp(port), login, &anybody()?)?;
        assert_eq!(wire.value("SELECT 5")?.as_deref(), Some("5"));
    }
    // Nobody can listen on a Unix socket; and where TLS is off it is not offered.
    assert!(Wire::login(Endpoint::Unix(proxy.socket()), "tls_must", PASSWORD, "").is_ok());
    assert!(Wire::login(Endpoint::Tcp(own[0]), "tls_must", PASSWORD, "").is_ok());
    let mut plain = Wire::open(Endpoint::Tcp(own[0]))?;
    assert!(!plain.read_greeting()?.capabilities.contains(Capabilities::SSL));
    plain.send_raw(&super::bad::tls_request())?;
    let answer = plain.drain_to_end()?;
    let error = crate::wire::ErrorPacket::parse(&answer[4..])?;
    assert_eq!(error.code, 1043);
    let labels = "cause=\"tls_required\"";
    wait_metric(&proxy, "trunkline_client_refusals_total", labels, |n| n == 2.0)?;
    Ok(())
}

#[test]
fn users_have_what_they_require() -> Result<()> {
    let Some(server) = backends::mariadb("users_have_what_they_require")? else { return Ok(()) };
    let folder = TempFolder::new("certs")?;
    let ca = Ca::new(folder.path(), "ca")?;
    let wanted = Wanted { dns: "app.test", uri: "spiffe://test/ns/app", ..Wanted::default() };
    let (app, other) = (ca.sign("app", wanted)?, ca.sign("other", Wanted::default())?);
    let password = PASSWORD.replace('\\', "\\\\");
    let requirements = [
        ("req_none", "\"none\"", [true, true, true, true]),
        ("req_tls", "\"tls\"", [false, true, true, true]),
        ("req_x509", "\"x509\"", [false, false, true, true]),
        ("req_subject", "{ subject = \"/O=Tests/CN=app\" }", [false, false, true, false]),
        ("req_issuer", "{ issuer = \"/CN=ca\" }", [false, false, true, true]),
        ("req_san", "{ san = \"app.test\" }", [false, false, true, false]),
        ("req_spiffe", "{ spiffe = \"spiffe://test/*\" }", [false, false, true, false]),
    ];
    let mut config = Config::new(&format!("tls_client_ca = {}", quoted(&ca.file())), server);
    for (name, require, _) in requirements {
        backends::account(server, name)?;
        config = config.user_with(name, &format!("password = \"{password}\"\nrequire = {require}"));
    }
    let proxy = config.start()?;
    let both = [&TLS12, &TLS13];
    let ways = [
        None,
        Some(anybody()?),
        Some(client(&both, Some(&app))?),
        Some(client(&both, Some(&other))?),
    ];
    for (name, require, expected) in requirements {
        for (way, is_let_in) in ways.iter().zip(expected) {
            let attempt = match way {
                None => Wire::login(&proxy, name, PASSWORD, ""),
                Some(config) => enter(&proxy, name, config),
            };
            match is_let_in {
                true => assert_eq!(attempt?.value("SELECT 5")?.as_deref(), Some("5")),
                false => {
                    let error = refused(attempt)?;
                    assert_eq!((error.code, &*error.sqlstate), (1045, "28000"), "{require}");
                    let is_named = error.text.contains("certificate") || error.text.contains("TLS");
                    assert!(is_named, "{require}: {error:?}");
                }
            }
        }
    }
    // A change of user is judged by what the connection has.
    let mut wire = Wire::login(&proxy, "req_none", PASSWORD, "")?;
    assert!(wire.change_user("req_tls", PASSWORD, "").is_err());
    let mut wire = enter(&proxy, "req_none", &anybody()?)?;
    wire.change_user("req_tls", PASSWORD, "")?;
    assert!(wire.change_user("req_x509", PASSWORD, "").is_err());
    Ok(())
}

#[test]
fn new_files_are_shown_and_broken_ones_are_not() -> Result<()> {
    let Some(server) = backends::mariadb("new_files_are_shown")? else { return Ok(()) };
    let folder = TempFolder::new("certs")?;
    let ca = Ca::new(folder.path(), "ca")?;
    let wanted = Wanted { dns: "localhost", ..Wanted::default() };
    let files = ca.sign("proxy", wanted)?;
    backends::account(server, "tls_reload")?;
    let proxy = Config::new(&shown(&files), server).user("tls_reload").start()?;
    let certificate = |wire: &Wire| -> Result<Vec<u8>> {
        Ok(wire.tls_conn()?.peer_certificates().context("a certificate")?[0].to_vec())
    };
    let mut kept = enter(&proxy, "tls_reload", &anybody()?)?;
    let first = certificate(&kept)?;

    ca.sign("proxy", wanted)?;
    let mark = proxy.log_mark();
    proxy.signal(Signal::Hangup)?;
    proxy.wait_log(mark, "certificates and keys are in force as read now", TIMEOUT)?;
    let second = certificate(&enter(&proxy, "tls_reload", &anybody()?)?)?;
    assert_ne!(first, second);
    assert_eq!(kept.value("SELECT 5")?.as_deref(), Some("5"));

    let whole = std::fs::read(&files.key)?;
    for (file, text, reason) in [
        (&files.cert, "nothing\n", "holds no certificate in PEM"),
        (&files.key, "nothing\n", "holds no private key in PEM"),
    ] {
        let before = std::fs::read(file)?;
        std::fs::write(file, text)?;
        let mark = proxy.log_mark();
        proxy.signal(Signal::Hangup)?;
        let line = proxy.wait_log(mark, reason, TIMEOUT)?;
        assert!(line.contains(&file.display().to_string()), "{line}");
        assert_eq!(certificate(&enter(&proxy, "tls_reload", &anybody()?)?)?, second);
        std::fs::write(file, before)?;
    }
    // Another key than the certificate's.
    ca.sign("proxy", wanted)?;
    std::fs::write(&files.key, &whole)?;
    let mark = proxy.log_mark();
    proxy.signal(Signal::Hangup)?;
    proxy.wait_log(mark, "the key does not belong to the certificate", TIMEOUT)?;
    assert_eq!(certificate(&enter(&proxy, "tls_reload", &anybody()?)?)?, second);
    assert_eq!(kept.value("SELECT 6")?.as_deref(), Some("6"));
    Ok(())
}

#[test]
fn encrypted_keys_are_opened_with_their_password() -> Result<()> {
    let Some(server) = backends::mariadb("encrypted_keys_are_opened")? else { return Ok(()) };
    let Some(openssl) = find_program("openssl") else {
        skipped("encrypted_keys_are_opened", "there is no openssl");
        return Ok(());
    };
    let folder = TempFolder::new("certs")?;
    let ca = Ca::new(folder.path(), "ca")?;
    let mut files = ca.sign("proxy", Wanted { dns: "localhost", ..Wanted::default() })?;
    let sealed = folder.path().join("sealed.pem");
    let mut command = Command::new(openssl);
    command.args(["pkcs8", "-topk8", "-passout", "pass:open me", "-in"]).arg(&files.key);
    run({
        command.arg("-out").arg(&sealed);
        command
    })?;
    files.key = sealed;
    let password = folder.path().join("password");
    std::fs::write(&password, "open me\n")?;
    certs::close(&password)?;
    let settings = format!("{}tls_key_password_file = {}", shown(&files), quoted(&password));
    let proxy = proxy_for(server, "tls_sealed", &settings)?;
    assert!(enter(&proxy, "tls_sealed", &anybody()?).is_ok());
    std::fs::write(&password, "another\n")?;
    proxy.signal(Signal::Hangup)?;
    wait_said(&proxy, "the password does not open the encrypted key")?;
    assert!(enter(&proxy, "tls_sealed", &anybody()?).is_ok());
    assert!(!proxy.log().contains("open me"));
    Ok(())
}

#[test]
fn our_own_certificate_is_proven_by_the_password() -> Result<()> {
    let Some(server) = backends::mariadb("our_own_certificate_is_proven")? else { return Ok(()) };
    let settings = "server_version = \"5.5.5-11.8.2-MariaDB\"";
    let proxy = proxy_for(server, "tls_proof", settings)?;
    let mut wire = enter(&proxy, "tls_proof", &anybody()?)?;
    let certificate = wire.tls_conn()?.peer_certificates().context("a certificate")?[0].to_vec();
    let stage2 = native::stage2(&native::stage1(PASSWORD.as_bytes()));
    let nonce = wire.greeting()?.nonce;
    let fingerprint = trunkline_crypto::sha256(&certificate);
    let expected = native::certificate_proof(&stage2, &nonce, &fingerprint);
    assert_eq!(ok::parse(&wire.ok, true)?.info, expected);
    wire.change_user("tls_proof", PASSWORD, "")?;
    assert_eq!(ok::parse(&wire.ok, true)?.info, b"");
    let plain = Wire::login(&proxy, "tls_proof", PASSWORD, "")?;
    assert_eq!(ok::parse(&plain.ok, true)?.info, b"");
    // A client that checks it.
    let modules = drivers_dir().join("node/node_modules");
    if !modules.join("mariadb").is_dir() {
        skipped("our_own_certificate_is_proven", "there is no mariadb for Node");
        return Ok(());
    }
    let program = "const [port, password] = process.argv.slice(1);
        require('mariadb').createConnection(
            { host: '127.0.0.1', port: +port, user: 'tls_proof', password, ssl: true }
        ).then(conn => conn.end()).then(() => console.log('proven'));";
    let mut node = Command::new("node");
    node.args(["-e", program, &proxy.port().to_string(), PASSWORD]).env("NODE_PATH", modules);
    assert_eq!(run(node)?, "proven\n");
    Ok(())
}

#[test]
fn the_admin_port_says_what_is_encrypted() -> Result<()> {
    let Some(server) = backends::mariadb("the_admin_port_says")? else { return Ok(()) };
    backends::account(server, "tls_admin")?;
    let folder = TempFolder::new("certs")?;
    let ca = Ca::new(folder.path(), "ca")?;
    let app = ca.sign("app", Wanted { uri: "spiffe://test/app", ..Wanted::default() })?;
    let config = Config::new(&format!("tls_client_ca = {}", quoted(&ca.file())), server);
    let proxy = Trunkline::start_database(config.user("tls_admin").text())?;
    let admin = |text: &str| -> Result<Vec<Vec<Option<String>>>> {
        let mut wire = Wire::login(Endpoint::Tcp(proxy.admin_port()), "admin", "admin", "")?;
        let mut rows = Vec::new();
        for statement in text.split(';') {
            let outcome = wire.one(statement)?;
            anyhow::ensure!(outcome.error().is_none(), "{statement}: {outcome:?}");
            rows = outcome.text_rows();
        }
        Ok(rows)
    };
    let with = client(&[&TLS12, &TLS13], Some(&app))?;
    let check = |is_plain: bool, is_encrypted: bool, is_known: bool| {
        let attempt = Wire::login(&proxy, "tls_admin", PASSWORD, "");
        assert_eq!(attempt.is_ok(), is_plain);
        assert_eq!(enter(&proxy, "tls_admin", &anybody()?).is_ok(), is_encrypted);
        assert_eq!(enter(&proxy, "tls_admin", &with).is_ok(), is_known);
        anyhow::Ok(())
    };
    check(true, true, true)?;
    admin("UPDATE mysql_users SET use_ssl = 1; LOAD MYSQL USERS TO RUNTIME")?;
    check(false, true, true)?;
    let attributes = "UPDATE mysql_users SET attributes = '{\"spiffe_id\":\"spiffe://test/app\"}'";
    admin(&format!("{attributes}; LOAD MYSQL USERS TO RUNTIME"))?;
    check(false, false, true)?;
    admin("PROXYSQL RELOAD TLS")?;
    // A broken file changes nothing.
    std::fs::write(ca.file(), "nothing\n")?;
    let error = admin("PROXYSQL RELOAD TLS").expect_err("a broken file");
    assert!(error.to_string().contains("holds no certificate in PEM"), "{error}");
    check(false, false, true)?;
    // Params of a server that can't be met.
    let port = server.port();
    let error = admin(&format!(
        "INSERT INTO mysql_servers_ssl_params (hostname, port, ssl_ca) \
         VALUES ('127.0.0.1', {port}, '/nowhere/ca.pem'); \
         UPDATE mysql_servers SET use_ssl = 1; LOAD MYSQL SERVERS TO RUNTIME"
    ));
    let error = error.expect_err("a file that is not there").to_string();
    assert!(error.contains("ssl_ca /nowhere/ca.pem"), "{error}");
    Ok(())
}

#[test]
fn a_certificates_end_is_told_before_it_comes() -> Result<()> {
    let test = "a_certificates_end_is_told";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let Some(openssl) = find_program("openssl") else {
        skipped(test, "there is no openssl");
        return Ok(());
    };
    let folder = TempFolder::new("certs")?;
    let files = super::servers::own_certificate(&openssl, &folder, 10)?;
    let proxy = proxy_for(server, "tls_ends", &shown(&files))?;
    wait_said(&proxy, "own.pem expires in ")?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs_f64();
    let ends = proxy.metric("trunkline_tls_certificate_not_after_seconds", "")?;
    let days = (ends.context("the metric")? - now) / 86_400.0;
    assert!((9.9..=10.1).contains(&days), "{days}");
    // One that has ended is shown all the same, and complained of.
    let ca = Ca::new(folder.path(), "ca")?;
    let wanted = Wanted { dns: "localhost", is_expired: true, ..Wanted::default() };
    let expired = ca.sign("expired", wanted)?;
    std::fs::copy(&expired.cert, &files.cert)?;
    std::fs::copy(&expired.key, &files.key)?;
    let mark = proxy.log_mark();
    proxy.signal(Signal::Hangup)?;
    proxy.wait_log(mark, "has expired", TIMEOUT)?;
    assert!(enter(&proxy, "tls_ends", &anybody()?).is_ok());
    // A key that everybody may read is refused, and what was there stays.
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o644))?;
    let mark = proxy.log_mark();
    proxy.signal(Signal::Hangup)?;
    proxy.wait_log(mark, "is open to others (mode 644)", TIMEOUT)?;
    proxy.wait_log(mark, "configuration unchanged", TIMEOUT)?;
    assert!(enter(&proxy, "tls_ends", &anybody()?).is_ok());
    Ok(())
}

#[test]
fn unix_sockets_may_be_encrypted() -> Result<()> {
    let test = "unix_sockets_may_be_encrypted";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let proxy = proxy_for(server, "tls_unix", "require_secure_transport = true")?;
    let mut programs = Vec::new();
    match find_program("mariadb") {
        None => skipped(test, "there is no mariadb client"),
        Some(program) => programs.push((Command::new(program), "--ssl")),
    }
    match MySqlTree::find() {
        Err(reason) => skipped(test, &reason),
        Ok(tree) => programs.push((tree.command("usr/bin/mysql"), "--ssl-mode=REQUIRED")),
    }
    let mut count = 0.0;
    for (mut program, encrypted) in programs {
        program.args(["--no-defaults", "-utls_unix", "-Ne", "SELECT 5", encrypted]);
        program.arg(format!("--socket={}", proxy.socket().display()));
        program.arg(format!("--password={PASSWORD}"));
        assert_eq!(run(program)?, "5\n", "{encrypted}");
        count += 1.0;
        let labels = "result=\"tls13\"";
        let metric = "trunkline_client_tls_handshakes_total";
        wait_metric(&proxy, metric, labels, |n| n == count)?;
    }
    // They need not be: nobody can listen there.
    let mut plain = Wire::login(Endpoint::Unix(proxy.socket()), "tls_unix", PASSWORD, "")?;
    assert_eq!(plain.value("SELECT 6")?.as_deref(), Some("6"));
    Ok(())
}
