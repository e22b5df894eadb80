//! The servers of one family: a primary with a replica behind the proxy, and the twins' server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{
    Flavour, MariaDb, MySql, Options, Replication, Server, Trunkline, wait_until,
};

use crate::client::{Answer, Client};
use crate::plan::{Account, Plan, Profile};

/// How long servers may take for what is expected to happen.
const SOON: Duration = Duration::from_secs(20);
/// The account that makes schemas, looks and kills.
const WARDEN: &str = "warden";
/// The schema that sessions begin in, and another one.
pub const SCHEMA: &str = "adv";
const OTHER_SCHEMA: &str = "other";
/// A schema that nobody chooses, so that it may be dropped.
const SPARE_SCHEMA: &str = "spare";
/// Names of locks that statements take.
pub const LOCKS: [&str; 4] = ["l1", "l2", "fl", "pl"];
/// Seconds that the replica may need for what a step wrote; behind that the program is given up.
const CATCH_UP_MAX_SEC: u32 = 2;
/// Global variables that statements change.
const GLOBALS: [&str; 8] = [
    "group_concat_max_len",
    "sql_mode",
    "time_zone",
    "autocommit",
    "div_precision_increment",
    "sql_select_limit",
    "max_sort_length",
    "transaction_isolation",
];

/// Servers that programs run on, one after the other.
pub struct Stage {
    /// Whose they are.
    pub family: Flavour,
    replication: Replication,
    twin: Arc<Server>,
    /// The warden's connections.
    pub primary: Client,
    /// To the replica.
    pub replica: Client,
    /// To the twins' server.
    pub direct: Client,
    /// What the replica has got to.
    position: String,
    /// Whether the program before may have set global variables.
    has_set_globals: bool,
}

impl Stage {
    /// Starts three servers.
    ///
    /// # Errors
    /// When one can't be had.
    pub fn start(family: Flavour) -> Result<Stage> {
        let ids = [1, 2, 3];
        let started: Vec<Result<Server>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                ids.map(|id| scope.spawn(move || start_server(family, id))).into_iter().collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Server>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        let mut servers = Vec::new();
        for server in started {
            servers.push(Arc::new(server?));
        }
        let [primary, replica, twin] =
            <[Arc<Server>; 3]>::try_from(servers).ok().context("three servers")?;
        let replication = Replication::start(primary, vec![replica])?;
        for server in [replication.primary(), &twin] {
            server.sql(&accounts(family))?;
        }
        replication.wait_caught_up(SOON)?;
        let replica = replication.replicas().first().context("no replica")?;
        let (primary, replica) = (warden(replication.primary())?, warden(replica)?);
        let direct = warden(&twin)?;
        let position = String::new();
        Ok(Stage {
            family,
            replication,
            twin,
            primary,
            replica,
            direct,
            position,
            has_set_globals: false,
        })
    }

    /// The port of the twins' server.
    #[must_use]
    pub fn direct_port(&self) -> u16 {
        self.twin.port()
    }

    /// Makes the schema anew on all servers.
    pub(crate) fn set(&mut self, plan: &Plan) -> Result<()> {
        self.recover()?;
        let family = self.family;
        let clients = [&mut self.primary, &mut self.direct];
        let made = std::thread::scope(|scope| {
            let threads = clients.map(|client| scope.spawn(|| make_schema(family, client, plan)));
            threads.map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        });
        made.into_iter().collect::<Result<()>>()?;
        let sets_globals = plan.to_string().contains("SET GLOBAL");
        if std::mem::replace(&mut self.has_set_globals, sets_globals) || sets_globals {
            for client in [&mut self.primary, &mut self.replica, &mut self.direct] {
                reset_globals(client);
            }
        }
        let has_schema = self.catch_up(SOON)?;
        ensure!(has_schema, "the replica stands still: {}", self.replication_error()?);
        Ok(())
    }

