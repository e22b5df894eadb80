//! One feed's way from input to output.

use crate::codec::frame::{HEADER_LEN, Header};

use super::run::renumber;

/// Walks over the input of one feed. Bytes that go to the client as they are stay where they
/// are, as a run, until something else must be written: then the run is copied at once.
pub(super) struct Pass<'i, 'o> {
    input: &'i [u8],
    /// Bytes of `input` consumed.
    at: usize,
    /// Where the run of kept bytes that are not copied yet begins; at most `at`.
    run_start: usize,
    out: &'o mut Vec<u8>,
    deliver: bool,
}

impl<'i, 'o> Pass<'i, 'o> {
    /// A pass over `input`. Without `deliver` nothing is ever written to `out`.
    pub(super) fn new(input: &'i [u8], out: &'o mut Vec<u8>, deliver: bool) -> Self {
        Self { input, at: 0, run_start: 0, out, deliver }
    }

    /// The bytes not consumed yet.
    #[inline]
    pub(super) fn rest(&self) -> &'i [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// Consumes the next `len` bytes, which the client gets unchanged.
    #[inline]
    pub(super) fn keep(&mut self, len: usize) {
        self.at += len;
        debug_assert!(self.at <= self.input.len());
    }

    /// Consumes the next `len` bytes, whole packets which the client gets with `shift` added to
    /// their sequence numbers.
    #[inline(never)]
    pub(super) fn keep_renumbered(&mut self, len: usize, shift: u8) {
        self.flush();
        self.keep(len);
        let start = self.out.len();
        self.flush();
        renumber(self.out.get_mut(start..).unwrap_or_default(), shift);
    }

    /// Consumes the next `len` bytes, which the client does not get.
    #[inline(never)]
    pub(super) fn skip(&mut self, len: usize) {
        self.flush();
        self.keep(len);
        self.run_start = self.at;
    }

    /// Writes to the client with `write`, after everything kept so far.
    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.flush();
        if self.deliver {
            write(self.out);
        }
    }

    /// Writes a packet's header to the client.
    pub(super) fn put_header(&mut self, header: Header) {
        let bytes: [u8; HEADER_LEN] = header.bytes();
        self.put(|out| out.extend_from_slice(&bytes));
    }

    /// Ends the pass: copies what is kept and says how many bytes were consumed.
    #[inline]
    pub(super) fn finish(mut self) -> usize {
        self.flush();
        self.at
    }

    #[inline]
    fn flush(&mut self) {
        if let Some(run) = self.input.get(self.run_start..self.at)
            && self.deliver
            && !run.is_empty()
        {
            self.out.extend_from_slice(run);
        }
        self.run_start = self.at;
    }
}
