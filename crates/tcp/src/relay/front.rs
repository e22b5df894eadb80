//! One listener of a worker, and its servers.

use std::{collections::VecDeque, net::IpAddr, sync::Arc};

use trunkline_config::{ListenAddress, TcpFront};
use trunkline_stats::{TcpCounters, TcpServerCounters};
use trunkline_topology::{Server, ServerState};

use super::PairId;
use crate::choice::{Candidate, Circumstances, choose};

/// How often it is said that there is no server, ms.
const COMPLAIN_EVERY_MS: u64 = 10_000;

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Takes clients.
    Active,
    /// Takes clients when no other server is online.
    Backup,
    /// Is not in the configuration any more; its clients go on.
    Gone,
}

#[derive(Debug)]
pub(super) struct ServerSlot {
    pub(super) server: Arc<Server>,
    pub(super) role: Role,
    /// This worker's connections that come from this listener.
    pub(super) connections: u32,
    pub(super) totals: TcpServerCounters,
}

#[derive(Debug)]
pub(super) struct Front {
    pub(super) config: Arc<TcpFront>,
    pub(super) is_open: bool,
    /// At `max_connections`: nobody is accepted.
    pub(super) is_full: bool,
    /// Servers keep their places, so that pairs can name them.
    pub(super) servers: Vec<ServerSlot>,
    /// Clients of this worker.
    pub(super) pairs: u32,
    /// Clients that wait for a server, in their order.
    pub(super) waiting: VecDeque<PairId>,
    pub(super) totals: TcpCounters,
    complained_ms: Option<u64>,
}

/// What was found for a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// This one, and a place under its cap was taken.
    Server(usize),
    /// Every server that is online is at its `max_connections`.
    AllFull,
    /// There is none.
    NoneOnline,
}

impl Front {
    pub(super) fn new(config: &Arc<TcpFront>) -> Self {
        let mut front = Self {
            config: Arc::clone(config),
            is_open: false,
            is_full: false,
            servers: Vec::new(),
            pairs: 0,
            waiting: VecDeque::new(),
            totals: TcpCounters::default(),
            complained_ms: None,
        };
        front.renew(config);
        front
    }

    pub(super) fn address(&self) -> &ListenAddress {
        &self.config.options.address
    }

    /// Takes over another configuration of the same address.
    pub(super) fn renew(&mut self, config: &Arc<TcpFront>) {
        self.config = Arc::clone(config);
        self.servers.iter_mut().for_each(|slot| slot.role = Role::Gone);
        let active = config.servers.iter().map(|server| (server, Role::Active));
        let backups = config.backups.iter().map(|server| (server, Role::Backup));
        for (server, role) in active.chain(backups) {
            match self.servers.iter_mut().find(|slot| slot.server.key == server.key) {
                // A server that left and came back is another one; its old clients go on as they
                // are, and count where they began.
                Some(slot)
                    if slot.connections == 0
                        || Arc::ptr_eq(&slot.server.health, &server.health) =>
                {
                    slot.server = Arc::clone(server);
                    slot.role = role;
                }
                Some(_) | None => self.servers.push(ServerSlot {
                    server: Arc::clone(server),
                    role,
                    connections: 0,
                    totals: Default::default(),
                }),
            }
        }
    }

    /// Finds a server that was not tried yet, and takes a place under its cap.
    pub(super) fn find(
        &mut self,
        client: Option<IpAddr>,
        tried: &[usize],
        random: u64,
        now_ms: u64,
    ) -> Found {
        // Servers in the order of the configuration, whatever their places are.
        for role in [Role::Active, Role::Backup] {
            let mut usable: Vec<usize> = self
                .places(role)
                .filter(|place| !tried.contains(place))
                .filter(|place| {
                    self.servers.get(*place).is_some_and(|slot| {
                        slot.server.weight > 0
                            && slot.server.health.state(now_ms) == ServerState::Online
                    })
                })
                .collect();
            if usable.is_empty() {
                continue;
            }
            usable.retain(|place| {
                self.servers.get(*place).is_some_and(|slot| {
                    slot.server.health.connections() < slot.server.max_connections
                })
            });
            while !usable.is_empty() {
                let Some(index) = self.choose(&usable, client, random) else { break };
                let place = usable.remove(index.min(usable.len() - 1));
                // Another worker may have been faster.
                let is_taken = self.servers.get(place).is_some_and(|slot| {
                    slot.server.health.try_take_connection(slot.server.max_connections)
                });
                if is_taken {
                    return Found::Server(place);
                }
            }
            return Found::AllFull;
        }
        Found::NoneOnline
    }

    fn places(&self, role: Role) -> impl Iterator<Item = usize> {
        let configured = match role {
            Role::Active => self.config.servers.as_slice(),
            Role::Backup => self.config.backups.as_slice(),
            Role::Gone => &[],
        };
        configured.iter().filter_map(move |server| {
            self.servers.iter().position(|slot| {
                slot.role == role && Arc::ptr_eq(&slot.server.health, &server.health)
            })
        })
    }

    fn choose(&self, places: &[usize], client: Option<IpAddr>, random: u64) -> Option<usize> {
        let slots = places.iter().filter_map(|place| self.servers.get(*place));
        let candidates: Vec<Candidate<'_>> = slots
            .map(|slot| Candidate {
                address: &slot.server.key.address,
                weight: slot.server.weight,
                connections: slot.server.health.connections(),
            })
            .collect();
        let circumstances = Circumstances { client, gate: &self.config.gate, random };
        choose(self.config.options.balance, &candidates, circumstances)
    }

    /// Whether it is time to say again that there is no server.
    pub(super) fn complain(&mut self, now_ms: u64) -> bool {
        let is_due = self.complained_ms.is_none_or(|at_ms| now_ms >= at_ms + COMPLAIN_EVERY_MS);
        if is_due {
            self.complained_ms = Some(now_ms);
        }
        is_due
    }
}
