//! Which part of a session's state decides what a prepared text means.

use std::sync::Arc;

use trunkline_catalog::Hidden;
use trunkline_session::tracker::{Schema, SessionState, StateTable};
use trunkline_sql::token::{Modes, TokenKind, Tokens};

use super::Entry;
use crate::{
    clients::client::{Client, SessionSettings},
    rooms::Core,
};

/// Variables that have no part in what a text means: they matter when it runs. Any other one may
/// (`sql_mode`, `optimizer_switch`, `div_precision_increment`, …), so that statements prepared
/// under different values of it are different ones.
///
/// Those with an effect that can be seen were tried on MariaDB 10.11 and MySQL 9.7
/// (`what_is_read_when_a_statement_runs_is_not_kept_from_its_preparation`, end to end). Those of
/// the binary log were tried by what is in it.
const WITHOUT_PART: [&str; 32] = [
    "auto_increment_increment",
    "auto_increment_offset",
    "autocommit",
    "binlog_format",
    "cte_max_recursion_depth",
    "foreign_key_checks",
    "gtid_domain_id",
    "gtid_seq_no",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "lock_wait_timeout",
    "long_query_time",
    "max_error_count",
    "max_execution_time",
    "max_join_size",
    "max_recursive_iterations",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "resultset_metadata",
    "session_track_gtids",
    "sort_buffer_size",
    "sql_big_selects",
    "sql_log_bin",
    "sql_notes",
    "sql_safe_updates",
    "sql_select_limit",
    "tmp_table_size",
    "transaction_isolation",
    "transaction_read_only",
    "unique_checks",
    "wait_timeout",
];

/// Has a part in texts with literals only: servers may compute what depends on literals alone
/// once and for all when they prepare.
const OF_LITERALS: &str = "time_zone";
/// Words that are as constant as literals.
const LITERAL_WORDS: [&[u8]; 3] = [b"TRUE", b"FALSE", b"PI"];
/// Has a part only where groups are concatenated: MySQL keeps the length of the preparation.
const OF_CONCATENATION: &str = "group_concat_max_len";

/// What a text has in it, as far as more of a session's state decides what it means than for
/// texts without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Contents {
    /// Numbers or strings, in the text itself or perhaps in a view that it names.
    pub(super) literals: bool,
    /// `GROUP_CONCAT`, in the text itself or perhaps in a view that it names.
    pub(super) concatenates: bool,
}

impl Contents {
    /// What is in a text, and in the views that it names.
    pub(crate) fn of(text: &[u8], modes: &Modes, in_views: Self) -> Self {
        let mut contents = in_views;
        let mut tokens = Tokens::new(text, modes);
        for token in tokens.by_ref() {
            contents.literals |= matches!(token.kind, TokenKind::Number | TokenKind::String)
                || LITERAL_WORDS.iter().any(|word| token.is_word(word));
            contents.concatenates |= token.is_word(b"GROUP_CONCAT");
        }
        // Another server may see more in it.
        contents.concatenates |= tokens.has_versioned() || tokens.is_ambiguous();
        contents
    }

    /// What may be in the views that a text names.
    #[inline]
    pub(crate) fn in_views(hidden: Hidden) -> Self {
        let literals = hidden.may(Hidden::DEFINED);
        Self { literals, concatenates: hidden.may(Hidden::CONCATENATES) }
    }

    /// What is in the views that a text names, as far as they are known.
    #[inline]
    pub(crate) fn of_views(hidden: Hidden) -> Self {
        let literals = hidden.has(Hidden::DEFINED);
        Self { literals, concatenates: hidden.has(Hidden::CONCATENATES) }
    }

    /// What is in `self` and not in `other`.
    #[inline]
    pub(crate) fn beyond(self, other: Self) -> Self {
        Self {
            literals: self.literals && !other.literals,
            concatenates: self.concatenates && !other.concatenates,
        }
    }

    /// Nothing.
    pub(crate) const NOTHING: Self = Self { literals: false, concatenates: false };

    /// All that may be in a text.
    pub(crate) const ALL: Self = Self { literals: true, concatenates: true };

    /// What is in either of two texts.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            literals: self.literals || other.literals,
            concatenates: self.concatenates || other.concatenates,
        }
    }

    fn has_part(self, name: &str) -> bool {
        match name {
            OF_LITERALS => self.literals,
            OF_CONCATENATION => self.concatenates,
            name => !WITHOUT_PART.contains(&name),
        }
    }

    /// Its place among all that there can be.
    fn index(self) -> usize {
        usize::from(self.literals) | usize::from(self.concatenates) << 1
    }
}

