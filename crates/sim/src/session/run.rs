//! What each statement answers and makes of the session. Where no manual says it, it was asked of
//! MariaDB 10.11: what uses up `SET TRANSACTION`, and what forgets warnings, above all.

use trunkline_protocol::packet::greeting::Flavor;

use super::{
    Data, ModelSession, TAG_AND_V, Transaction, Warning, Write, hidden::is_hidden, no_schema,
    one_row,
};
use crate::statement::{
    Act, Answer, BeginForm, Cell, Done, Failure, PreparedSql, Rows, Schema, Setting, Statement,
    Upload,
};

impl ModelSession {
    /// Runs one statement.
    pub fn run(&mut self, statement: &Statement, data: &mut dyn Data) -> Answer {
        let schema = self.schema;
        self.run_in(statement, schema, data)
    }

    /// Runs a statement that was prepared in `schema`.
    pub fn run_in(
        &mut self,
        statement: &Statement,
        schema: Option<Schema>,
        data: &mut dyn Data,
    ) -> Answer {
        let before = std::mem::take(&mut self.warnings);
        if statement.act == Act::ShowWarnings {
            // It tells of the one before, and leaves that to be told again.
            let answer = show_warnings(&before);
            self.warnings = before;
            return answer;
        }
        match self.act(statement, schema, data) {
            Ok(answer) => {
                self.note(statement, &answer);
                self.has_fresh_warnings = !self.warnings.is_empty();
                // MariaDB forgets them at the next statement that uses tables, MySQL at the next.
                let keeps = self.flavor == Flavor::MariaDb && !names_tables(&statement.act);
                if keeps && self.warnings.is_empty() {
                    self.warnings = before;
                }
                answer
            }
            Err(failure) => self.fail(failure),
        }
    }

    /// Whether a statement changes tables that are not temporary.
    pub fn writes_tables(&self, act: &Act) -> bool {
        match act {
            plain if plain.is_plain_write() => true,
            hidden if is_hidden(hidden) => true,
            Act::ExecuteSql { name, .. } => {
                let prepared = self.sql_prepared.get(name);
                matches!(prepared, Some((PreparedSql::Update { .. }, _)))
            }
            _ => false,
        }
    }

    /// What a reply leaves to be asked for.
    fn note(&mut self, statement: &Statement, answer: &Answer) {
        match answer {
            Answer::Done(done) => {
                self.row_count = i64::try_from(done.affected).unwrap_or(i64::MAX);
                if done.last_insert_id != 0 {
                    self.last_insert_id = done.last_insert_id;
                }
            }
            Answer::Rows(rows) => {
                self.row_count = -1;
                self.found_rows = match &statement.act {
                    Act::CalcFoundRows { rows, .. } | Act::CountTo(rows) => *rows,
                    _ => u64::try_from(rows.rows.len()).unwrap_or(u64::MAX),
                };
            }
            Answer::Failed(_) => {}
        }
    }

