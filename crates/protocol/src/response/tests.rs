//! The relay against a model: a response is a list of [`Event`]s, which `server` writes in a
//! server's framing and `client` reads from a client's. Whatever the framings and however the
//! bytes are split, what the client reads is what the server said.

mod cases;
mod client;
mod metadata;
mod properties;
mod server;
mod transcripts;

use super::*;
use crate::packet::status;

const FORMATS: [ReplyFormat; 4] = [
    ReplyFormat::PLAIN,
    ReplyFormat { session_track: true, ..ReplyFormat::PLAIN },
    ReplyFormat { deprecate_eof: true, ..ReplyFormat::PLAIN },
    ReplyFormat { deprecate_eof: true, session_track: true, ..ReplyFormat::PLAIN },
];

/// The content of an OK packet, or of the packet that ends a result set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Done {
    affected_rows: u64,
    last_insert_id: u64,
    status: u16,
    warnings: u16,
    info: Vec<u8>,
    changes: Vec<u8>,
}

/// What a response says, whatever its framing.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    /// OK with header 0x00.
    Ok(Done),
    /// The end of rows, or an EOF that answers a command.
    End(Done),
    /// An error: code and message.
    Err(u16, Vec<u8>),
    /// A request for a file.
    File(Vec<u8>),
    Text(Vec<u8>),
    /// The column definitions of a result set.
    Columns(Vec<Vec<u8>>),
    /// A row, or a definition of a field list.
    Row(Vec<u8>),
    /// A prepared statement's id, parameters and columns.
    Prepared(u32, Vec<Vec<u8>>, Vec<Vec<u8>>),
    /// A progress report, which no client gets.
    Progress,
}

fn done(status: u16) -> Done {
    Done { status, ..Done::default() }
}

/// What of `events` a client can see: the translation loses session state that one of the two
/// framings cannot carry, and nothing else.
fn visible(events: &[Event], server: ReplyFormat, client: ReplyFormat) -> Vec<Event> {
    let strip = |done: &Done, carries_state: bool, carries_counts: bool| {
        let mut done = done.clone();
        if !carries_state {
            done.changes.clear();
        }
        if !carries_counts {
            done = Done { warnings: done.warnings, ..self::done(done.status) };
        }
        if done.changes.is_empty() {
            done.status &= !status::SESSION_STATE_CHANGED;
        }
        done
    };
    let tracked = server.session_track && client.session_track;
    let ok_at_end = server.deprecate_eof && client.deprecate_eof;
    events
        .iter()
        .filter(|event| **event != Event::Progress)
        .map(|event| match event {
            Event::Ok(done) => Event::Ok(strip(done, tracked, true)),
            Event::End(done) => Event::End(strip(done, tracked && ok_at_end, ok_at_end)),
            other => other.clone(),
        })
        .collect()
}

/// Relays `bytes`, split into chunks of the given lengths (the last repeats), and checks what
/// must hold for every feed. Returns the client's bytes and the relay.
fn relay_in_chunks(mut relay: Relay, bytes: &[u8], lens: &[usize]) -> (Vec<u8>, Relay) {
    let mut delivered = Vec::new();
    let mut rest = bytes;
    let mut lens = lens.iter().copied().chain(std::iter::repeat(*lens.last().expect("a length")));
    loop {
        let len = lens.next().unwrap_or(1).clamp(1, rest.len().max(1));
        let (chunk, after) = rest.split_at(len.min(rest.len()));
        let before = delivered.len();
        let fed = relay.feed(chunk, &mut delivered).expect("a well-formed response");
        assert!(delivered.len() - before <= relay.gathered.len() + 2 * chunk.len() + 64);
        if fed.ended || after.is_empty() {
            assert!(fed.ended, "{relay:?} did not end");
            assert_eq!(fed.consumed, chunk.len(), "consumed less than the response");
            assert!(after.is_empty(), "ended before the response did");
            return (delivered, relay);
        }
        assert_eq!(fed.consumed, chunk.len());
        rest = after;
    }
}
