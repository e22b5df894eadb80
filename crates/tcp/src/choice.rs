//! The server for a client.

use std::net::IpAddr;

use trunkline_config::tcp::Balance;
use trunkline_topology::{Address, ListenerGate, lot, source_hash};

/// A server that may take a client now: online, with weight, below its cap, not tried yet.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Where it listens.
    pub address: &'a Address,
    /// Its weight; at least 1.
    pub weight: u32,
    /// Connections now, over all workers.
    pub connections: u32,
}

/// What a choice may depend on, servers apart.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// The client's address; `None` over a Unix socket.
    pub client: Option<IpAddr>,
    /// Whose turns count.
    pub gate: &'a ListenerGate,
    /// A random number.
    pub random: u64,
}

/// The index of the chosen candidate; `None` when there is none.
pub fn choose(
    balance: Balance,
    candidates: &[Candidate<'_>],
    circumstances: Circumstances<'_>,
) -> Option<usize> {
    match balance {
        Balance::LeastConn => least_connections(candidates, circumstances.random),
        Balance::RoundRobin => {
            let servers: Vec<_> = candidates.iter().map(|it| (it.address, it.weight)).collect();
            circumstances.gate.next_turn(&servers)
        }
        Balance::Source => by_source(candidates, circumstances.client),
        Balance::Random => at_random(candidates, circumstances.random),
        Balance::First => (!candidates.is_empty()).then_some(0),
    }
}

/// The fewest connections for its weight, the new one counted; of equals any one, so that several
/// workers and proxies do not all take the first.
fn least_connections(candidates: &[Candidate<'_>], random: u64) -> Option<usize> {
    let load = |it: &Candidate<'_>| (u64::from(it.connections) + 1, u64::from(it.weight.max(1)));
    // a/b < c/d without a fraction: both are 32-bit numbers and so are their products' halves.
    let less = |a: (u64, u64), b: (u64, u64)| a.0 * b.1 < b.0 * a.1;
    let best = candidates.iter().map(load).reduce(|a, b| if less(b, a) { b } else { a })?;
    let equals: Vec<usize> = candidates
        .iter()
        .enumerate()
        .filter(|(_, it)| !less(best, load(it)))
        .map(|(index, _)| index)
        .collect();
    pick(equals.len() as u64, random).and_then(|place| equals.get(place).copied())
}

fn at_random(candidates: &[Candidate<'_>], random: u64) -> Option<usize> {
    let total: u64 = candidates.iter().map(|it| u64::from(it.weight)).sum();
    let mut left = pick(total, random)? as u64;
    candidates.iter().position(|it| match left.checked_sub(u64::from(it.weight)) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    })
}

/// A number below `count`.
fn pick(count: u64, random: u64) -> Option<usize> {
    usize::try_from(random.checked_rem(count)?).ok()
}

/// Each server draws a lot for the client, and the best one wins.
fn by_source(candidates: &[Candidate<'_>], client: Option<IpAddr>) -> Option<usize> {
    let client = source_hash(client);
    let lots = candidates.iter().map(|it| lot(client, it.address, u64::from(it.weight)));
    let best = lots.enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(count: u16) -> Vec<Address> {
        (0..count).map(|port| Address::Tcp { host: "db".to_owned(), port: port + 1 }).collect()
    }

    fn candidates<'a>(addresses: &'a [Address], loads: &[(u32, u32)]) -> Vec<Candidate<'a>> {
        let pairs = addresses.iter().zip(loads);
        pairs
            .map(|(address, (weight, connections))| Candidate {
                address,
                weight: *weight,
                connections: *connections,
            })
            .collect()
    }

    fn chosen(balance: Balance, candidates: &[Candidate<'_>], client: u32, random: u64) -> usize {
        let gate = ListenerGate::default();
        let client = Some(IpAddr::from(client.to_be_bytes()));
        let circumstances = Circumstances { client, gate: &gate, random };
        choose(balance, candidates, circumstances).expect("a candidate")
    }

    #[test]
    fn the_least_loaded_for_its_weight_is_taken() {
        let names = addresses(3);
        let check = |loads: &[(u32, u32)], expected: usize| {
            assert_eq!(chosen(Balance::LeastConn, &candidates(&names, loads), 0, 7), expected);
        };
        check(&[(1, 4), (1, 3), (1, 5)], 1);
        check(&[(10, 19), (1, 2), (1, 3)], 0);
        check(&[(10, 99), (1, 2), (1, 3)], 1);
        let tie = candidates(&names, &[(1, 0), (1, 0), (1, 9)]);
        let seen: Vec<_> = (0..4).map(|n| chosen(Balance::LeastConn, &tie, 0, n)).collect();
        assert_eq!(seen, [0, 1, 0, 1]);
    }

    #[test]
    fn a_client_keeps_its_server_and_only_those_of_a_lost_one_move() {
        let names = addresses(4);
        let all = candidates(&names, &[(1, 0), (1, 0), (1, 0), (2, 0)]);
        let before: Vec<usize> =
            (0..10_000).map(|client| chosen(Balance::Source, &all, client, 0)).collect();
        let mut shares = [0_u32; 4];
        before.iter().for_each(|server| shares[*server] += 1);
        for (share, expected) in shares.into_iter().zip([2_000_u32, 2_000, 2_000, 4_000]) {
            assert!(share.abs_diff(expected) < 250, "{shares:?}");
        }
        let fewer = &all[..3];
        for (client, server) in (0..10_000).zip(before) {
            let now = chosen(Balance::Source, fewer, client, 0);
            assert!(server == 3 || now == server, "client {client}: {server} -> {now}");
        }
    }

    #[test]
    fn chance_follows_the_weights() {
        let names = addresses(3);
        let three = candidates(&names, &[(1, 0), (0, 0), (3, 0)]);
        let seen: Vec<_> = (0..4).map(|n| chosen(Balance::Random, &three, 0, n)).collect();
        assert_eq!(seen, [0, 2, 2, 2]);
    }

    #[test]
    fn nobody_is_chosen_where_there_is_nobody() {
        let gate = ListenerGate::default();
        for balance in Balance::WORDS.iter().filter_map(|word| Balance::from_word(word)) {
            let circumstances = Circumstances { client: None, gate: &gate, random: 3 };
            assert_eq!(choose(balance, &[], circumstances), None, "{balance}");
        }
    }
}