    fn act(
        &mut self,
        statement: &Statement,
        schema: Option<Schema>,
        data: &mut dyn Data,
    ) -> Result<Answer, Failure> {
        let tag = statement.value();
        let show = |value: Cell| Ok(one_row(TAG_AND_V, vec![Some(tag.to_string()), value]));
        match &statement.act {
            Act::Read { key } | Act::ReadForUpdate { key } => {
                let locks = matches!(statement.act, Act::ReadForUpdate { .. });
                self.read(tag, *key, locks, schema, data)
            }
            Act::CountLog { of } => {
                let schema = self.table(schema, "log", false)?;
                self.touch(false)?;
                show(Some(data.count_log(schema, *of).to_string()))
            }
            Act::Numbers { rows, width } => self.numbers(tag, *rows, *width, schema),
            Act::CalcFoundRows { rows, limit } => {
                self.table(schema, "numbers", false)?;
                self.touch(false)?;
                let row = |n: u64| vec![Some(tag.to_string()), Some(n.to_string())];
                let rows = (0..*rows.min(limit)).map(row).collect();
                Ok(Answer::Rows(Rows { columns: &["tag", "n"], rows, warnings: 0 }))
            }
            Act::CountTo(_) => {
                Ok(Answer::Rows(Rows { columns: &["1"], rows: Vec::new(), warnings: 0 }))
            }
            Act::FoundRows if statement.tag.is_none() => {
                Ok(one_row(&["FOUND_ROWS()"], vec![Some(self.found_rows.to_string())]))
            }
            Act::FoundRows => show(Some(self.found_rows.to_string())),
            Act::RowCount => show(Some(self.row_count.to_string())),
            Act::LastInsertId => show(Some(self.last_insert_id.to_string())),
            Act::ConnectionId => show(Some(self.number.to_string())),
            Act::Recalled(number) => show(Some(number.to_string())),
            Act::Database => show(self.schema.map(|schema| schema.name().to_owned())),
            Act::ShowVariable(variable) => show(self.variable(*variable).shown()),
            Act::ShowUser(name) => show(self.users.get(name).map(u64::to_string)),
            Act::Length { text } => show(Some(text.len().to_string())),
            Act::Warn => Ok(self.warn(tag)),
            Act::Sleep { .. } => show(Some("0".to_owned())),
            Act::UnknownTable => {
                let schema = self.table(schema, "missing", false)?;
                Err(no_table(schema, "missing"))
            }
            Act::Broken => Err(broken(&format!("SELEC {tag}"))),
            Act::Unknown(text) => Err(broken(text)),
            // It was answered before it came here.
            Act::ShowWarnings => Ok(show_warnings(&[])),
            plain if plain.is_plain_write() => self.write(statement, schema, data),
            hidden if is_hidden(hidden) => self.run_hidden(statement, schema, data),
            Act::Begin(form) => {
                self.begin(*form, data);
                Ok(Answer::Done(Done::default()))
            }
            Act::Commit | Act::Rollback => {
                self.end_transaction(data, statement.act == Act::Commit);
                self.use_next();
                Ok(Answer::Done(Done::default()))
            }
            _ => self.act_on_session(statement, schema, data),
        }
    }

    /// The statements about what the session holds.
    fn act_on_session(
        &mut self,
        statement: &Statement,
        schema: Option<Schema>,
        data: &mut dyn Data,
    ) -> Result<Answer, Failure> {
        let done = || Ok(Answer::Done(Done::default()));
        match &statement.act {
            Act::Set(settings) => self.set(settings, data),
            Act::SetTransaction { session, isolation, read_only } => {
                self.set_transaction(*session, *isolation, *read_only)
            }
            Act::Use(schema) => {
                self.use_schema(*schema)?;
                done()
            }
            Act::CreateTemporary(_)
            | Act::InsertTemporary(_)
            | Act::ReadTemporary(_)
            | Act::DropTemporary(_) => self.temporary(statement, schema),
            Act::GetLock { .. } | Act::ReleaseLock(_) | Act::ReleaseAllLocks => {
                Ok(self.named_lock(statement, data))
            }
            Act::LockTables { write } => {
                let schema = schema.ok_or_else(no_schema)?;
                self.end_transaction(data, true);
                self.use_next();
                self.table_lock = Some((schema, *write));
                done()
            }
            Act::UnlockTables => {
                if self.table_lock.take().is_some() {
                    self.end_transaction(data, true);
                    self.use_next();
                }
                done()
            }
            Act::PrepareSql { name, of } => {
                if schema.is_none() {
                    return Err(no_schema());
                }
                self.sql_prepared.insert(*name, (*of, schema));
                self.trackers.state();
                done()
            }
            Act::ExecuteSql { name, using } => self.execute_sql(*name, *using, data),
            Act::DeallocateSql(name) => match self.sql_prepared.remove(name) {
                Some(_) => done(),
                None => Err(no_statement(*name, "DEALLOCATE PREPARE")),
            },
            Act::Kill { connection, query_only } => match data.kill(*connection, *query_only) {
                true => done(),
                false => {
                    let text = format!("Unknown thread id: {connection}");
                    Err(Failure::new(1094, b"HY000", text))
                }
            },
            other => Err(broken(&format!("{other:?}"))),
        }
    }

    /// The schema that a table of a statement is in, if the statement may use it.
    fn table(&self, schema: Option<Schema>, table: &str, writes: bool) -> Result<Schema, Failure> {
        let schema = schema.ok_or_else(no_schema)?;
        match self.table_lock {
            None => Ok(schema),
            Some((locked, _)) if locked != schema || !matches!(table, "kv" | "log") => {
                let text = format!("Table '{table}' was not locked with LOCK TABLES");
                Err(Failure::new(1100, b"HY000", text))
            }
            Some((_, false)) if writes => {
                let text =
                    format!("Table '{table}' was locked with a READ lock and can't be updated");
                Err(Failure::new(1099, b"HY000", text))
            }
            Some(_) => Ok(schema),
        }
    }

