//! Passwords that nobody but a server can check.

use std::process::Command;

use anyhow::{Result, ensure};
use trunkline_testkit::{Trunkline, find_program, skipped};

use super::admin;
use crate::backends::{self, Config, PASSWORD, flavour};
use crate::tls::certs;
use crate::wire::{Endpoint, MODERN, Wire, login, refused};

fn proxy(server: &trunkline_testkit::Server, name: &str) -> Result<Trunkline> {
    backends::account(server, name)?;
    Config::new("", server).user_with(name, "server_checks_password = true").start()
}

#[test]
fn a_servers_word_decides_over_every_transport() -> Result<()> {
    let name = "relayed";
    for server in backends::each("a_servers_word_decides")? {
        let proxy = proxy(server, name)?;
        let config = certs::client(&[&rustls::version::TLS13], None)?;
        let by_tls =
            |password: &str| Wire::login_tls(&proxy, login(name, password, "", MODERN), &config);
        let by_socket =
            |password: &str| Wire::login(Endpoint::Unix(proxy.socket()), name, password, "");
        let mut clients = vec![
            Wire::login(&proxy, name, PASSWORD, name)?,
            by_tls(PASSWORD)?,
            by_socket(PASSWORD)?,
        ];
        for client in &mut clients {
            let who = client.value("SELECT CURRENT_USER()")?;
            assert_eq!(who, Some(format!("{name}@%")), "{}", flavour(server));
        }
        for wrong in ["wrong", ""] {
            assert_eq!(refused(Wire::login(&proxy, name, wrong, ""))?.code, 1045);
            assert_eq!(refused(by_tls(wrong))?.code, 1045);
            assert_eq!(refused(by_socket(wrong))?.code, 1045);
        }
        // A name that servers know and the proxy does not stays out.
        backends::account(server, "relayed_not")?;
        assert_eq!(refused(Wire::login(&proxy, "relayed_not", PASSWORD, ""))?.code, 1045);
        clients[0].change_user(name, PASSWORD, "")?;
        assert_eq!(clients[0].value("SELECT 5")?.as_deref(), Some("5"));
    }
    Ok(())
}

#[test]
fn the_admin_port_has_servers_check_passwords() -> Result<()> {
    let name = "relayed_admin";
    for server in backends::each("the_admin_port_has_servers")? {
        backends::account(server, name)?;
        let config = Config::new("", server).user("somebody");
        let proxy = Trunkline::start_database(config.text())?;
        assert_eq!(refused(Wire::login(&proxy, name, PASSWORD, ""))?.code, 1045);
        admin(
            &proxy,
            &format!(
                "INSERT INTO mysql_users (username, default_hostgroup, attributes) \
                 VALUES ('{name}', 10, '{{\"server_checks_password\":true}}'); \
                 LOAD MYSQL USERS TO RUNTIME"
            ),
        )?;
        let mut client = Wire::login(&proxy, name, PASSWORD, "")?;
        assert_eq!(client.value("SELECT CURRENT_USER()")?, Some(format!("{name}@%")));
        assert_eq!(refused(Wire::login(&proxy, name, "wrong", ""))?.code, 1045);
        admin(
            &proxy,
            &format!(
                "UPDATE mysql_users SET attributes = '{{\"server_checks_password\":false}}', \
                 password = 'known here' WHERE username = '{name}'; LOAD MYSQL USERS TO RUNTIME"
            ),
        )?;
        assert_eq!(refused(Wire::login(&proxy, name, PASSWORD, ""))?.code, 1045);
        assert!(Wire::login(&proxy, name, "known here", "").is_ok());
    }
    Ok(())
}

#[test]
fn the_mariadb_client_is_asked_by_pams_dialog() -> Result<()> {
    let name = "relayed_pam";
    let test = "the_mariadb_client_is_asked";
    let Some(program) = find_program("mariadb") else {
        skipped(test, "there is no mariadb client");
        return Ok(());
    };
    for server in backends::each(test)? {
        let proxy = proxy(server, name)?;
        for plugin in ["dialog", "mysql_clear_password", "sha256_password"] {
            for (password, is_right) in [(PASSWORD, true), ("wrong", false)] {
                let mut command = Command::new(&program);
                command.args(["--no-defaults", "--host=127.0.0.1", "--batch"]);
                command.args(["--ssl", "--skip-ssl-verify-server-cert"]);
                command.arg(format!("--port={}", proxy.port()));
                command.arg(format!("--default-auth={plugin}")).args(["--user", name]);
                command.arg(format!("--password={password}")).args(["-e", "SELECT 6 * 7"]);
                let output = command.output()?;
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                ensure!(output.status.success() == is_right, "{plugin} {password}: {said}");
                ensure!(is_right || said.contains("1045"), "{plugin}: {said}");
            }
        }
    }
    Ok(())
}
