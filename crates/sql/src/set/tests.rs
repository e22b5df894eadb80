//! Tests of the `SET` parser.

use super::*;
use crate::token::Modes;

fn show_bytes(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn show_option(bytes: Option<&Vec<u8>>) -> String {
    bytes.map_or("default".to_owned(), |bytes| show_bytes(bytes))
}

fn show(assignment: &Assignment) -> String {
    match assignment {
        Assignment::Variable { scope, name, value } => {
            let value = match value {
                Value::Literal(text) => show_bytes(text),
                Value::Default => "DEFAULT".to_owned(),
                Value::Expression(text) => format!("expr({})", show_bytes(text)),
            };
            format!("{scope:?} {}={value}", show_bytes(name))
        }
        Assignment::Names { charset, collation: None } => {
            format!("names {}", show_option(charset.as_ref()))
        }
        Assignment::Names { charset, collation } => {
            format!("names {}/{}", show_option(charset.as_ref()), show_option(collation.as_ref()))
        }
        Assignment::CharacterSet { charset } => {
            format!("charset {}", show_option(charset.as_ref()))
        }
        Assignment::Transaction(setting) => format!(
            "transaction {:?} {} {:?}",
            setting.scope,
            setting.isolation.map_or("-", Isolation::name),
            setting.read_only
        ),
        Assignment::Password => "password".to_owned(),
        Assignment::Role => "role".to_owned(),
        Assignment::DefaultRole => "default role".to_owned(),
        Assignment::ResourceGroup => "resource group".to_owned(),
    }
}

/// Pairs of a statement and its assignments, separated by ` | `.
const CASES: &[(&str, &str)] = &[
    ("SET a=1", "LocalDefault a=1"),
    ("set A = 'x';", "LocalDefault a='x'"),
    ("SET @@session.b='x', @@c:=2", "Session b='x' | LocalDefault c=2"),
    ("SET SESSION d=ON, LOCAL e=OFF", "Session d=ON | Session e=OFF"),
    (
        "SET GLOBAL a=1, b=2, SESSION c=3, d=4",
        "Global a=1 | Global b=2 | Session c=3 | Session d=4",
    ),
    ("SET GLOBAL a=1, @@b=2", "Global a=1 | LocalDefault b=2"),
    ("SET PERSIST a=1", "Persist a=1"),
    ("SET PERSIST_ONLY a=1, @@persist.b=2", "PersistOnly a=1 | Persist b=2"),
    (
        "SET @@GLOBAL.a=1, @@local.b=2, @@persist_only.c=3",
        "Global a=1 | Session b=2 | PersistOnly c=3",
    ),
    (
        "SET @u=1, @`V w`:='a', @'x'=NULL",
        "UserVariable u=1 | UserVariable v w='a' | UserVariable x=NULL",
    ),
    ("SET `sql_mode`=''", "LocalDefault sql_mode=''"),
    (
        "SET @@`sql_mode`='', @@session.`time_zone`='+00:00'",
        "LocalDefault sql_mode='' | Session time_zone='+00:00'",
    ),
    ("SET hot.key_buffer_size=1", "LocalDefault hot.key_buffer_size=1"),
    ("SET @@hot.key_buffer_size=1", "LocalDefault hot.key_buffer_size=1"),
    ("SET GLOBAL hot.key_buffer_size=1", "Global hot.key_buffer_size=1"),
    (
        "SET a=-1, b=+2.5, c=1e3, d=0x1F",
        "LocalDefault a=-1 | LocalDefault b=+2.5 | LocalDefault c=1e3 | LocalDefault d=0x1F",
    ),
    ("SET a=DEFAULT, b=default", "LocalDefault a=DEFAULT | LocalDefault b=DEFAULT"),
    ("SET character_set_results=utf8mb4", "LocalDefault character_set_results=utf8mb4"),
    ("SET character_set_results=NULL", "LocalDefault character_set_results=NULL"),
    ("SET tx_isolation='READ-COMMITTED'", "LocalDefault transaction_isolation='READ-COMMITTED'"),
    ("SET tx_isolation=READ-COMMITTED", "LocalDefault transaction_isolation=READ-COMMITTED"),
    ("SET @@tx_isolation='SERIALIZABLE'", "NextTransaction transaction_isolation='SERIALIZABLE'"),
    (
        "SET @@session.transaction_isolation='SERIALIZABLE'",
        "Session transaction_isolation='SERIALIZABLE'",
    ),
    ("SET @@transaction_read_only=1", "NextTransaction transaction_read_only=1"),
    ("SET tx_read_only=1", "LocalDefault transaction_read_only=1"),
    (
        "SET sql_mode=CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')",
        "LocalDefault sql_mode=expr(CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'))",
    ),
    ("SET a=(SELECT 1, 2), b=3", "LocalDefault a=expr((SELECT 1, 2)) | LocalDefault b=3"),
    ("SET a=@@b, @c=@d", "LocalDefault a=expr(@@b) | UserVariable c=expr(@d)"),
    ("SET a='x' 'y'", "LocalDefault a=expr('x' 'y')"),
    ("SET a=1+1", "LocalDefault a=expr(1+1)"),
    ("SET a=_utf8'x'", "LocalDefault a=expr(_utf8'x')"),
    ("SET timestamp=CURRENT_TIMESTAMP", "LocalDefault timestamp=expr(CURRENT_TIMESTAMP)"),
    ("SET a=?", "LocalDefault a=expr(?)"),
    ("SET a='it''s, (x)', b=1", "LocalDefault a='it''s, (x)' | LocalDefault b=1"),
    ("SET NAMES utf8", "names utf8"),
    ("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'", "names utf8mb4/utf8mb4_bin"),
    ("SET NAMES DEFAULT", "names default"),
    ("SET NAMES utf8, autocommit=1", "names utf8 | LocalDefault autocommit=1"),
    ("SET @x=1, NAMES binary", "UserVariable x=1 | names binary"),
    ("SET CHARACTER SET latin1", "charset latin1"),
    ("SET CHARSET 'utf8'", "charset utf8"),
    ("SET CHAR SET utf8", "charset utf8"),
    ("SET CHARACTER SET DEFAULT, a=1", "charset default | LocalDefault a=1"),
    ("SET names=1", "LocalDefault names=1"),
    ("SET SESSION autocommit=0", "Session autocommit=0"),
    ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "transaction Next READ-COMMITTED None"),
    (
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        "transaction Session REPEATABLE-READ Some(true)",
    ),
    ("SET LOCAL TRANSACTION READ WRITE", "transaction Session - Some(false)"),
    ("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE", "transaction Global SERIALIZABLE None"),
    (
        "SET TRANSACTION READ ONLY, ISOLATION LEVEL READ UNCOMMITTED",
        "transaction Next READ-UNCOMMITTED Some(true)",
    ),
    ("SET PASSWORD = 'x'", "password"),
    ("SET PASSWORD FOR 'u'@'h' = PASSWORD('x')", "password"),
    ("SET ROLE admin", "role"),
    ("SET ROLE ALL EXCEPT a, b", "role"),
    ("SET DEFAULT ROLE ALL TO 'u'@'h'", "default role"),
    ("SET RESOURCE GROUP rg", "resource group"),
    ("SET STATEMENT max_statement_time=1 FOR SELECT 1", ""),
    ("/*!40101 SET NAMES utf8 */;", "names utf8"),
    (
        "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='ANSI' */;",
        "UserVariable old_sql_mode=expr(@@SQL_MODE) | LocalDefault sql_mode='ANSI'",
    ),
    ("SET a=1 -- end", "LocalDefault a=1"),
    ("SET/**/a/**/=/**/1", "LocalDefault a=1"),
];

