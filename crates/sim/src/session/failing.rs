//! What a statement that fails makes of the session.

use super::{Data, ModelSession, Warning};
use crate::statement::{Act, Answer, Failure, Schema, Statement};

impl ModelSession {
    /// Whether two are alike in what only a transaction's beginning tells apart.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.status(), self.next) == (other.status(), other.next)
    }

    /// A statement failed, of itself or because its server says so.
    pub fn fail(&mut self, failure: Failure) -> Answer {
        let Failure { code, message, .. } = &failure;
        self.has_fresh_warnings = true;
        self.warnings = vec![Warning { level: "Error", code: *code, message: message.clone() }];
        self.row_count = -1;
        self.trackers.discard();
        Answer::Failed(failure)
    }

    /// A statement failed because of others: a deadlock (1213), which undoes the transaction, a
    /// wait that was too long (1205), a kill (1317), a server that only reads (1290).
    pub fn fail_from_outside(
        &mut self,
        statement: &Statement,
        schema: Option<Schema>,
        failure: Failure,
        data: &mut dyn Data,
    ) -> Answer {
        let touches = self.touches(&statement.act, schema);
        match (&statement.act, failure.code) {
            (Act::LockTables { .. }, _) if schema.is_some() => {
                // What it does first, it has done.
                self.end_transaction(data, true);
                self.use_next();
                self.table_lock = None;
            }
            (_, 1213) => self.end_transaction(data, false),
            (Act::GetLock { .. }, _) => {}
            // Without autocommit a transaction has begun, though the statement is undone.
            (_, 1205 | 1317 | 1907) if touches => _ = self.touch(false),
            _ => {}
        }
        self.fail(failure)
    }

    /// Whether a statement uses tables, so that it may have begun a transaction before it failed.
    fn touches(&self, act: &Act, schema: Option<Schema>) -> bool {
        // These wait for nobody.
        let is_of_numbers = matches!(act, Act::Numbers { .. } | Act::CalcFoundRows { .. });
        match (act, schema) {
            (Act::InsertTemporary(name) | Act::ReadTemporary(name), Some(schema)) => {
                self.temporary.contains_key(&(schema, *name))
            }
            (_, Some(_)) if is_of_numbers => self.table_lock.is_none(),
            _ => !self.claims(act, schema).is_empty(),
        }
    }
}
