//! Counts and ids that a session's next statements ask for, wherever the ones between have run:
//! they are those of a direct connection.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Replication, Server, SqlClient, Trunkline};

use crate::stage::{
    FLAVOURS, PASSWORD, USER, before, client, is_available, new_schema, pins, shared_replication,
    shared_server, user,
};

const TABLES: &str = "CREATE TABLE two (a INT); INSERT INTO two VALUES (1), (2);
     CREATE TABLE note (a INT);
     CREATE TABLE u (a INT AUTO_INCREMENT PRIMARY KEY, b INT)";

/// Runs it on both; rows or errors must be the same.
fn alike(proxied: &mut SqlClient, direct: &mut SqlClient, statement: &str) -> Result<()> {
    let rows =
        |result: Result<Vec<_>>| result.map_err(|error| trunkline_testkit::error_code(&error));
    let (here, there) = (rows(proxied.sql(statement)), rows(direct.sql(statement)));
    ensure!(here == there, "{statement}: {here:?}, directly {there:?}");
    Ok(())
}

/// Statements and then a question.
const LINES: [&[&str]; 34] = [
    &["SELECT * FROM two", "INSERT INTO note VALUES (1)", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "DELETE FROM note", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "REPLACE INTO note VALUES (1)", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "SET @x = 1", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "SET @x = 1 + 1", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "SET @x = (SELECT MAX(a) FROM two)", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "SET time_zone = '+01:00'", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "BEGIN", "SELECT FOUND_ROWS()", "ROLLBACK"],
    &["SELECT * FROM two", "BEGIN", "COMMIT", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "INSERT INTO note SELECT 5", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "INSERT INTO note SELECT a FROM two", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "EXPLAIN SELECT 1", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "SHOW ERRORS", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "SHOW TABLES", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "SHOW WARNINGS", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "SELECT a INTO @k FROM two LIMIT 1", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "UPDATE note SET a = 5", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "UPDATE note SET a = (SELECT MAX(a) FROM two)", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "DELETE FROM note WHERE a IN (SELECT 5)", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "nonsense", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "SELECT nothing FROM two", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "DO 1", "SELECT FOUND_ROWS()"],
    &["SELECT * FROM two", "INSERT INTO note VALUES (1)", "SELECT FOUND_ROWS(), ROW_COUNT()"],
    &["SELECT * FROM two", "SELECT FOUND_ROWS()", "SELECT FOUND_ROWS()"],
    &["INSERT INTO note VALUES (1), (2)", "SELECT ROW_COUNT()"],
    &["nonsense", "SELECT ROW_COUNT()"],
    &["UPDATE nothing SET a = 1", "SELECT ROW_COUNT()"],
    &["SELECT nothing FROM two", "SELECT ROW_COUNT()"],
    &["INSERT INTO u VALUES (1, 1), (1, 1)", "SELECT ROW_COUNT()"],
    &["INSERT INTO note VALUES (1)", "nonsense", "SELECT ROW_COUNT()", "SELECT ROW_COUNT()"],
    &["nonsense", "DO ROW_COUNT()", "SELECT ROW_COUNT()"],
    &["nonsense", "SET @n = ROW_COUNT()", "SELECT @n"],
    &["nonsense", "INSERT INTO note VALUES (ROW_COUNT())", "SELECT a FROM note ORDER BY a LIMIT 1"],
    &["DELETE FROM note", "CREATE OR REPLACE VIEW v AS SELECT 7 AS a", "SELECT ROW_COUNT()"],
];

/// Programs with blocks, which count for themselves.
const BLOCKS: [&[&str]; 4] = [
    &[
        "SELECT 1",
        "BEGIN NOT ATOMIC INSERT INTO note VALUES (1), (2), (3); SELECT ROW_COUNT(); END",
    ],
    &["SELECT 1", "BEGIN NOT ATOMIC INSERT INTO u VALUES (NULL, 1); SELECT LAST_INSERT_ID(); END"],
    &["SELECT * FROM two", "BEGIN NOT ATOMIC SELECT 1; SELECT FOUND_ROWS(); END"],
    &["SELECT 1", "IF 1 THEN DELETE FROM note; SELECT ROW_COUNT() > 0; END IF"],
];

