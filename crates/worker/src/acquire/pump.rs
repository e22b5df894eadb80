//! Step 7 for those who wait: what has become free, or has room, is given on.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use trunkline_pool::{AccountId, Choice, Only, SlotId, Waiter};
use trunkline_topology::{HostgroupId, RefusalCause};

use crate::{
    ClientId,
    acquire::lease::is_second,
    clients::client::{Client, Phase},
    rooms::{Exchange, Lender},
    servers::Servers,
};

/// Whom [`Exchange::pump`] could not serve.
#[derive(Debug, Default)]
struct Skipped {
    /// How many, from the front of the queue.
    waiters: usize,
    /// The servers that they wait for; a hostgroup has few.
    servers: Vec<Option<SlotId>>,
    /// There would be a connection if another worker gave one.
    is_at_cap: bool,
    /// Where there are tenants: how many wait for connections of an account that come up.
    coming: HashMap<AccountId, u32, FixedState>,
}

impl Skipped {
    /// Whether a connection comes up for one who waits: the first of an account gets the first.
    fn awaits_own(
        &mut self,
        servers: &Servers,
        hostgroup: HostgroupId,
        waiter: &Waiter<ClientId>,
    ) -> bool {
        let coming = servers.pool.coming(hostgroup, waiter.account);
        let taken = self.coming.entry(waiter.account).or_default();
        let awaits = *taken < coming;
        if awaits {
            *taken += 1;
            self.waiters += 1;
        }
        awaits
    }
}

impl Exchange {
    /// Serves those who wait for a hostgroup as far as that is possible by now. Who waits for one
    /// server alone keeps nobody behind from the others.
    pub(crate) fn pump(&mut self, hostgroup: HostgroupId) {
        if self.core.servers.pool.hold(hostgroup).is_some() {
            return;
        }
        let has_tenants = self.core.servers.pool.has_tenants();
        let connecting = match has_tenants {
            // Whom each is for is looked at.
            true => 0,
            false => self.core.servers.pool.connecting(hostgroup),
        };
        let mut unserved =
            self.core.servers.pool.waiters(hostgroup).len().saturating_sub(connecting);
        let mut passed = Skipped::default();
        while unserved > 0 {
            unserved -= 1;
            let now_us = self.core.env.now.us;
            let next = self.core.servers.pool.next_in_turn(hostgroup, passed.waiters, now_us);
            let Some(waiter) = next else { break };
            if has_tenants && passed.awaits_own(&self.core.servers, hostgroup, &waiter) {
                continue;
            }
            if has_plant!(self.core, TenantStarved) && is_second(&waiter) {
                passed.waiters += 1;
                continue;
            }
            let goes_on = self.with_client(waiter.client, |exchange, client| {
                exchange.serve(client, hostgroup, &waiter, &mut passed)
            });
            if goes_on != Some(true) {
                break;
            }
        }
        if passed.is_at_cap {
            self.core.ask_peers(hostgroup);
        }
    }

    /// Gives one who waits a connection, or has one come up. False when nobody behind can be
    /// served either.
    fn serve(
        &mut self,
        client: &mut Client,
        hostgroup: HostgroupId,
        waiter: &Waiter<ClientId>,
        passed: &mut Skipped,
    ) -> bool {
        if let Phase::AwaitServer(_) = client.phase {
            self.core.servers.pool.waiters(hostgroup).take(|it| it.client == client.id);
            client.phase = Phase::Idle;
            self.open_forward(client, Some(*waiter));
            return !matches!(client.phase, Phase::AwaitServer(_));
        }
        let account = waiter.account;
        let named = self.core.named_server(client);
        if named.is_some() && passed.servers.contains(&named) {
            passed.waiters += 1;
            return true;
        }
        let is_causal = client.is_causal();
        if self.core.only(client).is_some_and(Only::is_empty) {
            // The replicas that showed it are out.
            self.core.servers.pool.waiters(hostgroup).take(|it| it.client == client.id);
            if !self.awaits_position(client) {
                self.core.requeue(client);
            }
            return true;
        }
        match self.core.choose(client, hostgroup, account) {
            Choice::Idle(_, conn) => {
                self.core.servers.pool.waiters(hostgroup).take(|it| it.client == client.id);
                self.core.count_queue_time(waiter);
                self.with_conn(conn, |exchange, conn| exchange.lease(client, conn));
                true
            }
            Choice::Open(slot) => self.core.open(slot, hostgroup, account, client).is_some(),
            Choice::ChangeUser(_, conn) => {
                let changes = self.core.with_conn(conn, |core, conn| {
                    core.change_account(client, conn, hostgroup, account)
                });
                changes == Some(true)
            }
            Choice::Replace(_, conn) => {
                let replaces = self.core.with_conn(conn, |core, conn| {
                    core.replace_fetched(client, conn, hostgroup, account)
                });
                replaces == Some(true)
            }
            Choice::Wait(cause) => {
                passed.is_at_cap |= cause == RefusalCause::AllAtMaxConnections;
                if named.is_none() && !is_causal {
                    return false;
                }
                passed.waiters += 1;
                if named.is_some() {
                    passed.servers.push(named);
                }
                true
            }
        }
    }
}
