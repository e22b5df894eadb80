//! Compression of a test's connection, which checks each number that a server gives.

use anyhow::{Context, Result};
use trunkline_compression::Libraries;
use trunkline_protocol::Capabilities;
use trunkline_protocol::capability::Compression;
use trunkline_protocol::codec::compressed::{Expected, Framing, Method};

/// What compresses one connection.
pub struct Packing {
    framing: Framing,
    libraries: Libraries,
    method: Method,
    received: Vec<u8>,
    /// What an answer's first packet may be numbered.
    pub expected: Expected,
}

impl std::fmt::Debug for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packing").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Packing {
    /// What was agreed on with these capabilities.
    pub fn of(capabilities: Capabilities) -> Option<Packing> {
        let method = match capabilities.compression()? {
            Compression::Zlib => Method::Zlib(6),
            Compression::Zstd => Method::Zstd(3),
        };
        let (framing, libraries) = (Framing::default(), Libraries::new());
        let expected = Expected::Answer;
        Some(Packing { framing, libraries, method, received: Vec::new(), expected })
    }

    /// Packets of commands, packed.
    pub fn pack(&mut self, packets: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.framing.pack_commands(packets, self.method, &mut self.libraries, &mut out);
        out
    }

    /// Takes what came and appends what it holds, as far as it is whole.
    pub fn unpack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.received.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(len) = self
            .framing
            .unpack(
                &self.received[at..],
                self.expected,
                usize::MAX,
                self.method,
                &mut self.libraries,
                out,
            )
            .context("a compressed packet of the other side")?
        {
            at += len;
        }
        self.received.drain(..at);
        Ok(())
    }
}
