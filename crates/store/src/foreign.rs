//! ProxySQL's own database, read once.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, types::Value};

use crate::{
    SqlError,
    tables::{self, Schema},
};

/// A row of one table: columns with their values.
pub type NamedRow = (&'static str, Vec<(String, Value)>);

/// The first bytes of a database file.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

/// Reads `proxysql.db`: the rows of the tables that are known here, as far as their columns are.
/// Nothing is written there.
///
/// # Errors
/// When the file is no database, or damaged.
pub fn read_foreign(path: &Path) -> Result<Vec<NamedRow>, SqlError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    let mut rows = Vec::new();
    for table in tables::all().filter(|table| table.schemas.contains(&Schema::Disk)) {
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
        let there: i64 = conn.query_row(sql, [table.name], |row| row.get(0))?;
        let is_own = matches!(table.name, "global_settings" | "config_history");
        if there == 0 || is_own {
            continue;
        }
        let mut stmt = conn.prepare(&format!("SELECT * FROM \"{}\"", table.name))?;
        let names: Vec<String> = stmt.column_names().map(str::to_owned).collect();
        let mut found = stmt.query([])?;
        while let Some(row) = found.next()? {
            let mut values = Vec::new();
            for (at, name) in names.iter().enumerate() {
                if let Some(column) = table.column(name) {
                    values.push((column.quoted(), row.get(at)?));
                }
            }
            rows.push((table.name, values));
        }
    }
    Ok(rows)
}
