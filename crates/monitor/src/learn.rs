//! One look at a server: what it greets with.

use std::{fmt, io, sync::Arc, time::Duration};

use tokio::{sync::Semaphore, task::JoinSet, time::timeout};
use trunkline_config::{Settings, Snapshot};
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_session::Credential;
use trunkline_topology::{Address, Server, TlsMode, User};

use crate::conversation::{self, Way};

/// Servers looked at together.
const LOOKS_MAX: usize = 64;
/// The most bytes that a server may send before the login is over.
pub(crate) const LOGIN_BYTES_MAX: usize = 64 * 1024;
/// How long the server may take to close after `COM_QUIT`.
pub(crate) const FAREWELL_TIME_MAX: Duration = Duration::from_millis(200);
/// `COM_QUIT`.
pub(crate) const QUIT: &[u8] = &[0x01];

/// Who logs in to look. A connection that ends before its login counts on the server as aborted,
/// and too many of them make it block the proxy's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub(crate) user: String,
    pub(crate) credential: Credential,
}

impl Account {
    /// This user with this credential.
    pub fn new(user: String, credential: Credential) -> Self {
        Self { user, credential }
    }

    /// The first active user whose password is known.
    pub fn of(snapshot: &Snapshot) -> Option<Self> {
        let mut users = snapshot.config.users.iter().filter(|user| user.active);
        users.find_map(|user| Self::of_user(user))
    }

    /// Who asks about roles and replication: the user of `monitor_account`, or
    /// `monitor_username`. As long as that has its default, whatever ProxySQL's tables do not
    /// describe (`is_listed`) is asked as [`of`](Self::of).
    pub fn of_monitor(snapshot: &Snapshot, is_listed: bool) -> Option<Self> {
        let settings = &snapshot.settings;
        let given = (&settings.monitor_username, &settings.monitor_password);
        let default = Settings::default();
        let is_default = given == (&default.monitor_username, &default.monitor_password);
        match settings.monitor_account.as_str() {
            "" if is_default && !is_listed => Self::of(snapshot),
            "" => {
                let credential = Credential::from_clear(given.1.expose().as_bytes());
                Some(Self { user: given.0.clone(), credential })
            }
            name => Self::named(snapshot, name),
        }
    }

    /// Who changes servers in a switchover: the user of `switchover_account`, or who asks about
    /// roles.
    pub(crate) fn of_switchovers(snapshot: &Snapshot) -> Option<Self> {
        match snapshot.settings.switchover_account.as_str() {
            "" => Self::of_monitor(snapshot, false),
            name => Self::named(snapshot, name),
        }
    }

    /// Who asks for signs of life: an account that was given for it, or ProxySQL's default where
    /// its tables describe clusters.
    pub(crate) fn of_pings(snapshot: &Snapshot) -> Option<Self> {
        let (settings, default) = (&snapshot.settings, Settings::default());
        let is_given = !settings.monitor_account.is_empty()
            || settings.monitor_username != default.monitor_username
            || settings.monitor_password != default.monitor_password
            || snapshot.clusters.iter().any(|cluster| cluster.entry.begins_as_listed());
        is_given.then(|| Self::of_monitor(snapshot, true)).flatten()
    }

    /// The account of the user called `name`, active or not; `None` where its password is not
    /// known.
    pub fn named(snapshot: &Snapshot, name: &str) -> Option<Self> {
        snapshot.user(name).and_then(|user| Self::of_user(user))
    }

    pub(crate) fn of_user(user: &User) -> Option<Self> {
        let (name, password) = match &user.backend {
            Some(backend) => (&backend.user, Some(&backend.password)),
            None => (&user.name, user.password.clear()),
        };
        let credential = Credential::from_clear(password?.expose().as_bytes());
        Some(Self { user: name.clone(), credential })
    }
}

/// What a server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// Its greeting.
    pub greeting: Greeting,
    /// Why it did not let the account in, if it did not. The greeting is good all the same.
    pub refusal: Option<String>,
}

