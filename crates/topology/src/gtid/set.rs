//! Sets of MySQL's global transaction identifiers: for each server and tag the intervals of
//! numbers, as in `3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7:tag:1-3,…`.

use std::{collections::BTreeMap, fmt};

use super::{GtidError, INTERVALS_MAX, NUMBER_MAX, Origin, Tag, Text, put_uuid};

/// A set of transactions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidSet(BTreeMap<Origin, Intervals>);

/// Numbers, as intervals that neither overlap nor touch each other, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Intervals(Vec<(u64, u64)>);

impl Intervals {
    /// The first and the last number of each interval.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }

    /// The end of the interval that begins with 1; 0 when 1 is not there.
    pub fn prefix(&self) -> u64 {
        self.0.first().filter(|(first, _)| *first == 1).map_or(0, |(_, last)| *last)
    }

    /// Whether all numbers from `first` to `last` are there.
    pub fn has(&self, first: u64, last: u64) -> bool {
        let behind = self.0.partition_point(|(begin, _)| *begin <= first);
        let at = behind.checked_sub(1).and_then(|at| self.0.get(at));
        first > last || at.is_some_and(|(_, end)| *end >= last)
    }

    /// Adds the numbers from `first` to `last`.
    pub fn add(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        // All that overlap or touch become one.
        let begin = self.0.partition_point(|(_, end)| end.saturating_add(1) < first);
        let end = self.0.partition_point(|(begin, _)| *begin <= last.saturating_add(1));
        let joined = self.0.get(begin..end).unwrap_or_default();
        let first = joined.first().map_or(first, |(own, _)| first.min(*own));
        let last = joined.last().map_or(last, |(_, own)| last.max(*own));
        self.0.splice(begin..end.max(begin), [(first, last)]);
        debug_assert!(self.is_sound());
    }

    /// Takes the numbers from `first` to `last` out.
    fn remove(&mut self, first: u64, last: u64) {
        let without = |(begin, end): (u64, u64)| {
            let before = (begin, end.min(first.saturating_sub(1)));
            let behind = (begin.max(last.saturating_add(1)), end);
            let is_out = end < first || begin > last;
            let parts = if is_out { [(begin, end), (1, 0)] } else { [before, behind] };
            parts.into_iter().filter(|(begin, end)| begin <= end)
        };
        self.0 = self.0.iter().copied().flat_map(without).collect();
        debug_assert!(self.is_sound());
    }

    fn is_sound(&self) -> bool {
        let are_apart = |pair: &[(u64, u64)]| match pair {
            [(_, end), (begin, _)] => end.saturating_add(1) < *begin,
            _ => true,
        };
        self.0.iter().all(|(begin, end)| (1..=*end).contains(begin))
            && self.0.windows(2).all(are_apart)
    }
}

impl GtidSet {
    /// Reads a set. The empty text is the empty set.
    ///
    /// # Errors
    /// When it is none, or too long.
    pub fn parse(text: &str) -> Result<Self, GtidError> {
        let mut set = Self::default();
        each_interval(text, |origin, first, last| set.add(origin, first, last))?;
        Ok(set)
    }

    /// Adds the numbers from `first` to `last` of an origin.
    pub fn add(&mut self, origin: Origin, first: u64, last: u64) {
        if first <= last {
            self.0.entry(origin).or_default().add(first, last);
        }
    }

    /// Origins with their numbers; of each there is one at least.
    pub fn origins(&self) -> impl Iterator<Item = (Origin, &Intervals)> {
        self.0.iter().map(|(origin, intervals)| (*origin, intervals))
    }

    /// An origin's numbers; `None` when it has none.
    pub fn of(&self, origin: &Origin) -> Option<&Intervals> {
        self.0.get(origin)
    }

    /// Whether there is no transaction in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The transactions that the server with this UUID has committed itself, with any tag.
    #[must_use]
    pub fn of_server(mut self, uuid: &str) -> Self {
        let uuid = Text::new(uuid).and_then(|mut text| self::uuid(&mut text)).ok();
        self.0.retain(|origin, _| matches!(origin, Origin::Server(it, _) if Some(*it) == uuid));
        self
    }

