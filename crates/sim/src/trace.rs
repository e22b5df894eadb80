//! What happened, readable.
