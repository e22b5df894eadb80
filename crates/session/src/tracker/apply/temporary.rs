//! Temporary tables: when one that has been made is certainly gone.
//!
//! The text of a `DROP` does not say whose table it drops. A temporary table that was renamed
//! leaves its name to a base table, which the `DROP` then hits; so a name counts only as long as
//! nothing has run that may rename.

use trunkline_sql::analysis::{Analysis, StatementKind, TableName};

use super::super::{PinReason, Pins, Schema};

/// A temporary table or sequence has been made.
pub(super) fn made(pins: &mut Pins, schema: &Schema, name: &TableName) {
    pins.pin_name_once(PinReason::TemporaryTable, &whole_name(schema, name));
}

/// Tables have been dropped, each of them for certain: one statement, which succeeded without a
/// note.
pub(super) fn dropped(pins: &mut Pins, schema: &Schema, names: &[TableName]) {
    for name in names {
        pins.unpin_name(PinReason::TemporaryTable, &whole_name(schema, name));
    }
}

/// Behind any statement, whatever came of it: where temporary tables may have other names by now,
/// no name ends what holds the session any more.
pub(super) fn follow(pins: &mut Pins, analysis: Option<&Analysis>) {
    let is_kept = analysis.is_some_and(keeps_names);
    if !is_kept && pins.has(PinReason::TemporaryTable) {
        pins.pin(PinReason::TemporaryTable);
    }
}

/// Whether a text certainly gives no temporary table another name. No statement of a function or
/// trigger can.
fn keeps_names(analysis: &Analysis) -> bool {
    use StatementKind as Kind;
    // `SET STATEMENT … FOR` any statement.
    let is_alone = analysis.statements <= 1
        && analysis.is_complete
        && !analysis.is_cut
        && analysis.set_for_statement.is_empty();
    is_alone
        && matches!(
            analysis.kind,
            Kind::AnalyzeTable
                | Kind::Begin
                | Kind::Commit
                | Kind::CreateIndex
                | Kind::CreateTable
                | Kind::CreateTemporary
                | Kind::CreateView
                | Kind::Deallocate
                | Kind::Delete
                | Kind::Describe
                | Kind::DropIndex
                | Kind::DropTable
                | Kind::DropView
                | Kind::Explain
                | Kind::Insert
                | Kind::Load
                | Kind::LockTable
                | Kind::Prepare
                | Kind::ReleaseSavepoint
                | Kind::Replace
                | Kind::Rollback
                | Kind::RollbackSavepoint
                | Kind::Savepoint
                | Kind::Select
                | Kind::SelectForUpdate
                | Kind::Set
                | Kind::Show
                | Kind::ShowTableStatus
                | Kind::StartTransaction
                | Kind::TruncateTable
                | Kind::UnlockTables
                | Kind::Update
                | Kind::Use
        )
}

/// Schema and table, so that a table of another schema is not taken for this one. No name holds
/// the byte between them.
fn whole_name(schema: &Schema, name: &TableName) -> Vec<u8> {
    let schema = name.schema.as_deref().unwrap_or(schema.name());
    [schema, b"\0", &name.table].concat()
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::response::Outcome;
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::super::{Charset, SessionState, Trust, apply_outcome};
    use super::*;

    /// Whether the session is held behind these statements, which all succeed; the last one with
    /// so many warnings.
    fn is_held(statements: &[&str], warnings: u16) -> bool {
        let state = SessionState::new(Schema::None, Charset::Collation(45));
        let mut pins = Pins::default();
        let count = statements.len();
        for (place, text) in statements.iter().enumerate() {
            let modes = Modes { flavor_mariadb: true, ..Modes::default() };
            let analysis = analyse(text.as_bytes(), &modes);
            let warnings = if place + 1 == count { warnings } else { 0 };
            let outcome = Outcome { warnings, ..Outcome::default() };
            apply_outcome(&state, &mut pins, Some(&analysis), &outcome, Trust::Reports);
        }
        pins.has(PinReason::TemporaryTable)
    }

    #[test]
    fn a_temporary_table_ends_by_proof_only() {
        let make = "CREATE TEMPORARY TABLE x (a INT)";
        for (rest, expected) in [
            (&["DROP TEMPORARY TABLE x"][..], false),
            (&["DROP TABLE x"], false),
            (&["INSERT INTO x VALUES (1)", "SELECT * FROM x", "COMMIT", "DROP TABLE x"], false),
            (&["DROP TABLE x, y"], false),
            (&["DROP TABLE y"], true),
            (&["DROP TABLE X"], true),
            (&["DROP TABLE d.x"], true),
            (&["DROP TABLE x; SELECT 1"], true),
            (&["ALTER TABLE x RENAME y", "DROP TABLE x"], true),
            (&["RENAME TABLE x TO y", "DROP TABLE x"], true),
            (&["SELECT 1; ALTER TABLE x RENAME y", "DROP TABLE x"], true),
            (&["SET STATEMENT sql_mode = '' FOR ALTER TABLE x RENAME y", "DROP TABLE x"], true),
            (&["EXECUTE p", "DROP TABLE x"], true),
            (&["CALL p()", "DROP TABLE x"], true),
            (&["BEGIN NOT ATOMIC ALTER TABLE x RENAME y; END", "DROP TABLE x"], true),
            (&["DROP SEQUENCE x"], true),
            (&["DROP TEMPORARY SEQUENCE x"], false),
        ] {
            let statements: Vec<_> = [make].into_iter().chain(rest.iter().copied()).collect();
            assert_eq!(is_held(&statements, 0), expected, "{rest:?}");
            // A note says that something was not as the text has it.
            assert!(is_held(&statements, 1), "{rest:?}");
        }
    }

    #[test]
    fn names_with_dots_are_told_apart() {
        let made =
            ["CREATE TEMPORARY TABLE `a.b`.c (n INT)", "CREATE TEMPORARY TABLE a.`b.c` (n INT)"];
        assert!(is_held(&[made[0], made[1], "DROP TABLE a.`b.c`"], 0));
        assert!(!is_held(&[made[0], made[1], "DROP TABLE a.`b.c`, `a.b`.c"], 0));
    }
}
