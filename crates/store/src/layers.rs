//! The layers MEMORY, DISK and RUNTIME, and copies between them.

use std::{borrow::Borrow, ops::ControlFlow};

use rusqlite::{
    Transaction,
    types::{Value, ValueRef},
};

use crate::{
    Module, SqlError, Store,
    tables::{self, Schema},
};

/// A copy of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// What is edited: tables of `main`.
    Memory,
    /// What is kept: tables of `disk`.
    Disk,
    /// What runs: tables `runtime_*` of `main`, or `loaded_*` where those show something else.
    Runtime,
}

impl Layer {
    /// The full name of a table in this layer.
    pub fn table(self, name: &str) -> String {
        match self {
            Self::Memory => format!("main.{name}"),
            Self::Disk => format!("disk.{name}"),
            Self::Runtime if tables::shown_rows(name).is_some() || tables::is_shown_apart(name) => {
                format!("main.loaded_{name}")
            }
            Self::Runtime => format!("main.runtime_{name}"),
        }
    }

    /// Its name in statements.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "MEMORY",
            Self::Disk => "DISK",
            Self::Runtime => "RUNTIME",
        }
    }
}

/// A row that one layer has and another one has not.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The table.
    pub table: &'static str,
    /// Whether the first layer has it, else the second.
    pub is_in_first: bool,
    /// The row.
    pub row: Vec<Value>,
}

/// A row where it lies.
#[derive(Clone, Copy)]
pub struct StoredRow<'a> {
    row: &'a rusqlite::Row<'a>,
    width: usize,
}

impl<'a> StoredRow<'a> {
    /// The value of the column at this place of the definition.
    pub fn value(&self, at: usize) -> ValueRef<'a> {
        self.row.get_ref(at).unwrap_or(ValueRef::Null)
    }

    /// All values, in the order of the columns.
    pub fn values(&self) -> impl Iterator<Item = ValueRef<'a>> + use<'a> {
        let row = *self;
        (0..self.width).map(move |at| row.value(at))
    }
}

/// Which rows of a table are read, as parts of a `SELECT`.
#[derive(Debug, Clone, Copy)]
pub struct Chosen {
    /// The table's name in every layer.
    pub table: &'static str,
    /// The columns, or expressions of them.
    pub columns: &'static str,
    /// The condition that a row meets.
    pub only: &'static str,
    /// What they are sorted by.
    pub order: &'static str,
}

impl Store {
    /// Copies a module from one layer to another, all of it or nothing. The number of rows.
    ///
    /// # Errors
    /// Those of the database; nothing has changed then.
    pub fn copy(&mut self, module: Module, from: Layer, to: Layer) -> Result<u64, SqlError> {
        self.transaction(|tx| copy_in(tx, module, from, to))
    }

    /// Replaces all rows of one table in a layer.
    ///
    /// # Errors
    /// When a row does not fit the table; nothing has changed then.
    pub fn replace(
        &mut self,
        layer: Layer,
        table: &str,
        rows: &[Vec<Value>],
    ) -> Result<(), SqlError> {
        let name = layer.table(table);
        self.transaction(|tx| fill(tx, &name, rows))
    }

    /// Replaces the rows of `runtime_mysql_servers`. They show how servers are now, and no
    /// configuration is made of them.
    ///
    /// # Errors
    /// When a row does not fit.
    pub fn show_servers(&mut self, rows: &[Vec<Value>]) -> Result<(), SqlError> {
        self.transaction(|tx| fill(tx, "main.runtime_mysql_servers", rows))
    }

    /// Replaces all rows of tables of one schema, such as `stats`.
    ///
    /// # Errors
    /// When a row does not fit its table; nothing has changed then.
    pub fn fill(
        &mut self,
        schema: Schema,
        filled: &[(&str, Vec<Vec<Value>>)],
    ) -> Result<(), SqlError> {
        self.transaction(|tx| {
            for (table, rows) in filled {
                fill(tx, &format!("{}.{table}", schema.name()), rows)?;
            }
            Ok(())
        })
    }

