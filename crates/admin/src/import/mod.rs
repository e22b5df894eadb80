//! From ProxySQL's own files to rows of the tables, and from tables to files.
//!
//! Reading order: [`cnf_rows`] (`proxysql.cnf`), [`export`] (TOML, cnf, SQL).

mod export;

#[cfg(test)]
mod tests;

use trunkline_config::{
    cnf::{CnfEntry, CnfValue, parse_cnf},
    variable,
};
use trunkline_store::{Value, tables};

pub use export::{Format, export};

use crate::service::FirstRow;

/// Rows, and what an operator should hear.
#[derive(Debug, Default)]
pub struct Imported {
    /// For the tables.
    pub rows: Vec<FirstRow>,
    /// What was left out.
    pub warnings: Vec<String>,
}

/// Keys of the file with their tables.
pub(crate) const LISTS: [(&str, &str); 21] = [
    ("mysql_servers", "mysql_servers"),
    ("mysql_users", "mysql_users"),
    ("mysql_query_rules", "mysql_query_rules"),
    ("mysql_query_rules_fast_routing", "mysql_query_rules_fast_routing"),
    ("mysql_replication_hostgroups", "mysql_replication_hostgroups"),
    ("mysql_group_replication_hostgroups", "mysql_group_replication_hostgroups"),
    ("mysql_galera_hostgroups", "mysql_galera_hostgroups"),
    ("mysql_aws_aurora_hostgroups", "mysql_aws_aurora_hostgroups"),
    ("mysql_hostgroup_attributes", "mysql_hostgroup_attributes"),
    ("mysql_servers_ssl_params", "mysql_servers_ssl_params"),
    ("scheduler", "scheduler"),
    ("restapi", "restapi_routes"),
    ("proxysql_servers", "proxysql_servers"),
    ("mysql_firewall_whitelist_users", "mysql_firewall_whitelist_users"),
    ("mysql_firewall_whitelist_rules", "mysql_firewall_whitelist_rules"),
    ("mysql_firewall_whitelist_sqli_fingerprints", "mysql_firewall_whitelist_sqli_fingerprints"),
    ("trunkline_limits", "trunkline_limits"),
    ("trunkline_tenants", "trunkline_tenants"),
    ("trunkline_tcp_listeners", "trunkline_tcp_listeners"),
    ("trunkline_clusters", "trunkline_clusters"),
    ("clickhouse_users", "clickhouse_users"),
];
/// Keys that have no meaning here.
const LEFT_OUT: [&str; 8] = [
    "datadir",
    "errorlog",
    "uuid",
    "restart_on_missing_heartbeats",
    "execute_on_exit_failure",
    "cluster_sync_interfaces",
    "web_interface_plugin",
    "ldap_auth_plugin",
];

/// Reads `proxysql.cnf`. `source` is what errors call the file.
///
/// # Errors
/// Every error, with its line.
pub fn cnf_rows(text: &str, source: &str) -> Result<Imported, Vec<String>> {
    let entries = parse_cnf(text)
        .map_err(|error| vec![format!("{source}:{}: {}", error.line, error.message)])?;
    let mut imported = Imported::default();
    let mut errors = Vec::new();
    for entry in &entries {
        let mut fail = |line: usize, message: String| {
            errors.push(format!("{source}:{line}: {message}"));
        };
        let name = entry.name.as_str();
        let list = LISTS.iter().find(|(key, _)| *key == name);
        match (&entry.value, list) {
            (CnfValue::List(items), Some((_, table))) => {
                for item in items {
                    match row(table, item) {
                        Ok(row) => imported.rows.push(FirstRow {
                            place: Some(format!("{source}:{}", item.line)),
                            ..row
                        }),
                        Err(message) => fail(item.line, message),
                    }
                }
            }
            (CnfValue::Group(group), None) if name.ends_with("_variables") => {
                let prefix = name.trim_end_matches("_variables");
                for given in group {
                    match variable_row(prefix, given) {
                        Ok(row) => imported.rows.push(row),
                        Err(message) => fail(given.line, message),
                    }
                }
            }
            (_, None) if LEFT_OUT.contains(&name) => {
                imported.warnings.push(format!("{source}:{}: `{name}` has no effect", entry.line));
            }
            (_, Some(_)) => fail(entry.line, format!("`{name}` must be a list: ( {{ … }} )")),
            (_, None) => fail(entry.line, format!("unknown key `{name}`")),
        }
    }
    if errors.is_empty() { Ok(imported) } else { Err(errors) }
}

/// A variable; the file leaves out its prefix.
fn variable_row(prefix: &str, given: &CnfEntry) -> Result<FirstRow, String> {
    let name = format!("{prefix}-{}", given.name);
    let Some(value) = shown(&given.value) else {
        return Err(format!("{name} must be one value"));
    };
    // ProxySQL writes its own version into files; it is not ours to keep.
    if name != "admin-version" {
        variable::check(&name, &value)?;
    }
    let values = vec![
        ("variable_name".to_owned(), Value::Text(name)),
        ("variable_value".to_owned(), Value::Text(value)),
    ];
    Ok(FirstRow { table: "global_variables", values, place: None })
}

fn shown(value: &CnfValue) -> Option<String> {
    match value {
        CnfValue::Integer(number) => Some(number.to_string()),
        CnfValue::Float(number) => Some(number.to_string()),
        CnfValue::Boolean(flag) => Some(flag.to_string()),
        CnfValue::Text(text) => Some(text.clone()),
        CnfValue::List(_) | CnfValue::Group(_) => None,
    }
}

fn row(name: &'static str, item: &CnfEntry) -> Result<FirstRow, String> {
    let CnfValue::Group(fields) = &item.value else {
        return Err(format!("a row of `{name}` must be a group: {{ … }}"));
    };
    let Some(table) = tables::find(name) else { return Err(format!("no table {name}")) };
    let mut values = Vec::with_capacity(fields.len());
    for field in fields {
        let column = match (name, field.name.as_str()) {
            ("mysql_servers", "address") => "hostname",
            ("mysql_servers", "hostgroup") => "hostgroup_id",
            (_, other) => other,
        };
        if table.column(column).is_none() {
            return Err(format!("`{column}` is no column of {name}"));
        }
        let value = match &field.value {
            CnfValue::Integer(number) => Value::Integer(*number),
            CnfValue::Boolean(flag) => Value::Integer(i64::from(*flag)),
            CnfValue::Float(number) => Value::Real(*number),
            CnfValue::Text(text) => Value::Text(text.clone()),
            CnfValue::List(_) | CnfValue::Group(_) => {
                return Err(format!("`{column}` of {name} must be one value"));
            }
        };
        values.push((column.to_owned(), value));
    }
    // A column that must be there and that ProxySQL's files leave out.
    if table.column("comment").is_some_and(|column| column.is_needed && column.default.is_none())
        && !values.iter().any(|(column, _)| column == "comment")
    {
        values.push(("comment".to_owned(), Value::Text(String::new())));
    }
    Ok(FirstRow { table: name, values, place: None })
}
