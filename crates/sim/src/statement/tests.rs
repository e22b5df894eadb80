//! Texts read back, and mean to the proxy what they are meant to mean.

use trunkline_protocol::packet::greeting::Flavor;
use trunkline_sql::{
    analysis::{Access, Analysis, Depends, Effect, TransactionEffect, analyse},
    token::Modes,
};

use super::*;

const FLAVORS: [Flavor; 2] = [Flavor::MariaDb, Flavor::MySql];

/// Every act that has no data of its own, and one of each other.
fn acts() -> Vec<Act> {
    let mut acts = vec![
        Act::Read { key: 7 },
        Act::ReadForUpdate { key: 7 },
        Act::CountLog { of: Tag(1_000_005) },
        Act::Numbers { rows: 9, width: 100 },
        Act::CalcFoundRows { rows: 9, limit: 2 },
        Act::FoundRows,
        Act::RowCount,
        Act::LastInsertId,
        Act::Database,
        Act::ShowUser(3),
        Act::Length { text: "abc".to_owned() },
        Act::Warn,
        Act::ShowWarnings,
        Act::Sleep { ms: 1_050 },
        Act::Insert,
        Act::InsertKey { key: 7 },
        Act::InsertIgnore { key: 7 },
        Act::Put { key: 7 },
        Act::Update { key: 7 },
        Act::Delete { key: 7 },
        Act::Load(Upload { key: 7, skipped: 3, is_there: true }),
        Act::Load(Upload { key: 7, skipped: 0, is_there: false }),
        Act::ReadAudited,
        Act::InsertMarked(1),
        Act::InsertRefused(1),
        Act::InsertGuarded(1),
        Act::InsertAssigning { key: 7, name: 1 },
        Act::UnknownTable,
        Act::Broken,
        Act::Commit,
        Act::Rollback,
        Act::CreateTemporary(2),
        Act::InsertTemporary(2),
        Act::ReadTemporary(2),
        Act::DropTemporary(2),
        Act::GetLock { lock: 1, seconds: 2 },
        Act::ReleaseLock(1),
        Act::ReleaseAllLocks,
        Act::LockTables { write: true },
        Act::LockTables { write: false },
        Act::UnlockTables,
        Act::PrepareSql { name: 1, of: PreparedSql::Read { tag: Tag(1_000_006), key: 7 } },
        Act::PrepareSql { name: 2, of: PreparedSql::Update { key: 7 } },
        Act::ExecuteSql { name: 1, using: None },
        Act::ExecuteSql { name: 2, using: Some(3) },
        Act::DeallocateSql(1),
        Act::Kill { connection: 5, query_only: false },
        Act::Kill { connection: 5, query_only: true },
    ];
    acts.extend(BeginForm::ALL.map(Act::Begin));
    acts.extend(Schema::ALL.map(Act::Use));
    acts.extend(Variable::ALL.map(Act::ShowVariable));
    for session in [false, true] {
        for isolation in Isolation::ALL.map(Some).into_iter().chain([None]) {
            for read_only in [None, Some(true), Some(false)] {
                if isolation.is_some() || read_only.is_some() {
                    acts.push(Act::SetTransaction { session, isolation, read_only });
                }
            }
        }
    }
    acts.extend(settings().into_iter().map(|setting| Act::Set(vec![setting])));
    acts.push(Act::Set(settings()));
    acts
}

fn settings() -> Vec<Setting> {
    let mut settings = vec![Setting::NamesDefault, Setting::User { name: 1, value: Some(5) }];
    settings.extend(Charset::ALL.map(Setting::Names));
    settings.extend(Charset::ALL.map(Setting::NamesCollate));
    for (place, variable) in Variable::ALL.into_iter().enumerate() {
        let scope = Scope::ALL[place % Scope::ALL.len()];
        let set = |value| Setting::Variable { scope, variable, value };
        settings.push(set(SetValue::Default));
        for value in variable.samples() {
            settings.push(set(SetValue::Literal(value.clone())));
            if value != Value::Null {
                settings.push(set(SetValue::Expression(value)));
            }
        }
    }
    let wrong = SetValue::Literal(Value::Wrong("Nowhere".to_owned()));
    let variable = Variable::TimeZone;
    settings.push(Setting::Variable { scope: Scope::Plain, variable, value: wrong });
    settings
}

