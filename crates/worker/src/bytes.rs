//! What sockets bring, and what was written to them.

use trunkline_budget::FREE_LEN;
use trunkline_protocol::codec::compressed::{Expected, PIECE_MAX};
use trunkline_stats::ClientRefusal;

use crate::{
    ClientId, Side,
    clients::client::{Client, Phase},
    clients::memory::Skipped,
    clients::session::ClientEntry,
    compressed::{joined, piece_of, remaining},
    exchange::leaving::DEPOSED,
    rooms::{Commands, Core, Exchange, Lender},
    servers::conn::{Conn, ConnPhase},
};

/// Bytes that are unpacked for one client before others have their turn.
const UNPACKED_PER_EVENT: usize = PIECE_MAX;
/// Bytes that are unpacked in one tick for all that wait for it, so that others are served.
const UNPACKED_PER_TICK: usize = 2 * PIECE_MAX;

impl Core {
    /// See [`Worker::wrote`](crate::Worker::wrote).
    pub(crate) fn on_wrote(&mut self, side: Side, len: usize) -> bool {
        let has_more = match side {
            Side::Client(id) => {
                self.with_entry(id, |core, client| core.on_client_wrote(client, len))
            }
            Side::Server(id) => self.with_conn(id, |core, conn| core.on_server_wrote(conn, len)),
        };
        has_more.unwrap_or_default()
    }
}

impl Core {
    fn on_server_wrote(&mut self, conn: &mut Conn, len: usize) -> bool {
        if matches!(conn.phase, ConnPhase::Login(_)) {
            // The password may be in it.
            conn.io.outbox.wipe(len);
        }
        match conn.io.packing.as_deref_mut() {
            None => conn.io.outbox.advance(len, &mut self.fx.buffers),
            Some(packing) => packing.advance(len, &mut self.fx.buffers),
        }
        self.after_server_write(conn);
        conn.io.packing.is_some() || !conn.io.outbox.is_empty()
    }

    fn on_client_wrote(&mut self, client: &mut ClientEntry, len: usize) -> bool {
        // It rests from its answer on, not from its question.
        client.active_ms = self.env.now.ms();
        match client.io.packing.as_deref_mut() {
            None => client.io.outbox.advance(len, &mut self.fx.buffers),
            Some(packing) => packing.advance(len, &mut self.fx.buffers),
        }
        self.after_client_write(client);
        client.io.packing.is_some() || !client.io.outbox.is_empty()
    }
}

impl Commands {
    /// See [`Worker::client_read`](crate::Worker::client_read).
    pub(crate) fn on_client_read(&mut self, client: &mut ClientEntry, bytes: &[u8]) {
        client.active_ms = self.exchange.core.env.now.ms();
        match client.io.packing.is_some() {
            false => self.client_read_plain(client, bytes),
            true => _ = self.packed_client_read(client, bytes),
        }
        client.io.follows = false;
        if client.io.memory.is_some() || client.io.inbox.len() > FREE_LEN {
            self.exchange.core.weigh_sender(client);
        }
    }

    /// Bytes from a client, unpacked.
    #[inline]
    fn client_read_plain(&mut self, entry: &mut ClientEntry, bytes: &[u8]) {
        if matches!(entry.phase, Phase::Login(_)) {
            return self.exchange.login_read(entry, bytes);
        }
        let ClientEntry::LoggedIn(client) = entry else { return };
        match &client.phase {
            Phase::Idle if client.skips() => self.skip(client, bytes),
            Phase::Idle => self.commands_read(client, bytes),
            Phase::Running(_)
            | Phase::ChangeUser
            | Phase::AwaitKill(_)
            | Phase::AwaitNames(_)
            | Phase::AwaitServer(_) => {
                client.io.inbox.extend_from_slice(bytes);
                match client.is_uploading() {
                    true => self.exchange.core.upload_on(client),
                    false => self.exchange.core.pause_if_full(client),
                }
            }
            &Phase::Forward(conn) => {
                let is_sent = self.exchange.with_conn(conn, |exchange, conn| {
                    // Not one byte more goes to a server that does not write any more.
                    let is_deposed = exchange.core.is_deposed(conn);
                    match is_deposed {
                        true => exchange.core.drop_conn(conn),
                        false => exchange.forward_to_server(client, conn, bytes),
                    }
                    !is_deposed
                });
                if is_sent != Some(true) {
                    self.exchange.close_client(client);
                }
            }
            Phase::Login(_) | Phase::Closing => {}
        }
    }

