//! One worker between clients and a server that are played here: no sockets and no clock.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, Ipv4Addr},
    ops::Range,
    sync::Arc,
};

use crate::{
    KillAsker, KillRequest, KillScope, Now, Peer, Shared, Side, Worker, WorkerOptions, by_worker,
    shell::{
        Clear, Connecting, Event, Io, Mail, NotBegun, Place, Readiness, Request, Shell, Stream,
    },
    tests::NoCompressor,
};
use trunkline_config::parse;
use trunkline_protocol::{
    auth::native,
    capability::Capabilities,
    codec::frame::{put_payload, split_packet},
    packet::{
        err::put_err,
        greeting::{Greeting, NONCE_LEN},
        handshake_response::{ClientOpening, HandshakeResponse},
        ok::{OkPacket, put_ok},
        status,
    },
    response::{ReplyFormat, write::put_text_result},
};
use trunkline_topology::{HostgroupId, Server, TlsParams};

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
/// What the worker reads at once.
const SCRATCH_LEN: usize = 64 * 1024;
/// Batches and rounds of exchanges that anything may take before something is wrong.
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

/// What clients are greeted with.
const NONCE: [u8; NONCE_LEN] = [b'm'; NONCE_LEN];

const OK: OkPacket<'_> = OkPacket {
    affected_rows: 0,
    last_insert_id: 0,
    status: status::AUTOCOMMIT,
    warnings: 0,
    info: b"",
    changes: b"",
};

#[derive(Default)]
struct PlayedClient {
    place: Option<Place>,
    format: Option<ReplyFormat>,
    unread: Unread,
    got: Vec<u8>,
    has_left: bool,
    /// The worker has ended it.
    is_closed: bool,
}

#[derive(Default)]
struct PlayedServer {
    place: Option<Place>,
    format: Option<ReplyFormat>,
    unread: Unread,
    /// Whose statements came and are not answered yet.
    asked: Vec<usize>,
    /// Set-ups that came behind them.
    set_ups: usize,
    is_lost: bool,
}

/// What somebody has said and the worker has not read.
#[derive(Default)]
struct Unread {
    bytes: VecDeque<u8>,
    /// Nothing follows.
    has_ended: bool,
}

impl Unread {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let len = self.bytes.len().min(room.len());
        if len == 0 && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        room.iter_mut().zip(self.bytes.drain(..len)).for_each(|(to, from)| *to = from);
        Ok(len)
    }
}

/// The worker's end of a connection, by its place in the list of clients or servers.
#[derive(Debug)]
enum Line {
    Client(usize),
    Server(usize),
}

impl Stream for Line {
    type Seal = Clear;
}

/// Everybody around the worker.
struct Play {
    events: VecDeque<Event<Line>>,
    scratch: Vec<u8>,
    clients: Vec<PlayedClient>,
    /// Those that were accepted.
    accepted: usize,
    servers: Vec<PlayedServer>,
    lacks: Vec<&'static str>,
    trackers: Vec<String>,
}

/// The worker in its shell, and everybody around it.
pub(super) struct Stage {
    shell: Shell<Line>,
    now: Now,
    play: Play,
}

impl Stage {
    pub(super) fn new() -> Self {
        let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
        let config = parse(CONFIG, "stage.toml", &no_files).expect("the configuration");
        let options = WorkerOptions { index: 0, workers: 1, seed: 1 };
        let worker = Worker::new(
            options,
            Arc::new(config.snapshot(None)),
            Arc::new(Shared::new(None, 16)),
            Arc::new(greeting()),
            Box::new(NoCompressor),
        );
        let play = Play {
            events: VecDeque::new(),
            scratch: vec![0; SCRATCH_LEN],
            clients: Vec::new(),
            accepted: 0,
            servers: Vec::new(),
            lacks: Vec::new(),
            trackers: Vec::new(),
        };
        let now = Now { us: 1_000_000, unix_sec: 1_700_000_000 };
        Self { shell: Shell::new(worker, options), now, play }
    }

