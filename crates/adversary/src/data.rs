//! All data of a server, to be held against another one's.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use trunkline_testkit::wait_until;

use crate::client::{Answer, Client};
use crate::run::Difference;
use crate::stage::{LOCKS, Stage};

/// How long the proxy may keep what ended sessions have left.
const LEFT_MAX: Duration = Duration::from_secs(10);
/// InnoDB lists transactions as they were until nobody has asked for 0.1 s.
const UNTIL_SEEN_ANEW: &str = "DO SLEEP(0.15)";
/// Written by statements whose connection is killed: how often is looked at by itself.
const MARKS: &str = "marks";

/// Contents by table.
type Data = BTreeMap<String, Vec<Vec<u8>>>;

/// What differs in what the sessions have left, when all of them have ended.
pub fn difference(stage: &mut Stage, has_reader: bool) -> Result<Option<Difference>> {
    if let Some(left) = left_open(stage)? {
        return Ok(Some(left));
    }
    let (primary, direct) = (all(&mut stage.primary, false)?, all(&mut stage.direct, false)?);
    if let Some((table, one, other)) = first_difference(&primary, &direct) {
        return Ok(Some(Difference::of_data(&format!("data of {table}"), one, other)));
    }
    if !has_reader {
        return Ok(None);
    }
    if !stage.catch_up_soon()? {
        let (one, other) = ("replication has stopped".to_owned(), String::new());
        return Ok(Some(Difference::of_data("the replica", one, other)));
    }
    let (replica, primary) = (all(&mut stage.replica, true)?, all(&mut stage.primary, true)?);
    Ok(first_difference(&replica, &primary).map(|(table, one, other)| {
        Difference::of_data(&format!("data of {table} on the replica"), one, other)
    }))
}

/// Rows that statements have left which were struck.
pub fn marks(client: &mut Client) -> Result<u64> {
    let answers = client.query(format!("SELECT COUNT(*) FROM {MARKS}").as_bytes());
    let Some(Answer::Rows(rows)) = answers.first() else { return Ok(0) };
    let count = rows.text().into_iter().next().and_then(|row| row.into_iter().next()?);
    Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// Nothing of sessions that have ended may hold others up.
fn left_open(stage: &mut Stage) -> Result<Option<Difference>> {
    let free: Vec<_> = LOCKS.iter().map(|name| format!("IS_FREE_LOCK('{name}')")).collect();
    let locks = format!("SELECT {} = {}", free.join(" + "), LOCKS.len());
    let transactions = "SELECT COUNT(*) = 0 FROM information_schema.innodb_trx t \
                        JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                        WHERE p.user IN ('ada', 'bob')";
    for (what, asked) in [("locks", locks.as_str()), ("transactions", transactions)] {
        let mut open = String::new();
        let clients = [(&mut stage.primary, "the writer"), (&mut stage.replica, "the reader")];
        for (client, name) in clients {
            let gone = wait_until("nothing is left", LEFT_MAX, || {
                if client.column(asked)?.pop().flatten().as_deref() == Some("1") {
                    return Ok(Some(()));
                }
                client.column(UNTIL_SEEN_ANEW)?;
                Ok(None)
            });
            if gone.is_err() {
                let holders = holders(client)?;
                open = format!("{what} are held on {name} behind all sessions: {holders}");
            }
        }
        if !open.is_empty() {
            return Ok(Some(Difference::of_data(what, open, "none".to_owned())));
        }
    }
    Ok(None)
}

/// The sessions' connections that a server still has, and the transactions on them.
fn holders(client: &mut Client) -> Result<String> {
    let asked = "SELECT CONCAT_WS(' ', p.id, p.user, p.command, p.time, p.state, p.info, \
                 t.trx_id, t.trx_state, t.trx_started, t.trx_query, t.trx_operation_state, \
                 t.trx_rows_locked, t.trx_rows_modified, t.trx_isolation_level) \
                 FROM information_schema.processlist p LEFT JOIN information_schema.innodb_trx t \
                 ON p.id = t.trx_mysql_thread_id WHERE p.user IN ('ada', 'bob')";
    let found: Vec<_> = client.column(asked)?.into_iter().flatten().collect();
    Ok(found.join("; "))
}

fn first_difference(one: &Data, other: &Data) -> Option<(String, String, String)> {
    let tables = one.keys().chain(other.keys());
    let differs = tables.into_iter().find(|table| one.get(*table) != other.get(*table))?;
    Some((differs.clone(), text(one.get(differs)), text(other.get(differs))))
}

fn text(rows: Option<&Vec<Vec<u8>>>) -> String {
    let Some(rows) = rows else { return "not there".to_owned() };
    let shown: Vec<_> = rows.iter().map(|row| printable(row)).collect();
    format!("[{}]", shown.join(" | "))
}

fn printable(row: &[u8]) -> String {
    row.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { ' ' }).collect()
}

/// Sequences are left out where a replica is asked: it may be ahead by what the primary caches.
fn all(client: &mut Client, is_replica: bool) -> Result<Data> {
    let tables = "SELECT CONCAT(table_schema, '.`', table_name, '`') \
                  FROM information_schema.tables WHERE table_schema IN ('adv', 'other') AND \
                  table_type IN ('BASE TABLE', 'SEQUENCE')";
    let tables = match is_replica {
        true => tables.replace(", 'SEQUENCE'", ""),
        false => tables.to_owned(),
    };
    let mut data = Data::new();
    for table in client.column(&tables)?.into_iter().flatten() {
        if table.contains(MARKS) {
            continue;
        }
        let mut rows = Vec::new();
        for answer in client.query(format!("SELECT * FROM {table}").as_bytes()) {
            match answer {
                Answer::Rows(found) => rows = found.rows,
                Answer::Error(refusal) => rows.push(refusal.text.into_bytes()),
                Answer::Ok { .. } => {}
                Answer::Lost | Answer::Silent => bail!("a server was lost while data were read"),
            }
        }
        rows.sort();
        data.insert(table, rows);
    }
    Ok(data)
}
