//! The firewall and limits on rates.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, SqlClient, Trunkline, error_code};

use crate::backends;
use crate::stage::{
    PASSWORD, USER, client, fails, is_available, one_server, shared_server, status, text,
};
use crate::wire::{Shape, Wire, code};

fn counter(proxy: &Trunkline, name: &str) -> Result<u64> {
    let value = status(proxy)?.pointer(&format!("/counters/{name}")).cloned();
    value.and_then(|value| value.as_u64()).with_context(|| format!("no counter {name}"))
}

fn digest_of(statement: &str) -> String {
    use trunkline_sql::digest::{Digester, Settings, format};
    format(Digester::new().digest(statement.as_bytes(), &Settings::default()).hash).to_string()
}

fn with(more: &str) -> Result<Option<Trunkline>> {
    if !is_available(Flavour::MariaDb, "guards") {
        return Ok(None);
    }
    let settings = "firewall_whitelist_enabled = true\n\
                    firewall_whitelist_errormsg = 'not on the list'\n";
    let server = one_server(shared_server(Flavour::MariaDb)?, 1, 20);
    Ok(Some(Trunkline::start(&format!("{settings}{server}{more}"))?))
}

#[test]
fn only_what_is_on_the_list_runs() -> Result<()> {
    let allowed = digest_of("SELECT 1");
    let list = format!(
        "[[rule]]\nid = 1\nmatch_digest = '^SELECT blocked'\nerror_msg = 'by a rule'\n\
         [[firewall_user]]\nusername = '{USER}'\nmode = 'PROTECTING'\n\
         [[firewall_rule]]\nusername = '{USER}'\ndigest = '{allowed}'\n"
    );
    let Some(proxy) = with(&list)? else { return Ok(()) };
    let mut one = client(&proxy, "")?;
    ensure!(text(&mut one, "SELECT 1")? == "1");
    ensure!(text(&mut one, "SELECT 42")? == "42", "literals make no difference");
    for denied in ["SELECT 1, 2", "SELECT 1 UNION SELECT 2", "DO SLEEP(0)"] {
        let message = fails(&mut one, denied, 1148)?;
        ensure!(message.contains("not on the list"), "{message}");
    }
    let message = fails(&mut one, "SELECT blocked", 1148)?;
    ensure!(message.contains("by a rule"), "a rule's answer goes before: {message}");
    let error = one.execute("SELECT ?, 2", &["1"]).err().context("it was prepared")?;
    ensure!(error_code(&error) == Some(1148), "{error:#}");
    ensure!(counter(&proxy, "statements_refused_firewall")? >= 4);
    // The session goes on.
    ensure!(text(&mut one, "SELECT 2")? == "2");
    Ok(())
}

#[test]
fn modes_and_users_without_a_row_differ() -> Result<()> {
    let users = format!(
        "[[firewall_user]]\nusername = '{USER}'\nmode = 'DETECTING'\n\
         [[user]]\nname = 'stranger'\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 0\n\
         [[user]]\nname = 'swift'\npassword = \"{PASSWORD}\"\ndefault_hostgroup = 0\n\
         fast_forward = true\n"
    );
    let Some(proxy) = with(&users)? else { return Ok(()) };
    let mut one = client(&proxy, "")?;
    ensure!(text(&mut one, "SELECT 5")? == "5");
    ensure!(counter(&proxy, "statements_detected")? == 1);
    ensure!(counter(&proxy, "statements_refused_firewall")? == 0);
    let mut stranger = proxy.connect("stranger", PASSWORD, "")?;
    fails(&mut stranger, "SELECT 5", 1148)?;
    // What can't be looked at does not run.
    let swift = proxy.connect("swift", PASSWORD, "").and_then(|mut one| one.sql("SELECT 5"));
    let error = swift.err().context("a session that nobody looks at has run a statement")?;
    ensure!(error_code(&error) == Some(1148), "{error:#}");
    Ok(())
}

