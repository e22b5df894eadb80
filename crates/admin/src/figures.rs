//! What the admin port and HTTP count. Written where it happens, read by whoever makes a report.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use trunkline_stats::{AdminFigures, HttpFigures, Process};

use crate::kernel;

macro_rules! counted {
    ($(#[$doc:meta])+ $name:ident -> $sums:ident { $($field:ident),+ }) => {
        $(#[$doc])+
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $( pub(crate) $field: Count, )+
        }

        impl $name {
            fn now(&self) -> $sums {
                $sums { $( $field: self.$field.now(), )+ }
            }
        }
    };
}

counted! {
    /// Those of the admin port.
    AdminCounts -> AdminFigures {
        admins, stats_users, logging_in, held_bytes, displaced, denied, blocked, forgotten, full,
        idle, stats_limited, stats_busy, handshakes,
        tables_bytes
    }
}

counted! {
    /// Those of HTTP, over all of its ports.
    HttpCounts -> HttpFigures { connections, displaced, busy, foreign, denied, blocked }
}

/// Both.
#[derive(Debug, Default)]
pub struct Figures {
    pub(crate) admin: AdminCounts,
    pub(crate) http: HttpCounts,
}

impl Figures {
    /// Writes them into a report.
    pub(crate) fn fill(&self, process: &mut Process) {
        (process.admin, process.http) = (self.admin.now(), self.http.now());
        process.kernel = kernel::figures();
    }
}

/// A number that several threads change.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    fn take(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    /// Adds unless more than `max` would be there then; whether it did.
    fn add_within(&self, more: u64, max: u64) -> bool {
        let added = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
            now.checked_add(more).filter(|sum| *sum <= max)
        });
        added.is_ok()
    }
}

/// A share of a number, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    figures: Arc<Figures>,
    of: fn(&Figures) -> &Count,
    amount: u64,
}

impl Share {
    /// Nothing yet.
    pub(crate) fn none(figures: &Arc<Figures>, of: fn(&Figures) -> &Count) -> Self {
        Self { figures: Arc::clone(figures), of, amount: 0 }
    }

    /// One more, if at most `max` are there then.
    pub(crate) fn one(
        figures: &Arc<Figures>,
        of: fn(&Figures) -> &Count,
        max: u64,
    ) -> Option<Self> {
        let mut share = Self::none(figures, of);
        share.grow(1, max).then_some(share)
    }

    /// Takes more, if at most `max` are taken in all then; whether it did.
    pub(crate) fn grow(&mut self, more: u64, max: u64) -> bool {
        let has_room = (self.of)(&self.figures).add_within(more, max);
        self.amount += if has_room { more } else { 0 };
        has_room
    }

    /// Gives back all but `left`.
    pub(crate) fn shrink_to(&mut self, left: u64) {
        let less = self.amount.saturating_sub(left);
        (self.of)(&self.figures).take(less);
        self.amount -= less;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_hold_the_limit_and_come_back() {
        let figures = Arc::new(Figures::default());
        let of: fn(&Figures) -> &Count = |figures| &figures.admin.held_bytes;
        let mut first = Share::none(&figures, of);
        assert!(first.grow(6, 10) && !first.grow(5, 10) && first.grow(4, 10));
        assert!(Share::one(&figures, of, 10).is_none());
        first.shrink_to(3);
        assert_eq!(figures.admin.held_bytes.now(), 3);
        let second = Share::one(&figures, of, 10);
        assert!(second.is_some());
        drop((first, second));
        assert_eq!(figures.admin.held_bytes.now(), 0);
    }
}
