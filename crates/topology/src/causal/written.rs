//! What a session has written, cluster by cluster.

use super::{OriginId, Token};
use crate::HostgroupId;

/// The most hostgroups that one session's writes are told apart by.
const HOSTGROUPS_MAX: usize = 64;

/// What a session has written, by the hostgroup in which it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    tokens: Vec<(HostgroupId, Token)>,
    /// What was written beyond the most hostgroups.
    rest: Token,
    /// Until when a write may be under way whose connection is lost, ms.
    lost_until_ms: u64,
}

impl Written {
    /// What was written in a hostgroup.
    pub fn token_mut(&mut self, hostgroup: HostgroupId) -> &mut Token {
        let at = self.tokens.iter().position(|(it, _)| *it == hostgroup);
        let at = match at {
            Some(at) => at,
            None if self.tokens.len() >= HOSTGROUPS_MAX => return &mut self.rest,
            None => {
                self.tokens.push((hostgroup, Token::default()));
                self.tokens.len() - 1
            }
        };
        self.tokens.get_mut(at).map_or(&mut self.rest, |(_, token)| token)
    }

    /// What was written, hostgroup by hostgroup. What is not known of is under `None`.
    pub fn tokens(&self) -> impl Iterator<Item = (Option<HostgroupId>, &Token)> {
        let known = self.tokens.iter().map(|(hostgroup, token)| (Some(*hostgroup), token));
        known.chain([(None, &self.rest)])
    }

    /// A write whose connection is lost may be under way until then, ms.
    pub fn lose(&mut self, until_ms: u64) {
        self.lost_until_ms = self.lost_until_ms.max(until_ms);
    }

    /// Whether a write may be under way whose connection is lost.
    #[inline]
    pub fn may_be_under_way(&self, now_ms: u64) -> bool {
        now_ms < self.lost_until_ms
    }

    /// Whether nothing was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tokens.iter().all(|(_, token)| token.is_empty()) && self.rest.is_empty()
    }

    /// The session has written these transactions there, and no later ones.
    pub fn raise(&mut self, hostgroup: HostgroupId, origin: OriginId, first: u64, last: u64) {
        self.token_mut(hostgroup).raise(origin, first, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{causal::Origins, gtid::Origin};

    #[test]
    fn what_is_written_is_told_apart_by_hostgroup() {
        let origins = Origins::default();
        let id = origins.id(&Origin::Domain(0)).expect("a number");
        let mut written = Written::default();
        assert!(written.is_empty());
        written.raise(HostgroupId(1), id, 5, 5);
        written.token_mut(HostgroupId(2)).doubt();
        let doubts: Vec<_> =
            written.tokens().map(|(it, token)| (it, token.needs_writer())).collect();
        let expected = [(Some(HostgroupId(1)), false), (Some(HostgroupId(2)), true), (None, false)];
        assert_eq!(doubts, expected);
        (0..100).for_each(|number| written.raise(HostgroupId(number), id, 6, 6));
        assert_eq!(written.tokens().count(), 65);
        let rest = written.tokens().last().map(|(_, token)| token.wants().len());
        assert_eq!(rest, Some(1), "it is wanted everywhere");
    }
}
