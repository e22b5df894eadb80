//! A client that costs this process little: a socket.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use trunkline_protocol::auth::native;
use trunkline_protocol::capability::Capabilities;
use trunkline_protocol::codec::frame::{HEADER_LEN, Header, put_payload};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_protocol::packet::handshake_response::HandshakeResponse;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest packet that is read, in bytes.
const PACKET_MAX: usize = 64 * 1_024;

/// A client.
pub struct Client {
    stream: TcpStream,
}

impl Client {
    /// Logs in with a password that is the user's name.
    pub fn connect(port: u16, user: &str, schema: &str) -> Result<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let mut client = Client { stream };
        let (seq, payload) = client.read_packet()?;
        let greeting = Greeting::parse(&payload).context("the greeting")?;
        let scramble = native::scramble(&native::stage1(user.as_bytes()), &greeting.nonce);
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
            user: user.as_bytes(),
            auth: &scramble,
            schema: Some(schema.as_bytes()),
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

    /// Sends a statement and reads its rows and two EOFs.
    pub fn run(&mut self, statement: &str) -> Result<()> {
        let mut out = Vec::new();
        put_payload(&mut out, 0, &[b"\x03", statement.as_bytes()].concat());
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
