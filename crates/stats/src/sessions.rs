//! Sessions as an operator sees them: who they are, what they do, what holds them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which sessions a reader wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionQuery {
    /// The most rows.
    pub rows_max: usize,
    /// Only sessions that are held on a server connection.
    pub pinned_only: bool,
}

/// The sessions of one worker or, merged, of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionList {
    /// Sessions that there are.
    pub total: u64,
    /// Those that are held on a server connection.
    pub pinned: u64,
    /// The rows asked for: pinned sessions first, the longest held first; then the others, the
    /// longest in what they do first.
    pub sessions: Vec<SessionRow>,
    /// Server connections reset so far before another session got them, by reason; reasons that
    /// never were are left out.
    pub resets: BTreeMap<String, u64>,
}

/// One session. It does not hold secrets; digest texts have no literals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionRow {
    /// The connection's number in its greeting.
    pub id: u32,
    /// The worker that has it.
    pub worker: u32,
    /// The user's name.
    pub user: String,
    /// The client's address, or `unix`.
    pub client: String,
    /// Version and cipher of its encryption; empty when it is not encrypted.
    pub tls: String,
    /// What its balancer has said of it beside its address (TLVs of the PROXY protocol).
    pub balancer: String,
    /// The default schema; empty for none.
    pub schema: String,
    /// What it does: `idle`, `queued`, `synchronising`, `running`, `forwarding` or `login`.
    pub doing: String,
    /// For how long, in µs.
    pub doing_us: u64,
    /// The digest of the statement under way; empty when none is.
    pub digest_text: String,
    /// Which writes its reads have to see, by the settings, its user and its hostgroup; empty for
    /// none in particular.
    pub causal_reads: String,
    /// Server connections that it has.
    pub holds: Vec<HeldConn>,
}

/// A server connection that a session has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldConn {
    /// The hostgroup that the connection serves.
    pub hostgroup: u32,
    /// The server's address as the configuration writes it.
    pub server: String,
    /// Version and cipher of its encryption; empty when it is not encrypted.
    pub tls: String,
    /// Why it is held; empty while only a statement runs there.
    pub reasons: Vec<String>,
    /// For how long something holds it, in µs.
    pub held_us: u64,
    /// The digest of the statement that made the first of the reasons.
    pub digest: u64,
    /// The digest's text.
    pub digest_text: String,
}

impl SessionRow {
    /// For how long the session has been pinned, in µs; `None` when it is not.
    pub fn pinned_us(&self) -> Option<u64> {
        let pinned = self.holds.iter().filter(|held| !held.reasons.is_empty());
        pinned.map(|held| held.held_us).max()
    }
}

impl SessionList {
    /// The workers' lists as one.
    pub fn merge(lists: Vec<Self>, query: SessionQuery) -> Self {
        let mut merged = Self::default();
        for list in lists {
            merged.total += list.total;
            merged.pinned += list.pinned;
            merged.sessions.extend(list.sessions);
            for (reason, count) in list.resets {
                *merged.resets.entry(reason).or_default() += count;
            }
        }
        merged.shorten(query);
        merged
    }

    /// Brings the rows into their order and keeps as many as were asked for.
    pub fn shorten(&mut self, query: SessionQuery) {
        let key = |row: &SessionRow| {
            (std::cmp::Reverse((row.pinned_us(), row.doing_us)), row.worker, row.id)
        };
        self.sessions.sort_by_key(key);
        self.sessions.truncate(query.rows_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u32, doing_us: u64, held_us: Option<u64>) -> SessionRow {
        let reasons = vec!["transaction".to_owned()];
        let held = held_us.map(|held_us| HeldConn { held_us, reasons, ..HeldConn::default() });
        SessionRow { id, doing_us, holds: held.into_iter().collect(), ..SessionRow::default() }
    }

    #[test]
    fn pinned_sessions_come_first_and_rows_are_bounded() {
        let list = |rows: Vec<SessionRow>| SessionList {
            total: 2,
            pinned: 1,
            sessions: rows,
            resets: [("hidden".to_owned(), 2)].into(),
        };
        let lists = vec![
            list(vec![row(1, 900, None), row(2, 5, Some(10))]),
            list(vec![row(3, 5, Some(20)), row(4, 1, None)]),
        ];
        let query = SessionQuery { rows_max: 3, pinned_only: false };
        let merged = SessionList::merge(lists, query);
        assert_eq!((merged.total, merged.pinned), (4, 2));
        assert_eq!(merged.resets.get("hidden"), Some(&4));
        assert_eq!(merged.sessions.iter().map(|row| row.id).collect::<Vec<_>>(), [3, 2, 1]);
    }
}
