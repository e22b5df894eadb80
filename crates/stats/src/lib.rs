//! Numbers kept about the traffic: counters, histograms, commands and the digest table.
//!
//! Each worker owns one [`WorkerStats`] of plain integers and writes it once per finished
//! statement. A reader asks the worker for a [`Report`] and merges the answers of all workers.
//!
//! Reading order: [`worker`] (what a worker writes), [`counters`] (the table of plain counters),
//! [`histogram`] and [`sketch`] (a coarser one), [`command`], [`digest`] (the bounded table of
//! statements), [`errors`], [`report`] (what a reader gets), [`sessions`], [`inventory`] (idle
//! connections, prepared statements), [`texts`] (their different texts), [`tcp`] (TCP listeners),
//! [`topology`] (clusters), [`span`] (records for spans), [`metrics`] (names and meanings for
//! Prometheus and the manual).
#![forbid(unsafe_code)]

pub mod checks;
pub mod command;
pub mod counters;
pub mod digest;
pub mod errors;
pub mod histogram;
pub mod inventory;
pub mod kernel;
pub mod metrics;

pub mod mirror;
pub mod report;
pub mod sessions;
pub mod sketch;
pub mod span;
pub mod tcp;
pub mod texts;
pub mod topology;
pub mod worker;

pub use counters::{ClientRefusal, Counters, ResetReason, ServerCounters};
pub use digest::{DigestOrder, DigestQuery, DigestRow, DigestSums};
pub use errors::{ErrorRow, ErrorSample};
pub use histogram::Histogram;
pub use inventory::{IdleConn, Inventory, PreparedRow};
pub use kernel::KernelFigures;
pub use mirror::{MirrorRow, MirrorSample, MirrorSums};
pub use report::{
    AdminFigures, CacheFigures, CacheSums, CatalogFigures, CommandRow, Configuration, Connections,
    ControlFigures, Exemplar, HistoryFigures, HttpFigures, LimitSums, LostLines, MemoryFigures,
    Process, Report, ServerRow, TenantSums, TraceFigures, WorkerRow,
};
pub use sessions::{HeldConn, SessionList, SessionQuery, SessionRow};
pub use sketch::LatencySketch;
pub use tcp::{TcpCounters, TcpListenerRow, TcpServerCounters, TcpServerRow};
pub use texts::{Holders, StmtTexts};
pub use topology::Topology;
pub use worker::{ServerGauges, Settings, StatementSample, WorkerGauges, WorkerStats};

/// Stands for a hostgroup in rows of statements that were answered from the result cache; shown
/// as −1, as ProxySQL does.
pub const HOSTGROUP_CACHE: u32 = u32::MAX;

/// A hostgroup's number as it is shown.
pub fn hostgroup_shown(hostgroup: u32) -> i64 {
    match hostgroup {
        HOSTGROUP_CACHE => -1,
        hostgroup => i64::from(hostgroup),
    }
}
