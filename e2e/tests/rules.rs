//! What rules and hints ask for beside a destination: rewrites, time limits, delays, sharing, and
//! fast routing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, SOON, client, fails, is_available, new_schema, one_server, shared_replication,
    shared_server, status, text, user, wait_pins,
};

/// The proxy before the shared server of a flavour, with these rules.
fn with_rules(flavour: Flavour, rules: &str) -> Result<Trunkline> {
    Trunkline::start(&format!("{}{rules}", one_server(shared_server(flavour)?, 1, 20)))
}

fn counter(proxy: &Trunkline, name: &str) -> Result<u64> {
    let status = status(proxy)?;
    let value = status.pointer(&format!("/counters/{name}"));
    value.and_then(serde_json::Value::as_u64).with_context(|| format!("no counter {name}"))
}

const REWRITES: &str = r#"
[[rule]]
id = 10
match_pattern = "FROM_UNIXTIME\\(([^,)]+),\\s*'%Y-%m'\\)"
replace_pattern = "CONCAT('month of ', \\1)"
re_modifiers = "CASELESS,GLOBAL"
[[rule]]
id = 20
match_pattern = "^SELECT 'twice', \\?"
replace_pattern = "SELECT 'twice', ?, ?"
[[rule]]
id = 30
match_pattern = "^SELECT 'once', \\?"
replace_pattern = "SELECT 'one', ?"
[[rule]]
id = 40
match_pattern = "^harmless"
replace_pattern = "KILL 1"
[[rule]]
id = 50
match_pattern = "^lock (\\w+)"
replace_pattern = "SELECT GET_LOCK('\\1', 0)"
"#;

fn rewrites(flavour: Flavour) -> Result<()> {
    let proxy = with_rules(flavour, REWRITES)?;
    let mut one = client(&proxy, "")?;
    let sql =
        "SELECT from_unixtime(5, '%Y-%m') = FROM_UNIXTIME(5,'%Y-%m'), FROM_UNIXTIME(7,'%Y-%m')";
    let rows = one.sql(sql)?;
    ensure!(rows == [["1".to_owned(), "month of 7".to_owned()].map(Some)], "{rows:?}");
    ensure!(text(&mut one, "SELECT 1")? == "1");
    fails(&mut one, "harmless", 1235)?;
    let error = one.execute("harmless", &[]).err().context("a KILL was prepared")?;
    ensure!(trunkline_testkit::error_code(&error) == Some(1295), "{error:#}");
    // What runs is what holds the session, not what was written.
    ensure!(text(&mut one, "lock e2e_rules")? == "1");
    wait_pins(&proxy, &["named_lock"])?;
    ensure!(counter(&proxy, "statements_rewritten")? >= 2);
    prepared(&proxy)
}

/// A rewrite holds for prepared statements as long as the client's parameters fit.
fn prepared(proxy: &Trunkline) -> Result<()> {
    let before = counter(proxy, "rewrites_skipped")?;
    let mut one = client(proxy, "")?;
    let rows = one.execute("SELECT 'once', ?", &["a"])?;
    ensure!(rows == [["one".to_owned(), "a".to_owned()].map(Some)], "{rows:?}");
    let rows = one.execute("SELECT 'twice', ?", &["a"])?;
    ensure!(rows == [["twice".to_owned(), "a".to_owned()].map(Some)], "{rows:?}");
    ensure!(counter(proxy, "rewrites_skipped")? == before + 1);
    Ok(())
}

#[test]
fn rules_rewrite_statements_on_mariadb() -> Result<()> {
    run(Flavour::MariaDb, "rules_rewrite_statements_on_mariadb", rewrites)
}

#[test]
fn rules_rewrite_statements_on_mysql() -> Result<()> {
    run(Flavour::MySql, "rules_rewrite_statements_on_mysql", rewrites)
}