fn check(
    flavour: Flavour,
    proxy: &Trunkline,
    (proxied, other, direct): (&mut SqlClient, &mut SqlClient, &mut SqlClient),
) -> Result<()> {
    let blocks = BLOCKS.iter().filter(|_| flavour == Flavour::MariaDb);
    let mut failures = Vec::new();
    // After which statements of a line another session gets the connection.
    for interrupted in [0..0, 0..1, 1..2, 0..9] {
        for line in LINES.iter().chain(blocks.clone()) {
            for (place, statement) in line.iter().enumerate() {
                if let Err(error) = alike(proxied, direct, statement) {
                    failures.push(format!("{interrupted:?}, {line:?}: {error:#}"));
                }
                if interrupted.contains(&place) && pins(proxy)?.is_empty() {
                    other.sql("SELECT 1 UNION SELECT 2 UNION SELECT 3")?;
                    other.sql("INSERT INTO note VALUES (50), (50), (50), (50)")?;
                    other.sql("DELETE FROM note WHERE a = 50")?;
                }
            }
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

fn before_one(server: &Server) -> Result<()> {
    let (one, two) = (new_schema(server, TABLES)?, new_schema(server, TABLES)?);
    let proxy = before(server, 1, 1)?;
    let (mut proxied, mut other) = (client(&proxy, &one)?, client(&proxy, &one)?);
    let mut direct = server.connect(USER, PASSWORD, &two)?;
    check(server.flavour(), &proxy, (&mut proxied, &mut other, &mut direct))
}

/// The proxy before a primary and its first replica, one connection each.
pub fn split(replication: &Replication) -> Result<Trunkline> {
    let address = |server: &Server| server.address();
    let config = format!(
        "workers = 1\n[[server]]\nhostgroup = 10\naddress = \"{}\"\nmax_connections = 1\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\nmax_connections = 1\n\
         [[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n{}",
        address(replication.primary()),
        address(&replication.replicas()[0]),
        user(10)
    );
    Trunkline::start(&config)
}

fn before_split(replication: &Replication) -> Result<()> {
    let primary = replication.primary();
    let (one, two) = (new_schema(primary, TABLES)?, new_schema(primary, TABLES)?);
    replication.wait_caught_up(crate::stage::SOON)?;
    let proxy = split(replication)?;
    let (mut proxied, mut other) = (client(&proxy, &one)?, client(&proxy, &one)?);
    let mut direct = primary.connect(USER, PASSWORD, &two)?;
    check(primary.flavour(), &proxy, (&mut proxied, &mut other, &mut direct))
}

#[test]
fn issue_16_counts_are_the_sessions_own_on_one_server() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_counts_are_the_sessions_own_on_one_server") {
            before_one(shared_server(flavour)?).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn issue_16_counts_are_the_sessions_own_with_a_split() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_counts_are_the_sessions_own_with_a_split") {
            before_split(shared_replication(flavour)?).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn issue_16_no_reset_hands_on_what_a_session_found() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "issue_16_no_reset_hands_on_what_a_session_found") {
            continue;
        }
        let schema = new_schema(shared_server(flavour)?, TABLES)?;
        let proxy = before(shared_server(flavour)?, 1, 1)?;
        let mut first = client(&proxy, "")?;
        let mut second = client(&proxy, "")?;
        let update = format!("UPDATE {schema}.note SET a = 5");
        for leave in ["DO 1", &update, "SET @a = (SELECT 1 LIMIT 0)"] {
            first.sql("SELECT 1 UNION SELECT 2 UNION SELECT 3")?;
            second.sql(leave)?;
            let others = second.sql("SELECT FOUND_ROWS() = 3")?;
            ensure!(others == [[Some("0".to_owned())]], "{flavour:?}, {leave}: {others:?}");
        }
    }
    Ok(())
}

