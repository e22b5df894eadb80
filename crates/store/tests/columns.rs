//! The tables are ProxySQL's.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;

use trunkline_store::{Access, Answer, Place, Store, Value};

const FACTS: &str = include_str!("data/proxysql-columns.tsv");

fn store() -> Store {
    Store::open(&Place::Memory, Box::new(|_, _| Ok(()))).expect("a store in memory")
}

fn rows(store: &mut Store, sql: &str) -> Vec<Vec<Value>> {
    match store.run(sql, &[], Access::Admin).expect(sql) {
        Answer::Rows(rows) => rows.rows,
        Answer::Done(_) => panic!("{sql} has no result"),
    }
}

/// Tables whose `runtime_` shows not all rows.
const VIEWS: [&str; 3] = ["mysql_users", "mysql_query_rules", "mysql_servers"];

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_table_has_proxysqls_columns_in_order() {
    let mut store = store();
    let mut expected: BTreeMap<(String, String), Vec<Vec<&str>>> = BTreeMap::new();
    for line in FACTS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        for schema in fields[0].split(',') {
            let key = (schema.to_owned(), fields[1].to_owned());
            expected.entry(key).or_default().push(fields[2..].to_vec());
        }
    }
    assert!(expected.len() > 100, "{} tables", expected.len());
    for ((mut schema, table), columns) in expected {
        if table == trunkline_store::tables::SAVED {
            // It is kept apart from the others.
            "stats_saved".clone_into(&mut schema);
        }
        let mut of =
            |table: &str| rows(&mut store, &format!("PRAGMA {schema}.table_info({table})"));
        let shown: Vec<String> = of(&table).iter().map(|row| text(&row[1])).collect();
        let names: Vec<&str> = columns.iter().map(|fact| fact[0]).collect();
        assert_eq!(shown, names, "{schema}.{table}");
        // A view has names alone; the rest is its table's.
        let made = match table.strip_prefix("runtime_") {
            Some(name) if VIEWS.contains(&name) => format!("loaded_{name}"),
            _ => table.clone(),
        };
        let found = of(&made);
        assert_eq!(found.len(), columns.len(), "{schema}.{made}");
        let create = format!("SELECT sql FROM {schema}.sqlite_master WHERE name = '{made}'");
        let create = text(&rows(&mut store, &create)[0][0]);
        for (row, fact) in found.iter().zip(&columns) {
            let row: Vec<String> = row.iter().map(text).collect();
            let what = format!("{schema}.{table}.{}", fact[0]);
            assert_eq!(row[1], fact[0], "{what}");
            assert_eq!(row[2], fact[1], "type of {what}");
            assert_eq!(row[3] == "1", fact[2] == "NN", "null of {what}");
            // SQLite shows `('OFF')` without its parentheses.
            assert_eq!(row[4], fact[3].trim_matches(['(', ')']), "default of {what}");
            let is_key = fact[4].starts_with("PK");
            assert!(!is_key || row[5] == "1", "key of {what}");
            assert_eq!(fact[4].contains("AUTOINC"), is_key && create.contains("AUTOINCREMENT"));
            assert!(create.contains(fact[5]), "check of {what}: {} in {create}", fact[5]);
        }
    }
}

#[test]
fn what_a_check_refuses_is_named() {
    let mut store = store();
    let insert = "INSERT INTO mysql_servers (hostname, port) VALUES ('a', 70000)";
    let error = store.run(insert, &[], Access::Admin).expect_err("refused").to_string();
    assert_eq!(error, "CHECK constraint failed: port >= 0 AND port <= 65535");
    assert!(rows(&mut store, "SELECT * FROM mysql_servers").is_empty());
}
