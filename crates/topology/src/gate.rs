//! What all workers know of one TCP listener.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use crate::Address;

/// Shared by all workers and kept across configuration changes of the same listener. Touched once
/// for each connection, never for its bytes.
#[derive(Debug, Default)]
pub struct ListenerGate {
    connections: AtomicU32,
    /// What each server has in hand of its next turn.
    turns: Mutex<BTreeMap<Address, i64>>,
}

impl ListenerGate {
    /// Takes one of `max` places for a client; false when all are taken.
    pub fn try_enter(&self, max: u32) -> bool {
        self.connections
            .fetch_update(Relaxed, Relaxed, |open| (open < max).then_some(open + 1))
            .is_ok()
    }

    /// Gives a client's place back.
    pub fn leave(&self) {
        let before = self.connections.fetch_sub(1, Relaxed);
        debug_assert!(before > 0);
    }

    /// Clients now, over all workers.
    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }

    /// Whose turn it is among servers and their weights, as an index: each gets its share in any
    /// stretch of connections, evenly spread (smooth weighted round robin). `None` without a
    /// server of weight.
    pub fn next_turn(&self, servers: &[(&Address, u32)]) -> Option<usize> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|address, _| servers.iter().any(|(other, _)| *other == address));
        let mut total = 0_i64;
        let mut best: Option<(usize, i64)> = None;
        for (index, (address, weight)) in servers.iter().enumerate() {
            let weight = i64::from(*weight);
            total += weight;
            let in_hand = match turns.get_mut(*address) {
                Some(in_hand) => in_hand,
                None => turns.entry((*address).clone()).or_default(),
            };
            *in_hand += weight;
            if weight > 0 && best.is_none_or(|(_, most)| *in_hand > most) {
                best = Some((index, *in_hand));
            }
        }
        let (index, _) = best?;
        let (address, _) = servers.get(index)?;
        if let Some(in_hand) = turns.get_mut(*address) {
            *in_hand -= total;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address::Tcp { host: "10.0.0.1".to_owned(), port }
    }

    #[test]
    fn turns_follow_the_weights_and_are_spread() {
        let (a, b, c) = (address(1), address(2), address(3));
        let gate = ListenerGate::default();
        let servers = [(&a, 5), (&b, 1), (&c, 1)];
        let turns: Vec<_> = (0..7).filter_map(|_| gate.next_turn(&servers)).collect();
        assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
        let equal = [(&a, 1), (&b, 1)];
        let turns: Vec<_> = (0..4).filter_map(|_| gate.next_turn(&equal)).collect();
        assert_eq!(turns.iter().filter(|turn| **turn == 0).count(), 2, "{turns:?}");
        assert_eq!(gate.next_turn(&[(&a, 0)]), None);
        assert_eq!(gate.next_turn(&[]), None);
    }

    #[test]
    fn the_cap_on_clients_holds() {
        let gate = ListenerGate::default();
        assert!(gate.try_enter(1) && !gate.try_enter(1));
        gate.leave();
        assert!(gate.try_enter(1));
        assert_eq!(gate.connections(), 1);
    }
}
