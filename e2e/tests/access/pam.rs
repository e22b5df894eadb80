//! A real server that asks PAM: by `dialog`, with a service of the test's.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::Result;
use trunkline_testkit::{
    MariaDb, Options, Server, TempFolder, Trunkline, can_overlay, mariadb_available, skipped,
};

use crate::backends::Config;
use crate::tls::certs;
use crate::wire::{Endpoint, MODERN, Wire, login, refused};

const NAME: &str = "pammed";
const PASSWORD: &str = "what PAM knows";
/// Reads the grant tables.
const READER: &str = "pam_reader";

/// A server whose account asks PAM, which knows one name and one password; through its Unix socket
/// and TLS it may be asked.
fn server(test: &str) -> Result<Option<(Server, TempFolder)>> {
    if let Err(reason) = mariadb_available() {
        skipped(test, &reason);
        return Ok(None);
    }
    if !can_overlay() {
        skipped(test, "no mount namespace is to be had (root can make one)");
        return Ok(None);
    }
    let folder = TempFolder::new("pam")?;
    let services = folder.path().join("pam.d");
    std::fs::create_dir(&services)?;
    let script = folder.path().join("check");
    let text =
        format!("#!/bin/sh\n[ \"$PAM_USER\" = {NAME} ] && [ \"$(tr -d '\\0')\" = '{PASSWORD}' ]\n");
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    let service = format!(
        "auth required pam_exec.so quiet expose_authtok {}\naccount required pam_permit.so\n",
        script.display()
    );
    std::fs::write(services.join("trunkline-test"), service)?;
    let ca = certs::Ca::new(folder.path(), "ca")?;
    let shown =
        ca.sign("server", certs::Wanted { dns: "localhost", ..certs::Wanted::default() })?;
    let overlays = vec![(services, PathBuf::from("/etc/pam.d"))];
    let options = Options { overlays, ..Options::default() }
        .arg(format!("--ssl-ca={}", ca.file().display()))
        .arg(format!("--ssl-cert={}", shown.cert.display()))
        .arg(format!("--ssl-key={}", shown.key.display()));
    let server = MariaDb::start(options)?;
    if let Err(error) = server.sql("INSTALL SONAME 'auth_pam'") {
        skipped(test, &format!("the server has no auth_pam: {error:#}"));
        return Ok(None);
    }
    server.sql(&format!(
        "CREATE USER {NAME} IDENTIFIED VIA pam USING 'trunkline-test'; \
         CREATE USER {READER} IDENTIFIED BY 'reads'; GRANT SELECT ON mysql.* TO {READER}"
    ))?;
    Ok(Some((server, folder)))
}

/// Whoever has the right password gets in, over every transport, and nobody else.
fn check(proxy: &Trunkline) -> Result<()> {
    let config = certs::client(&[&rustls::version::TLS13], None)?;
    let by_tls =
        |password: &str| Wire::login_tls(proxy, login(NAME, password, "", MODERN), &config);
    let by_socket =
        |password: &str| Wire::login(Endpoint::Unix(proxy.socket()), NAME, password, "");
    for mut client in
        [Wire::login(proxy, NAME, PASSWORD, "")?, by_tls(PASSWORD)?, by_socket(PASSWORD)?]
    {
        let who = client.value("SELECT CURRENT_USER()")?;
        assert_eq!(who, Some(format!("{NAME}@%")));
    }
    for wrong in ["what PAM does not know", ""] {
        assert_eq!(refused(Wire::login(proxy, NAME, wrong, ""))?.code, 1045);
        assert_eq!(refused(by_tls(wrong))?.code, 1045);
        assert_eq!(refused(by_socket(wrong))?.code, 1045);
    }
    Ok(())
}

#[test]
fn a_servers_pam_decides_about_configured_users() -> Result<()> {
    let Some((server, _folder)) = server("a_servers_pam_decides")? else { return Ok(()) };
    let socket = server.socket().display().to_string();
    for address in [format!("{}\"\ntls = \"required\"\n#", server.address()), socket] {
        check(&Config::at("", &address).user_with(NAME, "server_checks_password = true").start()?)?;
    }
    // In clear the password does not leave the proxy.
    let proxy =
        Config::new("", &server).user_with(NAME, "server_checks_password = true").start()?;
    assert_eq!(refused(Wire::login(&proxy, NAME, PASSWORD, ""))?.code, 1045);
    Ok(())
}

#[test]
fn a_servers_pam_decides_about_its_own_accounts() -> Result<()> {
    let Some((server, _folder)) = server("a_servers_pam_decides_about")? else { return Ok(()) };
    let settings = format!("server_users_account = \"{READER}\"\nserver_users_hostgroup = 10");
    let socket = server.socket().display().to_string();
    let keys = "password = \"reads\"\nactive = false";
    check(&Config::at(&settings, &socket).user_with(READER, keys).start()?)
}
