//! What statements do that their texts do not show: by a view's function, by triggers, and on the
//! way to an error.

use super::{Data, ModelSession, TAG_AND_V, Write, one_row, run::broken};
use crate::statement::{Act, Answer, Done, Failure, Schema, Statement};

/// Whether anything happens behind the statement's names, or before its error.
pub(super) fn is_hidden(act: &Act) -> bool {
    matches!(
        act,
        Act::ReadAudited
            | Act::InsertMarked(_)
            | Act::InsertRefused(_)
            | Act::InsertGuarded(_)
            | Act::InsertAssigning { .. }
    )
}

impl ModelSession {
    /// Runs a statement that does more than it says.
    pub(super) fn run_hidden(
        &mut self,
        statement: &Statement,
        schema: Option<Schema>,
        data: &mut dyn Data,
    ) -> Result<Answer, Failure> {
        let v = statement.value();
        match statement.act {
            Act::ReadAudited => {
                let schema = self.enter(schema, "audited")?;
                self.apply(schema, Write::Log { v, id: 0 }, data)?;
                let tag = Some(v.to_string());
                Ok(one_row(TAG_AND_V, vec![tag.clone(), tag]))
            }
            Act::InsertMarked(name) => {
                let schema = self.enter(schema, &format!("marked{name}"))?;
                self.set_user(name, v);
                self.apply(schema, Write::Log { v, id: 0 }, data)?;
                Ok(inserted())
            }
            Act::InsertRefused(name) => {
                self.enter(schema, &format!("refused{name}"))?;
                self.set_user(name, v);
                Err(refused("refused"))
            }
            Act::InsertGuarded(lock) => {
                let schema = self.enter(schema, &format!("guarded{lock}"))?;
                if !data.is_granted(lock) {
                    return Err(refused("taken"));
                }
                *self.named_locks.entry(lock).or_default() += 1;
                self.apply(schema, Write::Log { v, id: 0 }, data)?;
                Ok(inserted())
            }
            Act::InsertAssigning { key, name } => {
                let schema = self.enter(schema, "kv")?;
                self.set_user(name, v);
                self.apply(schema, Write::Insert { key, v, ignore: false }, data)
            }
            _ => Err(broken("hidden")),
        }
    }

    fn set_user(&mut self, name: u8, value: u64) {
        self.users.insert(name, value);
        self.trackers.state();
    }
}

/// One row; what the trigger inserted has generated an id that nobody is told.
fn inserted() -> Answer {
    Answer::Done(Done { affected: 1, ..Done::default() })
}

/// `SIGNAL` of a trigger.
fn refused(message: &str) -> Failure {
    Failure::new(1644, b"45000", message)
}
