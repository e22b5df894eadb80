//! What workers share of the addresses that clients come from: how many clients each has, and the
//! logins that failed. Touched when clients connect, log in and go, and only where limits are set.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Addresses whose failed logins are remembered; beyond it the one that failed longest ago is
/// forgotten.
const FAILING_MAX: usize = 16_384;

/// Counts by address.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    clients: Mutex<HashMap<IpAddr, u32>>,
    failing: Mutex<HashMap<IpAddr, Failing>>,
    handshakes: Mutex<Handshakes>,
}

/// Full handshakes of TLS in one second.
#[derive(Debug, Default)]
struct Handshakes {
    /// Which second.
    at_sec: u64,
    counts: HashMap<IpAddr, u32>,
}

/// Failed logins in a row.
#[derive(Debug, Clone, Copy)]
struct Failing {
    failures: u32,
    /// When the last one was, ms.
    last_ms: u64,
    /// Nobody from there logs in before this, ms.
    until_ms: u64,
}

/// How failed logins are answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailedLoginLimit {
    /// Failures in a row before an address waits; 0 is no limit.
    pub(crate) max: u32,
    /// The first wait, ms.
    pub(crate) delay_ms: u64,
    /// The longest wait, ms.
    pub(super) delay_max_ms: u64,
}

impl FailedLoginLimit {
    /// How long an address waits after so many failures in a row, ms: twice as long after each.
    fn delay_after(&self, failures: u32) -> u64 {
        match failures.checked_sub(self.max) {
            None => 0,
            Some(beyond) => {
                let factor = 1_u64.checked_shl(beyond).unwrap_or(u64::MAX);
                self.delay_ms.saturating_mul(factor).min(self.delay_max_ms)
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What counts as one address: with IPv6 a machine has 2^64 of them.
pub(super) fn machine(addr: IpAddr) -> IpAddr {
    match addr.to_canonical() {
        IpAddr::V4(addr) => addr.into(),
        IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64).into(),
    }
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

    /// How long an address has to wait still, ms; 0 when it need not.
    pub(super) fn blocked_ms(&self, addr: IpAddr, now_ms: u64) -> u64 {
        let failing = lock(&self.failing);
        failing.get(&machine(addr)).map_or(0, |known| known.until_ms.saturating_sub(now_ms))
    }

    /// A login from there failed. How long the address waits from now on, ms.
    pub(super) fn failed(&self, addr: IpAddr, now_ms: u64, limit: FailedLoginLimit) -> u64 {
        let addr = machine(addr);
        let mut failing = lock(&self.failing);
        if failing.len() >= FAILING_MAX && !failing.contains_key(&addr) {
            let oldest = failing.iter().min_by_key(|(_, known)| known.last_ms);
            if let Some(oldest) = oldest.map(|(addr, _)| *addr) {
                failing.remove(&oldest);
            }
        }
        let before = failing.get(&addr).copied();
        // Who has waited as long as anybody ever does begins anew.
        let is_old = |known: &Failing| {
            now_ms.saturating_sub(known.until_ms.max(known.last_ms)) > limit.delay_max_ms
        };
        let failures = before.filter(|known| !is_old(known)).map_or(0, |known| known.failures);
        let failures = failures.saturating_add(1);
        let delay_ms = limit.delay_after(failures);
        let until_ms = now_ms.saturating_add(delay_ms);
        failing.insert(addr, Failing { failures, last_ms: now_ms, until_ms });
        debug_assert!(failing.len() <= FAILING_MAX);
        delay_ms
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
        if !is_known && handshakes.counts.len() >= FAILING_MAX {
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

    /// Addresses with failed logins: how many in a row, and when the last one was, ms.
    pub(crate) fn failing(&self) -> Vec<(IpAddr, u32, u64)> {
        let failing = lock(&self.failing);
        failing.iter().map(|(addr, known)| (*addr, known.failures, known.last_ms)).collect()
    }

    /// Forgets them; how many there were.
    pub(crate) fn forget_failing(&self) -> usize {
        std::mem::take(&mut *lock(&self.failing)).len()
    }

    /// A login from there succeeded.
    pub(super) fn succeeded(&self, addr: IpAddr) {
        lock(&self.failing).remove(&machine(addr));
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

    const LIMIT: FailedLoginLimit =
        FailedLoginLimit { max: 3, delay_ms: 1_000, delay_max_ms: 5_000 };

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
    fn failures_in_a_row_wait_longer_and_longer() {
        let addresses = Addresses::default();
        let who = addr("10.0.0.1");
        let mut waits = Vec::new();
        for at in 0..7 {
            waits.push(addresses.failed(who, at, LIMIT));
        }
        assert_eq!(waits, [0, 0, 1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(addresses.blocked_ms(who, 6), 5_000);
        assert_eq!(addresses.blocked_ms(who, 5_006), 0);
        assert_eq!(addresses.blocked_ms(addr("10.0.0.2"), 6), 0);
        // One more within the longest wait goes on, a later one begins anew.
        assert_eq!(addresses.failed(who, 5_010, LIMIT), 5_000);
        assert_eq!(addresses.failed(who, 20_000, LIMIT), 0);
    }

    #[test]
    fn a_success_ends_the_row() {
        let addresses = Addresses::default();
        let who = addr("10.0.0.1");
        for at in 0..3 {
            addresses.failed(who, at, LIMIT);
        }
        addresses.succeeded(who);
        assert_eq!(addresses.blocked_ms(who, 3), 0);
        assert_eq!(addresses.failed(who, 4, LIMIT), 0);
    }

    #[test]
    fn so_many_addresses_are_remembered_and_no_more() {
        let addresses = Addresses::default();
        for number in 0..u32::try_from(FAILING_MAX).expect("small") + 10 {
            addresses.failed(IpAddr::V4(number.into()), u64::from(number), LIMIT);
        }
        let failing = lock(&addresses.failing);
        assert_eq!(failing.len(), FAILING_MAX);
        assert!(!failing.contains_key(&IpAddr::V4(9.into())));
        assert!(failing.contains_key(&IpAddr::V4(10.into())));
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
