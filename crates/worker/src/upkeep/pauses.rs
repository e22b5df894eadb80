//! Hostgroups that an operator has paused: what is new there is held until the pause ends.

use trunkline_topology::HostgroupId;

use crate::{
    clients::client::{Awaits, Client, Phase},
    effects::Wake,
    rooms::{Core, Exchange, Lender},
};

impl Exchange {
    /// See [`Worker::pause_hostgroup`](crate::Worker::pause_hostgroup).
    pub(crate) fn on_pause_hostgroup(&mut self, hostgroup: HostgroupId, for_ms: Option<u64>) {
        match for_ms {
            Some(for_ms) => {
                let until_ms = self.core.env.now.ms().saturating_add(for_ms);
                self.core.servers.pauses.insert(hostgroup, until_ms);
                self.core.servers.pool.set_paused(hostgroup, true);
                self.core.look_at_hold(hostgroup);
            }
            None => self.end_pause(hostgroup),
        }
    }

    /// Ends the pauses whose time is over.
    #[inline]
    pub(crate) fn expire_pauses(&mut self) {
        if !self.core.servers.pauses.is_empty() {
            self.end_pauses_that_are_over();
        }
    }

    fn end_pauses_that_are_over(&mut self) {
        let now_ms = self.core.env.now.ms();
        let pauses = &self.core.servers.pauses;
        let over = pauses.iter().filter(|(_, until_ms)| **until_ms <= now_ms);
        let over: Vec<HostgroupId> = over.map(|(hostgroup, _)| *hostgroup).collect();
        over.into_iter().for_each(|hostgroup| self.end_pause(hostgroup));
    }

    /// Those who are held go on, the first ones first.
    fn end_pause(&mut self, hostgroup: HostgroupId) {
        if self.core.servers.pauses.remove(&hostgroup).is_none() {
            return;
        }
        self.core.servers.pool.set_paused(hostgroup, false);
        self.core.look_at_hold(hostgroup);
        let is_held = |client: &Client| client.held_by_pause() == Some(hostgroup);
        for id in self.core.clients.ids_where(is_held) {
            self.with_client(id, Self::go_on_behind_pause);
        }
        self.core.fx.wake(Wake::Queue(hostgroup));
    }

    /// A statement goes on that was held on a connection which its session keeps.
    fn go_on_behind_pause(&mut self, client: &mut Client) {
        let lost = client.session.lost.clone();
        let Some((statement, held)) = client.phase.take_held(|it| *it == Awaits::Resume) else {
            return;
        };
        let waited_us = self.core.env.now.us.saturating_sub(statement.command.begun_us);
        self.core.fx.stats.counters.hold_time_us += waited_us;
        if let Some(cause) = lost {
            // What it was to be a part of has gone meanwhile.
            client.phase = Phase::Running(statement);
            self.fail_statement(client, cause.into_end(), None);
            return self.close_client(client);
        }
        let route = client.still_there(held.route);
        self.run_on_route(client, route, statement);
    }
}

impl Core {
    /// How many are held in each hostgroup on connections that their sessions keep.
    pub(super) fn held_by_pauses(&self) -> impl Iterator<Item = HostgroupId> + '_ {
        let clients = self.clients.logged_in();
        clients
            .filter(|_| !self.servers.pauses.is_empty())
            .filter_map(|client| client.held_by_pause())
    }
}

#[cfg(test)]
mod tests;
