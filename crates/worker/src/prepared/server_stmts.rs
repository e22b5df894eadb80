//! What is prepared on one server connection.

use std::{
    rc::{Rc, Weak},
    sync::Arc,
};

use trunkline_protocol::command::execute::TYPE_LEN;
use trunkline_session::tracker::SessionState;

use super::{Entry, entry::OnServer};

/// A statement of the server's. One entry may have several, for executions whose parameters have
/// different types: MySQL derives types within a statement from those of its executions, so a
/// client must not run a statement that another one has run with other types.
#[derive(Debug)]
struct Slot {
    entry: OnServer,
    stmt_id: u32,
    /// With which types it has been run; `None` before the first execution.
    bound: Option<Bound>,
    /// By what its text may have been read again when it was run; `None` where that is what it
    /// was prepared by. It is for executions that read by the same.
    read_as: Option<Arc<SessionState>>,
    /// The client's statement whose cursor is open on it.
    held_by: Option<u32>,
    /// Long data was sent for its execution, which has not ended yet.
    has_long_data: bool,
    /// Not to be used again: what it has been run with is not known, it has had a cursor (MySQL
    /// 9.7 answers its next execution without one wrongly), it is too large to keep, or its entry's
    /// are run once.
    is_spent: bool,
}

#[derive(Debug)]
struct Bound {
    /// Types by parameter, [`NULL`] for one that was always NULL.
    types: Vec<[u8; TYPE_LEN]>,
    /// The types that the last execution had in it.
    sent: Rc<[u8]>,
    /// Whether the server has taken those over: an execution with them has succeeded.
    is_confirmed: bool,
}

/// The type of a parameter that is NULL, whatever its driver says. No server has such a type.
const NULL: [u8; TYPE_LEN] = [0xFF, 0xFF];

/// What an execution needs of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fit<'a> {
    /// One that was run with these types, or with none yet.
    Types {
        /// Type and flags of each parameter.
        types: &'a Rc<[u8]>,
        /// A bit for each parameter that is NULL.
        nulls: &'a [u8],
        /// By what the server may read its text again, where that is not what it was prepared by.
        read_as: Option<&'a Arc<SessionState>>,
    },
    /// One that nobody has run yet, as the execution is not whole; nobody runs it afterwards.
    Unused,
}

/// The statements of one connection, the most recently used first.
#[derive(Debug, Default)]
pub(crate) struct ServerStmts {
    slots: Vec<Slot>,
    /// Statements that the server has and nobody needs.
    closing: Vec<u32>,
    last: Last,
}

/// The statement that a connection has prepared last.
#[derive(Debug, Clone, Default)]
pub(crate) enum Last {
    /// It has prepared none.
    #[default]
    Nothing,
    /// This one; nobody knows it any more where nobody else keeps it.
    Entry(Weak<Entry>),
    /// What it is nobody knows.
    Unknown,
}

/// Texts longer than this are prepared anew for each execution, so that connections do not keep
/// them, bytes.
pub(super) const TEXT_KEPT_MAX: usize = 64 * 1024;