    /// The server has no such variable.
    pub(super) fn lack(&mut self, variable: &'static str) {
        self.play.lacks.push(variable);
    }

    /// What the server was told of trackers.
    pub(super) fn trackers(&self) -> &[String] {
        &self.play.trackers
    }

    pub(super) fn log_in(&mut self, more: Capabilities) {
        let client = self.play.clients.len();
        let capabilities = Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | more;
        let format = Some(ReplyFormat::of(capabilities));
        self.play.clients.push(PlayedClient { format, ..PlayedClient::default() });
        self.play.events.push_back(Event::Knock(0));
        self.settle();
        let scramble = native::scramble(&native::stage1(b"app"), &NONCE);
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
        self.play.say(&Line::Client(client), &out);
        self.settle();
    }

    /// A client asks, and has its answer.
    pub(super) fn ask_alone(&mut self, client: usize, answers: &[Answer]) {
        self.play.clients.iter_mut().for_each(|client| client.got.clear());
        self.ask(client);
        self.serve_and_expect(client, answers);
    }

    /// Has the statement run until it may share a connection.
    pub(super) fn make_known(&mut self) {
        let answer = Answer::Rows { rows: 1, len: 1 };
        let answers = vec![answer; self.play.clients.len()];
        for _ in 0..KNOWN_AFTER {
            self.ask(0);
            self.serve_whole(&answers);
        }
    }

    /// All clients ask at once; the bytes of the server's answers, in the order of its queue.
    pub(super) fn ask_all(&mut self, answers: &[Answer]) -> Vec<u8> {
        self.play.clients.iter_mut().for_each(|client| client.got.clear());
        for client in 0..self.play.clients.len() {
            self.ask(client);
        }
        let server = self.play.servers.iter().find(|server| !server.is_lost).expect("a server");
        let queue: Vec<_> = (0..self.play.clients.len()).collect();
        assert_eq!(server.asked, queue, "not all are in flight on one connection");
        let format = server.format.expect("it is logged in");
        let mut bytes = Vec::new();
        for client in &server.asked {
            answers[*client].put(&mut bytes, format, *client);
        }
        bytes
    }

    /// The server says this, as long as the worker listens. Each part is one read that is not
    /// repeated: clients get what it brings before the next, so that nobody falls behind.
    pub(super) fn answer(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(SCRATCH_LEN - 1) {
            let server = self.play.servers.iter().position(|server| !server.is_lost);
            let Some(server) = server else { return };
            self.play.say(&Line::Server(server), part);
            self.settle();
        }
    }

    /// All names may mean something else by now: nothing is proven to be harmless to send again.
    pub(super) fn outdate_proofs(&mut self) {
        self.shell.worker().catalog().age(HostgroupId(10));
    }

    /// An administrator ends a client's session.
    pub(super) fn kill(&mut self, client: usize) {
        let number = u32::try_from(client).expect("small") + 1;
        let asker = KillAsker { worker: 0, client: None, ticket: 1 };
        let scope = KillScope::Session;
        let request = Box::new(KillRequest { number, scope, user: None, asker });
        self.play.events.push_back(Event::Mail(Mail::Kill(request)));
        self.settle();
    }

    /// What is asked for elsewhere is answered there, and this client has its answer.
    pub(super) fn serve_and_expect(&mut self, client: usize, answers: &[Answer]) {
        self.serve_whole(answers);
        self.expect(client, &answers[client]);
    }

    /// A client goes without a word.
    pub(super) fn leave(&mut self, client: usize) {
        if !std::mem::replace(&mut self.play.clients[client].has_left, true) {
            self.play.end(&Line::Client(client));
            self.settle();
        }
    }

