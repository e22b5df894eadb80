//! `SHOW BUNDLE`: what the proxy itself tells for a bug report, without secrets.

use trunkline_store::{Access, Answer, Layer, Store, Value, tables};

use super::AdminService;
use crate::{
    bundle::{Part, Secrets, note_secrets, rows_text, without_literals},
    import::LISTS,
    source::Runtime,
};

/// Rows of a table that are told.
const ROWS_MAX: usize = 10_000;
/// Tables of statistics that are told. None has the text of a statement with its values.
const STATISTICS: [&str; 13] = [
    "stats_mysql_global",
    "stats_memory_metrics",
    "stats_waits",
    "stats_refusals",
    "stats_latency",
    "stats_limits",
    "stats_cache",
    "stats_mirrors",
    "stats_tenants",
    "stats_mysql_query_rules",
    "stats_mysql_errors",
    "stats_cluster_servers",
    "stats_cluster_events",
];
/// Tables of the monitor that are told.
const CHECKS: [&str; 4] = [
    "mysql_server_connect_log",
    "mysql_server_ping_log",
    "mysql_server_read_only_log",
    "mysql_server_replication_lag_log",
];

/// The last lines of the log, without what they quote.
pub(crate) fn log_part(runtime: &dyn Runtime) -> Part {
    let secrets = of_running(runtime);
    let lines = runtime.log_lines().into_iter();
    let lines: String = lines.map(|line| format!("{}\n", without_literals(&line))).collect();
    Part::new("log.txt", secrets.without(&lines))
}

/// The secrets of the configuration that runs.
fn of_running(runtime: &dyn Runtime) -> Secrets {
    let mut secrets = Secrets::new();
    let snapshot = runtime.snapshot();
    let settings = &snapshot.settings;
    secrets.add(&settings.http_api_token);
    secrets.add(&settings.http_api_operate_token);
    settings.admin_operate_credentials.iter().for_each(|(_, it)| secrets.add(it));
    secrets.add(&settings.http_api_stats_token);
    secrets.add(settings.monitor_password.expose());
    for user in &snapshot.config.users {
        for password in std::iter::once(&user.password).chain(&user.retained_password) {
            secrets.add_password(password);
        }
        if let Some(backend) = &user.backend {
            secrets.add(backend.password.expose());
            backend.retained_password.iter().for_each(|it| secrets.add(it.expose()));
        }
    }
    secrets
}

impl AdminService {
    /// What goes into a bug report: tables as they run, statistics, loads, the end of the log.
    pub(crate) async fn bundle(&self) -> Vec<Part> {
        let mut parts = vec![log_part(&*self.runtime)];
        let mut secrets = of_running(&*self.runtime);
        let mut errors = String::new();
        let named = STATISTICS.iter().chain(&CHECKS).copied();
        for name in named.clone() {
            if let Err(refused) = self.fill_tables(&self.store, name).await {
                errors.push_str(&format!("{name}: {}\n", refused.message));
            }
        }
        let names: Vec<&'static str> = named.collect();
        let read = self.with_store(move |store| Ok(read(store, &mut secrets, &names)));
        match read.await {
            Ok((more, failed)) => {
                parts.extend(more);
                errors.push_str(&failed);
            }
            Err(refused) => errors.push_str(&format!("tables: {}\n", refused.message)),
        }
        if !errors.is_empty() {
            parts.push(Part::new("tables/errors.txt", errors));
        }
        parts
    }
}

/// Reads tables as parts; what could not be read.
fn read(store: &mut Store, secrets: &mut Secrets, statistics: &[&str]) -> (Vec<Part>, String) {
    let configured = || LISTS.iter().map(|(_, table)| *table).chain(["global_variables"]);
    for name in configured() {
        let Some(table) = tables::find(name) else { continue };
        for layer in [Layer::Memory, Layer::Runtime, Layer::Disk] {
            // What can't be read is not shown either.
            for row in store.rows(layer, name).unwrap_or_default() {
                let columns = table.columns.iter().map(|column| column.name);
                note_secrets(secrets, name, columns.zip(&row));
            }
        }
    }
    let mut parts = Vec::new();
    let mut errors = String::new();
    let schemas = ["stats", "monitor"];
    let tables = configured().map(|name| (name, Table::Configured));
    let more = statistics.iter().map(|name| {
        let of_monitor = CHECKS.contains(name);
        (*name, Table::Filled(if of_monitor { schemas[1] } else { schemas[0] }))
    });
    for (name, kind) in tables.chain(more).chain([("config_history", Table::Filled("disk"))]) {
        let file = match kind {
            Table::Configured => format!("tables/runtime_{name}.txt"),
            Table::Filled(_) => format!("tables/{name}.txt"),
        };
        match rows_of(store, name, kind) {
            Ok(rows) if rows.is_empty() => {}
            Ok(rows) => {
                let count = rows.len();
                let shown = rows.iter().take(ROWS_MAX);
                let shown = shown.map(|row| row.iter().map(|(n, v)| (n.as_str(), v)).collect());
                let mut text = rows_text(name, shown);
                if let Some(more @ 1..) = count.checked_sub(ROWS_MAX) {
                    text.push_str(&format!("# and {more} more rows\n"));
                }
                parts.push(Part::new(file, secrets.without(&text)));
            }
            Err(error) => errors.push_str(&format!("{name}: {error}\n")),
        }
    }
    (parts, secrets.without(&errors))
}

#[derive(Clone, Copy)]
enum Table {
    /// As it runs.
    Configured,
    /// One of this schema.
    Filled(&'static str),
}

/// Columns with their values.
type NamedRow = Vec<(String, Value)>;

fn rows_of(store: &mut Store, name: &str, kind: Table) -> Result<Vec<NamedRow>, String> {
    let sql = match kind {
        Table::Configured => {
            let table = tables::find(name).ok_or("there is no such table")?;
            let rows = store.rows(Layer::Runtime, name).map_err(|error| error.to_string())?;
            let names = || table.columns.iter().map(|column| column.name.to_owned());
            return Ok(rows.into_iter().map(|row| names().zip(row).collect()).collect());
        }
        // What a load changed, and what the revision held, may hold secrets in any place.
        Table::Filled("disk") => {
            "SELECT revision, changed_at, author, module, command FROM disk.config_history \
             ORDER BY revision DESC LIMIT 200"
                .to_owned()
        }
        Table::Filled(schema) => format!("SELECT * FROM {schema}.{name}"),
    };
    match store.run(&sql, &[], Access::Internal).map_err(|error| error.to_string())? {
        Answer::Rows(set) => {
            let names = || set.columns.iter().map(|column| column.name.clone());
            Ok(set.rows.into_iter().map(|row| names().zip(row).collect()).collect())
        }
        Answer::Done(_) => Ok(Vec::new()),
    }
}
