use super::*;

const CONFIG: &str = "
    [[server]]
    hostgroup = 10
    address = \"10.0.0.1:3306\"
    [[server]]
    hostgroup = 20
    address = \"10.0.0.2:3306\"
    weight = 3
    [[server]]
    hostgroup = 20
    address = \"10.0.0.3:3306\"
    status = \"OFFLINE_SOFT\"
    [[server]]
    hostgroup = 30
    address = \"10.0.0.4:3306\"
    [[replication]]
    writer_hostgroup = 10
    reader_hostgroup = 20
    [[user]]
    name = \"app\"
    password = \"secret\"
    default_hostgroup = 10
    default_schema = \"shop\"
    [[user]]
    name = \"raw\"
    password = \"secret\"
    default_hostgroup = 30
    fast_forward = true
    [[rule]]
    id = 1
    schemaname = \"archive\"
    destination_hostgroup = 30
    apply = true
    [[rule]]
    id = 2
    match_digest = \"^SELECT SLEEP\"
    error_msg = \"no sleeping\"
    ";

fn explain(config: &str, user: &str, schema: Option<&str>, sql: &str) -> String {
    let no_files = |_: &str| Err("no files here".to_owned());
    let config = trunkline_config::parse(config, "test.toml", &no_files).expect("configuration");
    let snapshot = config.snapshot(None);
    let user = snapshot.user(user).expect("user");
    let args = ExplainArgs {
        config: "test.toml".into(),
        user: user.name.clone(),
        schema: schema.map(str::to_owned),
        client_addr: None,
        listener: None,
        json: false,
        sql: sql.to_owned(),
    };
    explanation(&args, &snapshot, user)
}

#[test]
fn a_read_goes_to_a_reader() {
    let sql = "SELECT a FROM t WHERE id = 7";
    let mut digester = trunkline_sql::digest::Digester::new();
    let hash =
        digester.digest(sql.as_bytes(), &trunkline_sql::digest::Settings::default()).format();
    let expected = format!(
        "digest      SELECT a FROM t WHERE id = ?\n\
         hash        {hash}\n\
         kind        SELECT\n\
         access      reads, if what it names only reads\n\
         proof       proven to read: taking t for base tables\n\
         rule        1: no: schemaname\n\
         rule        2: no: match_digest\n\
         hostgroup   20, a reader: outside transactions it only reads\n\
         server      10.0.0.2:3306, weight 3, ONLINE\n\
         server      10.0.0.3:3306, weight 1, OFFLINE_SOFT\n"
    );
    assert_eq!(explain(CONFIG, "app", None, sql), expected);
}

#[test]
fn what_may_write_goes_to_the_writer_and_says_why() {
    let check = |sql: &str, expected: &[&str]| {
        let text = explain(CONFIG, "app", None, sql);
        for part in expected {
            assert!(text.contains(part), "{sql}: {part}\n{text}");
        }
    };
    let writer = "hostgroup   10, the writer: it may write";
    check("UPDATE t SET a = 1", &["may write: UPDATE is not a read", writer]);
    check("SELECT a FROM t FOR UPDATE", &["kind        SELECT_FOR_UPDATE", writer]);
    check("SELECT LAST_INSERT_ID()", &["depends on the connection's past", "last_insert_id"]);
    check("SET @a = 1, sql_mode = ''", &["effect      set: @a, sql_mode", writer]);
    check("SELECT 'open", &["ends inside a quote", writer]);
    check("BEGIN; COMMIT", &["BEGIN, the first of 2 statements", writer]);
    check("frobnicate", &["may write: it is not understood", writer]);
    check("", &["no statement at all"]);
    check("START TRANSACTION READ ONLY", &["hostgroup   20, a reader: the transaction"]);
}

#[test]
fn a_rule_decides_or_answers() {
    let text = explain(CONFIG, "app", Some("archive"), "DELETE FROM t");
    assert!(
        text.contains("rule        1: matches, hostgroup 30, apply\nhostgroup   30, as a rule")
    );
    let text = explain(CONFIG, "app", None, "SELECT SLEEP(3)");
    assert!(text.ends_with("answer      error 1148 (42000), from a rule: no sleeping\n"), "{text}");
}

#[test]
fn a_fast_forward_user_is_not_looked_at() {
    let text = explain(CONFIG, "raw", None, "SELECT 1");
    assert_eq!(
        text,
        "user        is fast_forward: its statements are passed on without a look\n\
         server      10.0.0.4:3306, weight 1, ONLINE\n"
    );
}

#[test]
fn without_a_reader_the_writer_reads() {
    let config = CONFIG.replacen("weight = 3", "weight = 3\nstatus = \"OFFLINE_HARD\"", 1);
    let text = explain(&config, "app", None, "SELECT a FROM t");
    assert!(text.contains("hostgroup   10, the writer: no reader is online"), "{text}");
}

#[test]
fn rewrites_shadows_fast_routing_hints_and_orders_are_told() {
    let config = format!(
        "{CONFIG}
    [[rule]]
    id = 3
    match_pattern = \"old_(\\\\w+)\"
    replace_pattern = \"new_\\\\1\"
    timeout = 500
    delay = 20
    flagOUT = 5
    [[rule]]
    id = 4
    flagIN = 5
    shadow = true
    destination_hostgroup = 30
    [[fast_routing]]
    username = \"app\"
    schemaname = \"shop\"
    flagIN = 5
    destination_hostgroup = 30
    "
    );
    let text = explain(&config, "app", None, "SELECT a FROM old_t");
    let expected = "rule        3: matches, rewrites, on with flag 5\n\
                    rule        4 (flag 5): would match, and is a shadow\n\
                    sent as     SELECT a FROM new_t\n\
                    orders      delay 20 ms, timeout 500 ms\n\
                    hostgroup   30, as fast routing says\n";
    assert!(text.contains(expected), "{text}");
    let text = explain(&config, "app", None, "/* hostgroup=20 */ SELECT a FROM t");
    assert!(text.contains("hostgroup   20, as a comment says\n"), "{text}");
    let text = explain(&config, "app", None, "/* hostgroup=20 */ DELETE FROM t");
    assert!(text.contains("hostgroup   10, the writer of what a comment names"), "{text}");
}

#[test]
fn what_would_hold_the_session_is_named() {
    let check = |sql: &str, expected: Option<&str>| {
        let said = explain(CONFIG, "app", None, sql);
        let line = said.lines().find_map(|line| line.strip_prefix("pins        "));
        let reasons = line.and_then(|line| line.split_once(": ")).map(|(reasons, _)| reasons);
        assert_eq!(reasons, expected, "{sql}");
    };
    check("SELECT 1", None);
    check("UPDATE t SET a = 1", None);
    check("BEGIN", Some("transaction"));
    check("SELECT GET_LOCK('a', 1)", Some("named_lock"));
    check("CREATE TEMPORARY TABLE x (a INT)", Some("temporary_table"));
    check("LOCK TABLES t WRITE", Some("table_lock"));
    check("CALL p()", Some("routine"));
}
