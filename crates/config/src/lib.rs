//! The configuration: the one table of settings, the file, the snapshot that workers serve by,
//! and the difference between two configurations.
//!
//! Reading order: [`variables`] (every scalar setting, once), [`settings`] (what a setting is),
//! [`variable`] (ProxySQL's names for them), [`tcp`] (what a TCP listener is), [`mod@file`] (text
//! to [`Config`], all errors at once), [`cnf`] (the syntax of ProxySQL's file), [`snapshot`] (what
//! the data plane gets), [`diff`] (what a reload changes), [`manual`] (the reference page).
//!
//! Nothing here reads a file or resolves a name: texts and addresses come in as arguments.
#![forbid(unsafe_code)]

pub mod variables;

pub mod settings;

pub mod variable;

pub mod listen;

pub mod cluster;
pub mod tcp;

pub mod file;

pub mod cnf;

pub mod snapshot;

pub mod diff;

pub mod manual;

mod causal;
mod config;
mod cpus;
mod error;
mod granted;
mod guards;
mod operators;
mod otlp;
mod redis;
mod words;

pub use causal::{CausalPlan, CausalReaders};
pub use cluster::ClusterEntry;
pub use config::{Config, HostgroupEntry, ServerEntry, ServerTlsEntry, ServerTlsWish};
pub use cpus::WorkerCpus;
pub use diff::{Change, difference};
pub use error::{ConfigError, ErrorKind, Place, Subject, Wrong};
pub use file::{
    ColumnInfo, Fields, FileSource, Ready, RouteRows, SECTIONS, Section, TableRow, Tables,
    USERS_FILE, parse, table_rows,
};
pub use granted::GrantedUsers;
pub use guards::{Guards, TenantEntry};
pub use listen::{ListenAddress, ListenAllow, ListenTls};
pub use operators::OperatorAccounts;
pub use otlp::{Collector, OtlpProtocol};
pub use redis::RedisServer;
pub use settings::{
    AdminTypes, Given, IoDriver, LogFormat, LogLevel, Reload, Setting, StateFile, TlsDefault,
    TlsVersionMin, control_path, history_path,
};
pub use snapshot::{Hostgroup, Snapshot};
pub use tcp::{TcpEntry, TcpFront};
pub use variables::{SETTINGS, Settings};
