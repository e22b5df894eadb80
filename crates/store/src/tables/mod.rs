//! The one table of definitions: every table of the admin port, in ProxySQL's names, order, types,
//! defaults and checks, and Trunkline's own beside them.
//!
//! Source: ProxySQL 2.7.1's documentation of its tables; `tests/data/proxysql-columns.tsv` holds
//! what is compared.

use std::fmt::Write;

mod servers;

mod rules;

mod stats;

mod history;

mod own;

mod twins;

/// A database that the admin port shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Schema {
    /// What is edited (the layer MEMORY) and what runs (`runtime_*`).
    Main,
    /// What is kept (the layer DISK).
    Disk,
    /// Numbers, made when they are read.
    Stats,
    /// What the monitor has seen.
    Monitor,
    /// Numbers of the past, made when they are read.
    StatsHistory,
    /// What is shown as a part of [`Self::StatsHistory`] and kept in a file ([`SAVED`]). Nobody
    /// uses its name: statements that name the table are understood.
    StatsSaved,
}

/// The table of [`Schema::StatsHistory`] whose rows are saved. All others are made from the
/// history.
pub const SAVED: &str = "history_mysql_query_digest";

impl Schema {
    /// All that are shown, in ProxySQL's order.
    pub const ALL: [Self; 5] =
        [Self::Main, Self::Disk, Self::Stats, Self::Monitor, Self::StatsHistory];

    /// Its name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Disk => "disk",
            Self::Stats => "stats",
            Self::Monitor => "monitor",
            Self::StatsHistory => "stats_history",
            Self::StatsSaved => "stats_saved",
        }
    }
}

const MAIN: &[Schema] = &[Schema::Main];
const DISK: &[Schema] = &[Schema::Disk];
const MAIN_AND_DISK: &[Schema] = &[Schema::Main, Schema::Disk];
const MAIN_DISK_AND_STATS: &[Schema] = &[Schema::Main, Schema::Disk, Schema::Stats];
const STATS: &[Schema] = &[Schema::Stats];
const MONITOR: &[Schema] = &[Schema::Monitor];
const STATS_HISTORY: &[Schema] = &[Schema::StatsHistory];

/// How a column is part of the primary key by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// It is not.
    None,
    /// It is the primary key.
    Primary,
    /// It is, and grows by itself.
    Autoincrement,
}

/// One column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its name.
    pub name: &'static str,
    /// Its declared type; may be empty.
    pub kind: &'static str,
    /// Whether NULL is refused.
    pub is_needed: bool,
    /// The default as SQL.
    pub default: Option<&'static str>,
    /// A condition on the row, as SQL.
    pub check: Option<&'static str>,
    /// Its part in the primary key.
    pub key: Key,
}

/// One table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Where it is.
    pub schemas: &'static [Schema],
    /// Its columns, in order.
    pub columns: &'static [ColumnDef],
    /// Constraints over several columns, as SQL.
    pub constraints: &'static [&'static str],
}

/// A table with the columns of another one.
struct Twin {
    name: &'static str,
    of: &'static str,
    schemas: &'static [Schema],
}

const fn column(name: &'static str, kind: &'static str) -> ColumnDef {
    ColumnDef { name, kind, is_needed: false, default: None, check: None, key: Key::None }
}

const fn int(name: &'static str) -> ColumnDef {
    column(name, "INT")
}

const fn integer(name: &'static str) -> ColumnDef {
    column(name, "INTEGER")
}

const fn unsigned(name: &'static str) -> ColumnDef {
    column(name, "INT UNSIGNED")
}

const fn bigint(name: &'static str) -> ColumnDef {
    column(name, "BIGINT")
}

const fn text(name: &'static str) -> ColumnDef {
    column(name, "VARCHAR")
}

const fn untyped(name: &'static str) -> ColumnDef {
    column(name, "")
}

/// Columns of which another table has the first or the last ones too. `N` is how many they are.
const fn joined<const N: usize>(first: &[ColumnDef], last: &[ColumnDef]) -> [ColumnDef; N] {
    assert!(first.len() + last.len() == N, "another number of columns");
    let mut columns = [untyped(""); N];
    let (start, end) = columns.split_at_mut(first.len());
    start.copy_from_slice(first);
    end.copy_from_slice(last);
    columns
}

impl ColumnDef {
    const fn needed(mut self) -> Self {
        self.is_needed = true;
        self
    }

    const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    const fn check(mut self, check: &'static str) -> Self {
        self.check = Some(check);
        self
    }

    const fn key(mut self) -> Self {
        self.key = Key::Primary;
        self
    }

    const fn autoincrement(mut self) -> Self {
        self.key = Key::Autoincrement;
        self
    }

    /// Its name as SQL takes it.
    pub fn quoted(&self) -> String {
        match self.name {
            // The only names of columns here that are words of SQL.
            "Default" | "schema" | "table" | "user" | "check" => format!("\"{}\"", self.name),
            name => name.to_owned(),
        }
    }

    /// Whether it holds whole numbers.
    pub fn is_number(&self) -> bool {
        self.kind.contains("INT")
    }

