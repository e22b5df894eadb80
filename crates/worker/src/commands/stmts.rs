//! What is done with prepared statements beside preparing and running them.

use std::sync::Arc;

use crate::{
    clients::client::{Client, Session},
    prepared::ClientStmt,
    replay::Why,
    rooms::Core,
};

impl Session {
    /// Its client has closed a statement. What repeats its transaction may need it still: at most
    /// `kept_max` bytes are kept for that.
    fn close_stmt(&mut self, stmt_id: u32, kept_max: usize) {
        let closed = self.prepared.take_out(stmt_id);
        let kept = self.transaction.kept.as_deref_mut().filter(|kept| kept.needs(stmt_id));
        if let Some(kept) = kept {
            let len = kept.held.len + closed.as_ref().map_or(0, ClientStmt::texts_len);
            kept.held.set(len);
            kept.closed.extend(closed);
            if len > kept_max {
                kept.refuse(Why::Size);
            }
        }
    }
}

impl Core {
    /// `COM_STMT_RESET`: nothing of it is on a server but a cursor.
    pub(super) fn reset_stmt(&mut self, client: &mut Client, stmt_id: u32) {
        let Some(stmt_id) = self.resolve(client, stmt_id, "mysqld_stmt_reset") else { return };
        self.close_cursor(client, stmt_id, None);
        client.session.prepared.drop_long_data(stmt_id);
        client.counts_rows(0);
        self.answer_ok(client);
    }

    /// `COM_STMT_CLOSE`, which nobody answers. Connections keep what is prepared on them.
    pub(super) fn close_stmt(&mut self, client: &mut Client, stmt_id: u32) {
        let named = client.session.prepared.resolve(stmt_id);
        if let Some(stmt_id) = named {
            self.close_cursor(client, stmt_id, None);
            let kept_max = self.env.snapshot.settings.transaction_replay_max_bytes;
            client.session.close_stmt(stmt_id, kept_max);
        }
    }

    /// `COM_STMT_SEND_LONG_DATA`, which nobody answers. It is kept for the execution, wherever
    /// that will be.
    pub(super) fn long_data(
        &mut self,
        client: &mut Client,
        frames: &[u8],
        stmt_id: u32,
        param: u16,
    ) {
        let max = self.env.snapshot.settings.max_allowed_packet;
        let may_keep = self.may_keep(client, frames.len()).is_ok();
        let whole = self.fx.whole.as_ref().map(|whole| Arc::clone(&whole.frames));
        let stmts = &mut client.session.prepared;
        if let Some(stmt_id) = stmts.resolve(stmt_id) {
            match may_keep {
                true => stmts.add_long_data(stmt_id, param, frames, whole, max),
                false => stmts.refuse_long_data(stmt_id),
            }
        }
    }
}
