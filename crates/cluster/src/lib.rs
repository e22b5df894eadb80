//! Who writes and who reads in a cluster of servers.
//!
//! Facts about servers, evidence from traffic and time come in; what to ask, who has which role,
//! and what to tell an operator go out. Nothing here opens a socket or reads a clock.
//!
//! Reading order: [`facts`] (what a server says of itself), [`event`] (what an operator is told),
//! [`machine`] (the decision), [`switchover`] (another server becomes the writer as an operator
//! wishes), [`failover`] (another server becomes the writer since that one is lost).
//!
//! ```
//! use trunkline_cluster::{Cluster, HostId, Input, Listed, Output, Policy};
//! use trunkline_cluster::facts::{Endpoint, Facts};
//!
//! let mut cluster = Cluster::new(Policy::default(), None);
//! let mut out = Vec::new();
//! let endpoint = Endpoint { host: "10.0.0.1".to_owned(), port: 3306 };
//! let listed = Listed { is_named: true, ..Listed::default() };
//! cluster.on(0, Input::Member { host: HostId(1), listed, endpoint }, &mut out);
//! let writable = Facts { is_writable: true, ..Facts::default() };
//! cluster.on(5, Input::Answer { host: HostId(1), asked_ms: 0, answer: Ok(writable) }, &mut out);
//! assert!(out.contains(&Output::SetWriter(Some(HostId(1)))));
//! ```
#![forbid(unsafe_code)]

pub mod event;
pub mod facts;
pub mod failover;
pub mod machine;
#[cfg(feature = "plants")]
pub mod plants;
pub mod switchover;

pub use event::{Event, EventKind};
pub use machine::{
    Cluster, Evidence, Group, Guidance, HostId, Input, Kind, Listed, Loss, Miss, Output, Places,
    Policy, Reach, Standing, WriterReads,
};
