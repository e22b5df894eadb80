//! Steps 8 to 10: what is sent to a server, what comes back, and what follows from it.

pub(crate) mod cache_fill;
pub(crate) mod completion;
pub(crate) mod dump;
pub(crate) mod ending;
pub(crate) mod hidden;
pub(crate) mod kills;
pub(crate) mod logins;
pub(crate) mod lost;
pub(crate) mod mirrored;
pub(crate) mod past;
pub(crate) mod pins;
pub(crate) mod preparing;
pub(crate) mod query_log;
pub(crate) mod queue;
pub(crate) mod read_only;
pub(crate) mod send;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod timed_out;
