//! What is noted of failovers for a proxy that begins anew: a file beside the state file.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};
use trunkline_cluster::failover::Past;
use trunkline_net::private;

/// The version of the file.
const FORMAT: u32 = 1;
/// The most bytes of the file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Who writes in a cluster, and the last failover.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Note {
    /// The cluster.
    pub(super) cluster: String,
    /// Who writes, or was about to.
    pub(super) writer: String,
    /// Who was lost before; empty where nobody was, or writes again.
    pub(super) lost: String,
    /// The transactions that the new writer had at the failover.
    pub(super) position: String,
    /// When that was, in seconds since 1970; 0 where this proxy has begun none.
    pub(super) unix_sec: u64,
    /// Whether somebody else has promoted the writer: another proxy, or a person.
    #[serde(default)]
    pub(super) is_followed: bool,
    /// Whether the lost one has replicated since.
    #[serde(default)]
    pub(super) is_back: bool,
}

impl Note {
    /// What the decision goes by.
    pub(super) fn past(&self) -> Past<String> {
        let lost = Some(self.lost.clone()).filter(|lost| !lost.is_empty());
        Past { writer: self.writer.clone(), lost, is_back: self.is_back, is_own: !self.is_followed }
    }

    /// With another past.
    pub(super) fn with(self, past: Past<String>) -> Self {
        let Past { writer, lost, is_back, is_own } = past;
        Self { writer, lost: lost.unwrap_or_default(), is_followed: !is_own, is_back, ..self }
    }
}

/// A failover or a switchover that has begun and not ended: the elected server may receive nothing
/// any more, and nobody may take writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    /// The cluster.
    pub(super) cluster: String,
    /// Who was elected.
    pub(super) elected: String,
    /// Who was lost.
    pub(super) lost: String,
    /// The transactions of the elected server once it was about to be promoted; empty before.
    pub(super) position: String,
    /// What else is known where an operator wished it, and the lost server is there.
    #[serde(default)]
    pub(super) switchover: Option<Wished>,
}

/// What is known of a switchover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wished {
    /// When it began, in seconds since 1970.
    pub(super) unix_sec: u64,
    /// Whether the old writer ran events.
    pub(super) runs_events: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    format: u32,
    failovers: Vec<Note>,
    #[serde(default)]
    begun: Vec<Begun>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Notes {
    failovers: Vec<Note>,
    begun: Vec<Begun>,
}

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
            true => Ok(Self { failovers: file.failovers, begun: file.begun }),
            false => Err(wrong(format!("its format is {}, not {FORMAT}", file.format))),
        }
    }

    /// The last failover of a cluster.
    pub(super) fn of(&self, cluster: &str) -> Option<&Note> {
        self.failovers.iter().find(|note| note.cluster == cluster)
    }

    /// The failover of a cluster that has begun and not ended.
    pub(super) fn begun(&self, cluster: &str) -> Option<&Begun> {
        self.begun.iter().find(|begun| begun.cluster == cluster)
    }

    /// Notes that one has begun. It is known to this process also where it can't be written.
    pub(super) fn begin(&mut self, begun: Begun, path: Option<&Path>) -> Result<(), String> {
        self.begun.retain(|other| other.cluster != begun.cluster);
        self.begun.push(begun);
        path.map_or(Ok(()), |path| self.write(path))
    }

    /// One has ended.
    pub(super) fn end(&mut self, cluster: &str, path: Option<&Path>) -> Result<(), String> {
        let before = self.begun.len();
        self.begun.retain(|other| other.cluster != cluster);
        match path.filter(|_| self.begun.len() < before) {
            Some(path) => self.write(path),
            None => Ok(()),
        }
    }

    /// Notes one, in place of the cluster's last; it is on disk then.
    pub(super) fn keep(&mut self, note: Note, path: &Path) -> Result<(), String> {
        self.failovers.retain(|other| other.cluster != note.cluster);
        self.failovers.push(note);
        self.write(path)
    }

    /// Forgets a cluster's.
    pub(super) fn forget(&mut self, cluster: &str, path: &Path) -> Result<(), String> {
        self.failovers.retain(|other| other.cluster != cluster);
        self.write(path)
    }

    fn write(&self, path: &Path) -> Result<(), String> {
        let (failovers, begun) = (self.failovers.clone(), self.begun.clone());
        let file = File { format: FORMAT, failovers, begun };
        let written =
            serde_json::to_vec_pretty(&file).map_err(io::Error::from).and_then(|mut text| {
                text.push(b'\n');
                private::replace(path, &text)
            });
        written.map_err(|error| format!("{} can't be written: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_is_noted_whoever_has_promoted_it() {
        let own = r#"{"cluster": "shop", "writer": "db2:3306", "lost": "db1:3306",
            "position": "0-1-5", "unix_sec": 7}"#;
        let own: Note = serde_json::from_str(own).expect("of an earlier version");
        let lost = Some("db1:3306".to_owned());
        let past = Past { writer: "db2:3306".to_owned(), lost, is_back: false, is_own: true };
        assert_eq!(own.past(), past);
        let db3 = Some("db3:3306".to_owned());
        let followed = Past::look(Some(&past), db3, |_| Some(true)).expect("another one");
        let next = own.clone().with(followed.clone());
        assert_eq!((next.past(), next.unix_sec), (followed, 7));
        assert_eq!((next.lost.as_str(), next.is_followed), ("db2:3306", true));
        let first = Past { writer: own.writer, lost: None, is_back: false, is_own: false };
        let first = Note::default().with(first);
        assert_eq!((first.lost.as_str(), first.unix_sec), ("", 0));
    }

    #[test]
    fn what_has_begun_is_known_to_the_next_process_until_it_ends() {
        let name = format!("trunkline-notes-{}", std::process::id());
        let path = &std::env::temp_dir().join(name);
        // As an earlier version has written it.
        fs::write(path, r#"{"format": 1, "failovers": []}"#).expect("written");
        let mut notes = Notes::load(path).expect("read");
        assert!(notes.begun("shop").is_none());
        let begun = Begun {
            cluster: "shop".to_owned(),
            elected: "db2:3306".to_owned(),
            lost: "db1:3306".to_owned(),
            position: String::new(),
            switchover: Some(Wished { unix_sec: 5, runs_events: true }),
        };
        notes.begin(begun.clone(), Some(path)).expect("written");
        assert_eq!(Notes::load(path).expect("read").begun("shop"), Some(&begun));
        notes.end("shop", Some(path)).expect("written");
        assert!(Notes::load(path).expect("read").begun("shop").is_none());
        fs::remove_file(path).expect("removed");
    }
}
