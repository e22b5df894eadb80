//! Steps 8 to 10: what is sent to a server, what comes back, and what follows from it.

pub(crate) mod completion;
pub(crate) mod hidden;
pub(crate) mod lost;
pub(crate) mod pins;
pub(crate) mod reply;
pub(crate) mod send;
