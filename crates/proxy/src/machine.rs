//! How much memory there is: the machine's, or what the process's cgroups leave of it.

/// Bytes that everything from outside may take, where the configuration leaves it open: half of
/// what there is.
pub(crate) fn memory_max(configured: u64) -> u64 {
    match configured {
        0 => memory_of_machine().map_or(UNKNOWN_MAX, |bytes| bytes / 2),
        bytes => bytes,
    }
}

/// The budget where nothing can be found out, bytes.
const UNKNOWN_MAX: u64 = 1 << 30;

/// Bytes of memory that this process may have: the machine's, or what its cgroups leave of it.
/// `None` where nothing can be found out.
pub fn memory_of_machine() -> Option<u64> {
    memory(&|path| std::fs::read_to_string(path).ok())
}

/// Bytes of memory that the process may have.
fn memory(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let machine = read("/proc/meminfo").as_deref().and_then(total_of_meminfo);
    machine.into_iter().chain(of_cgroups(read)).min()
}

fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// The least limit of the process's cgroup and those that it is in. Version 2 has one tree, and
/// version 1 has one for memory.
fn of_cgroups(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let limits = groups.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // In a container its own group may be the root of what can be seen.
        let parents = std::iter::successors(Some(group.trim_end_matches('/')), |group| {
            group.rsplit_once('/').map(|(parent, _)| parent)
        });
        let limit = |group: &str| read(&format!("{root}{group}/{file}"))?.trim().parse().ok();
        parents.filter_map(limit).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: Option<u64>) {
        let read = |path: &str| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        assert_eq!(memory(&read), expected, "{files:?}");
    }

    const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal:        2097152 kB\nMemFree: 5 kB\n");

    #[test]
    fn the_least_of_the_machines_memory_and_the_groups_limits_counts() {
        let own = ("/proc/self/cgroup", "0::/system.slice/trunkline.service\n");
        let unlimited = ("/sys/fs/cgroup/system.slice/trunkline.service/memory.max", "max\n");
        let slice = ("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
        check(&[MEMINFO], Some(2 << 30));
        check(&[MEMINFO, own, unlimited], Some(2 << 30));
        check(&[MEMINFO, own, unlimited, slice], Some(1 << 30));
        check(&[MEMINFO, own, (unlimited.0, "4294967296")], Some(2 << 30));
        check(
            &[MEMINFO, ("/proc/self/cgroup", "0::/"), ("/sys/fs/cgroup/memory.max", "5")],
            Some(5),
        );
        let first = ("/proc/self/cgroup", "7:cpu:/\n4:hugetlb,memory:/a/b\n");
        let limit = ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "4096\n");
        check(&[MEMINFO, first, limit], Some(4_096));
        check(&[own], None);
    }
}
