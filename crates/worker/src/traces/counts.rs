//! What statements do to `FOUND_ROWS()`, and which of them may fail with a last insert id left.
//!
//! Measured on MariaDB 10.11 and MySQL 9.7: it is what the last `SELECT` of a session found, also
//! one within another statement; what selects nothing leaves it as it is, and so does what fails.
//! MySQL's `UPDATE`, `DO` and `DELETE` of several tables leave what no reply tells.

use trunkline_protocol::{packet::greeting::Flavor, response::Outcome};
use trunkline_sql::analysis::{Analysis, Depends, Effect, StatementKind};

use super::Past;
use crate::client::{Purpose, Statement};

/// What becomes of `FOUND_ROWS()` by statements of one digest that succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundRows {
    /// It is the number of rows in the answer, or of those that went `INTO` something.
    Answer,
    /// It stays.
    Stays,
    /// It stays on MariaDB; MySQL changes it, and does not tell.
    StaysOnMariaDb,
    /// It changes, to what the server alone knows.
    Counted,
    /// MySQL changes it; on MariaDB it changes or stays.
    CountedOnMySql,
    /// It changes or stays: the server alone knows. So no other session's may be there before.
    Untold,
}

impl FoundRows {
    /// Whether only the server knows if it stays, on MariaDB at least.
    pub(crate) fn may_stay(self) -> bool {
        matches!(self, Self::CountedOnMySql | Self::Untold)
    }

    /// By what a statement is. `digest_text` is `None` when it is not the whole text.
    pub(crate) fn of(analysis: &Analysis, digest_text: Option<&[u8]>) -> Self {
        use StatementKind as Kind;
        let says = |words: &[&[u8]]| digest_text.is_none_or(|text| has_word(text, words));
        let selects = || says(&[b"SELECT", b"TABLE", b"WITH"]);
        if analysis.statements != 1 || !analysis.is_complete {
            return Self::Untold;
        }
        match analysis.kind {
            Kind::Select | Kind::SelectForUpdate
                if analysis.effects.contains(&Effect::CalcFoundRows) =>
            {
                Self::Counted
            }
            // On MariaDB 0 without a table, and what was put there with one.
            Kind::Select if says(&[b"INTO"]) && !says(&[b"FROM"]) => Self::Counted,
            Kind::Select | Kind::SelectForUpdate | Kind::Describe | Kind::ShowTableStatus => {
                Self::Answer
            }
            Kind::Show if digest_text.is_some_and(counts_conditions) => Self::Answer,
            Kind::Show if says(&SHOWN_WITHOUT_ROWS) => Self::Stays,
            Kind::Show => Self::Answer,
            // `ANALYZE` runs what it explains.
            Kind::Explain if says(&[b"ANALYZE"]) => Self::Untold,
            Kind::Explain => Self::Stays,
            Kind::Insert | Kind::Replace | Kind::Set if !selects() => Self::Stays,
            Kind::Insert | Kind::Replace => Self::Counted,
            Kind::Update if !selects() => Self::StaysOnMariaDb,
            Kind::Update => Self::CountedOnMySql,
            Kind::Delete if digest_text.is_some_and(deletes_from_one) => match selects() {
                true => Self::Untold,
                false => Self::Stays,
            },
            Kind::Delete => Self::CountedOnMySql,
            Kind::Unknown if digest_text.is_some_and(|text| has_first(text, b"DO")) => {
                match selects() {
                    true => Self::CountedOnMySql,
                    false => Self::StaysOnMariaDb,
                }
            }
            Kind::Begin
            | Kind::StartTransaction
            | Kind::Commit
            | Kind::Rollback
            | Kind::Savepoint
            | Kind::ReleaseSavepoint
            | Kind::RollbackSavepoint
            | Kind::Use
            | Kind::Prepare
            | Kind::Deallocate
            | Kind::LockTable
            | Kind::UnlockTables => Self::Stays,
            _ => Self::Untold,
        }
    }
}

