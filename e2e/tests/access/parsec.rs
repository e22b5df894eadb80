//! MariaDB of a later release, with `parsec`, and its own client, which checks certificates by the
//! password.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{MariaDb, MariaDbTree, Options, Server, TempFolder, Trunkline, skipped};

use crate::backends::{self, Config, PASSWORD};
use crate::tls::certs;
use crate::wire::{Wire, refused};

const NAME: &str = "parsecked";
/// Reads the grant tables.
const READER: &str = "parsec_reader";

/// A server with an account by `parsec`, and TLS.
fn server(test: &str) -> Result<Option<(MariaDbTree, Server, TempFolder)>> {
    let tree = match MariaDbTree::find() {
        Ok(tree) => tree,
        Err(reason) => {
            skipped(test, &reason);
            return Ok(None);
        }
    };
    let folder = TempFolder::new("parsec")?;
    let ca = certs::Ca::new(folder.path(), "ca")?;
    let shown =
        ca.sign("server", certs::Wanted { dns: "localhost", ..certs::Wanted::default() })?;
    let options = Options { is_newer: true, ..Options::default() }
        .arg(format!("--ssl-ca={}", ca.file().display()))
        .arg(format!("--ssl-cert={}", shown.cert.display()))
        .arg(format!("--ssl-key={}", shown.key.display()));
    let server = MariaDb::start(options)?;
    server.sql("INSTALL SONAME 'auth_parsec'")?;
    let quoted = PASSWORD.replace('\\', "\\\\").replace('\'', "''");
    server.sql(&format!(
        "CREATE USER {NAME} IDENTIFIED VIA parsec USING PASSWORD('{quoted}'); \
         CREATE USER {READER} IDENTIFIED BY 'reads'; GRANT SELECT ON mysql.* TO {READER}"
    ))?;
    Ok(Some((tree, server, folder)))
}

/// What the release's own client prints, or what it says against it.
fn ask(tree: &MariaDbTree, proxy: &Trunkline, name: &str, more: &[&str]) -> Result<String, String> {
    let mut command: Command = tree.command("usr/bin/mariadb");
    command.args(["--no-defaults", "--batch", "--skip-column-names", "--host=127.0.0.1"]);
    command.arg(format!("--port={}", proxy.port())).arg(format!("--user={name}"));
    command.arg(format!("--plugin-dir={}", tree.client_plugins().display()));
    command.args(more).args(["-e", "SELECT CONCAT(6 * 7, ' as ', CURRENT_USER())"]);
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn servers_with_parsec_are_logged_in_to() -> Result<()> {
    let Some((_, server, _folder)) = server("servers_with_parsec")? else { return Ok(()) };
    let socket = server.socket().display().to_string();
    for (address, is_encrypted) in [
        (server.address(), false),
        (format!("{}\"\ntls = \"required\"\n#", server.address()), true),
        (socket, false),
    ] {
        let proxy = Config::at("", &address).user(NAME).start()?;
        let mut client = Wire::login(&proxy, NAME, PASSWORD, "")?;
        assert_eq!(client.value("SELECT CURRENT_USER()")?, Some(format!("{NAME}@%")));
        let metric = "trunkline_backend_connections_encrypted";
        backends::wait_metric(&proxy, metric, "", |n| (n > 0.0) == is_encrypted)?;
    }
    // A wrong password is the server's to refuse.
    let proxy = Config::new("", &server).user_with(NAME, "password = \"wrong\"").start()?;
    let error = Wire::login(&proxy, NAME, "wrong", "")?.fails("SELECT 5")?;
    assert_eq!(error.code, 1045, "{}", error.text);
    Ok(())
}

#[test]
fn what_a_server_stores_for_parsec_lets_its_own_client_in() -> Result<()> {
    let Some((tree, server, _folder)) = server("what_a_server_stores")? else { return Ok(()) };
    let stored = server.value(&format!(
        "SELECT JSON_VALUE(Priv, '$.authentication_string') FROM mysql.global_priv \
         WHERE User = '{NAME}'"
    ))?;
    let stored = stored.context("nothing is stored")?;
    let quoted = PASSWORD.replace('\\', "\\\\");
    let keys = format!("password_hash = \"{stored}\"\nbackend_password = \"{quoted}\"");
    let proxy = Config::new("", &server).user_with(NAME, &keys).start()?;
    let password = format!("--password={PASSWORD}");
    let plain = ["--skip-ssl", &password];
    let encrypted = ["--ssl", "--skip-ssl-verify-server-cert", &password];
    for more in [&plain[..], &encrypted] {
        let said = ask(&tree, &proxy, NAME, more).map_err(anyhow::Error::msg)?;
        assert_eq!(said, format!("42 as {NAME}@%"));
    }
    let error = ask(&tree, &proxy, NAME, &["--skip-ssl", "--password=wrong"]).expect_err("wrong");
    ensure!(error.contains("1045"), "{error}");

    // The same account, read from the server's grant tables: it opens nothing there by itself.
    let settings = format!("server_users_account = \"{READER}\"\nserver_users_hostgroup = 10");
    let reader = "password = \"reads\"\nactive = false";
    let proxy = Config::new(&settings, &server).user_with(READER, reader).start()?;
    let error = ask(&tree, &proxy, NAME, &plain).expect_err("no password for servers");
    ensure!(error.contains("only a hash of the password"), "{error}");
    let error = ask(&tree, &proxy, NAME, &["--skip-ssl", "--password=wrong"]).expect_err("wrong");
    ensure!(error.contains("1045"), "{error}");
    Ok(())
}

#[test]
fn mariadbs_client_checks_our_own_certificate_by_the_password() -> Result<()> {
    let Some((tree, server, _folder)) = server("mariadbs_client_checks")? else { return Ok(()) };
    for name in ["checking", "checking_sha2"] {
        backends::account(&server, name)?;
    }
    let proxy = Config::new("", &server).user("checking").start()?;
    // The client verifies without being told to: it is its default.
    let password = format!("--password={PASSWORD}");
    let said = ask(&tree, &proxy, "checking", &["--ssl", &password]).map_err(anyhow::Error::msg)?;
    assert_eq!(said, "42 as checking@%");
    // Without the password nothing proves the certificate.
    let error = ask(&tree, &proxy, "checking", &["--ssl", "--password=wrong"]).expect_err("wrong");
    ensure!(error.contains("1045") || error.contains("certificate"), "{error}");
    let unknown = refused(Wire::login(&proxy, "checking_sha2", PASSWORD, ""))?;
    assert_eq!(unknown.code, 1045);
    Ok(())
}
