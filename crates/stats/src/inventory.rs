//! What workers have at the moment: idle server connections, prepared statements.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What workers have; at most as many rows of each kind as were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inventory {
    /// Server connections that nobody uses.
    pub idle: Vec<IdleConn>,
    /// Texts that clients have prepared.
    pub stmts: Vec<PreparedRow>,
}

/// A server connection that nobody uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleConn {
    /// The worker that has it.
    pub worker: u32,
    /// The hostgroup that it serves.
    pub hostgroup: u32,
    /// The server's address as the configuration writes it.
    pub server: String,
    /// Who is logged in there.
    pub user: String,
    /// The schema chosen there; empty for none.
    pub schema: String,
    /// Whether `autocommit` is on there.
    pub is_autocommit: bool,
    /// For how long nobody has used it, ms.
    pub idle_ms: u64,
    /// The server's number of it.
    pub thread: u32,
    /// The server's version.
    pub version: String,
    /// Version and cipher of its encryption; empty when it is not encrypted.
    pub tls: String,
    /// Statements that are prepared on it.
    pub stmts: u64,
}

/// A text that clients have prepared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedRow {
    /// The user who did.
    pub username: String,
    /// The schema in which it is read; empty for none.
    pub schemaname: String,
    /// Its digest.
    pub digest: u64,
    /// Clients' statements of this text.
    pub clients: u64,
    /// Servers' statements of it.
    pub servers: u64,
    /// Columns of its result.
    pub columns: u16,
    /// Its parameters.
    pub params: u16,
    /// The text, perhaps cut.
    pub text: String,
}

impl Inventory {
    /// What several workers have, at most `rows_max` of each kind.
    pub fn merge(parts: Vec<Self>, rows_max: usize) -> Self {
        let mut merged = Self::default();
        let mut stmts: BTreeMap<(String, String, String), PreparedRow> = BTreeMap::new();
        for part in parts {
            merged.idle.extend(part.idle);
            for row in part.stmts {
                let key = (row.username.clone(), row.schemaname.clone(), row.text.clone());
                let (clients, servers) = (row.clients, row.servers);
                let none = PreparedRow { clients: 0, servers: 0, ..row };
                let sum = stmts.entry(key).or_insert(none);
                sum.clients += clients;
                sum.servers += servers;
            }
        }
        merged.idle.sort_by(|a, b| (a.hostgroup, &a.server).cmp(&(b.hostgroup, &b.server)));
        merged.idle.truncate(rows_max);
        merged.stmts = stmts.into_values().take(rows_max).collect();
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_two_workers_have_is_one_row() {
        let row = |clients| PreparedRow {
            username: "app".to_owned(),
            text: "SELECT ?".to_owned(),
            clients,
            servers: 1,
            ..PreparedRow::default()
        };
        let part = |clients| Inventory { stmts: vec![row(clients)], ..Inventory::default() };
        let merged = Inventory::merge(vec![part(2), part(3)], 10);
        assert_eq!(merged.stmts, [PreparedRow { servers: 2, ..row(5) }]);
    }
}
