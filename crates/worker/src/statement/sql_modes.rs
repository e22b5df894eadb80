//! How a session's statements are to be read: what its settings make of quotes and bytes.

use trunkline_protocol::{
    collation,
    packet::greeting::Flavor,
    packet::status,
    packet::track::{Change, Changes},
};
use trunkline_session::tracker::{Charset, SessionState};
use trunkline_sql::{
    set::Value,
    token::{Encoding, Modes},
};

use crate::{clients::client::Client, login::SPACES_IGNORED, rooms::Core};

/// The modes but for the encoding.
fn modes_of(state: &SessionState, flavor: Flavor, no_backslash_escapes: Option<bool>) -> Modes {
    let sql_mode = state.variable("sql_mode").filter(|_| has_own_mode(state));
    let ansi_quotes = sql_mode.and_then(ansi_quotes_of);
    Modes {
        // Guessed the other way where it is not the default's.
        ansi_quotes: ansi_quotes.unwrap_or(sql_mode.is_some()),
        no_backslash_escapes: no_backslash_escapes.unwrap_or(false),
        guesses_quotes: ansi_quotes.is_none(),
        guesses_escapes: no_backslash_escapes.is_none(),
        flavor_mariadb: flavor == Flavor::MariaDb,
        ignore_space: sql_mode.is_some_and(certainly_ignores_space),
        oracle: sql_mode.is_some_and(may_be_oracle),
        // What the servers have in common is known to the analyses.
        ..Modes::default()
    }
}

/// Whether a value of `sql_mode` certainly lets white space stand before a function's parenthesis:
/// it is a plain literal that holds this mode, or one that includes it.
fn certainly_ignores_space(value: &[u8]) -> bool {
    let literal = match value {
        [first @ (b'\'' | b'"'), inner @ .., last] if first == last => inner,
        _ => return false,
    };
    let names: [&[u8]; 3] = [b"IGNORE_SPACE", b"ANSI", b"ORACLE"];
    literal
        .split(|byte| *byte == b',')
        .any(|mode| names.iter().any(|name| mode.eq_ignore_ascii_case(name)))
}

/// Whether a value of `sql_mode` may be MariaDB's ORACLE. A number or a user variable may.
fn may_be_oracle(value: &[u8]) -> bool {
    let is_plain_text = matches!(value.first(), Some(b'\'' | b'"'));
    let is_user_variable = value.first() == Some(&b'@') && value.get(1) != Some(&b'@');
    let name: &[u8] = b"ORACLE";
    value.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
        || !is_plain_text && (is_user_variable || value.iter().any(u8::is_ascii_digit))
}

/// Whether a session has set its `sql_mode` itself, so that it has the same on all servers.
fn has_own_mode(state: &SessionState) -> bool {
    state.variable("sql_mode").is_some_and(|value| *value != *SPACES_IGNORED)
}

/// What servers' `sql_mode` is by default, and which character sets they read new sessions' texts
/// in, as far as their connections have told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DefaultModes {
    /// Double quotes enclose strings on some server.
    has_strings: bool,
    /// They enclose names on some server.
    has_names: bool,
    /// MariaDB's ORACLE is on on some server.
    has_oracle: bool,
    /// A backslash in a string escapes what follows on some server.
    has_escapes: bool,
    /// It is a letter like others on some server.
    has_no_escapes: bool,
    /// Some connection has told, or can't.
    has_told: bool,
    /// How servers read texts that read them in another character set than the login named: with
    /// `--skip-character-set-client-handshake`, or by their `init_connect`.
    otherwise: Option<Encoding>,
}

