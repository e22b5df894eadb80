//! A whole statement: one worker between a client and a server that are played here.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use trunkline_config::parse;
use trunkline_protocol::auth::native;
use trunkline_protocol::capability::Capabilities;
use trunkline_protocol::codec::frame::{put_payload, split_packet};
use trunkline_protocol::packet::eof::{EofPacket, put_eof};
use trunkline_protocol::packet::greeting::{Greeting, NONCE_LEN};
use trunkline_protocol::packet::handshake_response::{ClientOpening, HandshakeResponse};
use trunkline_protocol::packet::ok::{OkPacket, put_ok};
use trunkline_protocol::packet::status;
use trunkline_protocol::response::ReplyFormat;
use trunkline_worker::{
    Action, ClientId, ConnId, Now, Peer, Shared, Side, Worker, WorkerOptions, by_worker,
};

use crate::text::POINT_SELECT;
use crate::wire::{reply, reply_with};

/// The user; its password is the same word.
const USER: &str = "app";
/// Between two batches.
const BATCH_US: u64 = 50;
/// Rounds of exchanges that a log-in may take before something is wrong.
const ROUNDS_MAX: u32 = 100;

const CONFIG: &str = r#"
[[server]]
hostgroup = 10
address = "127.0.0.1:3306"
[[server]]
hostgroup = 20
address = "127.0.0.1:3306"
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
[[replication]]
writer_hostgroup = 10
reader_hostgroup = 20
"#;

pub fn point_select(calls: u64) -> Result<()> {
    run(Capabilities::EMPTY, calls)
}

/// A point select that the result cache answers: no server is asked.
pub fn point_select_cache_hit(calls: u64) -> Result<()> {
    let rule = "[[rule]]\nid = 21\nmatch_digest = \"^SELECT c\"\ncache_ttl = 3600000\n";
    let mut stage = Stage::with(rule)?;
    let client = stage.log_in(Capabilities::EMPTY)?;
    let mut query = Vec::new();
    put_payload(&mut query, 0, &[&[0x03], POINT_SELECT].concat());
    let first = stage.ask(client, &query)?;
    stage.servers.clear();
    for _ in 0..calls {
        ensure!(stage.ask(client, &query)? == first, "replies differ");
    }
    Ok(())
}

pub fn point_select_deprecate_eof(calls: u64) -> Result<()> {
    run(Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK, calls)
}

/// The statements of sysbench's `oltp_read_write`, but for their literals.
const TRANSACTION: [&str; 11] = [
    "BEGIN",
    "SELECT c FROM sbtest1 WHERE id=5012",
    "SELECT c FROM sbtest1 WHERE id BETWEEN 5012 AND 5111",
    "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 5012 AND 5111",
    "SELECT c FROM sbtest1 WHERE id BETWEEN 5012 AND 5111 ORDER BY c",
    "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 5012 AND 5111 ORDER BY c",
    "UPDATE sbtest1 SET k=k+1 WHERE id=5012",
    "UPDATE sbtest1 SET c='a text of a hundred and twenty bytes in sysbench' WHERE id=5012",
    "DELETE FROM sbtest1 WHERE id=5012",
    "INSERT INTO sbtest1 (id, k, c, pad) VALUES (5012, 4711, 'one text', 'another text')",
    "COMMIT",
];
/// Point selects of a transaction.
const POINT_SELECTS: usize = 10;

pub fn read_write_transaction(calls: u64) -> Result<()> {
    let mut stage = Stage::new()?;
    let client = stage.log_in(Capabilities::EMPTY)?;
    let mut queries: Vec<Vec<u8>> = Vec::new();
    for text in TRANSACTION {
        let mut query = Vec::new();
        put_payload(&mut query, 0, &[&[0x03], text.as_bytes()].concat());
        let times = if text.as_bytes() == POINT_SELECT { POINT_SELECTS } else { 1 };
        queries.extend(std::iter::repeat_n(query, times));
    }
    for _ in 0..calls {
        for query in &queries {
            ensure!(stage.ask(client, query)? > 0, "no answer");
        }
    }
    Ok(())
}

/// The text of the prepared ones.
const PREPARED: &[u8] = b"SELECT c FROM sbtest1 WHERE id=?";
/// An execution of the client's first statement: a `LONG` with its type, and without.
const TYPED: &[u8] = b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0\x94\x13\0\0";
const UNTYPED: &[u8] = b"\x17\x01\0\0\0\0\x01\0\0\0\0\0\x94\x13\0\0";

