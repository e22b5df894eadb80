//! What a worker has at the moment, for an operator: idle server connections, prepared statements.

use trunkline_stats::{Holders, IdleConn, Inventory, PreparedRow, StmtTexts};

use crate::{
    rooms::{Core, Exchange},
    servers::conn::Conn,
};

/// The longest text of a prepared statement in a row, bytes.
const TEXT_LEN_MAX: usize = 4_096;

impl Exchange {
    /// See [`Worker::inventory`](crate::Worker::inventory).
    pub(crate) fn inventory(&self, rows_max: usize) -> Inventory {
        let slots = self.core.servers.pool.slots();
        let idle = slots.flat_map(|(_, slot)| {
            let conns = slot.idle().filter_map(|id| self.core.servers.conns.get(id));
            conns.map(|conn| self.core.idle_row(conn, slot.server.key.address.to_string()))
        });
        Inventory { idle: idle.take(rows_max).collect(), stmts: self.prepared_rows(rows_max) }
    }

    /// The different texts that clients and server connections have prepared.
    pub(super) fn texts(&self) -> StmtTexts {
        let held = self.statements.entries.held();
        let rows = held.map(|(key, entry, (clients, servers))| {
            let user = self.core.servers.logins.accounts.key(key.account);
            let hash = entry.hash_for(user.map_or("", |key| &key.user));
            (hash, Holders { clients: clients > 0, servers: servers > 0 })
        });
        rows.collect()
    }

    fn prepared_rows(&self, rows_max: usize) -> Vec<PreparedRow> {
        let rows = self.statements.entries.held().map(|(key, entry, (clients, servers))| {
            let user = self.core.servers.logins.accounts.key(key.account);
            PreparedRow {
                username: user.map(|key| key.user.to_string()).unwrap_or_default(),
                schemaname: String::from_utf8_lossy(entry.reading.schema.name()).into_owned(),
                digest: entry.known.digest,
                clients,
                servers,
                columns: entry.columns_count,
                params: entry.params,
                text: {
                    let text = entry.text.get(..TEXT_LEN_MAX).unwrap_or(&entry.text);
                    String::from_utf8_lossy(text).into_owned()
                },
            }
        });
        rows.take(rows_max).collect()
    }
}

impl Core {
    fn idle_row(&self, conn: &Conn, server: String) -> IdleConn {
        let identity = conn.server.identity.as_deref();
        let user = self
            .servers
            .logins
            .accounts
            .key(conn.login.account)
            .map(|key| key.server_user().to_owned());
        IdleConn {
            worker: u32::try_from(self.env.options.index).unwrap_or(u32::MAX),
            hostgroup: conn.server.hostgroup.0,
            server,
            user: user.unwrap_or_default(),
            schema: String::from_utf8_lossy(conn.state.schema.name()).into_owned(),
            is_autocommit: !conn.state.is_autocommit_off(),
            idle_ms: self.env.now.ms().saturating_sub(conn.holder.since_ms),
            thread: identity.map_or(0, |identity| identity.greeting.connection_id),
            version: identity
                .map(|identity| identity.greeting.server_version.clone())
                .unwrap_or_default(),
            tls: conn.io.tls.as_ref().map(ToString::to_string).unwrap_or_default(),
            stmts: conn.stmts.len() as u64,
        }
    }
}
