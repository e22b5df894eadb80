//! Large results on the admin port.

use std::io::Read;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Attack;
use super::field::Field;
use super::outcome::Promise;
use super::peer::Answer;

pub const ATTACK: Attack = Attack {
    name: "admin_export",
    what: "4 administrators, results of 200 MB each, read slowly",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 288, slower: 2.0, answers: &["1041"] },
    run,
};

/// Administrators.
const CLIENTS: usize = 4;
/// Bytes that are read at once, and how long it takes until the next ones.
const READ: usize = 64 << 10;
const PAUSE: Duration = Duration::from_millis(20);

fn run(field: &Field<'_>) -> Result<()> {
    let statement = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) \
                     SELECT hex(zeroblob(50000)) FROM n";
    field.crowd(CLIENTS, |_| {
        let mut peer = field.log_in_admin("admin")?;
        let answer = peer.ask(statement)?;
        let is_result = !matches!(answer, Answer::Error(_) | Answer::Closed);
        field.answered(if is_result { "result".to_owned() } else { answer.to_string() });
        let mut room = vec![0; READ];
        while is_result && !field.is_over() {
            let read = peer.stream.read(&mut room)?;
            ensure!(read > 0, "the result was ended");
            std::thread::sleep(PAUSE);
        }
        Ok(())
    })?;
    field.an_administrator_is_served()
}
