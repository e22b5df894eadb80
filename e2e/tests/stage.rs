//! What tests of sessions and routing stand on: servers that all of them share, a schema of one's
//! own, and the proxy before them.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{
    AuthPlugin, Flavour, MariaDb, MySql, Options, Replication, Row, Server, SqlClient, Trunkline,
    mariadb_available, mysql_available, skipped, wait_until,
};

/// The account of all tests, on servers and proxy.
pub const USER: &str = "app";
pub const PASSWORD: &str = "app's secret";

/// How long anything may take that is expected to happen.
pub const SOON: Duration = Duration::from_secs(20);

/// Both flavours, in the order of tests.
pub const FLAVOURS: [Flavour; 2] = [Flavour::MariaDb, Flavour::MySql];

/// Whether servers of this flavour can be had; says loudly when not.
pub fn is_available(flavour: Flavour, test: &str) -> bool {
    let found = match flavour {
        Flavour::MariaDb => mariadb_available(),
        Flavour::MySql => mysql_available(),
    };
    found.inspect_err(|reason| skipped(test, reason)).is_ok()
}

/// Two servers of a family that know nothing of each other.
pub fn start_two(flavour: Flavour) -> Result<(Server, Server)> {
    Ok((start(flavour, Options::default())?, start(flavour, Options::default())?))
}

/// Starts a server of one's own, with the account.
pub fn start(flavour: Flavour, options: Options) -> Result<Server> {
    let server = match flavour {
        Flavour::MariaDb => MariaDb::start(options)?,
        Flavour::MySql => MySql::start(options)?,
    };
    server.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
    Ok(server)
}

/// The server of this flavour that tests share: nobody stops it or changes global variables.
pub fn shared_server(flavour: Flavour) -> Result<&'static Server> {
    static MARIADB: OnceLock<Result<Server, String>> = OnceLock::new();
    static MYSQL: OnceLock<Result<Server, String>> = OnceLock::new();
    let place = match flavour {
        Flavour::MariaDb => &MARIADB,
        Flavour::MySql => &MYSQL,
    };
    let options = Options::default().arg("--max-allowed-packet=64M");
    let begin = || start(flavour, options).map_err(|error| format!("{error:#}"));
    place.get_or_init(begin).as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

/// A primary and two replicas that tests share, each with its name in the table `mark.server`.
pub fn shared_replication(flavour: Flavour) -> Result<&'static Replication> {
    static MARIADB: OnceLock<Result<Replication, String>> = OnceLock::new();
    static MYSQL: OnceLock<Result<Replication, String>> = OnceLock::new();
    let place = match flavour {
        Flavour::MariaDb => &MARIADB,
        Flavour::MySql => &MYSQL,
    };
    let begin = || replication(flavour, 2).map_err(|error| format!("{error:#}"));
    place.get_or_init(begin).as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

/// A replication of one's own: account on all servers, names in `mark.server`.
pub fn replication(flavour: Flavour, replicas: u32) -> Result<Replication> {
    let replication = match flavour {
        Flavour::MariaDb => Replication::mariadb(replicas)?,
        Flavour::MySql => Replication::mysql(replicas)?,
    };
    let primary = replication.primary();
    primary.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
    primary.sql(
        "CREATE DATABASE mark; CREATE TABLE mark.server (name VARCHAR(20) PRIMARY KEY);
         CREATE TABLE mark.note (id INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(200))",
    )?;
    replication.wait_caught_up(SOON)?;
    mark(primary, "primary")?;
    for (number, replica) in replication.replicas().iter().enumerate() {
        mark(replica, &format!("replica{}", number + 1))?;
    }
    Ok(replication)
}

/// Leaves a server's name in a table, outside replication.
fn mark(server: &Server, name: &str) -> Result<()> {
    let insert = format!("SET sql_log_bin = 0; INSERT INTO mark.server VALUES ('{name}')");
    let is_mysql_replica = server.flavour() == Flavour::MySql && name != "primary";
    let statements = match is_mysql_replica {
        true => format!("SET GLOBAL super_read_only = 0; {insert}; SET GLOBAL super_read_only = 1"),
        false => insert,
    };
    server.sql(&statements)?;
    Ok(())
}

