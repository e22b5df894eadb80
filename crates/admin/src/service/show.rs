//! `SHOW` and `HELP`.

use trunkline_config::variable;
use trunkline_store::{
    Access, Answer, Difference, Layer, Module, RowSet, SqlError, Store, Value,
    tables::{self, Schema},
};

use super::{
    AdminService, Refused, Reply, Session, is_secret, reply::texts, session::Asked, target::Target,
};
use crate::{
    exposition,
    sql::{Filter, Show, text::literal},
};

const HELP: &[(&str, &str)] = &[
    ("SELECT, INSERT, UPDATE, DELETE, REPLACE", "rows of tables: edits the layer MEMORY"),
    ("LOAD <module> TO RUNTIME", "validates MEMORY and serves by it; all or nothing"),
    ("SAVE <module> TO DISK", "keeps MEMORY for the next start"),
    ("LOAD <module> FROM DISK", "DISK to MEMORY"),
    ("SAVE <module> FROM RUNTIME", "RUNTIME to MEMORY"),
    ("LOAD <module> FROM CONFIG", "rows of the configuration file to MEMORY"),
    ("LOAD <module> FROM REVISION n", "an earlier load to MEMORY; see SHOW HISTORY"),
    (
        "<module>",
        "MYSQL SERVERS, MYSQL USERS, MYSQL QUERY RULES, MYSQL VARIABLES, ADMIN VARIABLES, \
         TRUNKLINE VARIABLES, MYSQL FIREWALL, SCHEDULER, RESTAPI, PROXYSQL SERVERS",
    ),
    ("SHOW DIFF [<module>] [MEMORY RUNTIME]", "what a LOAD would change"),
    ("SHOW HISTORY", "the last loads: when, who, what"),
    ("SHOW DATABASES, SHOW TABLES [FROM schema] [LIKE 'p']", "schemas and tables"),
    ("SHOW CREATE TABLE t, DESCRIBE t", "columns of a table"),
    ("SHOW [MYSQL|ADMIN|TRUNKLINE] VARIABLES [LIKE 'p'|WHERE condition]", "variables of MEMORY"),
    ("SET name = value", "a variable of MEMORY"),
    ("SELECT * FROM trunkline_variables", "what each variable does, and its range"),
    ("SHOW MYSQL STATUS", "counters; SHOW TABLES FROM stats names the other statistics"),
    ("SHOW [FULL] PROCESSLIST", "sessions"),
    ("SHOW TOPOLOGY", "clusters with their servers, as they are now"),
    ("SHOW PROMETHEUS METRICS", "all numbers, as Prometheus reads them"),
    ("SHOW BUNDLE", "what trunkline bundle puts into a bug report, without secrets"),
    ("KILL [CONNECTION] id", "ends a client"),
    ("KILL QUERY id", "ends a client's statement"),
    ("SWITCHOVER cluster [TO 'host:port']", "makes another server of a cluster the writer"),
    ("CHECK SWITCHOVER cluster [TO 'host:port']", "what would be in the way of that"),
    ("REJOIN 'host:port'", "has a server replicate from its cluster's writer again"),
    ("MAINTENANCE 'host:port' ON|OFF", "takes a server out of its cluster for work on it, or back"),
    ("CLEAR FAILOVER cluster", "allows another failover before failover_block is over"),
    ("PAUSE HOSTGROUP n [FOR seconds]", "what is new in a hostgroup is held; transactions go on"),
    ("RESUME HOSTGROUP n", "what is held there goes on"),
    ("SHOW PAUSED HOSTGROUPS", "what is paused, and who still holds connections there"),
    ("EXPLAIN ROUTE [USER name] [SCHEMA name] statement", "what would become of a statement"),
    ("SELECT CONFIG FILE, SELECT CONFIG INTO OUTFILE path", "RUNTIME as a configuration file"),
    ("CHECKSUM [MEMORY|DISK] <module>, SELECT GLOBAL_CHECKSUM()", "whether layers differ"),
    ("PULL VERSION MYSQL SERVERS n ms", "waits for a configuration after version n"),
    ("SAVE MYSQL DIGEST TO DISK", "digests to stats_history.history_mysql_query_digest"),
    ("TRUNCATE stats_mysql_query_digest", "forgets the digests counted so far"),
    ("PROXYSQL PAUSE, PROXYSQL RESUME", "no more clients for a while; those that are there stay"),
    ("PROXYSQL STOP, PROXYSQL START", "the same, and those that are there end"),
    ("PROXYSQL READONLY, PROXYSQL READWRITE", "whether this port changes anything"),
    ("PROXYSQL FLUSH QUERY CACHE", "empties the result cache"),
    ("PROXYSQL FLUSH LOGS", "opens the files of logs anew, after they were renamed"),
    ("PROXYSQL FLUSH MYSQL CLIENT HOSTS", "forgets failed logins by address"),
    ("PROXYSQL FLUSH CONFIGDB", "opens the file of the layer DISK anew"),
    ("PROXYSQL RELOAD CONFIG", "what SIGHUP does: the file of file mode, certificates, names"),
    ("PROXYSQL RELOAD TLS", "reads certificates and keys anew"),
    ("PROXYSQL SHUTDOWN [SLOW], PROXYSQL KILL", "ends the process"),
    ("PROXYSQL RESTART", "ends it, and begins anew with what was saved"),
    ("HELP [word]", "this; only what has the word"),
];

