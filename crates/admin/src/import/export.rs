//! What was saved as a file: TOML for file mode, cnf as ProxySQL reads it, SQL for an admin port.

use std::fmt::Write;

use trunkline_config::{SECTIONS, variable};
use trunkline_store::{Layer, SqlError, Store, Value, tables};

use super::LISTS;
use crate::{service::document, sql::text::literal};

/// What kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Trunkline's own.
    Toml,
    /// ProxySQL's.
    Cnf,
    /// Statements.
    Sql,
}

/// What the first line of a file says.
const MARK: &str = "There are passwords in this file: keep it as secret as they are.";

/// The text of a file that holds what a layer holds. There are passwords in it, as its first line
/// says. Variables that have their defaults are left out of cnf and SQL.
///
/// # Errors
/// Those of the database.
pub fn export(store: &Store, layer: Layer, format: Format) -> Result<String, SqlError> {
    let (comment, text) = match format {
        Format::Toml => ("#", document::text(store, layer)? + &no_file_has(store, layer)?),
        Format::Cnf => ("#", cnf(store, layer)?),
        Format::Sql => ("--", sql(store, layer)?),
    };
    Ok(format!("{comment} {MARK}\n{text}"))
}

/// Variables that were set.
fn variables(store: &Store, layer: Layer, prefix: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut variables = store.variables(layer, prefix)?;
    variables.retain(|(name, value)| {
        let is_default = variable::find(name).is_some_and(|row| row.default_value() == *value);
        !is_default && name != "admin-version"
    });
    Ok(variables)
}

/// What a file of Trunkline's own has no place for, as comments: rows and variables that only a
/// database holds, such as scripts and the accounts of the admin port.
fn no_file_has(store: &Store, layer: Layer) -> Result<String, SqlError> {
    const MARK: &str = "# in a database only: ";
    let mut text = String::new();
    for (name, value) in variables(store, layer, "")? {
        let has_place = variable::find(&name).is_some_and(|row| row.setting().is_some());
        if !has_place {
            let _ = writeln!(text, "{MARK}{name} = {}", quoted(&value));
        }
    }
    for (_, name) in LISTS {
        let has_place = SECTIONS.iter().any(|section| section.table == name);
        let Some(table) = tables::find(name).filter(|_| !has_place) else { continue };
        for row in store.rows(layer, name)? {
            let _ = writeln!(text, "{MARK}[[{name}]]");
            for (column, value) in table.columns.iter().zip(&row) {
                let value = match value {
                    Value::Null => continue,
                    Value::Integer(number) => number.to_string(),
                    Value::Real(number) => format!("{number:?}"),
                    Value::Text(text) => quoted(text),
                    Value::Blob(bytes) => quoted(&String::from_utf8_lossy(bytes)),
                };
                let _ = writeln!(text, "{MARK}{} = {value}", column.name);
            }
        }
    }
    Ok(text)
}

/// A text in quotes, in one line.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn cnf(store: &Store, layer: Layer) -> Result<String, SqlError> {
    let mut text = String::new();
    for prefix in ["admin", "mysql", "trunkline"] {
        let set = variables(store, layer, &format!("{prefix}-"))?;
        if set.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{prefix}_variables =\n{{");
        for (name, value) in set {
            let bare = name.get(prefix.len() + 1..).unwrap_or_default();
            let _ = writeln!(text, "    {bare}={}", cnf_text(&value));
        }
        text.push_str("}\n\n");
    }
    for (key, name) in LISTS {
        let rows = store.rows(layer, name)?;
        let Some(table) = tables::find(name).filter(|_| !rows.is_empty()) else { continue };
        let _ = writeln!(text, "{key} =\n(");
        for (at, row) in rows.iter().enumerate() {
            let pairs = table.columns.iter().zip(row).filter_map(|(column, value)| {
                let value = match value {
                    Value::Null => return None,
                    Value::Integer(number) => number.to_string(),
                    Value::Real(number) => format!("{number:?}"),
                    Value::Text(text) => cnf_text(text),
                    Value::Blob(bytes) => cnf_text(&String::from_utf8_lossy(bytes)),
                };
                Some(format!("{}={value}", column.name))
            });
            let comma = if at + 1 < rows.len() { "," } else { "" };
            let pairs = pairs.collect::<Vec<_>>().join(" , ");
            let _ = writeln!(text, "    {{ {pairs} }}{comma}");
        }
        text.push_str(")\n\n");
    }
    Ok(text)
}

fn cnf_text(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t");
    format!("\"{escaped}\"")
}

fn sql(store: &Store, layer: Layer) -> Result<String, SqlError> {
    let mut text = String::new();
    for (name, value) in variables(store, layer, "")? {
        let (name, value) = (literal(&name), literal(&value));
        let _ = writeln!(
            text,
            "UPDATE global_variables SET variable_value={value} WHERE variable_name={name};"
        );
    }
    for (_, name) in LISTS {
        let Some(table) = tables::find(name) else { continue };
        for row in store.rows(layer, name)? {
            let values: Vec<String> = row.iter().map(sql_value).collect();
            let (columns, values) = (table.column_list(), values.join(","));
            let _ = writeln!(text, "REPLACE INTO {name} ({columns}) VALUES ({values});");
        }
    }
    Ok(text)
}

fn sql_value(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => literal(text),
        Value::Blob(bytes) => {
            let hex = bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02X}"));
            format!("x'{hex}'")
        }
    }
}
