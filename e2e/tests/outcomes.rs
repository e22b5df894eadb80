//! `commit_outcome = "auto"`: a connection is cut between a `COMMIT`, or a write in autocommit, and
//! its answer, and its client is told what became of that. Every answer is compared with what the
//! server has.

mod cutter;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Options, Server, SqlClient, Trunkline, error_code, wait_until};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, client, is_available, new_schema, one_server, start, user,
};
use cutter::{Cut, Cutter};

const LOST: u16 = 2013;
const ROLLED_BACK: u16 = 1213;

fn proxy_before(cutter: &Cutter, settings: &str) -> Result<Trunkline> {
    Trunkline::start(&format!(
        "{settings}workers = 1\ncatalog_wait_ms = 10000\ncommit_outcome = \"auto\"\n\
         [[server]]\nhostgroup = 0\naddress = \"127.0.0.1:{}\"\nmax_connections = 20\n{}",
        cutter.port,
        user(0)
    ))
}

/// What a client was told of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    Done,
    NotDone,
    Nothing,
}

pub fn told(answer: Result<Vec<trunkline_testkit::Row>>) -> Told {
    match answer {
        Ok(_) => Told::Done,
        Err(error) => match error_code(&error) {
            Some(ROLLED_BACK) => Told::NotDone,
            Some(LOST) if format!("{error:#}").contains("was carried out") => {
                match format!("{error:#}").contains("nobody knows") {
                    true => Told::Nothing,
                    false => Told::Done,
                }
            }
            _ => Told::Nothing,
        },
    }
}

/// Whether the row is there, once nothing is under way any more that may bring it.
fn has(server: &Server, schema: &str, n: usize) -> Result<bool> {
    let count = server.value(&format!("SELECT COUNT(*) FROM {schema}.t WHERE n = {n}"))?;
    let count = count.unwrap_or_default();
    ensure!(count == "0" || count == "1", "{count} rows of {n}");
    Ok(count == "1")
}

/// One statement is cut; what its client is told of it.
fn cut_one(
    one: &mut SqlClient,
    cutter: &Cutter,
    n: usize,
    (is_commit, cut): (bool, Cut),
) -> Result<Told> {
    let insert = format!("INSERT INTO t VALUES ({n})");
    let statement = match is_commit {
        true => {
            one.sql("BEGIN")?;
            one.sql(&insert)?;
            "COMMIT"
        }
        false => &insert,
    };
    cutter.cut(if is_commit { "COMMIT" } else { "INSERT" }, cut);
    let said = told(one.sql(statement));
    ensure!(cutter.has_cut(), "{cut:?} was not made");
    Ok(said)
}

#[test]
fn issue_20_each_cut_commit_is_told_the_truth() -> Result<()> {
    let test = "issue_20_each_cut_commit_is_told_the_truth";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let server = start(flavour, logged())?;
        let schema = new_schema(&server, "CREATE TABLE t (n INT PRIMARY KEY)")?;
        let cutter = Cutter::before(server.port())?;
        let proxy = proxy_before(&cutter, "")?;
        let mut one = client(&proxy, &schema)?;
        one.sql("INSERT INTO t VALUES (1000000)")?;
        // Each byte of the statements, and of their answers with what trackers tell.
        let cuts = |statement: usize| {
            let of_statement = (0..=statement).map(Cut::Statement);
            of_statement.chain((0..=80).map(Cut::Answer))
        };
        let cuts = cuts(12).map(|cut| (true, cut)).chain(cuts(34).map(|cut| (false, cut)));
        let mut seen: BTreeMap<(bool, Told, bool), usize> = BTreeMap::new();
        let mut count = 0;
        for (n, (is_commit, cut)) in cuts.enumerate() {
            let said = cut_one(&mut one, &cutter, n, (is_commit, cut))
                .with_context(|| format!("{}: {n} {cut:?}\n{}", flavour.name(), proxy.log()))?;
            let is_there = has(&server, &schema, n)?;
            *seen.entry((is_commit, said, is_there)).or_default() += 1;
            count += 1;
            let is_true = match said {
                Told::Done => is_there,
                Told::NotDone => !is_there,
                Told::Nothing => true,
            };
            ensure!(
                is_true,
                "{}: {n} {cut:?}: told {said:?}, there {is_there}\n{}",
                flavour.name(),
                proxy.log()
            );
            if one.sql("DO 1").is_err() {
                one = client(&proxy, &schema)?;
            }
        }
        println!("{}: {count} cuts: {seen:?}", flavour.name());
        ensure!(count >= 200, "{count} cuts");
        let unknown: usize =
            seen.iter().filter(|((_, it, _), _)| *it == Told::Nothing).map(|(_, n)| *n).sum();
        ensure!(unknown == 0, "{unknown} were told nothing: {seen:?}\n{}", proxy.log());
        let metric = |outcome: &str| {
            let labels = format!("outcome=\"{outcome}\"");
            proxy.metric("trunkline_commit_outcomes_total", &labels)
        };
        ensure!(metric("committed")?.is_some_and(|count| count > 50.0));
        ensure!(metric("not_committed")?.is_some_and(|count| count > 30.0));
    }
    Ok(())
}

