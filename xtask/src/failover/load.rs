//! Clients that write numbers, each one once, and remember what they were told of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use trunkline_testkit::{SqlClient, error_code};

use crate::stand::{Stand, USER};

/// The error of a transaction that was rolled back: none of it is done.
const ROLLED_BACK: u16 = 1213;
/// Between two attempts to log in.
const RETRY: Duration = Duration::from_millis(10);

/// What all clients have seen.
pub struct Seen {
    /// When the fault began.
    pub begun: Instant,
    pub clients: Vec<Client>,
}

/// What one client has seen.
#[derive(Default)]
pub struct Client {
    pub number: u32,
    /// Numbers that are there, for all that it was told.
    done: Vec<u32>,
    /// Numbers that are not.
    undone: Vec<u32>,
    /// Errors by their codes; 0 where the connection was cut without one.
    pub errors: BTreeMap<u16, u32>,
    pub statements: u64,
    /// The longest time between two successes.
    pub pause: Option<(Instant, Instant)>,
}

impl Client {
    /// Its longest pause.
    pub fn longest(&self) -> Duration {
        self.pause.map(|(from, to)| to - from).unwrap_or_default()
    }

    fn pause(&mut self, from: Instant, to: Instant) {
        if to - from >= self.longest() {
            self.pause = Some((from, to));
        }
    }
}

/// What the servers say of it.
#[derive(Default)]
pub struct Truth {
    /// Acknowledged, and not there.
    pub lost: u64,
    /// Done more than once.
    pub twice: u64,
    /// There, though the client was told that its transaction was rolled back.
    pub untrue: u64,
}

/// Writes while something is done, which says when it began.
pub fn write_while(
    stand: &Stand,
    numbers: Range<u32>,
    work: impl FnOnce() -> Result<Instant>,
) -> Result<Seen> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let clients: Vec<_> =
            numbers.map(|number| scope.spawn(move || write(stand, number, is_over))).collect();
        let worked = work();
        is_over.store(true, Ordering::Relaxed);
        let mut seen = Vec::new();
        for client in clients {
            seen.push(client.join().map_err(|_| anyhow!("a client panicked"))??);
        }
        Ok(Seen { begun: worked?, clients: seen })
    })
}

/// Writes until it is over: clients with even numbers row by row, the others two in a transaction.
fn write(stand: &Stand, number: u32, is_over: &AtomicBool) -> Result<Client> {
    let mut own = Client { number, ..Client::default() };
    let proxy = stand.proxy(number)?;
    let mut session: Option<SqlClient> = None;
    let (mut next, mut last) = (0, Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        let Some(client) = &mut session else {
            match proxy.connect(USER, USER, "") {
                Ok(opened) => session = Some(opened),
                Err(_) => thread::sleep(RETRY),
            }
            continue;
        };
        let insert = |n| format!("INSERT INTO checks.number (client, n) VALUES ({number}, {n})");
        let (count, statements) = match number.is_multiple_of(2) {
            true => (1, vec![insert(next)]),
            false => {
                let (begin, commit) = ("BEGIN".to_owned(), "COMMIT".to_owned());
                (2, vec![begin, insert(next), insert(next + 1), commit])
            }
        };
        own.statements += statements.len() as u64;
        match statements.iter().try_for_each(|statement| client.sql(statement).map(drop)) {
            Ok(()) => {
                own.done.extend(next..next + count);
                let now = Instant::now();
                own.pause(last, now);
                last = now;
            }
            Err(error) => {
                let code = error_code(&error).unwrap_or(0);
                *own.errors.entry(code).or_default() += 1;
                match code {
                    ROLLED_BACK => own.undone.extend(next..next + count),
                    _ => session = None,
                }
            }
        }
        next += count;
    }
    own.pause(last, Instant::now());
    Ok(own)
}

/// Compares with what the writer has.
pub fn compare(stand: &Stand, numbers: Range<u32>, seen: &Seen) -> Result<Truth> {
    let writer = stand.writer()?.context("nobody writes behind the fault")?;
    let rows = stand.server(writer)?.root()?.sql(&format!(
        "SELECT client, n FROM checks.number WHERE client >= {} AND client < {}",
        numbers.start, numbers.end
    ))?;
    let mut truth = Truth::default();
    let mut there = BTreeSet::new();
    for row in &rows {
        let mut cells = row.iter().flatten().map(|cell| cell.parse::<u32>());
        let (client, n) = (cells.next().context("a client")??, cells.next().context("an n")??);
        truth.twice += u64::from(!there.insert((client, n)));
    }
    for client in &seen.clients {
        let count = |numbers: &[u32], is_there: bool| {
            let those =
                numbers.iter().filter(|n| there.contains(&(client.number, **n)) == is_there);
            those.count() as u64
        };
        truth.lost += count(&client.done, false);
        truth.untrue += count(&client.undone, true);
    }
    Ok(truth)
}
