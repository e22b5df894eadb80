//! Clients that are known by their process.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Result, ensure};
use trunkline_testkit::{Trunkline, find_program, skipped};

use super::admin;
use crate::backends::{self, Config, PASSWORD};
use crate::wire::{Endpoint, MODERN, Wire, login, refused};

/// The number of the user whose processes the tests are.
fn own_number() -> Result<u32> {
    Ok(std::fs::metadata("/proc/self")?.uid())
}

fn keys(unix_user: u32, more: &str) -> String {
    let password = PASSWORD.replace('\\', "\\\\");
    format!("unix_user = {unix_user}\nbackend_password = \"{password}\"\n{more}")
}

#[test]
fn processes_of_the_user_need_no_password_over_a_unix_socket() -> Result<()> {
    let name = "processed";
    let own = own_number()?;
    for server in backends::each(name)? {
        for account in [name, "another_process", "either_way"] {
            backends::account(server, account)?;
        }
        let proxy = Config::new("proxy_protocol_networks = [\"localhost\"]", server)
            .user_with(name, &keys(own, ""))
            .user_with("another_process", &keys(own + 1, ""))
            .user_with("either_way", &keys(own, "password = \"known\""))
            .start()?;
        let socket = || Endpoint::Unix(proxy.socket());
        let mut client = Wire::login(socket(), name, "", "")?;
        assert_eq!(client.value("SELECT CURRENT_USER()")?, Some(format!("{name}@%")));
        // Whatever it sends for a password, by whatever plug-in.
        let mut talkative = Wire::login(socket(), name, "anything", "")?;
        assert_eq!(talkative.value("SELECT 5")?.as_deref(), Some("5"));
        talkative.change_user("either_way", "", "")?;
        assert_eq!(talkative.value("SELECT 6")?.as_deref(), Some("6"));

        // Another user's processes, the network, and a balancer's clients are not let in.
        assert_eq!(refused(Wire::login(socket(), "another_process", "", ""))?.code, 1045);
        assert_eq!(refused(Wire::login(&proxy, name, "", ""))?.code, 1045);
        let second = |kind, family| {
            [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[kind, family, 0, 216], &[0; 216]].concat()
        };
        // Of a network, of unknown families, and of a Unix socket.
        let unknown = b"PROXY UNKNOWN\r\n".to_vec();
        let headers = [super::from("192.0.2.7"), unknown, second(0x21, 0), second(0x21, 0x31)];
        for header in headers {
            let behind = Wire::login_behind(socket(), &header, login(name, "", "", MODERN));
            assert_eq!(refused(behind)?.code, 1045, "{}", header.escape_ascii());
        }
        // The balancer itself is a process of the user's.
        let own = Wire::login_behind(socket(), &second(0x20, 0), login(name, "", "", MODERN));
        assert_eq!(own?.value("SELECT 8")?.as_deref(), Some("8"));
        let mut known = Wire::login(&proxy, "either_way", "known", "")?;
        assert_eq!(known.value("SELECT 7")?.as_deref(), Some("7"));
        assert_eq!(refused(Wire::login(&proxy, "either_way", "", ""))?.code, 1045);

        let Some(program) = find_program("mariadb") else {
            skipped(name, "there is no mariadb client");
            continue;
        };
        let mut command = Command::new(program);
        command.args(["--no-defaults", "--batch", "--skip-column-names", "--user", name]);
        command.arg(format!("--socket={}", proxy.socket().display()));
        let output = command.args(["-e", "SELECT 6 * 7"]).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "mariadb: {errors}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "42");
    }
    Ok(())
}

#[test]
fn the_admin_port_names_users_of_the_system() -> Result<()> {
    let Some(server) = backends::mariadb("the_admin_port_names")? else { return Ok(()) };
    let name = "processed_too";
    backends::account(server, name)?;
    let config = Config::new("", server).user("somebody");
    let proxy = Trunkline::start_database(config.text())?;
    let socket = || Endpoint::Unix(proxy.socket());
    let own = own_number()?;
    let quoted = PASSWORD.replace('\'', "''");
    let insert = |unix_user: &str| {
        format!(
            "REPLACE INTO mysql_users (username, password, default_hostgroup, attributes) \
             VALUES ('{name}', '{quoted}', 10, '{{\"unix_user\":{unix_user}}}'); \
             LOAD MYSQL USERS TO RUNTIME"
        )
    };
    admin(&proxy, &insert(&own.to_string()))?;
    let mut client = Wire::login(socket(), name, "", "")?;
    assert_eq!(client.value("SELECT CURRENT_USER()")?, Some(format!("{name}@%")));
    assert_eq!(refused(Wire::login(&proxy, name, "", ""))?.code, 1045);
    assert!(Wire::login(&proxy, name, PASSWORD, "").is_ok());
    // No password is none, and not an empty one; what opens the servers is another row's.
    admin(
        &proxy,
        &format!(
            "DELETE FROM mysql_users WHERE username = '{name}'; \
             INSERT INTO mysql_users (username, default_hostgroup, backend, attributes) \
             VALUES ('{name}', 10, 0, '{{\"unix_user\":{own}}}'); \
             INSERT INTO mysql_users (username, password, default_hostgroup, frontend) \
             VALUES ('{name}', '{quoted}', 10, 0); LOAD MYSQL USERS TO RUNTIME"
        ),
    )?;
    let mut client = Wire::login(socket(), name, "", "")?;
    assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
    for password in ["", PASSWORD] {
        assert_eq!(refused(Wire::login(&proxy, name, password, ""))?.code, 1045);
    }
    admin(&proxy, &format!("DELETE FROM mysql_users WHERE username = '{name}'"))?;
    // By the name, as the system has it; and another one's.
    let Some(word) = own_name(own)? else { return Ok(()) };
    admin(&proxy, &insert(&format!("\"{word}\"")))?;
    assert!(Wire::login(socket(), name, "", "").is_ok());
    admin(&proxy, &insert(&(own + 1).to_string()))?;
    assert_eq!(refused(Wire::login(socket(), name, "", ""))?.code, 1045);
    Ok(())
}

/// What the system calls a user.
fn own_name(number: u32) -> Result<Option<String>> {
    let users = std::fs::read_to_string("/etc/passwd")?;
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let own = users.lines().map(fields).find(|user| user.get(2) == Some(&number.to_string()));
    Ok(own.and_then(|user| user.into_iter().next()))
}
