//! `SHOW` and `DESCRIBE`.

use trunkline_store::{Layer, Module};

use super::{
    Statement,
    text::{Text, unquoted},
};

/// Which rows of a list are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All.
    None,
    /// Names like this pattern.
    Like(String),
    /// Rows for which this condition holds, as it is written.
    Where(String),
}

/// What is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    /// The tables of a schema.
    Tables {
        /// The schema; none for the session's.
        schema: Option<String>,
        /// Which tables.
        filter: Filter,
    },
    /// The schemas, as `PRAGMA database_list` has them.
    Databases,
    /// How a table is made.
    CreateTable(String),
    /// How a schema is made.
    CreateDatabase(String),
    /// The columns of a table.
    Columns(String),
    /// The columns of a table, with what MySQL adds for `FULL`.
    FullColumns(String),
    /// The state of a schema's tables, for tools that dump them.
    TableStatus {
        /// The schema; none for the session's.
        schema: Option<String>,
        /// Which tables.
        filter: Filter,
    },
    /// Variables whose names begin so.
    Variables(&'static str, Filter),
    /// `stats_mysql_global`.
    Status(Filter),
    /// Character sets or collations.
    Collations,
    /// All rows of a table.
    All(&'static str),
    /// Sessions.
    Processlist {
        /// With all columns.
        is_full: bool,
    },
    /// What a `LOAD` or `SAVE` would change.
    Diff {
        /// Of one module, or of all.
        module: Option<Module>,
        /// One layer.
        first: Layer,
        /// The other one.
        second: Layer,
    },
    /// The revisions.
    History,
    /// What goes into a bug report.
    Bundle,
    /// Clusters with their servers.
    Topology,
    /// Hostgroups that are paused, and who still holds connections there.
    PausedHostgroups,
    /// Metrics in Prometheus's format.
    Metrics,
    /// What the last statement warned of.
    Warnings {
        /// Only how many there are.
        is_count: bool,
    },
    /// A list that is always empty here: engines, plug-ins, grants.
    Nothing(&'static [&'static str]),
}

/// Reads a statement that begins with `SHOW` or `DESCRIBE`; `None` when SQLite shall judge it.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &Text, words: &[String]) -> Result<Option<Show>, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["DESCRIBE" | "DESC", _] = words.as_slice() {
        return Ok(Some(Show::Columns(word(text, 1))));
    }
    let shown = words.get(1..).unwrap_or_default();
    // MySQL's words that change nothing here.
    let skipped = shown.iter().take_while(|word| matches!(**word, "FULL" | "EXTENDED")).count();
    let is_full = shown.first() == Some(&"FULL");
    let (at, shown) = (1 + skipped, shown.get(skipped..).unwrap_or_default());
    if let Some(show) = tables(text, at, shown) {
        return Ok(Some(match show {
            Show::Columns(table) if is_full => Show::FullColumns(table),
            show => show,
        }));
    }
    let rest = |words: usize| filter(text, at + words, shown.get(words..).unwrap_or_default());
    Ok(match shown {
        ["DATABASES" | "SCHEMAS", ..] => Some(Show::Databases),
        ["VARIABLES", ..] => Some(Show::Variables("", rest(1))),
        ["GLOBAL" | "SESSION" | "ALL" | "LOCAL", "VARIABLES", ..] => {
            Some(Show::Variables("", rest(2)))
        }
        ["ADMIN", "VARIABLES", ..] => Some(Show::Variables("admin-", rest(2))),
        ["MYSQL", "VARIABLES", ..] => Some(Show::Variables("mysql-", rest(2))),
        ["TRUNKLINE", "VARIABLES", ..] => Some(Show::Variables("trunkline-", rest(2))),
        ["LDAP", "VARIABLES", ..] => Some(Show::Variables("ldap-", rest(2))),
        ["STATUS", ..] => Some(Show::Status(rest(1))),
        ["GLOBAL" | "SESSION" | "LOCAL" | "MYSQL", "STATUS", ..] => Some(Show::Status(rest(2))),
        ["MYSQL", "USERS"] => Some(Show::All("mysql_users")),
        ["MYSQL", "SERVERS"] => Some(Show::All("mysql_servers")),
        ["CHARSET" | "COLLATION", ..] | ["CHARACTER", "SET", ..] => Some(Show::Collations),
        ["PROCESSLIST"] => Some(Show::Processlist { is_full }),
        ["PROMETHEUS", "METRICS"] => Some(Show::Metrics),
        ["HISTORY"] => Some(Show::History),
        ["BUNDLE"] => Some(Show::Bundle),
        ["TOPOLOGY"] => Some(Show::Topology),
        ["PAUSED", "HOSTGROUPS"] => Some(Show::PausedHostgroups),
        ["DIFF", rest @ ..] => Some(diff(rest)?),
        ["WARNINGS", ..] => Some(Show::Warnings { is_count: false }),
        ["COUNT(*)", "WARNINGS"] => Some(Show::Warnings { is_count: true }),
        ["ERRORS", ..] => Some(Show::Nothing(&["Level", "Code", "Message"])),
        ["ENGINES" | "STORAGE", ..] => Some(Show::Nothing(&["Engine", "Support", "Comment"])),
        ["PLUGINS"] => Some(Show::Nothing(&["Name", "Status", "Type", "Library", "License"])),
        ["GRANTS", ..] => Some(Show::Nothing(&["Grants"])),
        ["INDEX" | "INDEXES" | "KEYS" | "TRIGGERS" | "EVENTS", ..] => {
            Some(Show::Nothing(&["Table", "Key_name", "Column_name"]))
        }
        ["PROCEDURE" | "FUNCTION", "STATUS", ..] => Some(Show::Nothing(&["Db", "Name", "Type"])),
        _ => None,
    })
}