impl ServerStmts {
    /// Statements that the server has, those to be closed among them.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() + self.closing.len()
    }

    /// A connection that came from another worker, with statements to be closed.
    pub(crate) fn to_close(closing: Vec<u32>) -> Self {
        Self { slots: Vec::new(), closing, last: Last::Unknown }
    }

    /// Every statement's id, for who can only close them.
    pub(crate) fn into_ids(self) -> Vec<u32> {
        let ids = self.slots.iter().map(|slot| slot.stmt_id);
        ids.chain(self.closing.iter().copied()).collect()
    }

    /// Takes a statement that fits to the front of the list; false when there is none. `owner` is
    /// the client's statement that is to be run.
    pub(super) fn take(&mut self, entry: &Rc<Entry>, owner: u32, fit: Fit<'_>) -> bool {
        let Some(place) = self.place(entry, owner, fit) else {
            return false;
        };
        if let Some(used) = self.slots.get_mut(..=place) {
            used.rotate_right(1);
        }
        true
    }

    /// Whether there is a statement that fits.
    pub(super) fn has(&self, entry: &Rc<Entry>, owner: u32, fit: Fit<'_>) -> bool {
        self.place(entry, owner, fit).is_some()
    }

    fn place(&self, entry: &Rc<Entry>, owner: u32, fit: Fit<'_>) -> Option<usize> {
        let (mut unused, mut unread) = (None, None);
        for (place, slot) in self.slots.iter().enumerate() {
            if !Rc::ptr_eq(&slot.entry, entry)
                || slot.is_spent
                || slot.has_long_data
                || slot.held_by.is_some_and(|holder| holder != owner)
            {
                continue;
            }
            match (&slot.bound, fit) {
                (None, _) => unused = unused.or(Some(place)),
                (Some(bound), Fit::Types { types, nulls, read_as })
                    if bound.accepts(types, nulls, entry.has_rows) =>
                {
                    match (&slot.read_as, read_as) {
                        (None, None) => return Some(place),
                        (Some(known), Some(now)) if Arc::ptr_eq(known, now) => return Some(place),
                        // It may be read again for this execution.
                        (None, Some(_)) => unread = unread.or(Some(place)),
                        // It may have been.
                        (Some(_), _) => {}
                    }
                }
                (Some(_), _) => {}
            }
        }
        unread.or(unused)
    }

    /// The server's id of the front statement, and whether an execution of these types that does
    /// not carry them has to.
    pub(super) fn front(&self, types: Option<&Rc<[u8]>>) -> Option<(u32, bool)> {
        let slot = self.slots.first()?;
        let has_them = |bound: &Bound, types: &Rc<[u8]>| {
            bound.is_confirmed && (Rc::ptr_eq(&bound.sent, types) || bound.sent == *types)
        };
        let needs_types = types.is_some_and(|types| {
            !types.is_empty() && !slot.bound.as_ref().is_some_and(|bound| has_them(bound, types))
        });
        Some((slot.stmt_id, needs_types))
    }

    /// Long data was sent for the front statement, which is run next.
    pub(super) fn send_long_data(&mut self) {
        if let Some(slot) = self.slots.first_mut() {
            slot.has_long_data = true;
        }
    }

    /// The front statement is run.
    pub(super) fn run(&mut self, fit: Fit<'_>, opens_cursor: bool) {
        let Some(slot) = self.slots.first_mut() else { return };
        slot.is_spent |= opens_cursor && slot.entry.has_rows;
        slot.is_spent |= slot.entry.is_long() || slot.entry.is_once;
        match fit {
            Fit::Types { types, nulls, read_as } => {
                if let Some(read_as) = read_as {
                    slot.read_as = Some(Arc::clone(read_as));
                }
                slot.bound.get_or_insert_with(|| Bound::new(types, nulls)).run(types, nulls)
            }
            Fit::Unused => slot.is_spent = true,
        }
    }

    /// An execution of a statement has ended.
    pub(super) fn ended(&mut self, stmt_id: u32, has_succeeded: bool, is_unknown: bool) {
        let mut slots = self.slots.iter_mut().enumerate();
        let Some((place, slot)) = slots.find(|(_, slot)| slot.stmt_id == stmt_id) else { return };
        // A server that refuses an execution may keep its long data, or what was wrong with it,
        // for the next one.
        slot.is_spent |= slot.has_long_data && !has_succeeded;
        slot.has_long_data = false;
        if has_succeeded && let Some(bound) = &mut slot.bound {
            bound.is_confirmed = true;
        }
        let is_over = slot.is_spent && slot.held_by.is_none();
        if is_unknown || is_over {
            self.slots.remove(place);
            // A server does nothing for what it does not know, and a procedure may have said so of
            // what it does.
            self.closing.push(stmt_id);
        }
    }

    /// A cursor is open on a statement, for this one of a client's.
    pub(super) fn hold(&mut self, stmt_id: u32, owner: u32) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.stmt_id == stmt_id) {
            slot.held_by = Some(owner);
        }
    }

    /// The server's id of the statement that is held for a client's.
    pub(super) fn held(&self, owner: u32) -> Option<u32> {
        Some(self.slots.iter().find(|slot| slot.held_by == Some(owner))?.stmt_id)
    }

    /// Closes the statement that is held for a client's, and its cursor if it is still open.
    pub(crate) fn close_held(&mut self, owner: u32) {
        let held = self.slots.extract_if(.., |slot| slot.held_by == Some(owner));
        self.closing.extend(held.map(|slot| slot.stmt_id));
    }

    /// The server prepared a statement; it comes to the front.
    pub(super) fn insert(&mut self, entry: &Rc<Entry>, stmt_id: u32) {
        self.last = Last::Entry(Rc::downgrade(entry));
        // One that nobody has run is enough.
        let is_spare = |slot: &Slot| slot.bound.is_none() && Rc::ptr_eq(&slot.entry, entry);
        if let Some(place) = self.slots.iter().position(is_spare) {
            let spare = self.slots.remove(place);
            self.closing.push(spare.stmt_id);
        }
        let entry = OnServer::new(Rc::clone(entry));
        let (bound, read_as, held_by) = (None, None, None);
        let (has_long_data, is_spent) = (false, false);
        let slot = Slot { entry, stmt_id, bound, read_as, held_by, has_long_data, is_spent };
        self.slots.insert(0, slot);
    }

    /// A statement that was prepared is not kept.
    pub(crate) fn close(&mut self, stmt_id: u32) {
        self.last = Last::Unknown;
        self.closing.push(stmt_id);
    }

    /// What the server runs if the next statement can't be prepared, and is run all the same.
    pub(super) fn last(&self) -> &Last {
        &self.last
    }

    /// Closes the least recently used statements, so that one more makes at most `max`. One at
    /// least when `is_scarce`.
    pub(super) fn make_room(&mut self, max: usize, is_scarce: bool) {
        let kept = self.slots.len().min(max.saturating_sub(1));
        let mut surplus = (self.slots.len() - kept).max(usize::from(is_scarce));
        let mut place = self.slots.len();
        while surplus > 0 && place > 0 {
            place -= 1;
            if self.slots.get(place).is_some_and(|slot| slot.held_by.is_none()) {
                let slot = self.slots.remove(place);
                self.closing.push(slot.stmt_id);
                surplus -= 1;
            }
        }
    }

    /// Closes all that no cursor holds: the server has too many.
    pub(super) fn close_all(&mut self) {
        self.make_room(0, false);
    }

    /// Whether statements wait to be closed.
    pub(super) fn has_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// The statements that wait to be closed; the caller closes them.
    pub(super) fn drain_closing(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.closing.drain(..)
    }
}

