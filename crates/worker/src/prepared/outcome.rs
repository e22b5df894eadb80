//! What came of preparing, running and fetching.

use std::rc::Rc;

use trunkline_protocol::{
    error::{ClientError, ErrorKind},
    packet::{greeting::Flavor, status},
    response::{Outcome, Prepared, ServerError},
};
use trunkline_session::tracker::PinReason;
use trunkline_sql::{analysis::Depends, token::Modes};

use crate::{
    clients::client::{Client, Phase, Statement},
    commands::prepared::{is_bulk, prepared_text},
    prepared::{Contents, Entries, Entry, EntryKey, entry::is_long},
    rooms::{Core, Exchange},
    servers::conn::{Conn, Owner},
    statement::Statements,
    statement::analysis::Known,
};

/// The server's error when it has as many statements as it may.
pub(crate) const TOO_MANY: u16 = 1461;
/// The server's error when it does not know a statement.
const UNKNOWN: u16 = 1243;

impl Statements {
    /// The entry of a statement that was `read` in modes: one for all clients, or its own.
    pub(crate) fn share_entry(
        &mut self,
        key: EntryKey,
        read: (Rc<Known>, Modes),
        prepared: Prepared,
    ) -> Rc<Entry> {
        // The type of a user variable's value becomes part of what is prepared, and on MySQL the
        // value of a count that a column is compared with.
        const OWN: [Depends; 3] =
            [Depends::USER_VARIABLE_READ, Depends::ROW_COUNT, Depends::FOUND_ROWS];
        let is_own = OWN.iter().any(|own| read.0.analysis.depends.contains(*own));
        // To tell long texts apart takes as long as to read them.
        match is_own || is_long(&key.text, &read.0) {
            true => Entries::own(&key, read, prepared),
            false => self.entries.share(key, read, prepared),
        }
    }
}

impl Exchange {
    /// A client's `COM_STMT_PREPARE` was answered.
    pub(crate) fn stmt_prepared(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        statement: &Statement,
        outcome: &Outcome,
    ) {
        let (Some(prepared), None) = (&outcome.prepared, &outcome.error) else {
            if outcome.error.as_ref().is_some_and(|error| error.code == TOO_MANY) {
                self.core.give_up_stmts(conn);
            }
            client.session.prepared.forget_last();
            return;
        };
        let is_mysql = self.core.env.greeting.flavor() == Flavor::MySql;
        let entry = self.entry_of(client, statement, *prepared);
        entry.iter().for_each(|entry| self.core.stmt_is_on(conn, entry, prepared.stmt_id));
        if let (Some(entry), Some(stmt_id)) = (entry, statement.prepared.stmt_id) {
            let stmts = &mut client.session.prepared;
            stmts.insert(stmt_id, entry, statement.prepared.came.clone());
            if is_mysql {
                // It knows no −1.
                stmts.forget_last();
            }
            stmts.columns_sent(stmt_id, outcome);
        }
    }

    /// The entry of what was prepared just now, in the session's present state.
    fn entry_of(
        &mut self,
        client: &mut Client,
        statement: &Statement,
        prepared: Prepared,
    ) -> Option<Rc<Entry>> {
        let modes = self.core.modes(client);
        let session = &mut *client.session;
        let known = Rc::clone(statement.meaning.known.as_ref()?);
        let in_views = statement.prepared.in_views;
        let (text, contents) = match statement.prepared.read.as_deref() {
            Some((text, contents)) => (text.clone(), contents.or(in_views)),
            None => {
                let text = prepared_text(statement);
                let contents = Contents::of(&text, &modes, in_views);
                (text, contents)
            }
        };
        let reading = session.settings.reading.of(
            &session.settings.state,
            contents,
            &mut self.core.servers.states,
        );
        let key = EntryKey { account: session.login.account, reading, contents, text };
        Some(match statement.prepared.is_own {
            true => Entries::own(&key, (known, modes), prepared),
            false => self.statements.share_entry(key, (known, modes), prepared),
        })
    }
}

impl Core {
    /// A server has prepared an entry.
    fn stmt_is_on(&mut self, conn: &mut Conn, entry: &Rc<Entry>, stmt_id: u32) {
        match entry.is_long() {
            true => conn.stmts.close(stmt_id),
            false => conn.stmts.insert(entry, stmt_id),
        }
        self.fx.stats.counters.statements_prepared += 1;
        if let Some(slot) = self.servers.pool.slot(conn.slot) {
            slot.server.health.add_stmt();
        }
    }

    /// The server has no room for more statements: this connection gives up all of its own.
    pub(crate) fn give_up_stmts(&mut self, conn: &mut Conn) {
        conn.stmts.close_all();
        self.close_surplus(conn);
    }

