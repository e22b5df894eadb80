//! From a folder to a store.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags};
use trunkline_net::private;

use crate::{
    SqlError, StoreError,
    access::Gate,
    functions,
    tables::{self, Schema},
};

/// The file of the layer DISK.
pub const DISK_FILE: &str = "trunkline.db";
/// The file of numbers of the past that are saved.
pub const STATS_FILE: &str = "trunkline_stats.db";
/// The row of `disk.global_settings` that says that a configuration has begun.
const BEGUN: &str = "trunkline-begun";
/// Held locked by the process that has the folder.
const LOCK_FILE: &str = "trunkline.lock";

/// Where what is saved is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: it is lost with the process.
    Memory,
    /// In files of this folder.
    Folder(PathBuf),
}

/// Says what is wrong with a variable's value: name, value.
pub type VariableCheck = Box<dyn Fn(&str, &str) -> Result<(), String> + Send>;

/// The database of one process.
pub struct Store {
    pub(crate) conn: Connection,
    pub(crate) gate: Gate,
    /// Whether no configuration has begun in it yet.
    is_new: bool,
    place: Place,
    /// What an operator should hear of its files.
    warnings: Vec<String>,
    /// Keeps other processes out while it is open.
    _lock: Option<File>,
}

impl Store {
    /// Opens the database, making what is missing. `check` judges values written to
    /// `global_variables`.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when a file is not what it should be; nothing is changed then.
    pub fn open(place: &Place, check: VariableCheck) -> Result<Self, StoreError> {
        let (mut lock, mut warnings) = (None, Vec::new());
        let files = match place {
            Place::Memory => [None, None],
            Place::Folder(folder) => {
                lock = Some(take_folder(folder)?);
                warnings = make_private(folder)?;
                [Some(folder.join(DISK_FILE)), Some(folder.join(STATS_FILE))]
            }
        };
        let mut conn = connect()?;
        let [disk, history] = files;
        attach(&conn, Schema::Disk, disk.as_deref())?;
        attach(&conn, Schema::Stats, None)?;
        attach(&conn, Schema::Monitor, None)?;
        attach(&conn, Schema::StatsHistory, None)?;
        attach(&conn, Schema::StatsSaved, history.as_deref())?;
        attach_described(&conn)?;
        make_tables(&conn)?;
        let is_new = !is_begun(&conn)?;
        let gate = Gate::install(&mut conn)?;
        functions::add(&conn, gate.clone(), check)?;
        guard_variables(&conn)?;
        Ok(Self { conn, gate, is_new, place: place.clone(), warnings, _lock: lock })
    }

    /// A database of its own for statements that shall hold up nobody who works with this one:
    /// users of statistics have one. Its tables are empty until they are filled; saved digests
    /// are those of the same file, as they are when a statement begins.
    ///
    /// # Errors
    /// Those of the database.
    pub fn open_beside(place: &Place) -> Result<Self, StoreError> {
        let mut conn = connect()?;
        for schema in [Schema::Disk, Schema::Stats, Schema::Monitor, Schema::StatsHistory] {
            attach(&conn, schema, None)?;
        }
        match place {
            Place::Memory => attach(&conn, Schema::StatsSaved, None)?,
            Place::Folder(folder) => attach_again(&conn, &folder.join(STATS_FILE))?,
        }
        attach_described(&conn)?;
        make_tables(&conn)?;
        let gate = Gate::install(&mut conn)?;
        let check = |_: &str, _: &str| Err("nothing is set here".to_owned());
        functions::add(&conn, gate.clone(), Box::new(check))?;
        let (place, warnings) = (Place::Memory, Vec::new());
        Ok(Self { conn, gate, is_new: false, place, warnings, _lock: None })
    }

    /// What an operator should hear of its files.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Where what is saved is kept.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether no configuration had begun in it when it was opened; see [`Self::begin`].
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Notes that a configuration has begun in it: what is there from now on is what was saved,
    /// even if that is nothing.
    ///
    /// # Errors
    /// Those of the database.
    pub fn begin(&mut self) -> Result<(), SqlError> {
        let sql = "INSERT OR REPLACE INTO disk.global_settings VALUES (?1, ?2)";
        self.conn.execute(sql, [BEGUN, "1"])?;
        Ok(())
    }

