//! One worker of the data plane as a pure machine: events in, actions out.
//!
//! A [`Worker`] holds the sessions of its clients, its part of the pool, and its statistics. It
//! has no socket, clock or random source: a driver tells it what arrived and when, carries out
//! the [`Action`]s it leaves behind, and writes what it finds in the outboxes. The same machine
//! runs under the real driver and under simulation.
//!
//! The files follow the way of a statement: [`login`](self) (steps 1 and 2), `command` (3),
//! `analysis` (4), `route`, `orders`, `rewrite`, `split` and `admission` (5), `cache` and
//! `mirror` (6), `acquire`, `share` and `connect` (7), `dispatch` (8), `relay` (9), `release` (10);
//! `prepared` is all of these for prepared statements; `failure` is what happens when a server is
//! lost on the way, `timer` when time runs out.
#![forbid(unsafe_code)]

/// Whether a bug is planted in this worker; `false` to the compiler without the feature.
macro_rules! has_plant {
    ($worker:expr, $plant:ident) => {{
        #[cfg(feature = "plants")]
        let has = $worker.env.plant == Some(crate::plants::Plant::$plant);
        #[cfg(not(feature = "plants"))]
        let has = false;
        has
    }};
}

#[cfg(feature = "plants")]
pub mod plants;

mod action;
mod addresses;
mod client;
mod clients;
mod compressed;
mod effects;
mod env;
mod outbox;
mod router;
mod servers;
mod shared;
mod statements;
mod table;
mod time;
mod upkeep;

mod worker;

mod arrival;
mod login;

mod command;

mod analysis;
mod definition;
mod modes;
mod pace;
mod proof;

mod kept;
mod orders;
mod read_only;
mod rewrite;
mod route;
mod split;

mod admission;
mod cache;
mod capture;
mod change_user;
mod mirror;

mod acquire;
mod connect;
mod sessions;
mod share;

mod coalesce;

mod dispatch;
mod hidden;
mod prepared;

mod relay;

mod dirt;
mod release;

mod balance;
mod binlog;
mod events;
mod explain;
mod failure;
mod forward;
mod globals;
mod handover;
mod held;
mod housekeeping;
mod identity;
mod incoming;
mod infile;
mod internal_session;
mod inventory;
mod json;
mod kill;
mod moving;
mod names;
mod reload;
mod report;
mod side;
mod stop;
mod timer;
mod tls;
mod traces;
mod trackers;

pub use action::{Action, CatalogAsk, Peer, Side};
pub use analysis::digest_settings;
pub use client::ClientId;
pub use events::{QueryEvent, SessionEvent};
pub use explain::{ExplainRow, Explaining, explain};
pub use kill::{KillAnswer, KillAsker, KillRequest, KillScope};
pub use moving::MovedClient;
pub use outbox::Outbox;
pub use proof::by_worker;
pub use servers::conn::MovedConn;
pub use shared::Shared;
pub use split::Transactions;
pub use time::Now;
pub use trunkline_pool::ConnId;
pub use worker::{Worker, WorkerOptions};