/// What of `state` has a part in the meaning of a text.
fn reading_of(state: &SessionState, contents: Contents) -> SessionState {
    let mut reading = SessionState::new(state.schema.clone(), state.charset.clone());
    for (name, value) in state.variables() {
        if contents.has_part(name) {
            reading.set_variable(name, value);
        }
    }
    reading
}

impl Core {
    /// Whether a statement is prepared in another state than its session's, where it has to be
    /// prepared again: what sets that state leaves counts of its own.
    pub(crate) fn is_read_elsewhere(&mut self, client: &mut Client, entry: &Entry) -> bool {
        let SessionSettings { reading, state, .. } = &mut client.session.settings;
        let now = reading.of(state, entry.contents, &mut self.servers.states);
        !Arc::ptr_eq(&now, &entry.reading)
    }
}

impl Entry {
    /// How another text is read in the place of its own. What has a part in that one only is as in
    /// `state`, the session's.
    pub(crate) fn reading_with(&self, contents: Contents, state: &SessionState) -> SessionState {
        let mut reading = (*self.reading).clone();
        for name in [OF_LITERALS, OF_CONCATENATION] {
            if contents.has_part(name)
                && !self.contents.has_part(name)
                && let Some(value) = state.variable(name)
            {
                reading.set_variable(name, value);
            }
        }
        reading
    }
}

/// A session's readings, for texts by what is in them, as long as its state stays.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    of: Option<Arc<SessionState>>,
    readings: [Option<Arc<SessionState>>; 4],
}

impl Reading {
    /// What of `state`, the session's, has a part in the meaning of a text.
    pub(crate) fn of(
        &mut self,
        state: &Arc<SessionState>,
        contents: Contents,
        states: &mut StateTable,
    ) -> Arc<SessionState> {
        Arc::clone(self.place(state, contents, states))
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
        let now = self.place(state, entry.contents, states);
        Arc::ptr_eq(now, &entry.reading)
            || reads_alike(now, &entry.reading, entry.modes.flavor_mariadb)
    }

    fn place(
        &mut self,
        state: &Arc<SessionState>,
        contents: Contents,
        states: &mut StateTable,
    ) -> &Arc<SessionState> {
        if !self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, state)) {
            self.of = Some(Arc::clone(state));
            self.readings = [const { None }; 4];
        }
        let make = || states.intern(reading_of(state, contents));
        #[expect(clippy::indexing_slicing, reason = "two bits of four places")]
        let place = &mut self.readings[contents.index()];
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

/// What has a part in one preparation, beside its text's reading.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Beside {
    /// The types of user variables' values.
    pub(super) values: bool,
    /// What may be in names that have become views since the text was first read.
    pub(super) views: Contents,
}

impl Beside {
    fn is_alike(self, one: &SessionState, other: &SessionState) -> bool {
        let is_same =
            |name| !self.views.has_part(name) || one.variable(name) == other.variable(name);
        (!self.values || one.user_variables() == other.user_variables())
            && [OF_LITERALS, OF_CONCATENATION].into_iter().all(is_same)
    }
}