    /// Reads the file of the layer DISK anew: it may have been put in another one's place.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when it is not what it should be. There is no layer DISK then, and
    /// whatever needs it fails, until this succeeds.
    pub fn reopen_disk(&mut self) -> Result<(), StoreError> {
        let Place::Folder(folder) = &self.place else { return Ok(()) };
        // The one that is open goes first: the two would share their logs by name.
        drop(self.conn.execute_batch(&format!("DETACH DATABASE {}", Schema::Disk.name())));
        attach(&self.conn, Schema::Disk, Some(&folder.join(DISK_FILE)))?;
        Ok(make_tables(&self.conn)?)
    }

    /// Removes the files of a folder in which no configuration has begun, and the folder if nothing
    /// else is there. Its store must be closed.
    ///
    /// # Errors
    /// When another process has the folder, or a file can't be removed.
    pub fn discard_new(folder: &Path) -> Result<(), StoreError> {
        let _lock = take_folder(folder)?;
        for name in [DISK_FILE, STATS_FILE] {
            for suffix in ["", "-wal", "-shm"] {
                let path = folder.join(format!("{name}{suffix}"));
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(at(&path, error));
                    }
                    Ok(()) | Err(_) => {}
                }
            }
        }
        let lock = folder.join(LOCK_FILE);
        fs::remove_file(&lock).map_err(|source| at(&lock, source))?;
        // It fails when something else is there, and then it stays.
        drop(fs::remove_dir(folder));
        Ok(())
    }

    /// Renames the files of a folder, so that the next [`Self::open`] begins anew. The new name of
    /// the first one, when there was any.
    ///
    /// # Errors
    /// When another process has the folder, or a file can't be renamed.
    pub fn set_aside(folder: &Path, now_unix_sec: u64) -> Result<Option<PathBuf>, StoreError> {
        let _lock = take_folder(folder)?;
        let mut first = None;
        for name in [DISK_FILE, STATS_FILE] {
            for suffix in ["", "-wal", "-shm"] {
                let from = folder.join(format!("{name}{suffix}"));
                if !from.exists() {
                    continue;
                }
                let to = folder.join(format!("{name}.kept-{now_unix_sec}{suffix}"));
                fs::rename(&from, &to).map_err(|source| at(&from, source))?;
                first.get_or_insert(to);
            }
        }
        Ok(first)
    }
}

fn at(path: &Path, source: io::Error) -> StoreError {
    StoreError::File { path: path.to_owned(), source }
}

/// Makes the folder if needed, for its owner alone, and keeps other processes out.
fn take_folder(folder: &Path) -> Result<File, StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| at(folder, source))?;
    let path = folder.join(LOCK_FILE);
    let lock = own_file(&path)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(StoreError::InUse(folder.to_owned())),
        Err(fs::TryLockError::Error(source)) => Err(at(&path, source)),
    }
}

/// A file that nobody else may read: there are passwords in it.
fn own_file(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(|source| at(path, source))
}

/// Takes from others what they may do with the files that were there; a line for each.
fn make_private(folder: &Path) -> Result<Vec<String>, StoreError> {
    let mut lines = Vec::new();
    for name in [DISK_FILE, STATS_FILE] {
        for suffix in ["", "-wal", "-shm"] {
            let path = folder.join(format!("{name}{suffix}"));
            lines.extend(private::make_private(&path).map_err(|source| at(&path, source))?);
        }
    }
    Ok(lines)
}

fn connect() -> Result<Connection, SqlError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_in_memory_with_flags(flags)?)
}

/// Attaches a file, or memory, as a schema.
fn attach(conn: &Connection, schema: Schema, file: Option<&Path>) -> Result<(), StoreError> {
    let name = schema.name();
    let Some(path) = file else {
        let sql = format!("ATTACH DATABASE ':memory:' AS {name}");
        return Ok(conn.execute_batch(&sql).map_err(SqlError::from)?);
    };
    drop(own_file(path)?);
    let text = path.to_str().ok_or_else(|| at(path, io::ErrorKind::InvalidFilename.into()))?;
    let attached = conn
        .execute(&format!("ATTACH DATABASE ?1 AS {name}"), [text])
        .and_then(|_| check_file(conn, name));
    if !attached.as_ref().is_ok_and(|report| report == "ok") {
        // What can't be used is let go; it may not have got as far as being attached.
        drop(conn.execute_batch(&format!("DETACH DATABASE {name}")));
    }
    match attached {
        Ok(report) if report == "ok" => Ok(()),
        Ok(reason) => Err(StoreError::Damaged { path: path.to_owned(), reason }),
        Err(error) if is_damage(&error) => Err(StoreError::Damaged {
            path: path.to_owned(),
            reason: SqlError::from(error).to_string(),
        }),
        Err(error) => {
            let reason = SqlError::from(error);
            Err(StoreError::Sql(SqlError::Other(format!("{}: {reason}", path.display()))))
        }
    }
}

