//! `KILL` for a statement that runs on a server connection, carried by another one.
//!
//! The server's `KILL QUERY` hits whatever its connection runs when it arrives. So from the
//! moment that one is on its way until it was answered, the connection to be hit gets no new
//! statement: one that nothing holds rests in `AwaitingKill` and is reset before anybody else gets
//! it; one that its session holds awaits the answer, and a `COM_PING` takes an interruption that
//! came late. One whose fate is not known is closed. While something of the proxy's own runs there
//! in front of the statement, the `KILL` waits.

use std::collections::HashSet;

use trunkline_pool::{AccountId, ConnId, ConnState, SlotId};
use trunkline_protocol::response::{Relay, ResponseShape};
use trunkline_topology::ServerKey;

use crate::{
    Action, ClientId,
    clients::client::{Phase, Stage},
    exchange::send::put_own_query,
    kill::{KillAnswer, KillAsker},
    rooms::{Core, Exchange, Lender},
    servers::Servers,
    servers::conn::{Conn, ConnPhase, InFlight, Owner},
};

/// `KILL`s under way at a time; more are refused.
const KILLS_MAX: usize = 256;
/// How long one may take, ms.
const KILL_MS_MAX: u64 = 10_000;
/// How often one is tried again when the connection for it turns out to be closed.
const RETRIES: u8 = 2;
/// What the server says when the connection to be hit has gone already.
pub(crate) const NO_SUCH_THREAD: u16 = 1094;

/// What a server is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Statement,
    /// A statement, but for its wait for a replica (MariaDB): `KILL QUERY` would end that, and the
    /// server says OK to what no replica has then.
    StatementSoftly,
    Connection,
}

impl Ends {
    fn verb(self) -> &'static str {
        match self {
            Self::Statement => "KILL QUERY",
            Self::StatementSoftly => "KILL SOFT QUERY",
            Self::Connection => "KILL",
        }
    }
}

/// One `KILL` on its way to a server.
#[derive(Debug)]
pub(crate) struct KillCommand {
    /// Its number, for the connection that carries it.
    pub(crate) id: u64,
    ends: Ends,
    /// The connection to be hit, and the server's number for it.
    pub(crate) target: ConnId,
    thread: u32,
    /// The incarnation of the server that gave this number.
    incarnation: u32,
    /// The statement to be hit: whose, and its place in the connection's stream. `None`: whatever
    /// runs there.
    statement: Option<(ClientId, u64)>,
    pub(crate) asker: KillAsker,
    /// The connection that carries it, or will.
    pub(crate) via: ConnId,
    /// Its place in the stream of `via`, once it was written there.
    pub(crate) sent_at: Option<u64>,
    /// How often it may be tried on another connection when the server never got it.
    retries_left: u8,
    victim: ClientId,
    deadline_ms: u64,
}

impl Servers {
    /// Whether what goes before the statement that is to be hit has not been answered yet, such as
    /// the state that it needs. The server would interrupt that instead, and run the statement
    /// without it.
    fn is_early(&self, command: &KillCommand) -> bool {
        let Some((client, _)) = command.statement else {
            return false;
        };
        let front = self.conns.get(command.target).and_then(|conn| conn.in_flight.front());
        front.is_some_and(|front| front.owner != Owner::Client(client))
    }

    /// Whether a `KILL` of all that a connection does is still to be sent.
    pub(super) fn awaits_kill(&self, target: &Conn) -> bool {
        let is_ready = matches!(target.phase, ConnPhase::Ready);
        let mut commands = self.kills.commands.iter();
        is_ready && commands.any(|it| it.target == target.id && it.sent_at.is_none())
    }

    /// Whether a `KILL` is on its way for a connection that a client's bytes go straight through.
    /// It stands until the server was told: as long as it does, the number is its own. It ends with
    /// the `KILL`, and its client with it.
    pub(super) fn forwards_until_killed(&mut self, target: ConnId) -> bool {
        let conn = self.conns.get_mut(target);
        let forwards = |conn: &&mut Conn| matches!(conn.phase, ConnPhase::Forward(_));
        let Some(conn) = conn.filter(forwards).filter(|conn| conn.holder.kills > 0) else {
            return false;
        };
        conn.holder.close_on_release = true;
        true
    }

    /// Whether a connection carries a `KILL`, or will.
    fn is_kill_carrier(&self, via: ConnId) -> bool {
        self.kills.commands.iter().any(|command| command.via == via)
    }
}

impl Core {
    /// See [`Worker::kill_carriers`](crate::Worker::kill_carriers).
    pub(crate) fn kill_carriers(&self, server: &ServerKey) -> usize {
        let is_there = |via: &ConnId| {
            let slot = self.servers.slot_of(*via).and_then(|slot| self.servers.pool.slot(slot));
            slot.is_some_and(|slot| slot.server.key == *server)
        };
        let carriers =
            self.servers.kills.commands.iter().map(|command| command.via).filter(is_there);
        carriers.collect::<HashSet<_>>().len()
    }

