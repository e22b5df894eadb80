//! Where statements go: the automatic split and rules, on a primary with two replicas.

mod read_only;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Replication, SqlClient, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, client, is_available, shared_replication, statements_of, text,
    user, wait_pins,
};
use crate::wire::{Shape, Wire, code};

const WRITER: u64 = 10;
const READER: u64 = 20;
/// The statement whose answer is the name of the server that ran it.
const WHO: &str = "SELECT name FROM mark.server";

/// A configuration of the primary as writer and the replicas as readers, the first with three
/// times the weight. `reader_lines` stand in the replicas' tables, `rest` behind all of it.
fn topology(replication: &Replication, split: &str, reader_lines: &str, rest: &str) -> String {
    let mut text = format!(
        "workers = 1\n[[server]]\nhostgroup = {WRITER}\naddress = \"{}\"\n",
        replication.primary().address()
    );
    for (replica, weight) in replication.replicas().iter().zip([3, 1]) {
        let address = replica.address();
        text.push_str(&format!(
            "[[server]]\nhostgroup = {READER}\naddress = \"{address}\"\nweight = {weight}\n\
             {reader_lines}\n"
        ));
    }
    text.push_str(&format!(
        "[[replication]]\nwriter_hostgroup = {WRITER}\nreader_hostgroup = {READER}\n\
         read_write_split = \"{split}\"\n{}{rest}\n",
        user(10)
    ));
    text
}

/// Runs a statement whatever comes of it, and says which hostgroup answered.
fn answered_by(proxy: &Trunkline, client: &mut SqlClient, statement: &str) -> Result<u64> {
    let before = [statements_of(proxy, WRITER)?, statements_of(proxy, READER)?];
    let _ = client.sql(statement);
    let found = wait_until(&format!("{statement} is counted"), SOON, || {
        let now = [statements_of(proxy, WRITER)?, statements_of(proxy, READER)?];
        Ok((now != before).then_some(now))
    })?;
    let [writer, reader] = [found[0] - before[0], found[1] - before[1]];
    ensure!(writer + reader == 1, "{statement}: {writer} on the writer, {reader} on readers");
    Ok(if writer == 1 { WRITER } else { READER })
}

const READS: [&str; 14] = [
    "SELECT name FROM mark.server",
    "select /* a comment */ count(*) from mark.note where text like '%FOR UPDATE%'",
    "  ( SELECT 1 ) UNION ALL SELECT 2",
    "SELECT id FROM mark.note WHERE id IN (SELECT MAX(id) FROM mark.note) ORDER BY id LIMIT 3",
    "SELECT UPPER(text), NOW(), COALESCE(NULL, 1) FROM mark.note",
    "WITH w AS (SELECT 1 AS a) SELECT * FROM w",
    "SHOW TABLES FROM mark",
    "SHOW CREATE TABLE mark.note",
    "DESCRIBE mark.note",
    "EXPLAIN SELECT * FROM mark.note",
    "SELECT 1; SELECT 2",
    "SELECT `update`.name FROM mark.server AS `update`",
    "SELECT 'INTO OUTFILE', \"GET_LOCK('a', 1)\"",
    "SELECT /*!40001 SQL_NO_CACHE */ name FROM mark.server",
];

const WRITES: [&str; 22] = [
    "INSERT INTO mark.note (text) VALUES ('x')",
    "UPDATE mark.note SET text = 'y' WHERE id = 1",
    "DELETE FROM mark.note WHERE id = 1",
    "REPLACE INTO mark.note VALUES (1, 'z')",
    "SELECT name FROM mark.server FOR UPDATE",
    "SELECT name FROM mark.server LOCK IN SHARE MODE",
    "SELECT * FROM (SELECT name FROM mark.server FOR UPDATE) AS t",
    "SELECT RELEASE_LOCK('e2e routing')",
    "SELECT name, mark.no_such_function(1) FROM mark.server",
    "SELECT mystery(name) FROM mark.server",
    "FROBNICATE mark.server",
    "SELECT name FROM mark.server PROCEDURE ANALYSE()",
    "CREATE TABLE IF NOT EXISTS mark.other (a INT)",
    "DROP TABLE IF EXISTS mark.other",
    "TRUNCATE TABLE mark.note",
    "CALL mark.no_such_procedure()",
    "ANALYZE TABLE mark.note",
    "SELECT 1; DELETE FROM mark.note",
    "WITH w AS (SELECT 1 AS a) DELETE FROM mark.note WHERE id IN (SELECT a FROM w)",
    "SELECT LAST_INSERT_ID()",
    "SELECT /*! 1 FOR UPDATE */",
    "DO SLEEP(0)",
];

