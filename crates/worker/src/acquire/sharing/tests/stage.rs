//! One worker between clients and a server that are played here: no sockets and no clock.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use crate::{
    Action, ClientId, ConnId, KillAsker, KillRequest, KillScope, Now, Peer, Shared, Side, Worker,
    WorkerOptions, by_worker,
};
use trunkline_config::parse;
use trunkline_protocol::{
    auth::native,
    capability::Capabilities,
    codec::{
        compressed::{Compressor, Corrupt, Method},
        frame::{put_payload, split_packet},
    },
    packet::{
        err::put_err,
        greeting::{Greeting, NONCE_LEN},
        handshake_response::{ClientOpening, HandshakeResponse},
        ok::{OkPacket, put_ok},
        status,
    },
    response::{ReplyFormat, write::put_text_result},
};
use trunkline_topology::HostgroupId;

/// One server that takes one connection, so that everybody has to share it.
const CONFIG: &str = r#"
[[server]]
hostgroup = 10
address = "127.0.0.1:3306"
max_connections = 1
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
"#;
/// What a driver reads at once.
const READ_LEN_MAX: usize = 64 * 1024;
/// Rounds of exchanges that anything may take before something is wrong.
const ROUNDS_MAX: u32 = 1_000;
/// Runs until a statement is known to be short.
const KNOWN_AFTER: usize = 5;
/// So long it takes at most, in all and between two looks, until whoever waits is asked for.
const REST_MS: u64 = 12_000;
const REST_STEP_MS: u64 = 200;

/// What the server answers. Values name the client that asked.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    Rows {
        rows: usize,
        len: usize,
    },
    Nulls,
    Error,
    /// Rows, and then an error in place of the end.
    Interrupted {
        rows: usize,
    },
}

impl Answer {
    fn put(&self, out: &mut Vec<u8>, format: ReplyFormat, client: usize) {
        let value = |len: usize| {
            let mut value = format!("{client}:").into_bytes();
            value.resize(len.max(2), b'a' + u8::try_from(client).expect("small"));
            Some(value)
        };
        let status = status::AUTOCOMMIT;
        let columns = ["c", "d"];
        match *self {
            Self::Rows { rows, len } => {
                let rows = vec![vec![value(len), value(1)]; rows];
                put_text_result(out, 1, format, status, &columns, &rows);
            }
            Self::Nulls => {
                let rows = vec![vec![None, value(4)], vec![None, None]];
                put_text_result(out, 1, format, status, &columns, &rows);
            }
            Self::Error => {
                put_err(out, 1, 1_105, b"HY000", &format!("for client {client}"));
            }
            Self::Interrupted { rows } => {
                let rows = vec![vec![value(9), value(1)]; rows];
                let begin = out.len();
                let next = put_text_result(out, 1, format, status, &columns, &rows);
                let end = out.len() - last_packet_len(&out[begin..]);
                out.truncate(end);
                let text = format!("interrupted for client {client}");
                put_err(out, next.wrapping_sub(1), 1_317, b"70100", &text);
            }
        }
    }
}

fn last_packet_len(mut bytes: &[u8]) -> usize {
    let mut last = 0;
    while let Some((_, _, rest)) = split_packet(bytes) {
        last = bytes.len() - rest.len();
        bytes = rest;
    }
    last
}

const OK: OkPacket<'_> = OkPacket {
    affected_rows: 0,
    last_insert_id: 0,
    status: status::AUTOCOMMIT,
    warnings: 0,
    info: b"",
    changes: b"",
};

struct PlayedClient {
    id: ClientId,
    format: ReplyFormat,
    got: Vec<u8>,
    has_left: bool,
    /// The worker has ended it.
    is_closed: bool,
}

struct PlayedServer {
    conn: ConnId,
    format: Option<ReplyFormat>,
    /// Whose statements came and are not answered yet.
    asked: Vec<usize>,
    /// Set-ups that came behind them.
    set_ups: usize,
    is_lost: bool,
}

