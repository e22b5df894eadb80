//! What the process may open and what it asks of the kernel: files, pauses, dumps, pages, and who
//! goes first.

#[cfg(target_os = "linux")]
use std::num::NonZeroU64;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use trunkline_config::Config;

/// Files that are no connections: listeners, pollers, the log, the state file, HTTP.
const OTHER_FILES: u64 = 128;

/// Raises the soft limit on open files to the hard one. The limit then; `None` is no limit.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!("the limit on open files can't be raised: {error}");
            limit.current
        }
    }
}

/// Makes room for the descriptors of so many files at once, as far as `limit` allows. The kernel
/// otherwise does it whenever one more is opened than there is room for, and makes whoever opens
/// it wait until all other CPUs have noticed: a worker that accepts a client stood still for
/// 8 to 14 ms (`docs/decisions/0093`). A place takes 8 bytes of the kernel's memory.
#[cfg(target_os = "linux")]
pub fn make_room_for_files(files: u64, limit: Option<u64>) {
    let most = files.min(limit.unwrap_or(u64::MAX)).min(PLACES_MAX);
    let Some(last) = i32::try_from(most).ok().and_then(|most| most.checked_sub(1)) else { return };
    // The table of descriptors grows to hold this one, and never shrinks.
    if let Err(error) = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), last) {
        tracing::debug!("the table of open files grows as files are opened: {error}");
    }
}

/// The system makes room as it likes.
#[cfg(not(target_os = "linux"))]
pub fn make_room_for_files(_files: u64, _limit: Option<u64>) {}

/// Descriptors that room is made for, at most: 8 MiB of the kernel's memory.
#[cfg(target_os = "linux")]
const PLACES_MAX: u64 = 1 << 20;

/// Keeps passwords and keys out of core dumps, and other processes of the same account from reading
/// the memory.
#[cfg(target_os = "linux")]
pub fn forbid_dumps() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!("core dumps can't be switched off: {error}");
    }
}

/// Keeps passwords and keys out of core dumps.
#[cfg(not(target_os = "linux"))]
pub fn forbid_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!("core dumps can't be switched off: {error}");
    }
}

/// Lets the pauses of threads that begin after this end within a microsecond of their time: by
/// default the kernel adds up to 50 µs, and workers pause for less (`coalesce_max_us`).
#[cfg(target_os = "linux")]
pub fn sharpen_pauses() {
    if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000)) {
        tracing::debug!("pauses of workers stay coarse: {error}");
    }
}

/// Pauses are as exact as the system makes them.
#[cfg(not(target_os = "linux"))]
pub fn sharpen_pauses() {}

/// Keeps the allocator's memory in small pages: with huge ones, which it asks for, each thread
/// takes megabytes of which it uses a tenth, and no statement gets cheaper
/// (`docs/decisions/0032`). Programs that this process starts inherit it.
#[cfg(target_os = "linux")]
pub fn forbid_huge_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!("huge pages can't be switched off: {error}");
    }
}

/// Pages are as large as the system makes them.
#[cfg(not(target_os = "linux"))]
pub fn forbid_huge_pages() {}

/// How much less of a busy CPU goes to a thread that gives way: a third of a worker's share.
#[cfg(target_os = "linux")]
const NICER: i32 = 5;

/// Lets workers go first where the thread that calls this wants the same CPU: a million rules are
/// a second of computing, and no client shall wait for it.
#[cfg(target_os = "linux")]
pub fn give_way() {
    use rustix::process::{getpriority_process, setpriority_process};

    // On Linux these mean the thread, not the process.
    let nicer = getpriority_process(None).map(|nice| nice.saturating_add(NICER).min(19));
    if let Err(error) = nicer.and_then(|nice| setpriority_process(None, nice)) {
        tracing::debug!("administrators' work does not give way: {error}");
    }
}

/// Threads have no priorities of their own here.
#[cfg(not(target_os = "linux"))]
pub fn give_way() {}

/// Files that the configuration may need at once.
pub fn open_files_needed(config: &Config) -> u64 {
    let (clients, half_open, servers) = connections(config);
    clients.saturating_add(half_open).saturating_add(servers).saturating_add(OTHER_FILES)
}

/// The most clients, connections that have not logged in, and connections to servers.
fn connections(config: &Config) -> (u64, u64, u64) {
    let relayed = config.tcp_listeners.iter().map(|it| u64::from(it.max_connections));
    let settings = &config.settings;
    let clients = u64::from(settings.max_connections).saturating_add(relayed.sum());
    let servers = config.servers.iter().map(|entry| u64::from(entry.max_connections)).sum();
    (clients, u64::from(settings.half_open_max), servers)
}

/// What an operator should hear when the limit is below what the configuration allows.
pub fn open_files_warning(limit: Option<u64>, config: &Config) -> Option<String> {
    let (clients, half_open, servers) = connections(config);
    let needed = open_files_needed(config);
    let limit = limit.filter(|limit| *limit < needed)?;
    Some(format!(
        "at most {limit} files may be open, and {needed} may be needed: max_connections is \
         {clients}, half_open_max {half_open}, max_connections of the servers together {servers}; \
         raise the limit (LimitNOFILE of \
         systemd, ulimit -Hn)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_with_passwords_leaves_no_dump() {
        use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
        let before = dumpable_behavior().expect("a behaviour");
        forbid_dumps();
        assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        // The other tests are of the same process.
        set_dumpable_behavior(before).expect("as before");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn there_is_room_for_descriptors_before_files_are_opened() {
        let room = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("a status");
            let line = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
            line.and_then(|places| places.trim().parse().ok()).expect("a size")
        };
        let limit = raise_open_files();
        let wanted = limit.unwrap_or(u64::MAX).min(5_000);
        make_room_for_files(wanted, limit);
        assert!((wanted..=2 * wanted.next_power_of_two()).contains(&room()), "{}", room());
        make_room_for_files(u64::MAX, Some(wanted));
        assert!(room() < 4 * wanted, "{}", room());
    }

    #[test]
    fn only_a_limit_that_is_too_low_is_a_warning() {
        let text = "max_connections = 100
            half_open_max = 10
            [[server]]
            address = \"10.0.0.1\"
            max_connections = 50
            [[user]]
            name = \"app\"
            password = \"secret\"
            ";
        let no_files = |_: &str| Err("no files here".to_owned());
        let config = trunkline_config::parse(text, "test.toml", &no_files).expect("configuration");
        assert_eq!(open_files_warning(None, &config), None);
        assert_eq!(open_files_warning(Some(288), &config), None);
        let warning = open_files_warning(Some(287), &config).expect("warning");
        assert!(warning.starts_with("at most 287 files may be open, and 288 may be needed"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_the_thread_that_asks_gives_way() {
        use rustix::process::getpriority_process;
        let nice = || getpriority_process(None).expect("a priority");
        let before = nice();
        let nicer = std::thread::spawn(move || {
            give_way();
            nice()
        });
        assert_eq!(nicer.join().expect("thread"), (before + NICER).min(19));
        assert_eq!(nice(), before);
    }
}
