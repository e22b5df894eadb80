//! One binary for all end-to-end tests.

mod backends;
mod wire;

mod differential;
mod protocol;

mod stage;

mod failover;
mod routing;
mod sessions;
mod sysbench;
