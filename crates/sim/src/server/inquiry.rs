//! What servers say to whoever looks for a lost `COMMIT`.

use std::collections::BTreeMap;

use trunkline_protocol::packet::greeting::Flavor;

use super::Cluster;
use crate::{HostId, Micros, oracle::facts::Gtid};

impl Cluster {
    /// Since when a host runs; `None` if it does not answer.
    pub fn up_since(&self, host: HostId) -> Option<Micros> {
        let server = self.hosts.get(host.0)?;
        (server.is_up && !server.hangs).then_some(server.up_since)
    }

    /// `KILL` of a connection by its server's number: false if there is none.
    pub fn end_thread(&mut self, host: HostId, number: u64, now: Micros) -> bool {
        let Some(server) = self.hosts.get(host.0) else {
            return false;
        };
        // Who asks has the next number, and looks at that.
        let counts_on = server.numbers_so_far() >= number;
        let Some(victim) = server.numbers.get(&number).filter(|_| counts_on).copied() else {
            return false;
        };
        self.kill(victim, false, now)
    }

    /// `gtid_executed`, or `gtid_binlog_state` of MariaDB.
    pub fn gtids_of(&self, host: HostId) -> String {
        let Some(server) = self.hosts.get(host.0) else {
            return String::new();
        };
        let mut last: BTreeMap<_, Gtid> = BTreeMap::new();
        for commit in &server.log {
            let Gtid { host, mark, .. } = commit.gtid;
            // What MariaDB numbers under a mark says nothing of who has done it.
            let by = match (server.spec.flavor, mark) {
                (Flavor::MariaDb, Some(_)) => None,
                _ => Some(host),
            };
            last.insert((by, mark), commit.gtid);
        }
        let shown = |gtid: &Gtid| match server.spec.flavor {
            Flavor::MySql => {
                let text = gtid.of_mysql();
                let (name, number) = text.rsplit_once(':').unwrap_or_default();
                format!("{name}:1-{number}")
            }
            Flavor::MariaDb => gtid.of_mariadb(),
        };
        last.values().map(shown).collect::<Vec<_>>().join(",")
    }
}
