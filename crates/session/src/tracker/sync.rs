//! What to send to a server connection so that its state is the session's.

use trunkline_protocol::packet::greeting::Flavor;

use super::{
    Charset, Schema, SessionState, UserVariable, is_plain_name,
    state::{CHARSET_VARIABLES, NAMING_VARIABLES},
};

/// How a server connection's state comes to equal a session's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It does already.
    None,
    /// By these commands, which may travel in the same write as the statement.
    Sync(Sync),
    /// Only by `COM_CHANGE_USER`: a chosen schema can't be given back otherwise.
    ChangeUser,
}

/// Commands that bring a server connection to a session's state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sync {
    /// The text of a `SET` that goes before the schema, which is named in UTF-8, and before the
    /// others, whose values are.
    pub set_names: Option<&'static [u8]>,
    /// A schema to choose with `COM_INIT_DB`.
    pub schema: Option<Box<[u8]>>,
    /// The text of a `SET` before the others: a server reads a character set's name under what
    /// its session had before the statement.
    pub set_first: Option<Vec<u8>>,
    /// The text of one `SET` statement.
    pub set: Option<Vec<u8>>,
    /// The text of another one, for user variables: their literals are read under the character
    /// set and SQL mode that the first one sets.
    pub set_user: Option<Vec<u8>>,
    /// A server may refuse a value of a user variable that another one has accepted.
    pub may_fail: bool,
}

impl Sync {
    /// Whether there is a `SET` in it.
    pub fn sets(&self) -> bool {
        let Self { set_names, schema: _, set_first, set, set_user, may_fail: _ } = self;
        set_names.is_some() || set_first.is_some() || set.is_some() || set_user.is_some()
    }
}

/// What brings a connection in state `server` to the state `session`.
pub fn difference(server: &SessionState, session: &SessionState, flavor: Flavor) -> Difference {
    let schema = match (&server.schema, &session.schema) {
        (have, want) if have == want => None,
        (_, Schema::Named(name)) => Some(name.clone()),
        (_, Schema::None | Schema::Unknown) => return Difference::ChangeUser,
    };
    // A server reads the values of a `SET` in the character set that was there before it.
    let is_misread = server.may_be_wide() && set_text(server, session, flavor, false).is_some();
    let is_named_in_utf8 = is_misread || schema.as_ref().is_some_and(|name| !is_plain_name(name));
    let set_names = is_named_in_utf8.then_some(SET_UTF8MB4);
    let renamed = is_named_in_utf8.then(|| in_utf8mb4(server));
    let server = renamed.as_ref().unwrap_or(server);
    let is_said_anew = schema.is_some() && server.says_of_schema();
    let chosen = is_said_anew.then(|| in_another_schema(server));
    let server = chosen.as_ref().unwrap_or(server);
    let set_first = naming_text(server, session, flavor);
    let set = set_text(server, session, flavor, set_first.is_some());
    let set_user = user_text(server, session);
    let may_fail = set_first.is_some()
        || set_user.is_some() && !session.user_variables().iter().all(is_certain);
    match schema.is_none() && set.is_none() && set_user.is_none() {
        true => Difference::None,
        false => Difference::Sync(Sync { set_names, schema, set_first, set, set_user, may_fail }),
    }
}

/// Says in which character set a schema is named, and other values are.
const SET_UTF8MB4: &[u8] = b"SET NAMES utf8mb4";

/// A connection's state behind that.
fn in_utf8mb4(server: &SessionState) -> SessionState {
    let mut state = server.clone();
    state.set_charset(Charset::Names(b"utf8mb4".as_slice().into()));
    state
}

/// A connection's state behind `COM_INIT_DB`, but for the schema.
fn in_another_schema(server: &SessionState) -> SessionState {
    let mut state = server.clone();
    state.choose_schema(Schema::Unknown);
    state
}

/// Whether a connection has user variables that the session never set. Set to NULL their names
/// stay, for `information_schema.user_variables` to tell: only a reset forgets them.
pub fn has_others_names(server: &SessionState, session: &SessionState) -> bool {
    server.user_variables().iter().any(|(name, _)| session.user_variable(name).is_none())
}