/// Why a server could not be looked at; in words for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnError {
    text: String,
    /// Nobody listens there, or the connection was cut.
    is_of_connection: bool,
    /// The network does not lead there: that says nothing of the server.
    is_unreachable: bool,
    /// Nobody listens there.
    is_refused: bool,
    /// It is an error that the server has answered a statement with.
    is_answer: bool,
}

impl LearnError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_of_connection: false,
            is_unreachable: false,
            is_refused: false,
            is_answer: false,
        }
    }

    /// What a server has answered: `text` begins with the error's number.
    pub(crate) fn answered(text: String) -> Self {
        Self { is_answer: true, ..Self::new(text) }
    }

    /// Whether it is an error that the server has answered a statement with.
    pub(crate) fn is_answer(&self) -> bool {
        self.is_answer
    }

    /// Whether nobody listens there, or the connection was cut.
    pub(crate) fn is_of_connection(&self) -> bool {
        self.is_of_connection
    }

    /// Whether nobody listens there.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Whether the network does not lead there, which says nothing of the server.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.is_unreachable
    }
}

impl fmt::Display for LearnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for LearnError {}

impl From<io::Error> for LearnError {
    fn from(error: io::Error) -> Self {
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
            _ => error.to_string(),
        };
        let is_unreachable = matches!(
            error.kind(),
            io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown
                | io::ErrorKind::TimedOut
        );
        let is_refused =
            matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound);
        Self { is_of_connection: true, is_unreachable, is_refused, ..Self::new(text) }
    }
}

/// Looks at every server, each for at most `time_max`, and at each address once. With an account
/// it logs in, encrypted as the configuration says, and takes its leave; without one it only reads
/// the greeting.
///
/// Must run within a tokio runtime. The answers are in no particular order.
pub async fn learn(
    servers: &[Arc<Server>],
    account: Option<&Account>,
    tls: &Arc<TlsSetup>,
    time_max: Duration,
) -> Vec<(Address, Result<Learned, LearnError>)> {
    let mut distinct: Vec<&Arc<Server>> = servers.iter().collect();
    // Of several entries for one address the strictest counts.
    distinct.sort_by(|a, b| {
        let by_address = a.key.address.cmp(&b.key.address);
        by_address.then_with(|| strictness(b.tls.mode).cmp(&strictness(a.tls.mode)))
    });
    distinct.dedup_by(|a, b| a.key.address == b.key.address);
    let turns = Arc::new(Semaphore::new(LOOKS_MAX));
    let mut looks = JoinSet::new();
    for server in distinct {
        let account = account.cloned();
        let server = Arc::clone(server);
        let way = Way::to(&server, tls);
        let turns = Arc::clone(&turns);
        looks.spawn(async move {
            // The semaphore is never closed, so that there always is a permit in the end.
            let _turn = turns.acquire().await;
            let look = timeout(time_max, look_at(&server, account.as_ref(), &way)).await;
            let too_slow =
                || LearnError::new(format!("no answer within {} ms", time_max.as_millis()));
            (server.key.address.clone(), look.unwrap_or_else(|_| Err(too_slow())))
        });
    }
    looks.join_all().await
}

fn strictness(mode: TlsMode) -> usize {
    TlsMode::WORDS.iter().position(|(_, other)| *other == mode).unwrap_or_default()
}

async fn look_at(
    server: &Server,
    account: Option<&Account>,
    way: &Way,
) -> Result<Learned, LearnError> {
    let mut conversation = conversation::connect(server).await?;
    let (greeting, header, payload) = conversation.greeting().await?;
    let refusal = match account {
        Some(account) => match conversation.log_in(account, way, header, payload).await {
            Ok(()) => conversation.quit().await.err(),
            Err(error) => Some(error),
        },
        None => None,
    };
    Ok(Learned { greeting, refusal: refusal.map(|error| error.text) })
}

#[cfg(test)]
mod tests;
