//! Events to transactions: which one, when, what tables, and how many rows.

use std::{collections::HashMap, sync::Arc};

use trunkline_topology::gtid::Origin;

use crate::{
    TABLES_MAX,
    event::{Begin, Event, Gtid, Kind, RowChange, Rows, TableName},
};

/// What a transaction has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which one.
    pub gtid: Gtid,
    /// When it was committed on its first server, Unix microseconds; whole seconds on MariaDB.
    pub at_us: u64,
    /// Tables with their rows, in the order in which they were first changed.
    pub tables: Vec<TableChange>,
    /// Statements that are in the log as such: DDL, and what is logged as statements.
    pub statements: Vec<StatementChange>,
    /// Whether all tables are named: a part may have been too long to be read.
    pub is_complete: bool,
}

/// What was changed in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableChange {
    /// Which one.
    pub name: Arc<TableName>,
    /// New rows.
    pub inserted: u64,
    /// Rows that are different.
    pub updated: u64,
    /// Rows that are gone.
    pub deleted: u64,
    /// Whether all rows are counted.
    pub is_counted: bool,
}

/// A statement that is in the log as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementChange {
    /// The schema that it ran in; it may have changed others.
    pub schema: String,
    /// Its first words, such as `ALTER TABLE`: never names or values.
    pub words: String,
}

/// Puts events together to transactions.
#[derive(Debug, Default)]
pub struct Changes {
    open: Option<Open>,
    strays: u64,
}

/// A transaction whose end has not come.
#[derive(Debug)]
struct Open {
    begin: Begin,
    gtid: Gtid,
    at_sec: u32,
    /// A `BEGIN` has come, so that statements don't end it.
    is_begun: bool,
    tables: Vec<TableChange>,
    places: HashMap<Arc<TableName>, usize>,
    statements: Vec<StatementChange>,
    is_complete: bool,
}

impl Changes {
    /// Outside of any transaction.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events belong to no transaction with a GTID: what they change is not told.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Takes the next event; gives the transaction that ends with it. What has no GTID is not
    /// told.
    pub fn take(&mut self, event: &Event<'_>) -> Option<Change> {
        let changes_something = matches!(
            event.kind,
            Kind::Rows(_) | Kind::Query { .. } | Kind::Unread | Kind::Incident
        );
        if changes_something && self.open.is_none() {
            self.strays += 1;
        }
        match &event.kind {
            Kind::Begin(begin) => {
                // An end that was not recognised.
                let before = self.end();
                self.open = begin.gtid.map(|gtid| Open::new(*begin, gtid, event.at_sec));
                before
            }
            Kind::Rows(rows) => {
                if let Some(open) = &mut self.open {
                    open.add(rows);
                }
                None
            }
            Kind::Query { schema, statement } => {
                let open = self.open.as_mut()?;
                match open.query(schema, statement) {
                    true => self.end(),
                    false => None,
                }
            }
            Kind::Commit | Kind::Prepare => self.end(),
            Kind::Unread => {
                if let Some(open) = &mut self.open {
                    open.is_complete = false;
                    // The end of a compressed transaction is in it.
                    if open.begin.committed_us.is_some() && !open.is_begun {
                        return self.end();
                    }
                }
                None
            }
            Kind::Incident => {
                let mut change = self.end()?;
                change.is_complete = false;
                Some(change)
            }
            Kind::Format { .. }
            | Kind::Rotate { .. }
            | Kind::Previous(_)
            | Kind::List(_)
            | Kind::Heartbeat
            | Kind::Other(_) => None,
        }
    }

    fn end(&mut self) -> Option<Change> {
        let open = self.open.take()?;
        let of_seconds = u64::from(open.at_sec) * 1_000_000;
        Some(Change {
            gtid: open.gtid,
            at_us: open.begin.committed_us.unwrap_or(of_seconds),
            tables: open.tables,
            statements: open.statements,
            is_complete: open.is_complete,
        })
    }
}

impl Open {
    fn new(begin: Begin, gtid: Gtid, at_sec: u32) -> Self {
        Self {
            begin,
            gtid,
            at_sec,
            is_begun: false,
            tables: Vec::new(),
            places: HashMap::new(),
            statements: Vec::new(),
            is_complete: true,
        }
    }

    fn add(&mut self, rows: &Rows) {
        let place = match self.places.get(&rows.table) {
            Some(place) => *place,
            None if self.tables.len() >= TABLES_MAX => {
                self.is_complete = false;
                return;
            }
            None => {
                self.places.insert(Arc::clone(&rows.table), self.tables.len());
                self.tables.push(TableChange {
                    name: Arc::clone(&rows.table),
                    inserted: 0,
                    updated: 0,
                    deleted: 0,
                    is_counted: true,
                });
                self.tables.len() - 1
            }
        };
        let Some(table) = self.tables.get_mut(place) else { return };
        table.is_counted &= rows.count.is_some();
        let count = match rows.change {
            RowChange::Insert => &mut table.inserted,
            RowChange::Update => &mut table.updated,
            RowChange::Delete => &mut table.deleted,
        };
        *count = count.saturating_add(rows.count.unwrap_or_default());
    }

