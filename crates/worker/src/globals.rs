//! Defaults that sessions begin with: `SET GLOBAL`, default roles, rights.
//!
//! A server connection has the defaults that held when it was opened or reset, and the rights on
//! its schema that held when that was chosen. A session that logs in behind a `SET GLOBAL`, a
//! `SET DEFAULT ROLE`, a `GRANT` or a `REVOKE` gets those of now from a server; so the connections
//! to that server that are open by then are closed when they are idle, on all workers before any
//! login goes on.
//! (Sessions that logged in before keep the old ones directly; here they meet the new ones on their
//! next connection.)
//!
//! Autocommit is more than a default: what the record of a session says of it must hold on any
//! connection. MariaDB says in the answer to a login that it is off by default; then connections
//! are switched on, and sessions that log in have it off by their record, as if they had set it.
//! MySQL 9.7 says it is on whatever it is; there it is known from a `SET GLOBAL` that the proxy has
//! seen.

use trunkline_pool::ConnId;
use trunkline_protocol::packet::{greeting::Flavor, status};
use trunkline_sql::{
    analysis::{Analysis, Effect},
    set::{Assignment, Scope, TransactionScope, Value},
};
use trunkline_topology::HostgroupId;

use crate::{ClientId, Worker};

/// Variables that have no value of a session's: no login depends on them, and some tools set them
/// again and again.
const SERVERS_OWN: [&[u8]; 12] = [
    b"event_scheduler",
    b"general_log",
    b"innodb_buffer_pool_size",
    b"innodb_flush_log_at_trx_commit",
    b"innodb_io_capacity",
    b"local_infile",
    b"max_connections",
    b"offline_mode",
    b"read_only",
    b"slow_query_log",
    b"super_read_only",
    b"sync_binlog",
];

/// The values that a text sets for new sessions.
fn set_globals(analysis: &Analysis) -> impl Iterator<Item = &Assignment> {
    let sets = analysis.effects.iter().filter_map(|effect| match effect {
        Effect::Set(assignments) => Some(assignments.iter()),
        _ => None,
    });
    sets.flatten().filter(|assignment| match assignment {
        Assignment::Variable { scope: Scope::Global | Scope::Persist, name, .. } => {
            !SERVERS_OWN.contains(&&**name)
        }
        Assignment::Transaction(setting) => setting.scope == TransactionScope::Global,
        _ => false,
    })
}

/// Whether sessions that begin behind a text may have other values, roles or rights.
fn sets_defaults(analysis: &Analysis) -> bool {
    let sets = |effect: &Effect| match effect {
        Effect::AccountsDefined => true,
        Effect::SetTransaction(setting) => setting.scope == TransactionScope::Global,
        _ => false,
    };
    set_globals(analysis).next().is_some() || analysis.effects.iter().any(sets)
}

/// What a text sets autocommit to for new sessions, as far as it is a literal.
fn set_autocommit(analysis: &Analysis) -> Option<bool> {
    set_globals(analysis)
        .filter_map(|assignment| match assignment {
            Assignment::Variable { name, value: Value::Literal(text), .. }
                if &**name == b"autocommit" =>
            {
                let text = text.trim_ascii_start().strip_prefix(b"'").unwrap_or(text);
                let is_off = [&b"0"[..], b"off", b"false"].iter().any(|off| {
                    text.get(..off.len()).is_some_and(|head| head.eq_ignore_ascii_case(off))
                });
                Some(!is_off)
            }
            _ => None,
        })
        .last()
}

