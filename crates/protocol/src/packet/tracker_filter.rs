//! Which changes of session state a client is told.
//!
//! The proxy has servers report more than a client would be told directly, for its own record of
//! the session. A client is told what a server with its default settings would tell, or what the
//! client has asked for by `SET session_track_…`.

use std::{collections::BTreeSet, sync::Arc};

use crate::codec::{Reader, put_lenenc_bytes};

/// What a client has asked to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackerFilter {
    /// A bit for each kind of entry. That of variables means all of them.
    kinds: u8,
    /// The variables otherwise, in lower case; `None` for the servers' default.
    named: Option<Arc<Vec<Box<[u8]>>>>,
    /// Whether it has said itself whether it is told of GTIDs.
    has_said_gtids: bool,
    /// Whether it has said itself whether it is told of transactions.
    has_said_transactions: bool,
}

/// What a tracker's variable is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackerSetting<'a> {
    /// `DEFAULT`.
    Default,
    /// A literal, without quotes.
    Value(&'a [u8]),
    /// What only the server can evaluate: the client is told everything of the kind.
    Unknown,
}

impl TrackerSetting<'_> {
    fn is(self, texts: [&str; 2]) -> bool {
        let is =
            |value: &[u8]| texts.iter().any(|text| value.eq_ignore_ascii_case(text.as_bytes()));
        matches!(self, TrackerSetting::Value(value) if is(value))
    }

    fn is_off(self) -> bool {
        self.is(["0", "off"]) || self.is(["false", "false"])
    }
}

/// What is left of some changes for a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Filtered {
    /// All of them.
    All,
    /// These, in the form that they came in; empty for none.
    Some(Vec<u8>),
}

/// What both families report by default (`session_track_system_variables`).
const DEFAULT_VARIABLES: [&[u8]; 5] = [
    b"autocommit",
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
    b"time_zone",
];

/// Types of entries (see [`track`](super::track)).
const VARIABLE: u8 = 0;
const SCHEMA: u8 = 1;
const STATE: u8 = 2;
const GTIDS: u8 = 3;
const CHARACTERISTICS: u8 = 4;
const TRANSACTION: u8 = 5;

impl TrackerFilter {
    /// What servers tell by default: five variables, the schema, and, as the server is set,
    /// GTIDs and the state of transactions (on MySQL 9.7).
    pub const DEFAULT: Self = Self {
        kinds: u8::MAX ^ Self::OFF_BY_DEFAULT,
        named: None,
        has_said_gtids: false,
        has_said_transactions: false,
    };
    /// Everything.
    pub const ALL: Self =
        Self { kinds: u8::MAX, named: None, has_said_gtids: true, has_said_transactions: true };

    const OFF_BY_DEFAULT: u8 = (1 << VARIABLE) | (1 << STATE) | (1 << CHARACTERISTICS);

    /// Whether the client is told everything.
    pub fn is_all(&self) -> bool {
        self.kinds == u8::MAX
    }

    /// Whether the client is told of any change of the session's own, whatever it is.
    pub fn is_any_change(&self) -> bool {
        let kinds = (1 << VARIABLE) | (1 << STATE);
        self.kinds & kinds == kinds
    }

    /// Servers report GTIDs for the proxy's own record: a client that has not asked for them is not
    /// told.
    pub fn hide_gtids(&mut self) {
        if !self.has_said_gtids {
            self.switch(GTIDS, false);
        }
    }

    /// Servers report transactions for the proxy's own record: a client that has not asked for them
    /// is not told.
    pub fn hide_transactions(&mut self) {
        if !self.has_said_transactions {
            self.switch(TRANSACTION, false);
        }
    }

    /// The session has set this variable: from now on it is told what it asked for.
    pub fn ask(&mut self, variable: &[u8], asked: TrackerSetting<'_>) {
        match variable {
            b"session_track_system_variables" => {
                self.named = names(asked).map(Arc::new);
                let has_all = |names: &Arc<Vec<Box<[u8]>>>| names.iter().any(|n| **n == *b"*");
                let is_all = self.named.as_ref().is_some_and(has_all);
                self.switch(VARIABLE, is_all || asked == TrackerSetting::Unknown);
            }
            b"session_track_state_change" => {
                self.switch(STATE, asked != TrackerSetting::Default && !asked.is_off());
            }
            b"session_track_gtids" => {
                self.has_said_gtids = asked != TrackerSetting::Default;
                self.switch(GTIDS, !asked.is_off());
            }
            b"session_track_schema" => self.switch(SCHEMA, !asked.is_off()),
            b"session_track_transaction_info" => {
                self.has_said_transactions = asked != TrackerSetting::Default;
                let is_less = asked == TrackerSetting::Default || asked.is(["1", "state"]);
                self.switch(TRANSACTION, !asked.is_off());
                self.switch(CHARACTERISTICS, !asked.is_off() && !is_less);
            }
            _ => {}
        }
    }

