//! One script, sent directly and through the proxy: the answers must be the same bytes.

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::{put_lenenc_bytes, put_u16, put_u32};
use trunkline_protocol::packet::track::{Change, Changes};
use trunkline_protocol::packet::{ok, status};
use trunkline_testkit::{Flavour, Server};

use crate::backends::{self, Config, PASSWORD};
use crate::wire::{Endpoint, PLAIN, Shape, Wire, code, login, payloads};

const SCRIPT: &str = include_str!("differential/script.txt");

/// A step whose answer may differ, for whom, and why.
struct Known {
    step: &'static str,
    flavour: Option<Flavour>,
    reason: &'static str,
}

/// Every difference that is known and accepted.
const KNOWN_DIFFERENCES: &[Known] = &[Known {
    step: "@set_option 0",
    flavour: Some(Flavour::MySql),
    reason: "MySQL repeats the number of warnings of the statement before; the proxy answers this \
             command itself and says 0",
}];

/// One line of the script.
#[derive(Clone, Debug)]
struct Step {
    line: usize,
    text: String,
    /// Only the form of the answer is compared.
    differs_by_nature: bool,
}

fn steps(flavour: Flavour, schema: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for (index, line) in SCRIPT.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let own = match flavour {
            Flavour::MariaDb => "mariadb> ",
            Flavour::MySql => "mysql> ",
        };
        let other = if own == "mysql> " { "mariadb> " } else { "mysql> " };
        if line.starts_with(other) {
            continue;
        }
        let line = line.strip_prefix(own).unwrap_or(line);
        let text = line.strip_prefix('~').unwrap_or(line);
        let differs_by_nature = text.len() < line.len();
        steps.push(Step { line: index + 1, text: text.replace("{db}", schema), differs_by_nature });
    }
    steps
}

/// One side of the comparison.
struct Run<'a> {
    wire: Wire,
    schema: &'a str,
    stmt_id: u32,
}

impl<'a> Run<'a> {
    fn begin(endpoint: Endpoint, schema: &'a str, wanted: Capabilities) -> Result<Run<'a>> {
        let wire = Wire::login_with(endpoint, login(schema, PASSWORD, schema, wanted))?;
        Ok(Run { wire, schema, stmt_id: u32::MAX })
    }

    fn step(&mut self, text: &str) -> Result<Vec<u8>> {
        let Some(command) = text.strip_prefix('@') else {
            return self.wire.exchange(code::QUERY, text.as_bytes(), Shape::Results);
        };
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        match name {
            "ping" => self.wire.exchange(code::PING, b"", Shape::Single),
            "init_db" => self.wire.exchange(code::INIT_DB, rest.as_bytes(), Shape::Single),
            "unknown" => self.wire.exchange(rest.parse()?, b"", Shape::Single),
            "reset_connection" => self.wire.exchange(code::RESET_CONNECTION, b"", Shape::Single),
            "set_option" => {
                let option: u16 = rest.parse()?;
                self.wire.exchange(code::SET_OPTION, &option.to_le_bytes(), Shape::Single)
            }
            "field_list" => {
                let (table, wild) = rest.split_once(' ').unwrap_or((rest, ""));
                let body = format!("{table}\0{wild}");
                self.wire.exchange(code::FIELD_LIST, body.as_bytes(), Shape::UntilEof)
            }
            "change_user" => {
                // The exchange itself holds salts.
                self.wire.change_user(self.schema, PASSWORD, self.schema)?;
                Ok(Vec::new())
            }
            _ => self.prepared(name, rest),
        }
    }

    fn prepared(&mut self, name: &str, rest: &str) -> Result<Vec<u8>> {
        let id = self.stmt_id.to_le_bytes();
        match name {
            "prepare" => self.prepare(rest),
            "execute" => self.execute(self.stmt_id, 0, rest),
            "execute_cursor" => self.execute(self.stmt_id, 1, rest),
            "execute_unknown" => self.execute(4_000_000_000, 0, rest),
            "fetch" => {
                let mut body = id.to_vec();
                put_u32(&mut body, rest.parse()?);
                self.wire.exchange(code::STMT_FETCH, &body, Shape::UntilEof)
            }
            "long" => {
                let (parameter, data) = rest.split_once(' ').context("long data")?;
                let mut body = id.to_vec();
                put_u16(&mut body, parameter.parse()?);
                body.extend_from_slice(data.as_bytes());
                self.wire.exchange(code::STMT_SEND_LONG_DATA, &body, Shape::Nothing)
            }
            "reset" => self.wire.exchange(code::STMT_RESET, &id, Shape::Single),
            "reset_unknown" => {
                let id = 4_000_000_000_u32.to_le_bytes();
                self.wire.exchange(code::STMT_RESET, &id, Shape::Single)
            }
            "close" => self.wire.exchange(code::STMT_CLOSE, &id, Shape::Nothing),
            other => bail!("no step is called {other}"),
        }
    }

    /// The statement's number is the server's choice, so it is blotted out.
    fn prepare(&mut self, text: &str) -> Result<Vec<u8>> {
        let mut bytes = self.wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
        if let Some([0, id @ ..]) = bytes.get_mut(4..9) {
            self.stmt_id = u32::from_le_bytes(<[u8; 4]>::try_from(&*id)?);
            id.fill(0);
        }
        Ok(bytes)
    }

    fn execute(&mut self, id: u32, cursor: u8, parameters: &str) -> Result<Vec<u8>> {
        let mut body = id.to_le_bytes().to_vec();
        body.extend_from_slice(&[cursor, 1, 0, 0, 0]);
        put_parameters(&mut body, parameters)?;
        self.wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)
    }
}

