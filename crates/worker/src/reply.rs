//! Step 9: a server's bytes are given to whoever each reply belongs to.

mod own_commands;

use trunkline_pool::ConnId;
use trunkline_protocol::{codec::frame, response::Outcome};

use crate::{
    Action, Side,
    acquire::sharing::BEHIND_LEN_MAX,
    action::read_error,
    clients::client::{Client, Phase, Stage},
    effects::Wake,
    rooms::{Core, Exchange, Lender},
    servers::Servers,
    servers::conn::{ConnPhase, InFlight, OTHERS_TURN, Owner},
    servers::dirt::RESET_PROOF,
};

/// Bytes that may wait for each client while too many wait in all (`buffers_max`).
pub(crate) const SCARCE_LEN_MAX: usize = 16 * 1024;
/// Bytes of an answer that nobody gets which are read for the sake of its connection.
const UNWANTED_LEN_MAX: usize = 1024 * 1024;

impl Servers {
    /// What has become of `len` bytes of the reply in front: it may have just asked for its
    /// client's file.
    fn fed(&mut self, id: ConnId, len: usize) -> Fed {
        let front = self.conns.get_mut(id).and_then(|conn| conn.in_flight.front_mut());
        match front.and_then(|front| front.relay.take_file_request()) {
            Some(seq) => Fed::AsksForFile(len, seq),
            None => Fed::Whole(len),
        }
    }

    /// An answer may leave warnings or an error: a client's own, or nobody's.
    fn note_conditions(&mut self, id: ConnId, outcome: &Outcome, is_clients: bool) {
        let leaves_conditions = outcome.warnings > 0 || outcome.error.is_some();
        if let (true, Some(conn)) = (leaves_conditions, self.conns.get_mut(id)) {
            conn.left.conditions_turn = match is_clients {
                true => Some(conn.holder.turn),
                false => Some(OTHERS_TURN),
            };
        }
    }
}

/// What has become of a server's bytes.
enum Fed {
    /// So many of them belonged to the reply in front.
    Whole(usize),
    /// So many of them did, and the reply asks for its client's file, in packets numbered from this
    /// one on.
    AsksForFile(usize, u8),
    /// They can't be understood.
    Broken,
}

impl Exchange {
    /// Bytes of a server connection that takes commands.
    pub(crate) fn reply_read(&mut self, id: ConnId, mut bytes: &[u8]) {
        if let Some(slot) = self.core.servers.slot_of(id) {
            self.core.fx.stats.server_mut(slot.index()).bytes_received += bytes.len() as u64;
        }
        while !bytes.is_empty() {
            let Some(conn) = self.core.servers.conns.get_mut(id) else {
                return;
            };
            let Some(front) = conn.in_flight.front_mut() else {
                return match conn.phase {
                    ConnPhase::Login(_) => self.server_login_read(id, bytes),
                    ConnPhase::Connecting(_) | ConnPhase::Ready | ConnPhase::Forward(_) => {
                        self.unsolicited(id, bytes)
                    }
                };
            };
            let owner = front.owner;
            let fed = match owner {
                Owner::Client(client) => self
                    .with_client(client, |exchange, client| exchange.relay_to(client, id, bytes)),
                _ => None,
            };
            let fed = fed.unwrap_or_else(|| self.take_in(id, owner, bytes));
            match fed {
                Fed::Whole(len) => bytes = bytes.get(len..).unwrap_or_default(),
                Fed::AsksForFile(len, seq) => {
                    bytes = bytes.get(len..).unwrap_or_default();
                    self.file_asked(id, seq);
                }
                Fed::Broken => {
                    return self.server_broke(id, "sent an answer that can't be understood");
                }
            }
        }
    }

