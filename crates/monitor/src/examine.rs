//! What `trunkline doctor` asks of servers: one connection each, questions only.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Semaphore, task::JoinSet, time::timeout};
use trunkline_doctor::{Answers, Source};
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{Address, Server};

use crate::{
    Account, LearnError,
    conversation::{self, Answer, Conversation, Way},
    replication::ask_for_sources,
};

/// Servers asked together.
const LOOKS_MAX: usize = 64;
/// Bytes of one answer: all variables, or a row for each account.
const ANSWER_LEN_MAX: usize = 4 << 20;
const VARIABLES: &str = "SHOW GLOBAL VARIABLES";
const CLOCK: &str = "SELECT UNIX_TIMESTAMP(NOW(6))";
/// From here on SUPER of MariaDB does not write in spite of `read_only`.
const SUPER_LESS: (u32, u32) = (10, 11);
/// Accounts that write in spite of `read_only`.
const ADMINISTRATORS: &str = "SELECT DISTINCT GRANTEE FROM information_schema.USER_PRIVILEGES \
    WHERE PRIVILEGE_TYPE IN ('READ ONLY ADMIN', 'READ_ONLY ADMIN', 'CONNECTION_ADMIN')";
/// Accounts that write in spite of `read_only` where SUPER is enough for that.
const SUPERUSERS: &str = "SELECT DISTINCT GRANTEE FROM information_schema.USER_PRIVILEGES \
    WHERE PRIVILEGE_TYPE IN ('SUPER', 'READ ONLY ADMIN', 'READ_ONLY ADMIN', 'CONNECTION_ADMIN')";

/// Asks each of these servers, whose addresses differ, for at most `time_max`. Who does not answer
/// has the reason, in words for an operator.
///
/// Must run within a tokio runtime. The answers are in no particular order.
pub async fn examine(
    servers: &[Arc<Server>],
    account: &Account,
    tls: &Arc<TlsSetup>,
    time_max: Duration,
) -> Vec<(Address, Result<Answers, String>)> {
    let turns = Arc::new(Semaphore::new(LOOKS_MAX));
    let mut looks = JoinSet::new();
    for server in servers {
        let (server, account) = (Arc::clone(server), account.clone());
        let (way, turns) = (Way::to(&server, tls), Arc::clone(&turns));
        looks.spawn(async move {
            // The semaphore is never closed, so that there always is a permit in the end.
            let _turn = turns.acquire().await;
            let look = timeout(time_max, look_at(&server, &account, &way)).await;
            let answers = match look {
                Ok(answers) => answers.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer within {} ms", time_max.as_millis())),
            };
            (server.key.address.clone(), answers)
        });
    }
    looks.join_all().await
}

async fn look_at(server: &Server, account: &Account, way: &Way) -> Result<Answers, LearnError> {
    let (mut conversation, greeting) = conversation::open(server, account, way).await?;
    let flavor = Flavor::of_version(&greeting.server_version);
    let is_mariadb = flavor == Flavor::MariaDb;
    let mut answers = Answers { is_mariadb, ..Answers::default() };
    answers.variables = variables(&conversation.ask(VARIABLES, ANSWER_LEN_MAX).await?);
    (answers.clock_ahead_ms, answers.clock_error_ms) = clock(&mut conversation).await?;
    answers.sources = allowed(sources(&mut conversation, flavor).await)?;
    let (major, minor, _) = answers.version();
    let asked = match is_mariadb && (major, minor) >= SUPER_LESS {
        true => ADMINISTRATORS,
        false => SUPERUSERS,
    };
    answers.superusers = allowed(conversation.ask(asked, ANSWER_LEN_MAX).await)?
        .map(|answer| answer.rows.iter().filter_map(|row| name_of(&text_at(row, 0)?)).collect());
    // How the server takes the farewell changes nothing.
    drop(conversation.quit().await);
    Ok(answers)
}

/// What the account may not see is nothing; whatever else fails is an error.
fn allowed<T>(answered: Result<T, LearnError>) -> Result<Option<T>, LearnError> {
    match answered {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_answer() => Ok(None),
        Err(error) => Err(error),
    }
}

fn text_at(row: &[Option<Vec<u8>>], at: usize) -> Option<String> {
    Some(String::from_utf8_lossy(row.get(at)?.as_deref()?).into_owned())
}

fn variables(answer: &Answer) -> BTreeMap<String, String> {
    let pair =
        |row: &Vec<Option<Vec<u8>>>| Some((text_at(row, 0)?.to_lowercase(), text_at(row, 1)?));
    answer.rows.iter().filter_map(pair).collect()
}

