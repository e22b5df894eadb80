//! One worker of the data plane as a pure machine: events in, actions out.
//!
//! A [`Worker`] holds the sessions of its clients, its part of the pool, and its statistics. It
//! has no socket, clock or random source: a driver tells it what arrived and when, carries out
//! the [`Action`]s it leaves behind, and writes what it finds in the outboxes. The same machine
//! runs under the real driver and under simulation.
//!
//! The parts of a worker stand one inside another (`rooms`), and the folders call only those
//! behind them: `upkeep` (reloads, stops), `commands` (step 3), `login` and `accept` (2, 1),
//! `routing` (5), `cache` and `mirror` (6), `reply` (9), `special`, `server_login`, `kill`,
//! `acquire` (7), `exchange` (8, 10), `prepared`, `statement` (4), `session_past`, `servers`,
//! `clients`, `effects`.
#![forbid(unsafe_code)]

/// Whether a bug is planted in this worker; `false` to the compiler without the feature.
macro_rules! has_plant {
    (in $holder:expr, $plant:ident) => {{
        #[cfg(feature = "plants")]
        let has = $holder.plant == Some(crate::plants::Plant::$plant);
        #[cfg(not(feature = "plants"))]
        let has = false;
        has
    }};
    ($worker:expr, $plant:ident) => {
        has_plant!(in $worker.env, $plant)
    };
}

#[cfg(feature = "plants")]
pub mod plants;

// What all of them use.
mod action;
mod bytes;
mod compressed;
mod effects;
mod env;
mod json;
mod outbox;
mod shared;
mod table;
mod time;

// The parts, and the events that a driver brings.
mod incoming;
mod rooms;
mod tick;
mod worker;

// Between the worker and its sockets.
pub mod shell;

// The way of a statement.
// What comes beside statements.
mod upkeep;

// The way of a statement: each calls only those behind it.
mod commands;
mod login;

mod accept;

mod routing;

mod cache;
mod causal;
mod mirror;

mod replay;
mod reply;
mod special;

mod server_login;

mod kill;

mod acquire;

mod exchange;

mod prepared;
mod statement;

mod session_past;

mod servers;

mod clients;

pub use action::{Action, CatalogAsk, LogLine, OutcomeAsk, OutcomeFound, Peer, Side};
pub use clients::client::ClientId;
pub use exchange::query_log::{QueryEvent, SessionEvent};
pub use kill::{KillAnswer, KillAsker, KillRequest, KillScope};
pub use outbox::Outbox;
pub use routing::asker::Asker;
pub use routing::explain::{ExplainRow, Explaining, explain};
pub use servers::conn::MovedConn;
pub use shared::Shared;
pub use statement::analysis::digest_settings;
pub use statement::proof::by_worker;
pub use statement::study::{Student, Studied, Study};
pub use time::Now;
pub use trunkline_pool::ConnId;
pub use upkeep::moving::MovedClient;
pub use worker::{Worker, WorkerOptions};

#[cfg(test)]
mod tests;
