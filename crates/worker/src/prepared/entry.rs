//! What the statements of several clients, prepared from one text, have in common.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, hash_map},
    hash::BuildHasher,
    ops::Deref,
    rc::Rc,
    sync::Arc,
};

use foldhash::fast::FixedState;
use trunkline_pool::AccountId;
use trunkline_protocol::response::Prepared;
use trunkline_session::tracker::SessionState;
use trunkline_sql::token::{Encoding, Modes};

use super::{Contents, server_stmts::TEXT_KEPT_MAX};
use crate::{
    clients::frames::Text,
    statement::analysis::{Analyses, Known},
};

/// A text that clients have prepared, and what it takes to prepare it again elsewhere.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) text: Text,
    /// What is known of it, read in `modes`.
    pub(crate) known: Rc<Known>,
    /// The modes that it was prepared in, and is in whatever modes its session is later.
    pub(crate) modes: Modes,
    /// The part of a session's state that the text was read under.
    pub(crate) reading: Arc<SessionState>,
    /// What the text has in it that is read with more of the state than the rest.
    pub(crate) contents: Contents,
    /// Parameters, as a server counted them.
    pub(crate) params: u16,
    /// Whether its executions give rows.
    pub(crate) has_rows: bool,
    /// Columns, as a server counted them.
    pub(crate) columns_count: u16,
    /// Whether a server's statement of it is run once only. MySQL 9.7 takes the bytes of a vector
    /// by the first execution that writes them; to any other of the statement it says 6136.
    pub(super) is_once: bool,
    /// A hash of the schema and the text, the same on all workers.
    hash: u64,
    /// How many server connections have it prepared, each as often as it has.
    on_servers: Cell<u32>,
    remembered: Remembered,
}

/// What was found out about an entry since, and is shared by its clients.
#[derive(Debug, Default)]
struct Remembered {
    /// Definitions of its columns that one of its clients has.
    columns: RefCell<Option<Rc<[u8]>>>,
    /// How it was judged last for an execution in other modes.
    otherwise: RefCell<Option<Otherwise>>,
    /// What is known of its text by the settings and servers of since.
    again: RefCell<Option<Rc<Known>>>,
}

/// How a text is judged whose execution finds its session in other modes.
#[derive(Debug)]
struct Otherwise {
    modes: Modes,
    /// What it is, read in these.
    now: Rc<Known>,
    /// Whether the session's settings are those of the preparation.
    is_same: bool,
    /// What it is run by.
    known: Rc<Known>,
}

impl Entry {
    /// Whether a server that reads it again for a session in `modes` does so in its own ones:
    /// MariaDB keeps the `sql_mode` of the preparation, so that only the character set counts.
    #[inline]
    pub(crate) fn is_read_in(&self, modes: &Modes) -> bool {
        match self.modes.flavor_mariadb {
            true => modes.encoding == self.modes.encoding,
            false => *modes == self.modes,
        }
    }

    /// The modes in which a server reads it again for a session in `modes`.
    fn modes_again(&self, modes: &Modes) -> Modes {
        match self.modes.flavor_mariadb {
            true => Modes { encoding: modes.encoding, ..self.modes },
            false => *modes,
        }
    }

    /// What is known of its text by this edition, if that has been found out.
    pub(crate) fn known_by(&self, edition: u32) -> Option<Rc<Known>> {
        if self.known.edition == edition {
            return Some(Rc::clone(&self.known));
        }
        let again = self.remembered.again.borrow();
        again.as_ref().filter(|known| known.edition == edition).map(Rc::clone)
    }

    /// Remembers what is known of its text by now.
    pub(crate) fn knows_again(&self, known: &Rc<Known>) {
        self.remembered.again.replace(Some(Rc::clone(known)));
    }

    /// The other modes in which it has to be read for an execution whose session is in `modes`, if
    /// it has not been by this edition.
    pub(crate) fn otherwise_in(&self, modes: &Modes, edition: u32) -> Option<Modes> {
        let modes = self.modes_again(modes);
        if modes == self.modes {
            return None;
        }
        let judged = self.remembered.otherwise.borrow();
        let is_read = |it: &Otherwise| it.modes == modes && it.known.edition == edition;
        (!judged.as_ref().is_some_and(is_read)).then_some(modes)
    }

