//! What a direct connection would have answered.
//!
//! The shadow is the session as it would be on a server of its own. It runs each statement on
//! what the reply says of the tables; then the rest of the reply (which tag, which form, which
//! state) follows, and has to be what came.

mod failing;
mod hidden;

use std::collections::BTreeMap;

pub use hidden::HIDDEN_USER;

use trunkline_protocol::packet::{greeting::Flavor, status};

use super::{
    access::{access_of, is_of_tables, pins_for_good, reads_traces},
    login::COLLATION,
    reply::{Done, LOST_TRANSACTION, Part, Refused},
    rows::{KEYS_PER_CLIENT, OwnRows, is_own, row_of},
};
use crate::{
    Micros,
    oracle::facts::Gtid,
    oracle::history::{Access, Begins, Ends, Mismatch, MismatchKind, OwnRead, OwnWrite, Said},
    session::{ModelSession, Replied},
    statement::{
        self, Act, Answer, Cell, Failure, PreparedSql, Rows, Schema, Setting, Statement, Tag,
        Upload,
    },
};

/// Flags that the session's state gives every reply.
const SESSION_FLAGS: u16 = status::IN_TRANS
    | status::AUTOCOMMIT
    | status::NO_BACKSLASH_ESCAPES
    | status::IN_TRANS_READONLY;
/// Errors that the proxy makes: no server has run the statement, or nobody knows.
pub(super) const PROXY_ERRORS: [u16; 11] =
    [2013, 1053, 9001, 1041, 1148, 1226, 1094, 1243, 1047, 1835, 4031];
/// Those of them behind which nobody knows whether a write was done. That one which was told
/// another has not run is for the oracle to see (`writes`).
const UNSURE: [u16; 3] = [2013, 1053, 1835];
/// Errors that a session's own state alone brings about: a transaction that only reads, one that
/// is open, tables that are locked, no schema.
const STATE_ERRORS: [u16; 5] = [1792, 1568, 1099, 1100, 1046];
/// What a statement left to be asked for is kept for this long; after that it may be gone, µs.
const TRACES_KEPT_US: Micros = 900_000;

/// A session as it should be.
#[derive(Debug, Clone)]
pub(super) struct Shadow {
    client: usize,
    session: ModelSession,
    /// The open transaction's number.
    unit: Option<u32>,
    /// The session has held something since it was reset last.
    has_held: bool,
    /// When the reply came whose traces the session's server has; `None` when it may have none.
    traces_us: Option<Micros>,
    /// The last statement was one that leaves `FOUND_ROWS()`.
    has_found_rows: bool,
    /// A statement has failed and undone the transaction, or begun one, and no reply has said so
    /// since: an error has no flags, so the proxy does not know it, and says the old ones where it
    /// answers itself.
    is_status_stale: bool,
    /// The session as it is if a statement that was interrupted had not begun: the next reply says
    /// which of the two it is.
    unbegun: Option<Box<ModelSession>>,
    /// The client understands what OKs say of the session.
    hears_changes: bool,
    /// User variables, and updates prepared by SQL: what `EXECUTE` writes.
    users: BTreeMap<u8, u64>,
    updates: BTreeMap<u8, (Option<Schema>, u64)>,
}

/// What one part of a reply says.
pub(super) struct Judged {
    pub said: Said,
    pub mismatch: Option<Mismatch>,
    /// An error that the statement itself brings about on any server.
    pub error_expected: Option<u16>,
}

impl Shadow {
    pub(super) fn new(client: usize, flavor: Flavor, schema: Option<Schema>, multi: bool) -> Self {
        let mut session = ModelSession::new(flavor, u16::from(COLLATION), schema);
        session.multi_statements = multi;
        Self {
            client,
            session,
            unit: None,
            has_held: false,
            traces_us: None,
            has_found_rows: false,
            is_status_stale: false,
            unbegun: None,
            hears_changes: false,
            users: BTreeMap::new(),
            updates: BTreeMap::new(),
        }
    }

