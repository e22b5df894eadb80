//! The record of a session's state, and the table that keeps equal records one.

use std::{collections::HashSet, sync::Arc};

/// The default schema of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Schema {
    /// No schema is chosen.
    #[default]
    None,
    /// The schema of this name is chosen.
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
}

impl SessionState {
    /// The state of a session that has set nothing since its handshake.
    pub fn new(schema: Schema, charset: Charset) -> Self {
        Self { schema, charset, variables: Vec::new() }
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
    }

    /// Gives a variable its default back.
    pub fn unset_variable(&mut self, name: &str) {
        if let Ok(place) = self.place(name) {
            self.variables.remove(place);
        }
    }

    /// Chooses character sets; what single variables said of them before is void.
    pub fn set_charset(&mut self, charset: Charset) {
        self.charset = charset;
        for name in CHARSET_VARIABLES {
            self.unset_variable(name);
        }
    }

    /// Whether `autocommit` has been switched off.
    pub fn is_autocommit_off(&self) -> bool {
        self.variable("autocommit").is_some_and(is_off)
    }
}

/// The variables that `SET NAMES` and `SET CHARACTER SET` set.
pub(super) const CHARSET_VARIABLES: [&str; 4] = [
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
];

/// Whether a boolean's text, quoted or not, means off.
pub(super) fn is_off(value: &[u8]) -> bool {
    let bare = value.trim_ascii();
    let bare = match bare {
        [b'\'' | b'"', inner @ .., b'\'' | b'"'] => inner,
        _ => bare,
    };
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
    fn autocommit_off_is_seen_in_every_spelling() {
        for text in ["0", "OFF", "'off'", "false"] {
            let mut state = plain();
            state.set_variable("autocommit", text.as_bytes());
            assert!(state.is_autocommit_off(), "{text}");
        }
        assert!(!plain().is_autocommit_off());
    }
}
