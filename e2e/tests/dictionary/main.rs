//! What real servers' dictionaries say of names, to accounts that may see all and to others.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot, watch};
use trunkline_catalog::{Begun, Catalog, Found, Hidden, Kind, Name, Object, Waiter};
use trunkline_config::{Snapshot, parse};
use trunkline_monitor::{Account, DictionaryQuestion, keep_telling};
use trunkline_net::TlsSetup;
use trunkline_session::Credential;
use trunkline_testkit::{
    AuthPlugin, Flavour, MariaDb, MySql, Options, Server, mariadb_available, mysql_available,
    skipped,
};
use trunkline_topology::HostgroupId;

const GROUP: HostgroupId = HostgroupId(1);
const SECRET: &str = "its secret";
const SOON: Duration = Duration::from_secs(20);

/// Names of both families.
const SCHEMA: &str = "
    CREATE DATABASE a; CREATE DATABASE b;
    CREATE TABLE b.w (t_id INT);
    USE a;
    CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, n INT, s VARCHAR(9) DEFAULT 'f(x) @y',
        d DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
        g INT GENERATED ALWAYS AS (n + 1) VIRTUAL, h VARCHAR(40) DEFAULT (CONCAT('a', 'b')));
    CREATE TABLE `we``ird 'table` (id INT);
    CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, t_id INT, at DATETIME);
    CREATE TABLE logged (id INT, n INT);
    CREATE TRIGGER tr1 AFTER INSERT ON logged FOR EACH ROW
        INSERT INTO log (t_id, at) VALUES (NEW.id, NOW());
    CREATE TABLE counted (id INT);
    CREATE TRIGGER tr2 BEFORE INSERT ON counted FOR EACH ROW SET @rows = @rows + 1;
    CREATE TABLE through (id INT);
    CREATE TRIGGER tr3 AFTER DELETE ON through FOR EACH ROW DELETE FROM counted WHERE id = OLD.id;
    CREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC NO SQL RETURN x + 1;
    CREATE VIEW v1 AS SELECT p.id, w.t_id FROM plain p JOIN b.w ON w.t_id = p.id WHERE p.n > 3;
    CREATE VIEW v2 AS SELECT id, COUNT(*) AS c, 'it''s' AS q FROM v1 GROUP BY id;
    CREATE VIEW v_function AS SELECT f(id) AS x FROM plain;
    CREATE VIEW v_last AS SELECT id FROM plain WHERE id = LAST_INSERT_ID();
    CREATE VIEW v_over AS SELECT x FROM v_function;
    CREATE VIEW v_counted AS SELECT id FROM counted;
    CREATE VIEW v_listed AS SELECT TABLE_NAME FROM information_schema.TABLES;
    CREATE VIEW v_threads AS SELECT VARIABLE_NAME FROM performance_schema.session_status;
    ";

/// Names of MariaDB's own.
const MARIADB_SCHEMA: &str = "
    USE a;
    CREATE SEQUENCE seq;
    CREATE TABLE moves (id INT DEFAULT (NEXT VALUE FOR seq));
    CREATE TABLE looks (id INT, v INT AS (@x) VIRTUAL);
    CREATE VIEW v_seq AS SELECT NEXT VALUE FOR seq AS n;
    CREATE TABLE versioned (id INT) WITH SYSTEM VERSIONING;
    ";

struct Stage {
    server: Server,
    catalog: Arc<Catalog>,
    questions: mpsc::Sender<DictionaryQuestion>,
    _ends: (watch::Sender<Arc<Snapshot>>, watch::Sender<Arc<TlsSetup>>),
}

