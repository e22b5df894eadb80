//! Limits of the kernel.

use crate::{
    facts::Facts,
    finding::{Danger, Finding},
};

/// What `listen` asks for.
const BACKLOG: u64 = 4_096;
/// Ports that are left free for everything else on the machine.
const OTHER_PORTS: u64 = 1_000;

pub(crate) fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let machine = &facts.machine;
    let mut say = |danger, what: String, advice: &str| {
        found.push(Finding::new(danger, "machine", what, advice));
    };
    let needed = machine.open_files_needed;
    if let Some(limit) = machine.open_files_max.filter(|limit| *limit < needed) {
        say(
            Danger::Warning,
            format!(
                "a process may open {limit} files, and the configuration may need {needed}: \
                 clients are refused when all are taken"
            ),
            "raise the limit (LimitNOFILE of systemd, ulimit -Hn), or lower max_connections",
        );
    }
    if let Some(limit) = machine.somaxconn.filter(|limit| *limit < BACKLOG) {
        say(
            Danger::Note,
            format!(
                "net.core.somaxconn is {limit}: when more clients than that connect at once, \
                 connects take a second longer"
            ),
            "sysctl -w net.core.somaxconn=4096",
        );
    }
    // Ports are counted for each address of a server.
    let connections = |pools: &[crate::Pool]| pools.iter().map(|pool| pool.max_connections).sum();
    let most: u64 =
        facts.servers.iter().map(|server| connections(&server.pools)).max().unwrap_or(0);
    if let Some(ports) = machine.local_ports
        && most > ports.saturating_sub(OTHER_PORTS)
    {
        say(
            Danger::Warning,
            format!(
                "{ports} ports are there for connections to one server, and up to {most} \
                 connections are configured"
            ),
            "widen net.ipv4.ip_local_port_range, or lower max_connections of the server",
        );
    }
    if let Some((tracked, max)) = machine.tracked
        && tracked.saturating_mul(5) > max.saturating_mul(4)
    {
        say(
            Danger::Warning,
            format!(
                "the firewall tracks {tracked} connections of at most {max}: beyond that packets \
                 are dropped, and connects time out"
            ),
            "raise net.netfilter.nf_conntrack_max",
        );
    }
    if let Some(memory) = machine.memory.filter(|memory| machine.memory_max > *memory) {
        say(
            Danger::Warning,
            format!(
                "memory_max is {} bytes, and there are {memory}: the kernel ends the proxy before \
                 the budget refuses anybody",
                machine.memory_max
            ),
            "lower memory_max; 0 takes a share of what there is",
        );
    }
}
