//! A statement on a connection for which a `KILL` is on its way.

use trunkline_pool::{ConnId, ConnState};
use trunkline_protocol::{
    codec::frame::put_payload,
    error::ErrorKind,
    response::{Relay, ResponseShape},
};

use crate::{
    clients::client::{Client, Ending, Phase, Stage},
    effects::Wake,
    kill::{INTERRUPTED, KillAnswer, KillAsker},
    rooms::{Core, Exchange, Lender},
    servers::conn::{InFlight, Owner},
};

impl Core {
    /// Whoever asked is told when this event is over.
    pub(crate) fn answer_kill(&mut self, asker: KillAsker, answer: KillAnswer) {
        self.fx.wake(Wake::KillAnswered(asker, answer));
    }

    /// A session's next statement waits while the connection that it goes to may still be hit by
    /// a `KILL` for the last one. True when it does.
    pub(super) fn waits_for_kills(&mut self, client: &mut Client, conn_id: ConnId) -> bool {
        let Some(conn) = self.servers.conns.get_mut(conn_id) else {
            return false;
        };
        if conn.holder.kills == 0 && !conn.holder.was_killed {
            return false;
        }
        if conn.holder.kills == 0 {
            conn.holder.was_killed = false;
            let relay =
                Relay::new(ResponseShape::Single, conn.server.format, conn.server.format, false);
            conn.in_flight.push_back(InFlight {
                owner: Owner::Cleanse,
                relay,
                is_statement: false,
            });
            self.write_server(conn_id, |out| {
                put_payload(out, 0, &[0x0E]);
            });
        }
        client.set_stage(Stage::Synchronising(conn_id));
        true
    }
}

impl Exchange {
    /// Tells what came of a `KILL`, and lets the connection that it was to hit go on.
    pub(crate) fn end_kill(&mut self, id: u64, answer: KillAnswer) {
        let Some(place) =
            self.core.servers.kills.commands.iter().position(|command| command.id == id)
        else {
            return;
        };
        let command = self.core.servers.kills.commands.swap_remove(place);
        self.core.answer_kill(command.asker, answer);
        let Some(conn) = self.core.servers.conns.get_mut(command.target) else {
            return;
        };
        conn.holder.kills = conn.holder.kills.saturating_sub(1);
        let (owner, rests) = (conn.holder.owner, conn.list.is_resetting());
        if rests {
            self.free_if_quiet(command.target);
        }
        if let Some(owner) = owner {
            self.with_client(owner, |exchange, client| {
                exchange.go_on_synchronised(client, command.target);
            });
        }
    }

    /// Ends a statement that a `KILL QUERY` met before it was sent. What its client has sent ahead
    /// is meant for a session in which it has run: unless it only reads, the session ends with it.
    pub(crate) fn fail_interrupted(&mut self, client: &mut Client) {
        let is_read =
            matches!(&client.phase, Phase::Running(statement) if statement.meaning.is_read);
        let ends = !is_read && client.has_sent_ahead();
        let error = ErrorKind::Interrupted.says(INTERRUPTED);
        match ends {
            true => {
                self.tell_failure(client, 1, &error);
                self.close_client(client);
            }
            false => self.fail_statement(client, error),
        }
    }

    /// Whether a `KILL` came for the statement, or its time ran out, before it was sent; then it
    /// ends here.
    pub(crate) fn ends_killed(&mut self, client: &mut Client, conn_id: ConnId) -> bool {
        let ending = match &client.phase {
            Phase::Running(statement) => statement.ending,
            _ => None,
        };
        match ending {
            None => return false,
            Some(Ending::Killed) => {
                self.core.settle_lease(client, conn_id);
                self.fail_interrupted(client);
            }
            Some(Ending::TimedOut | Ending::Withheld) => {
                self.core.settle_lease(client, conn_id);
                self.fail_timed_out(client);
            }
        }
        true
    }

    /// What the session's statement waited for on this connection has come.
    pub(crate) fn go_on_synchronised(&mut self, client: &mut Client, conn_id: ConnId) {
        let is_free = self
            .core
            .servers
            .conns
            .get(conn_id)
            .is_some_and(|conn| conn.holder.owner == Some(client.id) && conn.holder.kills == 0);
        let waits = matches!(&client.phase, Phase::Running(statement)
                if statement.stage == Stage::Synchronising(conn_id));
        if is_free && waits {
            self.dispatch(client, conn_id);
        }
    }

    /// The last answer that nobody waits for has come.
    pub(crate) fn free_if_quiet(&mut self, conn_id: ConnId) {
        let Some(conn) = self.core.servers.conns.get(conn_id) else {
            return;
        };
        match conn.list {
            ConnState::Resetting | ConnState::AwaitingKill if conn.in_flight.is_empty() => {
                self.core.reset_conn(conn_id, None);
            }
            ConnState::Shared => self.settle_shared(conn_id, None),
            _ => {}
        }
    }
}
