//! What `LAST_INSERT_ID()` may be on a connection, whoever left it there.

/// Ids that are told apart; with more, it may be any.
const IDS_MAX: usize = 8;

/// The last insert id that a connection's server has.
///
/// Replies report ids that statements generated and ids that they gave, alike, and only the former
/// change it. A session that gives one that is there already would take it for its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct InsertIds {
    ids: [u64; IDS_MAX],
    /// Of them; more than all of them when it may be any.
    count: usize,
}

impl InsertIds {
    /// It is this one; 0, which no reply reports, is none.
    pub(crate) fn set(&mut self, id: u64) {
        *self = Self::default();
        if id != 0 {
            self.add(id);
        }
    }

    /// It is this one, or what it was.
    pub(crate) fn add(&mut self, id: u64) {
        if self.may_be(|it| it == id) {
            return;
        }
        if let Some(place) = self.ids.get_mut(self.count) {
            *place = id;
        }
        self.count += 1;
    }

    /// It may be any.
    pub(crate) fn forget(&mut self) {
        self.count = IDS_MAX + 1;
    }

    /// Whether it may be one of which this is true.
    pub(crate) fn may_be(&self, is: impl Fn(u64) -> bool) -> bool {
        match self.ids.get(..self.count) {
            Some(ids) => ids.iter().any(|id| is(*id)),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_ids_are_any() {
        let mut ids = InsertIds::default();
        assert!(!ids.may_be(|_| true), "a server begins without one");
        (1..=8).for_each(|id| ids.add(id));
        ids.add(8);
        assert!(ids.may_be(|id| id == 1) && !ids.may_be(|id| id == 9));
        ids.add(9);
        assert!(ids.may_be(|_| false));
        ids.set(5);
        assert!(ids.may_be(|id| id == 5) && !ids.may_be(|id| id != 5));
        ids.set(0);
        assert!(!ids.may_be(|_| true));
        ids.forget();
        assert!(ids.may_be(|_| false));
    }
}
