//! Revisions: every change of what runs, who made it and when, and what was loaded.

use rusqlite::OptionalExtension;

use crate::{Module, SqlError, Store, layers::Layer, tables};

/// Revisions that are kept; the oldest ones go.
pub const REVISIONS_MAX: i64 = 10_000;
/// The longest content that is kept with a revision, in bytes. A longer one can't be loaded again.
pub const CONTENT_BYTES_MAX: usize = 4 << 20;

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
}

impl Store {
    /// Notes that a module was loaded from MEMORY and runs now; what runs is shown from now on by
    /// its `runtime_*` tables. Both happen or neither.
    ///
    /// # Errors
    /// Those of the database, such as a full disk.
    pub fn record(&mut self, row: RevisionRow<'_>) -> Result<Revision, SqlError> {
        let content = self.content(row.module)?;
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
                let reason = format!("the content of revision {revision} was too long to be kept");
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
    fn content(&self, module: Module) -> Result<Option<String>, SqlError> {
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
                Layer::Memory.table(table),
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
