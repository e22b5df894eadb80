//! Servers that several tests share, each test with schemas and accounts of its own, and the
//! proxy's configuration before them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{
    AuthPlugin, Flavour, MariaDb, MySql, Options, Server, Trunkline, mariadb_available,
    mysql_available, skipped, wait_until,
};

/// How long an event may take on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// The password of accounts made here.
pub const PASSWORD: &str = "se'cret\\1";

static MARIADB: OnceLock<Server> = OnceLock::new();
static MYSQL: OnceLock<Server> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// The shared MariaDB server; `None`, said loudly, when there is none on this machine. Its
/// watchdog ends it when this process ends.
pub fn mariadb(test: &str) -> Result<Option<&'static Server>> {
    if let Err(reason) = mariadb_available() {
        skipped(test, &reason);
        return Ok(None);
    }
    shared(&MARIADB, MariaDb::start).map(Some)
}

/// The shared MySQL server; `None`, said loudly, when there is none on this machine.
pub fn mysql(test: &str) -> Result<Option<&'static Server>> {
    if let Err(reason) = mysql_available() {
        skipped(test, &reason);
        return Ok(None);
    }
    shared(&MYSQL, MySql::start).map(Some)
}

/// Both shared servers, as many as can be had.
pub fn each(test: &str) -> Result<Vec<&'static Server>> {
    Ok([mariadb(test)?, mysql(test)?].into_iter().flatten().collect())
}

fn shared(
    place: &'static OnceLock<Server>,
    start: fn(Options) -> Result<Server>,
) -> Result<&'static Server> {
    let _one_at_a_time = STARTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(server) = place.get() {
        return Ok(server);
    }
    let server = start(Options::default().arg("--max-allowed-packet=256M"))?;
    Ok(place.get_or_init(|| server))
}

/// A schema and an account of the same name, made anew, with [`PASSWORD`]. Only one test may ask
/// for a name: what is made anew is gone for a moment, and another test would be refused.
pub fn account(server: &Server, name: &str) -> Result<()> {
    only_of_this_test(server, name)?;
    server.sql(&format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}"))?;
    server.create_user(name, PASSWORD, AuthPlugin::ServerDefault)
}

fn only_of_this_test(server: &Server, name: &str) -> Result<()> {
    static OWNERS: Mutex<BTreeMap<(String, String), String>> = Mutex::new(BTreeMap::new());
    let thread = std::thread::current();
    // The harness names the thread of a test by the test.
    let test = thread.name().context("an account is made by a test's own thread")?;
    let mut owners = OWNERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let owner =
        owners.entry((server.address(), name.to_owned())).or_insert_with(|| test.to_owned());
    ensure!(owner == test, "account {name} is {owner}'s: {test} takes another name");
    Ok(())
}

/// A configuration with one server in hostgroup 10, in the making.
#[derive(Clone, Debug)]
pub struct Config(String);

impl Config {
    /// `settings` are lines before the first table.
    pub fn new(settings: &str, server: &Server) -> Config {
        Config::at(settings, &server.address())
    }

    /// With the server's address as text.
    pub fn at(settings: &str, address: &str) -> Config {
        Config(format!(
            "workers = 2\n{settings}\n[[server]]\nhostgroup = 10\naddress = \"{address}\"\n"
        ))
    }

    /// A user with [`PASSWORD`].
    #[must_use]
    pub fn user(self, name: &str) -> Config {
        let password = PASSWORD.replace('\\', "\\\\");
        self.user_with(name, &format!("password = \"{password}\""))
    }

    /// A user with keys of its own, the password among them.
    #[must_use]
    pub fn user_with(mut self, name: &str, keys: &str) -> Config {
        let user = format!("[[user]]\nname = \"{name}\"\ndefault_hostgroup = 10\n{keys}\n");
        // Writing to a String does not fail.
        let _ = self.0.write_str(&user);
        self
    }

    /// Any further text.
    #[must_use]
    pub fn more(mut self, text: &str) -> Config {
        self.0.push_str(text);
        self
    }

    pub fn start(&self) -> Result<Trunkline> {
        Trunkline::start(&self.0)
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

/// A proxy before `server` for one account made anew, which is also the name of its schema.
pub fn proxy_for(server: &Server, name: &str, settings: &str) -> Result<Trunkline> {
    account(server, name)?;
    Config::new(settings, server).user(name).start()
}

/// What a test calls a server in its messages and names.
pub fn flavour(server: &Server) -> &'static str {
    match server.flavour() {
        Flavour::MariaDb => "mariadb",
        Flavour::MySql => "mysql",
    }
}

/// A number of `trunkline status`, by its path.
pub fn status(proxy: &Trunkline, pointer: &str) -> Result<serde_json::Value> {
    let json: serde_json::Value = serde_json::from_str(&proxy.status_json()?)?;
    json.pointer(pointer).cloned().with_context(|| format!("no {pointer} in {json:#}"))
}

/// Waits until a metric has a value that pleases.
pub fn wait_metric(
    proxy: &Trunkline,
    name: &str,
    labels: &str,
    pleases: impl Fn(f64) -> bool,
) -> Result<f64> {
    let what = format!("metric {name}{{{labels}}}");
    wait_until(&what, TIMEOUT, || Ok(proxy.metric(name, labels)?.filter(|value| pleases(*value))))
}
