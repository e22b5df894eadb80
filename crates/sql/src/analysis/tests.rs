//! Tests of kinds, transaction effects, dependencies and effects. What reads and what writes is
//! tested by the corpus in `tests/`.

use super::{Effect as E, StatementKind as Kind, *};
use crate::set::Scope;
use crate::token::Encoding;

fn analysed(text: &str) -> Analysis {
    analyse(text.as_bytes(), &Modes::default())
}

const KINDS: &[(&str, Kind)] = &[
    ("SELECT 1", Kind::Select),
    ("(SELECT 1)", Kind::Select),
    ("VALUES ROW(1)", Kind::Select),
    ("WITH x AS (SELECT 1) SELECT 1", Kind::Select),
    ("WITH x AS (SELECT 1) UPDATE t SET a = 1", Kind::Update),
    ("WITH x AS (SELECT 1) DELETE FROM t", Kind::Delete),
    ("SELECT 1 FOR UPDATE", Kind::SelectForUpdate),
    ("SELECT 1 LOCK IN SHARE MODE", Kind::Select),
    ("insert into t values (1)", Kind::Insert),
    ("REPLACE t VALUES (1)", Kind::Replace),
    ("UPDATE t SET a = 1", Kind::Update),
    ("DELETE FROM t", Kind::Delete),
    ("CREATE TABLE t (a INT)", Kind::CreateTable),
    ("CREATE TEMPORARY TABLE t (a INT)", Kind::CreateTemporary),
    ("CREATE OR REPLACE TEMPORARY TABLE t (a INT)", Kind::CreateTemporary),
    ("CREATE DEFINER = 'a'@'b' VIEW v AS SELECT 1", Kind::CreateView),
    ("CREATE DEFINER=CURRENT_USER() TRIGGER t BEFORE INSERT ON u", Kind::CreateTrigger),
    ("CREATE FULLTEXT INDEX i ON t (a)", Kind::CreateIndex),
    ("CREATE USER u", Kind::CreateUser),
    ("CREATE SCHEMA s", Kind::CreateDatabase),
    ("CREATE ROLE r", Kind::Unknown),
    ("ALTER ONLINE TABLE t ADD a INT", Kind::AlterTable),
    ("ALTER SQL SECURITY DEFINER VIEW v AS SELECT 1", Kind::AlterView),
    ("DROP TEMPORARY TABLE t", Kind::DropTable),
    ("DROP TABLES t", Kind::DropTable),
    ("DROP VIEW v", Kind::DropView),
    ("DROP PREPARE s", Kind::Deallocate),
    ("DEALLOCATE PREPARE s", Kind::Deallocate),
    ("TRUNCATE t", Kind::TruncateTable),
    ("RENAME TABLE a TO b", Kind::RenameTable),
    ("RENAME USER a TO b", Kind::Unknown),
    ("BEGIN", Kind::Begin),
    ("START TRANSACTION", Kind::StartTransaction),
    ("START REPLICA", Kind::Unknown),
    ("COMMIT", Kind::Commit),
    ("ROLLBACK", Kind::Rollback),
    ("ROLLBACK WORK TO SAVEPOINT a", Kind::RollbackSavepoint),
    ("SAVEPOINT a", Kind::Savepoint),
    ("RELEASE SAVEPOINT a", Kind::ReleaseSavepoint),
    ("SHOW TABLE STATUS", Kind::ShowTableStatus),
    ("SHOW TABLES", Kind::Show),
    ("DESC t", Kind::Describe),
    ("DESCRIBE SELECT 1", Kind::Describe),
    ("EXPLAIN SELECT 1", Kind::Explain),
    ("ANALYZE TABLE t", Kind::AnalyzeTable),
    ("LOCK TABLE t READ", Kind::LockTable),
    ("UNLOCK TABLES", Kind::UnlockTables),
    ("RESET MASTER", Kind::ResetMaster),
    ("RESET REPLICA", Kind::ResetSlave),
    ("CHANGE REPLICATION SOURCE TO SOURCE_HOST='x'", Kind::ChangeMaster),
    ("LOAD DATA INFILE 'x' INTO TABLE t", Kind::Load),
    ("USE d", Kind::Use),
    ("SET a = 1", Kind::Set),
    ("SET STATEMENT a = 1 FOR SELECT 1", Kind::Set),
    ("/*!40101 SET NAMES utf8 */", Kind::Set),
    ("; UPDATE t SET a = 1; SELECT 1", Kind::Update),
    ("", Kind::Unknown),
    ("`select` 1", Kind::Unknown),
];

#[test]
fn kinds_are_found() {
    for (text, expected) in KINDS {
        assert_eq!(analysed(text).kind, *expected, "{text}");
    }
}

#[test]
fn kinds_have_the_names_of_the_admin_table() {
    assert_eq!(StatementKind::COUNT, 54);
    for (index, kind) in StatementKind::ALL.into_iter().enumerate() {
        assert_eq!(kind.index(), index);
    }
    assert_eq!(StatementKind::AlterTable.index(), 0);
    assert_eq!(StatementKind::SelectForUpdate.name(), "SELECT_FOR_UPDATE");
}

