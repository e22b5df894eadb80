//! The prepared statements of one session, under the ids that its client knows.

use std::{rc::Rc, sync::Arc};

use trunkline_pool::ConnId;
use trunkline_protocol::{
    command::execute::{LAST_STMT_ID, STMT_ID_AT},
    error::ErrorKind,
};
use trunkline_session::tracker::SessionState;

use super::Entry;
use crate::{clients::frames::Text, statement::analysis::Known};

/// One statement of a client.
#[derive(Debug)]
pub(crate) struct ClientStmt {
    /// What its client calls it.
    pub(crate) id: u32,
    pub(crate) entry: Rc<Entry>,
    /// What its client sent, where rules have rewritten that.
    pub(crate) came: Option<Rc<Came>>,
    /// Type and flags of each parameter, as its driver sent them last; `None` before the first
    /// execution.
    pub(crate) types: Option<Rc<[u8]>>,
    /// What its types were before the execution under way.
    pub(super) types_before: TypesBefore,
    /// What its session reads by since its last execution began, where a server may read the text
    /// again by that; `None` where that is what it was prepared by.
    pub(crate) read_as: Option<Arc<SessionState>>,
    /// The definitions of its columns that its client has, if it keeps them.
    pub(crate) columns: Option<Rc<[u8]>>,
    /// What was sent ahead of the next execution.
    pub(crate) long: Option<Box<LongData>>,
    /// The connection on which it has an open cursor.
    pub(crate) cursor: Option<ConnId>,
}

/// A text as a client sent it to be prepared, which rules have rewritten.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) text: Text,
    /// What is known of it, read in the modes that it was prepared in.
    pub(crate) known: Rc<Known>,
}

impl ClientStmt {
    /// One that has not been run.
    pub(super) fn new(id: u32, entry: Rc<Entry>) -> Self {
        let (types, types_before) = (None, TypesBefore::Same);
        let (came, read_as, columns, long, cursor) = (None, None, None, None, None);
        Self { id, entry, came, types, types_before, read_as, columns, long, cursor }
    }

    /// Bytes of its texts, and of what is known of them.
    pub(crate) fn texts_len(&self) -> usize {
        let came = self.came.as_ref().map_or(0, |came| came.text.len() + came.known.held());
        self.entry.text.len() + self.entry.known.held() + came
    }

    /// Takes over the types that come with an execution, if any do.
    pub(crate) fn take_types(&mut self, types: Option<&[u8]>) {
        if self.types_before != TypesBefore::Same {
            self.types_before = TypesBefore::Same;
        }
        if let Some(types) = types
            && self.types.as_deref() != Some(types)
        {
            self.types_before = TypesBefore::Others(self.types.replace(types.into()));
        }
    }
}

/// What a statement's types were before its execution under way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum TypesBefore {
    /// The types that it has now: the execution brought none, or none that differ.
    #[default]
    Same,
    /// Other types than it has now, or none.
    Others(Option<Rc<[u8]>>),
}

/// Whether a server has refused an execution with this error before it took over the types that
/// came with it: one for many rows that it does not run so, or a packet that is cut short.
///
/// Measured on MariaDB 10.11 and MySQL 9.7. Types stay that come with values that are wrong, and
/// with what fails while it runs.
fn refuses_types(is_bulk: bool, code: u16) -> bool {
    const NOT_PREPARABLE: u16 = ErrorKind::NotPreparable.code();
    const MALFORMED: u16 = ErrorKind::MalformedPacket.code();
    code == MALFORMED || is_bulk && code == NOT_PREPARABLE
}

/// Pieces of long parameters, to be sent before the next execution.
#[derive(Debug, Default)]
pub(crate) struct LongData {
    parts: Vec<LongDataPart>,
    /// Why the next execution fails.
    pub(crate) error: Option<LongDataError>,
}

/// `COM_STMT_SEND_LONG_DATA` commands as they came, one behind the other.
#[derive(Debug)]
struct LongDataPart {
    /// In a buffer that is on its way to a server as well, so that it is not copied.
    frames: Arc<Vec<u8>>,
    /// Where each of them begins.
    begins: Vec<usize>,
}

