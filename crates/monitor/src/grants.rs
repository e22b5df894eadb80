//! Users as servers have them: their grant tables, read at an interval and when somebody asks.

use std::{
    sync::Arc,
    time::{Duration, Instant as StdInstant},
};

use tokio::{
    sync::{Mutex, Notify, mpsc::Sender, watch::Receiver},
    time::{Instant, sleep_until, timeout},
};
use trunkline_config::{GrantedUsers, Snapshot};
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{HostgroupId, Server, ServerState, User};

use crate::{
    Account, LearnError,
    conversation::{self, Conversation, Way},
};

mod names;
mod rows;

pub use names::{NamesRead, UserQuestion, keep_looking_up_users};

/// The least time between two looks at a server's users.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest that whoever asks waits for the next look to begin.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Looks take at most this part of the time.
const SHARE: u32 = 20;
/// How long one server may take, its greeting and all.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes of one server's answer.
const ANSWER_LEN_MAX: usize = 256 << 20;

/// What MySQL knows of its accounts. Hashes have bytes that are no text.
const MYSQL: &str = "SELECT User, Host, plugin, HEX(authentication_string), account_locked, \
    ssl_type, HEX(ssl_cipher), HEX(x509_issuer), HEX(x509_subject), max_user_connections, \
    HEX(JSON_UNQUOTE(JSON_EXTRACT(User_attributes, '$.additional_password'))) FROM mysql.user";
/// What MySQL knows of its accounts, on servers without second passwords.
fn older_mysql() -> String {
    let columns = MYSQL.split(", HEX(JSON").next().unwrap_or(MYSQL);
    format!("{columns}, '' FROM mysql.user")
}

/// What MariaDB knows of them, 10.4 and later.
const MARIADB: &str = "SELECT User, Host, Priv FROM mysql.global_priv";

/// What came of a look; whoever waited for it can go on.
#[derive(Debug)]
pub enum UsersRead {
    /// At all accounts; `None` where it failed, or there is nothing to be looked at.
    All(Option<GrantedUsers>),
    /// At the accounts of some names.
    Names(NamesRead),
}

/// What decides whose users are read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    account: String,
    hostgroup: HostgroupId,
}

impl Wish {
    fn of(snapshot: &Snapshot) -> Option<Self> {
        let settings = &snapshot.settings;
        let account = settings.server_users_account.clone();
        let hostgroup = HostgroupId(settings.server_users_hostgroup);
        (!account.is_empty()).then_some(Self { account, hostgroup })
    }

    /// The account that asks.
    fn account(&self, snapshot: &Snapshot) -> Result<Account, LearnError> {
        Account::named(snapshot, &self.account).ok_or_else(|| {
            LearnError::new(format!("user {} has no password that opens servers", self.account))
        })
    }

    /// A user of these servers, whose sessions begin there.
    fn home(&self, user: User) -> User {
        User { default_hostgroup: self.hostgroup, ..user }
    }

    /// Why nobody can be asked, where there is no server.
    fn nobody(&self) -> String {
        format!("hostgroup {} has no server to ask", self.hostgroup)
    }
}

/// Reads the users of `server_users_hostgroup` every `server_users_interval`, when that or the
/// account changes, and when `wanted` is notified, as soon as the last look is long enough ago.
/// Each look goes to `outcomes`, during its `turn` (see [`keep_looking_up_users`]), and an empty
/// one for each notification while nothing is to be read. Ends when whoever listens has gone.
pub async fn keep_reading_users(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    turn: Arc<Mutex<()>>,
    wanted: Arc<Notify>,
    outcomes: Sender<UsersRead>,
) {
    let mut reader =
        Reader { tls, read_for: None, due: Instant::now(), pause: PAUSE_MIN, last: None };
    let mut trouble = None;
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let Some(wish) = Wish::of(&snapshot) else {
            reader.read_for = None;
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                () = wanted.notified() => if outcomes.send(UsersRead::All(None)).await.is_err() {
                    return;
                },
                () = outcomes.closed() => return,
            }
            continue;
        };
        if reader.read_for.as_ref() == Some(&wish) {
            tokio::select! {
                // The wish may have changed, or the interval.
                changed = snapshots.changed() => match changed {
                    Ok(()) => {
                        reader.plan(snapshots.borrow().settings.server_users_interval);
                        continue;
                    }
                    Err(_) => return,
                },
                () = wanted.notified() => sleep_until(reader.not_before()).await,
                () = sleep_until(reader.due) => {}
                () = outcomes.closed() => return,
            }
        }
        let _turn = turn.lock().await;
        let read = reader.read(&snapshot, wish).await;
        report(&read, &mut trouble);
        if outcomes.send(UsersRead::All(read.ok())).await.is_err() {
            return;
        }
    }
}

/// Logs what has become worse, once.
fn report<T>(read: &Result<T, LearnError>, trouble: &mut Option<String>) {
    let now = read.as_ref().err().map(ToString::to_string);
    if let Some(reason) = now.as_ref().filter(|_| now != *trouble) {
        tracing::warn!("servers' users can't be read, those read before stay: {reason}");
    }
    *trouble = now;
}

