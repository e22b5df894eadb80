//! What a statement that failed may have left behind.
//!
//! An error proves nothing of what ran before it, unless it is one of those that come before
//! anything runs. Checked on MariaDB 10.11 and MySQL 9.7: of `SET @s = …, @t = …` that fails with
//! 1054 the first item may have been set.

use trunkline_sql::{
    analysis::{Analysis, Effect, TableAccess, TableUse},
    set::{Assignment, Scope, Value},
};

use super::Step;
use crate::tracker::PinReason;

/// Whether a single statement may have run in part when it gets this error.
pub(super) fn may_have_begun(code: u16, analysis: Option<&Analysis>) -> bool {
    const SYNTAX: u16 = 1064;
    let Some(analysis) = analysis else { return true };
    let effects = &analysis.effects;
    // A trigger's own statement gets all of these errors too, when rows have been computed.
    let writes = |used: &TableUse| used.access == TableAccess::Write;
    if analysis.references.tables.iter().any(writes) {
        return true;
    }
    let sets = effects.iter().any(|effect| match effect {
        Effect::Set(assignments) => !assignments.iter().all(is_checked_first),
        _ => false,
    });
    let is_set = effects.iter().any(|effect| matches!(effect, Effect::Set(_)));
    let is_early = comes_before_execution(code) || is_set && is_refused_value(code);
    !is_early || sets && code != SYNTAX
}

/// Whether an error of this code says that a variable can't have the value that it was to get.
/// Servers look at all items of a `SET` before they set the first one.
fn is_refused_value(code: u16) -> bool {
    // Not for this scope, no default, wrong value, wrong type, not to be read, read only.
    matches!(code, 1228..=1233 | 1238)
}

/// Whether nothing of this item of a `SET` happens before all items have been looked at: it is a
/// system variable that gets a literal. A user variable gets its type by the look alone.
fn is_checked_first(assignment: &Assignment) -> bool {
    match assignment {
        Assignment::Variable { scope, value, .. } => {
            *scope != Scope::UserVariable && !matches!(value, Value::Expression(_))
        }
        Assignment::Names { .. }
        | Assignment::CharacterSet { .. }
        | Assignment::Transaction(_)
        | Assignment::Password
        | Assignment::DefaultRole => true,
        Assignment::Role | Assignment::ResourceGroup => false,
    }
}

/// Whether an error of this code is one that a statement of plain code gets before any of it runs:
/// its text or its names are wrong, or its account may not do it. Of code that the text does not
/// show, it says nothing.
fn comes_before_execution(code: u16) -> bool {
    const CODES: [u16; 11] = [
        1044, // access to the schema denied
        1046, // no schema chosen
        1049, // unknown schema
        1054, // unknown column
        1064, // syntax
        1142, // access to the table denied
        1143, // access to the column denied
        1146, // unknown table
        1193, // unknown system variable
        1227, // a privilege is needed
        1295, // not supported in the prepared statement protocol
    ];
    CODES.binary_search(&code).is_ok()
}

impl Step<'_> {
    /// An effect of a text that failed: whatever of it may have happened holds the session, and
    /// nothing is taken to have ended. `is_one`: the text is one statement.
    pub(super) fn failed_effect(&mut self, effect: &Effect, is_one: bool) {
        match effect {
            Effect::UserVariableAssigned(name) => self.user_variable_unknown(name.as_deref()),
            Effect::GetLock(_) => self.pins.pin(PinReason::NamedLock),
            Effect::Set(assignments) => self.failed_set(assignments, is_one),
            // The statement before the failed one may be what changed it.
            Effect::UseSchema(_)
            | Effect::SetTransaction(_)
            | Effect::SetUnparsable
            | Effect::CreateTemporaryTable(_)
            | Effect::LockTables
            | Effect::FlushWithReadLock
            | Effect::PrepareStatement { .. }
            | Effect::HandlerOpen(_)
            | Effect::CalcFoundRows
            | Effect::Savepoint
            | Effect::LoadData { .. } => {
                if !is_one {
                    self.pins.pin(PinReason::Other);
                }
            }
            Effect::SetRole | Effect::SetResourceGroup => {
                if !is_one {
                    self.pins.pin(PinReason::Connection);
                }
            }
            Effect::BackupLock(_) => self.pins.pin(PinReason::BackupLock),
            // A part of what was to be given back may have gone: what is left still holds.
            Effect::DropTable { .. }
            | Effect::UnlockTables
            | Effect::ReleaseLock(_)
            | Effect::ReleaseAllLocks
            | Effect::DeallocateStatement(_)
            | Effect::HandlerClose(_)
            | Effect::BackupUnlock(_) => {}
            Effect::SequenceAdvanced => self.pins.pin(PinReason::Sequence),
            Effect::ExecuteStatement(_) | Effect::Call => self.pins.pin(PinReason::Routine),
            Effect::Xa(_) | Effect::OtherSession(_) => self.pins.pin(PinReason::Other),
            Effect::LastInsertIdAssigned
            | Effect::SchemaDefined
            | Effect::AccountsDefined
            | Effect::SetPassword
            | Effect::Kill { .. }
            | Effect::Transaction(_) => {}
        }
    }

    /// A `SET` that failed: one item has not been set; of several some may have been, and
    /// expressions have been evaluated.
    fn failed_set(&mut self, assignments: &[Assignment], is_one: bool) {
        let is_plain = |assignment: &Assignment| {
            !matches!(assignment, Assignment::Variable { value: Value::Expression(_), .. })
        };
        if is_one && assignments.len() == 1 && assignments.iter().all(is_plain) {
            return;
        }
        for assignment in assignments {
            match assignment {
                Assignment::Variable { scope: Scope::UserVariable, name, .. } => {
                    self.user_variable_unknown(Some(name));
                }
                Assignment::Variable {
                    scope: Scope::Global | Scope::Persist | Scope::PersistOnly,
                    ..
                }
                | Assignment::Password
                | Assignment::DefaultRole => {}
                Assignment::Role | Assignment::ResourceGroup => {
                    self.pins.pin(PinReason::Connection);
                }
                Assignment::Variable { .. }
                | Assignment::Names { .. }
                | Assignment::CharacterSet { .. }
                | Assignment::Transaction(_) => self.pins.pin(PinReason::UnknownVariable),
            }
        }
    }
}
