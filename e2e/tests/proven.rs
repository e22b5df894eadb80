//! What is claimed to leave nothing behind, run on real servers without the proxy, and looked at.
//!
//! A session runs one form of the list after the other. Before and after each, everything that a
//! session can keep is read: by itself, and by a second connection that sees its locks and
//! transactions. The session holds a value of each kind from the beginning, so that one that gets
//! lost shows as well.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use trunkline_sql::{
    analysis::proven::{FORMS, Form, Leaves, functions},
    token::Modes,
    version::ServerVersion,
};
use trunkline_testkit::{
    Flavour, MariaDb, MySql, Options, Server, SqlClient, mariadb_available, mysql_available,
    skipped,
};

/// What a session has, by name.
type Traces = BTreeMap<String, String>;

/// What functions are called with. Any of it may be refused.
const ARGUMENTS: [&str; 9] = [
    "",
    "0.001",
    "'a'",
    "a",
    "'a', 1",
    "1, 2",
    "'[1]', '$[0]'",
    "'a', 'b', 1",
    "ST_GeomFromText('POINT(1 1)')",
];

/// How many functions are called between two looks.
const BATCH: usize = 25;

/// Variables that differ from one moment to the next by themselves.
const RESTLESS: [&str; 7] = [
    "timestamp",
    "error_count",
    "warning_count",
    "statement_id",
    "innodb_buffer_pool_load_incremental",
    "rand_seed1",
    "rand_seed2",
];

/// Variables that a statement may change that changes rows.
const OF_ROWS: [&str; 8] = [
    "last_insert_id",
    "identity",
    "last_gtid",
    "gtid_executed",
    "gtid_binlog_pos",
    "gtid_binlog_state",
    "gtid_current_pos",
    "insert_id",
];

#[test]
fn what_is_proven_leaves_nothing_on_mariadb() -> Result<()> {
    if let Err(reason) = mariadb_available() {
        skipped("what_is_proven_leaves_nothing_on_mariadb", &reason);
        return Ok(());
    }
    let options = Options::default().arg("--performance-schema=ON");
    let options = options.arg("--performance-schema-instrument=wait/lock/metadata/sql/mdl=ON");
    check(&MariaDb::start(options)?)
}

#[test]
fn what_is_proven_leaves_nothing_on_mysql() -> Result<()> {
    if let Err(reason) = mysql_available() {
        skipped("what_is_proven_leaves_nothing_on_mysql", &reason);
        return Ok(());
    }
    check(&MySql::start(Options::default().arg("--performance-schema=ON"))?)
}

fn check(server: &Server) -> Result<()> {
    let is_mariadb = server.flavour() == Flavour::MariaDb;
    server.sql(
        "CREATE DATABASE proven; USE proven;
         CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, a INT DEFAULT 1,
             s VARCHAR(20) CHARACTER SET utf8mb4, j JSON, KEY a (a), FULLTEXT KEY (s));
         CREATE TABLE tag (item INT, name VARCHAR(20));
         INSERT INTO item VALUES (1, 1, 'one', '[1]'), (2, 2, 'two', '[2, 3]'), (3, 3, 'a', '[]');
         INSERT INTO tag VALUES (1, 'x'), (2, 'y')",
    )?;
    if is_mariadb {
        server.sql("CREATE SEQUENCE proven.numbers")?;
    }
    let mut observer = server.root()?;
    let mut session = Session::begin(server, is_mariadb)?;
    // The looks themselves leave nothing, and see what is left.
    session.expect_same(&mut observer, Leaves::Nothing, "nothing")?;
    for text in ["SET @extra = 1", "SELECT GET_LOCK('l', 0)", "BEGIN; SELECT * FROM item"] {
        session.client.sql(text)?;
        let outcome = session.expect_same(&mut observer, Leaves::Nothing, text);
        ensure!(outcome.is_err(), "{text} is not seen");
        session = Session::begin(server, is_mariadb)?;
    }
    let mut found = Vec::new();
    for form in FORMS.iter().filter(|form| form.family.has(is_mariadb)) {
        if let Err(error) = forms(&mut session, &mut observer, form) {
            found.push(format!("{error:#}"));
            session = Session::begin(server, is_mariadb)?;
        }
    }
    let version = session.client.value("SELECT VERSION()")?.context("no version")?;
    let version = ServerVersion::of_greeting(&version);
    let modes = Modes { flavor_mariadb: is_mariadb, version, ..Modes::default() };
    let names: Vec<&str> = functions(&modes).collect();
    ensure!(names.len() > 200, "only {} functions are known of {version}", names.len());
    for batch in names.chunks(BATCH) {
        if call(&mut session, &mut observer, batch).is_ok() {
            continue;
        }
        for name in batch {
            session = Session::begin(server, is_mariadb)?;
            found
                .extend(call(&mut session, &mut observer, &[name]).err().map(|e| format!("{e:#}")));
        }
        session = Session::begin(server, is_mariadb)?;
    }
    ensure!(found.is_empty(), "{} leave something:\n{}", found.len(), found.join("\n"));
    Ok(())
}

