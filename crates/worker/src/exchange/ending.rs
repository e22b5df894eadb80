//! The end of a client: its statement, its session, its socket.

use trunkline_protocol::{
    codec::compressed::Unpackable,
    error::{ClientError, ErrorKind},
};

use crate::{
    Action, ClientId,
    clients::client::{Client, Frontend, Phase},
    clients::session::ClientEntry,
    kill::worker_of,
    rooms::{Core, Exchange, Lender},
    servers::conn::Conn,
};

impl Exchange {
    /// Answers with an error packet and ends the connection.
    pub(crate) fn refuse(&mut self, client: &mut Client, seq: u8, error: ClientError) {
        self.core.write_error(client, seq, &error);
        self.close_client(client);
    }

    /// Ends a client whose packets can't be unpacked, as servers do.
    pub(crate) fn refuse_packed(&mut self, client: &mut ClientEntry, fault: Unpackable) {
        if matches!(client.phase, Phase::Forward(_)) {
            // An answer of the server's may be under way.
            return self.close(client);
        }
        let error = match fault {
            Unpackable::OutOfOrder => ErrorKind::OutOfOrder.says("Got packets out of order"),
            Unpackable::TooLarge => ErrorKind::PacketTooLarge
                .says("Got a packet bigger than 'max_allowed_packet' bytes"),
            Unpackable::Broken => {
                ErrorKind::NotUnpackable.says("Couldn't uncompress communication packet")
            }
        };
        self.refuse_login(client, 1, error);
    }

    /// Ends a client connection once its outbox is empty. No server connection is lent.
    pub(crate) fn close_client(&mut self, client: &mut Client) {
        self.end_client(client, None);
    }

    /// Ends a client connection once its outbox is empty. `lent`: the server connection that is
    /// lent, if one is: the client may hold it.
    pub(super) fn end_client(&mut self, client: &mut Client, mut lent: Option<&mut Conn>) {
        let now_ms = self.core.env.now.ms();
        if !matches!(client.phase, Phase::Closing) {
            self.leave_statement(client, lent.as_deref_mut());
            self.core.end_session(client, lent);
            self.core.leave(client, now_ms);
        }
    }

    /// See [`Self::close_client`]; of a client that may not have logged in.
    pub(crate) fn close(&mut self, entry: &mut ClientEntry) {
        match entry {
            ClientEntry::LoggedIn(client) => self.close_client(client),
            ClientEntry::Anonymous(front) if matches!(front.phase, Phase::Closing) => {}
            ClientEntry::Anonymous(front) => {
                let now_ms = self.core.env.now.ms();
                self.core.leave(front, now_ms);
            }
        }
    }

    /// See [`Self::refuse`]; of a client that may not have logged in.
    pub(crate) fn refuse_login(&mut self, entry: &mut ClientEntry, seq: u8, error: ClientError) {
        self.core.write_error(entry, seq, &error);
        self.close(entry);
    }

    /// See [`Self::close_client_now`]; of a client that may not have logged in.
    pub(crate) fn close_now(&mut self, entry: &mut ClientEntry) {
        self.close(entry);
        if !entry.is_mirror {
            self.core.fx.act(Action::CloseClient { client: entry.id, now: true });
        }
    }

    /// Ends a client whatever it is doing.
    pub(crate) fn close_client_now(&mut self, client: &mut Client) {
        self.close_client(client);
        if !client.is_mirror {
            self.core.fx.act(Action::CloseClient { client: client.id, now: true });
        }
    }

    /// While stopping: ends a client that has not logged in, or see [`Self::close_if_free`].
    pub(crate) fn close_if_resting(&mut self, entry: &mut ClientEntry) {
        match entry {
            ClientEntry::LoggedIn(client) => self.close_if_free(client, None),
            ClientEntry::Anonymous(front) if matches!(front.phase, Phase::Closing) => {}
            ClientEntry::Anonymous(_) => self.close_now(entry),
        }
    }

    /// While stopping: ends a client that has nothing under way and no state on a server. `lent`:
    /// the connection that is lent, if one is.
    pub(super) fn close_if_free(&mut self, client: &mut Client, lent: Option<&mut Conn>) {
        match &client.phase {
            Phase::Login(_) => {
                self.close_client_now(client);
            }
            Phase::Idle => {
                if !client.session.is_in_any_transaction() {
                    self.end_client(client, lent);
                }
            }
            Phase::Running(_)
            | Phase::ChangeUser
            | Phase::AwaitKill(_)
            | Phase::AwaitNames(_)
            | Phase::Forward(_)
            | Phase::AwaitServer(_)
            | Phase::Closing => {}
        }
    }

    /// Forgets a client whose socket has gone.
    pub(crate) fn remove_client(&mut self, id: ClientId) {
        self.with_entry(id, |exchange, entry| {
            exchange.core.clients.set_timer(entry, 0);
            if let ClientEntry::LoggedIn(client) = entry {
                exchange.leave_statement(client, None);
                exchange.core.end_session(client, None);
            }
            exchange.core.leave_half_open(entry);
            entry.phase = Phase::Closing;
        });
        if let Some(mut client) = self.core.clients.table.remove(id) {
            client.io.outbox.discard(&mut self.core.fx.buffers);
            self.core.clients.waiting_bytes -= client.io.waiting_held;
            self.core.clients.uncharge(&mut client);
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
    /// Has a client go when its outbox is empty.
    fn leave(&mut self, client: &mut Frontend, now_ms: u64) {
        self.leave_half_open(client);
        client.phase = Phase::Closing;
        client.io.inbox = Vec::new();
        self.clients.uncharge(client);
        client.active_ms = now_ms;
        match client.is_mirror {
            true => self.clients.copies.over.push(client.id),
            false => self.fx.act(Action::CloseClient { client: client.id, now: false }),
        }
    }

    /// Tells the worker that gave a client its number that nobody has it any more.
    pub(crate) fn tell_home(&mut self, number: u32) {
        let home = worker_of(number, self.env.options.workers);
        // A copy of another client's statement has no number.
        if number != 0 && home != self.env.options.index {
            self.fx.act(Action::ClientLeft { to: home, number });
        }
    }
}
