//! zlib and zstd for the compressed protocol, and for files: the only user of both libraries.
//!
//! One [`Libraries`] serves all connections of a worker, since each compressed packet stands for
//! itself: a connection costs no compressor of its own.
#![forbid(unsafe_code)]

mod whole;

use std::fmt;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use trunkline_protocol::codec::compressed::{Compressor, Corrupt, Method, Progress, Unpacking};
use zstd::{
    bulk,
    stream::raw::{DParameter, Decoder, Operation},
};

pub use whole::{crc32, deflated, gzip, inflated};

/// The largest window of a zstd frame that comes in pieces, as a power of 2: one packet's length.
const WINDOW_LOG_MAX: u32 = 24;

/// Both libraries with their working memory, which each takes when it is first needed.
#[derive(Default)]
pub struct Libraries {
    /// One for each level that is in use, at most ten.
    deflate: Vec<(u8, Compress)>,
    inflate: Option<Decompress>,
    zstd: Option<(u8, bulk::Compressor<'static>)>,
    unzstd: Option<bulk::Decompressor<'static>>,
}

impl Libraries {
    /// Nothing is taken up yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes into the room that `out` has; whether `plain` went in.
    fn deflate(&mut self, level: u8, plain: &[u8], out: &mut Vec<u8>) -> bool {
        let known = self.deflate.iter().position(|(known, _)| *known == level);
        let at = known.unwrap_or_else(|| {
            let level_of_zlib = Compression::new(u32::from(level.min(9)));
            self.deflate.push((level, Compress::new(level_of_zlib, true)));
            self.deflate.len() - 1
        });
        let Some((_, deflate)) = self.deflate.get_mut(at) else {
            return false;
        };
        deflate.reset();
        let result = deflate.compress_vec(plain, out, FlushCompress::Finish);
        matches!(result, Ok(Status::StreamEnd))
    }

    fn zstd(&mut self, level: u8, plain: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.zstd.is_none() {
            self.zstd = Some((level, bulk::Compressor::new(i32::from(level)).ok()?));
        }
        let (known, zstd) = self.zstd.as_mut()?;
        if *known != level {
            zstd.set_compression_level(i32::from(level)).ok()?;
            *known = level;
        }
        zstd.compress_to_buffer(plain, out).ok()
    }

    fn unzstd(&mut self, packed: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.unzstd.is_none() {
            self.unzstd = Some(bulk::Decompressor::new().ok()?);
        }
        self.unzstd.as_mut()?.decompress_to_buffer(packed, out).ok()
    }
}

impl Compressor for Libraries {
    fn compress(&mut self, method: Method, plain: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let is_packed = match method {
            Method::Zlib(level) => {
                // What does not fit into this is not worth it.
                out.reserve(plain.len());
                self.deflate(level, plain, out)
            }
            Method::Zstd(level) => {
                out.resize(start + plain.len(), 0);
                let room = out.get_mut(start..).unwrap_or_default();
                let packed = self.zstd(level, plain, room);
                out.truncate(start + packed.unwrap_or_default());
                packed.is_some()
            }
        };
        let is_shorter = is_packed && out.len() - start < plain.len();
        if !is_shorter {
            out.truncate(start);
        }
        is_shorter
    }

