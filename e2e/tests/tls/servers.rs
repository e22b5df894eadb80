//! Servers behind the proxy.

use std::path::Path;

use anyhow::{Context, Result};
use trunkline_testkit::{
    AuthPlugin, Flavour, MariaDb, MySql, Options, Server, TempFolder, Trunkline, find_program,
    mariadb_available, mysql_available, skipped,
};

use super::certs::{Ca, Files, Wanted};
use super::{anybody, enter, quoted};
use crate::backends::{self, Config, PASSWORD, TIMEOUT, wait_metric};
use crate::wire::{ErrorPacket, Wire, refused};

/// A server that shows this certificate, and asks for one of the same CA.
pub fn start(flavour: Flavour, ca: &Ca, shown: &Files) -> Result<Server> {
    let options = Options::default()
        .arg(format!("--ssl-ca={}", ca.file().display()))
        .arg(format!("--ssl-cert={}", shown.cert.display()))
        .arg(format!("--ssl-key={}", shown.key.display()));
    match flavour {
        Flavour::MariaDb => MariaDb::start(options),
        Flavour::MySql => MySql::start(options),
    }
}

/// The flavours that are there.
pub fn flavours(test: &str) -> Vec<Flavour> {
    let mut found = Vec::new();
    for (flavour, is_there) in
        [(Flavour::MariaDb, mariadb_available()), (Flavour::MySql, mysql_available())]
    {
        match is_there {
            Ok(_) => found.push(flavour),
            Err(reason) => skipped(test, &reason),
        }
    }
    found
}

/// A proxy with these keys of its server, and params of TLS to it.
fn proxy(server: &Server, name: &str, keys: &str, params: &str) -> Result<Trunkline> {
    let address = server.address();
    let port = address.rsplit(':').next().context("a port")?;
    let config = Config::at(
        "shun_on_failures = 0\nconnect_timeout_server_max = 2000",
        &format!("localhost:{port}\"\n{keys}\n#"),
    );
    let params = match params {
        "" => String::new(),
        params => format!("[[server_ssl_params]]\naddress = \"localhost:{port}\"\n{params}\n"),
    };
    config.user(name).more(&params).start()
}

fn cipher(wire: &mut Wire) -> Result<Option<String>> {
    let rows = wire.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?[0].text_rows();
    Ok(rows.into_iter().next().and_then(|row| row.into_iter().nth(1)).flatten())
}

/// The error of a statement that finds no server.
fn failure(proxy: &Trunkline, name: &str) -> Result<ErrorPacket> {
    let mut wire = Wire::login(proxy, name, PASSWORD, "")?;
    wire.fails("SELECT 5")
}