    /// The proxy before these servers.
    pub(crate) fn proxy(&self, profile: Profile) -> Result<Trunkline> {
        let entry = |group: u32, server: &Server| {
            let address = server.address();
            format!(
                "[[server]]\nhostgroup = {group}\naddress = \"{address}\"\nmax_connections = 8\n"
            )
        };
        let primary = entry(0, self.replication.primary());
        // Names that a busy machine tells late would differ in what is known of them.
        let mut text = format!("workers = 1\ncatalog_wait_ms = 10000\n{primary}");
        if profile.has_reader() {
            for replica in self.replication.replicas() {
                text += &entry(1, replica);
            }
            text += "[[replication]]\nwriter_hostgroup = 0\nreader_hostgroup = 1\n";
        }
        for account in [Account::Ada, Account::Bob] {
            let name = account.name();
            text += &format!(
                "[[user]]\nname = \"{name}\"\npassword = \"{name}\"\ndefault_hostgroup = 0\n"
            );
        }
        if profile == Profile::Rules {
            text += "[[rule]]\nid = 1\nmatch_pattern = \"fixed|v_tenant\"\ncache_ttl = 600000\n\
                     [[rule]]\nid = 2\nmatch_digest = \"FROM two\"\nmultiplex = 0\n";
        }
        Trunkline::start(&text)
    }

    /// Waits until the replica has what the primary has committed; whether it gets there.
    pub(crate) fn catch_up(&mut self, timeout: Duration) -> Result<bool> {
        let asked = match self.family {
            Flavour::MariaDb => "SELECT @@global.gtid_binlog_pos",
            Flavour::MySql => "SELECT @@global.gtid_executed",
        };
        let position = self.primary.column(asked)?.pop().flatten().unwrap_or_default();
        if position == self.position {
            return Ok(true);
        }
        let seconds = timeout.as_secs().max(1);
        let wait = match self.family {
            Flavour::MariaDb => format!("SELECT MASTER_GTID_WAIT('{position}', {seconds})"),
            Flavour::MySql => {
                format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{position}', {seconds})")
            }
        };
        let reached = self.replica.column(&wait)?.pop().flatten().as_deref() == Some("0");
        if reached {
            self.position = position;
        }
        Ok(reached)
    }

    /// As [`Stage::catch_up`], between two steps.
    pub(crate) fn catch_up_soon(&mut self) -> Result<bool> {
        self.catch_up(Duration::from_secs(u64::from(CATCH_UP_MAX_SEC)))
    }

    /// Brings replication back to work behind a program that stopped it or was given up: its
    /// sessions are gone, so nothing holds it any longer, and the schema is made anew.
    pub(crate) fn recover(&mut self) -> Result<()> {
        if self.catch_up_soon()? {
            return Ok(());
        }
        let asked = match self.family {
            Flavour::MariaDb => "SELECT @@global.gtid_binlog_pos",
            Flavour::MySql => "SELECT @@global.gtid_executed",
        };
        let position = self.primary.column(asked)?.pop().flatten().unwrap_or_default();
        let position = position.replace('\n', "");
        let statements = match self.family {
            Flavour::MariaDb => [
                "STOP SLAVE".to_owned(),
                "RESET MASTER".to_owned(),
                format!("SET GLOBAL gtid_slave_pos = '{position}'"),
                "START SLAVE".to_owned(),
            ],
            Flavour::MySql => [
                "STOP REPLICA".to_owned(),
                "RESET BINARY LOGS AND GTIDS".to_owned(),
                format!("SET GLOBAL gtid_purged = '{position}'"),
                "START REPLICA".to_owned(),
            ],
        };
        for statement in statements {
            self.replica.column(&statement)?;
        }
        self.position.clear();
        ensure!(self.catch_up(SOON)?, "the replica does not catch up");
        Ok(())
    }

    /// What stops the replica, of the columns that name an error.
    fn replication_error(&self) -> Result<String> {
        let asked = match self.family {
            Flavour::MariaDb => "SHOW SLAVE STATUS",
            Flavour::MySql => "SHOW REPLICA STATUS",
        };
        let replica = self.replication.replicas().first().context("no replica")?;
        let rows = replica.root()?.named(asked)?;
        let fields = rows.into_iter().flatten();
        let errors = fields.filter(|(name, _)| name.ends_with("_Error") || name.contains("State"));
        let errors = errors.filter_map(|(name, text)| Some(format!("{name}: {}", text?)));
        Ok(errors.collect::<Vec<_>>().join("; "))
    }

    /// Kills the server connection of a session that sleeps in a statement; whether there was
    /// one. `servers` are the proxied ones, or the twins'.
    pub(crate) fn kill_sleeper(&mut self, is_direct: bool) -> Result<bool> {
        let asked = "SELECT id FROM information_schema.processlist \
                     WHERE user IN ('ada', 'bob') AND state LIKE '%sleep%'";
        let clients = match is_direct {
            true => vec![&mut self.direct],
            false => vec![&mut self.primary, &mut self.replica],
        };
        let mut has_killed = false;
        for client in clients {
            for id in client.column(asked)?.into_iter().flatten() {
                has_killed |= client.column(&format!("KILL {id}")).is_ok();
            }
        }
        Ok(has_killed)
    }

