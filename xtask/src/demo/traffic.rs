//! A small application that keeps the picture alive: a few clients that order, read and report.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use trunkline_testkit::SqlClient;

use super::cluster::USER;
use super::tour::SCHEMA;

/// How many clients it has.
pub const CLIENTS: u32 = 6;
/// A client's rest between two rounds: the demo shall not heat the machine.
const REST: Duration = Duration::from_millis(25);
/// A client's rest after an error, before it connects again.
const REST_AFTER_ERROR: Duration = Duration::from_millis(500);

/// The running application; dropped, it stops.
#[derive(Debug)]
pub struct Traffic {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_stopping: AtomicBool,
    errors: AtomicU64,
    first_error: Mutex<Option<String>>,
}

impl Traffic {
    /// Starts its clients.
    pub fn start(port: u16) -> Traffic {
        let shared = Arc::new(Shared::default());
        let client = |number: u32| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || live(port, number, &shared))
        };
        let threads = (0..CLIENTS).map(client).collect();
        Traffic { shared, threads }
    }

    /// Errors that its clients got so far, and the first of them.
    pub fn errors(&self) -> (u64, Option<String>) {
        let first = self.shared.first_error.lock();
        let first = first.unwrap_or_else(PoisonError::into_inner).clone();
        (self.shared.errors.load(Ordering::Relaxed), first)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A client that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// One client from its first connection to the end, connecting again after each error.
fn live(port: u16, number: u32, shared: &Shared) {
    let is_stopping = || shared.is_stopping.load(Ordering::Relaxed);
    while !is_stopping() {
        let outcome = SqlClient::tcp(port, USER, USER, SCHEMA).and_then(|mut client| {
            let mut round_number = u64::from(number) * 31;
            while !is_stopping() {
                round(&mut client, round_number)?;
                round_number += 1;
                std::thread::sleep(REST);
            }
            Ok(())
        });
        let Err(error) = outcome else { continue };
        if is_stopping() {
            return;
        }
        shared.errors.fetch_add(1, Ordering::Relaxed);
        let mut first = shared.first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| format!("{error:#}"));
        drop(first);
        std::thread::sleep(REST_AFTER_ERROR);
    }
}

/// Some reads, sometimes an order, sometimes a transaction.
fn round(client: &mut SqlClient, round_number: u64) -> Result<()> {
    let id = round_number % 1_000 + 1;
    for offset in 0..6 {
        let id = id + offset;
        client.sql(&format!("SELECT item, amount FROM orders WHERE id = {id}"))?;
    }
    if round_number.is_multiple_of(2) {
        client.sql(&format!(
            "INSERT INTO orders (item, amount, written_by) VALUES ('line {id}', {id}, @@server_id)"
        ))?;
    }
    if round_number.is_multiple_of(5) {
        client.sql("START TRANSACTION")?;
        client.sql(&format!("SELECT amount FROM orders WHERE id = {id} FOR UPDATE"))?;
        client.sql(&format!("UPDATE orders SET amount = amount + 1 WHERE id = {id}"))?;
        client.sql("COMMIT")?;
    }
    if round_number.is_multiple_of(17) {
        client.sql("DELETE FROM orders WHERE id > 1000 ORDER BY id LIMIT 200")?;
    }
    Ok(())
}
