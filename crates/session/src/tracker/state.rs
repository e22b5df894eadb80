//! The record of a session's state, and the table that keeps equal records one.

use std::{collections::HashSet, sync::Arc};

use trunkline_sql::token::Encoding;

/// The default schema of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Schema {
    /// No schema is chosen.
    #[default]
    None,
    /// The schema of this name is chosen. The name is in UTF-8, as servers report it, whatever the
    /// session's character set is.
    Named(Box<[u8]>),
    /// Not known, as after a reset; only a server connection can be in this state.
    Unknown,
}

impl Schema {
    /// The name, or an empty text.
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Named(name) => name,
            Self::None | Self::Unknown => b"",
        }
    }
}

/// Whether a name's bytes are the same characters in every character set of a client's: no others
/// are replaced in any of them.
pub fn is_plain_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-$.# ".contains(byte))
}

impl From<&[u8]> for Schema {
    /// An empty name is no schema.
    fn from(name: &[u8]) -> Self {
        match name.is_empty() {
            true => Self::None,
            false => Self::Named(name.into()),
        }
    }
}

/// How a session's character sets were chosen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Charset {
    /// By the collation id of the handshake.
    Collation(u16),
    /// By `SET NAMES` with this text.
    Names(Box<[u8]>),
    /// By `SET CHARACTER SET` with this text.
    CharacterSet(Box<[u8]>),
    /// Not known, as after a reset; only a server connection can be in this state.
    Unknown,
}

/// A user variable's name and the text of its value.
pub type UserVariable = (Box<[u8]>, Box<[u8]>);

/// All of a session's state that can be moved to another server connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionState {
    /// The default schema.
    pub schema: Schema,
    /// Character sets and collation.
    pub charset: Charset,
    /// Session variables that differ from the server's defaults: name (lower case) and the value
    /// as it stands behind the `=` of a `SET`. Sorted by name.
    variables: Vec<(Box<str>, Box<[u8]>)>,
    /// User variables with literal values: name (lower case) and the value as it stands behind
    /// the `=` of a `SET`. Sorted by name.
    user_variables: Vec<UserVariable>,
    /// What each statement asks of the variables.
    switches: Switches,
}

/// Variables that change what statements do, read from their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Switches {
    is_autocommit_off: bool,
    is_serializable: bool,
    /// `sql_auto_is_null`, if it was set.
    finds_by_null: Option<bool>,
}

/// The most user variables of one session that are carried to other connections.
const USER_VARIABLES_MAX: usize = 64;
/// The longest name and value of one, in bytes together.
const USER_VARIABLE_LEN_MAX: usize = 1_024;

impl SessionState {
    /// The state of a session that has set nothing since its handshake.
    pub fn new(schema: Schema, charset: Charset) -> Self {
        Self {
            schema,
            charset,
            variables: Vec::new(),
            user_variables: Vec::new(),
            switches: Switches::default(),
        }
    }

    /// The variables in order of their names.
    pub fn variables(&self) -> &[(Box<str>, Box<[u8]>)] {
        &self.variables
    }

    /// The value of a variable, as it stands behind the `=`; `None` when it has the default.
    pub fn variable(&self, name: &str) -> Option<&[u8]> {
        let place = self.place(name).ok()?;
        self.variables.get(place).map(|(_, value)| &**value)
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.variables.binary_search_by(|(known, _)| (**known).cmp(name))
    }

    /// Sets a variable; `name` is lower case.
    pub fn set_variable(&mut self, name: &str, value: &[u8]) {
        match self.place(name) {
            Ok(place) => {
                if let Some((_, known)) = self.variables.get_mut(place) {
                    *known = value.into();
                }
            }
            Err(place) => self.variables.insert(place, (name.into(), value.into())),
        }
        self.switch();
    }

    /// Reads the switches anew.
    fn switch(&mut self) {
        self.switches = Switches {
            is_autocommit_off: self.variable("autocommit").is_some_and(is_off),
            is_serializable: self
                .variable("transaction_isolation")
                .is_some_and(|level| is_word_or(level, b"SERIALIZABLE", 3)),
            finds_by_null: self.variable("sql_auto_is_null").map(|value| !is_off(value)),
        };
    }

    /// Gives a variable its default back.
    pub fn unset_variable(&mut self, name: &str) {
        if let Ok(place) = self.place(name) {
            self.variables.remove(place);
            self.switch();
        }
    }

    /// Chooses character sets; what single variables said of them before is void.
    pub fn set_charset(&mut self, charset: Charset) {
        self.charset = charset;
        for name in CHARSET_VARIABLES {
            self.unset_variable(name);
        }
    }

    /// Chooses a schema; what was said of the character set of the one before is void.
    pub fn choose_schema(&mut self, schema: Schema) {
        self.schema = schema;
        for name in SCHEMA_VARIABLES {
            self.unset_variable(name);
        }
    }

    /// Whether the session has said something of its schema's character set.
    pub(super) fn says_of_schema(&self) -> bool {
        SCHEMA_VARIABLES.iter().any(|name| self.variable(name).is_some())
    }

