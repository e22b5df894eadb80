//! Whether accounts may do on servers what it takes to find out what became of a lost `COMMIT`: an
//! application's account has to mark its connections, and the monitor's has to see what is logged.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, watch::Receiver},
    task::JoinSet,
    time::timeout,
};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{
    Address, HostgroupId, Server, User,
    gtid::Tag,
    outcome::{CommitOutcomes, MarkName},
};

use super::{number, text};
use crate::{
    Account, LearnError,
    conversation::{self, Conversation, Way},
};

/// Accounts on servers that are looked at: each look is a login.
const LOOKS_MAX: usize = 256;
/// Looks under way at once.
const TURNS: usize = 8;
/// How long one may take.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);
/// How long it is waited before servers are asked that have not answered.
const AGAIN: Duration = Duration::from_secs(30);
/// Bytes of an answer: the log's position may be long.
const ANSWER_LEN_MAX: usize = 1 << 20;

/// What an account has to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Need {
    /// To mark its connections.
    Mark,
    /// To see what is logged and replicated.
    See,
}

/// An account that needs something on a server.
#[derive(Clone)]
pub struct Wanted {
    account: Account,
    server: Arc<Server>,
    need: Need,
}

impl Wanted {
    /// The server.
    pub(crate) fn server(&self) -> &Address {
        &self.server.key.address
    }
}

/// An account that lacks a privilege on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// Where.
    pub server: String,
    /// What it can't do, and why.
    pub what: String,
    /// The statement that mends it.
    pub advice: String,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.server, self.what, self.advice)
    }
}

/// Everybody who needs something so that lost `COMMIT`s can be looked for, on each server that may
/// be the writer; nobody where that is not asked for.
pub fn wanted(snapshot: &Snapshot) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = Vec::new();
    if !snapshot.finds_outcomes {
        return all;
    }
    let mut known = HashSet::new();
    let mut add = |account: &Account, home: HostgroupId, need: Need| {
        for server in snapshot.hostgroup(home).into_iter().flat_map(|it| &it.servers) {
            let name = (account.user.clone(), server.key.address.clone(), need);
            if all.len() < LOOKS_MAX && known.insert(name) {
                let (account, server) = (account.clone(), Arc::clone(server));
                all.push(Wanted { account, server, need });
            }
        }
    };
    let monitor = Account::of_monitor(snapshot, false);
    for (account, home) in marking(snapshot) {
        add(&account, home, Need::Mark);
        if let Some(monitor) = &monitor {
            add(monitor, home, Need::See);
        }
    }
    all
}

/// Accounts whose lost `COMMIT`s are looked for, each with the hostgroup that it writes to. Those
/// whose passwords are not known can't be asked.
pub(crate) fn marking(snapshot: &Snapshot) -> impl Iterator<Item = (Account, HostgroupId)> {
    let by_default = snapshot.settings.commit_outcome;
    let wants = move |user: &&Arc<User>| {
        user.active && user.commit_outcome.unwrap_or(by_default) == CommitOutcomes::Auto
    };
    let home = |user: &Arc<User>| {
        let own = user.default_hostgroup;
        let split = snapshot.replication.iter().find(|it| it.reader_hostgroup == own);
        let home = split.map_or(own, |split| split.writer_hostgroup);
        Some((Account::of_user(user)?, home))
    };
    snapshot.config.users.iter().filter(wants).filter_map(home)
}

/// What one account needs on one server, to mark its connections.
pub(crate) fn mark_on(account: &Account, server: &Arc<Server>) -> Wanted {
    Wanted { account: account.clone(), server: Arc::clone(server), need: Need::Mark }
}

/// Asks servers whether accounts have what they need; who lacks something. What a server does not
/// answer in time is not known.
///
/// Must run within a tokio runtime.
pub async fn look(wanted: Vec<Wanted>, tls: &Arc<TlsSetup>) -> Vec<Lacking> {
    let found = ask(wanted, tls).await;
    let mut lacking: Vec<Lacking> =
        found.into_iter().filter_map(|(_, found)| found.ok()?).collect();
    lacking.sort_by(|a, b| (&a.server, &a.what).cmp(&(&b.server, &b.what)));
    lacking
}

async fn ask(
    wanted: Vec<Wanted>,
    tls: &Arc<TlsSetup>,
) -> Vec<(Wanted, Result<Option<Lacking>, LearnError>)> {
    let turns = Arc::new(Semaphore::new(TURNS));
    let mut looks = JoinSet::new();
    for one in wanted {
        let (way, turns) = (Way::to(&one.server, tls), Arc::clone(&turns));
        looks.spawn(async move {
            // The semaphore is never closed, so that there always is a permit in the end.
            let _turn = turns.acquire().await;
            let found = timeout(LOOK_TIME_MAX, look_at(&one, &way)).await;
            let late = |_| Err(LearnError::new("it did not answer in time"));
            (one, found.unwrap_or_else(late))
        });
    }
    looks.join_all().await
}

async fn look_at(wanted: &Wanted, way: &Way) -> Result<Option<Lacking>, LearnError> {
    let Wanted { account, server, need } = wanted;
    let mut conversation = conversation::connect(server).await?;
    let (greeting, header, payload) = conversation.greeting().await?;
    conversation.log_in(account, way, header, payload).await?;
    let flavor = Flavor::of_version(&greeting.server_version);
    let refused = match need {
        Need::Mark => may_mark(&mut conversation, flavor).await?,
        Need::See => may_see(&mut conversation, flavor).await?,
    };
    let mut lacking = None;
    if let Some((why, privileges)) = refused {
        let rows = conversation.query("SELECT CURRENT_USER()", ANSWER_LEN_MAX).await?;
        let whom = quoted(&rows.first().map(|row| text(row, 0)).unwrap_or_default());
        let cannot = match need {
            Need::Mark => "may not mark its connections",
            Need::See => "may not see what is logged or replicated",
        };
        lacking = Some(Lacking {
            server: server.key.address.to_string(),
            what: format!(
                "what becomes of lost COMMITs can't be found out, as account `{}` {cannot} ({why})",
                account.user
            ),
            advice: format!("GRANT {privileges} ON *.* TO {whom}"),
        });
    }
    // How the server takes the farewell changes nothing.
    drop(conversation.quit().await);
    Ok(lacking)
}