fn automatic_split(flavour: Flavour) -> Result<()> {
    let replication = shared_replication(flavour)?;
    // By default, the share depends on how fast each server answers as well.
    let random = format!("[[hostgroup]]\nhostgroup_id = {READER}\nbalance = \"random\"\n");
    let proxy = Trunkline::start(&topology(replication, "auto", "", &random))?;
    let mut one = client(&proxy, "")?;
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..200 {
        *names.entry(text(&mut one, WHO)?).or_default() += 1;
    }
    let first = names.get("replica1").copied().unwrap_or(0);
    let second = names.get("replica2").copied().unwrap_or(0);
    ensure!(first + second == 200, "{names:?}");
    // 150 are expected; six standard deviations are 37.
    ensure!((113..=187).contains(&first), "weights 3 to 1 gave {names:?}");

    for statement in READS {
        let mut fresh = client(&proxy, "")?;
        let by = answered_by(&proxy, &mut fresh, statement)?;
        ensure!(by == READER, "{statement} went to the writer");
    }
    for statement in WRITES {
        let mut fresh = client(&proxy, "")?;
        let by = answered_by(&proxy, &mut fresh, statement)?;
        ensure!(by == WRITER, "{statement} went to a reader");
    }
    pinned_by_reads(&proxy)?;
    transactions(&proxy)
}

/// Reads that leave something behind run on the writer, and so does what asks for it.
fn pinned_by_reads(proxy: &Trunkline) -> Result<()> {
    let mut one = client(proxy, "")?;
    ensure!(text(&mut one, "SELECT name, GET_LOCK('routing', 0) FROM mark.server")? == "primary");
    ensure!(text(&mut one, WHO)? == "primary", "the lock's holder is on the writer");
    ensure!(text(&mut one, "SELECT IS_USED_LOCK('routing') = CONNECTION_ID()")? == "1");
    drop(one);
    let mut one = client(proxy, "")?;
    one.sql("SELECT name FROM mark.server INTO @who")?;
    ensure!(text(&mut one, "SELECT @who")? == "primary");
    drop(one);
    let mut one = client(proxy, "")?;
    ensure!(text(&mut one, "SELECT name, @v := 1 FROM mark.server")? == "primary");
    drop(one);
    wait_pins(proxy, &[])
}

fn transactions(proxy: &Trunkline) -> Result<()> {
    let mut one = client(proxy, "")?;
    for (begin, name) in [
        ("BEGIN", "primary"),
        ("START TRANSACTION", "primary"),
        ("START TRANSACTION READ WRITE", "primary"),
        ("SET autocommit = 0", "primary"),
    ] {
        one.sql(begin)?;
        ensure!(text(&mut one, WHO)? == name, "behind {begin}");
        one.sql("COMMIT")?;
        one.sql("SET autocommit = 1")?;
        ensure!(text(&mut one, WHO)?.starts_with("replica"), "behind the end of {begin}");
    }
    one.sql("START TRANSACTION READ ONLY")?;
    let reader = text(&mut one, WHO)?;
    ensure!(reader.starts_with("replica"), "READ ONLY went to {reader}");
    for _ in 0..10 {
        ensure!(text(&mut one, WHO)? == reader, "a transaction changed its server");
    }
    // It goes on at the writer, as what may write is no reader's, and is refused there.
    crate::stage::fails(&mut one, "INSERT INTO mark.note (text) VALUES ('no')", 1792)?;
    ensure!(text(&mut one, WHO)?.starts_with("primary"), "a transaction went back to a reader");
    one.sql("COMMIT")?;
    one.sql("INSERT INTO mark.note (text) VALUES ('yes')")?;
    wait_pins(proxy, &[])
}

#[test]
fn reads_go_to_readers_and_all_else_to_the_writer_on_mariadb() -> Result<()> {
    let test = "reads_go_to_readers_and_all_else_to_the_writer_on_mariadb";
    if !is_available(Flavour::MariaDb, test) {
        return Ok(());
    }
    automatic_split(Flavour::MariaDb)
}

