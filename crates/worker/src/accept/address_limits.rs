//! What workers share of the addresses that clients come from: how many clients each has, and the
//! logins that failed. Touched when clients connect, log in and go, and only where limits are set.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use trunkline_topology::{
    Attempt, Failed, FailedLoginLimits, FailedLogins, LoginWait, Origin, machine,
};

/// Addresses whose full handshakes of a second are counted; those beyond it are not limited.
const ADDRESSES_MAX: usize = 16_384;

/// Counts by address.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    clients: Mutex<HashMap<IpAddr, u32>>,
    failed: Mutex<FailedLogins>,
    handshakes: Mutex<Handshakes>,
}

/// Full handshakes of TLS in one second.
#[derive(Debug, Default)]
struct Handshakes {
    /// Which second.
    at_sec: u64,
    counts: HashMap<IpAddr, u32>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Addresses {
    /// Takes a place under an address's cap.
    pub(super) fn take(self: &Arc<Self>, addr: IpAddr, max: u32) -> Option<AddressPlace> {
        let addr = machine(addr);
        let mut clients = lock(&self.clients);
        let count = clients.get(&addr).copied().unwrap_or_default();
        if count >= max {
            return None;
        }
        clients.insert(addr, count + 1);
        Some(AddressPlace { addresses: Arc::clone(self), addr })
    }

    /// Whether all of an address's places are taken.
    pub(super) fn is_full(&self, addr: IpAddr, max: u32) -> bool {
        lock(&self.clients).get(&machine(addr)).is_some_and(|count| *count >= max)
    }

    /// How long a login has to wait that has come so far, if it has to.
    pub(crate) fn wait(
        &self,
        origin: Origin,
        name: &str,
        attempt: Attempt,
        now_ms: u64,
        limits: FailedLoginLimits,
    ) -> Option<LoginWait> {
        lock(&self.failed).wait(origin, name, attempt, now_ms, limits)
    }

    /// A login failed.
    pub(super) fn failed(
        &self,
        origin: Origin,
        name: &str,
        now_ms: u64,
        limits: FailedLoginLimits,
    ) -> Failed {
        lock(&self.failed).failed(origin, name, now_ms, limits)
    }

    /// A login succeeded.
    pub(super) fn succeeded(&self, origin: Origin, name: &str, now_ms: u64) {
        lock(&self.failed).succeeded(origin, name, now_ms);
    }

    /// Takes one of an address's `max` full handshakes of this second; whether there is one left.
    /// Addresses beyond those that are remembered are not limited.
    pub(super) fn take_handshake(&self, addr: IpAddr, now_ms: u64, max: u32) -> bool {
        let addr = machine(addr);
        let mut handshakes = lock(&self.handshakes);
        let now_sec = now_ms / 1_000;
        if handshakes.at_sec != now_sec {
            *handshakes = Handshakes { at_sec: now_sec, ..Handshakes::default() };
        }
        let is_known = handshakes.counts.contains_key(&addr);
        if !is_known && handshakes.counts.len() >= ADDRESSES_MAX {
            return true;
        }
        let count = handshakes.counts.entry(addr).or_default();
        let has_room = *count < max;
        *count = count.saturating_add(u32::from(has_room));
        has_room
    }

    /// It was none: the session was resumed.
    pub(super) fn give_back_handshake(&self, addr: IpAddr) {
        if let Some(count) = lock(&self.handshakes).counts.get_mut(&machine(addr)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Where failed logins come from: how many in a row, and when the last one was, ms.
    pub(crate) fn failing(&self) -> Vec<(Origin, u32, u64)> {
        lock(&self.failed).failing()
    }

    /// Forgets them; how many names had some.
    pub(crate) fn forget_failing(&self) -> usize {
        lock(&self.failed).forget()
    }
}

/// One of an address's places; given back when dropped.
#[derive(Debug)]
pub(crate) struct AddressPlace {
    addresses: Arc<Addresses>,
    addr: IpAddr,
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut clients = lock(&self.addresses.clients);
        match clients.get_mut(&self.addr) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                clients.remove(&self.addr);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn addr(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn an_addresss_cap_holds_and_places_come_back() {
        let addresses = Arc::new(Addresses::default());
        let one = addresses.take(addr("10.0.0.1"), 2);
        let two = addresses.take(addr("::ffff:10.0.0.1"), 2);
        assert!(one.is_some() && two.is_some());
        assert!(addresses.take(addr("10.0.0.1"), 2).is_none());
        assert!(addresses.take(addr("10.0.0.2"), 2).is_some());
        drop(one);
        assert!(addresses.take(addr("10.0.0.1"), 2).is_some());
        drop(two);
        assert!(lock(&addresses.clients).is_empty());
    }

    #[test]
    fn a_machine_has_one_count_for_all_its_ipv6_addresses() {
        let addresses = Arc::new(Addresses::default());
        let _one = addresses.take(addr("2001:db8::1"), 1);
        assert!(addresses.take(addr("2001:db8::2"), 1).is_none());
        assert!(addresses.take(addr("2001:db8:0:1::2"), 1).is_some());
    }

    #[test]
    fn full_handshakes_are_counted_by_the_second() {
        let addresses = Addresses::default();
        let (one, other) = (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(192, 0, 2, 2).into());
        let take = |addr, now_ms| addresses.take_handshake(addr, now_ms, 2);
        assert!(take(one, 5_000) && take(one, 5_900) && !take(one, 5_999));
        assert!(take(other, 5_999));
        // A resumed one does not count.
        addresses.give_back_handshake(one);
        assert!(take(one, 5_999) && !take(one, 5_999));
        assert!(take(one, 6_000));
    }
}
