//! What statements make of a session.

use std::collections::BTreeMap;

use trunkline_protocol::packet::track::{Change, Changes};

use super::*;
use crate::statement::{Act, BeginForm, Scope, SetValue, Setting, Statement};

/// Tables of one session alone.
#[derive(Default)]
struct Tables {
    rows: BTreeMap<(Schema, u64), u64>,
    undone: BTreeMap<(Schema, u64), u64>,
    ids: u64,
}

impl Data for Tables {
    fn read(&mut self, schema: Schema, key: u64) -> Option<u64> {
        self.rows.get(&(schema, key)).copied()
    }

    fn count_log(&mut self, _: Schema, _: Tag) -> u64 {
        self.ids
    }

    fn write(&mut self, schema: Schema, write: Write) -> Result<Written, Failure> {
        match write {
            Write::Log { .. } => {
                self.ids += 1;
                return Ok(Written { affected: 1, insert_id: self.ids });
            }
            Write::Insert { key, v, .. } | Write::Replace { key, v } | Write::Update { key, v } => {
                self.rows.insert((schema, key), v);
            }
            Write::Nothing => return Ok(Written::default()),
            Write::Delete { key } => _ = self.rows.remove(&(schema, key)),
        }
        Ok(Written { affected: 1, insert_id: 0 })
    }

    fn is_granted(&mut self, _: u8) -> bool {
        true
    }

    fn is_locked(&mut self, _: u8) -> bool {
        false
    }

    fn kill(&mut self, _: u64, _: bool) -> bool {
        false
    }

    fn commit(&mut self) {
        self.undone = self.rows.clone();
    }

    fn rollback(&mut self) {
        self.rows = self.undone.clone();
    }
}

struct Bench {
    session: ModelSession,
    tables: Tables,
    number: u64,
}

impl Bench {
    fn new(flavor: Flavor) -> Self {
        let session = ModelSession::new(flavor, 45, Some(Schema::Shop));
        Self { session, tables: Tables::default(), number: 0 }
    }

    fn run(&mut self, act: Act) -> Answer {
        self.number += 1;
        let statement = Statement::new(Tag::new(0, self.number), act);
        self.session.run(&statement, &mut self.tables)
    }

    /// The last column of the first row.
    fn value(&mut self, act: Act) -> Cell {
        match self.run(act) {
            Answer::Rows(rows) => rows.rows.first().and_then(|row| row.last().cloned()?),
            other => panic!("{other:?}"),
        }
    }

    fn code(&mut self, act: Act) -> u16 {
        match self.run(act) {
            Answer::Failed(failure) => failure.code,
            other => panic!("{other:?}"),
        }
    }

    fn set(&mut self, variable: Variable, value: SetValue) -> Answer {
        self.run(Act::Set(vec![Setting::Variable { scope: Scope::Plain, variable, value }]))
    }
}

#[test]
fn a_transaction_begins_and_ends_as_told() {
    let mut bench = Bench::new(Flavor::MySql);
    bench.run(Act::Put { key: 1 });
    assert!(!bench.session.is_in_transaction());
    bench.run(Act::Begin(BeginForm::Begin));
    assert!(bench.session.status() & status::IN_TRANS != 0);
    bench.run(Act::Put { key: 1 });
    bench.run(Act::Rollback);
    assert_eq!(bench.value(Act::Read { key: 1 }), Some("1000001".to_owned()));
    bench.run(Act::Begin(BeginForm::ReadOnly));
    assert!(bench.session.status() & status::IN_TRANS_READONLY != 0);
    assert_eq!(bench.code(Act::Insert), 1792);
    bench.run(Act::Commit);
    assert_eq!(bench.session.status(), status::AUTOCOMMIT);
}

#[test]
fn without_autocommit_tables_begin_a_transaction() {
    let mut bench = Bench::new(Flavor::MariaDb);
    bench.set(Variable::Autocommit, SetValue::Literal(Value::Flag(false)));
    bench.run(Act::Database);
    assert!(!bench.session.is_in_transaction());
    bench.run(Act::Read { key: 1 });
    assert!(bench.session.is_in_transaction());
    bench.set(Variable::Autocommit, SetValue::Literal(Value::Flag(true)));
    assert!(!bench.session.is_in_transaction());
}

