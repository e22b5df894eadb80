//! One binary for all end-to-end tests.

mod backends;
mod wire;

mod auth;
mod bad_input;
mod config;
mod differential;
mod operate;
mod protocol;

mod stage;

mod concurrency;
mod failover;
mod pinning;
mod routing;
mod sessions;
mod set_property;
mod sharing;
mod state;
mod sysbench;
mod ties;
