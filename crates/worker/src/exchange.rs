//! Steps 8 to 10: what is sent to a server, what comes back, and what follows from it.

pub(crate) mod begun;
mod cache_fill;
mod completion;
mod dump;
mod ending;
mod gtids;
pub(crate) mod hidden;
mod hold;
mod kills;
mod lazily;
mod learning;
pub(crate) mod leaving;
mod logins;
pub(crate) mod lost;
mod mirrored;
mod noted;
pub(crate) mod outcome;
pub(crate) mod past;
mod pins;
mod preparing;
pub(crate) mod query_log;
mod queue;
mod read_only;
mod refused;
mod repeated;
pub(crate) mod rolled_back;
pub(crate) mod send;
mod shared;
mod slow_log;
mod state;
pub(crate) mod synchronise;
mod timed_out;
pub(crate) mod traced;
mod unknown_names;

#[cfg(test)]
mod tests;