#[test]
fn reads_go_to_readers_and_all_else_to_the_writer_on_mysql() -> Result<()> {
    let test = "reads_go_to_readers_and_all_else_to_the_writer_on_mysql";
    if !is_available(Flavour::MySql, test) {
        return Ok(());
    }
    automatic_split(Flavour::MySql)
}

/// Sessions' settings go along to whichever server a statement is split to.
#[test]
fn state_follows_between_writer_and_readers() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "state_follows_between_writer_and_readers") {
            continue;
        }
        let replication = shared_replication(flavour)?;
        let proxy = Trunkline::start(&topology(replication, "auto", "", ""))?;
        let (mut one, mut other) = (client(&proxy, "")?, client(&proxy, "mark")?);
        for turn in 0..8 {
            one.sql(&format!("SET time_zone = '+0{turn}:00', group_concat_max_len = 70{turn}"))?;
            one.sql(if turn % 2 == 0 { "USE mark" } else { "USE mysql" })?;
            let asked = "SELECT @@time_zone, @@group_concat_max_len, DATABASE()";
            let expected = [
                format!("+0{turn}:00"),
                format!("70{turn}"),
                (if turn % 2 == 0 { "mark" } else { "mysql" }).to_owned(),
            ];
            let expected = [expected.map(Some).to_vec()];
            for statement in [asked.to_owned(), format!("{asked} FOR UPDATE"), asked.to_owned()] {
                let rows = one.sql(&statement)?;
                ensure!(rows == expected, "{statement}: {rows:?}");
                ensure!(text(&mut other, "SELECT DATABASE()")? == "mark");
                ensure!(text(&mut other, "SELECT @@group_concat_max_len > 800")? == "1");
            }
        }
    }
    Ok(())
}

#[test]
fn without_a_reader_online_the_writer_serves_reads() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "without_a_reader_online_the_writer_serves_reads") {
            continue;
        }
        let replication = shared_replication(flavour)?;
        let online = topology(replication, "auto", "", "");
        let offline = topology(replication, "auto", "status = \"OFFLINE_SOFT\"", "");
        let proxy = Trunkline::start(&online)?;
        let mut one = client(&proxy, "")?;
        ensure!(text(&mut one, WHO)?.starts_with("replica"));
        for (config, wanted) in [(&offline, "primary"), (&online, "replica"), (&offline, "primary")]
        {
            proxy.reload(config)?;
            wait_until(&format!("reads go to a {wanted}"), SOON, || {
                Ok(text(&mut one, WHO)?.starts_with(wanted).then_some(()))
            })?;
        }
    }
    Ok(())
}

const RULES: &str = r#"
[[rule]]
id = 10
match_digest = "^SELECT name FROM mark.server WHERE name > \\?"
destination_hostgroup = 20
apply = true
[[rule]]
id = 20
username = "other"
destination_hostgroup = 20
apply = true
[[rule]]
id = 30
schemaname = "mysql"
match_digest = "^SELECT"
destination_hostgroup = 20
apply = true
[[rule]]
id = 40
match_pattern = "to_a_reader_[0-9]+"
destination_hostgroup = 20
apply = true
[[rule]]
id = 50
match_digest = "ORDER BY"
flagOUT = 7
[[rule]]
id = 60
flagIN = 7
match_pattern = "name = 'reader'"
destination_hostgroup = 20
apply = true
[[rule]]
id = 70
match_digest = "LIMIT"
destination_hostgroup = 20
[[rule]]
id = 80
match_pattern = "stay"
destination_hostgroup = 10
[[rule]]
id = 90
match_pattern = "GROUP BY"
flagOUT = 9
[[rule]]
id = 100
flagIN = 9
negate_match_pattern = true
match_pattern = "HAVING"
destination_hostgroup = 20
apply = true
[[rule]]
id = 110
active = false
match_pattern = "."
destination_hostgroup = 20
apply = true
[[rule]]
id = 120
match_pattern = "forbidden"
error_msg = "not here"
apply = true
[[rule]]
id = 130
match_pattern = "^do nothing"
OK_msg = "done"
apply = true
"#;

