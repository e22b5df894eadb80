//! What a session has written.

use super::OriginId;

/// The most origins in one token. A session that has written under more reads from the writer.
const WANTS_MAX: usize = 16;

/// Transactions of one origin that a read has to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Whose.
    pub origin: OriginId,
    /// The first one. A server that has gaps needs all from this one on.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// The transactions that a session's reads have to see. It only grows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Token {
    wants: Vec<Want>,
    is_in_doubt: bool,
    is_untracked: bool,
}

impl Token {
    /// The session has written these transactions, and no later ones.
    pub fn raise(&mut self, origin: OriginId, first: u64, last: u64) {
        // What is in doubt has an earlier number, if it has one.
        let first = if std::mem::take(&mut self.is_in_doubt) { 1 } else { first };
        let is_full = self.wants.len() >= WANTS_MAX;
        match self.wants.iter_mut().find(|want| want.origin == origin) {
            Some(want) => {
                want.first = want.first.min(first);
                want.last = want.last.max(last);
            }
            None if is_full => self.is_untracked = true,
            None => self.wants.push(Want { origin, first, last }),
        }
    }

    /// The session may have written something whose number it was not told. Its next write on the
    /// same server has a later one.
    pub fn doubt(&mut self) {
        self.is_in_doubt = true;
    }

    /// The session has written something that no number will tell of.
    pub fn lose_track(&mut self) {
        self.is_untracked = true;
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.wants.is_empty() && !self.needs_writer()
    }

    /// Whether nobody but the writer is known to have all that was written.
    #[inline]
    pub fn needs_writer(&self) -> bool {
        self.is_in_doubt || self.is_untracked
    }

    /// What a server has to show.
    #[inline]
    pub fn wants(&self) -> &[Want] {
        &self.wants
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{causal::Origins, gtid::Origin};

    #[test]
    fn a_token_grows_with_what_is_written() {
        let origins = Origins::default();
        let id = |domain| origins.id(&Origin::Domain(domain)).expect("a number");
        let mut token = Token::default();
        assert!(token.is_empty());
        token.raise(id(0), 5, 6);
        token.raise(id(0), 9, 9);
        token.raise(id(0), 7, 7);
        token.raise(id(1), 2, 2);
        let wants: Vec<_> = token.wants().iter().map(|want| (want.first, want.last)).collect();
        assert_eq!(wants, [(5, 9), (2, 2)]);
    }

    #[test]
    fn a_doubt_ends_with_the_next_write_of_which_all_before_is_wanted() {
        let origins = Origins::default();
        let id = origins.id(&Origin::Domain(0)).expect("a number");
        let mut token = Token::default();
        token.doubt();
        assert!(token.needs_writer() && !token.is_empty());
        token.raise(id, 8, 8);
        assert!(!token.needs_writer());
        assert_eq!(token.wants(), [Want { origin: id, first: 1, last: 8 }]);
    }

    #[test]
    fn what_no_number_tells_of_is_not_forgotten() {
        let origins = Origins::default();
        let id = |domain| origins.id(&Origin::Domain(domain)).expect("a number");
        let mut token = Token::default();
        token.lose_track();
        token.raise(id(0), 1, 1);
        assert!(token.needs_writer());
        let mut token = Token::default();
        (0..17).for_each(|domain| token.raise(id(domain), 1, 1));
        assert!(token.needs_writer(), "it has written under more origins than it can keep");
    }
}
