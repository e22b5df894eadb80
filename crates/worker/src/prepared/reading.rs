//! Which part of a session's state decides what a prepared text means.

use std::sync::Arc;

use trunkline_session::tracker::{Schema, SessionState, StateTable};
use trunkline_sql::token::{Modes, TokenKind, Tokens};

use super::Entry;

/// Variables that have no part in what a text means: they matter when it runs. Any other one may
/// (`sql_mode`, `optimizer_switch`, `group_concat_max_len`, …), so that statements prepared under
/// different values of it are different ones.
const WITHOUT_PART: [&str; 15] = [
    "autocommit",
    "foreign_key_checks",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "lock_wait_timeout",
    "max_execution_time",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "resultset_metadata",
    "session_track_gtids",
    "transaction_isolation",
    "transaction_read_only",
    "unique_checks",
    "wait_timeout",
];

/// Has a part in texts with literals only: servers may compute what depends on literals alone
/// once and for all when they prepare.
const OF_LITERALS: &str = "time_zone";

fn has_part(name: &str, has_literals: bool) -> bool {
    !WITHOUT_PART.contains(&name) && (has_literals || name != OF_LITERALS)
}

/// Whether a text has numbers or strings in it.
pub(crate) fn has_literals(text: &[u8], modes: &Modes) -> bool {
    Tokens::new(text, modes)
        .any(|token| matches!(token.kind, TokenKind::Number | TokenKind::String))
}

/// What of `state` has a part in the meaning of a text.
fn reading_of(state: &SessionState, has_literals: bool) -> SessionState {
    let mut reading = SessionState::new(state.schema.clone(), state.charset.clone());
    for (name, value) in state.variables() {
        if has_part(name, has_literals) {
            reading.set_variable(name, value);
        }
    }
    reading
}

impl Entry {
    /// How another text is read in the place of its own. Literals that it has not had itself are
    /// read as in `state`, the session's.
    pub(crate) fn reading_with(&self, has_literals: bool, state: &SessionState) -> SessionState {
        let mut reading = (*self.reading).clone();
        if has_literals
            && !self.has_literals
            && let Some(value) = state.variable(OF_LITERALS)
        {
            reading.set_variable(OF_LITERALS, value);
        }
        reading
    }
}

/// A session's readings, for texts without and with literals, as long as its state stays.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    of: Option<Arc<SessionState>>,
    readings: [Option<Arc<SessionState>>; 2],
}

impl Reading {
    /// What of `state`, the session's, has a part in the meaning of a text.
    pub(crate) fn of(
        &mut self,
        state: &Arc<SessionState>,
        has_literals: bool,
        states: &mut StateTable,
    ) -> Arc<SessionState> {
        Arc::clone(self.place(state, has_literals, states))
    }

    /// Whether a text that was prepared under `entry`'s reading means the same when it is read
    /// again under `state`, the session's: whatever schema is chosen, as a server keeps the one
    /// where it prepared, and on MariaDB in whatever `sql_mode`.
    #[inline]
    pub(crate) fn is_that_of(
        &mut self,
        entry: &Entry,
        state: &Arc<SessionState>,
        states: &mut StateTable,
    ) -> bool {
        let now = self.place(state, entry.has_literals, states);
        Arc::ptr_eq(now, &entry.reading)
            || reads_alike(now, &entry.reading, entry.modes.flavor_mariadb)
    }

    fn place(
        &mut self,
        state: &Arc<SessionState>,
        has_literals: bool,
        states: &mut StateTable,
    ) -> &Arc<SessionState> {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, state)) {
            self.of = Some(Arc::clone(state));
            self.readings = [None, None];
        }
        let make = || states.intern(reading_of(state, has_literals));
        let [without, with] = &mut self.readings;
        let place = if has_literals { with } else { without };
        place.get_or_insert_with(make)
    }
}

/// Whether two readings differ by their schema at most, or by that and `sql_mode` where servers
/// keep that too.
#[cold]
fn reads_alike<'a>(one: &'a SessionState, other: &'a SessionState, keeps_modes: bool) -> bool {
    let counts = |variable: &&(Box<str>, Box<[u8]>)| !(keeps_modes && *variable.0 == *"sql_mode");
    let variables = |state: &'a SessionState| state.variables().iter().filter(counts);
    one.charset == other.charset && variables(one).eq(variables(other))
}

