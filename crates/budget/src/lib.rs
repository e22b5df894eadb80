//! One budget for the memory that bytes from outside can make grow.
//!
//! A [`Budget`] is shared by all threads: what is in use, the limit, and who holds most. What a
//! client holds within its free allowance ([`FREE_LEN`]) is not charged; that much is what it costs
//! to have a client at all. A worker charges through its [`Purse`], which takes from the budget in
//! chunks, so that a client whose needs come and go costs nobody else anything. Others, such as the
//! admin port, hold a [`Charge`].
//!
//! [`admit()`] decides who gets memory: a function of its inputs alone.
#![forbid(unsafe_code)]

mod admit;
mod holders;
mod purse;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

pub use admit::{Ask, Class, PATIENCE_MS, Refusal, Verdict, WAIT_MS_MAX, admit};
pub use holders::{Holder, Holders};
pub use purse::Purse;

/// What each client may hold without being charged, bytes.
pub const FREE_LEN: usize = 16 * 1024;

/// What memory is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Statements that are being received or are on their way, logins among them.
    Statements,
    /// Prepared texts and long data.
    Prepared,
    /// Results that wait for their clients.
    Results,
    /// Answers in the result cache.
    Cache,
    /// The admin port: statements, values, rows.
    Admin,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Statements, Self::Prepared, Self::Results, Self::Cache, Self::Admin];

    /// As a label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Statements => "statements",
            Self::Prepared => "prepared",
            Self::Results => "results",
            Self::Cache => "cache",
            Self::Admin => "admin",
        }
    }
}

/// The memory of all, and who has it.
#[derive(Debug)]
pub struct Budget {
    max: AtomicU64,
    /// Bytes that were taken: those in use, and what workers have taken ahead.
    total: AtomicU64,
    /// Bytes in use, by kind; a worker's part is up to a second old.
    kinds: [AtomicU64; Kind::ALL.len()],
    holders: Arc<Holders>,
    waits: AtomicU64,
    waiting: AtomicU64,
    refusals: [AtomicU64; Refusal::ALL.len()],
    /// How many workers have a client that has lost its patience.
    pressing: AtomicU32,
    /// What each worker has said last.
    said: Mutex<Vec<Said>>,
}

/// What a worker says of its clients.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    /// The score of the greediest one that can give way.
    score: u64,
    /// Whether one has lost its patience.
    presses: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}

impl Budget {
    /// A budget of so many bytes, of which nothing is used.
    pub fn new(max: u64) -> Self {
        Self {
            max: AtomicU64::new(max),
            total: AtomicU64::default(),
            kinds: Default::default(),
            holders: Arc::default(),
            waits: AtomicU64::default(),
            waiting: AtomicU64::default(),
            refusals: Default::default(),
            pressing: AtomicU32::default(),
            said: Mutex::default(),
        }
    }

    /// The limit, bytes.
    pub fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// Has another limit from now on. What is in use stays.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Relaxed);
    }

    /// Bytes in use.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Bytes in use for this; up to a second old.
    pub fn of(&self, kind: Kind) -> u64 {
        self.kind(kind).map_or(0, |sum| sum.load(Relaxed))
    }

    /// Users and addresses, and what they hold.
    pub fn holders(&self) -> &Arc<Holders> {
        &self.holders
    }

    /// How often a client had to wait.
    pub fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }

    /// Clients that wait.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    /// How often memory was refused for this reason.
    pub fn refusals(&self, refusal: Refusal) -> u64 {
        self.refusals.get(refusal as usize).map_or(0, |count| count.load(Relaxed))
    }

    /// A client waits from now on.
    pub fn begin_wait(&self) {
        self.waits.fetch_add(1, Relaxed);
        self.waiting.fetch_add(1, Relaxed);
    }

    /// A client waits no more.
    pub fn end_wait(&self) {
        let before = self.waiting.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "nobody waited");
    }

    /// Somebody was refused memory.
    pub fn refused(&self, refusal: Refusal) {
        if let Some(count) = self.refusals.get(refusal as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Whether somebody who will hold `whole` bytes in the end may have `wanted` of them now, after
    /// waiting for so long.
    pub fn ask(&self, class: Class, whole: usize, wanted: usize, waited_ms: u64) -> Verdict {
        let (whole, wanted) = (bytes(whole), bytes(wanted));
        admit(&Ask { total: self.total(), max: self.max(), class, whole, wanted, waited_ms })
    }

    /// Charges bytes that are not a client's of a worker, or says why not. They are given back
    /// with the charge.
    ///
    /// # Errors
    /// Why there is no memory for it.
    pub fn charge(
        self: &Arc<Self>,
        class: Class,
        kind: Kind,
        len: usize,
    ) -> Result<Charge, Refusal> {
        let mut charge = self.charge_nothing(kind);
        charge.grow(class, len)?;
        Ok(charge)
    }

    /// A charge of nothing so far.
    pub fn charge_nothing(self: &Arc<Self>, kind: Kind) -> Charge {
        Charge { budget: Arc::clone(self), kind, len: 0 }
    }

    /// Whether a client of some worker has lost its patience: the greediest one has to give way.
    pub fn is_pressed(&self) -> bool {
        self.pressing.load(Relaxed) > 0
    }

    /// A worker says how greedy the greediest of its clients is that can give way, and whether one
    /// has lost its patience. True when that one has to give way.
    pub fn press(&self, worker: usize, score: u64, presses: bool) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() <= worker {
            said.resize(worker + 1, Said::default());
        }
        if let Some(own) = said.get_mut(worker) {
            match (own.presses, presses) {
                (false, true) => _ = self.pressing.fetch_add(1, Relaxed),
                (true, false) => _ = self.pressing.fetch_sub(1, Relaxed),
                (true, true) | (false, false) => {}
            }
            *own = Said { score, presses };
        }
        let is_pressed = said.iter().any(|said| said.presses);
        is_pressed && score > 0 && said.iter().all(|said| said.score <= score)
    }

    fn kind(&self, kind: Kind) -> Option<&AtomicU64> {
        self.kinds.get(kind as usize)
    }

    fn take(&self, len: u64) {
        self.total.fetch_add(len, Relaxed);
    }

    fn give_back(&self, len: u64) {
        let before = self.total.fetch_sub(len, Relaxed);
        debug_assert!(before >= len, "more is given back than was taken");
    }
}

