//! End-to-end tests against real servers; see tests/main.rs.
