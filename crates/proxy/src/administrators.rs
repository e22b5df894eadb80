//! What administrators ask of a worker: to end a client of anybody's, to accept nobody for a while.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
};

use tracing::error;
use trunkline_net::{Listener, Token};
use trunkline_stats::DigestRow;
use trunkline_worker::{KillAnswer, KillAsker, KillRequest, KillScope, Worker};

use crate::outside::Outside;

/// `KILL`s that wait for what came of them; the oldest gives way to one more.
const KILLS_MAX: usize = 1_024;

/// Tells who asked what came of a `KILL`.
pub type TellKill = Box<dyn FnOnce(KillAnswer) + Send>;

/// Takes rows of the digest table, as they come.
pub type TakeDigests = Box<dyn FnMut(Vec<DigestRow>) + Send>;

/// Rows of the digest table that are copied between two batches (measured: below 0.1 ms).
const DIGESTS_PER_BATCH: usize = 256;

/// What administrators wait for.
#[derive(Default)]
pub(crate) struct Administrators {
    /// Who is told what came of a `KILL`, by its number.
    kills: BTreeMap<u64, TellKill>,
    last: u64,
    /// Who reads the digest table, and how many rows they have.
    readers: VecDeque<(usize, TakeDigests)>,
}

impl Administrators {
    /// A number for a `KILL`.
    fn await_answer(&mut self, tell: TellKill) -> u64 {
        self.last += 1;
        if self.kills.len() >= KILLS_MAX {
            self.kills.pop_first();
        }
        self.kills.insert(self.last, tell);
        self.last
    }

    /// Whether somebody waits for rows.
    pub(crate) fn has_readers(&self) -> bool {
        !self.readers.is_empty()
    }

    /// Tells who asked.
    pub(crate) fn tell(&mut self, ticket: u64, answer: KillAnswer) {
        if let Some(tell) = self.kills.remove(&ticket) {
            tell(answer);
        }
    }
}

impl Administrators {
    /// A request to end a client or its statement, whoever it is.
    pub(crate) fn kill(
        &mut self,
        worker: usize,
        number: u32,
        scope: KillScope,
        tell: TellKill,
    ) -> Box<KillRequest> {
        let ticket = self.await_answer(tell);
        let asker = KillAsker { worker, client: None, ticket };
        Box::new(KillRequest { number, scope, user: None, asker })
    }

    /// Gives all rows of the digest table, beginning with this batch.
    pub(crate) fn give_digests(&mut self, take: TakeDigests) {
        self.readers.push_back((0, take));
    }

    /// The next rows for whoever has waited longest.
    pub(crate) fn read_digests(&mut self, worker: &Worker) {
        let Some((from, mut take)) = self.readers.pop_front() else { return };
        let rows = worker.digests(from, DIGESTS_PER_BATCH);
        let is_last = rows.len() < DIGESTS_PER_BATCH;
        take(rows);
        if !is_last {
            self.readers.push_front((from + DIGESTS_PER_BATCH, take));
        }
    }
}

impl Outside {
    /// Accepts clients here and nowhere else from now on. Who waits to be accepted elsewhere is
    /// refused.
    pub(crate) fn listen_at(&mut self, listeners: Vec<Listener>) {
        self.remove_listeners();
        self.parts.listeners = listeners;
        if let Err(error) = self.add_listeners() {
            error!(%error, "no more clients can be accepted");
        }
    }

    pub(crate) fn add_listeners(&mut self) -> io::Result<()> {
        for (number, listener) in self.parts.listeners.iter_mut().enumerate() {
            self.parts.poller.add_listener(listener, Token(1 + number))?;
        }
        Ok(())
    }

    pub(crate) fn remove_listeners(&mut self) {
        for mut listener in self.parts.listeners.drain(..) {
            // It is closed anyway.
            let _ = self.parts.poller.remove_listener(&mut listener);
        }
    }
}