/// Parameters are `i NUMBER`, `s TEXT`, `n` (NULL) and `l` (sent before as long data), with `|`
/// between them.
fn put_parameters(body: &mut Vec<u8>, parameters: &str) -> Result<()> {
    if parameters.is_empty() {
        return Ok(());
    }
    let list: Vec<&str> = parameters.split('|').collect();
    let mut nulls = vec![0_u8; list.len().div_ceil(8)];
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for (index, parameter) in list.iter().enumerate() {
        let value = parameter.get(2..).unwrap_or_default();
        match parameter.get(..1) {
            Some("i") => {
                types.extend_from_slice(&[0x08, 0]);
                values.extend_from_slice(&value.parse::<i64>()?.to_le_bytes());
            }
            Some("s") => {
                types.extend_from_slice(&[0xFD, 0]);
                put_lenenc_bytes(&mut values, value.as_bytes());
            }
            Some("l") => types.extend_from_slice(&[0xFC, 0]),
            Some("n") => {
                types.extend_from_slice(&[0x06, 0]);
                nulls[index / 8] |= 1 << (index % 8);
            }
            other => bail!("no parameter is of kind {other:?}"),
        }
    }
    body.extend_from_slice(&nulls);
    body.push(1);
    body.extend_from_slice(&types);
    body.extend_from_slice(&values);
    Ok(())
}

/// An answer as it is compared.
///
/// The proxy has a server track more of the session than a client would, so with session tracking
/// the state changes are taken out of the OK packets and looked at on their own.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    packets: Vec<Vec<u8>>,
    changes: Vec<String>,
}

impl Seen {
    /// Packets and changes one by one, readable.
    fn split(&self) -> Vec<String> {
        let mut parts = Vec::new();
        for bytes in &self.packets {
            let frames = payloads(bytes);
            let is_framed =
                frames.iter().map(|frame| frame.len() + 4).sum::<usize>() == bytes.len();
            let one = [bytes.clone()];
            let all = if is_framed { &frames[..] } else { &one[..] };
            parts.extend(all.iter().map(|packet| packet.escape_ascii().to_string()));
        }
        parts.extend(self.changes.iter().cloned());
        parts
    }
}

fn seen(step: &Step, bytes: &[u8], wanted: Capabilities) -> Seen {
    if !wanted.contains(Capabilities::SESSION_TRACK) {
        // The frames too: their numbers must be the same.
        return Seen { packets: vec![bytes.to_vec()], changes: Vec::new() };
    }
    let mut changes = Vec::new();
    let packets = payloads(bytes).into_iter();
    let is_rowless = !step.text.starts_with("@prepare") && !step.text.starts_with("@field_list");
    let packets = packets.map(|mut packet| match packet.first() {
        // EOF can't carry changes, but says that there were some.
        Some(0xFE) if packet.len() == 5 => {
            packet[4] &= !(status::SESSION_STATE_CHANGED >> 8) as u8;
            packet
        }
        Some(0x00 | 0xFE) if is_rowless => strip(&packet, &mut changes).unwrap_or(packet),
        _ => packet,
    });
    let packets = packets.collect();
    Seen { packets, changes }
}

/// An OK packet without its state changes.
fn strip(packet: &[u8], changes: &mut Vec<String>) -> Option<Vec<u8>> {
    let ok = ok::parse(packet, true).ok()?;
    if ok.status & status::SESSION_STATE_CHANGED == 0 {
        return None;
    }
    let text = |change: Change<'_>| match change {
        Change::SystemVariable { name, value } => {
            format!("{} = {}", name.escape_ascii(), value.escape_ascii())
        }
        other => format!("{other:?}"),
    };
    changes.extend(Changes::new(ok.changes).filter_map(|change| change.ok().map(text)));
    let mut out = Vec::new();
    let plain = ok::OkPacket { changes: b"", ..ok };
    let format =
        ok::ReplyFormat { deprecate_eof: true, session_track: true, ..ok::ReplyFormat::PLAIN };
    if packet.first() == Some(&0) {
        ok::put_ok(&mut out, 0, &plain, format);
    } else {
        ok::put_result_end(&mut out, 0, &plain, format);
    }
    Some(out.split_off(4))
}

fn known(step: &Step, flavour: Flavour) -> Option<&'static Known> {
    KNOWN_DIFFERENCES
        .iter()
        .find(|known| known.step == step.text && known.flavour.is_none_or(|only| only == flavour))
}

