//! Revisions: every change of what runs, who made it and when, and what was loaded.

use rusqlite::{OptionalExtension, Transaction};

use crate::{Module, SqlError, Store, layers::Layer, tables};

/// Revisions that are kept; the oldest ones go.
pub const REVISIONS_MAX: i64 = 10_000;
/// The longest content that is kept with a revision, in bytes. A longer one can't be loaded again.
pub const CONTENT_BYTES_MAX: usize = 4 << 20;
/// The most bytes of contents that are kept together. Those of the oldest revisions go first; the
/// revisions themselves stay.
pub const CONTENTS_BYTES_MAX: i64 = 256 << 20;

/// A number that grows with every change, over restarts too.
pub type Revision = i64;

/// What is noted of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevisionRow<'a> {
    /// When, in seconds of Unix time.
    pub changed_at: u64,
    /// Who: user and address, or the file that was read.
    pub author: &'a str,
    /// What part of the configuration.
    pub module: Module,
    /// The statement.
    pub command: &'a str,
    /// What it has changed, a line each.
    pub changes: &'a str,
    /// The layer that has what can be loaded again.
    pub content: Layer,
}

impl Store {
    /// Notes that a module was loaded from MEMORY and runs now; what runs is shown from now on by
    /// its `runtime_*` tables. Both happen or neither.
    ///
    /// # Errors
    /// Those of the database, such as a full disk.
    pub fn record(&mut self, row: RevisionRow<'_>) -> Result<Revision, SqlError> {
        let content = self.content(row.module, row.content)?;
        self.transaction(|tx| {
            tx.execute(
                "INSERT INTO disk.config_history
                 (changed_at, author, module, command, changes, content)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                rusqlite::params![
                    i64::try_from(row.changed_at).unwrap_or(i64::MAX),
                    row.author,
                    row.module.name(),
                    row.command,
                    row.changes,
                    content,
                ],
            )?;
            let revision = tx.last_insert_rowid();
            tx.execute(
                "DELETE FROM disk.config_history WHERE revision <= ?1",
                [revision - REVISIONS_MAX],
            )?;
            drop_old_contents(tx)?;
            Ok(revision)
        })
    }

    /// Puts what a revision had loaded back into MEMORY, all of it or nothing.
    ///
    /// # Errors
    /// When there is no such revision of this module, or its content was too long to be kept.
    pub fn restore(&mut self, module: Module, revision: Revision) -> Result<u64, SqlError> {
        let content: Option<Option<String>> = self
            .conn
            .query_row(
                "SELECT content FROM disk.config_history WHERE revision = ?1 AND module = ?2",
                rusqlite::params![revision, module.name()],
                |row| row.get(0),
            )
            .optional()?;
        let name = module.name();
        let content = match content {
            None => {
                return Err(SqlError::Other(format!("there is no revision {revision} of {name}")));
            }
            Some(None) => {
                let reason = format!(
                    "the content of revision {revision} was not kept: it was too long, or is too old"
                );
                return Err(SqlError::Other(reason));
            }
            Some(Some(content)) => content,
        };
        self.transaction(|tx| {
            let mut rows = 0;
            for (at, (table, columns)) in contents_of(module)?.into_iter().enumerate() {
                let condition = condition(module);
                tx.execute(&format!("DELETE FROM main.{table} {condition}"), [])?;
                let values: Vec<String> = (0..columns.split(',').count())
                    .map(|column| {
                        format!(
                            "iif(json_type(value, '$[{column}].hex') IS NULL, \
                         json_extract(value, '$[{column}]'), \
                         unhex(json_extract(value, '$[{column}].hex')))"
                        )
                    })
                    .collect();
                rows += tx.execute(
                    &format!(
                        "INSERT INTO main.{table} ({columns}) SELECT {} \
                         FROM json_each(?1, '$[{at}]')",
                        values.join(",")
                    ),
                    [&content],
                )?;
            }
            Ok(u64::try_from(rows).unwrap_or(u64::MAX))
        })
    }

    /// The rows of a module as JSON: a list for each table, of a list for each row. Bytes are
    /// `{"hex":…}`. `None` when that is longer than [`CONTENT_BYTES_MAX`].
    fn content(&self, module: Module, layer: Layer) -> Result<Option<String>, SqlError> {
        let mut content = String::from("[");
        for (at, (table, columns)) in contents_of(module)?.into_iter().enumerate() {
            content.push_str(if at == 0 { "[" } else { ",[" });
            let values: Vec<String> = columns
                .split(',')
                .map(|column| {
                    format!(
                        "json(CASE typeof({column}) WHEN 'blob' \
                         THEN json_object('hex', hex({column})) ELSE json_quote({column}) END)"
                    )
                })
                .collect();
            let sql = format!(
                "SELECT json_array({}) FROM {} {}",
                values.join(","),
                layer.table(table),
                condition(module),
            );
            let mut stmt = self.conn.prepare(&sql)?;
            let mut rows = stmt.query([])?;
            while let Some(row) = rows.next()? {
                if !content.ends_with('[') {
                    content.push(',');
                }
                content.push_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
                if content.len() > CONTENT_BYTES_MAX {
                    return Ok(None);
                }
            }
            content.push(']');
        }
        content.push(']');
        Ok(Some(content).filter(|content| content.len() <= CONTENT_BYTES_MAX))
    }
}

/// Lets the contents of the oldest revisions go, where there are too many bytes of them.
fn drop_old_contents(tx: &Transaction<'_>) -> Result<(), SqlError> {
    let sum = "SELECT ifnull(sum(octet_length(content)), 0) FROM disk.config_history";
    let bytes: i64 = tx.query_row(sum, [], |row| row.get(0))?;
    if bytes <= CONTENTS_BYTES_MAX {
        return Ok(());
    }
    // A little more than needed, so that it is not done again by the next load.
    tx.execute(
        "UPDATE disk.config_history SET content = NULL WHERE content IS NOT NULL AND revision <= (
             SELECT max(revision) FROM (
                 SELECT revision, sum(octet_length(content)) OVER (ORDER BY revision DESC) AS bytes
                 FROM disk.config_history)
             WHERE bytes > ?1)",
        [CONTENTS_BYTES_MAX / 10 * 9],
    )?;
    Ok(())
}

/// The tables of a module with their columns as SQL takes them.
fn contents_of(module: Module) -> Result<Vec<(&'static str, String)>, SqlError> {
    let names = match module.prefix() {
        Some(_) => &["global_variables"][..],
        None => module.tables(),
    };
    let with_columns = |name: &&'static str| {
        let table = tables::find(name);
        table
            .map(|table| (*name, table.column_list()))
            .ok_or_else(|| SqlError::Other(format!("no such table: {name}")))
    };
    names.iter().map(with_columns).collect()
}

fn condition(module: Module) -> String {
    module.prefix().map_or_else(String::new, |prefix| {
        format!("WHERE substr(variable_name, 1, {}) = '{prefix}'", prefix.len())
    })
}