    /// A connection of the same account to the same server, to carry `KILL`s: an idle one, or
    /// one that is opened. When the server's cap is reached, each worker may have one beyond it for
    /// each account, as that is when statements most need to be ended.
    fn kill_carrier(
        &mut self,
        logins: &[Option<ClientId>],
        slot_id: SlotId,
        account: AccountId,
    ) -> Result<ConnId, String> {
        if let Some(idle) = self.servers.pop_idle(slot_id, account) {
            self.with_conn(idle, |core, conn| {
                core.servers.set_state(conn, ConnState::CarryingKill);
                core.fetch_traces(conn, None, None, false);
                // What a session left on it for a later statement is overwritten.
                conn.holder.last_client = None;
                conn.holder.turn += 1;
            });
            return Ok(idle);
        }
        let Some(slot) = self.servers.pool.slot(slot_id) else {
            return Err("the server has gone".to_owned());
        };
        let (health, max) = (&slot.server.health, slot.server.max_connections);
        let hostgroup = slot.server.key.hostgroup;
        if !health.try_take_connection(max) {
            let others = self.servers.kills.commands.iter().map(|command| command.via);
            // One that carries others, or will, carries this one behind them.
            let carries = |via: &ConnId| {
                self.servers.conns.get(*via).is_some_and(|conn| {
                    conn.slot == slot_id
                        && conn.login.account == account
                        && matches!(conn.list, ConnState::Connecting | ConnState::CarryingKill)
                })
            };
            if let Some(via) = others.into_iter().find(carries) {
                return Ok(via);
            }
            health.take_connection_beyond();
        }
        let has_session = |id: &&ClientId| {
            let client = self.clients.get(**id);
            client.is_some_and(|client| client.session.login.account == account)
        };
        // Any client of the account can log in; the one to be ended may have gone.
        let login = logins.iter().flatten().find(has_session).copied();
        let opened = login.and_then(|login| {
            self.with_client(login, |core, client| core.open(slot_id, hostgroup, account, client))
        });
        let opened = opened.flatten();
        if login.is_none()
            && let Some(slot) = self.servers.pool.slot(slot_id)
        {
            slot.server.health.give_back_connection();
        }
        opened.ok_or_else(|| "nobody of the account is connected any more".to_owned())
    }

