//! The client's answer to the greeting.
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | capabilities, bits 0 to 31 |
//! | 4 | the longest packet the client takes |
//! | 1 | charset: a collation id's low byte |
//! | 19 | 0 |
//! | 4 | client without `LONG_PASSWORD`: capabilities, bits 32 to 63; else 0 |
//! | n, NUL | user |
//! | lenenc, n | authentication data; see below |
//! | n, NUL | schema, with `CONNECT_WITH_DB` |
//! | n, NUL | plug-in that made the authentication data, with `PLUGIN_AUTH` |
//! | lenenc, n | attributes, with `CONNECT_ATTRS` |
//! | 1 | zstd level, with `ZSTD_COMPRESSION_ALGORITHM` |
//!
//! Authentication data has a length-encoded length with `PLUGIN_AUTH_LENENC_CLIENT_DATA`, a
//! one-byte length with `SECURE_CONNECTION` alone, and ends at a NUL with neither.
//!
//! Sources: MySQL internals "Protocol::HandshakeResponse41" and "Protocol::SSLRequest", MariaDB
//! knowledge base "Connection".

use crate::{
    capability::Capabilities,
    codec::{Malformed, Reader, frame, put_lenenc_bytes, put_nul_str, put_u32},
    packet::attributes::Attributes,
};

/// A client's answer to the greeting, borrowed from the packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeResponse<'a> {
    /// What the client can do. May hold flags that the server did not offer.
    pub capabilities: Capabilities,
    /// The longest packet the client takes, in bytes.
    pub packet_len_max: u32,
    /// Low byte of the collation id the client wants.
    pub charset: u8,
    /// User name.
    pub user: &'a [u8],
    /// What the plug-in has to say first, commonly a scramble.
    pub auth: &'a [u8],
    /// Schema to begin in, never empty.
    pub schema: Option<&'a [u8]>,
    /// Plug-in that made [`auth`](Self::auth); `None` without `PLUGIN_AUTH`, or when the client
    /// left it out.
    pub plugin: Option<&'a [u8]>,
    /// Connection attributes.
    pub attributes: Attributes<'a>,
    /// Level of zstd compression.
    pub zstd_level: Option<u8>,
}

/// The forms that a client's first packet takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOpening<'a> {
    /// The client begins TLS; the response follows inside it.
    TlsRequest(Capabilities),
    /// The full response.
    Response(HandshakeResponse<'a>),
    /// A client older than the 4.1 protocol, which nothing here speaks.
    Outdated,
}

impl<'a> ClientOpening<'a> {
    /// Reads a client's first payload.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let low = Reader::new(payload).u16("capabilities")?;
        let capabilities = Capabilities::from_bits(u64::from(low));
        if !capabilities.contains(Capabilities::PROTOCOL_41) {
            return Ok(Self::Outdated);
        }
        let mut reader = Reader::new(payload);
        let fixed = Fixed::read(&mut reader)?;
        if reader.is_empty() && fixed.capabilities.contains(Capabilities::SSL) {
            return Ok(Self::TlsRequest(fixed.capabilities));
        }
        HandshakeResponse::read(&fixed, &mut reader).map(Self::Response)
    }
}

/// The fields that a TLS request and a response share.
struct Fixed {
    capabilities: Capabilities,
    packet_len_max: u32,
    charset: u8,
}

impl Fixed {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let low = reader.u32("capabilities")?;
        let packet_len_max = reader.u32("packet length")?;
        let charset = reader.u8("charset")?;
        reader.bytes(19, "filler")?;
        let extended = reader.u32("extended capabilities")?;
        let mut capabilities = Capabilities::from_halves(low, extended);
        if capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities.remove(Capabilities::EXTENDED);
        }
        Ok(Self { capabilities, packet_len_max, charset })
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_u32(out, self.capabilities.low());
        put_u32(out, self.packet_len_max);
        out.push(self.charset);
        out.extend_from_slice(&[0; 19]);
        let is_extended = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        put_u32(out, if is_extended { self.capabilities.extended() } else { 0 });
    }
}

