//! Step 8 for executions: the statement is prepared on the connection if it is not yet, and run
//! under the server's id.

use std::{rc::Rc, sync::Arc};

use trunkline_protocol::{
    codec::frame::{HEADER_LEN, Sink, payload_parts_from},
    command::{
        attributes::{put_long_query, put_query},
        execute::{
            LAST_STMT_ID, STMT_ID_AT, put_close, put_counted_cut, put_long_prepare,
            put_long_renamed, put_long_with_attributes, put_prepare, put_renamed,
            put_with_attributes,
        },
    },
    packet::greeting::Flavor,
    response::{Relay, ResponseShape},
};
use trunkline_session::tracker::Schema;
use trunkline_sql::analysis::Depends;

use crate::{
    clients::client::{Client, CommandSent, Phase, Purpose, Session, Statement},
    clients::frames::{Frames, Text, is_split, joined_payload},
    outbox::{LENT_LEN_MIN, Lending, Way},
    rooms::Core,
    routing::route::Asking,
    servers::conn::{Conn, InFlight, Owner},
};

use super::{Beside, ClientStmt, Entry, Fit, Last, ServerStmts, state_for};
use crate::commands::prepared::{execution_in, fit_of, views_since};

/// What preparing takes on one connection.
pub(crate) struct Missing {
    /// The state that it has to be brought to first.
    pub(crate) state: Option<Arc<trunkline_session::tracker::SessionState>>,
    pub(crate) entry: Rc<Entry>,
    /// Whether the execution may follow at once, for the statement prepared last.
    pub(crate) follows: bool,
}

impl Client {
    pub(crate) fn run_last(&mut self) {
        if let Phase::Running(statement) = &mut self.phase {
            statement.prepared.runs_last = true;
        }
    }
}

impl Conn {
    /// Takes the statement that the client runs to the front of those on a connection that has it.
    pub(crate) fn take_stmt(&mut self, client: &mut Client) {
        if let Some((statement, session)) = client.running()
            && let Some(stmt_id) = statement.prepared.stmt_id
            && let Some(stmt) = session.prepared.get(stmt_id)
        {
            let fit = fit_of(stmt, statement);
            let has_it = self.stmts.take(statement.entry(stmt), stmt.id, fit);
            debug_assert!(has_it, "joined a connection without the statement");
        }
    }
}

impl Core {
    /// What has to be prepared; the name of a schema that would have to be chosen and can't be
    /// given back afterwards.
    pub(crate) fn missing(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
    ) -> Result<Option<Missing>, Box<[u8]>> {
        let Some((statement, session)) = client.running() else { return Ok(None) };
        let (Purpose::Execute, Some(stmt_id)) =
            (&statement.command.purpose, statement.prepared.stmt_id)
        else {
            return Ok(None);
        };
        let Some(stmt) = session.prepared.get(stmt_id) else {
            return Ok(None);
        };
        let fit = fit_of(stmt, statement);
        let entry = statement.entry(stmt);
        if conn.stmts.take(entry, stmt_id, fit) {
            return Ok(None);
        }
        if session.settings.state.schema == Schema::None {
            if conn.state.schema != Schema::None {
                // The connection is exchanged first.
                return Ok(None);
            }
            if let Schema::Named(name) = &entry.reading.schema {
                return Err(name.clone());
            }
        }
        // Should preparing fail, the server runs what it prepared before: that must only read.
        // A block that is cut short gets another error when it is run as the last prepared.
        let follows = conn.server.flavor == Flavor::MariaDb
            && statement.meaning.is_read
            && stmt.long.is_none()
            && stmt.types.is_some()
            && execution_in(&statement.command.frames, stmt.entry.params).is_some();
        let beside = Beside {
            values: entry.known.analysis.depends.contains(Depends::USER_VARIABLE_READ),
            views: views_since(entry, statement),
        };
        let (contents, session_state) = (entry.contents, &session.settings.state);
        let state = state_for(&entry.reading, contents, beside, session_state, &conn.state);
        let state = state.map(|state| self.servers.states.intern(state));
        let entry = Rc::clone(entry);
        let follows = follows && self.last_is_harmless(client, conn);
        Ok(Some(Missing { state, entry, follows }))
    }

    /// Whether an execution of what the connection has prepared last is proven to have no effects.
    fn last_is_harmless(&mut self, client: &mut Client, conn: &Conn) -> bool {
        match conn.stmts.last().clone() {
            Last::Nothing => true,
            Last::Unknown => false,
            Last::Entry(last) => {
                let Some(last) = last.upgrade() else { return false };
                // Its server may read it again.
                if !last.is_read_in(&self.modes(client)) {
                    return false;
                }
                let asking = Asking::Execute(&last.reading.schema, None);
                let hostgroup = conn.server.hostgroup;
                let proof = self.proof_at(&client.session, &last.known, asking, hostgroup).proof;
                self.proof_in(hostgroup, proof).reads
            }
        }
    }

