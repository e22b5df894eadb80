//! Long data on the admin port, by users of statistics.

use anyhow::Result;

use super::Attack;
use super::field::Field;
use super::long_data::{execute, send_long_data};
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "admin_long_data",
    what: "30 users of statistics, 60 MB each of long data on the admin port",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 96, slower: 2.0, answers: &["1153"] },
    run,
};

/// Clients.
const CLIENTS: usize = 30;
/// Pieces of a client, and the length of each, bytes: a little less than a command may have.
const PIECES: usize = 66;
const PIECE: usize = 900_000;

fn run(field: &Field<'_>) -> Result<()> {
    field.crowd(CLIENTS, |_| {
        let mut peer = field.log_in_admin("stats")?;
        let answer = match send_long_data(&mut peer, PIECES, PIECE)? {
            Ok(stmt_id) => execute(&mut peer, &stmt_id)?,
            Err(answer) => answer,
        };
        field.answered(answer);
        Ok(())
    })?;
    field.an_administrator_is_served()
}
