//! Step 8 for executions: the statement is prepared where it runs.

use trunkline_protocol::{
    error::{ClientError, ErrorKind},
    response::Outcome,
};
use trunkline_session::tracker::{Difference, difference};

use crate::{
    clients::client::{Client, Stage},
    exchange::send::text_hash,
    rooms::{Core, Exchange, Lender},
    servers::conn::Conn,
};

impl Exchange {
    /// Sees to it that what a client wants to run is prepared on its connection. False when the
    /// execution has to wait for that, or has failed.
    pub(super) fn is_prepared(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        let missing = match self.core.missing(client, conn) {
            Ok(None) => return true,
            Ok(Some(missing)) => missing,
            Err(schema) => {
                let text = format!("Unknown database '{}'", String::from_utf8_lossy(&schema));
                self.fail_in_place(client, conn, ErrorKind::UnknownSchema.says(text));
                return false;
            }
        };
        if let Some(state) = missing.state {
            let way = difference(&conn.state, &state, conn.server.flavor);
            if let Difference::Sync(sync) = way {
                let proof = sync.set.as_deref().map(text_hash);
                self.core.send_sync(client, conn, state, sync, proof);
            }
        }
        self.core.fx.stats.counters.statements_prepared_again += 1;
        self.core.prepare_on(client, conn, &missing.entry);
        match missing.follows {
            true => client.run_last(),
            false => client.set_assigned(Stage::Preparing(conn.id), self.core.env.now.us),
        }
        missing.follows
    }

    /// Ends the statement under way with an error, as if the connection that its session holds had
    /// answered so.
    pub(crate) fn fail_in_place(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        error: ClientError,
    ) {
        conn.discard_execution(client, error.into());
        self.complete(client, conn, &Outcome::default(), 0);
    }
}

impl Core {
    /// Closes the cursor of a client's statement, if one is open, by closing the server's
    /// statement: nobody answers that. `lent`: the connection that is lent, if one is.
    pub(crate) fn close_cursor(
        &mut self,
        client: &mut Client,
        stmt_id: u32,
        lent: Option<&mut Conn>,
    ) {
        let stmt = client.session.prepared.get_mut(stmt_id);
        let Some(conn_id) = stmt.and_then(|stmt| stmt.cursor.take()) else {
            return;
        };
        client.cursor_ended(conn_id, stmt_id);
        self.with_conn_or(lent, conn_id, |core, conn| {
            conn.stmts.close_held(stmt_id);
            core.close_surplus(conn);
            core.settle_lease(client, conn);
        });
    }
}