fn start(flavour: Flavour) -> Stage {
    let server = match flavour {
        Flavour::MariaDb => MariaDb::start(Options::default()),
        Flavour::MySql => MySql::start(Options::default()),
    };
    let server = server.expect("a server");
    for user in ["all", "reader", "blind"] {
        server.create_user(user, SECRET, AuthPlugin::ServerDefault).expect("an account");
    }
    server.sql(SCHEMA).expect("a schema");
    if flavour == Flavour::MariaDb {
        server.sql(MARIADB_SCHEMA).expect("a schema");
    }
    server
        .sql(
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM reader;
             REVOKE ALL PRIVILEGES, GRANT OPTION FROM blind;
             GRANT SELECT, INSERT ON a.* TO reader",
        )
        .expect("grants");
    // Without it, MySQL gets no password over plain TCP.
    let key = std::fs::read_to_string(server.folder().join("data/public_key.pem"));
    let key = key.map_or(String::new(), |key| {
        // MySQL's file ends with a NUL.
        format!("server_public_key = '''{}'''\n", key.trim_end_matches('\0'))
    });
    let text = format!(
        "{key}[[server]]\nhostgroup = 1\naddress = \"{}\"\n[[user]]\nname = \"all\"\n\
         password = \"x\"\ndefault_hostgroup = 1\n",
        server.address()
    );
    let no_files = |_: &str| Err("no files here".to_owned());
    let snapshot = parse(&text, "test.toml", &no_files).expect("configuration").snapshot(None);
    let (snapshots, seen) = watch::channel(Arc::new(snapshot));
    let (tls, works_with) = watch::channel(Arc::default());
    let catalog = Arc::new(Catalog::default());
    let (questions, asked) = mpsc::channel(16);
    tokio::spawn(keep_telling(seen, works_with, Arc::clone(&catalog), asked));
    Stage { server, catalog, questions, _ends: (snapshots, tls) }
}

fn name(full: &str) -> Name {
    let (schema, table) = full.split_once('.').expect("a schema and a table");
    Name { group: GROUP, schema: schema.as_bytes().into(), table: table.as_bytes().into() }
}

impl Stage {
    /// Asks as this account, on a clock that stands at `now_ms`; returns who waited.
    async fn ask(&self, user: &str, names: &[&str], now_ms: u64) -> Vec<Waiter> {
        let names: Vec<Name> = names.iter().map(|it| name(it)).collect();
        let waiter = Waiter { worker: 0, index: 7, generation: 1 };
        for name in &names {
            let begun = self.catalog.begin_ask(name.clone(), Some(waiter), now_ms);
            assert_eq!(begun, Begun::First);
        }
        let (told, waiters) = oneshot::channel();
        let told = Box::new(move |waiters| drop(told.send(waiters)));
        let credential = Credential::from_clear(SECRET.as_bytes());
        let account = Account::new(user.to_owned(), credential);
        let question = DictionaryQuestion { group: GROUP, names, account, asked_ms: now_ms, told };
        assert!(self.questions.send(question).await.is_ok());
        let waiters = tokio::time::timeout(SOON, waiters).await.expect("an answer in time");
        waiters.expect("an answer")
    }

    async fn object(&self, user: &str, of: &str, now_ms: u64) -> Option<Object> {
        self.ask(user, &[of], now_ms).await;
        match self.catalog.look_up(&name(of), now_ms) {
            Found::Object { object, .. } => Some(object),
            Found::Absent(_) | Found::Untold(_) => None,
            Found::Unknown => panic!("{of} was not asked for"),
        }
    }
}

const EMPTY: Hidden = Hidden::empty();
const UNKNOWN: Hidden = Hidden::UNKNOWN;
const SESSION: Hidden = Hidden::READS_SESSION;

