//! Transactions that are lost with their connections and repeated elsewhere.

use trunkline_testkit::{Options, SqlClient};

use super::*;
use crate::stage::{new_schema, one_server, start as start_server};

/// Ten accounts, with 100 each, and logs for five clients: two that generate ids in one table may
/// get each other's the second time, and are told.
fn accounts() -> String {
    let logs = "(id INT AUTO_INCREMENT PRIMARY KEY, number INT)";
    let logs: Vec<_> = (0..5).map(|log| format!("CREATE TABLE log{log} {logs}")).collect();
    let rows: Vec<_> = (0..10).map(|id| format!("({id}, 100)")).collect();
    format!(
        "CREATE TABLE account (id INT PRIMARY KEY, balance INT); {}; \
         INSERT INTO account VALUES {}",
        logs.join("; "),
        rows.join(", ")
    )
}

/// What one server runs for the proxy's sessions is ended: every connection of the account.
fn kill_connections(server: &Server) -> Result<()> {
    let asks = format!(
        "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE user = '{USER}'"
    );
    for id in server.value(&asks)?.unwrap_or_default().split(',').filter(|id| !id.is_empty()) {
        // One that has gone meanwhile is as good.
        drop(server.sql(&format!("KILL {id}")));
    }
    Ok(())
}

/// All money, how many transfers are noted, and how many different ones.
fn sums(server: &Server, schema: &str) -> Result<String> {
    let logs: Vec<_> = (0..5).map(|log| format!("SELECT number FROM {schema}.log{log}")).collect();
    let logs = logs.join(" UNION ALL ");
    let asks = format!(
        "SELECT CONCAT((SELECT SUM(balance) FROM {schema}.account), ' ', COUNT(*), ' ', \
         COUNT(DISTINCT number)) FROM ({logs}) AS noted"
    );
    server.value(&asks)?.context("a sum")
}

/// Moves money, and notes it; its connection may be ended behind each step.
fn transfer(client: &mut SqlClient, number: u32, mut step: impl FnMut(u32)) -> Result<()> {
    let (from, to) = (number % 10, (number + 5) % 10);
    client.sql("BEGIN")?;
    step(0);
    let read = format!("SELECT balance FROM account WHERE id = {from} FOR UPDATE");
    let before = client.value(&read)?.context("an account")?;
    step(1);
    let update = "UPDATE account SET balance = balance + ? WHERE id = ?";
    client.execute(update, &["-1", &from.to_string()])?;
    step(2);
    client.sql(&format!("UPDATE account SET balance = balance + 1 WHERE id = {to}"))?;
    let log = format!("log{from}");
    client.sql(&format!("INSERT INTO {log} (number) VALUES ({number})"))?;
    let id = client.value("SELECT LAST_INSERT_ID()")?.context("an id")?;
    step(3);
    let noted = client.value(&format!("SELECT number FROM {log} WHERE id = {id}"))?;
    ensure!(noted == Some(number.to_string()), "{noted:?} under {id}");
    let after = client.value(&read)?.context("an account")?;
    ensure!(after.parse::<i32>()? == before.parse::<i32>()? - 1, "{before} {after}");
    client.sql("COMMIT")?;
    Ok(())
}

