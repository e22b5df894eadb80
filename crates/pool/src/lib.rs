//! Backend connections by state, and the choice of one for a statement.
//!
//! A pool belongs to one worker. It knows connections by number only: their sockets and bytes are
//! elsewhere. Every connection is in exactly one state, and the counts of a [`Slot`] are the
//! lengths of those states' lists.
#![forbid(unsafe_code)]

#[cfg(test)]
mod curve;
mod draw;
mod group;
mod outliers;
mod slot;
mod waiters;
mod width;

pub use group::{Asker, Choice, DedicatedChoice, Only, Pool, SharedChoice};
pub use outliers::Verdict;
pub use slot::{AccountId, ConnId, ConnState, Counts, Slot, SlotId};
pub use waiters::{Hold, HoldLook, Waiter, Waiters};
pub use width::{WORKING_MAX, Width};
