//! Compression, as clients and servers of the model world do it.

use std::fmt;

use trunkline_compression::Libraries;
use trunkline_protocol::{
    Capabilities, Malformed,
    capability::Compression,
    codec::compressed::{Expected, Framing, Method},
};

/// How hard both ends of the model world work at it.
const LEVEL: u8 = 3;
/// The most that one compressed packet may hold, bytes.
const PLAIN_MAX: usize = 64 << 20;

/// One end of a connection whose bytes are compressed.
pub struct Packing {
    framing: Framing,
    method: Method,
    libraries: Libraries,
    /// Part of a compressed packet.
    received: Vec<u8>,
}

impl fmt::Debug for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packing").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Packing {
    /// What both ends agreed on at the login; `None` for no compression.
    pub fn of(agreed: Capabilities) -> Option<Box<Self>> {
        let method = match agreed.compression()? {
            Compression::Zlib => Method::Zlib(LEVEL),
            Compression::Zstd => Method::Zstd(LEVEL),
        };
        let (framing, libraries) = (Framing::default(), Libraries::new());
        Some(Box::new(Self { framing, method, libraries, received: Vec::new() }))
    }

    /// Bytes of the other end: what they hold.
    ///
    /// # Errors
    /// [`Malformed`] for packets that are out of order or do not unpack.
    pub fn unpack(&mut self, bytes: &[u8], expected: Expected) -> Result<Vec<u8>, Malformed> {
        self.received.extend_from_slice(bytes);
        let mut plain = Vec::new();
        let mut consumed = 0;
        while let Some(rest) = self.received.get(consumed..) {
            let (method, libraries) = (self.method, &mut self.libraries);
            let unpacked =
                self.framing.unpack(rest, expected, PLAIN_MAX, method, libraries, &mut plain);
            match unpacked.map_err(|_| Malformed("compressed packet"))? {
                Some(len) => consumed += len,
                None => break,
            }
        }
        self.received.drain(..consumed);
        Ok(plain)
    }

    /// A client's commands, packed.
    pub fn pack_commands(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.framing.pack_commands(plain, self.method, &mut self.libraries, &mut out);
        out
    }

    /// A server's answers, packed.
    pub fn pack_answer(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.framing.pack_answer(plain, self.method, &mut self.libraries, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_understand_each_other_by_either_method() {
        for agreed in [Capabilities::COMPRESS, Capabilities::ZSTD_COMPRESSION_ALGORITHM] {
            let [mut client, mut server] =
                [(); 2].map(|()| Packing::of(agreed).expect("it is compression"));
            let command = [&[201, 0, 0, 0, 3][..], &[b'x'; 200]].concat();
            let packed = client.pack_commands(&command);
            assert!(packed.len() < command.len());
            let (head, rest) = packed.split_at(5);
            assert_eq!(server.unpack(head, Expected::Command), Ok(Vec::new()));
            assert_eq!(server.unpack(rest, Expected::Command), Ok(command));
            let answer = [3, 0, 0, 1, 0, 0, 0];
            let packed = server.pack_answer(&answer);
            assert_eq!(packed.get(3), Some(&1), "the number after the command's");
            assert_eq!(client.unpack(&packed, Expected::Answer), Ok(answer.to_vec()));
        }
        assert!(Packing::of(Capabilities::PROTOCOL_41).is_none());
    }

    #[test]
    fn what_does_not_unpack_is_refused() {
        let mut client = Packing::of(Capabilities::COMPRESS).expect("it is compression");
        let nonsense = [4, 0, 0, 0, 99, 0, 0, 1, 2, 3, 4];
        assert!(client.unpack(&nonsense, Expected::Any).is_err());
    }
}