/// Attaches what is saved of the numbers of the past, which was checked when it was attached
/// first.
fn attach_again(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let text = path.to_str().ok_or_else(|| at(path, io::ErrorKind::InvalidFilename.into()))?;
    let sql = format!("ATTACH DATABASE ?1 AS {}", Schema::StatsSaved.name());
    conn.execute(&sql, [text]).map_err(SqlError::from)?;
    Ok(())
}

/// What SQLite says of a file: `ok`, or what is wrong. Written pages are on the disk before a
/// transaction counts as done.
fn check_file(conn: &Connection, schema: &str) -> rusqlite::Result<String> {
    let report: String =
        conn.query_row(&format!("PRAGMA {schema}.quick_check(1)"), [], |row| row.get(0))?;
    if report == "ok" {
        let pragma = format!("PRAGMA {schema}.journal_mode = WAL");
        conn.query_row(&pragma, [], |row| row.get::<_, String>(0))?;
        conn.execute_batch(&format!("PRAGMA {schema}.synchronous = FULL"))?;
    }
    Ok(report)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

fn is_begun(conn: &Connection) -> Result<bool, SqlError> {
    let sql = "SELECT count(*) FROM disk.global_settings WHERE variable_name = ?1";
    Ok(conn.query_row(sql, [BEGUN], |row| row.get::<_, i64>(0))? > 0)
}

/// MySQL's description of schemas, tables and columns, as far as tools that show them ask for it.
const DESCRIBED: &str = "
    ATTACH DATABASE ':memory:' AS information_schema;
    CREATE TABLE information_schema.SCHEMATA (
        CATALOG_NAME, SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME);
    CREATE TABLE information_schema.TABLES (
        TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_ROWS, CREATE_TIME,
        TABLE_COLLATION, TABLE_COMMENT);
    CREATE TABLE information_schema.FILES (
        LOGFILE_GROUP_NAME, FILE_NAME, FILE_TYPE, TOTAL_EXTENTS, INITIAL_SIZE, ENGINE, EXTRA,
        TABLESPACE_NAME, EXTENT_SIZE);
    CREATE TABLE information_schema.TRIGGERS (
        TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE);
    CREATE TABLE information_schema.EVENTS (EVENT_SCHEMA, EVENT_NAME);
    CREATE TABLE information_schema.ROUTINES (
        ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE, ROUTINE_COMMENT, SPECIFIC_NAME);
    CREATE TABLE information_schema.PARAMETERS (
        SPECIFIC_SCHEMA, SPECIFIC_NAME, ORDINAL_POSITION, PARAMETER_MODE, PARAMETER_NAME, DATA_TYPE,
        CHARACTER_MAXIMUM_LENGTH, CHARACTER_OCTET_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE,
        DATETIME_PRECISION, DTD_IDENTIFIER, ROUTINE_TYPE);
    CREATE TABLE information_schema.STATISTICS (
        TABLE_SCHEMA, TABLE_NAME COLLATE NOCASE, NON_UNIQUE, INDEX_NAME COLLATE NOCASE,
        SEQ_IN_INDEX, COLUMN_NAME, COLLATION, CARDINALITY);
    CREATE TABLE information_schema.KEY_COLUMN_USAGE (
        CONSTRAINT_CATALOG, CONSTRAINT_SCHEMA, CONSTRAINT_NAME, TABLE_CATALOG, TABLE_SCHEMA,
        TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, POSITION_IN_UNIQUE_CONSTRAINT,
        REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME,
        REFERENCED_COLUMN_NAME);
    CREATE TABLE information_schema.REFERENTIAL_CONSTRAINTS (
        CONSTRAINT_CATALOG, CONSTRAINT_SCHEMA, CONSTRAINT_NAME, UNIQUE_CONSTRAINT_NAME, TABLE_NAME,
        REFERENCED_TABLE_NAME, UPDATE_RULE, DELETE_RULE);
    CREATE TABLE information_schema.TABLE_PRIVILEGES (
        GRANTEE, TABLE_SCHEMA, TABLE_NAME, PRIVILEGE_TYPE, IS_GRANTABLE);
    CREATE TABLE information_schema.COLUMN_PRIVILEGES (
        GRANTEE, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, PRIVILEGE_TYPE, IS_GRANTABLE);
    CREATE TABLE information_schema.VIEWS (TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION);
    CREATE TABLE information_schema.PARTITIONS (
        TABLE_SCHEMA, TABLE_NAME, PARTITION_NAME, TABLESPACE_NAME);
    CREATE TABLE information_schema.COLUMNS (
        TABLE_CATALOG, TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, ORDINAL_POSITION, COLUMN_DEFAULT,
        IS_NULLABLE COLLATE NOCASE, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION,
        NUMERIC_SCALE, COLUMN_TYPE, COLUMN_KEY COLLATE NOCASE, EXTRA, COLUMN_COMMENT,
        GENERATION_EXPRESSION, CHARACTER_OCTET_LENGTH, DATETIME_PRECISION);";

/// Attaches that description, made from the definitions.
fn attach_described(conn: &Connection) -> Result<(), SqlError> {
    conn.execute_batch(DESCRIBED)?;
    let mut tables = conn.prepare(
        "INSERT INTO information_schema.TABLES
         VALUES ('def', ?1, ?2, 'BASE TABLE', 'SQLite', NULL, NULL, 'utf8mb4_general_ci', '')",
    )?;
    let mut columns = conn.prepare(
        "INSERT INTO information_schema.COLUMNS
         VALUES ('def', ?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL, NULL, NULL, ?7, ?8, '', '', '', NULL,
                 NULL)",
    )?;
    let mut keys = conn.prepare(
        "INSERT INTO information_schema.STATISTICS
         VALUES (?1, ?2, 0, 'PRIMARY', ?3, ?4, 'A', NULL)",
    )?;
    for schema in Schema::ALL {
        let name = schema.name();
        conn.execute(
            "INSERT INTO information_schema.SCHEMATA
             VALUES ('def', ?1, 'utf8mb4', 'utf8mb4_general_ci')",
            [name],
        )?;
        for table in tables::all().filter(|table| table.schemas.contains(&schema)) {
            tables.execute([name, table.name])?;
            let primary = table.primary_key();
            for (at, column) in primary.iter().enumerate() {
                let position = i64::try_from(at + 1).unwrap_or(i64::MAX);
                keys.execute(rusqlite::params![name, table.name, position, column])?;
            }
            for (at, column) in table.columns.iter().enumerate() {
                let position = i64::try_from(at + 1).unwrap_or(i64::MAX);
                let null = if column.is_needed { "NO" } else { "YES" };
                let kind = if column.is_number() { "bigint" } else { "varchar" };
                let key = if primary.contains(&column.name) { "PRI" } else { "" };
                columns.execute(rusqlite::params![
                    name,
                    table.name,
                    column.name,
                    position,
                    column.default,
                    null,
                    kind,
                    key
                ])?;
            }
        }
    }
    Ok(())
}

/// Makes the tables that are missing, all or none of a schema.
fn make_tables(conn: &Connection) -> Result<(), SqlError> {
    for schema in Schema::ALL.into_iter().chain([Schema::StatsSaved]) {
        let mut sql = String::from("BEGIN;\n");
        for table in tables::all().filter(|table| table.is_in(schema)) {
            sql.push_str(&table.create_in(schema));
            sql.push_str(";\n");
        }
        sql.push_str("COMMIT;");
        conn.execute_batch(&sql)?;
    }
    Ok(())
}

/// Has values of variables judged when they are written.
fn guard_variables(conn: &Connection) -> Result<(), SqlError> {
    for event in ["INSERT", "UPDATE"] {
        conn.execute_batch(&format!(
            "CREATE TRIGGER main.variables_before_{event} BEFORE {event} ON global_variables
             BEGIN SELECT trunkline_check_variable(NEW.variable_name, NEW.variable_value); END"
        ))?;
    }
    Ok(())
}