    /// Everybody who has stayed has its answer, and nothing else.
    pub(super) fn expect_all(&mut self, answers: &[Answer]) {
        self.play.servers.iter_mut().for_each(|server| server.asked.clear());
        for (client, answer) in answers.iter().enumerate() {
            self.expect(client, answer);
        }
    }

    fn expect(&self, client: usize, answer: &Answer) {
        let played = &self.play.clients[client];
        if played.has_left {
            return;
        }
        assert!(!played.is_closed, "client {client} was closed");
        let mut expected = Vec::new();
        answer.put(&mut expected, played.format.expect("it has logged in"), client);
        assert!(
            played.got == expected,
            "client {client} got {:?}\nand not {:?}",
            String::from_utf8_lossy(&played.got),
            String::from_utf8_lossy(&expected),
        );
    }

    /// The connection ends behind so many bytes of its answers. What is asked again is answered.
    pub(super) fn lose_and_serve(&mut self, answers: &[Answer], end: usize) {
        let Some(place) = self.play.servers.iter().position(|server| !server.is_lost) else {
            // The worker has closed it, as nobody was left who waits for it.
            return;
        };
        let server = &mut self.play.servers[place];
        server.is_lost = true;
        let format = server.format.expect("it is logged in");
        let queue = std::mem::take(&mut server.asked);
        self.play.end(&Line::Server(place));
        self.settle();
        let again = self.serve_whole(answers);
        let mut begin = 0;
        for client in queue {
            let mut bytes = Vec::new();
            answers[client].put(&mut bytes, format, client);
            let (is_whole, has_begun) = (begin + bytes.len() <= end, begin < end);
            begin += bytes.len();
            let asked = again.iter().filter(|other| **other == client).count();
            if self.play.clients[client].has_left {
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
        let played = &self.play.clients[client];
        let mut expected = Vec::new();
        answer.put(&mut expected, played.format.expect("it has logged in"), client);
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
        self.play.servers.len()
    }

    fn ask(&mut self, client: usize) {
        let mut packet = Vec::new();
        let text = format!("SELECT c, d FROM s.t WHERE id={client}");
        put_payload(&mut packet, 0, &[b"\x03", text.as_bytes()].concat());
        self.play.say(&Line::Client(client), &packet);
        self.settle();
    }

    /// Answers all that is asked, until nothing is; whose statements these were.
    fn serve_whole(&mut self, answers: &[Answer]) -> Vec<usize> {
        let (mut served, mut rest_ms) = (Vec::new(), REST_MS);
        for _ in 0..ROUNDS_MAX {
            let is_asked = |server: &&mut PlayedServer| !server.is_lost && !server.asked.is_empty();
            let Some(server) = self.play.servers.iter_mut().find(is_asked) else {
                // Who got an error may hold the connection for a second, to ask for its warnings.
                if rest_ms == 0 {
                    return served;
                }
                rest_ms -= REST_STEP_MS;
                self.now.us += REST_STEP_MS * 1_000;
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

    /// Batches until nothing is left to do, one µs after the other: nobody here is slow.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.now.us += 1;
            self.shell.batch(&mut self.play, self.now);
            if self.play.events.is_empty() && self.shell.wait_within_ms() > 0 {
                return;
            }
        }
        panic!("the exchange does not come to an end");
    }
}

impl Play {
    /// Somebody says this.
    fn say(&mut self, line: &Line, bytes: &[u8]) {
        self.unread(line).bytes.extend(bytes);
        self.tell(line, false);
    }

    /// Somebody goes without a word.
    fn end(&mut self, line: &Line) {
        self.unread(line).has_ended = true;
        self.tell(line, true);
    }

    fn tell(&mut self, line: &Line, ended: bool) {
        let place = match line {
            Line::Client(at) => self.clients[*at].place,
            Line::Server(at) => self.servers[*at].place,
        };
        let readiness = Readiness { readable: true, writable: false, ended };
        self.events.extend(place.map(|place| Event::Ready(place, readiness)));
    }

    fn unread(&mut self, line: &Line) -> &mut Unread {
        match line {
            Line::Client(at) => &mut self.clients[*at].unread,
            Line::Server(at) => &mut self.servers[*at].unread,
        }
    }

    /// The server is asked something; statements are answered later.
    fn hear(&mut self, at: usize, mut bytes: &[u8]) {
        let server = &mut self.servers[at];
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
            self.say(&Line::Server(at), &out);
        }
    }
}

impl Io for Play {
    type Stream = Line;

    fn next_event(&mut self) -> Option<Event<Line>> {
        self.events.pop_front()
    }

    fn accept(&mut self, _: usize) -> io::Result<(Line, Peer)> {
        if self.accepted == self.clients.len() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.accepted += 1;
        let local = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let peer = Peer { client_addr: local, is_local: true, ..Peer::default() };
        Ok((Line::Client(self.accepted - 1), peer))
    }

    fn nonce(&mut self) -> [u8; NONCE_LEN] {
        NONCE
    }

    fn register(&mut self, stream: &mut Line, side: Side) -> io::Result<()> {
        match stream {
            Line::Client(at) => self.clients[*at].place = Some(Place::of(side)),
            Line::Server(at) => self.servers[*at].place = Some(Place::of(side)),
        }
        Ok(())
    }

    fn detach(&mut self, _: &mut Line) -> bool {
        false
    }

    fn close(&mut self, stream: Line, _: &str) {
        match stream {
            Line::Client(at) => self.clients[at].is_closed = true,
            Line::Server(at) => self.servers[at].is_lost = true,
        }
    }

    fn scratch(&mut self) -> &mut [u8] {
        &mut self.scratch
    }

    fn read(&mut self, stream: &mut Line, room: Range<usize>) -> io::Result<usize> {
        let Self { clients, servers, scratch, .. } = self;
        let unread = match stream {
            Line::Client(at) => &mut clients[*at].unread,
            Line::Server(at) => &mut servers[*at].unread,
        };
        unread.read(&mut scratch[room])
    }

    fn write(&mut self, stream: &mut Line, bytes: &[u8]) -> io::Result<usize> {
        match stream {
            Line::Client(at) => self.clients[*at].got.extend_from_slice(bytes),
            Line::Server(at) => self.hear(*at, bytes),
        }
        Ok(bytes.len())
    }

    fn connect(&mut self, _: Side, _: &Server, attempt: usize) -> Option<Result<Line, NotBegun>> {
        if attempt > 0 {
            return None;
        }
        let mut server = PlayedServer::default();
        let mut bytes = Vec::new();
        greeting().put(&mut bytes, 0);
        server.unread.bytes.extend(bytes);
        self.servers.push(server);
        Some(Ok(Line::Server(self.servers.len() - 1)))
    }

    fn connecting(&mut self, _: &mut Line, _: Place) -> Connecting {
        Connecting::Done
    }

    fn accept_tls(&mut self, _: &mut Line) -> Result<Clear, String> {
        panic!("the worker offers TLS")
    }

    fn connect_tls(
        &mut self,
        _: &mut Line,
        _: &Server,
        _: &Arc<TlsParams>,
    ) -> Result<Clear, String> {
        panic!("the worker asks for TLS")
    }

    fn post(&mut self, to: usize, _: Mail<Line>) -> Option<Mail<Line>> {
        panic!("there is no worker {to}")
    }

    fn ask(&mut self, worker: &mut Worker, request: Request) {
        match request {
            Request::AskCatalog(ask) => {
                let waiters = worker.catalog().settle_as_tables(&ask.names, ask.asked_ms);
                let clients = by_worker(waiters).into_values().flatten().collect();
                worker.catalog_told(clients);
            }
            Request::TellAdministrator(..) | Request::Log(_) => {}
            other => panic!("the worker asks for {other:?}"),
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