/// The state that a connection in state `server` has to be brought to before it prepares, for a
/// session in state `session`, a text that was first read under `reading`. `None` when any reading
/// would be the same.
///
/// What was prepared without a schema names every schema that it needs, so any will do: a chosen
/// one can't be given back. What has a part beside the reading is as it is in the session now.
pub(super) fn state_for(
    reading: &SessionState,
    contents: Contents,
    beside: Beside,
    session: &SessionState,
    server: &SessionState,
) -> Option<SessionState> {
    let mut wanted = reading.clone();
    if wanted.schema == Schema::None {
        wanted.schema = server.schema.clone();
    }
    if beside.is_alike(session, server) && reading_of(server, contents) == wanted {
        return None;
    }
    let mut state = session.clone();
    state.schema = wanted.schema.clone();
    state.set_charset(wanted.charset.clone());
    for (name, _) in session.variables() {
        if contents.has_part(name) {
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

    const PLAIN: Contents = Contents::NOTHING;
    const LITERALS: Contents = Contents { literals: true, ..PLAIN };

    #[test]
    fn only_texts_with_literals_or_views_are_read_in_a_time_zone() {
        let session = state("app", &[("sql_mode", "''"), ("time_zone", "'+01:00'")]);
        let session_of = |contents| reading_of(&session, contents).variables().len();
        assert_eq!((session_of(PLAIN), session_of(LITERALS)), (1, 2));
        let has_literals = |text: &[u8]| Contents::of(text, &Modes::default(), PLAIN).literals;
        assert!(!has_literals(b"SELECT a1 FROM t2 WHERE id IN (?, ?)"));
        assert!(has_literals(b"SELECT 'a'") && has_literals(b"SELECT FROM_UNIXTIME(true)"));
        assert!(has_literals(b"SELECT ? LIMIT 1"));
        let view = Contents::in_views(Hidden::DEFINED);
        assert!(Contents::of(b"SELECT a FROM v", &Modes::default(), view).literals);
        assert_eq!(Contents::in_views(Hidden::UNKNOWN), Contents::ALL);
        assert_eq!(Contents::in_views(Hidden::VARIES | Hidden::WRITES), PLAIN);
    }

    #[test]
    fn only_texts_that_may_concatenate_groups_are_read_by_their_length() {
        let one = state("app", &[("group_concat_max_len", "9"), ("sql_select_limit", "5")]);
        let other = state("app", &[("group_concat_max_len", "7")]);
        let alike = |text: &[u8], in_views| {
            let in_views = Contents { concatenates: in_views, ..PLAIN };
            let contents = Contents::of(text, &Modes::default(), in_views);
            reading_of(&one, contents) == reading_of(&other, contents)
        };
        assert!(alike(b"SELECT a FROM t WHERE id = ?", false));
        assert!(alike(b"SELECT 'GROUP_CONCAT(a)' FROM t", false));
        assert!(!alike(b"SELECT a FROM v WHERE id = ?", true));
        assert!(!alike(b"SELECT group_concat(a) FROM t", false));
        assert!(!alike(b"SELECT a FROM t WHERE b = (SELECT GROUP_CONCAT(a) FROM t)", false));
    }

    #[test]
    fn a_sessions_reading_is_one_allocation_until_its_state_changes() {
        let mut states = StateTable::default();
        let mut own = Reading::default();
        let first = states.intern(state("app", &[("autocommit", "0")]));
        let other = states.intern(state("app", &[("autocommit", "1")]));
        let one = own.of(&first, LITERALS, &mut states);
        assert!(Arc::ptr_eq(&one, &own.of(&first, LITERALS, &mut states)));
        // What has no part makes no difference.
        assert!(Arc::ptr_eq(&one, &own.of(&other, LITERALS, &mut states)));
        let moved = states.intern(state("shop", &[]));
        assert!(!Arc::ptr_eq(&one, &own.of(&moved, LITERALS, &mut states)));
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
        let then = reading_of(&state("app", &[("sql_mode", "'ANSI'")]), PLAIN);
        let now = state("shop", &[("sql_mode", "''"), ("time_zone", "'+01:00'")]);
        let wanted =
            state_for(&then, PLAIN, Beside::default(), &now, &now).expect("read otherwise");
        let expected = state("app", &[("sql_mode", "'ANSI'"), ("time_zone", "'+01:00'")]);
        assert_eq!(wanted, expected);
        assert_eq!(state_for(&then, PLAIN, Beside::default(), &now, &expected), None);
        let plain = reading_of(&state("app", &[]), LITERALS);
        let there = state("app", &[("time_zone", "'+01:00'")]);
        assert_eq!(
            state_for(&plain, LITERALS, Beside::default(), &now, &there),
            Some(state("app", &[]))
        );
        assert_eq!(state_for(&plain, PLAIN, Beside::default(), &now, &there), None);
    }

    #[test]
    fn a_view_that_has_come_since_is_read_by_the_sessions_own_length_and_time_zone() {
        let concatenates = Contents { concatenates: true, ..PLAIN };
        for (name, views) in [("group_concat_max_len", concatenates), ("time_zone", LITERALS)] {
            let then = reading_of(&state("app", &[(name, "9")]), PLAIN);
            let (now, there) = (state("app", &[(name, "7")]), state("app", &[]));
            let to = |beside| state_for(&then, PLAIN, beside, &now, &there);
            assert_eq!(to(Beside::default()), None);
            assert_eq!(to(Beside { views, ..Beside::default() }), Some(now.clone()));
        }
        let known = Contents { literals: true, concatenates: false };
        assert_eq!(Contents::ALL.beyond(known), concatenates);
    }

    #[test]
    fn any_schema_will_do_for_a_text_that_was_prepared_without() {
        let then = reading_of(&state("", &[]), PLAIN);
        let now = state("shop", &[]);
        assert_eq!(state_for(&then, PLAIN, Beside::default(), &now, &now), None);
    }
}
