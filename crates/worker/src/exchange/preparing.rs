//! Step 8 for executions: the statement is prepared where it runs.

use trunkline_pool::ConnId;
use trunkline_protocol::{
    error::{ClientError, ErrorKind},
    response::Outcome,
};
use trunkline_session::tracker::{Difference, difference};

use crate::{
    clients::client::{Client, Stage},
    exchange::send::text_hash,
    rooms::{Core, Exchange},
};

impl Exchange {
    /// Sees to it that what a client wants to run is prepared on its connection. False when the
    /// execution has to wait for that, or has failed.
    pub(super) fn is_prepared(&mut self, client: &mut Client, conn_id: ConnId) -> bool {
        let missing = match self.core.missing(client, conn_id) {
            Ok(None) => return true,
            Ok(Some(missing)) => missing,
            Err(schema) => {
                let text = format!("Unknown database '{}'", String::from_utf8_lossy(&schema));
                self.fail_in_place(client, conn_id, ErrorKind::UnknownSchema.says(text));
                return false;
            }
        };
        if let Some(state) = missing.state {
            let conn = self.core.servers.conns.get(conn_id);
            let way = conn.map(|conn| difference(&conn.state, &state, conn.server.flavor));
            if let Some(Difference::Sync(sync)) = way {
                let proof = sync.set.as_deref().map(text_hash);
                self.core.send_sync(client, conn_id, state, sync, proof);
            }
        }
        self.core.fx.stats.counters.statements_prepared_again += 1;
        self.core.prepare_on(client, conn_id, &missing.entry);
        match missing.follows {
            true => client.run_last(),
            false => client.set_stage(Stage::Preparing(conn_id)),
        }
        missing.follows
    }

    /// Ends the statement under way with an error, as if the connection that its session holds had
    /// answered so.
    pub(crate) fn fail_in_place(
        &mut self,
        client: &mut Client,
        conn_id: ConnId,
        error: ClientError,
    ) {
        self.core.discard_execution(client, conn_id, error.into());
        self.complete(client, conn_id, Outcome::default(), 0);
    }
}

impl Core {
    /// Closes the cursor of a client's statement, if one is open, by closing the server's
    /// statement: nobody answers that.
    pub(crate) fn close_cursor(&mut self, client: &mut Client, stmt_id: u32) {
        let stmt = client.stmts_mut().and_then(|stmts| stmts.get_mut(stmt_id));
        let Some(conn_id) = stmt.and_then(|stmt| stmt.cursor.take()) else {
            return;
        };
        if let Some(conn) = self.servers.conns.get_mut(conn_id) {
            conn.stmts.close_held(stmt_id);
        }
        self.close_surplus(conn_id);
        client.cursor_ended(conn_id, stmt_id);
        self.settle_lease(client, conn_id);
    }
}