    fn decompress(
        &mut self,
        method: Method,
        packed: &[u8],
        plain_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Corrupt> {
        let start = out.len();
        match method {
            Method::Zlib(_) => {
                let inflate = self.inflate.get_or_insert_with(|| Decompress::new(true));
                inflate.reset(true);
                out.reserve_exact(plain_max);
                match inflate.decompress_vec(packed, out, FlushDecompress::Finish) {
                    Ok(Status::StreamEnd) => {}
                    Ok(Status::Ok | Status::BufError) | Err(_) => return Err(Corrupt),
                }
            }
            Method::Zstd(_) => {
                out.resize(start + plain_max, 0);
                let room = out.get_mut(start..).unwrap_or_default();
                let len = self.unzstd(packed, room).ok_or(Corrupt)?;
                out.truncate(start + len);
            }
        }
        // A vector may have had more room than it was asked for.
        if out.len() - start <= plain_max { Ok(()) } else { Err(Corrupt) }
    }

    fn unpacking(&mut self, method: Method) -> Result<Box<dyn Unpacking>, Corrupt> {
        match method {
            Method::Zlib(_) => Ok(Box::new(Inflating(Decompress::new(true)))),
            Method::Zstd(_) => {
                let mut decoder = Decoder::new().map_err(|_| Corrupt)?;
                let window = DParameter::WindowLogMax(WINDOW_LOG_MAX);
                decoder.set_parameter(window).map_err(|_| Corrupt)?;
                Ok(Box::new(Unzstd(decoder)))
            }
        }
    }
}

/// A zlib stream that comes in pieces.
#[derive(Debug)]
struct Inflating(Decompress);

/// A zstd frame that comes in pieces.
struct Unzstd(Decoder<'static>);

impl fmt::Debug for Unzstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unzstd")
    }
}

impl Unpacking for Inflating {
    fn step(
        &mut self,
        packed: &[u8],
        plain_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Corrupt> {
        let start = out.len();
        out.resize(start + plain_max, 0);
        let (before_in, before_out) = (self.0.total_in(), self.0.total_out());
        let room = out.get_mut(start..).unwrap_or_default();
        let status = self.0.decompress(packed, room, FlushDecompress::None);
        let made = usize::try_from(self.0.total_out() - before_out).unwrap_or(usize::MAX);
        out.truncate(start.saturating_add(made));
        let taken = usize::try_from(self.0.total_in() - before_in).unwrap_or(usize::MAX);
        Ok(Progress { taken, has_ended: status.map_err(|_| Corrupt)? == Status::StreamEnd })
    }
}

impl Unpacking for Unzstd {
    fn step(
        &mut self,
        packed: &[u8],
        plain_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Corrupt> {
        let start = out.len();
        out.resize(start + plain_max, 0);
        let room = out.get_mut(start..).unwrap_or_default();
        let status = self.0.run_on_buffers(packed, room);
        let status = status.map_err(|_| Corrupt)?;
        out.truncate(start + status.bytes_written);
        Ok(Progress { taken: status.bytes_read, has_ended: status.remaining == 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHODS: [Method; 6] = [
        Method::Zlib(1),
        Method::Zlib(6),
        Method::Zlib(9),
        Method::Zstd(1),
        Method::Zstd(3),
        Method::Zstd(19),
    ];

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        (0..len).map(next).collect()
    }

    #[test]
    fn what_is_packed_unpacks_whatever_came_before() {
        let mut libraries = Libraries::new();
        let text: Vec<u8> = b"SELECT id, name FROM item WHERE id = 1;".repeat(1_500);
        for method in METHODS {
            for len in [50, 51, 1_000, text.len()] {
                let mut out = b"before".to_vec();
                assert!(libraries.compress(method, &text[..len], &mut out) || len < 60);
                if out.len() == 6 {
                    continue;
                }
                let mut plain = b"there".to_vec();
                assert_eq!(libraries.decompress(method, &out[6..], len, &mut plain), Ok(()));
                assert_eq!(plain[5..], text[..len], "{method:?}");
            }
        }
    }

    #[test]
    fn what_gets_no_shorter_is_left_alone() {
        let mut libraries = Libraries::new();
        for method in METHODS {
            let mut out = b"before".to_vec();
            assert!(!libraries.compress(method, &noise(5_000), &mut out));
            assert_eq!(out, b"before");
        }
    }

    #[test]
    fn a_bomb_takes_no_more_than_it_says() {
        let mut libraries = Libraries::new();
        let plain = vec![0; 3 << 20];
        for method in METHODS {
            let mut packed = Vec::new();
            assert!(libraries.compress(method, &plain, &mut packed));
            let mut out = Vec::new();
            assert_eq!(libraries.decompress(method, &packed, 1 << 20, &mut out), Err(Corrupt));
            assert!(out.capacity() <= 2 << 20, "{method:?}: {}", out.capacity());
        }
    }

    /// All that `packed` holds, in steps of so many packed bytes.
    fn in_pieces(method: Method, packed: &[u8], step: usize) -> Result<Vec<u8>, Corrupt> {
        let mut stream = Libraries::new().unpacking(method)?;
        let (mut plain, mut at) = (Vec::new(), 0);
        loop {
            let piece = &packed[at..packed.len().min(at + step)];
            let before = plain.len();
            let Progress { taken, has_ended } = stream.step(piece, 10_000, &mut plain)?;
            assert!(plain.len() <= before + 10_000);
            at += taken;
            if has_ended {
                assert_eq!(at, packed.len());
                return Ok(plain);
            }
            if taken == 0 && plain.len() == before {
                return Err(Corrupt);
            }
        }
    }

    #[test]
    fn what_comes_in_pieces_is_the_same() {
        let mut libraries = Libraries::new();
        let text: Vec<u8> = b"SELECT id, name FROM item WHERE id = 1;".repeat(5_000);
        for method in METHODS {
            let mut packed = Vec::new();
            assert!(libraries.compress(method, &text, &mut packed));
            for step in [1, 100, packed.len()] {
                assert!(in_pieces(method, &packed, step) == Ok(text.clone()), "{method:?} {step}");
            }
            let cut = &packed[..packed.len() - 1];
            assert_eq!(in_pieces(method, cut, 100), Err(Corrupt), "{method:?}");
        }
    }

    #[test]
    fn less_than_it_says_is_taken_and_what_is_no_stream_is_not() {
        let mut libraries = Libraries::new();
        for method in METHODS {
            let mut packed = Vec::new();
            libraries.compress(method, &[b'a'; 500], &mut packed);
            let mut out = Vec::new();
            assert_eq!(libraries.decompress(method, &packed, 900, &mut out), Ok(()));
            assert_eq!(out, [b'a'; 500]);
            for broken in [&packed[..packed.len() - 1], &packed[1..], &noise(80)] {
                let result = libraries.decompress(method, broken, 900, &mut Vec::new());
                assert_eq!(result, Err(Corrupt), "{method:?}");
            }
            // The next one is not harmed.
            let mut out = Vec::new();
            assert_eq!(libraries.decompress(method, &packed, 500, &mut out), Ok(()));
            assert_eq!(out, [b'a'; 500]);
        }
    }
}
