//! The end of a client: its statement, its session, its socket.

use trunkline_protocol::{
    codec::compressed::Unpackable,
    error::{ClientError, ErrorKind},
};

use crate::{
    Action, ClientId,
    clients::client::Phase,
    kill::worker_of,
    rooms::{Core, Exchange},
};

impl Exchange {
    /// Answers with an error packet and ends the connection.
    pub(crate) fn refuse(&mut self, id: ClientId, seq: u8, error: ClientError) {
        self.core.write_client(id, |out| {
            error.put(out, seq);
        });
        self.close_client(id);
    }

    /// Ends a client whose packets can't be unpacked, as servers do.
    pub(crate) fn refuse_packed(&mut self, id: ClientId, fault: Unpackable) {
        if self.core.clients.get(id).is_some_and(|it| matches!(it.phase, Phase::Forward(_))) {
            // An answer of the server's may be under way.
            return self.close_client(id);
        }
        let error = match fault {
            Unpackable::OutOfOrder => ErrorKind::OutOfOrder.says("Got packets out of order"),
            Unpackable::TooLarge => ErrorKind::PacketTooLarge
                .says("Got a packet bigger than 'max_allowed_packet' bytes"),
            Unpackable::Broken => {
                ErrorKind::NotUnpackable.says("Couldn't uncompress communication packet")
            }
        };
        self.refuse(id, 1, error);
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
                client.io.inbox = Vec::new();
                client.active_ms = now_ms;
            }
            match self.core.clients.get(id).is_some_and(|client| client.is_mirror) {
                true => self.core.clients.copies.over.push(id),
                false => self.core.fx.act(Action::CloseClient { client: id, now: false }),
            }
        }
    }

    /// Ends a client whatever it is doing.
    pub(crate) fn close_client_now(&mut self, id: ClientId) {
        self.close_client(id);
        if self.core.clients.get(id).is_some_and(|client| !client.is_mirror) {
            self.core.fx.act(Action::CloseClient { client: id, now: true });
        }
    }

    /// While stopping: ends a client that has nothing under way and no state on a server.
    pub(crate) fn close_if_free(&mut self, id: ClientId) {
        let Some(client) = self.core.clients.get(id) else {
            return;
        };
        match &client.phase {
            Phase::Login(_) => {
                self.close_client_now(id);
            }
            Phase::Idle => {
                let session = client.session.as_ref();
                if session.is_none_or(|session| !session.is_in_transaction()) {
                    self.close_client(id);
                }
            }
            Phase::Running(_)
            | Phase::AwaitKill(_)
            | Phase::AwaitNames(_)
            | Phase::Forward(_)
            | Phase::Closing => {}
        }
    }

    /// Forgets a client whose socket has gone.
    pub(crate) fn remove_client(&mut self, id: ClientId) {
        self.core.clients.set_timer(id, 0);
        self.leave_statement(id);
        self.core.end_session(id);
        if let Some(mut client) = self.core.clients.table.remove(id) {
            client.io.outbox.discard(&mut self.core.fx.buffers);
            self.core.clients.waiting_bytes -= client.io.waiting_held;
            self.core.clients.numbers.remove(&client.origin.number);
            self.core.tell_home(client.origin.number);
            if client.origin.has_place {
                self.core.env.shared.give_back_client();
            }
            match client.is_mirror {
                true => self.core.clients.copies.running -= 1,
                false => self.core.fx.stats.counters.clients_disconnected += 1,
            }
        }
    }
}

impl Core {
    /// Tells the worker that gave a client its number that nobody has it any more.
    pub(crate) fn tell_home(&mut self, number: u32) {
        let home = worker_of(number, self.env.options.workers);
        // A copy of another client's statement has no number.
        if number != 0 && home != self.env.options.index {
            self.fx.act(Action::ClientLeft { to: home, number });
        }
    }
}
