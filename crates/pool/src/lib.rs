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
mod limit;
mod outliers;
mod slot;
mod tenant;
mod turns;
mod waiters;
mod width;

pub use group::{Asker, Choice, DedicatedChoice, Only, Pool, SharedChoice};
pub use outliers::Verdict;
pub use slot::{AccountId, ConnId, ConnState, Counts, Slot, SlotId};
pub use tenant::{Accounts, Room, TENANTS_MAX, TenantId};
pub use turns::Place;
pub use waiters::{Hold, HoldLook, Waiter, Waiters};
pub use width::{WORKING_MAX, Width};
