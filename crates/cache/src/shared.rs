//! The second level: answers that several proxies share, in a server that is neither fast nor
//! certain to be there. Here is what is said to it and what it holds; who talks to it is a thread
//! beside the workers.
//!
//! A value, numbers in little-endian order:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | `TLc1` |
//! | 1 | the framing, a bit for each part of [`ReplyFormat`] |
//! | 4 | how long the answer is good from when its statement was sent, ms |
//! | 4 | when it is renewed, likewise |
//! | rest | the answer |

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use trunkline_protocol::{
    Reader,
    response::{Relay, ReplyFormat, ResponseShape},
};

use crate::{Reply, Ticket, Waiter};

const MAGIC: &[u8; 4] = b"TLc1";
/// Bytes of a value before the answer.
pub const VALUE_HEAD_LEN: usize = 13;
const US_PER_MS: u64 = 1_000;

/// A question to the shared cache.
#[derive(Debug)]
pub struct SharedAsk {
    /// Who waits for what comes of it.
    pub waiter: Waiter,
    /// Under what it is stored on the first level.
    pub key: Arc<[u8]>,
    /// All that changes the answer, for every proxy.
    pub shared_key: Arc<[u8]>,
    /// The right to store it on the first level.
    pub ticket: Ticket,
    /// The longest answer that is taken, bytes.
    pub reply_max: usize,
}

/// An answer for the shared cache.
#[derive(Debug)]
pub struct SharedStore {
    /// All that changes the answer, for every proxy.
    pub shared_key: Arc<[u8]>,
    /// [`Shared::generation`] before its statement was sent.
    pub generation: u64,
    /// What [`pack`] made of it.
    pub value: Vec<u8>,
    /// Until when it is good, by this process's clock, µs.
    pub expires_us: u64,
}

impl SharedStore {
    /// How long it is still good, ms, for whoever sends it now: it may have waited on its way.
    /// `None` when its time has passed.
    pub fn left_ms(&self, now_us: u64) -> Option<u64> {
        let left_ms = self.expires_us.checked_sub(now_us)? / US_PER_MS;
        (left_ms > 0).then_some(left_ms)
    }
}

/// What workers and the thread that talks to the shared cache know of each other.
#[derive(Debug, Default)]
pub struct Shared {
    host: OnceLock<ThisHost>,
    is_up: AtomicBool,
    generation: AtomicU64,
    asked: AtomicU64,
    hits: AtomicU64,
    stored: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
}

/// What tells addresses that mean another server on each host apart, in keys that proxies share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThisHost {
    /// What loopback addresses are of: the boot and the network namespace.
    pub loopback: Box<[u8]>,
    /// What paths of sockets are of: the boot and the mount namespace.
    pub files: Box<[u8]>,
}

/// Numbers of the shared cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedFigures {
    /// It is asked: configured, and it answers.
    pub is_up: bool,
    /// Answers that it was asked for.
    pub asked: u64,
    /// Answers that it had.
    pub hits: u64,
    /// Answers sent to it.
    pub stored: u64,
    /// Questions and answers for it that found no room in the queue.
    pub dropped: u64,
    /// How often it did not answer, and was left alone for a while.
    pub failures: u64,
}

impl Shared {
    /// Says where this proxy runs, once, before the shared cache is asked.
    pub fn set_host(&self, host: ThisHost) {
        let _known = self.host.set(host);
    }

    /// Where this proxy runs; `None` before it is said.
    pub fn host(&self) -> Option<&ThisHost> {
        self.host.get()
    }

    /// Whether it is asked.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Relaxed)
    }

    /// It answers, or does not any more.
    pub fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Relaxed);
    }

    /// Tells what was stored before the last flush from what was stored after it.
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// The shared cache says so.
    pub fn set_generation(&self, generation: u64) {
        self.generation.store(generation, Relaxed);
    }

    /// It has been asked for so many answers and had some of them.
    pub fn count_asked(&self, asked: u64, hits: u64) {
        self.asked.fetch_add(asked, Relaxed);
        self.hits.fetch_add(hits, Relaxed);
    }

    /// So many answers were sent to it.
    pub fn count_stored(&self, stored: u64) {
        self.stored.fetch_add(stored, Relaxed);
    }

    /// Something for it found no room.
    pub fn count_dropped(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }

    /// It did not answer.
    pub fn count_failure(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    /// Its numbers.
    pub fn figures(&self) -> SharedFigures {
        SharedFigures {
            is_up: self.is_up(),
            asked: self.asked.load(Relaxed),
            hits: self.hits.load(Relaxed),
            stored: self.stored.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            failures: self.failures.load(Relaxed),
        }
    }
}

/// The value for an answer.
pub fn pack(reply: &Reply) -> Vec<u8> {
    let since_sent = |until_us: u64| {
        let ms = until_us.saturating_sub(reply.sent_us) + reply.before_us;
        u32::try_from(ms / US_PER_MS).unwrap_or(u32::MAX)
    };
    let mut value = Vec::with_capacity(VALUE_HEAD_LEN + reply.bytes.len());
    value.extend_from_slice(MAGIC);
    value.push(bits_of(reply.format));
    value.extend_from_slice(&since_sent(reply.expires_us).to_le_bytes());
    value.extend_from_slice(&since_sent(reply.soft_us).to_le_bytes());
    value.extend_from_slice(&reply.bytes);
    value
}

