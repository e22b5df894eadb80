//! Finds the rules that may match without visiting the others.
//!
//! Rules are filed under a hash of their flag and of the exact-match columns that they test
//! (user, schema, digest, in any combination: a *shape*). A question is looked up once in each
//! shape that occurs; the lists found are merged by position, so rules come in ascending id.
//! The key is only a hash, so a list may hold a rule that cannot match: its tests still run.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher},
    ops::Range,
};

use foldhash::fast::FixedState;

use crate::{Question, compile::Compiled};

const USER: u8 = 1;
const SCHEMA: u8 = 2;
const DIGEST: u8 = 4;
/// Combinations of the three.
const SHAPES: usize = 8;

/// Where each list of `rules` begins and how long it is, by key.
type Lists = HashMap<u64, (u32, u32), FixedState>;

/// The index of one rule set.
#[derive(Debug, Default)]
pub(crate) struct Index {
    lists: Lists,
    /// Positions of rules; within a list ascending.
    rules: Vec<u32>,
    /// Which shapes occur: bit `n` for shape `n`.
    shapes: u8,
}

impl Index {
    /// Files `rules`, which are in the order of their ids.
    pub(crate) fn build(rules: &[Compiled]) -> Self {
        let mut keyed: Vec<(u64, u32)> = Vec::with_capacity(rules.len());
        let mut shapes = 0;
        for (position, rule) in (0..).zip(rules) {
            let shape = shape_of(rule);
            shapes |= 1 << shape;
            let username = rule.username.as_deref().unwrap_or_default();
            let schema = rule.schemaname.as_deref().unwrap_or_default();
            let digest = rule.digest.unwrap_or_default();
            let key = key(shape, rule.flag_in, username, schema.as_bytes(), digest);
            keyed.push((key, position));
        }
        keyed.sort_unstable();
        let mut lists = Lists::default();
        for (start, &(key, _)) in (0..).zip(&keyed) {
            lists.entry(key).or_insert((start, 0)).1 += 1;
        }
        let rules = keyed.into_iter().map(|(_, position)| position).collect();
        Self { lists, rules, shapes }
    }

    /// The rules at or after position `from` that may match `question` with `flag`. HOT.
    pub(crate) fn candidates(
        &self,
        question: &Question<'_>,
        flag: u32,
        from: u32,
    ) -> Candidates<'_> {
        let mut candidates = Candidates { lists: [&[]; SHAPES], used: 0, all: 0..0 };
        let mut pending = self.shapes;
        while pending != 0 {
            let shape = pending.trailing_zeros();
            pending &= pending - 1;
            let shape = u8::try_from(shape).unwrap_or_default();
            let Some(list) = self.list(shape, question, flag) else {
                continue;
            };
            let skipped = list.partition_point(|&position| position < from);
            candidates.push(list.get(skipped..).unwrap_or_default());
        }
        candidates
    }

    fn list(&self, shape: u8, question: &Question<'_>, flag: u32) -> Option<&[u32]> {
        if shape & DIGEST != 0 && question.digest.is_none() {
            return None;
        }
        let digest = question.digest.unwrap_or_default();
        let key = key(shape, flag, question.username, question.schema, digest);
        let &(start, len) = self.lists.get(&key)?;
        self.rules.get(start as usize..)?.get(..len as usize)
    }

    /// Every list; for what is prepared list by list.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &[u32]> {
        self.lists.values().filter_map(|&(start, len)| {
            self.rules.get(start as usize..).and_then(|rules| rules.get(..len as usize))
        })
    }
}

fn shape_of(rule: &Compiled) -> u8 {
    let mut shape = 0;
    if rule.username.is_some() {
        shape |= USER;
    }
    if rule.schemaname.is_some() {
        shape |= SCHEMA;
    }
    if rule.digest.is_some() {
        shape |= DIGEST;
    }
    shape
}

fn key(shape: u8, flag: u32, username: &str, schema: &[u8], digest: u64) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u64(u64::from(flag) << 8 | u64::from(shape));
    if shape & USER != 0 {
        hasher.write(username.as_bytes());
    }
    if shape & SCHEMA != 0 {
        hasher.write(schema);
    }
    if shape & DIGEST != 0 {
        hasher.write_u64(digest);
    }
    hasher.finish()
}

/// Positions of rules that may match, ascending.
pub(crate) struct Candidates<'a> {
    lists: [&'a [u32]; SHAPES],
    used: usize,
    /// Positions that no list says.
    all: Range<u32>,
}

impl<'a> Candidates<'a> {
    /// All rules at these positions.
    pub(crate) fn all(positions: Range<u32>) -> Self {
        Self { lists: [&[]; SHAPES], used: 0, all: positions }
    }

    fn push(&mut self, list: &'a [u32]) {
        if let Some(free) = self.lists.get_mut(self.used).filter(|_| !list.is_empty()) {
            *free = list;
            self.used += 1;
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.used == 0 {
            return self.all.next();
        }
        let lists = self.lists.get_mut(..self.used)?;
        let mut first: Option<(u32, &mut &[u32])> = None;
        for list in lists {
            let Some(&head) = list.first() else { continue };
            if first.as_ref().is_none_or(|(least, _)| head < *least) {
                first = Some((head, list));
            }
        }
        let (head, list) = first?;
        *list = list.get(1..).unwrap_or_default();
        Some(head)
    }
}