    /// What its executions are judged by that find their session in `modes`, where the server may
    /// read it again then: what is true of both readings, else nothing is proven. `known`: what is
    /// known of it, read in its own modes; `is_same`: the session's settings are those of its
    /// preparation, so that a guess is no guess any more.
    pub(crate) fn known_in(
        &self,
        known: &Rc<Known>,
        modes: &Modes,
        is_same: bool,
        analyses: &mut Analyses,
    ) -> Rc<Known> {
        let modes = &self.modes_again(modes);
        if *modes == self.modes {
            return Rc::clone(known);
        }
        let is_read = |it: &Otherwise| it.modes == *modes && it.known.edition == known.edition;
        let now = match self.remembered.otherwise.borrow().as_ref().filter(|it| is_read(it)) {
            Some(judged) if judged.is_same == is_same => return Rc::clone(&judged.known),
            Some(judged) => Rc::clone(&judged.now),
            None => analyses.know(&self.text, modes),
        };
        let is_settled = is_same && is_guess_of(&self.modes, modes);
        let known = match known.is_as(&now) || is_settled {
            true if is_settled => Rc::clone(&now),
            true => Rc::clone(known),
            false => Rc::new(known.or_otherwise(&now)),
        };
        let judged = Otherwise { modes: *modes, now, is_same, known: Rc::clone(&known) };
        self.remembered.otherwise.replace(Some(judged));
        known
    }

    /// These definitions; one allocation for all clients that have the same.
    pub(super) fn columns(&self, definitions: &[u8]) -> Rc<[u8]> {
        let mut shared = self.remembered.columns.borrow_mut();
        match &*shared {
            Some(known) if **known == *definitions => Rc::clone(known),
            Some(_) | None => Rc::clone(shared.insert(definitions.into())),
        }
    }

    /// A hash of the text, its schema and the user who prepares it.
    pub(crate) fn hash_for(&self, user: &str) -> u64 {
        FixedState::default().hash_one((user, self.hash))
    }

    /// What a server said of it, under a client's id.
    pub(crate) fn prepared(&self, stmt_id: u32) -> Prepared {
        let (params, columns) = (self.params, self.columns_count);
        Prepared { stmt_id, params, columns, takes_vector: self.is_once }
    }

    /// Whether a server has found the same in the text.
    fn is_like(&self, prepared: Prepared) -> bool {
        self.params == prepared.params
            && self.has_rows == (prepared.columns > 0)
            && self.is_once == is_once(prepared)
    }
}

/// Whether `guess` says of `modes` what nobody had heard of, and nothing else.
fn is_guess_of(guess: &Modes, modes: &Modes) -> bool {
    let mut settled = *guess;
    if guess.guesses_quotes {
        (settled.ansi_quotes, settled.guesses_quotes) = (modes.ansi_quotes, modes.guesses_quotes);
    }
    if guess.guesses_escapes {
        settled.no_backslash_escapes = modes.no_backslash_escapes;
        settled.guesses_escapes = modes.guesses_escapes;
    }
    if guess.encoding == Encoding::Unknown {
        settled.encoding = modes.encoding;
    }
    settled == *modes
}

/// Whether one execution uses a statement up.
fn is_once(prepared: Prepared) -> bool {
    prepared.takes_vector && prepared.columns == 0
}

/// An entry that a server connection has prepared, and is counted for that.
#[derive(Debug)]
pub(super) struct OnServer(Rc<Entry>);

impl OnServer {
    pub(super) fn new(entry: Rc<Entry>) -> Self {
        entry.on_servers.update(|count| count + 1);
        Self(entry)
    }
}

impl Deref for OnServer {
    type Target = Rc<Entry>;

    fn deref(&self) -> &Rc<Entry> {
        &self.0
    }
}

impl Drop for OnServer {
    fn drop(&mut self) {
        debug_assert!(self.0.on_servers.get() > 0, "it was counted");
        self.0.on_servers.update(|count| count.saturating_sub(1));
    }
}

