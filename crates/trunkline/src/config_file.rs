//! The configuration file, and the files that it names.

use std::{
    cell::RefCell,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use trunkline_admin::service::FirstRow;
use trunkline_config::{Config, FileSource, Given, TableRow};
use trunkline_net::private;
use trunkline_proxy::TlsFolders;
use trunkline_store::Value;
use trunkline_topology::{Password, Secret};

/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;
/// Permission to change a file, of everybody.
const CHANGED_BY_ALL: u32 = 0o002;

/// Where the configuration is.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    path: PathBuf,
}

/// A configuration that is valid.
pub struct Read {
    /// The configuration.
    pub config: Config,
    /// What an operator should hear about the files.
    pub warnings: Vec<String>,
}

/// A password file that was read.
struct PasswordFile {
    path: PathBuf,
    mode: u32,
    is_hash: bool,
}

impl ConfigFile {
    /// The file at `path`, read when asked.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Its path as the command line gave it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the certificates and keys that it names are, and where our own is kept.
    pub fn tls_folders(&self) -> TlsFolders {
        let mut own = self.path.as_os_str().to_owned();
        own.push(".tls");
        let base = self.path.parent().unwrap_or(Path::new("")).to_owned();
        let own = PathBuf::from(own);
        // What is named below one of them is not looked for below the other.
        let own = std::path::absolute(&own).unwrap_or(own);
        TlsFolders { base, own }
    }

    /// Reads it as rows for a database that begins with it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn rows(&self) -> Result<Vec<FirstRow>, Vec<String>> {
        let name = self.path.display();
        let (text, _) = read_with_mode(&self.path)
            .map_err(|error| vec![format!("can't read the configuration file {name}: {error}")])?;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let source =
            |path: &str| private::read_text(&folder.join(path)).map_err(|error| error.to_string());
        let text = Secret::new(text);
        let rows = trunkline_config::table_rows(text.expose(), &name.to_string(), &source);
        let rows =
            rows.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let value = |given| match given {
            Given::Integer(number) => Value::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
            Given::Text(text) => Value::Text(text),
            Given::Fraction(text) => Value::Text(text),
            Given::Boolean(flag) => Value::Integer(i64::from(flag)),
            Given::List(_) | Given::Table(_) | Given::Other(_) => Value::Null,
        };
        let row = |row: TableRow| FirstRow {
            table: row.table,
            values: row
                .values
                .into_iter()
                .map(|(name, given)| (name.into_owned(), value(given)))
                .collect(),
            place: None,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Reads it, and the password files that it names, whose paths begin at its folder.
    ///
    /// # Errors
    /// Every error as one line that names the file.
    pub fn read(&self) -> Result<Read, Vec<String>> {
        let name = self.path.display();
        let (text, mode) = read_with_mode(&self.path)
            .map_err(|error| vec![format!("can't read the configuration file {name}: {error}")])?;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let files = Files { folder, password_files: RefCell::default() };
        let text = Secret::new(text);
        let parsed = trunkline_config::parse(text.expose(), &name.to_string(), &files);
        let config =
            parsed.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        if mode & CHANGED_BY_ALL != 0 && !config.settings.allow_open_files {
            let mode = mode & 0o777;
            return Err(vec![format!(
                "{name}: everybody may change it (mode {mode:03o}); chmod 600 closes it, \
                 allow_open_files = true takes it as it is"
            )]);
        }
        let mut warnings = self.warnings(&config, mode, &files.password_files.into_inner());
        warnings.extend(config.pattern_warnings());
        Ok(Read { config, warnings })
    }

    /// Warns of each file with a clear password that others may read.
    fn warnings(&self, config: &Config, mode: u32, files: &[PasswordFile]) -> Vec<String> {
        let is_clear = |password: &Password| matches!(password, Password::Clear(_));
        let clear = config.users.iter().filter(|user| is_clear(&user.password)).count();
        let elsewhere = files.iter().filter(|file| !file.is_hash).count();
        let own = (clear > elsewhere).then_some((self.path.as_path(), mode));
        let others = files.iter().filter(|file| !file.is_hash);
        own.into_iter()
            .chain(others.map(|file| (file.path.as_path(), file.mode)))
            .filter(|(_, mode)| mode & OTHERS != 0)
            .map(|(path, mode)| {
                format!(
                    "{path} holds a clear password and is open to others (mode {mode:03o}); \
                     chmod 600 closes it",
                    path = path.display(),
                    mode = mode & 0o777,
                )
            })
            .collect()
    }
}

/// The files that a configuration names.
struct Files<'a> {
    folder: &'a Path,
    password_files: RefCell<Vec<PasswordFile>>,
}

impl FileSource for Files<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        let path = self.folder.join(path);
        let read = || Ok((private::read_text(&path)?, fs::metadata(&path)?.mode()));
        let (text, mode) = read().map_err(|error: io::Error| error.to_string())?;
        let is_hash = Password::from_hash(text.trim_end()).is_ok();
        self.password_files.borrow_mut().push(PasswordFile { path, mode, is_hash });
        Ok(text)
    }

    fn environment(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read_rules(&self, path: &str) -> Result<String, String> {
        private::read_text(&self.folder.join(path)).map_err(|error| error.to_string())
    }
}

fn read_with_mode(path: &Path) -> io::Result<(String, u32)> {
    let mode = fs::metadata(path)?.mode();
    Ok((fs::read_to_string(path)?, mode))
}

/// `1 server`, `2 servers`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `3 servers in 2 hostgroups, 2 users, 4 rules`, and what else there is.
pub fn summary(config: &Config) -> String {
    let mut hostgroups: Vec<_> = config.servers.iter().map(|server| server.key.hostgroup).collect();
    hostgroups.sort();
    hostgroups.dedup();
    let fast = match config.fast_routes.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "fast routing rule")),
    };
    let tcp = match config.tcp_listeners.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "TCP listener")),
    };
    let clusters = match config.clusters.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "cluster")),
    };
    format!(
        "{} in {}, {}, {}{clusters}{fast}{tcp}",
        counted(config.servers.len(), "server"),
        counted(hostgroups.len(), "hostgroup"),
        counted(config.users.len(), "user"),
        counted(config.rules.len(), "rule"),
    )
}
