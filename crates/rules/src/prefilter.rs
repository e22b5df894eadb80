//! Many patterns of one list searched for at once.
//!
//! A list of rules with many patterns would search the same text once for each. Beyond the
//! first few, which are cheaper alone (most fail at their first byte), linear patterns are
//! joined into sets: one pass tells for all of a set's patterns whether they are found. A set
//! is searched when the first of its rules gets as far as its pattern.

use std::collections::HashMap;

use regex::bytes::{RegexSet, RegexSetBuilder, SetMatches};

use crate::{compile::Compiled, index::Index, pattern::Pattern};

/// How many patterns at a list's beginning stay alone.
const ALONE: usize = 8;
/// The fewest patterns worth a set.
const SET_MIN: usize = 8;
/// The most patterns in a set; larger automata outgrow their cache and become slow.
const SET_MAX: usize = 64;

/// A pattern's place in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetPlace {
    set: u32,
    member: u32,
}

/// All sets of one rule set.
#[derive(Debug, Default)]
pub(crate) struct Prefilter {
    sets: Vec<RegexSet>,
}

/// What the sets have said about the current statement; kept for reuse.
#[derive(Debug, Default)]
pub(crate) struct SetResults(Vec<(u32, SetMatches)>);

impl Prefilter {
    /// Builds the sets for the lists of `index` and notes each rule's places.
    pub(crate) fn build(index: &Index, rules: &mut [Compiled], patterns: &[Pattern]) -> Self {
        let mut prefilter = Self::default();
        for list in index.lists().filter(|list| list.len() >= ALONE + SET_MIN) {
            prefilter.add_list(list, rules, patterns, |rule| rule.match_digest.as_mut());
            prefilter.add_list(list, rules, patterns, |rule| rule.match_pattern.as_mut());
        }
        prefilter
    }

    fn add_list(
        &mut self,
        list: &[u32],
        rules: &mut [Compiled],
        patterns: &[Pattern],
        column: fn(&mut Compiled) -> Option<&mut PatternTest>,
    ) {
        // Equal patterns share a place, so that a set is not filled with one pattern.
        let mut distinct: Vec<(u32, &str)> = Vec::new();
        let mut order: HashMap<u32, usize> = HashMap::new();
        for &position in list {
            let test = rules.get_mut(position as usize).and_then(column);
            let Some(pattern) = test.map(|test| test.pattern) else {
                continue;
            };
            let source = patterns.get(pattern as usize).and_then(Pattern::source);
            let Some(source) = source.filter(|_| !order.contains_key(&pattern)) else {
                continue;
            };
            order.insert(pattern, distinct.len());
            distinct.push((pattern, source));
        }
        let Some(joined) = distinct.get(ALONE..).filter(|joined| joined.len() >= SET_MIN) else {
            return;
        };
        let mut places: HashMap<u32, SetPlace> = HashMap::new();
        for chunk in joined.chunks(SET_MAX) {
            self.add_set(chunk, &mut places);
        }
        for &position in list {
            if let Some(test) = rules.get_mut(position as usize).and_then(column) {
                test.place = places.get(&test.pattern).copied();
            }
        }
    }

    /// Adds one set; patterns too large to be joined stay alone.
    fn add_set(&mut self, chunk: &[(u32, &str)], places: &mut HashMap<u32, SetPlace>) {
        let sources = chunk.iter().map(|(_, source)| source);
        let Ok(built) = RegexSetBuilder::new(sources).unicode(false).build() else {
            return;
        };
        let Ok(set) = u32::try_from(self.sets.len()) else {
            return;
        };
        self.sets.push(built);
        for (member, &(pattern, _)) in (0..).zip(chunk) {
            places.insert(pattern, SetPlace { set, member });
        }
    }

    /// Whether the pattern at `place` is found in `text`, which must be the same text for each
    /// call with the same set until `results` is cleared.
    pub(crate) fn is_found(&self, place: SetPlace, text: &[u8], results: &mut SetResults) -> bool {
        let member = place.member as usize;
        if let Some((_, matches)) = results.0.iter().find(|(set, _)| *set == place.set) {
            return matches.matched(member);
        }
        let Some(set) = self.sets.get(place.set as usize) else {
            debug_assert!(false, "a place is in a set that exists");
            return false;
        };
        let matches = set.matches(text);
        let is_found = matches.matched(member);
        results.0.push((place.set, matches));
        is_found
    }
}

impl SetResults {
    /// Forgets the statement.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A rule's pattern test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PatternTest {
    /// Which of the rule set's patterns.
    pub(crate) pattern: u32,
    /// Its place when it has been joined with others.
    pub(crate) place: Option<SetPlace>,
}
