//! What a balancer puts before its client's first byte: the header of the PROXY protocol.
//!
//! | version | bytes |
//! |---|---|
//! | 1 | `PROXY TCP4 192.0.2.7 198.51.100.1 51234 3306\r\n`, at most 107 |
//! | 2 | signature (12), `0x2` and command (0 `LOCAL`, 1 `PROXY`), family and transport, length (2), addresses, TLVs |
//!
//! Neither can be taken for a packet of a login: read as one, its number would be 0x58 or 0x0A,
//! which is never the first of a client's.
//! Source: haproxy.org, "The PROXY protocol, versions 1 & 2", sections 2.1 and 2.2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thiserror::Error;

const SIGNATURE_1: &[u8] = b"PROXY ";
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest header of version 1, its line end included.
const LEN_1_MAX: usize = 107;
/// Bytes of version 2 before what its length counts.
const FIXED_LEN: usize = 16;
/// The longest header of version 2 that is taken: addresses, and TLVs with room to spare.
pub const LEN_MAX: usize = 4_096;

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening<'a> {
    /// No header, whatever follows.
    Absent,
    /// The beginning of a header, or too few bytes to tell.
    Partial,
    /// A header, and how many bytes it has.
    Whole(ProxyHeader<'a>, usize),
}

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader<'a> {
    /// Client, and where it connected to. `None` where the connection's own addresses hold: the
    /// balancer's own connections (`LOCAL`), `UNKNOWN`, and families other than TCP over IP.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Whether it is the balancer's own connection (`LOCAL`), with no client behind it.
    pub is_local: bool,
    tlvs: &'a [u8],
}

/// A type of TLV: the host name that the client asked for.
pub const TLV_AUTHORITY: u8 = 0x02;
/// A type of TLV: CRC-32C of the header.
pub const TLV_CRC32C: u8 = 0x03;
/// A type of TLV: bytes that mean nothing.
pub const TLV_NOOP: u8 = 0x04;
/// A type of TLV: an id that the balancer gave the connection.
pub const TLV_UNIQUE_ID: u8 = 0x05;
/// A type of TLV: what the balancer knows of its client's TLS.
pub const TLV_SSL: u8 = 0x20;
/// A type of TLV: the protocol within TLS.
pub const TLV_ALPN: u8 = 0x01;
/// A type of TLV: the network name space.
pub const TLV_NETNS: u8 = 0x30;
/// A type of TLV of Amazon's balancers: 1, and the id of the endpoint that the client came by.
pub const TLV_AWS: u8 = 0xEA;

/// Types of TLVs that are shown by their names, and those within the one about TLS.
const TLV_NAMES: [(u8, &str); 11] = [
    (TLV_ALPN, "alpn"),
    (TLV_AUTHORITY, "authority"),
    (TLV_UNIQUE_ID, "unique_id"),
    (TLV_NETNS, "netns"),
    (TLV_AWS, "aws"),
    (0x21, "tls_version"),
    (0x22, "tls_cn"),
    (0x23, "tls_cipher"),
    (0x24, "tls_signature"),
    (0x25, "tls_key"),
    (0xEE, "azure"),
];
/// Bytes of what is shown of TLVs; the rest is left out.
const SHOWN_LEN_MAX: usize = 1_024;

impl<'a> ProxyHeader<'a> {
    /// What the TLVs say, in one line without control characters: `name=value`, with the type as
    /// two hex digits where it has no name. Nothing of checksums and padding.
    pub fn describe(&self) -> String {
        let mut shown = String::new();
        for (kind, value) in self.tlvs() {
            match (kind, value) {
                (TLV_CRC32C | TLV_NOOP, _) => {}
                // One byte of flags, four that say whether its certificate was right, TLVs.
                (TLV_SSL, [_, _, _, _, _, tlvs @ ..]) => {
                    let inner = ProxyHeader { addresses: None, is_local: false, tlvs };
                    inner.tlvs().for_each(|(kind, value)| show_tlv(&mut shown, kind, value));
                }
                (TLV_AWS, [1, id @ ..]) => show_tlv(&mut shown, kind, id),
                _ => show_tlv(&mut shown, kind, value),
            }
        }
        shown
    }

