//! Tests of files in and out.

use trunkline_store::{Access, Layer, Place, Store};

use super::*;

const FILE: &str = r#"
datadir="/var/lib/proxysql"
admin_variables = { admin_credentials="admin:secret" mysql_ifaces="0.0.0.0:6032" }
mysql_variables = { threads=2; wait_timeout=5000; monitor_username="m" }
mysql_servers = (
    { address="10.0.0.1" , port=3307 , hostgroup=1 , max_connections=200 },
    { hostname="10.0.0.2", hostgroup_id=2, comment="it's \"two\"\n" }
)
mysql_users = ( { username="app" , password="p\\w" , default_hostgroup=1 , active=true } )
mysql_query_rules = ( { rule_id=1 active=1 match_pattern="^SELECT \d+" destination_hostgroup=2 } )
mysql_query_rules_fast_routing =
    ( { username="u" schemaname="s" flagIN=0 destination_hostgroup=2 } )
"#;

fn filled(rows: &[FirstRow]) -> Store {
    let mut store = Store::open(&Place::Memory, Box::new(|_, _| Ok(()))).expect("a store");
    let rows: Vec<(&str, &[(String, Value)])> =
        rows.iter().map(|row| (row.table, row.values.as_slice())).collect();
    store.insert_named(Layer::Memory, &rows).expect("rows that fit");
    store
}

fn dump(store: &Store) -> Vec<Vec<Vec<Value>>> {
    let tables = LISTS.iter().map(|(_, table)| store.rows(Layer::Memory, table).expect("rows"));
    let variables = store.variables(Layer::Memory, "").expect("variables");
    let variables = variables.into_iter().map(|(a, b)| vec![Value::Text(a), Value::Text(b)]);
    tables.chain([variables.collect()]).collect()
}

#[test]
fn a_file_of_proxysql_becomes_rows() {
    let imported = cnf_rows(FILE, "proxysql.cnf").expect("valid");
    assert_eq!(imported.warnings, ["proxysql.cnf:2: `datadir` has no effect"]);
    let store = filled(&imported.rows);
    let servers = store.rows(Layer::Memory, "mysql_servers").expect("rows");
    assert_eq!(servers[0][1], Value::Text("10.0.0.1".into()));
    assert_eq!((&servers[0][0], &servers[0][2]), (&Value::Integer(1), &Value::Integer(3_307)));
    let rules = store.rows(Layer::Memory, "mysql_query_rules").expect("rows");
    assert!(rules[0].contains(&Value::Text("^SELECT \\d+".into())));
}

#[test]
fn errors_of_a_file_are_all_told_with_their_lines() {
    let text = FILE
        .replace("wait_timeout=5000", "wait_timeout=x1")
        .replace("max_connections=200", "max_conns=200");
    // What is no value ends the reading.
    assert_eq!(
        cnf_rows(&text, "f").expect_err("refused"),
        ["f:4: `x1` is no value; a text needs quotes"]
    );
    let text = text.replace("x1", "-1");
    assert_eq!(
        cnf_rows(&text, "f").expect_err("refused"),
        [
            "f:4: mysql-wait_timeout must be 0 to 1728000000, not -1",
            "f:6: `max_conns` is no column of mysql_servers"
        ]
    );
    assert_eq!(
        cnf_rows("nonsense = 1", "f").expect_err("refused"),
        ["f:1: unknown key `nonsense`"]
    );
}

#[test]
fn what_is_exported_reads_back_the_same() {
    let store = filled(&cnf_rows(FILE, "f").expect("valid").rows);
    for format in [Format::Toml, Format::Cnf, Format::Sql] {
        let text = export(&store, Layer::Memory, format).expect("text");
        assert!(text.lines().next().is_some_and(|line| line.contains("passwords")), "{text}");
    }
    let cnf = export(&store, Layer::Memory, Format::Cnf).expect("text");
    assert_eq!(dump(&filled(&cnf_rows(&cnf, "again").expect(&cnf).rows)), dump(&store));
    // Statements change variables that are there, as they are on an admin port.
    let sql = export(&store, Layer::Memory, Format::Sql).expect("text");
    let mut again = Store::open(&Place::Memory, Box::new(|_, _| Ok(()))).expect("a store");
    let variables = store.variables(Layer::Memory, "").expect("variables");
    let names = variables.iter().map(|(name, _)| (name.as_str(), ""));
    again.put_variables(Layer::Memory, names).expect("put");
    for statement in sql.split(";\n").filter(|statement| !statement.is_empty()) {
        again.run(statement, &[], Access::Admin).expect(statement);
    }
    assert_eq!(dump(&again), dump(&store));
}