    fn write_kill(&mut self, via: &mut Conn, id: u64, text: &[u8]) {
        let sent_at = via.io.outbox.position();
        let (format, takes_attributes) = (via.server.format, via.server.takes_attributes);
        let relay = Relay::new(ResponseShape::Query, format, format, false);
        via.in_flight.push_back(InFlight {
            owner: Owner::Kill(id),
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        self.write_server(via, |out| {
            put_own_query(out, text, takes_attributes);
        });
        if let Some(command) =
            self.servers.kills.commands.iter_mut().find(|command| command.id == id)
        {
            command.sent_at = Some(sent_at);
        }
        // It may have rested until its server closed it.
        self.fx.act(Action::Probe(via.id));
    }

    /// Whether what is to be hit runs still. In a server that was started again the number is
    /// somebody else's.
    fn is_still_wanted(&self, command: &KillCommand, via: &Conn) -> bool {
        if via.server.incarnation != command.incarnation {
            return false;
        }
        let Some((client, sent_at)) = command.statement else {
            // A session's connection is closed at once, and its server goes on with the statement.
            return command.ends == Ends::Connection
                || self.servers.conns.get(command.target).is_some();
        };
        self.clients.get(client).is_some_and(|client| {
            matches!(&client.phase, Phase::Running(statement)
                if matches!(statement.stage, Stage::Sent(conn) | Stage::Shared(conn)
                    if conn == command.target)
                    && statement.sent.sent_at == sent_at)
        })
    }

    /// A connection that was opened to carry `KILL`s is logged in; false when it was not.
    pub(crate) fn kill_carrier_ready(&mut self, via: &mut Conn) -> bool {
        if !self.servers.is_kill_carrier(via.id) {
            return false;
        }
        self.servers.set_state(via, ConnState::CarryingKill);
        self.send_kills(via);
        true
    }

    /// Writes what waits for this connection, as far as it is still wanted.
    fn send_kills(&mut self, via: &mut Conn) {
        let is_unsent = |it: &&KillCommand| it.via == via.id && it.sent_at.is_none();
        let waiting =
            self.servers.kills.commands.iter().filter(is_unsent).map(|command| command.id);
        for id in waiting.collect::<Vec<_>>() {
            let Some(command) = self.servers.kills.commands.iter().find(|it| it.id == id) else {
                continue;
            };
            if !self.is_still_wanted(command, via) {
                self.end_kill(id, KillAnswer::Done);
                continue;
            }
            if self.servers.is_early(command) {
                continue;
            }
            let text = format!("{} {}", command.ends.verb(), command.thread);
            let target = command.target;
            if let Some(target) = self.servers.conns.get_mut(target) {
                target.holder.was_killed = true;
            }
            self.write_kill(via, id, text.as_bytes());
        }
        self.kill_carrier_done(via);
    }

    /// The connection that carried `KILL`s is free again when the last was answered.
    pub(crate) fn kill_carrier_done(&mut self, via: &mut Conn) {
        let carries = via.in_flight.iter().any(|entry| matches!(entry.owner, Owner::Kill(_)));
        if carries || self.servers.is_kill_carrier(via.id) || via.list != ConnState::CarryingKill {
            return;
        }
        let Some(slot) = self.servers.pool.slot(via.slot) else {
            return;
        };
        if slot.server.health.connections() > slot.server.max_connections {
            return self.drop_conn(via);
        }
        self.freed(via);
    }

    /// Gives up on `KILL`s that take too long.
    pub(super) fn drop_late_carriers(&mut self) {
        let now_ms = self.env.now.ms();
        let late =
            self.servers.kills.commands.iter().filter(|command| command.deadline_ms <= now_ms);
        let late: Vec<ConnId> = late.map(|command| command.via).collect();
        for via in late {
            self.with_conn(via, Self::drop_conn);
        }
    }
}

impl Exchange {
    /// Has a server end what runs on a connection of `victim`'s. The answer comes later.
    pub(crate) fn kill_on_server(
        &mut self,
        victim: ClientId,
        target: ConnId,
        sent_at: Option<u64>,
        ends: Ends,
        asker: KillAsker,
    ) {
        let is_full = self.core.servers.kills.commands.len() >= KILLS_MAX;
        let Some(conn) = self.core.servers.conns.get(target) else {
            return self.core.answer_kill(asker, KillAnswer::Done);
        };
        let (ConnPhase::Ready | ConnPhase::Forward(_), Some(identity)) =
            (&conn.phase, &conn.server.identity)
        else {
            // Nothing runs there yet.
            return self.core.answer_kill(asker, KillAnswer::Done);
        };
        let thread = identity.greeting.connection_id;
        let (slot, account, incarnation) = (conn.slot, conn.login.account, conn.server.incarnation);
        let via = match is_full {
            true => Err("too many KILLs are under way".to_owned()),
            false => self.core.kill_carrier(&[Some(victim), asker.client], slot, account),
        };
        let via = match via {
            Ok(via) => via,
            Err(why) => return self.core.answer_kill(asker, KillAnswer::failed(why)),
        };
        if let Some(conn) = self.core.servers.conns.get_mut(target) {
            conn.holder.kills += 1;
        }
        let id = self.core.servers.kills.next;
        self.core.servers.kills.next += 1;
        self.core.servers.kills.commands.push(KillCommand {
            id,
            ends,
            target,
            thread,
            incarnation,
            statement: sent_at.map(|at| (victim, at)),
            asker,
            via,
            sent_at: None,
            retries_left: RETRIES,
            victim,
            deadline_ms: self.core.env.now.ms() + KILL_MS_MAX,
        });
        self.send_kills_if_ready(via);
    }

    /// Sends what a connection is to carry, unless it is still being opened.
    fn send_kills_if_ready(&mut self, via: ConnId) {
        self.core.with_conn(via, |core, via| {
            if via.list == ConnState::CarryingKill {
                core.send_kills(via);
            }
        });
    }

    /// Sends the `KILL`s that waited for what was before their statement on this connection.
    pub(crate) fn send_waiting_kills(&mut self, target: ConnId) {
        let is_waiting = |it: &&KillCommand| it.target == target && it.sent_at.is_none();
        let waiting =
            self.core.servers.kills.commands.iter().filter(is_waiting).map(|command| command.via);
        for via in waiting.collect::<HashSet<_>>() {
            self.send_kills_if_ready(via);
        }
    }

    /// The connection that carried a `KILL` has ended: another one does, or whoever asked is told
    /// that it failed.
    pub(crate) fn kill_lost(&mut self, id: u64, via: ConnId, may_go_again: bool, text: String) {
        let mut commands = self.core.servers.kills.commands.iter();
        // It may have been told twice: of a login that failed, and of the connection's end.
        if !commands.any(|command| command.id == id && command.via == via) {
            return;
        }
        if !may_go_again || !self.try_again(id) {
            self.core.end_kill(id, KillAnswer::failed(text));
        }
    }

    /// Has another connection carry a `KILL` that its server never got: an idle one had been
    /// closed long ago. False when nothing is left to try.
    fn try_again(&mut self, id: u64) -> bool {
        let Some(command) =
            self.core.servers.kills.commands.iter_mut().find(|command| command.id == id)
        else {
            return false;
        };
        let Some(left) = command.retries_left.checked_sub(1) else {
            return false;
        };
        (command.retries_left, command.sent_at) = (left, None);
        let (logins, target) = ([Some(command.victim), command.asker.client], command.target);
        let place = self.core.servers.conns.get(target).map(|conn| (conn.slot, conn.login.account));
        let Some(Ok(via)) =
            place.map(|(slot, account)| self.core.kill_carrier(&logins, slot, account))
        else {
            return false;
        };
        if let Some(command) =
            self.core.servers.kills.commands.iter_mut().find(|command| command.id == id)
        {
            command.via = via;
        }
        self.send_kills_if_ready(via);
        true
    }
}

#[cfg(test)]
mod tests;