    /// Takes a statement; whether the transaction ends with it.
    fn query(&mut self, schema: &[u8], statement: &[u8]) -> bool {
        let words = first_words(statement);
        match words.as_str() {
            "BEGIN" | "START TRANSACTION" | "XA START" | "XA BEGIN" => {
                self.is_begun = true;
                false
            }
            "COMMIT" | "ROLLBACK" if is_one_word(statement) => true,
            "SAVEPOINT" | "ROLLBACK" | "RELEASE SAVEPOINT" | "XA END" => false,
            // They end what an earlier transaction has prepared.
            "XA COMMIT" | "XA ROLLBACK" => true,
            _ => {
                if self.statements.len() >= TABLES_MAX {
                    self.is_complete = false;
                } else {
                    let schema = String::from_utf8_lossy(schema).into_owned();
                    self.statements.push(StatementChange { schema, words });
                }
                // On MySQL one without a BEGIN is DDL, which is a transaction; on MariaDB it is
                // said in the beginning.
                match self.gtid.origin {
                    Origin::Domain(_) => self.begin.is_standalone,
                    Origin::Server(..) => !self.is_begun,
                }
            }
        }
    }
}

/// Whether a statement is one word: `ROLLBACK TO` ends nothing.
fn is_one_word(statement: &[u8]) -> bool {
    statement.trim_ascii().iter().all(u8::is_ascii_alphabetic)
}

/// The keywords that a statement begins with, as far as they say what it is, in upper case.
fn first_words(statement: &[u8]) -> String {
    /// What may stand between `CREATE` and what is created.
    const BETWEEN: [&str; 12] = [
        "OR",
        "REPLACE",
        "TEMPORARY",
        "UNIQUE",
        "FULLTEXT",
        "SPATIAL",
        "VECTOR",
        "ONLINE",
        "IGNORE",
        "UNDO",
        "AGGREGATE",
        "IF",
    ];
    let mut rest = statement;
    let mut words = String::new();
    while let Some(word) = next_word(&mut rest) {
        match words.as_str() {
            "" => {
                words.push_str(&word);
                let has_object = matches!(
                    words.as_str(),
                    "CREATE" | "ALTER" | "DROP" | "RENAME" | "XA" | "START" | "RELEASE"
                );
                if !has_object {
                    break;
                }
            }
            _ if BETWEEN.contains(&word.as_str()) => {}
            "CREATE" | "ALTER" if matches!(word.as_str(), "DEFINER" | "ALGORITHM" | "SQL") => {
                words.push_str(" VIEW OR PROGRAM");
                break;
            }
            _ => {
                words.push(' ');
                words.push_str(&word);
                break;
            }
        }
    }
    words
}

/// The next word of letters, behind space and comments; `None` where something else stands.
fn next_word(rest: &mut &[u8]) -> Option<String> {
    const WORD_LEN_MAX: usize = 32;
    loop {
        let text = rest.trim_ascii_start();
        let Some(comment) = text.strip_prefix(b"/*") else {
            *rest = text;
            break;
        };
        // What is in comments for some versions only is not looked into.
        let end = comment.windows(2).position(|pair| pair == b"*/")?;
        *rest = comment.get(end + 2..)?;
    }
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let len = rest.iter().position(|byte| !is_letter(byte)).unwrap_or(rest.len());
    let (word, behind) = rest.split_at_checked(len)?;
    if !(1..=WORD_LEN_MAX).contains(&len) {
        return None;
    }
    *rest = behind;
    Some(String::from_utf8_lossy(word).to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_statement_is_its_first_words_say() {
        let check = |text: &str, expected: &str| {
            assert_eq!(first_words(text.as_bytes()), expected, "{text}");
        };
        check("BEGIN", "BEGIN");
        check("insert into t values ('secret')", "INSERT");
        check("create  table t (a INT)", "CREATE TABLE");
        check("/* hint */ CREATE OR REPLACE TEMPORARY TABLE x", "CREATE TABLE");
        check("DROP TABLE IF EXISTS `t` /* generated by server */", "DROP TABLE");
        check("CREATE DEFINER=`root`@`%` VIEW v AS SELECT 1", "CREATE VIEW OR PROGRAM");
        check("TRUNCATE TABLE t", "TRUNCATE");
        check("XA START X'61',X'',1", "XA START");
        check("GRANT SELECT ON *.* TO x", "GRANT");
        check("ROLLBACK TO `a`", "ROLLBACK");
        check("/*!50003 CREATE TABLE t */", "");
        check("`", "");
        check("", "");
    }
}