/// Statements and whether a rule sends them to a reader.
const RULED: [(&str, bool); 14] = [
    ("SELECT name FROM mark.server", false),
    ("SELECT name FROM mark.server WHERE name > 'a'", true),
    ("select name from mark.server where name > 'a'", true),
    ("SELECT name FROM mark.server WHERE name >= 'a'", false),
    ("SELECT name FROM mark.server /* to_a_reader_12 */", true),
    ("SELECT name FROM mark.server /* to_a_reader_x */", false),
    ("SELECT name FROM mark.server WHERE 1 OR name = 'reader' ORDER BY name", true),
    ("SELECT name FROM mark.server WHERE 1 OR name = 'reader'", false),
    ("SELECT name FROM mark.server WHERE 1 OR name = 'writer' ORDER BY name", false),
    ("SELECT name FROM mark.server LIMIT 1", true),
    ("SELECT name FROM mark.server /* stay */ LIMIT 1", false),
    ("SELECT name FROM mark.server GROUP BY name", true),
    ("SELECT name FROM mark.server GROUP BY name HAVING name > 'a'", false),
    ("SELECT name FROM mark.server FOR UPDATE", false),
];

#[test]
fn rules_decide_where_statements_go() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "rules_decide_where_statements_go") {
            continue;
        }
        rules(shared_replication(flavour)?).with_context(|| format!("{flavour:?}"))?;
    }
    Ok(())
}

fn rules(replication: &Replication) -> Result<()> {
    let other = "[[user]]\nname = \"other\"\npassword = \"other\"\ndefault_hostgroup = 10\n";
    replication.primary().create_user(
        "other",
        "other",
        trunkline_testkit::AuthPlugin::ServerDefault,
    )?;
    replication.wait_caught_up(SOON)?;
    let config = topology(replication, "rules", "", &format!("{other}{RULES}"));
    let proxy = Trunkline::start(&config)?;
    let mut one = client(&proxy, "")?;
    for _ in 0..3 {
        for (statement, to_reader) in RULED {
            let name = text(&mut one, statement)?;
            ensure!(name.starts_with("replica") == to_reader, "{statement} went to {name}");
        }
    }
    let mut by_schema = client(&proxy, "mysql")?;
    ensure!(text(&mut by_schema, WHO)?.starts_with("replica"));
    by_schema.sql("USE mark")?;
    ensure!(text(&mut by_schema, WHO)? == "primary");
    let mut by_user = proxy.connect("other", "other", "")?;
    ensure!(text(&mut by_user, WHO)?.starts_with("replica"));
    // A transaction that is open keeps its server, whatever rules say.
    one.sql("BEGIN")?;
    ensure!(text(&mut one, WHO)? == "primary");
    ensure!(text(&mut one, RULED[1].0)? == "primary");
    one.sql("COMMIT")?;
    ensure!(text(&mut one, RULED[1].0)?.starts_with("replica"));
    let refused = crate::stage::fails(&mut one, "SELECT 'forbidden'", 1148)?;
    ensure!(refused.contains("not here"), "{refused}");
    ensure!(one.sql("do nothing at all")?.is_empty());

    let digest = digest_of(&proxy, "SELECT name FROM mark.server")?;
    let rule = format!(
        "[[rule]]\nid = 1\ndigest = \"{digest}\"\ndestination_hostgroup = 20\napply = true\n"
    );
    proxy.reload(&topology(replication, "rules", "", &rule))?;
    wait_until("the rule with the digest holds", SOON, || {
        Ok(text(&mut one, WHO)?.starts_with("replica").then_some(()))
    })?;
    ensure!(text(&mut one, "SELECT name FROM mark.server WHERE 1")? == "primary");
    let hits = crate::stage::status(&proxy)?;
    let hits = hits.pointer("/rule_hits/1").and_then(serde_json::Value::as_u64);
    ensure!(hits >= Some(1), "{hits:?}");
    ensure!(text(&mut one, "SELECT CURRENT_USER()")?.starts_with(USER));
    Ok(())
}

