//! The server's first packet.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | protocol version, 10 |
//! | n, NUL | server version |
//! | 4 | connection id |
//! | 8 | first part of the nonce |
//! | 1 | 0 |
//! | 2 | capabilities, bits 0 to 15 |
//! | 1 | default charset: a collation id's low byte |
//! | 2 | status flags |
//! | 2 | capabilities, bits 16 to 31 |
//! | 1 | length of the nonce with its NUL, or 0 |
//! | 6 | 0 |
//! | 4 | MariaDB without `LONG_PASSWORD`: capabilities, bits 32 to 63; else 0 |
//! | 12, NUL | rest of the nonce |
//! | n, NUL | default authentication plug-in, with `PLUGIN_AUTH` |
//!
//! Sources: MySQL internals "Protocol::HandshakeV10", MariaDB knowledge base "Connection".

use crate::{
    capability::Capabilities,
    codec::{Malformed, Reader, frame, put_nul_str, put_u16, put_u32},
    packet::err::{self, ErrPacket},
};

/// The only protocol version in use since MySQL 3.21.
pub const PROTOCOL_VERSION: u8 = 10;
/// Bytes of a nonce, without the NUL that follows it on the wire.
pub const NONCE_LEN: usize = 20;
/// Bytes of the nonce in the first of its two places.
const NONCE_HEAD_LEN: usize = 8;

/// Whose dialect a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// MySQL, Percona Server, and all that is not MariaDB.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Flavor {
    /// The flavor that a version text tells: MariaDB always names itself in it.
    pub fn of_version(version: &str) -> Self {
        let name = b"mariadb";
        let named =
            version.as_bytes().windows(name.len()).any(|part| part.eq_ignore_ascii_case(name));
        if named { Self::MariaDb } else { Self::MySql }
    }
}

/// What a server says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Protocol version, always [`PROTOCOL_VERSION`].
    pub protocol_version: u8,
    /// Version text, such as `10.11.19-MariaDB`. Bytes that are not UTF-8 are replaced.
    pub server_version: String,
    /// The server's number for the connection.
    pub connection_id: u32,
    /// Random bytes that passwords are hashed with.
    pub nonce: [u8; NONCE_LEN],
    /// What the server can do.
    pub capabilities: Capabilities,
    /// Low byte of the default collation's id.
    pub charset: u8,
    /// Status flags.
    pub status: u16,
    /// Default authentication plug-in; empty without `PLUGIN_AUTH`.
    pub auth_plugin: String,
}

/// The first packet of a server: it greets, or it refuses at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening<'a> {
    /// The handshake goes on.
    Greeting(Greeting),
    /// Too many connections, host blocked, or the like. Carries no SQLSTATE on most servers.
    Refused(ErrPacket<'a>),
}

impl<'a> Opening<'a> {
    /// Reads a server's first payload.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        match payload.first() {
            Some(0xFF) => err::parse(payload).map(Self::Refused),
            Some(_) | None => Greeting::parse(payload).map(Self::Greeting),
        }
    }
}

impl Greeting {
    /// Reads the payload of a greeting. An error packet is malformed here; see [`Opening`].
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let protocol_version = reader.u8("protocol version")?;
        if protocol_version != PROTOCOL_VERSION {
            return Err(Malformed("protocol version"));
        }
        let server_version =
            String::from_utf8_lossy(reader.nul_str("server version")?).into_owned();
        let connection_id = reader.u32("connection id")?;
        let nonce_head = reader.bytes(NONCE_HEAD_LEN, "nonce")?;
        reader.bytes(1, "filler")?;
        let low = reader.u16("capabilities")?;
        let charset = reader.u8("charset")?;
        let status = reader.u16("status")?;
        let high = reader.u16("capabilities")?;
        let nonce_len = usize::from(reader.u8("nonce length")?);
        reader.bytes(6, "filler")?;
        let extended = reader.u32("extended capabilities")?;
        let mut capabilities =
            Capabilities::from_halves(u32::from(high) << 16 | u32::from(low), extended);
        if capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities.remove(Capabilities::EXTENDED);
        }
        let tail_len = nonce_len.saturating_sub(NONCE_HEAD_LEN).max(13);
        let nonce_tail = reader.bytes(tail_len, "nonce")?;
        let nonce = nonce_of(nonce_head, nonce_tail).ok_or(Malformed("nonce"))?;
        let auth_plugin = match capabilities.contains(Capabilities::PLUGIN_AUTH) {
            true => read_plugin(&mut reader)?,
            false => String::new(),
        };
        Ok(Self {
            protocol_version,
            server_version,
            connection_id,
            nonce,
            capabilities,
            charset,
            status,
            auth_plugin,
        })
    }

    /// Appends the greeting as the packet numbered `seq`; returns the number that follows.
    pub fn put(&self, out: &mut Vec<u8>, seq: u8) -> u8 {
        let start = frame::begin_packet(out, seq);
        let (nonce_head, nonce_tail) = self.nonce.split_at(NONCE_HEAD_LEN);
        let has_plugin = self.capabilities.contains(Capabilities::PLUGIN_AUTH);
        let [caps_a, caps_b, caps_c, caps_d] = self.capabilities.low().to_le_bytes();
        out.push(self.protocol_version);
        put_nul_str(out, self.server_version.as_bytes());
        put_u32(out, self.connection_id);
        out.extend_from_slice(nonce_head);
        out.push(0);
        out.extend_from_slice(&[caps_a, caps_b]);
        out.push(self.charset);
        put_u16(out, self.status);
        out.extend_from_slice(&[caps_c, caps_d]);
        out.push(if has_plugin { 21 } else { 0 });
        out.extend_from_slice(&[0; 6]);
        let is_extended = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        put_u32(out, if is_extended { self.capabilities.extended() } else { 0 });
        out.extend_from_slice(nonce_tail);
        out.push(0);
        if has_plugin {
            put_nul_str(out, self.auth_plugin.as_bytes());
        }
        frame::end_packet(out, start);
        seq.wrapping_add(1)
    }

    /// Whose dialect the server speaks.
    pub fn flavor(&self) -> Flavor {
        Flavor::of_version(&self.server_version)
    }

    /// Whether the server says why before it closes a connection that has rested for too long
    /// ([`ErrorKind::Inactivity`](crate::error::ErrorKind::Inactivity)). Source: MySQL's release
    /// notes of 8.0.24 (`ER_CLIENT_INTERACTION_TIMEOUT`); MariaDB 10.11 closes without a word.
    pub fn tells_of_inactivity(&self) -> bool {
        let mut numbers = self.server_version.split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next().and_then(|part| part.parse::<u32>().ok()).unwrap_or(0);
        self.flavor() == Flavor::MySql && [number(), number(), number()] >= [8, 0, 24]
    }
}

fn nonce_of(head: &[u8], tail: &[u8]) -> Option<[u8; NONCE_LEN]> {
    let mut nonce = [0; NONCE_LEN];
    let (nonce_head, nonce_tail) = nonce.split_at_mut(NONCE_HEAD_LEN);
    nonce_head.copy_from_slice(head);
    nonce_tail.copy_from_slice(tail.get(..NONCE_LEN - NONCE_HEAD_LEN)?);
    Some(nonce)
}

fn read_plugin(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let name = reader.nul_str("auth plug-in")?;
    Ok(String::from_utf8_lossy(name).into_owned())
}
