//! What the hosts are called that clients come from: asked for where somebody who may connect is
//! named so, once for all logins from an address, and remembered for all workers.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use trunkline_config::Snapshot;
use trunkline_session::frontend::ClientHandshake;
use trunkline_stats::ClientRefusal;
use trunkline_topology::{HostAnswer, HostName};

use crate::{
    Action, ClientId, accept::arrival::Turned, action::Peer, clients::client::Phase,
    rooms::Exchange,
};

/// Addresses whose names are remembered; with more of them all are asked for again.
const NAMES_MAX: usize = 16_384;
/// How long an answer is remembered, ms.
const NAME_KEPT_MS: u64 = 60_000;
/// How long it is remembered that nobody could say, ms.
const FAILURE_KEPT_MS: u64 = 5_000;
/// Addresses that one worker asks about at a time; clients from others are taken for nameless.
const ASKING_MAX: usize = 1_024;

/// Names by address.
#[derive(Debug, Default)]
pub(crate) struct HostNames {
    known: Mutex<HashMap<IpAddr, Known>>,
}

#[derive(Debug)]
struct Known {
    name: HostName,
    until_ms: u64,
}

impl HostNames {
    fn known(&self) -> MutexGuard<'_, HashMap<IpAddr, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of an address.
    fn find(&self, addr: IpAddr, now_ms: u64) -> Option<HostName> {
        let known = self.known();
        known.get(&addr).filter(|known| now_ms < known.until_ms).map(|known| known.name.clone())
    }

    fn remember(&self, addr: IpAddr, name: HostName, until_ms: u64) {
        let mut known = self.known();
        if known.len() >= NAMES_MAX && !known.contains_key(&addr) {
            known.clear();
        }
        known.insert(addr, Known { name, until_ms });
    }
}

/// Whether a client's login has to wait for the name of its host.
pub(crate) fn needs_name(snapshot: &Snapshot, peer: &Peer) -> bool {
    if peer.client_addr.is_none() || peer.host_name != HostName::Unasked {
        return false;
    }
    let own = snapshot.listen_allow(peer.listener);
    // One that is on the list by its address need not have a name.
    let is_listed = own.is_none_or(|own| own.includes(peer.client_addr, &peer.host_name));
    snapshot.names_hosts || !is_listed
}

impl Exchange {
    /// Has a client wait for what its host is called, unless that is known.
    pub(crate) fn name_host(&mut self, id: ClientId) {
        let Some(addr) = self.core.clients.get(id).and_then(|client| client.peer.client_addr)
        else {
            return;
        };
        if let Some(name) = self.core.env.shared.host_names().find(addr, self.core.env.now.ms()) {
            return self.go_on_named(id, name);
        }
        if let Some(waiting) = self.core.clients.logins.naming.get_mut(&addr) {
            waiting.push(id);
        } else if self.core.clients.logins.naming.len() < ASKING_MAX {
            self.core.clients.logins.naming.insert(addr, vec![id]);
            self.core.fx.act(Action::LookUpHost(addr));
        } else {
            self.core.fx.stats.counters.host_names_unasked += 1;
            self.go_on_named(id, HostName::Nameless);
        }
    }

    /// See [`Worker::host_named`](crate::Worker::host_named).
    pub(crate) fn on_host_named(&mut self, addr: IpAddr, answer: HostAnswer) {
        let now_ms = self.core.env.now.ms();
        let counters = &mut self.core.fx.stats.counters;
        let (name, kept_ms) = match answer {
            HostAnswer::Named(name) => {
                counters.host_names_found += 1;
                (HostName::Named(name), NAME_KEPT_MS)
            }
            HostAnswer::Nameless => {
                counters.host_names_missing += 1;
                (HostName::Nameless, NAME_KEPT_MS)
            }
            HostAnswer::Unconfirmed(name) => {
                counters.host_names_unconfirmed += 1;
                self.core.fx.log(true, || {
                    format!(
                        "{addr} is called {name}, and {name} is not {addr}: it has no name here"
                    )
                });
                (HostName::Nameless, NAME_KEPT_MS)
            }
            HostAnswer::Failed(reason) => {
                counters.host_names_failed += 1;
                self.core.fx.log(true, || format!("what {addr} is called is not known: {reason}"));
                (HostName::Nameless, FAILURE_KEPT_MS)
            }
        };
        self.core.env.shared.host_names().remember(
            addr,
            name.clone(),
            now_ms.saturating_add(kept_ms),
        );
        for id in self.core.clients.logins.naming.remove(&addr).unwrap_or_default() {
            self.go_on_named(id, name.clone());
        }
    }

    /// A client's login goes on, unless its listener does not take hosts of that name.
    fn go_on_named(&mut self, id: ClientId, name: HostName) {
        debug_assert!(name != HostName::Unasked);
        let Some(client) = self.core.clients.get_mut(id) else {
            return;
        };
        let Phase::Login(handshake) = &client.phase else {
            return;
        };
        let Some(answer_seq) = handshake.host_answer_seq() else {
            return;
        };
        Arc::make_mut(&mut client.peer).host_name = name;
        let peer = Arc::clone(&client.peer);
        // Who is logged in already was judged when it came.
        if client.session.is_none() && !self.core.env.is_allowed(&peer) {
            self.core.fx.stats.counters.client_refused(ClientRefusal::AddressNotAllowed);
            let error = Turned::NotAllowed.error(&peer.host());
            return self.refuse(id, answer_seq, error);
        }
        self.login_resumed(id, ClientHandshake::on_host_named);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    fn named(name: &str) -> HostName {
        HostName::Named(name.into())
    }

    #[test]
    fn names_are_remembered_for_their_time() {
        let names = HostNames::default();
        assert_eq!(names.find(addr(1), 0), None);
        names.remember(addr(1), named("one"), 10);
        names.remember(addr(2), HostName::Nameless, 5);
        assert_eq!(names.find(addr(1), 9), Some(named("one")));
        assert_eq!(names.find(addr(1), 10), None);
        assert_eq!(names.find(addr(2), 4), Some(HostName::Nameless));
        names.remember(addr(1), named("other"), 20);
        assert_eq!(names.find(addr(1), 10), Some(named("other")));
    }

    #[test]
    fn so_many_names_are_remembered_and_no_more() {
        let names = HostNames::default();
        for number in 0..u32::try_from(NAMES_MAX).expect("small") + 10 {
            names.remember(addr(number), HostName::Nameless, u64::MAX);
            assert!(names.known().len() <= NAMES_MAX);
        }
        assert_eq!(names.known().len(), 10);
    }
}