/// MySQL's number of a warning that has none of its own.
const WARNING: &str = "1105";

/// The commands there are; only those that have the word, if there is one.
pub(super) fn help(word: Option<&str>) -> Reply {
    let word = word.unwrap_or_default().to_uppercase();
    let rows = HELP
        .iter()
        .filter(|(what, does)| format!("{what} {does}").to_uppercase().contains(&word))
        .map(|(what, does)| vec![(*what).to_owned(), (*does).to_owned()]);
    Reply::Rows(texts(&["command", "what it does"], rows.collect()))
}

impl AdminService {
    /// Answers `SHOW`.
    // long: one arm for each thing that is shown.
    pub(super) async fn show(
        &self,
        session: &Session,
        target: Target,
        show: Show,
    ) -> Result<Reply, Refused> {
        let is_stats = session.access.is_reader();
        match show {
            Show::Tables { schema, filter } => {
                self.show_tables(session, target, schema, &filter).await
            }
            Show::Databases => {
                let from = "pragma_database_list \
                            WHERE name NOT IN ('information_schema', 'stats_saved')";
                self.query(format!("SELECT seq, name, '' AS file FROM {from}")).await
            }
            Show::CreateTable(name) => create_table(&name),
            Show::CreateDatabase(name) => create_database(&name),
            Show::Columns(name) => columns_of(&name, false),
            Show::FullColumns(name) => columns_of(&name, true),
            Show::TableStatus { schema, filter } => {
                let source = format!("SELECT {TABLE_STATUS} FROM {}", names_in(session, schema)?);
                let sql = format!("{} ORDER BY Name", filtered(&source, "Name", &filter));
                target.run(sql, Vec::new()).await
            }
            Show::Variables(prefix, filter) => {
                self.show_variables(session, target, prefix, &filter).await
            }
            Show::Status(filter) => {
                self.fill_tables(&target.store, "stats_mysql_global").await?;
                let source = "SELECT Variable_Name AS Variable_name, Variable_Value AS Value \
                              FROM stats.stats_mysql_global";
                target.run(filtered(source, "Variable_name", &filter), Vec::new()).await
            }
            Show::Collations => self.query("SELECT * FROM main.mysql_collations".into()).await,
            Show::All(_) | Show::History | Show::Diff { .. } | Show::Bundle if is_stats => {
                Err(Refused::denied())
            }
            Show::All(table) => self.query(format!("SELECT * FROM main.{table}")).await,
            Show::Topology => {
                self.fill_tables(&target.store, "stats_cluster_servers").await?;
                let sql = "SELECT * FROM stats.stats_cluster_servers".to_owned();
                target.run(sql, Vec::new()).await
            }
            Show::Bundle => {
                let parts = self.bundle().await.into_iter();
                let rows = parts.map(|part| vec![part.name, part.text]).collect();
                Ok(Reply::Rows(texts(&["file", "content"], rows)))
            }
            Show::PausedHostgroups => Ok(self.paused_hostgroups().await),
            Show::Processlist { is_full } => {
                self.fill_tables(&target.store, "stats_mysql_processlist").await?;
                let columns = match is_full {
                    true => "*",
                    false => {
                        "SessionID, user, db, hostgroup, command, time_ms, \
                         substr(info, 1, 100) AS info"
                    }
                };
                let sql = format!("SELECT {columns} FROM stats.stats_mysql_processlist");
                target.run(sql, Vec::new()).await
            }
            Show::History => {
                let columns = "revision, changed_at, author, module, command, changes";
                let order = "ORDER BY revision DESC LIMIT 100";
                self.query(format!("SELECT {columns} FROM disk.config_history {order}")).await
            }
            Show::Diff { module, first, second } => self.show_diff(module, first, second).await,
            Show::Metrics => {
                let mut report = self.runtime.report(trunkline_stats::DigestQuery::NONE).await;
                self.figures().fill(&mut report.process);
                let text = exposition::metrics_text(&report, 0);
                Ok(Reply::Rows(texts(&["Data"], vec![vec![text]])))
            }
            Show::Warnings { is_count } => Ok(Reply::Rows(warnings(session, is_count))),
            Show::Nothing(columns) => Ok(Reply::Rows(texts(columns, Vec::new()))),
        }
    }

