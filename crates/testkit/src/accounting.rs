//! What a process has cost: CPU time and memory, from the kernel's own accounting.

use anyhow::{Context, Result};

/// Microseconds in one tick of `/proc/PID/stat` (USER_HZ is 100 on every architecture we run on).
const TICK_MICROS: u64 = 10_000;

/// CPU time of a process so far, user and system, all its threads, in microseconds.
///
/// Two sources, the larger wins: the threads' `schedstat` counts nanoseconds but forgets threads
/// that have ended, `/proc/PID/stat` remembers them but counts hundredths of a second.
///
/// # Errors
/// When the process is gone or `/proc` is not there.
pub fn cpu_micros(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = ticks_of(&stat).with_context(|| format!("{path} has an unknown shape"))?;
    let from_ticks = ticks.saturating_mul(TICK_MICROS);
    let from_threads = threads_nanos(pid).unwrap_or(0) / 1_000;
    Ok(from_ticks.max(from_threads))
}

/// Memory of a process that is in RAM, in bytes (`VmRSS`).
///
/// # Errors
/// When the process is gone or `/proc` is not there.
pub fn rss_bytes(pid: u32) -> Result<u64> {
    memory(pid, "VmRSS:")
}

/// The most memory that a process has had in RAM, in bytes (`VmHWM`).
///
/// # Errors
/// When the process is gone or `/proc` is not there.
pub fn peak_rss_bytes(pid: u32) -> Result<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kib: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_ascii_whitespace().next())
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("{path} has no {name}"))?;
    Ok(kib * 1_024)
}

/// utime + stime, fields 14 and 15. The name in field 2 may hold spaces and brackets, so the count
/// begins behind its last bracket, at field 3.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

fn threads_nanos(pid: u32) -> std::io::Result<u64> {
    let mut total = 0_u64;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the look.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let first = text.split_ascii_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        total = total.saturating_add(first.unwrap_or(0));
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 100 0 0 0 25 17 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks_of(stat), Some(42));
        assert_eq!(ticks_of("no such shape"), None);
    }

    #[test]
    fn our_own_process_has_cost_something() {
        let pid = std::process::id();
        let before = cpu_micros(pid).unwrap();
        let mut sum = 0_u64;
        while cpu_micros(pid).unwrap() < before + 2_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(rss_bytes(pid).unwrap() > 100_000);
        assert!(cpu_micros(u32::MAX).is_err());
    }
}
