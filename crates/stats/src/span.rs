//! What a worker tells of one statement for its spans: a record of fixed size, without memory of
//! its own, in a ring that the control plane empties.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

/// Why a statement has spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sampled {
    /// Its parent is sampled.
    Parent,
    /// By chance, in the ratio of the setting, its user or its rule.
    #[default]
    Ratio,
    /// It took long.
    Slow,
    /// It ended with an error.
    Failed,
}

impl Sampled {
    /// The word for it, as spans have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Ratio => "ratio",
            Self::Slow => "slow",
            Self::Failed => "failed",
        }
    }
}

/// How a statement came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpanCommand {
    /// As a text.
    #[default]
    Query,
    /// To be prepared.
    Prepare,
    /// As an execution of what was prepared.
    Execute,
}

/// When a statement went from one stage to the next, on the workers' clock, µs. Each is at least
/// the one before; stages of no length have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moments {
    /// The command was complete.
    pub begun_us: u64,
    /// The connection that it ran on began to be opened, or to log in, while it waited.
    pub connecting_us: u64,
    /// That was done.
    pub connected_us: u64,
    /// It had its connection. From `begun_us` on it waited in the queue, but for the time from
    /// `connecting_us` to `connected_us`.
    pub assigned_us: u64,
    /// It was sent, behind what brings the connection to its session's state.
    pub sent_us: u64,
    /// The first bytes of its answer came.
    pub answered_us: u64,
    /// The last ones did.
    pub ended_us: u64,
}

/// What is known of the moments; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// See [`Moments`].
    pub begun_us: u64,
    /// When the connection began to log in the last time.
    pub login_us: u64,
    /// When that was done.
    pub ready_us: u64,
    /// When it was chosen, if something had to be done there first.
    pub assigned_us: u64,
    /// When the statement was sent.
    pub sent_us: u64,
    /// When its answer began, if it ended later.
    pub answered_us: u64,
    /// When it ended.
    pub ended_us: u64,
}

impl Moments {
    /// Brings marks into order. What was sent on a connection that had been opened before has not
    /// connected; what was never sent has waited until its end.
    pub fn of(marks: &Marks) -> Self {
        let Marks { begun_us, ended_us, .. } = *marks;
        let ended_us = ended_us.max(begun_us);
        let within = |at: u64, least: u64| at.clamp(least, ended_us);
        if marks.sent_us == 0 {
            return Self {
                begun_us,
                connecting_us: begun_us,
                connected_us: begun_us,
                assigned_us: ended_us,
                sent_us: ended_us,
                answered_us: ended_us,
                ended_us,
            };
        }
        let sent_us = within(marks.sent_us, begun_us);
        let is_assigned = (begun_us..=sent_us).contains(&marks.assigned_us);
        let assigned_us = if is_assigned { marks.assigned_us } else { sent_us };
        let has_connected = marks.ready_us > begun_us && marks.ready_us <= assigned_us;
        let (connecting_us, connected_us) = match has_connected {
            true => (marks.login_us.clamp(begun_us, marks.ready_us), marks.ready_us),
            false => (begun_us, begun_us),
        };
        let has_answered = marks.answered_us >= sent_us && marks.answered_us != 0;
        let answered_us = if has_answered { within(marks.answered_us, sent_us) } else { ended_us };
        Self { begun_us, connecting_us, connected_us, assigned_us, sent_us, answered_us, ended_us }
    }
}

/// A text of at most `N` bytes, without memory of its own. What is longer is cut.
#[derive(Clone, Copy)]
pub struct Short<const N: usize> {
    len: usize,
    bytes: [u8; N],
}

impl<const N: usize> Short<N> {
    /// What there is room for of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut short = Self::default();
        short.push(bytes);
        short
    }

    fn push(&mut self, more: &[u8]) {
        let len = more.len().min(N - self.len);
        let room = self.bytes.get_mut(self.len..self.len + len);
        if let (Some(room), Some(more)) = (room, more.get(..len)) {
            room.copy_from_slice(more);
            self.len += len;
        }
        debug_assert!(self.len <= N);
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The bytes as text. A character that was cut is left out; what else is none is replaced.
    pub fn text(&self) -> String {
        let bytes = self.bytes();
        let is_cut = self.len == N;
        match std::str::from_utf8(bytes) {
            Err(error) if is_cut && error.error_len().is_none() => {
                String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or(bytes))
                    .into_owned()
            }
            _ => String::from_utf8_lossy(bytes).into_owned(),
        }
    }
}

