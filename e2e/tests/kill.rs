//! `KILL`: by the numbers that clients know, on servers that know others, and never somebody
//! else's statement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_protocol::codec::frame::Header;
use trunkline_testkit::{
    AuthPlugin, Flavour, Server, SqlClient, Trunkline, error_code, wait_until,
};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, before, client, fails, is_available, new_schema, one_server,
    shared_server, status, text, wait_pins,
};
use crate::wire::{Shape, Wire, code};

fn on_both(test: &str, check: impl Fn(&Server) -> Result<()>) -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, test) {
            check(shared_server(flavour)?).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// A sleep of a minute that tells itself from others by its mark.
fn sleep(mark: &str) -> String {
    format!("SELECT SLEEP(60) /* {mark} */")
}

/// The server's number of the connection that runs a marked statement, once it does.
fn wait_running(server: &Server, mark: &str) -> Result<String> {
    wait_until(&format!("{mark} runs"), SOON, || running(server, mark))
}

fn running(server: &Server, mark: &str) -> Result<Option<String>> {
    let rows = server.sql("SHOW FULL PROCESSLIST")?;
    let is_it = |row: &&Vec<Option<String>>| {
        row.get(7).and_then(Option::as_deref).is_some_and(|info| info.contains(mark))
    };
    Ok(rows.iter().find(is_it).and_then(|row| row.first().cloned().flatten()))
}

fn wait_gone(server: &Server, mark: &str) -> Result<()> {
    wait_until(&format!("{mark} has gone"), SOON, || {
        Ok(running(server, mark)?.is_none().then_some(()))
    })
}

/// Runs a marked sleep on a thread and `kill` when it runs; what the sleep came to.
fn interrupted(
    server: &Server,
    mut victim: SqlClient,
    mark: &str,
    kill: impl FnOnce(u32) -> Result<()>,
) -> Result<(SqlClient, Result<String>)> {
    let number = victim.connection_id();
    std::thread::scope(|scope| {
        let sleeping = scope.spawn(move || {
            let outcome = text(&mut victim, &sleep(mark));
            (victim, outcome)
        });
        wait_running(server, mark)?;
        kill(number)?;
        let (victim, outcome) =
            sleeping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        wait_gone(server, mark)?;
        Ok((victim, outcome))
    })
}

/// `SLEEP` says that it was interrupted by its value or by an error.
fn is_interrupted(outcome: &Result<String>) -> bool {
    match outcome {
        Ok(value) => value == "1",
        Err(error) => error_code(error) == Some(1317),
    }
}

#[test]
fn kill_query_ends_the_statement_and_the_session_goes_on() -> Result<()> {
    on_both("kill_query_ends_the_statement_and_the_session_goes_on", |server| {
        for workers in [1, 3] {
            let proxy = before(server, workers, 4)?;
            for (turn, statement) in ["KILL QUERY", "kill /* it */ query"].iter().enumerate() {
                let mark = format!("killq{workers}{turn}");
                let mut killer = client(&proxy, "")?;
                let victim = client(&proxy, "")?;
                let began = Instant::now();
                let (mut victim, outcome) = interrupted(server, victim, &mark, |number| {
                    killer.sql(&format!("{statement} {number}"))?;
                    Ok(())
                })?;
                ensure!(is_interrupted(&outcome), "{outcome:?}");
                ensure!(began.elapsed() < Duration::from_secs(20));
                ensure!(text(&mut victim, "SELECT 5")? == "5");
                ensure!(text(&mut killer, "SELECT 6")? == "6");
            }
        }
        Ok(())
    })
}

/// The server notices that its client has gone, as directly; the place is somebody else's then.
#[test]
fn a_long_answer_ends_when_its_client_goes_without_a_word() -> Result<()> {
    on_both("a_long_answer_ends_when_its_client_goes_without_a_word", |server| {
        let rows = vec!["(1)"; 200].join(", ");
        let schema =
            new_schema(server, &format!("CREATE TABLE t (a INT); INSERT INTO t VALUES {rows}"))?;
        let proxy = before(server, 1, 1)?;
        for begin in ["DO 1", "BEGIN"] {
            let mark = format!("gone_{}", begin.len());
            let mut leaver = Wire::login(&proxy, USER, PASSWORD, &schema)?;
            leaver.exchange(code::QUERY, begin.as_bytes(), Shape::Results)?;
            let long = format!("SELECT REPEAT('x', 500) FROM t a, t b, t c, t d /* {mark} */");
            leaver.send(code::QUERY, long.as_bytes())?;
            wait_running(server, &mark)?;
            drop(leaver);
            wait_gone(server, &mark)?;
            ensure!(text(&mut client(&proxy, "")?, "SELECT 5")? == "5");
        }
        Ok(())
    })
}

#[test]
fn kill_ends_the_session_and_its_statement() -> Result<()> {
    on_both("kill_ends_the_session_and_its_statement", |server| {
        for (turn, workers) in [1, 3].into_iter().enumerate() {
            let proxy = before(server, workers, 4)?;
            let mut killer = client(&proxy, "")?;
            let mark = format!("killc{turn}");
            let (mut victim, outcome) =
                interrupted(server, client(&proxy, "")?, &mark, |number| {
                    killer.sql(&format!("KILL CONNECTION {number}"))?;
                    Ok(())
                })?;
            ensure!(error_code(outcome.as_ref().err().context("it was not ended")?) == Some(1317));
            ensure!(victim.sql("SELECT 1").is_err(), "the session lives");

            let mut idle = client(&proxy, "")?;
            idle.sql("CREATE TEMPORARY TABLE e2e_kill (a INT)").ok();
            let number = idle.connection_id();
            killer.sql(&format!("KILL {number}"))?;
            ensure!(idle.sql("SELECT 1").is_err(), "an idle session lives");
            fails(&mut killer, &format!("KILL {number}"), 1094)?;
            ensure!(text(&mut killer, "SELECT 6")? == "6");
            wait_pins(&proxy, &[])?;
        }
        Ok(())
    })
}

/// The statement ends on the server as well where no connection rests that could carry the `KILL`:
/// a write does not run to its end.
#[test]
fn issue_16_kill_ends_what_runs_also_without_a_connection_at_rest() -> Result<()> {
    on_both("issue_16_kill_ends_what_runs_also_without_a_connection_at_rest", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT) ENGINE = InnoDB")?;
        let proxy = before(server, 1, 1)?;
        let mut killer = client(&proxy, "")?;
        let mut victim = client(&proxy, &schema)?;
        let number = victim.connection_id();
        let outcome = std::thread::scope(|scope| {
            let outcome =
                scope.spawn(|| victim.sql("INSERT INTO t SELECT SLEEP(60) /* killr */").map(drop));
            wait_running(server, "killr")?;
            killer.sql(&format!("KILL {number}"))?;
            outcome.join().map_err(|_| anyhow::anyhow!("the victim panicked"))
        })?;
        ensure!(outcome.is_err(), "it was not ended");
        wait_gone(server, "killr")?;
        // MySQL takes an interrupted SLEEP() for one that is over.
        let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
        let is_as_directly = server.flavour() == Flavour::MySql || rows.as_deref() == Some("0");
        ensure!(is_as_directly, "{rows:?} rows of a statement that was ended");
        ensure!(text(&mut killer, "SELECT 6")? == "6");
        wait_pins(&proxy, &[])
    })
}