    /// The statement is there: executions that wait for it, or follow it, have it at the front.
    pub(crate) fn kept_again(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        entry: &Rc<Entry>,
        prepared: Prepared,
    ) {
        conn.stmts.insert(entry, prepared.stmt_id);
        if let Some(slot) = self.servers.pool.slot(conn.slot) {
            slot.server.health.add_stmt();
        }
        self.fx.stats.counters.statements_prepared += 1;
        if let Some((statement, session)) = client.running_mut()
            && statement.prepared.runs_last
        {
            statement.prepared.server_stmt = prepared.stmt_id;
            conn.bind_front(statement, session);
        }
    }

    /// What a client is told of an execution whose statement could not be prepared.
    pub(crate) fn answer_prepare_error(
        &mut self,
        client: &mut Client,
        error: ServerError,
    ) -> Outcome {
        self.write_error(client, 1, &ClientError::from(&error));
        Outcome { error: Some(error), ..Outcome::default() }
    }
}

/// An execution has ended.
pub(crate) fn stmt_executed(
    client: &mut Client,
    conn: &mut Conn,
    statement: &Statement,
    outcome: &Outcome,
    was_run: bool,
) {
    let Some(stmt_id) = statement.prepared.stmt_id else { return };
    client.long_data_used(statement);
    let stmts = &mut client.session.prepared;
    stmts.columns_sent(stmt_id, outcome);
    if let Some(error) = outcome.error.as_ref().filter(|_| was_run) {
        stmts.execution_failed(stmt_id, is_bulk(statement), error.code);
    }
    if !was_run {
        return;
    }
    let has_succeeded = outcome.error.is_none();
    let is_unknown = outcome.error.as_ref().is_some_and(|error| error.code == UNKNOWN);
    let has_cursor = has_succeeded
        && statement.opens_cursor()
        && outcome.status.is_some_and(|flags| flags & status::CURSOR_EXISTS != 0);
    if has_cursor {
        conn.stmts.hold(statement.prepared.server_stmt, stmt_id);
    }
    conn.stmts.ended(statement.prepared.server_stmt, has_succeeded, is_unknown);
    if has_cursor {
        let session = &mut *client.session;
        if let Some(stmt) = session.prepared.get_mut(stmt_id) {
            stmt.cursor = Some(conn.id);
        }
        if let Some(lease) = session.lease_mut(conn.id) {
            lease.pins.pin_name(PinReason::Cursor, &stmt_id.to_le_bytes());
        }
    }
}

/// Rows were fetched; with the last one the server closes the cursor.
pub(crate) fn stmt_fetched(
    client: &mut Client,
    conn: &mut Conn,
    statement: &Statement,
    outcome: &Outcome,
) {
    let is_last = outcome.status.is_some_and(|flags| flags & status::LAST_ROW_SENT != 0);
    let Some(stmt_id) = statement.prepared.stmt_id.filter(|_| is_last) else { return };
    conn.stmts.close_held(stmt_id);
    if let Some(stmt) = client.session.prepared.get_mut(stmt_id) {
        stmt.cursor = None;
    }
    client.cursor_ended(conn.id, stmt_id);
}

impl Conn {
    /// The execution that was sent behind fails as preparing did; its own reply is dropped when it
    /// comes.
    pub(crate) fn discard_execution(&mut self, client: &mut Client, error: ServerError) {
        let own = self.in_flight.iter_mut().find(|entry| entry.owner == Owner::Client(client.id));
        if let Some(own) = own {
            own.relay.set_discard();
        }
        if let Phase::Running(statement) = &mut client.phase {
            statement.prepared.prepare_error = Some(Box::new(error));
        }
    }
}

/// A server reads other parameters from a text than another one did.
pub(crate) fn other_parameters() -> ServerError {
    let text = "Incorrect arguments to mysqld_stmt_execute: the servers disagree on the parameters";
    ErrorKind::WrongArguments.says(text).into()
}

impl Client {
    /// Its execution was answered without a server.
    pub(crate) fn stmt_answered(&mut self, statement: &Statement, outcome: &Outcome) {
        if let Some(stmt_id) = statement.executed() {
            self.session.prepared.columns_sent(stmt_id, outcome);
        }
    }

    /// Long data goes with the execution that it was sent for, however that ended.
    pub(crate) fn long_data_used(&mut self, statement: &Statement) {
        if let Some(stmt_id) = statement.executed() {
            self.session.prepared.long_data_used(stmt_id);
        }
    }

    /// A cursor does not hold its session any more.
    pub(crate) fn cursor_ended(&mut self, conn_id: trunkline_pool::ConnId, stmt_id: u32) {
        if let Some(lease) = self.session.lease_mut(conn_id) {
            lease.pins.unpin_name(PinReason::Cursor, &stmt_id.to_le_bytes());
        }
    }
}