/// What fails half-way has generated an id all the same.
const HALF_WAY: [&[&str]; 8] = [
    &["INSERT INTO u VALUES (NULL, 1), (1, 1)"],
    &["INSERT INTO u VALUES (NULL, 1)", "INSERT INTO u VALUES (NULL, 1), (1, 1)"],
    &["INSERT INTO u VALUES (NULL, 1)", "INSERT INTO u VALUES (1, 1)"],
    &["INSERT INTO u VALUES (NULL, 1)", "nonsense"],
    &["INSERT INTO u SELECT NULL, a FROM two UNION ALL SELECT 1, 1"],
    &["INSERT INTO u (b) VALUES (1), ((SELECT a FROM two))"],
    &["INSERT INTO u VALUES (NULL, 1), (2, 2), (1, 1)", "SELECT 1", "DO 1"],
    &["INSERT INTO u (b) VALUES (1); INSERT INTO u VALUES (NULL, 2), (1, 1)"],
];

fn check_half_way(server: &Server, is_interrupted: bool) -> Result<()> {
    let tables = format!("{TABLES}; CREATE TABLE v LIKE u; ALTER TABLE v AUTO_INCREMENT = 900");
    let (one, two) = (new_schema(server, &tables)?, new_schema(server, &tables)?);
    let proxy = before(server, 1, 1)?;
    let mut other = client(&proxy, &one)?;
    for line in HALF_WAY {
        let mut proxied = client(&proxy, &one)?;
        let mut direct = server.connect(USER, PASSWORD, &two)?;
        let context = || format!("{is_interrupted}, {line:?}");
        for session in [&mut proxied, &mut direct] {
            session.sql("TRUNCATE u")?;
            session.sql("INSERT INTO u VALUES (1, 1)")?;
        }
        if is_interrupted {
            other.sql("INSERT INTO v (b) VALUES (1)")?;
        }
        for statement in line.iter().chain(&["SELECT LAST_INSERT_ID()"]) {
            alike(&mut proxied, &mut direct, statement).with_context(context)?;
            if is_interrupted {
                other.sql("INSERT INTO v (b) VALUES (1)")?;
            }
        }
        alike(&mut proxied, &mut direct, "SELECT LAST_INSERT_ID()").with_context(context)?;
    }
    Ok(())
}

#[test]
fn issue_16_an_insert_that_fails_half_way_leaves_its_id() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_an_insert_that_fails_half_way_leaves_its_id") {
            for is_interrupted in [false, true] {
                check_half_way(shared_server(flavour)?, is_interrupted)
                    .with_context(|| format!("{flavour:?}"))?;
            }
        }
    }
    Ok(())
}

/// A read that has been short has its connection with others; its warnings are its own all the
/// same.
#[test]
fn issue_16_a_shared_read_keeps_its_warnings() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "issue_16_a_shared_read_keeps_its_warnings") {
            continue;
        }
        let server = shared_server(flavour)?;
        let tables = "CREATE TABLE w (id INT PRIMARY KEY, s VARCHAR(9));
             INSERT INTO w VALUES (1, '1'), (2, '2x')";
        let schema = new_schema(server, tables)?;
        let proxy = before(server, 1, 1)?;
        let mut direct = server.connect(USER, PASSWORD, &schema)?;
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(client(&proxy, &schema)?);
        }
        direct.sql("SELECT s + 0 FROM w WHERE id = 2")?;
        let wanted = direct.sql("SHOW WARNINGS")?;
        ensure!(wanted.len() == 1, "{wanted:?}");
        for round in 0..6 {
            for _ in 0..50 {
                clients[round % 4].sql("SELECT s + 0 FROM w WHERE id = 1")?;
            }
            clients[round % 4].sql("SELECT s + 0 FROM w WHERE id = 2")?;
            if round > 3 {
                // With another session on the only connection in between.
                clients[(round + 1) % 4].sql("SELECT 'x' + 0")?;
            }
            for ask in ["SHOW WARNINGS", "SHOW WARNINGS", "SHOW WARNINGS LIMIT 1"] {
                let rows = clients[round % 4].sql(ask)?;
                ensure!(rows == wanted, "{flavour:?}, {round}: {rows:?}, directly {wanted:?}");
            }
            clients[round % 4].sql("SELECT COUNT(*) FROM w")?;
            let rows = clients[round % 4].sql("SHOW WARNINGS")?;
            ensure!(rows.is_empty(), "{flavour:?}, {round}: {rows:?}");
        }
    }
    Ok(())
}
