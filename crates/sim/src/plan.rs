//! What a seed means: everything that a run begins with and that is done to it, as plain data.
//! A plan can be cut down (`shrink`) and run again.

mod act;
mod apart;
mod balancers;
mod bytes;
mod commits;
mod config;
mod draw;
mod encryption;
mod explained;
mod features;
mod guarded;
mod hidden;
mod later;
mod limited;
mod logged;
mod neighbours;
mod origins;
mod people;
mod repeats;
mod scarce;
mod tenants;
mod traced;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::{HostId, Micros, client::ClientSpec, server::ClusterSpec, wire::PipeSpec};
pub use act::{Act, Fault};
pub use config::{
    ConfigSpec, LimitSpec, RuleSpec, ServerSpec, UserSpec, address_of, host_at, host_of, key_of,
};
pub use origins::Restriction;

/// How large the runs may be that seeds stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Clients at least and at most.
    pub clients: (u64, u64),
    /// Statements of one client at least and at most.
    pub statements: (u64, u64),
    /// Whether anything goes wrong at all.
    pub faults: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { clients: (6, 20), statements: (10, 50), faults: true }
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Starts every chance that is drawn while it runs.
    pub seed: u64,
    /// Workers, 1 to 4.
    pub workers: usize,
    /// Bytes that a worker reads at once.
    pub scratch_len: usize,
    /// Workers write to many links by one call, as by io_uring.
    pub writes_many: bool,
    /// What a worker may take to wake up.
    pub reaction_us: Micros,
    /// What links to clients are like.
    pub client_pipe: PipeSpec,
    /// What links to hosts are like, host by host.
    pub host_pipes: Vec<PipeSpec>,
    /// The servers.
    pub cluster: ClusterSpec,
    /// Configurations; the first is there at the start, the others come by [`Act::Publish`].
    pub configs: Vec<ConfigSpec>,
    /// Clients.
    pub clients: Vec<ClientSpec>,
    /// The proxy has a certificate to show.
    pub offers_tls: bool,
    /// Who looks after the servers.
    pub monitor: Option<MonitorSpec>,
    /// Several proxies share what they have stored.
    pub shares_answers: bool,
    /// The accounts at the servers are shown neither triggers nor the definitions of views.
    pub hides_definitions: bool,
    /// Users that are for some clients only.
    pub restrictions: Vec<Restriction>,
    /// Bytes of memory for all that clients can make grow, if that is to be scarce.
    pub memory_max: Option<u64>,
    /// What operators do, in the order of time.
    pub acts: Vec<(Micros, Act)>,
    /// What goes wrong, in the order of time.
    pub faults: Vec<(Micros, Fault)>,
    /// Places of clients that never come: the shrinker took them out.
    pub absent: BTreeSet<usize>,
    /// When whoever is still there is told to go.
    pub horizon_us: Micros,
    /// The bug that is planted in every worker.
    #[cfg(feature = "plants")]
    pub plant: Option<trunkline_worker::plants::Plant>,
}

/// Looks at each server now and then: takes out those that do not answer, as operators' tools do by
/// way of the admin port, and those that lag by more than their `max_replication_lag`, as the
/// product's monitor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorSpec {
    /// How often.
    pub every_us: Micros,
    /// Looks without an answer, one after the other, before a server is taken out.
    pub misses_max: u32,
}

/// Servers tell their lag in whole seconds. A run lasts two of them, so that here this stands for
/// one, µs.
pub const LAG_UNIT_US: Micros = 1_000;

impl Plan {
    /// Names of the users of all configurations, each once.
    pub fn user_names(&self) -> Vec<String> {
        let users = self.configs.iter().flat_map(|config| &config.users);
        let names: BTreeSet<_> = users.map(|user| user.name.clone()).collect();
        names.into_iter().collect()
    }

    /// Host `host`'s links.
    pub fn host_pipe(&self, host: HostId) -> PipeSpec {
        self.host_pipes.get(host.0).copied().unwrap_or(self.client_pipe)
    }
}
