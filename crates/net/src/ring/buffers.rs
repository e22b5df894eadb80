//! Memory that the kernel puts received bytes into: it takes the next buffer when bytes come, and
//! gets it back when they have been read.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    io,
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{Submitter, types::BufRingEntry};

/// Bytes of one buffer.
pub(super) const BUFFER_LEN: usize = 2 * 1024;
/// How many there are, a power of two: as many sockets can have bytes at one moment before one has
/// to be asked again.
const BUFFERS: u16 = 512;
/// Their number among the groups that a ring may have.
pub(super) const GROUP: u16 = 0;
/// The kernel wants its list to begin on a page.
const PAGE: usize = 4_096;

/// The buffers, and the list by which the kernel is given them.
#[derive(Debug)]
pub(super) struct Buffers {
    list: Region,
    memory: Region,
    /// Places of the list that were filled so far, modulo 2¹⁶.
    tail: u16,
}

impl Buffers {
    /// Makes the buffers and tells the kernel of them.
    pub(super) fn register(submitter: &Submitter<'_>) -> io::Result<Self> {
        let list = Region::new(usize::from(BUFFERS) * size_of::<BufRingEntry>());
        let memory = Region::new(usize::from(BUFFERS) * BUFFER_LEN);
        let address = list.start.as_ptr() as u64;
        // SAFETY: the list is page-aligned, has room for so many entries, and lives until the ring
        // has ended: `Ring` drops its buffers last.
        unsafe { submitter.register_buf_ring_with_flags(address, BUFFERS, GROUP, 0) }?;
        let mut buffers = Self { list, memory, tail: 0 };
        for number in 0..BUFFERS {
            buffers.fill_place(number);
        }
        buffers.publish();
        Ok(buffers)
    }

    /// The first `len` bytes of a buffer that the kernel has filled and not been given back.
    pub(super) fn filled(&self, number: u16, len: usize) -> &[u8] {
        if number >= BUFFERS || len > BUFFER_LEN {
            return &[];
        }
        let offset = usize::from(number) * BUFFER_LEN;
        // SAFETY: the offset is inside of the region, as the number is one of a buffer.
        let start = unsafe { self.memory.start.as_ptr().add(offset) };
        // SAFETY: so many bytes lie inside of the buffer, were made as zeros at first, and the
        // kernel writes to them only after `give_back`, which borrows `self` mutably.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Gives a buffer to the kernel again. The `len` bytes in it are overwritten: they may be a
    /// password.
    pub(super) fn give_back(&mut self, number: u16, len: usize) {
        if number >= BUFFERS {
            return;
        }
        let offset = usize::from(number) * BUFFER_LEN;
        // SAFETY: the offset is inside of the region, as the number is one of a buffer.
        let start = unsafe { self.memory.start.as_ptr().add(offset) };
        // SAFETY: so many bytes lie inside of the buffer, which the kernel does not have now.
        unsafe { start.write_bytes(0, len.min(BUFFER_LEN)) };
        self.fill_place(number);
        self.publish();
    }

    /// Writes a buffer to the next place of the list, which the kernel does not see yet.
    fn fill_place(&mut self, number: u16) {
        let place = usize::from(self.tail % BUFFERS);
        let entries = self.list.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the place is one of the list's.
        let entry = unsafe { entries.add(place) };
        let offset = usize::from(number) * BUFFER_LEN;
        let address = self.memory.start.as_ptr() as u64 + offset as u64;
        // SAFETY: the entry lies in our list, was made as zeros, which are a valid entry, and the
        // kernel reads it only once the tail is behind it. The first one's last two bytes are the
        // tail itself, which none of these three writes touches.
        let entry = unsafe { &mut *entry };
        entry.set_addr(address);
        entry.set_len(u32::try_from(BUFFER_LEN).unwrap_or(u32::MAX));
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        let entries = self.list.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the pointer is to the first entry of a list of them.
        let tail = unsafe { BufRingEntry::tail(entries) }.cast_mut();
        // SAFETY: the tail is two aligned bytes that live as long as the list, and both sides
        // touch them by atomic operations only.
        let tail = unsafe { AtomicU16::from_ptr(tail) };
        tail.store(self.tail, Ordering::Release);
    }
}

/// Zeroed memory that begins on a page.
#[derive(Debug)]
struct Region {
    start: NonNull<u8>,
    layout: Layout,
}

impl Region {
    fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len.max(1), PAGE).unwrap_or(Layout::new::<u8>());
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, layout },
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

// SAFETY: a region belongs to whoever has it; nothing in it is bound to a thread.
unsafe impl Send for Region {}
