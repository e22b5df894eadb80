//! Memory of the admin port, which is the budget's of all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trunkline_budget::{Budget, Charge, Class, Kind};
use trunkline_store::Access;

use super::Refused;

/// How far the budget may be used for whoever has this access: administrators and operators
/// find memory when nobody else does, users of statistics as what clients' sessions keep.
pub(crate) const fn class_of(access: Access) -> Class {
    match access {
        Access::Admin | Access::Operate | Access::Internal => Class::Admin,
        Access::Stats => Class::Keep,
    }
}

/// The memory of a session's answer.
#[derive(Debug)]
pub(crate) struct Room {
    charge: Mutex<Charge>,
    class: Class,
    budget: Arc<Budget>,
}

impl Room {
    /// Nothing so far.
    pub(crate) fn of(budget: &Arc<Budget>, access: Access) -> Arc<Self> {
        let charge = Mutex::new(budget.charge_nothing(Kind::Admin));
        Arc::new(Self { charge, class: class_of(access), budget: Arc::clone(budget) })
    }

    /// Takes more bytes; whether there were as many.
    pub(crate) fn grow(&self, more: usize) -> bool {
        self.charge().grow(self.class, more).is_ok()
    }

    /// Bytes that are taken.
    pub(crate) fn len(&self) -> u64 {
        self.charge().len()
    }

    /// Gives all of it back.
    pub(crate) fn clear(&self) {
        self.charge().set(0);
    }

    /// What is said when there is no memory for something.
    pub(crate) fn lacking(&self, what: &str) -> Refused {
        Refused::out_of_memory(what, self.budget.max())
    }

    fn charge(&self) -> MutexGuard<'_, Charge> {
        self.charge.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_find_memory_when_users_of_statistics_do_not() {
        let budget = Arc::new(Budget::new(1_600));
        let stats = Room::of(&budget, Access::Stats);
        let admin = Room::of(&budget, Access::Admin);
        assert!(stats.grow(1_000) && !stats.grow(1));
        assert!(admin.grow(600) && !admin.grow(1));
        assert_eq!((stats.len(), admin.len(), budget.of(Kind::Admin)), (1_000, 600, 1_600));
        stats.clear();
        assert!(admin.grow(1_000));
        drop((stats, admin));
        assert_eq!(budget.total(), 0);
    }
}