    /// Runs a query of the service's own.
    async fn query(&self, sql: String) -> Result<Reply, Refused> {
        let run = move |store: &mut Store| Ok(store.run(&sql, &[], Access::Internal)?);
        let answer = self.with_store(run).await?;
        Ok(match answer {
            Answer::Rows(rows) => Reply::Rows(rows),
            Answer::Done(_) => Reply::ok(),
        })
    }

    async fn show_tables(
        &self,
        session: &Session,
        target: Target,
        schema: Option<String>,
        filter: &Filter,
    ) -> Result<Reply, Refused> {
        let source = format!("SELECT name AS tables FROM {}", names_in(session, schema)?);
        let sql = format!("{} ORDER BY tables", filtered(&source, "tables", filter));
        target.run(sql, Vec::new()).await
    }

    async fn show_variables(
        &self,
        session: &Session,
        target: Target,
        prefix: &str,
        filter: &Filter,
    ) -> Result<Reply, Refused> {
        let table = match session.access {
            Access::Stats | Access::Operate => {
                self.fill_tables(&target.store, "global_variables").await?;
                "stats.global_variables"
            }
            Access::Admin | Access::Internal => "main.global_variables",
        };
        let source = format!(
            "SELECT variable_name AS Variable_name, variable_value AS Value \
             FROM {table} WHERE variable_name LIKE '{prefix}%' \
             UNION ALL SELECT 'version', {} WHERE '{prefix}' = '' \
             UNION ALL SELECT 'read_only', iif(variable_value IN ('true', '1'), 'ON', 'OFF') \
             FROM {table} WHERE variable_name = 'admin-read_only' AND '{prefix}' = ''",
            literal(super::VERSION),
        );
        let source = match filter {
            // Drivers ask for a server's variables by name.
            Filter::Like(_) | Filter::Where(_) if prefix.is_empty() => {
                format!("{source}{}", self.known_variables(session).await?)
            }
            Filter::None | Filter::Like(_) | Filter::Where(_) => source,
        };
        let sql = filtered(&source, "Variable_name", filter);
        target.run(format!("{sql} ORDER BY Variable_name"), Vec::new()).await
    }