/// What is wrong with a statement's long data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LongDataError {
    /// It is more than may be kept.
    TooLong,
    /// The statement has no such parameter.
    NoParameter,
    /// There was no memory for it.
    NoMemory,
}

impl LongData {
    /// Whether any of it is for this parameter.
    pub(crate) fn has(&self, parameter: usize) -> bool {
        self.parameters().any(|it| it == parameter)
    }

    /// The parameter of each piece.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = usize> {
        let pieces =
            self.parts.iter().flat_map(|part| part.begins.iter().map(move |at| (part, at)));
        pieces.filter_map(|(part, begin)| {
            let number = part.frames.get(begin + PARAMETER_AT..)?.first_chunk()?;
            Some(usize::from(u16::from_le_bytes(*number)))
        })
    }

    /// Keeps a piece; one that has a buffer of its own keeps that.
    pub(super) fn add(&mut self, frames: &[u8], whole: Option<Arc<Vec<u8>>>) {
        if let Some(frames) = whole {
            return self.parts.push(LongDataPart { frames, begins: vec![0] });
        }
        if self.parts.is_empty() {
            self.parts.push(LongDataPart { frames: Arc::default(), begins: Vec::new() });
        }
        if let Some(part) = self.parts.last_mut() {
            part.begins.push(part.frames.len());
            Arc::make_mut(&mut part.frames).extend_from_slice(frames);
        }
    }

    /// Bytes of memory that it takes.
    fn held(&self) -> usize {
        self.parts.iter().map(|part| part.frames.len() + part.begins.len() * PIECE_COST).sum()
    }

    /// The commands under a server's id. What is on its way elsewhere still is copied.
    pub(super) fn renamed(&mut self, stmt_id: u32) -> impl Iterator<Item = &Arc<Vec<u8>>> {
        self.parts.iter_mut().map(move |part| {
            let bytes = Arc::make_mut(&mut part.frames);
            for begin in &part.begins {
                if let Some(place) = bytes.get_mut(begin + STMT_ID_AT..begin + STMT_ID_AT + 4) {
                    place.copy_from_slice(&stmt_id.to_le_bytes());
                }
            }
            &part.frames
        })
    }
}

/// Where the parameter's number lies in the frames of a piece.
const PARAMETER_AT: usize = STMT_ID_AT + 4;
/// Bytes that a piece takes beside its frames.
const PIECE_COST: usize = size_of::<usize>();

/// A session's statements.
#[derive(Debug)]
pub(crate) struct ClientStmts {
    /// In order of their ids.
    stmts: Vec<ClientStmt>,
    next_id: u32,
    /// The statement prepared last, which −1 stands for.
    last: Option<u32>,
    /// Bytes of texts and long data.
    held: usize,
}

impl Default for ClientStmts {
    fn default() -> Self {
        Self { stmts: Vec::new(), next_id: 1, last: None, held: 0 }
    }
}

impl ClientStmts {
    /// The id that comes next.
    pub(super) fn after(&self) -> u32 {
        self.next_id
    }

    /// None, as behind a reset or another user's login. Servers go on counting: an id never means
    /// another statement later on the same connection (MySQL 9.7, MariaDB 10.11).
    pub(crate) fn none_behind(&self) -> Self {
        Self { next_id: self.next_id, ..Self::default() }
    }

    /// The statement that −1 stands for.
    pub(super) fn last(&self) -> Option<u32> {
        self.last
    }

