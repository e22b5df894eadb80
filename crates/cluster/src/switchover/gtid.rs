//! Who has which transactions: positions of MariaDB's replication, which have the last transaction
//! of each domain (`domain-server-sequence` with commas between them), and MySQL's sets of all
//! transactions (`uuid:first-last:…`, `uuid:tag:first-last`).

use std::{collections::BTreeMap, fmt};

/// The last transaction of each domain: who has committed it, and its number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position(BTreeMap<u32, (u32, u64)>);

impl Position {
    /// Reads a position; `None` if it is none. The empty text is that of a server without any
    /// transactions.
    pub fn parse(text: &str) -> Option<Self> {
        let mut position = Self::default();
        for gtid in text.split(',').map(str::trim).filter(|gtid| !gtid.is_empty()) {
            let mut parts = gtid.split('-');
            let domain = parts.next()?.parse().ok()?;
            let (server, sequence) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            if parts.next().is_some() {
                return None;
            }
            position.0.insert(domain, (server, sequence));
        }
        Some(position)
    }

    /// The transactions here that another server lacks, as far as positions tell: domains in which
    /// this one is further, or as far with a transaction of another server.
    pub fn beyond(&self, other: &Self) -> Vec<String> {
        let is_beyond = |domain: &u32, server: u32, sequence: u64| match other.0.get(domain) {
            None => true,
            Some((known, reached)) => {
                sequence > *reached || sequence == *reached && server != *known
            }
        };
        let beyond = self.0.iter().filter(|(domain, last)| is_beyond(domain, last.0, last.1));
        beyond.map(|(domain, (server, sequence))| format!("{domain}-{server}-{sequence}")).collect()
    }

    /// The later position of each domain.
    pub fn join(&mut self, other: Self) {
        for (domain, last) in other.0 {
            let own = self.0.entry(domain).or_insert(last);
            if last.1 > own.1 {
                *own = last;
            }
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gtid = |(domain, (server, sequence)): (&u32, &(u32, u64))| {
            format!("{domain}-{server}-{sequence}")
        };
        f.write_str(&self.0.iter().map(gtid).collect::<Vec<_>>().join(","))
    }
}

/// What a MariaDB server has logged: the last transaction of each server in each domain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BinlogState(BTreeMap<(u32, u32), u64>);

impl BinlogState {
    /// Reads a value of `gtid_binlog_state`; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut state = Self::default();
        for gtid in text.split(',').map(str::trim).filter(|gtid| !gtid.is_empty()) {
            let mut parts = gtid.split('-');
            let domain = parts.next()?.parse().ok()?;
            let server = parts.next()?.parse().ok()?;
            let sequence: u64 = parts.next()?.parse().ok()?;
            if parts.next().is_some() {
                return None;
            }
            let last: &mut u64 = state.0.entry((domain, server)).or_default();
            *last = sequence.max(*last);
        }
        Some(state)
    }

    /// The transactions here that another server has not logged.
    pub fn beyond(&self, other: &Self) -> Vec<String> {
        let known = |key: &(u32, u32)| other.0.get(key).copied().unwrap_or_default();
        let beyond = self.0.iter().filter(|(key, sequence)| **sequence > known(key));
        beyond
            .map(|((domain, server), sequence)| match known(&(*domain, *server)) {
                0 => format!("{domain}-{server}-{sequence} and those of that server before it"),
                known => format!("{domain}-{server}-{sequence} and back to {}", known + 1),
            })
            .collect()
    }
}

/// A set of MySQL's transactions: by `uuid` or `uuid:tag` the numbers, as ranges that neither touch
/// nor overlap, in order; both ends belong to them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidSet(BTreeMap<String, Vec<(u64, u64)>>);

impl GtidSet {
    /// Reads a set; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut set = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let mut words = part.split(':').map(str::trim);
            let uuid = words.next()?.to_ascii_lowercase();
            let is_uuid = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
            if uuid.is_empty() || !uuid.bytes().all(is_uuid) {
                return None;
            }
            let mut name = uuid.clone();
            let mut has_any = false;
            for word in words {
                if !word.starts_with(|first: char| first.is_ascii_digit()) {
                    let is_tag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                    if word.is_empty() || !word.bytes().all(is_tag) {
                        return None;
                    }
                    name = format!("{uuid}:{}", word.to_ascii_lowercase());
                    continue;
                }
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                let (first, last) = (first.parse().ok()?, last.parse().ok()?);
                if first == 0 || first > last {
                    return None;
                }
                set.0.entry(name.clone()).or_default().push((first, last));
                has_any = true;
            }
            if !has_any {
                return None;
            }
        }
        set.0.values_mut().for_each(merge);
        Some(set)
    }

    /// Takes in another one.
    pub fn join(&mut self, other: Self) {
        for (name, ranges) in other.0 {
            let own = self.0.entry(name).or_default();
            own.extend(ranges);
            merge(own);
        }
    }

    /// The transactions here that are not in another one.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for (name, ranges) in &self.0 {
            let taken = other.0.get(name).map(Vec::as_slice).unwrap_or_default();
            let left: Vec<_> = ranges.iter().flat_map(|range| cut(*range, taken)).collect();
            if !left.is_empty() {
                rest.0.insert(name.clone(), left);
            }
        }
        rest
    }

    /// The transactions that a server has committed itself.
    pub fn of_server(&self, uuid: &str) -> Self {
        let uuid = uuid.to_ascii_lowercase();
        let is_own = |name: &String| name.split(':').next() == Some(uuid.as_str());
        let own = self.0.iter().filter(|(name, _)| is_own(name));
        Self(own.map(|(name, ranges)| (name.clone(), ranges.clone())).collect())
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Puts ranges in order, and makes one of those that touch.
fn merge(ranges: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges.drain(..) {
        match merged.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            Some(_) | None => merged.push((first, last)),
        }
    }
    *ranges = merged;
}

