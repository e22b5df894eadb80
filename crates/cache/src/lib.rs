//! The result cache: whole replies of servers, found by everything that changes an answer.
//!
//! It is the one structure that all workers share, and it is touched by those statements only
//! that a rule or a hint makes cacheable. It knows neither clock nor chance: time comes in, in µs
//! since the process's start, and keys are hashed with a fixed seed. A key is compared as a whole,
//! so that a collision of hashes gives nobody another statement's answer.
//!
//! | part | what |
//! |---|---|
//! | [`Reply`] | one answer as its server sent it, and how long it is good |
//! | `expiry` | when they leave if nobody asks for them again |
//! | `flight` | statements under way whose answers are to be stored, and who waits for them |
//! | [`Shared`] | what several proxies share in a server beside (Redis), by way of a thread |
//! | [`Cache`] | all of it, bounded by bytes |
#![forbid(unsafe_code)]

mod cache;
mod expiry;
mod flight;
mod reply;
mod shared;

pub use cache::{Cache, Figures};
pub use flight::{Begun, Ticket, WAITERS_MAX, Waiter};
pub use reply::Reply;
pub use shared::{
    Shared, SharedAsk, SharedFigures, SharedStore, ThisHost, VALUE_HEAD_LEN, pack, unpack,
};