#[test]
fn a_read_only_transaction_is_the_next_one_alone() {
    let mut bench = Bench::new(Flavor::MySql);
    let next = Act::SetTransaction { session: false, isolation: None, read_only: Some(true) };
    bench.run(next);
    bench.run(Act::Begin(BeginForm::Start));
    assert_eq!(bench.code(Act::Insert), 1792);
    bench.run(Act::Commit);
    assert!(matches!(bench.run(Act::Insert), Answer::Done(_)));
}

#[test]
fn what_uses_no_table_uses_up_no_next_transaction() {
    let next = Act::SetTransaction { session: false, isolation: None, read_only: Some(true) };
    let used_up = |act: Act| {
        let mut bench = Bench::new(Flavor::MariaDb);
        bench.run(next.clone());
        bench.run(act);
        !bench.session.reads_only()
    };
    let stays = [
        Act::Database,
        Act::Insert,
        Act::ReadForUpdate { key: 1 },
        Act::UnknownTable,
        Act::Broken,
        Act::UnlockTables,
        Act::CreateTemporary(1),
        Act::Use(Schema::Depot),
        Act::Set(vec![Setting::User { name: 1, value: Some(5) }]),
        Act::GetLock { lock: 1, seconds: 0 },
        Act::PrepareSql { name: 1, of: PreparedSql::Update { key: 1 } },
    ];
    for act in stays {
        assert!(!used_up(act.clone()), "{act:?}");
    }
    let ends = [
        Act::Read { key: 1 },
        Act::Numbers { rows: 1, width: 1 },
        Act::Commit,
        Act::Rollback,
        Act::LockTables { write: true },
        Act::SetTransaction { session: true, isolation: None, read_only: Some(false) },
    ];
    for act in ends {
        assert!(used_up(act.clone()), "{act:?}");
    }
}

#[test]
fn a_transaction_variable_without_a_scope_is_of_the_next_one() {
    let value = || SetValue::Literal(Value::Flag(true));
    for (scope, lasts) in [(Scope::At, false), (Scope::AtSession, true), (Scope::Plain, true)] {
        let mut bench = Bench::new(Flavor::MySql);
        let variable = Variable::TransactionReadOnly;
        bench.run(Act::Set(vec![Setting::Variable { scope, variable, value: value() }]));
        for expected in [true, lasts] {
            bench.run(Act::Begin(BeginForm::Begin));
            let reads_only = bench.session.status() & status::IN_TRANS_READONLY != 0;
            assert_eq!(reads_only, expected, "{scope:?}");
            bench.run(Act::Commit);
        }
    }
}

#[test]
fn mariadb_keeps_warnings_until_a_statement_uses_tables() {
    let mut bench = Bench::new(Flavor::MariaDb);
    let told = Some("Truncated incorrect INTEGER value: 'x1000001'".to_owned());
    bench.run(Act::Warn);
    assert!(bench.session.has_fresh_warnings());
    let acts = [Act::Set(vec![Setting::LastInsertId(5)]), Act::Database, Act::Commit];
    for act in acts {
        bench.run(act);
        assert!(!bench.session.has_fresh_warnings());
        assert_eq!(bench.value(Act::ShowWarnings), told);
    }
    bench.run(Act::Read { key: 1 });
    assert_eq!(bench.value(Act::ShowWarnings), None);
    // So does the proxy's `SET` that takes a value from a table.
    bench.run(Act::Warn);
    bench.run(Act::Set(vec![Setting::LastInsertIdOfTable(5)]));
    assert_eq!(bench.value(Act::ShowWarnings), None);
    assert_eq!(bench.value(Act::LastInsertId), Some("5".to_owned()));
}

#[test]
fn warnings_are_told_until_the_next_statement() {
    let mut bench = Bench::new(Flavor::MySql);
    bench.run(Act::Warn);
    let told = Some("Truncated incorrect INTEGER value: 'x1000001'".to_owned());
    assert_eq!(bench.value(Act::ShowWarnings), told);
    assert_eq!(bench.value(Act::ShowWarnings), told);
    bench.run(Act::Database);
    assert_eq!(bench.value(Act::ShowWarnings), None);
    assert_eq!(bench.code(Act::UnknownTable), 1146);
    assert_eq!(
        bench.value(Act::ShowWarnings).as_deref(),
        Some("Table 'shop.missing' doesn't exist")
    );
}

