//! What a statement does to the session behind its names, or before it fails.

use super::Shadow;
use crate::statement::{Act, Answer, Statement, Tag};

/// The user variable that triggers set where no account may see triggers.
pub const HIDDEN_USER: u8 = 3;

impl Shadow {
    /// User variables that a statement set without saying so, or before it failed.
    pub(super) fn note_hidden(&mut self, statement: &Statement, answer: &Answer) {
        let code = match answer {
            Answer::Failed(failure) => Some(failure.code),
            Answer::Done(_) | Answer::Rows(_) => None,
        };
        let name = match (&statement.act, code) {
            (Act::InsertMarked(name), None)
            | (Act::InsertRefused(name), Some(1644))
            | (Act::InsertAssigning { name, .. }, None | Some(1062)) => *name,
            _ => return,
        };
        self.users.insert(name, statement.value());
    }

    /// Where no account sees triggers, nobody can know that one has set a variable: the session may
    /// be elsewhere by now, where it is NULL. Another session's it never is.
    pub(super) fn is_own_tag(&self, value: Option<&str>) -> bool {
        value.is_none_or(|value| {
            let client = value.parse().ok().and_then(|tag| Tag(tag).client());
            client == Some(self.client)
        })
    }
}