    /// Replaces all rows of one table of a schema, with rows that are made as they are written.
    ///
    /// # Errors
    /// As [`Self::fill`].
    pub fn fill_with(
        &mut self,
        schema: Schema,
        table: &str,
        rows: impl Iterator<Item = Vec<Value>>,
    ) -> Result<(), SqlError> {
        let name = format!("{}.{table}", schema.name());
        self.transaction(|tx| {
            tx.execute(&format!("DELETE FROM {name}"), [])?;
            insert(tx, &name, rows)
        })
    }

    /// Replaces all rows of a table by those of another one with the same columns.
    ///
    /// # Errors
    /// Those of the database; nothing has changed then.
    pub fn fill_like(&mut self, schema: Schema, table: &str, like: &str) -> Result<(), SqlError> {
        let schema = schema.name();
        self.transaction(|tx| {
            tx.execute(&format!("DELETE FROM {schema}.{table}"), [])?;
            let copy = format!("INSERT INTO {schema}.{table} SELECT * FROM {schema}.{like}");
            tx.execute(&copy, [])?;
            Ok(())
        })
    }

    /// Adds rows to a table of a schema.
    ///
    /// # Errors
    /// When a row does not fit the table; nothing has changed then.
    pub fn append(
        &mut self,
        schema: Schema,
        table: &str,
        rows: &[Vec<Value>],
    ) -> Result<(), SqlError> {
        let name = format!("{}.{table}", schema.name());
        self.transaction(|tx| insert(tx, &name, rows.iter()))
    }

    /// Adds rows of which only some columns are given, to any tables of a layer; a row with the
    /// same key is replaced.
    ///
    /// # Errors
    /// When a row does not fit its table; nothing has changed then.
    pub fn insert_named(
        &mut self,
        layer: Layer,
        rows: &[(&str, &[(String, Value)])],
    ) -> Result<(), SqlError> {
        self.transaction(|tx| {
            for (table, values) in rows {
                let columns: Vec<&str> = values.iter().map(|(column, _)| column.as_str()).collect();
                let places = vec!["?"; columns.len()].join(",");
                let sql = format!(
                    "INSERT OR REPLACE INTO {} ({}) VALUES ({places})",
                    layer.table(table),
                    columns.join(",")
                );
                let values = values.iter().map(|(_, value)| value);
                tx.execute(&sql, rusqlite::params_from_iter(values)).map_err(|error| {
                    SqlError::Other(format!("{table}: {}", SqlError::from(error)))
                })?;
            }
            Ok(())
        })
    }

    /// Notes a new checksum of a module that runs, with its version one higher.
    ///
    /// # Errors
    /// Those of the database.
    pub fn note_checksum(
        &mut self,
        name: &str,
        epoch: u64,
        checksum: &str,
    ) -> Result<(), SqlError> {
        self.conn.execute(
            "INSERT OR REPLACE INTO main.runtime_checksums_values
             SELECT ?1, ifnull((SELECT version FROM main.runtime_checksums_values
                                WHERE name = ?1), 0) + 1, ?2, ?3",
            rusqlite::params![name, i64::try_from(epoch).unwrap_or(i64::MAX), checksum],
        )?;
        Ok(())
    }

