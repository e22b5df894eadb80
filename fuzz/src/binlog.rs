//! Target: the bytes of a binary log's stream, as a server sends them behind the command.

use trunkline_binlog::{Changes, Decoder, Frames, frames::Framed};
use trunkline_compression::Libraries;

use crate::choice;

/// What has come of bytes: each event or change in words, and the error that ended it.
type Read = (Vec<String>, Option<String>);

fn read(bytes: &[u8], piece: usize) -> Read {
    let (mut frames, mut decoder, mut changes) = (Frames::new(), Decoder::new(), Changes::new());
    let mut libraries = Libraries::new();
    let mut told = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        let taken = frames.take(piece, |framed| {
            decoder.read(framed, &mut libraries, &mut |event| {
                told.push(format!("{event:?}"));
                told.extend(changes.take(&event).map(|change| format!("{change:?}")));
                Ok(())
            })
        });
        if let Err(error) = taken {
            return (told, Some(error.to_string()));
        }
    }
    (told, None)
}

/// Reads bytes as packets with events: pieces change nothing. With an odd first byte they are
/// events that follow each other, whole or not, without packets and checksums.
pub fn binlog(data: &[u8]) {
    let (choice, rest) = choice(data);
    if choice % 2 == 0 {
        assert_eq!(read(rest, rest.len()), read(rest, usize::from(choice)));
        return;
    }
    let (mut decoder, mut changes) = (Decoder::new(), Changes::new());
    let mut rest = rest;
    while let Some(len) = rest.get(9..13).and_then(|len| len.first_chunk::<4>()) {
        let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
        let (bytes, behind) = rest.split_at_checked(len.max(19)).unwrap_or((rest, &[]));
        let framed = Framed { bytes, is_whole: choice % 4 == 1 };
        // What is wrong with one event says nothing of the next.
        drop(decoder.read(framed, &mut Libraries::new(), &mut |event| {
            drop(changes.take(&event));
            Ok(())
        }));
        rest = behind;
    }
}