/// What the loop remembers.
struct Reader {
    tls: Receiver<Arc<TlsSetup>>,
    /// What the last look was for.
    read_for: Option<Wish>,
    due: Instant,
    /// The least time until the next look.
    pause: Duration,
    last: Option<Instant>,
}

impl Reader {
    /// When a look may begin.
    fn not_before(&self) -> Instant {
        self.last.map_or_else(Instant::now, |last| last + self.pause)
    }

    fn plan(&mut self, interval_ms: u64) {
        let last = self.last.unwrap_or_else(Instant::now);
        self.due = last + Duration::from_millis(interval_ms);
    }

    async fn read(&mut self, snapshot: &Snapshot, wish: Wish) -> Result<GrantedUsers, LearnError> {
        let begun = StdInstant::now();
        let read = self.read_any(snapshot, &wish).await;
        self.pause = (begun.elapsed() * SHARE).clamp(PAUSE_MIN, PAUSE_MAX);
        self.last = Some(Instant::now());
        self.read_for = Some(wish);
        self.plan(snapshot.settings.server_users_interval);
        read
    }

    /// Of the first server that answers.
    async fn read_any(&self, snapshot: &Snapshot, wish: &Wish) -> Result<GrantedUsers, LearnError> {
        let account = wish.account(snapshot)?;
        let servers = snapshot.hostgroup(wish.hostgroup).map(|group| group.servers.as_slice());
        let tls = Arc::clone(&self.tls.borrow());
        let mut failure = wish.nobody();
        for server in servers.unwrap_or_default().iter().filter(can_be_asked) {
            let read = timeout(LOOK_TIME_MAX, users_of(server, &account, &tls)).await;
            match read {
                Ok(Ok(users)) => {
                    return Ok(GrantedUsers::new(users.into_iter().map(|user| wish.home(user))));
                }
                Ok(Err(error)) => failure = format!("{}: {error}", server.key.address),
                Err(_) => failure = format!("{}: no answer in time", server.key.address),
            }
        }
        Err(LearnError::new(failure))
    }
}

/// Whether an operator has left a server in.
fn can_be_asked(server: &&Arc<Server>) -> bool {
    let state = server.health.state(u64::MAX);
    !matches!(state, ServerState::OfflineSoft | ServerState::OfflineHard)
}

/// The users of one server.
async fn users_of(
    server: &Arc<Server>,
    account: &Account,
    tls: &Arc<TlsSetup>,
) -> Result<Vec<User>, LearnError> {
    let mut asked = Asked::open(server, account, tls).await?;
    let users = asked.users(None, ANSWER_LEN_MAX).await?;
    asked.quit().await;
    Ok(users)
}

/// A server that is asked for its users.
struct Asked {
    conversation: Conversation,
    flavor: Flavor,
}

impl Asked {
    async fn open(
        server: &Arc<Server>,
        account: &Account,
        tls: &Arc<TlsSetup>,
    ) -> Result<Self, LearnError> {
        let way = Way::to(server, tls);
        let (conversation, greeting) = conversation::open(server, account, &way).await?;
        Ok(Self { conversation, flavor: greeting.flavor() })
    }

    /// Its users, all or those with one of these names.
    async fn users(
        &mut self,
        names: Option<&[String]>,
        len_max: usize,
    ) -> Result<Vec<User>, LearnError> {
        let named = names.map(with_names).unwrap_or_default();
        match self.flavor {
            Flavor::MySql => {
                let query = format!("{MYSQL}{named}");
                let rows = match self.conversation.query(&query, len_max).await {
                    // Before 8.0.14 an account has one password.
                    Err(error) if error.to_string().starts_with("error 1054") => {
                        let query = format!("{}{named}", older_mysql());
                        self.conversation.query(&query, len_max).await?
                    }
                    answered => answered?,
                };
                Ok(rows.iter().filter_map(rows::mysql).collect())
            }
            Flavor::MariaDb => {
                let query = format!("{MARIADB}{named}");
                let rows = self.conversation.query(&query, len_max).await?;
                Ok(rows.iter().filter_map(rows::mariadb).collect())
            }
        }
    }

    /// The last answer has come: how the server takes the farewell changes nothing.
    async fn quit(self) {
        drop(self.conversation.quit().await);
    }
}

/// The condition that an account has one of these names. As digits no name is read as anything
/// else, whatever the SQL mode.
fn with_names(names: &[String]) -> String {
    let digits = |name: &String| {
        let digits: String = name.bytes().map(|byte| format!("{byte:02X}")).collect();
        format!("0x{digits}")
    };
    let names: Vec<String> = names.iter().map(digits).collect();
    format!(" WHERE User IN ({})", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_digits() {
        let names = ["app", "a'b", "é"].map(str::to_owned);
        assert_eq!(with_names(&names), " WHERE User IN (0x617070, 0x612762, 0xC3A9)");
    }
}