#[test]
fn a_write_does_not_find_null_for_a_variable_that_a_reader_has() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_write_does_not_find_null_for_a_variable") {
            continue;
        }
        let replication = shared_replication(flavour)?;
        let rule = "[[rule]]\nid = 1\nmatch_digest = \"^SELECT\"\ndestination_hostgroup = 20\n";
        let proxy = Trunkline::start(&topology(replication, "rules", "", rule))?;
        let mut one = client(&proxy, "mark")?;
        replication.primary().sql("CREATE TABLE IF NOT EXISTS mark.given (v INT)")?;
        ensure!(text(&mut one, "SELECT @given := 2 + 3")? == "5");
        let write = "INSERT INTO mark.given VALUES (@given)";
        let refused = crate::stage::fails(&mut one, write, 1148)?;
        ensure!(refused.contains("hostgroup 20"), "{refused}");
        ensure!(text(&mut one, "SELECT @given")? == "5");
        one.sql("BEGIN")?;
        crate::stage::fails(&mut one, write, 1148)?;
        one.sql("ROLLBACK")?;
        one.sql("INSERT INTO mark.given SELECT @own := @own + 1 FROM (SELECT @own := 7) AS begin")?;
        // What reads none is not concerned, nor is who has set them where he writes.
        one.sql("INSERT INTO mark.given VALUES (7)")?;
        one.sql("SET @given = 3 + 3")?;
        one.sql(write)?;
        let sum =
            replication.primary().value("SELECT GROUP_CONCAT(v ORDER BY v) FROM mark.given")?;
        ensure!(sum.as_deref() == Some("6,7,8"), "{sum:?}");
        replication.primary().sql("DROP TABLE mark.given")?;
    }
    Ok(())
}

/// A statement's digest as the proxy's own statistics show it.
fn digest_of(proxy: &Trunkline, digest_text: &str) -> Result<String> {
    let status = crate::stage::status(proxy)?;
    let rows = status.get("digests").and_then(serde_json::Value::as_array);
    let row = rows.context("no digests in the status")?.iter().find(|row| {
        row.get("digest_text").and_then(serde_json::Value::as_str) == Some(digest_text)
    });
    let row = row.with_context(|| format!("no digest of {digest_text}: {rows:?}"))?;
    match row.get("digest") {
        Some(serde_json::Value::String(digest)) => Ok(digest.clone()),
        other => anyhow::bail!("the digest is {other:?}"),
    }
}

#[test]
fn declared_routines_run_on_readers() -> Result<()> {
    let name = "declared_routines_run_on_readers";
    if !is_available(Flavour::MariaDb, name) {
        return Ok(());
    }
    let replication = shared_replication(Flavour::MariaDb)?;
    for routine in [
        "FUNCTION mark.whose() RETURNS VARCHAR(20) READS SQL DATA \
         RETURN (SELECT name FROM mark.server)",
        "PROCEDURE mark.ask_whose(a INT) READS SQL DATA SELECT name FROM mark.server",
    ] {
        replication.primary().sql(&format!("CREATE OR REPLACE {routine}"))?;
    }
    for replica in replication.replicas() {
        let look = "SELECT NULLIF(COUNT(*), 0) FROM information_schema.routines \
                    WHERE routine_name = 'ask_whose'";
        wait_until("the routines are on the replicas", SOON, || replica.value(look))?;
    }
    let calls = ["SELECT mark.whose()", "CALL mark.ask_whose(1)"];
    let config = |settings: &str| format!("{settings}\n{}", topology(replication, "auto", "", ""));
    let undeclared = Trunkline::start(&config(""))?;
    let declared = Trunkline::start(&config("reading_routines = \"mark.whose, ask_whose\""))?;
    for call in calls {
        ensure!(text(&mut client(&undeclared, "mark")?, call)? == "primary", "{call}");
        let mut one = client(&declared, "mark")?;
        for _ in 0..3 {
            let answer = text(&mut one, call)?;
            ensure!(answer.starts_with("replica"), "{call}: {answer}");
        }
        // It leaves nothing that holds its session on a reader.
        one.sql("CREATE TABLE IF NOT EXISTS mark.routine_note (a INT)")?;
    }
    replication.primary().sql("DROP TABLE mark.routine_note")?;

    // What was prepared while they were declared is judged by what holds when it runs.
    let mut wire = Wire::login(&declared, USER, PASSWORD, "mark")?;
    let reply = wire.exchange(code::STMT_PREPARE, b"SELECT mark.whose()", Shape::Prepare)?;
    let body = [reply.get(5..9).context("no id")?, &[0, 1, 0, 0, 0]].concat();
    let mut runs_on = |name: &[u8]| -> Result<bool> {
        let rows = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        Ok(rows.windows(name.len()).any(|part| part == name))
    };
    ensure!(runs_on(b"replica")?);
    declared.reload(&config(""))?;
    wait_until("they are declared no more", SOON, || {
        let answer = text(&mut client(&declared, "mark")?, "SELECT mark.whose()")?;
        Ok((answer == "primary").then_some(()))
    })?;
    ensure!(runs_on(b"primary")?, "it still runs on a reader");
    Ok(())
}
