//! The simulator: workers, servers, clients and operators in one world that follows from a seed.
//!
//! Nothing here reads a clock, a socket or chance of its own: time is virtual, links are queues
//! of bytes, and every choice comes from the seed. So a run that fails fails again.
#![forbid(unsafe_code)]

pub mod client;
pub mod driver;
pub mod operator;
pub mod oracle;
pub mod plan;
pub mod queue;
pub mod rng;
pub mod server;
pub mod session;
pub mod shrink;
pub mod statement;
pub mod trace;
pub mod wire;

/// Virtual time, in microseconds since the run began.
pub type Micros = u64;

/// A server host, by its place in the plan's cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// One TCP connection of either side, unique for the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);
