//! Servers whose TLS encrypts, and does not prove who they are: said once for each.

use std::collections::HashSet;

use trunkline_config::Snapshot;
use trunkline_topology::{Address, TlsMode};

/// Servers of which it has been said.
#[derive(Debug, Default)]
pub(super) struct Unproven(HashSet<Address>);

impl Unproven {
    /// A line for each server of which it has not been said.
    pub(super) fn lines(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let servers = snapshot.servers().map(|server| (&server.key.address, server.tls.mode));
        let lines = servers.filter_map(|(address, mode)| {
            let but = match mode {
                TlsMode::Preferred => {
                    "and does without it where the server, or somebody in between, \
                                       does not offer it"
                }
                TlsMode::Required => "whoever answers",
                TlsMode::Disabled | TlsMode::VerifyCa | TlsMode::VerifyIdentity => return None,
            };
            self.0.insert(address.clone()).then(|| {
                format!(
                    "TLS to server {address}: `{}` encrypts, {but}: nothing proves that it is this \
                     server, which may ask for passwords; verify-identity proves it",
                    mode.word()
                )
            })
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tls_does_not_prove_is_said_once_for_each_server() {
        let snapshot = |servers: &str| {
            let text = format!("{servers}[[user]]\nname = \"app\"\npassword = \"secret\"\n");
            let no_files = |_: &str| Err("no files here".to_owned());
            let config = trunkline_config::parse(&text, "test.toml", &no_files);
            config.expect("a configuration").snapshot(None)
        };
        let server = |at: &str, tls: &str| {
            format!("[[server]]\naddress = \"10.0.0.{at}\"\ntls = \"{tls}\"\n")
        };
        let mut unproven = Unproven::default();
        let one = server("1", "preferred") + &server("2", "required") + &server("3", "disabled");
        let lines = unproven.lines(&snapshot(&one));
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].starts_with("TLS to server 10.0.0.1:3306: `preferred` encrypts, and does")
        );
        assert!(lines[1].starts_with("TLS to server 10.0.0.2:3306: `required` encrypts, whoever"));
        let lines = unproven.lines(&snapshot(&(one + &server("4", "required"))));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("10.0.0.4"));
    }
}