#[test]
fn the_last_id_stays_and_counts_are_of_the_last_statement() {
    let mut bench = Bench::new(Flavor::MySql);
    bench.run(Act::Insert);
    assert_eq!(bench.value(Act::RowCount), Some("1".to_owned()));
    bench.run(Act::CalcFoundRows { rows: 9, limit: 2 });
    assert_eq!(bench.value(Act::FoundRows), Some("9".to_owned()));
    assert_eq!(bench.value(Act::LastInsertId), Some("1".to_owned()));
}

#[test]
fn names_set_four_variables_and_a_reset_undoes_them() {
    for (flavor, after) in
        [(Flavor::MariaDb, "utf8mb4_general_ci"), (Flavor::MySql, "utf8mb4_0900_ai_ci")]
    {
        let mut bench = Bench::new(flavor);
        let collation = |bench: &mut Bench| {
            bench.value(Act::ShowVariable(Variable::CollationConnection)).expect("not NULL")
        };
        assert_eq!(collation(&mut bench), "utf8mb4_general_ci");
        bench.run(Act::Set(vec![Setting::NamesCollate(Charset::Latin1)]));
        assert_eq!(collation(&mut bench), "latin1_bin");
        bench.run(Act::Set(vec![Setting::User { name: 1, value: Some(5) }]));
        bench.run(Act::CreateTemporary(1));
        assert!(bench.session.holds_anything());
        bench.session.reset(&mut bench.tables);
        assert_eq!(collation(&mut bench), after);
        assert!(!bench.session.holds_anything());
        assert_eq!(bench.session.schema, Some(Schema::Shop));
    }
}

#[test]
fn a_set_with_a_wrong_value_sets_nothing() {
    let mut bench = Bench::new(Flavor::MySql);
    let of = |variable, value| Setting::Variable { scope: Scope::Plain, variable, value };
    let wrong = SetValue::Literal(Value::Wrong("Nowhere".to_owned()));
    let settings = vec![
        of(Variable::UniqueChecks, SetValue::Literal(Value::Flag(false))),
        of(Variable::TimeZone, wrong),
    ];
    assert_eq!(bench.code(Act::Set(settings)), 1298);
    assert_eq!(*bench.session.variable(Variable::UniqueChecks), Value::Flag(true));
    assert_eq!(bench.session.take_changes(true), b"");
}

#[test]
fn temporary_tables_are_of_one_schema_and_follow_a_rollback() {
    let mut bench = Bench::new(Flavor::MySql);
    bench.run(Act::CreateTemporary(1));
    bench.run(Act::InsertTemporary(1));
    bench.run(Act::Begin(BeginForm::Begin));
    bench.run(Act::InsertTemporary(1));
    assert_eq!(bench.value(Act::ReadTemporary(1)), Some("1000004".to_owned()));
    bench.run(Act::Rollback);
    assert_eq!(bench.value(Act::ReadTemporary(1)), Some("1000002".to_owned()));
    bench.run(Act::Use(Schema::Depot));
    assert_eq!(bench.code(Act::ReadTemporary(1)), 1146);
    assert_eq!(bench.code(Act::Use(Schema::Missing)), 1049);
}

#[test]
fn locked_tables_bar_others_and_end_with_a_transaction() {
    let mut bench = Bench::new(Flavor::MySql);
    bench.run(Act::LockTables { write: false });
    assert_eq!(bench.code(Act::Insert), 1099);
    assert_eq!(bench.code(Act::Numbers { rows: 1, width: 1 }), 1100);
    bench.run(Act::Begin(BeginForm::Begin));
    assert!(matches!(bench.run(Act::Insert), Answer::Done(_)));
}

#[test]
fn changes_are_reported_as_servers_report_them() {
    let mut bench = Bench::new(Flavor::MariaDb);
    bench.set(Variable::SortBufferSize, SetValue::Literal(Value::Number(65_536)));
    assert_eq!(bench.session.take_changes(true), b"", "it is not tracked by default");
    let on = |name: &str, value: &str| Setting::Tracker(name.to_owned(), value.to_owned());
    bench.run(Act::Set(vec![on("system_variables", "*"), on("state_change", "1")]));
    bench.session.take_changes(true);
    bench.set(Variable::SortBufferSize, SetValue::Expression(Value::Number(32_768)));
    // What MariaDB 10.11 answers to a `SET sort_buffer_size`.
    assert_eq!(
        bench.session.take_changes(true),
        b"\x00\x17\x10sort_buffer_size\x0532768\x02\x02\x011"
    );
    bench.run(Act::Use(Schema::Depot));
    let raw = bench.session.take_changes(true);
    let changes: Vec<_> = Changes::new(&raw).collect();
    assert_eq!(changes, [Ok(Change::Schema(b"depot")), Ok(Change::State(true))]);
    bench.run(Act::Database);
    assert_eq!(bench.session.take_changes(true), b"");
}

