//! Statements that have run out of their time.

use crate::{
    clients::client::Client,
    rooms::{Core, Exchange},
    servers::conn::Conn,
    upkeep::timer::timed_out,
};

impl Exchange {
    /// Ends a statement that has run out of its time and gets no answer of a server's. `lent`: the
    /// connection that is lent, if one is.
    pub(crate) fn fail_timed_out(&mut self, client: &mut Client, lent: Option<&mut Conn>) {
        self.fail_unsent(client, timed_out(), lent);
    }
}

impl Core {
    /// Answers a statement whose own answer was thrown away.
    pub(super) fn answer_timed_out(&mut self, client: &mut Client) {
        self.write_error(client, 1, &timed_out());
    }
}
