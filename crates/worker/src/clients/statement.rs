//! The statement that a client has under way, from its beginning on.

use std::sync::Arc;

use trunkline_protocol::{
    codec::frame::HEADER_LEN,
    command::{
        attributes::{self, Given},
        code,
    },
    response::ResponseShape,
};

use crate::{
    clients::Clients,
    clients::client::Frontend,
    clients::client::{
        Beside, Client, CommandSent, Meaning, Phase, Preparation, Purpose, Sent, Session, Stage,
        Statement, Target,
    },
    clients::frames::{Frames, Plain, Text, is_split},
    compressed::answer_seq,
    effects::Effects,
    outbox::Buffers,
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
        let mut statement = self.clients.spare_statements.pop().unwrap_or_else(Statement::blank);
        statement.target.retries_left = self.env.snapshot.settings.query_retries_on_failure;
        let command = &mut statement.command;
        match self.fx.whole.as_ref().filter(|whole| is_same(&whole.frames, frames)) {
            Some(whole) => {
                command.frames = Frames::Whole(Arc::clone(&whole.frames));
                command.answer_seq = whole.answer_seq;
            }
            None => {
                let own = command.frames.own();
                if own.capacity() == 0 {
                    *own = self.fx.buffers.take();
                }
                own.extend_from_slice(frames);
                command.answer_seq = match is_split(frames) {
                    true => answer_seq(frames),
                    false => 1,
                };
            }
        }
        (command.shape, command.purpose) = (shape, purpose);
        command.begun_us = self.env.now.us;
        statement
    }
}

impl Core {
    /// A new statement of a long command, which is not copied: in place of the one that is being
    /// looked at, whose client awaits the answer.
    #[cold]
    pub(crate) fn long_statement(
        &mut self,
        frames: Arc<Vec<u8>>,
        shape: ResponseShape,
        purpose: Purpose,
    ) -> Box<Statement> {
        let mut statement = self.statement(&[], shape, purpose);
        let own = std::mem::replace(&mut statement.command.frames, Frames::Whole(frames));
        self.fx.buffers.give(own.into_own());
        statement.command.answer_seq = self.command_seq();
        statement
    }

    /// A copy of a statement's command, which is not copied itself where it is long.
    pub(crate) fn statement_like(
        &mut self,
        command: &CommandSent,
        shape: ResponseShape,
    ) -> Box<Statement> {
        let purpose = command.purpose.clone();
        match &command.frames {
            Frames::Own(frames) => self.statement(frames, shape, purpose),
            Frames::Whole(frames) => self.long_statement(Arc::clone(frames), shape, purpose),
        }
    }
}

/// A longer buffer of a command goes to whoever needs one next, bytes.
const KEPT_FRAMES_MAX: usize = 4 * 1024;

impl Statement {
    fn blank() -> Box<Self> {
        let command = CommandSent {
            frames: Frames::default(),
            attributes: None,
            answer_seq: 1,
            shape: ResponseShape::Query,
            purpose: Purpose::Other,
            begun_us: 0,
        };
        Box::new(Self::new(command, 0))
    }

    /// Becomes one of which nothing is known, for the next command, and lets go of all memory
    /// outside of it but a small buffer. It is not overwritten by a new one: that is large to be
    /// copied, and would look for memory to be freed once more.
    pub(crate) fn clear(&mut self, buffers: &mut Buffers) {
        let Self { command, meaning, prepared, ending, target, deadline_ms, beside, stage, sent } =
            self;
        match &mut command.frames {
            Frames::Own(own) if own.capacity() <= KEPT_FRAMES_MAX => own.clear(),
            frames => buffers.give(std::mem::take(frames).into_own()),
        }
        command.attributes = None;
        *meaning = Meaning::default();
        *prepared = Preparation::default();
        *target = Target::default();
        *beside = Beside::default();
        (*ending, *deadline_ms, *stage) = (None, 0, Stage::Queued);
        *sent = Sent::default();
    }
}

impl Statement {
    /// What the query attribute of this name says that came with it.
    pub(crate) fn attribute(&self, session: &Session, name: &[u8]) -> Option<Given<'_>> {
        let given = self.command.attributes.as_deref()?;
        match self.command.frames.get(HEADER_LEN).copied()? {
            code::QUERY => attributes::of_query(given, name),
            code::STMT_EXECUTE => {
                let stmt = session.prepared.get(self.prepared.stmt_id?)?;
                let is_long = |at| stmt.long.as_ref().is_some_and(|long| long.has(at));
                attributes::of_execution(given, stmt.entry.params, name, is_long)
            }
            _ => None,
        }
    }
}

impl Effects {
    /// These bytes of the command that is looked at, to be kept: a long one is not copied.
    pub(crate) fn text(&self, bytes: &[u8]) -> Text {
        self.whole.as_ref().map_or_else(|| bytes.into(), |whole| whole.text(bytes))
    }

    /// How these frames came to be without query attributes, where they had them taken out before.
    #[inline]
    pub(crate) fn plain(&self, frames: &[u8]) -> Option<Plain> {
        let whole = self.whole.as_ref()?;
        whole.plain.clone().filter(|_| is_same(&whole.frames, frames))
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
    pub(crate) fn set_timer(&mut self, client: &mut Frontend, at_ms: u64) {
        let before = std::mem::replace(&mut client.timer_ms, at_ms);
        if before != 0 {
            self.timers.remove(&(before, client.id));
        }
        if at_ms != 0 {
            self.timers.insert((at_ms, client.id));
        }
    }
}

impl Frontend {
    /// Whether bytes of this client are those of a file.
    pub(crate) fn is_uploading(&self) -> bool {
        matches!(&self.phase, Phase::Running(statement)
                if matches!(statement.beside.upload, Upload::Sending { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_is_cleared_is_as_good_as_new() {
        let mut statement = Statement::blank();
        statement.command.frames.own().extend_from_slice(b"frames");
        statement.command.attributes = Some(Arc::default());
        (statement.meaning.is_read, statement.meaning.is_recalled) = (true, true);
        (statement.prepared.stmt_id, statement.prepared.runs_last) = (Some(1), true);
        (statement.target.was_lost, statement.target.never_share) = (true, true);
        (statement.target.lost_unsent, statement.target.causal_since_us) = (1, 1);
        statement.beside.upload = Upload::Done;
        (statement.deadline_ms, statement.stage) = (1, Stage::Returning);
        statement.sent.sent_us = 1;
        (statement.sent.assigned_us, statement.sent.answered_us) = (1, 1);
        statement.clear(&mut Buffers::default());
        assert_eq!(format!("{statement:?}"), format!("{:?}", Statement::blank()));
    }
}