const EXPECTED: [(&str, Kind, Hidden, Hidden); 15] = [
    ("a.plain", Kind::Table, EMPTY, Hidden::VARIES),
    ("a.we`ird 'table", Kind::Table, EMPTY, EMPTY),
    ("a.log", Kind::Table, EMPTY, EMPTY),
    ("a.logged", Kind::Table, EMPTY, Hidden::VARIES),
    ("a.counted", Kind::Table, EMPTY, UNKNOWN),
    ("a.through", Kind::Table, EMPTY, UNKNOWN),
    ("b.w", Kind::Table, EMPTY, EMPTY),
    ("a.v1", Kind::View, EMPTY, Hidden::VARIES),
    ("a.v2", Kind::View, EMPTY, Hidden::VARIES),
    ("a.v_function", Kind::View, UNKNOWN, UNKNOWN),
    ("a.v_last", Kind::View, SESSION, SESSION),
    ("a.v_over", Kind::View, UNKNOWN, UNKNOWN),
    ("a.v_counted", Kind::View, EMPTY, UNKNOWN),
    ("a.v_listed", Kind::View, Hidden::VARIES, UNKNOWN),
    ("a.v_threads", Kind::View, UNKNOWN, UNKNOWN),
];

const EXPECTED_OF_MARIADB: [(&str, Kind, Hidden, Hidden); 5] = [
    ("a.seq", Kind::Sequence, SESSION, UNKNOWN),
    ("a.moves", Kind::Table, EMPTY, SESSION),
    ("a.looks", Kind::Table, SESSION, SESSION),
    ("a.v_seq", Kind::View, UNKNOWN, UNKNOWN),
    ("a.versioned", Kind::Table, EMPTY, EMPTY),
];

/// Whether it has all that is expected; what varies may do so.
fn is_as_expected(found: Hidden, expected: Hidden) -> bool {
    let flags = [Hidden::WRITES, Hidden::LEAVES, Hidden::STAYS, SESSION, UNKNOWN];
    match expected.has(UNKNOWN) {
        true => found.may(Hidden::WRITES),
        false if expected.has(SESSION) => found.has(SESSION) && !found.has(UNKNOWN),
        false => !flags.iter().any(|flag| found.has(*flag)),
    }
}

async fn names_are_what_they_are(flavour: Flavour) {
    let stage = start(flavour);
    let of_family: &[_] = match flavour {
        Flavour::MariaDb => &EXPECTED_OF_MARIADB,
        Flavour::MySql => &[],
    };
    let all: Vec<_> = EXPECTED.iter().chain(of_family).collect();
    let names: Vec<&str> = all.iter().map(|(name, ..)| *name).chain(["a.nothing"]).collect();
    let waiters = stage.ask("all", &names, 0).await;
    assert_eq!(waiters.len(), 1, "one client waited for all");
    for (of, kind, reading, writing) in &all {
        let found = stage.catalog.look_up(&name(of), 0);
        let Found::Object { object, due_ms, until_ms, .. } = found else {
            panic!("{of} is not known: {found:?}")
        };
        assert_eq!((object.kind, due_ms, until_ms), (*kind, 5_000, 10_000), "{of}");
        assert!(is_as_expected(object.reading, *reading), "{of} {object:?}");
        assert!(is_as_expected(object.writing, *writing), "{of} {object:?}");
    }
    assert!(matches!(stage.catalog.look_up(&name("a.nothing"), 0), Found::Absent(_)));
    let figures = stage.catalog.figures();
    // What each is, the grants, and of views, triggers and columns, for the names and what they
    // use: few, however many names there are.
    assert!(figures.rounds == 1 && figures.queries <= 12, "{figures:?}");
}

async fn who_sees_less_knows_less(flavour: Flavour) {
    let stage = start(flavour);
    let plain = stage.object("reader", "a.logged", 0).await.expect("an object");
    // MariaDB tells that there is a trigger, and not what it does.
    assert!(plain.writing == UNKNOWN || plain.writing == UNKNOWN | Hidden::GIVES_VALUES);
    assert_eq!(plain.reading, EMPTY);
    // Without SHOW VIEW a definition is not shown.
    let view = stage.object("reader", "a.v1", 0).await.expect("an object");
    assert_eq!((view.kind, view.reading), (Kind::View, Hidden::OPAQUE));
    assert_eq!(stage.object("reader", "b.w", 0).await, None);
    assert_eq!(stage.object("blind", "a.plain", 0).await, None);
    // What the others see is known then, and stays so.
    let version = stage.catalog.version();
    let seen = stage.object("all", "a.logged", 1_000).await.expect("an object");
    assert!(is_as_expected(seen.writing, EMPTY));
    assert!(!stage.catalog.version().says_as(version));
    let again = stage.object("reader", "a.logged", 2_000).await;
    assert_eq!(again, Some(seen));
}