    /// The client is told changes of its session.
    pub(super) fn hear_changes(&mut self, hears_changes: bool) {
        self.hears_changes = hears_changes;
    }

    pub(super) fn session(&self) -> &ModelSession {
        &self.session
    }

    pub(super) fn session_mut(&mut self) -> &mut ModelSession {
        &mut self.session
    }

    /// Anything but a statement was answered, so that nobody knows what can be asked for.
    pub(super) fn forget_traces(&mut self) {
        self.traces_us = None;
        self.has_found_rows = false;
        self.has_held |= self.session.holds_anything();
    }

    /// The session stays on its connection until it is reset.
    pub(super) fn is_held(&mut self) {
        self.has_held = true;
    }

    /// A command that is no statement failed: that is what is told of from now on, if anything.
    pub(super) fn command_failed(&mut self, error: &Refused, rows: &mut OwnRows) {
        match error.is_lost_transaction() {
            true => {
                self.lose_transaction(failure_of(error));
                if let Some(unit) = self.unit.take() {
                    rows.end_unit(unit, true);
                }
            }
            false => drop(self.session.fail(failure_of(error))),
        }
        self.forget_traces();
    }

    /// `COM_RESET_CONNECTION` was answered with OK.
    pub(super) fn reset(&mut self, rows: &mut OwnRows) {
        let nothing = Answer::Done(statement::Done::default());
        self.session.reset(&mut Replied::new(&nothing));
        if let Some(unit) = self.unit.take() {
            rows.end_unit(unit, true);
        }
        self.forget_traces();
        self.unbegun = None;
        self.has_held = false;
        self.users.clear();
        self.updates.clear();
    }

    /// The session is gone.
    pub(super) fn end(&mut self, rows: &mut OwnRows) {
        if self.unit.take().is_some() {
            rows.forget_unit();
        }
    }

    /// What is known of a statement that has no answer; without `rows` it has not run.
    pub(super) fn unanswered(
        &self,
        statement: &Statement,
        prepared_in: Option<Option<Schema>>,
        is_next: bool,
        rows: Option<&mut OwnRows>,
    ) -> Said {
        let mut said = self.said(statement);
        if self.session.is_in_transaction() && is_next {
            said.unit = self.unit;
        }
        said.held = true;
        said.is_prepared = prepared_in.is_some();
        let schema = prepared_in.unwrap_or(self.session.schema);
        if let Some(rows) = rows {
            self.note_write(statement, schema, &mut said, rows);
        }
        said
    }

    /// A statement without an answer may have run: an `EXECUTE` behind it writes what it says.
    pub(super) fn may_have_run(&mut self, statement: &Statement) {
        self.note_execute(statement, self.session.schema);
    }

    /// A cursor was opened by this statement, whose rows are to be fetched.
    pub(super) fn cursor_opened(&mut self, statement: &Statement, next_unit: &mut u32) -> Said {
        let mut said = self.said(statement);
        let was_in_transaction = self.session.is_in_transaction();
        let nothing = Answer::Done(statement::Done::default());
        let schema = self.session.schema;
        self.session.run_in(statement, schema, &mut Replied::new(&nothing));
        self.note_unit(statement, was_in_transaction, next_unit, &nothing, &mut said);
        said
    }

    fn said(&self, statement: &Statement) -> Said {
        let tag = statement.tag.unwrap_or(Tag(0));
        // What asks for a read-only transaction may go to a reader, whatever comes of it.
        let begins = match statement.act {
            Act::Begin(statement::BeginForm::ReadOnly) => Some(Begins::ReadOnly),
            _ => None,
        };
        let is_proxys_own = matches!(statement.act, Act::ShowWarnings | Act::Kill { .. })
            || statement.tag.is_none();
        Said {
            begins,
            moves_on: self.moves_on(statement),
            leaves_reader: self.reads_only(),
            is_proxys_own,
            may_be_lazy: may_be_lazy(&statement.act),
            held: self.has_held || self.session.holds_anything() || reads_traces(&statement.act),
            ..Said::new(tag, access_of(&statement.act))
        }
    }