#[test]
fn every_statement_reads_back_with_its_tag() {
    for flavor in FLAVORS {
        for tag in [Tag::new(0, 1), Tag::new(3, 42)] {
            for act in acts() {
                let statement = Statement::new(tag, act);
                let text = statement.to_sql(flavor);
                assert_eq!(parse(&text), [statement], "{text}");
                assert!(text.contains(&tag.0.to_string()), "{text}");
            }
        }
    }
}

#[test]
fn several_statements_read_back_in_order() {
    let statements: Vec<_> =
        (0..).zip(acts()).map(|(n, act)| Statement::new(Tag::new(1, n), act)).collect();
    assert_eq!(parse(&to_sql(&statements, Flavor::MySql)), statements);
}

#[test]
fn what_nobody_says_is_unknown() {
    for text in ["SELECT 1", "DROP TABLE kv", "SET foo = 1", "SELECT 'open", "SELECT /* open"] {
        let parsed = parse(text);
        assert!(matches!(&parsed[..], [Statement { act: Act::Unknown(_), .. }]), "{parsed:?}");
    }
    assert_eq!(parse(" ; "), []);
}

#[test]
fn what_the_proxy_says_is_understood() {
    let settings = |text: &str| match &parse(text)[..] {
        [Statement { tag: None, act: Act::Set(settings) }] => settings.clone(),
        other => panic!("{other:?}"),
    };
    let trackers = "SET @@SESSION.session_track_system_variables=x'2A',\
                    @@SESSION.session_track_schema=1,@@SESSION.session_track_state_change=1";
    assert_eq!(settings(trackers).len(), 3);
    let fresh = format!("{trackers},@@SESSION.sql_mode=@@SESSION.sql_mode");
    assert_eq!(settings(&fresh).len(), 4);
    let own = format!(
        "{fresh},@@SESSION.sql_auto_is_null=@@SESSION.sql_auto_is_null,\
         @@SESSION.profiling=0,@@SESSION.optimizer_trace='enabled=off',\
         @@SESSION.character_set_client=@@SESSION.character_set_client"
    );
    assert_eq!(settings(&own).len(), 4);
    let told = "SET @@SESSION.session_track_system_variables='autocommit',\
                @@SESSION.autocommit=@@SESSION.autocommit,@@SESSION.profiling=0";
    assert_eq!(settings(told).len(), 2);
    let set = |variable, value| Setting::Variable { scope: Scope::AtSession, variable, value };
    let literal = |value| SetValue::Literal(value);
    assert_eq!(
        settings(
            "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci,@@SESSION.time_zone='+01:00',\
             @@SESSION.autocommit='OFF',@@SESSION.tx_isolation=DEFAULT,\
             @@SESSION.sort_buffer_size=65536,@@SESSION.character_set_results=NULL,\
             @@SESSION.last_insert_id=7"
        ),
        [
            Setting::NamesExactly("utf8mb4_general_ci"),
            set(Variable::TimeZone, literal(Value::Text("+01:00"))),
            set(Variable::Autocommit, literal(Value::Flag(false))),
            set(Variable::TransactionIsolation, SetValue::Default),
            set(Variable::SortBufferSize, literal(Value::Number(65_536))),
            set(Variable::CharsetResults, literal(Value::Null)),
            Setting::LastInsertId(7),
        ]
    );
    assert_eq!(
        settings(
            "SET time_zone=DEFAULT,\
             @@SESSION.last_insert_id=IF((SELECT 1 FROM (SELECT 1) AS t),7,7)"
        )
        .get(1),
        Some(&Setting::LastInsertIdOfTable(7))
    );
    assert_eq!(settings("SET insert_id=7"), [Setting::InsertId(7)]);
}

