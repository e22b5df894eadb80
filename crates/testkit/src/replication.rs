//! A primary and its replicas, by GTID.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::mariadb::MariaDb;
use crate::mysql::MySql;
use crate::server::{AuthPlugin, Flavour, Options, Server};
use crate::wait::wait_until;

/// The account that replicas log in with; its password is the same word.
pub const REPLICATION_USER: &str = "replica";

/// How long a replica may take to connect and apply what the primary has when it begins.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// One primary with replicas that are read-only.
#[derive(Debug)]
pub struct Replication {
    primary: Arc<Server>,
    replicas: Vec<Arc<Server>>,
}

impl Replication {
    /// Makes `replicas` follow `primary` from its very beginning and returns when they have what
    /// it has. They become read-only, now and after restarts.
    ///
    /// # Errors
    /// When server ids aren't distinct, flavours differ, or a replica doesn't get there.
    pub fn start(primary: Arc<Server>, replicas: Vec<Arc<Server>>) -> Result<Replication> {
        let mut ids: Vec<u32> = replicas.iter().map(|replica| replica.server_id()).collect();
        ids.push(primary.server_id());
        ids.sort_unstable();
        ids.dedup();
        ensure!(ids.len() == replicas.len() + 1, "server ids are not distinct: {ids:?}");
        primary.create_user(REPLICATION_USER, REPLICATION_USER, AuthPlugin::ServerDefault)?;
        for replica in &replicas {
            ensure!(replica.flavour() == primary.flavour(), "flavours differ");
            follow(replica, &primary).with_context(|| {
                format!("server {} can't follow {}", replica.server_id(), primary.server_id())
            })?;
        }
        let replication = Replication { primary, replicas };
        replication.wait_caught_up(BEGIN_TIMEOUT)?;
        Ok(replication)
    }

    /// Starts a MariaDB primary (server id 1) and so many replicas (2, 3, …), all at once.
    ///
    /// # Errors
    /// When one doesn't start or follow.
    pub fn mariadb(replicas: u32) -> Result<Replication> {
        Replication::of(MariaDb::start, replicas)
    }

    /// Starts a MySQL primary (server id 1) and so many replicas (2, 3, …), all at once.
    ///
    /// # Errors
    /// When one doesn't start or follow.
    pub fn mysql(replicas: u32) -> Result<Replication> {
        Replication::of(MySql::start, replicas)
    }

    fn of(start: fn(Options) -> Result<Server>, replicas: u32) -> Result<Replication> {
        let started: Vec<Result<Server>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..=replicas)
                .map(|index| scope.spawn(move || start(Options::id(index + 1))))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Server>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        let mut servers = Vec::with_capacity(started.len());
        for server in started {
            servers.push(Arc::new(server?));
        }
        let primary = servers.remove(0);
        Replication::start(primary, servers)
    }

    /// The server that takes writes.
    #[must_use]
    pub fn primary(&self) -> &Arc<Server> {
        &self.primary
    }

    /// The servers that follow.
    #[must_use]
    pub fn replicas(&self) -> &[Arc<Server>] {
        &self.replicas
    }

    /// Waits until each replica has applied all that the primary has committed by now.
    ///
    /// # Errors
    /// When one doesn't within `timeout`; with its replication errors.
    pub fn wait_caught_up(&self, timeout: Duration) -> Result<()> {
        let position = match self.primary.flavour() {
            Flavour::MariaDb => self.primary.value("SELECT @@global.gtid_binlog_pos")?,
            Flavour::MySql => self.primary.value("SELECT @@global.gtid_executed")?,
        };
        let position = position.unwrap_or_default();
        self.replicas.iter().try_for_each(|replica| reach(replica, &position, timeout))
    }
}

fn follow(replica: &Server, primary: &Server) -> Result<()> {
    let (port, user) = (primary.port(), REPLICATION_USER);
    // A lost primary is looked for again every second, not every minute.
    match replica.flavour() {
        Flavour::MariaDb => {
            replica.add_arg("--read-only=1");
            replica.sql(&format!(
                "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port},
                 MASTER_USER='{user}', MASTER_PASSWORD='{user}', MASTER_CONNECT_RETRY=1,
                 MASTER_USE_GTID=slave_pos; START SLAVE; SET GLOBAL read_only=1"
            ))?;
        }
        Flavour::MySql => {
            replica.add_arg("--super-read-only=1");
            replica.sql(&format!(
                "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1',
                 SOURCE_PORT={port}, SOURCE_USER='{user}', SOURCE_PASSWORD='{user}',
                 SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400, SOURCE_AUTO_POSITION=1,
                 GET_SOURCE_PUBLIC_KEY=1; START REPLICA; SET GLOBAL super_read_only=1"
            ))?;
        }
    }
    Ok(())
}

fn reach(replica: &Server, position: &str, timeout: Duration) -> Result<()> {
    let wait = match replica.flavour() {
        Flavour::MariaDb => format!("SELECT MASTER_GTID_WAIT('{position}', 0.1)"),
        Flavour::MySql => format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{position}', 0.1)"),
    };
    let what = format!("server {} reaches GTID {position}", replica.server_id());
    wait_until(&what, timeout, || {
        if replica.value(&wait)?.as_deref() == Some("0") {
            return Ok(Some(()));
        }
        let errors = replication_errors(replica)?;
        if !errors.is_empty() {
            bail!("replication of server {} failed: {errors}", replica.server_id());
        }
        Ok(None)
    })
}

/// The last errors of a replica's applier; those of its connection may pass by themselves.
fn replication_errors(replica: &Server) -> Result<String> {
    let statement = match replica.flavour() {
        Flavour::MariaDb => "SHOW SLAVE STATUS",
        Flavour::MySql => "SHOW REPLICA STATUS",
    };
    let rows = replica.root()?.named(statement)?;
    let Some(status) = rows.first() else { bail!("replication is not set up") };
    Ok(status.get("Last_SQL_Error").cloned().flatten().unwrap_or_default())
}
