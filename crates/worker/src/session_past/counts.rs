//! What statements do to `FOUND_ROWS()`, and which of them may fail with a last insert id left.
//!
//! Measured on MariaDB 10.11 and MySQL 9.7: it is what the last `SELECT` of a session found, on
//! MariaDB also one within another statement, but for stored routines and triggers. What selects
//! nothing leaves it as it is, and on MySQL so does what fails. MySQL's `UPDATE` counts the rows
//! that it matched, its `DO` is a `SELECT` of one row.

use std::rc::Rc;

use trunkline_catalog::Hidden;
use trunkline_pool::ConnId;
use trunkline_protocol::{
    codec::frame::HEADER_LEN,
    command::code,
    packet::greeting::Flavor,
    response::{Outcome, Relay, ResponseShape},
};
use trunkline_session::tracker::PinReason;
use trunkline_sql::analysis::{Analysis, Depends, Effect, StatementKind};

use super::{LastStatement, insert_id::gives_values};
use crate::{
    clients::client::{Lease, Purpose, Session, Statement},
    exchange::hidden::may_read_past,
    exchange::past::runs_a_routine,
    exchange::send::put_own_query,
    rooms::Core,
    servers::conn::{Conn, InFlight, Owner},
    statement::analysis::Known,
};

/// More rows than these are not given to a connection for `FOUND_ROWS()`: making a thousand takes a
/// server as long as the statement itself.
const FOUND_ROWS_PUT_MAX: u64 = 100;

/// What becomes of `FOUND_ROWS()` by statements of one digest that succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundRows {
    /// It is the number of rows in the answer, or of those that went `INTO` something.
    Answer,
    /// On MySQL it is the number of rows in the answer; on MariaDB the server alone knows.
    AnswerOnMySql,
    /// It stays.
    Stays,
    /// It stays on MariaDB; on MySQL it is the number of rows that matched.
    Matched,
    /// It stays on MariaDB; on MySQL it is 1.
    One,
    /// It stays on MySQL; on MariaDB the server alone knows.
    StaysOnMySql,
    /// It changes, to what the server alone knows.
    Counted,
    /// MySQL changes it; on MariaDB it changes or stays.
    CountedOnMySql,
    /// It changes or stays: the server alone knows. So no other session's may be there before.
    Untold,
}

impl FoundRows {
    /// Whether each answer tells it, or says that it is what it was: so other sessions' statements
    /// may follow at once.
    pub(crate) fn is_told(self) -> bool {
        matches!(self, Self::Answer | Self::Stays)
    }

    /// Whether only the server knows if it stays.
    pub(crate) fn may_stay(self, flavor: Flavor) -> bool {
        match self {
            Self::Untold => true,
            Self::CountedOnMySql | Self::StaysOnMySql => flavor == Flavor::MariaDb,
            Self::Answer
            | Self::AnswerOnMySql
            | Self::Stays
            | Self::Matched
            | Self::One
            | Self::Counted => false,
        }
    }

    /// Whether it has been something else behind a statement that failed with this error on a
    /// MariaDB, whatever it was before.
    fn changes_by_error(self, code: u16) -> bool {
        let selects = !matches!(self, Self::Stays | Self::Matched | Self::One);
        // More rows than one: of a subquery, or for `INTO`. A row that `INSERT … SELECT` found is
        // there already.
        selects && matches!(code, 1172 | 1242) || self == Self::Counted && code == 1062
    }

