//! Step 9: a server's bytes are given to whoever each reply belongs to.

mod own_commands;

use trunkline_protocol::{
    codec::frame,
    packet::err,
    response::{Outcome, Relay},
};

use crate::{
    Action, Side,
    acquire::sharing::BEHIND_LEN_MAX,
    action::read_error,
    clients::client::{Client, Phase, Stage},
    clients::session::ClientEntry,
    effects::Wake,
    exchange::begun::is_begin,
    exchange::send::has_transaction,
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, ConnPhase, InFlight, OTHERS_TURN, Owner},
    servers::dirt::RESET_PROOF,
};

/// Bytes that may wait for each client while too many wait in all (`buffers_max`).
pub(crate) const SCARCE_LEN_MAX: usize = 16 * 1024;
/// Bytes of an answer that nobody gets which are read for the sake of its connection.
const UNWANTED_LEN_MAX: usize = 1024 * 1024;

/// Errors by which servers say that they have rolled a transaction back: a deadlock, or another
/// node's write of the same row (1213), an error during its commit (1180), a plug-in (3101).
const ROLLS_BACK: [u16; 3] = [1213, 1180, 3101];
/// What a session is told then that was not told the error.
const ROLLED_BACK: &str = "the server has rolled its transaction back";

impl Conn {
    /// What has become of `len` bytes of the reply in front: it may have just asked for its
    /// client's file.
    fn fed(&mut self, len: usize) -> Fed {
        match self.in_flight.front_mut().and_then(|front| front.relay.take_file_request()) {
            Some(seq) => Fed::AsksForFile(len, seq),
            None => Fed::Whole(len),
        }
    }

