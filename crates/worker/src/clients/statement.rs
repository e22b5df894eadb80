//! The statement that a client has under way, from its beginning on.

use std::sync::Arc;

use trunkline_catalog::Proof;
use trunkline_protocol::response::ResponseShape;
use trunkline_topology::HostgroupId;

use crate::{
    causal::place::ReadPlace,
    clients::Clients,
    clients::client::{
        Beside, Client, CommandSent, Meaning, Phase, Preparation, Purpose, Sent, Stage, Statement,
        Target,
    },
    clients::frames::Frames,
    clients::frames::is_split,
    compressed::answer_seq,
    prepared::Contents,
    rooms::Core,
    routing::directives::Directives,
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
        match self.clients.spare_statements.pop() {
            Some(mut spare) => {
                spare.renew(command, retries);
                spare
            }
            None => Box::new(Statement::new(command, retries)),
        }
    }
}

impl Statement {
    /// Lets go of all memory outside of it but its frames', so that [`renew`](Self::renew) finds
    /// none.
    pub(crate) fn clear(&mut self) {
        let Self { command, meaning, prepared, target, beside, stage, .. } = self;
        command.attributes = None;
        command.purpose = Purpose::Other;
        (meaning.known, meaning.definition) = (None, None);
        (prepared.entry, prepared.came, prepared.prepare_error) = (None, None, None);
        target.pinned_server = None;
        (beside.fill, beside.mirrored, beside.copy_of, beside.noted) = (None, None, None, None);
        *stage = Stage::Queued;
    }

    /// Becomes what [`Statement::new`] makes, after it was cleared. It is not overwritten by a new
    /// one: that would look once more, at each of its parts, for memory to be freed.
    pub(super) fn renew(&mut self, new: CommandSent, retries: u32) {
        let Self { command, meaning, prepared, ending, target, deadline_ms, beside, stage, sent } =
            self;
        let CommandSent { frames, attributes, answer_seq, shape, purpose, begun_us } = command;
        *frames = new.frames;
        *attributes = new.attributes;
        (*answer_seq, *shape, *begun_us) = (new.answer_seq, new.shape, new.begun_us);
        *purpose = new.purpose;
        let Meaning { known, definition, is_read, proof, validity, is_recalled } = meaning;
        debug_assert!(known.is_none() && definition.is_none(), "it was cleared");
        (*is_read, *proof, *validity, *is_recalled) = (false, Proof::NOTHING, None, false);
        let Preparation {
            stmt_id,
            entry,
            came,
            server_stmt,
            runs_last,
            in_views,
            is_own,
            prepare_error,
        } = prepared;
        debug_assert!(entry.is_none() && came.is_none() && prepare_error.is_none());
        (*stmt_id, *server_stmt) = (None, 0);
        (*runs_last, *in_views, *is_own) = (false, Contents::NOTHING, false);
        let Target {
            directives,
            hostgroup,
            pinned_server,
            reads,
            retries_left,
            lost_unsent,
            was_lost,
            never_share,
            causal_since_us,
        } = target;
        debug_assert!(pinned_server.is_none());
        *directives = Directives::default();
        (*hostgroup, *reads) = (HostgroupId::default(), ReadPlace::Anywhere);
        (*retries_left, *lost_unsent) = (retries, 0);
        (*was_lost, *never_share, *causal_since_us) = (false, false, 0);
        let Beside { fill, mirrored, copy_of, noted, upload } = beside;
        debug_assert!(fill.is_none() && mirrored.is_none() && copy_of.is_none() && noted.is_none());
        *upload = Upload::None;
        (*ending, *deadline_ms) = (None, 0);
        debug_assert!(*stage == Stage::Queued);
        *sent = Sent::default();
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
