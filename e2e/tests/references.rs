//! The tables that an analysis names, against those that the servers use.
//!
//! For each table there are two accounts: one may do nothing with it, the other may only read it,
//! and both may do everything with the rest. A statement that is refused to the first uses the
//! table, one that is refused to the second only changes it. What the server refuses and the
//! analysis doesn't name, though it says that it names all, is a broken promise.

mod maker;

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use trunkline_sql::{
    analysis::{References, TableAccess, analyse},
    token::Modes,
};
use trunkline_testkit::{
    Flavour, MariaDb, MariaDbTree, MySql, Options, Server, SqlClient, error_code, skipped,
};

use crate::stage::{is_available, new_schema};
use maker::Maker;

/// Statements for each server, unless `TRUNKLINE_REFERENCES_STATEMENTS` says otherwise; as many
/// again are made of each by chance.
const STATEMENTS: usize = 400;
const VARIANTS: usize = 2;

const TABLES: [&str; 12] = [
    "t1",
    "t2",
    "t3",
    "t4",
    "next",
    "offset",
    "value",
    "duplicate",
    "json_table",
    "lateral",
    "dual",
    "seq",
];

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The clients of one table.
struct Pair {
    table: &'static str,
    /// May do nothing with it.
    stranger: SqlClient,
    /// May only read it.
    reader: SqlClient,
}

struct Bench {
    server: Server,
    schema: String,
    root: SqlClient,
    pairs: Vec<Pair>,
    modes: Modes,
    counts: HashMap<&'static str, usize>,
}

/// Errors end with the table's name, but for those of servers that have lost its schema.
fn refused(error: &anyhow::Error, table: &str) -> Outcome {
    let why = error.root_cause().to_string();
    let quoted = [format!("`{table}`"), format!("'{table}'")];
    let is_named = quoted.iter().any(|name| why.ends_with(name));
    match is_named && !why.contains("`(null)`") {
        true => Outcome::Refused(why),
        false => Outcome::Failed,
    }
}

/// Tables with their accounts.
fn bench(server: Server) -> Result<Bench> {
    let is_mariadb = server.flavour() == Flavour::MariaDb;
    let schema = new_schema(&server, "")?;
    let mut root = server.root()?;
    root.sql(&format!("USE {schema}"))?;
    for table in TABLES {
        let definition = match table {
            "seq" if is_mariadb => "CREATE SEQUENCE seq".to_owned(),
            "t2" if is_mariadb => {
                "CREATE TABLE t2 (a INT PRIMARY KEY, b INT) WITH SYSTEM VERSIONING".to_owned()
            }
            "t4" => "CREATE TABLE t4 (a INT PRIMARY KEY, b INT) PARTITION BY HASH (a) PARTITIONS 2"
                .to_owned(),
            _ => format!("CREATE TABLE `{table}` (a INT PRIMARY KEY, b INT)"),
        };
        root.sql(&definition)?;
        if !(table == "seq" && is_mariadb) {
            root.sql(&format!("INSERT INTO `{table}` VALUES (1, 2)"))?;
        }
    }
    for table in TABLES {
        make_account(&mut root, &schema, table, &stranger(table), None)?;
        make_account(&mut root, &schema, table, &reader(table), Some("SELECT"))?;
    }
    let modes = Modes { flavor_mariadb: is_mariadb, ..Modes::default() };
    let mut bench =
        Bench { server, schema, root, pairs: Vec::new(), modes, counts: HashMap::new() };
    bench.connect()?;
    Ok(bench)
}

fn stranger(table: &str) -> String {
    format!("stranger_{table}")
}

fn reader(table: &str) -> String {
    format!("reader_{table}")
}

/// An account that may do everything with all tables but this one.
fn make_account(
    root: &mut SqlClient,
    schema: &str,
    table: &str,
    name: &str,
    right: Option<&str>,
) -> Result<()> {
    root.sql(&format!(
        "CREATE USER {name}; GRANT LOCK TABLES, CREATE TEMPORARY TABLES ON {schema}.* TO {name}"
    ))?;
    for other in TABLES.iter().filter(|other| **other != table) {
        root.sql(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE, SHOW VIEW ON {schema}.`{other}` TO {name}"
        ))?;
    }
    if let Some(right) = right {
        root.sql(&format!("GRANT {right} ON {schema}.`{table}` TO {name}"))?;
    }
    Ok(())
}

/// What a statement came to; what it did is undone.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    NoSyntax,
    /// With the error's text.
    Refused(String),
    Failed,
    /// The server is gone.
    Lost,
}

fn outcome(client: &mut SqlClient, text: &str, table: &str) -> Outcome {
    let outcome = match client.sql(text) {
        Ok(_) => Outcome::Done,
        Err(error) => match error_code(&error) {
            Some(1064) => Outcome::NoSyntax,
            Some(1142 | 1143) => refused(&error, table),
            Some(_) => Outcome::Failed,
            None => return Outcome::Lost,
        },
    };
    match client.sql("ROLLBACK") {
        Ok(_) => outcome,
        Err(_) => Outcome::Lost,
    }
}

/// Whether a table is among those that the analysis names. Servers refuse one of its name in any
/// schema.
fn names(references: &References, table: &str, access: Option<TableAccess>) -> bool {
    references.tables.iter().any(|used| {
        used.name.table.eq_ignore_ascii_case(table.as_bytes())
            && access.is_none_or(|access| access == used.access)
    })
}

