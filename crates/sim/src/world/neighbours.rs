//! The cache that proxies share, as the thread beside the workers finds it
//! (`crates/proxy/src/shared_cache`): it takes its time, and may be gone.

use std::collections::BTreeMap;

use trunkline_cache::{Reply, SharedAsk, SharedStore, ThisHost, Waiter, unpack};
use trunkline_worker::ClientId;

use super::*;
use crate::driver::now_of;

/// How long a question or an answer is on its way, µs; of so many, one takes longer.
const ASKED_US: Micros = 600;
const LONG_EVERY: u64 = 8;
const LONG_US: Micros = 40_000;

/// A key, and the generation that it is of.
type Place = (Arc<[u8]>, u64);

/// What the shared cache holds.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// Values, and until when each is good.
    values: BTreeMap<Place, (Vec<u8>, Micros)>,
    generation: u64,
    is_down: bool,
}

impl World<'_> {
    fn neighbours_take_us(&mut self) -> Micros {
        let most = if self.rng.chance(1, LONG_EVERY) { LONG_US } else { ASKED_US };
        1 + self.rng.below(most)
    }

    pub(super) fn ask_neighbours(&mut self, ask: Box<SharedAsk>) {
        let (now, takes_us) = (self.now(), self.neighbours_take_us());
        self.queue.put(now + takes_us, Event::Asked(ask, now));
    }

    pub(super) fn tell_neighbours(&mut self, store: Box<SharedStore>) {
        let at = self.now() + self.neighbours_take_us();
        self.queue.put(at, Event::Told(store));
    }

    /// Whoever waits is woken, whatever was found.
    pub(super) fn asked(&mut self, ask: &SharedAsk, asked_us: Micros) {
        let mut waiters = vec![ask.waiter];
        if let Some(reply) = self.found(ask, asked_us) {
            self.count("shared_answer");
            waiters.extend(self.shared.cache().finish(&ask.key, ask.ticket, Some(reply)));
        }
        for Waiter { worker, index, generation } in waiters {
            let client = ClientId { index, generation };
            let mail = WorkerMail::CacheWoken(vec![client]).into();
            self.queue.put(self.now() + MAIL_US, Event::Post(worker, mail));
        }
    }

    fn found(&mut self, ask: &SharedAsk, asked_us: Micros) -> Option<Reply> {
        if self.neighbours.is_down {
            self.shared.cache().shared().set_up(false);
            return None;
        }
        let place = (Arc::clone(&ask.shared_key), self.neighbours.generation);
        let (value, until_us) = self.neighbours.values.get(&place)?;
        let left_ms = until_us.checked_sub(self.now())? / 1_000;
        (value.len() <= ask.reply_max).then(|| unpack(value, left_ms, now_of(asked_us).us))?
    }

    pub(super) fn told(&mut self, store: SharedStore) {
        if self.neighbours.is_down {
            return self.shared.cache().shared().set_up(false);
        }
        let Some(left_ms) = store.left_ms(now_of(self.now()).us) else { return };
        let until_us = self.now() + left_ms * 1_000;
        let place = (store.shared_key, store.generation);
        self.neighbours.values.insert(place, (store.value, until_us));
    }

    /// An operator has all proxies forget what they have stored.
    pub(super) fn flush_answers(&mut self) {
        self.shared.cache().flush();
        self.next_generation();
        self.facts.flushes.push(self.now());
    }

    fn next_generation(&mut self) {
        self.neighbours.generation += 1;
        self.shared.cache().shared().set_generation(self.neighbours.generation);
    }

    pub(super) fn no_neighbours(&mut self, us: Micros) {
        if self.plan.shares_answers {
            self.neighbours.is_down = true;
            self.queue.put(self.now() + us, Event::NeighboursBack);
        }
    }

    /// It is there, and holds nothing.
    pub(super) fn neighbours_back(&mut self) {
        self.neighbours.is_down = false;
        self.neighbours.values.clear();
        self.next_generation();
        self.shared.cache().shared().set_host(ThisHost::default());
        self.shared.cache().shared().set_up(true);
    }
}