fn forms(session: &mut Session, observer: &mut SqlClient, form: &Form) -> Result<()> {
    for text in form.examples {
        session.client.sql(text)?;
        session.expect_same(observer, form.leaves, text)?;
    }
    Ok(())
}

/// Calls functions in all kinds of ways; what they answer does not matter.
fn call(session: &mut Session, observer: &mut SqlClient, names: &[&str]) -> Result<()> {
    for name in names {
        for arguments in ARGUMENTS {
            let _ = session.client.sql(&format!("SELECT {name}({arguments}) FROM item LIMIT 1"));
        }
    }
    session.expect_same(observer, Leaves::Nothing, &names.join(", "))
}

/// A session, and what it had at its beginning.
struct Session {
    client: SqlClient,
    is_mariadb: bool,
    traces: Traces,
}

impl Session {
    fn begin(server: &Server, is_mariadb: bool) -> Result<Session> {
        let mut client = server.root()?;
        client.sql("USE proven; SET @mark = 7")?;
        client.sql("SELECT LAST_INSERT_ID(42)")?;
        client.sql("PREPARE kept FROM 'SELECT 1'")?;
        if is_mariadb {
            client.sql("SELECT NEXTVAL(numbers)")?;
        }
        let mut session = Session { client, is_mariadb, traces: Traces::new() };
        session.traces = session.own_traces()?;
        Ok(session)
    }

    /// An error that says what is not as at the beginning. What may change becomes the beginning.
    fn expect_same(&mut self, observer: &mut SqlClient, leaves: Leaves, text: &str) -> Result<()> {
        let id = self.client.connection_id();
        for question in [
            format!(
                "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = {id}"
            ),
            format!(
                "SELECT COUNT(*) FROM performance_schema.metadata_locks AS l
                 JOIN performance_schema.threads AS t ON t.thread_id = l.owner_thread_id
                 WHERE t.processlist_id = {id}"
            ),
        ] {
            let held = observer.value(&question)?;
            ensure!(held.as_deref() == Some("0"), "{text}: {held:?} of {question}");
        }
        let now = self.own_traces()?;
        let may_change = |name: &str| leaves == Leaves::Rows && OF_ROWS.contains(&name);
        let mut changed: Vec<String> = Vec::new();
        for name in self.traces.keys().chain(now.keys()) {
            let (before, after) = (self.traces.get(name), now.get(name));
            if before != after && !may_change(name) {
                changed.push(format!("{name}: {before:?} became {after:?}"));
            }
        }
        changed.dedup();
        ensure!(changed.is_empty(), "{text}: {}", changed.join("; "));
        self.traces = now;
        Ok(())
    }

    /// What the session sees of itself.
    fn own_traces(&mut self) -> Result<Traces> {
        let mut traces = Traces::new();
        for row in self.client.sql("SHOW SESSION VARIABLES")? {
            let mut row = row.into_iter().map(Option::unwrap_or_default);
            let (name, value) = (row.next().unwrap_or_default(), row.next().unwrap_or_default());
            if !RESTLESS.contains(&name.as_str()) {
                traces.insert(name, value);
            }
        }
        let mut questions = vec![
            ("role", "SELECT CURRENT_ROLE()"),
            ("schema", "SELECT DATABASE()"),
            (
                "prepared",
                "SELECT statement_name FROM performance_schema.prepared_statements_instances
                 WHERE owner_thread_id = (SELECT thread_id FROM performance_schema.threads
                                          WHERE processlist_id = CONNECTION_ID())",
            ),
            ("profiles", "SHOW PROFILES"),
            ("trace", "SELECT COUNT(*) FROM information_schema.optimizer_trace"),
            ("tables", "SHOW TABLES"),
        ];
        questions.extend(match self.is_mariadb {
            true => [
                ("sequence", "SELECT LASTVAL(numbers)"),
                ("user variables", "SELECT * FROM information_schema.user_variables ORDER BY 1"),
            ],
            false => [
                (
                    "user variables",
                    "SELECT v.variable_name, v.variable_value
                     FROM performance_schema.user_variables_by_thread AS v
                     WHERE v.thread_id = PS_CURRENT_THREAD_ID() ORDER BY 1",
                ),
                (
                    "temporary tables",
                    "SELECT COUNT(*) FROM information_schema.innodb_temp_table_info",
                ),
            ],
        });
        for (name, question) in questions {
            let rows = self.client.sql(question).with_context(|| format!("asking for {name}"))?;
            traces.insert(name.to_owned(), format!("{rows:?}"));
        }
        Ok(traces)
    }
}