#[test]
fn transaction_effects_are_found() {
    use TransactionEffect as Tx;
    let begin = |read_only, consistent_snapshot| Tx::Begin {
        read_only,
        read_write: false,
        consistent_snapshot,
    };
    let (read_only, consistent_snapshot) = (false, false);
    let begin_to_write = Tx::Begin { read_only, read_write: true, consistent_snapshot };
    let commit = |chain, release| Tx::Commit { chain, release };
    let rollback = |chain, release| Tx::Rollback { chain, release };
    for (text, expected) in [
        ("SELECT 1", Tx::None),
        ("BEGIN", begin(false, false)),
        ("BEGIN WORK;", begin(false, false)),
        ("BEGIN NOT ATOMIC SELECT 1; END", Tx::None),
        ("START TRANSACTION", begin(false, false)),
        ("START TRANSACTION READ ONLY", begin(true, false)),
        ("START TRANSACTION READ WRITE", begin_to_write),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", begin(true, true)),
        ("START SLAVE", Tx::ImplicitCommit),
        ("COMMIT", commit(false, None)),
        ("COMMIT WORK AND CHAIN", commit(true, None)),
        ("COMMIT AND NO CHAIN RELEASE", commit(false, Some(true))),
        ("COMMIT AND NO CHAIN NO RELEASE", commit(false, Some(false))),
        ("COMMIT /* RELEASE */", commit(false, None)),
        ("COMMIT NO /* NO */ RELEASE", commit(false, Some(false))),
        ("ROLLBACK", rollback(false, None)),
        ("ROLLBACK AND CHAIN NO RELEASE", rollback(true, Some(false))),
        ("ROLLBACK RELEASE", rollback(false, Some(true))),
        ("ROLLBACK TO s", Tx::None),
        ("ROLLBACK WORK TO SAVEPOINT s", Tx::None),
        ("SAVEPOINT s", Tx::None),
        ("SET autocommit=0", Tx::SetAutocommit(Some(false))),
        ("SET @@session.autocommit = 'ON'", Tx::SetAutocommit(Some(true))),
        ("SET a=1, autocommit=1, autocommit=OFF", Tx::SetAutocommit(Some(false))),
        ("SET autocommit=@x", Tx::SetAutocommit(None)),
        ("SET GLOBAL autocommit=0", Tx::None),
        ("SET @autocommit=0", Tx::None),
        ("CREATE TABLE t (a INT)", Tx::ImplicitCommit),
        ("CREATE TEMPORARY TABLE t (a INT)", Tx::None),
        ("DROP TABLE t", Tx::ImplicitCommit),
        ("DROP TEMPORARY TABLE t", Tx::None),
        ("LOCK TABLES t READ", Tx::ImplicitCommit),
        ("GRANT ALL ON *.* TO u", Tx::ImplicitCommit),
        ("SET PASSWORD='x'", Tx::ImplicitCommit),
        ("LOAD DATA INFILE 'x' INTO TABLE t", Tx::None),
        ("BEGIN; INSERT INTO t VALUES (1)", begin(false, false)),
        ("BEGIN; SELECT 1; COMMIT", commit(false, None)),
        ("SET STATEMENT a=1 FOR COMMIT", commit(false, None)),
        ("START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */", begin(false, true)),
        ("START TRANSACTION /*!50605 READ ONLY */", begin(true, false)),
        ("START TRANSACTION /*!80000 READ ONLY */", begin(false, false)),
        ("/*!80000 START TRANSACTION READ ONLY */", begin(false, false)),
    ] {
        assert_eq!(analysed(text).transaction, expected, "{text}");
    }
}

