//! Where the configuration of a process comes from: a file, or a database.

use std::{
    fs,
    path::{Path, PathBuf},
};

use trunkline_admin::{
    import::{Format, Imported},
    service::{self, Start},
};
use trunkline_config::Config;
use trunkline_proxy::TlsFolders;
use trunkline_store::Store;
use trunkline_topology::Secret;

use crate::{
    cli::ServeArgs,
    config_file::{ConfigFile, Read},
    import::{format_of, rows_of},
};

/// What the process reads, and reads again.
pub(super) enum Origin {
    /// File mode.
    File(ConfigFile),
    /// Database mode: the folder.
    Database(PathBuf),
}

/// The database of a process that has one.
pub(super) struct Database {
    pub store: Store,
    /// Where the admin port listens.
    pub listen: Vec<String>,
    /// The file of the command line.
    pub file: Option<PathBuf>,
    /// Whether that is the configuration, and the store only shows it.
    pub is_of_file: bool,
}

impl Origin {
    /// The path that names it.
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::File(file) => file.path().to_owned(),
            Self::Database(folder) => folder.join(trunkline_store::open::DISK_FILE),
        }
    }
}

impl Origin {
    /// Whether it is a database.
    pub(super) fn is_database(&self) -> bool {
        matches!(self, Self::Database(_))
    }

    /// Where certificates and keys are.
    pub(super) fn tls_folders(&self) -> TlsFolders {
        match self {
            Self::File(file) => file.tls_folders(),
            Self::Database(folder) => {
                // What is named below one of them is not looked for below the other.
                let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
                TlsFolders { base: folder.clone(), own: folder }
            }
        }
    }
}

/// Reads what the command line names.
///
/// # Errors
/// Every error as one line.
pub(super) fn read(args: &ServeArgs) -> Result<(Origin, Read, Option<Database>), Vec<String>> {
    match (&args.data_dir, &args.config) {
        (None, Some(path)) => {
            let file = ConfigFile::new(path);
            let mut read = file.read().map_err(|errors| unread(path, errors))?;
            let database = shown(path, &mut read)?;
            Ok((Origin::File(file), read, database))
        }
        (Some(folder), first) => open(folder, first.as_deref(), args.initial),
        (None, None) => Err(vec!["one of --config and --datadir is needed".to_owned()]),
    }
}

/// Why a file can't be served: one of ProxySQL's has no errors of its own, but another language.
fn unread(path: &Path, errors: Vec<String>) -> Vec<String> {
    if format_of(path) != Format::Cnf {
        return errors;
    }
    let name = path.display();
    vec![format!(
        "{name} is a configuration of ProxySQL: serve it from a folder of its own, as in `trunkline \
         serve --datadir FOLDER --config {name}`; `trunkline check {name}` shows what would be taken \
         over"
    )]
}

/// What the admin port shows of a file, when the file asks for that port, for the API or for the
/// console. What has
/// no place in its tables is a warning.
fn shown(path: &Path, read: &mut Read) -> Result<Option<Database>, Vec<String>> {
    let settings = &read.config.settings;
    let tokens = [
        &settings.http_api_token,
        &settings.http_api_operate_token,
        &settings.http_api_stats_token,
    ];
    let has_api = tokens.iter().any(|token| !token.is_empty());
    // There may be passwords in it.
    let text = Secret::new(fs::read_to_string(path).unwrap_or_default());
    let has_port = text.expose().contains("admin_listen");
    if !has_api && !has_port && settings.console_listen.is_none() {
        return Ok(None);
    }
    let imported = rows_of(path).unwrap_or_else(|errors| {
        let lines = errors.into_iter().map(|line| format!("not shown on the admin port: {line}"));
        Imported { warnings: lines.collect(), ..Imported::default() }
    });
    read.warnings.extend(imported.warnings.iter().cloned());
    let (store, listen) = service::start_of_file(&imported).map_err(|error| error.0)?;
    Ok(Some(Database { store, listen, file: Some(path.to_owned()), is_of_file: true }))
}

/// Says that a file is not read, since the folder has a configuration, and what it would change.
fn unused(file: &Path, folder: &Path, running: &Config) -> String {
    let changes =
        rows_of(file).and_then(|rows| service::differs(running, rows).map_err(|error| error.0));
    let found = match changes.as_deref() {
        Ok([]) => "they say the same".to_owned(),
        Ok([only]) => format!("one thing differs: {only}"),
        Ok(all @ [first, ..]) => format!("{} things differ, the first one: {first}", all.len()),
        Err(lines) => format!("it is wrong: {}", lines.first().map_or("", String::as_str)),
    };
    let (file, folder) = (file.display(), folder.display());
    format!(
        "{file} is not used, because {folder} holds a configuration; {found}. LOAD … FROM CONFIG \
         on the admin port reads it into MEMORY, and --initial begins anew with it"
    )
}

fn open(
    folder: &Path,
    first: Option<&Path>,
    is_initial: bool,
) -> Result<(Origin, Read, Option<Database>), Vec<String>> {
    let read_first = || match first {
        Some(file) => rows_of(file),
        None => Ok(Imported::default()),
    };
    let start = Start { folder: folder.to_owned(), is_initial, first: &read_first };
    let started = service::start(start).map_err(|error| error.0)?;
    let mut read = Read { config: started.config, warnings: started.warnings };
    if let Some(file) = first.filter(|_| !started.is_first) {
        read.warnings.push(unused(file, folder, &read.config));
    }
    let file = first.map(Path::to_owned);
    let (store, listen) = (started.store, started.listen);
    let database = Database { store, listen, file, is_of_file: false };
    Ok((Origin::Database(folder.to_owned()), read, Some(database)))
}