#[test]
fn issue_20_a_transaction_whose_connection_is_killed_goes_on() -> Result<()> {
    let test = "issue_20_a_transaction_whose_connection_is_killed_goes_on";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let server = start_server(flavour, Options::default())?;
        let schema = new_schema(&server, &accounts())?;
        let config = format!("catalog_wait_ms = 10000\n{}", one_server(&server, 1, 20));
        let proxy = Trunkline::start(&format!("transaction_replay = true\n{config}"))?;
        let mut one = client(&proxy, &schema)?;
        for (number, at) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
            transfer(&mut one, number, |step| {
                if step == at {
                    kill_connections(&server).expect("they can be killed");
                }
            })
            .with_context(|| format!("{}: behind step {at}\n{:?}", flavour.name(), proxy.log()))?;
        }
        // In the middle of a statement, and twice.
        one.sql("BEGIN")?;
        one.sql("UPDATE account SET balance = balance - 1 WHERE id = 1")?;
        thread::scope(|scope| {
            let slow = "UPDATE account SET balance = balance + 1 + SLEEP(1) WHERE id = 2";
            let slow = scope.spawn(|| one.sql(slow).map(drop));
            let asks = "SELECT MAX(id) FROM information_schema.processlist \
                        WHERE info LIKE '%SLEEP(1)%' AND info NOT LIKE '%processlist%'";
            for _ in 0..2 {
                let id = wait_until("it sleeps", SOON, || server.value(asks))?;
                server.sql(&format!("KILL {id}"))?;
                let has_gone = format!("{asks} AND id = {id}");
                wait_until("it has gone", SOON, || {
                    Ok(server.value(&has_gone)?.is_none().then_some(()))
                })?;
            }
            slow.join().expect("no panic")
        })
        .with_context(|| format!("{}\n{:?}", flavour.name(), proxy.log()))?;
        one.sql("COMMIT")?;
        ensure!(sums(&server, &schema)? == "1000 4 4", "{}", sums(&server, &schema)?);
        // What has changed meanwhile is told.
        one.sql("BEGIN")?;
        ensure!(one.value("SELECT COUNT(*) FROM log1")? == Some("1".to_owned()));
        server.sql(&format!("INSERT INTO {schema}.log1 (number) VALUES (99)"))?;
        kill_connections(&server)?;
        let told = fails(&mut one, "INSERT INTO log1 (number) VALUES (5)", ROLLED_BACK)?;
        ensure!(told.contains("statement 2 of it has another rows"), "{told}");
        // A table without transactions keeps what is written to it.
        server.sql(&format!("CREATE TABLE {schema}.kept (a INT) ENGINE = MyISAM"))?;
        one.sql("BEGIN")?;
        one.sql("INSERT INTO kept VALUES (1)")?;
        kill_connections(&server)?;
        fails(&mut one, "SELECT 1", ROLLED_BACK)?;
        let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.kept"))?;
        ensure!(rows == Some("1".to_owned()), "{rows:?} rows");
        // Without replay, it is told at once.
        let proxy = Trunkline::start(&config)?;
        let mut one = client(&proxy, &schema)?;
        one.sql("BEGIN")?;
        one.sql("INSERT INTO log1 (number) VALUES (6)")?;
        kill_connections(&server)?;
        fails(&mut one, "COMMIT", ROLLED_BACK)?;
        ensure!(sums(&server, &schema)? == "1000 5 5", "{}", sums(&server, &schema)?);
    }
    Ok(())
}

#[test]
fn issue_20_open_transactions_survive_their_primary() -> Result<()> {
    let test = "issue_20_open_transactions_survive_their_primary";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let replication = replication(flavour, 1)?;
        let (old, new) = (replication.primary(), &replication.replicas()[0]);
        old.sql(&format!("CREATE DATABASE bank; USE bank; {}", accounts()))?;
        replication.wait_caught_up(SOON)?;
        let proxy = start_with("transaction_replay = true\n", &[old, new])?;
        wait_role(&proxy, old, "writer")?;
        wait_role(&proxy, new, "reader")?;
        // Each is in another place of its transfer when the primary dies, and waits there.
        let barrier = std::sync::Barrier::new(5);
        let told = thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|at| {
                    let (proxy, barrier) = (&proxy, &barrier);
                    scope.spawn(move || {
                        let mut client = client(proxy, "bank")?;
                        transfer(&mut client, 10 + at, |step| {
                            if step == at {
                                barrier.wait();
                                barrier.wait();
                            }
                        })
                    })
                })
                .collect();
            barrier.wait();
            let killed = old.kill_hard();
            let promoted = new.sql(Words::of(flavour).promote);
            barrier.wait();
            let done: Result<Vec<()>> =
                clients.into_iter().map(|it| it.join().expect("no panic")).collect();
            killed.and(promoted.map(drop)).and(done)
        });
        told.with_context(|| format!("{}\n{:?}", flavour.name(), proxy.log()))?;
        ensure!(sums(new, "bank")? == "1000 4 4", "{}", sums(new, "bank")?);
    }
    Ok(())
}
