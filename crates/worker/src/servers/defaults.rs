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
//! connection. Connections are switched on behind each login and reset. What a server's sessions
//! begin with is known before that: MariaDB says it in the answer to a login or reset; MySQL 9.7
//! says it is on whatever it is, and reports it when asked. Where it is off, sessions that log in
//! have it off by their record, as if they had set it.

use trunkline_protocol::packet::{greeting::Flavor, status};
use trunkline_sql::{
    analysis::{Analysis, Effect},
    set::{Assignment, Scope, TransactionScope, Value},
};
use trunkline_topology::{HostgroupId, Server};

use crate::{
    clients::client::Client, rooms::Core, servers::Servers, servers::conn::Conn,
    statement::sql_modes::DefaultModes,
};

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

/// What a text sets autocommit to for new sessions, if it does: `None` within for an expression,
/// which only a server can evaluate.
fn set_autocommit(analysis: &Analysis) -> Option<Option<bool>> {
    let values = set_globals(analysis).filter_map(|assignment| match assignment {
        Assignment::Variable { name, value, .. } if &**name == b"autocommit" => Some(value),
        _ => None,
    });
    values.last().map(|value| match value {
        Value::Literal(text) => {
            let text = text.trim_ascii_start().strip_prefix(b"'").unwrap_or(text);
            let is_off = [&b"0"[..], b"off", b"false"].iter().any(|off| {
                text.get(..off.len()).is_some_and(|head| head.eq_ignore_ascii_case(off))
            });
            Some(!is_off)
        }
        // The one that servers are built with, whatever they were started with.
        Value::Default => Some(true),
        Value::Expression(_) => None,
    })
}

impl Servers {
    /// The entries of a connection's server: it may be in several hostgroups, as a writer is that
    /// is its own reader.
    fn entries_of(&self, conn: &Conn) -> impl Iterator<Item = &Server> {
        let address = self.pool.slot(conn.slot).map(|slot| &slot.server.key.address);
        let servers = self.pool.slots().map(|(_, slot)| &*slot.server);
        servers.filter(move |server| Some(&server.key.address) == address)
    }

    /// Whether sessions of this hostgroup begin with autocommit off: some of its servers' do, and
    /// no others' are known to begin with it on.
    fn begins_without_autocommit(&self, hostgroup: HostgroupId) -> bool {
        let mut begins = None;
        for (_, slot) in self.pool.slots() {
            let is_one = slot.server.key.hostgroup == hostgroup && !slot.removed;
            match slot.server.health.begins_with_autocommit().filter(|_| is_one) {
                Some(true) => return false,
                Some(false) if !slot.server.health.is_offline() => begins = Some(false),
                Some(false) | None => {}
            }
        }
        begins == Some(false)
    }
}

impl Core {
    /// A server has run a text that may set defaults of new sessions. `has_failed`: it answered
    /// with an error, so that what a single statement says does not hold.
    pub(crate) fn learn_globals(&mut self, conn: &Conn, analysis: &Analysis, has_failed: bool) {
        if !sets_defaults(analysis) {
            return;
        }
        let holds = !has_failed || analysis.statements > 1;
        let autocommit = set_autocommit(analysis).filter(|_| holds);
        for server in self.servers.entries_of(conn) {
            server.health.retire_connections();
            if let Some(is_on) = autocommit {
                server.health.set_autocommit(is_on);
            }
        }
        // What a session may be set to may depend on them.
        self.servers.accepted_sets.clear();
        let mut modes = DefaultModes::default();
        for assignment in set_globals(analysis) {
            if let Assignment::Variable { name, value, .. } = assignment {
                modes.learn_global(name, value);
            }
        }
        self.env.shared.set_globals(modes);
    }

    /// Before a text is read: servers may read it otherwise by what was set on them, from a new
    /// connection on.
    #[cold]
    pub(crate) fn follow_set_modes(&mut self, client: &mut Client) {
        self.servers.defaults.modes_seen = self.env.shared.globals_set();
        let mut modes = self.servers.defaults.modes;
        modes.merge(self.env.shared.modes_set());
        self.follow_modes(modes, Some(client));
    }

    /// Before a session begins, or begins anew: connections with older defaults go.
    pub(crate) fn follow_globals(&mut self, client: Option<&mut Client>) {
        let set = self.env.shared.globals_set();
        if std::mem::replace(&mut self.servers.defaults.globals_seen, set) != set {
            self.servers.accepted_sets.clear();
            self.drop_outdated(client);
        }
    }

    /// A connection has logged in or was reset, and the answer has this status: MariaDB's says what
    /// its sessions begin with.
    pub(crate) fn learn_autocommit(&self, conn: &Conn, flags: Option<u16>) {
        if let Some(flags) = flags.filter(|_| conn.server.flavor == Flavor::MariaDb) {
            self.believe_autocommit(conn, flags & status::AUTOCOMMIT != 0);
        }
    }

    /// A connection tells what its server's sessions begin with.
    pub(super) fn believe_autocommit(&self, conn: &Conn, is_on: bool) {
        let servers = self.servers.entries_of(conn);
        servers.for_each(|server| server.health.set_autocommit(Some(is_on)));
    }

    /// A session that has said nothing yet begins as its servers' sessions do.
    pub(crate) fn begin_autocommit(&mut self, client: &mut Client) {
        let session = &*client.session;
        let is_off = self.servers.begins_without_autocommit(session.login.user.default_hostgroup);
        if is_off == session.settings.state.is_autocommit_off() {
            return;
        }
        let mut state = (*session.settings.state).clone();
        match is_off {
            true => state.set_variable("autocommit", b"0"),
            false => state.unset_variable("autocommit"),
        };
        let session = &mut *client.session;
        session.settings.state = self.servers.states.intern(state);
        match is_off {
            true => session.settings.status &= !status::AUTOCOMMIT,
            false => session.settings.status |= status::AUTOCOMMIT,
        }
    }

    /// The status flags of a session that begins, but for what its user's servers say of
    /// autocommit. Client libraries escape by them.
    pub(crate) fn begin_status(&self) -> u16 {
        let (greeting, modes) = (&self.env.greeting, self.servers.defaults.modes);
        status::AUTOCOMMIT | modes.reading(greeting.status, greeting.flavor())
    }

    /// Whether the greeting says that autocommit is on. It is said before it is known who comes:
    /// off is said where all users' sessions begin so.
    pub(crate) fn greets_with_autocommit(&self) -> bool {
        let homes = &self.env.snapshot.homes;
        homes.is_empty() || !homes.iter().all(|home| self.servers.begins_without_autocommit(*home))
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
            assert_eq!(set(off), Some(Some(false)), "{off}");
        }
        for on in ["1", "ON", "'on'", "TRUE", "DEFAULT", "0, GLOBAL autocommit = 1"] {
            assert_eq!(set(on), Some(Some(true)), "{on}");
        }
        for unknown in ["0 + 1", "@old", "@@autocommit", "0, GLOBAL autocommit = @old"] {
            assert_eq!(set(unknown), Some(None), "{unknown}");
        }
        assert_eq!(set_autocommit(&analyse(b"SET autocommit = 0", &Modes::default())), None);
    }
}
