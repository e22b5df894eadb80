//! What each habit does.

use super::{Habit, Script, identity, spoil};
use crate::{
    client::spec::Deed,
    statement::{
        Act, BeginForm, Charset, Isolation, PreparedSql, Schema, Scope, SetValue, Setting,
        Statement, Tag, Template, Value, Variable,
    },
};

/// Numbers of user variables, temporary tables, locks, and names of statements.
const NAMES: u64 = 3;

impl Script<'_> {
    /// A few steps of a habit.
    pub(super) fn practise(&mut self, habit: Habit) {
        match habit {
            Habit::Autocommit => match self.rng.below(24) {
                0 => self.deed(Deed::Ping),
                1 => self.deed(Deed::Statistics),
                2 => self.deed(Deed::Nonsense),
                3 => self.say(Act::Broken),
                4 => self.say(Act::UnknownTable),
                5 | 8 => self.kill(),
                6 => self.multi(),
                7 => {
                    let ms = self.rng.between(1, 30);
                    self.say(Act::Sleep { ms });
                }
                _ => self.plain(),
            },
            Habit::Transactions => self.transaction(),
            Habit::SessionState => self.session_state(),
            Habit::Prepared => match self.rng.chance(1, 4) {
                true => self.prepared_by_sql(),
                false => self.prepared(),
            },
            Habit::Holding => self.holding(),
            Habit::LargeResults => {
                let (rows, width) = match self.rng.chance(1, 3) {
                    true => (self.rng.between(1, 400), self.rng.between(1, 300)),
                    false => (self.rng.between(1, 40), self.rng.between(1, 3_000)),
                };
                self.say(Act::Numbers { rows, width });
            }
            Habit::Traces => self.traces(),
        }
    }

    /// A read or a write.
    fn plain(&mut self) {
        let act = match self.rng.chance(1, 2) {
            true => self.read(),
            false => self.write_act(),
        };
        self.say(act);
    }

    fn read(&mut self) -> Act {
        match self.rng.below(10) {
            0 => Act::Numbers { rows: self.rng.below(6), width: self.rng.below(40) },
            1 => {
                let len = usize::try_from(self.rng.below(400)).unwrap_or_default();
                Act::Length { text: "z".repeat(len) }
            }
            2 | 3 => match self.rng.pick(&self.inserts).copied() {
                Some(of) => Act::CountLog { of },
                None => Act::Read { key: self.key() },
            },
            _ => Act::Read { key: self.key() },
        }
    }

    fn write_act(&mut self) -> Act {
        let key = self.key();
        match self.rng.below(12) {
            0 => Act::Delete { key },
            1 => Act::InsertKey { key },
            2 => Act::InsertIgnore { key },
            3 | 4 => Act::Update { key },
            5..=8 => Act::Put { key },
            _ => Act::Insert,
        }
    }

    fn kill(&mut self) {
        let connection = self.rng.between(1, 40);
        let query_only = self.rng.chance(1, 2);
        // Who speaks to a server itself could really kill somebody, which is not the proxy's.
        if !self.is_direct {
            self.say(Act::Kill { connection, query_only });
        }
    }

    /// Several statements in one command.
    fn multi(&mut self) {
        if self.rng.chance(1, 5) {
            self.deed(Deed::Multi(self.has_multi));
        }
        let count = self.rng.between(2, 4);
        let acts = (0..count).map(|_| match self.rng.below(8) {
            0 => self.set(),
            1 if !self.is_torn => Act::Begin(BeginForm::Begin),
            2 => Act::Commit,
            3 => Act::UnknownTable,
            4 | 5 => self.read(),
            _ => self.write_act(),
        });
        let acts = acts.collect();
        self.say_all(acts);
    }

    fn transaction(&mut self) {
        let form = self.rng.pick(&BeginForm::ALL).copied().unwrap_or(BeginForm::Begin);
        match self.rng.below(12) {
            0 => return self.without_autocommit(),
            1 => {
                let isolation = self.rng.pick(&Isolation::ALL).copied();
                let read_only = self.rng.pick(&[None, Some(true), Some(false)]).copied().flatten();
                self.say(Act::SetTransaction { session: false, isolation, read_only });
            }
            _ => {}
        }
        self.say(Act::Begin(form));
        self.body();
        match self.rng.below(if self.is_torn { 10 } else { 12 }) {
            0..=6 => self.say(Act::Commit),
            7..=9 => self.say(Act::Rollback),
            // What begins anew commits.
            10 => self.say(Act::Begin(BeginForm::Start)),
            // It stays open.
            _ => {}
        }
    }

    /// Read, change, write back; and other things that belong together.
    fn body(&mut self) {
        for _ in 0..self.rng.between(0, 4) {
            if self.is_torn {
                let key = self.key();
                let act = match self.rng.below(4) {
                    0 | 1 => Act::Read { key },
                    2 => Act::Put { key },
                    _ => Act::Delete { key },
                };
                self.say(act);
                continue;
            }
            match self.rng.below(8) {
                0..=2 => {
                    let key = self.key();
                    self.say(Act::ReadForUpdate { key });
                    self.say(Act::Put { key });
                }
                3 => {
                    let (first, second) = (self.rng.between(1, 8), self.rng.between(1, 8));
                    self.say(Act::Update { key: first });
                    self.say(Act::Update { key: second });
                }
                4 if self.rng.chance(1, 3) => self.kill(),
                4 => self.say(Act::UnknownTable),
                5 => {
                    let act = self.read();
                    self.say(act);
                }
                _ => {
                    let act = self.write_act();
                    self.say(act);
                }
            }
        }
    }

    fn without_autocommit(&mut self) {
        let autocommit = |on| {
            Act::Set(vec![Setting::Variable {
                scope: Scope::Plain,
                variable: Variable::Autocommit,
                value: SetValue::Literal(Value::Flag(on)),
            }])
        };
        self.say(autocommit(false));
        for _ in 0..self.rng.between(1, 3) {
            self.body();
            let end = if self.rng.chance(2, 3) { Act::Commit } else { Act::Rollback };
            self.say(end);
        }
        if self.is_torn || self.rng.chance(3, 4) {
            self.say(autocommit(true));
        }
    }

    fn session_state(&mut self) {
        match self.rng.below(22) {
            0..=5 => {
                let act = self.set();
                self.say(act);
            }
            6..=9 => {
                let variable = self.variable();
                self.say(Act::ShowVariable(variable));
            }
            10 => {
                let schema = self.schema();
                self.say(Act::Use(schema));
            }
            11 => {
                let schema = self.schema();
                self.deed(Deed::InitDb(schema));
            }
            12 => self.say(Act::Database),
            13 => {
                let name = self.name();
                self.say(Act::ShowUser(name));
            }
            14 => {
                let isolation = self.rng.pick(&Isolation::ALL).copied();
                let read_only = self.rng.pick(&[None, None, Some(false)]).copied().flatten();
                self.say(Act::SetTransaction { session: true, isolation, read_only });
            }
            15 => match self.rng.below(4) {
                0 => self.change_user(),
                _ => self.deed(Deed::Reset),
            },
            16 => self.say(Act::LastInsertId),
            17 => self.set_again(),
            18 if !self.is_direct => self.say(Act::ConnectionId),
            _ => self.plain(),
        }
    }

    /// A `SET` without a name, so that the same text comes more than once.
    fn set_again(&mut self) {
        let known = self.rng.pick(&self.sets).cloned().filter(|_| self.rng.chance(2, 3));
        let act = known.unwrap_or_else(|| self.set());
        if !self.sets.contains(&act) {
            self.sets.push(act.clone());
        }
        self.deed(Deed::Query(vec![Statement { tag: None, act }]));
    }

    fn change_user(&mut self) {
        let others = self.draw.users;
        let Some(user) = self.rng.pick(others).filter(|user| !user.is_fast_forward) else {
            return;
        };
        if self.is_direct {
            return;
        }
        let identity = identity(self.rng, user);
        let (identity, refusal) = spoil(self.rng, identity);
        self.deed(Deed::ChangeUser(identity, refusal));
    }

    fn schema(&mut self) -> Schema {
        let schemas = [(6, Schema::Shop), (6, Schema::Depot), (1, Schema::Missing)];
        self.rng.weighted(&schemas).copied().unwrap_or(Schema::Shop)
    }

    fn name(&mut self) -> u8 {
        u8::try_from(self.rng.below(NAMES)).unwrap_or_default()
    }

    fn variable(&mut self) -> Variable {
        self.rng.pick(&Variable::ALL).copied().unwrap_or(Variable::TimeZone)
    }

    fn set(&mut self) -> Act {
        let count = self.rng.weighted(&[(5, 1), (2, 2), (1, 3)]).copied().unwrap_or(1);
        let settings = (0..count).map(|_| match self.rng.below(12) {
            0 => Setting::Names(self.charset()),
            1 => Setting::NamesCollate(self.charset()),
            2 => Setting::NamesDefault,
            3 | 4 => Setting::User { name: self.name(), value: Some(self.rng.between(1, 1_000)) },
            _ => self.set_variable(),
        });
        Act::Set(settings.collect())
    }

    fn charset(&mut self) -> Charset {
        self.rng.pick(&Charset::ALL).copied().unwrap_or(Charset::Utf8mb4)
    }

    fn set_variable(&mut self) -> Setting {
        // Whether statements are transactions is set by those who think in transactions.
        let variable = match self.variable() {
            Variable::Autocommit | Variable::TransactionReadOnly => Variable::TimeZone,
            variable => variable,
        };
        let sample = self.rng.pick(&variable.samples()).cloned().unwrap_or(Value::Null);
        let value = match self.rng.below(12) {
            0 => SetValue::Default,
            1 | 2 => SetValue::Expression(sample),
            3 => SetValue::Literal(Value::Wrong("no such thing".to_owned())),
            _ => SetValue::Literal(sample),
        };
        let scope = self.rng.pick(&Scope::ALL).copied().unwrap_or(Scope::Plain);
        Setting::Variable { scope, variable, value }
    }

    fn slot(&mut self) -> u8 {
        self.name()
    }

    fn prepare(&mut self, slot: u8, template: Template) {
        let tag = self.tag();
        self.deed(Deed::Prepare { slot, template, tag });
    }

    fn execute(&mut self, slot: u8, template: Template) {
        let tag = self.tag();
        if template == Template::Insert {
            self.inserts.push(tag);
        }
        let value = match template {
            Template::Length => self.rng.below(3_000),
            Template::Numbers => self.rng.below(12),
            Template::Read | Template::Insert | Template::Put | Template::ReadForUpdate => {
                self.key()
            }
            Template::RowCount
            | Template::FoundRows
            | Template::LastInsertId
            | Template::ConnectionId
            | Template::Audited
            | Template::Marked
            | Template::Recalled(_) => 0,
        };
        let cursor = template == Template::Numbers && self.rng.chance(1, 2);
        let long_data = self.rng.chance(1, 2);
        self.deed(Deed::Execute { slot, tag, value, cursor, long_data });
        if cursor {
            for _ in 0..self.rng.below(4) {
                let rows = u32::try_from(self.rng.between(1, 6)).unwrap_or(1);
                self.deed(Deed::Fetch { slot, rows });
            }
        }
    }

    fn prepared(&mut self) {
        let slot = self.slot();
        let template = self.rng.pick(&Template::ALL).copied().unwrap_or(Template::Read);
        self.prepare(slot, template);
        for _ in 0..self.rng.between(0, 3) {
            if self.rng.chance(1, 4) {
                self.plain();
            }
            self.execute(slot, template);
        }
        match self.rng.below(6) {
            0 => self.deed(Deed::ResetStmt(slot)),
            // It leaks.
            1 => {}
            // Somebody else's slot, or an empty one.
            2 => {
                let other = self.slot();
                self.deed(Deed::Close(other));
            }
            3 => self.deed(Deed::Reset),
            _ => self.deed(Deed::Close(slot)),
        }
        if self.rng.chance(1, 8) {
            self.execute(slot, template);
        }
    }

    fn prepared_by_sql(&mut self) {
        let (name, user) = (self.name(), self.name());
        let key = self.key();
        if self.rng.chance(1, 2) {
            let tag = self.tag();
            self.say(Act::PrepareSql { name, of: PreparedSql::Read { tag, key } });
            self.say(Act::ExecuteSql { name, using: None });
        } else {
            let Tag(value) = self.tag();
            self.say(Act::PrepareSql { name, of: PreparedSql::Update { key } });
            self.say(Act::Set(vec![Setting::User { name: user, value: Some(value) }]));
            self.say(Act::ExecuteSql { name, using: Some(user) });
            self.say(Act::Read { key });
        }
        if self.rng.chance(1, 2) {
            self.say(Act::DeallocateSql(name));
        }
        if self.rng.chance(1, 8) {
            self.say(Act::ExecuteSql { name, using: None });
        }
    }

    fn holding(&mut self) {
        let name = self.name();
        match self.rng.below(17) {
            16 => self.kill(),
            0..=2 => self.say(Act::CreateTemporary(name)),
            3 | 4 => self.say(Act::InsertTemporary(name)),
            5..=7 => self.say(Act::ReadTemporary(name)),
            8 => self.say(Act::DropTemporary(name)),
            9 => {
                let seconds = self.rng.below(2);
                self.say(Act::GetLock { lock: name, seconds });
                self.plain();
                self.say(Act::ReleaseLock(name));
            }
            10 => self.say(Act::ReleaseAllLocks),
            11 => {
                let write = self.rng.chance(1, 2);
                self.say(Act::LockTables { write });
                self.plain();
                self.say(Act::UnlockTables);
            }
            12 => self.deed(Deed::Reset),
            _ => self.plain(),
        }
    }

    fn traces(&mut self) {
        match self.rng.below(12) {
            // Nobody else's may be told.
            8 | 9 => self.say(Act::ShowWarnings),
            // MariaDB keeps them over what uses no table.
            10 => {
                self.say(Act::Warn);
                self.say(Act::Database);
                self.plain();
            }
            // What uses no table does not use this up.
            11 => {
                let read_only = Some(true);
                self.say(Act::SetTransaction { session: false, isolation: None, read_only });
                self.say(Act::Database);
                self.plain();
            }
            0 | 1 => {
                self.say(Act::Warn);
                self.say(Act::ShowWarnings);
            }
            2 => {
                self.say(Act::UnknownTable);
                self.say(Act::ShowWarnings);
            }
            3 | 4 => {
                let (rows, limit) = (self.rng.below(20), self.rng.below(6));
                self.say(Act::CalcFoundRows { rows, limit });
                self.say(Act::FoundRows);
            }
            5 => {
                self.say(Act::Insert);
                self.say(Act::LastInsertId);
            }
            6 => {
                let act = self.write_act();
                self.say(act);
                self.say(Act::RowCount);
            }
            _ => self.plain(),
        }
    }
}