/// The answer in a value that is good for `left_ms` from `now_us` on. `None` when it is not one
/// whole answer, or over.
pub fn unpack(value: &[u8], left_ms: u64, now_us: u64) -> Option<Reply> {
    let mut reader = Reader::new(value.strip_prefix(MAGIC)?);
    let format = format_of(reader.u8("framing").ok()?)?;
    let ttl_us = u64::from(reader.u32("time to live").ok()?) * US_PER_MS;
    let soft_us = u64::from(reader.u32("time of renewal").ok()?) * US_PER_MS;
    let bytes = reader.take_rest();
    // Nothing is good for longer than when it was new.
    let left_us = left_ms.saturating_mul(US_PER_MS).min(ttl_us);
    if left_us == 0 || !is_whole(bytes, format) {
        return None;
    }
    let before_us = ttl_us - left_us;
    Some(Reply {
        bytes: bytes.into(),
        format,
        sent_us: now_us,
        before_us,
        soft_us: now_us + soft_us.saturating_sub(before_us),
        expires_us: now_us + left_us,
        basis: None,
    })
}

/// Whether these bytes are one answer, numbered from 1, and nothing else.
fn is_whole(bytes: &[u8], format: ReplyFormat) -> bool {
    let mut relay = Relay::new(ResponseShape::Query, format, format, true).numbered_from(1);
    relay.set_without_cursor();
    let mut out = Vec::new();
    let fed = relay.feed(bytes, &mut out);
    let is_all = fed.is_ok_and(|fed| fed.ended && fed.consumed == bytes.len());
    is_all && relay.into_outcome().error.is_none()
}

fn bits_of(format: ReplyFormat) -> u8 {
    let ReplyFormat {
        deprecate_eof,
        session_track,
        optional_metadata,
        cached_metadata,
        extended_metadata,
        progress,
    } = format;
    let flags = [
        deprecate_eof,
        session_track,
        optional_metadata,
        cached_metadata,
        extended_metadata,
        progress,
    ];
    flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag))
}

fn format_of(bits: u8) -> Option<ReplyFormat> {
    let flag = |place: u8| bits >> place & 1 == 1;
    (bits < 1 << 6).then(|| ReplyFormat {
        deprecate_eof: flag(0),
        session_track: flag(1),
        optional_metadata: flag(2),
        cached_metadata: flag(3),
        extended_metadata: flag(4),
        progress: flag(5),
    })
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::response::write::put_text_result;

    use super::*;

    const SEC: u64 = 1_000_000;

    fn reply(format: ReplyFormat) -> Reply {
        let mut bytes = Vec::new();
        put_text_result(&mut bytes, 1, format, 2, &["a"], &[vec![Some(b"one".to_vec())]]);
        Reply {
            bytes: bytes.into(),
            format,
            sent_us: 7 * SEC,
            before_us: 0,
            soft_us: 15 * SEC,
            expires_us: 17 * SEC,
            basis: None,
        }
    }

    #[test]
    fn an_answer_comes_back_as_old_as_it_is() {
        let formats = (0..1 << 6).filter_map(format_of);
        for format in formats.filter(|format| !format.has_metadata_flag()) {
            assert_eq!(format_of(bits_of(format)), Some(format));
            let stored = reply(format);
            let value = pack(&stored);
            // Another process, whose clock begins at its own start, 4 s later.
            let found = unpack(&value, 6_000, SEC).expect("it is whole");
            assert_eq!((&found.bytes, found.format), (&stored.bytes, stored.format));
            assert_eq!(found.age_us(SEC), 4 * SEC);
            assert_eq!((found.soft_us, found.expires_us), (5 * SEC, 7 * SEC));
            assert!(found.is_good(5 * SEC, SEC) && !found.is_good(4 * SEC, SEC));
            // It goes on to a third one.
            assert_eq!(unpack(&pack(&found), 6_000, SEC), Some(found));
        }
    }

    #[test]
    fn an_answer_that_waits_on_its_way_is_good_for_less() {
        let stored = reply(ReplyFormat::PLAIN);
        let store = SharedStore {
            shared_key: Arc::from(&b"key"[..]),
            generation: 1,
            value: pack(&stored),
            expires_us: stored.expires_us,
        };
        assert_eq!(store.left_ms(7 * SEC), Some(10_000));
        // Of 10 s it has waited for four, and is as old as it is wherever it is found.
        let left_ms = store.left_ms(11 * SEC).expect("it is good");
        assert_eq!(left_ms, 6_000);
        let found = unpack(&store.value, left_ms, 11 * SEC).expect("it is whole");
        assert_eq!(found.age_us(11 * SEC), 4 * SEC);
        assert_eq!(store.left_ms(17 * SEC - 999), None);
        assert_eq!(store.left_ms(18 * SEC), None);
    }

    #[test]
    fn what_is_not_one_whole_answer_is_none() {
        let value = pack(&reply(ReplyFormat::PLAIN));
        assert!(unpack(&value, 0, 0).is_none(), "over");
        for len in 0..value.len() {
            assert!(unpack(&value[..len], 1_000, 0).is_none(), "{len} bytes");
        }
        let mut longer = value.clone();
        longer.push(0);
        assert!(unpack(&longer, 1_000, 0).is_none());
        for place in 0..VALUE_HEAD_LEN {
            let mut other = value.clone();
            other[place] ^= 0x80;
            let found = unpack(&other, 1_000, 0);
            assert!(place > 4 || found.is_none(), "byte {place}");
        }
        assert!(unpack(&value, u64::MAX, 0).is_some_and(|found| found.expires_us == 10 * SEC));
    }
}