    /// The user variables in order of their names.
    pub fn user_variables(&self) -> &[UserVariable] {
        &self.user_variables
    }

    /// The literal value of a user variable; `None` when it has none that is known.
    pub fn user_variable(&self, name: &[u8]) -> Option<&[u8]> {
        let place = self.user_place(name).ok()?;
        self.user_variables.get(place).map(|(_, value)| &**value)
    }

    fn user_place(&self, name: &[u8]) -> Result<usize, usize> {
        self.user_variables.binary_search_by(|(known, _)| (**known).cmp(name))
    }

    /// Gives a user variable a literal value; `name` is lower case. False when it can't be
    /// carried: a name that is another one in other character sets (names have none of their own)
    /// or ends with a space, or too many or too long values. It is then forgotten.
    pub fn set_user_variable(&mut self, name: &[u8], value: &[u8]) -> bool {
        // MySQL takes one with spaces behind it for the same.
        let fits = !Encoding::Unknown.may_rename(name)
            && !name.ends_with(b" ")
            && name.len() + value.len() <= USER_VARIABLE_LEN_MAX;
        match self.user_place(name) {
            Ok(place) if fits => {
                if let Some((_, known)) = self.user_variables.get_mut(place) {
                    *known = value.into();
                }
                true
            }
            Ok(place) => {
                self.user_variables.remove(place);
                false
            }
            Err(place) if fits && self.user_variables.len() < USER_VARIABLES_MAX => {
                self.user_variables.insert(place, (name.into(), value.into()));
                true
            }
            Err(_) => false,
        }
    }

    /// Forgets a user variable, whose value is not known any more.
    pub fn forget_user_variable(&mut self, name: &[u8]) {
        if let Ok(place) = self.user_place(name) {
            self.user_variables.remove(place);
        }
    }

    /// Takes out all user variables, whose values are not known any more. Their names.
    pub fn take_user_variables(&mut self) -> impl Iterator<Item = Box<[u8]>> + use<> {
        std::mem::take(&mut self.user_variables).into_iter().map(|(name, _)| name)
    }

    /// Takes out the user variables whose texts mean something else under other character sets or
    /// SQL modes: the strings. Their names.
    pub fn take_user_strings(&mut self) -> Vec<Box<[u8]>> {
        let is_string = |entry: &mut UserVariable| is_string(&entry.1);
        self.user_variables.extract_if(.., is_string).map(|(name, _)| name).collect()
    }

    /// Whether texts of strings mean the same in both states.
    pub fn reads_strings_as(&self, other: &Self) -> bool {
        let same = |name: &&str| self.variable(name) == other.variable(name);
        let mut names = STRING_VARIABLES.iter().chain(&NAMING_VARIABLES);
        self.charset == other.charset && names.all(same)
    }

    /// Whether texts may come into a character set of two or four bytes for each character: that of
    /// the connection is such a one, or the schema's (which is not known here).
    pub(super) fn may_be_wide(&self) -> bool {
        const WIDE: [&[u8]; 3] = [b"ucs2", b"utf16", b"utf32"];
        let is_wide = |value: &[u8]| {
            let value = value.to_ascii_lowercase();
            WIDE.iter().any(|wide| value.windows(wide.len()).any(|part| part == *wide))
        };
        let values = CONNECTION_CHARSET_VARIABLES.iter().filter_map(|name| self.variable(name));
        let mut values = values.peekable();
        match values.peek() {
            Some(_) => values.any(is_wide),
            None => matches!(self.charset, Charset::CharacterSet(_)),
        }
    }

    /// Whether `WHERE id IS NULL` finds the row that was inserted last (`sql_auto_is_null`), where
    /// new sessions have `initial` for it.
    pub fn finds_inserted_by_null(&self, initial: bool) -> bool {
        self.switches.finds_by_null.unwrap_or(initial)
    }

    /// Whether its transactions were made serializable: what they read is locked.
    pub fn is_serializable(&self) -> bool {
        self.switches.is_serializable
    }

    /// Whether `autocommit` has been switched off.
    pub fn is_autocommit_off(&self) -> bool {
        self.switches.is_autocommit_off
    }
}

/// The variables that `SET NAMES` and `SET CHARACTER SET` set.
pub(super) const CHARSET_VARIABLES: [&str; 4] = [
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
];

/// Those of them that say in which one texts are compared.
pub(super) const CONNECTION_CHARSET_VARIABLES: [&str; 2] =
    ["character_set_connection", "collation_connection"];

/// The variables that servers give the schema's character set, whenever one is chosen: the same one
/// too. Checked on MariaDB 10.11 and MySQL 9.7.
pub(super) const SCHEMA_VARIABLES: [&str; 2] = ["character_set_database", "collation_database"];

/// What decides which character set a name stands for (`utf8`), and which collation comes with it.
pub(super) const NAMING_VARIABLES: [&str; 4] =
    ["character_set_collations", "default_collation_for_utf8mb4", "old", "old_mode"];

/// What decides how the text of a string is read, and which character set and collation its value
/// has.
const STRING_VARIABLES: [&str; 5] = [
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
    "sql_mode",
];

