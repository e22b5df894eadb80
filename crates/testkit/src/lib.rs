//! Starts real servers in temporary folders on free ports, and the proxy before them.
//!
//! Everything started here listens on loopback, keeps its files in a folder of its own that goes
//! away with it, and dies with the test: on drop, and also when the test is killed, because a
//! watchdog outside the test sees its pipe close.
//!
//! | want | use |
//! |---|---|
//! | a MariaDB server | [`MariaDb::start`] → [`Server`] |
//! | a MySQL server | [`mysql_available`], then [`MySql::start`] → [`Server`] |
//! | a primary and replicas | [`Replication::start`] |
//! | a Galera cluster | [`galera_available`], then [`Galera::start`] |
//! | a group (Group Replication) | [`mysql_available`], then [`Group::start`] |
//! | the proxy | [`Trunkline::start`] |
//! | the proxy's rival, a load | [`HaProxy::start`], [`Sysbench`] |
//! | a collector of OpenTelemetry | [`collector_program`], then [`Collector::start`] |
//! | a Redis server | [`redis_available`], then [`Redis::start`] |
//! | a program on a real driver | [`Ecosystem::command`] |
//! | SQL over any of them | [`Server::sql`], [`SqlClient`] |

#![forbid(unsafe_code)]

mod accounting;
mod collector;
mod drivers;
mod folder;
mod galera;
mod group;
mod haproxy;
mod http;
mod mariadb;
mod mysql;
mod namespace;
mod port;
mod process;
mod redis;
mod replication;
mod server;
mod servers_dir;
mod skip;
mod sql;
mod sysbench;
mod template;
mod tree;
mod trunkline;
mod wait;

pub use accounting::{cpu_micros, rss_bytes};
pub use collector::{Collector, CollectorPorts, collector_program};
pub use drivers::{Ecosystem, drivers_dir};
pub use folder::TempFolder;
pub use galera::{Galera, galera_available};
pub use group::Group;
pub use haproxy::HaProxy;
pub use http::http_get;
pub use mariadb::{MariaDb, MariaDbTree, mariadb_available};
pub use mysql::{MySql, MySqlTree, mysql_available, mysql_public_key};
pub use namespace::{Overlay, can_overlay, overlaid};
pub use port::{free_port, is_listening};
pub use process::{Process, Signal};
pub use redis::{Redis, redis_available};
pub use replication::{REPLICATION_USER, Replication};
pub use server::{AuthPlugin, Flavour, Options, Server};
pub use servers_dir::{find_program, servers_dir};
pub use skip::{SKIPPED_PREFIX, skipped};
pub use sql::{Row, SqlClient, error_code};
pub use sysbench::{Report, Sysbench, SysbenchRun};
pub use trunkline::{LogMark, Trunkline, trunkline_binary};
pub use wait::wait_until;
