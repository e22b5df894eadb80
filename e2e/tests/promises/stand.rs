//! Servers, accounts and proxies that the scripts are played on.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use trunkline_testkit::{
    AuthPlugin, Flavour, MariaDb, MySql, Options, Replication, Server, Trunkline,
};

/// How long anything may take that is expected to happen.
pub const SOON: Duration = Duration::from_secs(20);

pub const PASSWORD: &str = "promised";

/// Who may do everything in schemas of scripts.
const OWNER: &str = "promise";
/// Who may read, write and execute there, and sees neither triggers nor views' definitions.
const POOR: &str = "promise_poor";
/// Somebody else with the rights of [`OWNER`].
const OTHER: &str = "promise_other";
/// Who may do everything.
const SUPER: &str = "promise_super";

/// As whom a session logs in.
pub fn account_of(session: char) -> &'static str {
    match session {
        'P' | 'Q' => POOR,
        'X' | 'Y' => OTHER,
        'S' | 'T' => SUPER,
        _ => OWNER,
    }
}

/// What stands behind the proxy, and how it is set.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// A writer and a reader with the automatic split, instead of one server.
    pub is_split: bool,
    /// Of each server.
    pub connections: u32,
    /// Lines before the first table of the configuration.
    pub settings: &'static str,
    /// Lines of the first server's table.
    pub server: &'static str,
    /// Text behind everything.
    pub rules: &'static str,
    pub servers: Kind,
}

/// Whose the servers are, and what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All scripts', which change no global variables. The reader follows nobody.
    Shared,
    /// This scene's own, started with this argument if it is not empty.
    Own(&'static str),
    /// A primary and its replica, of this scene's own.
    Replicated,
}

/// One server with more connections than needed: whoever comes next gets the one that was used
/// last, if its session has let go of it.
pub const ONE: Scene = Scene {
    is_split: false,
    connections: 4,
    settings: "",
    server: "",
    rules: "",
    servers: Kind::Shared,
};

/// A writer and a reader that know nothing of each other, so that a stray write is seen.
pub const SPLIT: Scene = Scene { is_split: true, ..ONE };

/// The servers behind a proxy: the writer first.
#[derive(Debug)]
pub struct Servers {
    all: Vec<Arc<Server>>,
    replication: Option<Replication>,
}

impl Servers {
    fn start(flavour: Flavour, kind: Kind, count: u32) -> Result<Servers> {
        let start = |id: u32| -> Result<Arc<Server>> {
            let mut options = Options::id(id)
                .arg("--log-bin-trust-function-creators=1")
                .arg("--innodb-lock-wait-timeout=2");
            if let Kind::Own(arg) = kind {
                options.args.extend(Some(arg.to_owned()).filter(|arg| !arg.is_empty()));
            }
            let server = match flavour {
                Flavour::MariaDb => MariaDb::start(options)?,
                Flavour::MySql => MySql::start(options)?,
            };
            if kind != Kind::Replicated {
                make_accounts(&server)?;
            }
            Ok(Arc::new(server))
        };
        let start = &start;
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=count).map(|id| scope.spawn(move || start(id))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Arc<Server>>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        let replication = match (kind, all.as_slice()) {
            (Kind::Replicated, [primary, replica]) => {
                let (primary, replicas) = (Arc::clone(primary), vec![Arc::clone(replica)]);
                make_accounts(&primary)?;
                Some(Replication::start(primary, replicas)?)
            }
            _ => None,
        };
        let servers = Servers { all, replication };
        servers.wait_caught_up()?;
        Ok(servers)
    }

    /// A pair that all scripts share which change no global variables.
    pub fn shared(flavour: Flavour) -> Result<&'static Servers> {
        static MARIADB: OnceLock<Result<Servers, String>> = OnceLock::new();
        static MYSQL: OnceLock<Result<Servers, String>> = OnceLock::new();
        let place = match flavour {
            Flavour::MariaDb => &MARIADB,
            Flavour::MySql => &MYSQL,
        };
        let begin =
            || Servers::start(flavour, Kind::Shared, 2).map_err(|error| format!("{error:#}"));
        place.get_or_init(begin).as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Servers of one scene.
    pub fn of_one(flavour: Flavour, scene: &Scene) -> Result<Servers> {
        Servers::start(flavour, scene.servers, if scene.is_split { 2 } else { 1 })
    }

    pub fn writer(&self) -> Result<&Server> {
        self.all.first().map(AsRef::as_ref).context("no server")
    }

    /// Those that a scene uses.
    pub fn of(&self, scene: &Scene) -> &[Arc<Server>] {
        let count = if scene.is_split { 2 } else { 1 };
        self.all.get(..count).unwrap_or(&self.all)
    }

    /// Those on which schemas are made by hand.
    pub fn to_prepare(&self, scene: &Scene) -> &[Arc<Server>] {
        match self.replication {
            Some(_) => self.all.get(..1).unwrap_or_default(),
            None => self.of(scene),
        }
    }

    /// Waits until the replica has all that its primary has, where there is one.
    pub fn wait_caught_up(&self) -> Result<()> {
        let replication = self.replication.as_ref();
        replication.map_or(Ok(()), |replication| replication.wait_caught_up(SOON))
    }

    pub fn proxy(&self, scene: &Scene) -> Result<Trunkline> {
        let mut text = format!("workers = 1\n{}\n", scene.settings);
        for (server, hostgroup) in self.of(scene).iter().zip([10, 20]) {
            let lines = if hostgroup == 10 { scene.server } else { "" };
            write!(
                text,
                "[[server]]\nhostgroup = {hostgroup}\naddress = \"{}\"\nmax_connections = {}\n\
                 {lines}\n",
                server.address(),
                scene.connections
            )?;
        }
        if scene.is_split {
            text.push_str("[[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n");
        }
        for name in [OWNER, POOR, OTHER, SUPER] {
            write!(
                text,
                "[[user]]\nname = \"{name}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 10\n"
            )?;
        }
        text.push_str(scene.rules);
        Trunkline::start(&text)
    }
}

fn make_accounts(server: &Server) -> Result<()> {
    server.create_user(SUPER, PASSWORD, AuthPlugin::ServerDefault)?;
    for name in [OWNER, POOR, OTHER] {
        let rights = if name == POOR { "SELECT, INSERT, UPDATE, DELETE, EXECUTE" } else { "ALL" };
        server.create_user(name, PASSWORD, AuthPlugin::ServerDefault)?;
        let log = match server.flavour() {
            Flavour::MariaDb => "BINLOG ADMIN",
            Flavour::MySql => "SYSTEM_VARIABLES_ADMIN",
        };
        server.sql(&format!(
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM {name}@'%';
             GRANT {rights} ON `prom%`.* TO {name}@'%'; GRANT {log} ON *.* TO {name}@'%'"
        ))?;
    }
    server.sql(&format!(
        "CREATE ROLE promise_role; GRANT SELECT ON mysql.* TO promise_role;
         GRANT promise_role TO {OWNER}@'%'"
    ))?;
    Ok(())
}

/// A name for two schemas that no other case has: without its last letter.
pub fn schema_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("prom{:04}", NEXT.fetch_add(1, Ordering::Relaxed))
}