    /// Judges one statement's part of a reply. Its tables are in `schema`; `next_unit` numbers
    /// the transaction that it may begin.
    pub(super) fn judge(
        &mut self,
        statement: &Statement,
        schema: Option<Schema>,
        part: &Part,
        next_unit: &mut u32,
        rows: &mut OwnRows,
        at_us: Micros,
    ) -> Judged {
        let answer = answer_of(part);
        self.settle_unbegun(Some((statement, schema)), &answer, done_of(part));
        let mut said = self.said(statement);
        said.schema = schema;
        let was_in_transaction = self.session.is_in_transaction();
        let (mismatch, error_expected) = match &answer {
            Answer::Failed(failure) => {
                let status = self.session.status();
                let before = said.moves_on.then(|| self.session.clone());
                let judged = self.judge_failure(statement, schema, &answer, failure);
                if let Some(mut left) = before {
                    // On its way to the writer: the transaction that only read may be over.
                    self.unit = None;
                    left.leave_transaction(&mut Replied::new(&answer));
                    left.fail(failure.clone());
                    self.unbegun = Some(Box::new(left));
                }
                self.is_status_stale |= self.session.status() != status;
                judged
            }
            Answer::Done(_) | Answer::Rows(_) => {
                // A server's flags are true; the proxy's own answer has none of a server's.
                self.is_status_stale &= matches!(statement.act, Act::Kill { .. });
                let expected = self.session.run_in(statement, schema, &mut Replied::new(&answer));
                let mismatch = self
                    .compare(statement, &expected, part, &answer, at_us)
                    .or_else(|| self.status_mismatch(done_of(part)));
                (mismatch, None)
            }
        };
        self.note_unit(statement, was_in_transaction, next_unit, &answer, &mut said);
        said.gtid = done_of(part).and_then(|done| Gtid::read(done.gtids.as_deref()?));
        let mismatch = mismatch.or_else(|| self.gtid_mismatch(statement, &said, &answer));
        let is_without_effect = match &answer {
            Answer::Failed(failure) => !UNSURE.contains(&failure.code),
            Answer::Done(done) => done.affected == 0,
            Answer::Rows(_) => statement.act != Act::ReadAudited,
        };
        if !is_without_effect {
            self.note_write(statement, schema, &mut said, rows);
        }
        let data = self.own_rows(statement, schema, &answer, &mut said, rows);
        self.end_unit(&said, rows);
        self.note_traces(statement, &answer, at_us);
        if !matches!(answer, Answer::Failed(_)) {
            self.note_execute(statement, schema);
        }
        self.note_hidden(statement, &answer);
        self.has_held |= self.session.holds_anything() || pins_for_good(&statement.act);
        Judged { said, mismatch: mismatch.or(data), error_expected }
    }

    /// A session that asks for the names of its commits is told them.
    fn gtid_mismatch(
        &self,
        statement: &Statement,
        said: &Said,
        answer: &Answer,
    ) -> Option<Mismatch> {
        let has_committed = match answer {
            Answer::Done(done) => done.affected > 0 && access_of(&statement.act) == Access::Write,
            Answer::Rows(_) | Answer::Failed(_) => false,
        };
        let is_told = self.hears_changes && self.session.tracks_gtids();
        let is_missing = has_committed
            && is_told
            && is_of_tables(&statement.act)
            && said.unit.is_none()
            && said.gtid.is_none();
        is_missing.then(|| Mismatch {
            kind: MismatchKind::State,
            evidence: "expected the name of the commit".to_owned(),
        })
    }

