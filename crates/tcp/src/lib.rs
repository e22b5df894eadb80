//! TCP listeners, as far as they decide anything: which server a client gets, what becomes of the
//! two sockets of a relayed pair, and when a server is up or down. No socket, no clock.
//!
//! Reading order: [`pair`] (two ends and what waits between them), [`choice`] (the server for a
//! client), [`header`] (the PROXY protocol), [`relay`] (one worker's listeners and pairs, from
//! accept to close), [`check`] (checks by connecting), [`glb`] (Galera Load
//! Balancer's control protocol).
#![forbid(unsafe_code)]

pub mod pair;

pub mod choice;

pub mod header;

pub mod relay;

pub mod check;

pub mod glb;

pub use check::{Checker, Verdict};
pub use pair::{End, Pair};
pub use relay::{Accepted, Action, ListenerId, PairId, Relay};
