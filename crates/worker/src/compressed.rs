//! Compression of a socket's bytes, where both ends agreed on it.
//!
//! The rest of the worker reads and writes packets in inboxes and outboxes. A connection that is
//! compressed has a [`Packing`] besides: what is read goes through it first, and the driver is
//! shown what it has packed instead of the outbox. Other connections have none.

use trunkline_protocol::{
    capability::{Capabilities, Compression},
    codec::{
        compressed::{Compressor, Expected, Framing, Method, PIECE_MAX, Unpackable},
        frame::{HEADER_LEN, Header},
    },
};

use crate::{
    Action, Side,
    clients::client::{Client, Frontend, Phase},
    commands::command::SENT_AHEAD_MAX,
    effects::Effects,
    outbox::{Buffers, Outbox},
    rooms::Core,
    servers::conn::{Conn, ConnPhase},
};

/// The highest level of zstd that a client gets: beyond it a worker would spend its time on one
/// client's last percent.
const ZSTD_LEVEL_MAX: u8 = 9;

/// Bytes that are packed in one go.
const PACKED_LEN_MAX: usize = 4 * PIECE_MAX;

/// The compression of one socket.
#[derive(Debug)]
pub(crate) struct Packing {
    pub(crate) framing: Framing,
    pub(crate) method: Method,
    peer: PackingPeer,
    /// Bytes that came and are not unpacked: part of a packet, or packets that have to wait.
    pub(crate) received: Vec<u8>,
    /// Bytes that were unpacked, and how many of them went on.
    pub(crate) unpacked: (Vec<u8>, usize),
    /// Bytes for the socket, packed.
    packed: Outbox,
    /// Whether it is in [`Effects::unpacking`](crate::effects::Effects).
    pub(crate) is_listed: bool,
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PackingPeer {
    Client,
    Server,
}

impl Packing {
    /// Compression from here on: what waits in `outbox` still goes as it is, and what was
    /// `received` already is compressed.
    fn begin(
        peer: PackingPeer,
        method: Method,
        outbox: &mut Outbox,
        received: Vec<u8>,
    ) -> Box<Self> {
        let is_listed = outbox.is_listed;
        let packed = std::mem::take(outbox);
        outbox.is_listed = is_listed;
        Box::new(Self {
            framing: Framing::default(),
            method,
            peer,
            received,
            unpacked: (Vec::new(), 0),
            packed,
            is_listed: false,
        })
    }

    /// Whether no byte is on its way in or out.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting_len() == 0 && self.packed.is_empty()
    }

    /// Whether it is in its worker's list of those to unpack.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Its connection goes to another worker, whose list it is not in.
    pub(crate) fn leave_list(mut self: Box<Self>) -> Box<Self> {
        self.is_listed = false;
        self
    }

    /// Bytes that came and wait.
    pub(crate) fn waiting_len(&self) -> usize {
        let is_open = usize::from(self.framing.is_unpacking());
        self.received.len() + self.unpacked.0.len() - self.unpacked.1 + is_open
    }

    /// Bytes that it holds of what came.
    pub(crate) fn held(&self) -> usize {
        self.received.len() + self.unpacked.0.len() + self.framing.working_len()
    }

    /// What to write to the socket: what was packed, else what waits in `outbox`.
    pub(crate) fn pending(
        &mut self,
        outbox: &mut Outbox,
        buffers: &mut Buffers,
        compressor: &mut dyn Compressor,
    ) -> &[u8] {
        if self.packed.is_empty() {
            // What waits behind a piece is packed when that is written.
            self.pack(outbox, PACKED_LEN_MAX, buffers, compressor);
        }
        self.packed.pending()
    }

    /// The kernel took the first `len` packed bytes.
    pub(crate) fn advance(&mut self, len: usize, buffers: &mut Buffers) {
        self.packed.advance(len, buffers);
    }

    /// Packs everything that waits in `outbox`.
    fn pack_all(
        &mut self,
        outbox: &mut Outbox,
        buffers: &mut Buffers,
        compressor: &mut dyn Compressor,
    ) {
        while !outbox.is_empty() {
            self.pack(outbox, usize::MAX, buffers, compressor);
        }
    }

    /// Packs at most so many bytes of what waits in `outbox`.
    fn pack(
        &mut self,
        outbox: &mut Outbox,
        len_max: usize,
        buffers: &mut Buffers,
        compressor: &mut dyn Compressor,
    ) {
        let plain = outbox.pending();
        let len = plain.len().min(len_max);
        let Some(plain) = plain.get(..len).filter(|plain| !plain.is_empty()) else {
            return;
        };
        let out = self.packed.buf(buffers);
        match self.peer {
            PackingPeer::Client => self.framing.pack_answer(plain, self.method, compressor, out),
            PackingPeer::Server => self.framing.pack_commands(plain, self.method, compressor, out),
        }
        outbox.advance(len, buffers);
    }
}

