//! Statements of a session that moves to another worker: texts and types, as plain data.

use std::rc::Rc;

use trunkline_protocol::response::Prepared;
use trunkline_session::tracker::StateTable;

use crate::{
    clients::client::{Session, SessionSettings},
    prepared::client_stmts::{Came, ClientStmt},
    prepared::{ClientStmts, Contents, EntryKey},
    rooms::Exchange,
};

/// Statements of one session that may move: each is read again when it arrives.
const STMTS_MAX: usize = 64;
/// Bytes of their texts.
const BYTES_MAX: usize = 64 * 1024;

/// All prepared statements of one session.
#[derive(Debug)]
pub(crate) struct MovedStmts {
    stmts: Vec<MovedStmt>,
    next_id: u32,
    last: Option<u32>,
}

#[derive(Debug)]
struct MovedStmt {
    text: Box<[u8]>,
    /// What came in its place.
    came: Option<Box<[u8]>>,
    contents: Contents,
    /// What a server said of it, and what its client calls it.
    prepared: Prepared,
    types: Option<Box<[u8]>>,
    columns: Option<Box<[u8]>>,
}

impl MovedStmt {
    fn of(stmt: &ClientStmt) -> Self {
        let entry = &stmt.entry;
        Self {
            text: entry.text[..].into(),
            came: stmt.came.as_ref().map(|came| came.text[..].into()),
            contents: entry.contents,
            prepared: entry.prepared(stmt.id),
            types: stmt.types.as_deref().map(Box::from),
            columns: stmt.columns.as_deref().map(Box::from),
        }
    }
}

impl ClientStmts {
    /// Whether they are few and short, with nothing under way: no cursor, nothing sent ahead.
    pub(crate) fn is_mobile(&self) -> bool {
        let rests = |stmt: &ClientStmt| stmt.long.is_none() && stmt.cursor.is_none();
        self.len() <= STMTS_MAX && self.held() <= BYTES_MAX && self.iter().all(rests)
    }

    /// Everything of statements that are mobile.
    pub(crate) fn pack(&self) -> MovedStmts {
        let stmts = self.iter().map(MovedStmt::of).collect();
        MovedStmts { stmts, next_id: self.after(), last: self.last() }
    }
}

impl Session {
    /// Whether all its statements were prepared in the state that it is in now, so that they can
    /// be read again elsewhere as they were read here.
    pub(crate) fn reads_alike(&mut self, states: &mut StateTable) -> bool {
        let Self { settings, prepared, .. } = self;
        let SessionSettings { reading, state, .. } = settings;
        prepared.iter().all(|stmt| {
            let now = reading.of(state, stmt.entry.contents, states);
            *now == *stmt.entry.reading
        })
    }
}

impl Exchange {
    /// Takes in the statements of a session that came from another worker.
    pub(crate) fn unpack_stmts(&mut self, session: &mut Session, moved: MovedStmts) {
        let MovedStmts { stmts, next_id, last } = moved;
        for MovedStmt { text, came, contents, prepared, types, columns } in stmts {
            let came = came.map(|text| {
                let known = self.statements.analyses.know(&text, &session.settings.modes);
                Rc::new(Came { text: text.into(), known })
            });
            let known = self.statements.analyses.know(&text, &session.settings.modes);
            let reading = session.settings.reading.of(
                &session.settings.state,
                contents,
                &mut self.core.servers.states,
            );
            let key =
                EntryKey { account: session.login.account, reading, contents, text: text.into() };
            let entry = self.statements.share_entry(key, (known, session.settings.modes), prepared);
            let columns = columns.map(|definitions| entry.columns(&definitions));
            let types = types.map(|types| types.into());
            let id = prepared.stmt_id;
            let stmt = ClientStmt { came, types, columns, ..ClientStmt::new(id, entry) };
            session.prepared.restore(stmt);
        }
        session.prepared.resume(next_id, last);
    }
}
