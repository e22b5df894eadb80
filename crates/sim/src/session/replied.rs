//! The tables as a reply shows them: what a shadow runs its statements on.

use super::{Data, Write, Written};
use crate::statement::{Answer, Failure, Schema, Tag};

/// Says what one reply said. A shadow that runs the statement on it gives the same answer again,
/// unless the reply is wrong in what the session alone determines. Whether the *tables* were told
/// rightly is for the caller to check.
#[derive(Debug)]
pub struct Replied<'a> {
    answer: &'a Answer,
}

impl<'a> Replied<'a> {
    /// The tables of this reply.
    pub fn new(answer: &'a Answer) -> Self {
        Self { answer }
    }

    /// The value in the first row's last column.
    fn value(&self) -> Option<u64> {
        match self.answer {
            Answer::Rows(rows) => rows.rows.first()?.last()?.as_ref()?.parse().ok(),
            Answer::Done(_) | Answer::Failed(_) => None,
        }
    }
}

/// Errors that only tables and other sessions bring about: duplicate key, deadlock, lock wait
/// timeout, a server that only reads, a statement that was killed, a deadlock of named locks. Of
/// these all but the first are for [`ModelSession::fail_from_outside`](super::ModelSession).
pub const DATA_ERRORS: [u16; 6] = [1062, 1213, 1205, 1290, 1317, 3058];

impl Data for Replied<'_> {
    fn read(&mut self, _: Schema, _: u64) -> Option<u64> {
        self.value()
    }

    fn count_log(&mut self, _: Schema, _: Tag) -> u64 {
        self.value().unwrap_or_default()
    }

    fn write(&mut self, _: Schema, _: Write) -> Result<Written, Failure> {
        match self.answer {
            Answer::Done(done) => {
                Ok(Written { affected: done.affected, insert_id: done.last_insert_id })
            }
            Answer::Rows(_) => Ok(Written::default()),
            // Other errors do not come from the rows: see `fail_from_outside`.
            Answer::Failed(failure) => match failure.code {
                1062 => Err(failure.clone()),
                _ => Ok(Written::default()),
            },
        }
    }

    fn is_granted(&mut self, _: u8) -> bool {
        // By a trigger: it would have refused.
        matches!(self.answer, Answer::Done(_)) || self.value() == Some(1)
    }

    fn is_locked(&mut self, _: u8) -> bool {
        self.value() == Some(0)
    }

    fn kill(&mut self, _: u64, _: bool) -> bool {
        matches!(self.answer, Answer::Done(_))
    }

    fn commit(&mut self) {}

    fn rollback(&mut self) {}
}