impl Core {
    /// A client that asked for compression has been acknowledged: it compresses from now on.
    pub(crate) fn begin_client_packing(&mut self, client: &mut Client) {
        let zlib_level = self.env.snapshot.settings.protocol_compression_level;
        if client.io.packing.is_some() {
            return;
        }
        let session = &client.session;
        let method = match session.login.capabilities.compression() {
            None => return,
            Some(Compression::Zlib) => Method::Zlib(zlib_level),
            Some(Compression::Zstd) => {
                Method::Zstd(session.login.zstd_level.clamp(1, ZSTD_LEVEL_MAX))
            }
        };
        let received = std::mem::take(&mut client.io.inbox);
        let packing = Packing::begin(PackingPeer::Client, method, &mut client.io.outbox, received);
        client.io.packing = Some(packing);
        self.unpack_client_soon(client);
    }

    /// How a server connection with these capabilities is packed.
    pub(crate) fn begin_server_packing(&mut self, conn: &mut Conn, capabilities: Capabilities) {
        let settings = &self.env.snapshot.settings;
        let method = match capabilities.compression() {
            None => return,
            Some(Compression::Zlib) => Method::Zlib(settings.protocol_compression_level),
            Some(Compression::Zstd) => Method::Zstd(settings.zstd_compression_level),
        };
        if conn.io.packing.is_none() {
            let outbox = &mut conn.io.outbox;
            conn.io.packing = Some(Packing::begin(PackingPeer::Server, method, outbox, Vec::new()));
        }
    }

    /// A client's compression ends here: its bytes go to a server that compresses alike. Returns
    /// those that came already, or `None` when some of them are unpacked already.
    pub(crate) fn end_client_packing(&mut self, client: &mut Client) -> Option<Vec<u8>> {
        let Some(mut packing) = client.io.packing.take() else {
            return Some(Vec::new());
        };
        if packing.waiting_len() > packing.received.len() || !client.io.inbox.is_empty() {
            return None;
        }
        packing.pack_all(&mut client.io.outbox, &mut self.fx.buffers, &mut *self.fx.compressor);
        let is_listed = client.io.outbox.is_listed;
        client.io.outbox = packing.packed;
        client.io.outbox.is_listed = is_listed;
        Some(packing.received)
    }

    /// Whether a client's next packet may be unpacked. While an answer is under way it may not,
    /// unless the client is asked for a file: numbers of commands and answers are one sequence.
    pub(crate) fn takes_packets(&self, client: &Frontend) -> bool {
        if client.waits_for_memory() {
            return false;
        }
        match &client.phase {
            Phase::Login(_) => true,
            Phase::Idle => {
                let packed = client.io.packing.as_ref().map_or(0, |packing| packing.packed.len());
                client.io.outbox.len() + packed <= self.env.snapshot.settings.client_buffer_max
            }
            Phase::Forward(conn) => {
                let conn = self.servers.conns.get(*conn);
                let is_ready = conn.is_some_and(|it| matches!(it.phase, ConnPhase::Forward(_)));
                is_ready && !client.io.is_paused
            }
            Phase::Running(_) => client.is_uploading() && !client.io.is_paused,
            Phase::ChangeUser
            | Phase::AwaitKill(_)
            | Phase::AwaitNames(_)
            | Phase::AwaitServer(_)
            | Phase::Closing => false,
        }
    }