    fn switch(&mut self, kind: u8, tells: bool) {
        match tells {
            true => self.kinds |= 1 << kind,
            false => self.kinds &= !(1 << kind),
        }
    }

    fn tells(&self, kind: u8, content: &[u8]) -> bool {
        // Kinds that nobody knows yet are told.
        let is_on = 1_u8.checked_shl(kind.into()).is_none_or(|bit| self.kinds & bit != 0);
        match &self.named {
            _ if is_on || kind != VARIABLE => is_on,
            None => are_among(content, |name| DEFAULT_VARIABLES.contains(&name)),
            Some(names) => are_among(content, |name| names.iter().any(|known| **known == *name)),
        }
    }

    /// Leaves out what the client is not told. Malformed changes are told as they are: they were
    /// read before, where that matters.
    pub fn filter(&self, raw: &[u8]) -> Filtered {
        if self.is_all() {
            return Filtered::All;
        }
        let mut left = Vec::new();
        let mut is_whole = true;
        let mut reader = Reader::new(raw);
        while !reader.is_empty() {
            let (Ok(kind), Ok(content)) = (reader.u8("kind"), reader.lenenc_bytes("entry")) else {
                return Filtered::All;
            };
            if self.tells(kind, content) {
                left.push(kind);
                put_lenenc_bytes(&mut left, content);
            } else {
                is_whole = false;
            }
        }
        if is_whole { Filtered::All } else { Filtered::Some(left) }
    }
}

/// More names than servers have variables are not told apart, nor are longer ones known to any.
const NAMES_MAX: usize = 1_024;
const NAME_LEN_MAX: usize = 64;

/// A list of names with commas, each once.
fn names(asked: TrackerSetting<'_>) -> Option<Vec<Box<[u8]>>> {
    let TrackerSetting::Value(list) = asked else {
        return None;
    };
    let names = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let names = names.filter(|name| name.len() <= NAME_LEN_MAX);
    let mut distinct = BTreeSet::new();
    for name in names {
        if distinct.len() < NAMES_MAX {
            distinct.insert(name.to_ascii_lowercase().into());
        }
    }
    Some(distinct.into_iter().collect())
}

