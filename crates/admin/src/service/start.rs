//! What runs first: what was saved, or what a file says.

use std::{cell::RefCell, path::PathBuf};

use trunkline_config::{Config, Snapshot, difference, variable};
use trunkline_protocol::{collation, packet::greeting::Flavor};
use trunkline_store::{Layer, Module, Place, Store, StoreError, Value, tables::Schema};

use super::{
    document::{self, MakeError},
    load::{note_checksum, spell, unix_sec},
};
use crate::{import::Imported, port::Accounts};

/// A row for an empty database.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstRow {
    /// Its table.
    pub table: &'static str,
    /// Columns with their values; the others have their defaults.
    pub values: Vec<(String, Value)>,
    /// The file and the line that it begins in, where there is one.
    pub place: Option<String>,
}

impl FirstRow {
    /// Its table, and its columns with their values.
    pub(super) fn named(&self) -> (&str, &[(String, Value)]) {
        (self.table, self.values.as_slice())
    }
}

/// From what to start.
pub struct Start<'a> {
    /// Where the files are.
    pub folder: PathBuf,
    /// Whether to begin anew; what is there is kept under another name.
    pub is_initial: bool,
    /// Reads what an empty database begins with, or says what is wrong with it.
    pub first: &'a dyn Fn() -> Result<Imported, Vec<String>>,
}

/// What has started.
pub struct Started {
    /// The store; its layers agree.
    pub store: Store,
    /// What runs.
    pub config: Config,
    /// Where the admin port listens.
    pub listen: Vec<String>,
    /// What an operator should hear.
    pub warnings: Vec<String>,
    /// Whether the database was empty, and the file has been read.
    pub is_first: bool,
}

/// Why nothing has started.
#[derive(Debug)]
pub struct StartError(pub Vec<String>);

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        Self(vec![error.to_string()])
    }
}

impl From<trunkline_store::SqlError> for StartError {
    fn from(error: trunkline_store::SqlError) -> Self {
        Self(vec![error.to_string()])
    }
}

/// Opens the store, and makes the configuration that was saved the one that runs. An empty
/// database begins with what `first` gives, and keeps it once it is found valid.
///
/// # Errors
/// When the files can't be used, what was saved makes no configuration, or the admin port would be
/// open to anybody.
pub fn start(start: Start<'_>) -> Result<Started, StartError> {
    let (store, warnings) = open(&start)?;
    let is_new = store.is_new();
    let started = run(store, &start, warnings);
    if started.is_err() && is_new {
        // The store is closed: nothing of it is kept for the next start.
        drop(Store::discard_new(&start.folder));
    }
    started
}

/// Opens the store and makes its configuration the one that runs, for an empty database only, such
/// as that of an import.
///
/// # Errors
/// As [`start()`], and when a configuration has begun there.
pub fn start_new(start: Start<'_>) -> Result<Started, StartError> {
    let (store, warnings) = open(&start)?;
    if !store.is_new() {
        let folder = start.folder.display();
        return Err(StartError(vec![format!(
            "{folder} holds a configuration already; --initial keeps it aside and begins anew"
        )]));
    }
    let mut started = run(store, &start, warnings)?;
    keep_first(&mut started.store)?;
    Ok(started)
}

/// A store for file mode, where the layers show a file and nothing is kept; and where the admin
/// port listens: nowhere, unless the file says where.
///
/// # Errors
/// Those of the database, or the admin port would be open to anybody.
pub fn start_of_file(imported: &Imported) -> Result<(Store, Vec<String>), StartError> {
    let mut store = Store::open(&Place::Memory, Box::new(variable::check))?;
    describe_variables(&mut store)?;
    fill_memory(&mut store)?;
    show_file(&mut store, &imported.rows)?;
    show_running(&mut store)?;
    let refuse = |reason| StartError(vec![reason]);
    let variables = store.variables(Layer::Memory, "admin-")?;
    let accounts = Accounts::read(&variables).map_err(refuse)?;
    let names_it = imported.rows.iter().any(|row| {
        row.values.iter().any(|(_, value)| *value == Value::Text("admin-mysql_ifaces".to_owned()))
    });
    if !names_it {
        return Ok((store, Vec::new()));
    }
    accounts.check_public(&variables).map_err(refuse)?;
    let listen = accounts.listen(&variables);
    Ok((store, listen))
}