    /// A statement uses tables: it is a transaction of its own, or part of one, or without
    /// autocommit the first of one. What `SET TRANSACTION` said is used up, unless it bars the
    /// statement.
    pub(super) fn touch(&mut self, writes: bool) -> Result<(), Failure> {
        let read_only = self.reads_only();
        if read_only && writes {
            return Err(only_reads());
        }
        if self.transaction.is_none() {
            self.use_next();
            if !self.is_autocommit() {
                self.open_transaction(read_only);
            }
        }
        Ok(())
    }

    /// What `SET TRANSACTION` said of the next transaction is used up.
    pub(super) fn use_next(&mut self) {
        if self.next.take().is_some() {
            self.trackers.next_transaction(false);
        }
    }

    fn open_transaction(&mut self, read_only: bool) {
        let rows = self.temporary.iter().map(|(name, rows)| (*name, rows.len()));
        self.transaction = Some(Transaction { read_only, temporary_rows: rows.collect() });
    }

    fn begin(&mut self, form: BeginForm, data: &mut dyn Data) {
        // MySQL's begins as the one that it ends, unless it says how.
        let was_read_only = self.transaction.as_ref().is_some_and(|open| open.read_only);
        self.end_transaction(data, true);
        self.table_lock = None;
        let is_kept = self.flavor == Flavor::MySql && was_read_only;
        let read_only = self.reads_only() || is_kept || form == BeginForm::ReadOnly;
        self.use_next();
        self.open_transaction(read_only);
    }

    /// Ends the transaction, if there is one.
    pub(super) fn end_transaction(&mut self, data: &mut dyn Data, commits: bool) {
        let Some(transaction) = self.transaction.take() else {
            return;
        };
        if commits {
            return data.commit();
        }
        data.rollback();
        for (name, rows) in &mut self.temporary {
            rows.truncate(transaction.temporary_rows.get(name).copied().unwrap_or_default());
        }
    }

    fn read(
        &mut self,
        tag: u64,
        key: u64,
        locks: bool,
        schema: Option<Schema>,
        data: &mut dyn Data,
    ) -> Result<Answer, Failure> {
        // A read that locks counts as a write.
        let schema = self.table(schema, "kv", locks)?;
        self.touch(locks)?;
        let row = |v: u64| vec![Some(tag.to_string()), Some(v.to_string())];
        let rows = data.read(schema, key).map(row).into_iter().collect();
        Ok(Answer::Rows(Rows { columns: TAG_AND_V, rows, warnings: 0 }))
    }

    fn numbers(
        &mut self,
        tag: u64,
        rows: u64,
        width: u64,
        schema: Option<Schema>,
    ) -> Result<Answer, Failure> {
        self.table(schema, "numbers", false)?;
        self.touch(false)?;
        let pad = "x".repeat(usize::try_from(width).unwrap_or_default());
        let row = |n: u64| vec![Some(tag.to_string()), Some(n.to_string()), Some(pad.clone())];
        let rows = (0..rows).map(row).collect();
        Ok(Answer::Rows(Rows { columns: &["tag", "n", "pad"], rows, warnings: 0 }))
    }

    fn warn(&mut self, tag: u64) -> Answer {
        self.warnings.push(Warning {
            level: "Warning",
            code: 1292,
            message: format!("Truncated incorrect INTEGER value: 'x{tag}'"),
        });
        let cells = vec![Some(tag.to_string()), Some("0".to_owned())];
        Answer::Rows(Rows { columns: TAG_AND_V, rows: vec![cells], warnings: 1 })
    }

    fn write(
        &mut self,
        statement: &Statement,
        schema: Option<Schema>,
        data: &mut dyn Data,
    ) -> Result<Answer, Failure> {
        let v = statement.value();
        let (table, write) = match statement.act {
            Act::Insert => ("log", Write::Log { v, id: std::mem::take(&mut self.insert_id) }),
            Act::InsertKey { key } => ("kv", Write::Insert { key, v, ignore: false }),
            Act::InsertIgnore { key } => ("kv", Write::Insert { key, v, ignore: true }),
            Act::Put { key } => ("kv", Write::Replace { key, v }),
            Act::Update { key } => ("kv", Write::Update { key, v }),
            Act::Delete { key } => ("kv", Write::Delete { key }),
            Act::Load(Upload { key, is_there: true, .. }) => ("kv", Write::Replace { key, v }),
            Act::Load(_) => ("kv", Write::Nothing),
            _ => return Err(broken("write")),
        };
        self.write_to(table, write, schema, data)
    }

