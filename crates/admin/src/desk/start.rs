//! What runs first: what was saved, or what a file says.

use std::path::PathBuf;

use trunkline_config::{Config, variable};
use trunkline_store::{
    Layer, Module, Place, RevisionRow, Store, StoreError, Value, tables::Schema,
};

use super::{
    document::{self, MakeError},
    load::unix_sec,
};
use crate::port::Accounts;

/// From what to start.
#[derive(Debug, Clone)]
pub struct Start {
    /// Where the files are.
    pub folder: PathBuf,
    /// Whether to begin anew; what is there is kept under another name.
    pub is_initial: bool,
    /// Rows for an empty folder: table and values. Each has all columns.
    pub first: Vec<(String, Vec<Value>)>,
    /// Variables for an empty folder.
    pub first_variables: Vec<(String, String)>,
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

/// Opens the store, and makes the configuration that was saved the one that runs.
///
/// # Errors
/// When the files can't be used, what was saved makes no configuration, or the admin port would be
/// open to anybody.
pub fn start(start: Start) -> Result<Started, StartError> {
    let mut warnings = Vec::new();
    if start.is_initial
        && let Some(kept) = Store::set_aside(&start.folder, unix_sec())?
    {
        warnings.push(format!("the database was kept as {}", kept.display()));
    }
    let place = Place::Folder(start.folder.clone());
    let mut store = Store::open(&place, Box::new(variable::check))?;
    describe_variables(&mut store)?;
    if store.is_new() {
        begin(&mut store, &start)?;
    }
    fill_memory(&mut store)?;
    let made = match document::make(&store, &Module::ALL) {
        Ok(made) => made,
        Err(MakeError::Rows(lines)) => return Err(StartError(lines)),
        Err(MakeError::Sql(error)) => return Err(error.into()),
    };
    warnings.extend(made.warnings);
    for module in Module::ALL {
        store.copy(module, Layer::Memory, Layer::Runtime)?;
    }
    let variables = store.variables(Layer::Runtime, "admin-")?;
    let refuse = |reason| StartError(vec![reason]);
    let accounts = Accounts::read(&variables).map_err(refuse)?;
    accounts.check_public(&variables).map_err(refuse)?;
    let listen = accounts.listen(&variables);
    Ok(Started { store, config: made.config, listen, warnings })
}

/// Fills an empty folder from a file, as a whole.
fn begin(store: &mut Store, start: &Start) -> Result<(), StartError> {
    let mut tables: Vec<(&str, Vec<Vec<Value>>)> = Vec::new();
    for (name, row) in &start.first {
        match tables.iter_mut().find(|(table, _)| table == name) {
            Some((_, rows)) => rows.push(row.clone()),
            None => tables.push((name, vec![row.clone()])),
        }
    }
    store.fill(Schema::Disk, &tables)?;
    let variables = start.first_variables.iter();
    store.put_variables(
        Layer::Disk,
        variables.map(|(name, value)| (name.as_str(), value.as_str())),
    )?;
    if !tables.is_empty() {
        let row = RevisionRow {
            changed_at: unix_sec(),
            author: "configuration file",
            module: Module::MysqlServers,
            command: "first start",
            changes: "",
        };
        store.record(row)?;
    }
    Ok(())
}

/// MEMORY is what was saved; variables that were not have their defaults.
fn fill_memory(store: &mut Store) -> Result<(), StartError> {
    let defaults: Vec<(String, String)> =
        variable::all().map(|row| (row.name(), row.default_value())).collect();
    let pairs = defaults.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    store.put_variables(Layer::Memory, pairs)?;
    for module in Module::ALL {
        store.copy(module, Layer::Disk, Layer::Memory)?;
    }
    let version = [("admin-version", super::VERSION)];
    store.put_variables(Layer::Memory, version.into_iter())?;
    Ok(())
}

/// Says what each variable does here.
fn describe_variables(store: &mut Store) -> Result<(), StartError> {
    let text = |text: &str| Value::Text(text.to_owned());
    let rows = variable::all()
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
    Ok(store.fill(Schema::Main, &[("trunkline_variables", rows)])?)
}