    /// An answer may leave warnings or an error: a client's own, or nobody's.
    fn note_conditions(&mut self, outcome: &Outcome, is_clients: bool) -> bool {
        if outcome.warnings > 0 || outcome.error.is_some() {
            self.left.conditions_turn = match is_clients {
                true => Some(self.holder.turn),
                false => Some(OTHERS_TURN),
            };
            return outcome.error.is_some();
        }
        false
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
    pub(crate) fn reply_read(&mut self, conn: &mut Conn, mut bytes: &[u8]) {
        self.core.fx.stats.server_mut(conn.slot.index()).bytes_received += bytes.len() as u64;
        while !bytes.is_empty() && !conn.is_closed() {
            let Some(front) = conn.in_flight.front() else {
                return match conn.phase {
                    ConnPhase::Login(_) => self.server_login_read(conn, bytes),
                    ConnPhase::Connecting(_)
                    | ConnPhase::Ready
                    | ConnPhase::Forward(_)
                    | ConnPhase::Closed => self.unsolicited(conn, bytes),
                };
            };
            let owner = front.owner;
            let fed = match owner {
                Owner::Client(client) => self
                    .with_client(client, |exchange, client| exchange.relay_to(client, conn, bytes)),
                _ => None,
            };
            let fed = fed.unwrap_or_else(|| self.take_in(conn, owner, bytes));
            match fed {
                Fed::Whole(len) => bytes = bytes.get(len..).unwrap_or_default(),
                Fed::AsksForFile(len, seq) => {
                    bytes = bytes.get(len..).unwrap_or_default();
                    self.file_asked(conn, seq);
                }
                Fed::Broken => return self.broken_off(conn, bytes),
            }
        }
    }

    /// Relays what belongs to the reply in front to its client.
    fn relay_to(&mut self, client: &mut Client, conn: &mut Conn, bytes: &[u8]) -> Fed {
        let Some(front) = conn.in_flight.front_mut() else {
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
            client.answer_has_begun(self.core.env.now.us);
            self.core.hold_back(client, conn);
            return conn.fed(len);
        }
        // What its client has yet to take is no reason to keep the next one waiting.
        self.core.let_go_on(conn);
        if let Some((mut relay, service_us)) = self.core.end_reply(conn) {
            let outcome = relay.conclude();
            let has_failed = conn.note_conditions(outcome, true);
            let answer = bytes.get(..len).unwrap_or_default();
            let is_withheld = has_failed
                && (self.withholds_refusal(client, conn, outcome, answer)
                    || self.repeats_instead(client, conn, outcome, answer));
            if !is_withheld {
                self.complete(client, conn, outcome, service_us);
            }
            self.core.fx.relays.give(relay);
            self.core.kills_go_on(conn.id);
        }
        Fed::Whole(len)
    }

    /// Takes in what belongs to a reply that no client gets.
    fn take_in(&mut self, conn: &mut Conn, owner: Owner, bytes: &[u8]) -> Fed {
        let Some(front) = conn.in_flight.front_mut() else {
            return Fed::Broken;
        };
        // Nothing is appended, but for traces: these relays discard.
        let Ok(fed) = front.relay.feed(bytes, &mut conn.io.captured) else {
            return Fed::Broken;
        };
        if fed.ended {
            if let Some((mut relay, _)) = self.core.end_reply(conn) {
                let outcome = relay.take_outcome();
                self.core.fx.relays.give(relay);
                conn.note_conditions(&outcome, false);
                self.answered(conn, owner, outcome);
                self.core.kills_go_on(conn.id);
            }
        } else if let Owner::Trace(..) = owner {
            conn.limit_captured();
        } else if owner != Owner::Nobody || !self.core.gives_up(conn, fed.consumed) {
            return conn.fed(fed.consumed);
        }
        Fed::Whole(fed.consumed)
    }

    /// Bytes that are no part of the answer that is awaited: they can't be understood, or say why
    /// the server ends the connection, and have met a command on its way. What no command asked for
    /// begins with the number 0.
    fn broken_off(&mut self, conn: &mut Conn, bytes: &[u8]) {
        match frame::split_packet(bytes) {
            Some((header, _, _)) if header.seq == 0 => self.unsolicited(conn, bytes),
            // The rest of its reason is on its way, or its beginning came before.
            None if matches!(bytes, [_, _, _, 0, err::HEADER, ..]) => {
                self.lose_conn(conn, "the server ended the connection");
            }
            _ if conn.in_flight.front().is_some_and(|front| front.relay.has_met_farewell()) => {
                self.lose_conn(conn, "the server ended the connection");
            }
            _ => self.server_broke(conn, "sent an answer that can't be understood"),
        }
    }

    /// Bytes that no command asked for: a server says why it ends the connection.
    pub(super) fn unsolicited(&mut self, conn: &mut Conn, bytes: &[u8]) {
        let error = frame::split_packet(bytes).and_then(|(_, payload, _)| read_error(payload));
        match error {
            Some((code, text)) => {
                self.lose_conn(conn, &format!("the server ended the connection: {code} {text}"));
            }
            None => self.server_broke(conn, "spoke without being asked"),
        }
    }

    /// A command has been answered that no client awaits the answer of.
    fn answered(&mut self, conn: &mut Conn, owner: Owner, outcome: Outcome) {
        let is_told = matches!(owner, Owner::Sync(..) | Owner::Prepare(_));
        if !is_told && self.is_rolled_back(conn, &outcome) {
            return self.lose_conn(conn, ROLLED_BACK);
        }
        self.take_answer(conn, owner, outcome);
        if conn.in_flight.is_empty()
            && let Some(owner) = conn.holder.owner
        {
            // One that waits for the last of them.
            self.with_client(owner, |exchange, client| exchange.go_on_synchronised(client, conn));
        }
    }

    /// Whether the transaction of the session that has the connection is over by an error that its
    /// client was not told.
    fn is_rolled_back(&mut self, conn: &Conn, outcome: &Outcome) -> bool {
        let is_one = outcome.error.as_ref().is_some_and(|it| ROLLS_BACK.contains(&it.code));
        let owner = conn.holder.owner.filter(|_| is_one);
        let client = owner.and_then(|owner| self.core.clients.get(owner));
        client.is_some_and(|client| has_transaction(&client.session, conn.id))
    }

    /// Does what follows from the answer.
    fn take_answer(&mut self, conn: &mut Conn, owner: Owner, outcome: Outcome) {
        match owner {
            Owner::Client(_) | Owner::Nobody => {
                conn.io.unwanted = 0;
                self.free_if_quiet(conn);
            }
            Owner::Sync(client, set) => match outcome.error {
                Some(error) => drop(self.with_client(client, |exchange, client| {
                    exchange.sync_failed(client, conn, set, (&error).into());
                })),
                None => {
                    if set == Some(RESET_PROOF) {
                        self.core.learn_autocommit(conn, outcome.status);
                    }
                    if let Some(set) = set {
                        self.core.servers.prove(conn, set);
                        if is_begin(set) {
                            self.core.servers.learn_transaction_tracker(conn, &outcome);
                        }
                    }
                    self.with_client(client, |exchange, client| {
                        exchange.synchronised(client, conn)
                    });
                }
            },
            Owner::Prepare(client) => drop(self.with_client(client, |exchange, client| {
                exchange.prepared_again(client, conn, outcome);
            })),
            Owner::Again => self.free_if_quiet(conn),
            Owner::Setup => {
                self.core.env.trackers_are_on(&outcome);
                if let Some(error) = &outcome.error {
                    self.core.trackers_refused(conn, error);
                }
                self.core.learn_modes(conn, &outcome.changes);
                self.free_if_quiet(conn);
                self.dump_when_quiet(conn);
            }
            Owner::Mark => {
                self.core.marked(conn, outcome.error.as_ref());
                self.free_if_quiet(conn);
                self.dump_when_quiet(conn);
            }
            Owner::Defaults => {
                self.core.defaults_told(conn, &outcome);
                self.free_if_quiet(conn);
                self.dump_when_quiet(conn);
            }
            Owner::Values(client) => self.values_told(client, conn, &outcome),
            Owner::Reset => match outcome.error {
                Some(_) => self.core.drop_conn(conn),
                None => {
                    self.core.learn_autocommit(conn, outcome.status);
                    self.core.reset_done(conn, None);
                }
            },
            Owner::Ping => self.core.freed(conn),
            Owner::Trace(client, trace) => self.trace_answered(client, conn, trace, &outcome),
            Owner::Kill(command) => self.core.kill_carried(conn, command, outcome),
            Owner::Cleanse => {
                if let Some(owner) = conn.holder.owner {
                    self.with_client(owner, |exchange, client| {
                        exchange.go_on_synchronised(client, conn);
                    });
                }
                self.free_if_quiet(conn);
            }
        }
    }

    /// State was brought over; a statement that waited for the last of it goes out.
    fn synchronised(&mut self, client: &mut Client, conn: &mut Conn) {
        let is_last = conn.in_flight.is_empty();
        let waits = matches!(&client.phase, Phase::Running(statement)
                if statement.stage == Stage::Synchronising(conn.id));
        if !waits || !is_last || self.ends_killed(client, conn) {
            return;
        }
        match self.core.is_taken_out(client, conn) {
            true => self.core.leave_removed(client, conn),
            false => self.send_statement(client, conn, Stage::Sent(conn.id)),
        }
    }
}

impl Core {
    /// Closes a connection whose answer nobody gets, if that is long: the server would go on for as
    /// long as somebody reads, and directly it would have noticed that its client has gone.
    fn gives_up(&mut self, conn: &mut Conn, len: usize) -> bool {
        conn.io.unwanted = conn.io.unwanted.saturating_add(len);
        if !conn.list.is_resetting() || conn.io.unwanted <= UNWANTED_LEN_MAX {
            return false;
        }
        self.drop_conn(conn);
        self.fx.wake(Wake::Queue(conn.server.hostgroup));
        true
    }

