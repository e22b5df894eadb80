//! Session trackers: what servers are asked to report, and what clients ask to be told.
//!
//! The proxy has every connection report all that changes. A client may set the same trackers for
//! itself, as some drivers do when they connect: then it is told what it asked for, and the
//! proxy's are switched on again behind its statement (decision 0029).

use std::sync::Arc;

use trunkline_protocol::{
    packet::{
        greeting::Flavor,
        track::{Change, Changes},
        tracker_filter::{TrackerFilter, TrackerSetting},
    },
    response::{Outcome, Relay, ResponseShape, ServerError},
};
use trunkline_session::tracker::{SessionState, apply_report, report_text};
use trunkline_sql::{
    analysis::{Analysis, Effect},
    set::{Assignment, Scope, Value},
};

use crate::{
    causal::collect::{GTID_TRACKER, REPORT_GTIDS, ReportsGtids},
    clients::client::Client,
    env::Env,
    exchange::send::put_own_query,
    rooms::Core,
    servers::Servers,
    servers::conn::{Conn, InFlight, Owner},
    statement::sql_modes::DefaultModes,
};

/// Says what changes in a session beyond what a statement's text shows. Written without a text: a
/// session of wide characters would make it another one, of which MySQL takes nothing, and says OK.
const TRACKERS_ON: &[u8] = b"SET @@SESSION.session_track_system_variables=x'2A',\
    @@SESSION.session_track_schema=1,@@SESSION.session_track_state_change=1";
/// On a connection without a session: also has the server tell what new sessions have, of what
/// decides how texts are read and what they find.
const FRESH: &[u8] = b",@@SESSION.sql_mode=@@SESSION.sql_mode,\
    @@SESSION.sql_auto_is_null=@@SESSION.sql_auto_is_null";
/// What is set where the server has the variable, with its name.
///
/// A server that keeps profiles or traces of everybody's statements would keep one list for all
/// sessions of a connection, which a reset may leave. Whoever wants one says so, and has the
/// connection alone. MySQL warns of the first one.
///
/// A MariaDB server tells behind a login whether sessions begin by waiting for their Galera cluster
/// ([`holds_begin`]).
const OPTIONAL: [(&str, &[u8]); 3] = [
    ("profiling", b",@@SESSION.profiling=0"),
    ("optimizer_trace", b",@@SESSION.optimizer_trace='enabled=off'"),
    (GALERA_WAITS, b",@@SESSION.wsrep_sync_wait=@@SESSION.wsrep_sync_wait"),
];
/// Which of them are in use: not those that some server lacks.
pub(super) type Optional = [bool; OPTIONAL.len()];
/// What a session of a Galera cluster waits for before it begins.
pub(crate) const GALERA_WAITS: &str = "wsrep_sync_wait";
/// Whatever a server's sessions begin with by now: it is off where a session's record says so.
const AUTOCOMMIT_ON: &[u8] = b",@@SESSION.autocommit=1";
/// Before that: has MySQL tell what its sessions begin with.
const AUTOCOMMIT_TOLD: &[u8] = b"SET @@SESSION.session_track_system_variables='autocommit',\
    @@SESSION.autocommit=@@SESSION.autocommit";
/// Behind a login: it has the server tell whether it reads texts in the character set that the
/// login has named.
const CLIENT_CHARSET: &[u8] = b",@@SESSION.character_set_client=@@SESSION.character_set_client";

/// What a connection has gone through that is to be as new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// A login, the first one or another.
    Login,
    /// A reset, which leaves it with another character set than its login named, or not.
    Reset,
}

/// The error of a server that does not know a variable.
const UNKNOWN_VARIABLE: u16 = 1193;

/// The errors of a `SET` that is taken another time: a `KILL QUERY` or MariaDB's limit of time has
/// ended it, or the account has asked as much as it may in an hour.
const NOT_NOW: [u16; 3] = [1226, 1317, 1969];

const TRANSACTION_TRACKER_ON: &[u8] =
    b"SET @@SESSION.session_track_transaction_info=CHARACTERISTICS";

/// Whether a server holds `BEGIN` with this value of [`GALERA_WAITS`] until its node has what the
/// cluster has, and refuses it where that takes too long. What is not a number may mean anything.
pub(crate) fn holds_begin(value: &[u8]) -> bool {
    let number = std::str::from_utf8(value).ok().and_then(|value| value.parse::<u64>().ok());
    number.is_none_or(|bits| bits & 1 == 1)
}

impl Env {
    /// A new or reset connection reports what new sessions have.
    pub(crate) fn trackers_are_on(&mut self, outcome: &Outcome) {
        for change in Changes::new(&outcome.changes) {
            let Ok(Change::SystemVariable { name, value }) = change else { continue };
            if name == b"sql_auto_is_null" && !value.eq_ignore_ascii_case(b"off") && value != b"0" {
                self.shared.find_by_null();
            }
            if name == GALERA_WAITS.as_bytes() && holds_begin(value) {
                self.shared.hold_begin();
            }
        }
    }
}