impl Bench {
    fn connect(&mut self) -> Result<()> {
        let begin = |mut client: SqlClient| -> Result<SqlClient> {
            client.sql(&format!("USE {}; SET autocommit = 0", self.schema))?;
            Ok(client)
        };
        self.root = begin(self.server.root()?)?;
        self.pairs.clear();
        for table in TABLES {
            let stranger = begin(self.server.connect(&stranger(table), "", "")?)?;
            let reader = begin(self.server.connect(&reader(table), "", "")?)?;
            self.pairs.push(Pair { table, stranger, reader });
        }
        Ok(())
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn counted(&self, what: &str) -> usize {
        self.counts.get(what).copied().unwrap_or_default()
    }

    fn check(&mut self, text: &str) -> Result<()> {
        let references = analyse(text.as_bytes(), &self.modes).references;
        match outcome(&mut self.root, text, "") {
            Outcome::NoSyntax => {
                self.count("no syntax");
                return Ok(());
            }
            Outcome::Lost => return self.begin_again(text),
            Outcome::Done => self.count("run"),
            Outcome::Failed | Outcome::Refused(_) => self.count("other errors"),
        }
        if !references.is_whole {
            self.count("not whole");
            return Ok(());
        }
        let lower = text.to_ascii_lowercase();
        for place in 0..self.pairs.len() {
            if lower.contains(self.pairs[place].table) && !self.compare(text, &references, place)? {
                return self.begin_again(text);
            }
        }
        Ok(())
    }

    /// False if the server is gone.
    fn compare(&mut self, text: &str, references: &References, place: usize) -> Result<bool> {
        let pair = &mut self.pairs[place];
        let table = pair.table;
        let known = match outcome(&mut pair.stranger, text, table) {
            Outcome::Refused(why) => why,
            Outcome::Lost => return Ok(false),
            Outcome::Done | Outcome::NoSyntax | Outcome::Failed => {
                if names(references, table, None) {
                    self.count("named in vain");
                }
                return Ok(true);
            }
        };
        let reader = outcome(&mut pair.reader, text, table);
        self.count("uses");
        let is_named = names(references, table, None);
        ensure!(is_named, "{table} is used but not named: {known}\n{text}\n{references:?}");
        match reader {
            Outcome::Refused(why) => {
                self.count("writes");
                let is_write = names(references, table, Some(TableAccess::Write));
                ensure!(is_write, "{table} is written: {why}\n{text}\n{references:?}");
            }
            Outcome::Lost => return Ok(false),
            Outcome::Done | Outcome::NoSyntax | Outcome::Failed => {}
        }
        Ok(true)
    }

    /// The text has ended the server.
    fn begin_again(&mut self, text: &str) -> Result<()> {
        println!("the server is gone: {text}");
        self.count("lost");
        self.server.restart().context("after a text that it did not survive")?;
        self.connect()
    }
}

/// The server is one of its own: there are texts that servers do not survive.
fn check(server: Server) -> Result<()> {
    let flavour = server.flavour();
    let mut bench = bench(server)?;
    let seed = setting("TRUNKLINE_REFERENCES_SEED", 0) as u64;
    let count = setting("TRUNKLINE_REFERENCES_STATEMENTS", STATEMENTS);
    let mut maker = Maker::new(seed, flavour == Flavour::MariaDb, &bench.schema);
    for text in maker::FIXED {
        bench.check(text)?;
    }
    let mut whole = 0;
    for _ in 0..count {
        let text = maker.text();
        whole += usize::from(analyse(text.as_bytes(), &bench.modes).references.is_whole);
        bench.check(&text)?;
        for _ in 0..VARIANTS {
            let variant = maker.variant(&text, &bench.modes);
            bench.check(&variant)?;
        }
    }
    println!("{flavour:?}: {count} statements, {whole} whole, {:?}", bench.counts);
    ensure!(whole * 10 >= count * 9, "only {whole} of {count} are understood");
    ensure!(bench.counted("run") >= count / 4, "few run: {:?}", bench.counts);
    ensure!(bench.counted("uses") >= count / 2, "few tables are used: {:?}", bench.counts);
    ensure!(bench.counted("writes") >= count / 20, "few are written: {:?}", bench.counts);
    Ok(())
}

#[test]
fn tables_that_mariadb_uses_are_named() -> Result<()> {
    match is_available(Flavour::MariaDb, "tables_that_mariadb_uses_are_named") {
        true => check(MariaDb::start(Options::default())?),
        false => Ok(()),
    }
}

#[test]
fn tables_that_mysql_uses_are_named() -> Result<()> {
    match is_available(Flavour::MySql, "tables_that_mysql_uses_are_named") {
        true => check(MySql::start(Options::default())?),
        false => Ok(()),
    }
}

#[test]
fn tables_that_a_newer_mariadb_uses_are_named() -> Result<()> {
    match MariaDbTree::find() {
        Ok(_) => check(MariaDb::start(Options { is_newer: true, ..Options::default() })?),
        Err(reason) => {
            skipped("tables_that_a_newer_mariadb_uses_are_named", &reason);
            Ok(())
        }
    }
}