#[test]
fn servers_are_met_as_their_mode_says() -> Result<()> {
    for flavour in flavours("servers_are_met_as_their_mode_says") {
        let folder = TempFolder::new("certs")?;
        let (ca, strange) = (Ca::new(folder.path(), "ca")?, Ca::new(folder.path(), "strange")?);
        let here = ca.sign("server", Wanted { dns: "localhost", ..Wanted::default() })?;
        let server = start(flavour, &ca, &here)?;
        let name = "tls_modes";
        backends::account(&server, name)?;
        let known = format!("ssl_ca = {}", quoted(&ca.file()));
        let unknown = format!("ssl_ca = {}", quoted(&strange.file()));
        for (mode, params, is_encrypted) in [
            ("tls = \"disabled\"", "", false),
            ("tls = \"preferred\"", "", true),
            ("tls = \"required\"", "", true),
            ("tls = \"required\"", &*unknown, true),
            ("tls = \"verify-ca\"", &*known, true),
            ("tls = \"verify-identity\"", &*known, true),
            ("use_ssl = 0", "", false),
            ("use_ssl = 1", "", true),
            ("use_ssl = 1", &*known, true),
        ] {
            let proxy = proxy(&server, name, mode, params)?;
            let mut wire = Wire::login(&proxy, name, PASSWORD, "")?;
            let cipher = cipher(&mut wire).with_context(|| format!("{mode}, {params}"))?;
            assert_eq!(cipher.is_some_and(|it| !it.is_empty()), is_encrypted, "{mode}, {params}");
            let long = wire.value("SELECT REPEAT('x', 2000000)")?;
            assert_eq!(long.map(|text| text.len()), Some(2_000_000));
            let expected = if is_encrypted { 1.0 } else { 0.0 };
            let metric = "trunkline_backend_connections_encrypted";
            wait_metric(&proxy, metric, "", |n| (n > 0.0) == (expected > 0.0))?;
            // Encrypted on both sides at once.
            assert_eq!(enter(&proxy, name, &anybody()?)?.value("SELECT 5")?.as_deref(), Some("5"));
        }
        for mode in ["tls = \"verify-ca\"", "tls = \"verify-identity\"", "use_ssl = 1"] {
            let proxy = proxy(&server, name, mode, &unknown)?;
            let error = failure(&proxy, name)?;
            assert_eq!(error.code, 9001, "{error:?}");
            assert!(error.text.contains("TLS failed: the certificate is from an unknown CA"));
            let log = super::wait_said(&proxy, "gave no connection")?;
            assert!(log.contains("TLS failed: the certificate is from an unknown CA"), "{log}");
            // The monitor meets servers as the workers do.
            super::wait_said(&proxy, "server refuses a login: TLS failed: the certificate is")?;
            let labels = "result=\"failed\"";
            wait_metric(&proxy, "trunkline_backend_tls_handshakes_total", labels, |n| n >= 1.0)?;
        }
    }
    Ok(())
}

#[test]
fn certificates_of_servers_are_judged() -> Result<()> {
    if mariadb_available().is_err() {
        skipped("certificates_of_servers_are_judged", "there is no MariaDB");
        return Ok(());
    }
    let folder = TempFolder::new("certs")?;
    let ca = Ca::new(folder.path(), "ca")?;
    let none = Wanted { dns: "localhost", ..Wanted::default() };
    let revoked = ca.sign("revoked", none)?;
    let list = ca.revoke(&revoked)?;
    let cases = [
        (ca.sign("other", Wanted { dns: "db.test", ..none })?, "is for", "verify-identity"),
        (ca.sign("expired", Wanted { is_expired: true, ..none })?, "has expired", "verify-ca"),
        (ca.sign("early", Wanted { is_early: true, ..none })?, "is not valid yet", "verify-ca"),
        (revoked, "is revoked", "verify-ca"),
    ];
    let name = "tls_judge";
    for (files, reason, mode) in cases {
        let server = start(Flavour::MariaDb, &ca, &files)?;
        backends::account(&server, name)?;
        let params = format!("ssl_ca = {}\nssl_crl = {}", quoted(&ca.file()), quoted(&list));
        let strict = proxy(&server, name, &format!("tls = \"{mode}\""), &params)?;
        let error = failure(&strict, name)?;
        assert_eq!(error.code, 9001, "{reason}");
        assert!(error.text.contains(reason), "{reason}: {error:?}");
        let loose = proxy(&server, name, "tls = \"required\"", "")?;
        let mut wire = Wire::login(&loose, name, PASSWORD, "")?;
        assert!(cipher(&mut wire)?.is_some_and(|it| !it.is_empty()), "{reason}");
    }
    Ok(())
}

#[test]
fn a_server_without_tls_is_left_where_tls_is_required() -> Result<()> {
    if mariadb_available().is_err() {
        skipped("a_server_without_tls_is_left", "there is no MariaDB");
        return Ok(());
    }
    let server = MariaDb::start(Options::default().arg("--skip-ssl"))?;
    let name = "tls_absent";
    backends::account(&server, name)?;
    let strict = proxy(&server, name, "tls = \"required\"", "")?;
    let error = failure(&strict, name)?;
    assert!(error.text.contains("TLS is required and the server does not offer it"), "{error:?}");
    let loose = proxy(&server, name, "tls = \"preferred\"", "")?;
    assert_eq!(cipher(&mut Wire::login(&loose, name, PASSWORD, "")?)?.as_deref(), Some(""));
    Ok(())
}