/// The configuration that rows make in an empty database, and what an operator should hear of it.
///
/// # Errors
/// Every row that is wrong.
pub fn config_of(imported: Imported) -> Result<(Config, Vec<String>), StartError> {
    let store = Store::open(&Place::Memory, Box::new(variable::check))?;
    let rows = RefCell::new(Some(imported));
    let first = || Ok(rows.take().unwrap_or_default());
    let start = Start { folder: PathBuf::new(), is_initial: false, first: &first };
    let started = run(store, &start, Vec::new())?;
    Ok((started.config, started.warnings))
}

/// What a file would change that is not read, since a configuration has begun: a line for each.
///
/// # Errors
/// Every row that is wrong.
pub fn differs(running: &Config, imported: Imported) -> Result<Vec<String>, StartError> {
    let (other, _) = config_of(imported)?;
    let running = Snapshot::build(running.clone(), None);
    Ok(difference(&running, &other).iter().map(ToString::to_string).collect())
}

/// Fills MEMORY and DISK with the rows of a file. Passwords are not shown.
pub(super) fn show_file(
    store: &mut Store,
    rows: &[FirstRow],
) -> Result<(), trunkline_store::SqlError> {
    for module in Module::ALL {
        for table in module.tables() {
            store.replace(Layer::Memory, table, &[])?;
        }
    }
    put_defaults(store)?;
    let version = [("admin-version", super::VERSION)];
    store.put_variables(Layer::Memory, version.into_iter())?;
    let masked: Vec<(&str, Vec<(String, Value)>)> = rows
        .iter()
        .map(|row| {
            let values = row.values.iter().map(|(column, value)| match column.as_str() {
                "password" => (column.clone(), Value::Text("…".to_owned())),
                _ => (column.clone(), value.clone()),
            });
            (row.table, values.collect())
        })
        .collect();
    let rows: Vec<(&str, &[(String, Value)])> =
        masked.iter().map(|(table, values)| (*table, values.as_slice())).collect();
    store.insert_named(Layer::Memory, &rows)?;
    for module in Module::ALL {
        store.copy(module, Layer::Memory, Layer::Disk)?;
    }
    Ok(())
}

/// What the file holds is what runs.
pub(super) fn show_running(store: &mut Store) -> Result<(), trunkline_store::SqlError> {
    for module in Module::ALL {
        store.copy(module, Layer::Memory, Layer::Runtime)?;
        spell(store, module)?;
        note_checksum(store, module)?;
    }
    Ok(())
}

/// Starts with a store of the test's own, without opening one.
#[cfg(test)]
pub(super) fn in_memory(
    store: Store,
    first: &dyn Fn() -> Result<Imported, Vec<String>>,
) -> Result<Started, StartError> {
    let start = Start { folder: PathBuf::new(), is_initial: false, first };
    let mut started = run(store, &start, Vec::new())?;
    keep_first(&mut started.store)?;
    Ok(started)
}

fn open(start: &Start<'_>) -> Result<(Store, Vec<String>), StartError> {
    let mut warnings = Vec::new();
    if start.is_initial
        && let Some(kept) = Store::set_aside(&start.folder, unix_sec())?
    {
        warnings.push(format!("the database was kept as {}", kept.display()));
    }
    let place = Place::Folder(start.folder.clone());
    let store = Store::open(&place, Box::new(variable::check))?;
    warnings.extend_from_slice(store.warnings());
    Ok((store, warnings))
}

fn run(
    mut store: Store,
    start: &Start<'_>,
    mut warnings: Vec<String>,
) -> Result<Started, StartError> {
    let is_new = store.is_new();
    describe_variables(&mut store)?;
    fill_memory(&mut store)?;
    if is_new {
        let first = (start.first)().map_err(StartError)?;
        warnings.extend(first.warnings);
        fill_first(&mut store, &first.rows)?;
    }
    let made = match document::make(&store, &Module::ALL, None) {
        Ok(made) => made,
        Err(MakeError::Rows(lines)) => return Err(StartError(lines)),
        Err(MakeError::Sql(error)) => return Err(error.into()),
    };
    warnings.extend(made.warnings);
    let refuse = |reason| StartError(vec![reason]);
    let variables = store.variables(Layer::Memory, "admin-")?;
    let accounts = Accounts::read(&variables).map_err(refuse)?;
    match accounts.check_public(&variables) {
        Ok(()) => {}
        // ProxySQL's own default; a file that was not written for Trunkline shall still do.
        Err(reason) if is_new => {
            warnings.push(format!("{reason}; it listens on {LOCAL} for now"));
            let local = [("admin-mysql_ifaces", LOCAL)];
            store.put_variables(Layer::Memory, local.into_iter())?;
        }
        Err(reason) => return Err(refuse(reason)),
    }
    for module in Module::ALL {
        store.copy(module, Layer::Memory, Layer::Runtime)?;
        spell(&mut store, module)?;
        note_checksum(&mut store, module)?;
    }
    let listen = accounts.listen(&store.variables(Layer::Memory, "admin-")?);
    Ok(Started { store, config: made.config, listen, warnings, is_first: is_new })
}