    /// What is in either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (origin, intervals) in other.origins() {
            intervals.iter().for_each(|(first, last)| self.add(origin, first, last));
        }
        self
    }

    /// What is here and not in the other set.
    #[must_use]
    pub fn subtract(mut self, other: &Self) -> Self {
        for (origin, intervals) in &mut self.0 {
            let others = other.of(origin).into_iter().flat_map(Intervals::iter);
            others.for_each(|(first, last)| intervals.remove(first, last));
        }
        self.0.retain(|_, intervals| !intervals.0.is_empty());
        self
    }

    /// Whether all that is here is in the other set.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.origins().all(|(origin, intervals)| {
            let others = other.of(&origin);
            others.is_some_and(|it| intervals.iter().all(|(first, last)| it.has(first, last)))
        })
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for (origin, intervals) in self.origins() {
            let Origin::Server(uuid, tag) = origin else { continue };
            if before != Some(uuid) {
                f.write_str(if before.is_some() { "," } else { "" })?;
                put_uuid(f, &uuid)?;
                before = Some(uuid);
            }
            if !tag.as_str().is_empty() {
                write!(f, ":{}", tag.as_str())?;
            }
            for (first, last) in intervals.iter() {
                match first == last {
                    true => write!(f, ":{first}")?,
                    false => write!(f, ":{first}-{last}")?,
                }
            }
        }
        Ok(())
    }
}

/// Calls `take` with origin, first and last number of each interval that a text names, in its
/// order.
///
/// # Errors
/// When it is malformed or too long; what came before has been taken.
pub fn each_interval(text: &str, mut take: impl FnMut(Origin, u64, u64)) -> Result<(), GtidError> {
    let mut text = Text::new(text)?;
    let mut count = 0;
    loop {
        text.skip_space();
        if text.rest.is_empty() {
            return Ok(());
        }
        if text.take(b',') {
            continue;
        }
        let uuid = uuid(&mut text)?;
        let mut tag = Tag::NONE;
        text.skip_space();
        let mut has_part = false;
        while text.take(b':') {
            text.skip_space();
            has_part = true;
            if text.rest.first().is_some_and(u8::is_ascii_digit) {
                let first = text.number(NUMBER_MAX)?;
                text.skip_space();
                let last = if text.take(b'-') { end(&mut text)? } else { first };
                if first == 0 {
                    return Err(text.wrong());
                }
                count += 1;
                if count > INTERVALS_MAX {
                    return Err(GtidError::TooLong);
                }
                // One that ends before it begins is empty, as on the server.
                if first <= last {
                    take(Origin::Server(uuid, tag), first, last);
                }
            } else {
                let wrong = text.wrong();
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                tag = Tag::parse(text.take_while(is_part)).ok_or(wrong)?;
            }
            text.skip_space();
        }
        if !has_part || !text.rest.is_empty() && !text.take(b',') {
            return Err(text.wrong());
        }
    }
}

fn end(text: &mut Text<'_>) -> Result<u64, GtidError> {
    text.skip_space();
    text.number(NUMBER_MAX)
}

/// 32 hex digits, with the usual four dashes or with none.
fn uuid(text: &mut Text<'_>) -> Result<[u8; 16], GtidError> {
    let mut uuid = [0; 16];
    let wrong = text.wrong();
    let has_dashes = text.rest.get(8) == Some(&b'-');
    for (at, byte) in uuid.iter_mut().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) && has_dashes && !text.take(b'-') {
            return Err(wrong);
        }
        for _ in 0..2 {
            let (first, rest) = text.rest.split_first().ok_or(wrong)?;
            let digit = char::from(*first).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *byte = (*byte << 4) | digit.ok_or(wrong)?;
            text.rest = rest;
        }
    }
    Ok(uuid)
}