/// Whether it is a `GET DIAGNOSTICS`.
fn gets_diagnostics(statement: &Statement) -> bool {
    statement.known.as_ref().is_some_and(|known| {
        known.analysis.kind == StatementKind::Unknown
            && known.analysis.depends.contains(Depends::DIAGNOSTICS)
            && has_first(&known.digest_text, b"GET")
    })
}

/// What is shown without the rows of a table of `information_schema`.
const SHOWN_WITHOUT_ROWS: [&[u8]; 14] = [
    b"CREATE",
    b"GRANTS",
    b"PROCESSLIST",
    b"PRIVILEGES",
    b"ENGINE",
    b"PROFILE",
    b"PROFILES",
    b"WARNINGS",
    b"ERRORS",
    b"BINARY",
    b"MASTER",
    b"SLAVE",
    b"REPLICA",
    b"BINLOG",
];

/// Whether it is a `SHOW COUNT(*) WARNINGS` or `ERRORS`, which is a `SELECT` in other words.
fn counts_conditions(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.nth(1).is_some_and(|word| has_word(word, &[b"COUNT"]))
}

/// Whether a `DELETE` is of the form for one table.
fn deletes_from_one(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.nth(1).is_some_and(|word| word.eq_ignore_ascii_case(b"FROM"))
        && !has_word(text, &[b"USING"])
}

/// Whether a text begins with this word.
fn has_first(text: &[u8], word: &[u8]) -> bool {
    let first = text.split(u8::is_ascii_whitespace).find(|part| !part.is_empty());
    first.is_some_and(|first| first.eq_ignore_ascii_case(word))
}

/// Whether one of these words is in a text.
fn has_word(text: &[u8], words: &[&[u8]]) -> bool {
    let is_end = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_';
    text.split(is_end).any(|part| words.iter().any(|word| part.eq_ignore_ascii_case(word)))
}

/// Whether it is an `INSERT` or its like of several rows: when a later one fails, the first ones
/// have generated ids. `digest_text` is `None` when it is not the whole text.
pub(crate) fn may_fail_half_way(analysis: &Analysis, digest_text: Option<&[u8]>) -> bool {
    match analysis.kind {
        StatementKind::Insert | StatementKind::Replace => digest_text.is_none_or(|text| {
            let text: Vec<u8> =
                text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
            text.windows(3).any(|part| part == b"),(" || part == b"...") || {
                has_word(digest_text.unwrap_or_default(), &[b"SELECT", b"TABLE", b"WITH", b"ROW"])
            }
        }),
        StatementKind::Load => true,
        _ => false,
    }
}

/// The code of `COM_STMT_BULK_EXECUTE`.
const BULK_EXECUTE: u8 = 0xFA;

/// Whether it may leave an id though it fails, so that its connection needs its session's own
/// before.
pub(crate) fn leaves_id_when_failed(statement: &Statement) -> bool {
    let header_len = trunkline_protocol::codec::frame::HEADER_LEN;
    let is_bulk = || {
        statement.purpose == Purpose::Execute
            && statement.frames.get(header_len) == Some(&BULK_EXECUTE)
    };
    let is_run = matches!(statement.purpose, Purpose::Query | Purpose::Execute);
    statement.known.as_ref().is_some_and(|known| is_run && (known.may_fail_half_way || is_bulk()))
}

impl Past {
    /// Takes over what a statement did to `ROW_COUNT()` and `FOUND_ROWS()`. `here` as for
    /// [`Past::learn`]. False where it leaves the row count.
    pub(crate) fn learn_counts(
        &mut self,
        statement: &Statement,
        outcome: &Outcome,
        flavor: Flavor,
        here: Option<(trunkline_pool::ConnId, u64)>,
    ) -> bool {
        // Measured on MariaDB 10.11 and MySQL 9.7: these leave what was counted before.
        let leaves_count = statement.purpose == Purpose::Prepare || gets_diagnostics(statement);
        match &outcome.error {
            Some(_) => self.row_count = -1,
            None if leaves_count => {}
            None => self.row_count = outcome.row_count,
        }
        self.learn_found_rows(statement, outcome, flavor, here);
        outcome.error.is_some() || !leaves_count
    }

