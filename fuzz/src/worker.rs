//! Target: the whole data plane without its sockets.
//!
//! The input is a plan for the simulator (`trunkline_sim::plan`, `Plan::from_bytes`): workers in
//! the shell that the real driver has, and the simulator's servers, clients and operators around
//! them. The input decides what clients do, what goes wrong, and who says bytes that nobody
//! expects.

use trunkline_sim::{plan::Plan, run};

/// Plays what the input means, to its end.
///
/// # Panics
/// When a worker does, or when the run broke a promise.
pub fn worker(data: &[u8]) {
    let outcome = run(&Plan::from_bytes(data), false);
    let panic = outcome.panic.iter().cloned();
    let broken = outcome.violations.iter().take(5).map(ToString::to_string);
    let failures: Vec<_> = panic.chain(broken).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