/// A server that numbers its transactions.
fn logged() -> Options {
    Options::default().arg("--log-bin").arg("--server-id=1")
}

#[test]
fn a_commit_that_is_under_way_is_ended_before_anybody_looks() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_commit_that_is_under_way") {
            continue;
        }
        let server = start(flavour, logged())?;
        let schema = new_schema(&server, "CREATE TABLE t (n INT PRIMARY KEY)")?;
        let cutter = Cutter::before(server.port())?;
        let proxy = proxy_before(&cutter, "")?;
        let mut one = client(&proxy, &schema)?;
        one.sql("INSERT INTO t VALUES (1000000)")?;
        // The server waits for a lock, and would commit when it has that.
        let mut holder = server.root()?;
        holder.sql(&format!("BEGIN; INSERT INTO {schema}.t VALUES (1)"))?;
        cutter.cut("VALUES (1)", Cut::Answer(0));
        let began = std::time::Instant::now();
        let said = told(one.sql("INSERT INTO t VALUES (1)"));
        holder.sql("ROLLBACK")?;
        ensure!(said == Told::NotDone, "{said:?}\n{}", proxy.log());
        ensure!(began.elapsed() < SOON, "{:?}", began.elapsed());
        ensure!(!has(&server, &schema, 1)?);
        // The session goes on, and the next transaction is told of as well.
        let said = cut_one(&mut one, &cutter, 2, (true, Cut::Answer(0)))?;
        ensure!(said != Told::Nothing && has(&server, &schema, 2)? == (said == Told::Done));
        rolled_back_and_logged(&server, &schema, &cutter, &proxy)?;
        if flavour == Flavour::MariaDb {
            unacknowledged_and_out_of_time(&server, &schema)?;
        }
    }
    Ok(())
}

/// A write in autocommit that waits for a replica when its time is over goes on waiting: MariaDB's
/// `KILL QUERY` would end the wait and say OK, and the write would be lost with that server.
fn unacknowledged_and_out_of_time(server: &Server, schema: &str) -> Result<()> {
    let proxy =
        Trunkline::start(&format!("default_query_timeout = 200\n{}", one_server(server, 1, 5)))?;
    let mut one = client(&proxy, schema)?;
    one.sql("DELETE FROM t WHERE n = 41")?;
    let kills = "SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name = 'COM_KILL'";
    let before = server.value(kills)?;
    let semi_sync = |state: &str| {
        server.sql(&format!(
            "SET GLOBAL rpl_semi_sync_master_wait_no_slave = 1; \
             SET GLOBAL rpl_semi_sync_master_timeout = 60000; \
             SET GLOBAL rpl_semi_sync_master_enabled = {state}"
        ))
    };
    semi_sync("ON")?;
    let answer = std::thread::scope(|scope| {
        let waits = scope.spawn(move || one.sql("INSERT INTO t VALUES (41)"));
        let seen = wait_until("the server is told to end it", SOON, || {
            let is_told = server.value(kills)? != before;
            let under_way = server.value(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'KILL%'",
            )?;
            Ok((is_told && under_way.as_deref() == Some("0")).then_some(()))
        });
        let waiting = server.value(
            "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE state LIKE 'Waiting for semi-sync ACK%'",
        );
        semi_sync("OFF")?;
        let answer = waits.join().ok().context("the client has panicked")?;
        seen?;
        ensure!(waiting?.as_deref() == Some("1"), "it does not wait any more");
        answer
    });
    answer?;
    Ok(())
}