    /// Relays what belongs to the reply in front to its client.
    fn relay_to(&mut self, client: &mut Client, id: ConnId, bytes: &[u8]) -> Fed {
        let conn = self.core.servers.conns.get_mut(id);
        let Some(front) = conn.and_then(|conn| conn.in_flight.front_mut()) else {
            return Fed::Broken;
        };
        let fed = front.relay.feed(bytes, client.io.outbox.buf(&mut self.core.fx.buffers));
        let len = fed.as_ref().map_or(0, |fed| fed.consumed);
        client.store(bytes.get(..len).unwrap_or_default());
        let Ok(fed) = fed else {
            return Fed::Broken;
        };
        self.core.touch_client(client);
        if !fed.ended {
            self.core.hold_back(client, id);
            return self.core.servers.fed(id, len);
        }
        // What its client has yet to take is no reason to keep the next one waiting.
        self.core.let_go_on(id);
        if let Some((outcome, service_us)) = self.core.end_reply(id) {
            self.core.servers.note_conditions(id, &outcome, true);
            self.complete(client, id, outcome, service_us);
            self.core.kills_go_on(id);
        }
        Fed::Whole(len)
    }

    /// Takes in what belongs to a reply that no client gets.
    fn take_in(&mut self, id: ConnId, owner: Owner, bytes: &[u8]) -> Fed {
        let Some(conn) = self.core.servers.conns.get_mut(id) else {
            return Fed::Broken;
        };
        let Some(front) = conn.in_flight.front_mut() else {
            return Fed::Broken;
        };
        // Nothing is appended, but for traces: these relays discard.
        let Ok(fed) = front.relay.feed(bytes, &mut conn.io.captured) else {
            return Fed::Broken;
        };
        if fed.ended {
            if let Some((outcome, _)) = self.core.end_reply(id) {
                self.core.servers.note_conditions(id, &outcome, false);
                self.answered(id, owner, outcome);
                self.core.kills_go_on(id);
            }
        } else if let Owner::Trace(..) = owner {
            self.core.servers.limit_captured(id);
        } else if owner != Owner::Nobody || !self.core.gives_up(id, fed.consumed) {
            return self.core.servers.fed(id, fed.consumed);
        }
        Fed::Whole(fed.consumed)
    }

    /// Bytes that no command asked for: a server says why it ends the connection.
    fn unsolicited(&mut self, id: ConnId, bytes: &[u8]) {
        let error = frame::split_packet(bytes).and_then(|(_, payload, _)| read_error(payload));
        match error {
            Some((code, text)) => {
                self.lose_conn(id, &format!("the server ended the connection: {code} {text}"));
            }
            None => self.server_broke(id, "spoke without being asked"),
        }
    }

    /// A command has been answered that no client awaits the answer of.
    fn answered(&mut self, id: ConnId, owner: Owner, outcome: Outcome) {
        match owner {
            Owner::Client(_) | Owner::Nobody => {
                if let Some(conn) = self.core.servers.conns.get_mut(id) {
                    conn.io.unwanted = 0;
                }
                self.free_if_quiet(id);
            }
            Owner::Sync(client, set) => match outcome.error {
                Some(error) => drop(self.with_client(client, |exchange, client| {
                    exchange.sync_failed(client, id, set, (&error).into());
                })),
                None => {
                    if set == Some(RESET_PROOF) {
                        self.core.learn_autocommit(id, outcome.status);
                    }
                    if let Some(set) = set {
                        self.core.servers.prove(id, set);
                    }
                    self.with_client(client, |exchange, client| exchange.synchronised(client, id));
                }
            },
            Owner::Prepare(client) => drop(self.with_client(client, |exchange, client| {
                exchange.prepared_again(client, id, outcome);
            })),
            Owner::Again => self.free_if_quiet(id),
            Owner::Setup => {
                self.core.env.trackers_are_on(&outcome);
                if let Some(error) = &outcome.error {
                    self.core.trackers_refused(id, error);
                }
                self.core.learn_modes(id, &outcome.changes);
                self.free_if_quiet(id);
                self.dump_when_quiet(id);
            }
            Owner::Defaults => {
                self.core.defaults_told(id, &outcome);
                self.free_if_quiet(id);
                self.dump_when_quiet(id);
            }
            Owner::Values(client) => self.values_told(client, id, &outcome),
            Owner::Reset => match outcome.error {
                Some(_) => self.core.drop_conn(id),
                None => {
                    self.core.learn_autocommit(id, outcome.status);
                    self.core.reset_done(id, None);
                }
            },
            Owner::Ping => self.core.freed(id),
            Owner::Trace(client, trace) => self.trace_answered(client, id, trace, &outcome),
            Owner::Kill(command) => self.kill_carried(id, command, outcome),
            Owner::Cleanse => {
                if let Some(owner) =
                    self.core.servers.conns.get(id).and_then(|conn| conn.holder.owner)
                {
                    self.with_client(owner, |exchange, client| {
                        exchange.go_on_synchronised(client, id);
                    });
                }
                self.free_if_quiet(id);
            }
        }
    }

