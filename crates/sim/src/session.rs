//! What a session's state is.