/// Whether no server refuses a user variable's value, whatever its version: a short number, NULL,
/// or a plain text in single quotes.
fn is_certain((_, value): &UserVariable) -> bool {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\\' | b'\'');
    match &**value {
        [b'\'', inner @ .., b'\''] => inner.iter().all(is_plain),
        number if number.len() <= NUMBER_LEN_MAX => {
            let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+');
            number.iter().all(is_number) || number.eq_ignore_ascii_case(b"NULL")
        }
        _ => false,
    }
}

/// The longest text of a number that is surely within all limits.
const NUMBER_LEN_MAX: usize = 30;

/// A `SET` that changes nothing and has a server with its trackers on report these variables.
pub fn report_text(names: &[String], flavor: Flavor) -> Vec<u8> {
    let mut text = SetText { text: Vec::new(), flavor };
    for name in names {
        let value = format!("@@SESSION.{}", server_name(name, flavor));
        text.variable(name, value.as_bytes());
    }
    text.text
}

/// One `SET` for the user variables that differ. What the session never set becomes a NULL of the
/// type of bytes, which is what it would read: NULL by itself keeps the type of another session's
/// value.
fn user_text(server: &SessionState, session: &SessionState) -> Option<Vec<u8>> {
    // An equal text under another character set is another value.
    let is_same_reading = server.reads_strings_as(session);
    if is_same_reading && server.user_variables() == session.user_variables() {
        return None;
    }
    let mut text = Vec::new();
    let mut assign = |name: &[u8], value: &[u8]| {
        text.extend_from_slice(if text.is_empty() { b"SET @`" } else { b",@`" });
        for byte in name {
            if *byte == b'`' {
                text.push(b'`');
            }
            text.push(*byte);
        }
        text.extend_from_slice(b"`=");
        text.extend_from_slice(value);
    };
    for (name, _) in server.user_variables() {
        if session.user_variable(name).is_none() {
            assign(name, b"x''");
            assign(name, b"NULL");
        }
    }
    for (name, value) in session.user_variables() {
        let is_same = server.user_variable(name) == Some(value);
        if !is_same && value.eq_ignore_ascii_case(b"NULL") {
            assign(name, b"x''");
        }
        if !is_same || !is_same_reading {
            assign(name, value);
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Whether the session's character set is to be said.
fn says_charset(server: &SessionState, session: &SessionState) -> bool {
    // The default of a single variable is what the session's own charset choice gives, so that is
    // said again.
    let is_void = |(name, _): &(Box<str>, Box<[u8]>)| {
        CHARSET_VARIABLES.contains(&&**name) && session.variable(name).is_none()
    };
    server.charset != session.charset || server.variables().iter().any(is_void)
}

/// A `SET` behind which a character set that is to be said means what it meant to the session: it
/// takes away what the connection has of that. A session that has named one under settings of its
/// own is held.
fn naming_text(server: &SessionState, session: &SessionState, flavor: Flavor) -> Option<Vec<u8>> {
    let is_naming = |(name, _): &&(Box<str>, Box<[u8]>)| NAMING_VARIABLES.contains(&&**name);
    let mut names = server.variables().iter().filter(is_naming).peekable();
    if names.peek().is_none() || !says_charset(server, session) {
        return None;
    }
    let mut text = SetText { text: Vec::new(), flavor };
    names.for_each(|(name, _)| text.initial(name));
    Some(text.text)
}

/// One `SET` that changes everything that differs but the schema. `is_named`: behind a
/// [`naming_text`].
fn set_text(
    server: &SessionState,
    session: &SessionState,
    flavor: Flavor,
    is_named: bool,
) -> Option<Vec<u8>> {
    let mut text = SetText { text: Vec::new(), flavor };
    let charset_differs = server.charset != session.charset;
    let charset_said = says_charset(server, session);
    let is_initial = |name: &str| is_named && NAMING_VARIABLES.contains(&name);
    if charset_said {
        text.charset(&session.charset);
    }
    // `SET NAMES` overwrites the single character set variables, so they are said again.
    // Setting `max_join_size` sets `sql_big_selects` too.
    let joins_differ = server.variable("max_join_size") != session.variable("max_join_size");
    let kept = |name: &str, value: &[u8]| {
        let is_changed = joins_differ && name == "sql_big_selects"
            || charset_differs && CHARSET_VARIABLES.contains(&name)
            || is_initial(name);
        server.variable(name) == Some(value) && !is_changed
    };
    for (name, _) in server.variables() {
        let is_charset = CHARSET_VARIABLES.contains(&&**name);
        if session.variable(name).is_none() && !(is_charset && charset_said) && !is_initial(name) {
            text.initial(name);
        }
    }
    for (name, value) in session.variables() {
        let is_charset = CHARSET_VARIABLES.contains(&&**name);
        if !kept(name, value) || (is_charset && charset_said) {
            text.variable(name, value);
        }
    }
    (!text.text.is_empty()).then_some(text.text)
}

/// A character set and collation that every server has.
const UTF8MB4: (&str, &str) = ("utf8mb4", "utf8mb4_general_ci");

/// A `SET` statement in the making.
struct SetText {
    text: Vec<u8>,
    flavor: Flavor,
}

impl SetText {
    fn separate(&mut self) {
        let lead: &[u8] = if self.text.is_empty() { b"SET " } else { b"," };
        self.text.extend_from_slice(lead);
    }

    fn charset(&mut self, charset: &Charset) {
        if let Charset::Collation(id) = charset
            && trunkline_protocol::collation::lookup(self.flavor, *id).is_none()
        {
            // A server gives its own to a handshake whose collation it lacks. `SET NAMES DEFAULT`
            // would give the default collation of its character set.
            for name in ["character_set_client", "character_set_results", "collation_connection"] {
                self.variable(name, format!("@@GLOBAL.{name}").as_bytes());
            }
            return;
        }
        self.separate();
        match charset {
            Charset::Names(names) => {
                self.text.extend_from_slice(b"NAMES ");
                self.text.extend_from_slice(names);
            }
            Charset::CharacterSet(name) => {
                self.text.extend_from_slice(b"CHARACTER SET ");
                self.text.extend_from_slice(name);
            }
            Charset::Collation(id) => {
                self.text.extend_from_slice(b"NAMES ");
                let known = trunkline_protocol::collation::lookup(self.flavor, *id);
                let (charset, collation) = known.unwrap_or(UTF8MB4);
                self.text.extend_from_slice(charset.as_bytes());
                self.text.extend_from_slice(b" COLLATE ");
                self.text.extend_from_slice(collation.as_bytes());
            }
            Charset::Unknown => self.text.extend_from_slice(b"NAMES DEFAULT"),
        }
    }

    /// What a new session has. A record without autocommit says that it is on, whatever has become
    /// the servers' default since.
    fn initial(&mut self, name: &str) {
        match DEFAULT_DIFFERS.contains(&name) {
            _ if name == "autocommit" => self.variable(name, b"1"),
            true => self.variable(name, format!("@@GLOBAL.{name}").as_bytes()),
            false => self.variable(name, b"DEFAULT"),
        }
    }

    fn variable(&mut self, name: &str, value: &[u8]) {
        self.separate();
        self.text.extend_from_slice(b"@@SESSION.");
        self.text.extend_from_slice(server_name(name, self.flavor).as_bytes());
        self.text.push(b'=');
        self.text.extend_from_slice(value);
    }
}

/// Variables whose `DEFAULT` is not what a new session has: MySQL says 0 for both, and a new
/// session has 1. Found by asking MySQL 9.7 for every variable; on MariaDB 10.11 there is none.
pub(super) const DEFAULT_DIFFERS: [&str; 2] = ["foreign_key_checks", "unique_checks"];

/// MariaDB before 11.1 knows the transaction variables by their old names only.
fn server_name(name: &str, flavor: Flavor) -> &str {
    match (flavor, name) {
        (Flavor::MariaDb, "transaction_isolation") => "tx_isolation",
        (Flavor::MariaDb, "transaction_read_only") => "tx_read_only",
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(schema: &str, variables: &[(&str, &str)]) -> SessionState {
        let mut state = SessionState::new(schema.as_bytes().into(), Charset::Collation(45));
        for (name, value) in variables {
            state.set_variable(name, value.as_bytes());
        }
        state
    }

    fn set_of(server: &SessionState, session: &SessionState, flavor: Flavor) -> String {
        match difference(server, session, flavor) {
            Difference::Sync(Sync { set: Some(text), .. }) => {
                String::from_utf8(text).expect("text")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn equal_states_need_nothing() {
        let a = state("app", &[("time_zone", "'+01:00'")]);
        assert_eq!(difference(&a, &a.clone(), Flavor::MySql), Difference::None);
    }

    #[test]
    fn what_the_session_never_set_goes_back_to_the_default() {
        let server = state("", &[("time_zone", "'+01:00'"), ("sql_mode", "''")]);
        let session = state("", &[("sql_mode", "'ANSI'")]);
        assert_eq!(
            set_of(&server, &session, Flavor::MySql),
            "SET @@SESSION.time_zone=DEFAULT,@@SESSION.sql_mode='ANSI'"
        );
    }

    #[test]
    fn issue_16_a_schemas_character_set_is_said_again_behind_the_schema() {
        let collation = [("collation_database", "'greek_bin'")];
        let (server, session) = (state("a", &collation), state("b", &collation));
        let text = set_of(&server, &session, Flavor::MySql);
        assert_eq!(text, "SET @@SESSION.collation_database='greek_bin'");
        let Difference::Sync(sync) = difference(&server, &state("b", &[]), Flavor::MySql) else {
            panic!("they differ");
        };
        assert_eq!((sync.schema.as_deref(), sync.set), (Some(&b"b"[..]), None));
    }

    #[test]
    fn transaction_variables_have_the_servers_own_name() {
        let session = state("", &[("transaction_isolation", "'SERIALIZABLE'")]);
        let text = set_of(&state("", &[]), &session, Flavor::MariaDb);
        assert_eq!(text, "SET @@SESSION.tx_isolation='SERIALIZABLE'");
    }

    #[test]
    fn variables_are_reported_by_being_set_to_what_they_are() {
        let names = ["sql_mode".to_owned(), "transaction_isolation".to_owned()];
        let text = String::from_utf8(report_text(&names, Flavor::MariaDb)).expect("text");
        let expected = "SET @@SESSION.sql_mode=@@SESSION.sql_mode,\
                        @@SESSION.tx_isolation=@@SESSION.tx_isolation";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_another_variable_overwrites_is_said_again() {
        let server = state("", &[("sql_big_selects", "1")]);
        let session = state("", &[("max_join_size", "9"), ("sql_big_selects", "1")]);
        let text = set_of(&server, &session, Flavor::MariaDb);
        assert_eq!(text, "SET @@SESSION.max_join_size=9,@@SESSION.sql_big_selects=1");
        let text = set_of(&session, &server, Flavor::MariaDb);
        assert_eq!(text, "SET @@SESSION.max_join_size=DEFAULT,@@SESSION.sql_big_selects=1");
    }

    #[test]
    fn a_default_that_no_new_session_has_is_not_used() {
        let server = state("", &[("foreign_key_checks", "0")]);
        let text = set_of(&server, &state("", &[]), Flavor::MySql);
        assert_eq!(text, "SET @@SESSION.foreign_key_checks=@@GLOBAL.foreign_key_checks");
    }

    fn user_set_of(server: &SessionState, session: &SessionState) -> Option<String> {
        let Difference::Sync(sync) = difference(server, session, Flavor::MySql) else {
            return None;
        };
        sync.set_user.map(|text| String::from_utf8(text).expect("text"))
    }

    #[test]
    fn user_variables_follow_and_others_become_null() {
        let mut server = state("", &[]);
        server.set_user_variable(b"theirs", b"'x'");
        server.set_user_variable(b"same", b"2");
        let mut session = state("", &[]);
        session.set_user_variable(b"same", b"2");
        session.set_user_variable(b"a b", b"_latin1'c'");
        let text = user_set_of(&server, &session);
        assert_eq!(text.as_deref(), Some("SET @`theirs`=x'',@`theirs`=NULL,@`a b`=_latin1'c'"));
        assert_eq!(user_set_of(&server, &server.clone()), None);
        session.set_user_variable(b"theirs", b"null");
        let text = user_set_of(&server, &session).unwrap_or_default();
        assert!(text.contains("@`theirs`=x'',@`theirs`=null"), "{text}");
    }

    #[test]
    fn autocommit_is_switched_on_whatever_the_default_is() {
        let server = state("", &[("autocommit", "0")]);
        match difference(&server, &state("", &[]), Flavor::MySql) {
            Difference::Sync(Sync { set: Some(text), .. }) => {
                assert_eq!(text, b"SET @@SESSION.autocommit=1");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_that_the_session_lacks_need_a_reset() {
        let needs_reset = |server: &[&str], session: &[&str]| {
            let with = |names: &[&str]| {
                let mut state = state("", &[]);
                names.iter().for_each(|name| {
                    state.set_user_variable(name.as_bytes(), b"1");
                });
                state
            };
            has_others_names(&with(server), &with(session))
        };
        assert!(needs_reset(&["a"], &[]));
        assert!(needs_reset(&["a", "b"], &["a", "c"]));
        assert!(!needs_reset(&["a"], &["a", "b"]));
        assert!(!needs_reset(&[], &["a"]));
        assert!(!needs_reset(&[], &[]));
    }

    #[test]
    fn values_that_only_some_servers_take_are_told_from_others() {
        let may_fail = |value: &str| {
            let (server, mut session) = (state("", &[]), state("", &[]));
            session.set_user_variable(b"a", value.as_bytes());
            match difference(&server, &session, Flavor::MySql) {
                Difference::Sync(sync) => sync.may_fail,
                other => panic!("{other:?}"),
            }
        };
        for certain in ["1", "-2.50", "'some text'", "''"] {
            assert!(!may_fail(certain), "{certain}");
        }
        for open in ["1e400", "x'00'", "_utf8mb4'\u{e4}'", r"'a\b'", "DATE'2026-02-30'"] {
            assert!(may_fail(open), "{open}");
        }
    }

    #[test]
    fn an_equal_text_under_another_character_set_is_said_again() {
        let mut server = state("", &[]);
        server.set_user_variable(b"a", b"'x'");
        server.set_user_variable(b"n", b"1");
        let mut session = server.clone();
        session.set_charset(Charset::Names(b"latin1".as_slice().into()));
        // The same set of variables, but not the same values.
        assert_eq!(user_set_of(&server, &session).as_deref(), Some("SET @`a`='x',@`n`=1"));
    }

    #[test]
    fn a_name_that_is_not_plain_is_said_in_utf8() {
        let mut latin1 = state("", &[]);
        latin1.set_charset(Charset::Names(b"latin1".as_slice().into()));
        let mut session = latin1.clone();
        session.schema = "\u{e9}".as_bytes().into();
        let sync = |server: &SessionState| match difference(server, &session, Flavor::MySql) {
            Difference::Sync(sync) => sync,
            other => panic!("{other:?}"),
        };
        for server in [&latin1, &state("", &[]), &state("app", &[])] {
            let sync = sync(server);
            assert_eq!(sync.set_names, Some(SET_UTF8MB4));
            assert_eq!(sync.schema.as_deref(), Some("\u{e9}".as_bytes()));
            assert_eq!(sync.set.as_deref(), Some(&b"SET NAMES latin1"[..]));
        }
        // The schema is there: only the character set is said.
        let mut other = session.clone();
        other.set_charset(Charset::Collation(45));
        let sync = sync(&other);
        assert_eq!((sync.set_names, sync.schema), (None, None));
        for (name, is_plain) in [("app-1_x.y", true), ("a{", false), ("a\\", false), ("~", false)] {
            assert_eq!(is_plain_name(name.as_bytes()), is_plain, "{name}");
        }
    }

    #[test]
    fn values_are_said_in_utf8_where_the_connection_would_read_them_in_wide_characters() {
        let text = |server: &SessionState, variables: &[(&str, &str)]| match difference(
            server,
            &state("", variables),
            Flavor::MySql,
        ) {
            Difference::Sync(sync) => (sync.set_names, sync.set.expect("values to set")),
            other => panic!("{other:?}"),
        };
        let zone = ("time_zone", "'+01:00'");
        let (narrow, set) = text(&state("", &[("character_set_connection", "'latin1'")]), &[zone]);
        assert_eq!(narrow, None);
        for (name, value) in [
            ("character_set_connection", "'ucs2'"),
            ("character_set_connection", "UTF16LE"),
            ("collation_connection", "'utf32_bin'"),
        ] {
            let server = state("", &[(name, value), ("time_zone", "'-03:00'")]);
            assert_eq!(text(&server, &[zone]), (Some(SET_UTF8MB4), set.clone()), "{value}");
        }
        let mut of_schema = state("", &[]);
        of_schema.set_charset(Charset::CharacterSet(b"latin1".as_slice().into()));
        assert_eq!(text(&of_schema, &[zone]).0, Some(SET_UTF8MB4));
        // What is said of it is the same in any: its own values are read as its texts are.
        let server = state("", &[("character_set_connection", "'ucs2'")]);
        let mut session = server.clone();
        session.set_user_variable(b"a", b"'x'");
        match difference(&server, &session, Flavor::MySql) {
            Difference::Sync(sync) => assert_eq!((sync.set_names, sync.set), (None, None)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_schema_is_chosen_but_never_given_back() {
        let none = state("", &[]);
        let app = state("app", &[]);
        let expected = Sync { schema: Some(b"app".as_slice().into()), ..Sync::default() };
        assert_eq!(difference(&none, &app, Flavor::MySql), Difference::Sync(expected));
        assert_eq!(difference(&app, &none, Flavor::MySql), Difference::ChangeUser);
    }

    #[test]
    fn single_charset_variables_follow_the_names() {
        let mut server = state("", &[]);
        server.set_variable("character_set_results", b"NULL");
        let text = set_of(&server, &state("", &[]), Flavor::MySql);
        assert!(text.starts_with("SET NAMES utf8mb4 COLLATE "), "{text}");
        assert!(!text.contains("DEFAULT"), "{text}");
        let mut session = state("", &[]);
        session.set_charset(Charset::Names(b"latin1".as_slice().into()));
        session.set_variable("character_set_results", b"NULL");
        let text = set_of(&server, &session, Flavor::MySql);
        assert_eq!(text, "SET NAMES latin1,@@SESSION.character_set_results=NULL");
    }

    #[test]
    fn a_character_set_is_said_where_its_name_means_what_it_meant() {
        let mut server = state("", &[]);
        server.set_variable("old_mode", b"''");
        let mut session = state("", &[]);
        session.set_charset(Charset::Names(b"utf8".as_slice().into()));
        let sets = |server: &SessionState, session: &SessionState| {
            let Difference::Sync(sync) = difference(server, session, Flavor::MariaDb) else {
                panic!("there is a difference");
            };
            [sync.set_first, sync.set]
                .map(|text| text.map(|text| String::from_utf8(text).expect("a text")))
        };
        let first = || Some("SET @@SESSION.old_mode=DEFAULT".to_owned());
        assert_eq!(sets(&server, &session), [first(), Some("SET NAMES utf8".to_owned())]);
        session.set_variable("old_mode", b"''");
        let behind = || Some("SET NAMES utf8,@@SESSION.old_mode=''".to_owned());
        assert_eq!(sets(&server, &session), [first(), behind()]);
        assert_eq!(sets(&state("", &[]), &session), [None, behind()]);
        // Nothing is to be named.
        let away = Some("SET @@SESSION.old_mode=DEFAULT".to_owned());
        assert_eq!(sets(&server, &state("", &[])), [None, away]);
    }
}