/// `EXPLAIN t`, as MySQL has it for `DESCRIBE`.
pub fn explain(words: &[String]) -> Option<Statement> {
    match words {
        [_, table] => Some(Statement::Show(Show::Columns(unquoted(table).to_lowercase()))),
        _ => None,
    }
}

fn tables(text: &Text, at: usize, shown: &[&str]) -> Option<Show> {
    Some(match shown {
        ["TABLES", "FROM" | "IN", _, ..] => Show::Tables {
            schema: Some(word(text, at + 2)),
            filter: filter(text, at + 3, shown.get(3..).unwrap_or_default()),
        },
        ["TABLES", ..] => Show::Tables {
            schema: None,
            filter: filter(text, at + 1, shown.get(1..).unwrap_or_default()),
        },
        ["TABLE", "STATUS", "FROM" | "IN", _, ..] => Show::TableStatus {
            schema: Some(word(text, at + 3)),
            filter: filter(text, at + 4, shown.get(4..).unwrap_or_default()),
        },
        ["TABLE", "STATUS", ..] => Show::TableStatus {
            schema: None,
            filter: filter(text, at + 2, shown.get(2..).unwrap_or_default()),
        },
        ["CREATE", "TABLE", _] => Show::CreateTable(word(text, at + 2)),
        ["CREATE", "DATABASE" | "SCHEMA", _] => Show::CreateDatabase(word(text, at + 2)),
        ["COLUMNS" | "FIELDS", "FROM" | "IN", _] => Show::Columns(word(text, at + 2)),
        ["COLUMNS" | "FIELDS", "FROM" | "IN", _, "FROM" | "IN", _, ..] => {
            let (table, schema) = (word(text, at + 2), word(text, at + 4));
            Show::Columns(format!("{schema}.{table}"))
        }
        _ => return None,
    })
}

/// Word number `at` without quotes; each part of a name with a point loses its own.
fn word(text: &Text, at: usize) -> String {
    let words = text.spelled();
    let word = words.get(at).map_or("", String::as_str);
    word.split('.').map(unquoted).collect::<Vec<_>>().join(".")
}

fn filter(text: &Text, at: usize, words: &[&str]) -> Filter {
    match words {
        ["LIKE", ..] => Filter::Like(word_of_pattern(text, at + 1)),
        ["WHERE", ..] => Filter::Where(text.after(at + 1).to_owned()),
        _ => Filter::None,
    }
}

fn word_of_pattern(text: &Text, at: usize) -> String {
    let words = text.spelled();
    unquoted(words.get(at).map_or("", String::as_str)).to_owned()
}

/// `DIFF [module] [layer layer]`; without layers it is what a `LOAD … TO RUNTIME` would change.
fn diff(words: &[&str]) -> Result<Show, String> {
    let layer = |word: &str| match word {
        "MEMORY" | "MEM" => Some(Layer::Memory),
        "DISK" => Some(Layer::Disk),
        "RUNTIME" | "RUN" => Some(Layer::Runtime),
        _ => None,
    };
    let layers: Vec<Layer> = words.iter().filter_map(|word| layer(word)).collect();
    let name: Vec<&str> = words.iter().copied().filter(|word| layer(word).is_none()).collect();
    let (first, second) = match layers.as_slice() {
        [] => (Layer::Memory, Layer::Runtime),
        [first, second] => (*first, *second),
        _ => return Err("SHOW DIFF wants two of MEMORY, DISK and RUNTIME".to_owned()),
    };
    let name = name.join(" ");
    let module = Module::ALL.into_iter().find(|module| module.name() == name);
    if module.is_none() && !name.is_empty() {
        return Err(format!("there is nothing called `{name}` to compare"));
    }
    Ok(Show::Diff { module, first, second })
}
