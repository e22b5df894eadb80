//! The allocator, and how it gives freed memory back to the system.
#![expect(unsafe_code, reason = "an allocator is unsafe code, and so are its library's options")]

#[cfg(target_os = "linux")]
mod large;

use std::ffi::{c_int, c_long};

#[cfg(target_os = "linux")]
pub use large::{give_back_beside, waiting_len};

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: large::Allocator = large::Allocator;

#[cfg(not(target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Elsewhere, whoever frees a large block gives it back.
#[cfg(not(target_os = "linux"))]
pub fn give_back_beside() -> std::io::Result<()> {
    Ok(())
}

/// Elsewhere, nothing waits to be given back.
#[cfg(not(target_os = "linux"))]
pub fn waiting_len() -> u64 {
    0
}

/// `mi_option_purge_delay`, ms: how long pages that nobody uses are kept.
const PURGE_DELAY: c_int = 15;
/// `mi_option_arena_max_object_size`, KiB: larger objects are mapped by themselves.
const ARENA_MAX_OBJECT_SIZE: c_int = 45;

/// Freed pages go back to the system after so long, ms; the library's own delay is a second, begun
/// anew by each use.
const PURGE_DELAY_MS: c_long = 100;
/// An object of more than this goes back as soon as it is freed, KiB. What ordinary statements and
/// results take is smaller (`docs/decisions/0054`).
const MAPPED_KIB_MIN: c_long = 1_024;

unsafe extern "C" {
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
}

/// Has the allocator give memory back soon. Called once, at the start.
pub fn give_back_soon() {
    for (option, value, usual) in [
        (PURGE_DELAY, PURGE_DELAY_MS, 10..=10_000),
        (ARENA_MAX_OBJECT_SIZE, MAPPED_KIB_MIN, 1_024..=c_long::MAX),
    ] {
        // SAFETY: the function reads a number from a table, and checks the place.
        let before = unsafe { mi_option_get(option) };
        // Another version of the library may have another option there; an operator may have set
        // it by the environment.
        if usual.contains(&before) {
            // SAFETY: the function writes a number into a table, and checks the place.
            unsafe { mi_option_set(option, value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_those_that_are_meant() {
        // SAFETY: the function reads a number from a table.
        let get = |option| unsafe { mi_option_get(option) };
        assert_eq!(get(PURGE_DELAY), 1_000, "mimalloc's default");
        assert!(get(ARENA_MAX_OBJECT_SIZE) >= 1 << 20, "mimalloc's default");
        give_back_soon();
        assert_eq!((get(PURGE_DELAY), get(ARENA_MAX_OBJECT_SIZE)), (100, 1_024));
    }
}
