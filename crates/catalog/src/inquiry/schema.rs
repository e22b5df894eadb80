//! Schemas of the servers' own, whose tables need not be asked for.

use crate::{Hidden, Kind, Object};

/// Tables of `information_schema` that tell of definitions and of nothing else, sorted. What an
/// account is shown there is its own matter, so that answers vary.
const DEFINITIONS: [&str; 27] = [
    "CHARACTER_SETS",
    "CHECK_CONSTRAINTS",
    "COLLATIONS",
    "COLLATION_CHARACTER_SET_APPLICABILITY",
    "COLUMNS",
    "COLUMN_PRIVILEGES",
    "ENGINES",
    "EVENTS",
    "KEYWORDS",
    "KEY_COLUMN_USAGE",
    "PARAMETERS",
    "PARTITIONS",
    "PLUGINS",
    "REFERENTIAL_CONSTRAINTS",
    "ROUTINES",
    "SCHEMATA",
    "SCHEMA_PRIVILEGES",
    "SQL_FUNCTIONS",
    "STATISTICS",
    "ST_GEOMETRY_COLUMNS",
    "TABLES",
    "TABLE_CONSTRAINTS",
    "TABLE_PRIVILEGES",
    "TRIGGERS",
    "USER_PRIVILEGES",
    "VIEWS",
    "VIEW_TABLE_USAGE",
];

/// What a table of the servers' own is; `None` for all others.
pub(crate) fn known(schema: &[u8], table: &[u8]) -> Option<Object> {
    let is = |name: &str| schema.eq_ignore_ascii_case(name.as_bytes());
    if is("performance_schema") || is("sys") {
        return Some(other(Hidden::UNKNOWN));
    }
    if !is("information_schema") {
        return None;
    }
    let table = String::from_utf8_lossy(table).to_ascii_uppercase();
    let reading = match DEFINITIONS.binary_search(&table.as_str()) {
        Ok(_) => Hidden::VARIES,
        Err(_) => Hidden::UNKNOWN,
    };
    Some(other(reading))
}

fn other(reading: Hidden) -> Object {
    Object { kind: Kind::Other, reading, writing: Hidden::UNKNOWN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(DEFINITIONS.is_sorted());
    }

    #[test]
    fn tables_of_definitions_vary_and_the_others_are_not_known() {
        for (schema, table, expected) in [
            ("information_schema", "TABLES", Some(Hidden::VARIES)),
            ("INFORMATION_SCHEMA", "key_column_usage", Some(Hidden::VARIES)),
            ("information_schema", "user_variables", Some(Hidden::UNKNOWN)),
            ("information_schema", "OPTIMIZER_TRACE", Some(Hidden::UNKNOWN)),
            ("information_schema", "PROFILING", Some(Hidden::UNKNOWN)),
            ("information_schema", "PROCESSLIST", Some(Hidden::UNKNOWN)),
            ("information_schema", "SESSION_STATUS", Some(Hidden::UNKNOWN)),
            ("Performance_Schema", "threads", Some(Hidden::UNKNOWN)),
            ("sys", "version", Some(Hidden::UNKNOWN)),
            ("mysql", "user", None),
            ("shop", "TABLES", None),
        ] {
            let known = known(schema.as_bytes(), table.as_bytes());
            assert_eq!(known.map(|it| it.reading), expected, "{schema}.{table}");
        }
    }
}
