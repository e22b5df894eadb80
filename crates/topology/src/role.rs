//! Which servers of a cluster have which role, as atomics that workers read before a statement
//! goes out.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};

/// The one writer of a cluster: which member it is, and how often that has changed. Two writers
/// can't be said with it.
#[derive(Debug, Default)]
pub struct WriterCell {
    /// In the upper half the epoch, in the lower half the writer's number and one; 0 for nobody.
    cell: AtomicU64,
    /// Who wrote last, and one; 0 for nobody.
    last: AtomicU32,
}

/// One epoch more, in the upper half of the cell.
const EPOCH: u64 = 1 << 32;

impl WriterCell {
    /// Makes a member the writer, or nobody; gives the new epoch.
    pub fn set(&self, writer: Option<u32>) -> u32 {
        let low = writer.map_or(0, |member| u64::from(member.saturating_add(1)));
        if let Some(member) = writer {
            self.last.store(member.saturating_add(1), Relaxed);
        }
        let next = |cell: u64| Some((cell / EPOCH * EPOCH).wrapping_add(EPOCH) | low);
        // `next` always gives one.
        let before = self.cell.fetch_update(Relaxed, Relaxed, next).unwrap_or_else(|cell| cell);
        epoch_of(before).wrapping_add(1)
    }

    /// The member that writes.
    pub fn writer(&self) -> Option<u32> {
        u32::try_from(self.cell.load(Relaxed) % EPOCH).ok()?.checked_sub(1)
    }

    /// The member that writes, or wrote last.
    pub fn last_writer(&self) -> Option<u32> {
        self.last.load(Relaxed).checked_sub(1)
    }

    /// Grows by one with each change.
    pub fn epoch(&self) -> u32 {
        epoch_of(self.cell.load(Relaxed))
    }
}

fn epoch_of(cell: u64) -> u32 {
    u32::try_from(cell / EPOCH).unwrap_or_default()
}

/// What a server of a hostgroup has to be in its cluster to take statements there.
#[derive(Debug)]
pub enum Role {
    /// The writer.
    Writer {
        /// Says who that is.
        cell: Arc<WriterCell>,
        /// The server's number in the cluster.
        member: u32,
    },
    /// One that several servers may have at a time: readers, backup writers, and writers where
    /// there may be several.
    Shared {
        /// Whether the server has it.
        is_given: AtomicBool,
        /// Whether what is under way ends where it is lost.
        ends_statements: bool,
    },
}

impl Role {
    /// Whether the server has the role now.
    #[inline]
    pub fn is_given(&self) -> bool {
        match self {
            Self::Writer { cell, member } => cell.writer() == Some(*member),
            Self::Shared { is_given, .. } => is_given.load(Relaxed),
        }
    }

    /// Whether statements under way and transactions have to end where the role is lost.
    pub fn ends_statements(&self) -> bool {
        match self {
            Self::Writer { .. } => true,
            Self::Shared { ends_statements, .. } => *ends_statements,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_writer_or_none_and_each_change_is_an_epoch() {
        let cell = Arc::new(WriterCell::default());
        let role = |member| Role::Writer { cell: Arc::clone(&cell), member };
        let given = |member| role(member).is_given();
        assert_eq!((cell.writer(), cell.epoch()), (None, 0));
        assert_eq!(cell.set(Some(0)), 1);
        assert_eq!((given(0), given(1), cell.writer()), (true, false, Some(0)));
        assert_eq!(cell.set(Some(1)), 2);
        assert_eq!((given(0), given(1), cell.epoch()), (false, true, 2));
        assert_eq!(cell.set(None), 3);
        assert_eq!((given(0), given(1), cell.writer()), (false, false, None));
        assert_eq!(cell.last_writer(), Some(1));
    }
}