/// The worker and everybody around it.
pub(super) struct Stage {
    worker: Worker,
    now: Now,
    clients: Vec<PlayedClient>,
    servers: Vec<PlayedServer>,
    /// The server has no such variables.
    pub(super) lacks: Vec<&'static str>,
    /// What it was told of trackers.
    pub(super) trackers: Vec<String>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
        let config = parse(CONFIG, "stage.toml", &no_files).expect("the configuration");
        let worker = Worker::new(
            WorkerOptions { index: 0, workers: 1, seed: 1 },
            Arc::new(config.snapshot(None)),
            Arc::new(Shared::new(None, 16)),
            Arc::new(greeting()),
            Box::new(NoCompressor),
        );
        let now = Now { us: 1_000_000, unix_sec: 1_700_000_000 };
        let (lacks, trackers) = Default::default();
        let (clients, servers) = Default::default();
        Self { worker, now, clients, servers, lacks, trackers }
    }

    pub(super) fn log_in(&mut self, more: Capabilities) {
        let local = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let peer = Peer { client_addr: local, is_local: true, ..Peer::default() };
        self.begin_batch();
        let nonce = [b'm'; NONCE_LEN];
        let id = self.worker.accept(Arc::new(peer), nonce).expect("the client is let in");
        let capabilities = Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | more;
        let format = ReplyFormat::of(capabilities);
        let (got, has_left, is_closed) = Default::default();
        self.clients.push(PlayedClient { id, format, got, has_left, is_closed });
        self.settle();
        let scramble = native::scramble(&native::stage1(b"app"), &nonce);
        let response = HandshakeResponse {
            capabilities,
            packet_len_max: 1 << 24,
            charset: 45,
            user: b"app",
            auth: &scramble,
            schema: None,
            plugin: Some(b"mysql_native_password"),
            attributes: Default::default(),
            zstd_level: None,
        };
        let mut out = Vec::new();
        response.put(&mut out, 1);
        self.begin_batch();
        self.worker.client_read(id, &out);
        self.settle();
    }

    /// A client asks, and has its answer.
    pub(super) fn ask_alone(&mut self, client: usize, answers: &[Answer]) {
        self.clients.iter_mut().for_each(|client| client.got.clear());
        self.ask(client);
        self.serve_and_expect(client, answers);
    }

    /// Has the statement run until it may share a connection.
    pub(super) fn make_known(&mut self) {
        let answer = Answer::Rows { rows: 1, len: 1 };
        let answers = vec![answer; self.clients.len()];
        for _ in 0..KNOWN_AFTER {
            self.ask(0);
            self.serve_whole(&answers);
        }
    }

    /// All clients ask at once; the bytes of the server's answers, in the order of its queue.
    pub(super) fn ask_all(&mut self, answers: &[Answer]) -> Vec<u8> {
        self.clients.iter_mut().for_each(|client| client.got.clear());
        for client in 0..self.clients.len() {
            self.ask(client);
        }
        let server = self.servers.iter().find(|server| !server.is_lost).expect("a server");
        let queue: Vec<_> = (0..self.clients.len()).collect();
        assert_eq!(server.asked, queue, "not all are in flight on one connection");
        let format = server.format.expect("it is logged in");
        let mut bytes = Vec::new();
        for client in &server.asked {
            answers[*client].put(&mut bytes, format, *client);
        }
        bytes
    }

    /// The server says this, as it comes from a socket, as long as the worker listens.
    pub(super) fn answer(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(READ_LEN_MAX) {
            let Some(server) = self.servers.iter().find(|server| !server.is_lost) else { return };
            let conn = server.conn;
            self.begin_batch();
            self.worker.server_read(conn, part);
            self.settle();
        }
    }

    /// All names may mean something else by now: nothing is proven to be harmless to send again.
    pub(super) fn outdate_proofs(&mut self) {
        self.worker.catalog().age(HostgroupId(10));
    }

    /// An administrator ends a client's session.
    pub(super) fn kill(&mut self, client: usize) {
        let number = u32::try_from(client).expect("small") + 1;
        let asker = KillAsker { worker: 0, client: None, ticket: 1 };
        self.begin_batch();
        let scope = KillScope::Session;
        self.worker.kill_asked(KillRequest { number, scope, user: None, asker });
        self.settle();
    }

    /// What is asked for elsewhere is answered there, and this client has its answer.
    pub(super) fn serve_and_expect(&mut self, client: usize, answers: &[Answer]) {
        self.serve_whole(answers);
        self.expect(client, &answers[client]);
    }

    /// A client goes without a word.
    pub(super) fn leave(&mut self, client: usize) {
        if !std::mem::replace(&mut self.clients[client].has_left, true) {
            self.begin_batch();
            self.worker.client_closed(self.clients[client].id);
            self.settle();
        }
    }

    /// Everybody who has stayed has its answer, and nothing else.
    pub(super) fn expect_all(&mut self, answers: &[Answer]) {
        self.servers.iter_mut().for_each(|server| server.asked.clear());
        for (client, answer) in answers.iter().enumerate() {
            self.expect(client, answer);
        }
    }

    fn expect(&self, client: usize, answer: &Answer) {
        let played = &self.clients[client];
        if played.has_left {
            return;
        }
        assert!(!played.is_closed, "client {client} was closed");
        let mut expected = Vec::new();
        answer.put(&mut expected, played.format, client);
        assert!(
            played.got == expected,
            "client {client} got {:?}\nand not {:?}",
            String::from_utf8_lossy(&played.got),
            String::from_utf8_lossy(&expected),
        );
    }

    /// The connection ends behind so many bytes of its answers. What is asked again is answered.
    pub(super) fn lose_and_serve(&mut self, answers: &[Answer], end: usize) {
        let Some(server) = self.servers.iter_mut().find(|server| !server.is_lost) else {
            // The worker has closed it, as nobody was left who waits for it.
            return;
        };
        server.is_lost = true;
        let (conn, format) = (server.conn, server.format.expect("it is logged in"));
        let queue = std::mem::take(&mut server.asked);
        self.begin_batch();
        self.worker.server_closed(conn, "the connection was closed");
        self.settle();
        let again = self.serve_whole(answers);
        let mut begin = 0;
        for client in queue {
            let mut bytes = Vec::new();
            answers[client].put(&mut bytes, format, client);
            let (is_whole, has_begun) = (begin + bytes.len() <= end, begin < end);
            begin += bytes.len();
            let asked = again.iter().filter(|other| **other == client).count();
            if self.clients[client].has_left {
                assert!(is_whole || asked == 0, "client {client} has left and was asked for");
            } else if is_whole || !has_begun {
                assert_eq!(asked, usize::from(!is_whole), "client {client} was asked for");
                self.expect(client, &answers[client]);
            } else if asked == 0 {
                self.expect_lost(client, &answers[client]);
            } else {
                assert_eq!(asked, 1, "client {client} was asked for again");
                self.expect(client, &answers[client]);
            }
        }
    }

    /// What has begun ends with the error that says so, or in the middle of a packet, where
    /// nothing can be said, with the end of the session.
    fn expect_lost(&self, client: usize, answer: &Answer) {
        let played = &self.clients[client];
        let mut expected = Vec::new();
        answer.put(&mut expected, played.format, client);
        if played.is_closed && expected.starts_with(&played.got) {
            return;
        }
        let len = played.got.len() - last_packet_len(&played.got);
        let (head, error) = played.got.split_at(len);
        assert!(expected.starts_with(head), "client {client} got what is not its own");
        let is_lost = error.get(4..7) == Some(&[0xFF, 0xDD, 0x07]);
        assert!(is_lost, "client {client} was not told of the loss: {error:?}");
    }

    pub(super) fn connections(&self) -> usize {
        self.servers.len()
    }

    fn ask(&mut self, client: usize) {
        let mut packet = Vec::new();
        let text = format!("SELECT c, d FROM s.t WHERE id={client}");
        put_payload(&mut packet, 0, &[b"\x03", text.as_bytes()].concat());
        self.begin_batch();
        self.worker.client_read(self.clients[client].id, &packet);
        self.settle();
    }

    /// Answers all that is asked, until nothing is; whose statements these were.
    fn serve_whole(&mut self, answers: &[Answer]) -> Vec<usize> {
        let (mut served, mut rest_ms) = (Vec::new(), REST_MS);
        for _ in 0..ROUNDS_MAX {
            let is_asked = |server: &&mut PlayedServer| !server.is_lost && !server.asked.is_empty();
            let Some(server) = self.servers.iter_mut().find(is_asked) else {
                // Who got an error may hold the connection for a second, to ask for its warnings.
                if rest_ms == 0 {
                    return served;
                }
                rest_ms -= REST_STEP_MS;
                self.now.us += REST_STEP_MS * 1_000;
                self.begin_batch();
                self.settle();
                continue;
            };
            let format = server.format.expect("it is logged in");
            let mut bytes = Vec::new();
            for client in server.asked.drain(..) {
                answers[client].put(&mut bytes, format, client);
                served.push(client);
            }
            for _ in 0..std::mem::take(&mut server.set_ups) {
                put_ok(&mut bytes, 1, &OK, format);
            }
            self.answer(&bytes);
        }
        panic!("statements are asked again and again");
    }

    /// One µs on: nothing that is played here is slow.
    fn begin_batch(&mut self) {
        self.now.us += 1;
        self.worker.begin_batch(self.now);
    }

    /// Plays the driver until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.worker.tick();
            let actions = self.worker.take_actions();
            let mut is_quiet = actions.is_empty();
            actions.into_iter().for_each(|action| self.act(action));
            while let Some(side) = self.worker.next_dirty() {
                is_quiet = false;
                let bytes = self.worker.pending(side).to_vec();
                self.worker.wrote(side, bytes.len());
                match side {
                    Side::Client(id) => {
                        let client = self.clients.iter_mut().find(|client| client.id == id);
                        client.expect("a client").got.extend_from_slice(&bytes);
                    }
                    Side::Server(id) => self.hear(id, &bytes),
                }
            }
            if is_quiet {
                return;
            }
        }
        panic!("the exchange does not come to an end");
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Open { conn, .. } => {
                let asked = Vec::new();
                let (set_ups, is_lost) = Default::default();
                self.servers.push(PlayedServer { conn, format: None, asked, set_ups, is_lost });
                self.worker.server_connected(conn);
                let mut out = Vec::new();
                greeting().put(&mut out, 0);
                self.worker.server_read(conn, &out);
            }
            Action::AskCatalog(ask) => {
                let catalog = self.worker.catalog();
                let waiters = catalog.settle_as_tables(&ask.names, ask.asked_ms);
                let clients = by_worker(waiters).into_values().flatten().collect();
                self.worker.catalog_told(clients);
            }
            Action::CloseServer { conn, .. } => {
                let server = self.servers.iter_mut().find(|server| server.conn == conn);
                server.expect("a connection").is_lost = true;
            }
            Action::CloseClient { client: id, .. } => {
                let client = self.clients.iter_mut().find(|client| client.id == id);
                client.expect("a client").is_closed = true;
            }
            // Nothing is ever full here, and an open connection has no bytes when it is probed.
            Action::Probe(_)
            | Action::TellAdministrator { .. }
            | Action::Pause(_)
            | Action::Resume(_)
            | Action::Wipe
            | Action::Log(_) => {}
            other => panic!("the worker asks for {other:?}"),
        }
    }

    /// The server is asked something; statements are answered later.
    fn hear(&mut self, conn: ConnId, mut bytes: &[u8]) {
        let server = self.servers.iter_mut().find(|server| server.conn == conn);
        let server = server.expect("a connection");
        let mut out = Vec::new();
        while let Some((header, payload, rest)) = split_packet(bytes) {
            bytes = rest;
            let Some(format) = server.format else {
                let opening = ClientOpening::parse(payload).expect("an opening");
                let ClientOpening::Response(response) = opening else {
                    panic!("the worker asks for TLS");
                };
                let format = ReplyFormat::of(response.capabilities);
                server.format = Some(format);
                put_ok(&mut out, header.seq.wrapping_add(1), &OK, format);
                continue;
            };
            let text = String::from_utf8_lossy(payload);
            if text.contains("session_track_schema") {
                self.trackers.push(text.clone().into_owned());
            }
            if let Some(name) = self.lacks.iter().find(|name| text.contains(**name)) {
                let error = format!("Unknown system variable '{name}'");
                put_err(&mut out, 1, 1_193, b"HY000", &error);
                continue;
            }
            match text.rsplit_once("WHERE id=") {
                Some((_, client)) => server.asked.push(client.parse().expect("a number")),
                None if !server.asked.is_empty() => server.set_ups += 1,
                None => {
                    put_ok(&mut out, 1, &OK, format);
                }
            }
        }
        assert!(bytes.is_empty(), "half a packet was written");
        if !out.is_empty() {
            self.worker.server_read(conn, &out);
        }
    }
}

/// What clients are greeted with, and the server greets with.
fn greeting() -> Greeting {
    let capabilities = Capabilities::PROTOCOL_41
        | Capabilities::CONNECT_WITH_DB
        | Capabilities::TRANSACTIONS
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::MULTI_RESULTS
        | Capabilities::SESSION_TRACK
        | Capabilities::DEPRECATE_EOF;
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

/// Nothing is compressed here.
struct NoCompressor;

impl Compressor for NoCompressor {
    fn compress(&mut self, _: Method, _: &[u8], _: &mut Vec<u8>) -> bool {
        false
    }

    fn decompress(
        &mut self,
        _: Method,
        _: &[u8],
        _: usize,
        _: &mut Vec<u8>,
    ) -> Result<(), Corrupt> {
        Err(Corrupt)
    }
}