async fn a_connection_that_is_lost_is_made_anew(flavour: Flavour) {
    let stage = start(flavour);
    assert!(stage.object("all", "a.log", 0).await.is_some());
    let rows = stage.server.sql("SHOW PROCESSLIST").expect("a list");
    let ids = rows.iter().filter(|row| row.get(1).and_then(Option::as_deref) == Some("all"));
    let ids: Vec<String> = ids.filter_map(|row| row.first().cloned().flatten()).collect();
    let [id] = ids.as_slice() else { panic!("not one standing connection: {ids:?}") };
    stage.server.sql(&format!("KILL {id}")).expect("killed");
    assert!(stage.object("all", "a.plain", 0).await.is_some());
    stage.server.kill_hard().expect("the server ends");
    assert_eq!(stage.object("all", "b.w", 0).await, None);
    assert!(matches!(stage.catalog.look_up(&name("a.log"), 0), Found::Object { .. }));
}

/// Servers show what an account might see when it logged in, and tell what it may do now.
async fn who_sees_more_by_now_is_asked_by_a_new_connection(flavour: Flavour) {
    let stage = start(flavour);
    assert!(stage.object("reader", "a.log", 0).await.is_some());
    stage.server.sql("GRANT TRIGGER ON *.* TO reader").expect("a right");
    let counted = stage.object("reader", "a.counted", 1_000).await.expect("an object");
    assert!(is_as_expected(counted.writing, UNKNOWN), "its trigger is not seen: {counted:?}");
}

/// MariaDB's answer to `SHOW GRANTS` has the hash of the account's password in it, but for roles.
async fn what_an_account_may_do_is_asked_without_its_passwords_hash(flavour: Flavour) {
    let stage = start(flavour);
    stage.server.create_user("x@y", SECRET, AuthPlugin::ServerDefault).expect("an account");
    stage.server.create_user("acts", SECRET, AuthPlugin::ServerDefault).expect("an account");
    stage
        .server
        .sql(
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM 'x@y', acts;
             CREATE ROLE inner_one; CREATE ROLE outer_one; GRANT inner_one TO outer_one;
             GRANT ALL ON a.* TO inner_one; GRANT outer_one TO acts;
             SET DEFAULT ROLE outer_one FOR acts; GRANT ALL ON a.* TO 'x@y'",
        )
        .expect("roles");
    let asked = || {
        let rows = stage.server.sql("SHOW GLOBAL STATUS LIKE 'Com_show_grants'").expect("a row");
        rows.first().and_then(|row| row.get(1)?.clone()).expect("a count")
    };
    // Other tables each time, as what is known is not asked for.
    let cases = [("all", "a.logged", "0"), ("x@y", "a.log", "0"), ("acts", "a.plain", "2")];
    for (user, of, times) in cases {
        let seen = stage.object(user, of, 0).await.expect("an object");
        assert!(!seen.writing.has(Hidden::UNKNOWN), "{user} is shown no triggers: {seen:?}");
        assert_eq!(asked(), times, "{user}");
    }
}

