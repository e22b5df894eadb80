//! What one read has to see.

use super::{OriginId, Reached, SharedPosition, Token, Want};

/// What one read has to see: fixed when the read comes, so that it does not wait for what is
/// written meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Need {
    wants: Vec<Want>,
    needs_writer: bool,
    /// How old what a replica shows may be, ms.
    age_max_ms: Option<u32>,
    /// All that was written up to this moment is needed, ms on the workers' clock.
    until_ms: Option<u64>,
    /// Some of it was not written here: nobody knows that the writer has it.
    is_given: bool,
}

impl Need {
    /// Nothing. What it has taken of memory it keeps.
    pub fn clear(&mut self) {
        self.wants.clear();
        self.needs_writer = false;
        self.age_max_ms = None;
        self.until_ms = None;
        self.is_given = false;
    }

    /// What a session has written.
    pub fn take_token(&mut self, token: &Token) {
        self.needs_writer |= token.needs_writer();
        token.wants().iter().for_each(|want| self.want(want.origin, want.first, want.last));
    }

    /// What several sessions have written up to now.
    pub fn take_position(&mut self, position: &SharedPosition) {
        position.add_to(self);
    }

    /// These transactions of an origin.
    pub fn want(&mut self, origin: OriginId, first: u64, last: u64) {
        match self.wants.iter_mut().find(|want| want.origin == origin) {
            Some(want) => {
                want.first = want.first.min(first);
                want.last = want.last.max(last);
            }
            None => self.wants.push(Want { origin, first, last }),
        }
    }

    /// Something that nobody but the writer is known to have.
    pub fn want_writer(&mut self) {
        self.needs_writer = true;
    }

    /// All that was there so many milliseconds before the read goes out.
    pub fn bound(&mut self, age_max_ms: u32) {
        self.age_max_ms = Some(self.age_max_ms.map_or(age_max_ms, |own| own.min(age_max_ms)));
    }

    /// All that was written up to this moment, by whomever, ms on the workers' clock.
    pub fn want_all_until(&mut self, at_ms: u64) {
        self.until_ms = self.until_ms.max(Some(at_ms));
    }

    /// Some of it comes from a client, who may have it from elsewhere.
    pub fn give(&mut self) {
        self.is_given = true;
    }

    /// Whether some of it comes from a client.
    pub fn is_given(&self) -> bool {
        self.is_given
    }

    /// Whether anything will do.
    pub fn is_empty(&self) -> bool {
        self.wants.is_empty()
            && !self.needs_writer
            && self.age_max_ms.is_none()
            && self.until_ms.is_none()
    }

    /// Whether nobody but the writer is known to have it.
    pub fn needs_writer(&self) -> bool {
        self.needs_writer
    }

    /// Whether a replica may come to show it by itself: then it is worth a wait.
    pub fn may_wait(&self) -> bool {
        !self.needs_writer && !self.wants.is_empty()
    }

    /// Whether a replica may come to show all up to a moment by itself.
    pub fn may_come_of_age(&self) -> bool {
        !self.needs_writer && self.until_ms.is_some()
    }

    /// The transactions.
    pub fn wants(&self) -> &[Want] {
        &self.wants
    }

    /// Whether a server shows it now.
    #[inline]
    pub fn is_met_by(&self, reached: &Reached, now_ms: u64) -> bool {
        !self.needs_writer
            && reached.has(&self.wants)
            && self.age_max_ms.is_none_or(|age_ms| reached.is_fresher_than(age_ms, now_ms))
            && self.until_ms.is_none_or(|at_ms| reached.shows_all_until(at_ms, now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        causal::{Origins, Shown},
        gtid::Origin,
    };

    #[test]
    fn a_need_is_met_by_who_shows_all_of_it_and_is_fresh_enough() {
        let (origins, reached) = (Origins::default(), Reached::default());
        let id = origins.id(&Origin::Domain(0)).expect("a number");
        let mut need = Need::default();
        assert!(need.is_empty() && need.is_met_by(&reached, 0));
        need.bound(100);
        need.bound(200);
        assert!(!need.is_met_by(&reached, 1_000), "nobody knows how old it is");
        reached.set_fresh(901);
        assert!(need.is_met_by(&reached, 1_000) && !need.is_met_by(&reached, 1_002));
        assert!(!need.may_wait());
        need.want(id, 3, 5);
        assert!(need.may_wait() && !need.is_met_by(&reached, 1_000));
        reached.publish([Shown { origin: id, last: 5, apart: None }]);
        assert!(need.is_met_by(&reached, 1_000));
        reached.clear();
        assert!(!need.is_met_by(&reached, 1_000));
        need.clear();
        assert!(need.is_empty());
        need.want_all_until(901);
        need.want_all_until(900);
        assert!(!need.is_empty() && !need.is_met_by(&reached, 1_000));
        reached.set_fresh(901);
        assert!(!need.is_met_by(&reached, 1_000), "it was asked within the same millisecond");
        reached.set_fresh(902);
        assert!(need.is_met_by(&reached, 1_000));
        reached.clear();
        // Several servers write, and nobody can say it.
        assert!(!need.is_met_by(&reached, 60_900) && need.is_met_by(&reached, 61_000));
        reached.set_compared();
        assert!(!need.is_met_by(&reached, 61_000));
        need.clear();
        need.want_writer();
        assert!(!need.is_empty() && !need.is_met_by(&reached, 1_000) && !need.may_wait());
    }
}