/// What tells entries apart: who prepares, how the text is read, and the text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EntryKey {
    pub(crate) account: AccountId,
    pub(crate) reading: Arc<SessionState>,
    pub(crate) contents: Contents,
    pub(crate) text: Text,
}

impl Entry {
    /// Whether its text, with what is known of it, is too long to be kept for others.
    pub(super) fn is_long(&self) -> bool {
        is_long(&self.text, &self.known)
    }
}

/// As [`Entry::is_long`], before there is one.
pub(super) fn is_long(text: &[u8], known: &Known) -> bool {
    text.len() + known.held() > TEXT_KEPT_MAX
}

impl EntryKey {
    fn entry(&self, (known, modes): (Rc<Known>, Modes), prepared: Prepared) -> Rc<Entry> {
        let Prepared { params, columns: columns_count, .. } = prepared;
        let has_rows = columns_count > 0;
        let Self { contents, .. } = *self;
        let (text, reading) = (self.text.clone(), Arc::clone(&self.reading));
        let hash = FixedState::default().hash_one((reading.schema.name(), &text));
        Rc::new(Entry {
            hash,
            on_servers: Cell::new(0),
            text,
            known,
            modes,
            reading,
            contents,
            params,
            has_rows,
            columns_count,
            is_once: is_once(prepared),
            remembered: Remembered::default(),
        })
    }
}

/// The entries of one worker. Those that neither a client nor a connection holds are dropped.
#[derive(Debug)]
pub(crate) struct Entries {
    entries: HashMap<EntryKey, Rc<Entry>, FixedState>,
    /// Size at which entries that nobody holds are dropped.
    purge_at: usize,
}

/// The fewest entries before the table looks for those that nobody holds.
const PURGE_MIN: usize = 256;

impl Default for Entries {
    fn default() -> Self {
        Self { entries: HashMap::with_hasher(FixedState::default()), purge_at: PURGE_MIN }
    }
}

impl Entries {
    /// The entry of this key, `read` in modes; a new one unless there is one that is like what was
    /// prepared, and whose text was read the same way.
    pub(super) fn share(
        &mut self,
        key: EntryKey,
        read: (Rc<Known>, Modes),
        prepared: Prepared,
    ) -> Rc<Entry> {
        if self.entries.len() >= self.purge_at {
            self.entries.retain(|_, entry| Rc::strong_count(entry) > 1);
            self.purge_at = self.entries.len().saturating_mul(2).max(PURGE_MIN);
        }
        match self.entries.entry(key) {
            hash_map::Entry::Occupied(mut place)
                if !place.get().is_like(prepared)
                    || place.get().known.analysis != read.0.analysis =>
            {
                let entry = place.key().entry(read, prepared);
                place.insert(Rc::clone(&entry));
                entry
            }
            hash_map::Entry::Occupied(place) => Rc::clone(place.get()),
            hash_map::Entry::Vacant(place) => {
                let entry = place.key().entry(read, prepared);
                Rc::clone(place.insert(entry))
            }
        }
    }