/// Whatever the servers' sessions begin with, answers come whole and in the proxy's own encoding.
async fn what_is_asked_rests_on_no_setting_of_servers(flavour: Flavour) {
    let stage = start(flavour);
    stage.server.create_user("low", SECRET, AuthPlugin::ServerDefault).expect("an account");
    // In gbk this letter ends in a backslash, and the call is a part of a string.
    stage
        .server
        .sql(
            "REVOKE ALL PRIVILEGES, GRANT OPTION FROM low;
             GRANT ALL ON a.* TO low;
             SET NAMES utf8mb4;
             CREATE VIEW a.v_letter AS
                 SELECT '\u{7e17}' AS one, a.f(9) AS two, ' AS three -- ' AS four;
             CREATE TABLE a.twice (n INT);
             CREATE TRIGGER a.tr4 BEFORE INSERT ON a.twice FOR EACH ROW SET NEW.n = 1;
             CREATE TRIGGER a.tr5 AFTER INSERT ON a.twice FOR EACH ROW SET @n = NEW.n;
             SET GLOBAL init_connect = 'SET NAMES gbk';
             SET GLOBAL sql_select_limit = 1",
        )
        .expect("names and settings");
    let view = stage.object("low", "a.v_letter", 0).await.expect("an object");
    assert!(is_as_expected(view.reading, UNKNOWN), "its function is not seen: {view:?}");
    let table = stage.object("low", "a.twice", 0).await.expect("an object");
    assert!(is_as_expected(table.writing, UNKNOWN), "its second trigger is not seen: {table:?}");
}

fn run(flavour: Flavour, test: &str, body: impl AsyncFnOnce(Flavour)) {
    let found = match flavour {
        Flavour::MariaDb => mariadb_available(),
        Flavour::MySql => mysql_available(),
    };
    if let Err(reason) = found {
        return skipped(test, &reason);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(body(flavour));
}

#[test]
fn names_are_what_they_are_on_mariadb() {
    run(Flavour::MariaDb, "names_are_what_they_are", names_are_what_they_are);
}

#[test]
fn names_are_what_they_are_on_mysql() {
    run(Flavour::MySql, "names_are_what_they_are", names_are_what_they_are);
}

#[test]
fn who_sees_less_knows_less_on_mariadb() {
    run(Flavour::MariaDb, "who_sees_less_knows_less", who_sees_less_knows_less);
}

#[test]
fn who_sees_less_knows_less_on_mysql() {
    run(Flavour::MySql, "who_sees_less_knows_less", who_sees_less_knows_less);
}

#[test]
fn a_connection_that_is_lost_is_made_anew_on_mariadb() {
    let test = "a_connection_that_is_lost_is_made_anew";
    run(Flavour::MariaDb, test, a_connection_that_is_lost_is_made_anew);
}

#[test]
fn a_connection_that_is_lost_is_made_anew_on_mysql() {
    let test = "a_connection_that_is_lost_is_made_anew";
    run(Flavour::MySql, test, a_connection_that_is_lost_is_made_anew);
}

#[test]
fn issue_16_who_sees_more_by_now_is_asked_by_a_new_connection_on_mariadb() {
    let test = "who_sees_more_by_now_is_asked_by_a_new_connection";
    run(Flavour::MariaDb, test, who_sees_more_by_now_is_asked_by_a_new_connection);
}

#[test]
fn issue_16_who_sees_more_by_now_is_asked_by_a_new_connection_on_mysql() {
    let test = "who_sees_more_by_now_is_asked_by_a_new_connection";
    run(Flavour::MySql, test, who_sees_more_by_now_is_asked_by_a_new_connection);
}

#[test]
fn what_is_asked_rests_on_no_setting_of_servers_on_mariadb() {
    let test = "what_is_asked_rests_on_no_setting_of_servers";
    run(Flavour::MariaDb, test, what_is_asked_rests_on_no_setting_of_servers);
}

#[test]
fn what_is_asked_rests_on_no_setting_of_servers_on_mysql() {
    let test = "what_is_asked_rests_on_no_setting_of_servers";
    run(Flavour::MySql, test, what_is_asked_rests_on_no_setting_of_servers);
}

#[test]
fn what_an_account_may_do_is_asked_without_its_passwords_hash_on_mariadb() {
    let test = "what_an_account_may_do_is_asked_without_its_passwords_hash";
    run(Flavour::MariaDb, test, what_an_account_may_do_is_asked_without_its_passwords_hash);
}
