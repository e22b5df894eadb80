//! The servers that all runs share, and the proxy before them.

use std::process::Command;
use std::sync::OnceLock;

use anyhow::Result;
use trunkline_testkit::{
    AuthPlugin, Ecosystem, Flavour, MariaDb, MySql, Options, Server, Trunkline, mariadb_available,
    mysql_available, skipped,
};

pub const USER: &str = "app";
pub const PASSWORD: &str = "app's secret";

/// Fewer than the connections that the scenario opens, so that sessions share them; one more than
/// it ever holds by transactions and the like.
const FEW_CONNECTIONS: u32 = 4;
/// Enough for a driver each of whose sessions holds a connection.
const MANY_CONNECTIONS: u32 = 16;

/// The server of this flavour; nothing, said loudly, when there is none.
pub fn shared(flavour: Flavour, test: &str) -> Result<Option<&'static Server>> {
    static MARIADB: OnceLock<Result<Server, String>> = OnceLock::new();
    static MYSQL: OnceLock<Result<Server, String>> = OnceLock::new();
    let (place, available) = match flavour {
        Flavour::MariaDb => (&MARIADB, mariadb_available()),
        Flavour::MySql => (&MYSQL, mysql_available()),
    };
    if let Err(reason) = available {
        skipped(test, &reason);
        return Ok(None);
    }
    let server = place.get_or_init(|| start(flavour).map_err(|error| format!("{error:#}")));
    server.as_ref().map(Some).map_err(|error| anyhow::anyhow!("{error}"))
}

fn start(flavour: Flavour) -> Result<Server> {
    // The account, which is no administrator, makes triggers.
    let options = Options::default().arg("--log-bin-trust-function-creators=1");
    let server = match flavour {
        Flavour::MariaDb => MariaDb::start(options)?,
        Flavour::MySql => MySql::start(options)?,
    };
    server.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
    Ok(server)
}

/// The proxy before this server: two workers; few connections, unless it is known that the
/// driver's sessions hold them.
pub fn before(server: &Server, are_held: bool) -> Result<Trunkline> {
    let connections = if are_held { MANY_CONNECTIONS } else { FEW_CONNECTIONS };
    Trunkline::start(&format!(
        "workers = 2\n\
         [[server]]\nhostgroup = 0\naddress = \"{}\"\nmax_connections = {connections}\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 0\n",
        server.address()
    ))
}

/// The schema, empty.
pub fn fresh_schema(server: &Server, schema: &str) -> Result<()> {
    server.sql(&format!(
        "DROP DATABASE IF EXISTS {schema}; CREATE DATABASE {schema} CHARACTER SET utf8mb4"
    ))?;
    Ok(())
}

/// Whether the distribution's packages of this language have the drivers.
pub fn distribution_has(ecosystem: Ecosystem) -> Result<(), String> {
    let line = match ecosystem {
        Ecosystem::Php => "php -m | grep -qx mysqli && php -m | grep -qx pdo_mysql",
        Ecosystem::Ruby => "ruby -e 'require %q(mysql2)'",
        Ecosystem::Python | Ecosystem::Go | Ecosystem::Node | Ecosystem::Java | Ecosystem::Rust => {
            return Ok(());
        }
    };
    let status = Command::new("sh").args(["-c", line]).output().map(|output| output.status);
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{} has no driver (cargo xtask drivers gets it)", ecosystem.name())),
    }
}
