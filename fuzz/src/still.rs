//! A proxy that stands still: what the control plane asks of the rest of the process is answered,
//! and nothing happens.

use std::sync::Arc;

use trunkline_admin::{
    Answer, ApplyFuture, Ending, FailedLogins, Health, HostgroupTraffic, KillFuture, NotKilled,
    OfCluster, PausedHostgroup, ReportFuture, Runtime, SessionsFuture, StatusSource, Switched,
    Traffic,
};
use trunkline_budget::Budget;
use trunkline_config::{Config, Snapshot};
use trunkline_net::TlsSetup;
use trunkline_stats::{DigestQuery, DigestRow, Inventory, Report, SessionList, SessionQuery};
use trunkline_topology::Address;

/// What it runs with.
pub struct Still {
    pub snapshot: Arc<Snapshot>,
    pub budget: Arc<Budget>,
}

impl StatusSource for Still {
    fn report(&self, _: DigestQuery) -> ReportFuture<'_> {
        Box::pin(async { Report::default() })
    }

    fn sessions(&self, _: SessionQuery) -> SessionsFuture<'_> {
        Box::pin(async { SessionList::default() })
    }

    fn health(&self) -> Health {
        Health::Ready
    }

    fn checks(
        &self,
        _kind: trunkline_stats::checks::CheckKind,
    ) -> Vec<trunkline_stats::checks::CheckRow> {
        Vec::new()
    }

    fn topology(&self) -> trunkline_stats::Topology {
        trunkline_stats::Topology::default()
    }

    fn http_allowed_hosts(&self) -> String {
        "proxy.example".to_owned()
    }
}

impl Runtime for Still {
    fn apply(&self, _: Config, _: String) -> ApplyFuture<'_> {
        Box::pin(async { panic!("a stranger changes the configuration") })
    }

    fn reload(&self) -> ApplyFuture<'_> {
        Box::pin(async { panic!("a stranger has the configuration read") })
    }

    fn reload_tls(&self) -> ApplyFuture<'_> {
        Box::pin(async { panic!("a stranger has certificates read") })
    }

    fn tls(&self) -> Arc<TlsSetup> {
        Arc::default()
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    fn explain(
        &self,
        _: Option<&str>,
        _: Option<&str>,
        _: &str,
    ) -> Result<Vec<(&'static str, String)>, String> {
        Ok(Vec::new())
    }

    fn cluster_order(&self, _: OfCluster) -> ApplyFuture<'_> {
        Box::pin(async { panic!("a stranger does something with a cluster") })
    }

    fn flush_cache(&self) -> u64 {
        panic!("a stranger empties the cache")
    }

    fn digests(&self) -> Answer<'_, Vec<DigestRow>> {
        Box::pin(async { Vec::new() })
    }

    fn inventory(&self, _: usize) -> Answer<'_, Inventory> {
        Box::pin(async { Inventory::default() })
    }

    fn audit(&self, _: String) {}

    fn reopen_logs(&self) -> Answer<'_, Result<(), String>> {
        Box::pin(async { panic!("a stranger has logs opened") })
    }

    fn failed_logins(&self) -> Vec<FailedLogins> {
        Vec::new()
    }

    fn forget_failed_logins(&self) -> u64 {
        panic!("a stranger has failed logins forgotten")
    }

    fn kill(&self, number: u32, _: bool) -> KillFuture<'_> {
        Box::pin(async move {
            Err(NotKilled { code: 1094, message: format!("Unknown thread id: {number}") })
        })
    }

    fn traffic(&self, _: Traffic) -> ApplyFuture<'_> {
        Box::pin(async { panic!("a stranger stops the traffic") })
    }

    fn hostgroup_traffic(&self, _: u32, _: HostgroupTraffic) -> ApplyFuture<'_> {
        Box::pin(async { panic!("a stranger pauses a hostgroup") })
    }

    fn switchover(&self, _: String, _: Option<Address>, _: bool) -> Answer<'_, Switched> {
        Box::pin(async { panic!("a stranger has another server write") })
    }

    fn paused_hostgroups(&self) -> Answer<'_, Vec<PausedHostgroup>> {
        Box::pin(async { Vec::new() })
    }

    fn stop(&self, _: Ending) {
        panic!("a stranger stops the process")
    }
}