/// How far the server's clock is ahead of this one, and half of the time that the question took.
async fn clock(conversation: &mut Conversation) -> Result<(i64, u64), LearnError> {
    let before = SystemTime::now();
    let answer = conversation.ask(CLOCK, ANSWER_LEN_MAX).await?;
    let took_ms = before.elapsed().map_or(0, |took| took.as_millis());
    let own_ms = before.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis()) + took_ms / 2;
    let said = answer.rows.first().and_then(|row| text_at(row, 0)).unwrap_or_default();
    let said_ms = milliseconds(&said)
        .ok_or_else(|| LearnError::new(format!("its answer is malformed: a time of `{said}`")))?;
    let own_ms = i64::try_from(own_ms).unwrap_or(i64::MAX);
    Ok((said_ms.saturating_sub(own_ms), u64::try_from(took_ms / 2).unwrap_or(u64::MAX)))
}

/// `1764300000.123456` in milliseconds.
fn milliseconds(seconds: &str) -> Option<i64> {
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, ""));
    let thousandths = part.get(..3).unwrap_or("0");
    whole.parse::<i64>().ok()?.checked_mul(1_000)?.checked_add(thousandths.parse().ok()?)
}

/// Whom the server replicates from.
async fn sources(
    conversation: &mut Conversation,
    flavor: Flavor,
) -> Result<Vec<Source>, LearnError> {
    let answer = ask_for_sources(conversation, flavor, ANSWER_LEN_MAX).await?;
    Ok(answer.rows.iter().map(|row| source(&answer.columns, row)).collect())
}

fn source(columns: &[Vec<u8>], row: &[Option<Vec<u8>>]) -> Source {
    // The newer names first.
    let get = |names: [&str; 2]| {
        let at = |name: &str| columns.iter().position(|column| column == name.as_bytes());
        names.iter().find_map(|name| text_at(row, at(name)?)).unwrap_or_default()
    };
    let runs = |names| get(names) == "Yes";
    let errors = [["Last_IO_Error", ""], ["Last_SQL_Error", ""]].map(get);
    Source {
        host: format!(
            "{}:{}",
            get(["Source_Host", "Master_Host"]),
            get(["Source_Port", "Master_Port"])
        ),
        runs: runs(["Replica_IO_Running", "Slave_IO_Running"])
            && runs(["Replica_SQL_Running", "Slave_SQL_Running"]),
        is_by_gtid: !matches!(get(["Auto_Position", "Using_Gtid"]).as_str(), "" | "0" | "No"),
        error: errors.into_iter().find(|error| !error.is_empty()).unwrap_or_default(),
    }
}

/// The name in `'app'@'%'`.
fn name_of(grantee: &str) -> Option<String> {
    let name = grantee.strip_prefix('\'')?;
    Some(name.split_once("'@")?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_names_are_read() {
        assert_eq!(milliseconds("1764300000.123456"), Some(1_764_300_000_123));
        assert_eq!(milliseconds("1764300000"), Some(1_764_300_000_000));
        assert_eq!(milliseconds("soon"), None);
        assert_eq!(name_of("'app'@'10.0.%'").as_deref(), Some("app"));
        assert_eq!(name_of("app"), None);
    }

    #[test]
    fn a_source_is_read_by_the_names_of_either_family() {
        let row = |pairs: &[(&str, &str)]| {
            let columns: Vec<Vec<u8>> =
                pairs.iter().map(|(name, _)| name.as_bytes().to_vec()).collect();
            let values: Vec<_> =
                pairs.iter().map(|(_, value)| Some(value.as_bytes().to_vec())).collect();
            source(&columns, &values)
        };
        let mariadb = row(&[
            ("Master_Host", "10.0.0.1"),
            ("Master_Port", "3306"),
            ("Slave_IO_Running", "Yes"),
            ("Slave_SQL_Running", "No"),
            ("Last_SQL_Error", "no table"),
            ("Using_Gtid", "Slave_Pos"),
        ]);
        let expected = Source {
            host: "10.0.0.1:3306".to_owned(),
            runs: false,
            is_by_gtid: true,
            error: "no table".to_owned(),
        };
        assert_eq!(mariadb, expected);
        let mysql = row(&[
            ("Source_Host", "10.0.0.1"),
            ("Source_Port", "3306"),
            ("Replica_IO_Running", "Yes"),
            ("Replica_SQL_Running", "Yes"),
            ("Auto_Position", "0"),
        ]);
        assert!(mysql.runs && !mysql.is_by_gtid && mysql.error.is_empty());
    }
}