impl Core {
    /// Written with the first statement. Of its answer, only the SQL mode is of interest.
    pub(crate) fn switch_trackers_on(
        &mut self,
        conn: &mut Conn,
        behind: Behind,
        lent: Option<&mut Client>,
    ) {
        conn.left.marked.lapse();
        if !conn.server.format.session_track {
            return self.follow_modes(self.servers.defaults.modes.told(), lent);
        }
        conn.server.tracks_transactions = false;
        conn.server.gtids = ReportsGtids::default();
        let flavor = conn.server.flavor;
        let charset = if behind == Behind::Login { CLIENT_CHARSET } else { b"" };
        let asks_galera = flavor == Flavor::MariaDb && behind == Behind::Login;
        let optional = OPTIONAL.iter().zip(self.servers.optional);
        let optional = optional
            .filter(|((name, _), is_known)| *is_known && (asks_galera || *name != GALERA_WAITS));
        let optional: Vec<u8> = optional.flat_map(|((_, text), _)| *text).copied().collect();
        let within = match flavor {
            // What is set behind clears its warning.
            Flavor::MySql => {
                self.set_up(conn, Owner::Defaults, &[AUTOCOMMIT_TOLD, &*optional].concat());
                Vec::new()
            }
            Flavor::MariaDb => optional,
        };
        let text = [TRACKERS_ON, FRESH, AUTOCOMMIT_ON, charset, &*within].concat();
        self.set_up(conn, Owner::Setup, &text);
    }

    /// A server does not take the trackers' `SET`. What it lacks is not set again.
    pub(crate) fn trackers_refused(&mut self, conn: &mut Conn, error: &ServerError) {
        let text = String::from_utf8_lossy(&error.message).into_owned();
        self.fx.log(true, || format!("a server refused session trackers: {text}"));
        if text.contains(GTID_TRACKER) {
            conn.server.gtids = ReportsGtids::No;
        }
        // Nobody else gets a connection that does not tell what changes.
        conn.holder.close_on_release |= NOT_NOW.contains(&error.code);
        let mut lacks = false;
        for ((name, _), is_known) in OPTIONAL.iter().zip(&mut self.servers.optional) {
            let is_it = error.code == UNKNOWN_VARIABLE && text.contains(name);
            *is_known &= !is_it;
            lacks |= is_it;
        }
        if lacks {
            // It lacks the rest of the `SET` too.
            conn.holder.close_on_release = true;
            self.set_up(conn, Owner::Setup, TRACKERS_ON);
        }
    }

    /// Takes over what a connection tells of how its server reads texts.
    pub(crate) fn learn_modes(&mut self, conn: &Conn, changes: &[u8]) {
        let identity = conn.server.identity.as_ref();
        let identity = identity.map(|identity| (conn.server.flavor, identity.collation));
        let mut modes = self.servers.defaults.modes;
        modes.learn(changes, identity);
        self.follow_modes(modes, None);
    }

    /// What servers have by default is known better: sessions are read accordingly.
    pub(super) fn follow_modes(&mut self, modes: DefaultModes, lent: Option<&mut Client>) {
        if std::mem::replace(&mut self.servers.defaults.modes, modes) == modes {
            return;
        }
        let flavor = self.env.greeting.flavor();
        let follow = |client: &mut Client| {
            let session = &mut *client.session;
            session.settings.modes =
                modes.follow(session.settings.modes, &session.settings.state, flavor);
        };
        self.clients
            .table
            .for_each_mut(|_, entry| entry.client_mut().into_iter().for_each(&follow));
        lent.into_iter().for_each(follow);
    }

    /// Asks to be told when a transaction has taken over what is set for the next one. Not asked
    /// of every connection, as servers then report the progress of every transaction.
    pub(crate) fn track_transactions(&mut self, conn: &mut Conn) {
        if conn.server.format.session_track
            && !std::mem::replace(&mut conn.server.tracks_transactions, true)
        {
            self.set_up(conn, Owner::Setup, TRANSACTION_TRACKER_ON);
        }
    }

    /// Has it report the transactions that statements commit.
    pub(crate) fn ask_for_gtids(&mut self, conn: &mut Conn) {
        self.set_up(conn, Owner::Setup, REPORT_GTIDS);
    }