fn run(flavour: Flavour, name: &str, test: fn(Flavour) -> Result<()>) -> Result<()> {
    match is_available(flavour, name) {
        true => test(flavour),
        false => Ok(()),
    }
}

const LIMITS: &str = r#"
[[rule]]
id = 10
match_digest = "^SELECT SLEEP"
timeout = 300
[[rule]]
id = 20
match_digest = "^(INSERT|UPDATE)"
timeout = 300
[[rule]]
id = 30
match_digest = "^SELECT .held"
delay = 250
"#;

fn time_limits(flavour: Flavour) -> Result<()> {
    let server = shared_server(flavour)?;
    let schema = new_schema(
        server,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT); \
        INSERT INTO t VALUES (1, 1)",
    )?;
    let proxy = with_rules(flavour, LIMITS)?;
    let mut one = client(&proxy, &schema)?;
    let mut other = client(&proxy, &schema)?;
    other.sql("BEGIN")?;
    other.sql("UPDATE t SET a = 2 WHERE id = 1")?;
    let locked = "UPDATE t SET a = 3 WHERE id = 1";
    for statement in ["SELECT SLEEP(20)", "SELECT SLEEP(20) FROM t", locked] {
        let begin = Instant::now();
        let message = fails(&mut one, statement, 1907)?;
        ensure!(message.contains("query_timeout exceeded"), "{message}");
        ensure!(begin.elapsed() >= Duration::from_millis(300), "{statement}: too early");
        // The server has ended it, and the session goes on.
        ensure!(text(&mut one, "SELECT 1")? == "1");
        wait_until("the server has ended it", SOON, || {
            let rows = server.sql("SHOW FULL PROCESSLIST")?;
            let runs = rows.iter().flatten().flatten().any(|cell| cell == statement);
            Ok((!runs).then_some(()))
        })?;
    }
    // Only the statement ends, and not its transaction, as with KILL QUERY.
    one.sql("BEGIN")?;
    one.sql("INSERT INTO t VALUES (3, 3)")?;
    fails(&mut one, locked, 1907)?;
    ensure!(text(&mut one, "SELECT COUNT(*) FROM t")? == "2");
    one.sql("ROLLBACK")?;
    other.sql("ROLLBACK")?;
    ensure!(text(&mut one, "SELECT GROUP_CONCAT(id, ':', a) FROM t")? == "1:1");
    ensure!(counter(&proxy, "statements_timed_out")? == 4);
    fails(&mut one, "/* query_timeout=200 */ SELECT 1 + SLEEP(20)", 1907)?;
    ensure!(text(&mut one, "SELECT SLEEP(0.01)")? == "0", "in time");
    delays(&proxy)
}

fn delays(proxy: &Trunkline) -> Result<()> {
    let mut one = client(proxy, "")?;
    let begin = Instant::now();
    ensure!(text(&mut one, "SELECT 'x', 1")? == "x");
    let short = begin.elapsed();
    let begin = Instant::now();
    one.sql("SELECT `held` FROM (SELECT 1 AS held) AS t")?;
    ensure!(begin.elapsed() >= Duration::from_millis(250), "not held back; others: {short:?}");
    let begin = Instant::now();
    one.sql("/* query_delay=150 */ SELECT 2")?;
    ensure!(begin.elapsed() >= Duration::from_millis(150), "a hint holds back too");
    ensure!(counter(proxy, "statements_delayed")? == 2);
    Ok(())
}

#[test]
fn statements_run_out_of_time_or_are_held_back_on_mariadb() -> Result<()> {
    run(Flavour::MariaDb, "statements_run_out_of_time_or_are_held_back_on_mariadb", time_limits)
}

#[test]
fn statements_run_out_of_time_or_are_held_back_on_mysql() -> Result<()> {
    run(Flavour::MySql, "statements_run_out_of_time_or_are_held_back_on_mysql", time_limits)
}

