//! The texts of dictionary queries.

use std::{collections::BTreeMap, fmt::Write};

use super::{Row, text};
use crate::Name;

/// What a session that asks is set to, whatever its server's sessions begin with: answers are in
/// UTF-8 and whole, dictionaries quote names and strings in one way, and a table that somebody has
/// locked for long is waited for no longer than 1 s.
pub const SESSION: &str = "SET NAMES utf8mb4, autocommit = 1, sql_mode = '', \
     sql_quote_show_create = 1, sql_select_limit = 18446744073709551615, lock_wait_timeout = 1";

/// What the account that asks may do, on MySQL.
const GRANTS: &str = "SHOW GRANTS";

/// What the role of the account that asks may do, on MariaDB.
const ROLE_GRANTS: &str = "SHOW GRANTS FOR CURRENT_ROLE";

/// Bytes of one definition; a longer one is not understood.
pub(super) const TEXT_MAX: usize = 65_536;

/// What the account that asks may do, on MariaDB, as lines of `SHOW GRANTS`, which itself gives the
/// hash of the account's password away to whoever listens; and a line for the role that it has, if
/// any. What everybody was given (`PUBLIC`) is not told.
fn grants_on_mariadb() -> String {
    let name = |column: &str| format!("'`', REPLACE(MIN(p.{column}), '`', '``'), '`'");
    let (schema, table) = (name("table_schema"), name("table_name"));
    let within = "BINARY p.table_schema";
    let kinds = [
        ("user", "'*.*'".to_owned(), "p.grantee".to_owned()),
        ("schema", format!("{schema}, '.*'"), within.to_owned()),
        ("table", format!("{schema}, '.', {table}"), format!("{within}, BINARY p.table_name")),
    ];
    let mut sql = String::new();
    for (kind, scope, each) in kinds {
        _ = write!(
            sql,
            "SELECT CONCAT('GRANT ', GROUP_CONCAT(p.privilege_type ORDER BY p.privilege_type), \
             ' ON ', {scope}, ' TO `self`') \
             FROM information_schema.{kind}_privileges AS p, \
             (SELECT CONCAT('''', REGEXP_REPLACE(CURRENT_USER(), '@[^@]*$', ''), '''@''', \
             SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''') AS grantee) AS self \
             WHERE BINARY p.grantee = BINARY self.grantee GROUP BY {each} UNION ALL "
        );
    }
    sql + "SELECT CONCAT('ROLE ', CURRENT_ROLE()) FROM DUAL WHERE CURRENT_ROLE() IS NOT NULL"
}

/// What a query is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    /// What kind of thing each name is.
    Tables,
    /// What the account may do, and so what it is shown.
    Grants,
    /// What its role may do.
    RoleGrants,
    /// The definitions of views.
    Views,
    /// The triggers of tables.
    Triggers,
    /// The columns of tables that compute something.
    Columns,
    /// The tables that a change of which changes these too, by foreign keys.
    Keys,
}

/// One query of a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    topic: Topic,
    sql: String,
}

impl Query {
    /// What the account that asks may do.
    pub fn grants(is_mariadb: bool) -> Self {
        let sql = if is_mariadb { grants_on_mariadb() } else { GRANTS.to_owned() };
        Self { topic: Topic::Grants, sql }
    }

    /// What follows these rows of [`Self::grants`]: they may name a role.
    pub fn behind_grants(rows: &[Row]) -> Option<Self> {
        let names_role = |row: &Row| text(row, 0).starts_with(b"ROLE ");
        let sql = rows.iter().any(names_role).then(|| ROLE_GRANTS.to_owned());
        sql.map(|sql| Self { topic: Topic::RoleGrants, sql })
    }

    /// Whether it asks what its account may do. Servers tell of now, and show what it might see
    /// when it logged in.
    pub fn is_about_grants(&self) -> bool {
        matches!(self.topic, Topic::Grants | Topic::RoleGrants)
    }