impl Worker {
    /// A server has run a text that may set defaults of new sessions. `has_failed`: it answered
    /// with an error, so that what a single statement says does not hold.
    pub(crate) fn learn_globals(&mut self, conn_id: ConnId, analysis: &Analysis, has_failed: bool) {
        if !sets_defaults(analysis) {
            return;
        }
        let Some((slot, hostgroup)) =
            self.conns.get(conn_id).map(|conn| (conn.slot, conn.hostgroup))
        else {
            return;
        };
        // It may be in other hostgroups as well: a writer that is its own reader.
        let address = self.pool.slot(slot).map(|slot| slot.server.key.address.clone());
        for (_, slot) in self.pool.slots() {
            if Some(&slot.server.key.address) == address.as_ref() {
                slot.server.health.retire_connections();
            }
        }
        let holds = !has_failed || analysis.statements > 1;
        if let Some(is_on) = set_autocommit(analysis).filter(|_| holds) {
            self.shared.set_autocommit_off(hostgroup, !is_on);
        }
        self.shared.set_globals();
    }

    /// Before a session begins, or begins anew: connections with older defaults go.
    pub(crate) fn follow_globals(&mut self) {
        let set = self.shared.globals_set();
        if std::mem::replace(&mut self.globals_seen, set) != set {
            self.drop_outdated();
        }
    }

    /// A server connection is up: says whether it is to be switched to autocommit.
    pub(crate) fn learn_autocommit(&mut self, conn_id: ConnId) {
        let Some(conn) = self.conns.get(conn_id) else { return };
        if let (Flavor::MariaDb, Some(identity)) = (conn.flavor, &conn.identity) {
            let is_off = identity.status & status::AUTOCOMMIT == 0;
            self.shared.set_autocommit_off(conn.hostgroup, is_off);
        }
    }

    /// Whether sessions of this hostgroup begin with autocommit off.
    pub(crate) fn begins_without_autocommit(&self, hostgroup: HostgroupId) -> bool {
        self.shared.is_autocommit_off(hostgroup)
    }

    /// A session that has said nothing yet begins as its servers' sessions do.
    pub(crate) fn begin_autocommit(&mut self, id: ClientId) {
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let Some(session) = session else { return };
        let is_off = self.begins_without_autocommit(session.user.default_hostgroup);
        if is_off == session.state.is_autocommit_off() {
            return;
        }
        let mut state = (*session.state).clone();
        match is_off {
            true => state.set_variable("autocommit", b"0"),
            false => state.unset_variable("autocommit"),
        };
        let session = self.clients.get_mut(id).and_then(|client| client.session.as_mut());
        if let Some(session) = session {
            session.state = self.states.intern(state);
            match is_off {
                true => session.status &= !status::AUTOCOMMIT,
                false => session.status |= status::AUTOCOMMIT,
            }
        }
    }

    /// Whether the greeting says that autocommit is on. It is said before it is known who comes:
    /// off is said where all users' sessions begin so.
    pub(crate) fn greets_with_autocommit(&self) -> bool {
        self.shared.has_autocommit_everywhere()
            || !self.snapshot.homes.iter().all(|home| self.begins_without_autocommit(*home))
    }
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    #[test]
    fn what_new_sessions_begin_with_is_told_from_what_servers_have() {
        let sets = |text: &str| {
            let analysis = analyse(text.as_bytes(), &Modes::default());
            sets_defaults(&analysis)
        };
        assert!(sets("SET GLOBAL sql_mode = ''"));
        assert!(sets("SET @a = 1, @@GLOBAL.time_zone = '+01:00'"));
        assert!(sets("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE"));
        assert!(sets("SELECT 1; ALTER USER a@b DEFAULT ROLE NONE"));
        assert!(!sets("SET GLOBAL max_connections = 5"));
        assert!(!sets("SET sql_mode = ''"));
    }

    #[test]
    fn a_default_of_autocommit_is_read_from_its_literal() {
        let set = |value: &str| {
            let text = format!("SET GLOBAL autocommit = {value}");
            set_autocommit(&analyse(text.as_bytes(), &Modes::default()))
        };
        for off in ["0", "OFF", "'off'", "FALSE"] {
            assert_eq!(set(off), Some(false), "{off}");
        }
        for on in ["1", "ON", "'on'", "TRUE"] {
            assert_eq!(set(on), Some(true), "{on}");
        }
    }
}