    /// The rest of a statement that was refused, and whatever comes behind it.
    #[cold]
    fn skip(&mut self, client: &mut Client, bytes: &[u8]) {
        match self.exchange.core.skip(client, bytes) {
            Skipped::More | Skipped::Next([]) => {}
            Skipped::Next(rest) => self.commands_read(client, rest),
            Skipped::SentAhead => self.exchange.close_client(client),
        }
    }

    /// Bytes of a client that compresses; how many they were, as far as they were unpacked.
    fn packed_client_read(&mut self, client: &mut ClientEntry, bytes: &[u8]) -> usize {
        let received = match client.phase {
            Phase::Closing => None,
            _ => client.io.packing.as_mut(),
        };
        let taken = received.map(|packing| {
            (std::mem::take(&mut packing.received), std::mem::take(&mut packing.unpacked))
        });
        let Some((mut received, (mut plain, mut used))) = taken else {
            return 0;
        };
        let input = joined(&mut received, bytes);
        let more_follows = client.io.follows;
        let (mut at, mut unpacked_len) = (0, 0);
        while self.exchange.core.takes_packets(client) {
            // In pieces: one packet may hold millions of commands, and answers may have to wait.
            if let Some(piece) = piece_of(&plain, used) {
                used += piece.len();
                client.io.follows = more_follows || used < plain.len() || at < input.len();
                self.client_read_plain(client, piece);
                client.io.follows = more_follows;
                if client.io.memory.is_some() || client.io.inbox.len() > FREE_LEN {
                    self.exchange.core.weigh_sender(client);
                }
                continue;
            }
            // What was unpacked has gone on: that resumes who is paused meanwhile.
            if unpacked_len >= UNPACKED_PER_EVENT {
                break;
            }
            plain.clear();
            used = 0;
            let rest = input.get(at..).unwrap_or_default();
            match self.exchange.core.unpack_for_client(client, rest, &mut plain) {
                Ok(None) => break,
                Ok(Some(len)) => {
                    at += len;
                    unpacked_len += plain.len();
                }
                Err(fault) => {
                    self.exchange.refuse_packed(client, fault);
                    return unpacked_len;
                }
            }
        }
        if used == plain.len() {
            self.exchange.core.fx.buffers.give(std::mem::take(&mut plain));
            used = 0;
        }
        let rest = remaining(received, bytes, at);
        let has_more = unpacked_len >= UNPACKED_PER_EVENT;
        self.exchange.core.keep_received(client, rest, (plain, used), has_more);
        unpacked_len
    }

    /// Unpacks for those that wait for it.
    #[inline]
    pub(crate) fn unpack_waiting(&mut self) {
        let mut unpacked_len = 0;
        for _ in 0..self.exchange.core.fx.unpacking.len() {
            if unpacked_len >= UNPACKED_PER_TICK {
                return;
            }
            let Some(side) = self.exchange.core.fx.unpacking.pop_front() else {
                return;
            };
            match side {
                Side::Client(id) => {
                    self.with_entry(id, |commands, client| {
                        if let Some(packing) = client.io.packing.as_deref_mut() {
                            packing.is_listed = false;
                            unpacked_len += commands.packed_client_read(client, &[]);
                        }
                    });
                }
                Side::Server(id) => {
                    self.exchange.with_conn(id, |exchange, conn| {
                        if let Some(packing) = conn.io.packing.as_deref_mut() {
                            packing.is_listed = false;
                            exchange.packed_server_read(conn, &[]);
                        }
                    });
                }
            }
        }
    }
}

impl Exchange {
    /// See [`Worker::client_closed`](crate::Worker::client_closed).
    pub(crate) fn on_client_closed(&mut self, id: ClientId) {
        self.remove_client(id);
    }

    /// See [`Worker::server_read`](crate::Worker::server_read).
    pub(crate) fn on_server_read(&mut self, conn: &mut Conn, bytes: &[u8]) {
        if self.core.is_severed(conn) {
            return self.lose_conn(conn, DEPOSED);
        }
        match conn.io.packing.is_some() {
            false => self.server_read_plain(conn, bytes),
            true => self.packed_server_read(conn, bytes),
        }
    }

