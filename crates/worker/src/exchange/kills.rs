//! A statement on a connection for which a `KILL` is on its way.

use trunkline_pool::ConnState;
use trunkline_protocol::{
    codec::frame::put_payload,
    command::code,
    error::ErrorKind,
    response::{Relay, ResponseShape},
};

use crate::{
    clients::client::{Client, Ending, Phase, Stage},
    effects::Wake,
    exchange::lost::only_looks_at,
    kill::{INTERRUPTED, KillAnswer, KillAsker},
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, ConnPhase, InFlight, Owner},
};

impl Core {
    /// Whoever asked is told when this event is over.
    pub(crate) fn answer_kill(&mut self, asker: KillAsker, answer: KillAnswer) {
        self.fx.wake(Wake::KillAnswered(asker, answer));
    }

    /// A session's next statement waits while the connection that it goes to may still be hit by
    /// a `KILL` for the last one. True when it does.
    pub(super) fn waits_for_kills(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        if conn.holder.kills == 0 && !conn.holder.was_killed {
            return false;
        }
        if conn.holder.kills == 0 {
            conn.holder.was_killed = false;
            let relay =
                Relay::new(ResponseShape::Single, conn.server.format, conn.server.format, false);
            conn.in_flight.push_back(InFlight {
                owner: Owner::Cleanse,
                relay: self.fx.relays.hold(relay),
                is_statement: false,
                place: None,
            });
            self.write_server(conn, |out| {
                put_payload(out, 0, &[code::PING]);
            });
        }
        client.set_assigned(Stage::Synchronising(conn.id), self.env.now.us);
        true
    }
}

impl Core {
    /// Tells what came of a `KILL`. The connection that it was to hit goes on when this event is
    /// over.
    pub(crate) fn end_kill(&mut self, id: u64, answer: KillAnswer) {
        let commands = &mut self.servers.kills.commands;
        let Some(place) = commands.iter().position(|command| command.id == id) else {
            return;
        };
        let command = commands.swap_remove(place);
        self.answer_kill(command.asker, answer);
        self.fx.wake(Wake::KillOver(command.target));
    }
}

impl Exchange {
    /// One `KILL` less is under way that may hit this connection.
    pub(crate) fn go_on_after_kill(&mut self, conn: &mut Conn) {
        conn.holder.kills = conn.holder.kills.saturating_sub(1);
        if conn.list.is_resetting() {
            self.free_if_quiet(conn);
        }
        if matches!(conn.phase, ConnPhase::Forward(_)) && conn.holder.close_on_release {
            self.core.fx.wake(Wake::Lost(conn.id, "its session was killed"));
        }
        if let Some(owner) = conn.holder.owner {
            self.with_client(owner, |exchange, client| exchange.go_on_synchronised(client, conn));
        }
    }

    /// Ends a statement that a `KILL QUERY` met before it was sent. What its client has sent ahead
    /// is meant for a session in which it has run: unless it only looks at something, the session
    /// ends with it.
    /// `lent`: the connection that is lent, if one is.
    pub(crate) fn fail_interrupted(&mut self, client: &mut Client, mut lent: Option<&mut Conn>) {
        let only_looks =
            matches!(&client.phase, Phase::Running(statement) if only_looks_at(statement));
        let ends = !only_looks && client.has_sent_ahead();
        let error = ErrorKind::Interrupted.says(INTERRUPTED);
        match ends {
            true => {
                self.tell_failure(client, 1, &error, lent.as_deref_mut());
                self.end_client(client, lent);
            }
            false => self.fail_statement(client, error, lent),
        }
    }

    /// Whether a `KILL` came for the statement, or its time ran out, before it was sent; then it
    /// ends here.
    pub(crate) fn ends_killed(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        let ending = match &client.phase {
            Phase::Running(statement) => statement.ending,
            _ => None,
        };
        match ending {
            None => return false,
            Some(Ending::Killed) => {
                self.core.settle_lease(client, conn);
                self.fail_interrupted(client, Some(conn));
            }
            Some(Ending::TimedOut | Ending::Withheld) => {
                self.core.settle_lease(client, conn);
                self.fail_timed_out(client, Some(conn));
            }
        }
        true
    }

    /// What the session's statement waited for on this connection has come.
    pub(crate) fn go_on_synchronised(&mut self, client: &mut Client, conn: &mut Conn) {
        let is_free = conn.holder.owner == Some(client.id) && conn.holder.kills == 0;
        let waits = matches!(&client.phase, Phase::Running(statement)
                if statement.stage == Stage::Synchronising(conn.id));
        if is_free && waits && !conn.is_closed() {
            self.dispatch(client, conn);
        }
    }

    /// The last answer that nobody waits for has come.
    pub(crate) fn free_if_quiet(&mut self, conn: &mut Conn) {
        match conn.list {
            ConnState::Resetting | ConnState::AwaitingKill if conn.in_flight.is_empty() => {
                self.core.reset_conn(conn, None);
            }
            ConnState::Shared => self.settle_shared(conn, None),
            _ => {}
        }
    }
}
