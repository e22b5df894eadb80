//! Resting sessions move from a busy worker to a less busy one, and nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{Trunkline, wait_until};

use crate::backends::{self, PASSWORD, TIMEOUT, proxy_for};
use crate::wire::{Shape, Wire, code};

/// Sessions of one worker that are kept busy.
const BUSY: usize = 12;

/// The worker of each client, by the number of its greeting.
fn workers(proxy: &Trunkline) -> Result<Vec<(u64, u64)>> {
    let (status, body) = proxy.http("/sessions?limit=1000")?;
    ensure!(status == 200, "{body}");
    let list: Value = serde_json::from_str(&body)?;
    let rows = list["sessions"].as_array().context("no sessions")?;
    let number = |row: &Value, key: &str| row[key].as_u64().context("a number");
    rows.iter().map(|row| Ok((number(row, "id")?, number(row, "worker")?))).collect()
}

fn moves(proxy: &Trunkline) -> Result<f64> {
    let moved = proxy.metric("trunkline_worker_sessions_moved_total", "direction=\"in\"")?;
    moved.context("a metric")
}

/// What a session must still be after it has moved, and what its statements left.
fn check(client: &mut Wire, own: u64, inserted: u64, turn: u64) -> Result<()> {
    let row = client.query(
        "SELECT @@sql_mode, @@time_zone, @mine, DATABASE(), LAST_INSERT_ID(), CONNECTION_ID()",
    )?;
    let row = row[0].text_rows().remove(0);
    let at = |index: usize| row[index].clone().unwrap_or_default();
    ensure!(at(0) == "ANSI_QUOTES" && at(1) == format!("+00:{:02}", own % 60), "{row:?}");
    ensure!(at(2) == own.to_string() && at(3) == "moving", "{row:?}");
    ensure!(at(4) == inserted.to_string(), "the last insert id: {row:?}, not {inserted}");
    ensure!(at(5) == own.to_string(), "the number: {row:?} of {own}");
    // Two rows, and what they left is asked for later, perhaps elsewhere.
    let rows = client.query("SELECT 1 UNION ALL SELECT 2")?;
    ensure!(rows[0].text_rows().len() == 2);
    if turn.is_multiple_of(7) {
        thread::sleep(Duration::from_millis(1));
    }
    let found = client.value("SELECT FOUND_ROWS()")?;
    ensure!(found.as_deref() == Some("2"), "{found:?}");
    Ok(())
}

/// A statement that was prepared before the session moved, with the types of its parameters.
struct Stmt(u32);

impl Stmt {
    fn prepare(client: &mut Wire) -> Result<Stmt> {
        let text = b"SELECT ? + a FROM t WHERE id = ?";
        let reply = client.exchange(code::STMT_PREPARE, text, Shape::Prepare)?;
        let id = reply.get(5..9).with_context(|| reply.escape_ascii().to_string())?;
        Ok(Stmt(u32::from_le_bytes(id.try_into()?)))
    }

    /// Runs it; drivers send the types with the first execution only.
    fn run(&self, client: &mut Wire, own: u64, inserted: u64, is_first: bool) -> Result<()> {
        let types: &[u8] = if is_first { &[1, 8, 0, 8, 0] } else { &[0] };
        let mut body = [&self.0.to_le_bytes()[..], &[0, 1, 0, 0, 0, 0], types].concat();
        body.extend_from_slice(&own.to_le_bytes());
        body.extend_from_slice(&inserted.to_le_bytes());
        let reply = client.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        let want = (own + 7).to_le_bytes();
        let has_sum = reply.windows(want.len()).any(|part| part == want);
        ensure!(has_sum, "{own} + 7 is not in {}", reply.escape_ascii());
        Ok(())
    }
}

/// A session with its number, its last insert id and a statement that it prepared.
type Known = (u64, u64, Stmt, Wire);