/// The read that runs was proven short, so that it shares its connection, the only one.
#[test]
fn issue_16_kill_ends_a_read_that_may_share_its_connection() -> Result<()> {
    on_both("issue_16_kill_ends_a_read_that_may_share_its_connection", |server| {
        let table = "CREATE TABLE killshared (id INT PRIMARY KEY) ENGINE = InnoDB; \
                     INSERT INTO killshared VALUES (1), (2)";
        let schema = new_schema(server, table)?;
        let proxy = before(server, 1, 1)?;
        let mut killer = client(&proxy, &schema)?;
        let mut victim = client(&proxy, &schema)?;
        let number = victim.connection_id();
        let read = "SELECT id FROM killshared WHERE id = 1";
        for _ in 0..40 {
            victim.sql(read)?;
        }
        let mut holder = server.root()?;
        holder.sql(&format!("LOCK TABLES {schema}.killshared WRITE"))?;
        let outcome = std::thread::scope(|scope| {
            let outcome = scope.spawn(|| victim.sql(read).map(drop));
            wait_running(server, "WHERE id = 1")?;
            killer.sql(&format!("KILL {number}"))?;
            outcome.join().map_err(|_| anyhow::anyhow!("the victim panicked"))
        })?;
        ensure!(outcome.is_err(), "it was not ended");
        wait_gone(server, "WHERE id = 1")?;
        holder.sql("UNLOCK TABLES")?;
        ensure!(text(&mut killer, "SELECT 6")? == "6");
        wait_pins(&proxy, &[])
    })
}