/// Bytes that somebody holds who is no client of a worker. Dropped, they are given back.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    kind: Kind,
    len: u64,
}

impl Charge {
    /// Bytes that are charged.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing is charged.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Charges `more` bytes, or says why not.
    ///
    /// # Errors
    /// Why there is no memory for it; the charge is as it was.
    pub fn grow(&mut self, class: Class, more: usize) -> Result<(), Refusal> {
        let held = usize::try_from(self.len).unwrap_or(usize::MAX);
        match self.budget.ask(class, held.saturating_add(more), more, WAIT_MS_MAX) {
            Verdict::Go => self.set(self.len.saturating_add(bytes(more))),
            // Who asks here does not wait.
            Verdict::Wait => return Err(self.refused(Refusal::Full)),
            Verdict::Refuse(refusal) => return Err(self.refused(refusal)),
        }
        Ok(())
    }

    fn refused(&self, refusal: Refusal) -> Refusal {
        self.budget.refused(refusal);
        refusal
    }

    /// Charges what is held now, whether there is room for it or not: it is there already.
    pub fn set(&mut self, len: u64) {
        let (more, less) = (len.saturating_sub(self.len), self.len.saturating_sub(len));
        self.budget.take(more);
        self.budget.give_back(less);
        if let Some(sum) = self.budget.kind(self.kind) {
            sum.fetch_add(more, Relaxed);
            sum.fetch_sub(less, Relaxed);
        }
        self.len = len;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_given_back_when_it_is_dropped() {
        let budget = Arc::new(Budget::new(1_600));
        let charge = budget.charge(Class::Admin, Kind::Admin, 1_000).expect("room");
        assert_eq!((budget.total(), budget.of(Kind::Admin), charge.len()), (1_000, 1_000, 1_000));
        drop(charge);
        assert_eq!((budget.total(), budget.of(Kind::Admin)), (0, 0));
    }

    #[test]
    fn a_charge_that_finds_no_room_stays_as_it_was() {
        let budget = Arc::new(Budget::new(1_600));
        let mut charge = budget.charge(Class::Admin, Kind::Admin, 1_000).expect("room");
        let _other = budget.charge(Class::Admin, Kind::Admin, 500).expect("room");
        assert_eq!(charge.grow(Class::Admin, 101), Err(Refusal::Full));
        assert_eq!((charge.len(), budget.refusals(Refusal::Full)), (1_000, 1));
        assert_eq!(charge.grow(Class::Admin, 700), Err(Refusal::TooLarge));
        assert_eq!(charge.grow(Class::Admin, 100), Ok(()));
        charge.set(50);
        assert_eq!(budget.total(), 550);
    }

    #[test]
    fn the_greediest_of_all_workers_gives_way_when_somebody_has_lost_patience() {
        let budget = Budget::new(1_600);
        assert!(!budget.press(0, 70, false), "nobody presses");
        assert!(!budget.is_pressed());
        assert!(!budget.press(1, 50, true), "another worker has a greedier one");
        assert!(budget.is_pressed());
        assert!(budget.press(0, 70, false));
        assert!(!budget.press(0, 0, false), "it has given way");
        assert!(budget.press(1, 50, true));
        assert!(!budget.press(1, 50, false));
        assert!(!budget.is_pressed());
    }

    #[test]
    fn who_has_nothing_to_give_gives_nothing() {
        let budget = Budget::new(1_600);
        assert!(!budget.press(0, 0, true));
    }
}
