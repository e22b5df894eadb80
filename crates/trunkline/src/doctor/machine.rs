//! Limits of the machine that this command runs on.

use std::fs;

use rustix::process::{Resource, getrlimit};
use trunkline_config::Config;
use trunkline_doctor::MachineFacts;
use trunkline_proxy::memory_of_machine;

use crate::serve::limits::open_files_needed;

/// Reads them; a proxy that systemd starts may have others.
pub fn look(config: &Config) -> MachineFacts {
    let tracked = number("net/netfilter/nf_conntrack_count");
    MachineFacts {
        open_files_max: getrlimit(Resource::Nofile).maximum,
        open_files_needed: open_files_needed(config),
        somaxconn: number("net/core/somaxconn"),
        local_ports: read("net/ipv4/ip_local_port_range").as_deref().and_then(ports),
        tracked: tracked.zip(number("net/netfilter/nf_conntrack_max")),
        memory: memory_of_machine(),
        memory_max: config.settings.memory_max,
    }
}

/// A value below `/proc/sys`, which only Linux has.
fn read(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/{name}")).ok()
}

fn number(name: &str) -> Option<u64> {
    read(name)?.trim().parse().ok()
}

/// How many ports there are between the two of `32768 60999`.
fn ports(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().map(|end| end.parse::<u64>().ok());
    let (first, last) = (ends.next()??, ends.next()??);
    last.checked_sub(first)?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::ports;

    #[test]
    fn ports_are_counted_with_both_ends() {
        assert_eq!(ports("32768\t60999\n"), Some(28_232));
        assert_eq!(ports("60999 32768"), None);
        assert_eq!(ports(""), None);
    }
}
