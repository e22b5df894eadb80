//! What happened in some seconds.

use std::collections::HashMap;

use crate::Sketch;

/// Digests that a frame has at most: those with the most time. The others are one line.
pub const DIGESTS_MAX: usize = 1_000;
/// Servers that a frame has at most: those with the most time.
pub const SERVERS_MAX: usize = 1_000;
/// Marks that a frame has at most.
const MARKS_MAX: usize = 50;

/// Statements, and what they took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Statements.
    pub count: u64,
    /// Those that ended with an error.
    pub errors: u64,
    /// Their latency in sum, µs.
    pub sum_us: u64,
    /// Their latency.
    pub latency: Sketch,
}

impl Sums {
    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.errors = self.errors.saturating_add(other.errors);
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.latency.merge(&other.latency);
    }

    /// The mean latency, µs; 0 without statements.
    pub fn mean_us(&self) -> u64 {
        self.sum_us.checked_div(self.count).unwrap_or_default()
    }
}

/// One server of a hostgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerLine {
    /// Its hostgroup.
    pub hostgroup: u32,
    /// Its address as the configuration writes it.
    pub address: String,
    /// The worst state that it was in: its place in `trunkline_stats::report::STATES`.
    pub state: u8,
    /// What ran there.
    pub sums: Sums,
    /// Attempts to connect that failed.
    pub connect_errors: u64,
    /// Connections in use at the end, at most.
    pub used: u64,
    /// Idle connections at the end, at most.
    pub idle: u64,
    /// Counters since the start of the process, at the end: connections opened, attempts that
    /// failed, statements, bytes sent, bytes received.
    pub counters: [u64; 5],
}

impl ServerLine {
    fn merge(&mut self, later: &Self) {
        self.state = self.state.max(later.state);
        self.sums.merge(&later.sums);
        self.connect_errors = self.connect_errors.saturating_add(later.connect_errors);
        self.used = self.used.max(later.used);
        self.idle = self.idle.max(later.idle);
        self.counters = later.counters;
    }
}

/// Statements of one digest in one hostgroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DigestLine {
    /// The digest; 0 with an empty text for all others.
    pub digest: u64,
    /// The hostgroup that they ran in.
    pub hostgroup: u32,
    /// The digest's text, which has no values.
    pub text: String,
    /// The statements.
    pub sums: Sums,
    /// Rows sent to clients.
    pub rows_sent: u64,
    /// Rows changed.
    pub rows_affected: u64,
}

impl DigestLine {
    fn merge(&mut self, other: &Self) {
        self.sums.merge(&other.sums);
        self.rows_sent = self.rows_sent.saturating_add(other.rows_sent);
        self.rows_affected = self.rows_affected.saturating_add(other.rows_affected);
    }
}

/// Something that happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// When, Unix seconds.
    pub at: u64,
    /// What.
    pub what: String,
}

/// What happened in some seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// When they began, Unix seconds.
    pub begin: u64,
    /// How many they were.
    pub seconds: u64,
    /// All statements.
    pub all: Sums,
    /// How long statements waited for a connection, of those that waited.
    pub queue: Sums,
    /// The most clients that were connected.
    pub clients: u64,
    /// The most statements that waited for a connection, by hostgroup.
    pub waiting: Vec<(u32, u64)>,
    /// Servers.
    pub servers: Vec<ServerLine>,
    /// Digests; the line of all others last.
    pub digests: Vec<DigestLine>,
    /// Refusals by cause.
    pub refusals: Vec<(String, u64)>,
    /// ProxySQL's numbers at the end, as `stats_mysql_global` has them.
    pub figures: Vec<(String, u64)>,
    /// Starts, loads, events of clusters.
    pub marks: Vec<Mark>,
}

impl Frame {
    /// When it ended.
    pub fn end(&self) -> u64 {
        self.begin.saturating_add(self.seconds)
    }

