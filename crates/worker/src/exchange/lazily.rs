//! What begins and ends transactions, and changes nothing on a server yet, is answered here.

mod grammar;

use std::rc::Rc;

use trunkline_protocol::{
    codec::put_lenenc_bytes,
    packet::{greeting::Flavor, ok::OkPacket, status, tracker_filter::Filtered},
    response::Outcome,
};
use trunkline_session::tracker::{Pins, Trust, apply_outcome};
use trunkline_sql::{
    analysis::{Analysis, Effect, TransactionEffect},
    hint::Hints,
    set::{Assignment, Scope, Value},
};
use trunkline_topology::LazyTransactions;

use crate::{
    clients::client::{Client, Session, Statement},
    exchange::begun::{Begun, BegunAccess},
    exchange::lazily::grammar::is_exact,
    exchange::pins::is_own_set,
    rooms::{Core, Exchange},
    routing::route::{Route, hostgroup_of},
    statement::analysis::Known,
};

/// What a statement does that the proxy may answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Begin(BegunAccess),
    /// `COMMIT` or `ROLLBACK`.
    End,
    /// `SET autocommit`, to on or off.
    Autocommit(bool),
}

/// Whether its comments say what its reads have to see.
fn asks_for_causality(statement: &Statement) -> bool {
    let known = statement.meaning.known.as_deref();
    known.and_then(|known| known.hints.as_deref()).is_some_and(Hints::is_causal)
}

impl Deed {
    /// `None` for what a server has to see.
    fn of(analysis: &Analysis) -> Option<Self> {
        use TransactionEffect as Tx;
        let is_alone = analysis.statements == 1
            && analysis.is_complete
            && !analysis.is_cut
            && analysis.depends.is_empty()
            && analysis.set_for_statement.is_empty();
        let only_says = |analysis: &Analysis| {
            analysis.effects.iter().all(|effect| matches!(effect, Effect::Transaction(_)))
        };
        let deed = match analysis.transaction {
            Tx::Begin { read_only, read_write, consistent_snapshot: false } => {
                let access = match (read_only, read_write) {
                    (false, false) => BegunAccess::Unsaid,
                    (true, false) => BegunAccess::ReadOnly,
                    (false, true) => BegunAccess::ReadWrite,
                    (true, true) => return None,
                };
                only_says(analysis).then_some(Self::Begin(access))
            }
            Tx::Commit { chain: false, release } | Tx::Rollback { chain: false, release } => {
                (release != Some(true) && only_says(analysis)).then_some(Self::End)
            }
            Tx::SetAutocommit(_) => autocommit_set(analysis).map(Self::Autocommit),
            Tx::Begin { .. }
            | Tx::Commit { .. }
            | Tx::Rollback { .. }
            | Tx::None
            | Tx::ImplicitCommit => None,
        };
        deed.filter(|_| is_alone)
    }
}

/// What a text sets `autocommit` to that does nothing else.
fn autocommit_set(analysis: &Analysis) -> Option<bool> {
    let [Effect::Set(assignments)] = &*analysis.effects else { return None };
    let [Assignment::Variable { scope, name, value: Value::Literal(value) }] = &**assignments
    else {
        return None;
    };
    let is_it = matches!(scope, Scope::Session | Scope::LocalDefault) && **name == *b"autocommit";
    let is_on = match value.to_ascii_lowercase().as_slice() {
        b"0" | b"off" | b"false" => false,
        b"1" | b"on" | b"true" => true,
        _ => return None,
    };
    (is_it && is_own_set(analysis)).then_some(is_on)
}

/// No server refuses a statement of this length for it: its packet, bytes.
const LEN_MAX: usize = 1_024;

/// Variables of a session which change what a `BEGIN` or `COMMIT` does, or tells.
const OTHERWISE: [&str; 4] =
    ["completion_type", "session_track_transaction_info", "transaction_read_only", "tx_read_only"];

impl Exchange {
    /// Answers a statement that begins or ends a transaction, or sets `autocommit`, where a server
    /// need not know of it yet. False for any other one. `text`: what a server would be sent.
    #[inline]
    pub(crate) fn answer_lazily(
        &mut self,
        client: &mut Client,
        route: &Route,
        statement: &mut Statement,
        text: &[u8],
    ) -> bool {
        let known = statement.meaning.known.as_ref();
        let Some(known) = known.filter(|known| !known.is_ordinary) else { return false };
        match Deed::of(&known.analysis) {
            None => false,
            Some(_) if !is_certain(client, text) => false,
            Some(deed) => {
                let known = Rc::clone(known);
                self.answer_deed(client, route, statement, &known, deed)
            }
        }
    }

