//! What is known of each server, and the file that keeps it for the next start.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use trunkline_net::private;
use trunkline_protocol::{
    Capabilities,
    packet::{greeting::Greeting, status},
};
use trunkline_topology::Address;

/// The form of the file; a file of another form is not read.
const FORMAT: u32 = 1;
/// The longest state file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// What one server said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its version, such as `10.11.6-MariaDB`.
    pub version: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Low byte of its default collation's id.
    pub charset: u8,
    /// Of its sessions' first status flags, those that tell how texts are read
    /// ([`status::READING`]): libraries escape by them.
    pub reading: u16,
    /// Its default authentication plug-in.
    pub auth_plugin: String,
    /// When it said so, in seconds of Unix time.
    pub learned_unix_sec: u64,
}

impl Facts {
    /// What a greeting tells.
    pub fn of(greeting: &Greeting, now_unix_sec: u64) -> Self {
        Self {
            version: greeting.server_version.clone(),
            capabilities: greeting.capabilities,
            charset: greeting.charset,
            reading: greeting.status & status::READING,
            auth_plugin: greeting.auth_plugin.clone(),
            learned_unix_sec: now_unix_sec,
        }
    }

    /// Whether both say the same, whenever they were learned.
    pub fn agrees_with(&self, other: &Self) -> bool {
        Self { learned_unix_sec: other.learned_unix_sec, ..self.clone() } == *other
    }
}

/// What is known of the servers, by address: one that is in two hostgroups is known once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Knowledge {
    servers: BTreeMap<Address, Facts>,
}

/// Why a state file is of no use. The proxy does without.
#[derive(Debug, Error)]
pub enum StateFileError {
    /// The system's reason.
    #[error("the state file {path} can't be {what}: {error}", path = path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        /// The reason.
        error: io::Error,
    },
    /// The content is not what this version writes.
    #[error("the state file {path} is not understood: {reason}", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    servers: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    from: String,
    when_unix_sec: u64,
    version: String,
    /// Hexadecimal: a JSON number may not have all 64 bits.
    capabilities: String,
    charset: u8,
    #[serde(default)]
    reading: u16,
    auth_plugin: String,
}

impl Knowledge {
    /// What is known of a server.
    pub fn of(&self, address: &Address) -> Option<&Facts> {
        self.servers.get(address)
    }

    /// Everything, by address.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, &Facts)> {
        self.servers.iter()
    }

    /// Takes over what a server said; whether that is news.
    pub fn learn(&mut self, address: &Address, facts: Facts) -> bool {
        let before = self.servers.insert(address.clone(), facts.clone());
        !before.is_some_and(|before| before.agrees_with(&facts))
    }

    /// Forgets the servers that `is_kept` does not want.
    pub fn retain(&mut self, is_kept: impl Fn(&Address) -> bool) {
        self.servers.retain(|address, _| is_kept(address));
    }

    /// Reads the state file; nothing is known when there is none.
    ///
    /// # Errors
    /// A file that can't be read, is longer than 4 MiB, or is not what this version writes.
    pub fn load(path: &Path) -> Result<Self, StateFileError> {
        let malformed = |reason| StateFileError::Malformed { path: path.to_owned(), reason };
        let system = |error| StateFileError::System { path: path.to_owned(), what: "read", error };
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(system(error)),
            Ok(meta) if !meta.is_file() => {
                return Err(malformed("it is not a regular file".to_owned()));
            }
            Ok(meta) if meta.len() > FILE_BYTES_MAX => {
                return Err(malformed(format!("it has {} bytes", meta.len())));
            }
            Ok(_) => {}
        }
        let text = fs::read(path).map_err(system)?;
        let file: File =
            serde_json::from_slice(&text).map_err(|error| malformed(error.to_string()))?;
        if file.format != FORMAT {
            return Err(malformed(format!("its format is {}, not {FORMAT}", file.format)));
        }
        let servers: Result<_, String> = file.servers.into_iter().map(Entry::read).collect();
        servers.map(|servers| Self { servers }).map_err(malformed)
    }

    /// Writes the state file as a whole: it is never seen half written.
    ///
    /// # Errors
    /// When the file, or the one beside it that replaces it, can't be written.
    pub fn save(&self, path: &Path) -> Result<(), StateFileError> {
        let servers = self.servers.iter().map(|(from, facts)| Entry::write(from, facts));
        let file = File { format: FORMAT, servers: servers.collect() };
        let written =
            serde_json::to_vec_pretty(&file).map_err(io::Error::from).and_then(|mut text| {
                text.push(b'\n');
                private::replace(path, &text)
            });
        written.map_err(|error| StateFileError::System {
            path: path.to_owned(),
            what: "written",
            error,
        })
    }
}