    /// Those that somebody holds, each with the number of clients and of server connections that
    /// do.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&EntryKey, &Rc<Entry>, (u64, u64))> {
        self.entries.iter().filter_map(|(key, entry)| {
            let servers = u64::from(entry.on_servers.get());
            // The table itself holds one; whoever else does is a client.
            let held = Rc::strong_count(entry).saturating_sub(1) as u64;
            (held > 0).then(|| (key, entry, (held.saturating_sub(servers), servers)))
        })
    }

    /// An entry that no other statement has.
    pub(crate) fn own(key: &EntryKey, read: (Rc<Known>, Modes), prepared: Prepared) -> Rc<Entry> {
        key.entry(read, prepared)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use trunkline_config::Settings;
    use trunkline_session::tracker::{Charset, Schema};
    use trunkline_sql::{analysis::Effect, token::Encoding};

    use super::*;

    fn key(account: u32, schema: &str, text: &str) -> EntryKey {
        let state = SessionState::new(Schema::from(schema.as_bytes()), Charset::Collation(45));
        EntryKey {
            account: AccountId(account),
            reading: Arc::new(state),
            contents: Contents::default(),
            text: text.as_bytes().into(),
        }
    }

    fn known(text: &str) -> (Rc<Known>, Modes) {
        let modes = Modes::default();
        (Analyses::new(&Settings::default()).know(text.as_bytes(), &modes), modes)
    }

    fn prepared(params: u16, text: &str) -> Prepared {
        let columns = u16::from(text.starts_with("SELECT"));
        Prepared { stmt_id: 9, params, columns, takes_vector: false }
    }

    pub(in crate::prepared) fn entry(text: &str, params: u16) -> Rc<Entry> {
        Entries::own(&key(0, "app", text), known(text), prepared(params, text))
    }

    pub(in crate::prepared) fn vector_entry(text: &str, params: u16) -> Rc<Entry> {
        let prepared = Prepared { takes_vector: true, ..prepared(params, text) };
        Entries::own(&key(0, "app", text), known(text), prepared)
    }

    #[test]
    fn one_text_of_one_account_read_alike_is_one_entry() {
        let mut entries = Entries::default();
        let mut share = |account, schema, text, params| {
            entries.share(key(account, schema, text), known(text), prepared(params, text))
        };
        let first = share(1, "app", "SELECT ?", 1);
        assert!(Rc::ptr_eq(&first, &share(1, "app", "SELECT ?", 1)));
        for other in [
            share(2, "app", "SELECT ?", 1),
            share(1, "shop", "SELECT ?", 1),
            share(1, "app", "SELECT ? ", 1),
            share(1, "app", "SELECT ?", 2),
        ] {
            assert!(!Rc::ptr_eq(&first, &other), "{other:?}");
        }
    }

    #[test]
    fn entries_that_nobody_holds_are_dropped() {
        let mut entries = Entries::default();
        let kept = entries.share(key(1, "app", "DO 0"), known("DO 0"), prepared(0, ""));
        for number in 0..5 * PURGE_MIN {
            let text = format!("DO {number} + 1");
            drop(entries.share(key(1, "app", &text), known("DO 1"), prepared(0, "")));
        }
        assert!(entries.entries.len() <= PURGE_MIN + 1, "{}", entries.entries.len());
        let again = entries.share(key(1, "app", "DO 0"), known("DO 0"), prepared(0, ""));
        assert!(Rc::ptr_eq(&kept, &again));
    }

    #[test]
    fn a_text_that_may_be_read_otherwise_when_it_runs_is_proven_only_if_both_readings_are() {
        let plain = Modes::default();
        let ansi = Modes { ansi_quotes: true, ..plain };
        let escapes = Modes { no_backslash_escapes: true, ..plain };
        let sjis = Modes { encoding: Encoding::ShiftJis, ..plain };
        let all = Modes { ansi_quotes: true, no_backslash_escapes: true, ..sjis };
        let all = Modes { ignore_space: true, ..all };
        let texts: [(&[u8], Modes, bool); 10] = [
            (b"SELECT c FROM t WHERE id = ?", all, true),
            (b"INSERT INTO t (a, b) VALUES (?, 'it''s')", all, true),
            (br#"SELECT ?, "b" FROM t"#, escapes, true),
            (br"SELECT ?, '\', GET_LOCK('l', 0) -- '", ansi, true),
            (br"SELECT ?, '\', GET_LOCK('l', 0) -- '", escapes, false),
            (br"SELECT ?, '\', f(1) -- '", escapes, false),
            (br#"SELECT ?, "\", f(), " FROM t -- ""#, ansi, false),
            (b"SELECT ?, '\xC2\x95\\', @v := 1 -- '", sjis, false),
            (br#"DROP TABLE t, `"`"#, ansi, false),
            (br"SELECT SUM (a) FROM t", Modes { ignore_space: true, ..plain }, false),
        ];
        for (text, modes, is_proven) in texts {
            let mut analyses = Analyses::new(&Settings::default());
            let key = EntryKey { text: text.into(), ..key(0, "app", "") };
            let known = analyses.know(text, &plain);
            let entry = Entries::own(&key, (Rc::clone(&known), plain), prepared(1, "SELECT"));
            let mut known_in = |modes| entry.known_in(&known, &modes, false, &mut analyses);
            assert!(Rc::ptr_eq(&known, &known_in(plain)));
            let now = known_in(modes);
            let text = text.escape_ascii();
            assert_eq!(Rc::ptr_eq(&known, &now), is_proven, "{text}");
            assert!(Rc::ptr_eq(&now, &known_in(modes)), "judged once: {text}");
            if !is_proven {
                let is_unseen = |effect: &Effect| matches!(effect, Effect::OtherSession(_));
                assert!(!now.nameless.reads && !now.is_ordinary, "{text}");
                assert!(now.analysis.effects.iter().any(is_unseen), "{text}");
            }
        }
    }

    #[test]
    fn mariadb_reads_again_in_the_character_set_of_now_and_the_modes_of_then() {
        let plain = Modes { flavor_mariadb: true, ..Modes::default() };
        let escapes = Modes { no_backslash_escapes: true, ansi_quotes: true, ..plain };
        let sjis = Modes { encoding: Encoding::ShiftJis, ..plain };
        let texts: [(&[u8], Modes, bool); 5] = [
            (b"SELECT c FROM t WHERE id = ?", sjis, true),
            (br"SELECT '\', GET_LOCK('l', 0) -- ' FROM t", escapes, true),
            (b"SELECT '\xC2\x95\\', GET_LOCK(0x78, 0) -- '\n FROM t", sjis, false),
            (b"SELECT '\xC2\x95\\', @v := 1 -- '\n FROM t", sjis, false),
            // As strings do not end there by the modes of then, they do by neither.
            (b"SELECT '\xC2\x95\\\\' FROM t", Modes { encoding: Encoding::Latin, ..escapes }, true),
        ];
        for (text, modes, is_proven) in texts {
            let mut analyses = Analyses::new(&Settings::default());
            let key = EntryKey { text: text.into(), ..key(0, "app", "") };
            let known = analyses.know(text, &plain);
            let entry = Entries::own(&key, (Rc::clone(&known), plain), prepared(0, "SELECT"));
            let now = entry.known_in(&known, &modes, false, &mut analyses);
            let text = text.escape_ascii();
            assert_eq!(Rc::ptr_eq(&known, &now), is_proven, "{text}");
            assert_eq!(entry.is_read_in(&modes), modes.encoding == plain.encoding, "{text}");
        }
    }

    #[test]
    fn a_guess_that_was_settled_is_no_other_reading() {
        let settled = Modes::default();
        let guess = Modes { guesses_quotes: true, guesses_escapes: true, ..settled };
        let text = br#"SELECT ?, "it\"s" FROM t"#;
        let mut analyses = Analyses::new(&Settings::default());
        let key = EntryKey { text: text[..].into(), ..key(0, "app", "") };
        let known = analyses.know(text, &guess);
        let entry = Entries::own(&key, (Rc::clone(&known), guess), prepared(1, "SELECT"));
        let now = entry.known_in(&known, &settled, true, &mut analyses);
        assert_eq!(now.analysis, analyses.know(text, &settled).analysis);
        let now = entry.known_in(&known, &settled, false, &mut analyses);
        assert!(!now.analysis.effects.is_empty());
    }

    #[test]
    fn a_long_text_is_read_once_whatever_its_session_becomes() {
        let settled = Modes::default();
        let guess = Modes { guesses_quotes: true, guesses_escapes: true, ..settled };
        let text = [&br#"SELECT ?, "it\"s" FROM t -- "#[..], &vec![b'x'; 1 << 20]].concat();
        let mut analyses = Analyses::new(&Settings::default());
        let key = EntryKey { text: text[..].into(), ..key(0, "app", "") };
        let known = analyses.know(&text, &guess);
        let entry = Entries::own(&key, (Rc::clone(&known), guess), prepared(1, "SELECT"));
        let settles = entry.known_in(&known, &settled, true, &mut analyses);
        entry.known_in(&known, &settled, false, &mut analyses);
        let again = entry.known_in(&known, &settled, true, &mut analyses);
        assert!(Rc::ptr_eq(&settles, &again), "it was read again");
    }
}