#[test]
fn com_process_kill_ends_a_session() -> Result<()> {
    on_both("com_process_kill_ends_a_session", |server| {
        let proxy = before(server, 2, 4)?;
        let mut killer = Wire::login(&proxy, USER, PASSWORD, "")?;
        let mut idle = client(&proxy, "")?;
        let number = idle.connection_id();
        ensure!(killer.single(code::PROCESS_KILL, &number.to_le_bytes())?.is_ok());
        ensure!(idle.sql("SELECT 1").is_err());
        let answer = killer.single(code::PROCESS_KILL, &number.to_le_bytes())?;
        let error = answer.error().context("killed twice")?.clone();
        ensure!(error.code == 1094 && error.text == format!("Unknown thread id: {number}"));
        ensure!(killer.value("SELECT 4")?.as_deref() == Some("4"));
        Ok(())
    })
}

#[test]
fn only_ones_own_users_sessions_are_ended() -> Result<()> {
    on_both("only_ones_own_users_sessions_are_ended", |server| {
        server.create_user("other_kill", PASSWORD, AuthPlugin::ServerDefault)?;
        let other = "[[user]]\nname = \"other_kill\"\npassword = \"app's secret\"\n\
                     default_hostgroup = 0\n";
        let proxy = Trunkline::start(&format!("{}{other}", one_server(server, 2, 4)))?;
        let mut killer = proxy.connect("other_kill", PASSWORD, "")?;
        let mut victim = client(&proxy, "")?;
        let number = victim.connection_id();
        let is_mariadb = server.flavour() == Flavour::MariaDb;
        for statement in ["KILL", "KILL QUERY", "KILL HARD", "KILL SOFT QUERY"] {
            if !is_mariadb && (statement.contains("HARD") || statement.contains("SOFT")) {
                fails(&mut killer, &format!("{statement} {number}"), 1235)?;
                continue;
            }
            let error = fails(&mut killer, &format!("{statement} {number}"), 1095)?;
            ensure!(error.contains(&format!("You are not owner of thread {number}")), "{error}");
        }
        ensure!(text(&mut victim, "SELECT 1")? == "1");
        // The server's own number of the victim's connection is nobody's here, or a client's.
        let unknown = 4_000_000_000_u32;
        fails(&mut killer, &format!("KILL {unknown}"), 1094)?;
        fails(&mut killer, "KILL 99999999999999", 1094)?;
        let refused =
            ["KILL 1 + 1", "KILL USER app", "KILL QUERY ID 5", "SELECT 1; KILL 7", "KILL 7 /*"];
        for statement in refused {
            fails(&mut killer, statement, 1235)?;
        }
        fails(&mut killer, "KILL QUERY CONNECTION_ID()", 1317)?;
        let own = killer.connection_id();
        fails(&mut killer, &format!("KILL QUERY {own}"), 1317)?;
        ensure!(text(&mut killer, "SELECT 1")? == "1");
        let ended = match server.flavour() {
            Flavour::MariaDb => 1927,
            Flavour::MySql => 1317,
        };
        fails(&mut killer, "KILL CONNECTION_ID()", ended)?;
        ensure!(killer.sql("SELECT 1").is_err());
        Ok(())
    })
}

/// All places of the server are taken by statements that run: a `KILL` gets through all the same.
#[test]
fn kill_gets_through_when_all_connections_are_busy() -> Result<()> {
    on_both("kill_gets_through_when_all_connections_are_busy", |server| {
        let proxy = before(server, 1, 1)?;
        let mut killer = client(&proxy, "")?;
        let victim = client(&proxy, "")?;
        let (mut victim, outcome) = interrupted(server, victim, "killbusy", |number| {
            // This one waits for the only connection; it ends where it waits.
            let mut waiting = client(&proxy, "")?;
            let queued = waiting.connection_id();
            std::thread::scope(|scope| {
                let sleeping = scope.spawn(|| text(&mut waiting, &sleep("killqueued")));
                wait_until("the statement waits", SOON, || {
                    let waiting = status(&proxy)?;
                    Ok(waiting.to_string().contains("\"waiting\"").then_some(()))
                })?;
                std::thread::sleep(Duration::from_millis(50));
                killer.sql(&format!("KILL QUERY {queued}"))?;
                let outcome =
                    sleeping.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                ensure!(
                    outcome.as_ref().err().and_then(error_code) == Some(1317),
                    "the queued one: {outcome:?}"
                );
                anyhow::Ok(())
            })?;
            ensure!(running(server, "killqueued")?.is_none());
            killer.sql(&format!("KILL QUERY {number}"))?;
            Ok(())
        })?;
        ensure!(is_interrupted(&outcome), "{outcome:?}");
        ensure!(text(&mut victim, "SELECT 5")? == "5");
        Ok(())
    })
}

