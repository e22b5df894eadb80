//! Sessions are held while the hostgroup that they wait for has no writer.

use std::fmt::Write as _;

use trunkline_config::snapshot::Cluster;
use trunkline_pool::{AccountId, Hold, Waiter};
use trunkline_topology::{HostgroupId, Role, ServerHealth};

use crate::{
    ClientId,
    clients::client::{Client, Phase},
    rooms::Core,
    servers::Servers,
};

impl Core {
    /// A place in a queue for a client that begins to wait now.
    pub(crate) fn waiter(&self, client: &Client, account: AccountId) -> Waiter<ClientId> {
        let tenant = match &client.phase {
            Phase::Running(statement) => statement.target.tenant,
            _ => None,
        };
        Waiter {
            client: client.id,
            account,
            since_us: self.env.now.us,
            deadline_ms: self.env.now.ms() + self.env.snapshot.settings.connect_timeout_server_max,
            held_ms: None,
            tenant: tenant.unwrap_or_default(),
            begin_by_ms: None,
        }
    }

    /// Looks whether those who wait for a hostgroup are held.
    pub(crate) fn look_at_hold(&mut self, hostgroup: HostgroupId) {
        let now_ms = self.env.now.ms();
        let hold = match self.servers.pool.has_online(hostgroup, now_ms) {
            _ if self.servers.pauses.contains_key(&hostgroup) => Some(Hold::Paused),
            true => None,
            false => self.env.snapshot.cluster_writing_in(hostgroup).map(|cluster| {
                let timeout_ms = cluster.entry.hold_timeout;
                let timeout_ms = timeout_ms.unwrap_or(self.env.snapshot.settings.hold_timeout);
                Hold::NoWriter { timeout_ms }
            }),
        };
        let connect_ms = self.env.snapshot.settings.connect_timeout_server_max;
        let look = self.servers.pool.waiters(hostgroup).set_hold(hold, now_ms, connect_ms);
        self.fx.stats.counters.statements_held += look.begun as u64;
        self.fx.stats.counters.hold_time_us += look.held_ms * 1_000;
    }

    /// What a session is doing that is held.
    pub(super) fn doing_held(&self, hostgroup: HostgroupId) -> Option<String> {
        Some(match self.servers.pool.hold(hostgroup)? {
            Hold::Paused => paused(hostgroup),
            Hold::NoWriter { .. } => self.no_writer(hostgroup),
        })
    }

    /// What a session is doing that waits for a cluster's writer.
    pub(super) fn no_writer(&self, hostgroup: HostgroupId) -> String {
        let cluster = self.env.snapshot.cluster_writing_in(hostgroup);
        let name = cluster.map(|cluster| cluster.entry.name.as_str());
        format!("held: no writer of cluster {}", name.unwrap_or_default())
    }

    /// Why nobody takes a hostgroup's statements, for one that was held in vain.
    pub(crate) fn no_writer_text(&self, hostgroup: HostgroupId) -> String {
        let Some(cluster) = self.env.snapshot.cluster_writing_in(hostgroup) else {
            return "the hostgroup has no writer".to_owned();
        };
        let mut text = format!("cluster {} has no writer", cluster.entry.name);
        let known = self.known_of_writer(cluster, hostgroup);
        if !known.is_empty() {
            let _ = write!(text, " ({known})");
        }
        text.push_str("; nothing was executed, so it can be tried again");
        text
    }

    /// What is known of the server that writes or wrote last.
    fn known_of_writer(&self, cluster: &Cluster, hostgroup: HostgroupId) -> String {
        let why = self.servers.last_failure(hostgroup);
        let slots = || {
            let slots = self.servers.pool.slots().map(|(_, slot)| slot);
            slots.filter(|slot| slot.server.key.hostgroup == hostgroup && !slot.removed)
        };
        let is_one = |health: &ServerHealth| matches!(health.role(), Some(Role::Writer { .. }));
        if !slots().any(|slot| is_one(&slot.server.health)) {
            return format!("none of its {} servers takes writes{why}", slots().count());
        }
        let Some(number) = cluster.cell.last_writer() else {
            return "none has been found so far".to_owned();
        };
        let Some(member) = cluster.member(number) else {
            return "the last one is no member any more".to_owned();
        };
        let address = &member.address;
        let slot = slots().find(|slot| slot.server.key.address == *address);
        match slot.map(|slot| &slot.server.health) {
            Some(health) if health.is_deposed() => {
                format!("{address}, the last one, does not take writes any more")
            }
            Some(health) if health.is_offline() => format!("{address} is taken offline"),
            Some(_) | None => format!("{address} cannot be reached{why}"),
        }
    }
}

/// What a session is doing that is held by a pause.
pub(super) fn paused(hostgroup: HostgroupId) -> String {
    format!("held: hostgroup {hostgroup} is paused")
}

impl Servers {
    /// Why the last connection to the hostgroup did not come up, if none did since.
    pub(crate) fn last_failure(&self, hostgroup: HostgroupId) -> String {
        let why = self.logins.last_failures.get(&hostgroup);
        why.map_or_else(String::new, |why| format!(" (the last attempt: {why})"))
    }
}
