//! What the machine and the kernel say, as far as it matters to a proxy.

use std::{fs, thread};

/// Values below `/proc/sys`.
const LIMITS: [&str; 22] = [
    "fs/file-max",
    "fs/file-nr",
    "fs/nr_open",
    "kernel/osrelease",
    "kernel/pid_max",
    "kernel/threads-max",
    "net/core/netdev_max_backlog",
    "net/core/rmem_max",
    "net/core/somaxconn",
    "net/core/wmem_max",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_local_reserved_ports",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_fin_timeout",
    "net/ipv4/tcp_keepalive_time",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_wmem",
    "net/netfilter/nf_conntrack_count",
    "net/netfilter/nf_conntrack_max",
];
/// Lines of `/proc/PID/status`.
const OF_PROCESS: [&str; 9] = [
    "Uid",
    "FDSize",
    "VmPeak",
    "VmRSS",
    "VmSwap",
    "Threads",
    "Cpus_allowed_list",
    "voluntary_ctxt_switches",
    "nonvoluntary_ctxt_switches",
];
/// Limits of the control group that the command runs in.
const OF_GROUP: [&str; 4] = ["memory.max", "memory.current", "cpu.max", "pids.max"];

/// Limits of the kernel, a line each.
pub fn limits() -> String {
    let mut text = String::new();
    for name in LIMITS {
        if let Ok(value) = fs::read_to_string(format!("/proc/sys/{name}")) {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            text.push_str(&format!("{} = {value}\n", name.replace('/', ".")));
        }
    }
    for name in OF_GROUP {
        if let Ok(value) = fs::read_to_string(format!("/sys/fs/cgroup/{name}")) {
            text.push_str(&format!("cgroup {name} = {}\n", value.trim_end()));
        }
    }
    text
}

/// Processors, memory and the system's name.
pub fn machine() -> String {
    let cpus = thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let mut text = format!("cpus = {cpus}\narchitecture = {}\n", std::env::consts::ARCH);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let is_told = |line: &&str| {
        ["MemTotal", "MemAvailable", "SwapTotal", "SwapFree"].iter().any(|it| line.starts_with(it))
    };
    memory.lines().filter(is_told).for_each(|line| text.push_str(&format!("{line}\n")));
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let is_name = |line: &&str| line.starts_with("PRETTY_NAME=");
    release.lines().filter(is_name).for_each(|line| text.push_str(&format!("{line}\n")));
    text
}

/// What the kernel says of a process, as far as this account may read it.
pub fn process(id: u32) -> String {
    let mut text = String::new();
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let is_told =
        |line: &&str| line.split(':').next().is_some_and(|name| OF_PROCESS.contains(&name));
    status.lines().filter(is_told).for_each(|line| text.push_str(&format!("{line}\n")));
    match fs::read_to_string(format!("/proc/{id}/limits")) {
        Ok(limits) => text.push_str(&format!("\n{limits}")),
        Err(error) => text.push_str(&format!("limits: {error}\n")),
    }
    text
}