/// A session that is held on its connection keeps its state, and its next statement is never hit.
#[test]
fn a_held_session_keeps_its_state() -> Result<()> {
    on_both("a_held_session_keeps_its_state", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT)")?;
        let proxy = before(server, 1, 3)?;
        let mut killer = client(&proxy, "")?;
        let mut victim = client(&proxy, &schema)?;
        victim.sql("BEGIN; INSERT INTO t VALUES (7)")?;
        for turn in 0..3 {
            let mark = format!("killheld{turn}");
            let (back, outcome) = interrupted(server, victim, &mark, |number| {
                killer.sql(&format!("KILL QUERY {number}"))?;
                Ok(())
            })?;
            victim = back;
            ensure!(is_interrupted(&outcome), "{outcome:?}");
            ensure!(text(&mut victim, "SELECT a FROM t")? == "7");
        }
        victim.sql("COMMIT")?;
        ensure!(text(&mut killer, &format!("SELECT COUNT(*) FROM {schema}.t"))? == "1");
        Ok(())
    })
}

/// Statements that end at about the time their `KILL` comes, on few connections that others use:
/// nobody but the one that was named is ever interrupted.
#[test]
fn a_kill_that_comes_late_hits_nobody_else() -> Result<()> {
    on_both("a_kill_that_comes_late_hits_nobody_else", |server| {
        let proxy = before(server, 2, 3)?;
        let stop = AtomicBool::new(false);
        let victims: Vec<SqlClient> = (0..3).map(|_| client(&proxy, "")).collect::<Result<_>>()?;
        let numbers: Vec<u32> = victims.iter().map(SqlClient::connection_id).collect();
        let others: Vec<SqlClient> = (0..4).map(|_| client(&proxy, "")).collect::<Result<_>>()?;
        let (kills, hits) = std::thread::scope(|scope| {
            let stop = &stop;
            let end = scope.spawn(move || {
                std::thread::sleep(Duration::from_secs(4));
                stop.store(true, Ordering::Relaxed);
            });
            let victims: Vec<_> = victims
                .into_iter()
                .map(|victim| scope.spawn(move || short_statements(victim, stop, true)))
                .collect();
            let others: Vec<_> = others
                .into_iter()
                .map(|other| scope.spawn(move || short_statements(other, stop, false)))
                .collect();
            let killer = client(&proxy, "")?;
            let kills = kill_in_turn(killer, &numbers, stop);
            end.join().ok();
            let mut hits = 0;
            for victim in victims {
                hits += victim.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            for other in others {
                let hit = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                ensure!(hit == 0, "{hit} statements of others were interrupted");
            }
            anyhow::Ok((kills?, hits))
        })?;
        ensure!(kills > 20, "{kills} kills only");
        ensure!(hits > 0, "no statement was ever hit by {kills} kills");
        Ok(())
    })
}

/// Runs statements of a few milliseconds until told to stop; how many were interrupted.
fn short_statements(mut client: SqlClient, stop: &AtomicBool, may_be_hit: bool) -> Result<u32> {
    let mut hits = 0;
    let mut turn = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let outcome = text(&mut client, &format!("SELECT SLEEP(0.0{}), {turn}", turn % 5));
        match &outcome {
            Ok(value) if value == "0" => {}
            outcome if may_be_hit && is_interrupted(outcome) => hits += 1,
            outcome if !may_be_hit && is_interrupted(outcome) => hits += 1,
            outcome => anyhow::bail!("statement {turn}: {outcome:?}"),
        }
    }
    Ok(hits)
}