    /// By what a statement is. `digest_text` is `None` when it is not the whole text.
    // long: one row for each kind of statement.
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
            // MariaDB counts the rows of some forms, and leaves the number as it is behind others.
            Kind::Select | Kind::Unknown
                if digest_text.is_some_and(|text| has_first(text, b"VALUES")) =>
            {
                Self::CountedOnMySql
            }
            // The rows that were left out before those of the answer are counted as well.
            Kind::Select | Kind::SelectForUpdate if skips_rows(digest_text) => Self::Counted,
            // MariaDB counts what is beyond the limit of all, where it comes by it.
            Kind::Select if says(&COMBINES) && says(&LIMITS) => Self::AnswerOnMySql,
            Kind::Select | Kind::SelectForUpdate | Kind::Describe | Kind::ShowTableStatus => {
                Self::Answer
            }
            Kind::Show if digest_text.is_some_and(counts_conditions) => Self::Answer,
            Kind::Show if says(&SHOWN_WITHOUT_ROWS) => Self::Stays,
            Kind::Show => Self::Answer,
            // `ANALYZE` runs what it explains.
            Kind::Explain if says(&[b"ANALYZE"]) => Self::Untold,
            // MariaDB runs what is selected from: a subquery, or what a view hides.
            Kind::Explain => Self::Untold,
            Kind::Set if !analysis.set_for_statement.is_empty() => {
                match digest_text.is_some_and(sets_for_select) {
                    true => Self::Answer,
                    false => Self::Untold,
                }
            }
            // MySQL counts where it computes the subquery beforehand (`MAX` of an index).
            Kind::Set if selects() => Self::Untold,
            Kind::Set => Self::Stays,
            Kind::Insert | Kind::Replace if !selects() => Self::Stays,
            Kind::Insert | Kind::Replace => Self::Counted,
            Kind::Update if analysis.references.tables.len() != 1 && !selects() => Self::Counted,
            Kind::Update if !selects() => Self::Matched,
            Kind::Update => Self::CountedOnMySql,
            Kind::Delete if digest_text.is_some_and(deletes_from_one) => match selects() {
                true => Self::Untold,
                false => Self::Stays,
            },
            Kind::Delete => Self::Counted,
            Kind::Unknown if digest_text.is_some_and(|text| has_first(text, b"DO")) => {
                match selects() {
                    true => Self::CountedOnMySql,
                    false => Self::One,
                }
            }
            Kind::Unknown if digest_text.is_some_and(|text| has_first(text, b"TABLE")) => {
                match skips_rows(digest_text) {
                    true => Self::Counted,
                    false => Self::AnswerOnMySql,
                }
            }
            Kind::Unknown
                if digest_text.is_some_and(|text| has_first_of(text, &SELECTS_NOTHING)) =>
            {
                Self::Stays
            }
            Kind::CreateTable | Kind::CreateTemporary if selects() => Self::StaysOnMySql,
            Kind::AnalyzeTable if selects() => Self::Untold,
            kind if selects_nothing(kind) => Self::Stays,
            _ => Self::Untold,
        }
    }
}

/// Whether statements of a kind find no rows, so that they leave the number that an earlier one
/// found.
fn selects_nothing(kind: StatementKind) -> bool {
    use StatementKind as Kind;
    matches!(
        kind,
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
            | Kind::UnlockTables
            | Kind::AlterTable
            | Kind::AlterView
            | Kind::AnalyzeTable
            | Kind::ChangeMaster
            | Kind::CreateDatabase
            | Kind::CreateIndex
            | Kind::CreateTable
            | Kind::CreateTemporary
            | Kind::CreateTrigger
            | Kind::CreateUser
            | Kind::CreateView
            | Kind::DropDatabase
            | Kind::DropIndex
            | Kind::DropTable
            | Kind::DropTrigger
            | Kind::DropUser
            | Kind::DropView
            | Kind::Grant
            | Kind::Flush
            | Kind::Kill
            | Kind::Optimize
            | Kind::Purge
            | Kind::RenameTable
            | Kind::ResetMaster
            | Kind::ResetSlave
            | Kind::Revoke
            | Kind::TruncateTable
    )
}

/// Whether a statement that succeeds leaves the conditions of the one before. On MariaDB so does
/// whatever asks for them; MySQL's `SELECT @@warning_count` is one like others.
#[inline]
pub(crate) fn keeps_conditions(statement: &Statement, flavor: Flavor) -> bool {
    let asks = |known: &Rc<Known>| known.analysis.depends.contains(Depends::DIAGNOSTICS);
    let shows = |known: &Rc<Known>| known.analysis.kind == StatementKind::Show;
    match (&statement.meaning.known, flavor) {
        (Some(known), Flavor::MariaDb) => asks(known),
        (Some(known), Flavor::MySql) => {
            asks(known) && (shows(known) || gets_diagnostics(statement))
        }
        (None, Flavor::MySql) => {
            matches!(statement.command.purpose, Purpose::InitDb(_))
                || has_code(statement, code::STATISTICS)
        }
        (None, Flavor::MariaDb) => false,
    }
}