    /// Takes over what a statement did to `FOUND_ROWS()`. `here` is the connection that ran it, if
    /// the session had that to itself, and its turn.
    pub(super) fn learn_found_rows(
        &mut self,
        statement: &Statement,
        outcome: &Outcome,
        flavor: Flavor,
        here: Option<(trunkline_pool::ConnId, u64)>,
    ) {
        let Some(known) = statement
            .known
            .as_ref()
            .filter(|_| matches!(statement.purpose, Purpose::Query | Purpose::Execute))
        else {
            return;
        };
        let rule = match (&outcome.error, known.analysis.statements) {
            (None, _) => known.found_rows,
            (Some(_), 1) if known.found_rows != FoundRows::Untold => FoundRows::Stays,
            (Some(_), _) => FoundRows::Untold,
        };
        self.found_rows = match rule {
            FoundRows::Stays => return,
            FoundRows::StaysOnMariaDb if flavor == Flavor::MariaDb => return,
            FoundRows::Answer if outcome.result_sets > 0 => Some(outcome.rows),
            FoundRows::Answer => Some(outcome.affected_rows),
            // Nothing of the proxy's overwrites what another session has left on a MySQL.
            FoundRows::Untold if flavor == Flavor::MySql && self.found_conn != here => {
                self.found_conn = None;
                self.found_rows.get_or_insert(0);
                return;
            }
            FoundRows::StaysOnMariaDb
            | FoundRows::Counted
            | FoundRows::CountedOnMySql
            | FoundRows::Untold => None,
        };
        self.found_conn = here;
    }

    /// The proxy has run a statement there that selects.
    pub(crate) fn found_rows_overwritten(&mut self, here: (trunkline_pool::ConnId, u64)) {
        if self.found_conn == Some(here) {
            self.found_conn = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    fn of(text: &str) -> FoundRows {
        let analysis = analyse(text.as_bytes(), &Modes::default());
        FoundRows::of(&analysis, Some(text.as_bytes()))
    }

    #[test]
    fn what_selects_changes_what_was_found() {
        for text in ["SELECT 1", "SELECT a INTO @x FROM t", "SHOW TABLES", "DESCRIBE t"] {
            assert_eq!(of(text), FoundRows::Answer, "{text}");
        }
        for text in ["INSERT INTO t VALUES (1)", "SET @x = 1", "SHOW CREATE TABLE t", "COMMIT"] {
            assert_eq!(of(text), FoundRows::Stays, "{text}");
        }
        assert_eq!(of("SHOW COUNT ( * ) WARNINGS"), FoundRows::Answer);
        assert_eq!(of("SHOW WARNINGS"), FoundRows::Stays);
        assert_eq!(of("SELECT @@warning_count INTO @a"), FoundRows::Counted);
        assert_eq!(of("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1"), FoundRows::Counted);
        for text in ["SET @x = (SELECT 1)", "DELETE FROM t WHERE a IN (SELECT 1)", "CALL p()"] {
            assert_eq!(of(text), FoundRows::Untold, "{text}");
        }
        assert_eq!(of("INSERT INTO t SELECT 1"), FoundRows::Counted);
        assert_eq!(of("UPDATE t SET a = 1"), FoundRows::StaysOnMariaDb);
        assert_eq!(of("DO 1"), FoundRows::StaysOnMariaDb);
        assert_eq!(of("DO (SELECT 1)"), FoundRows::CountedOnMySql);
        assert_eq!(of("UPDATE t SET a = (SELECT 1)"), FoundRows::CountedOnMySql);
        assert_eq!(of("DELETE FROM t"), FoundRows::Stays);
        assert_eq!(of("DELETE t FROM t, u"), FoundRows::CountedOnMySql);
    }

    #[test]
    fn several_rows_may_fail_half_way() {
        let may = |text: &str| {
            let analysis = analyse(text.as_bytes(), &Modes::default());
            may_fail_half_way(&analysis, Some(text.as_bytes()))
        };
        assert!(may("INSERT INTO t VALUES (?,?) , (?,?)"));
        assert!(may("INSERT INTO t SELECT * FROM u"));
        assert!(!may("INSERT INTO t (a, b) VALUES (?, ?)"));
        assert!(!may("UPDATE t SET a = 1"));
    }
}