    /// In order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ClientStmt> {
        self.stmts.iter()
    }

    /// A statement that its client knows by its id already, or is told of.
    pub(crate) fn restore(&mut self, stmt: ClientStmt) {
        if let Err(place) = self.place(stmt.id) {
            self.held += stmt.texts_len();
            self.stmts.insert(place, stmt);
        }
    }

    /// Goes on where a session's statements were elsewhere: with the id that comes next, and the
    /// statement that −1 stands for.
    pub(super) fn resume(&mut self, next_id: u32, last: Option<u32>) {
        (self.next_id, self.last) = (next_id, last);
    }

    /// A session's statements that are this one alone; `None` when long data was sent for it.
    pub(crate) fn copy_of(stmt: &ClientStmt) -> Option<Self> {
        if stmt.long.is_some() {
            return None;
        }
        let (entry, types) = (Rc::clone(&stmt.entry), stmt.types.clone());
        let read_as = stmt.read_as.clone();
        let copy = ClientStmt { types, read_as, ..ClientStmt::new(stmt.id, entry) };
        let held = copy.texts_len();
        Some(Self { stmts: vec![copy], held, ..Self::default() })
    }

    pub(crate) fn len(&self) -> usize {
        self.stmts.len()
    }

    /// Bytes of texts and long data, which are bounded in sum.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// The id that stands for this one: −1 is the statement prepared last.
    pub(crate) fn resolve(&self, id: u32) -> Option<u32> {
        let id = if id == LAST_STMT_ID { self.last? } else { id };
        self.place(id).ok().map(|_| id)
    }

    fn place(&self, id: u32) -> Result<usize, usize> {
        self.stmts.binary_search_by_key(&id, |stmt| stmt.id)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&ClientStmt> {
        self.stmts.get(self.place(id).ok()?)
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut ClientStmt> {
        let place = self.place(id).ok()?;
        self.stmts.get_mut(place)
    }

    /// The id that the next statement will have.
    pub(crate) fn next_id(&mut self) -> u32 {
        while self.next_id == 0 || self.next_id == LAST_STMT_ID || self.place(self.next_id).is_ok()
        {
            self.next_id = self.next_id.wrapping_add(1);
        }
        self.next_id
    }

    /// A statement was prepared, and its client was told this id.
    pub(super) fn insert(&mut self, id: u32, entry: Rc<Entry>, came: Option<Rc<Came>>) {
        debug_assert_eq!(id, self.next_id);
        self.restore(ClientStmt { came, ..ClientStmt::new(id, entry) });
        self.next_id = id.wrapping_add(1);
        self.last = Some(id);
    }

    /// A statement is to be run by another text than before, in place of the one that came.
    pub(crate) fn replace(&mut self, id: u32, entry: Rc<Entry>, came: Rc<Came>) {
        let Some(stmt) = self.get_mut(id) else { return };
        let before = stmt.texts_len();
        (stmt.entry, stmt.came) = (entry, Some(came));
        let now = stmt.texts_len();
        self.held = self.held + now - before;
    }

    /// An execution, of many rows or one, has failed with this error. Its types are not the
    /// statement's if the server has not taken them over.
    pub(super) fn execution_failed(&mut self, id: u32, is_bulk: bool, code: u16) {
        let stmt = self.get_mut(id).filter(|_| refuses_types(is_bulk, code));
        if let Some(stmt) = stmt
            && let TypesBefore::Others(types) = std::mem::take(&mut stmt.types_before)
        {
            stmt.types = types;
        }
    }

    /// Nothing was prepared: −1 stands for nothing.
    pub(crate) fn forget_last(&mut self) {
        self.last = None;
    }

    /// Closes a statement, and gives it away.
    pub(crate) fn take_out(&mut self, id: u32) -> Option<ClientStmt> {
        let place = self.place(id).ok()?;
        self.drop_long_data(id);
        let stmt = self.stmts.remove(place);
        self.held -= stmt.texts_len();
        self.last = self.last.filter(|last| *last != id);
        Some(stmt)
    }

    /// Keeps a piece of a long parameter. What does not fit into `max` bytes for the session makes
    /// the next execution fail, as with a server. `whole`: the buffer that the piece alone is in.
    pub(crate) fn add_long_data(
        &mut self,
        id: u32,
        parameter: u16,
        frames: &[u8],
        whole: Option<Arc<Vec<u8>>>,
        max: usize,
    ) {
        let (held, cost) = (self.held, frames.len() + PIECE_COST);
        let fits = self.get_mut(id).is_some_and(|stmt| {
            let long = stmt.long.get_or_insert_default();
            long.error = match long.error {
                Some(error) => Some(error),
                None if parameter >= stmt.entry.params => Some(LongDataError::NoParameter),
                None if held + cost > max => Some(LongDataError::TooLong),
                None => {
                    long.add(frames, whole);
                    return true;
                }
            };
            false
        });
        self.held += if fits { cost } else { 0 };
    }

    /// A piece of a long parameter was not kept, for want of memory.
    pub(crate) fn refuse_long_data(&mut self, id: u32) {
        if let Some(stmt) = self.get_mut(id) {
            stmt.long.get_or_insert_default().error.get_or_insert(LongDataError::NoMemory);
        }
    }

    /// What was sent ahead has been used, or is given up.
    pub(crate) fn drop_long_data(&mut self, id: u32) {
        let long = self.get_mut(id).and_then(|stmt| stmt.long.take());
        self.held -= long.map_or(0, |long| long.held());
    }

    /// After an execution: an error of the long data stays until a reset, as with a server.
    pub(super) fn long_data_used(&mut self, id: u32) {
        let has_error = |stmt: &ClientStmt| stmt.long.as_ref().is_some_and(|l| l.error.is_some());
        if self.get(id).is_some_and(|stmt| stmt.long.is_some() && !has_error(stmt)) {
            self.drop_long_data(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::tests::entry;
    use super::*;

    fn two() -> ClientStmts {
        let mut stmts = ClientStmts::default();
        for text in ["SELECT ?", "INSERT INTO t VALUES (?, ?)"] {
            let id = stmts.next_id();
            stmts.insert(id, entry(text, 2), None);
        }
        stmts
    }

    #[test]
    fn minus_one_is_the_statement_prepared_last_until_it_is_closed() {
        let mut stmts = two();
        assert_eq!(stmts.resolve(LAST_STMT_ID), Some(2));
        assert_eq!((stmts.resolve(1), stmts.resolve(3), stmts.resolve(0)), (Some(1), None, None));
        stmts.take_out(2);
        assert_eq!((stmts.resolve(LAST_STMT_ID), stmts.resolve(2)), (None, None));
        let id = stmts.next_id();
        stmts.insert(id, entry("DO 1", 0), None);
        assert_eq!(stmts.resolve(LAST_STMT_ID), Some(3));
        stmts.forget_last();
        assert_eq!((stmts.resolve(LAST_STMT_ID), stmts.resolve(3)), (None, Some(3)));
    }

    #[test]
    fn ids_that_wrap_pass_over_those_in_use() {
        let mut stmts = two();
        stmts.next_id = LAST_STMT_ID;
        assert_eq!(stmts.next_id(), 3);
        stmts.insert(3, entry("DO 1", 0), None);
        assert_eq!(stmts.get(2).map(|stmt| stmt.id), Some(2));
    }

    #[test]
    fn what_is_known_of_a_text_counts_beside_it() {
        let mut stmts = ClientStmts::default();
        let text = format!("SET @a = 1{}", ", @b = 2".repeat(1_000));
        stmts.insert(stmts.next_id, entry(&text, 0), None);
        assert!(stmts.held() > 6 * text.len(), "{} of {} bytes", stmts.held(), text.len());
        stmts.take_out(1);
        assert_eq!(stmts.held(), 0);
    }

    #[test]
    fn long_data_is_bounded_and_its_error_lasts_until_a_reset() {
        let mut stmts = two();
        let texts = stmts.held();
        stmts.add_long_data(1, 0, b"frames", None, texts + 100);
        stmts.add_long_data(1, 1, b"more", None, texts + 100);
        let stmt = stmts.get_mut(1).expect("a statement");
        let renamed = stmt.long.as_mut().expect("long data").renamed(0).cloned();
        assert_eq!(renamed.collect::<Vec<_>>(), [Arc::new(b"frame\0\0\0\0e".to_vec())]);
        stmts.long_data_used(1);
        assert_eq!(stmts.held(), texts);

        stmts.add_long_data(1, 0, &[0; 60], None, texts + 100);
        stmts.add_long_data(2, 0, &[0; 60], None, texts + 100);
        let error = |stmts: &ClientStmts, id| stmts.get(id)?.long.as_ref()?.error;
        assert_eq!((error(&stmts, 1), error(&stmts, 2)), (None, Some(LongDataError::TooLong)));
        stmts.long_data_used(2);
        assert_eq!(error(&stmts, 2), Some(LongDataError::TooLong));
        stmts.drop_long_data(2);
        stmts.add_long_data(2, 2, b"x", None, usize::MAX);
        assert_eq!(error(&stmts, 2), Some(LongDataError::NoParameter));
        stmts.take_out(1);
        stmts.take_out(2);
        assert_eq!((stmts.held(), stmts.len()), (0, 0));
    }
}