/// A schema of this name's own, made on the server by root; the name.
pub fn new_schema(server: &Server, statements: &str) -> Result<String> {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let name = format!("own{}", NEXT.fetch_add(1, Ordering::Relaxed));
    server.sql(&format!("CREATE DATABASE {name}; USE {name}; {statements}"))?;
    Ok(name)
}

/// A configuration of one server in hostgroup 0 with the account, so many workers and server
/// connections.
pub fn one_server(server: &Server, workers: u32, max_connections: u32) -> String {
    format!(
        "workers = {workers}\n[[server]]\nhostgroup = 0\naddress = \"{}\"\n\
         max_connections = {max_connections}\n{}",
        server.address(),
        user(0)
    )
}

/// The account's table.
pub fn user(hostgroup: u32) -> String {
    format!(
        "[[user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\n\
         default_hostgroup = {hostgroup}\n"
    )
}

/// The proxy before one server.
pub fn before(server: &Server, workers: u32, max_connections: u32) -> Result<Trunkline> {
    Trunkline::start(&one_server(server, workers, max_connections))
}

/// A client of the proxy; an empty `schema` means none.
pub fn client(proxy: &Trunkline, schema: &str) -> Result<SqlClient> {
    proxy.connect(USER, PASSWORD, schema)
}

/// `/status`, read.
pub fn status(proxy: &Trunkline) -> Result<Value> {
    serde_json::from_str(&proxy.status_json()?).context("the status is not JSON")
}

/// Sessions pinned now, by reason; reasons that hold nobody are left out.
pub fn pins(proxy: &Trunkline) -> Result<BTreeMap<String, u64>> {
    let status = status(proxy)?;
    let pins = status.get("pins").and_then(Value::as_object).context("no pins in the status")?;
    let held = pins.iter().map(|(reason, count)| (reason.clone(), count.as_u64().unwrap_or(0)));
    Ok(held.filter(|(_, count)| *count > 0).collect())
}

/// Waits until exactly these reasons pin one session each.
pub fn wait_pins(proxy: &Trunkline, expected: &[&str]) -> Result<()> {
    let wanted: BTreeMap<String, u64> =
        expected.iter().map(|reason| ((*reason).to_owned(), 1)).collect();
    let mut last = BTreeMap::new();
    wait_until("pins", Duration::from_secs(5), || {
        last = pins(proxy)?;
        Ok((last == wanted).then_some(()))
    })
    .with_context(|| format!("pins are {last:?}, not {wanted:?}"))
}

/// A number of `/status`, summed over the servers that `counts` picks.
pub fn server_sum(proxy: &Trunkline, field: &str, counts: impl Fn(&Value) -> bool) -> Result<u64> {
    let status = status(proxy)?;
    let servers = status.get("servers").and_then(Value::as_array).context("no servers")?;
    let of = |server: &Value| server.get(field).and_then(Value::as_u64);
    let values: Option<Vec<u64>> = servers.iter().filter(|server| counts(server)).map(of).collect();
    Ok(values.with_context(|| format!("a server has no {field}"))?.iter().sum())
}

/// Statements that the servers of a hostgroup have answered.
pub fn statements_of(proxy: &Trunkline, hostgroup: u64) -> Result<u64> {
    server_sum(proxy, "statements", |server| {
        server.get("hostgroup").and_then(Value::as_u64) == Some(hostgroup)
    })
}

/// Connections that the account has on a server, as the server counts them.
pub fn connections_on(server: &Server) -> Result<usize> {
    let rows = server.sql("SHOW PROCESSLIST")?;
    let is_ours = |row: &&Row| row.get(1).and_then(Option::as_deref) == Some(USER);
    Ok(rows.iter().filter(is_ours).count())
}

/// The first column of the first row, as text.
pub fn text(client: &mut SqlClient, statement: &str) -> Result<String> {
    Ok(client.value(statement)?.unwrap_or_else(|| "NULL".to_owned()))
}

/// Runs a statement that must fail with this error.
pub fn fails(client: &mut SqlClient, statement: &str, code: u16) -> Result<String> {
    match client.sql(statement) {
        Ok(rows) => anyhow::bail!("{statement} succeeded instead of error {code}: {rows:?}"),
        Err(error) => {
            let found = trunkline_testkit::error_code(&error);
            ensure!(
                found == Some(code),
                "{statement} failed with {found:?}, not {code}: {error:#}"
            );
            Ok(format!("{error:#}"))
        }
    }
}
