//! The statement that a client has under way, from its beginning on.

use std::sync::Arc;

use trunkline_protocol::response::ResponseShape;

use crate::{
    clients::Clients,
    clients::client::{Client, CommandSent, Phase, Purpose, Statement},
    clients::frames::Frames,
    clients::frames::is_split,
    compressed::answer_seq,
    rooms::Core,
    special::local_infile::Upload,
};

impl Core {
    /// A new statement under way.
    pub(crate) fn statement(
        &mut self,
        frames: &[u8],
        shape: ResponseShape,
        purpose: Purpose,
    ) -> Box<Statement> {
        let copy = match self.fx.whole.as_ref().filter(|whole| is_same(whole, frames)) {
            Some(whole) => Frames::Whole(Arc::clone(whole)),
            None => {
                let mut copy = self.fx.buffers.take();
                copy.extend_from_slice(frames);
                Frames::Own(copy)
            }
        };
        let answer_seq = match is_split(&copy) {
            true => answer_seq(&copy),
            false => 1,
        };
        let command = CommandSent {
            frames: copy,
            attributes: None,
            answer_seq,
            shape,
            purpose,
            begun_us: self.env.now.us,
        };
        let retries = self.env.snapshot.settings.query_retries_on_failure;
        let statement = Statement::new(command, retries);
        match self.clients.spare_statements.pop() {
            Some(mut spare) => {
                *spare = statement;
                spare
            }
            None => Box::new(statement),
        }
    }
}

/// Whether these are the bytes of that buffer.
fn is_same(whole: &[u8], frames: &[u8]) -> bool {
    std::ptr::eq(whole, frames)
}

impl Clients {
    pub(crate) fn begin(&mut self, client: &mut Client, statement: Box<Statement>) {
        debug_assert!(matches!(client.phase, Phase::Idle));
        let deadline_ms = statement.deadline_ms;
        let timer_ms = client.timer_ms;
        client.phase = Phase::Running(statement);
        if deadline_ms != timer_ms {
            self.set_timer(client, deadline_ms);
        }
    }

    /// Wakes the client's statement at this time; 0 never does.
    pub(crate) fn set_timer(&mut self, client: &mut Client, at_ms: u64) {
        let before = std::mem::replace(&mut client.timer_ms, at_ms);
        if before != 0 {
            self.timers.remove(&(before, client.id));
        }
        if at_ms != 0 {
            self.timers.insert((at_ms, client.id));
        }
    }
}

impl Client {
    /// Whether bytes of this client are those of a file.
    pub(crate) fn is_uploading(&self) -> bool {
        matches!(&self.phase, Phase::Running(statement)
                if matches!(statement.beside.upload, Upload::Sending { .. }))
    }
}
