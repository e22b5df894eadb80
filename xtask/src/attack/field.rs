//! What an attack may use, and where it is written down what it did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use trunkline_protocol::capability::Capabilities;
use trunkline_testkit::{SqlClient, Trunkline};

use super::ATTACKER;
use super::peer::{Answer, Peer};
use crate::bench::limits;
use crate::client::Client;
use crate::watch::SCHEMA;

/// How long somebody who does no harm may have to wait to get in, or for an answer.
const SOON: Duration = Duration::from_secs(3);

/// Bytes and connections of the attacker, and what it was answered.
#[derive(Default)]
pub struct Ledger {
    sent: AtomicU64,
    connections: AtomicU64,
    answers: Mutex<BTreeMap<String, u64>>,
}

impl Ledger {
    pub fn sent(&self, len: usize) {
        self.sent.fetch_add(u64::try_from(len).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// A proxy under attack.
pub struct Field<'a> {
    pub proxy: &'a Trunkline,
    ledger: Ledger,
    deadline: Instant,
    descriptors: u64,
}

impl<'a> Field<'a> {
    pub fn new(proxy: &'a Trunkline, time: Duration, descriptors: u64) -> Field<'a> {
        let deadline = Instant::now() + time;
        Field { proxy, ledger: Ledger::default(), deadline, descriptors }
    }

    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Whether it is time to end.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// So many of the wanted connections can be had.
    pub fn within(&self, connections: u32) -> u32 {
        limits::clients_within(connections, self.descriptors)
    }

    /// Connects to a port of the proxy.
    pub fn open(&self, port: u16) -> Result<Peer<'_>> {
        self.ledger.connections.fetch_add(1, Ordering::Relaxed);
        Peer::open(port, &self.ledger, self.deadline)
    }

    /// Logs in as the attacker.
    pub fn log_in(&self) -> Result<Peer<'_>> {
        self.log_in_with(Capabilities::EMPTY)
    }

    /// Logs in as the attacker, with further capabilities.
    pub fn log_in_with(&self, capabilities: Capabilities) -> Result<Peer<'_>> {
        let mut peer = self.open(self.proxy.port())?;
        let answer = peer.log_in(ATTACKER, ATTACKER, SCHEMA, capabilities)?;
        ensure!(answer == Answer::Ok, "the attacker's login was answered with {answer}");
        Ok(peer)
    }

    /// Logs in at the admin port, as a user of statistics or an administrator.
    pub fn log_in_admin(&self, user: &str) -> Result<Peer<'_>> {
        let mut peer = self.open(self.proxy.admin_port())?;
        let answer = peer.log_in(user, user, "", Capabilities::EMPTY)?;
        ensure!(answer == Answer::Ok, "the login of {user} was answered with {answer}");
        Ok(peer)
    }

    /// Notes an answer.
    pub fn answered(&self, answer: impl ToString) {
        self.answered_times(answer, 1);
    }

    /// Notes so many equal answers.
    pub fn answered_times(&self, answer: impl ToString, times: u64) {
        if times > 0 {
            let mut answers = self.ledger.answers.lock().unwrap_or_else(PoisonError::into_inner);
            *answers.entry(answer.to_string()).or_default() += times;
        }
    }

    /// Notes what the proxy has counted under a metric, if anything.
    pub fn counted(&self, answer: &str, metric: &str, labels: &str) -> Result<()> {
        let count = self.proxy.metric(metric, labels)?.unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        self.answered_times(answer, count as u64);
        Ok(())
    }

    /// Somebody who does no harm logs in and runs a statement in good time.
    pub fn a_newcomer_is_served(&self) -> Result<()> {
        let begun = Instant::now();
        let mut client = Client::connect(self.proxy.port(), super::NEIGHBOUR, SCHEMA)?;
        client.run(super::POINT_SELECT)?;
        let took = begun.elapsed();
        ensure!(took < SOON, "a newcomer waited {took:?}");
        Ok(())
    }

    /// An administrator logs in and gets an answer in good time.
    pub fn an_administrator_is_served(&self) -> Result<()> {
        let begun = Instant::now();
        let mut admin = SqlClient::tcp(self.proxy.admin_port(), "admin", "admin", "")?;
        admin.sql("SELECT count(*) FROM mysql_servers")?;
        let took = begun.elapsed();
        ensure!(took < SOON, "an administrator waited {took:?}");
        Ok(())
    }

    /// Probes are answered in good time.
    pub fn probes_are_answered(&self) -> Result<()> {
        for path in ["/healthz", "/metrics"] {
            let begun = Instant::now();
            let (status, _) = self.proxy.http(path)?;
            let took = begun.elapsed();
            ensure!(status == 200 && took < SOON, "{path} answered {status} after {took:?}");
        }
        Ok(())
    }

    /// Does something on so many threads at once; the first error is that of all.
    pub fn crowd(&self, count: usize, each: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        std::thread::scope(|scope| {
            let each = &each;
            let threads: Vec<_> =
                (0..count).map(|number| scope.spawn(move || each(number))).collect();
            let ended = threads.into_iter().map(|thread| {
                thread.join().map_err(|_| anyhow::anyhow!("a thread of the attack panicked"))?
            });
            // All are waited for.
            ended.collect::<Vec<Result<()>>>().into_iter().collect()
        })
    }

    pub fn sent(&self) -> u64 {
        self.ledger.sent.load(Ordering::Relaxed)
    }

    pub fn connections(&self) -> u64 {
        self.ledger.connections.load(Ordering::Relaxed)
    }

    pub fn answers(&self) -> BTreeMap<String, u64> {
        self.ledger.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