    /// The TLVs, each with its type, in the order of the header.
    pub fn tlvs(&self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut rest = self.tlvs;
        std::iter::from_fn(move || {
            let (tlv, behind) = split_tlv(rest)?;
            rest = behind;
            Some(tlv)
        })
    }
}

fn show_tlv(shown: &mut String, kind: u8, value: &[u8]) {
    let name = TLV_NAMES.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name);
    let name = name.map_or_else(|| format!("{kind:02x}"), str::to_owned);
    let text = format!("{name}={}", value.escape_ascii());
    if shown.len() + text.len() < SHOWN_LEN_MAX {
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(&text);
    }
}

/// Why a header can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Version 1 without the end of its line.
    #[error("its line has more than {LEN_1_MAX} bytes")]
    LineTooLong,
    /// Version 1 with other words than it may have.
    #[error("its line is not `PROXY TCP4|TCP6 address address port port`")]
    Line,
    /// Another version than 2, with the signature of 2.
    #[error("version {0} is not known")]
    Version(u8),
    /// Another command than `LOCAL` and `PROXY`.
    #[error("command {0} is not known")]
    Command(u8),
    /// More bytes than are taken.
    #[error("it has {0} bytes, more than {LEN_MAX}")]
    TooLong(usize),
    /// Fewer bytes than its family's addresses.
    #[error("it is shorter than its addresses")]
    Addresses,
    /// A TLV that is longer than what is left.
    #[error("a TLV is longer than the header")]
    Tlv,
    /// The header is not what was sent.
    #[error("its checksum is wrong")]
    Checksum,
}

/// Looks for a header at the beginning of what a connection has sent so far.
pub fn scan(bytes: &[u8]) -> Result<Opening<'_>, HeaderError> {
    if bytes.starts_with(SIGNATURE_1) {
        return scan_1(bytes);
    }
    if let Some(rest) = bytes.strip_prefix(SIGNATURE_2) {
        return scan_2(bytes, rest);
    }
    match SIGNATURE_1.starts_with(bytes) || SIGNATURE_2.starts_with(bytes) {
        true => Ok(Opening::Partial),
        false => Ok(Opening::Absent),
    }
}

fn scan_1(bytes: &[u8]) -> Result<Opening<'_>, HeaderError> {
    let seen = bytes.get(..LEN_1_MAX).unwrap_or(bytes);
    let Some(end) = memchr::memchr(b'\n', seen) else {
        return match bytes.len() < LEN_1_MAX {
            true => Ok(Opening::Partial),
            false => Err(HeaderError::LineTooLong),
        };
    };
    let line = bytes.get(..end).and_then(|line| line.strip_suffix(b"\r"));
    let line = line.and_then(|line| std::str::from_utf8(line).ok()).ok_or(HeaderError::Line)?;
    let addresses = read_line(line).ok_or(HeaderError::Line)?;
    Ok(Opening::Whole(ProxyHeader { addresses, is_local: false, tlvs: &[] }, end + 1))
}

#[expect(clippy::option_option, reason = "a line without addresses is not a wrong line")]
fn read_line(line: &str) -> Option<Option<(SocketAddr, SocketAddr)>> {
    let mut words = line.split(' ').skip(1);
    let is_v4 = match words.next()? {
        "UNKNOWN" => return Some(None),
        "TCP4" => true,
        "TCP6" => false,
        _ => return None,
    };
    let mut ip = || words.next()?.parse::<IpAddr>().ok().filter(|ip| ip.is_ipv4() == is_v4);
    let (client, target) = (ip()?, ip()?);
    let mut port = || {
        let digits = words.next()?;
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|_| is_plain)
    };
    let (client_port, target_port) = (port()?, port()?);
    let addresses = (SocketAddr::new(client, client_port), SocketAddr::new(target, target_port));
    words.next().is_none().then_some(Some(addresses))
}