const MULTIPLEX: &str = r#"
[[rule]]
id = 10
match_pattern = "stay here"
multiplex = 0
[[rule]]
id = 20
match_pattern = "go on"
multiplex = 1
[[rule]]
id = 30
match_pattern = "write down"
log = 1
"#;

#[test]
fn a_rule_holds_a_session_and_lets_it_go() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_rule_holds_a_session_and_lets_it_go") {
            continue;
        }
        let proxy = with_rules(flavour, MULTIPLEX)?;
        let mut one = client(&proxy, "")?;
        ensure!(text(&mut one, "SELECT 'stay here'")? == "stay here");
        wait_pins(&proxy, &["rule"])?;
        text(&mut one, "SELECT 'something else'")?;
        wait_pins(&proxy, &["rule"])?;
        text(&mut one, "SELECT 'go on'")?;
        wait_pins(&proxy, &[])?;
        text(&mut one, "SELECT 'write down'")?;
        wait_until("the statement is logged", SOON, || {
            let log = proxy.log();
            let line = log.lines().find(|line| line.contains("statement of client"));
            Ok(line.map(str::to_owned))
        })
        .and_then(|line: String| {
            ensure!(line.contains("user app digest 0x") && !line.contains("write down"), "{line}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn fast_routing_and_hints_send_statements_to_their_hostgroups() -> Result<()> {
    if !is_available(Flavour::MariaDb, "fast_routing_and_hints") {
        return Ok(());
    }
    let replication = shared_replication(Flavour::MariaDb)?;
    let config = format!(
        "workers = 1\n[[server]]\nhostgroup = 10\naddress = \"{}\"\n\
         [[server]]\nhostgroup = 20\naddress = \"{}\"\n\
         [[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n\
         read_write_split = \"rules\"\n{}\
         [[fast_routing]]\nusername = \"app\"\nschemaname = \"mark\"\n\
         destination_hostgroup = 20\n",
        replication.primary().address(),
        replication.replicas().first().context("a replica")?.address(),
        user(10)
    );
    let proxy = Trunkline::start(&config)?;
    let mut one = client(&proxy, "")?;
    let who = "SELECT name FROM mark.server";
    ensure!(text(&mut one, who)? == "primary");
    one.sql("USE mark")?;
    ensure!(text(&mut one, who)? == "replica1", "the schema's route");
    ensure!(text(&mut one, &format!("/* hostgroup=10 */ {who}"))? == "primary", "a hint wins");
    ensure!(text(&mut one, &format!("{who} -- maxscale route to master"))? == "primary");
    one.sql("USE information_schema")?;
    ensure!(text(&mut one, who)? == "primary");
    ensure!(text(&mut one, &format!("{who} -- maxscale route to slave"))? == "replica1");
    let locking = format!("{who} FOR UPDATE -- maxscale route to slave");
    ensure!(text(&mut one, &locking)? == "primary", "a hint sends no write to a reader");
    Ok(())
}

const FLAGS: &str = r#"
[[rule]]
id = 10
match_pattern = "from now on"
next_query_flagIN = 5
[[rule]]
id = 20
flagIN = 5
match_pattern = "as before"
next_query_flagIN = 0
[[rule]]
id = 30
flagIN = 5
match_digest = "^SELECT"
match_pattern = "asked"
OK_msg = "answered"
[[rule]]
id = 40
match_pattern = "alone"
pipeline = "off"
[[rule]]
id = 50
match_pattern = "at once"
pipeline = 64
"#;

#[test]
fn a_statements_rule_decides_with_which_flag_the_next_begin() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_statements_rule_decides") {
        return Ok(());
    }
    let proxy = with_rules(Flavour::MariaDb, FLAGS)?;
    let (mut one, mut other) = (client(&proxy, "")?, client(&proxy, "")?);
    ensure!(text(&mut one, "SELECT 'asked'")? == "asked");
    ensure!(text(&mut one, "SELECT 'from now on'")? == "from now on");
    for _ in 0..2 {
        ensure!(one.sql("SELECT 'asked'")?.is_empty(), "the flag stays");
    }
    ensure!(text(&mut other, "SELECT 'asked'")? == "asked", "the flag is its session's own");
    ensure!(text(&mut one, "SELECT 'as before'")? == "as before");
    ensure!(text(&mut one, "SELECT 'asked'")? == "asked");
    Ok(())
}