pub fn point_select_prepared(calls: u64) -> Result<()> {
    run_prepared(Capabilities::EMPTY, TYPED, calls)
}

pub fn point_select_prepared_untyped(calls: u64) -> Result<()> {
    run_prepared(Capabilities::EMPTY, UNTYPED, calls)
}

pub fn point_select_prepared_cached(calls: u64) -> Result<()> {
    run_prepared(Capabilities::CACHE_METADATA, UNTYPED, calls)
}

fn run_prepared(client_capabilities: Capabilities, payload: &[u8], calls: u64) -> Result<()> {
    let mut stage = Stage::new()?;
    let client = stage.log_in(client_capabilities)?;
    let packet = |payload: &[u8]| {
        let mut packet = Vec::new();
        put_payload(&mut packet, 0, payload);
        packet
    };
    stage.ask(client, &packet(&[&[0x16], PREPARED].concat()))?;
    let execute = packet(payload);
    stage.ask(client, &packet(TYPED))?;
    let first = stage.ask(client, &execute)?;
    ensure!(first > 80, "the client got {first} bytes");
    for _ in 0..calls {
        ensure!(stage.ask(client, &execute)? == first, "replies differ");
    }
    Ok(())
}

fn run(client_capabilities: Capabilities, calls: u64) -> Result<()> {
    let mut stage = Stage::new()?;
    let client = stage.log_in(client_capabilities)?;
    let mut query = Vec::new();
    put_payload(&mut query, 0, &[&[0x03], POINT_SELECT].concat());
    // The first one opens the connection to the server.
    let first = stage.ask(client, &query)?;
    ensure!(first > 100, "the client got {first} bytes");
    for _ in 0..calls {
        ensure!(stage.ask(client, &query)? == first, "replies differ");
    }
    Ok(())
}

