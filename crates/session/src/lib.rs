//! The state machines of one client and one server connection
#![forbid(unsafe_code)]

pub mod backend;
mod credential;
pub mod frontend;
pub mod tracker;

pub use credential::Credential;

#[cfg(test)]
mod handshake_tests;
