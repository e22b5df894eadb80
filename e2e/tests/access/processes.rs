//! Clients that are known by their process.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Result, ensure};
use trunkline_testkit::{find_program, skipped};

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
        let header = super::from("192.0.2.7");
        let behind = Wire::login_behind(socket(), &header, login(name, "", "", MODERN));
        assert_eq!(refused(behind)?.code, 1045);
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