/// Everything that the worker offers to clients and servers offer to it.
fn greeting() -> Greeting {
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

/// The worker, and the servers that it is connected to.
struct Stage {
    worker: Worker,
    now: Now,
    /// What each server connection has agreed on; `None` until the worker's answer came.
    servers: Vec<(ConnId, Option<Played>)>,
    /// What the worker wrote last, and what it is answered: our own play must cost little.
    written: Vec<u8>,
    answer: Vec<u8>,
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

impl Stage {
    fn new() -> Result<Stage> {
        Self::with("")
    }

    /// With this at the end of its configuration.
    fn with(more: &str) -> Result<Stage> {
        let mut text = CONFIG.to_owned();
        for id in 1..=20 {
            let rule = crate::decide::rule(id);
            let pattern = rule.match_digest.unwrap_or_default();
            text.push_str(&format!(
                "[[rule]]\nid = {id}\nmatch_digest = \"{pattern}\"\n\
                 destination_hostgroup = 10\napply = true\n"
            ));
        }
        text.push_str(more);
        let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
        let config = parse(&text, "icount.toml", &no_files).map_err(|errors| {
            anyhow!(
                "the configuration: {}",
                errors.iter().map(ToString::to_string).collect::<String>()
            )
        })?;
        let snapshot = Arc::new(config.snapshot(None));
        let options = WorkerOptions { index: 0, workers: 1, seed: 1 };
        let shared = Arc::new(Shared::new(None, 16));
        let libraries = Box::new(trunkline_compression::Libraries::new());
        let worker = Worker::new(options, snapshot, shared, Arc::new(greeting()), libraries);
        let now = Now { us: 1_000_000, unix_sec: 1_700_000_000 };
        let (written, answer) = Default::default();
        Ok(Stage { worker, now, servers: Vec::new(), written, answer })
    }

    /// A client connects and logs in.
    fn log_in(&mut self, capabilities: Capabilities) -> Result<ClientId> {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let peer = Arc::new(Peer {
            client_addr: Some(address),
            proxy_addr: Some(address),
            proxy_port: Some(6_033),
            is_local: true,
            ..Peer::default()
        });
        self.begin_batch();
        let nonce = [b'm'; NONCE_LEN];
        let client = self.worker.accept(peer, nonce).context("the client is not let in")?;
        self.exchange(client)?;
        let scramble = native::scramble(&native::stage1(USER.as_bytes()), &nonce);
        let response = HandshakeResponse {
            capabilities: Capabilities::PROTOCOL_41
                | Capabilities::SECURE_CONNECTION
                | Capabilities::PLUGIN_AUTH
                | Capabilities::CONNECT_WITH_DB
                | capabilities,
            packet_len_max: 1 << 24,
            charset: 45,
            user: USER.as_bytes(),
            auth: &scramble,
            schema: Some(b"sbtest"),
            plugin: Some(b"mysql_native_password"),
            attributes: Default::default(),
            zstd_level: None,
        };
        let mut out = Vec::new();
        response.put(&mut out, 1);
        let written = self.ask(client, &out)?;
        ensure!(written > 0, "the log-in was not answered");
        Ok(client)
    }

    /// Bytes of the client, and all that follows from them; how many bytes it got back.
    fn ask(&mut self, client: ClientId, bytes: &[u8]) -> Result<usize> {
        self.begin_batch();
        self.worker.client_read(client, black_box(bytes));
        self.exchange(client)
    }

    fn begin_batch(&mut self) {
        self.now.us += BATCH_US;
        self.worker.begin_batch(self.now);
    }

    /// Plays driver and servers until nothing is left to do.
    fn exchange(&mut self, client: ClientId) -> Result<usize> {
        let mut to_client = 0;
        for _ in 0..ROUNDS_MAX {
            self.worker.tick();
            let mut actions = self.worker.take_actions();
            let mut is_quiet = actions.is_empty();
            for action in actions.drain(..) {
                self.act(action)?;
            }
            self.worker.recycle_actions(actions);
            while let Some(side) = self.worker.next_dirty() {
                let len = self.worker.pending(side).len();
                match side {
                    Side::Client(id) => {
                        ensure!(id == client, "another client was written to");
                        to_client += len;
                        self.worker.wrote(side, len);
                    }
                    Side::Server(id) => {
                        is_quiet = false;
                        self.written.clear();
                        self.written.extend_from_slice(self.worker.pending(side));
                        self.worker.wrote(side, len);
                        self.serve(id)?;
                    }
                }
            }
            if is_quiet {
                return Ok(to_client);
            }
        }
        bail!("the exchange does not come to an end")
    }

    fn act(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Open { conn, .. } => {
                self.servers.push((conn, None));
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
            Action::CloseClient { .. } | Action::Stopped => bail!("the client was closed"),
            Action::CloseServer { .. } => bail!("the server connection was closed"),
            // A probe finds an open connection without bytes; nothing is ever full here.
            Action::Probe(_) | Action::Pause(_) | Action::Resume(_) | Action::Wipe => {}
            Action::Log(line) => bail!("the worker has something to say: {}", line.text),
            Action::StartClientTls(_)
            | Action::StartServerTls { .. }
            | Action::Decrypt { .. }
            | Action::VerifyHash { .. }
            | Action::Encrypt { .. }
            | Action::Derive { .. }
            | Action::AskServer { .. }
            | Action::LookUpUsers
            | Action::LookUpHost(_)
            | Action::LogQuery(_)
            | Action::LogSession(_)
            | Action::TellAdministrator { .. }
            | Action::AskPeers(_)
            | Action::Kill { .. }
            | Action::Killed { .. }
            | Action::WakeCached { .. }
            | Action::AskShared(_)
            | Action::StoreShared(_)
            | Action::HandOver { .. }
            | Action::MoveClient { .. }
            | Action::ClientLeft { .. } => bail!("an action that does not belong here"),
        }
        Ok(())
    }

    /// The server's answers to what the worker wrote, in a batch of their own.
    fn serve(&mut self, conn: ConnId) -> Result<()> {
        self.begin_batch();
        let played = self.servers.iter_mut().find(|(id, _)| *id == conn);
        let (_, played) = played.context("an unknown connection")?;
        let out = &mut self.answer;
        out.clear();
        let mut rest = self.written.as_slice();
        while let Some((header, payload, after)) = split_packet(rest) {
            rest = after;
            let Some(played) = played else {
                let ClientOpening::Response(response) = ClientOpening::parse(payload)? else {
                    bail!("the worker did not answer the greeting");
                };
                let format = ReplyFormat::of(response.capabilities);
                *played = Some(Played::new(format));
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
        self.worker.server_read(conn, black_box(out));
        Ok(())
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
