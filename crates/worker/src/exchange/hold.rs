//! A client of a user with `fast_forward` is held while there is no server for it.

use trunkline_pool::Waiter;
use trunkline_topology::{HostgroupId, RefusalCause};

use crate::{
    ClientId,
    clients::client::{Client, Phase},
    rooms::Exchange,
};

impl Exchange {
    /// Keeps a client until there is a server for a connection of its own, as a statement waits
    /// for one. `waited`: its place in the queue, if it has been there before. `Err`: it can't
    /// wait, since the hostgroup is no cluster's or its queue is full.
    pub(crate) fn hold_forward(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        waited: Option<Waiter<ClientId>>,
    ) -> Result<(), RefusalCause> {
        let account = client.session.login.account;
        let may_wait = waited.is_some()
            || self.core.servers.pauses.contains_key(&hostgroup)
            || self.core.env.snapshot.cluster_writing_in(hostgroup).is_some();
        if !may_wait || !matches!(client.phase, Phase::Idle | Phase::Forward(_)) {
            return Err(RefusalCause::NoneOnline);
        }
        self.core.look_at_hold(hostgroup);
        let queue_max = self.core.env.snapshot.settings.queue_max;
        let waiter = self.core.waiter(client, account);
        let waiters = self.core.servers.pool.waiters(hostgroup);
        let is_held = waiters.hold().is_some();
        let has_place = match waited {
            Some(waited) => waiters.push_front(waited, queue_max),
            None => waiters.push(waiter, queue_max),
        };
        let counters = &mut self.core.fx.stats.counters;
        counters.statements_held += u64::from(has_place && is_held && waited.is_none());
        counters.holds_refused += u64::from(!has_place && is_held);
        if !has_place {
            return Err(RefusalCause::QueueFull);
        }
        client.phase = Phase::AwaitServer(hostgroup);
        Ok(())
    }
}