#[test]
fn dependencies_are_found() {
    let cases = [
        ("SELECT 1", Depends::empty()),
        ("SELECT LAST_INSERT_ID()", Depends::LAST_INSERT_ID),
        ("INSERT INTO t VALUES (last_insert_id ( ))", Depends::LAST_INSERT_ID),
        ("SELECT @@identity", Depends::LAST_INSERT_ID),
        ("SELECT @@session.last_insert_id", Depends::LAST_INSERT_ID),
        ("SELECT ROW_COUNT()", Depends::ROW_COUNT),
        ("SELECT FOUND_ROWS()", Depends::FOUND_ROWS),
        ("SHOW WARNINGS LIMIT 5", Depends::DIAGNOSTICS),
        ("SHOW COUNT(*) ERRORS", Depends::DIAGNOSTICS),
        ("SELECT @@`warning_count`", Depends::DIAGNOSTICS),
        ("SELECT CONNECTION_ID()", Depends::CONNECTION_ID),
        ("SELECT @a", Depends::USER_VARIABLE_READ),
        ("SET @a = @b", Depends::USER_VARIABLE_READ),
        ("SET @a = 1, @b = 2", Depends::empty()),
        ("SET @a = IF(1, @b = 2, 3)", Depends::USER_VARIABLE_READ),
        ("SELECT @a := 1", Depends::empty()),
        ("EXECUTE s USING @a", Depends::USER_VARIABLE_READ),
        ("SELECT f(1)", Depends::UNKNOWN_FUNCTION),
        ("INSERT INTO t (a, b) VALUES (1, 2)", Depends::empty()),
        ("INSERT INTO t (a, b) VALUES (1, f(2))", Depends::UNKNOWN_FUNCTION),
        ("CREATE TABLE t (a INT DEFAULT (1)) SELECT f(1)", Depends::UNKNOWN_FUNCTION),
        ("CREATE TEMPORARY TABLE t AS WITH c AS (SELECT f(1)) TABLE c", Depends::UNKNOWN_FUNCTION),
        ("CREATE TABLE t (a CHAR(5), KEY k (a)) PARTITION BY KEY (a)", Depends::empty()),
        ("UPDATE t SET a = f(1)", Depends::UNKNOWN_FUNCTION),
        ("CREATE TABLE t (a INT, KEY k (a))", Depends::empty()),
        ("CREATE USER 'a'@'b'", Depends::empty()),
        ("CREATE DEFINER=`a`@`b` VIEW v AS SELECT 1", Depends::UNKNOWN_FUNCTION),
        ("GRANT ALL ON a.* TO b@c", Depends::empty()),
        ("SHOW GRANTS FOR b@c", Depends::empty()),
        ("SELECT ROW_COUNT(), FOUND_ROWS()", Depends::ROW_COUNT | Depends::FOUND_ROWS),
        ("SELECT @@session . last_insert_id", Depends::LAST_INSERT_ID),
        ("SELECT @@session. `identity`", Depends::LAST_INSERT_ID),
        ("SELECT @@local/* x */.warning_count", Depends::DIAGNOSTICS),
        ("SELECT @@last_gtid, @@in_transaction", Depends::PAST | Depends::LAST_GTID),
        ("SHOW VARIABLES LIKE 'last_insert_id'", Depends::LAST_INSERT_ID),
        ("SHOW VARIABLES LIKE 'LAST\\_INSERT%'", past::all_variables()),
        ("SHOW LOCAL VARIABLES LIKE 'warn%'", Depends::empty()),
        ("SHOW VARIABLES LIKE 'sql_mode'", Depends::empty()),
        ("SHOW VARIABLES LIKE 'session_track%'", Depends::TRACKERS),
        ("SHOW GLOBAL VARIABLES", Depends::empty()),
        ("SHOW VARIABLES", past::all_variables()),
        ("SHOW SESSION VARIABLES WHERE Variable_name = 'sql_mode'", past::all_variables()),
        ("SHOW STATUS LIKE 'Com_%'", Depends::PAST),
        ("SHOW GLOBAL STATUS", Depends::empty()),
        ("SHOW PROFILES", Depends::PAST),
        ("SELECT * FROM information_schema.optimizer_trace", Depends::PAST),
        ("SELECT * FROM `user_variables`", Depends::USER_VARIABLE_READ),
        ("SELECT * FROM performance_schema . session_variables", past::all_variables()),
        ("SELECT SQL%ROWCOUNT", Depends::ROW_COUNT | Depends::FOUND_ROWS),
        ("SELECT `row_count` ()", Depends::ROW_COUNT | Depends::UNKNOWN_FUNCTION),
        ("SELECT now ('a')", Depends::UNKNOWN_FUNCTION),
        ("SELECT count/**/(a) FROM t", Depends::UNKNOWN_FUNCTION),
        ("SELECT d. abs(1)", Depends::UNKNOWN_FUNCTION),
        ("SELECT d .abs(1)", Depends::UNKNOWN_FUNCTION),
        ("SELECT d . abs (1)", Depends::UNKNOWN_FUNCTION),
        ("SELECT `abs`(1)", Depends::UNKNOWN_FUNCTION),
        ("SELECT abs (1)", Depends::empty()),
        ("SELECT /*!50000 now*/('a')", Depends::UNKNOWN_FUNCTION),
        ("SELECT md4('a')", Depends::UNKNOWN_FUNCTION),
        ("SELECT encrypt('x')", Depends::UNKNOWN_FUNCTION),
    ];
    for (text, expected) in cases {
        assert_eq!(analysed(text).depends, expected, "{text}");
    }
    let shown = format!("{:?}", Depends::ROW_COUNT | Depends::CONNECTION_ID);
    assert_eq!(shown, r#"{"ROW_COUNT", "CONNECTION_ID"}"#);
}

fn table(schema: Option<&str>, table: &str) -> TableName {
    TableName {
        schema: schema.map(|name| name.as_bytes().to_vec()),
        table: table.as_bytes().to_vec(),
    }
}

fn assigned(name: &str) -> Effect {
    E::UserVariableAssigned(Some(name.as_bytes().to_vec()))
}

fn prepare(name: &str, is_opaque: bool) -> Effect {
    E::PrepareStatement { name: name.as_bytes().to_vec(), is_opaque }
}

fn check_effects(cases: &[(&str, Vec<Effect>)]) {
    for (text, expected) in cases {
        assert_eq!(analysed(text).effects, *expected, "{text}");
    }
}

#[test]
fn effects_on_tables_locks_and_variables_are_found() {
    let drop = |names, temporary| E::DropTable { names, temporary };
    check_effects(&[
        ("SELECT 1", vec![]),
        ("INSERT INTO t VALUES (1)", vec![]),
        ("CREATE TEMPORARY TABLE t (a INT)", vec![E::CreateTemporaryTable(table(None, "t"))]),
        (
            "CREATE TEMPORARY TABLE IF NOT EXISTS `d`.`t``` LIKE u",
            vec![E::CreateTemporaryTable(table(Some("d"), "t`"))],
        ),
        ("DROP TABLE a, b.c", vec![drop(vec![table(None, "a"), table(Some("b"), "c")], false)]),
        ("DROP TEMPORARY TABLE IF EXISTS a", vec![drop(vec![table(None, "a")], true)]),
        ("LOCK TABLES t READ", vec![E::LockTables]),
        ("UNLOCK TABLES", vec![E::UnlockTables]),
        ("FLUSH TABLES", vec![]),
        ("FLUSH TABLES a, b WITH READ LOCK", vec![E::FlushWithReadLock]),
        ("FLUSH LOCAL TABLES a FOR EXPORT", vec![E::FlushWithReadLock]),
        ("SELECT GET_LOCK('a', 1)", vec![E::GetLock(Some(b"a".to_vec()))]),
        (
            "DO RELEASE_LOCK('a'), RELEASE_ALL_LOCKS()",
            vec![E::ReleaseLock(Some(b"a".to_vec())), E::ReleaseAllLocks],
        ),
        ("SELECT @a := 1, @B := 2", vec![assigned("a"), assigned("b")]),
        ("UPDATE t SET a = (@x := 1)", vec![assigned("x")]),
        ("SELECT 1 INTO @a", vec![E::UserVariableAssigned(None)]),
        ("CALL p(@a)", vec![E::Call, E::UserVariableAssigned(None)]),
        ("CALL p(1)", vec![E::Call]),
        ("GET DIAGNOSTICS @a = NUMBER", vec![E::UserVariableAssigned(None)]),
        ("EXPLAIN INTO @a SELECT 1", vec![E::UserVariableAssigned(None)]),
        ("SELECT LAST_INSERT_ID(5)", vec![E::LastInsertIdAssigned]),
        ("UPDATE t SET a = LAST_INSERT_ID(a + 1)", vec![E::LastInsertIdAssigned]),
    ]);
}

#[test]
fn locks_have_names_where_each_call_certainly_happens() {
    let name = |text: &str| Some(text.as_bytes().to_vec());
    check_effects(&[
        (
            "SELECT get_lock('A', -1) AS x, GET_LOCK(\"it's\", .5) = 1",
            vec![E::GetLock(name("A")), E::GetLock(name("it's"))],
        ),
        ("SELECT RELEASE_LOCK('a') `b`;", vec![E::ReleaseLock(name("a"))]),
        ("SELECT RELEASE_ALL_LOCKS()", vec![E::ReleaseAllLocks]),
        ("SELECT IF(0, RELEASE_LOCK('a'), 1)", vec![E::ReleaseLock(None)]),
        ("SELECT IF(0, RELEASE_ALL_LOCKS(), 1)", vec![E::ReleaseLock(None)]),
        ("SELECT RELEASE_LOCK('a') FROM t", vec![E::ReleaseLock(None)]),
        ("SELECT RELEASE_LOCK('a') LIMIT 0", vec![E::ReleaseLock(None)]),
        ("SELECT GET_LOCK('a', 1) FROM t", vec![E::GetLock(None)]),
        ("SELECT GET_LOCK(CONCAT('a', b), 1)", vec![E::GetLock(None)]),
        ("SELECT GET_LOCK('a' 'b', 1)", vec![E::GetLock(None)]),
        ("SELECT GET_LOCK(?, 1)", vec![E::GetLock(None)]),
        (r"SELECT GET_LOCK('a\'', 1)", vec![E::GetLock(None)]),
        ("SELECT GET_LOCK('é', 1)", vec![E::GetLock(None)]),
        ("SELECT @a := GET_LOCK('a', 1)", vec![assigned("a"), E::GetLock(None)]),
    ]);
}

#[test]
fn a_locks_name_is_known_where_its_bytes_are_the_servers_letters() {
    for (text, encoding, is_named) in [
        ("SELECT GET_LOCK('a|b@c[1]', 1)", Encoding::Utf8, true),
        ("SELECT GET_LOCK('a|b@c[1]', 1)", Encoding::Gbk, true),
        ("SELECT GET_LOCK('a', 1)", Encoding::Swedish, true),
        ("SELECT GET_LOCK('a', 1)", Encoding::Unknown, true),
        ("SELECT GET_LOCK('[', 1)", Encoding::Swedish, false),
        ("SELECT RELEASE_LOCK('a@b')", Encoding::Swedish, false),
        ("SELECT RELEASE_LOCK('a`b')", Encoding::Swedish, false),
        ("DO RELEASE_LOCK('~')", Encoding::Unknown, false),
    ] {
        let modes = Modes { encoding, ..Modes::default() };
        let effects = analyse(text.as_bytes(), &modes).effects;
        let has_name = matches!(&effects[..], [E::GetLock(Some(_)) | E::ReleaseLock(Some(_))]);
        assert_eq!(has_name, is_named, "{text} {encoding:?}");
    }
}

#[test]
fn a_name_of_other_letters_proves_nothing() {
    for (text, encoding, is_whole) in [
        ("SELECT 1 FROM `t{`", Encoding::Latin, true),
        ("SELECT 1 FROM `t{`", Encoding::Swedish, false),
        ("SELECT 1 FROM `t{`", Encoding::Unknown, false),
        ("SELECT 1 FROM t", Encoding::Unknown, true),
    ] {
        let modes = Modes { encoding, ..Modes::default() };
        let analysis = analyse(text.as_bytes(), &modes);
        assert_eq!(analysis.references.is_whole, is_whole, "{text} {encoding:?}");
    }
}

#[test]
fn prepared_texts_are_looked_into() {
    check_effects(&[
        ("PREPARE s FROM 'SELECT ''a'' FROM t'", vec![prepare("s", false)]),
        ("PREPARE s FROM 'INSERT INTO t VALUES (?)'", vec![prepare("s", false)]),
        ("PREPARE s FROM 'COMMIT'", vec![prepare("s", false)]),
        ("PREPARE s FROM 'SELECT f()'", vec![prepare("s", true)]),
        ("PREPARE s FROM 'SET @a = 1'", vec![prepare("s", true)]),
        ("PREPARE s FROM 'CALL p()'", vec![prepare("s", true)]),
        ("PREPARE s FROM @a", vec![prepare("s", true)]),
        (r"PREPARE s FROM 'SELECT \'a\''", vec![prepare("s", true)]),
        ("EXECUTE IMMEDIATE 'SELECT 1'", vec![E::ExecuteStatement(vec![])]),
        (
            "EXECUTE IMMEDIATE 'SELECT GET_LOCK(?, 1)' USING 'a'",
            vec![E::OtherSession("statement run by EXECUTE IMMEDIATE")],
        ),
    ]);
}

#[test]
fn items_of_set_are_told_from_assignments_inside_them() {
    let effects = |text: &str| {
        let effects = analysed(text).effects;
        assert!(matches!(effects.first(), Some(Effect::Set(_)) | None), "{text}: {effects:?}");
        effects.into_iter().filter(|effect| !matches!(effect, Effect::Set(_))).collect::<Vec<_>>()
    };
    assert_eq!(effects("SET @a := 1, @b := 2, SESSION sort_buffer_size := 3"), []);
    assert_eq!(effects("SET @a := (@b := 2)"), [assigned("b")]);
    assert_eq!(effects("SET @a = IF(1, @b := 2, 3)"), [assigned("b")]);
}

#[test]
fn other_effects_are_found() {
    let kill = |target, id| E::Kill { target, id };
    let name = |text: &str| text.as_bytes().to_vec();
    check_effects(&[
        ("PREPARE `s` FROM 'SELECT 1'", vec![prepare("s", false)]),
        ("EXECUTE s", vec![E::ExecuteStatement(name("s"))]),
        ("DEALLOCATE PREPARE s", vec![E::DeallocateStatement(name("s"))]),
        ("DROP PREPARE s", vec![E::DeallocateStatement(name("s"))]),
        ("HANDLER d.t OPEN AS h", vec![E::HandlerOpen(name("h"))]),
        ("HANDLER d.t OPEN", vec![E::HandlerOpen(name("t"))]),
        ("HANDLER h READ FIRST", vec![]),
        ("HANDLER h CLOSE", vec![E::HandlerClose(name("h"))]),
        ("SELECT SQL_CALC_FOUND_ROWS a FROM t", vec![E::CalcFoundRows]),
        ("USE `my db`", vec![E::UseSchema(name("my db"))]),
        ("SET ROLE r", vec![E::SetRole]),
        ("SET RESOURCE GROUP g", vec![E::SetResourceGroup]),
        ("BACKUP STAGE END", vec![E::BackupUnlock(BackupLock::Stage)]),
        ("BACKUP LOCK t", vec![E::BackupLock(BackupLock::Table)]),
        ("BACKUP UNLOCK", vec![E::BackupUnlock(BackupLock::Table)]),
        ("LOCK INSTANCE FOR BACKUP", vec![E::BackupLock(BackupLock::Instance)]),
        ("UNLOCK INSTANCE", vec![E::BackupUnlock(BackupLock::Instance)]),
        ("SET PASSWORD FOR a@b = 'x'", vec![E::SetPassword]),
        ("SET DEFAULT ROLE r TO a@b", vec![E::AccountsDefined]),
        ("GRANT SELECT ON d.* TO a@b", vec![E::AccountsDefined]),
        ("REVOKE r FROM a@b", vec![E::AccountsDefined]),
        ("CREATE OR REPLACE USER a@b", vec![E::AccountsDefined]),
        ("CREATE ROLE r", vec![E::AccountsDefined]),
        ("ALTER USER a@b DEFAULT ROLE r", vec![E::AccountsDefined]),
        ("RENAME USER a@b TO c@d", vec![E::AccountsDefined]),
        ("DROP USER a@b", vec![E::AccountsDefined]),
        ("DROP ROLE r", vec![E::AccountsDefined]),
        ("FLUSH HOSTS, PRIVILEGES", vec![E::AccountsDefined]),
        ("FLUSH STATUS", vec![]),
        ("SET x y", vec![E::SetUnparsable]),
        ("SET STATEMENT a=1 FOR SELECT 1", vec![]),
        ("SET STATEMENT a=1 FOR SET STATEMENT b=1 FOR SELECT 1", vec![E::SetUnparsable]),
        ("SAVEPOINT a", vec![E::Savepoint]),
        ("XA START 'a'", vec![E::Xa(XaStep::Start)]),
        ("XA COMMIT 'a' ONE PHASE", vec![E::Xa(XaStep::Commit)]),
        ("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", vec![E::LoadData { local: true }]),
        (
            "LOAD DATA INFILE 'x' INTO TABLE t (@a, b)",
            vec![E::LoadData { local: false }, E::UserVariableAssigned(None)],
        ),
        ("KILL 5", vec![kill(KillTarget::Connection, KillId::Number(5))]),
        ("KILL HARD QUERY 5", vec![kill(KillTarget::Other, KillId::Other)]),
        ("KILL 5 /*", vec![kill(KillTarget::Connection, KillId::Other)]),
        ("KILL CONNECTION_ID() /* x", vec![kill(KillTarget::Connection, KillId::Other)]),
        ("KILL 5 /* x */ -- y", vec![kill(KillTarget::Connection, KillId::Number(5))]),
        ("KILL CONNECTION @a", vec![kill(KillTarget::Connection, KillId::Other)]),
        ("KILL QUERY CONNECTION_ID()", vec![kill(KillTarget::Query, KillId::Own)]),
        ("KILL CONNECTION_ID() + 1", vec![kill(KillTarget::Connection, KillId::Other)]),
        ("KILL 5 + 1", vec![kill(KillTarget::Connection, KillId::Other)]),
        ("KILL QUERY ID 5", vec![kill(KillTarget::Other, KillId::Other)]),
        ("KILL USER 'u'@'h'", vec![kill(KillTarget::Other, KillId::Other)]),
        ("BACKUP STAGE START", vec![E::BackupLock(BackupLock::Stage)]),
        ("BEGIN NOT ATOMIC SET a=1; END", vec![E::OtherSession("compound statement")]),
        ("CREATE VIEW v AS SELECT GET_LOCK('a', 1)", vec![]),
    ]);
}

#[test]
fn set_is_parsed_into_the_effects() {
    let effects = analysed("SET @a = 1, sql_mode = ''").effects;
    let [Effect::Set(assignments)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(assignments.len(), 2);
    let effects = analysed("SET SESSION TRANSACTION READ ONLY").effects;
    assert!(matches!(effects.as_slice(), [Effect::SetTransaction(_)]), "{effects:?}");
    let effects = analysed("/*!40101 SET NAMES utf8 */; SET @@autocommit = 0; SELECT 1").effects;
    let [Effect::Set(names), Effect::Transaction(_), Effect::Set(autocommit)] = effects.as_slice()
    else {
        panic!("{effects:?}");
    };
    assert!(matches!(names[0], crate::set::Assignment::Names { .. }));
    let crate::set::Assignment::Variable { scope, .. } = &autocommit[0] else {
        panic!("{autocommit:?}");
    };
    assert_eq!(*scope, Scope::LocalDefault);
}

#[test]
fn effects_of_several_statements_keep_their_order() {
    let analysis = analysed("BEGIN; SELECT GET_LOCK('a', 1); COMMIT; USE d");
    let (read_only, read_write, consistent_snapshot) = (false, false, false);
    let begin = TransactionEffect::Begin { read_only, read_write, consistent_snapshot };
    let commit = TransactionEffect::Commit { chain: false, release: None };
    assert_eq!(
        analysis.effects,
        [
            Effect::Transaction(begin),
            Effect::GetLock(Some(b"a".to_vec())),
            Effect::Transaction(commit),
            Effect::UseSchema(b"d".to_vec()),
        ]
    );
    assert_eq!(analysis.statements, 4);
    assert_eq!(analysis.transaction, commit);
}

#[test]
fn what_only_some_servers_run_is_weighed_both_ways() {
    assert_eq!(analysed("SELECT 1 /*!40001 + 1 */").access, Access::CertainlyReads);
    let analysis = analysed("/*!99999 SELECT 1 AS a, ' */ SET ROLE r /*!99999 ' */");
    assert_eq!(analysis.access, Access::MayWrite);
    assert!(matches!(analysis.effects.last(), Some(Effect::OtherSession(_))));
    assert_eq!(analysed("/*!40101 SET ROLE r */;").effects, [Effect::SetRole]);
    let analysis = analysed("SELECT 1 /*!99999 AS */ /*! ; */ SET ROLE r");
    assert_eq!(analysis.effects, [Effect::SetRole]);
    let analysis = analysed("PREPARE /*!99999 a */ s FROM 'x'");
    assert!(analysis.effects.contains(&prepare("a", true)));
    assert!(is_doubted(&analysis));
}

#[test]
fn functions_belong_to_a_family() {
    let maria = Modes { flavor_mariadb: true, ..Modes::default() };
    let access = |text: &str, modes: &Modes| analyse(text.as_bytes(), modes).access;
    assert_eq!(access("SELECT NVL(a, b) FROM t", &maria), Access::CertainlyReads);
    assert_eq!(access("SELECT NVL(a, b) FROM t", &Modes::default()), Access::MayWrite);
    assert_eq!(access("SELECT BIN_TO_UUID(a) FROM t", &Modes::default()), Access::CertainlyReads);
    assert_eq!(access("SELECT BIN_TO_UUID(a) FROM t", &maria), Access::MayWrite);
    assert_eq!(access("SELECT 1 /*M! INTO @a */", &maria), Access::MayWrite);
    // MariaDB's servers may be readers beside MySQL's.
    assert_eq!(access("SELECT 1 /*M! INTO @a */", &Modes::default()), Access::MayWrite);
}

#[test]
fn quotes_and_comments_are_those_of_the_modes() {
    let ansi = Modes { ansi_quotes: true, ..Modes::default() };
    let plain = Modes { no_backslash_escapes: true, ..Modes::default() };
    let statements = |text: &str, modes: &Modes| analyse(text.as_bytes(), modes).statements;
    assert_eq!(statements(r"SELECT 'a\'; DELETE FROM t; -- '", &Modes::default()), 1);
    assert_eq!(statements(r"SELECT 'a\'; DELETE FROM t; -- '", &plain), 2);
    assert_eq!(statements(r#"SELECT "a\"; DELETE FROM t; -- ""#, &ansi), 2);
    assert_eq!(statements("SELECT 1 -- a\n; DELETE FROM t", &ansi), 2);
    assert_eq!(statements("SELECT 1 --a\n; DELETE FROM t", &ansi), 2);
    assert_eq!(statements("-- nothing", &ansi), 0);
    assert_eq!(analyse(br#"SELECT "f" (1)"#, &ansi).access, Access::MayWrite);
}

#[test]
fn incomplete_text_may_write() {
    for text in ["SELECT 'a", "SELECT 1 /* a", "SELECT `a", "SELECT 1\0", "SELECT '\0'"] {
        let analysis = analysed(text);
        assert!(!analysis.is_complete && analysis.access == Access::MayWrite, "{text:?}");
    }
    assert!(analysed("SELECT 1").is_complete);
}

#[test]
fn what_literals_decide_is_told() {
    for text in
        ["SET autocommit = 0", "SET a = 1", "KILL 5", "SELECT 'a", "SHOW VARIABLES LIKE 'a'"]
    {
        assert!(analysed(text).depends_on_literals(), "{text}");
    }
    for text in ["SELECT 1", "INSERT INTO t VALUES (1)", "BEGIN", "COMMIT"] {
        assert!(!analysed(text).depends_on_literals(), "{text}");
    }
}

#[test]
fn calls_of_declared_routines_are_reads_and_leave_nothing() {
    let routines = "price, shop.in_stock, report".parse().expect("names");
    let check = |text: &str, reads: bool| {
        let analysis = analyse_knowing(text.as_bytes(), &Modes::default(), &routines);
        assert_eq!(analysis.access == Access::CertainlyReads, reads, "{text}: {analysis:?}");
        assert!(!reads || analysis.effects.is_empty() && analysis.varies, "{text}: {analysis:?}");
        let plainly = analyse(text.as_bytes(), &Modes::default());
        assert_eq!(plainly.access, Access::MayWrite, "{text}: {plainly:?}");
    };
    for text in [
        "SELECT price(id) FROM t",
        "SELECT a FROM t WHERE Price (1) > 2",
        "SELECT `price`(1), shop.in_stock(2), `shop`.`in_stock`(3), any.price(4)",
        "SELECT 1 UNION SELECT price(2)",
        "SELECT a FROM (SELECT price(1) AS a) AS x (a)",
        "SHOW TABLES WHERE price(1) = 2",
        "CALL report()",
        "call any.report(1, 'a')",
        "CALL report(price(1)); CALL shop.in_stock(1)",
    ] {
        check(text, true);
    }
    for text in [
        "SELECT price(1), other(2)",
        "SELECT in_stock(1)",
        "SELECT other.in_stock(1)",
        "SELECT price(1) FOR UPDATE",
        "SELECT price(1) INTO @a",
        "SELECT price(@a)",
        "INSERT INTO t VALUES (price(1))",
        "UPDATE t SET a = price(1)",
        "DO price(1)",
        "SET @a = price(1)",
        "CALL report(@out)",
        "CALL report(other())",
        "CALL report(LAST_INSERT_ID())",
        "CALL other()",
        "CALL report(); DELETE FROM t",
    ] {
        check(text, false);
    }
}

fn is_doubted(analysis: &Analysis) -> bool {
    let is_other = |effect: &Effect| matches!(effect, Effect::OtherSession(_));
    analysis.access == Access::MayWrite && analysis.effects.iter().any(is_other)
}

#[test]
fn issue_16_what_may_not_have_run_ends_nothing() {
    for text in [
        "/*!80000 DROP TABLE t */ SELECT 1",
        "/*!100100 DROP TABLE t */",
        "DROP TABLE /*!80000 t */ /*!100100 u */",
        "/*!80000 UNLOCK TABLES */",
        "/*!80000 DO RELEASE_LOCK('a') */",
        "/*!80000 DO RELEASE_ALL_LOCKS() */",
        "/*!80000 DEALLOCATE PREPARE s */",
        "/*!80000 HANDLER t CLOSE */",
        "/*!80000 USE b */",
        "/*!80000 COMMIT */",
        "/*!80000 ROLLBACK; */ SELECT 1",
        "/*!80000 XA COMMIT 'x' */",
        "/*!80000 BEGIN */",
        "/*!501001DROP TABLE t */",
        "DROP TABLE t /*!80000 , ' */ -- '",
    ] {
        let analysis = analysed(text);
        assert!(is_doubted(&analysis), "{text}: {analysis:?}");
        let ends = analysis.effects.iter().any(Effect::ends_something);
        assert!(!ends, "{text}: {:?}", analysis.effects);
    }
    // No server runs these, and all run those.
    let analysis = analysed("/*!999999 DROP TABLE z */ SELECT 1");
    assert_eq!((analysis.access, analysis.effects), (Access::CertainlyReads, vec![]));
    let analysis = analysed("/*!40000 DROP TABLE z */");
    assert!(matches!(&*analysis.effects, [Effect::DropTable { .. }]));
    let both = analysed("/*!80000 CREATE TEMPORARY TABLE a (b INT) */; SET ROLE r");
    assert!(both.effects.contains(&Effect::CreateTemporaryTable(table(None, "a"))), "{both:?}");
    assert!(both.effects.contains(&Effect::SetRole) && is_doubted(&both));
}

#[test]
fn issue_16_a_comparison_with_a_user_variable_reads_it() {
    for text in [
        "SELECT 1, @a = '10.0'",
        "INSERT INTO t VALUES (?, @a = '10.0')",
        "SELECT IF(1, @a = 'xy', 5)",
        "UPDATE t SET b = 1, c = IF(1, @a = 2, 3)",
        "DO 1, @a = 2",
        "SET STATEMENT max_statement_time = 1 FOR SELECT 1, @a = 'xy'",
    ] {
        let depends = analysed(text).depends;
        assert!(depends.contains(Depends::USER_VARIABLE_READ), "{text}: {depends:?}");
    }
}

#[test]
fn issue_16_quotes_in_a_mode_that_is_not_known_are_read_both_ways() {
    let guess = Modes { guesses_quotes: true, guesses_escapes: true, ..Modes::default() };
    let read = |text: &str| analyse(text.as_bytes(), &guess);
    for text in ["SELECT \"a\" FROM t", "SELECT 'a\\nb'", "SELECT * FROM t WHERE a = \"b\""] {
        assert_eq!(read(text).access, Access::CertainlyReads, "{text}");
    }
    for text in [
        "SELECT \"f\"(1)",
        r#"SELECT "a\"; DELETE FROM t; -- ""#,
        r"SELECT 'a\'; DELETE FROM t; -- '",
        "DROP TABLE \"t\"",
    ] {
        let analysis = read(text);
        assert_eq!(analysis.access, Access::MayWrite, "{text}");
        assert!(!analysis.effects.iter().any(Effect::ends_something), "{text}: {analysis:?}");
    }
    assert!(is_doubted(&read(r#"SELECT "a\"; CREATE TEMPORARY TABLE t (a INT); -- ""#)));
    let create = read("CREATE TEMPORARY TABLE \"t\" (a INT)");
    assert!(create.effects.contains(&Effect::CreateTemporaryTable(table(None, "t"))));
}

#[test]
fn clauses_that_lock_or_export_are_seen_in_any_statement() {
    let check = |text: &str, expected: bool| {
        assert_eq!(analysed(text).locks_or_exports, expected, "{text}");
    };
    check("SELECT a FROM t FOR SHARE", true);
    check("SELECT a FROM t LOCK IN SHARE MODE", true);
    check("(SELECT 1) UNION (SELECT a FROM t FOR UPDATE)", true);
    check("EXPLAIN SELECT a FROM t FOR SHARE", true);
    check("SHOW TABLES WHERE (SELECT a FROM t FOR SHARE) = 1", true);
    check("SET STATEMENT a = 1 FOR SELECT a FROM t LOCK IN SHARE MODE", true);
    check("SELECT 1; SELECT 1 INTO DUMPFILE 'x'", true);
    check("SELECT a FROM t /*!50000 INTO OUTFILE 'x' */", true);
    check("SELECT share, outfile FROM t INTO @x", false);
    check("SELECT t.lock FROM t FORCE INDEX FOR ORDER BY (i)", false);
}

#[test]
// long: one list of cases.
fn what_may_compute_and_is_not_proven_runs_unseen_code() {
    let runs = |text: &str, flavor_mariadb: bool| {
        let modes = Modes { flavor_mariadb, ..Modes::default() };
        analyse(text.as_bytes(), &modes).depends.contains(Depends::UNKNOWN_FUNCTION)
    };
    for text in [
        "CREATE TABLE x AS VALUES (fr(1))",
        "CREATE TABLE x (a INT) VALUES ROW(fr(1))",
        "CREATE TABLE x (VALUES (fr(1)))",
        "CREATE TABLE x AS ((SELECT a FROM v))",
        "CREATE TABLE x (a INT) IGNORE AS VALUES ROW(fr(1))",
        "CREATE TEMPORARY TABLE x AS TABLE t ORDER BY fr(1)",
        "CREATE TABLE x AS WITH c AS (SELECT 1) VALUES (fr(1))",
        "CREATE TABLE x ENGINE=MEMORY PARTITION BY LIST (a) (PARTITION p VALUES IN (1)) SELECT fr(1)",
        "SET STATEMENT max_statement_time = 1 FOR CREATE TABLE x AS VALUES (fr(1))",
        "SET STATEMENT max_statement_time = fr(1) FOR CREATE TABLE x (a INT)",
        "CREATE VIEW v AS SELECT ROUND(1.2, fr(1))",
        "ALTER VIEW v AS SELECT 1",
        "CREATE OR REPLACE ALGORITHM=MERGE VIEW v AS SELECT a FROM t",
        "REPAIR VIEW v",
        "REPAIR NO_WRITE_TO_BINLOG VIEW v",
        "CHECK VIEW v",
        "PREPARE s FROM 'create view v as select 1'",
        "PREPARE s FROM 'create table x as values (fr(1))'",
        "PREPARE s FROM @s",
        "KILL fr(1)",
        "SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = fr(1)",
        "NO SUCH STATEMENT (SELECT a FROM v)",
        "CREATE SOMETHING x AS TABLE y; CREATE TABLE x TABLE v, w",
        "SELECT \\N FROM v",
        "USE d; SELECT a FROM v",
        "RENAME TABLE t TO t1, v TO t; SELECT a FROM t",
        "ALTER TABLE t RENAME t1; SELECT a FROM t",
    ] {
        assert!(runs(text, true) && runs(text, false), "{text}");
    }
    for text in [
        "CREATE TABLE x AS SELECT a FROM t",
        "CREATE TABLE x (SELECT a FROM t)",
        "CREATE TABLE x AS TABLE t",
        "CREATE TABLE x AS VALUES ROW(1, ABS(2))",
        "CREATE TEMPORARY TABLE x WITH SYSTEM VERSIONING AS SELECT 1",
        "CREATE TABLE x (a INT(10) DEFAULT (UUID()), b VARCHAR (10) AS (CONCAT(a, 'x')),
         KEY k (a, b(5)), FULLTEXT KEY f (b) WITH PARSER ngram, CHECK (foo (a) > 1),
         CONSTRAINT c FOREIGN KEY (a) REFERENCES t (a) ON UPDATE CASCADE)
         ENGINE=InnoDB PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (10),
         PARTITION q VALUES LESS THAN MAXVALUE)",
        "CREATE TABLE x LIKE t",
        "ALTER TABLE t ADD COLUMN c INT GENERATED ALWAYS AS (a + 1) STORED, ADD INDEX (c)",
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u WITHOUT VALIDATION",
        "CREATE INDEX i ON t (a, (LOWER(b)))",
        "DROP TABLE IF EXISTS t; DROP VIEW v; TRUNCATE TABLE t; RENAME TABLE a TO b",
        "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.a = (SELECT fr(1))",
        "CREATE FUNCTION f() RETURNS INT RETURN fr(1)",
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT fr(1)",
        "GRANT SELECT (a), UPDATE (b) ON t TO u",
        "CREATE USER 'a'@'b' IDENTIFIED BY 'x'",
        "SET PASSWORD = PASSWORD('x')",
        "LOCK TABLES t WRITE",
        "FLUSH TABLES t WITH READ LOCK",
        "ANALYZE TABLE t",
        "OPTIMIZE LOCAL TABLE t",
        "HANDLER t READ k = (1)",
        "CHECK TABLE t",
        "REPAIR TABLE t",
        "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)",
        "SET @a = 1; SELECT a FROM t",
        "ALTER TABLE t ADD b INT; UPDATE t SET b = 1",
        "PREPARE s FROM 'SELECT a FROM t'",
        "XA START 'x'",
        "KILL QUERY CONNECTION_ID()",
        "/*!40000 ALTER TABLE `t` DISABLE KEYS */",
        "SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`",
        "EXPLAIN FOR CONNECTION 5",
    ] {
        assert!(!runs(text, true) && !runs(text, false), "{text}");
    }
}
