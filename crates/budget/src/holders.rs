//! Who holds how much: by user and by address, over all workers.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::bytes;

/// Steps in which a client's part of its user's and its address's sum changes, bytes.
const STEP: usize = 64 * 1024;

/// What users and addresses hold.
#[derive(Debug, Default)]
pub struct Holders {
    users: Mutex<HashMap<String, Arc<AtomicU64>>>,
    addresses: Mutex<HashMap<IpAddr, Arc<AtomicU64>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets sums that are nobody's any more.
fn tidy<K: Eq + Hash>(sums: &Mutex<HashMap<K, Arc<AtomicU64>>>) {
    lock(sums).retain(|_, sum| Arc::strong_count(sum) > 1);
}

impl Holders {
    /// Users and addresses that hold something.
    pub fn len(&self) -> (usize, usize) {
        (lock(&self.users).len(), lock(&self.addresses).len())
    }

    /// The users that hold most, at most so many, greatest first.
    pub fn users(&self, max: usize) -> Vec<(String, u64)> {
        let users = lock(&self.users);
        let mut users: Vec<_> =
            users.iter().map(|(name, sum)| (name.clone(), sum.load(Relaxed))).collect();
        users.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        users.truncate(max);
        users
    }
}

/// A client that holds more than its free allowance.
#[derive(Debug)]
pub struct Holder {
    holders: Arc<Holders>,
    /// Bytes that it holds.
    held: usize,
    /// What of them is in the sums.
    summed: u64,
    user: Option<Arc<AtomicU64>>,
    address: Option<Arc<AtomicU64>>,
}

impl Holder {
    /// A client of this user, if it has one yet, from this address, if it has one.
    pub fn new(holders: &Arc<Holders>, user: Option<&str>, address: Option<IpAddr>) -> Self {
        let user = user.map(|name| {
            let mut users = lock(&holders.users);
            match users.get(name) {
                Some(sum) => Arc::clone(sum),
                None => Arc::clone(users.entry(name.to_owned()).or_default()),
            }
        });
        let address =
            address.map(|addr| Arc::clone(lock(&holders.addresses).entry(addr).or_default()));
        Self { holders: Arc::clone(holders), held: 0, summed: 0, user, address }
    }

    /// Bytes that it holds.
    pub fn held(&self) -> usize {
        self.held
    }

    /// It holds so many bytes from now on.
    pub fn set(&mut self, held: usize) {
        self.held = held;
        let now = bytes(held / STEP * STEP);
        if now != self.summed {
            for sum in [&self.user, &self.address].into_iter().flatten() {
                sum.fetch_add(now, Relaxed);
                sum.fetch_sub(self.summed, Relaxed);
            }
            self.summed = now;
        }
    }

    /// How greedy it is: what it, its user and its address hold together. So many small clients of
    /// one user or address are greedier than one of somebody else's that holds more than each.
    pub fn score(&self) -> u64 {
        let sums = [&self.user, &self.address].into_iter().flatten();
        sums.fold(bytes(self.held), |score, sum| score.saturating_add(sum.load(Relaxed)))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.set(0);
        let holders = Arc::clone(&self.holders);
        if self.user.take().is_some_and(|sum| Arc::strong_count(&sum) <= 2) {
            tidy(&holders.users);
        }
        if self.address.take().is_some_and(|sum| Arc::strong_count(&sum) <= 2) {
            tidy(&holders.addresses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(holders: &Arc<Holders>, user: &str, last: u8, held: usize) -> Holder {
        let mut holder = Holder::new(holders, Some(user), Some(IpAddr::from([192, 0, 2, last])));
        holder.set(held);
        holder
    }

    #[test]
    fn many_small_clients_of_one_user_are_greedier_than_a_large_one_of_another() {
        let holders = Arc::default();
        let many: Vec<_> = (0..100).map(|last| holder(&holders, "many", last, 10 * STEP)).collect();
        let one = holder(&holders, "one", 200, 100 * STEP);
        assert!(many.iter().all(|small| small.score() > one.score()));
    }

    #[test]
    fn of_one_address_the_user_who_holds_most_is_greediest() {
        let holders = Arc::default();
        let many: Vec<_> = (0..10).map(|_| holder(&holders, "many", 1, 10 * STEP)).collect();
        let one = holder(&holders, "one", 1, 20 * STEP);
        assert!(many.iter().all(|small| small.score() > one.score()));
    }

    #[test]
    fn sums_go_with_the_last_who_holds_something() {
        let holders = Arc::default();
        let (one, other) = (holder(&holders, "a", 1, 3 * STEP), holder(&holders, "a", 2, STEP));
        assert_eq!(holders.users(9), [("a".to_owned(), 4 * bytes(STEP))]);
        assert_eq!(holders.len(), (1, 2));
        drop(one);
        assert_eq!(holders.users(9), [("a".to_owned(), bytes(STEP))]);
        drop(other);
        assert_eq!(holders.len(), (0, 0));
    }
}
