//! What one name stands for, and what may happen when a statement uses it.

use std::{fmt, ops};

use trunkline_topology::HostgroupId;

/// A table's, view's or sequence's full name on the servers of one group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name {
    /// The group: the writer hostgroup, or the hostgroup itself where it has no readers.
    pub group: HostgroupId,
    /// The schema, as written; UTF-8.
    pub schema: Box<[u8]>,
    /// The name within the schema, as written; UTF-8.
    pub table: Box<[u8]>,
}

/// What kind of thing a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A base table of an engine whose reads and writes are plain.
    Table,
    /// A view.
    View,
    /// MariaDB's sequence.
    Sequence,
    /// Anything else: a table of an engine that nothing is known of, one of the server's own.
    Other,
}

/// What a dictionary says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// What may happen, unseen in the text, when a statement reads it.
    pub reading: Hidden,
    /// What may happen, unseen in the text, when a statement writes it: by triggers, defaults and
    /// generated columns.
    pub writing: Hidden,
}

impl Object {
    /// A base table without anything behind it: no triggers, no defaults that call something.
    pub const PLAIN_TABLE: Self =
        Self { kind: Kind::Table, reading: Hidden::empty(), writing: Hidden::empty() };
}

/// What may happen behind a name that the statement's own text does not show.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Hidden(u16);

impl Hidden {
    /// It changes data, or takes a lock by name.
    pub const WRITES: Self = Self(1);
    /// It may leave something in the session that `COM_RESET_CONNECTION` takes back: user
    /// variables, system variables, locks, temporary tables.
    pub const LEAVES: Self = Self(1 << 1);
    /// It may leave something that a reset does not take back: a role, profiles.
    pub const STAYS: Self = Self(1 << 2);
    /// It may look at what earlier statements of the session left on its connection: the last
    /// insert id, user variables, row counts, values of sequences.
    pub const READS_SESSION: Self = Self(1 << 3);
    /// Its answer may differ though no data has changed: the time, chance, who asks.
    pub const VARIES: Self = Self(1 << 4);
    /// It was something else a moment ago, and may be that still on servers that replicate.
    pub const CHANGED: Self = Self(1 << 6);
    /// It may give a column of the written row its value: by a trigger.
    pub const GIVES_VALUES: Self = Self(1 << 7);
    /// Only a reader has said what it is, as no writer could be asked: on the writer nothing is
    /// proven by that.
    pub const SEEN_ON_READER: Self = Self(1 << 8);
    /// Nobody has said what the name means: it was not known in time, could not be asked, or is not
    /// there.
    pub const UNTOLD: Self = Self(1 << 9);
    /// Nor has any server said that there is nothing by this name: it may be a view.
    pub const UNASKED: Self = Self(1 << 10);
    /// It concatenates groups (`GROUP_CONCAT`): what it reads in may depend on
    /// `group_concat_max_len`, as it is when a statement is prepared.
    pub const CONCATENATES: Self = Self(1 << 11);
    /// It has a text of its own, a view's definition, which may have literals in it: what a server
    /// computes of them when it prepares a statement may depend on `time_zone`.
    pub const DEFINED: Self = Self(1 << 12);
    /// What is written to it stays when its transaction is rolled back: its engine has no
    /// transactions.
    pub const STAYS_WRITTEN: Self = Self(1 << 13);
    /// What it does can't be seen: it may do all of the above but the four before the last.
    pub const UNKNOWN: Self = Self(1 << 5);

    /// Code that can be seen and is not understood, or calls what is not: whoever runs it is held
    /// where it ran, as it may have left anything there.
    pub const OPAQUE: Self = Self(Self::UNKNOWN.0 | Self::LEAVES.0 | Self::STAYS.0);

    const NAMES: [(Self, &'static str); 14] = [
        (Self::WRITES, "WRITES"),
        (Self::LEAVES, "LEAVES"),
        (Self::STAYS, "STAYS"),
        (Self::READS_SESSION, "READS_SESSION"),
        (Self::VARIES, "VARIES"),
        (Self::CHANGED, "CHANGED"),
        (Self::GIVES_VALUES, "GIVES_VALUES"),
        (Self::SEEN_ON_READER, "SEEN_ON_READER"),
        (Self::UNTOLD, "UNTOLD"),
        (Self::UNASKED, "UNASKED"),
        (Self::CONCATENATES, "CONCATENATES"),
        (Self::DEFINED, "DEFINED"),
        (Self::STAYS_WRITTEN, "STAYS_WRITTEN"),
        (Self::UNKNOWN, "UNKNOWN"),
    ];

    /// Nothing.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Both.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it is nothing.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether nothing may happen when a statement runs: at most, how a text is prepared depends on
    /// more than the text.
    pub const fn is_plain(self) -> bool {
        self.0 & !(Self::CONCATENATES.0 | Self::DEFINED.0 | Self::STAYS_WRITTEN.0) == 0
    }

    /// Whether any of `other` may happen; what is unknown may do all.
    pub const fn may(self, other: Self) -> bool {
        self.0 & (other.0 | Self::UNKNOWN.0) != 0
    }

    /// Whether this very flag is set.
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    /// Adds `other`.
    pub fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl ops::BitOr for Hidden {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().filter(|(flag, _)| self.has(*flag));
        f.debug_set().entries(names.map(|(_, name)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_may_do_anything() {
        assert!(Hidden::UNKNOWN.may(Hidden::WRITES) && Hidden::UNKNOWN.may(Hidden::STAYS));
        assert!(!Hidden::UNKNOWN.has(Hidden::WRITES));
        assert!(!Hidden::VARIES.may(Hidden::WRITES));
        assert!(!Hidden::empty().may(Hidden::LEAVES));
    }
}