/// Has many clients run a statement at a time, and says how many statements followed others.
fn pipelined(proxy: &Trunkline, statement: &str) -> Result<u64> {
    let before = counter(proxy, "statements_pipelined")?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    let mut one = client(proxy, "")?;
                    for _ in 0..150 {
                        one.sql(statement)?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        anyhow::Ok(())
    })?;
    Ok(counter(proxy, "statements_pipelined")? - before)
}

#[test]
fn a_rule_keeps_statements_from_sharing() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_rule_keeps_statements_from_sharing") {
        return Ok(());
    }
    let proxy = with_rules(Flavour::MariaDb, FLAGS)?;
    ensure!(pipelined(&proxy, "SELECT 'at once'")? > 0);
    ensure!(pipelined(&proxy, "SELECT 'alone'")? == 0);
    Ok(())
}

#[test]
fn a_hostgroup_keeps_statements_from_sharing_unless_a_rule_says_otherwise() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_hostgroup_keeps_statements_from_sharing") {
        return Ok(());
    }
    let off = format!("{FLAGS}\n[[hostgroup]]\nhostgroup_id = 0\npipeline = \"off\"\n");
    let proxy = with_rules(Flavour::MariaDb, &off)?;
    ensure!(pipelined(&proxy, "SELECT 'as usual'")? == 0);
    ensure!(pipelined(&proxy, "SELECT 'at once'")? > 0);
    Ok(())
}

const RETRIES: &str = r#"
[[rule]]
id = 10
match_pattern = "only once"
retries = 0
"#;

#[test]
fn a_rule_says_how_often_a_read_is_tried_again() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_rule_says_how_often_a_read_is_tried_again") {
        return Ok(());
    }
    let server = shared_server(Flavour::MariaDb)?;
    let proxy = with_rules(Flavour::MariaDb, RETRIES)?;
    let lose_while = |statement: &str| -> Result<Result<String>> {
        std::thread::scope(|scope| {
            let runs = scope.spawn(|| text(&mut client(&proxy, "")?, statement));
            wait_until("it runs", SOON, || {
                let rows = server.sql("SHOW FULL PROCESSLIST")?;
                let is_it = |row: &&trunkline_testkit::Row| {
                    row.iter().flatten().any(|cell| cell == statement)
                };
                let Some(Some(id)) = rows.iter().find(is_it).and_then(|row| row.first()) else {
                    return Ok(None);
                };
                server.sql(&format!("KILL {id}")).map(Some)
            })?;
            runs.join().map_err(|_| anyhow::anyhow!("the client panicked"))
        })
    };
    let again = lose_while("SELECT 'once or twice', SLEEP(1)")?;
    ensure!(again.as_deref().ok() == Some("once or twice"), "{again:?}");
    let error = lose_while("SELECT 'only once', SLEEP(1)")?.err().context("it was tried again")?;
    ensure!(trunkline_testkit::error_code(&error) == Some(2013), "{error:#}");
    // A hint goes before the rule.
    let again = lose_while("/* query_retries=1 */ SELECT 'only once', SLEEP(1)")?;
    ensure!(again.as_deref().ok() == Some("only once"), "{again:?}");
    Ok(())
}

