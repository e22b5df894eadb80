//! What a statement leaves to be asked for: it is its own session's, whoever has had the
//! connection since.

mod counts;
mod counts_apart;
mod newer;

pub use counts::split;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Row, Server, SqlClient, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, before, client, fails, is_available, new_schema, one_server,
    shared_server, text, wait_pins,
};

/// The proxy with one server connection; a session through it, one that gets in between, and one
/// directly beside it, to which the same is done.
struct Trio {
    proxied: SqlClient,
    other: SqlClient,
    direct: SqlClient,
    proxy: Trunkline,
}

const TABLES: &str = "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b VARCHAR(3));
     CREATE TABLE u (a INT AUTO_INCREMENT PRIMARY KEY, b VARCHAR(3)) AUTO_INCREMENT = 900;
     CREATE PROCEDURE add_one(x INT) INSERT INTO t (b) VALUES (x);
     CREATE PROCEDURE last_id() SELECT LAST_INSERT_ID()";

fn trio(server: &Server) -> Result<Trio> {
    let (one, two) = (new_schema(server, TABLES)?, new_schema(server, TABLES)?);
    let config = one_server(server, 1, 1);
    let proxy = Trunkline::start(&format!("routines_pin = false\n{config}"))?;
    Ok(Trio {
        proxied: client(&proxy, &one)?,
        other: client(&proxy, &one)?,
        direct: server.connect(USER, PASSWORD, &two)?,
        proxy,
    })
}

impl Trio {
    /// Runs it on both sessions; rows and success must be the same.
    fn run(&mut self, statement: &str) -> Result<()> {
        let (proxied, direct) = (self.proxied.sql(statement), self.direct.sql(statement));
        match (proxied, direct) {
            (Ok(proxied), Ok(direct)) => {
                ensure!(proxied == direct, "{statement}: {proxied:?}, directly {direct:?}");
            }
            (Err(_), Err(_)) => {}
            (proxied, direct) => {
                anyhow::bail!("{statement}: {proxied:?}, directly {direct:?}")
            }
        }
        Ok(())
    }

    /// The only server connection serves somebody else, who leaves something there too.
    fn interrupt(&mut self) -> Result<()> {
        wait_until("the connection is free", SOON, || {
            Ok(crate::stage::pins(&self.proxy)?.is_empty().then_some(()))
        })?;
        self.other.sql("INSERT INTO u (b) VALUES ('x')")?;
        self.other.sql("SELECT 1 UNION SELECT 2 UNION SELECT 3")?;
        Ok(())
    }
}

/// Lines of statements; between each and the next the other session gets the connection. The last
/// ones read.
const LINES: [&[&str]; 24] = [
    &["INSERT INTO t (b) VALUES ('a')", "SELECT LAST_INSERT_ID(), @@identity"],
    &[
        "INSERT INTO t (b) VALUES ('a')",
        "INSERT INTO t VALUES (500, 'x')",
        "SELECT LAST_INSERT_ID()",
    ],
    &["INSERT INTO t VALUES (600, 'x')", "SELECT LAST_INSERT_ID()"],
    &["INSERT INTO t VALUES (600 + 1, 'x')", "SELECT LAST_INSERT_ID()"],
    &["INSERT INTO t (b) VALUES (NULL), ('b')", "SELECT LAST_INSERT_ID() + 1"],
    &["INSERT INTO t SET b = 'b'", "SELECT LAST_INSERT_ID()"],
    &["SELECT LAST_INSERT_ID(5)", "SELECT LAST_INSERT_ID()"],
    &["UPDATE t SET b = 'c' WHERE a = LAST_INSERT_ID(77)", "SELECT LAST_INSERT_ID()"],
    &["CALL add_one(1)", "SELECT LAST_INSERT_ID()", "CALL last_id()"],
    &["INSERT INTO t (b) VALUES ('a'); INSERT INTO t VALUES (710, 'x')", "SELECT LAST_INSERT_ID()"],
    &["INSERT INTO t (b) VALUES ('x'), ('y')", "SELECT ROW_COUNT()"],
    &["UPDATE t SET b = 'z'", "SELECT ROW_COUNT(), 1"],
    &["DELETE FROM t WHERE a = 1", "SELECT ROW_COUNT() AS n"],
    &["SELECT 1", "SELECT ROW_COUNT()"],
    &["CREATE TABLE IF NOT EXISTS v (n INT)", "SELECT ROW_COUNT()"],
    &["nonsense", "SELECT ROW_COUNT()"],
    &["SELECT a FROM t LIMIT 2", "SELECT FOUND_ROWS()"],
    &["SELECT a FROM t LIMIT 2", "UPDATE t SET b = 'y'", "SELECT FOUND_ROWS()"],
    &["SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1", "SELECT FOUND_ROWS()"],
    &["INSERT INTO t (b) VALUES ('a')", "SELECT LAST_INSERT_ID(), ROW_COUNT()"],
    &["INSERT INTO t VALUES (800, 'a')", "SELECT LAST_INSERT_ID(), ROW_COUNT()"],
    &["INSERT INTO t (b) VALUES ('a')", "BEGIN", "SELECT LAST_INSERT_ID()", "COMMIT"],
    &[
        "INSERT INTO t (b) VALUES ('a')",
        "INSERT INTO t VALUES (810, 'x')",
        "BEGIN",
        "INSERT INTO t (b) VALUES (LAST_INSERT_ID())",
        "COMMIT",
        "SELECT b = MAX(a) - 2 FROM t",
    ],
    &["SET last_insert_id = 4", "SELECT LAST_INSERT_ID()"],
];

