//! Host names to addresses.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{sync::Semaphore, task::JoinSet, time::timeout};
use trunkline_topology::Address;

/// Names looked up at once; the others wait for their turn.
const LOOKUPS_MAX: usize = 32;
/// Addresses kept of one name.
const ADDRESSES_MAX: usize = 64;

/// What became of a round of look-ups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolution {
    /// The addresses of each name that has any, in the order of the name server's answer.
    pub found: HashMap<Address, Vec<SocketAddr>>,
    /// The names without an answer, and why. What was known of them stays good.
    pub failed: Vec<(Address, String)>,
}

/// Looks up every name, each for at most `time_max`. An [`Address`] that needs no look-up is
/// left out.
///
/// Must run within a tokio runtime. A look-up that takes longer goes on in the background, where
/// the system's own time-out ends it.
pub async fn resolve(names: &[Address], time_max: Duration) -> Resolution {
    let turns = Arc::new(Semaphore::new(LOOKUPS_MAX));
    let mut lookups = JoinSet::new();
    for name in names {
        let Address::Tcp { host, port } = name.clone() else {
            continue;
        };
        if name.literal().is_some() {
            continue;
        }
        let (name, turns) = (name.clone(), Arc::clone(&turns));
        lookups.spawn(async move {
            // The semaphore is never closed, so that there always is a permit in the end.
            let _turn = turns.acquire().await;
            (name, look_up(&host, port, time_max).await)
        });
    }
    let mut resolution = Resolution::default();
    for (name, answer) in lookups.join_all().await {
        match answer {
            Ok(addresses) => drop(resolution.found.insert(name, addresses)),
            Err(reason) => resolution.failed.push((name, reason)),
        }
    }
    resolution.failed.sort();
    resolution
}

async fn look_up(host: &str, port: u16, time_max: Duration) -> Result<Vec<SocketAddr>, String> {
    let answer = timeout(time_max, tokio::net::lookup_host((host, port))).await;
    let Ok(answer) = answer else {
        return Err(format!("no answer within {} ms", time_max.as_millis()));
    };
    let mut addresses = Vec::new();
    for address in answer.map_err(|error| error.to_string())?.take(ADDRESSES_MAX) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err("the name has no address".to_owned()),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().expect("address")
    }

    #[tokio::test]
    async fn names_are_found_and_others_fail_by_themselves() {
        let names = ["localhost:3306", "no.such.name.invalid:3306", "10.0.0.1:1", "unix:/s"];
        let names: Vec<Address> = names.into_iter().map(address).collect();
        let resolution = resolve(&names, Duration::from_secs(20)).await;
        let found = resolution.found.get(&address("localhost:3306")).expect("localhost");
        assert!(found.iter().all(|addr| addr.ip().is_loopback() && addr.port() == 3306));
        assert_eq!(resolution.found.len(), 1);
        let failed: Vec<_> = resolution.failed.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(failed, [address("no.such.name.invalid:3306")]);
    }

    #[tokio::test]
    async fn no_names_is_no_work() {
        assert_eq!(resolve(&[], Duration::ZERO).await, Resolution::default());
    }
}
