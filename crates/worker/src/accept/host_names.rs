//! What the hosts are called that clients come from: asked for where somebody who may connect is
//! named so, once for all logins from an address, and remembered for all workers.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use trunkline_config::Snapshot;
use trunkline_topology::HostName;

use crate::action::Peer;

/// Addresses whose names are remembered; with more of them all are asked for again.
const NAMES_MAX: usize = 16_384;
/// How long an answer is remembered, ms.
pub(crate) const NAME_KEPT_MS: u64 = 60_000;
/// How long it is remembered that nobody could say, ms.
pub(crate) const FAILURE_KEPT_MS: u64 = 5_000;
/// Addresses that one worker asks about at a time; clients from others are taken for nameless.
pub(crate) const ASKING_MAX: usize = 1_024;

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
    pub(crate) fn find(&self, addr: IpAddr, now_ms: u64) -> Option<HostName> {
        let known = self.known();
        known.get(&addr).filter(|known| now_ms < known.until_ms).map(|known| known.name.clone())
    }

    pub(crate) fn remember(&self, addr: IpAddr, name: HostName, until_ms: u64) {
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