/// Whether it is a `GET DIAGNOSTICS`.
fn gets_diagnostics(statement: &Statement) -> bool {
    statement.meaning.known.as_ref().is_some_and(|known| {
        known.analysis.kind == StatementKind::Unknown
            && known.analysis.depends.contains(Depends::DIAGNOSTICS)
            && has_first(&known.digest_text, b"GET")
    })
}

/// What makes one answer of several.
const COMBINES: [&[u8]; 4] = [b"UNION", b"EXCEPT", b"INTERSECT", b"MINUS"];

/// What leaves rows out of an answer.
const LIMITS: [&[u8]; 2] = [b"LIMIT", b"FETCH"];

/// Whether rows may be left out before those of the answer: `LIMIT ?,?`, `OFFSET`.
fn skips_rows(digest_text: Option<&[u8]>) -> bool {
    digest_text.is_none_or(|text| {
        let limit = text.windows(5).position(|part| part.eq_ignore_ascii_case(b"LIMIT"));
        let behind = limit.and_then(|at| text.get(at..)).unwrap_or_default();
        has_word(text, &[b"OFFSET"]) || behind.contains(&b',')
    })
}

/// Statements that select nothing, nor do what is in them.
const SELECTS_NOTHING: [&[u8]; 11] = [
    b"ALTER",
    b"CHECKSUM",
    b"CREATE",
    b"DROP",
    b"GET",
    b"HANDLER",
    b"HELP",
    b"REPAIR",
    b"RESIGNAL",
    b"SIGNAL",
    b"XA",
];

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

/// Whether a `SET STATEMENT` is one for a `SELECT`.
fn sets_for_select(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let is_for = words.any(|word| word.eq_ignore_ascii_case(b"FOR"));
    let rest = words.next().unwrap_or_default();
    is_for && (rest.eq_ignore_ascii_case(b"SELECT") || rest.eq_ignore_ascii_case(b"WITH"))
}

/// Whether a text begins with one of these words.
fn has_first_of(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| has_first(text, word))
}

/// Whether a text begins with this word, behind parentheses or not.
fn has_first(text: &[u8], word: &[u8]) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'(';
    let first = text.split(is_end).find(|part| !part.is_empty());
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

fn has_code(statement: &Statement, code: u8) -> bool {
    statement.command.frames.get(HEADER_LEN) == Some(&code)
}

/// Whether it may leave an id though it fails, so that its connection needs its session's own
/// before.
pub(crate) fn leaves_id_when_failed(statement: &Statement) -> bool {
    let is_bulk = || {
        statement.command.purpose == Purpose::Execute
            && has_code(statement, code::STMT_BULK_EXECUTE)
    };
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
    let Some(known) = statement.meaning.known.as_ref().filter(|_| is_run) else { return false };
    // A trigger may refuse a row behind its id.
    let has_triggers = || statement.meaning.proof.hidden.has(Hidden::GIVES_VALUES);
    known.may_fail_half_way || is_bulk() || gives_values(known.analysis.kind) && has_triggers()
}

