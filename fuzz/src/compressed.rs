//! Target: the compressed protocol.

use std::cell::RefCell;

use trunkline_compression::Libraries;
use trunkline_protocol::codec::compressed::{Expected, Framing, Method, Unpackable};

use crate::choice;

const EXPECTED: [Expected; 4] =
    [Expected::Command, Expected::Answer, Expected::CommandOrAnswer, Expected::Any];
/// More than this no input may unpack to.
const PLAIN_MAX: usize = 1 << 20;
/// Whoever unpacks bombs of small packets without end would be here for long.
const PLAIN_SUM_MAX: usize = 8 << 20;

thread_local! {
    /// Made once: their working memory is what takes time.
    static LIBRARIES: RefCell<Libraries> = RefCell::new(Libraries::new());
}

/// Compressed packets from a stranger: however they are split they unpack alike, within limits.
/// What is packed here of the input unpacks to the input.
///
/// The first byte chooses method and expected numbers, the second the pieces.
pub fn compressed(data: &[u8]) {
    let (how, data) = choice(data);
    let (piece, data) = choice(data);
    let method = if how & 1 == 0 { Method::Zlib(1 + how % 9) } else { Method::Zstd(1 + how % 9) };
    let expected = EXPECTED.get(usize::from(how >> 1) % EXPECTED.len());
    let expected = expected.copied().unwrap_or(Expected::Any);
    let whole = unpack(data, data.len().max(1), method, expected);
    let pieces = unpack(data, 1 + usize::from(piece), method, expected);
    assert_eq!(whole.1, pieces.1, "what is wrong does not depend on how it is split");
    // Of a packet that is broken, more or less has been unpacked by then.
    let common = whole.0.len().min(pieces.0.len());
    let is_alike = whole.0.get(..common) == pieces.0.get(..common);
    let is_as_long = whole.0.len() == pieces.0.len() || whole.1.is_err();
    assert!(is_alike && is_as_long, "what is unpacked does not depend on how it is split");

    let mut packed = Vec::new();
    LIBRARIES.with_borrow_mut(|libraries| {
        Framing::default().pack_commands(data, method, libraries, &mut packed);
        Framing::default().pack_answer(data, method, libraries, &mut packed);
    });
    let (plain, result) = unpack(&packed, packed.len().max(1), method, Expected::Any);
    if result.is_ok() {
        assert_eq!(plain, [data, data].concat(), "what is packed unpacks");
    } else {
        // The second begins anew within a packet that the first left unfinished.
        assert_eq!((plain, result), (data.to_vec(), Err(Unpackable::OutOfOrder)));
    }
}

/// What was unpacked, and why no more was.
fn unpack(
    data: &[u8],
    len: usize,
    method: Method,
    expected: Expected,
) -> (Vec<u8>, Result<(), Unpackable>) {
    let mut framing = Framing::default();
    let (mut received, mut out) = (Vec::new(), Vec::new());
    for piece in data.chunks(len) {
        received.extend_from_slice(piece);
        let mut at = 0;
        while out.len() < PLAIN_SUM_MAX {
            let rest = received.get(at..).unwrap_or_default();
            let before = out.len();
            let taken = LIBRARIES.with_borrow_mut(|libraries| {
                framing.unpack(rest, expected, PLAIN_MAX, method, libraries, &mut out)
            });
            match taken {
                Ok(None) => break,
                Ok(Some(taken)) => {
                    assert!(taken <= rest.len(), "{taken} of {} bytes", rest.len());
                    assert!(taken > 0 || out.len() > before, "it goes on for ever");
                    assert!(out.len() - before <= PLAIN_MAX);
                    at += taken;
                }
                Err(fault) => {
                    // What a broken stream leaves does not count.
                    out.truncate(before);
                    return (out, Err(fault));
                }
            }
        }
        received.drain(..at);
    }
    (out, Ok(()))
}
