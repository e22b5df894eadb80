//! A worker's end of a sealed connection, as its shell takes it.

use trunkline_worker::shell;

use crate::sealing::{self, Seal};

/// A seal, with what its stream has not taken and what its hello is not whole without.
#[derive(Debug)]
pub struct WorkerSeal {
    seal: Seal,
    waiting: Vec<u8>,
    unsent: Vec<u8>,
}

/// Sealed bytes on their way to a link.
#[derive(Debug, Default)]
pub struct SealedBytes(Vec<u8>);

impl shell::Records for SealedBytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl WorkerSeal {
    /// The end that asks.
    pub(super) fn ask() -> Self {
        let (seal, hello) = Seal::ask();
        Self { seal, waiting: Vec::new(), unsent: hello.to_vec() }
    }

    /// The end that is asked.
    pub(super) fn accept() -> Self {
        Self { seal: Seal::accept(), waiting: Vec::new(), unsent: Vec::new() }
    }
}

impl shell::Seal for WorkerSeal {
    type Records = SealedBytes;

    fn is_up(&self) -> bool {
        self.seal.is_up()
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    fn receive(
        &mut self,
        bytes: &mut [u8],
        mut sink: impl FnMut(shell::Received<'_>),
    ) -> Result<(), String> {
        let Some(place) = bytes.get_mut(..self.waiting.len()) else {
            return Err("a hello has no place".to_owned());
        };
        place.copy_from_slice(&std::mem::take(&mut self.waiting));
        if self.seal.may_become_up(bytes) {
            self.waiting = bytes.to_vec();
            return Ok(());
        }
        let unsealed = self.seal.unseal(bytes).map_err(|malformed| malformed.to_string())?;
        self.unsent.extend_from_slice(unsealed.answer);
        if unsealed.came_up {
            sink(shell::Received::Up(sealing::facts()));
        }
        if !unsealed.plain.is_empty() {
            sink(shell::Received::Data(&unsealed.plain, false));
        }
        Ok(())
    }

    fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    fn sent(&mut self, len: usize) {
        self.unsent.drain(..len.min(self.unsent.len()));
    }

    fn keep_unsent(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    fn seal(&mut self, text: &[u8], out: &mut SealedBytes) -> Result<(), String> {
        out.0.extend_from_slice(&Seal::seal(text));
        Ok(())
    }

    /// Nothing that is played says that it ends.
    fn close(&mut self, _: &mut SealedBytes) {}
}
