//! Model servers.
