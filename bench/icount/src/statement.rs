//! A whole statement: one worker between a client and a server that are played here.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};
use trunkline_config::parse;
use trunkline_protocol::auth::native;
use trunkline_protocol::capability::Capabilities;
use trunkline_protocol::codec::frame::put_payload;
use trunkline_protocol::packet::handshake_response::HandshakeResponse;
use trunkline_worker::shell::Shell;
use trunkline_worker::{Now, Shared, Worker, WorkerOptions};

use crate::play::{Line, NONCE, Play, greeting};
use crate::text::POINT_SELECT;

/// The user; its password is the same word.
const USER: &str = "app";
/// Between two batches.
const BATCH_US: u64 = 50;
/// Batches that a log-in may take before something is wrong.
const BATCHES_MAX: u32 = 100;

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
    stage.log_in(Capabilities::EMPTY)?;
    let mut query = Vec::new();
    put_payload(&mut query, 0, &[&[0x03], POINT_SELECT].concat());
    let first = stage.ask(&query)?;
    stage.play.lose_servers();
    for _ in 0..calls {
        ensure!(stage.ask(&query)? == first, "replies differ");
    }
    Ok(())
}

/// Traces are on, and this statement has no spans.
pub fn point_select_with_traces(calls: u64) -> Result<()> {
    run_in(Stage::with(&traces(0))?, Capabilities::EMPTY, calls)
}

/// It has, and nobody takes them.
pub fn point_select_with_spans(calls: u64) -> Result<()> {
    run_in(Stage::with(&traces(1))?, Capabilities::EMPTY, calls)
}

/// Room for all statements of a run.
fn traces(sample: u8) -> String {
    format!("[trace]\notlp = \"http://127.0.0.1:4318\"\nsample = {sample}\nring_max = 65536\n")
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
    stage.log_in(Capabilities::EMPTY)?;
    let mut queries: Vec<Vec<u8>> = Vec::new();
    for text in TRANSACTION {
        let mut query = Vec::new();
        put_payload(&mut query, 0, &[&[0x03], text.as_bytes()].concat());
        let times = if text.as_bytes() == POINT_SELECT { POINT_SELECTS } else { 1 };
        queries.extend(std::iter::repeat_n(query, times));
    }
    for _ in 0..calls {
        for query in &queries {
            ensure!(stage.ask(query)? > 0, "no answer");
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
    stage.log_in(client_capabilities)?;
    let packet = |payload: &[u8]| {
        let mut packet = Vec::new();
        put_payload(&mut packet, 0, payload);
        packet
    };
    stage.ask(&packet(&[&[0x16], PREPARED].concat()))?;
    let execute = packet(payload);
    stage.ask(&packet(TYPED))?;
    let first = stage.ask(&execute)?;
    ensure!(first > 80, "the client got {first} bytes");
    for _ in 0..calls {
        ensure!(stage.ask(&execute)? == first, "replies differ");
    }
    Ok(())
}

fn run(client_capabilities: Capabilities, calls: u64) -> Result<()> {
    run_in(Stage::new()?, client_capabilities, calls)
}

fn run_in(mut stage: Stage, client_capabilities: Capabilities, calls: u64) -> Result<()> {
    stage.log_in(client_capabilities)?;
    let mut query = Vec::new();
    put_payload(&mut query, 0, &[&[0x03], POINT_SELECT].concat());
    // The first one opens the connection to the server.
    let first = stage.ask(&query)?;
    ensure!(first > 100, "the client got {first} bytes");
    for _ in 0..calls {
        ensure!(stage.ask(&query)? == first, "replies differ");
    }
    Ok(())
}

/// The worker in its shell, and everybody around it.
struct Stage {
    shell: Shell<Line>,
    play: Play,
    now: Now,
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
        Ok(Stage { shell: Shell::new(worker, options), play: Play::new(), now })
    }

    /// A client connects and logs in.
    fn log_in(&mut self, capabilities: Capabilities) -> Result<()> {
        self.play.knock();
        self.exchange()?;
        let scramble = native::scramble(&native::stage1(USER.as_bytes()), &NONCE);
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
        let written = self.ask(&out)?;
        ensure!(written > 0, "the log-in was not answered");
        Ok(())
    }

    /// Bytes of the client, and all that follows from them; how many bytes it got back.
    fn ask(&mut self, bytes: &[u8]) -> Result<usize> {
        self.play.client_says(black_box(bytes));
        self.exchange()
    }

    /// Batches until nothing happens any more; how many bytes the client got.
    fn exchange(&mut self) -> Result<usize> {
        for _ in 0..BATCHES_MAX {
            self.now.us += BATCH_US;
            self.shell.batch(&mut self.play, self.now);
            if !self.play.has_events() {
                return self.play.take_written();
            }
        }
        bail!("the exchange does not come to an end")
    }
}