    /// Appends `COM_STMT_PREPARE` of an entry.
    pub(crate) fn prepare_on(&mut self, client: &mut Client, conn: &mut Conn, entry: &Entry) {
        self.make_room_for_stmt(conn);
        let mut relay =
            Relay::new(ResponseShape::Prepare, conn.server.format, conn.server.format, false);
        if conn.io.packing.is_some() {
            relay.renumber_from(1);
        }
        conn.in_flight.push_back(InFlight {
            owner: Owner::Prepare(client.id),
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        let mut way = Way { outbox: &mut conn.io.outbox, buffers: &mut self.fx.buffers };
        match &entry.text {
            Text::Own(text) => put_prepare(way.buf(), text),
            Text::Part(buffer, _) => put_long_prepare(&mut way.lending(buffer), &entry.text),
        }
        self.touch_server(conn);
    }

    /// Makes room on a connection, and within its server's budget, for one more statement.
    pub(crate) fn make_room_for_stmt(&mut self, conn: &mut Conn) {
        let settings = &self.env.snapshot.settings;
        let health = self.servers.pool.slot(conn.slot).map(|slot| &slot.server.health);
        let prepared = health.map_or(0, |health| health.stmts());
        let is_scarce = prepared >= settings.max_stmts_per_server;
        conn.stmts.make_room(settings.max_stmts_per_connection, is_scarce);
        self.close_surplus(conn);
    }

    /// Appends `COM_STMT_CLOSE` for each statement that waits for it. Nobody answers.
    #[inline]
    pub(crate) fn close_surplus(&mut self, conn: &mut Conn) {
        if conn.stmts.has_closing() {
            self.close_those_waiting(conn);
        }
    }

    fn close_those_waiting(&mut self, conn: &mut Conn) {
        let mut count = 0;
        let out = conn.io.outbox.buf(&mut self.fx.buffers);
        for stmt_id in conn.stmts.drain_closing() {
            put_close(out, stmt_id);
            count += 1;
        }
        if let Some(slot) = self.servers.pool.slot(conn.slot) {
            slot.server.health.close_stmts(count);
        }
        self.touch_server(conn);
    }
}

/// Whether what a client wants to run can be run on a connection that others use too, and on this
/// one without preparing it first.
pub(crate) fn runs_among_others(client: &Client, conn: Option<&Conn>) -> bool {
    let Some((statement, session)) = client.running() else { return false };
    let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
    let Some(stmt) = stmt.filter(|stmt| stmt.long.is_none()) else {
        return false;
    };
    let execution = execution_in(&statement.command.frames, stmt.entry.params);
    let fit = fit_of(stmt, statement);
    let is_plain =
        execution.is_some_and(|execution| !execution.opens_cursor) && !matches!(fit, Fit::Unused);
    is_plain && conn.is_none_or(|conn| conn.stmts.has(statement.entry(stmt), stmt.id, fit))
}

/// Notes what the front statement is run with.
fn run_front(stmts: &mut ServerStmts, stmt: &ClientStmt, statement: &Statement) {
    let execution = execution_in(&statement.command.frames, stmt.entry.params);
    let opens_cursor = execution.is_some_and(|execution| execution.opens_cursor);
    stmts.run(fit_of(stmt, statement), opens_cursor);
}

/// Appends a statement to a connection's outbox, under the server's id where it has one.
#[inline]
pub(crate) fn put_statement(
    mut way: Way<'_>,
    statement: &mut Statement,
    session: &mut Session,
    stmts: &mut ServerStmts,
    takes_attributes: bool,
) {
    match (&statement.command.purpose, statement.prepared.stmt_id) {
        (Purpose::Execute, Some(stmt_id)) => {
            put_execution(way, statement, session, stmt_id, stmts, takes_attributes);
        }
        (Purpose::Fetch, Some(stmt_id)) => {
            let held = stmts.held(stmt_id).unwrap_or_default();
            put_renamed(way.buf(), &statement.command.frames, held);
        }
        (Purpose::Query, _) if takes_attributes => put_text(way, &statement.command),
        _ => match &statement.command.frames {
            Frames::Own(frames) => way.buf().extend_from_slice(frames),
            Frames::Whole(frames) => way.lending(frames).put(frames),
        },
    }
}

/// Appends a `COM_QUERY` with its attributes, or none.
fn put_text(mut way: Way<'_>, command: &CommandSent) {
    let shared = command.attributes.as_ref();
    let attributes = shared.map(|attributes| &**attributes);
    // The first packet begins with the command's code.
    let text_at = HEADER_LEN + 1;
    match &command.frames {
        Frames::Whole(frames) => {
            let text = payload_parts_from(frames, text_at);
            put_long_query(&mut way.lending_both(Some(frames), shared), attributes, text);
        }
        Frames::Own(frames) if is_split(frames) => {
            put_long_query(way.buf(), attributes, payload_parts_from(frames, text_at));
        }
        Frames::Own(frames) => {
            put_query(way.buf(), attributes, frames.get(text_at..).unwrap_or_default());
        }
    }
}

/// An execution on its way, under a server's id.
struct Sending<'a> {
    server_id: u32,
    params: u16,
    /// What its server has not been told; `None` where it knows them, and for a statement without
    /// parameters.
    types: Option<&'a [u8]>,
    takes_attributes: bool,
}

fn put_execution(
    mut way: Way<'_>,
    statement: &mut Statement,
    session: &mut Session,
    stmt_id: u32,
    stmts: &mut ServerStmts,
    takes_attributes: bool,
) {
    let Some(stmt) = session.prepared.get_mut(stmt_id) else {
        debug_assert!(false, "an execution outlived its statement");
        return way.buf().extend_from_slice(&statement.command.frames);
    };
    let front = match statement.prepared.runs_last {
        true => Some((LAST_STMT_ID, true)),
        false => stmts.front(stmt.types.as_ref()),
    };
    let Some((server_id, needs_types)) = front else {
        debug_assert!(false, "an execution of what is not prepared");
        return way.buf().extend_from_slice(&statement.command.frames);
    };
    if let Some(long) = &mut stmt.long {
        long.renamed(server_id).for_each(|frames| way.lending(frames).put(frames));
        stmts.send_long_data();
    }
    if !statement.prepared.runs_last {
        statement.prepared.server_stmt = server_id;
        run_front(stmts, stmt, statement);
    }
    let types = stmt.types.as_deref().filter(|types| needs_types && !types.is_empty());
    let sending = Sending { server_id, params: stmt.entry.params, types, takes_attributes };
    match (&statement.command.attributes, &statement.command.frames) {
        (Some(raw), _) if takes_attributes && raw.len() >= LENT_LEN_MIN => {
            put_long_with_attributes(&mut way.lending_both(None, Some(raw)), server_id, raw);
        }
        (Some(raw), _) if takes_attributes => put_with_attributes(way.buf(), server_id, raw),
        (_, Frames::Own(frames)) => sending.put(way.buf(), frames),
        (_, Frames::Whole(frames)) => sending.put_long(&mut way.lending(frames), frames),
    }
}

impl Sending<'_> {
    fn put(&self, out: &mut Vec<u8>, frames: &[u8]) {
        let Self { server_id, params, types, takes_attributes } = *self;
        if types.is_none() && !takes_attributes {
            return put_renamed(out, frames, server_id);
        }
        let joined = is_split(frames).then(|| {
            // As one packet that is longer than packets can be.
            [&[0; HEADER_LEN], &*joined_payload(frames)].concat()
        });
        match (execution_in(joined.as_deref().unwrap_or(frames), params), types) {
            (Some(execution), types) if takes_attributes => {
                execution.put_counted(out, server_id, params, types);
            }
            (Some(execution), Some(types)) if execution.types.is_none() => {
                execution.put_with_types(out, server_id, types);
            }
            // What the server says of a block that is cut short is said of this one.
            (None, _) if takes_attributes => {
                let raw = frames.get(STMT_ID_AT + 4..).unwrap_or_default();
                put_counted_cut(out, server_id, params, raw);
            }
            _ => put_renamed(out, frames, server_id),
        }
    }

    /// Appends a long execution, whose values are not copied, as [`put`](Self::put) does a short
    /// one.
    #[cold]
    fn put_long(&self, out: &mut Lending<'_>, frames: &[u8]) {
        let Self { server_id, params, types, takes_attributes } = *self;
        match (execution_in(frames, params), types) {
            (Some(execution), types) if takes_attributes => {
                execution.put_long_counted(out, frames, server_id, params, types);
            }
            (Some(execution), Some(types)) if execution.types.is_none() => {
                execution.put_long_with_types(out, frames, server_id, types);
            }
            (None, _) if takes_attributes => {
                let raw = frames.get(STMT_ID_AT + 4..).unwrap_or_default();
                let mut cut = Vec::new();
                put_counted_cut(&mut cut, server_id, params, raw);
                out.put(&cut);
            }
            _ => put_long_renamed(out, frames, server_id),
        }
    }
}

impl Conn {
    /// After the statement prepared last was found to be this client's: as if it had been there.
    pub(super) fn bind_front(&mut self, statement: &Statement, session: &Session) {
        let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        if let Some(stmt) = stmt {
            run_front(&mut self.stmts, stmt, statement);
        }
    }
}
