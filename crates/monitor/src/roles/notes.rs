//! What is noted of failovers for a proxy that begins anew: a file beside the state file.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};
use trunkline_net::private;

/// The version of the file.
const FORMAT: u32 = 1;
/// The most bytes of the file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The last failover of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The cluster.
    pub(super) cluster: String,
    /// Who was made the writer, or was about to be.
    pub(super) writer: String,
    /// Who had been it.
    pub(super) lost: String,
    /// The transactions that the new writer had.
    pub(super) position: String,
    /// When, in seconds since 1970.
    pub(super) unix_sec: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    format: u32,
    failovers: Vec<Note>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<Note>);

impl Notes {
    /// Reads the file; a missing one has nothing.
    pub(super) fn load(path: &Path) -> Result<Self, String> {
        let wrong = |why: String| format!("{}: {why}", path.display());
        let length = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(wrong(error.to_string())),
            Ok(meta) => meta.len(),
        };
        if length > FILE_BYTES_MAX {
            return Err(wrong(format!("it has {length} bytes")));
        }
        let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let file: File = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        match file.format == FORMAT {
            true => Ok(Self(file.failovers)),
            false => Err(wrong(format!("its format is {}, not {FORMAT}", file.format))),
        }
    }

    /// The last failover of a cluster.
    pub(super) fn of(&self, cluster: &str) -> Option<&Note> {
        self.0.iter().find(|note| note.cluster == cluster)
    }

    /// Notes one, in place of the cluster's last; it is on disk then.
    pub(super) fn keep(&mut self, note: Note, path: &Path) -> Result<(), String> {
        self.0.retain(|other| other.cluster != note.cluster);
        self.0.push(note);
        self.write(path)
    }

    /// Forgets a cluster's.
    pub(super) fn forget(&mut self, cluster: &str, path: &Path) -> Result<(), String> {
        self.0.retain(|other| other.cluster != cluster);
        self.write(path)
    }

    fn write(&self, path: &Path) -> Result<(), String> {
        let file = File { format: FORMAT, failovers: self.0.clone() };
        let written =
            serde_json::to_vec_pretty(&file).map_err(io::Error::from).and_then(|mut text| {
                text.push(b'\n');
                private::replace(path, &text)
            });
        written.map_err(|error| format!("{} can't be written: {error}", path.display()))
    }
}