fn compare(
    step: &Step,
    direct: &Seen,
    proxied: &Seen,
    flavour: Flavour,
    report: &mut String,
) -> Result<()> {
    let is_told = direct.changes.iter().all(|change| proxied.changes.contains(change));
    let is_same = match step.differs_by_nature {
        true => {
            payloads(&direct.packets.concat()).len() == payloads(&proxied.packets.concat()).len()
        }
        false => direct.packets == proxied.packets && is_told,
    };
    match (is_same, known(step, flavour)) {
        (true, _) => {}
        (false, Some(known)) => ensure!(!known.reason.is_empty(), "a difference has a reason"),
        (false, None) => {
            writeln!(report, "line {}: {}", step.line, step.text)?;
            let (direct, proxied) = (direct.split(), proxied.split());
            let count = direct.len().max(proxied.len());
            let differing = (0..count).filter(|at| direct.get(*at) != proxied.get(*at));
            for at in differing.take(4) {
                let (direct, proxied) = (direct.get(at), proxied.get(at));
                writeln!(
                    report,
                    "  direct  {at}: {direct:.300?}\n  proxied {at}: {proxied:.300?}"
                )?;
            }
        }
    }
    Ok(())
}

fn run_all(run: &mut Run<'_>, steps: &[Step], wanted: Capabilities) -> Result<Vec<Seen>> {
    let mut all = Vec::with_capacity(steps.len());
    for step in steps {
        let bytes =
            run.step(&step.text).with_context(|| format!("line {}: {}", step.line, step.text))?;
        all.push(seen(step, &bytes, wanted));
    }
    Ok(all)
}

fn check(server: &Server, name: &str, wanted: Capabilities) -> Result<()> {
    check_before(server, name, wanted, Capabilities::EMPTY, "")
}

/// Checks with a client that compresses, and further keys for the server's table.
fn check_before(
    server: &Server,
    name: &str,
    wanted: Capabilities,
    compression: Capabilities,
    server_keys: &str,
) -> Result<()> {
    let flavour = server.flavour();
    let schema = format!("diff_{name}");
    let steps = steps(flavour, &schema);
    assert!(steps.len() >= 350, "only {} steps", steps.len());
    let wanted = wanted | PLAIN;

    backends::account(server, &schema)?;
    let mut direct = Run::begin(server.into(), &schema, wanted)?;
    let expected = run_all(&mut direct, &steps, wanted).context("direct")?;
    drop(direct);

    backends::account(server, &schema)?;
    let proxy = Config::new("", server).more(server_keys).user(&schema).start()?;
    let mut proxied = Run::begin((&proxy).into(), &schema, wanted | compression)?;
    let got = run_all(&mut proxied, &steps, wanted)
        .with_context(|| format!("proxied; its log:\n{}", proxy.log()))?;

    let mut report = String::new();
    for ((step, direct), proxied) in steps.iter().zip(&expected).zip(&got) {
        compare(step, direct, proxied, flavour, &mut report)?;
    }
    assert!(report.is_empty(), "answers differ:\n{report}");
    Ok(())
}

const EOF: Capabilities = Capabilities::EMPTY;
const NO_EOF: Capabilities = Capabilities::DEPRECATE_EOF;
const TRACK: Capabilities = Capabilities::SESSION_TRACK;

macro_rules! differential {
    ($($test:ident: $server:ident, $wanted:expr;)+) => { $(
        #[test]
        fn $test() -> Result<()> {
            let name = stringify!($test);
            let Some(server) = backends::$server(name)? else { return Ok(()) };
            check(server, name, $wanted)
        }
    )+ };
}

differential! {
    mariadb_eof: mariadb, EOF;
    mariadb_eof_track: mariadb, EOF.union(TRACK);
    mariadb_no_eof: mariadb, NO_EOF;
    mariadb_no_eof_track: mariadb, NO_EOF.union(TRACK);
    mysql_eof: mysql, EOF;
    mysql_eof_track: mysql, EOF.union(TRACK);
    mysql_no_eof: mysql, NO_EOF;
    mysql_no_eof_track: mysql, NO_EOF.union(TRACK);
}

const ZLIB: Capabilities = Capabilities::COMPRESS;
const ZSTD: Capabilities = Capabilities::ZSTD_COMPRESSION_ALGORITHM;

macro_rules! compressed {
    ($($test:ident: $server:ident, $wanted:expr, $client:expr, $keys:literal;)+) => { $(
        #[test]
        fn $test() -> Result<()> {
            let name = stringify!($test);
            let Some(server) = backends::$server(name)? else { return Ok(()) };
            check_before(server, name, $wanted, $client, $keys)
        }
    )+ };
}

compressed! {
    mariadb_zlib_to_zlib: mariadb, EOF, ZLIB, "compression = 1\n";
    mariadb_zstd_to_plain: mariadb, NO_EOF, ZSTD, "";
    mysql_zlib_to_zstd: mysql, NO_EOF, ZLIB, "compression = \"zstd\"\n";
    mysql_plain_to_zlib: mysql, EOF, EOF, "compression = 1\n";
}