    /// State was brought over; a statement that waited for the last of it goes out.
    fn synchronised(&mut self, client: &mut Client, id: ConnId) {
        let is_last = self.core.servers.conns.get(id).is_some_and(|conn| conn.in_flight.is_empty());
        let waits = matches!(&client.phase, Phase::Running(statement)
                if statement.stage == Stage::Synchronising(id));
        if !waits || !is_last || self.ends_killed(client, id) {
            return;
        }
        match self.core.is_taken_out(client, id) {
            true => self.core.leave_removed(client, id),
            false => self.send_statement(client, id, Stage::Sent(id)),
        }
    }
}

impl Core {
    /// Closes a connection whose answer nobody gets, if that is long: the server would go on for as
    /// long as somebody reads, and directly it would have noticed that its client has gone.
    fn gives_up(&mut self, id: ConnId, len: usize) -> bool {
        let Some(conn) = self.servers.conns.get_mut(id) else {
            return true;
        };
        conn.io.unwanted = conn.io.unwanted.saturating_add(len);
        if !conn.list.is_resetting() || conn.io.unwanted <= UNWANTED_LEN_MAX {
            return false;
        }
        let hostgroup = conn.hostgroup;
        self.drop_conn(id);
        self.fx.wake(Wake::Queue(hostgroup));
        true
    }

    /// Takes the reply in front, which has ended, off its connection. Returns what it told, and how
    /// long its statement took the server, µs.
    fn end_reply(&mut self, id: ConnId) -> Option<(Outcome, u64)> {
        let conn = self.servers.conns.get_mut(id)?;
        let InFlight { relay, is_statement, .. } = conn.in_flight.pop_front()?;
        let service_us = if is_statement { self.count_answered(id) } else { 0 };
        Some((relay.into_outcome(), service_us))
    }

    /// Stops reading from a server whose client does not keep up.
    fn hold_back(&mut self, client: &mut Client, conn_id: ConnId) {
        self.clients.count_waiting(client);
        let max = self.buffer_max();
        let is_full = client.io.outbox.len() > max;
        let is_behind = client.io.outbox.len() > BEHIND_LEN_MAX;
        if is_full || is_behind {
            self.let_others_overtake(conn_id);
        }
        let Some(conn) = self.servers.conns.get_mut(conn_id).filter(|_| is_full) else {
            return;
        };
        if !conn.io.is_paused {
            conn.io.is_paused = true;
            conn.io.paused_us = self.env.now.us;
            self.fx.stats.counters.servers_held_back += 1;
            self.fx.act(Action::Pause(Side::Server(conn_id)));
        }
    }

    /// Reads on from a server that was held back.
    fn let_go_on(&mut self, conn_id: ConnId) {
        let Some(conn) = self.servers.conns.get_mut(conn_id) else {
            return;
        };
        if conn.io.is_paused {
            conn.io.is_paused = false;
            self.fx.stats.held_back(self.env.now.us.saturating_sub(conn.io.paused_us));
            self.resume_server(conn_id);
        }
    }

    /// The client took bytes: its server may be read again, and a client that is done may end.
    pub(crate) fn after_client_write(&mut self, client: &mut Client) {
        self.clients.count_waiting(client);
        let max = self.buffer_max();
        if client.io.outbox.len() > max / 2 {
            return;
        }
        let conn_id = match &client.phase {
            Phase::Running(statement) => match statement.stage {
                Stage::Sent(conn) | Stage::Shared(conn) => conn,
                Stage::Held(_)
                | Stage::Queued
                | Stage::Returning
                | Stage::Synchronising(_)
                | Stage::Preparing(_) => return,
            },
            Phase::Forward(conn) => *conn,
            // Commands that it sent ahead were kept until it took the answers before.
            Phase::Idle => return self.wake_commands(client),
            Phase::Login(_) | Phase::AwaitKill(_) | Phase::AwaitNames(_) | Phase::Closing => return,
        };
        self.let_go_on(conn_id);
    }
}

#[cfg(test)]
mod tests;
