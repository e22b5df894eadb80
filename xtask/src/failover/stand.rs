//! Three servers, of which one writes, and the proxies before them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{
    AuthPlugin, Flavour, MariaDb, MySql, Options, Replication, Server, SqlClient, Trunkline,
    http_get, wait_until,
};

use super::fault::Fault;

/// The account of the clients; the password of each account is its name.
pub const USER: &str = "app";
const SWITCHER: &str = "switcher";
/// How long a failover may take here.
const FAILOVER_TIME_MAX: Duration = Duration::from_secs(30);
/// How long it may take until all servers have their roles again.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(20);

/// Servers and proxies.
pub struct Stand {
    flavour: Flavour,
    replication: Replication,
    proxies: Vec<Trunkline>,
}

impl Stand {
    /// Starts them; returns when one server writes and the others read.
    pub fn start(
        flavour: Flavour,
        fault: Fault,
        binary: &Path,
        replay: bool,
        asynchronous: bool,
    ) -> Result<Self> {
        let server = |id: u32| {
            let mut options = Options::id(id);
            for argument in arguments(flavour, asynchronous) {
                options = options.arg(*argument);
            }
            match flavour {
                Flavour::MariaDb => MariaDb::start(options),
                Flavour::MySql => MySql::start(options),
            }
            .map(Arc::new)
        };
        let (primary, replicas) = (server(1)?, vec![server(2)?, server(3)?]);
        let replication = Replication::start(primary, replicas)?;
        let primary = replication.primary();
        primary.add_arg(match flavour {
            Flavour::MariaDb => "--read-only=1",
            Flavour::MySql => "--super-read-only=1",
        });
        primary.create_user(USER, USER, AuthPlugin::ServerDefault)?;
        primary.sql(&format!(
            "CREATE USER {SWITCHER} IDENTIFIED BY '{SWITCHER}'; GRANT ALL ON *.* TO {SWITCHER}; \
             CREATE DATABASE checks; CREATE TABLE checks.lock_only (id INT PRIMARY KEY); \
             CREATE TABLE checks.number (id INT AUTO_INCREMENT PRIMARY KEY, client INT, n INT, \
             KEY (client, n))"
        ))?;
        replication.wait_caught_up(SETTLE_TIME_MAX)?;
        let mut stand = Self { flavour, replication, proxies: Vec::new() };
        let config = stand.config(fault, replay);
        for _ in 0..fault.proxies() {
            stand.proxies.push(Trunkline::start_database_binary(binary, &config)?);
        }
        stand.wait_roles()?;
        Ok(stand)
    }