    fn compare(
        &self,
        statement: &Statement,
        expected: &Answer,
        part: &Part,
        answer: &Answer,
        at_us: Micros,
    ) -> Option<Mismatch> {
        let differs = |kind| {
            let evidence = format!("expected {expected:?}, got {part:?}");
            Some(Mismatch { kind, evidence })
        };
        match (expected, answer) {
            (Answer::Done(expected), Answer::Done(got)) if expected == got => None,
            (Answer::Rows(expected), Answer::Rows(got)) => {
                let columns: &[String] = match part {
                    Part::Rows { columns, .. } => columns,
                    _ => &[],
                };
                if !expected.columns.iter().eq(columns.iter()) {
                    return differs(MismatchKind::Shape);
                }
                if columns.first().is_some_and(|name| name == "tag") {
                    let first = |row: &Vec<Cell>| row.first().cloned().flatten();
                    let tags = got.rows.iter().map(first);
                    let wanted = expected.rows.first().and_then(first);
                    if !tags.clone().all(|tag| tag == wanted) && !got.rows.is_empty() {
                        return differs(MismatchKind::Foreign);
                    }
                }
                match expected.rows == got.rows && expected.warnings == got.warnings
                    || self.may_differ(statement, got, at_us)
                {
                    true => None,
                    false => differs(match is_of_tables(&statement.act) {
                        true => MismatchKind::Data,
                        false => MismatchKind::State,
                    }),
                }
            }
            // A rule may send a statement to another connection than the one with the locks.
            (Answer::Failed(Failure { code: 1100, .. }), Answer::Rows(_)) => None,
            (Answer::Failed(Failure { code: 1792 | 1099, .. }), Answer::Done(_))
                if statement.act == Act::Insert =>
            {
                None
            }
            _ => differs(MismatchKind::Shape),
        }
    }

    /// Traces of the last statement may be gone, but never be another session's: see the manual's
    /// limits and decision 0005.
    fn may_differ(&self, statement: &Statement, got: &Rows, at_us: Micros) -> bool {
        let are_kept = self
            .traces_us
            .is_some_and(|traces_us| at_us < traces_us.saturating_add(TRACES_KEPT_US));
        let value = got.rows.first().and_then(|row| row.last()).cloned().flatten();
        match &statement.act {
            Act::ShowWarnings => {
                // Their number is kept when their connection ends or is somebody else's login.
                let is_lost = got.rows.iter().any(|row| {
                    row.get(2).and_then(Option::as_deref).is_some_and(|text| {
                        text.ends_with("warnings were lost with their connection")
                    })
                });
                let must_be_there = are_kept && self.session.has_fresh_warnings() && !is_lost;
                !must_be_there && got.rows.iter().all(|row| self.is_own_warning(row))
            }
            Act::RowCount => matches!(value.as_deref(), Some("0" | "-1")),
            Act::FoundRows => !self.has_found_rows || !are_kept,
            Act::ShowUser(HIDDEN_USER) => self.is_own_tag(value.as_deref()),
            _ => false,
        }
    }

    /// Warnings and errors of model servers hold the statement's tag, or the key of its row.
    fn is_own_warning(&self, row: &[Cell]) -> bool {
        let cell = |place: usize| row.get(place).and_then(|cell| cell.as_deref());
        let text = cell(2).unwrap_or_default();
        let numbers = text.split(|letter: char| !letter.is_ascii_digit());
        let mut numbers = numbers.filter_map(|digits| digits.parse::<u64>().ok());
        match cell(1) {
            Some("1062") => numbers.all(|key| key < KEYS_PER_CLIENT || is_own(self.client, key)),
            _ => numbers
                .all(|number| Tag(number).client().is_none_or(|client| client == self.client)),
        }
    }

    /// The flags of a reply are those of this session.
    pub(super) fn status_mismatch(&self, done: Option<&Done>) -> Option<Mismatch> {
        let known = match self.is_status_stale {
            true => SESSION_FLAGS & !(status::IN_TRANS | status::IN_TRANS_READONLY),
            false => SESSION_FLAGS,
        };
        let flags = done?.status & known;
        let expected = self.session.status() & known;
        (flags != expected).then(|| Mismatch {
            kind: MismatchKind::State,
            evidence: format!("expected the status flags {expected:#06x}, got {flags:#06x}"),
        })
    }