#[test]
fn counts_and_ids_are_those_of_a_direct_connection() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "counts_and_ids_are_those_of_a_direct_connection") {
            continue;
        }
        let server = shared_server(flavour)?;
        for is_interrupted in [false, true] {
            let mut trio = trio(server)?;
            for line in LINES {
                // MySQL's write counts the rows that it looked at, and tells nobody.
                let is_untold = flavour == Flavour::MySql && line.contains(&"UPDATE t SET b = 'y'");
                if is_interrupted && is_untold {
                    continue;
                }
                for statement in line {
                    let context = || format!("{flavour:?}, {is_interrupted}: {line:?}");
                    trio.run(statement).with_context(context)?;
                    let holds = ["BEGIN", "COMMIT", "SET", "INSERT INTO t (b) VALUES (LAST"];
                    let holds = holds.iter().any(|word| statement.starts_with(word))
                        || statement.contains("SQL_CALC")
                        || line.contains(&"BEGIN") && statement.starts_with("SELECT");
                    if is_interrupted && !holds {
                        trio.interrupt().with_context(context)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Statements that leave warnings or errors, and all the ways to ask for them.
const CAUSES: [&str; 6] = [
    "INSERT IGNORE INTO t (b) VALUES ('too long'), ('longer still')",
    "SELECT CAST('12x' AS SIGNED), CAST('13x' AS SIGNED)",
    "nonsense",
    "SELECT no_such_column FROM t",
    "DROP TABLE IF EXISTS nothing_here",
    "SELECT COUNT(*) FROM t",
];
const QUESTIONS: [&str; 8] = [
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW WARNINGS LIMIT 1",
    "SHOW WARNINGS LIMIT 1, 5",
    "SHOW COUNT(*) WARNINGS",
    "SHOW COUNT(*) ERRORS",
    "SELECT @@warning_count",
    "SELECT @@error_count, 'x'",
];

fn answers(clients: &mut [SqlClient], is_again: bool) -> Result<Vec<Vec<Row>>> {
    let questions = QUESTIONS.iter().cycle();
    let asked = clients
        .iter_mut()
        .zip(questions)
        .map(|(client, question)| client.sql(if is_again { "SHOW WARNINGS" } else { question }));
    asked.collect()
}

/// Each cause with each question on a session of its own: at once, and after other sessions have
/// had all the connections.
#[test]
fn warnings_are_those_of_a_direct_connection() -> Result<()> {
    let count = CAUSES.len() * QUESTIONS.len();
    for flavour in FLAVOURS {
        if !is_available(flavour, "warnings_are_those_of_a_direct_connection") {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = new_schema(server, TABLES)?;
        let proxy = before(server, 1, u32::try_from(count)?)?;
        let many = |connect: &dyn Fn() -> Result<SqlClient>| -> Result<Vec<SqlClient>> {
            (0..count).map(|_| connect()).collect()
        };
        let mut direct = many(&|| server.connect(USER, PASSWORD, &schema))?;
        let mut proxied = many(&|| client(&proxy, &schema))?;
        let mut others = many(&|| client(&proxy, &schema))?;
        for is_interrupted in [false, true] {
            let cause = |clients: &mut Vec<SqlClient>| {
                let causes = CAUSES.iter().flat_map(|cause| QUESTIONS.map(|_| *cause));
                for (client, cause) in clients.iter_mut().zip(causes) {
                    client.sql(cause).ok();
                }
            };
            cause(&mut direct);
            cause(&mut proxied);
            if is_interrupted {
                wait_pins(&proxy, &[])?;
                for other in &mut others {
                    other.sql("BEGIN")?;
                    other.sql("SELECT CAST('1z' AS SIGNED)")?;
                }
                for other in &mut others {
                    other.sql("COMMIT")?;
                    other.sql("INSERT INTO t (b) VALUES ('x')")?;
                }
            }
            for is_again in [false, true] {
                let expected = answers(&mut direct, is_again)?;
                let found = answers(&mut proxied, is_again)?;
                for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let cause = CAUSES.get(place / QUESTIONS.len()).context("no cause")?;
                    let question = QUESTIONS.get(place % QUESTIONS.len()).context("no question")?;
                    if is_again && question.starts_with("SELECT") {
                        continue;
                    }
                    ensure!(
                        found == expected,
                        "{flavour:?} {is_interrupted} {is_again}: {question} behind {cause}: \
                         {found:?}, directly {expected:?}"
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn get_diagnostics_is_never_about_somebody_elses_statement() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "get_diagnostics_is_never_about_somebody_elses_statement") {
            continue;
        }
        let server = shared_server(flavour)?;
        let mut trio = trio(server)?;
        let ask = "GET DIAGNOSTICS CONDITION 1 @code = MYSQL_ERRNO, @text = MESSAGE_TEXT";
        trio.run("nonsense")?;
        trio.run(ask)?;
        trio.run("SELECT @code")?;
        let mut trio = self::trio(server)?;
        trio.run("nonsense")?;
        trio.interrupt()?;
        let error = fails(&mut trio.proxied, ask, 1235)?;
        ensure!(error.contains("served others since"), "{error}");
        ensure!(text(&mut trio.proxied, "SELECT 1")? == "1");
    }
    Ok(())
}

/// The number that a client is greeted with is the one that it asks for and that KILL takes.
#[test]
fn connection_id_is_the_number_of_the_greeting() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "connection_id_is_the_number_of_the_greeting") {
            continue;
        }
        let server = shared_server(flavour)?;
        let proxy = before(server, 2, 2)?;
        let mut first = client(&proxy, "")?;
        let mut second = client(&proxy, "")?;
        for client in [&mut first, &mut second] {
            let number = client.connection_id().to_string();
            ensure!(text(client, "SELECT CONNECTION_ID()")? == number);
            ensure!(text(client, "select connection_id() as id, 1;")? == number);
            let named = client.named("SELECT CONNECTION_ID(), @@version")?;
            let named = named.first().context("no row")?;
            ensure!(named.get("CONNECTION_ID()") == Some(&Some(number.clone())), "{named:?}");
            // Beside what the server knows it is the server's.
            client.sql("BEGIN; SELECT GET_LOCK('e2e_traces', 10)")?;
            let own = "SELECT IS_USED_LOCK('e2e_traces') = CONNECTION_ID()";
            ensure!(text(client, own)? == "1");
            let listed = "SELECT COUNT(*) FROM information_schema.processlist \
                          WHERE id = CONNECTION_ID()";
            ensure!(text(client, listed)? == "1");
            client.sql("SELECT RELEASE_ALL_LOCKS(); COMMIT")?;
        }
        let own = second.connection_id();
        first.sql(&format!("KILL {own}"))?;
        ensure!(second.sql("SELECT 1").is_err());
    }
    Ok(())
}
