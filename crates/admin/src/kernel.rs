//! What the kernel says of this process.

use std::fs;

use trunkline_stats::KernelFigures;

/// Reads them; 0 for what it does not say.
pub(crate) fn figures() -> KernelFigures {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let (user_ticks, system_ticks) = ticks(&stat);
    KernelFigures {
        resident: bytes(&status, "VmRSS"),
        resident_max: bytes(&status, "VmHWM"),
        mapped: bytes(&status, "VmSize"),
        anonymous: bytes(&status, "RssAnon"),
        descriptors: descriptors as u64,
        user_ticks,
        system_ticks,
    }
}

/// CPU time in `/proc/self/stat`: the 14th and the 15th word. The second is the program's name in
/// brackets, which may have spaces.
fn ticks(stat: &str) -> (u64, u64) {
    let mut words = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let mut number = |skipped| words.nth(skipped).and_then(|word| word.parse().ok());
    (number(11).unwrap_or_default(), number(0).unwrap_or_default())
}

/// A line of `/proc/self/status` that is in kB.
fn bytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default().saturating_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_read() {
        assert_eq!(bytes("Name:\tx\nVmRSS:\t    12 kB\n", "VmRSS"), 12_288);
        assert_eq!(bytes("VmRSS:\t?\n", "VmRSS"), 0);
        let line = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 321 45 0";
        assert_eq!((ticks(line), ticks("")), ((321, 45), (0, 0)));
        let now = figures();
        assert!(now.resident > 0 && now.descriptors >= 3, "{now:?}");
    }
}
