//! Tests of the statements' recognition.

use trunkline_store::{Layer, Module};

use super::{select::Session, *};

struct Fixed;

impl Session for Fixed {
    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "version_comment" => Some("a proxy".to_owned()),
            "auto_increment_increment" => Some("1".to_owned()),
            "mysql-wait_timeout" => Some("5".to_owned()),
            "sql_mode" => Some(String::new()),
            _ => None,
        }
    }

    fn function(&self, name: &str) -> Option<String> {
        match name {
            "VERSION" => Some("2.7.1".to_owned()),
            "CONNECTION_ID" => Some("9".to_owned()),
            "USER" | "CURRENT_USER" => Some("admin".to_owned()),
            _ => None,
        }
    }
}

fn parsed(sql: &str) -> Statement {
    parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[test]
fn names_keep_their_letters() {
    assert_eq!(parsed("use stats"), Statement::Use("stats".to_owned()));
    assert_eq!(parsed("USE `Main`;"), Statement::Use("Main".to_owned()));
    assert_eq!(parsed("load mysql user Bob to run"), Statement::LoadUser("Bob".to_owned()));
}

#[test]
fn every_spelling_of_load_and_save_moves_the_same() {
    use Layer::{Disk, Memory, Runtime};
    let check = |spellings: &[&str], from: Layer, to: Layer| {
        for spelling in spellings {
            for module in Module::ALL {
                let (verb, rest) = spelling.split_once(' ').expect("two words");
                let sql = format!("{verb} {} {rest};", module.name());
                let expected = Movement { module, from: Origin::Layer(from), to };
                assert_eq!(parsed(&sql), Statement::Move(expected), "{sql}");
                assert_eq!(parsed(&sql.to_lowercase()), Statement::Move(expected), "{sql}");
            }
        }
    };
    check(&["LOAD FROM DISK", "LOAD TO MEMORY", "LOAD TO MEM"], Disk, Memory);
    check(&["SAVE TO DISK", "SAVE FROM MEMORY", "SAVE FROM MEM"], Memory, Disk);
    check(
        &["LOAD TO RUNTIME", "LOAD TO RUN", "LOAD FROM MEMORY", "LOAD FROM MEM"],
        Memory,
        Runtime,
    );
    check(
        &["SAVE FROM RUNTIME", "SAVE FROM RUN", "SAVE TO MEMORY", "SAVE TO MEM"],
        Runtime,
        Memory,
    );
    let config = Movement { module: Module::MysqlServers, from: Origin::ConfigFile, to: Memory };
    assert_eq!(parsed("load mysql  servers\nfrom config"), Statement::Move(config));
    let revision = Movement { from: Origin::Revision(7), ..config };
    assert_eq!(parsed("LOAD MYSQL SERVERS FROM REVISION 7"), Statement::Move(revision));
}

#[test]
fn what_can_not_be_moved_is_said() {
    let check = |sql: &str, expected: &str| {
        let error = parse(sql).expect_err(sql);
        assert!(error.contains(expected), "{error}");
    };
    check("LOAD MYSQL SERVRES TO RUNTIME", "nothing called `MYSQL SERVRES`");
    check("LOAD MYSQL SERVERS", "wants FROM or TO");
    check("LOAD MYSQL SERVERS TO DISK", "can't go TO `DISK`");
    check("SAVE MYSQL SERVERS FROM CONFIG", "can't go FROM `CONFIG`");
    check("LOAD MYSQL SERVERS FROM REVISION x", "a revision is a number");
    check("KILL 99999999999", "not the number of a connection");
    check("PROXYSQL DANCE", "no command PROXYSQL DANCE");
    check("SHOW DIFF MYSQL HATS", "nothing called `MYSQL HATS`");
}

#[test]
fn comments_and_spaces_do_not_matter_and_strings_stay() {
    let check = |sql: &str, expected: &str| assert_eq!(Text::new(sql).as_str(), expected);
    check("  /* a */ SELECT\t1 -- b\n ; ;", "SELECT 1");
    check("SELECT '  -- # /* ''  '  # end", "SELECT '  -- # /* ''  '");
    check("/*!40101 SET NAMES utf8 */;", "");
    check("SELECT /*!40001 SQL_NO_CACHE */ a FROM b", "SELECT a FROM b");
    check("SELECT 1--1", "SELECT 1--1");
    check("/* unclosed", "");
    check(";", "");
    assert_eq!(parsed(" ; -- nothing"), Statement::Empty);
}

#[test]
fn a_text_is_divided_where_statements_end() {
    let check = |sql: &str, expected: &[&str]| assert_eq!(text::statements(sql), expected);
    check("SELECT 1", &["SELECT 1"]);
    check("SELECT 1; SELECT 2;", &["SELECT 1", " SELECT 2"]);
    check(
        "SELECT ';' /* ; */ -- ; x\n; # ;\n;SET a='x;''y'",
        &["SELECT ';' /* ; */ -- ; x\n", "SET a='x;''y'"],
    );
    check(" ; ", &[" ; "]);
    check("", &[""]);
}

#[test]
fn shows_are_recognised() {
    let check = |sql: &str, expected: Show| assert_eq!(parsed(sql), Statement::Show(expected));
    let schema = Some("stats".to_owned());
    check("show tables from stats", Show::Tables { schema, filter: Filter::None });
    check(
        "SHOW TABLES LIKE 'mysql%'",
        Show::Tables { schema: None, filter: Filter::Like("mysql%".to_owned()) },
    );
    check(
        "SHOW CREATE TABLE `main`.`mysql_servers`",
        Show::CreateTable("main.mysql_servers".into()),
    );
    check("desc mysql_users", Show::Columns("mysql_users".into()));
    check("SHOW FULL FIELDS FROM `t` FROM `main`", Show::FullColumns("main.t".into()));
    check("SHOW FIELDS FROM `t` FROM `main`", Show::Columns("main.t".into()));
    check(
        "SHOW GLOBAL VARIABLES LIKE 'admin-%'",
        Show::Variables("", Filter::Like("admin-%".into())),
    );
    check(
        "SHOW VARIABLES WHERE Variable_name in ('a b',  'c')",
        Show::Variables("", Filter::Where("Variable_name in ('a b', 'c')".into())),
    );
    check("SHOW FULL PROCESSLIST", Show::Processlist { is_full: true });
    check(
        "SHOW DIFF MYSQL SERVERS DISK MEMORY",
        Show::Diff {
            module: Some(Module::MysqlServers),
            first: Layer::Disk,
            second: Layer::Memory,
        },
    );
    let (first, second) = (Layer::Memory, Layer::Runtime);
    check("SHOW DIFF", Show::Diff { module: None, first, second });
}

#[test]
fn what_clients_set_for_themselves_has_no_effect() {
    for sql in [
        "SET NAMES utf8mb4",
        "SET autocommit=1",
        "SET SESSION TRANSACTION READ ONLY",
        "SET @@session.sql_mode = 'ANSI'",
        "BEGIN",
        "start transaction",
        "ROLLBACK",
    ] {
        assert_eq!(parsed(sql), Statement::NoEffect, "{sql}");
    }
    let set = |name: &str, value: &str| {
        Statement::Set(Assignment { name: name.into(), value: value.into() })
    };
    assert_eq!(parsed("SET mysql-wait_timeout=5"), set("mysql-wait_timeout", "5"));
    assert_eq!(parsed("set admin-read_only = 'true';"), set("admin-read_only", "true"));
    assert_eq!(parsed("SET GLOBAL mysql-threads = 2"), set("mysql-threads", "2"));
    assert_eq!(parsed("SET nonsense = 1"), set("nonsense", "1"));
}

#[test]
fn what_drivers_ask_is_rewritten_for_sqlite() {
    let check = |sql: &str, expected: &str| {
        assert_eq!(parsed(sql), Statement::Session, "{sql}");
        assert_eq!(select::rewrite(&Text::new(sql), &Fixed).as_deref(), Ok(expected), "{sql}");
    };
    check("select @@version_comment limit 1", "SELECT 'a proxy' AS \"@@version_comment\" limit 1");
    check("SELECT VERSION()", "SELECT '2.7.1' AS \"VERSION()\"");
    check("SELECT VERSION() AS v", "SELECT '2.7.1' AS v");
    check(
        "/* mysql-connector-j-9 */SELECT @@session.auto_increment_increment AS \
         auto_increment_increment, @@sql_mode AS sql_mode",
        "SELECT 1 AS auto_increment_increment, '' AS sql_mode",
    );
    check("SELECT DATABASE()", "SELECT NULL AS \"DATABASE()\"");
    check("select @@mysql-wait_timeout + 1", "SELECT 5 + 1 AS \"@@mysql-wait_timeout + 1\"");
    check("SELECT 'USER()', USER() FROM DUAL", "SELECT 'USER()', 'admin' AS \"USER()\"");
    check(
        "SELECT timediff(now(), utc_timestamp())",
        "SELECT '00:00:00' AS \"timediff(now(), utc_timestamp())\"",
    );
    let unknown = select::rewrite(&Text::new("SELECT @@nonsense"), &Fixed);
    assert_eq!(unknown, Err("Unknown system variable 'nonsense'".to_owned()));
    assert!(matches!(parsed("SELECT * FROM mysql_users"), Statement::Sql(_)));
}

#[test]
fn any_text_is_something_or_an_error() {
    let words =
        ["SHOW", "LOAD", "'", "`", "@@", "(", ",", ";", "/*!", "--", "SELECT", "é", "SET", "="];
    let mut seed = 7_u64;
    for _ in 0..20_000 {
        let mut sql = String::new();
        for _ in 0..6 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(seed >> 33).expect("31 bits") % words.len();
            sql.push_str(words[at]);
            if seed & 64 == 0 {
                sql.push(' ');
            }
        }
        if parse(&sql) == Ok(Statement::Session) {
            let _ = select::rewrite(&Text::new(&sql), &Fixed);
        }
    }
}