impl<const N: usize> Default for Short<N> {
    fn default() -> Self {
        Self { len: 0, bytes: [0; N] }
    }
}

impl<const N: usize> PartialEq for Short<N> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl<const N: usize> fmt::Debug for Short<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

impl<const N: usize> fmt::Write for Short<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// What is told of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpanRecord {
    /// The trace that it belongs to.
    pub trace: [u8; 16],
    /// Its span there.
    pub span: [u8; 8],
    /// The span that it is a part of; `None` where it begins the trace.
    pub parent: Option<[u8; 8]>,
    /// Why it is told of.
    pub why: Sampled,
    /// How it came.
    pub command: SpanCommand,
    /// The kind of statement (`SELECT`); empty for what is none.
    pub operation: &'static str,
    /// When its stages were.
    pub moments: Moments,
    /// Number of the client's connection.
    pub client: u32,
    /// Hostgroup; [`HOSTGROUP_CACHE`](crate::HOSTGROUP_CACHE) for the result cache.
    pub hostgroup: u32,
    /// The last rule that matched.
    pub rule: Option<u32>,
    /// The digest.
    pub digest: u64,
    /// Whether the servers are MariaDB's.
    pub is_mariadb: bool,
    /// Whether a server has answered, or was asked.
    pub has_server: bool,
    /// Host of the server, or the path of its socket.
    pub server: Short<128>,
    /// Port of the server; 0 without one.
    pub port: u16,
    /// The user.
    pub user: Short<64>,
    /// The session's schema.
    pub schema: Short<64>,
    /// The table, of a statement that names one only.
    pub table: Short<64>,
    /// The digest's text, as far as there is room.
    pub text: Short<512>,
    /// The error that it ended with.
    pub error: Option<u16>,
    /// Rows that were returned.
    pub rows_sent: u64,
    /// Rows that were changed.
    pub rows_affected: u64,
    /// How often it was sent again.
    pub retries: u32,
    /// How often its transaction was repeated.
    pub replays: u32,
    /// Whether the answer came from the result cache.
    pub is_cached: bool,
}

/// A record is copied as it is, so it must not grow without thought.
const _: () = assert!(size_of::<SpanRecord>() <= 1_152);

/// Records of one worker that wait to be taken. A worker never waits for it.
#[derive(Debug, Default)]
pub struct SpanRing(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    records: Vec<SpanRecord>,
    max: usize,
}

impl SpanRing {
    /// Room for so many; 0 has none. What is there stays until it is taken.
    pub fn resize(&self, max: usize) {
        let mut held = self.lock();
        held.max = max;
        let more = max.saturating_sub(held.records.len());
        held.records.reserve_exact(more);
    }