/// A transaction that is rolled back is logged all the same where a table without transactions
/// keeps what it wrote there: its number in the log does not say that it was carried out.
fn rolled_back_and_logged(
    server: &Server,
    schema: &str,
    cutter: &Cutter,
    proxy: &Trunkline,
) -> Result<()> {
    server.sql(&format!("CREATE TABLE {schema}.kept (n INT) ENGINE = MyISAM"))?;
    let mut one = client(proxy, schema)?;
    if server.flavour() == Flavour::MariaDb {
        one.sql("SET SESSION binlog_format = STATEMENT")?;
    }
    one.sql("INSERT INTO t VALUES (30)")?;
    one.sql("BEGIN")?;
    one.sql("INSERT INTO kept VALUES (31)")?;
    one.sql("INSERT INTO t VALUES (31)")?;
    cutter.cut("COMMIT", Cut::Statement(0));
    let said = told(one.sql("COMMIT"));
    let is_there = has(server, schema, 31)?;
    ensure!(said == Told::Nothing && !is_there, "{said:?}, {is_there}\n{}", proxy.log());
    // Nor does it say so of a write to such a table in autocommit, which may end half-way.
    let mut one = client(proxy, schema)?;
    one.sql("INSERT INTO t VALUES (32)")?;
    cutter.cut("INSERT INTO kept", Cut::Answer(0));
    let said = told(one.sql("INSERT INTO kept VALUES (33), (34)"));
    ensure!(said == Told::Nothing, "{said:?}\n{}", proxy.log());
    Ok(())
}

#[test]
fn an_account_that_may_not_mark_is_told_2013_and_a_log_says_so() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "an_account_that_may_not_mark") {
            continue;
        }
        let server = start(flavour, logged())?;
        let schema = new_schema(&server, "CREATE TABLE t (n INT PRIMARY KEY)")?;
        let drop_user = format!("DROP USER {USER}");
        let make = format!("CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'").replace("'s", "''s");
        server.sql(&format!("{drop_user}; {make}; GRANT ALL ON {schema}.* TO {USER}"))?;
        let cutter = Cutter::before(server.port())?;
        let proxy = proxy_before(&cutter, "")?;
        let mut one = client(&proxy, &schema)?;
        let privileges = match flavour {
            Flavour::MariaDb => "BINLOG REPLAY",
            Flavour::MySql => "TRANSACTION_GTID_TAG, SESSION_VARIABLES_ADMIN",
        };
        let grant = format!("GRANT {privileges} ON *.* TO '{USER}'@'%'");
        wait_until("the start tells what to grant", SOON, || {
            let log = proxy.log();
            let mut lines = log.lines();
            let is_it = |line: &str| line.contains("may not mark") && line.contains(&grant);
            Ok(lines.any(is_it).then_some(()))
        })?;
        let mark = proxy.log_mark();
        one.sql("INSERT INTO t VALUES (1000000)")?;
        let lacks = format!("it lacks {privileges}");
        proxy.wait_log(mark, &lacks, SOON)?;
        let said = cut_one(&mut one, &cutter, 1, (true, Cut::Answer(0)))?;
        ensure!(said == Told::Nothing, "{said:?}");
        wait_until("it is counted", SOON, || {
            let labels = "cause=\"no_mark\"";
            let count = proxy.metric("trunkline_commit_outcomes_unknown_total", labels)?;
            Ok((count == Some(1.0)).then_some(()))
        })?;
        // A grant counts for connections that are made behind it.
        server.sql(&grant)?;
        let proxy = proxy_before(&cutter, "")?;
        let mut one = client(&proxy, &schema)?;
        one.sql("INSERT INTO t VALUES (1000001)")?;
        let said = cut_one(&mut one, &cutter, 2, (true, Cut::Answer(5)))?;
        ensure!(said == Told::Done, "{said:?}\n{}", proxy.log());
        ensure!(has(&server, &schema, 2)?);
    }
    Ok(())
}