    /// Which transaction the statement is part of, and what it does to it.
    fn note_unit(
        &mut self,
        statement: &Statement,
        was_in_transaction: bool,
        next_unit: &mut u32,
        answer: &Answer,
        said: &mut Said,
    ) {
        let is_in_transaction = self.session.is_in_transaction();
        let has_failed = matches!(answer, Answer::Failed(_));
        let is_lost = matches!(answer, Answer::Failed(failure) if is_lost_transaction(failure));
        let mut new_unit = || {
            *next_unit += 1;
            Some(*next_unit)
        };
        if was_in_transaction {
            said.unit = self.unit;
            let begins_next = matches!(statement.act, Act::Begin(_)) && !has_failed;
            if begins_next || !is_in_transaction {
                said.ends = Some(match (&statement.act, has_failed) {
                    // It commits before it waits for the tables.
                    (Act::LockTables { .. }, true) if !is_lost => Ends::Commit,
                    (Act::Rollback, _) | (_, true) => Ends::Rollback,
                    _ => Ends::Commit,
                });
                self.unit = if begins_next { new_unit() } else { None };
            }
        } else if is_in_transaction {
            self.unit = new_unit();
            said.unit = self.unit;
            said.begins = said.begins.or(Some(Begins::ReadWrite));
        }
    }

    /// What a later `EXECUTE` writes.
    fn note_execute(&mut self, statement: &Statement, schema: Option<Schema>) {
        match &statement.act {
            Act::Set(settings) => {
                for setting in settings {
                    if let Setting::User { name, value } = setting {
                        self.users.insert(*name, value.unwrap_or_default());
                    }
                }
            }
            Act::PrepareSql { name, of: PreparedSql::Update { key } } => {
                self.updates.insert(*name, (schema, *key));
            }
            Act::PrepareSql { name, of: PreparedSql::Read { .. } } | Act::DeallocateSql(name) => {
                self.updates.remove(name);
            }
            _ => {}
        }
    }

    /// Which of the client's own rows the statement changes, or may have changed.
    fn note_write(
        &self,
        statement: &Statement,
        schema: Option<Schema>,
        said: &mut Said,
        rows: &mut OwnRows,
    ) {
        let tag = statement.value();
        let mut schema = schema;
        let (key, value) = match statement.act {
            Act::ExecuteSql { name, using: Some(user) } => match self.updates.get(&name) {
                Some((prepared_in, key)) => {
                    schema = *prepared_in;
                    (*key, Some(self.users.get(&user).copied().unwrap_or_default()))
                }
                None => return,
            },
            Act::InsertKey { key }
            | Act::InsertAssigning { key, .. }
            | Act::InsertIgnore { key }
            | Act::Put { key }
            | Act::Update { key }
            | Act::Load(Upload { key, is_there: true, .. }) => (key, Some(tag)),
            Act::Delete { key } => (key, None),
            Act::Insert | Act::ReadAudited | Act::InsertMarked(_) | Act::InsertGuarded(_) => {
                if let Some(tag) = statement.tag {
                    rows.insert(tag, said.unit);
                }
                return;
            }
            _ => return,
        };
        let Some(row) = row_of(schema, key).filter(|_| is_own(self.client, key)) else {
            return;
        };
        said.write = Some(OwnWrite { row, value });
        rows.write(row, value, said.unit);
    }