    /// Variables of servers that drivers ask for, as more rows of a query.
    async fn known_variables(&self, session: &Session) -> Result<String, Refused> {
        let variables = self.with_store(|store| Ok(store.variables(Layer::Runtime, "")?)).await?;
        let asked = Asked { session, variables: &variables, figures: &[] };
        let known = asked.of_servers().into_iter();
        let known = known.filter(|(name, _)| !["version", "read_only"].contains(&name.as_str()));
        let row = |(name, value): (String, String)| {
            format!(" UNION ALL SELECT {}, {}", literal(&name), literal(&value))
        };
        Ok(known.map(row).collect())
    }

    async fn show_diff(
        &self,
        module: Option<Module>,
        first: Layer,
        second: Layer,
    ) -> Result<Reply, Refused> {
        let modules = module.map_or(Module::ALL.to_vec(), |module| vec![module]);
        let rows = self
            .with_store(move |store| {
                let mut rows = Vec::new();
                for module in modules {
                    for found in differences(store, module, first, second)? {
                        let layer = if found.is_in_first { first } else { second };
                        let shown = row_text(found.table, &found.row);
                        rows.push(vec![found.table.into(), layer.name().into(), shown]);
                    }
                }
                Ok(rows)
            })
            .await?;
        Ok(Reply::Rows(texts(&["table", "only_in", "row"], rows)))
    }
}

/// Rows that two layers do not share; a variable that means the same is none.
fn differences(
    store: &Store,
    module: Module,
    first: Layer,
    second: Layer,
) -> Result<Vec<Difference>, SqlError> {
    let mut found = store.differences(module, first, second)?;
    if module.prefix().is_some() {
        let meaning = |difference: &Difference| match difference.row.as_slice() {
            [Value::Text(name), Value::Text(value)] => {
                let spelled = variable::find(name.as_str()).map(|row| row.spelled(value.as_str()));
                Some((name.clone(), spelled.unwrap_or_else(|| value.clone())))
            }
            _ => None,
        };
        let all: Vec<_> = found.iter().map(|it| (it.is_in_first, meaning(it))).collect();
        found.retain(|it| !all.contains(&(!it.is_in_first, meaning(it))));
    }
    Ok(found)
}

/// What a session's last statement warned of, or how many times.
fn warnings(session: &Session, is_count: bool) -> RowSet {
    if is_count {
        let count = session.warnings.len().to_string();
        return texts(&["@@session.warning_count"], vec![vec![count]]);
    }
    let rows = session.warnings.iter();
    let rows = rows.map(|text| vec!["Warning".to_owned(), WARNING.to_owned(), text.clone()]);
    texts(&["Level", "Code", "Message"], rows.collect())
}