fn scan_2<'a>(bytes: &'a [u8], rest: &'a [u8]) -> Result<Opening<'a>, HeaderError> {
    // What is wrong is said as soon as it is seen.
    let Some(&kind) = rest.first() else {
        return Ok(Opening::Partial);
    };
    if kind >> 4 != 2 {
        return Err(HeaderError::Version(kind >> 4));
    }
    let is_local = match kind & 0x0F {
        0 => true,
        1 => false,
        command => return Err(HeaderError::Command(command)),
    };
    let [_, family, high, low, body @ ..] = rest else {
        return Ok(Opening::Partial);
    };
    let body_len = usize::from(u16::from_be_bytes([*high, *low]));
    let len = FIXED_LEN + body_len;
    if len > LEN_MAX {
        return Err(HeaderError::TooLong(len));
    }
    let Some(body) = body.get(..body_len) else {
        return Ok(Opening::Partial);
    };
    let (addresses, tlvs) = split_addresses(*family, body).ok_or(HeaderError::Addresses)?;
    check_tlvs(bytes.get(..len).unwrap_or_default(), tlvs)?;
    let addresses = addresses.filter(|_| !is_local);
    Ok(Opening::Whole(ProxyHeader { addresses, is_local, tlvs }, len))
}

type Addresses<'a> = (Option<(SocketAddr, SocketAddr)>, &'a [u8]);

/// The addresses of a family and transport, and what is behind them.
fn split_addresses(family: u8, body: &[u8]) -> Option<Addresses<'_>> {
    let (pair, len) = match family {
        0x11 => (Some(pair::<4, Ipv4Addr>(body)?), 12),
        0x21 => (Some(pair::<16, Ipv6Addr>(body)?), 36),
        // Datagrams and Unix sockets: nothing that rules could use.
        0x12 => (None, 12),
        0x22 => (None, 36),
        0x31 | 0x32 => (None, 216),
        // Unspecified, or of a later version: nothing of it is read.
        _ => return Some((None, &[])),
    };
    Some((pair, body.get(len..)?))
}

fn pair<const N: usize, A>(body: &[u8]) -> Option<(SocketAddr, SocketAddr)>
where
    A: From<[u8; N]>,
    IpAddr: From<A>,
{
    let (client, rest) = body.split_first_chunk::<N>()?;
    let (target, rest) = rest.split_first_chunk::<N>()?;
    let (client_port, rest) = rest.split_first_chunk::<2>()?;
    let target_port = rest.first_chunk::<2>()?;
    let address = |ip: &[u8; N], port: &[u8; 2]| {
        SocketAddr::new(IpAddr::from(A::from(*ip)), u16::from_be_bytes(*port))
    };
    Some((address(client, client_port), address(target, target_port)))
}

type Tlv<'a> = (u8, &'a [u8]);

fn split_tlv(bytes: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    let [kind, high, low, rest @ ..] = bytes else {
        return None;
    };
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    let (value, rest) = rest.split_at_checked(len)?;
    Some(((*kind, value), rest))
}

/// TLVs fill their place, and a checksum among them is right.
fn check_tlvs(header: &[u8], tlvs: &[u8]) -> Result<(), HeaderError> {
    let mut rest = tlvs;
    while !rest.is_empty() {
        let ((kind, value), behind) = split_tlv(rest).ok_or(HeaderError::Tlv)?;
        if kind == TLV_CRC32C {
            let sent = value.try_into().ok().map(u32::from_be_bytes);
            let begin = header.len().saturating_sub(behind.len() + value.len());
            if sent != Some(crc32c(header, begin)) {
                return Err(HeaderError::Checksum);
            }
        }
        rest = behind;
    }
    Ok(())
}

/// CRC-32C of a header in which the four bytes from `hole` on are 0.
fn crc32c(header: &[u8], hole: usize) -> u32 {
    let byte = |(at, byte): (usize, &u8)| match (hole..hole + 4).contains(&at) {
        true => 0,
        false => *byte,
    };
    let step = |crc: u32, byte: u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 }
        })
    };
    !header.iter().enumerate().map(byte).fold(!0, step)
}

#[cfg(test)]
mod tests;