    /// What the reply says of the client's own rows and lines.
    fn own_rows(
        &self,
        statement: &Statement,
        schema: Option<Schema>,
        answer: &Answer,
        said: &mut Said,
        rows: &mut OwnRows,
    ) -> Option<Mismatch> {
        let differs = |evidence| Some(Mismatch { kind: MismatchKind::Data, evidence });
        match (&statement.act, answer) {
            (act, Answer::Done(done)) if access_of(act) == Access::Write => {
                said.has_changed = done.affected > 0 && is_of_tables(act);
                None
            }
            (Act::ReadAudited, Answer::Rows(_)) => {
                said.has_changed = true;
                None
            }
            (Act::Read { key } | Act::ReadForUpdate { key }, Answer::Rows(got)) => {
                let row = row_of(schema, *key).filter(|_| is_own(self.client, *key))?;
                let cell = got.rows.first().and_then(|row| row.last()).cloned().flatten();
                let seen = cell.and_then(|cell| cell.parse().ok());
                said.read = Some(OwnRead { row, seen });
                let unit = said.unit.filter(|_| said.begins.is_none());
                rows.objection(row, seen, unit)
                    .and_then(|why| differs(format!("{why}, got {got:?}")))
            }
            (Act::CountLog { of }, Answer::Rows(got)) => {
                let cell = got.rows.first().and_then(|row| row.last()).cloned().flatten();
                let count: u64 = cell.and_then(|cell| cell.parse().ok()).unwrap_or(0);
                let is_too_many = of.client() == Some(self.client) && count > rows.lines_max(*of);
                is_too_many.then(|| format!("{count} lines of {}", of.0)).and_then(differs)
            }
            _ => None,
        }
    }

    fn end_unit(&self, said: &Said, rows: &mut OwnRows) {
        if let (Some(unit), Some(ends)) = (said.unit, said.ends) {
            let is_undone = ends == Ends::Rollback;
            rows.end_unit(unit, is_undone);
        }
    }

    fn note_traces(&mut self, statement: &Statement, answer: &Answer, at_us: Micros) {
        if statement.act == Act::ShowWarnings {
            return;
        }
        let is_proxys =
            matches!(answer, Answer::Failed(failure) if PROXY_ERRORS.contains(&failure.code));
        self.traces_us = (!is_proxys).then_some(at_us);
        self.has_found_rows = matches!(statement.act, Act::CalcFoundRows { .. })
            && !matches!(answer, Answer::Failed(_));
    }
}

/// Whether it begins or ends a transaction, or says what the next ones are, and does nothing else.
fn may_be_lazy(act: &Act) -> bool {
    match act {
        Act::Begin(_) | Act::Commit | Act::Rollback => true,
        Act::Set(settings) => {
            matches!(
                &**settings,
                [Setting::Variable { variable: statement::Variable::Autocommit, .. }]
            )
        }
        _ => false,
    }
}

/// A part as the language has it. The columns' names are compared apart from it.
pub(super) fn answer_of(part: &Part) -> Answer {
    match part {
        Part::Ok(done) => Answer::Done(statement::Done {
            affected: done.affected_rows,
            last_insert_id: done.last_insert_id,
            warnings: done.warnings,
        }),
        Part::Rows { rows, end, .. } => Answer::Rows(Rows {
            columns: &[],
            rows: rows.clone(),
            warnings: end.as_ref().map_or(0, |end| end.warnings),
        }),
        Part::Error(error) => Answer::Failed(failure_of(error)),
        Part::Prepared { .. } | Part::Text(_) => Answer::Done(statement::Done::default()),
    }
}

/// Whether the proxy says by this error that a transaction was lost with its connection.
fn is_lost_transaction(failure: &Failure) -> bool {
    failure.code == 1213 && failure.message.starts_with(LOST_TRANSACTION)
}

fn failure_of(error: &Refused) -> Failure {
    let mut sqlstate = [b'0'; 5];
    sqlstate.iter_mut().zip(error.sqlstate.bytes()).for_each(|(to, from)| *to = from);
    Failure { code: error.code, sqlstate, message: error.message.clone() }
}

pub(super) fn done_of(part: &Part) -> Option<&Done> {
    match part {
        Part::Ok(done) => Some(done),
        Part::Rows { end, .. } => end.as_ref(),
        Part::Prepared { .. } | Part::Text(_) | Part::Error(_) => None,
    }
}