/// Whether a literal's text has quotes, and is not one of bytes (`x'41'`, `b'01'`).
fn is_string(value: &[u8]) -> bool {
    let is_bytes = matches!(value, [b'x' | b'X' | b'b' | b'B', b'\'', ..]);
    !is_bytes && value.iter().any(|byte| matches!(byte, b'\'' | b'"'))
}

/// A value without the quotes around it.
fn without_quotes(value: &[u8]) -> &[u8] {
    let bare = value.trim_ascii();
    match bare {
        [b'\'' | b'"', inner @ .., b'\'' | b'"'] => inner,
        _ => bare,
    }
}

/// Whether the value of a variable that has words, quoted or not, is this word or its number.
pub fn is_word_or(value: &[u8], word: &[u8], number: u64) -> bool {
    let bare = without_quotes(value);
    let digits = bare.strip_prefix(b"+").unwrap_or(bare);
    let given = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
    bare.eq_ignore_ascii_case(word) || given == Some(number)
}

/// Whether a boolean's text, quoted or not, means off.
pub(super) fn is_off(value: &[u8]) -> bool {
    let bare = without_quotes(value);
    bare == b"0" || bare.eq_ignore_ascii_case(b"off") || bare.eq_ignore_ascii_case(b"false")
}

/// Makes equal states one allocation. One per worker.
#[derive(Debug, Default)]
pub struct StateTable {
    states: HashSet<Arc<SessionState>>,
    /// Size at which states that nobody holds are dropped.
    purge_at: usize,
}

/// The fewest states before the table looks for those that nobody holds.
const PURGE_MIN: usize = 64;

impl StateTable {
    /// The one allocation that equals `state`.
    pub fn intern(&mut self, state: SessionState) -> Arc<SessionState> {
        if let Some(known) = self.states.get(&state) {
            return Arc::clone(known);
        }
        if self.states.len() >= self.purge_at.max(PURGE_MIN) {
            self.states.retain(|known| Arc::strong_count(known) > 1);
            self.purge_at = self.states.len().saturating_mul(2);
        }
        let state = Arc::new(state);
        self.states.insert(Arc::clone(&state));
        state
    }

    /// How many states are held.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether no state is held.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> SessionState {
        SessionState::new(Schema::None, Charset::Collation(45))
    }

    #[test]
    fn equal_states_are_one_allocation() {
        let mut table = StateTable::default();
        let mut changed = plain();
        changed.set_variable("time_zone", b"'+01:00'");
        let first = table.intern(changed.clone());
        let second = table.intern(changed);
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &table.intern(plain())));
    }

    #[test]
    fn states_that_nobody_holds_are_dropped() {
        let mut table = StateTable::default();
        for number in 0..10 * PURGE_MIN {
            let mut state = plain();
            state.set_variable("sort_buffer_size", number.to_string().as_bytes());
            drop(table.intern(state));
        }
        assert!(table.len() <= PURGE_MIN, "{}", table.len());
    }

    #[test]
    fn choosing_names_voids_what_single_variables_said() {
        let mut state = plain();
        state.set_variable("character_set_results", b"NULL");
        state.set_variable("sql_mode", b"''");
        state.set_charset(Charset::Names(b"utf8mb4".as_slice().into()));
        assert_eq!(state.variable("character_set_results"), None);
        assert_eq!(state.variable("sql_mode"), Some(&b"''"[..]));
    }

    #[test]
    fn strings_are_told_from_numbers() {
        let mut state = plain();
        for (name, value) in
            [("a", "1"), ("b", "'x'"), ("c", "NULL"), ("x", "x'41'"), ("d", "_latin1\"y\"")]
        {
            assert!(state.set_user_variable(name.as_bytes(), value.as_bytes()));
        }
        let mut other = state.clone();
        other.set_variable("sql_mode", b"'ANSI'");
        assert!(!other.reads_strings_as(&state));
        let names = state.take_user_strings();
        assert_eq!(names, [b"b".as_slice().into(), b"d".as_slice().into()]);
        assert_eq!(state.user_variable(b"c"), Some(&b"NULL"[..]));
        assert_eq!(state.user_variable(b"b"), None);
    }

    #[test]
    fn user_variables_are_bounded() {
        let mut state = plain();
        for number in 0..USER_VARIABLES_MAX {
            assert!(state.set_user_variable(format!("v{number}").as_bytes(), b"1"));
        }
        assert!(!state.set_user_variable(b"one more", b"1"));
        assert!(state.set_user_variable(b"v1", b"2"));
        assert!(!state.set_user_variable(b"v1", &[b'1'; USER_VARIABLE_LEN_MAX]));
        assert_eq!(state.user_variable(b"v1"), None);
        assert!(!state.set_user_variable("é".as_bytes(), b"1"));
        // Letters of swe7.
        assert!(!state.set_user_variable(b"v[1]", b"1"));
    }

    #[test]
    fn autocommit_off_is_seen_in_every_spelling() {
        for text in ["0", "OFF", "'off'", "false"] {
            let mut state = plain();
            state.set_variable("autocommit", text.as_bytes());
            assert!(state.is_autocommit_off(), "{text}");
        }
        assert!(!plain().is_autocommit_off());
    }
}
