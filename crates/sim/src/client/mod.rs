//! Model clients.