/// The state that a connection in state `server` has to be brought to before it prepares, for a
/// session in state `session`, a text that was first read under `reading`. `None` when any reading
/// would be the same.
///
/// What was prepared without a schema names every schema that it needs, so any will do: a chosen
/// one can't be given back. With `by_values` the types of user variables' values have a part too.
pub(super) fn state_for(
    reading: &SessionState,
    has_literals: bool,
    by_values: bool,
    session: &SessionState,
    server: &SessionState,
) -> Option<SessionState> {
    let mut wanted = reading.clone();
    if wanted.schema == Schema::None {
        wanted.schema = server.schema.clone();
    }
    let has_values = !by_values || server.user_variables() == session.user_variables();
    if has_values && reading_of(server, has_literals) == wanted {
        return None;
    }
    let mut state = session.clone();
    state.schema = wanted.schema.clone();
    state.set_charset(wanted.charset.clone());
    for (name, _) in session.variables() {
        if has_part(name, has_literals) {
            state.unset_variable(name);
        }
    }
    for (name, value) in wanted.variables() {
        state.set_variable(name, value);
    }
    Some(state)
}

#[cfg(test)]
mod tests {
    use trunkline_session::tracker::Charset;

    use super::*;

    fn state(schema: &str, variables: &[(&str, &str)]) -> SessionState {
        let schema = Schema::from(schema.as_bytes());
        let mut state = SessionState::new(schema, Charset::Collation(45));
        for (name, value) in variables {
            state.set_variable(name, value.as_bytes());
        }
        state
    }

    fn reading(session: &SessionState, has_literals: bool) -> SessionState {
        reading_of(session, has_literals)
    }

    #[test]
    fn only_texts_with_literals_are_read_in_a_time_zone() {
        let session = state("app", &[("sql_mode", "''"), ("time_zone", "'+01:00'")]);
        let session_of = |has| reading(&session, has).variables().len();
        assert_eq!((session_of(false), session_of(true)), (1, 2));
        let modes = Modes::default();
        assert!(!has_literals(b"SELECT a1 FROM t2 WHERE id IN (?, ?)", &modes));
        assert!(has_literals(b"SELECT 'a'", &modes));
        assert!(has_literals(b"SELECT ? LIMIT 1", &modes));
    }

    #[test]
    fn a_sessions_reading_is_one_allocation_until_its_state_changes() {
        let mut states = StateTable::default();
        let mut own = Reading::default();
        let first = states.intern(state("app", &[("autocommit", "0")]));
        let other = states.intern(state("app", &[("autocommit", "1")]));
        let one = own.of(&first, true, &mut states);
        assert!(Arc::ptr_eq(&one, &own.of(&first, true, &mut states)));
        // What has no part makes no difference.
        assert!(Arc::ptr_eq(&one, &own.of(&other, true, &mut states)));
        let moved = states.intern(state("shop", &[]));
        assert!(!Arc::ptr_eq(&one, &own.of(&moved, true, &mut states)));
        // A server that reads a text again looks for its names where it did.
        assert!(reads_alike(&moved, &one, false));
    }

    #[test]
    fn what_is_read_again_keeps_its_schema_and_on_mariadb_its_modes() {
        let then = state("app", &[("sql_mode", "''"), ("div_precision_increment", "4")]);
        let latin = {
            let mut state = then.clone();
            state.set_charset(Charset::Names("latin1".as_bytes().into()));
            state
        };
        let variables = |mode, digits| {
            state("shop", &[("sql_mode", mode), ("div_precision_increment", digits)])
        };
        for (now, on_mysql, on_mariadb) in [
            (variables("''", "4"), true, true),
            (variables("'ANSI'", "4"), false, true),
            (state("app", &[("div_precision_increment", "4")]), false, true),
            (variables("''", "5"), false, false),
            (latin, false, false),
        ] {
            let alike = [false, true].map(|keeps_modes| reads_alike(&now, &then, keeps_modes));
            assert_eq!(alike, [on_mysql, on_mariadb], "{now:?}");
        }
    }

    #[test]
    fn a_connection_is_brought_to_the_reading_and_nothing_else_is_lost() {
        let then = reading(&state("app", &[("sql_mode", "'ANSI'")]), false);
        let now = state("shop", &[("sql_mode", "''"), ("time_zone", "'+01:00'")]);
        let wanted = state_for(&then, false, false, &now, &now).expect("read otherwise");
        let expected = state("app", &[("sql_mode", "'ANSI'"), ("time_zone", "'+01:00'")]);
        assert_eq!(wanted, expected);
        assert_eq!(state_for(&then, false, false, &now, &expected), None);
        let plain = reading(&state("app", &[]), true);
        let there = state("app", &[("time_zone", "'+01:00'")]);
        assert_eq!(state_for(&plain, true, false, &now, &there), Some(state("app", &[])));
        assert_eq!(state_for(&plain, false, false, &now, &there), None);
    }

    #[test]
    fn any_schema_will_do_for_a_text_that_was_prepared_without() {
        let then = reading(&state("", &[]), false);
        let now = state("shop", &[]);
        assert_eq!(state_for(&then, false, false, &now, &now), None);
    }
}