    /// Bytes from a server, unpacked.
    #[inline]
    fn server_read_plain(&mut self, conn: &mut Conn, bytes: &[u8]) {
        match conn.phase {
            ConnPhase::Connecting(_) => {
                self.server_broke(conn, "sent bytes before it was connected");
            }
            ConnPhase::Login(_) if conn.in_flight.is_empty() => self.server_login_read(conn, bytes),
            // An idle connection logs in again before what came before is answered.
            ConnPhase::Login(_) | ConnPhase::Ready => self.reply_read(conn, bytes),
            ConnPhase::Forward(client) => {
                self.core.with_client(client, |core, client| {
                    core.forward_to_client(client, conn, bytes);
                });
            }
            ConnPhase::Closed => {}
        }
    }

    /// See [`Worker::server_closed`](crate::Worker::server_closed).
    pub(crate) fn on_server_closed(&mut self, conn: &mut Conn, reason: &str) {
        self.unpack_last_words(conn);
        self.lose_conn(conn, reason);
    }

    /// See [`Worker::client_tls_failed`](crate::Worker::client_tls_failed).
    pub(crate) fn on_client_tls_failed(&mut self, id: ClientId, reason: &str) {
        let Some(client) = self.core.clients.table.get(id) else {
            return;
        };
        let host = client.origin.peer.host();
        if matches!(&client.phase, Phase::Login(handshake) if handshake.awaits_tls()) {
            self.core.fx.stats.counters.client_tls_failed += 1;
            self.core.fx.stats.counters.client_refused(ClientRefusal::TlsFailed);
        }
        self.core.fx.log(false, || format!("TLS with client {host} failed: {reason}"));
        self.on_client_closed(id);
    }

    /// See [`Worker::server_tls_failed`](crate::Worker::server_tls_failed).
    pub(crate) fn on_server_tls_failed(&mut self, conn: &mut Conn, reason: &str) {
        if matches!(&conn.phase, ConnPhase::Login(handshake) if handshake.awaits_tls()) {
            self.core.fx.stats.counters.server_tls_failed += 1;
        }
        self.on_server_closed(conn, &format!("TLS failed: {reason}"));
    }

    /// Bytes of a server that compresses.
    fn packed_server_read(&mut self, conn: &mut Conn, bytes: &[u8]) {
        self.unpack_server(conn, bytes, |conn| !conn.io.is_paused);
    }

    /// A server has closed: what it said before counts, whether its client keeps up or not.
    fn unpack_last_words(&mut self, conn: &mut Conn) {
        self.unpack_server(conn, &[], |_| true);
    }

    fn unpack_server(&mut self, conn: &mut Conn, bytes: &[u8], goes_on: impl Fn(&Conn) -> bool) {
        let Some(packing) = conn.io.packing.as_deref_mut() else { return };
        let mut received = std::mem::take(&mut packing.received);
        let input = joined(&mut received, bytes);
        let mut at = 0;
        let mut plain = self.core.fx.buffers.take();
        while !conn.is_closed() && goes_on(conn) {
            let Some(packing) = conn.io.packing.as_deref_mut() else {
                break;
            };
            plain.clear();
            let rest = input.get(at..).unwrap_or_default();
            let (method, compressor) = (packing.method, &mut *self.core.fx.compressor);
            let any = Expected::Any;
            match packing.framing.unpack(rest, any, usize::MAX, method, compressor, &mut plain) {
                Ok(None) => break,
                Ok(Some(len)) => {
                    at += len;
                    self.server_read_plain(conn, &plain);
                }
                Err(fault) => {
                    self.core.fx.buffers.give(plain);
                    return self.server_broke(conn, &format!("sent {fault}"));
                }
            }
        }
        self.core.fx.buffers.give(plain);
        let rest = remaining(received, bytes, at);
        let is_nobodys = !rest.is_empty() && conn.in_flight.is_empty();
        if let Some(packing) = conn.io.packing.as_deref_mut() {
            packing.received = rest;
        }
        // As with a part of a plain packet that no command asked for.
        if is_nobodys && matches!(conn.phase, ConnPhase::Ready) {
            self.unsolicited(conn, &[]);
        }
    }
}

#[cfg(test)]
mod tests;
