//! An adversary of the proxy's two promises: no client receives another one's state, and nothing
//! that may have effects is done twice.
//!
//! A seed draws a [`Plan`]: a schema, two to five sessions, and what they do in turns. Each step
//! runs through the proxy and on a *twin*, a session with a server connection of its own on
//! another server with the same data. Answers must be the same, and so must all data in the end.
//! What differs is cut down to a short program ([`shrink`]).
//!
//! [docs/internals/adversary.md](../../../docs/internals/adversary.md) says how to use it and what
//! it can't express.

#![forbid(unsafe_code)]

mod client;
mod compare;
mod data;
mod hunt;
mod plan;
mod rng;
mod run;
mod session;
mod shrink;
mod stage;

pub use hunt::{Finding, Hunt, Tally};
pub use plan::{Account, Act, Plan, Profile, Step, Wish, draw, topics};
pub use run::{Difference, Verdict, run};
pub use shrink::shrink;
pub use stage::Stage;