fn kill_in_turn(mut killer: SqlClient, numbers: &[u32], stop: &AtomicBool) -> Result<u32> {
    let mut kills = 0;
    while !stop.load(Ordering::Relaxed) {
        for number in numbers {
            match killer.sql(&format!("KILL QUERY {number}")) {
                Ok(_) => kills += 1,
                // It has gone home.
                Err(_) if stop.load(Ordering::Relaxed) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(kills)
}

/// Statements that share a connection: the one that is ended takes nobody along.
#[test]
fn a_kill_hits_nobody_else_on_a_shared_connection() -> Result<()> {
    on_both("a_kill_hits_nobody_else_on_a_shared_connection", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")?;
        let proxy = before(server, 1, 2)?;
        let stop = AtomicBool::new(false);
        let many = |count: usize| -> Result<Vec<SqlClient>> {
            (0..count).map(|_| client(&proxy, &schema)).collect()
        };
        let (victims, others) = (many(3)?, many(8)?);
        let numbers: Vec<u32> = victims.iter().map(SqlClient::connection_id).collect();
        let reads = |mut client: SqlClient, may_be_hit: bool| -> Result<u32> {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                match text(&mut client, "SELECT a FROM t WHERE a = 1") {
                    Ok(value) => ensure!(value == "1", "{value}"),
                    Err(error) if may_be_hit && error_code(&error) == Some(1317) => {}
                    Err(error) => return Err(error),
                }
                count += 1;
            }
            Ok(count)
        };
        std::thread::scope(|scope| {
            let (stop, reads) = (&stop, &reads);
            let mut threads = Vec::new();
            for (clients, may_be_hit) in [(victims, true), (others, false)] {
                for client in clients {
                    threads.push(scope.spawn(move || reads(client, may_be_hit)));
                }
            }
            let killer = client(&proxy, "")?;
            let killing = scope.spawn(|| kill_in_turn(killer, &numbers, stop));
            std::thread::sleep(Duration::from_secs(3));
            stop.store(true, Ordering::Relaxed);
            let kills = killing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let mut all = 0;
            for thread in threads {
                all += thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            ensure!(kills > 20 && all > 200, "{kills} kills of {all} statements");
            anyhow::Ok(())
        })?;
        let shared = proxy.metric("trunkline_statement_pipelined_total", "")?;
        ensure!(shared.is_some_and(|count| count > 0.0), "nothing was shared: {shared:?}");
        Ok(())
    })
}

/// What a client sends ahead of the answer to its `KILL` is run afterwards, in order.
#[test]
fn commands_sent_behind_a_kill_wait_for_it() -> Result<()> {
    if !is_available(Flavour::MariaDb, "commands_sent_behind_a_kill_wait_for_it") {
        return Ok(());
    }
    let proxy = before(shared_server(Flavour::MariaDb)?, 3, 4)?;
    let mut wire = Wire::login(&proxy, USER, PASSWORD, "")?;
    let victims: Vec<SqlClient> = (0..3).map(|_| client(&proxy, "")).collect::<Result<_>>()?;
    let mut bytes = Vec::new();
    for victim in &victims {
        let text = format!("\x03KILL {}", victim.connection_id());
        bytes.extend(Header { payload_len: text.len(), seq: 0 }.bytes());
        bytes.extend(text.as_bytes());
    }
    let text = b"\x03SELECT 9";
    bytes.extend(Header { payload_len: text.len(), seq: 0 }.bytes());
    bytes.extend(text);
    wire.send_raw(&bytes)?;
    for _ in &victims {
        let (_, answer) = wire.packet()?;
        ensure!(answer.first() == Some(&0), "{answer:?}");
    }
    let rows = wire.reply_bytes(crate::wire::Shape::Results)?;
    ensure!(wire.outcomes(&rows)?.len() == 1);
    for mut victim in victims {
        ensure!(victim.sql("SELECT 1").is_err());
    }
    Ok(())
}

/// The dictionary is slow to answer, as the table is locked: who waits for that can be ended.
#[test]
fn a_statement_that_waits_for_its_names_ends_by_kill_query() -> Result<()> {
    on_both("a_statement_that_waits_for_its_names", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT)")?;
        let config = format!("catalog_wait_ms = 10000\n{}", one_server(server, 1, 4));
        let proxy = Trunkline::start(&config)?;
        let mut victim = Wire::login(&proxy, USER, PASSWORD, &schema)?;
        let number = victim.value("SELECT CONNECTION_ID()")?.context("a number")?;
        let mut killer = client(&proxy, &schema)?;
        let mut root = server.root()?;
        root.sql(&format!("USE {schema}"))?;
        root.sql("LOCK TABLES t WRITE")?;
        // A proxy that has just started may have waited for what built-in functions are called.
        let waits = || proxy.metric("trunkline_statement_catalog_waits_total", "");
        let before = waits()?;
        victim.send(code::QUERY, b"INSERT INTO t VALUES (1)")?;
        wait_until("it waits for its names", SOON, || Ok((waits()? > before).then_some(())))?;
        killer.sql(&format!("KILL QUERY {number}"))?;
        let bytes = victim.reply_bytes(Shape::Results)?;
        let code = victim.outcomes(&bytes)?[0].error().map(|error| error.code);
        root.sql("UNLOCK TABLES")?;
        // On a server that answers all the same, the table's lock held it.
        ensure!(code == Some(1317), "{code:?}");
        ensure!(text(&mut killer, "SELECT COUNT(*) FROM t")? == "0");
        Ok(())
    })
}
