//! What a server asks for while it authenticates, between the greeting and OK or ERR.
//!
//! | first byte | then | meaning |
//! |---|---|---|
//! | 0xFE | plug-in, NUL, data | authenticate anew with this plug-in |
//! | 0xFE | nothing | the password method from before 4.1 |
//! | 0x01 | data | the plug-in has more to say |
//!
//! Sources: MySQL internals "Protocol::AuthSwitchRequest", "Protocol::AuthMoreData".

use crate::{
    codec::{Malformed, Reader, frame, put_nul_str},
    packet::greeting::NONCE_LEN,
};

/// First byte of a switch request.
pub const SWITCH: u8 = 0xFE;
/// First byte of further data.
pub const MORE_DATA: u8 = 0x01;

/// The server wants another plug-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSwitchRequest<'a> {
    /// Name of the plug-in.
    pub plugin: &'a [u8],
    /// Its data: a nonce of [`NONCE_LEN`] bytes without the NUL that ends it, anything else as it
    /// is.
    pub data: &'a [u8],
}

impl<'a> AuthSwitchRequest<'a> {
    /// Reads the payload. The form without a name, from before 4.1, is malformed here.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("auth switch")? != SWITCH {
            return Err(Malformed("auth switch"));
        }
        let plugin = reader.nul_str("auth plug-in")?;
        let data = reader.take_rest();
        let nonce = data.strip_suffix(&[0]).filter(|nonce| nonce.len() == NONCE_LEN);
        Ok(Self { plugin, data: nonce.unwrap_or(data) })
    }

    /// The data as a nonce; anything but 20 bytes is malformed.
    pub fn nonce(&self) -> Result<[u8; NONCE_LEN], Malformed> {
        self.data.try_into().map_err(|_| Malformed("nonce"))
    }

    /// Appends the request as the packet numbered `seq`; returns the number that follows.
    pub fn put(&self, out: &mut Vec<u8>, seq: u8) -> u8 {
        let start = frame::begin_packet(out, seq);
        out.push(SWITCH);
        put_nul_str(out, self.plugin);
        out.extend_from_slice(self.data);
        if self.data.len() == NONCE_LEN {
            out.push(0);
        }
        frame::end_packet(out, start);
        seq.wrapping_add(1)
    }
}

/// The data after the first byte of an AuthMoreData packet.
pub fn parse_more_data(payload: &[u8]) -> Result<&[u8], Malformed> {
    match payload.split_first() {
        Some((&MORE_DATA, data)) => Ok(data),
        Some(_) | None => Err(Malformed("auth data")),
    }
}

/// Appends AuthMoreData as the packet numbered `seq`; returns the number that follows.
pub fn put_more_data(out: &mut Vec<u8>, seq: u8, data: &[u8]) -> u8 {
    let start = frame::begin_packet(out, seq);
    out.push(MORE_DATA);
    out.extend_from_slice(data);
    frame::end_packet(out, start);
    seq.wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::frame::split_packet;

    #[test]
    fn a_switch_request_reads_back() {
        let nonce = *b"0123456789abcdefghij";
        let request = AuthSwitchRequest { plugin: b"mysql_native_password", data: &nonce };
        let mut out = Vec::new();
        assert_eq!(request.put(&mut out, 255), 0);
        let (_, payload, _) = split_packet(&out).expect("whole");
        assert_eq!(AuthSwitchRequest::parse(payload), Ok(request));
        assert_eq!(request.nonce(), Ok(nonce));
        for end in 0..payload.len() - 1 {
            let cut = AuthSwitchRequest::parse(&payload[..end]);
            assert!(cut.and_then(|cut| cut.nonce()).is_err(), "{end}");
        }
    }

    #[test]
    fn more_data_reads_back() {
        let mut out = Vec::new();
        assert_eq!(put_more_data(&mut out, 2, &[3]), 3);
        let (_, payload, _) = split_packet(&out).expect("whole");
        assert_eq!(parse_more_data(payload), Ok(&[3][..]));
        assert!(parse_more_data(&[]).is_err());
        assert!(parse_more_data(&[0]).is_err());
    }
}
