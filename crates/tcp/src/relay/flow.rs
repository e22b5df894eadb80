//! The bytes of pairs, as far as they are known here: how many, from where, and what is left.

use super::{Action, PairId, Phase, Relay};
use crate::pair::{End, Pair, Step};

impl Relay {
    /// Whether bytes of this end are wanted now.
    pub fn may_read(&self, id: PairId, from: End) -> bool {
        self.entry(id)
            .is_some_and(|entry| entry.phase == Phase::Joined && entry.pair.may_read(from))
    }

    /// Bytes came from one end, and the other took so many of them at once.
    pub fn relayed(&mut self, id: PairId, from: End, bytes: &[u8], taken: usize) {
        let now_ms = self.now_ms;
        let store = match taken < bytes.len() {
            true => self.buffers.pop().unwrap_or_default(),
            false => Vec::new(),
        };
        let Some(entry) = self.pairs.get_mut(id.index as usize).filter(|entry| entry.id == id)
        else {
            return;
        };
        entry.active_ms = match taken {
            0 => entry.active_ms,
            _ => [now_ms; 2],
        };
        if let Some(active_ms) = entry.active_ms.get_mut(from as usize) {
            *active_ms = now_ms;
        }
        entry.pair.hold(from.other(), bytes.get(taken..).unwrap_or_default(), store);
        let len = bytes.len() as u64;
        let slot = entry.server.zip(self.fronts.get_mut(entry.front));
        let Some(slot) = slot.and_then(|(place, front)| front.servers.get_mut(place)) else {
            return;
        };
        slot.totals.reads += 1;
        match from {
            End::Client => slot.totals.bytes_to_server += len,
            End::Server => slot.totals.bytes_to_client += len,
        }
    }

    /// Bytes that wait for this end.
    pub fn pending(&self, id: PairId, to: End) -> &[u8] {
        match self.entry(id) {
            Some(entry) if entry.phase == Phase::Joined => entry.pair.pending(to),
            Some(_) | None => &[],
        }
    }

    /// This end took so many of the bytes that waited for it.
    pub fn wrote(&mut self, id: PairId, to: End, len: usize) {
        let now_ms = self.now_ms;
        let Some(entry) = self.entry_mut(id) else { return };
        if let Some(active_ms) = entry.active_ms.get_mut(to as usize) {
            *active_ms = now_ms;
        }
        let buffer = entry.pair.took(to, len);
        self.keep_buffer(buffer);
        self.steps(id);
    }

    /// This end has said its last.
    pub fn ended(&mut self, id: PairId, from: End) {
        self.change(id, |pair| pair.end_of(from));
    }

    /// This end takes nothing any more; what it still says is passed on.
    pub fn deaf(&mut self, id: PairId, end: End) {
        self.change(id, |pair| pair.deaf(end));
    }

    /// This end is gone.
    pub fn gone(&mut self, id: PairId, end: End) {
        if self.entry(id).is_some_and(|entry| entry.phase != Phase::Joined) {
            return self.finish(id);
        }
        self.change(id, |pair| pair.gone(end));
    }

    fn change(&mut self, id: PairId, change: impl FnOnce(&mut Pair)) {
        if let Some(entry) = self.entry_mut(id) {
            change(&mut entry.pair);
            self.steps(id);
        }
    }

    fn steps(&mut self, id: PairId) {
        while let Some(step) = self.entry_mut(id).and_then(|entry| entry.pair.next_step()) {
            match step {
                Step::Shutdown(end) => self.actions.push(Action::Shutdown(id, end)),
                Step::Close => self.finish(id),
            }
        }
    }
}
