//! Large results that are read slowly.

use std::io::Read;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "exports",
    what: "30 clients, results of 2 GB each, read slowly",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 256, slower: 2.0, answers: &["read slowly"] },
    run,
};

/// Clients.
const CLIENTS: usize = 30;
/// Bytes that are read at once, and how long it takes until the next ones.
const READ: usize = 64 << 10;
const PAUSE: Duration = Duration::from_millis(50);

fn run(field: &Field<'_>) -> Result<()> {
    let statement = b"SELECT REPEAT('x', 1000000) FROM seq_1_to_2000";
    field.crowd(CLIENTS, |_| {
        let mut peer = field.log_in()?;
        if let Err(answer) = peer.command(0x03, statement)? {
            bail!("the statement was not taken: {answer}");
        }
        let mut room = vec![0; READ];
        while !field.is_over() {
            let read = peer.stream.read(&mut room)?;
            ensure!(read > 0, "the export was ended");
            std::thread::sleep(PAUSE);
        }
        field.answered("read slowly");
        Ok(())
    })
}