#[test]
fn the_firewall_learns_from_statistics() -> Result<()> {
    let Some(server) = backends::mariadb("the_firewall_learns")? else { return Ok(()) };
    let name = "guard_admin";
    backends::account(server, name)?;
    let config = backends::Config::new("", server).user(name);
    let proxy = Trunkline::start_database(config.text())?;
    let mut admin = SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")?;
    let mut one = proxy.connect(name, backends::PASSWORD, name)?;
    ensure!(text(&mut one, "SELECT 'learned', 1")? == "learned");
    admin.sql(&format!(
        "INSERT INTO mysql_firewall_whitelist_users (username, client_address, mode, comment) \
         VALUES ('{name}', '', 'PROTECTING', '')"
    ))?;
    admin.sql(
        "INSERT INTO mysql_firewall_whitelist_rules \
         (active, username, client_address, schemaname, flagIN, digest, comment) \
         SELECT DISTINCT 1, username, client_address, schemaname, 0, digest, '' \
         FROM stats_mysql_query_digest",
    )?;
    admin.sql("SET mysql-firewall_whitelist_enabled = 1")?;
    admin.sql("LOAD MYSQL FIREWALL TO RUNTIME")?;
    admin.sql("LOAD MYSQL VARIABLES TO RUNTIME")?;
    let rules = "SELECT COUNT(*) FROM runtime_mysql_firewall_whitelist_rules";
    ensure!(admin.value(rules)?.as_deref() != Some("0"));
    ensure!(text(&mut one, "SELECT 'learned', 2")? == "learned");
    let message = fails(&mut one, "SELECT 'never seen'", 1148)?;
    ensure!(message.contains("Firewall blocked this query"), "{message}");
    let route = admin.sql("EXPLAIN ROUTE SELECT 'never seen'")?;
    let said = format!("{route:?}");
    ensure!(said.contains("from the firewall: Firewall blocked this query"), "{said}");
    let refused = "SELECT count FROM stats_refusals WHERE cause = 'firewall'";
    ensure!(admin.value(refused)?.as_deref() == Some("1"));
    // A row that is wrong is named, and nothing is loaded.
    admin.sql(
        "INSERT INTO mysql_firewall_whitelist_rules \
         (username, client_address, schemaname, digest, comment) VALUES ('x', '', '', 'zz', '')",
    )?;
    let error = admin.sql("LOAD MYSQL FIREWALL TO RUNTIME").err().context("it was loaded")?;
    ensure!(format!("{error:#}").contains("mysql_firewall_whitelist_rules"), "{error:#}");
    ensure!(text(&mut one, "SELECT 'learned', 3")? == "learned");
    Ok(())
}

#[test]
fn the_admin_port_explains_by_the_servers_own_rules() -> Result<()> {
    let Some(server) = backends::mariadb("the_admin_port_explains")? else { return Ok(()) };
    let name = "guard_explains";
    backends::account(server, name)?;
    let config = backends::Config::new("", server).user(name);
    let proxy = Trunkline::start_database(config.text())?;
    let mut admin = SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")?;
    let said = format!("{:?}", admin.sql("EXPLAIN ROUTE SELECT JSON_DETAILED('{}')")?);
    ensure!(!said.contains("is not built in"), "MariaDB has this function: {said}");
    Ok(())
}

#[test]
fn limits_refuse_or_hold_back_what_comes_too_often() -> Result<()> {
    if !is_available(Flavour::MariaDb, "limits") {
        return Ok(());
    }
    let digest = digest_of("SELECT 'slowly'");
    let limits = format!(
        "[[rule]]\nid = 7\nmatch_digest = '^SELECT .,.$'\n\
         [[limit]]\nscope = 'rule'\nname = '7'\nrate = 1\nburst = 3\n\
         [[limit]]\nscope = 'digest'\nname = '{digest}'\nrate = 20\nburst = 1\n\
         wait_max_ms = 2000\n\
         [[limit]]\nscope = 'user'\nrate = 1000\nburst = 1000\n"
    );
    let server = one_server(shared_server(Flavour::MariaDb)?, 1, 20);
    let proxy = Trunkline::start(&format!("{server}{limits}"))?;
    let mut one = client(&proxy, "")?;
    let mut refused = 0;
    for _ in 0..6 {
        match one.sql("SELECT 1, 2") {
            Ok(_) => {}
            Err(error) => {
                ensure!(error_code(&error) == Some(1226), "{error:#}");
                refused += 1;
            }
        }
    }
    ensure!((1..=3).contains(&refused), "{refused} refused");
    ensure!(counter(&proxy, "statements_refused_limit")? == refused);
    let begin = Instant::now();
    for _ in 0..6 {
        ensure!(text(&mut one, "SELECT 'x'")? == "x");
    }
    let took = begin.elapsed();
    ensure!(took >= Duration::from_millis(230), "six at 20 a second took {took:?}");
    Ok(())
}

