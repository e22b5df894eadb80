//! Statements of users of statistics that never end.

use anyhow::Result;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "endless_statistics",
    what: "16 users of statistics, recursive queries without an end and values of 500 MB",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 96, slower: 2.0, answers: &["3024"] },
    run,
};

/// Clients.
const CLIENTS: usize = 16;
/// What they ask.
const STATEMENTS: [&str; 3] = [
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "SELECT hex(randomblob(499999999))",
    "SELECT zeroblob(900000000)",
];

fn run(field: &Field<'_>) -> Result<()> {
    let (watched, asked) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            field.crowd(CLIENTS, |client| {
                let mut peer = field.log_in_admin("stats")?;
                for statement in STATEMENTS.iter().cycle().skip(client) {
                    if field.is_over() {
                        break;
                    }
                    field.answered(peer.ask(statement)?);
                }
                Ok(())
            })
        });
        let mut watched = Ok(());
        while !field.is_over() && watched.is_ok() {
            watched = field.an_administrator_is_served();
        }
        (watched, asked.join())
    });
    watched?;
    asked.map_err(|_| anyhow::anyhow!("a thread of the attack panicked"))?
}
