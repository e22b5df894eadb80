//! Three servers, of which one writes, and the proxies before them.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{
    AuthPlugin, Flavour, Group, MariaDb, MySql, Options, Replication, Server, SqlClient, Trunkline,
    http_get, wait_until,
};

/// The account of the clients; the password of each account is its name.
pub const USER: &str = "app";
const SWITCHER: &str = "switcher";
/// How long a failover may take here.
const FAILOVER_TIME_MAX: Duration = Duration::from_secs(30);
/// How long it may take until all servers have their roles again.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(20);

/// What a stand is like.
pub struct Plan {
    pub kind: Kind,
    /// Replicas do not acknowledge what they have.
    pub asynchronous: bool,
    pub proxies: usize,
    /// Lines of the file before its first table.
    pub settings: String,
    /// Lines of the table of the cluster.
    pub cluster: String,
    /// Further tables.
    pub tables: String,
    /// Accounts beside [`USER`], and further lines of their tables; the passwords are the names.
    pub users: Vec<(&'static str, &'static str)>,
}

/// What the servers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A primary and two replicas of MariaDB.
    MariaDb,
    /// A primary and two replicas of MySQL.
    MySql,
    /// Three members of a group of MySQL, which elects its primary itself.
    Group,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::MariaDb, Self::MySql, Self::Group];

    /// Its word for `--server`, and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
            Self::Group => "group",
        }
    }

    pub fn flavour(self) -> Flavour {
        match self {
            Self::MariaDb => Flavour::MariaDb,
            Self::MySql | Self::Group => Flavour::MySql,
        }
    }
}

/// How the servers belong together.
enum Bond {
    Replication(Replication),
    Group(Group),
}

/// Servers and proxies.
pub struct Stand {
    bond: Bond,
    proxies: Vec<Trunkline>,
}

impl Stand {
    /// Starts them; returns when one server writes and the others read.
    pub fn start(plan: &Plan, binary: &Path) -> Result<Self> {
        let bond = match plan.kind {
            Kind::MariaDb | Kind::MySql => {
                Bond::Replication(replicate(plan.kind.flavour(), plan.asynchronous)?)
            }
            Kind::Group => Bond::Group(Group::start(3)?),
        };
        let mut stand = Self { bond, proxies: Vec::new() };
        let primary = stand.server(0)?;
        for user in plan.users.iter().map(|(name, _)| *name).chain([USER]) {
            primary.create_user(user, user, AuthPlugin::ServerDefault)?;
        }
        primary.sql(&format!(
            "CREATE USER {SWITCHER} IDENTIFIED BY '{SWITCHER}'; GRANT ALL ON *.* TO {SWITCHER}; \
             CREATE DATABASE checks; CREATE TABLE checks.lock_only (id INT PRIMARY KEY); \
             CREATE TABLE checks.number (id INT AUTO_INCREMENT PRIMARY KEY, client INT, n INT, \
             KEY (client, n))"
        ))?;
        if let Bond::Replication(replication) = &stand.bond {
            replication.wait_caught_up(SETTLE_TIME_MAX)?;
        }
        let config = stand.config(plan);
        for _ in 0..plan.proxies {
            stand.proxies.push(Trunkline::start_database_binary(binary, &config)?);
        }
        stand.wait_roles()?;
        Ok(stand)
    }

    fn config(&self, plan: &Plan) -> String {
        let seeds: Vec<String> =
            self.all().map(|server| format!("\"{}\"", server.address())).collect();
        let of = |(name, lines): &(&str, &str)| {
            format!(
                "[[user]]\nname = \"{name}\"\npassword = \"{name}\"\ndefault_hostgroup = 10\n{lines}"
            )
        };
        let inactive = "active = false\n";
        let own = [(USER, ""), (SWITCHER, inactive), ("replica", inactive)];
        let users: String = own.iter().chain(&plan.users).map(of).collect();
        format!(
            "workers = 2\nmonitor_account = \"{SWITCHER}\"\nswitchover_account = \"{SWITCHER}\"\n\
             replication_account = \"replica\"\nmonitor_read_only_interval = 200\n\
             monitor_read_only_timeout = 300\nfailover_block = 0\n\
             switchover_drain_timeout = 300\n{}[[cluster]]\nname = \"shop\"\n{}{}\
             writer_hostgroup = 10\nreader_hostgroup = 20\nseeds = [{}]\n{users}{}",
            plan.settings,
            match &self.bond {
                Bond::Replication(_) => "kind = \"replication\"\nfailover = \"auto\"\n",
                Bond::Group(_) => "kind = \"group_replication\"\n",
            },
            plan.cluster,
            seeds.join(", "),
            plan.tables,
        )
    }

    /// The servers, the first primary first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Server>> {
        let (primary, others) = match &self.bond {
            Bond::Replication(it) => (Some(it.primary()), it.replicas()),
            Bond::Group(it) => (None, it.members()),
        };
        primary.into_iter().chain(others)
    }

    pub fn servers(&self) -> usize {
        self.all().count()
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

    /// Puts the logs of all proxies behind what the file has.
    pub fn write_logs(&self, path: &Path) -> Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        for proxy in &self.proxies {
            file.write_all(proxy.log().as_bytes())?;
        }
        Ok(())
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
    pub fn start_again(&self) -> Result<()> {
        for server in self.all().filter(|server| !server.is_running()) {
            server.restart()?;
        }
        if let Bond::Group(group) = &self.bond {
            group.members().iter().try_for_each(|member| join_again(member))?;
        }
        self.wait_roles()
    }

    /// So, and replicas have everything.
    pub fn settle(&self) -> Result<()> {
        self.start_again()?;
        self.wait_caught_up()
    }

    /// Returns when replicas have all that the writer has.
    pub fn wait_caught_up(&self) -> Result<()> {
        let writer = self.server(self.writer()?.context("a writer")?)?;
        let position = match writer.flavour() {
            Flavour::MariaDb => "SELECT @@global.gtid_binlog_pos",
            Flavour::MySql => "SELECT @@global.gtid_executed",
        };
        wait_until("replicas have everything", SETTLE_TIME_MAX, || {
            let wanted = writer.value(position)?;
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

/// A primary and two replicas.
fn replicate(flavour: Flavour, asynchronous: bool) -> Result<Replication> {
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
    replication.primary().add_arg(match flavour {
        Flavour::MariaDb => "--read-only=1",
        Flavour::MySql => "--super-read-only=1",
    });
    Ok(replication)
}

/// A member that the group has lost comes back to it.
fn join_again(member: &Server) -> Result<()> {
    let state = "SELECT MEMBER_STATE FROM performance_schema.replication_group_members \
                 WHERE MEMBER_ID = @@server_uuid";
    match member.value(state)?.as_deref() {
        Some("ONLINE" | "RECOVERING") => Ok(()),
        _ => member.sql("STOP GROUP_REPLICATION; START GROUP_REPLICATION").map(drop),
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
