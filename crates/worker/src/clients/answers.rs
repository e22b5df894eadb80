//! What clients are told by the proxy itself.

use trunkline_protocol::error::ClientError;
use trunkline_session::tracker::PinReason;

use crate::{
    Action, ClientId,
    clients::Clients,
    clients::client::Phase,
    rooms::{Core, Exchange},
};

impl Clients {
    /// What the session may ask for next is this error, which its client was told in place of what
    /// its server has answered.
    pub(crate) fn record_client_error(&mut self, id: ClientId, error: &ClientError) {
        self.note_error(id, error);
        let session = self.get_mut(id).and_then(|client| client.session.as_mut());
        for lease in session.into_iter().flat_map(|session| &mut session.leases) {
            lease.pins.unpin(PinReason::Warnings);
        }
    }

    /// What the session may ask for next is the error that the proxy tells it, as if a server had
    /// told it.
    pub(crate) fn note_error(&mut self, id: ClientId, error: &ClientError) {
        let session = self.get_mut(id).and_then(|client| client.session.as_mut());
        if let Some(session) = session {
            session.last_conn = None;
            session.past.failed(error);
        }
    }
}

impl Core {
    /// Answers a command with OK and the session's status.
    pub(crate) fn answer_ok(&mut self, id: ClientId) {
        self.answer_ok_with(id, b"");
    }

    /// Answers a command with an error; the session lives on.
    pub(crate) fn answer_error(&mut self, id: ClientId, error: ClientError) {
        self.fx.stats.counters.errors_sent += 1;
        self.fx.stats.counters.statements_answered += 1;
        self.clients.note_error(id, &error);
        self.write_client(id, |out| {
            error.put(out, 1);
        });
    }
}

impl Exchange {
    /// Answers with an error packet and ends the connection.
    pub(crate) fn refuse(&mut self, id: ClientId, seq: u8, error: ClientError) {
        self.core.write_client(id, |out| {
            error.put(out, seq);
        });
        self.close_client(id);
    }

    /// Ends a client connection once its outbox is empty.
    pub(crate) fn close_client(&mut self, id: ClientId) {
        let Some(client) = self.core.clients.get_mut(id) else {
            return;
        };
        let now_ms = self.core.env.now.ms();
        if !matches!(client.phase, Phase::Closing) {
            self.leave_statement(id);
            self.core.end_session(id);
            if let Some(client) = self.core.clients.get_mut(id) {
                client.phase = Phase::Closing;
                client.inbox = Vec::new();
                client.active_ms = now_ms;
            }
            match self.core.clients.get(id).is_some_and(|client| client.is_mirror) {
                true => self.core.clients.copies.over.push(id),
                false => self.core.fx.act(Action::CloseClient { client: id, now: false }),
            }
        }
    }
}