#[test]
fn servers_are_shown_a_certificate() -> Result<()> {
    for flavour in flavours("servers_are_shown_a_certificate") {
        let folder = TempFolder::new("certs")?;
        let ca = Ca::new(folder.path(), "ca")?;
        let here = ca.sign("server", Wanted { dns: "localhost", ..Wanted::default() })?;
        let own = ca.sign("proxy", Wanted::default())?;
        let server = start(flavour, &ca, &here)?;
        let name = "tls_shown";
        backends::account(&server, name)?;
        server.sql(&format!("ALTER USER {name} REQUIRE X509"))?;
        let without = format!("ssl_ca = {}", quoted(&ca.file()));
        let with =
            format!("{without}\nssl_cert = {}\nssl_key = {}", quoted(&own.cert), quoted(&own.key));
        let poor = proxy(&server, name, "use_ssl = 1", &without)?;
        let error = failure(&poor, name)?;
        assert_eq!((error.code, &*error.sqlstate), (1045, "28000"), "{error:?}");
        let rich = proxy(&server, name, "use_ssl = 1", &with)?;
        let mut wire = Wire::login(&rich, name, PASSWORD, "")?;
        assert_eq!(wire.value("SELECT 5")?.as_deref(), Some("5"));
        // Only this user has one.
        let only = format!("{with}\nusername = \"{name}\"");
        let rich = proxy(&server, name, "use_ssl = 1", &only)?;
        let mut wire = Wire::login(&rich, name, PASSWORD, "")?;
        assert_eq!(wire.value("SELECT 5")?.as_deref(), Some("5"));
    }
    Ok(())
}

#[test]
fn a_password_that_a_server_has_not_seen_goes_through_tls() -> Result<()> {
    let Some(server) = backends::mysql("a_password_that_a_server_has_not_seen")? else {
        return Ok(());
    };
    let name = "tls_first";
    // Made anew: nothing of its password is in the server's cache.
    backends::account(server, name)?;
    let proxy = proxy(server, name, "tls = \"required\"", "")?;
    let mut wire = Wire::login(&proxy, name, PASSWORD, "")?;
    assert!(cipher(&mut wire)?.is_some_and(|it| !it.is_empty()));
    Ok(())
}

#[test]
fn connections_made_in_clear_are_not_used_once_tls_is_asked_for() -> Result<()> {
    for server in backends::each("connections_made_in_clear")? {
        let name = "tls_switched";
        server.create_user(name, PASSWORD, AuthPlugin::ServerDefault)?;
        let before = Config::new("", server).user(name);
        let proxy = before.start()?;
        let mut wire = Wire::login(&proxy, name, PASSWORD, "")?;
        assert_eq!(cipher(&mut wire)?.as_deref(), Some(""));
        let text = before.text().replace("[[user]]", "tls = \"preferred\"\n[[user]]");
        let mark = proxy.reload(&text)?;
        proxy.wait_log(mark, "in force", TIMEOUT)?;
        let offered = Wire::login(server, name, PASSWORD, "")?;
        let offers = offered.greeting()?.capabilities;
        let is_offered = offers.contains(trunkline_protocol::Capabilities::SSL);
        trunkline_testkit::wait_until("a new connection", TIMEOUT, || {
            let cipher = cipher(&mut wire)?.unwrap_or_default();
            Ok((cipher.is_empty() != is_offered).then_some(()))
        })?;
    }
    Ok(())
}