#[test]
fn a_permitted_user_is_told_the_route_of_a_statement() -> Result<()> {
    let name = "a_permitted_user_is_told_the_route_of_a_statement";
    if !is_available(Flavour::MariaDb, name) {
        return Ok(());
    }
    let rules = "[[rule]]\nid = 3\nmatch_digest = '^SELECT'\ncache_ttl = 5000\n\
                 [[rule]]\nid = 4\nmatch_digest = '^DO'\nerror_msg = 'no'\n";
    let server = one_server(shared_server(Flavour::MariaDb)?, 1, 20);
    let permitted = format!("explain_route_users = \"{}, x\"\n{server}{rules}", crate::stage::USER);
    let proxy = Trunkline::start(&permitted)?;
    let mut one = client(&proxy, "")?;
    let route = |one: &mut trunkline_testkit::SqlClient, sql: &str| -> Result<String> {
        let rows = one.sql(&format!("explain  ROUTE {sql}"))?;
        let cells = |row: Vec<Option<String>>| row.into_iter().flatten().collect::<Vec<_>>();
        Ok(rows.into_iter().map(|row| cells(row).join(": ")).collect::<Vec<_>>().join("\n"))
    };
    let said = route(&mut one, "SELECT 1 + 1")?;
    for line in [
        "access: reads, if what it names only reads",
        "rule: 3: matches",
        "cache: an answer up to 5000 ms old",
        "hostgroup: 0, ",
        "server: ",
    ] {
        ensure!(said.contains(line), "{line} is not in\n{said}");
    }
    ensure!(route(&mut one, "DO 1")?.contains("answer: error 1148"));
    ensure!(route(&mut one, "SELECT NOW()")?.contains("cache: not asked"));
    one.sql("SELECT GET_LOCK('e2e_route', 0)")?;
    let said = route(&mut one, "SELECT 1")?;
    ensure!(said.contains("session: is held on hostgroup 0: named_lock"), "{said}");
    ensure!(said.contains("hostgroup: 0, where the session is held"), "{said}");
    one.sql("BEGIN")?;
    let said = route(&mut one, "SELECT 1")?;
    ensure!(said.contains("hostgroup: 0, where the session's transaction is"), "{said}");
    one.sql("ROLLBACK")?;
    // For others it describes a column of a table of that name.
    let proxy = Trunkline::start(&format!("{server}{rules}"))?;
    fails(&mut client(&proxy, "")?, "EXPLAIN ROUTE SELECT 1", 1046)?;
    Ok(())
}

#[test]
fn a_comment_names_the_server_of_a_statement() -> Result<()> {
    let name = "a_comment_names_the_server_of_a_statement";
    if !is_available(Flavour::MariaDb, name) {
        return Ok(());
    }
    let replication = shared_replication(Flavour::MariaDb)?;
    let [one, two] = replication.replicas() else { anyhow::bail!("two replicas") };
    let primary = replication.primary();
    let config = format!(
        "workers = 1\n[[server]]\nhostgroup = 0\naddress = \"{}\"\ncomment = \"main\"\n\
         [[server]]\nhostgroup = 1\naddress = \"{}\"\ncomment = \"db1\"\nmax_connections = 1\n\
         [[server]]\nhostgroup = 1\naddress = \"{}\"\nweight = 100\n\
         [[replication]]\nwriter_hostgroup = 0\nreader_hostgroup = 1\n{}",
        primary.address(),
        one.address(),
        two.address(),
        user(0),
    );
    let proxy = Trunkline::start(&config)?;
    let mut clients = (0..4).map(|_| client(&proxy, "mark")).collect::<Result<Vec<_>>>()?;
    let ask = |client: &mut trunkline_testkit::SqlClient, server: &str| {
        text(client, &format!("SELECT name FROM server -- maxscale route to server {server}"))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(move || -> Result<()> {
                    for _ in 0..30 {
                        ensure!(ask(client, "db1")? == "replica1");
                        ensure!(ask(client, &two.address())? == "replica2");
                        ensure!(ask(client, "main")? == "primary");
                        // One that nobody knows is no hint.
                        ensure!(ask(client, "nobody")?.starts_with("replica"));
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?
        })
    })?;
    // A write does not go to a reader, whatever a comment says.
    let [first, ..] = clients.as_mut_slice() else { anyhow::bail!("four clients") };
    first.sql("INSERT INTO note (text) VALUES ('hinted') -- maxscale route to server db1")?;
    let count = "SELECT COUNT(*) FROM mark.note WHERE text = 'hinted'";
    ensure!(primary.value(count)?.as_deref() == Some("1"));
    Ok(())
}