    fn write_to(
        &mut self,
        table: &str,
        write: Write,
        schema: Option<Schema>,
        data: &mut dyn Data,
    ) -> Result<Answer, Failure> {
        let schema = self.enter(schema, table)?;
        self.apply(schema, write, data)
    }

    /// A statement that writes to a table may do so, and begins to.
    pub(super) fn enter(&mut self, schema: Option<Schema>, table: &str) -> Result<Schema, Failure> {
        let schema = self.table(schema, table, true)?;
        self.touch(true)?;
        Ok(schema)
    }

    /// Writes, and commits where nothing else does.
    pub(super) fn apply(
        &mut self,
        schema: Schema,
        write: Write,
        data: &mut dyn Data,
    ) -> Result<Answer, Failure> {
        let written = data.write(schema, write)?;
        if self.transaction.is_none() {
            data.commit();
        }
        let mut warnings = 0;
        if let (Write::Insert { key, ignore: true, .. }, 0) = (write, written.affected) {
            warnings = 1;
            self.warnings.push(Warning {
                level: "Warning",
                code: 1062,
                message: duplicate_text(key),
            });
        }
        let last_insert_id = written.insert_id;
        Ok(Answer::Done(Done { affected: written.affected, last_insert_id, warnings }))
    }

    fn temporary(
        &mut self,
        statement: &Statement,
        schema: Option<Schema>,
    ) -> Result<Answer, Failure> {
        let (Act::CreateTemporary(name)
        | Act::InsertTemporary(name)
        | Act::ReadTemporary(name)
        | Act::DropTemporary(name)) = statement.act
        else {
            return Err(broken("temporary"));
        };
        let schema = schema.ok_or_else(no_schema)?;
        let place = (schema, name);
        let defines = matches!(statement.act, Act::CreateTemporary(_) | Act::DropTemporary(_));
        if defines && self.reads_only() {
            return Err(only_reads());
        }
        if statement.act == Act::CreateTemporary(name) {
            if self.temporary.contains_key(&place) {
                let text = format!("Table 'tmp{name}' already exists");
                return Err(Failure::new(1050, b"42S01", text));
            }
            self.temporary.insert(place, Vec::new());
            self.trackers.state();
            return Ok(Answer::Done(Done::default()));
        }
        if statement.act == Act::DropTemporary(name) {
            if self.temporary.remove(&place).is_none() {
                let text = format!("Unknown table '{}.tmp{name}'", schema.name());
                return Err(Failure::new(1051, b"42S02", text));
            }
            if let Some(transaction) = &mut self.transaction {
                transaction.temporary_rows.remove(&place);
            }
            self.trackers.state();
            return Ok(Answer::Done(Done::default()));
        }
        if !self.temporary.contains_key(&place) {
            return Err(no_table(schema, &format!("tmp{name}")));
        }
        self.touch(false)?;
        let rows = self.temporary.entry(place).or_default();
        if statement.act == Act::InsertTemporary(name) {
            rows.push(statement.value());
            return Ok(Answer::Done(Done { affected: 1, ..Done::default() }));
        }
        let tag = Some(statement.value().to_string());
        let most = rows.iter().max().map(u64::to_string);
        let cells = vec![tag, Some(rows.len().to_string()), most];
        Ok(one_row(&["tag", "n", "v"], cells))
    }

    fn named_lock(&mut self, statement: &Statement, data: &mut dyn Data) -> Answer {
        let value = match statement.act {
            Act::GetLock { lock, .. } => {
                let granted = data.is_granted(lock);
                if granted {
                    *self.named_locks.entry(lock).or_default() += 1;
                }
                Some(u64::from(granted))
            }
            Act::ReleaseLock(lock) => match self.named_locks.get_mut(&lock) {
                Some(count) => {
                    *count -= 1;
                    if *count == 0 {
                        self.named_locks.remove(&lock);
                    }
                    Some(1)
                }
                None => data.is_locked(lock).then_some(0),
            },
            _ => {
                let count = self.named_locks.values().map(|count| u64::from(*count)).sum();
                self.named_locks.clear();
                Some(count)
            }
        };
        let tag = Some(statement.value().to_string());
        one_row(TAG_AND_V, vec![tag, value.map(|value| value.to_string())])
    }

