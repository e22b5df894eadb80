//! Where the configuration of a process comes from: a file, or a database.

use std::path::{Path, PathBuf};

use trunkline_admin::{
    desk::{self, Start},
    import::Imported,
};
use trunkline_proxy::TlsFolders;
use trunkline_store::Store;

use crate::{
    cli::ServeArgs,
    config_file::{ConfigFile, Read},
    import::rows_of,
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
    /// Where certificates and keys are.
    pub(super) fn tls_folders(&self) -> TlsFolders {
        match self {
            Self::File(file) => file.tls_folders(),
            Self::Database(folder) => TlsFolders { base: folder.clone(), own: folder.clone() },
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
            let read = file.read()?;
            Ok((Origin::File(file), read, None))
        }
        (Some(folder), first) => open(folder, first.as_deref(), args.initial),
        (None, None) => Err(vec!["one of --config and --datadir is needed".to_owned()]),
    }
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
    let started = desk::start(start).map_err(|error| error.0)?;
    let read = Read { config: started.config, warnings: started.warnings };
    let file = first.map(Path::to_owned);
    let database = Database { store: started.store, listen: started.listen, file };
    Ok((Origin::Database(folder.to_owned()), read, Some(database)))
}