#[test]
fn who_waits_for_one_server_keeps_nobody_from_the_others() -> Result<()> {
    let name = "who_waits_for_one_server_keeps_nobody_from_the_others";
    if !is_available(Flavour::MariaDb, name) {
        return Ok(());
    }
    let replication = shared_replication(Flavour::MariaDb)?;
    let [one, two] = replication.replicas() else { anyhow::bail!("two replicas") };
    let config = format!(
        "workers = 1\n[[server]]\nhostgroup = 0\naddress = \"{}\"\n\
         [[server]]\nhostgroup = 1\naddress = \"{}\"\ncomment = \"db1\"\nmax_connections = 1\n\
         [[server]]\nhostgroup = 1\naddress = \"{}\"\nweight = 1000000\n\
         [[replication]]\nwriter_hostgroup = 0\nreader_hostgroup = 1\n{}",
        replication.primary().address(),
        one.address(),
        two.address(),
        user(0),
    );
    let proxy = Trunkline::start(&config)?;
    let mut clients = (0..3).map(|_| client(&proxy, "mark")).collect::<Result<Vec<_>>>()?;
    let [busy, waits, free] = clients.as_mut_slice() else { anyhow::bail!("three clients") };
    let holder = busy.connection_id();
    std::thread::scope(|scope| {
        // What runs where a comment says so takes that server's only connection.
        let slow = "SELECT SLEEP(60), 'heldserver' -- maxscale route to server db1";
        let slow = scope.spawn(move || busy.sql(slow).is_err());
        let runs = "SELECT NULLIF(COUNT(*), 0) FROM information_schema.processlist \
                    WHERE info LIKE 'SELECT SLEEP(60), ''heldserver''%'";
        wait_until("the slow statement runs", SOON, || one.value(runs))?;
        let named = "SELECT name FROM server -- maxscale route to server db1";
        let named = scope.spawn(move || text(waits, named));
        wait_until("the second one waits", SOON, || {
            Ok(status(&proxy)?.pointer("/waiting/1").filter(|n| n.as_u64() == Some(1)).cloned())
        })?;
        for _ in 0..3 {
            ensure!(text(free, "SELECT name FROM server")? == "replica2");
        }
        ensure!(!named.is_finished(), "it was served by a server that is at its cap");
        free.sql(&format!("KILL QUERY {holder}"))?;
        ensure!(named.join().map_err(|_| anyhow::anyhow!("a client panicked"))?? == "replica1");
        slow.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        Ok(())
    })
}

/// Denies what names the table, unless it names another one too.
const DENIES: &str = r#"
[[rule]]
id = 10
match_pattern = "(?<!no)e2e_secrets(?!\\w)"
error_msg = "not here"
"#;

#[test]
fn padding_gets_nobody_past_a_rule_that_denies() -> Result<()> {
    let proxy = with_rules(Flavour::MariaDb, DENIES)?;
    let mut one = client(&proxy, "")?;
    for padding in ["/*".to_owned() + &"x".repeat(140_000) + "*/", " ".repeat(3_000_000)] {
        fails(&mut one, &format!("SELECT 1 {padding} FROM e2e_secrets"), 1148)?;
    }
    ensure!(text(&mut one, "SELECT 1")? == "1");
    ensure!(proxy.log().contains("rule 10: match_pattern has look-around"), "{}", proxy.log());
    Ok(())
}