    pub(crate) fn unpack_for_client(
        &mut self,
        client: &mut Frontend,
        bytes: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Option<usize>, Unpackable> {
        let plain_max = self.env.snapshot.settings.max_allowed_packet + HEADER_LEN;
        let expected = match &client.phase {
            // The rest of a file, or what the login asks for.
            Phase::Login(_) | Phase::Running(_) => Expected::Answer,
            Phase::Forward(_) => Expected::CommandOrAnswer,
            Phase::Idle
            | Phase::ChangeUser
            | Phase::AwaitKill(_)
            | Phase::AwaitNames(_)
            | Phase::AwaitServer(_)
            | Phase::Closing => Expected::Command,
        };
        let Some(packing) = client.io.packing.as_deref_mut() else {
            return Ok(None);
        };
        if plain.capacity() == 0 {
            *plain = self.fx.buffers.take();
        }
        // Answers that wait have their numbers before those to the next command.
        packing.pack_all(&mut client.io.outbox, &mut self.fx.buffers, &mut *self.fx.compressor);
        let (method, compressor) = (packing.method, &mut *self.fx.compressor);
        packing.framing.unpack(bytes, expected, plain_max, method, compressor, plain)
    }

    /// Keeps what a client sent until it can be unpacked; stops reading when that is much and has
    /// to wait. `has_more`: some of it can be unpacked already, and is at the next tick.
    pub(crate) fn keep_received(
        &mut self,
        client: &mut Frontend,
        rest: Vec<u8>,
        unpacked: (Vec<u8>, usize),
        has_more: bool,
    ) {
        let takes = self.takes_packets(client);
        if matches!(client.phase, Phase::Closing) {
            return;
        }
        let Some(packing) = client.io.packing.as_deref_mut() else {
            return;
        };
        debug_assert!(packing.received.is_empty());
        packing.received = rest;
        packing.unpacked = unpacked;
        // What was unpacked in one go was enough, and more of it waits.
        let goes_on = takes && has_more;
        if goes_on && !packing.is_listed {
            packing.is_listed = true;
            self.fx.unpacking.push_back(Side::Client(client.id));
        }
        let is_full = (goes_on || !takes) && packing.waiting_len() >= SENT_AHEAD_MAX;
        let may_go_on = takes && !goes_on;
        let awaits_more = matches!(client.phase, Phase::Idle);
        if is_full && !client.io.is_paused {
            client.io.is_paused = true;
            self.fx.act(Action::Pause(Side::Client(client.id)));
        } else if may_go_on
            && client.io.is_paused
            && (awaits_more || client.io.inbox.len() < SENT_AHEAD_MAX)
        {
            client.io.is_paused = false;
            self.fx.act(Action::Resume(Side::Client(client.id)));
        }
    }

    /// Reads on from a client's socket that was paused.
    pub(crate) fn resume_client(&mut self, client: &mut Frontend) {
        self.fx.act(Action::Resume(Side::Client(client.id)));
        self.unpack_client_soon(client);
    }

    /// Reads on from a server's socket that was paused.
    pub(crate) fn resume_server(&mut self, conn: &mut Conn) {
        self.fx.act(Action::Resume(Side::Server(conn.id)));
        if let Some(packing) = conn.io.packing.as_deref_mut() {
            self.fx.unpack_soon(Side::Server(conn.id), packing, conn.io.is_paused);
        }
    }

    /// What a client has sent packed, if anything waits, is unpacked at the next tick.
    pub(crate) fn unpack_client_soon(&mut self, client: &mut Frontend) {
        let is_paused = client.io.is_paused;
        if let Some(packing) = client.io.packing.as_deref_mut() {
            self.fx.unpack_soon(Side::Client(client.id), packing, is_paused);
        }
    }
}

impl Effects {
    /// Has what waits packed, if anything does, unpacked at the next tick.
    fn unpack_soon(&mut self, side: Side, packing: &mut Packing, is_paused: bool) {
        if !packing.is_listed && (is_paused || packing.waiting_len() > 0) {
            packing.is_listed = true;
            self.unpacking.push_back(side);
        }
    }
}

/// The next bytes of `plain` that go on, after the first `used`.
pub(crate) fn piece_of(plain: &[u8], used: usize) -> Option<&[u8]> {
    let rest = plain.get(used..).filter(|rest| !rest.is_empty())?;
    rest.get(..rest.len().min(PIECE_MAX))
}

/// What there is to unpack: `bytes` themselves unless others came before.
pub(crate) fn joined<'a>(received: &'a mut Vec<u8>, bytes: &'a [u8]) -> &'a [u8] {
    if received.is_empty() {
        return bytes;
    }
    received.extend_from_slice(bytes);
    received
}

/// What is left of [`joined`] bytes after the first `at`.
pub(crate) fn remaining(mut received: Vec<u8>, bytes: &[u8], at: usize) -> Vec<u8> {
    if received.is_empty() {
        return bytes.get(at..).unwrap_or_default().to_vec();
    }
    received.drain(..at.min(received.len()));
    if received.is_empty() { Vec::new() } else { received }
}

/// The number of an answer's first packet, after a command in these packets.
pub(crate) fn answer_seq(frames: &[u8]) -> u8 {
    let mut next = 0;
    let mut rest = frames;
    while let Some(header) = Header::read(rest) {
        next = header.seq.wrapping_add(1);
        rest = rest.get(HEADER_LEN + header.payload_len..).unwrap_or_default();
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_changes_workers_comes_unlisted() {
        let (peer, method) = (PackingPeer::Server, Method::Zlib(1));
        let mut packing = Packing::begin(peer, method, &mut Outbox::default(), Vec::new());
        packing.is_listed = true;
        assert!(!packing.leave_list().is_listed());
    }
}