/// Why an account may not, and the privileges for it.
type Refused = Option<(String, &'static str)>;

/// Whether an account may set a mark; on MySQL one that nothing is committed under.
async fn may_mark(conversation: &mut Conversation, flavor: Flavor) -> Result<Refused, LearnError> {
    let name = match flavor {
        Flavor::MySql => Tag::parse(b"trunkline").map(MarkName::Tag),
        Flavor::MariaDb => {
            let rows = conversation.query("SELECT @@GLOBAL.server_id", ANSWER_LEN_MAX).await?;
            let own = rows.first().and_then(|row| number(row, 0));
            own.and_then(|own| u32::try_from(own).ok()).map(MarkName::ServerId)
        }
    };
    let Some(name) = name else { return Ok(None) };
    may(conversation, &name.set(), name.privileges()).await
}

/// Whether an account may ask what the search asks of a server's log and of its replication.
async fn may_see(conversation: &mut Conversation, flavor: Flavor) -> Result<Refused, LearnError> {
    let (asked, privileges) = match flavor {
        Flavor::MySql => ("SHOW REPLICA STATUS", "REPLICATION CLIENT"),
        Flavor::MariaDb => ("SHOW ALL SLAVES STATUS", "SLAVE MONITOR"),
    };
    let refused = match conversation.query(asked, ANSWER_LEN_MAX).await {
        Ok(_) => None,
        Err(error) => refusal(error, privileges)?,
    };
    if refused.is_some() || flavor == Flavor::MySql {
        return Ok(refused);
    }
    match conversation.query("SHOW MASTER STATUS", ANSWER_LEN_MAX).await {
        Ok(_) => Ok(None),
        Err(error) => refusal(error, "BINLOG MONITOR"),
    }
}

async fn may(
    conversation: &mut Conversation,
    sql: &str,
    privileges: &'static str,
) -> Result<Refused, LearnError> {
    match conversation.execute(sql).await {
        Ok(()) => Ok(None),
        Err(error) => refusal(error, privileges),
    }
}

/// What a server refuses for want of a privilege. Whatever else it says is about the server.
fn refusal(error: LearnError, privileges: &'static str) -> Result<Refused, LearnError> {
    let text = error.to_string();
    let is_refusal =
        error.is_answer() && DENIED.iter().any(|code| text.starts_with(&format!("error {code}:")));
    if is_refusal { Ok(Some((text, privileges))) } else { Err(error) }
}

/// Errors that say that a privilege is missing: the last one is about tags of MySQL.
const DENIED: [u16; 2] = [1227, 6038];

/// `'app'@'%'` of `app@%`.
fn quoted(account: &str) -> String {
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    let quote = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    format!("{}@{}", quote(user), quote(host))
}

/// Looks at each account on each server once that it is needed on, and logs who lacks what. Ends
/// with whoever publishes snapshots.
pub async fn keep_looking_at_rights(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
) {
    let mut looked = HashSet::new();
    loop {
        // Held no longer than this: what a configuration no longer has shall go.
        let mut due = wanted(&snapshots.borrow_and_update());
        let name = |it: &Wanted| (it.account.user.clone(), it.server.key.address.clone(), it.need);
        let still: HashSet<_> = due.iter().map(name).collect();
        looked.retain(|it| still.contains(it));
        // A name that is resolved comes with another snapshot.
        let is_reached = |it: &Wanted| {
            matches!(it.server.key.address, Address::Unix(_)) || !it.server.resolved.is_empty()
        };
        due.retain(|it| !looked.contains(&name(it)) && is_reached(it));
        let tls = Arc::clone(&tls.borrow());
        let mut is_known = true;
        for (one, found) in ask(due, &tls).await {
            match found {
                Ok(Some(lacking)) => tracing::warn!("{lacking}"),
                Err(error) if error.is_of_connection() => {
                    is_known = false;
                    continue;
                }
                Ok(None) | Err(_) => {}
            }
            looked.insert(name(&one));
        }
        let changed = match is_known {
            true => snapshots.changed().await,
            false => timeout(AGAIN, snapshots.changed()).await.unwrap_or(Ok(())),
        };
        if changed.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_named_as_servers_want_it() {
        assert_eq!(quoted("app@%"), "'app'@'%'");
        assert_eq!(quoted("o'brien@x@10.0.0.1"), "'o''brien@x'@'10.0.0.1'");
        assert_eq!(quoted("app"), "'app'@'%'");
    }

    #[test]
    fn only_a_missing_privilege_is_a_refusal() {
        let privileges = "BINLOG REPLAY";
        let denied = LearnError::answered("error 1227: Access denied".to_owned());
        let refused = refusal(denied, privileges).expect("a refusal");
        assert_eq!(refused, Some(("error 1227: Access denied".to_owned(), privileges)));
        assert!(refusal(LearnError::answered("error 1231: no".to_owned()), privileges).is_err());
        assert!(refusal(LearnError::new("error 1227: not an answer"), privileges).is_err());
    }
}