#[test]
fn a_configuration_with_broken_files_is_refused() -> Result<()> {
    let Some(server) = backends::mariadb("a_configuration_with_broken_files")? else {
        return Ok(());
    };
    let before = Config::new("", server).user("nobody");
    let proxy = before.start()?;
    for (keys, reason) in [
        ("tls = \"verify-ca\"", "verify-ca needs ssl_ca or ssl_capath"),
        ("tls = \"required\"", "ssl_cipher knows"),
    ] {
        let params = format!(
            "[[server_ssl_params]]\naddress = \"{}\"\nssl_cipher = \"{}\"\n",
            server.address(),
            if reason.starts_with("ssl_cipher") { "RC4-MD5" } else { "" }
        );
        let text = before.text().replace("[[user]]", &format!("{keys}\n{params}[[user]]"));
        let mark = proxy.reload(&text)?;
        let line = proxy.wait_log(mark, reason, TIMEOUT)?;
        assert!(line.contains(&format!("TLS to server {}", server.address())), "{line}");
        proxy.wait_log(mark, "configuration unchanged", TIMEOUT)?;
    }
    drop(refused(Wire::login(&proxy, "stranger", "", ""))?);
    Ok(())
}

#[test]
fn encrypted_connections_move_between_workers() -> Result<()> {
    for flavour in flavours("encrypted_connections_move_between_workers") {
        let folder = TempFolder::new("certs")?;
        let ca = Ca::new(folder.path(), "ca")?;
        let here = ca.sign("server", Wanted { dns: "localhost", ..Wanted::default() })?;
        let server = start(flavour, &ca, &here)?;
        let name = "tls_moved";
        backends::account(&server, name)?;
        // One connection for both workers: it has to be lent.
        let keys = "tls = \"required\"\nmax_connections = 1";
        let proxy = proxy(&server, name, keys, "")?;
        let config = anybody()?;
        // The kernel spreads clients over the workers as it likes.
        let mut clients = Vec::new();
        let has_clients = |worker: u32| -> Result<bool> {
            let labels = format!("worker=\"{worker}\"");
            Ok(proxy.metric("trunkline_worker_clients", &labels)?.is_some_and(|n| n > 0.0))
        };
        while clients.len() < 8 || !has_clients(0)? || !has_clients(1)? {
            anyhow::ensure!(clients.len() < 500, "one worker gets all clients");
            clients.push(enter(&proxy, name, &config)?);
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = clients
                .iter_mut()
                .enumerate()
                .map(|(client, wire)| {
                    scope.spawn(move || -> Result<()> {
                        for round in 0..40 {
                            let value = wire.value(&format!("SELECT {client} * 1000 + {round}"))?;
                            let expected = (client * 1000 + round).to_string();
                            anyhow::ensure!(value.as_deref() == Some(&*expected), "{value:?}");
                        }
                        Ok(())
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        let moved = "trunkline_backend_connections_moved_total";
        wait_metric(&proxy, moved, "", |n| n >= 1.0)?;
        assert!(!proxy.log().contains("TLS failed"), "{}", proxy.log());
    }
    Ok(())
}

#[test]
fn certificates_of_version_1_are_taken_where_any_is() -> Result<()> {
    let test = "certificates_of_version_1_are_taken";
    let (Some(openssl), Ok(_)) = (find_program("openssl"), mariadb_available()) else {
        skipped(test, "there is no openssl, or no MariaDB");
        return Ok(());
    };
    let folder = TempFolder::new("certs")?;
    let ca = Ca::new(folder.path(), "ca")?;
    let openssl = |arguments: &str| {
        let mut command = std::process::Command::new(&openssl);
        super::run({
            command.args(arguments.split(' ')).current_dir(folder.path());
            command
        })
    };
    openssl("req -x509 -newkey rsa:2048 -nodes -days 99 -subj /CN=root -keyout r.key -out r.pem")?;
    openssl("req -newkey rsa:2048 -nodes -subj /CN=old -keyout old.key -out old.csr")?;
    openssl("x509 -req -in old.csr -CA r.pem -CAkey r.key -set_serial 1 -days 99 -out old.pem")?;
    let text = openssl("x509 -in old.pem -noout -text")?;
    if !text.contains("Version: 1 ") {
        skipped(test, "this openssl makes certificates of version 3");
        return Ok(());
    }
    let path = |name: &str| folder.path().join(name);
    let files = Files { cert: path("old.pem"), key: path("old.key"), serial: 1 };
    let server = start(Flavour::MariaDb, &ca, &files)?;
    let name = "tls_old";
    backends::account(&server, name)?;
    for version in ["TLSv1.2", "TLSv1.3"] {
        let params = format!("tls_version = \"{version}\"");
        let proxy = proxy(&server, name, "tls = \"required\"", &params)?;
        let mut wire = Wire::login(&proxy, name, PASSWORD, "")?;
        assert!(cipher(&mut wire)?.is_some_and(|it| !it.is_empty()), "{version}");
        let rows = wire.query("SHOW SESSION STATUS LIKE 'Ssl_version'")?[0].text_rows();
        assert_eq!(rows[0][1].as_deref(), Some(version));
    }
    let params = format!("ssl_ca = {}", quoted(&path("r.pem")));
    let strict = proxy(&server, name, "tls = \"verify-ca\"", &params)?;
    assert_eq!(failure(&strict, name)?.code, 9001);
    super::wait_said(&strict, "TLS failed: the certificate")?;
    Ok(())
}

#[test]
fn folders_ciphers_and_versions_are_each_servers_own() -> Result<()> {
    for flavour in flavours("folders_ciphers_and_versions") {
        let folder = TempFolder::new("certs")?;
        let (ca, other) = (Ca::new(folder.path(), "ca")?, Ca::new(folder.path(), "other")?);
        let wanted = Wanted { dns: "localhost", ..Wanted::default() };
        let (here, gone) = (ca.sign("server", wanted)?, ca.sign("gone", wanted)?);
        let [cas, good, bad] = ["cas", "good", "bad"].map(|name| folder.path().join(name));
        for folder in [&cas, &good, &bad] {
            std::fs::create_dir(folder)?;
        }
        std::fs::copy(ca.file(), cas.join("one.pem"))?;
        std::fs::copy(other.file(), cas.join("two.pem"))?;
        std::fs::copy(ca.revoke(&gone)?, good.join("list.crl"))?;
        std::fs::copy(ca.revoke(&here)?, bad.join("list.crl"))?;
        let server = start(flavour, &ca, &here)?;
        let name = "tls_folders";
        backends::account(&server, name)?;
        let params = |list: &Path, more: &str| {
            format!("ssl_capath = {}\nssl_crlpath = {}\n{more}", quoted(&cas), quoted(list))
        };
        let mode = "tls = \"verify-identity\"";
        for (version, suite) in [
            ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
            ("TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256"),
        ] {
            let more = format!("ssl_cipher = \"{suite}\"\ntls_version = \"{version}\"");
            let proxy = proxy(&server, name, mode, &params(&good, &more))?;
            let mut wire = Wire::login(&proxy, name, PASSWORD, "")?;
            assert_eq!(cipher(&mut wire)?.as_deref(), Some(suite), "{flavour:?}");
            let rows = wire.query("SHOW SESSION STATUS LIKE 'Ssl_version'")?[0].text_rows();
            assert_eq!(rows[0][1].as_deref(), Some(version), "{flavour:?}");
        }
        let revoked = proxy(&server, name, mode, &params(&bad, ""))?;
        let error = failure(&revoked, name)?;
        assert!(error.text.contains("is revoked"), "{error:?}");
        // A list says nothing of another CA, whose certificates it would let through.
        let foreign =
            format!("ssl_ca = {}\nssl_crlpath = {}", quoted(&other.file()), quoted(&good));
        let error = failure(&proxy(&server, name, mode, &foreign)?, name)?;
        assert!(error.text.contains("from an unknown CA"), "{error:?}");
    }
    Ok(())
}

#[test]
fn a_server_that_signs_for_itself_is_named() -> Result<()> {
    let test = "a_server_that_signs_for_itself";
    let (Some(openssl), Ok(_)) = (find_program("openssl"), mariadb_available()) else {
        skipped(test, "there is no openssl, or no MariaDB");
        return Ok(());
    };
    let folder = TempFolder::new("certs")?;
    let ca = Ca::new(folder.path(), "ca")?;
    let files = own_certificate(&openssl, &folder, 99)?;
    let server = start(Flavour::MariaDb, &ca, &files)?;
    let name = "tls_own";
    backends::account(&server, name)?;
    // Nor is it one where it is the CA itself: what signs is not what serves.
    for known in [ca.file(), files.cert] {
        let params = format!("ssl_ca = {}", quoted(&known));
        let error = failure(&proxy(&server, name, "tls = \"verify-ca\"", &params)?, name)?;
        assert!(error.text.contains("self-signed"), "{error:?}");
    }
    Ok(())
}

/// A certificate for `localhost` that signs itself and is valid for so many days.
pub fn own_certificate(openssl: &Path, folder: &TempFolder, days: u32) -> Result<Files> {
    let path = |name: &str| folder.path().join(name);
    let files = Files { cert: path("own.pem"), key: path("own-key.pem"), serial: 1 };
    let mut command = std::process::Command::new(openssl);
    command.args("req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost".split(' '));
    command.args(["-addext", "subjectAltName=DNS:localhost", "-days", &days.to_string()]);
    command.arg("-keyout").arg(&files.key).arg("-out").arg(&files.cert);
    super::run(command)?;
    super::certs::close(&files.key)?;
    Ok(files)
}

#[test]
fn a_server_that_loses_its_tls_gets_no_login_any_more() -> Result<()> {
    let test = "a_server_that_loses_its_tls";
    if mariadb_available().is_err() {
        skipped(test, "there is no MariaDB");
        return Ok(());
    }
    let folder = TempFolder::new("certs")?;
    let ca = Ca::new(folder.path(), "ca")?;
    let here = ca.sign("server", Wanted { dns: "localhost", ..Wanted::default() })?;
    let server = start(Flavour::MariaDb, &ca, &here)?;
    let name = "tls_lost";
    backends::account(&server, name)?;
    let proxy = proxy(&server, name, "tls = \"required\"", "")?;
    let mut wire = Wire::login(&proxy, name, PASSWORD, "")?;
    assert!(cipher(&mut wire)?.is_some_and(|it| !it.is_empty()));
    server.add_arg("--skip-ssl");
    server.restart()?;
    let error = failure(&proxy, name)?;
    assert!(error.text.contains("TLS is required and the server does not offer it"), "{error:?}");
    // The server has seen nobody of that name since.
    let seen = server.value(&format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{name}'"
    ))?;
    assert_eq!(seen.as_deref(), Some("0"));
    Ok(())
}

/// A change of user keeps the certificate that the connection was opened with.
#[test]
fn a_connection_keeps_to_users_of_its_certificate() -> Result<()> {
    for flavour in flavours("a_connection_keeps_to_users_of_its_certificate") {
        let folder = TempFolder::new("certs")?;
        let ca = Ca::new(folder.path(), "ca")?;
        let here = ca.sign("server", Wanted { dns: "localhost", ..Wanted::default() })?;
        let own = ca.sign("own", Wanted::default())?;
        let server = start(flavour, &ca, &here)?;
        for name in ["with_one", "without"] {
            backends::account(&server, name)?;
            server.sql(&format!("ALTER USER {name} REQUIRE X509"))?;
        }
        let address = server.address();
        let port = address.rsplit(':').next().context("a port")?;
        let params = format!(
            "[[server_ssl_params]]\naddress = \"localhost:{port}\"\nusername = \"with_one\"\n\
             ssl_cert = {}\nssl_key = {}\n",
            quoted(&own.cert),
            quoted(&own.key)
        );
        let keys = format!("localhost:{port}\"\ntls = \"required\"\nmax_connections = 1\n#");
        let config = Config::at("shun_on_failures = 0", &keys);
        let config = config.user("with_one").user("without").more(&params);
        let proxy = Trunkline::start(&config.text().replace("workers = 2", "workers = 1"))?;
        for _ in 0..2 {
            let mut with = Wire::login(&proxy, "with_one", PASSWORD, "")?;
            assert_eq!(with.value("SELECT 5")?.as_deref(), Some("5"), "{flavour:?}");
            let error = failure(&proxy, "without")?;
            assert_eq!(error.code, 1045, "{flavour:?}: {error:?}");
        }
    }
    Ok(())
}