/// What is left of a range without these ones, which are in order.
fn cut((begin, last): (u64, u64), taken: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut first, mut left) = (begin, Vec::new());
    for (from, to) in taken.iter().filter(|(from, to)| *to >= begin && *from <= last) {
        if *from > first {
            left.push((first, from - 1));
        }
        match to.checked_add(1) {
            Some(next) => first = next,
            None => return left,
        }
    }
    if first <= last {
        left.push((first, last));
    }
    left
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, ranges)) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            f.write_str(name)?;
            for (first, last) in ranges {
                match first == last {
                    true => write!(f, ":{first}")?,
                    false => write!(f, ":{first}-{last}")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_another_position_is_found_by_domain() {
        let check = |own: &str, other: &str, expected: &[&str]| {
            let parse = |text| Position::parse(text).expect("a position");
            assert_eq!(parse(own).beyond(&parse(other)), expected, "{own} beyond {other}");
        };
        check("0-1-100", "0-1-100", &[]);
        check("0-1-99", "0-2-100", &[]);
        check("0-1-100", "0-2-100", &["0-1-100"]);
        check("0-1-101,1-1-5", "0-1-100,1-1-5", &["0-1-101"]);
        check("0-1-100, 7-3-1", "0-1-100", &["7-3-1"]);
        check("", "0-1-100", &[]);
        check("0-1-1", "", &["0-1-1"]);
    }

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(text).expect("a set")
    }

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let check = |own: &str, other: &str, joined: &str, without: &str| {
            let mut both = set(own);
            both.join(set(other));
            assert_eq!(both.to_string(), joined, "{own} with {other}");
            assert_eq!(set(own).without(&set(other)).to_string(), without, "{own} without {other}");
        };
        check("a:1-5", "a:6-9", "a:1-9", "a:1-5");
        check("A:1-5:7", "a:3-4", "a:1-5:7", "a:1-2:5:7");
        check("a:1-5,\nb:1", "b:1-2", "a:1-5,b:1-2", "a:1-5");
        check("a:1-3:abc:1-2", "a:1-3", "a:1-3,a:abc:1-2", "a:abc:1-2");
        check("", "a:1", "a:1", "");
        check("a:2-9", "a:1-20", "a:1-20", "");
        assert_eq!(set("a:1-5,b:3,a:x:1").of_server("A").to_string(), "a:1-5,a:x:1");
        for text in ["a", "a:", "a:0", "a:5-3", "x y:1", "a:1-x", "a:tag"] {
            assert_eq!(GtidSet::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_server_logged_alone_is_found_though_others_are_further() {
        let parse = |text| BinlogState::parse(text).expect("a state");
        let (old, new) = (parse("0-1-100,1-1-4"), parse("0-1-98,0-2-105,1-1-4"));
        assert_eq!(old.beyond(&new), ["0-1-100 and back to 99"]);
        assert!(parse("0-1-98").beyond(&new).is_empty());
        assert!(parse("").beyond(&new).is_empty());
        assert_eq!(new.beyond(&old), ["0-2-105 and those of that server before it"]);
        assert_eq!(BinlogState::parse("0-1"), None);
    }

    #[test]
    fn positions_are_joined_by_domain() {
        let parse = |text| Position::parse(text).expect("a position");
        let mut own = parse("0-1-100,1-1-7");
        own.join(parse("0-2-101,1-1-5,2-3-1"));
        assert_eq!(own.to_string(), "0-2-101,1-1-7,2-3-1");
    }

    #[test]
    fn what_is_no_position_is_not_read() {
        for text in ["x", "0-1", "0-1-2-3", "0-1-x", "-1-2", "0-1-99999999999999999999999"] {
            assert_eq!(Position::parse(text), None, "{text}");
        }
    }
}