    fn set_up(&mut self, conn: &mut Conn, owner: Owner, text: &[u8]) {
        let mut relay =
            Relay::new(ResponseShape::Query, conn.server.format, conn.server.format, false);
        if conn.io.packing.is_none() {
            relay = relay.numbered_from(1);
        }
        conn.in_flight.push_back(InFlight {
            owner,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        let takes_attributes = conn.server.takes_attributes;
        self.write_server(conn, |out| {
            put_own_query(out, text, takes_attributes);
        });
    }

    /// A server that was asked what its sessions begin with has answered.
    pub(crate) fn defaults_told(&mut self, conn: &mut Conn, outcome: &Outcome) {
        if let Some(error) = &outcome.error {
            self.trackers_refused(conn, error);
        }
        for change in Changes::new(&outcome.changes) {
            if let Ok(Change::SystemVariable { name: b"autocommit", value }) = change {
                self.believe_autocommit(conn, value.eq_ignore_ascii_case(b"on") || value == b"1");
            }
        }
    }

    /// A session has set the trackers of its connection: it is told what it asked for, and the
    /// connection reports everything again. The values of `unreported` variables are asked for.
    pub(crate) fn renew_trackers(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        unreported: &[String],
    ) {
        if !conn.server.format.session_track {
            return;
        }
        conn.server.tracks_transactions = false;
        let session = &mut *client.session;
        // The proxy's own statement is the connection's last one.
        session.last_conn = None;
        // Until it is known, as with a value that is computed.
        let is_unknown = unreported.iter().any(|name| name == "sql_mode");
        session.settings.modes.ansi_quotes |= is_unknown;
        session.settings.modes.guesses_quotes |= is_unknown;
        self.set_up(conn, Owner::Setup, TRACKERS_ON);
        self.ask_values(client, conn, unreported);
    }

    /// Asks for the values of variables, behind a statement of which nothing is left to be read.
    pub(crate) fn ask_values(&mut self, client: &mut Client, conn: &mut Conn, names: &[String]) {
        if names.is_empty() || !conn.server.format.session_track {
            return;
        }
        // The proxy's own statement is the connection's last one.
        client.session.last_conn = None;
        let text = report_text(names, conn.server.flavor);
        self.set_up(conn, Owner::Values(client.id), &text);
    }

    pub(crate) fn take_values(&mut self, conn: &mut Conn, client: &mut Client, outcome: &Outcome) {
        let session = &mut *client.session;
        // Elsewhere the session may have set the same anew.
        let is_same = Arc::ptr_eq(&conn.state, &session.settings.state);
        let lease = session.leases.iter_mut().find(|lease| lease.conn == conn.id);
        let Some(lease) = lease.filter(|_| is_same && outcome.error.is_none()) else {
            return;
        };
        if let Some(state) = apply_report(&session.settings.state, &mut lease.pins, outcome) {
            let state = self.servers.states.intern(state);
            let escapes = session.settings.modes.escapes();
            session.settings.modes =
                self.servers.defaults.modes.of_session(&state, conn.server.flavor, escapes);
            conn.state = Arc::clone(&state);
            session.settings.state = state;
        }
    }
}

impl Servers {
    /// Whether a session that has not asked for it is told of its transactions, as far as is known:
    /// by default, MariaDB tells nothing.
    #[cold]
    pub(crate) fn tells_transactions(&self, conn: &Conn) -> bool {
        self.defaults.tells_transactions.unwrap_or(conn.server.flavor == Flavor::MySql)
    }

    /// Takes over from the answer to a `BEGIN` what sessions are told of their transactions that
    /// have not asked for it.
    pub(crate) fn learn_transaction_tracker(&mut self, conn: &Conn, outcome: &Outcome) {
        let is_asked = conn.state.variable("session_track_transaction_info").is_some();
        let is_known = conn.server.format.session_track && outcome.error.is_none();
        if conn.server.tracks_transactions || is_asked || !is_known {
            return;
        }
        let is_told = |change| matches!(change, Ok(Change::TransactionState(_)));
        self.defaults.tells_transactions = Some(Changes::new(&outcome.changes).any(is_told));
    }
}

impl Conn {
    /// It comes to a session's state, by a `SET` of the proxy's or the session's own.
    pub(crate) fn follow_transaction_tracker(&mut self, state: &SessionState) {
        let name = "session_track_transaction_info";
        if self.state.variable(name) != state.variable(name) {
            self.server.tracks_transactions = false;
        }
        if self.state.variable(GTID_TRACKER) != state.variable(GTID_TRACKER) {
            self.server.gtids = ReportsGtids::default();
            self.left.marked.is_unheard();
        }
    }
}

/// Takes over what a session asks to be told.
pub(crate) fn ask_trackers(told: &mut TrackerFilter, analysis: &Analysis) {
    for effect in &analysis.effects {
        let Effect::Set(assignments) = effect else { continue };
        for assignment in assignments {
            let Assignment::Variable { scope: Scope::LocalDefault | Scope::Session, name, value } =
                assignment
            else {
                continue;
            };
            match value {
                Value::Literal(_) => {
                    told.ask(name, TrackerSetting::Value(&value.literal().unwrap_or_default()));
                }
                Value::Default => told.ask(name, TrackerSetting::Default),
                Value::Expression(_) => told.ask(name, TrackerSetting::Unknown),
            }
        }
    }
}