#[test]
fn hostgroups_are_paused_by_number_and_for_a_time() {
    use std::time::Duration;

    use crate::source::HostgroupTraffic::{Pause, Resume};
    let paused = |id, seconds: Option<u64>| {
        Statement::Command(Command::Hostgroup(id, Pause(seconds.map(Duration::from_secs))))
    };
    assert_eq!(parsed("pause hostgroup 10"), paused(10, None));
    assert_eq!(parsed("PAUSE HOSTGROUP 10 FOR 60;"), paused(10, Some(60)));
    assert_eq!(parsed("PAUSE HOSTGROUP 10 FOR 60 SECONDS"), paused(10, Some(60)));
    assert_eq!(parsed("RESUME HOSTGROUP 10"), Statement::Command(Command::Hostgroup(10, Resume)));
    for (sql, part) in [
        ("PAUSE HOSTGROUP", "wants a number"),
        ("PAUSE HOSTGROUP x", "`x` is not the number of a hostgroup"),
        ("PAUSE HOSTGROUP 1 FOR 3601", "FOR wants 1 to 3600 seconds, not `3601`"),
        ("PAUSE HOSTGROUP 1 FOR ever", "not `EVER`"),
        ("RESUME HOSTGROUP 1 FOR 5", "RESUME HOSTGROUP wants a number"),
        ("PAUSE", "want HOSTGROUP"),
    ] {
        let error = parse(sql).expect_err(sql);
        assert!(error.to_string().to_uppercase().contains(&part.to_uppercase()), "{sql}: {error}");
    }
}
