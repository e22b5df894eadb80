//! Transactions that only read, on a reader: what ends one and may write is for the writer.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::Replication;

use crate::{
    stage::{FLAVOURS, client, fails, is_available, new_schema, shared_replication, text},
    traces::split,
};

/// What is said in such a transaction, and what is then to be found on the writer.
const ENDINGS: [(&str, &str); 11] = [
    ("COMMIT; INSERT INTO t VALUES (1)", "SELECT COUNT(*) FROM t"),
    ("ROLLBACK; INSERT INTO t VALUES (1)", "SELECT COUNT(*) FROM t"),
    ("SELECT 1; COMMIT; INSERT INTO t VALUES (1)", "SELECT COUNT(*) FROM t"),
    ("COMMIT; START TRANSACTION; INSERT INTO t VALUES (1); COMMIT", "SELECT COUNT(*) FROM t"),
    ("START TRANSACTION READ WRITE; INSERT INTO t VALUES (1); COMMIT", "SELECT COUNT(*) FROM t"),
    ("LOCK TABLES t WRITE; INSERT INTO t VALUES (1); UNLOCK TABLES", "SELECT COUNT(*) FROM t"),
    ("CREATE TABLE made (a INT)", "SELECT COUNT(*) + 1 FROM made"),
    ("ALTER TABLE t ADD b INT DEFAULT 1", "SELECT COALESCE(MAX(b), 1) FROM t"),
    (
        "DROP TABLE made",
        "SELECT 2 - COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()",
    ),
    ("TRUNCATE TABLE t", "SELECT COUNT(*) + 1 FROM t"),
    ("CREATE VIEW v AS SELECT 1 AS a", "SELECT a FROM v"),
];

fn check(replication: &Replication) -> Result<()> {
    let schema = new_schema(replication.primary(), "CREATE TABLE t (a INT)")?;
    replication.wait_caught_up(crate::stage::SOON)?;
    let proxy = split(replication)?;
    let mut one = client(&proxy, &schema)?;
    let on_writer =
        |question: &str| replication.primary().value(&format!("USE {schema}; {question}"));
    for (ending, question) in ENDINGS {
        one.sql("START TRANSACTION READ ONLY")?;
        ensure!(text(&mut one, "SELECT COUNT(*) FROM t").is_ok(), "{ending}");
        one.sql(ending).with_context(|| ending.to_owned())?;
        // Nothing that one statement does to the next is of the reader.
        one.sql("SELECT 1")?;
        let found = on_writer(question)?;
        ensure!(found.as_deref() == Some("1"), "{ending}: {found:?} on the writer");
        replication.primary().sql(&format!("DELETE FROM {schema}.t"))?;
        replication.wait_caught_up(crate::stage::SOON)?;
    }
    // A syntax error ends nothing: it goes on to be a transaction that only reads.
    let begins = "START TRANSACTION READ WRITE,";
    for broken in [begins, "LOCK TABLES t WRITER WRITER", "CREATE TABLE x ("] {
        one.sql("START TRANSACTION READ ONLY")?;
        one.sql("SELECT COUNT(*) FROM t")?;
        fails(&mut one, broken, 1064)?;
        fails(&mut one, "INSERT INTO t VALUES (1)", 1792)?;
        one.sql("ROLLBACK")?;
    }
    // What only reads and ends is for the reader still.
    one.sql("START TRANSACTION READ ONLY")?;
    one.sql("SELECT * FROM t; COMMIT")?;
    Ok(())
}

#[test]
fn issue_16_what_ends_a_read_only_transaction_goes_to_the_writer() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_what_ends_a_read_only_transaction_goes_to_the_writer") {
            check(shared_replication(flavour)?).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}