    /// Takes records over, as many as there is room for, without waiting and without memory to be
    /// had; how many were lost. They stay where they are while somebody else is at the ring.
    pub fn put(&self, records: &mut Vec<SpanRecord>) -> u64 {
        let mut held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return 0,
        };
        let room = held.max.saturating_sub(held.records.len());
        let taken = records.len().min(room);
        held.records.extend(records.iter().take(taken));
        let lost = records.len() - taken;
        records.clear();
        u64::try_from(lost).unwrap_or(u64::MAX)
    }

    /// Takes everything out.
    pub fn take(&self) -> Vec<SpanRecord> {
        if self.lock().records.is_empty() {
            return Vec::new();
        }
        // Memory is to be had before the worker could meet the lock.
        let mut empty = Vec::with_capacity(self.lock().max);
        let mut held = self.lock();
        if empty.capacity() >= held.max {
            std::mem::swap(&mut held.records, &mut empty);
            return empty;
        }
        held.records.drain(..).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn lengths(marks: Marks) -> [u64; 6] {
        let it = Moments::of(&marks);
        let all = [
            it.begun_us,
            it.connecting_us,
            it.connected_us,
            it.assigned_us,
            it.sent_us,
            it.answered_us,
            it.ended_us,
        ];
        assert!(all.is_sorted(), "{all:?}");
        let mut lengths = [0; 6];
        for (length, pair) in lengths.iter_mut().zip(all.windows(2)) {
            *length = pair[1] - pair[0];
        }
        lengths
    }

    #[test]
    fn stages_follow_each_other_and_sum_up() {
        let plain = Marks { begun_us: 10, sent_us: 10, ended_us: 50, ..Marks::default() };
        assert_eq!(lengths(plain), [0, 0, 0, 0, 40, 0]);
        let queued = Marks { sent_us: 30, answered_us: 40, ..plain };
        assert_eq!(lengths(queued), [0, 0, 20, 0, 10, 10]);
        let synchronised = Marks { assigned_us: 15, ..queued };
        assert_eq!(lengths(synchronised), [0, 0, 5, 15, 10, 10]);
        let opened = Marks { login_us: 12, ready_us: 14, ..synchronised };
        assert_eq!(lengths(opened), [2, 2, 1, 15, 10, 10]);
        // It was being opened before, and was open before.
        assert_eq!(lengths(Marks { login_us: 5, ..opened }), [0, 4, 1, 15, 10, 10]);
        let before = Marks { login_us: 5, ready_us: 9, ..opened };
        assert_eq!(lengths(before), [0, 0, 5, 15, 10, 10]);
        let unsent = Marks { begun_us: 10, login_us: 12, ended_us: 50, ..Marks::default() };
        assert_eq!(lengths(unsent), [0, 0, 40, 0, 0, 0]);
    }

    #[test]
    fn marks_of_an_earlier_attempt_are_no_moments() {
        let marks = Marks {
            begun_us: 10,
            login_us: 45,
            ready_us: 46,
            assigned_us: 40,
            sent_us: 30,
            answered_us: 20,
            ended_us: 50,
        };
        assert_eq!(lengths(marks), [0, 0, 20, 0, 20, 0]);
        assert_eq!(lengths(Marks { begun_us: 60, ..marks }), [0; 6]);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut short = Short::<5>::default();
        write!(short, "{}", 12).expect("room");
        assert_eq!(short.text(), "12");
        write!(short, "äöü").expect("cut");
        assert_eq!((short.text(), short.bytes().len()), ("12ä".to_owned(), 5));
        assert_eq!(Short::<5>::of(b"a\xFFb").text(), "a\u{FFFD}b");
        // One that is not cut ends with what is no character.
        assert_eq!(Short::<5>::of(b"ab\xC3").text(), "ab\u{FFFD}");
    }

    #[test]
    fn a_full_ring_takes_no_more_and_says_so() {
        let ring = SpanRing::default();
        let record = |client| SpanRecord { client, ..SpanRecord::default() };
        let mut records = vec![record(1)];
        assert_eq!(ring.put(&mut records), 1, "there is no room yet");
        ring.resize(2);
        let mut records = vec![record(1), record(2), record(3)];
        assert_eq!(ring.put(&mut records), 1);
        assert!(records.is_empty());
        let taken: Vec<u32> = ring.take().iter().map(|record| record.client).collect();
        assert_eq!(taken, [1, 2]);
        assert!(ring.take().is_empty());
        let mut records = vec![record(4)];
        assert_eq!(ring.put(&mut records), 0);
        ring.resize(0);
        assert_eq!((ring.take().len(), ring.take().len()), (1, 0));
        let mut records = vec![record(5)];
        assert_eq!(ring.put(&mut records), 1);
    }

    #[test]
    fn whoever_is_at_the_ring_keeps_no_worker() {
        let ring = SpanRing::default();
        ring.resize(2);
        let mut records = vec![SpanRecord::default()];
        let held = ring.lock();
        assert_eq!(ring.put(&mut records), 0);
        assert_eq!(records.len(), 1);
        drop(held);
        assert_eq!((ring.put(&mut records), records.len()), (0, 0));
    }
}