    #[inline(never)]
    fn answer_deed(
        &mut self,
        client: &mut Client,
        route: &Route,
        statement: &mut Statement,
        known: &Known,
        deed: Deed,
    ) -> bool {
        let is_lazy = self.core.is_lazy(client, route, statement);
        let session = &mut *client.session;
        if !is_lazy || !session.may_be_lazy(has_plant!(self.core, CommitSwallowed)) {
            return false;
        }
        let Some(changes) = self.core.do_lazily(session, route, known, deed) else { return false };
        statement.target.hostgroup = hostgroup_of(route).unwrap_or_default();
        // As behind any statement, nothing of those before is left to be read.
        session.last_conn = None;
        let silent = Outcome::default();
        session.past.learn(statement, &silent, session.flavor(), None, false);
        self.core.fx.stats.counters.statements_answered += 1;
        self.sample(client, statement, None, None, None);
        self.core.answer_changed(client, &changes);
        true
    }
}

/// Whether the session's server would carry out this text as it reads at first sight.
fn is_certain(client: &Client, text: &[u8]) -> bool {
    is_exact(text, client.session.settings.modes.oracle)
}

impl Session {
    /// Whether all that is known of it is here: it holds no connection, nothing is set that makes
    /// its transactions other ones, and no conditions are left that a MariaDB goes on to show.
    /// `swallows`: a planted bug.
    fn may_be_lazy(&self, swallows: bool) -> bool {
        let state = &self.settings.state;
        (self.leases.is_empty() || swallows && self.is_in_transaction())
            && self.login.user.transaction_persistent
            && (self.flavor() == Flavor::MySql || !self.past.has_conditions())
            && !OTHERWISE.iter().any(|name| state.variable(name).is_some())
    }
}

impl Core {
    /// Whether transactions of this statement's kind are lazy, and nothing is asked of the
    /// statement that is more than to be carried out.
    fn is_lazy(&self, client: &Client, route: &Route, statement: &Statement) -> bool {
        let session = &*client.session;
        let directives = &statement.target.directives;
        let of_group = || {
            let group = self.env.snapshot.hostgroup(hostgroup_of(route)?)?;
            group.lazy_transactions
        };
        let said = directives.lazy_transactions.or(session.login.user.lazy_transactions);
        let mode = said.or_else(of_group).unwrap_or(self.env.snapshot.settings.lazy_transactions);
        mode == LazyTransactions::Begin
            // What is repeated has to have begun with a statement that was answered.
            && !self.env.wants_replay(session)
            && directives.is_plain()
            && !asks_for_causality(statement)
            && !client.is_mirror
            && statement.command.frames.len() <= LEN_MAX
            && statement.command.attributes.is_none()
            && statement.target.pinned_server.is_none()
            && statement.meaning.definition.is_none()
    }

    /// Carries it out in the session's record. The changes that its client may be told of; `None`
    /// where a server has to carry it out.
    fn do_lazily(
        &mut self,
        session: &mut Session,
        route: &Route,
        known: &Known,
        deed: Deed,
    ) -> Option<Vec<u8>> {
        const IN_TRANS: u16 = status::IN_TRANS | status::IN_TRANS_READONLY;
        match deed {
            // Whoever begins within a transaction commits that, and may go on with its access.
            Deed::Begin(_) if session.settings.begun.is_some() => None,
            Deed::Begin(access) => {
                let is_told = self.is_told_of_transactions(session)?;
                let (hostgroup, may_leave_reader) = match *route {
                    Route::Hostgroup(hostgroup) => (hostgroup, false),
                    Route::Reader(hostgroup) => (hostgroup, true),
                    Route::Lease(..) | Route::Error(_) | Route::Limited(_) | Route::Ok(_) => {
                        return None;
                    }
                };
                let begun = Begun { hostgroup, may_leave_reader, access };
                session.settings.begun = Some(begun);
                session.settings.status |= begun.status();
                Some(transaction_change(is_told, b"T_______"))
            }
            Deed::End => {
                let is_open = session.settings.begun.is_some();
                let is_told = is_open && self.is_told_of_transactions(session)?;
                session.settings.begun = None;
                session.settings.status &= !IN_TRANS;
                self.fx.stats.counters.transactions_ended_unsent += 1;
                Some(transaction_change(is_told, b"________"))
            }
            Deed::Autocommit(_) if session.settings.begun.is_some() => None,
            Deed::Autocommit(is_on) => {
                let mut pins = Pins::default();
                let (state, silent) = (&session.settings.state, Outcome::default());
                let analysis = Some(&known.analysis);
                let applied = apply_outcome(state, &mut pins, analysis, &silent, Trust::Nothing);
                if !pins.is_empty() {
                    return None;
                }
                if let Some(state) = applied.state {
                    session.settings.state = self.servers.states.intern(state);
                }
                session.settings.status &= !(IN_TRANS | status::AUTOCOMMIT);
                session.settings.status |= if is_on { status::AUTOCOMMIT } else { 0 };
                Some(autocommit_changes(is_on, session.flavor()))
            }
        }
    }