    /// Takes the reply in front, which has ended, off its connection. Returns its relay, and how
    /// long its statement took the server, µs.
    #[inline]
    fn end_reply(&mut self, conn: &mut Conn) -> Option<(Box<Relay>, u64)> {
        let InFlight { relay, is_statement, place, .. } = conn.in_flight.pop_front()?;
        let service_us = if is_statement { self.count_answered(conn, place) } else { 0 };
        Some((relay, service_us))
    }

    /// Stops reading from a server whose client does not keep up.
    fn hold_back(&mut self, client: &mut Client, conn: &mut Conn) {
        self.clients.count_waiting(client);
        let max = self.buffer_max();
        let is_full = client.io.outbox.len() > max;
        let is_behind = client.io.outbox.len() > BEHIND_LEN_MAX;
        if is_full || is_behind {
            self.let_others_overtake(conn);
        }
        if is_full && !conn.io.is_paused {
            conn.io.is_paused = true;
            conn.io.paused_us = self.env.now.us;
            self.fx.stats.counters.servers_held_back += 1;
            self.fx.act(Action::Pause(Side::Server(conn.id)));
        }
    }

    /// Reads on from a server that was held back.
    fn let_go_on(&mut self, conn: &mut Conn) {
        if conn.io.is_paused {
            conn.io.is_paused = false;
            self.fx.stats.held_back(self.env.now.us.saturating_sub(conn.io.paused_us));
            self.resume_server(conn);
        }
    }

    /// The client took bytes: its server may be read again, and a client that is done may end.
    pub(crate) fn after_client_write(&mut self, client: &mut ClientEntry) {
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
            Phase::Login(_)
            | Phase::ChangeUser
            | Phase::AwaitKill(_)
            | Phase::AwaitNames(_)
            | Phase::AwaitServer(_)
            | Phase::Closing => return,
        };
        self.with_conn(conn_id, Self::let_go_on);
    }
}

#[cfg(test)]
mod tests;
