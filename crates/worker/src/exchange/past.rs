//! Step 8 for statements that ask for what an earlier one left.

use trunkline_protocol::error::ErrorKind;

use crate::{
    clients::client::{Client, Phase, Purpose, Stage},
    rooms::{Core, Exchange},
    servers::conn::Conn,
    session_past::Trace,
    session_past::insert_id::{INSERT_ID_LOST, names_insert_id},
};

impl Core {
    /// Before the proxy runs something of its own there that finds rows: asks the connection for
    /// the session's `FOUND_ROWS()`, where no reply told. True when the statement waits for it.
    pub(super) fn asks_for_found_rows(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        let Some(session) = client.session.as_mut() else { return false };
        let past = &mut session.past;
        if past.found_rows.is_some() || past.found_conn != Some((conn.id, conn.holder.turn)) {
            return false;
        }
        past.awaits_found_rows = Some(conn.id);
        // To ask is to find one row.
        past.found_conn = None;
        self.fetch_trace(conn, client.id, Trace::FoundRows);
        client.set_stage(Stage::Synchronising(conn.id));
        true
    }

    /// Before a statement that reads the last insert id: asks the connection for it, where the
    /// replies do not tell. True when the statement waits for the answer.
    pub(super) fn asks_for_insert_id(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        let session = client.session.as_mut();
        let Some(session) = session.filter(|session| session.past.is_insert_id_reported()) else {
            return false;
        };
        if !conn.server.format.session_track {
            session.past.insert_id_is_set();
            return false;
        }
        session.past.awaits_insert_id = Some(conn.id);
        self.fetch_trace(conn, client.id, Trace::InsertId);
        client.set_stage(Stage::Synchronising(conn.id));
        true
    }
}

impl Exchange {
    /// Refuses a statement that has a connection already, if it reads an id which was lost with
    /// another one meanwhile. True when it has.
    pub(super) fn refuses_lost_insert_id(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        let (Phase::Running(statement), Some(session)) = (&client.phase, client.session.as_ref())
        else {
            return false;
        };
        // What is only prepared does not read it.
        let is_prepared = statement.command.purpose == Purpose::Prepare;
        if is_prepared || !names_insert_id(statement) || session.past.knows_insert_id() {
            return false;
        }
        self.fail_unsent(client, ErrorKind::StateLost.says(INSERT_ID_LOST), Some(conn));
        true
    }
}