impl Bound {
    fn new(types: &Rc<[u8]>, nulls: &[u8]) -> Self {
        let own = Self::of(types, nulls).collect();
        Self { types: own, sent: Rc::clone(types), is_confirmed: false }
    }

    /// The type of each parameter of an execution.
    fn of(types: &[u8], nulls: &[u8]) -> impl Iterator<Item = [u8; TYPE_LEN]> {
        let is_null = |at: usize| nulls.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 != 0);
        let types = types.as_chunks::<TYPE_LEN>().0.iter().copied().enumerate();
        types.map(move |(at, one)| if is_null(at) { NULL } else { one })
    }

    /// Whether an execution of these types finds the statement as one that nobody has run yet.
    ///
    /// Without `has_rows` nobody sees the type of a NULL, so that it goes with any other.
    fn accepts(&self, types: &[u8], nulls: &[u8], has_rows: bool) -> bool {
        let goes = |(known, one): (&[u8; TYPE_LEN], [u8; TYPE_LEN])| {
            *known == one || !has_rows && (*known == NULL || one == NULL)
        };
        types.len() == self.types.len() * TYPE_LEN
            && self.types.iter().zip(Self::of(types, nulls)).all(goes)
    }

    fn run(&mut self, types: &Rc<[u8]>, nulls: &[u8]) {
        for (known, one) in self.types.iter_mut().zip(Self::of(types, nulls)) {
            if *known == NULL {
                *known = one;
            }
        }
        if !Rc::ptr_eq(&self.sent, types) && self.sent != *types {
            self.sent = Rc::clone(types);
            self.is_confirmed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_session::tracker::{Charset, Schema};

    use super::super::entry::tests::{entry, vector_entry};
    use super::*;

    const LONG: [u8; 2] = [3, 0];
    const TEXT: [u8; 2] = [0xFD, 0];

    fn types(types: &[[u8; 2]]) -> Rc<[u8]> {
        types.concat().into()
    }

    fn fit<'a>(types: &'a Rc<[u8]>, nulls: &'a [u8]) -> Fit<'a> {
        Fit::Types { types, nulls, read_as: None }
    }

    #[test]
    fn what_was_read_again_is_for_those_who_read_so() {
        let entry = entry("SELECT ?", 1);
        let long = types(&[LONG]);
        let [ansi, other] = ["ansi", "other"]
            .map(|name| SessionState::new(Schema::from(name.as_bytes()), Charset::Unknown))
            .map(Arc::new);
        let as_now = |read_as| Fit::Types { types: &long, nulls: &[0], read_as };
        let mut stmts = ServerStmts::default();
        stmts.insert(&entry, 7);
        stmts.run(as_now(None), false);
        assert!(stmts.has(&entry, 1, as_now(None)));
        assert!(stmts.take(&entry, 1, as_now(Some(&ansi))));
        stmts.run(as_now(Some(&ansi)), false);
        assert!(stmts.has(&entry, 2, as_now(Some(&ansi))));
        assert!(!stmts.has(&entry, 1, as_now(None)));
        assert!(!stmts.has(&entry, 1, as_now(Some(&other))));
        stmts.insert(&entry, 8);
        assert!(stmts.take(&entry, 1, as_now(None)));
        stmts.run(as_now(None), false);
        assert!(stmts.take(&entry, 1, as_now(Some(&ansi))));
        assert_eq!(stmts.front(Some(&long)), Some((7, true)));
        assert_eq!(stmts.len(), 2);
    }

    #[test]
    fn long_data_of_an_execution_that_failed_is_closed_with_its_statement() {
        let entry = entry("SELECT ?", 1);
        let text = types(&[TEXT]);
        let mut stmts = ServerStmts::default();
        stmts.insert(&entry, 7);
        let run = |stmts: &mut ServerStmts| {
            assert!(stmts.take(&entry, 1, fit(&text, &[0])));
            stmts.send_long_data();
            stmts.run(fit(&text, &[0]), false);
            // Nobody runs it until it is known how that has ended.
            assert!(!stmts.has(&entry, 2, fit(&text, &[0])));
        };
        run(&mut stmts);
        stmts.ended(7, true, false);
        run(&mut stmts);
        assert!(!stmts.has_closing());
        stmts.ended(7, false, false);
        assert!(!stmts.has(&entry, 2, fit(&text, &[0])));
        assert_eq!(stmts.drain_closing().collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn executions_of_other_types_take_another_statement() {
        let entry = entry("SELECT ?", 1);
        let (long, text) = (types(&[LONG]), types(&[TEXT]));
        let mut stmts = ServerStmts::default();
        assert!(!stmts.take(&entry, 1, fit(&long, &[0])));
        stmts.insert(&entry, 7);
        assert!(stmts.take(&entry, 1, fit(&long, &[0])));
        assert_eq!(stmts.front(Some(&long)), Some((7, true)));
        stmts.run(fit(&long, &[0]), false);
        // The server may have read no types before it failed.
        stmts.ended(7, false, false);
        assert_eq!(stmts.front(Some(&long)), Some((7, true)));
        stmts.ended(7, true, false);
        assert_eq!(stmts.front(Some(&long)), Some((7, false)));
        assert!(stmts.take(&entry, 2, fit(&long, &[0])));
        assert!(!stmts.take(&entry, 1, fit(&text, &[0])));
        stmts.insert(&entry, 8);
        assert!(stmts.take(&entry, 1, fit(&text, &[0])));
        stmts.run(fit(&text, &[0]), false);
        assert!(stmts.take(&entry, 1, fit(&long, &[0])));
        assert_eq!(stmts.front(Some(&long)), Some((7, false)));
        assert_eq!(stmts.len(), 2);
    }

    #[test]
    fn a_statement_that_writes_a_vector_is_run_once() {
        let long = types(&[LONG]);
        for (text, is_once) in [("INSERT INTO t VALUES (?)", true), ("SELECT ?", false)] {
            let entry = vector_entry(text, 1);
            let mut stmts = ServerStmts::default();
            stmts.insert(&entry, 7);
            assert!(stmts.take(&entry, 1, fit(&long, &[0])));
            stmts.run(fit(&long, &[0]), false);
            assert_eq!(stmts.take(&entry, 2, fit(&long, &[0])), !is_once, "{text}");
            stmts.ended(7, true, false);
            assert_eq!(stmts.take(&entry, 1, fit(&long, &[0])), !is_once, "{text}");
            assert_eq!(stmts.drain_closing().eq([7]), is_once, "{text}");
        }
    }

    #[test]
    fn a_null_has_no_type() {
        let entry = entry("INSERT INTO t VALUES (?, ?)", 2);
        let null = types(&[LONG, [6, 0]]);
        let (both, other) = (types(&[LONG, TEXT]), types(&[LONG, LONG]));
        let mut stmts = ServerStmts::default();
        stmts.insert(&entry, 1);
        stmts.run(fit(&null, &[0b10]), false);
        stmts.ended(1, true, false);
        assert!(stmts.take(&entry, 1, fit(&both, &[0])));
        // These types are not the ones that the server has.
        assert_eq!(stmts.front(Some(&both)), Some((1, true)));
        stmts.run(fit(&both, &[0]), false);
        stmts.ended(1, true, false);
        assert!(stmts.take(&entry, 1, fit(&null, &[0b10])));
        assert_eq!(stmts.front(Some(&null)), Some((1, true)));
        assert!(!stmts.take(&entry, 1, fit(&other, &[0])));
        assert!(stmts.take(&entry, 1, fit(&other, &[0b10])));
    }

    #[test]
    fn the_type_of_a_null_shows_in_rows() {
        let entry = entry("SELECT ?", 1);
        let (null, long) = (types(&[[6, 0]]), types(&[LONG]));
        let mut stmts = ServerStmts::default();
        stmts.insert(&entry, 1);
        stmts.run(fit(&long, &[0]), false);
        assert!(!stmts.take(&entry, 1, fit(&null, &[1])));
        assert!(!stmts.take(&entry, 1, fit(&long, &[1])));
        stmts.insert(&entry, 2);
        stmts.run(fit(&null, &[1]), false);
        assert!(stmts.take(&entry, 1, fit(&long, &[1])));
        assert_eq!(stmts.front(Some(&long)), Some((2, true)));
    }

    #[test]
    fn the_least_recently_used_leaves_and_an_open_cursor_stays() {
        let entries = ["SELECT 1", "SELECT 2", "SELECT 3"].map(|text| entry(text, 0));
        let none = types(&[]);
        let mut stmts = ServerStmts::default();
        for (entry, id) in entries.iter().zip([1, 2, 3]) {
            stmts.insert(entry, id);
            stmts.run(fit(&none, &[]), false);
            stmts.ended(id, true, false);
        }
        assert!(stmts.take(&entries[0], 1, fit(&none, &[])));
        stmts.make_room(3, false);
        assert_eq!(stmts.drain_closing().collect::<Vec<_>>(), [2]);
        assert!(stmts.take(&entries[2], 5, fit(&none, &[])));
        stmts.run(fit(&none, &[]), true);
        stmts.hold(3, 5);
        stmts.ended(3, true, false);
        assert!(!stmts.take(&entries[2], 6, fit(&none, &[])));
        stmts.close_all();
        assert_eq!(stmts.drain_closing().collect::<Vec<_>>(), [1]);
        assert_eq!(stmts.held(5), Some(3));
        stmts.close_held(5);
        assert_eq!((stmts.held(5), stmts.into_ids()), (None, vec![3]));
    }

    #[test]
    fn scarce_statements_are_given_up_one_by_one() {
        let entries = ["DO 1", "DO 2"].map(|text| entry(text, 0));
        let mut stmts = ServerStmts::default();
        stmts.make_room(10, true);
        stmts.insert(&entries[0], 1);
        stmts.insert(&entries[1], 2);
        stmts.make_room(10, true);
        assert_eq!(stmts.drain_closing().collect::<Vec<_>>(), [1]);
        let is_second = |last: &Weak<Entry>| last.ptr_eq(&Rc::downgrade(&entries[1]));
        assert!(matches!(stmts.last(), Last::Entry(last) if is_second(last)));
    }

    #[test]
    fn what_is_not_known_is_not_used_again() {
        let entry = entry("SELECT ?", 1);
        let mut stmts = ServerStmts::default();
        stmts.insert(&entry, 1);
        assert!(stmts.take(&entry, 1, Fit::Unused));
        stmts.run(Fit::Unused, false);
        stmts.ended(1, false, false);
        assert!(!stmts.take(&entry, 1, Fit::Unused));
        assert_eq!(stmts.drain_closing().collect::<Vec<_>>(), [1]);
        // A statement that nobody runs is replaced, and one that the server says it does not know
        // is closed: it may know it, as a procedure can say so too.
        stmts.insert(&entry, 2);
        stmts.insert(&entry, 3);
        assert_eq!(stmts.drain_closing().collect::<Vec<_>>(), [2]);
        stmts.ended(3, false, true);
        assert_eq!(stmts.drain_closing().collect::<Vec<_>>(), [3]);
        assert_eq!(stmts.len(), 0);
    }
}