    /// Whether a session that has not asked for it is told what becomes of its transactions; `None`
    /// while nobody knows.
    fn is_told_of_transactions(&self, session: &Session) -> Option<bool> {
        match session.flavor() {
            Flavor::MySql if session.login.format.session_track => {
                self.servers.defaults.tells_transactions
            }
            Flavor::MySql | Flavor::MariaDb => Some(false),
        }
    }

    /// Answers with OK, the session's status and what its client is told of these changes.
    fn answer_changed(&mut self, client: &mut Client, changes: &[u8]) {
        let filtered = client.session.settings.told.filter(changes);
        let changes = match &filtered {
            Filtered::Some(told) => told,
            Filtered::All => changes,
        };
        self.write_ok(client, 1, OkPacket { changes, ..OkPacket::default() });
    }
}

/// What a server reports of a `SET autocommit` where all is tracked: the variable, and that the
/// session's state has changed.
fn autocommit_changes(is_on: bool, flavor: Flavor) -> Vec<u8> {
    let mut variable = Vec::new();
    put_lenenc_bytes(&mut variable, b"autocommit");
    put_lenenc_bytes(&mut variable, if is_on { b"ON" } else { b"OFF" });
    let mut changes = vec![0x00];
    put_lenenc_bytes(&mut changes, &variable);
    changes.push(0x02);
    match flavor {
        Flavor::MySql => put_lenenc_bytes(&mut changes, b"\x011"),
        Flavor::MariaDb => put_lenenc_bytes(&mut changes, b"1"),
    }
    changes
}

/// What a server reports of a transaction, where it does.
fn transaction_change(is_told: bool, state: &[u8]) -> Vec<u8> {
    let mut changes = Vec::new();
    if is_told {
        let mut entry = Vec::new();
        put_lenenc_bytes(&mut entry, state);
        changes.push(0x05);
        put_lenenc_bytes(&mut changes, &entry);
    }
    changes
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    fn deed(text: &str) -> Option<Deed> {
        Deed::of(&analyse(text.as_bytes(), &Modes::default()))
    }

    #[test]
    fn only_what_does_nothing_else_is_answered() {
        for (text, expected) in [
            ("BEGIN", Deed::Begin(BegunAccess::Unsaid)),
            ("begin work ;", Deed::Begin(BegunAccess::Unsaid)),
            ("/* app */ START TRANSACTION", Deed::Begin(BegunAccess::Unsaid)),
            ("START TRANSACTION READ ONLY", Deed::Begin(BegunAccess::ReadOnly)),
            ("START TRANSACTION READ WRITE", Deed::Begin(BegunAccess::ReadWrite)),
            ("COMMIT", Deed::End),
            ("COMMIT WORK", Deed::End),
            ("ROLLBACK AND NO CHAIN NO RELEASE", Deed::End),
            ("SET autocommit=0", Deed::Autocommit(false)),
            ("SET SESSION autocommit = ON", Deed::Autocommit(true)),
            ("SET @@session.autocommit = false", Deed::Autocommit(false)),
        ] {
            assert_eq!(deed(text), Some(expected), "{text}");
        }
        for text in [
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "START TRANSACTION READ ONLY, WITH CONSISTENT SNAPSHOT",
            "COMMIT AND CHAIN",
            "ROLLBACK RELEASE",
            "ROLLBACK TO SAVEPOINT s",
            "SAVEPOINT s",
            "BEGIN; SELECT 1",
            "COMMIT; BEGIN",
            "SET autocommit=0, sql_mode=''",
            "SET GLOBAL autocommit=0",
            "SET autocommit=DEFAULT",
            "SET autocommit=2",
            "SET autocommit=@a",
            "SET autocommit='OFF', autocommit=1",
            "XA START 'x'",
            "LOCK TABLES t READ",
            "CREATE TABLE t (a INT)",
            "SET TRANSACTION READ ONLY",
            "SELECT 1",
        ] {
            assert_eq!(deed(text), None, "{text}");
        }
    }
}
