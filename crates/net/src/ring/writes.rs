//! Writes to many sockets by one call.

use std::{io, os::fd::RawFd};

use io_uring::{opcode, squeue, types::Fd};

use crate::stream::SEND_AT_ONCE;

/// Writes that are handed over together.
const WRITES_MAX: usize = 64;
/// Bytes of one of them: a longer one is worth a call of its own.
const WRITE_LEN_MAX: usize = 16 * 1024;
/// Bytes of all of them.
const BYTES_MAX: usize = 256 * 1024;

/// Bytes on their way into sockets, in memory that is the ring's: whatever happens, the kernel
/// reads from it as long as it likes.
#[derive(Debug)]
pub(super) struct Writes {
    /// Never grows beyond what it was made with, so that it stays where it is.
    bytes: Vec<u8>,
    /// Sockets, and where their bytes begin and end.
    parts: Vec<(RawFd, usize, usize)>,
    results: Vec<io::Result<usize>>,
    /// Results that have not come.
    missing: usize,
}

impl Writes {
    pub(super) fn new() -> Self {
        let bytes = Vec::with_capacity(BYTES_MAX);
        Self { bytes, parts: Vec::new(), results: Vec::new(), missing: 0 }
    }

    /// Takes a copy of bytes for a socket; false when they have to be written by themselves.
    pub(super) fn add(&mut self, fd: RawFd, bytes: &[u8]) -> bool {
        let begin = self.bytes.len();
        let has_room = self.parts.len() < WRITES_MAX && begin + bytes.len() <= BYTES_MAX;
        if !has_room || bytes.len() > WRITE_LEN_MAX || self.missing > 0 {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        self.parts.push((fd, begin, self.bytes.len()));
        true
    }

    /// Ends adding; how many were.
    pub(super) fn begin(&mut self) -> usize {
        self.missing = self.parts.len();
        let not_yet = || Err(io::Error::from(io::ErrorKind::Interrupted));
        self.results.resize_with(self.missing, not_yet);
        self.missing
    }

    /// The request for the one at a place.
    pub(super) fn request(&self, place: usize) -> Option<squeue::Entry> {
        let (fd, begin, end) = self.parts.get(place)?;
        let bytes = self.bytes.get(*begin..*end)?;
        let len = u32::try_from(bytes.len()).ok()?;
        Some(opcode::Send::new(Fd(*fd), bytes.as_ptr(), len).flags(SEND_AT_ONCE).build())
    }

    /// The kernel's word about the one at a place.
    pub(super) fn done(&mut self, place: usize, result: i32) {
        if let Some(known) = self.results.get_mut(place) {
            self.missing = self.missing.saturating_sub(1);
            *known = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        }
    }

    pub(super) fn are_under_way(&self) -> bool {
        self.missing > 0
    }

    /// What came of each, in their order, once none is under way.
    pub(super) fn take_results(&mut self, results: &mut Vec<io::Result<usize>>) {
        results.append(&mut self.results);
        self.parts.clear();
        self.bytes.clear();
    }
}
