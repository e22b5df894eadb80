//! What operators work with: the admin port, metrics, health and status over HTTP, and the text
//! of `trunkline status`.
//!
//! Reading order: [`source`] (what the binary provides), [`sql`] (what a statement asks for),
//! [`service`] (what it is answered), [`port`] (MySQL's protocol around that), [`http`] (the server
//! and its routes), [`exposition`] (Prometheus's text format), [`status`] (tables for a terminal),
//! [`control`] (orders on the machine itself), [`glb`] (the control sockets of TCP listeners),
//! [`scripts`] and [`scheduler`] (programs of others that the tables name), [`bundle`] (what a bug
//! report may have).

pub mod bundle;
pub mod control;
pub mod event_script;
pub mod exposition;
mod figures;
pub mod glb;
pub mod http;
pub mod import;
mod kernel;
mod past;
pub mod port;
mod proxysql;
pub mod scheduler;
pub mod scripts;
pub mod service;
pub mod source;
pub mod sql;
pub mod status;

pub use http::{
    console::{Console, serve as serve_console},
    keep_ports, serve,
};
pub use past::recorded_figures;
pub use source::{
    Answer, ApplyFuture, Ending, FailedLogins, Health, HostgroupTraffic, KillFuture, NotKilled,
    OfCluster, PausedHostgroup, ReportFuture, Runtime, SessionsFuture, StatusSource, Switched,
    Traffic,
};
pub use status::{sessions::sessions_text, status_text, topology::topology_text};

#[cfg(test)]
mod sample;
