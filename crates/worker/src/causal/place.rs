//! Where a read may run, beside the hostgroup that it goes to.

/// Which servers a read may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReadPlace {
    /// Those of its hostgroup.
    #[default]
    Anywhere,
    /// The split, not a rule, sent it to a reader hostgroup: the writer will do.
    OrOnWriter,
    /// Replicas only that show what its session has written.
    Showing {
        /// As [`OrOnWriter`](Self::OrOnWriter).
        or_on_writer: bool,
    },
    /// No replica shows that: it stays on the writer's hostgroup, wherever its session ran before.
    OnlyOnWriter,
}

impl ReadPlace {
    /// Whether its servers have to show what its session has written.
    #[inline]
    pub(crate) fn is_causal(self) -> bool {
        matches!(self, Self::Showing { .. })
    }

    /// Whether the writer will do, though it goes to a reader hostgroup.
    pub(crate) fn may_leave_reader(self) -> bool {
        matches!(self, Self::OrOnWriter | Self::Showing { or_on_writer: true })
    }

    /// From now on the writer will do, or will not.
    pub(crate) fn set_leaves_reader(&mut self, may_leave: bool) {
        *self = Self::of(self.is_causal(), may_leave);
    }

    /// From now on it has to see what its session has written, or has not.
    pub(crate) fn set_causal(&mut self, is_causal: bool) {
        if is_causal || self.is_causal() {
            *self = Self::of(is_causal, self.may_leave_reader());
        }
    }

    fn of(is_causal: bool, or_on_writer: bool) -> Self {
        match (is_causal, or_on_writer) {
            (true, or_on_writer) => Self::Showing { or_on_writer },
            (false, true) => Self::OrOnWriter,
            (false, false) => Self::Anywhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_read_has_to_see_and_whether_it_may_leave_are_told_apart() {
        let mut place = ReadPlace::default();
        place.set_leaves_reader(true);
        place.set_causal(true);
        assert_eq!(place, ReadPlace::Showing { or_on_writer: true });
        place.set_causal(false);
        assert_eq!(place, ReadPlace::OrOnWriter);
        place.set_leaves_reader(false);
        assert_eq!(place, ReadPlace::Anywhere);
        let mut place = ReadPlace::OnlyOnWriter;
        place.set_causal(false);
        assert_eq!(place, ReadPlace::OnlyOnWriter);
    }
}
