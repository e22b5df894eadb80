//! `mysql_hostgroup_attributes`: what is said of a hostgroup as a whole.

use std::fmt::Write;

use trunkline_config::variable::quoted;
use trunkline_store::{Layer, SqlError, Store, Value, tables::Table};

use super::document::{Fields, is_default, shown};

/// A row of `mysql_hostgroup_attributes`, as far as it has an effect.
pub(super) struct HostgroupRow {
    pub(super) id: Value,
    pub(super) splits_reads: bool,
    pipeline: Option<String>,
    comment: Value,
    /// Members of `hostgroup_settings` and columns that were set and have no effect.
    pub(super) without_effect: Vec<String>,
}

impl HostgroupRow {
    fn read(table: &Table, row: &[Value]) -> Self {
        let fields = Fields { table, row };
        let mut read = Self {
            id: fields.value("hostgroup_id").cloned().unwrap_or(Value::Null),
            splits_reads: false,
            pipeline: None,
            comment: fields.value("comment").cloned().unwrap_or(Value::Null),
            without_effect: Vec::new(),
        };
        for (column, value) in table.columns.iter().zip(row) {
            let is_read = matches!(column.name, "hostgroup_id" | "hostgroup_settings" | "comment");
            if !is_read && !is_default(value, column.default) {
                read.without_effect.push(column.name.to_owned());
            }
        }
        // The table itself lets no text in that is not JSON.
        let settings = serde_json::from_str(&fields.text("hostgroup_settings"));
        let settings: serde_json::Map<String, serde_json::Value> = settings.unwrap_or_default();
        for (name, value) in settings {
            match name.as_str() {
                "read_write_split" => read.splits_reads = value == "auto",
                "pipeline" => {
                    let word = value.as_str().map(str::to_owned);
                    read.pipeline = Some(word.unwrap_or_else(|| value.to_string()));
                }
                _ => read.without_effect.push(name),
            }
        }
        read
    }

    /// Its entry of a file; nothing when it would have no effect.
    pub(super) fn document(&self) -> Option<String> {
        if self.pipeline.is_none() && shown(&self.comment).is_empty() {
            return None;
        }
        let mut text = format!("[[hostgroup]]\nhostgroup_id = {}\n", shown(&self.id));
        if let Some(pipeline) = &self.pipeline {
            let _ = writeln!(text, "pipeline = {}", quoted(pipeline));
        }
        match shown(&self.comment) {
            comment if comment.is_empty() => {}
            comment => {
                let _ = writeln!(text, "comment = {}", quoted(&comment));
            }
        }
        Some(text)
    }
}

/// The rows of a layer.
pub(super) fn hostgroup_rows(store: &Store, layer: Layer) -> Result<Vec<HostgroupRow>, SqlError> {
    let name = "mysql_hostgroup_attributes";
    let Some(table) = trunkline_store::tables::find(name) else { return Ok(Vec::new()) };
    let rows = store.rows(layer, name)?;
    Ok(rows.iter().map(|row| HostgroupRow::read(&table, row)).collect())
}
