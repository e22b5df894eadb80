//! Step 7: a statement gets a connection.

pub(crate) mod forward;
pub(crate) mod lease;
pub(crate) mod past;
pub(crate) mod sharing;
pub(crate) mod start;