#[test]
fn statements_are_parsed() {
    for (text, expected) in CASES {
        let assignments = parse(text.as_bytes(), &Modes::default())
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        let shown: Vec<_> = assignments.iter().map(show).collect();
        assert_eq!(shown.join(" | "), *expected, "{text}");
    }
}

#[test]
fn what_is_not_understood_is_an_error() {
    for text in [
        "",
        "SET",
        "SET a",
        "SET a=",
        "SET a=1,",
        "SET =1",
        "SET 1=1",
        "SET a 1",
        "SET a=1; SELECT 1",
        "SELECT 1",
        "SET a='x",
        "SET a=1 /* x",
        "SET NAMES",
        "SET NAMES 1",
        "SET NAMES a b",
        "SET TRANSACTION",
        "SET TRANSACTION ISOLATION LEVEL",
        "SET TRANSACTION READ ONLY,",
        "SET TRANSACTION READ ONLY x",
        "SET @@session . a=1",
        "SET a=/*!50000 1 + */ 2",
        "SET a=/*! 1 + */ 2",
        "SET SESSION @@a=1",
        "SET a.=1",
        "SET @a",
    ] {
        assert!(parse(text.as_bytes(), &Modes::default()).is_err(), "{text}");
    }
}

#[test]
fn errors_name_the_place() {
    let error = parse(b"SET a 1", &Modes::default()).unwrap_err();
    assert_eq!(error.to_string(), "expected `=` at byte 6");
}

#[test]
fn switches_are_read_from_literals() {
    let switch = |text: &[u8]| Value::Literal(text.to_vec()).switch();
    for text in [&b"1"[..], b"ON", b"'on'", b"TRUE"] {
        assert_eq!(switch(text), Some(true));
    }
    for text in [&b"0"[..], b"off", b"\"OFF\"", b"false"] {
        assert_eq!(switch(text), Some(false));
    }
    assert_eq!(switch(b"2"), None);
    assert_eq!(Value::Default.switch(), None);
}

#[test]
fn double_quotes_follow_the_mode() {
    let ansi = Modes { ansi_quotes: true, ..Modes::default() };
    let assignments = parse(br#"SET "sql_mode"="ANSI""#, &ansi).unwrap();
    assert_eq!(show(&assignments[0]), r#"LocalDefault sql_mode="ANSI""#);
    assert!(parse(br#"SET "sql_mode"="ANSI""#, &Modes::default()).is_err());
}