impl Entry {
    fn write(from: &Address, facts: &Facts) -> Self {
        Self {
            from: from.to_string(),
            when_unix_sec: facts.learned_unix_sec,
            version: facts.version.clone(),
            capabilities: format!("{:#x}", facts.capabilities.bits()),
            charset: facts.charset,
            reading: facts.reading,
            auth_plugin: facts.auth_plugin.clone(),
        }
    }

    fn read(self) -> Result<(Address, Facts), String> {
        let from: Address = self.from.parse().map_err(|error| format!("`from`: {error}"))?;
        let digits = self.capabilities.trim_start_matches("0x");
        let bits = u64::from_str_radix(digits, 16)
            .map_err(|_| format!("`capabilities` is `{}`", self.capabilities))?;
        // Both are written into every greeting, where a NUL ends them.
        if self.version.contains('\0') || self.auth_plugin.contains('\0') {
            return Err("a text holds NUL".to_owned());
        }
        let facts = Facts {
            version: self.version,
            capabilities: Capabilities::from_bits(bits),
            charset: self.charset,
            reading: self.reading & status::READING,
            auth_plugin: self.auth_plugin,
            learned_unix_sec: self.when_unix_sec,
        };
        Ok((from, facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            version: "10.11.6-MariaDB".to_owned(),
            capabilities: Capabilities::from_bits(0x1d_81bf_f7fe),
            charset: 45,
            reading: status::NO_BACKSLASH_ESCAPES,
            auth_plugin: "mysql_native_password".to_owned(),
            learned_unix_sec: 1_700_000_000,
        }
    }

    /// A folder that goes with the value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("trunkline-monitor-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).expect("folder");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = Folder::new("saved");
        let path = folder.0.join("trunkline.toml.state");
        assert_eq!(Knowledge::load(&path).expect("no file"), Knowledge::default());
        let mut known = Knowledge::default();
        assert!(known.learn(&"db-1:3307".parse().expect("address"), facts()));
        assert!(known.learn(&"unix:/run/mysqld.sock".parse().expect("address"), facts()));
        known.save(&path).expect("saves");
        assert_eq!(Knowledge::load(&path).expect("loads"), known);
        assert!(!folder.0.join("trunkline.toml.state.new").exists());
    }

    #[test]
    fn only_what_differs_is_news() {
        let mut known = Knowledge::default();
        let address: Address = "10.0.0.1:3306".parse().expect("address");
        assert!(known.learn(&address, facts()));
        assert!(!known.learn(&address, Facts { learned_unix_sec: 1, ..facts() }));
        assert!(known.learn(&address, Facts { charset: 8, ..facts() }));
        known.retain(|_| false);
        assert_eq!(known.of(&address), None);
    }

    #[test]
    fn a_file_of_another_kind_is_refused_with_its_name() {
        let folder = Folder::new("other");
        let path = folder.0.join("state");
        let check = |text: &str, expected: &str| {
            fs::write(&path, text).expect("write");
            let error = Knowledge::load(&path).expect_err(text).to_string();
            assert!(error.contains(expected) && error.contains("state"), "{error}");
        };
        check("", "is not understood");
        check("{\"format\":2,\"servers\":[]}", "its format is 2, not 1");
        let entry = |from: &str, bits: &str, version: &str| {
            format!(
                "{{\"format\":1,\"servers\":[{{\"from\":\"{from}\",\"when_unix_sec\":1,\
                 \"version\":\"{version}\",\"capabilities\":\"{bits}\",\"charset\":8,\
                 \"auth_plugin\":\"p\"}}]}}"
            )
        };
        check(&entry("a b", "0x1", "8"), "`from`");
        check(&entry("db:1", "many", "8"), "`capabilities` is `many`");
        check(&entry("db:1", "0x1", "8\\u0000"), "NUL");
    }

    #[test]
    fn a_file_that_cannot_be_written_says_so() {
        let error = Knowledge::default().save(Path::new("/nonexistent/x")).expect_err("no folder");
        assert!(error.to_string().starts_with("the state file /nonexistent/x can't be written"));
    }
}