    fn definition(&self) -> String {
        let mut sql = self.quoted();
        if !self.kind.is_empty() {
            let _ = write!(sql, " {}", self.kind);
        }
        match self.key {
            Key::None => {}
            Key::Primary => sql.push_str(" PRIMARY KEY"),
            Key::Autoincrement => sql.push_str(" PRIMARY KEY AUTOINCREMENT"),
        }
        if let Some(check) = self.check {
            let _ = write!(sql, " CHECK ({check})");
        }
        if self.is_needed {
            sql.push_str(" NOT NULL");
        }
        if let Some(default) = self.default {
            let _ = write!(sql, " DEFAULT {default}");
        }
        sql
    }
}

impl Table {
    const fn new(
        name: &'static str,
        schemas: &'static [Schema],
        columns: &'static [ColumnDef],
        constraints: &'static [&'static str],
    ) -> Self {
        Self { name, schemas, columns, constraints }
    }

    /// The columns of its primary key, in the key's order.
    pub fn primary_key(&self) -> Vec<&'static str> {
        let own = self.columns.iter().filter(|column| column.key != Key::None);
        let own: Vec<&str> = own.map(|column| column.name).collect();
        let several = self.constraints.iter().find_map(|it| it.strip_prefix("PRIMARY KEY"));
        match several.and_then(|list| list.split(['(', ')']).nth(1)) {
            Some(list) => list.split(',').map(str::trim).collect(),
            None => own,
        }
    }

    /// The statement that makes it.
    pub fn create(&self) -> String {
        let columns = self.columns.iter().map(ColumnDef::definition);
        let parts: Vec<String> =
            columns.chain(self.constraints.iter().map(ToString::to_string)).collect();
        format!("CREATE TABLE {} (\n    {}\n)", self.name, parts.join(",\n    "))
    }

    /// The statement that makes it in the database. Numbers that are made anew for each reading
    /// have their key in [`Self::create`] only: an index would take half of the time.
    pub(crate) fn create_in(&self, schema: Schema) -> String {
        let is_made_anew = schema == Schema::Stats && self.name.contains("query_digest");
        let constraints = if is_made_anew { &[][..] } else { self.constraints };
        let create = Self { constraints, ..*self }.create();
        let made = format!("CREATE TABLE IF NOT EXISTS {}.", schema.name());
        let create = create.replacen("CREATE TABLE ", &made, 1);
        let of = self.name.strip_prefix("runtime_");
        if let Some(of) = of.filter(|of| is_shown_apart(of)) {
            return format!(
                "{};\n{create}",
                create.replacen(self.name, &format!("loaded_{of}"), 1)
            );
        }
        match of.and_then(|of| Some((of, shown_rows(of)?))) {
            Some((of, condition)) => format!(
                "{};\nCREATE VIEW IF NOT EXISTS {schema}.{name} AS \
                 SELECT * FROM loaded_{of} WHERE {condition}",
                create.replacen(self.name, &format!("loaded_{of}"), 1),
                schema = schema.name(),
                name = self.name,
            ),
            None => create,
        }
    }

    /// Whether it is made in a schema of the database.
    pub(crate) fn is_in(&self, schema: Schema) -> bool {
        let shown = match schema {
            Schema::StatsSaved => return self.name == SAVED,
            Schema::StatsHistory if self.name == SAVED => return false,
            shown => shown,
        };
        self.schemas.contains(&shown)
    }

    /// The names of its columns as SQL takes them, separated by commas.
    pub fn column_list(&self) -> String {
        self.columns.iter().map(ColumnDef::quoted).collect::<Vec<_>>().join(",")
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&'static ColumnDef> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// The condition on rows of RUNTIME that `runtime_*` shows of a table, when it does not show all,
/// as in ProxySQL. All rows are in `loaded_*`, of which `runtime_*` is a view.
pub(crate) fn shown_rows(table: &str) -> Option<&'static str> {
    match table {
        "mysql_users" | "mysql_query_rules" => Some("active = 1"),
        _ => None,
    }
}

/// Whether `runtime_*` of a table shows how it is now, which is not what was loaded: servers are
/// shunned, and change their roles. What was loaded is in `loaded_*`.
pub(crate) fn is_shown_apart(table: &str) -> bool {
    table == "mysql_servers"
}

/// Every table with columns of its own.
pub fn defined() -> impl Iterator<Item = &'static Table> {
    [servers::TABLES, rules::TABLES, stats::TABLES, history::TABLES, own::TABLES]
        .into_iter()
        .flatten()
}

/// Every table of the admin port.
pub fn all() -> impl Iterator<Item = Table> {
    let twins = twins::TWINS.iter().filter_map(|twin| {
        let of = defined().find(|table| table.name == twin.of)?;
        Some(Table { name: twin.name, schemas: twin.schemas, ..*of })
    });
    defined().copied().chain(twins)
}

/// The table called `name`.
pub fn find(name: &str) -> Option<Table> {
    all().find(|table| table.name.eq_ignore_ascii_case(name))
}