/// Prepares by command; the server's or the proxy's number of it.
fn prepare(wire: &mut Wire, text: &str) -> Result<[u8; 4]> {
    let made = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
    match made.get(4..9) {
        Some([0, a, b, c, d]) => Ok([*a, *b, *c, *d]),
        _ => anyhow::bail!("not prepared: {:?}", wire.outcomes(&made)?),
    }
}

/// Runs what was prepared, with one whole number as its parameter: what the answer says.
fn run(wire: &mut Wire, id: [u8; 4], number: u8) -> Result<String> {
    let mut body = id.to_vec();
    body.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1, 1, 0, number]);
    let answer = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn issue_16_a_rule_that_protects_rewrites_what_was_prepared_before_it() -> Result<()> {
    if !is_available(Flavour::MariaDb, "guards") {
        return Ok(());
    }
    let server = one_server(shared_server(Flavour::MariaDb)?, 1, 20);
    let proxy = Trunkline::start(&server)?;
    let mut wire = Wire::login(&proxy, USER, PASSWORD, "")?;
    let hidden = prepare(&mut wire, "SELECT 'secret', ?")?;
    let other = prepare(&mut wire, "SELECT 'unseen', ?")?;
    let free = prepare(&mut wire, "SELECT 'public', ?")?;
    ensure!(run(&mut wire, hidden, 1)?.contains("secret"));
    let rules = "[[rule]]\nid = 1\nmatch_pattern = \"'secret'\"\nreplace_pattern = \"'hidden'\"\n\
                 attributes = '{\"protects\": true}'\n\
                 [[rule]]\nid = 2\nmatch_pattern = \"'unseen'\"\nreplace_pattern = '?'\n\
                 attributes = '{\"protects\": true}'\n\
                 [[rule]]\nid = 3\nmatch_pattern = \"'public'\"\nreplace_pattern = \"'other'\"\n";
    let mark = proxy.reload(&format!("{server}{rules}"))?;
    proxy.wait_log(mark, "in force", Duration::from_secs(20))?;
    for number in [2, 3] {
        let answer = run(&mut wire, hidden, number)?;
        ensure!(answer.contains("hidden") && !answer.contains("secret"), "{answer}");
    }
    // Another number of parameters than its client knows.
    let answer = run(&mut wire, other, 2)?;
    ensure!(answer.contains("could not rewrite") && !answer.contains("unseen"), "{answer}");
    // A rule that does not protect is for what is prepared behind it.
    ensure!(run(&mut wire, free, 2)?.contains("public"));
    let again = prepare(&mut wire, "SELECT 'secret', ?")?;
    ensure!(run(&mut wire, again, 4)?.contains("hidden"));
    Ok(())
}

#[test]
fn issue_16_the_firewall_looks_at_what_a_client_has_prepared() -> Result<()> {
    let (asked, other) = (digest_of("SELECT a, ?"), digest_of("SELECT c, ?"));
    let list = format!(
        "[[rule]]\nid = 1\nmatch_pattern = '^SELECT a, '\nreplace_pattern = \"SELECT 'seven', \"\n\
         [[rule]]\nid = 2\nmatch_pattern = '^SELECT c, '\nreplace_pattern = \"SELECT 'three', \"\n\
         attributes = '{{\"protects\": true}}'\n\
         [[firewall_user]]\nusername = '{USER}'\nmode = 'PROTECTING'\n\
         [[firewall_rule]]\nusername = '{USER}'\ndigest = '{asked}'\n\
         [[firewall_rule]]\nusername = '{USER}'\ndigest = '{other}'\n"
    );
    let Some(proxy) = with(&list)? else { return Ok(()) };
    let mut wire = Wire::login(&proxy, USER, PASSWORD, "")?;
    for (text, expected) in [("SELECT a, ?", "seven"), ("SELECT c, ?", "three")] {
        let id = prepare(&mut wire, text)?;
        for number in [2, 5] {
            let answer = run(&mut wire, id, number)?;
            ensure!(answer.contains(expected), "{text}: {answer}");
        }
    }
    Ok(())
}