/// A row as `column=value, …`, without passwords.
fn row_text(table: &str, row: &[Value]) -> String {
    let Some(table) = tables::find(table) else { return String::new() };
    let pairs = table.columns.iter().zip(row).filter(|(_, value)| **value != Value::Null);
    let secret = matches!(row.first(), Some(Value::Text(name)) if is_secret(name));
    let shown = pairs.map(|(column, value)| {
        let value = match value {
            _ if column.name == "password" => "…".to_owned(),
            _ if secret && column.name == "variable_value" => "…".to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Text(text) => literal(text),
            Value::Null | Value::Real(_) | Value::Blob(_) => "…".to_owned(),
        };
        format!("{}={value}", column.name)
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn schema_called(name: &str) -> Option<Schema> {
    Schema::ALL.into_iter().find(|schema| schema.name().eq_ignore_ascii_case(name))
}

/// Where the names of a schema's tables are: one that is named, or the session's.
fn names_in(session: &Session, schema: Option<String>) -> Result<String, Refused> {
    let schema = match (schema, session.access) {
        (Some(name), _) => {
            schema_called(&name).ok_or_else(|| Refused::new(format!("unknown database {name}")))?
        }
        (None, Access::Stats | Access::Operate) => Schema::Stats,
        (None, Access::Admin | Access::Internal) => {
            schema_called(&session.schema).unwrap_or(Schema::Main)
        }
    };
    // What is saved of the past is kept apart.
    let saved = match schema {
        Schema::StatsHistory => format!(
            " UNION ALL SELECT type, name FROM {}.sqlite_master WHERE name = '{}'",
            Schema::StatsSaved.name(),
            tables::SAVED
        ),
        Schema::Main | Schema::Disk | Schema::Stats | Schema::Monitor | Schema::StatsSaved => {
            String::new()
        }
    };
    Ok(format!(
        "(SELECT type, name FROM {}.sqlite_master{saved}) WHERE type IN ('table', 'view') \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'loaded\\_%' ESCAPE '\\'",
        schema.name()
    ))
}

/// MySQL's columns of `SHOW TABLE STATUS`, which tools that dump tables find by their numbers.
const TABLE_STATUS: &str = "name AS Name, 'SQLite' AS Engine, 10 AS Version, NULL AS Row_format, \
                            NULL AS Rows, NULL AS Avg_row_length, NULL AS Data_length, \
                            NULL AS Max_data_length, NULL AS Index_length, NULL AS Data_free, \
                            NULL AS Auto_increment, NULL AS Create_time, NULL AS Update_time, \
                            NULL AS Check_time, 'utf8_general_ci' AS Collation, \
                            NULL AS Checksum, '' AS Create_options, '' AS Comment";

/// A query with the condition of a `SHOW`.
fn filtered(source: &str, column: &str, filter: &Filter) -> String {
    match filter {
        Filter::None => format!("SELECT * FROM ({source})"),
        Filter::Like(pattern) => {
            let pattern = literal(pattern);
            format!("SELECT * FROM ({source}) WHERE {column} LIKE {pattern} ESCAPE '\\'")
        }
        Filter::Where(condition) => format!("SELECT * FROM ({source}) WHERE ({condition})"),
    }
}

/// A table by its name, with or without a schema.
fn table_called(name: &str) -> Result<tables::Table, Refused> {
    let bare = name.rsplit('.').next().unwrap_or(name);
    tables::find(bare).ok_or_else(|| Refused::new(format!("no such table: {name}")))
}

fn create_table(name: &str) -> Result<Reply, Refused> {
    let table = table_called(name)?;
    let row = vec![table.name.to_owned(), table.create()];
    Ok(Reply::Rows(texts(&["table", "Create Table"], vec![row])))
}

fn create_database(name: &str) -> Result<Reply, Refused> {
    let schema =
        schema_called(name).ok_or_else(|| Refused::new(format!("unknown database {name}")))?;
    let row = vec![schema.name().to_owned(), format!("CREATE DATABASE `{}`", schema.name())];
    Ok(Reply::Rows(texts(&["Database", "Create Database"], vec![row])))
}

fn columns_of(name: &str, is_full: bool) -> Result<Reply, Refused> {
    let table = table_called(name)?;
    let key = table.primary_key();
    let rows = table.columns.iter().map(|column| {
        let mut row = vec![
            column.name.to_owned(),
            column.kind.to_owned(),
            if column.is_needed { "NO" } else { "YES" }.to_owned(),
            if key.contains(&column.name) { "PRI" } else { "" }.to_owned(),
            column.default.unwrap_or_default().to_owned(),
            String::new(),
        ];
        if is_full {
            row.insert(2, if column.is_number() { "" } else { "utf8_general_ci" }.to_owned());
            row.extend(["select".to_owned(), String::new()]);
        }
        row
    });
    let columns: &[&str] = match is_full {
        false => &["Field", "Type", "Null", "Key", "Default", "Extra"],
        true => &[
            "Field",
            "Type",
            "Collation",
            "Null",
            "Key",
            "Default",
            "Extra",
            "Privileges",
            "Comment",
        ],
    };
    Ok(Reply::Rows(texts(columns, rows.collect())))
}
