//! The client and the servers around a worker, played without sockets: what is written is answered
//! at once, and read with the next batch.

use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use trunkline_protocol::capability::Capabilities;
use trunkline_protocol::codec::frame::{put_payload, split_packet};
use trunkline_protocol::packet::eof::{EofPacket, put_eof};
use trunkline_protocol::packet::greeting::{Greeting, NONCE_LEN};
use trunkline_protocol::packet::handshake_response::ClientOpening;
use trunkline_protocol::packet::ok::{OkPacket, put_ok};
use trunkline_protocol::packet::status;
use trunkline_protocol::response::ReplyFormat;
use trunkline_topology::{Server, TlsParams};
use trunkline_worker::shell::{
    Clear, Connecting, Event, Io, Mail, NotBegun, Place, Readiness, Request, Stream,
};
use trunkline_worker::{Peer, Side, Worker, by_worker};

use crate::wire::{reply, reply_with};

/// What the client is greeted with.
pub const NONCE: [u8; NONCE_LEN] = [b'm'; NONCE_LEN];
/// What the worker reads at once.
const SCRATCH_LEN: usize = 64 * 1024;
const READABLE: Readiness = Readiness { readable: true, writable: false, ended: false };

/// The worker's end of a connection.
#[derive(Debug)]
pub enum Line {
    Client,
    /// By its place in the list.
    Server(usize),
}

impl Stream for Line {
    type Seal = Clear;
}

/// Everybody around the worker.
pub struct Play {
    events: VecDeque<Event<Line>>,
    scratch: Vec<u8>,
    client: PlayedClient,
    servers: Vec<PlayedServer>,
    /// What should not have happened.
    failure: Option<anyhow::Error>,
}

#[derive(Default)]
struct PlayedClient {
    /// What it has said and nobody has read.
    unread: Vec<u8>,
    place: Option<Place>,
    /// Bytes that were written to it.
    written: usize,
}

struct PlayedServer {
    /// What it has said and nobody has read.
    unread: Vec<u8>,
    place: Option<Place>,
    /// What it has agreed on; `None` until it was answered.
    session: Option<Played>,
}

impl Play {
    pub fn new() -> Self {
        Self {
            events: VecDeque::new(),
            scratch: vec![0; SCRATCH_LEN],
            client: PlayedClient::default(),
            servers: Vec::new(),
            failure: None,
        }
    }

    /// The client connects.
    pub fn knock(&mut self) {
        self.events.push_back(Event::Knock(0));
    }

    pub fn client_says(&mut self, bytes: &[u8]) {
        self.client.unread.extend_from_slice(bytes);
        self.events.extend(self.client.place.map(|place| Event::Ready(place, READABLE)));
    }

    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Bytes that were written to the client since the last call.
    pub fn take_written(&mut self) -> Result<usize> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut self.client.written)),
        }
    }

    /// What is written to a server from now on is an error.
    pub fn lose_servers(&mut self) {
        self.servers.clear();
    }

    fn fail(&mut self, what: &str) {
        self.failure.get_or_insert_with(|| anyhow::anyhow!("{what}"));
    }
}

impl Io for Play {
    type Stream = Line;

    #[inline]
    fn next_event(&mut self) -> Option<Event<Line>> {
        self.events.pop_front()
    }

    fn accept(&mut self, _: usize) -> io::Result<(Line, Peer)> {
        if self.client.place.is_some() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let peer = Peer {
            client_addr: Some(address),
            proxy_addr: Some(address),
            proxy_port: Some(6_033),
            is_local: true,
            ..Peer::default()
        };
        Ok((Line::Client, peer))
    }

    fn nonce(&mut self) -> [u8; NONCE_LEN] {
        NONCE
    }

    fn register(&mut self, stream: &mut Line, side: Side) -> io::Result<()> {
        match stream {
            Line::Client => self.client.place = Some(Place::of(side)),
            Line::Server(at) => {
                if let Some(server) = self.servers.get_mut(*at) {
                    server.place = Some(Place::of(side));
                }
            }
        }
        Ok(())
    }