/// Sessions with state of their own.
fn log_in(proxy: &Trunkline) -> Result<Vec<Known>> {
    let mut known = Vec::new();
    for number in 0..BUSY * 4 {
        let mut client = Wire::login(proxy, "moving", PASSWORD, "moving")?;
        if number == 0 {
            client.one("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT)")?;
        }
        let id = client.value("SELECT CONNECTION_ID()")?.context("an id")?.parse::<u64>()?;
        client.one("SET sql_mode = 'ANSI_QUOTES'")?;
        client.one(&format!("SET time_zone = '+00:{:02}', @mine = {id}", id % 60))?;
        client.one("INSERT INTO t (a) VALUES (7)")?;
        let inserted = client.value("SELECT LAST_INSERT_ID()")?.context("an id")?;
        let inserted = inserted.parse::<u64>()?;
        let stmt = Stmt::prepare(&mut client)?;
        stmt.run(&mut client, id, inserted, true)?;
        known.push((id, inserted, stmt, client));
    }
    Ok(known)
}

/// Wherever clients are now, `KILL` finds them by their numbers.
fn numbers_find_them(proxy: &Trunkline, numbers: &[u64], clients: &mut [Wire]) -> Result<()> {
    let mut killer = Wire::login(proxy, "moving", PASSWORD, "")?;
    for id in numbers {
        assert!(killer.one(&format!("KILL {id}"))?.is_ok(), "{id}");
    }
    for client in clients {
        client.drain_to_end()?;
    }
    assert_eq!(killer.fails(&format!("KILL {}", numbers[0]))?.code, 1094);
    Ok(())
}

#[test]
fn sessions_move_to_the_less_busy_worker_and_stay_what_they_are() -> Result<()> {
    let servers = backends::each("sessions_move_to_the_less_busy_worker")?;
    for (server, io) in servers.into_iter().zip(["epoll", "io_uring"].into_iter().cycle()) {
        let settings = format!("io = \"{io}\"");
        let proxy = proxy_for(server, "moving", &settings)?;
        let known = log_in(&proxy)?;
        let places = workers(&proxy)?;
        let of = |id: u64| places.iter().find(|(known, _)| *known == id).map(|(_, worker)| *worker);
        let (busy, idle): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|(id, ..)| of(*id) == Some(0));
        ensure!(busy.len() >= 4, "the kernel gave one worker {} of {}", busy.len(), BUSY * 4);
        let before = moves(&proxy)?;

        let is_over = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let numbers: Vec<u64> = busy.iter().take(BUSY).map(|(id, ..)| *id).collect();
        let (working, spare): (Vec<_>, Vec<_>) =
            busy.into_iter().partition(|(id, ..)| numbers.contains(id));
        let threads: Vec<_> = working
            .into_iter()
            .map(|(id, inserted, stmt, mut client)| {
                let (is_over, done) = (Arc::clone(&is_over), Arc::clone(&done));
                thread::spawn(move || -> Result<Wire> {
                    let mut turn = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        check(&mut client, id, inserted, turn)?;
                        stmt.run(&mut client, id, inserted, false)?;
                        turn += 1;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(client)
                })
            })
            .collect();
        let shares = |proxy: &Trunkline| -> Result<(usize, usize)> {
            let places = workers(proxy)?;
            let here = places.iter().filter(|(id, _)| numbers.contains(id));
            let away = here.clone().filter(|(_, worker)| *worker == 1).count();
            Ok((here.count() - away, away))
        };
        let balanced = wait_until("both workers have their share", TIMEOUT, || {
            // It is commands that are shared out, and on a busy machine some sessions get far fewer
            // than others.
            let (here, away) = shares(&proxy)?;
            Ok((here.min(away) >= 2).then_some(()))
        });
        let moved = moves(&proxy)? - before;
        is_over.store(true, Ordering::Relaxed);
        let outcomes: Vec<Result<Wire>> =
            threads.into_iter().map(|thread| thread.join().expect("a client")).collect();
        let mut clients = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
        balanced.with_context(|| format!("{:?} after {moved} moves", shares(&proxy)))?;
        assert!((2.0..60.0).contains(&moved), "{moved} moves");
        // They were at work all the while, however busy the machine is.
        assert!(done.load(Ordering::Relaxed) > 10);

        numbers_find_them(&proxy, &numbers, &mut clients)?;
        // Who had no part in it rests where it was.
        for (id, inserted, stmt, mut client) in idle.into_iter().chain(spare) {
            check(&mut client, id, inserted, 1)?;
            stmt.run(&mut client, id, inserted, false)?;
        }
    }
    Ok(())
}
