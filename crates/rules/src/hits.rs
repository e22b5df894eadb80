//! Hit counters.

use crate::RuleSet;

/// How often each rule of one set has matched; owned by one worker, merged by a reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits(Vec<u64>);

impl Hits {
    /// A counter of zero for each rule of `rules`.
    pub fn new(rules: &RuleSet) -> Self {
        Self(vec![0; rules.len()])
    }

    /// Hits of the rule at `index` in its set; 0 when the set has no such rule.
    pub fn count(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// Id and hits of each rule of `rules`, which must be the set that was counted for.
    pub fn by_rule<'a>(&'a self, rules: &'a RuleSet) -> impl Iterator<Item = (u32, u64)> + 'a {
        debug_assert_eq!(self.0.len(), rules.len());
        rules.rule_ids().zip(self.0.iter().copied())
    }

    /// Adds another worker's counts for the same set.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.0.len(), other.0.len());
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// Counts one hit of each rule in `matched`. An index beyond the set (counters that were
    /// made for another set) counts nowhere rather than for the wrong rule's neighbour.
    pub(crate) fn add(&mut self, matched: &[u32]) {
        for &index in matched {
            debug_assert!((index as usize) < self.0.len());
            if let Some(count) = self.0.get_mut(index as usize) {
                *count += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Rule};

    #[test]
    fn counts_of_two_workers_add_up() {
        let rules = [9, 4].map(|id| Rule { id, ..Rule::default() });
        let rules = RuleSet::compile(rules.into(), Options::default()).expect("rules");
        let (mut one, mut other) = (Hits::new(&rules), Hits::new(&rules));
        one.add(&[0, 1, 1]);
        other.add(&[1]);
        one.merge(&other);
        assert_eq!(one.by_rule(&rules).collect::<Vec<_>>(), [(4, 1), (9, 3)]);
        assert_eq!((one.count(1), one.count(2)), (3, 0));
    }
}