    /// Adds a later one to it. It then covers the time from the begin of the first to the end of
    /// the last.
    pub fn merge(&mut self, later: &Self) {
        if self.seconds == 0 {
            *self = later.clone();
            return;
        }
        let begin = self.begin.min(later.begin);
        self.seconds = self.end().max(later.end()).saturating_sub(begin);
        self.begin = begin;
        self.all.merge(&later.all);
        self.queue.merge(&later.queue);
        self.clients = self.clients.max(later.clients);
        merge_lines(
            &mut self.waiting,
            &later.waiting,
            |(id, _)| *id,
            |into, from| {
                into.1 = into.1.max(from.1);
            },
        );
        let key = |line: &ServerLine| (line.hostgroup, line.address.clone());
        merge_lines(&mut self.servers, &later.servers, key, ServerLine::merge);
        let key = |line: &DigestLine| (line.digest, line.hostgroup, line.text.is_empty());
        merge_lines(&mut self.digests, &later.digests, key, DigestLine::merge);
        merge_lines(
            &mut self.refusals,
            &later.refusals,
            |(cause, _)| cause.clone(),
            |into, from| {
                into.1 = into.1.saturating_add(from.1);
            },
        );
        self.figures.clone_from(&later.figures);
        let room = MARKS_MAX.saturating_sub(self.marks.len());
        self.marks.extend(later.marks.iter().take(room).cloned());
        self.bound();
    }

    /// Lets the lightest lines go: those of digests to the line of all others.
    pub(crate) fn bound(&mut self) {
        if self.servers.len() > SERVERS_MAX {
            self.servers.sort_by_key(|line| std::cmp::Reverse((line.sums.sum_us, line.state)));
            self.servers.truncate(SERVERS_MAX);
        }
        self.marks.truncate(MARKS_MAX);
        let is_other = |line: &DigestLine| line.text.is_empty() && line.digest == 0;
        let mut others = DigestLine::default();
        let (other, mut digests): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.digests).into_iter().partition(is_other);
        other.iter().for_each(|line| others.merge(line));
        if digests.len() > DIGESTS_MAX {
            let weight = |line: &DigestLine| std::cmp::Reverse((line.sums.sum_us, line.sums.count));
            digests.sort_by_key(weight);
            digests.drain(DIGESTS_MAX..).for_each(|line| others.merge(&line));
        }
        self.digests = digests;
        if others.sums.count > 0 {
            self.digests.push(others);
        }
    }

    /// What ran in each hostgroup, by its number.
    pub fn hostgroups(&self) -> Vec<(u32, Sums)> {
        let mut groups: Vec<(u32, Sums)> = Vec::new();
        for line in &self.servers {
            match groups.binary_search_by_key(&line.hostgroup, |(id, _)| *id) {
                Ok(at) => groups.get_mut(at).into_iter().for_each(|it| it.1.merge(&line.sums)),
                Err(at) => groups.insert(at, (line.hostgroup, line.sums.clone())),
            }
        }
        groups
    }
}

fn merge_lines<T: Clone, K: std::hash::Hash + Eq>(
    into: &mut Vec<T>,
    from: &[T],
    key: impl Fn(&T) -> K,
    merge: impl Fn(&mut T, &T),
) {
    let places: HashMap<K, usize> = into.iter().map(&key).zip(0..).collect();
    for line in from {
        match places.get(&key(line)).and_then(|at| into.get_mut(*at)) {
            Some(found) => merge(found, line),
            None => into.push(line.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(digest: u64, us: u64) -> DigestLine {
        let mut latency = Sketch::default();
        latency.add(us, 1);
        let sums = Sums { count: 1, errors: 0, sum_us: us, latency };
        DigestLine { digest, text: format!("SELECT {digest}"), sums, ..DigestLine::default() }
    }

    #[test]
    fn the_lightest_digests_become_others_and_nothing_is_lost() {
        let frame = |from: u64| Frame {
            begin: from,
            seconds: 10,
            digests: (from..from + 800).map(|digest| line(digest, digest)).collect(),
            ..Frame::default()
        };
        let mut merged = frame(0);
        merged.merge(&frame(400));
        assert_eq!((merged.begin, merged.seconds), (0, 410));
        assert_eq!(merged.digests.len(), DIGESTS_MAX + 1);
        let count: u64 = merged.digests.iter().map(|line| line.sums.count).sum();
        assert_eq!(count, 1_600);
        let others = merged.digests.last().expect("a line");
        assert_eq!((others.digest, others.sums.count), (0, 200));
        assert!(merged.digests.iter().all(|line| line.digest == 0 || line.digest >= 200));
        merged.merge(&frame(0));
        assert_eq!(merged.digests.len(), DIGESTS_MAX + 1);
    }
}