#[test]
fn a_shadow_gives_a_right_reply_again_and_differs_from_a_wrong_one() {
    let mut bench = Bench::new(Flavor::MySql);
    let mut shadow = bench.session.clone();
    let acts = [
        Act::Insert,
        Act::Put { key: 1 },
        Act::Read { key: 1 },
        Act::CountLog { of: Tag(1_000_001) },
        Act::LastInsertId,
        Act::GetLock { lock: 1, seconds: 1 },
        Act::ReleaseLock(1),
        Act::ReleaseLock(1),
        Act::Kill { connection: 1, query_only: false },
    ];
    for act in acts {
        let answer = bench.run(act.clone());
        let statement = Statement::new(Tag::new(0, bench.number), act);
        assert_eq!(shadow.run(&statement, &mut Replied::new(&answer)), answer, "{statement:?}");
    }
    // Somebody else's id.
    let Answer::Rows(mut rows) = bench.run(Act::LastInsertId) else { panic!("rows") };
    rows.rows[0][1] = Some("77".to_owned());
    let statement = Statement::new(Tag::new(0, bench.number), Act::LastInsertId);
    let answer = Answer::Rows(rows);
    assert_ne!(shadow.run(&statement, &mut Replied::new(&answer)), answer);
}

#[test]
fn a_deadlock_undoes_the_transaction_and_a_timeout_does_not() {
    for (code, stays) in [(1213, false), (1205, true)] {
        let mut bench = Bench::new(Flavor::MySql);
        bench.run(Act::Begin(BeginForm::Begin));
        bench.run(Act::Put { key: 1 });
        let statement = Statement::new(Tag::new(0, 9), Act::Put { key: 2 });
        let failure = Failure::new(code, b"HY000", "planned");
        let schema = Some(Schema::Shop);
        bench.session.fail_from_outside(&statement, schema, failure, &mut bench.tables);
        assert_eq!(bench.session.is_in_transaction(), stays);
        assert_eq!(bench.value(Act::Read { key: 1 }).is_some(), stays);
    }
}

#[test]
fn what_a_statement_does_behind_its_text_is_done_though_it_fails() {
    let mut bench = Bench::new(Flavor::MySql);
    assert_eq!(bench.value(Act::ReadAudited), Some("1000001".to_owned()));
    assert_eq!(bench.tables.ids, 1);
    assert_eq!(bench.code(Act::InsertRefused(1)), 1644);
    assert_eq!(bench.value(Act::ShowUser(1)), Some("1000002".to_owned()));
    bench.run(Act::InsertMarked(0));
    assert_eq!(bench.value(Act::ShowUser(0)), Some("1000004".to_owned()));
    assert_eq!(bench.value(Act::LastInsertId), Some("0".to_owned()));
    assert_eq!(bench.tables.ids, 2);
    bench.run(Act::InsertGuarded(4));
    assert_eq!(bench.value(Act::ReleaseLock(4)), Some("1".to_owned()));
    assert!(matches!(bench.run(Act::InsertAssigning { key: 1, name: 2 }), Answer::Done(_)));
    assert_eq!(bench.value(Act::ShowUser(2)), Some("1000009".to_owned()));
}

#[test]
fn what_writes_behind_its_text_may_not_where_only_reads_may() {
    for act in [Act::ReadAudited, Act::InsertMarked(0), Act::InsertRefused(0)] {
        let mut bench = Bench::new(Flavor::MariaDb);
        bench.run(Act::Begin(BeginForm::ReadOnly));
        assert_eq!(bench.code(act.clone()), 1792);
        bench.run(Act::Commit);
        bench.run(Act::LockTables { write: true });
        assert_eq!(bench.code(act), 1100);
        assert_eq!(bench.value(Act::ShowUser(0)), None);
        assert_eq!(bench.tables.ids, 0);
    }
}
