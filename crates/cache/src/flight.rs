//! Statements under way whose answers will be stored. Who asks for the same meanwhile waits for
//! them instead of asking a server too.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use foldhash::fast::FixedState;

/// The most who wait for one answer; more ask for themselves.
pub const WAITERS_MAX: usize = 65_536;
/// A flight as old as this is given up: whoever asks next takes it over, µs.
pub(crate) const FLIGHT_US_MAX: u64 = 30_000_000;
/// Flights that are kept track of; beyond them everybody asks for themselves.
const FLIGHTS_MAX: usize = 65_536;
/// Parts of the table, each with its own lock.
const PARTS: usize = 8;

/// Somebody who waits for an answer: a client of a worker, in the worker's own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// The worker's number.
    pub worker: usize,
    /// The client's place.
    pub index: u32,
    /// Tells it from others at the same place.
    pub generation: u32,
}

/// The right to store one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) number: u64,
    /// The cache's age when it was given: what was asked before a flush is not stored after it.
    pub(crate) epoch: u64,
}

/// What becomes of a statement whose answer is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// It asks a server, and its answer is to be stored.
    Fill(Ticket),
    /// It has joined those who wait for another one's answer.
    Wait,
    /// Another one is under way and this one does not wait.
    Busy,
}

#[derive(Debug)]
struct Flight {
    number: u64,
    since_us: u64,
    waiters: Vec<Waiter>,
}

type Part = HashMap<Box<[u8]>, Flight, FixedState>;

/// All flights.
#[derive(Debug)]
pub(crate) struct Flights {
    parts: [Mutex<Part>; PARTS],
}

impl Flights {
    pub(crate) fn new() -> Self {
        Self { parts: std::array::from_fn(|_| Mutex::new(HashMap::default())) }
    }

    fn part(&self, key: &[u8]) -> Option<MutexGuard<'_, Part>> {
        let sum = key
            .iter()
            .rev()
            .take(32)
            .fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        let part = self.parts.get(sum % PARTS)?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a flight under this number, or joins the one that there is.
    pub(crate) fn begin(
        &self,
        key: &[u8],
        waiter: Option<Waiter>,
        number: u64,
        now_us: u64,
    ) -> Joined {
        let Some(mut part) = self.part(key) else { return Joined::Busy };
        if let Some(flight) = part.get_mut(key) {
            if now_us.saturating_sub(flight.since_us) >= FLIGHT_US_MAX {
                // Those who wait are woken by its end, whoever brings that about.
                (flight.number, flight.since_us) = (number, now_us);
                return Joined::Begun;
            }
            return match waiter.filter(|_| flight.waiters.len() < WAITERS_MAX) {
                Some(waiter) => {
                    flight.waiters.push(waiter);
                    Joined::Waits
                }
                None => Joined::Busy,
            };
        }
        if part.len() >= FLIGHTS_MAX / PARTS {
            return Joined::Busy;
        }
        part.insert(key.into(), Flight { number, since_us: now_us, waiters: Vec::new() });
        Joined::Begun
    }

    /// Ends a flight, unless another one has taken it over; those who waited.
    pub(crate) fn end(&self, key: &[u8], number: u64) -> Vec<Waiter> {
        let Some(mut part) = self.part(key) else { return Vec::new() };
        match part.get(key).is_some_and(|flight| flight.number == number) {
            true => part.remove(key).map(|flight| flight.waiters).unwrap_or_default(),
            false => Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        let len = |part: &Mutex<Part>| part.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.parts.iter().map(len).sum()
    }
}

/// What [`Flights::begin`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    Begun,
    Waits,
    Busy,
}
