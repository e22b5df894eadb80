//! Version numbers of executable comments.
//!
//! | | MariaDB 10.11 | MySQL 9.7 |
//! |---|---|---|
//! | fewer than five digits | code | code |
//! | five digits | the version | the version |
//! | six digits | the version | the version if white space follows; else five digits and code |
//! | below 50700 | run | run |
//! | 50700 to 99999 | skipped, but for `/*M!` | run up to its own version |
//! | from 100000 | run up to its own version | skipped |
//!
//! Source: observed on both.

/// Who runs the content of a comment with a version number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    /// Every server that a proxy stands before.
    Always,
    /// No server: there is no such version.
    Never,
    /// Some do.
    ByVersion,
}

/// Every MariaDB and every MySQL from 5.7 on runs what is below this.
const RUN_BY_ALL: u32 = 50_700;
/// There is no version of either family from here on.
const RUN_BY_NONE: u32 = 990_000;

/// The version at the beginning of `body`, the bytes behind `/*!`: its number of digits, and who
/// runs it. `None` if there is none.
pub(super) fn version(body: &[u8]) -> Option<(usize, Runs)> {
    let digits = body.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    if digits < 5 {
        return None;
    }
    let number = body.iter().take(digits).fold(0, |sum, byte| sum * 10 + u32::from(byte & 0xF));
    let runs = match number {
        0..RUN_BY_ALL => Runs::Always,
        RUN_BY_ALL..RUN_BY_NONE => Runs::ByVersion,
        RUN_BY_NONE.. => Runs::Never,
    };
    Some((digits, runs))
}

/// Whether the number of `digits` digits at the beginning of `body` is the same for both families.
pub(super) fn is_read_by_both(body: &[u8], digits: usize) -> bool {
    let next = body.get(digits).copied().unwrap_or(0);
    digits == 5 || matches!(next, b'\t'..=b'\r' | b' ')
}