impl LastStatement {
    /// Takes over what a statement did to `ROW_COUNT()` and `FOUND_ROWS()`. `here` as for
    /// [`LastStatement::learn`]. False where it leaves the row count.
    #[inline]
    pub(super) fn learn_counts(
        &mut self,
        statement: &Statement,
        outcome: &Outcome,
        flavor: Flavor,
        here: Option<(ConnId, u64)>,
    ) -> bool {
        // Measured on MariaDB 10.11 and MySQL 9.7: these leave what was counted before.
        let leaves_count = statement.command.purpose == Purpose::Prepare
            || gets_diagnostics(statement)
            || has_code(statement, code::STATISTICS);
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
    fn learn_found_rows(
        &mut self,
        statement: &Statement,
        outcome: &Outcome,
        flavor: Flavor,
        here: Option<(ConnId, u64)>,
    ) {
        let Some(known) = statement
            .meaning
            .known
            .as_ref()
            .filter(|_| matches!(statement.command.purpose, Purpose::Query | Purpose::Execute))
        else {
            return;
        };
        let rule = match &outcome.error {
            None => known.found_rows,
            Some(error) => self.rule_of_failed(known, error.code, flavor, here),
        };
        let is_mariadb = flavor == Flavor::MariaDb;
        self.found_rows = match rule {
            FoundRows::Stays => return,
            FoundRows::Matched | FoundRows::One if is_mariadb => return,
            FoundRows::StaysOnMySql if !is_mariadb => return,
            FoundRows::Matched => Some(outcome.matched_rows.into()),
            FoundRows::One => Some(1),
            FoundRows::AnswerOnMySql if is_mariadb => None,
            FoundRows::Answer | FoundRows::AnswerOnMySql if outcome.result_sets > 0 => {
                Some(outcome.rows)
            }
            FoundRows::Answer | FoundRows::AnswerOnMySql => Some(outcome.affected_rows),
            FoundRows::StaysOnMySql
            | FoundRows::Counted
            | FoundRows::CountedOnMySql
            | FoundRows::Untold => None,
        };
        self.found_conn = here;
        self.awaits_found_rows = None;
    }

    /// What becomes of it by a statement that failed.
    fn rule_of_failed(
        &self,
        known: &Known,
        code: u16,
        flavor: Flavor,
        here: Option<(ConnId, u64)>,
    ) -> FoundRows {
        let rule = known.found_rows;
        if known.analysis.statements != 1 || rule == FoundRows::Untold {
            return FoundRows::Untold;
        }
        let selects = !matches!(rule, FoundRows::Stays | FoundRows::Matched | FoundRows::One);
        let is_own = here.is_some() && self.found_conn == here;
        match flavor {
            Flavor::MariaDb if rule.changes_by_error(code) => FoundRows::Counted,
            // The server says what it is: on another connection that might be another session's.
            Flavor::MariaDb if selects && is_own => FoundRows::Untold,
            Flavor::MariaDb | Flavor::MySql => FoundRows::Stays,
        }
    }

    /// The statements that give a connection what `FOUND_ROWS()` and `ROW_COUNT()` are for this
    /// session, as far as any without effects can. Of `FOUND_ROWS()` no more than `max`.
    fn counting(&self, max: u64) -> Vec<Vec<u8>> {
        let count = self.found_rows.unwrap_or_default().min(max);
        let mut texts = Vec::new();
        texts.push(match count {
            0 => b"SELECT 1 FROM (SELECT 1) AS t WHERE 0".to_vec(),
            _ => b"SELECT 1 FROM (SELECT 1) AS t".to_vec(),
        });
        if count > 1 {
            // Without a literal: that would be of the session's character set, and a name, too.
            let more = usize::try_from(count - 1).unwrap_or_default();
            let mut text = b"SELECT SQL_CALC_FOUND_ROWS 1 FROM (SELECT 1".to_vec();
            text.extend(b" UNION ALL SELECT 1".repeat(more));
            text.extend_from_slice(b") AS t LIMIT 0");
            texts.push(text);
        }
        if max > 1 && self.row_count != -1 {
            // It leaves the rows found, and 0 as the row count: another number takes a change.
            texts.push(b"SET @@SESSION.last_insert_id=LAST_INSERT_ID()".to_vec());
        }
        texts
    }

    /// The proxy is about to run a `SET` there, which leaves 0 as the row count: a `SELECT` behind
    /// it makes it -1 again.
    pub(crate) fn row_count_overwritten(&mut self, here: (ConnId, u64)) {
        if self.row_count == -1 && self.found_conn == Some(here) && self.found_rows.is_some() {
            self.found_conn = None;
        }
    }

    /// The proxy has asked there, by a statement that selects, and was told `number`.
    pub(crate) fn take_found_rows(&mut self, here: (ConnId, u64), number: Option<u64>) {
        if self.found_conn == Some(here) {
            self.found_conn = None;
            self.found_rows = self.found_rows.or(number);
        }
    }

    /// Whether no reply told `FOUND_ROWS()`, and this connection, in its turn, has it: it is asked
    /// for it.
    pub(crate) fn asks_for_found_rows(&mut self, here: (ConnId, u64)) -> bool {
        let asks = self.found_rows.is_none() && self.found_conn == Some(here);
        if asks {
            self.awaits_found_rows = Some(here.0);
            // To ask is to find one row.
            self.found_conn = None;
        }
        asks
    }

    /// The proxy has run a statement there that selects.
    pub(crate) fn found_rows_overwritten(&mut self, here: (ConnId, u64)) {
        if self.found_conn == Some(here) {
            self.found_conn = None;
        }
    }
}

/// Variables by which a session may have MariaDB refuse, or end, a `SELECT` of the proxy's own.
const MAY_REFUSE_SELECTS: [&str; 3] = ["max_join_size", "max_statement_time", "sql_big_selects"];
/// Takes that back for one statement.
const WITHOUT_LIMITS: &[u8] =
    b"SET STATEMENT max_join_size=18446744073709551615,max_statement_time=0 FOR ";

impl Core {
    /// In front of a statement that may read `FOUND_ROWS()` by code that is not its own, or by a
    /// text that can't have the answer in it, or leave it as it is: gives the connection the
    /// session's, in place of another's.
    pub(crate) fn put_counts(
        &mut self,
        statement: &Statement,
        session: &mut Session,
        conn: &mut Conn,
    ) {
        let finds_by_null = self.env.shared.finds_by_null();
        if !matches!(statement.command.purpose, Purpose::Query | Purpose::Execute) {
            return;
        }
        let reads = may_read_past(statement, session, conn.server.flavor, finds_by_null);
        let here = Some((conn.id, conn.holder.turn));
        let known = statement.meaning.known.as_ref();
        let names_it = known.is_some_and(|it| it.analysis.depends.contains(Depends::FOUND_ROWS))
            && !statement.meaning.is_recalled;
        if !(reads.runs_code || reads.may_leave_found_rows || names_it)
            || session.past.found_conn == here
        {
            return;
        }
        let asks = reads.may_leave_found_rows
            || names_it
            || known.is_some_and(|known| runs_a_routine(&known.analysis))
            || statement.meaning.proof.hidden.has(Hidden::READS_SESSION);
        // A trigger that nobody may see hardly asks: it is kept from another session's number.
        let max = if asks { FOUND_ROWS_PUT_MAX } else { 1 };
        let is_whole = session.past.found_rows.is_none_or(|count| count <= max);
        // One that no reply told and nobody has asked for is where it was left.
        let is_left = session.past.found_rows.is_none() && session.past.found_conn.is_some();
        if !is_left {
            session.past.found_conn = here.filter(|_| is_whole);
        }
        let takes_attributes = conn.server.takes_attributes;
        self.fx.stats.counters.counts_given += 1;
        let here_has_xa = |lease: &Lease| lease.conn == conn.id && lease.pins.has(PinReason::Xa);
        let is_xa = session.leases.iter().any(here_has_xa);
        let limits = |name: &&str| session.settings.state.variable(name).is_some();
        let is_limited =
            conn.server.flavor == Flavor::MariaDb && MAY_REFUSE_SELECTS.iter().any(limits);
        for text in session.past.counting(max) {
            let lead = if is_limited && text.starts_with(b"SELECT") { WITHOUT_LIMITS } else { b"" };
            let text = [lead, &*text].concat();
            let relay =
                Relay::new(ResponseShape::Query, conn.server.format, conn.server.format, false);
            conn.in_flight.push_back(InFlight {
                // Where one is interrupted, the connection has another session's. Between
                // `XA END` and `XA PREPARE` servers refuse it, and not what calls a routine.
                owner: match conn.holder.owner.filter(|_| !is_xa) {
                    Some(owner) => Owner::Sync(owner, None),
                    None => Owner::Again,
                },
                relay: self.fx.relays.hold(relay),
                is_statement: false,
                place: None,
            });
            let out = conn.io.outbox.buf(&mut self.fx.buffers);
            put_own_query(out, &text, takes_attributes);
        }
        self.touch_server(conn);
    }
}

#[cfg(test)]
mod tests;
