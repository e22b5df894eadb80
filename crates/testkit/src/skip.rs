//! Tests that can't run here say so where everybody sees it.

use std::io::Write;

/// What a line of [`skipped`] begins with; `cargo xtask test` counts them.
pub const SKIPPED_PREFIX: &str = "SKIPPED: ";

/// Says that a test did not run, and why. The test returns right after.
///
/// Written past the test harness's capture, which would hide it in a test that then passes.
pub fn skipped(test: &str, reason: &str) {
    let line = format!("\n{SKIPPED_PREFIX}{test}: {reason}\n");
    // Nothing better can be done when even standard output is closed.
    let _ = std::io::stdout().write_all(line.as_bytes());
}
