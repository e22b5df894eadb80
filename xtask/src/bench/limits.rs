//! How many files a process may open.

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process has open beside its clients.
const DESCRIPTORS_SPARE: u64 = 300;

/// Raises the soft limit of this process and of those it starts to the hard one; gives it.
pub fn raise() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let Some(maximum) = limit.maximum else {
        return Ok(limit.current.unwrap_or(u64::MAX));
    };
    let raised = Rlimit { current: Some(maximum), maximum: Some(maximum) };
    setrlimit(Resource::Nofile, raised)
        .with_context(|| format!("cannot raise the limit of open files to {maximum}"))?;
    Ok(maximum)
}

/// So many of the wanted clients fit: each takes one descriptor here and one in the proxy.
pub fn clients_within(wanted: u32, descriptors: u64) -> u32 {
    let room = descriptors.saturating_sub(DESCRIPTORS_SPARE);
    u32::try_from(room).unwrap_or(u32::MAX).min(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_room_for_other_files() {
        assert_eq!(clients_within(10_000, 20_000), 10_000);
        assert_eq!(clients_within(10_000, 1_024), 724);
        assert_eq!(clients_within(10_000, 10), 0);
    }
}