/// Keeps what an empty database began with, once it is sure that the process serves by it: a start
/// that fails leaves the next one to read the file anew.
///
/// # Errors
/// Those of the database.
pub(super) fn keep_first(store: &mut Store) -> Result<(), trunkline_store::SqlError> {
    if !store.is_new() {
        return Ok(());
    }
    for module in Module::ALL {
        store.copy(module, Layer::Memory, Layer::Disk)?;
    }
    store.begin()
}

/// Fills MEMORY with every variable's default.
fn put_defaults(store: &mut Store) -> Result<(), trunkline_store::SqlError> {
    let rows = variable::by_name().into_iter();
    let defaults: Vec<(String, String)> =
        rows.map(|row| (row.name(), row.default_value())).collect();
    let pairs = defaults.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    store.put_variables(Layer::Memory, pairs)
}

/// Where the admin port listens when it may not listen where it should.
const LOCAL: &str = "127.0.0.1:6032";

/// Fills MEMORY with the rows of a file. Each row that does not fit its table is told; MEMORY is
/// of no use then.
fn fill_first(store: &mut Store, rows: &[FirstRow]) -> Result<(), StartError> {
    let all: Vec<_> = rows.iter().map(FirstRow::named).collect();
    let Err(error) = store.insert_named(Layer::Memory, &all) else { return Ok(()) };
    let errors = wrong_rows(store, rows);
    match errors.is_empty() {
        true => Err(error.into()),
        false => Err(StartError(errors)),
    }
}

/// What is wrong with each row that does not fit its table, with its place. MEMORY has the others.
fn wrong_rows(store: &mut Store, rows: &[FirstRow]) -> Vec<String> {
    let mut errors = Vec::new();
    for row in rows {
        if let Err(error) = store.insert_named(Layer::Memory, &[row.named()]) {
            errors.push(match &row.place {
                Some(place) => format!("{place}: {error}"),
                None => error.to_string(),
            });
        }
    }
    errors
}

/// What is wrong with each row that does not fit its table, with its place, by a store of its own.
///
/// # Errors
/// Those of the database.
pub(super) fn wrong_rows_of(rows: &[FirstRow]) -> Result<Vec<String>, StoreError> {
    let mut store = Store::open(&Place::Memory, Box::new(variable::check))?;
    Ok(wrong_rows(&mut store, rows))
}

/// MEMORY is what was saved; variables that were not have their defaults.
fn fill_memory(store: &mut Store) -> Result<(), StartError> {
    put_defaults(store)?;
    for module in Module::ALL {
        store.copy(module, Layer::Disk, Layer::Memory)?;
    }
    let version = [("admin-version", super::VERSION)];
    store.put_variables(Layer::Memory, version.into_iter())?;
    Ok(())
}

/// Says what each variable does here, and which collations there are.
fn describe_variables(store: &mut Store) -> Result<(), StartError> {
    let text = |text: &str| Value::Text(text.to_owned());
    let rows = variable::by_name()
        .iter()
        .map(|row| {
            vec![
                text(&row.name()),
                text(row.support_word()),
                text(&row.range()),
                text(row.reload_word()),
                text(&row.meaning()),
            ]
        })
        .collect();
    let collations = (1..=u16::from(u8::MAX)).chain(256..=400).filter_map(|id| {
        let (charset, name) = collation::lookup(Flavor::MySql, id)?;
        // ProxySQL's name of it, which clients compare with.
        let charset = if charset == "utf8mb3" { "utf8" } else { charset };
        let name = name.replacen("utf8mb3_", "utf8_", 1);
        let is_default = if name.ends_with("_general_ci") { "Yes" } else { "" };
        Some(vec![Value::Integer(i64::from(id)), text(&name), text(charset), text(is_default)])
    });
    let collations = collations.collect();
    let filled = [("trunkline_variables", rows), ("mysql_collations", collations)];
    Ok(store.fill(Schema::Main, &filled)?)
}
