//! Statements that have run out of their time.

use crate::{
    ClientId,
    rooms::{Core, Exchange},
    upkeep::timer::timed_out,
};

impl Exchange {
    /// Ends a statement that has run out of its time and gets no answer of a server's.
    pub(crate) fn fail_timed_out(&mut self, id: ClientId) {
        self.fail_unsent(id, timed_out());
    }
}

impl Core {
    /// Answers a statement whose own answer was thrown away.
    pub(super) fn answer_timed_out(&mut self, id: ClientId) {
        self.write_client(id, |out| {
            timed_out().put(out, 1);
        });
    }

    /// What the session may ask for next is what its client was told, and not that its server was
    /// told to interrupt it.
    pub(super) fn note_timed_out(&mut self, id: ClientId) {
        self.clients.record_client_error(id, &timed_out());
    }
}