    fn execute_sql(
        &mut self,
        name: u8,
        using: Option<u8>,
        data: &mut dyn Data,
    ) -> Result<Answer, Failure> {
        let Some((prepared, schema)) = self.sql_prepared.get(&name).copied() else {
            return Err(no_statement(name, "EXECUTE"));
        };
        match (prepared, using) {
            (PreparedSql::Read { tag, key }, None) => self.read(tag.0, key, false, schema, data),
            (PreparedSql::Update { key }, Some(user)) => {
                let v = self.users.get(&user).copied().unwrap_or_default();
                self.write_to("kv", Write::Update { key, v }, schema, data)
            }
            (PreparedSql::Read { .. }, Some(_)) | (PreparedSql::Update { .. }, None) => {
                Err(Failure::new(1210, b"HY000", "Incorrect arguments to EXECUTE"))
            }
        }
    }
}

fn show_warnings(warnings: &[Warning]) -> Answer {
    let row = |warning: &Warning| {
        vec![
            Some(warning.level.to_owned()),
            Some(warning.code.to_string()),
            Some(warning.message.clone()),
        ]
    };
    let rows = warnings.iter().map(row).collect();
    Answer::Rows(Rows { columns: &["Level", "Code", "Message"], rows, warnings: 0 })
}

fn no_table(schema: Schema, table: &str) -> Failure {
    Failure::new(1146, b"42S02", format!("Table '{}.{table}' doesn't exist", schema.name()))
}

fn only_reads() -> Failure {
    let text = "Cannot execute statement in a READ ONLY transaction";
    Failure::new(1792, b"25006", text)
}

/// Whether tables stand in a statement's text, which is what makes MariaDB forget warnings.
fn names_tables(act: &Act) -> bool {
    let is_of_table = |setting: &Setting| {
        matches!(setting, Setting::LastInsertIdOfTable(_) | Setting::LastInsertIdAsItIsOfTable)
    };
    match act {
        Act::Set(settings) => settings.iter().any(is_of_table),
        Act::Read { .. }
        | Act::ReadForUpdate { .. }
        | Act::CountLog { .. }
        | Act::Numbers { .. }
        | Act::CalcFoundRows { .. }
        | Act::CountTo(_)
        | Act::UnknownTable
        | Act::Insert
        | Act::InsertKey { .. }
        | Act::InsertIgnore { .. }
        | Act::Put { .. }
        | Act::Update { .. }
        | Act::Delete { .. }
        | Act::Load(_)
        | Act::ReadAudited
        | Act::InsertMarked(_)
        | Act::InsertRefused(_)
        | Act::InsertGuarded(_)
        | Act::InsertAssigning { .. }
        | Act::CreateTemporary(_)
        | Act::InsertTemporary(_)
        | Act::ReadTemporary(_)
        | Act::DropTemporary(_)
        | Act::LockTables { .. }
        | Act::PrepareSql { .. }
        | Act::ExecuteSql { .. } => true,
        Act::FoundRows
        | Act::RowCount
        | Act::LastInsertId
        | Act::ConnectionId
        | Act::Recalled(_)
        | Act::Database
        | Act::ShowVariable(_)
        | Act::ShowUser(_)
        | Act::Length { .. }
        | Act::Warn
        | Act::ShowWarnings
        | Act::Sleep { .. }
        | Act::Broken
        | Act::Begin(_)
        | Act::Commit
        | Act::Rollback
        | Act::SetTransaction { .. }
        | Act::Use(_)
        | Act::GetLock { .. }
        | Act::ReleaseLock(_)
        | Act::ReleaseAllLocks
        | Act::UnlockTables
        | Act::DeallocateSql(_)
        | Act::Kill { .. }
        | Act::Unknown(_) => false,
    }
}

fn no_statement(name: u8, what: &str) -> Failure {
    let text = format!("Unknown prepared statement handler (p{name}) given to {what}");
    Failure::new(1243, b"HY000", text)
}

pub(super) fn broken(near: &str) -> Failure {
    let near: String = near.chars().take(80).collect();
    let text = format!("You have an error in your SQL syntax near '{near}' at line 1");
    Failure::new(1064, b"42000", text)
}

/// The text of 1062 for a key of `kv`.
pub(crate) fn duplicate_text(key: u64) -> String {
    format!("Duplicate entry '{key}' for key 'PRIMARY'")
}
