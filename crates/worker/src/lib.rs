//! One worker of the data plane as a pure machine: events in, actions out.
//!
//! A [`Worker`] holds the sessions of its clients, its part of the pool, and its statistics. It
//! has no socket, clock or random source: a driver tells it what arrived and when, carries out
//! the [`Action`]s it leaves behind, and writes what it finds in the outboxes. The same machine
//! runs under the real driver and under simulation.
//!
//! The files follow the way of a statement: [`login`](self) (steps 1 and 2), `command` (3),
//! `analysis` (4), `route` (5), `acquire` and `connect` (7), `dispatch` (8), `relay` (9),
//! `release` (10); `failure` is what happens when a server is lost on the way.
#![forbid(unsafe_code)]

mod action;
mod client;
mod conn;
mod outbox;
mod shared;
mod table;
mod time;

mod worker;

mod login;

mod command;
mod prepared;

mod analysis;
mod modes;

mod route;

mod acquire;
mod connect;

mod dispatch;

mod relay;

mod release;

mod failure;
mod forward;
mod handover;
mod housekeeping;
mod reload;
mod report;
mod stop;

pub use action::{Action, Peer, Side};
pub use client::ClientId;
pub use conn::MovedConn;
pub use outbox::Outbox;
pub use shared::Shared;
pub use time::Now;
pub use trunkline_pool::ConnId;
pub use worker::{Worker, WorkerOptions};