fn analysed(act: Act) -> Analysis {
    let text = Statement::new(Tag::new(2, 9), act).to_sql(Flavor::MariaDb);
    let modes = Modes { flavor_mariadb: true, ..Modes::default() };
    analyse(text.as_bytes(), &modes)
}

#[test]
fn the_real_analysis_knows_reads_from_the_rest() {
    let reads = |act: &Act| {
        matches!(
            act,
            Act::Read { .. }
                | Act::CountLog { .. }
                | Act::Numbers { .. }
                | Act::Database
                | Act::Length { .. }
                | Act::Warn
                | Act::Sleep { .. }
                | Act::UnknownTable
                | Act::ReadTemporary(_)
                // By its text; what stands behind the name is the catalog's to say.
                | Act::ReadAudited
        )
    };
    for act in acts() {
        let access = analysed(act.clone()).access;
        assert_eq!(access == Access::CertainlyReads, reads(&act), "{act:?}");
    }
}

#[test]
fn the_real_analysis_sees_what_stays_in_the_session() {
    let effects = |act| analysed(act).effects;
    assert!(matches!(&effects(Act::GetLock { lock: 1, seconds: 1 })[..], [Effect::GetLock(_)]));
    assert_eq!(effects(Act::CalcFoundRows { rows: 2, limit: 1 }), [Effect::CalcFoundRows]);
    assert_eq!(effects(Act::LockTables { write: true }), [Effect::LockTables]);
    assert!(matches!(
        &effects(Act::CreateTemporary(1))[..],
        [Effect::CreateTemporaryTable(name)] if name.table == b"tmp1"
    ));
    assert!(matches!(&effects(Act::Use(Schema::Shop))[..], [Effect::UseSchema(_)]));
    assert!(matches!(
        &effects(Act::ExecuteSql { name: 1, using: None })[..],
        [Effect::ExecuteStatement(_)]
    ));
    assert_eq!(
        analysed(Act::Begin(BeginForm::ReadOnly)).transaction,
        TransactionEffect::Begin { read_only: true, read_write: false, consistent_snapshot: false }
    );
    assert_eq!(analysed(Act::LastInsertId).depends, Depends::LAST_INSERT_ID);
    assert_eq!(analysed(Act::ShowWarnings).depends, Depends::DIAGNOSTICS);
    for setting in settings() {
        let effects = effects(Act::Set(vec![setting.clone()]));
        assert!(!effects.contains(&Effect::SetUnparsable), "{setting:?}");
        assert!(!effects.is_empty(), "{setting:?}");
    }
}

#[test]
fn prepared_statements_read_back_and_bind() {
    for template in Template::ALL {
        let tag = Tag::new(1, 1);
        assert_eq!(Template::parse(&template.to_sql(tag)), Some((template, Some(tag))));
        assert_eq!(template.bind(&[]), None);
    }
    assert_eq!(Template::parse("SELECT 1"), None);
    let params = [Param::Number(7), Param::Number(1_000_009)];
    let mut payload = Vec::new();
    put_execute(&mut payload, 3, true, &params);
    let read = read_execute(&payload[5..], 2, |_| false).expect("well formed");
    assert!(read.cursor);
    let bound = Template::Put.bind(&read.params);
    assert_eq!(bound, Some(Statement::new(Tag(1_000_009), Act::Put { key: 7 })));
}

#[test]
fn long_data_takes_the_place_of_a_value() {
    let params = [Param::Number(1_000_009), Param::LongData];
    let mut payload = Vec::new();
    put_execute(&mut payload, 3, false, &params);
    let read = read_execute(&payload[5..], 2, |place| place == 1).expect("well formed");
    assert_eq!(read.params, params);
}

#[test]
fn tags_name_client_and_statement() {
    let tag = Tag::new(4, 17);
    assert_eq!((tag.client(), tag.number()), (Some(4), 17));
    assert_eq!(Tag(17).client(), None);
}
