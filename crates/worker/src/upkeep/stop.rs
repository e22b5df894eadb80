//! A graceful stop: what runs may end, what rests is closed, and a deadline ends the rest.

use trunkline_pool::ConnState;
use trunkline_protocol::error::ErrorKind;

use crate::{
    Action, ClientId, Side,
    clients::client::{Client, Phase, Purpose, Stage},
    clients::session::ClientEntry,
    kill::break_off_seq,
    rooms::{Core, Exchange, Lender},
    servers::conn::Conn,
};

/// How long clients may take to read why they end, ms.
const FAREWELL_MS: u64 = 200;
/// As servers say it, and whether it is safe to try again.
const WAS_NOT_SENT: &str = "Server shutdown in progress: this statement was not carried out";
const WAS_SENT: &str =
    "Server shutdown in progress: it is not known whether this statement was carried out";

impl Exchange {
    /// See [`Worker::stop_gracefully`](crate::Worker::stop_gracefully).
    pub(crate) fn on_stop_gracefully(&mut self, deadline_ms: u64) {
        self.core.env.stopping = Some(deadline_ms);
        self.core.env.shared.withdraw_load(self.core.env.options.index);
        self.drop_mirrors();
        for id in self.core.clients.table.keys() {
            self.with_entry(id, Self::close_if_resting);
        }
        self.check_stop();
    }

    /// See [`Worker::end_clients`](crate::Worker::end_clients).
    pub(crate) fn on_end_clients(&mut self) {
        for id in self.core.clients.table.keys() {
            self.with_entry(id, Self::close_now);
        }
    }

    #[inline]
    pub(crate) fn check_stop(&mut self) {
        let Some(deadline_ms) = self.core.env.stopping else {
            return;
        };
        if self.core.env.now.ms() >= deadline_ms {
            let is_told = self.core.env.has_told_stop;
            for id in self.core.clients.table.keys() {
                match is_told {
                    false => self.with_entry(id, Self::tell_stop),
                    true => self.with_entry(id, Self::close_now),
                };
            }
            // Who does not read it ends all the same.
            self.core.env.has_told_stop = true;
            if !is_told {
                self.core.env.stopping = Some(deadline_ms.saturating_add(FAREWELL_MS));
            }
        }
        if self.core.clients.table.len() == 0 && !self.core.env.is_stopped {
            self.core.env.is_stopped = true;
            for id in self.core.servers.conns.keys() {
                self.core.with_conn(id, Core::drop_conn);
            }
            self.core.fx.act(Action::Stopped);
        }
    }

    /// Ends a client at the deadline of a stop, and tells the one whose command is under way, where
    /// its reply can be broken off.
    fn tell_stop(&mut self, entry: &mut ClientEntry) {
        let ClientEntry::LoggedIn(client) = entry else { return self.close_now(entry) };
        if let Some(seq) = self.core.farewell_seq(client) {
            let text = if may_be_done(client) { WAS_SENT } else { WAS_NOT_SENT };
            self.core.fx.stats.counters.errors_sent += 1;
            self.core.write_error(client, seq, &ErrorKind::ShuttingDown.says(text));
        }
        match client.phase {
            Phase::Login(_) | Phase::Closing | Phase::Forward(_) | Phase::AwaitServer(_) => {
                self.close_client_now(client);
            }
            Phase::Idle
            | Phase::ChangeUser
            | Phase::Running(_)
            | Phase::AwaitKill(_)
            | Phase::AwaitNames(_) => {
                self.close_client(client);
            }
        }
    }

    fn abandon_client(&mut self, id: ClientId) {
        let leases = self.core.clients.get_mut(id).map(|client| client.session.end().0);
        for lease in leases.unwrap_or_default() {
            self.core.with_conn(lease.conn, Core::drop_conn);
        }
        if self.core.clients.table.get(id).is_some_and(|client| !client.is_mirror) {
            self.core.fx.act(Action::CloseClient { client: id, now: true });
        }
        self.remove_client(id);
    }

    /// Ends a connection. Returns the client whose alone it was.
    fn abandon_conn(&mut self, conn: &mut Conn) -> Option<ClientId> {
        if conn.list == ConnState::Shared {
            self.lose_conn(conn, "its bytes could not be handled");
            return None;
        }
        self.core.drop_conn(conn);
        conn.holder.owner.or(conn.login.forwards)
    }

    /// See [`Worker::abandon`](crate::Worker::abandon).
    pub(crate) fn on_abandon(&mut self, side: Side) {
        self.core.fx.stats.counters.session_panics += 1;
        match side {
            Side::Client(id) => self.abandon_client(id),
            Side::Server(id) => {
                let owner = self.with_conn(id, Self::abandon_conn).flatten();
                if let Some(owner) = owner {
                    self.abandon_client(owner);
                }
            }
        }
    }
}

/// Whether a server may have carried out what the client has under way.
fn may_be_done(client: &Client) -> bool {
    match &client.phase {
        Phase::Running(_) if client.awaits_outcome() => true,
        Phase::Running(_) if client.waits_for_repetition().is_some() => false,
        Phase::Running(statement) => matches!(statement.stage, Stage::Sent(_) | Stage::Shared(_)),
        Phase::AwaitKill(_) | Phase::Forward(_) => true,
        Phase::ChangeUser
        | Phase::AwaitNames(_)
        | Phase::AwaitServer(_)
        | Phase::Login(_)
        | Phase::Idle
        | Phase::Closing => false,
    }
}

impl Core {
    /// How to number an error that a command under way is answered with; `None` where there is
    /// none, or its reply is in the middle of a packet.
    fn farewell_seq(&self, client: &Client) -> Option<u8> {
        let statement = match &client.phase {
            Phase::Running(statement) => statement,
            Phase::ChangeUser | Phase::AwaitKill(_) | Phase::AwaitNames(_) => return Some(1),
            Phase::AwaitServer(_) => return Some(1),
            Phase::Login(_) | Phase::Idle | Phase::Forward(_) | Phase::Closing => return None,
        };
        if let Purpose::LoginSchema(_, seq) = statement.command.purpose {
            return Some(seq);
        }
        if let Some(is_waiting) = client.waits_for_repetition() {
            return is_waiting.then_some(1);
        }
        match statement.stage {
            Stage::Sent(conn) | Stage::Shared(conn) => {
                let conn = self.servers.conns.get(conn)?;
                break_off_seq(conn, client.id)
            }
            Stage::Held(_)
            | Stage::Queued
            | Stage::Returning
            | Stage::Synchronising(_)
            | Stage::Preparing(_) => Some(1),
        }
    }

    /// See [`Worker::is_stopping`](crate::Worker::is_stopping).
    pub(crate) fn is_stopping(&self) -> bool {
        self.env.stopping.is_some()
    }
}
