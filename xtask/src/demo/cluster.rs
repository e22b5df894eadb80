//! What the demo starts: a primary, two replicas, and the proxy before them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use trunkline_testkit::{AuthPlugin, Replication, Server, SqlClient, Trunkline};

/// The account of the demo; its password is the same word.
pub const USER: &str = "demo";
/// Hostgroup of the primary.
pub const WRITER: u32 = 10;
/// Hostgroup of the replicas.
pub const READER: u32 = 20;
/// How many replicas there are.
const REPLICAS: u32 = 2;
/// How long a replica may take to apply what was just loaded.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// The running servers and the proxy.
#[derive(Debug)]
pub struct Cluster {
    // In this order, so that the proxy ends before the servers.
    proxy: Trunkline,
    observers: Vec<SqlClient>,
    replication: Replication,
}

/// How far a server is in the primary's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// `domain-server-number`, as MariaDB writes it.
    pub gtid: String,
    /// Transactions that the primary has and this server hasn't; 0 for the primary.
    pub behind: u64,
}

impl Cluster {
    /// Starts all of it, each step said.
    pub fn start(binary: &Path) -> Result<Cluster> {
        println!("== starting a MariaDB primary and {REPLICAS} replicas, replicating by GTID");
        let replication = Replication::mariadb(REPLICAS)?;
        let primary = replication.primary();
        primary.create_user(USER, USER, AuthPlugin::Native)?;
        replication.wait_caught_up(CATCH_UP_TIMEOUT)?;
        let all = || std::iter::once(primary).chain(replication.replicas());
        for server in all() {
            let (id, address) = (server.server_id(), server.address());
            let folder = server.folder().display();
            println!("   {} #{id} on {address}, in {folder}", role(server, primary));
        }
        let observers = all().map(|server| server.root()).collect::<Result<Vec<_>>>()?;
        let config = config(&replication);
        println!("== trunkline serve -c trunkline.toml, with this file:");
        for line in config.lines() {
            println!("   {line}");
        }
        let proxy = Trunkline::start_binary(binary, &config, &[])?;
        Ok(Cluster { proxy, observers, replication })
    }

    /// The proxy.
    pub fn proxy(&self) -> &Trunkline {
        &self.proxy
    }

    /// The primary first, then the replicas.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        std::iter::once(self.replication.primary()).chain(self.replication.replicas())
    }

    /// `primary #1` or `replica #2`, for the server at an address.
    pub fn name_of(&self, address: &str) -> String {
        let server = self.servers().find(|server| server.address() == address);
        server.map_or_else(
            || address.to_owned(),
            |server| {
                let role = role(server, self.replication.primary());
                format!("{role} #{}", server.server_id())
            },
        )
    }

    /// A client of the proxy.
    pub fn connect(&self, schema: &str) -> Result<SqlClient> {
        self.proxy.connect(USER, USER, schema)
    }

    /// Waits until the replicas have all that the primary has.
    pub fn wait_caught_up(&self) -> Result<()> {
        self.replication.wait_caught_up(CATCH_UP_TIMEOUT)
    }

    /// Where each server is in the primary's log, asked of the servers themselves.
    pub fn positions(&mut self) -> Result<Vec<Position>> {
        let mut positions = Vec::new();
        let mut newest = None;
        // The replicas before the primary would look ahead of it at times.
        for (index, observer) in self.observers.iter_mut().enumerate() {
            let variable =
                if index == 0 { "@@global.gtid_binlog_pos" } else { "@@global.gtid_slave_pos" };
            let gtid = observer.value(&format!("SELECT {variable}"))?.unwrap_or_default();
            let number = number(&gtid);
            let newest = *newest.get_or_insert(number);
            let behind = newest.saturating_sub(number);
            positions.push(Position { gtid, behind });
        }
        Ok(positions)
    }

    /// Stops the proxy as an operator would (SIGTERM), then the servers.
    pub fn stop(self) -> Result<()> {
        let status =
            self.proxy.terminate(Duration::from_secs(40)).context("the proxy does not stop")?;
        anyhow::ensure!(status.success(), "the proxy ended with {status}:\n{}", self.proxy.log());
        Ok(())
    }
}

fn role(server: &Arc<Server>, primary: &Arc<Server>) -> &'static str {
    if Arc::ptr_eq(server, primary) { "primary" } else { "replica" }
}

/// The last part of `0-1-1234`.
fn number(gtid: &str) -> u64 {
    let last = gtid.rsplit('-').next();
    last.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn config(replication: &Replication) -> String {
    let mut text = String::new();
    let primary = std::iter::once((WRITER, replication.primary()));
    let replicas = replication.replicas().iter().map(|server| (READER, server));
    for (hostgroup, server) in primary.chain(replicas) {
        let address = server.address();
        text.push_str(&format!("[[server]]\nhostgroup = {hostgroup}\naddress = \"{address}\"\n"));
    }
    text.push_str(&format!(
        "[[replication]]\nwriter_hostgroup = {WRITER}\nreader_hostgroup = {READER}\n\
         read_write_split = \"auto\"\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{USER}\"\ndefault_hostgroup = {WRITER}\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_position_is_its_last_part() {
        assert_eq!(number("0-1-1234"), 1234);
        assert_eq!(number(""), 0);
    }
}