    /// About these names; `None` without names.
    ///
    /// MariaDB looks one name up by its constants, and searches a whole schema for a list: each has
    /// a part of its own, and its number in front of its rows. MySQL takes longer for each part
    /// than for many names of a list: each schema has a part, and rows begin with the name's two.
    pub(super) fn of_names<'a>(
        topic: Topic,
        names: impl Iterator<Item = (usize, &'a Name)>,
        is_mariadb: bool,
    ) -> Option<Self> {
        let form = Form::of(topic)?;
        let mut sql = String::new();
        if is_mariadb {
            for (at, name) in names {
                let table = format!("= {}", literal(&name.table));
                form.put(&mut sql, &at.to_string(), &name.schema, &table);
            }
            return (!sql.is_empty()).then_some(Self { topic, sql });
        }
        let mut schemas: BTreeMap<&[u8], Vec<String>> = BTreeMap::new();
        for (_, name) in names {
            schemas.entry(&name.schema).or_default().push(literal(&name.table));
        }
        let key = format!("{}, {}", form.schema, form.table);
        for (schema, tables) in schemas {
            form.put(&mut sql, &key, schema, &format!("IN ({})", tables.join(", ")));
        }
        (!sql.is_empty()).then_some(Self { topic, sql })
    }

    pub(super) fn topic(&self) -> Topic {
        self.topic
    }

    /// The text.
    pub fn sql(&self) -> &str {
        &self.sql
    }
}

/// The parts of a query that depend on what it is about.
struct Form {
    columns: &'static str,
    from: &'static str,
    /// The column of the schema.
    schema: &'static str,
    /// The column of the name.
    table: &'static str,
    /// What else rows must be.
    only: &'static str,
}

impl Form {
    fn of(topic: Topic) -> Option<Self> {
        let (schema, table) = ("TABLE_SCHEMA", "TABLE_NAME");
        Some(match topic {
            Topic::Grants | Topic::RoleGrants => return None,
            Topic::Keys => Self {
                columns: "UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME",
                from: "REFERENTIAL_CONSTRAINTS",
                schema: "CONSTRAINT_SCHEMA",
                table,
                only: " AND (UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR \
                       DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION'))",
            },
            Topic::Tables => {
                Self { columns: "TABLE_TYPE, ENGINE", from: "TABLES", schema, table, only: "" }
            }
            Topic::Views => Self {
                columns: "LEFT(VIEW_DEFINITION, 65537)",
                from: "VIEWS",
                schema,
                table,
                only: "",
            },
            Topic::Triggers => Self {
                columns: "LEFT(ACTION_STATEMENT, 65537), SQL_MODE, CHARACTER_SET_CLIENT",
                from: "TRIGGERS",
                schema: "EVENT_OBJECT_SCHEMA",
                table: "EVENT_OBJECT_TABLE",
                only: "",
            },
            Topic::Columns => Self {
                columns: "LEFT(COLUMN_DEFAULT, 65537), EXTRA, LEFT(GENERATION_EXPRESSION, 65537)",
                from: "COLUMNS",
                schema,
                table,
                only: " AND (GENERATION_EXPRESSION <> '' OR COLUMN_DEFAULT LIKE '%(%' OR \
                       COLUMN_DEFAULT LIKE '%@%' OR COLUMN_DEFAULT LIKE '% for %')",
            },
        })
    }

    /// Adds a part.
    fn put(&self, sql: &mut String, key: &str, in_schema: &[u8], names: &str) {
        let Self { columns, from, schema, table, only } = self;
        if !sql.is_empty() {
            sql.push_str(" UNION ALL ");
        }
        // Writing to a string does not fail.
        let _ = write!(
            sql,
            "SELECT {key}, {columns} FROM information_schema.{from} WHERE {schema} = {} AND \
             {table} {names}{only}",
            literal(in_schema)
        );
    }
}

/// A string that means the same in every SQL mode.
fn literal(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "''".to_owned();
    }
    let mut out = String::from("_utf8mb4 0x");
    for byte in bytes {
        let _ = write!(out, "{byte:02X}");
    }
    out
}
