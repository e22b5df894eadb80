//! Memory of clients that are connected and do nothing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use trunkline_protocol::auth::native;
use trunkline_protocol::capability::Capabilities;
use trunkline_protocol::codec::frame::{HEADER_LEN, Header, put_payload};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_protocol::packet::handshake_response::HandshakeResponse;
use trunkline_testkit::Trunkline;

use super::USER;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Until the proxy has done what follows a wave of clients.
const SETTLE: Duration = Duration::from_secs(1);
/// Largest packet that is read, in bytes.
const PACKET_MAX: usize = 64 * 1_024;
/// `COM_QUERY` and a statement with a small result.
const STATEMENT: &[u8] = b"\x03SELECT c FROM sbtest1 WHERE id = 1";

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Idle {
    /// How many clients.
    pub clients: u32,
    /// Memory of the proxy without clients, in bytes.
    pub empty: u64,
    /// With clients that have logged in.
    pub connected: u64,
    /// With clients that have run one statement each.
    pub used: u64,
    /// How long the log-ins took, one after the other.
    pub login: Duration,
}

impl Idle {
    /// Bytes for each client that has logged in.
    pub fn per_connected(&self) -> f64 {
        per_client(self.connected, self.empty, self.clients)
    }

    /// Bytes for each client that has run a statement.
    pub fn per_used(&self) -> f64 {
        per_client(self.used, self.empty, self.clients)
    }

    /// One line for people.
    pub fn line(&self) -> String {
        format!(
            "memory per idle client: {:.0} bytes after the log-in, {:.0} bytes after one statement \
             ({} clients; {:.1} MiB, {:.1} MiB without clients; log-in {:.0} µs)",
            self.per_connected(),
            self.per_used(),
            self.clients,
            mebibytes(self.used),
            mebibytes(self.empty),
            self.login.as_secs_f64() * 1e6 / f64::from(self.clients.max(1)),
        )
    }
}

/// A number of bytes in MiB.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

#[expect(clippy::cast_precision_loss, reason = "memory fits into 52 bits")]
fn per_client(with: u64, without: u64, clients: u32) -> f64 {
    with.saturating_sub(without) as f64 / f64::from(clients.max(1))
}

/// Opens so many clients of the proxy and looks at its memory.
pub fn measure(trunkline: &Trunkline, clients: u32) -> Result<Idle> {
    // The first client makes what all share.
    let _first = Client::connect(trunkline.port())?;
    std::thread::sleep(SETTLE);
    let empty = trunkline.rss_bytes()?;
    let start = Instant::now();
    let mut all = Vec::with_capacity(clients as usize);
    for number in 0..clients {
        let client = Client::connect(trunkline.port());
        all.push(client.with_context(|| format!("client {number} of {clients}"))?);
    }
    let login = start.elapsed();
    std::thread::sleep(SETTLE);
    let connected = trunkline.rss_bytes()?;
    for (number, client) in all.iter_mut().enumerate() {
        client.run_statement().with_context(|| format!("client {number} of {clients}"))?;
    }
    std::thread::sleep(SETTLE);
    Ok(Idle { clients, empty, connected, used: trunkline.rss_bytes()?, login })
}

/// A client that costs this process little: a socket.
struct Client {
    stream: TcpStream,
}

impl Client {
    fn connect(port: u16) -> Result<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let mut client = Client { stream };
        let (seq, payload) = client.read_packet()?;
        let greeting = Greeting::parse(&payload).context("the greeting")?;
        let scramble = native::scramble(&native::stage1(USER.as_bytes()), &greeting.nonce);
        let wanted = Capabilities::LONG_PASSWORD
            | Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::CONNECT_WITH_DB
            | Capabilities::TRANSACTIONS;
        let response = HandshakeResponse {
            capabilities: wanted,
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
        response.put(&mut out, seq.wrapping_add(1));
        client.stream.write_all(&out)?;
        let (_, payload) = client.read_packet()?;
        expect_ok(&payload)?;
        Ok(client)
    }

    /// Sends a statement and reads its one row and two EOFs.
    fn run_statement(&mut self) -> Result<()> {
        let mut out = Vec::new();
        put_payload(&mut out, 0, STATEMENT);
        self.stream.write_all(&out)?;
        let mut ends = 0;
        while ends < 2 {
            let (_, payload) = self.read_packet()?;
            match payload.first() {
                Some(0xFF) => bail!("refused: {}", String::from_utf8_lossy(&payload)),
                Some(0xFE) if payload.len() < 9 => ends += 1,
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn read_packet(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut head = [0; HEADER_LEN];
        self.stream.read_exact(&mut head)?;
        let header = Header::read(&head).context("a header")?;
        anyhow::ensure!(
            header.payload_len <= PACKET_MAX,
            "a packet of {} bytes",
            header.payload_len
        );
        let mut payload = vec![0; header.payload_len];
        self.stream.read_exact(&mut payload)?;
        Ok((header.seq, payload))
    }
}

fn expect_ok(payload: &[u8]) -> Result<()> {
    match payload.first() {
        Some(0x00) => Ok(()),
        Some(0xFF) => bail!("refused: {}", String::from_utf8_lossy(payload)),
        Some(_) | None => bail!("the log-in was answered with {payload:02x?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_out_among_the_clients() {
        let idle = Idle {
            clients: 1_000,
            empty: 10_000_000,
            connected: 12_000_000,
            used: 9_000_000,
            login: Duration::from_millis(200),
        };
        assert!((idle.per_connected() - 2_000.0).abs() < f64::EPSILON);
        assert!(idle.per_used().abs() < f64::EPSILON);
        assert!(idle.line().contains("log-in 200 µs"), "{}", idle.line());
    }
}