    fn detach(&mut self, _: &mut Line) -> bool {
        false
    }

    fn close(&mut self, _: Line, reason: &str) {
        self.fail(&format!("a connection was closed: {reason}"));
    }

    #[inline]
    fn scratch(&mut self) -> &mut [u8] {
        &mut self.scratch
    }

    #[inline]
    fn read(&mut self, stream: &mut Line, _: Range<usize>) -> io::Result<usize> {
        let unread = match stream {
            Line::Client => Some(&mut self.client.unread),
            Line::Server(at) => self.servers.get_mut(*at).map(|server| &mut server.unread),
        };
        let Some(unread) = unread.filter(|unread| !unread.is_empty()) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let len = unread.len();
        if let Some(room) = self.scratch.get_mut(..len) {
            room.copy_from_slice(black_box(unread));
        }
        unread.clear();
        Ok(len)
    }

    #[inline]
    fn write(&mut self, stream: &mut Line, bytes: &[u8]) -> io::Result<usize> {
        match stream {
            Line::Client => self.client.written += bytes.len(),
            Line::Server(at) => {
                let result = match self.servers.get_mut(*at) {
                    Some(server) => server.hear(bytes),
                    None => Err(anyhow::anyhow!("an unknown connection")),
                };
                match result {
                    Ok(place) => self.events.push_back(Event::Ready(place, READABLE)),
                    Err(error) => self.failure = Some(error),
                }
            }
        }
        Ok(bytes.len())
    }

    fn connect(&mut self, _: Side, _: &Server, attempt: usize) -> Option<Result<Line, NotBegun>> {
        if attempt > 0 {
            return None;
        }
        let mut unread = Vec::new();
        greeting().put(&mut unread, 0);
        self.servers.push(PlayedServer { unread, place: None, session: None });
        Some(Ok(Line::Server(self.servers.len() - 1)))
    }

    fn connecting(&mut self, _: &mut Line, _: Place) -> Connecting {
        Connecting::Done
    }

    fn accept_tls(&mut self, _: &mut Line) -> Result<Clear, String> {
        Err("no TLS is played".to_owned())
    }

    fn connect_tls(
        &mut self,
        _: &mut Line,
        _: &Server,
        _: &Arc<TlsParams>,
    ) -> Result<Clear, String> {
        Err("no TLS is played".to_owned())
    }

    fn post(&mut self, _: usize, mail: Mail<Line>) -> Option<Mail<Line>> {
        self.fail("there is no other worker");
        Some(mail)
    }

    fn ask(&mut self, worker: &mut Worker, request: Request) {
        match request {
            Request::AskCatalog(ask) => {
                let waiters = worker.catalog().settle_as_tables(&ask.names, ask.asked_ms);
                let clients = by_worker(waiters).into_values().flatten().collect();
                worker.catalog_told(clients);
            }
            Request::Log(line) => {
                self.fail(&format!("the worker has something to say: {}", line.text));
            }
            other => self.fail(&format!("the worker asks for {other:?}")),
        }
    }
}

impl PlayedServer {
    /// Answers what the worker wrote; where it is to be told that there is an answer.
    fn hear(&mut self, bytes: &[u8]) -> Result<Place> {
        let out = &mut self.unread;
        let mut rest = bytes;
        while let Some((header, payload, after)) = split_packet(rest) {
            rest = after;
            let Some(played) = &mut self.session else {
                let ClientOpening::Response(response) = ClientOpening::parse(payload)? else {
                    bail!("the worker did not answer the greeting");
                };
                let format = ReplyFormat::of(response.capabilities);
                self.session = Some(Played::new(format));
                put_ok(out, header.seq.wrapping_add(1), &ok(), format);
                continue;
            };
            match payload {
                [0x03, text @ ..] => played.answer(text, out),
                [0x16, ..] => put_prepared(out, played),
                [0x17, ..] => out.extend_from_slice(&played.reply),
                _ => _ = put_ok(out, 1, &ok(), played.format),
            }
        }
        ensure!(rest.is_empty(), "half a packet was written");
        self.place.context("a connection that was not registered")
    }
}

