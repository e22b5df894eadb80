//! A client as a test plays it: what it logs in with, and its answers in words.

use std::net::{IpAddr, Ipv4Addr};

use trunkline_protocol::{
    auth::native,
    capability::Capabilities,
    codec::{Reader, frame::split_packet},
    packet::{err, greeting::NONCE_LEN, handshake_response::HandshakeResponse},
};

use crate::{ClientId, Peer};

/// What a plain client can do.
pub(crate) const CLIENT_CAPABILITIES: Capabilities = Capabilities::PROTOCOL_41
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::PLUGIN_AUTH);

/// A client on this host.
pub(crate) fn local_peer() -> Peer {
    Peer { is_local: true, ..peer_at(IpAddr::V4(Ipv4Addr::LOCALHOST)) }
}

/// A client from elsewhere.
pub(crate) fn peer_at(addr: IpAddr) -> Peer {
    Peer { client_addr: Some(addr), ..Peer::default() }
}

/// Who a client says it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    pub(crate) schema: Option<&'a str>,
    pub(crate) charset: u8,
    pub(crate) capabilities: Capabilities,
}

impl Default for Login<'_> {
    fn default() -> Self {
        let capabilities = CLIENT_CAPABILITIES;
        Self { user: "app", password: "app", schema: None, charset: 45, capabilities }
    }
}

impl Login<'_> {
    /// The answer to the worker's greeting.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let stage1 = native::stage1(self.password.as_bytes());
        let scramble = native::scramble(&stage1, &[b'm'; NONCE_LEN]);
        let mut capabilities = self.capabilities;
        if self.schema.is_some() {
            capabilities.insert(Capabilities::CONNECT_WITH_DB);
        }
        let response = HandshakeResponse {
            capabilities,
            packet_len_max: 1 << 24,
            charset: self.charset,
            user: self.user.as_bytes(),
            auth: &scramble,
            schema: self.schema.map(str::as_bytes),
            plugin: Some(b"mysql_native_password"),
            attributes: Default::default(),
            zstd_level: None,
        };
        let mut out = Vec::new();
        response.put(&mut out, 1);
        out
    }
}

/// A client that is connected, or was.
pub(super) struct TestClient {
    pub(super) id: ClientId,
    pub(super) capabilities: Capabilities,
    pub(super) got: Vec<u8>,
    pub(super) is_closed: bool,
    /// It takes no bytes.
    pub(super) is_stalled: bool,
}

impl TestClient {
    pub(super) fn new(id: ClientId) -> Self {
        let (capabilities, got) = (CLIENT_CAPABILITIES, Vec::new());
        Self { id, capabilities, got, is_closed: false, is_stalled: false }
    }
}

/// Each answer in words: `ok`, `error 1064: text`, `rows a, b` with the first column's values, and
/// the first byte of anything else.
pub(super) fn summaries(mut bytes: &[u8], capabilities: Capabilities) -> Vec<String> {
    let has_eof = !capabilities.contains(Capabilities::DEPRECATE_EOF);
    let mut answers = Vec::new();
    while let Some(payload) = next(&mut bytes) {
        answers.push(match payload {
            [0x00, ..] => "ok".to_owned(),
            [0xFF, ..] => error(payload),
            [0xFE, ..] => "eof".to_owned(),
            [columns @ 1..=16, ..] if payload.len() < 3 => {
                let definitions = usize::from(*columns) + usize::from(has_eof);
                for _ in 0..definitions {
                    next(&mut bytes);
                }
                rows(&mut bytes)
            }
            other => format!("0x{:02X} of {}", other.first().unwrap_or(&0), other.len()),
        });
    }
    answers
}

fn next<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (_, payload, rest) = split_packet(bytes)?;
    *bytes = rest;
    Some(payload)
}

fn rows(bytes: &mut &[u8]) -> String {
    let mut values = Vec::new();
    loop {
        match next(bytes) {
            None => return format!("rows {} and no end", values.join(", ")),
            Some(payload @ [0xFF, ..]) => {
                return format!("rows {}, {}", values.join(", "), error(payload));
            }
            Some([0xFE, rest @ ..]) if rest.len() < 9 => {
                return format!("rows {}", values.join(", ")).trim_end().to_owned();
            }
            Some(row) => {
                let value = Reader::new(row).lenenc_bytes("value").unwrap_or(b"NULL");
                values.push(String::from_utf8_lossy(value).into_owned());
            }
        }
    }
}

fn error(payload: &[u8]) -> String {
    let error = err::parse(payload).expect("an error");
    format!("error {}: {}", error.code, String::from_utf8_lossy(error.message))
}
