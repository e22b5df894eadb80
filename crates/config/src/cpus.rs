//! Which CPUs workers run on.

use crate::{
    Wrong,
    settings::{Given, Range, SettingValue, read_text},
};

/// The largest CPU number.
const CPU_MAX: usize = 1_023;

/// Which CPUs workers run on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WorkerCpus {
    /// Where the kernel puts them.
    #[default]
    Off,
    /// Each on one of those that the process may use, in their order.
    Auto,
    /// Each on one of these, in this order; never empty.
    List(Vec<usize>),
}

impl WorkerCpus {
    /// The CPU of a worker, when `allowed` are those that the process may use; `None` leaves it to
    /// the kernel. With more workers than CPUs they take turns.
    pub fn of_worker(&self, worker: usize, allowed: &[usize]) -> Option<usize> {
        let cpus = match self {
            Self::Off => return None,
            Self::Auto => allowed,
            Self::List(cpus) => cpus,
        };
        cpus.get(worker.checked_rem(cpus.len())?).copied()
    }
}

impl SettingValue for WorkerCpus {
    const KIND: &'static str = "off, auto, or numbers";

    fn read(given: &Given, _: Range) -> Result<Self, Wrong> {
        match read_text(given)? {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            text => Ok(read_list(text).map(Self::List).ok_or_else(|| {
                format!(
                    "must be off, auto, or numbers and ranges of 0 to {CPU_MAX} like `0-3,6`, \
                     each CPU once, not `{text}`"
                )
            })?),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Off => "off".to_owned(),
            Self::Auto => "auto".to_owned(),
            Self::List(cpus) => cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        }
    }
}

/// `0-3,6` as its numbers; `None` when it is no such list.
fn read_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > CPU_MAX {
            return None;
        }
        for cpu in first..=last {
            if cpus.contains(&cpu) {
                return None;
            }
            cpus.push(cpu);
        }
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<WorkerCpus, Wrong> {
        WorkerCpus::read(&Given::Text(text.to_owned()), Range::All)
    }

    #[test]
    fn lists_are_numbers_and_ranges() {
        let check = |text: &str, expected: &[usize]| {
            assert_eq!(read(text), Ok(WorkerCpus::List(expected.to_vec())), "{text}");
        };
        check("0", &[0]);
        check("0-3,6", &[0, 1, 2, 3, 6]);
        check("5, 1-2", &[5, 1, 2]);
        for wrong in ["", "x", "3-1", "1,1", "0-2,1", "1024", "-1", "1-", "0,,1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn workers_take_their_turns() {
        let allowed = [2, 3];
        let of = |text: &str| -> Vec<Option<usize>> {
            let cpus = read(text).expect(text);
            (0..3).map(|worker| cpus.of_worker(worker, &allowed)).collect()
        };
        assert_eq!(of("off"), [None; 3]);
        assert_eq!(of("auto"), [Some(2), Some(3), Some(2)]);
        assert_eq!(of("7,5"), [Some(7), Some(5), Some(7)]);
        assert_eq!(WorkerCpus::Auto.of_worker(0, &[]), None);
    }
}