/// A server connection that is logged in.
struct Played {
    format: ReplyFormat,
    reply: Vec<u8>,
    /// The reply to a statement within a transaction.
    reply_within: Vec<u8>,
    is_in_transaction: bool,
}

/// What a connection's first `SET` begins with.
const TRACKERS_ON: &[u8] = b"SET @@SESSION.session_track_system_variables=";
/// What a server of today answers it: how it reads texts by default.
const TOLD: &[u8] = b"\0\x1d\x08sql_mode\x13STRICT_TRANS_TABLES\
    \0\x1d\x14character_set_client\x07utf8mb4";

impl Played {
    fn new(format: ReplyFormat) -> Self {
        let reply_within = reply_with(format, 1, status::AUTOCOMMIT | status::IN_TRANS);
        let reply = reply(format, 1);
        Self { format, reply, reply_within, is_in_transaction: false }
    }

    fn answer(&mut self, text: &[u8], out: &mut Vec<u8>) {
        match text {
            [b'B', b'E', b'G', ..] => self.is_in_transaction = true,
            [b'C', b'O', b'M', ..] => self.is_in_transaction = false,
            [b'S', b'E', b'T', ..]
                if text.starts_with(TRACKERS_ON) && self.format.session_track =>
            {
                let status = status::AUTOCOMMIT | status::SESSION_STATE_CHANGED;
                put_ok(out, 1, &OkPacket { status, changes: TOLD, ..ok() }, self.format);
                return;
            }
            _ => {}
        }
        match (text.starts_with(b"SELECT"), self.is_in_transaction) {
            (true, false) => out.extend_from_slice(&self.reply),
            (true, true) => out.extend_from_slice(&self.reply_within),
            (false, false) => _ = put_ok(out, 1, &ok(), self.format),
            (false, true) => {
                let status = status::AUTOCOMMIT | status::IN_TRANS;
                _ = put_ok(out, 1, &OkPacket { status, ..ok() }, self.format);
            }
        }
    }
}

/// Everything that the worker offers to clients and servers offer to it.
pub fn greeting() -> Greeting {
    let capabilities = Capabilities::FOUND_ROWS
        | Capabilities::CONNECT_WITH_DB
        | Capabilities::PROTOCOL_41
        | Capabilities::TRANSACTIONS
        | Capabilities::SECURE_CONNECTION
        | Capabilities::MULTI_STATEMENTS
        | Capabilities::MULTI_RESULTS
        | Capabilities::PLUGIN_AUTH
        | Capabilities::SESSION_TRACK
        | Capabilities::DEPRECATE_EOF
        | Capabilities::CACHE_METADATA;
    Greeting {
        protocol_version: 10,
        server_version: "10.11.6-MariaDB".into(),
        connection_id: 1,
        nonce: [b'n'; NONCE_LEN],
        capabilities,
        charset: 45,
        status: status::AUTOCOMMIT,
        auth_plugin: "mysql_native_password".into(),
    }
}

/// `PREPARE_OK` of one parameter and one column, whose definitions are the reply's.
fn put_prepared(out: &mut Vec<u8>, played: &Played) {
    let definition = split_packet(&played.reply).and_then(|(_, _, rest)| split_packet(rest));
    let definition = definition.map(|(_, definition, _)| definition).unwrap_or_default();
    let mut seq = put_payload(out, 1, b"\0\x01\0\0\0\x01\0\x01\0\0\0\0");
    for _ in 0..2 {
        seq = put_payload(out, seq, definition);
        if !played.format.deprecate_eof {
            seq = put_eof(out, seq, EofPacket { warnings: 0, status: status::AUTOCOMMIT });
        }
    }
}

fn ok() -> OkPacket<'static> {
    OkPacket { status: status::AUTOCOMMIT, ..OkPacket::default() }
}
