//! Large blocks of memory, each mapped by itself.
//!
//! A worker that copies a buffer of sixty megabytes as it grows, or gives it back to the system,
//! serves nobody else for tens of milliseconds. So a large block grows by moving its pages, and
//! a thread of its own gives freed ones back ([0059](docs/decisions)).

use std::{
    alloc::{GlobalAlloc, Layout},
    ffi::c_void,
    io,
    ptr::{self, NonNull},
    sync::{
        OnceLock,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
};

use mimalloc::MiMalloc;
use rustix::mm::{self, Advice, MapFlags, MremapFlags, ProtFlags};

/// Blocks from this length on are large, bytes.
const LARGE_MIN: usize = 1 << 20;
/// Mappings begin on a page and are whole pages, bytes.
const PAGE: usize = 4_096;
/// Pages that are given back at once, bytes: meanwhile, nobody else can map anything.
const SLICE: usize = 256 << 10;
/// Freed blocks that may wait to be given back, bytes. Whoever frees more does it at once.
const WAITING_MAX: usize = 256 << 20;

/// The first blocks that wait, if any.
static WAITING: AtomicPtr<Freed> = AtomicPtr::new(ptr::null_mut());
/// Bytes of all that wait.
static WAITING_LEN: AtomicUsize = AtomicUsize::new(0);
/// Who gives them back; nobody at first.
static GIVER: OnceLock<Thread> = OnceLock::new();

/// The library's allocator, and mappings for what is large.
pub(super) struct Allocator;

/// What stands at the beginning of a block that waits.
struct Freed {
    next: *mut Freed,
    len: usize,
}

// SAFETY: what is large is decided by the layout alone, so that each block goes back to where it
// came from; mappings are page-aligned, hold as many bytes as asked for, and overlap nothing.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_large(layout) {
            true => map(layout.size()),
            // SAFETY: the layout is the caller's.
            false => unsafe { MiMalloc.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_large(layout) {
            // The kernel gives zeros.
            true => map(layout.size()),
            // SAFETY: the layout is the caller's.
            false => unsafe { MiMalloc.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match is_large(layout) {
            true => free(block, mapped_len(layout.size())),
            // SAFETY: the block was allocated there, with this layout.
            false => unsafe { MiMalloc.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size is one of a layout.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (is_large(layout), is_large(new)) {
            (true, true) => remap(block, mapped_len(layout.size()), mapped_len(size)),
            // SAFETY: the block was allocated there, with this layout.
            (false, false) => unsafe { MiMalloc.realloc(block, layout, size) },
            // SAFETY: as the caller promises.
            (true, false) | (false, true) => unsafe { copy(block, layout, new) },
        }
    }
}

#[inline]
fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE_MIN && layout.align() <= PAGE
}

/// Bytes of a block's mapping.
fn mapped_len(size: usize) -> usize {
    size.next_multiple_of(PAGE)
}

/// A new block of zeros; null when there is no memory.
#[cold]
fn map(size: usize) -> *mut u8 {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: the kernel chooses a place where nothing is.
    let mapped = unsafe { mm::mmap_anonymous(ptr::null_mut(), mapped_len(size), access, flags) };
    mapped.map_or(ptr::null_mut(), <*mut c_void>::cast)
}

/// The block with another length, at another place if there is no room; null when there is no
/// memory, and then it is as it was.
#[cold]
fn remap(block: *mut u8, before: usize, len: usize) -> *mut u8 {
    if len < before {
        // SAFETY: so many bytes are in the mapping.
        free(unsafe { block.add(len) }, before - len);
        return block;
    }
    // SAFETY: the mapping is the caller's, who does not use the old place any more if it moves.
    let moved = unsafe { mm::mremap(block.cast(), before, len, MremapFlags::MAYMOVE) };
    moved.map_or(ptr::null_mut(), <*mut c_void>::cast)
}

/// A block that becomes large, or no longer is.
#[cold]
unsafe fn copy(block: *mut u8, layout: Layout, new: Layout) -> *mut u8 {
    // SAFETY: the layout is not empty, as one of the two is large and the other one the caller's.
    let other = unsafe { Allocator.alloc(new) };
    if !other.is_null() {
        // SAFETY: so many bytes are in both, and they are apart.
        unsafe { ptr::copy_nonoverlapping(block, other, layout.size().min(new.size())) };
        // SAFETY: the caller gives the old one up.
        unsafe { Allocator.dealloc(block, layout) };
    }
    other
}

/// Pages that nobody uses any more: they wait for the thread that gives them back, or go at once.
#[cold]
fn free(start: *mut u8, len: usize) {
    let Some(giver) = GIVER.get() else { return unmap(start, len) };
    if WAITING_LEN.fetch_add(len, Ordering::Relaxed) + len > WAITING_MAX {
        WAITING_LEN.fetch_sub(len, Ordering::Relaxed);
        return unmap(start, len);
    }
    let freed = start.cast::<Freed>();
    let mut next = WAITING.load(Ordering::Relaxed);
    loop {
        // SAFETY: a page begins there, which nobody else uses and which has room for this.
        unsafe { freed.write(Freed { next, len }) };
        match WAITING.compare_exchange_weak(next, freed, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => next = other,
        }
    }
    if next.is_null() {
        giver.unpark();
    }
}

fn unmap(start: *mut u8, len: usize) {
    // SAFETY: the pages are whole ones of a mapping that nobody uses any more.
    let result = unsafe { mm::munmap(start.cast(), len) };
    debug_assert!(result.is_ok(), "{result:?}");
}

/// Bytes that were freed and are yet to be given back.
pub fn waiting_len() -> u64 {
    WAITING_LEN.load(Ordering::Relaxed) as u64
}

/// Starts the thread that gives freed blocks back. Without it, whoever frees one does that.
pub fn give_back_beside() -> io::Result<()> {
    let thread = thread::Builder::new().name("memory".to_owned()).spawn(|| {
        // As quick as workers: what it does to the process's pages keeps them from mapping any, and
        // a thread that yields to others may be kept from ending that.
        loop {
            thread::park();
            give_back_all();
        }
    })?;
    let _is_second = GIVER.set(thread.thread().clone());
    Ok(())
}

fn give_back_all() {
    let mut first = NonNull::new(WAITING.swap(ptr::null_mut(), Ordering::Acquire));
    while let Some(freed) = first {
        // SAFETY: whoever freed the block has written this, and it is this thread's alone now.
        let Freed { next, len } = unsafe { freed.as_ptr().read() };
        give_back(freed.as_ptr().cast(), len);
        WAITING_LEN.fetch_sub(len, Ordering::Relaxed);
        first = NonNull::new(next);
    }
}

/// Gives pages back, slice by slice: others may map something in between.
fn give_back(start: *mut u8, len: usize) {
    for at in (0..len).step_by(SLICE) {
        // SAFETY: the slice is inside of the pages.
        let slice = unsafe { start.add(at) };
        // SAFETY: nobody uses the pages. What is not given back here is when they are unmapped.
        let _ = unsafe { mm::madvise(slice.cast(), SLICE.min(len - at), Advice::LinuxDontNeed) };
    }
    unmap(start, len);
}

#[cfg(test)]
mod tests;