/// Whether all variables of an entry are among these. Servers write each as an entry of its own.
fn are_among(content: &[u8], is_known: impl Fn(&[u8]) -> bool) -> bool {
    let mut reader = Reader::new(content);
    while !reader.is_empty() {
        let name = reader.lenenc_bytes("tracked variable name").unwrap_or_default();
        if !is_known(name) || reader.lenenc_bytes("value").is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u8, texts: &[&[u8]]) -> Vec<u8> {
        let mut inner = Vec::new();
        for text in texts {
            put_lenenc_bytes(&mut inner, text);
        }
        let mut out = vec![kind];
        put_lenenc_bytes(&mut out, &inner);
        out
    }

    /// What is left of one change of each kind after these settings, as letters: `z`one,
    /// `m`ode, `s`chema, s`t`ate, `g`tids, `c`haracteristics, t`r`ansaction.
    fn left(settings: &[(&str, TrackerSetting<'_>)]) -> String {
        let mut told = TrackerFilter::DEFAULT;
        for (name, asked) in settings {
            told.ask(format!("session_track_{name}").as_bytes(), *asked);
        }
        let changes = [
            ('z', entry(0, &[b"time_zone", b"SYSTEM"])),
            ('m', entry(0, &[b"sql_mode", b"ANSI"])),
            ('s', entry(1, &[b"shop"])),
            ('t', entry(2, &[b"1"])),
            ('g', vec![3, 3, 0, 1, b'a']),
            ('c', entry(4, &[b""])),
            ('r', entry(5, &[b"T_______"])),
        ];
        let all: Vec<u8> = changes.iter().flat_map(|(_, entry)| entry.clone()).collect();
        let is_told = |entry: &Vec<u8>| told.filter(entry) == Filtered::All;
        let letters: String =
            changes.iter().filter(|(_, entry)| is_told(entry)).map(|(letter, _)| letter).collect();
        // All of them at once are told as one by one.
        let rest = changes.iter().filter(|(_, entry)| is_told(entry));
        let expected = match letters.len() == changes.len() {
            true => Filtered::All,
            false => Filtered::Some(rest.flat_map(|(_, entry)| entry.clone()).collect()),
        };
        assert_eq!(told.filter(&all), expected, "{settings:?}");
        letters
    }

    #[test]
    fn a_list_of_names_is_kept_once_and_bounded() {
        let list = |list: &str| names(TrackerSetting::Value(list.as_bytes())).expect("names");
        let repeated = format!("Autocommit{}", ", autocommit".repeat(10_000));
        assert_eq!(list(&repeated), [Box::from(*b"autocommit")]);
        let many: String = (0..5_000).map(|number| format!("v{number},")).collect();
        assert_eq!(list(&many).len(), NAMES_MAX);
        assert_eq!(list(&"v".repeat(100_000)).len(), 0);
    }

    #[test]
    fn gtids_that_the_proxy_asks_for_are_told_to_who_has_asked_for_them() {
        let gtids = [3, 3, 0, 1, b'a'];
        let is_told = |settings: &[TrackerSetting<'_>]| {
            let mut told = TrackerFilter::DEFAULT;
            settings.iter().for_each(|asked| told.ask(b"session_track_gtids", *asked));
            told.hide_gtids();
            told.filter(&gtids) == Filtered::All
        };
        assert!(!is_told(&[]));
        assert!(is_told(&[TrackerSetting::Value(b"OWN_GTID")]));
        assert!(is_told(&[TrackerSetting::Unknown]));
        assert!(!is_told(&[TrackerSetting::Value(b"off")]));
        assert!(!is_told(&[TrackerSetting::Value(b"1"), TrackerSetting::Default]));
    }

    #[test]
    fn transactions_that_the_proxy_asks_for_are_told_to_who_has_asked_for_them() {
        let is_told = |settings: &[TrackerSetting<'_>]| {
            let mut told = TrackerFilter::DEFAULT;
            settings.iter().for_each(|asked| told.ask(b"session_track_transaction_info", *asked));
            told.hide_transactions();
            told.filter(&entry(5, &[b"T_______"])) == Filtered::All
        };
        assert!(!is_told(&[]));
        assert!(is_told(&[TrackerSetting::Value(b"STATE")]));
        assert!(is_told(&[TrackerSetting::Unknown]));
        assert!(!is_told(&[TrackerSetting::Value(b"off")]));
        assert!(!is_told(&[TrackerSetting::Value(b"1"), TrackerSetting::Default]));
    }

    #[test]
    fn a_client_is_told_what_it_would_be_told_directly() {
        use TrackerSetting::{Default, Unknown, Value};
        let check = |settings: &[(&str, TrackerSetting<'_>)], expected| {
            assert_eq!(left(settings), expected, "{settings:?}");
        };
        check(&[], "zsgr");
        let (all, state) = (("system_variables", Value(b"*")), ("state_change", Value(b"1")));
        check(&[all], "zmsgr");
        check(&[("system_variables", Value(b"sql_mode"))], "msgr");
        check(&[("system_variables", Value(b" a, SQL_MODE,time_zone"))], "zmsgr");
        check(&[("system_variables", Value(b""))], "sgr");
        check(&[("system_variables", Unknown)], "zmsgr");
        check(&[all, ("system_variables", Default)], "zsgr");
        check(&[state], "zstgr");
        check(&[state, ("state_change", Value(b"Off"))], "zsgr");
        check(&[state, ("state_change", Default)], "zsgr");
        check(&[("schema", Value(b"false"))], "zgr");
        check(&[("schema", Value(b"0")), ("schema", Value(b"ON"))], "zsgr");
        let transaction = |value| ("transaction_info", value);
        check(&[transaction(Value(b"STATE"))], "zsgr");
        check(&[transaction(Value(b"CHARACTERISTICS"))], "zsgcr");
        check(&[transaction(Unknown), transaction(Value(b"OFF"))], "zsg");
        check(&[all, state, transaction(Unknown)], "zmstgcr");
        check(&[("gtids", Value(b"OWN_GTID"))], "zsgr");
    }

    #[test]
    fn kinds_that_nobody_knows_and_cut_entries_are_told_as_they_are() {
        assert_eq!(TrackerFilter::DEFAULT.filter(&entry(77, &[b"x"])), Filtered::All);
        let whole = entry(0, &[b"sql_mode", b"ANSI"]);
        let cut = whole.split_last().expect("bytes").1;
        assert_eq!(TrackerFilter::DEFAULT.filter(cut), Filtered::All);
        assert_eq!(TrackerFilter::DEFAULT.filter(&whole), Filtered::Some(Vec::new()));
    }
}