    /// Puts variables into a layer; those that are there already get the new value.
    ///
    /// # Errors
    /// Those of the database; nothing has changed then.
    pub fn put_variables<'a>(
        &mut self,
        layer: Layer,
        variables: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), SqlError> {
        let sql = format!("INSERT OR REPLACE INTO {} VALUES (?1, ?2)", layer.table(VARIABLES));
        self.transaction(|tx| {
            let mut stmt = tx.prepare(&sql)?;
            for (name, value) in variables {
                stmt.execute([name, value])?;
            }
            Ok(())
        })
    }

    /// The rows of a table in a layer, in the order of its key, with all columns.
    ///
    /// # Errors
    /// Those of the database.
    pub fn rows(&self, layer: Layer, table: &str) -> Result<Vec<Vec<Value>>, SqlError> {
        let definition = definition(table)?;
        let columns = definition.column_list();
        let sql = format!("SELECT {columns} FROM {} ORDER BY rowid", layer.table(table));
        rows_of(&mut self.conn.prepare(&sql)?, [], definition.columns.len())
    }

    /// The rows of `mysql_users` with this name.
    ///
    /// # Errors
    /// Those of the database.
    pub fn rows_of_user(&self, layer: Layer, name: &str) -> Result<Vec<Vec<Value>>, SqlError> {
        let definition = definition(USERS)?;
        let columns = definition.column_list();
        let table = layer.table(USERS);
        let sql = format!("SELECT {columns} FROM {table} WHERE username = ?1 ORDER BY rowid");
        let mut stmt = self.conn.prepare(&sql)?;
        rows_of(&mut stmt, [name], definition.columns.len())
    }

    /// Copies the rows of one user from MEMORY to RUNTIME.
    ///
    /// # Errors
    /// Those of the database; nothing has changed then.
    pub fn copy_user(&mut self, name: &str) -> Result<(), SqlError> {
        let (from, to) = (Layer::Memory.table(USERS), Layer::Runtime.table(USERS));
        let insert = format!("INSERT INTO {to} SELECT * FROM {from} WHERE username = ?1");
        self.transaction(|tx| {
            tx.execute(&format!("DELETE FROM {to} WHERE username = ?1"), [name])?;
            tx.execute(&insert, [name])?;
            Ok(())
        })
    }

    /// Shows each row of a table in a layer, in the same order and without copies, until `visit`
    /// says that it has seen enough.
    ///
    /// # Errors
    /// Those of the database.
    pub fn visit(
        &self,
        layer: Layer,
        table: &str,
        mut visit: impl FnMut(StoredRow<'_>) -> ControlFlow<()>,
    ) -> Result<(), SqlError> {
        let definition = definition(table)?;
        let columns = definition.column_list();
        let sql = format!("SELECT {columns} FROM {} ORDER BY rowid", layer.table(table));
        let width = definition.columns.len();
        let mut stmt = self.conn.prepare(&sql)?;
        let mut found = stmt.query([])?;
        while let Some(row) = found.next()? {
            if visit(StoredRow { row, width }).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Shows each of some rows of a table in a layer, in an order.
    ///
    /// # Errors
    /// Those of the database.
    pub fn visit_chosen(
        &self,
        layer: Layer,
        rows: &Chosen,
        mut visit: impl FnMut(StoredRow<'_>),
    ) -> Result<(), SqlError> {
        let Chosen { table, columns, only, order } = rows;
        let from = layer.table(table);
        let sql = format!("SELECT {columns} FROM {from} WHERE {only} ORDER BY {order}");
        let mut stmt = self.conn.prepare(&sql)?;
        let width = stmt.column_count();
        let mut found = stmt.query([])?;
        while let Some(row) = found.next()? {
            visit(StoredRow { row, width });
        }
        Ok(())
    }

    /// How many rows a table has in a layer.
    ///
    /// # Errors
    /// Those of the database.
    pub fn count(&self, layer: Layer, table: &str) -> Result<u64, SqlError> {
        let sql = format!("SELECT count(*) FROM {}", layer.table(table));
        let count: i64 = self.conn.query_row(&sql, [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Variables of a layer whose names begin with `prefix`.
    ///
    /// # Errors
    /// Those of the database.
    pub fn variables(&self, layer: Layer, prefix: &str) -> Result<Vec<(String, String)>, SqlError> {
        let sql = format!(
            "SELECT variable_name, variable_value FROM {} WHERE substr(variable_name, 1, {}) = ?1 \
             ORDER BY variable_name",
            layer.table(VARIABLES),
            prefix.len(),
        );
        let mut stmt = self.conn.prepare(&sql)?;
        let found = stmt.query_map([prefix], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Rows of a module that only one of two layers has.
    ///
    /// # Errors
    /// Those of the database.
    pub fn differences(
        &self,
        module: Module,
        first: Layer,
        second: Layer,
    ) -> Result<Vec<Difference>, SqlError> {
        let mut differences = Vec::new();
        let (tables, condition) = match module.prefix() {
            Some(prefix) => (&[VARIABLES][..], variables_of(prefix)),
            None => (module.tables(), String::new()),
        };
        for table in tables {
            let definition = definition(table)?;
            let columns = definition.column_list();
            for (has, lacks, is_in_first) in [(first, second, true), (second, first, false)] {
                let sql = format!(
                    "SELECT {columns} FROM {} {condition} \
                     EXCEPT SELECT {columns} FROM {} {condition}",
                    has.table(table),
                    lacks.table(table),
                );
                let mut stmt = self.conn.prepare(&sql)?;
                let rows = rows_of(&mut stmt, [], definition.columns.len())?;
                let found = rows.into_iter().map(|row| Difference { table, is_in_first, row });
                differences.extend(found);
            }
        }
        Ok(differences)
    }

    /// Runs `work` in a transaction that a failure undoes.
    pub(crate) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let tx = self.conn.transaction()?;
        let result = work(&tx)?;
        tx.commit()?;
        Ok(result)
    }
}

/// The table of users.
const USERS: &str = "mysql_users";
/// The table of variables.
const VARIABLES: &str = "global_variables";

/// The condition that finds variables by their prefix.
fn variables_of(prefix: &str) -> String {
    format!("WHERE substr(variable_name, 1, {}) = '{prefix}'", prefix.len())
}

fn definition(table: &str) -> Result<tables::Table, SqlError> {
    tables::find(table).ok_or_else(|| SqlError::Other(format!("no such table: {table}")))
}

pub(crate) fn copy_in(
    tx: &Transaction<'_>,
    module: Module,
    from: Layer,
    to: Layer,
) -> Result<u64, SqlError> {
    let mut rows = 0;
    if let Some(prefix) = module.prefix() {
        let condition = variables_of(prefix);
        let (from, to) = (from.table(VARIABLES), to.table(VARIABLES));
        rows += tx.execute(
            &format!("INSERT OR REPLACE INTO {to} SELECT * FROM {from} {condition}"),
            [],
        )?;
    }
    // A file may have been made by another version, with its columns in another order.
    let is_alike = from != Layer::Disk && to != Layer::Disk;
    for table in module.tables() {
        let columns = definition(table)?.column_list();
        let (from, to) = (from.table(table), to.table(table));
        tx.execute(&format!("DELETE FROM {to}"), [])?;
        let insert = match is_alike {
            // SQLite copies tables that are made alike as they lie, keys and all.
            true => format!("INSERT INTO {to} SELECT * FROM {from}"),
            false => {
                format!("INSERT INTO {to} ({columns}) SELECT {columns} FROM {from} ORDER BY rowid")
            }
        };
        rows += tx.execute(&insert, [])?;
    }
    Ok(u64::try_from(rows).unwrap_or(u64::MAX))
}

fn fill(tx: &Transaction<'_>, name: &str, rows: &[Vec<Value>]) -> Result<(), SqlError> {
    tx.execute(&format!("DELETE FROM {name}"), [])?;
    insert(tx, name, rows.iter())
}

fn insert(
    tx: &Transaction<'_>,
    name: &str,
    rows: impl Iterator<Item = impl Borrow<Vec<Value>>>,
) -> Result<(), SqlError> {
    let mut rows = rows.peekable();
    let Some(width) = rows.peek().map(|row| row.borrow().len()) else { return Ok(()) };
    let places = vec!["?"; width].join(",");
    let mut stmt = tx.prepare(&format!("INSERT INTO {name} VALUES ({places})"))?;
    for row in rows {
        stmt.execute(rusqlite::params_from_iter(row.borrow()))?;
    }
    Ok(())
}

fn rows_of(
    stmt: &mut rusqlite::Statement<'_>,
    params: impl rusqlite::Params,
    width: usize,
) -> Result<Vec<Vec<Value>>, SqlError> {
    let mut found = stmt.query(params)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push((0..width).map(|at| row.get(at)).collect::<Result<_, _>>()?);
    }
    Ok(rows)
}
