//! Hit counters.

use crate::{Decision, RuleSet};

/// How often each rule of one set has matched, and how often that could not be decided; owned by
/// one worker, merged by a reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits {
    matched: Vec<u64>,
    undecided: Vec<u64>,
}

impl Hits {
    /// A counter of zero for each rule of `rules`.
    pub fn new(rules: &RuleSet) -> Self {
        Self { matched: vec![0; rules.len()], undecided: vec![0; rules.len()] }
    }

    /// Hits of the rule at `index` in its set; 0 when the set has no such rule.
    pub fn count(&self, index: usize) -> u64 {
        self.matched.get(index).copied().unwrap_or(0)
    }

    /// Id and hits of each rule of `rules`, which must be the set that was counted for.
    pub fn by_rule<'a>(&'a self, rules: &'a RuleSet) -> impl Iterator<Item = (u32, u64)> + 'a {
        debug_assert_eq!(self.matched.len(), rules.len());
        rules.rule_ids().zip(self.matched.iter().copied())
    }

    /// Id of each rule of `rules` of which it could not always be decided whether it matches, and
    /// how often; `rules` must be the set that was counted for.
    pub fn undecided_by_rule<'a>(
        &'a self,
        rules: &'a RuleSet,
    ) -> impl Iterator<Item = (u32, u64)> + 'a {
        let all = rules.rule_ids().zip(self.undecided.iter().copied());
        all.filter(|(_, count)| *count > 0)
    }

    /// Adds another worker's counts for the same set.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.matched.len(), other.matched.len());
        let mine = self.matched.iter_mut().chain(&mut self.undecided);
        for (mine, theirs) in mine.zip(other.matched.iter().chain(&other.undecided)) {
            *mine += theirs;
        }
    }

    /// Counts one hit of each rule that a decision says has matched, and what it left undecided. It
    /// is a decision of the set that is counted for.
    pub fn add(&mut self, decision: &Decision) {
        Self::count_each(&mut self.matched, &decision.matched);
        Self::count_each(&mut self.undecided, &decision.undecided);
    }

    /// An index beyond the set (counters that were made for another set) counts nowhere rather than
    /// for the wrong rule's neighbour.
    fn count_each(counts: &mut [u64], rules: &[u32]) {
        for &index in rules {
            debug_assert!((index as usize) < counts.len());
            if let Some(count) = counts.get_mut(index as usize) {
                *count += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Rule};

    fn matched(indexes: &[u32]) -> Decision {
        Decision { matched: indexes.to_vec(), undecided: vec![0], ..Decision::default() }
    }

    #[test]
    fn counts_of_two_workers_add_up() {
        let rules = [9, 4].map(|id| Rule { id, ..Rule::default() });
        let rules = RuleSet::compile(rules.into(), Options::default()).expect("rules");
        let (mut one, mut other) = (Hits::new(&rules), Hits::new(&rules));
        one.add(&matched(&[0, 1, 1]));
        other.add(&matched(&[1]));
        one.merge(&other);
        assert_eq!(one.by_rule(&rules).collect::<Vec<_>>(), [(4, 1), (9, 3)]);
        assert_eq!((one.count(1), one.count(2)), (3, 0));
        assert_eq!(one.undecided_by_rule(&rules).collect::<Vec<_>>(), [(4, 2)]);
    }
}