impl<'a> HandshakeResponse<'a> {
    fn read(fixed: &Fixed, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let capabilities = fixed.capabilities;
        let has = |flag| capabilities.contains(flag);
        let user = reader.nul_str("user")?;
        let auth = if has(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA) {
            reader.lenenc_bytes("authentication data")?
        } else if has(Capabilities::SECURE_CONNECTION) {
            let len = reader.u8("authentication data")?;
            reader.bytes(usize::from(len), "authentication data")?
        } else {
            reader.nul_str("authentication data")?
        };
        let schema = match has(Capabilities::CONNECT_WITH_DB) {
            true => Some(reader.nul_str("schema")?).filter(|schema| !schema.is_empty()),
            false => None,
        };
        // Servers take a response that ends before the plug-in's name for one without a name.
        let plugin = match has(Capabilities::PLUGIN_AUTH) && !reader.is_empty() {
            true => Some(reader.nul_str("auth plug-in")?),
            false => None,
        };
        let attributes = match has(Capabilities::CONNECT_ATTRS) {
            true => Attributes::read(reader)?,
            false => Attributes::default(),
        };
        let zstd_level = match has(Capabilities::ZSTD_COMPRESSION_ALGORITHM) {
            true => Some(reader.u8("zstd level")?),
            false => None,
        };
        Ok(Self {
            capabilities,
            packet_len_max: fixed.packet_len_max,
            charset: fixed.charset,
            user,
            auth,
            schema,
            plugin,
            attributes,
            zstd_level,
        })
    }

    /// Appends the response as the packet numbered `seq`; returns the number that follows.
    ///
    /// The flags in [`capabilities`](Self::capabilities) say which fields are written; an absent
    /// value of a written field is empty. Authentication data must be shorter than 251 bytes.
    pub fn put(&self, out: &mut Vec<u8>, seq: u8) -> u8 {
        debug_assert!(self.auth.len() < 251);
        let start = frame::begin_packet(out, seq);
        let has = |flag| self.capabilities.contains(flag);
        let fixed = Fixed {
            capabilities: self.capabilities,
            packet_len_max: self.packet_len_max,
            charset: self.charset,
        };
        fixed.put(out);
        put_nul_str(out, self.user);
        // A length below 251 is one byte in either form.
        if has(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA) || has(Capabilities::SECURE_CONNECTION)
        {
            put_lenenc_bytes(out, self.auth);
        } else {
            put_nul_str(out, self.auth);
        }
        if has(Capabilities::CONNECT_WITH_DB) {
            put_nul_str(out, self.schema.unwrap_or_default());
        }
        if has(Capabilities::PLUGIN_AUTH) {
            put_nul_str(out, self.plugin.unwrap_or_default());
        }
        if has(Capabilities::CONNECT_ATTRS) {
            self.attributes.put(out);
        }
        if has(Capabilities::ZSTD_COMPRESSION_ALGORITHM) {
            out.push(self.zstd_level.unwrap_or(3));
        }
        frame::end_packet(out, start);
        seq.wrapping_add(1)
    }
}

/// Appends a request to begin TLS as the packet numbered `seq`: the first fields of a response.
pub fn put_tls_request(
    out: &mut Vec<u8>,
    seq: u8,
    capabilities: Capabilities,
    packet_len_max: u32,
    charset: u8,
) {
    debug_assert!(capabilities.contains(Capabilities::SSL));
    let start = frame::begin_packet(out, seq);
    Fixed { capabilities, packet_len_max, charset }.put(out);
    frame::end_packet(out, start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_ends_after_the_fixed_fields_asks_for_tls() {
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::SSL;
        let mut payload = Vec::new();
        Fixed { capabilities, packet_len_max: 1, charset: 45 }.put(&mut payload);
        assert_eq!(payload.len(), 32);
        assert_eq!(ClientOpening::parse(&payload), Ok(ClientOpening::TlsRequest(capabilities)));
    }

    #[test]
    fn a_client_before_4_1_is_recognised() {
        assert_eq!(ClientOpening::parse(b"\x85\xa4\x03\0\0\x01u\0p"), Ok(ClientOpening::Outdated));
        assert!(ClientOpening::parse(&[]).is_err());
    }
}
