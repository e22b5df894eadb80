//! Memory of clients that are connected and do nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use trunkline_testkit::Trunkline;

use super::USER;
use crate::client::Client;

/// Until the proxy has done what follows a wave of clients.
const SETTLE: Duration = Duration::from_secs(1);
/// A statement with a small result.
const STATEMENT: &str = "SELECT c FROM sbtest1 WHERE id = 1";

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Idle {
    /// How many clients.
    pub clients: u32,
    /// Memory of the proxy without clients, in bytes.
    pub empty: u64,
    /// With clients that have logged in.
    pub connected: u64,
    /// With clients that have run one statement each.
    pub used: u64,
    /// How long the log-ins took, one after the other.
    pub login: Duration,
}

impl Idle {
    /// Bytes for each client that has logged in.
    pub fn per_connected(&self) -> f64 {
        per_client(self.connected, self.empty, self.clients)
    }

    /// Bytes for each client that has run a statement.
    pub fn per_used(&self) -> f64 {
        per_client(self.used, self.empty, self.clients)
    }

    /// One line for people.
    pub fn line(&self) -> String {
        format!(
            "memory per idle client: {:.0} bytes after the log-in, {:.0} bytes after one statement \
             ({} clients; {:.1} MiB, {:.1} MiB without clients; log-in {:.0} µs)",
            self.per_connected(),
            self.per_used(),
            self.clients,
            mebibytes(self.used),
            mebibytes(self.empty),
            self.login.as_secs_f64() * 1e6 / f64::from(self.clients.max(1)),
        )
    }
}

/// A number of bytes in MiB.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

#[expect(clippy::cast_precision_loss, reason = "memory fits into 52 bits")]
fn per_client(with: u64, without: u64, clients: u32) -> f64 {
    with.saturating_sub(without) as f64 / f64::from(clients.max(1))
}

/// Opens so many clients of the proxy and looks at its memory.
pub fn measure(trunkline: &Trunkline, clients: u32) -> Result<Idle> {
    // The first client makes what all share.
    let _first = Client::connect(trunkline.port(), USER, "sbtest")?;
    std::thread::sleep(SETTLE);
    let empty = trunkline.rss_bytes()?;
    let start = Instant::now();
    let mut all = Vec::with_capacity(clients as usize);
    for number in 0..clients {
        let client = Client::connect(trunkline.port(), USER, "sbtest");
        all.push(client.with_context(|| format!("client {number} of {clients}"))?);
    }
    let login = start.elapsed();
    std::thread::sleep(SETTLE);
    let connected = trunkline.rss_bytes()?;
    for (number, client) in all.iter_mut().enumerate() {
        client.run(STATEMENT).with_context(|| format!("client {number} of {clients}"))?;
    }
    std::thread::sleep(SETTLE);
    Ok(Idle { clients, empty, connected, used: trunkline.rss_bytes()?, login })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_out_among_the_clients() {
        let idle = Idle {
            clients: 1_000,
            empty: 10_000_000,
            connected: 12_000_000,
            used: 9_000_000,
            login: Duration::from_millis(200),
        };
        assert!((idle.per_connected() - 2_000.0).abs() < f64::EPSILON);
        assert!(idle.per_used().abs() < f64::EPSILON);
        assert!(idle.line().contains("log-in 200 µs"), "{}", idle.line());
    }
}