impl DefaultModes {
    /// Takes over what a connection reports of itself when it is new. `login` is the collation that
    /// its login named, and whose server that was.
    pub(crate) fn learn(&mut self, changes: &[u8], login: Option<(Flavor, u16)>) {
        for change in Changes::new(changes) {
            match change {
                Ok(Change::SystemVariable { name: b"sql_mode", value }) => {
                    self.has_told = true;
                    self.learn_mode(value);
                }
                Ok(Change::SystemVariable { name: b"character_set_client", value }) => {
                    if let Some((flavor, collation)) = login {
                        self.learn_charset(value, flavor, collation);
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes over what is set for new sessions of some server, whose next connections will tell.
    pub(crate) fn learn_global(&mut self, name: &[u8], value: &Value) {
        match (name, value) {
            (b"sql_mode", Value::Literal(text)) if !text.iter().any(u8::is_ascii_digit) => {
                self.learn_mode(text);
            }
            (b"sql_mode", Value::Default) => self.learn_mode(b""),
            (b"sql_mode", _) => self.learn_any_mode(),
            // It may set whatever a session may, and is run for each new one.
            (b"init_connect", Value::Literal(text)) if matches!(&**text, b"''" | b"\"\"") => {}
            (b"init_connect", Value::Literal(_) | Value::Expression(_)) => {
                self.learn_any_mode();
                self.otherwise = Some(Encoding::Unknown);
            }
            _ => {}
        }
    }

    fn learn_any_mode(&mut self) {
        (self.has_names, self.has_strings) = (true, true);
        (self.has_escapes, self.has_no_escapes) = (true, true);
        self.has_oracle = true;
    }

    fn learn_mode(&mut self, value: &[u8]) {
        let (encloses_names, is_letter) = (names_ansi_quotes(value), names_no_escapes(value));
        self.has_names |= encloses_names;
        self.has_strings |= !encloses_names;
        self.has_oracle |= may_be_oracle(value);
        self.has_no_escapes |= is_letter;
        self.has_escapes |= !is_letter;
    }

    /// Takes over what a server's reply says of its session's modes. Where servers differ by
    /// default it says nothing of the next one.
    pub(crate) fn learn_status(self, modes: &mut Modes, state: &SessionState, flags: u16) {
        modes.no_backslash_escapes = flags & status::NO_BACKSLASH_ESCAPES != 0;
        modes.guesses_escapes = self.differs_in_escapes() && !has_own_mode(state);
    }

    /// The status flags that tell how the texts of a new session are read: as all servers' new
    /// connections have told, or as their greetings do (`greeted`).
    pub(crate) fn reading(self, greeted: u16, flavor: Flavor) -> u16 {
        let told = |has: bool, has_not: bool, flag: u16| match has == has_not {
            true => greeted & flag,
            false if has => flag,
            false => 0,
        };
        let escapes = told(self.has_no_escapes, self.has_escapes, status::NO_BACKSLASH_ESCAPES);
        match flavor {
            Flavor::MariaDb => {
                escapes | told(self.has_names, self.has_strings, status::ANSI_QUOTES)
            }
            Flavor::MySql => escapes,
        }
    }

    fn differs_in_escapes(self) -> bool {
        self.has_escapes && self.has_no_escapes
    }

    /// The modes of a session, whose state this is, now that servers have told this.
    pub(crate) fn follow(self, modes: Modes, state: &SessionState, flavor: Flavor) -> Modes {
        let is_default = !has_own_mode(state);
        Modes {
            encoding: self.encoding(state, flavor),
            guesses_quotes: modes.guesses_quotes || is_default,
            guesses_escapes: modes.guesses_escapes || is_default && self.differs_in_escapes(),
            ..modes
        }
    }

    /// A connection of a server that tells nothing: it is taken for one that does as it is asked.
    pub(crate) fn told(self) -> Self {
        Self { has_told: true, ..self }
    }

    fn learn_charset(&mut self, charset: &[u8], flavor: Flavor, collation: u16) {
        let reads = charset_name(charset).map_or(Encoding::Unknown, |name| Encoding::of(&name));
        let named = encoding_of(flavor, collation);
        self.has_told = true;
        // A server that lacks a collation reads its own character set instead.
        if reads != named && named != Encoding::Unknown {
            let is_other = self.otherwise.is_some_and(|known| known != reads);
            self.otherwise = Some(if is_other { Encoding::Unknown } else { reads });
        }
    }

    /// Takes over what another worker's connections have told.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { has_strings, has_names, has_oracle, .. } = other;
        let Self { has_escapes, has_no_escapes, has_told, otherwise, .. } = other;
        self.has_strings |= has_strings;
        self.has_names |= has_names;
        self.has_oracle |= has_oracle;
        self.has_escapes |= has_escapes;
        self.has_no_escapes |= has_no_escapes;
        self.has_told |= has_told;
        self.otherwise = match (self.otherwise, otherwise) {
            (Some(own), Some(other)) if own != other => Some(Encoding::Unknown),
            (own, other) => own.or(other),
        };
    }

    /// How a session's texts are read. One that has named its character set in its login alone may
    /// be read in the server's, or in its own where its state was given to a connection.
    fn encoding(self, state: &SessionState, flavor: Flavor) -> Encoding {
        let named = client_charset(state, flavor);
        let named = named.map_or(Encoding::Unknown, |name| Encoding::of(&name));
        let is_of_login = matches!(state.charset, Charset::Collation(_))
            && state.variable("character_set_client").is_none();
        match (is_of_login, self.has_told, self.otherwise) {
            (false, ..) | (true, true, None) => named,
            (true, true, Some(otherwise)) if otherwise == named => named,
            (true, ..) => Encoding::Unknown,
        }
    }

    /// The modes that follow from a session's state. `NO_BACKSLASH_ESCAPES` is known from the
    /// status flags of the server's replies, and a guess until there was one, or where servers
    /// differ by default.
    pub(crate) fn of_session(
        self,
        state: &SessionState,
        flavor: Flavor,
        no_backslash_escapes: Option<bool>,
    ) -> Modes {
        let encoding = self.encoding(state, flavor);
        Modes { encoding, ..modes_of(state, flavor, no_backslash_escapes) }
    }

    /// The modes of a session, with what is known instead of a guess.
    pub(crate) fn settle(self, modes: Modes) -> Modes {
        if !modes.guesses_quotes {
            return modes;
        }
        let modes = Modes { oracle: modes.oracle || self.has_oracle, ..modes };
        let is_default = !modes.ansi_quotes;
        let is_known = self.has_names != self.has_strings;
        match is_default && is_known {
            true => Modes { ansi_quotes: self.has_names, guesses_quotes: false, ..modes },
            false => modes,
        }
    }
}

/// Whether a value of `sql_mode`, as it stands in a `SET`, makes double quotes enclose names;
/// `None` for one that only a server can evaluate.
fn ansi_quotes_of(value: &[u8]) -> Option<bool> {
    let is_plain_text = match value {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => {
            inner.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'_' | b',' | b' '))
        }
        _ => false,
    };
    is_plain_text.then(|| names_ansi_quotes(value))
}

/// Whether a list of modes holds `ANSI_QUOTES`, or one that stands for it and others.
fn names_ansi_quotes(value: &[u8]) -> bool {
    let value = value.to_ascii_uppercase();
    let names: [&[u8]; 6] = [b"ANSI", b"ORACLE", b"DB2", b"MSSQL", b"POSTGRESQL", b"MAXDB"];
    names.iter().any(|name| value.windows(name.len()).any(|part| part == *name))
}

/// Whether a list of modes holds `NO_BACKSLASH_ESCAPES`.
fn names_no_escapes(value: &[u8]) -> bool {
    let name: &[u8] = b"NO_BACKSLASH_ESCAPES";
    value.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
}

/// The character set of the client's texts, in lower case; `None` when it is not known.
fn client_charset(state: &SessionState, flavor: Flavor) -> Option<String> {
    if let Some(value) = state.variable("character_set_client") {
        return charset_name(value);
    }
    match &state.charset {
        Charset::Collation(id) => charset_of(flavor, *id),
        Charset::Names(text) | Charset::CharacterSet(text) => charset_name(text),
        Charset::Unknown => None,
    }
}

fn charset_of(flavor: Flavor, collation: u16) -> Option<String> {
    collation::lookup(flavor, collation).map(|(charset, _)| charset.to_ascii_lowercase())
}

fn encoding_of(flavor: Flavor, collation: u16) -> Encoding {
    charset_of(flavor, collation).map_or(Encoding::Unknown, |name| Encoding::of(&name))
}

/// The character set that a text begins with, with or without quotes.
fn charset_name(text: &[u8]) -> Option<String> {
    let (quote, text) = match text {
        [quote @ (b'\'' | b'"'), rest @ ..] => (Some(quote), rest),
        _ => (None, text),
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let len = text.iter().take_while(|byte| is_name(byte)).count();
    let is_whole = match (quote, text.get(len)) {
        (Some(quote), end) => end == Some(quote),
        (None, end) => end.is_none_or(u8::is_ascii_whitespace),
    };
    let name = text.get(..len).filter(|name| is_whole && !name.is_empty())?;
    Some(name.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect())
}

impl Core {
    /// How texts of a client are read.
    #[inline]
    pub(crate) fn modes(&self, client: &Client) -> Modes {
        let modes = client.session.settings.modes;
        match modes.guesses_quotes {
            true => self.servers.defaults.modes.settle(modes),
            false => modes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_session::tracker::Schema;

    fn modes(change: impl FnOnce(&mut SessionState)) -> Modes {
        let mut state = SessionState::new(Schema::None, Charset::Collation(45));
        change(&mut state);
        told().of_session(&state, Flavor::MySql, None)
    }

    /// Of servers that read what logins name.
    fn told() -> DefaultModes {
        DefaultModes::default().told()
    }

    fn report(name: &str, value: &str) -> Vec<u8> {
        let len = |text: &str| u8::try_from(text.len()).expect("short");
        let mut entry = vec![len(name)];
        entry.extend_from_slice(name.as_bytes());
        entry.push(len(value));
        entry.extend_from_slice(value.as_bytes());
        let mut changes = vec![0, u8::try_from(entry.len()).expect("short")];
        changes.extend(entry);
        changes
    }

    #[test]
    fn new_sessions_are_told_how_their_texts_are_read() {
        const BOTH: u16 = status::NO_BACKSLASH_ESCAPES | status::ANSI_QUOTES;
        let mut modes = DefaultModes::default();
        assert_eq!(modes.reading(status::AUTOCOMMIT, Flavor::MariaDb), 0);
        assert_eq!(modes.reading(BOTH, Flavor::MariaDb), BOTH, "as servers greet");
        modes.learn_mode(b"");
        assert_eq!(modes.reading(BOTH, Flavor::MariaDb), 0, "a connection has told otherwise");
        modes.learn_mode(b"NO_BACKSLASH_ESCAPES,ANSI_QUOTES");
        assert_eq!(modes.reading(BOTH, Flavor::MariaDb), BOTH, "servers differ");
        let mut modes = DefaultModes::default();
        modes.learn_mode(b"NO_BACKSLASH_ESCAPES,ANSI_QUOTES");
        assert_eq!(modes.reading(0, Flavor::MariaDb), BOTH);
        assert_eq!(modes.reading(0, Flavor::MySql), status::NO_BACKSLASH_ESCAPES);
    }

    #[test]
    fn quotes_follow_sql_mode() {
        for (value, expected) in [
            ("'ANSI'", Some(true)),
            ("'STRICT_TRANS_TABLES'", Some(false)),
            ("''", Some(false)),
            ("4", None),
            (r"'ANS\I'", None),
            ("CONCAT('A', 'NSI')", None),
        ] {
            let modes = modes(|state| state.set_variable("sql_mode", value.as_bytes()));
            let known = (!modes.guesses_quotes).then_some(modes.ansi_quotes);
            assert_eq!(known, expected, "{value}");
        }
    }

    #[test]
    fn issue_16_the_default_sql_mode_is_a_guess_until_servers_tell() {
        let state = SessionState::new(Schema::None, Charset::Collation(45));
        let guess = modes_of(&state, Flavor::MySql, None);
        assert!(guess.guesses_quotes && guess.guesses_escapes);
        let report = |mode: &str| report("sql_mode", mode);
        let mut defaults = DefaultModes::default();
        assert_eq!(defaults.settle(guess), guess);
        defaults.learn(&report("STRICT_TRANS_TABLES"), None);
        let settled = defaults.settle(guess);
        assert!(!settled.guesses_quotes && !settled.ansi_quotes);
        let mut others = DefaultModes::default();
        others.learn(&report("ANSI_QUOTES"), None);
        let settled = others.settle(guess);
        assert!(!settled.guesses_quotes && settled.ansi_quotes);
        // Two servers that differ.
        defaults.learn(&report("ANSI_QUOTES"), None);
        assert!(defaults.settle(guess).guesses_quotes);
        // A server's ORACLE is for all sessions that have set no other mode.
        assert!(!defaults.settle(guess).oracle);
        defaults.learn(&report("PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ORACLE"), None);
        assert!(defaults.settle(guess).oracle);
        let mut own = state.clone();
        own.set_variable("sql_mode", b"''");
        let own = modes_of(&own, Flavor::MariaDb, None);
        assert!(!defaults.settle(own).oracle);
        let mut modes = guess;
        defaults.learn_status(&mut modes, &state, status::NO_BACKSLASH_ESCAPES);
        assert!(modes.no_backslash_escapes && !modes.guesses_escapes);
    }

    #[test]
    fn what_servers_differ_in_is_a_guess_whatever_one_of_them_has_said() {
        let state = SessionState::new(Schema::None, Charset::Collation(45));
        let mut own = state.clone();
        own.set_variable("sql_mode", b"'NO_BACKSLASH_ESCAPES'");
        let flavor = Flavor::MariaDb;
        let mut defaults = DefaultModes::default();
        defaults.learn(&report("sql_mode", "STRICT_TRANS_TABLES"), None);
        let told = |defaults: DefaultModes, state: &SessionState| {
            let mut modes = modes_of(state, flavor, None);
            defaults.learn_status(&mut modes, state, 0);
            defaults.settle(modes)
        };
        let before = told(defaults, &state);
        assert!(!before.guesses_escapes && !before.guesses_quotes);
        let mut there = DefaultModes::default();
        there.learn(&report("sql_mode", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES"), None);
        defaults.merge(there);
        let now = defaults.settle(defaults.follow(before, &state, flavor));
        assert!(now.guesses_escapes && now.guesses_quotes);
        assert!(told(defaults, &state).guesses_escapes);
        assert!(!told(defaults, &own).guesses_escapes);
        assert!(!defaults.follow(told(defaults, &own), &own, flavor).guesses_escapes);
        let mut spaces = state.clone();
        spaces.set_variable("sql_mode", SPACES_IGNORED);
        assert!(told(defaults, &spaces).guesses_escapes);
    }

    #[test]
    fn what_is_set_for_new_sessions_is_known_before_a_connection_tells() {
        let told = |name: &[u8], value: Value| {
            let mut defaults = DefaultModes::default();
            defaults.learn(&report("sql_mode", ""), None);
            defaults.learn_global(name, &value);
            let state = SessionState::new(Schema::None, Charset::Collation(45));
            let now = defaults.settle(defaults.of_session(&state, Flavor::MariaDb, Some(false)));
            let now = defaults.follow(now, &state, Flavor::MariaDb);
            let is_read = defaults.encoding(&state, Flavor::MariaDb) != Encoding::Unknown;
            (defaults.has_names, now.guesses_escapes, is_read)
        };
        let literal = |text: &str| Value::Literal(text.as_bytes().to_vec());
        let computed = || Value::Expression(b"@old".to_vec());
        assert_eq!(told(b"sql_mode", literal("'STRICT_ALL_TABLES'")), (false, false, true));
        assert_eq!(told(b"sql_mode", literal("'NO_BACKSLASH_ESCAPES'")), (false, true, true));
        assert_eq!(told(b"sql_mode", literal("'ansi'")), (true, false, true));
        assert_eq!(told(b"sql_mode", Value::Default), (false, false, true));
        assert_eq!(told(b"sql_mode", literal("4")), (true, true, true));
        assert_eq!(told(b"sql_mode", computed()), (true, true, true));
        assert_eq!(told(b"init_connect", literal("''")), (false, false, true));
        assert_eq!(told(b"init_connect", literal("'SET NAMES gbk'")), (true, true, false));
        assert_eq!(told(b"net_write_timeout", literal("9")), (false, false, true));
    }

    #[test]
    fn texts_are_read_in_what_the_login_named_where_servers_do() {
        let state = |collation| SessionState::new(Schema::None, Charset::Collation(collation));
        let (utf8, latin, gbk) = (45, 8, 28);
        let flavor = Flavor::MariaDb;
        let learn = |told: &mut DefaultModes, charset: &str, login| {
            told.learn(&report("character_set_client", charset), Some((flavor, login)));
        };
        let read = |told: DefaultModes, login| told.encoding(&state(login), flavor);
        let mut told = DefaultModes::default();
        // Nobody has told yet.
        assert_eq!(read(told, utf8), Encoding::Unknown);
        learn(&mut told, "utf8mb4", utf8);
        assert_eq!(
            [utf8, latin, gbk].map(|login| read(told, login)),
            [Encoding::Utf8, Encoding::Latin, Encoding::Gbk]
        );
        let elsewhere = told;
        // A server that reads gbk whatever is named.
        learn(&mut told, "gbk", latin);
        for told in [told, {
            let mut here = elsewhere;
            here.merge(told);
            here
        }] {
            assert_eq!(
                [utf8, latin, gbk].map(|login| read(told, login)),
                [Encoding::Unknown, Encoding::Unknown, Encoding::Gbk]
            );
            // Who names it by a statement is read so.
            let mut own = state(latin);
            own.set_charset(Charset::Names((*b"utf8mb4").into()));
            assert_eq!(told.encoding(&own, flavor), Encoding::Utf8);
            let mut own = state(latin);
            own.set_variable("character_set_client", b"'latin1'");
            assert_eq!(told.encoding(&own, flavor), Encoding::Latin);
        }
        // And another one that reads another.
        learn(&mut told, "sjis", utf8);
        assert_eq!(read(told, gbk), Encoding::Unknown);
        // One that lacks a collation, and one that is not asked.
        let mut told = elsewhere;
        learn(&mut told, "latin1", 2_047);
        told.learn(&report("character_set_client", "latin1"), None);
        assert_eq!(told, elsewhere);
    }

    #[test]
    fn spaces_and_sequences_follow_sql_mode() {
        for (value, ignore_space, oracle) in [
            ("'IGNORE_SPACE'", true, false),
            ("'STRICT_TRANS_TABLES,ignore_space'", true, false),
            ("'ANSI'", true, false),
            ("'ORACLE'", true, true),
            ("'NO_IGNORE_SPACE'", false, false),
            ("CONCAT(@@GLOBAL.sql_mode,',IGNORE_SPACE')", false, false),
            ("@saved", false, true),
            ("8", false, true),
            ("''", false, false),
        ] {
            let modes = modes(|state| state.set_variable("sql_mode", value.as_bytes()));
            assert_eq!((modes.ignore_space, modes.oracle), (ignore_space, oracle), "{value}");
        }
    }

    #[test]
    fn bytes_follow_the_clients_character_set() {
        let named = |text: &str| {
            let charset = Charset::Names(text.as_bytes().into());
            modes(|state| state.set_charset(charset)).encoding
        };
        assert_eq!(modes(|_| {}).encoding, Encoding::Utf8);
        for (text, expected) in [
            ("gbk COLLATE gbk_bin", Encoding::Gbk),
            ("'cp932'", Encoding::ShiftJis),
            ("latin1", Encoding::Latin),
            ("koi8r", Encoding::SingleByte),
            ("cp866", Encoding::Dos),
            ("gb2312", Encoding::SingleByte),
            ("UTF8MB4", Encoding::Utf8),
            ("DEFAULT", Encoding::Unknown),
            (r"'utf8\mb4'", Encoding::Unknown),
            ("x'67626B'", Encoding::Unknown),
            ("@gbk", Encoding::Unknown),
            ("ucs2", Encoding::Unknown),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
        let modes = modes(|state| state.set_variable("character_set_client", b"'big5'"));
        assert_eq!(modes.encoding, Encoding::Big5);
    }
}