    fn config(&self, fault: Fault, replay: bool) -> String {
        let seeds: Vec<String> =
            self.all().map(|server| format!("\"{}\"", server.address())).collect();
        let of = |name: &str, is_active: bool| {
            format!(
                "[[user]]\nname = \"{name}\"\npassword = \"{name}\"\nactive = {is_active}\n\
                 default_hostgroup = 10\n"
            )
        };
        format!(
            "workers = 2\nmonitor_account = \"{SWITCHER}\"\nswitchover_account = \"{SWITCHER}\"\n\
             replication_account = \"replica\"\nmonitor_read_only_interval = 200\n\
             monitor_read_only_timeout = 300\nfailover_block = 0\n\
             switchover_drain_timeout = 300\npromote_unreachable = {}\n\
             transaction_replay = {replay}\n\
             [[cluster]]\nname = \"shop\"\nkind = \"replication\"\nwriter_hostgroup = 10\n\
             reader_hostgroup = 20\nfailover = \"auto\"\nseeds = [{}]\n{}{}{}",
            fault == Fault::Stop,
            seeds.join(", "),
            of(USER, true),
            of(SWITCHER, false),
            of("replica", false)
        )
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Server>> {
        std::iter::once(self.replication.primary()).chain(self.replication.replicas())
    }

    pub fn servers(&self) -> usize {
        1 + self.replication.replicas().len()
    }

    pub fn server(&self, at: usize) -> Result<&Arc<Server>> {
        self.all().nth(at).context("no such server")
    }

    /// The proxy of a client.
    pub fn proxy(&self, client: u32) -> Result<&Trunkline> {
        let at = usize::try_from(client)? % self.proxies.len();
        self.proxies.get(at).context("no proxy")
    }

    pub fn administrator(&self) -> Result<SqlClient> {
        SqlClient::tcp(self.proxy(0)?.admin_port(), "admin", "admin", "")
    }

    pub fn restart_proxy(&self) -> Result<()> {
        self.proxy(0)?.kill_and_restart(&[])
    }

    /// Who writes, if all proxies have the same writer.
    pub fn writer(&self) -> Result<Option<usize>> {
        let mut found = None;
        for (at, proxy) in self.proxies.iter().enumerate() {
            let roles = self.roles(proxy)?;
            let writer = roles.iter().position(|role| role == "writer");
            if at > 0 && writer != found {
                return Ok(None);
            }
            found = writer;
        }
        Ok(found)
    }

    fn roles(&self, proxy: &Trunkline) -> Result<Vec<String>> {
        let (_, body) = http_get(proxy.http_port(), "/api/v1/topology")?;
        let topology: Value = serde_json::from_str(&body)?;
        let rows = topology.pointer("/clusters/0/servers").and_then(Value::as_array);
        let role = |server: &Arc<Server>| {
            let address = server.address();
            let is_it = |row: &&Value| row.get("address").and_then(Value::as_str) == Some(&address);
            let row = rows.into_iter().flatten().find(is_it);
            row.and_then(|it| it.get("role")).and_then(Value::as_str).unwrap_or("").to_owned()
        };
        Ok(self.all().map(role).collect())
    }

    pub fn wait_other_writer(&self, old: usize) -> Result<()> {
        self.wait("another writer", |writer| writer != old)
    }

    pub fn wait_writer(&self, wanted: usize) -> Result<()> {
        self.wait("the writer", |writer| writer == wanted)
    }

    pub fn wait_some_writer(&self) -> Result<()> {
        self.wait("a writer", |_| true)
    }

    fn wait(&self, what: &str, is_it: impl Fn(usize) -> bool) -> Result<()> {
        wait_until(what, FAILOVER_TIME_MAX, || {
            // A proxy that has just started may not answer yet.
            let writer = self.writer().ok().flatten();
            Ok(writer.filter(|writer| is_it(*writer)).map(drop))
        })
        .with_context(|| self.proxies.iter().map(Trunkline::log).collect::<String>())
    }

    /// Starts what does not run; returns when one server writes and the others read.
    pub fn settle(&self) -> Result<()> {
        for server in self.all().filter(|server| !server.is_running()) {
            server.restart()?;
        }
        self.wait_roles()?;
        let writer = self.writer()?.context("a writer")?;
        let position = match self.flavour {
            Flavour::MariaDb => "SELECT @@global.gtid_binlog_pos",
            Flavour::MySql => "SELECT @@global.gtid_executed",
        };
        let wanted = self.server(writer)?.value(position)?;
        wait_until("replicas have everything", SETTLE_TIME_MAX, || {
            for server in self.all() {
                if server.value(position)? != wanted {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }

    fn wait_roles(&self) -> Result<()> {
        let ended = wait_until("roles", SETTLE_TIME_MAX, || {
            for proxy in &self.proxies {
                let mut roles = self.roles(proxy)?;
                roles.sort();
                if roles != ["reader", "reader", "writer"] {
                    return Ok(None);
                }
                // It stays so only by hand.
                ensure!(!proxy.log().contains(": diverged "), "a server has diverged");
            }
            Ok(Some(()))
        });
        ended.with_context(|| self.proxies.iter().map(Trunkline::log).collect::<String>())
    }
}

fn arguments(flavour: Flavour, asynchronous: bool) -> &'static [&'static str] {
    match (flavour, asynchronous) {
        (Flavour::MariaDb, true) => &["--slave-net-timeout=4"],
        (Flavour::MySql, true) => &["--replica-net-timeout=4"],
        (Flavour::MariaDb, false) => &[
            "--slave-net-timeout=4",
            "--rpl-semi-sync-master-enabled=1",
            "--rpl-semi-sync-slave-enabled=1",
            "--rpl-semi-sync-master-timeout=20000",
            "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
            "--rpl-semi-sync-master-wait-no-slave=0",
        ],
        (Flavour::MySql, false) => &[
            "--replica-net-timeout=4",
            "--plugin-load-add=semisync_source.so",
            "--plugin-load-add=semisync_replica.so",
            "--loose-rpl-semi-sync-source-enabled=ON",
            "--loose-rpl-semi-sync-replica-enabled=ON",
            "--loose-rpl-semi-sync-source-timeout=20000",
            "--loose-rpl-semi-sync-source-wait-no-replica=OFF",
        ],
    }
}