    /// Waits until a twin's connection is gone from its server.
    pub(crate) fn wait_gone(&mut self, id: u32) -> Result<()> {
        let asked = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
        wait_until("a twin's connection ends", SOON, || {
            let count = self.direct.column(&asked)?.pop().flatten();
            Ok((count.as_deref() == Some("0")).then_some(()))
        })
    }
}

fn start_server(family: Flavour, id: u32) -> Result<Server> {
    let options =
        Options::id(id).arg("--lock-wait-timeout=1").arg("--log-bin-trust-function-creators=1");
    match family {
        Flavour::MariaDb => MariaDb::start(options.arg("--innodb-lock-wait-timeout=0")),
        Flavour::MySql => MySql::start(options.arg("--innodb-lock-wait-timeout=1")),
    }
}

fn warden(server: &Server) -> Result<Client> {
    let mut client = Client::login(server.port(), WARDEN, WARDEN, "")?;
    client.column("SET SESSION lock_wait_timeout = 20, SESSION innodb_lock_wait_timeout = 20")?;
    Ok(client)
}

fn accounts(family: Flavour) -> String {
    let create = |name: &str| {
        let plugin = match family {
            Flavour::MariaDb => format!("VIA mysql_native_password USING PASSWORD('{name}')"),
            Flavour::MySql => format!("WITH caching_sha2_password BY '{name}'"),
        };
        format!("CREATE USER {name}@'%' IDENTIFIED {plugin}; ")
    };
    let mut text: String = ["ada", "bob", WARDEN].map(create).concat();
    // What goes astray to the replica must fail there, as it does in production.
    let revoked = match family {
        Flavour::MariaDb => "READ_ONLY ADMIN, CONNECTION ADMIN, SUPER",
        Flavour::MySql => "SUPER, CONNECTION_ADMIN",
    };
    text += &format!(
        "GRANT ALL ON *.* TO {WARDEN}@'%' WITH GRANT OPTION; GRANT ALL ON *.* TO ada@'%'; \
         REVOKE {revoked} ON *.* FROM ada@'%'; CREATE ROLE r1; GRANT SELECT ON *.* TO r1; \
         GRANT r1 TO ada@'%'; GRANT r1 TO bob@'%'; "
    );
    for schema in [SCHEMA, OTHER_SCHEMA, SPARE_SCHEMA] {
        text += &format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, EXECUTE, \
             CREATE TEMPORARY TABLES, LOCK TABLES, CREATE VIEW, CREATE ROUTINE ON {schema}.* \
             TO bob@'%'; "
        );
    }
    text
}

fn make_schema(family: Flavour, client: &mut Client, plan: &Plan) -> Result<()> {
    end_prepared(family, client)?;
    for name in [SPARE_SCHEMA, OTHER_SCHEMA, SCHEMA] {
        client.column(&format!("DROP DATABASE IF EXISTS {name}"))?;
        client.column(&format!("CREATE DATABASE {name}"))?;
    }
    client.column(&format!("USE {SCHEMA}"))?;
    for statement in &plan.setup {
        let answers = client.query(statement.as_bytes());
        let is_lost = matches!(answers.last(), Some(Answer::Lost | Answer::Silent));
        ensure!(!is_lost, "lost at {statement}");
    }
    Ok(())
}

/// Transactions that were prepared outlive their sessions.
fn end_prepared(family: Flavour, client: &mut Client) -> Result<()> {
    let named = match family {
        Flavour::MariaDb => "XA RECOVER FORMAT='SQL'",
        Flavour::MySql => "XA RECOVER CONVERT XID",
    };
    for answer in client.query(named.as_bytes()) {
        let Answer::Rows(rows) = answer else { continue };
        for row in rows.text() {
            let name = row.into_iter().nth(3).flatten().context("a name")?;
            client.query(format!("XA ROLLBACK {name}").as_bytes());
        }
    }
    Ok(())
}

fn reset_globals(client: &mut Client) {
    for name in GLOBALS {
        // Not each family has each.
        client.query(format!("SET GLOBAL {name} = DEFAULT").as_bytes());
    }
}
