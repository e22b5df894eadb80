use std::time::{Duration, Instant};

use super::*;

const MIB: usize = 1 << 20;

/// Pages that this thread had to be given, or had to be shown, so far.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("the kernel tells");
    let behind_name = stat.rsplit(')').next().expect("a name");
    behind_name.split_whitespace().nth(7).and_then(|word| word.parse().ok()).expect("a number")
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at / 4_093 % 251).expect("below 256")).collect()
}

#[test]
fn blocks_keep_their_bytes_as_they_grow_and_shrink() {
    for (before, after) in [
        (100, 2 * MIB),
        (2 * MIB, 100),
        (LARGE_MIN - 1, LARGE_MIN),
        (LARGE_MIN, 10 * MIB + 5),
        (10 * MIB + 5, 3 * MIB + 1),
        (3 * MIB + 1, 3 * MIB),
    ] {
        let bytes = pattern(before.max(after));
        let mut block = Vec::with_capacity(before);
        block.extend_from_slice(&bytes[..before]);
        block.truncate(after);
        block.shrink_to(after);
        block.reserve_exact(after.saturating_sub(before));
        assert!(block[..] == bytes[..before.min(after)], "{before} to {after}");
        block.extend_from_slice(&bytes[before.min(after)..after]);
        assert!(block[..] == bytes[..after], "{before} to {after}");
    }
}

#[test]
fn what_is_large_begins_as_zeros_and_on_a_page() {
    for _ in 0..3 {
        let mut block = vec![0_u8; 4 * MIB + 1];
        assert!(block.iter().all(|byte| *byte == 0));
        assert_eq!(block.as_ptr().addr() % PAGE, 0);
        block.fill(7);
    }
    let aligned = Layout::from_size_align(2 * MIB, 64 * 1024).expect("a layout");
    assert!(!is_large(aligned), "the library aligns");
}

#[test]
fn a_large_block_grows_without_being_copied() {
    let mut block = vec![1_u8; 32 * MIB];
    let before = faults();
    block.reserve_exact(33 * MIB);
    let faults = faults() - before;
    // Copying it would take one for each of 8,192 pages.
    assert!(faults < 1_000, "{faults}");
    assert!(block.len() == 32 * MIB && block.iter().all(|byte| *byte == 1));
}

#[test]
fn freed_blocks_are_given_back_by_another_thread() {
    give_back_beside().expect("a thread");
    drop((0..8).map(|_| vec![1_u8; 8 * MIB]).collect::<Vec<_>>());
    let deadline = Instant::now() + Duration::from_secs(20);
    while waiting_len() > 0 {
        assert!(Instant::now() < deadline, "{} bytes wait", waiting_len());
        thread::yield_now();
    }
    // What is more than may wait is given back at once.
    free(map(WAITING_MAX + PAGE), WAITING_MAX + PAGE);
    assert!(waiting_len() <= WAITING_MAX as u64);
}
