//! Accounts of single names, asked for when somebody logs in.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{
        Mutex,
        mpsc::{Receiver, Sender},
        watch,
    },
    time::{Instant, timeout},
};
use trunkline_config::{GrantedUsers, Snapshot};
use trunkline_net::TlsSetup;
use trunkline_topology::{Server, User};

use super::{ANSWER_LEN_MAX, Asked, Wish, can_be_asked, report};
use crate::{Account, LearnError};

/// Names that one question is for: as many as may wait, so that a flood of names that are nobody's
/// makes nobody wait for more than one other question.
const NAMES_MAX: usize = 4_096;
/// How long the connection stays that is not used.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// After a question that failed nobody waits for another one for so long.
const FAILED_PAUSE: Duration = Duration::from_secs(5);
/// Questions take at most one part of so many of the time.
const SHARE: u32 = 5;
/// The longest pause between two of them.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// An answer is good for whoever asks within this time after its question, ms.
const CURRENT_MS: u64 = 1_000;

/// Somebody logs in whose accounts are to be known as they are now.
pub struct UserQuestion {
    /// What the client calls itself.
    pub name: String,
    /// When that was asked, on the workers' clock, ms.
    pub asked_ms: u64,
    /// Takes from when the answer is, on that clock; `None` where there is none, and what was known
    /// before counts.
    pub answer: Box<dyn FnOnce(Option<u64>) + Send>,
}

impl fmt::Debug for UserQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserQuestion").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What servers say of some names.
#[derive(Debug)]
pub struct NamesRead {
    /// The names.
    pub names: Vec<String>,
    /// All of their accounts.
    pub users: GrantedUsers,
    waiting: Vec<UserQuestion>,
}

impl NamesRead {
    /// It is in force: whoever waited for it goes on.
    pub fn answer(self) {
        for question in self.waiting {
            (question.answer)(Some(question.asked_ms));
        }
    }
}

/// Answers questions for single names, all that wait with one question to the servers, until
/// nobody asks or listens any more. `turn` is had by whoever asks servers for their users and
/// passes on what they say: nothing that was asked before is passed on later.
pub async fn keep_looking_up_users(
    snapshots: watch::Receiver<Arc<Snapshot>>,
    tls: watch::Receiver<Arc<TlsSetup>>,
    turn: Arc<Mutex<()>>,
    mut questions: Receiver<UserQuestion>,
    outcomes: Sender<super::UsersRead>,
) {
    let mut asker =
        Asker { tls, open: None, recent: Recent::default(), failed: None, trouble: None };
    loop {
        let first = match timeout(IDLE_MAX, questions.recv()).await {
            Ok(Some(question)) => question,
            Ok(None) => return,
            Err(_) => {
                asker.leave().await;
                continue;
            }
        };
        let mut waiting = vec![first];
        while waiting.len() < NAMES_MAX
            && let Ok(question) = questions.try_recv()
        {
            waiting.push(question);
        }
        let snapshot = Arc::clone(&snapshots.borrow());
        let begun = Instant::now();
        if !asker.answer(&snapshot, &turn, waiting, &outcomes).await {
            return;
        }
        tokio::time::sleep((begun.elapsed() * (SHARE - 1)).min(PAUSE_MAX)).await;
    }
}

/// Whoever asks.
struct Asker {
    tls: watch::Receiver<Arc<TlsSetup>>,
    open: Option<Open>,
    recent: Recent,
    /// When the last question failed, if it did.
    failed: Option<Instant>,
    trouble: Option<String>,
}

/// Names that servers were asked for a moment ago, for whichever worker.
#[derive(Debug, Default)]
struct Recent {
    of: Option<Wish>,
    asked_ms: HashMap<String, u64>,
}

impl Recent {
    /// Those whose names were, by when that was; and the others.
    fn split(
        &mut self,
        wish: &Wish,
        waiting: Vec<UserQuestion>,
    ) -> (Vec<UserQuestion>, Vec<UserQuestion>) {
        if self.of.as_ref() != Some(wish) {
            self.of = Some(wish.clone());
            self.asked_ms.clear();
        }
        let (mut told, mut others) = (Vec::new(), Vec::new());
        for mut question in waiting {
            let is_current =
                |asked_ms: &u64| asked_ms.saturating_add(CURRENT_MS) > question.asked_ms;
            match self.asked_ms.get(&question.name).copied().filter(is_current) {
                Some(asked_ms) => {
                    question.asked_ms = asked_ms;
                    told.push(question);
                }
                None => others.push(question),
            }
        }
        (told, others)
    }

    /// These were asked for.
    fn told(&mut self, questions: &[UserQuestion]) {
        let latest_ms = questions.iter().map(|question| question.asked_ms).max();
        let latest_ms = latest_ms.unwrap_or_default();
        self.asked_ms.retain(|_, asked_ms| asked_ms.saturating_add(CURRENT_MS) > latest_ms);
        for question in questions {
            let asked_ms = self.asked_ms.entry(question.name.clone()).or_default();
            *asked_ms = question.asked_ms.max(*asked_ms);
        }
    }
}

/// A connection that can be asked.
struct Open {
    /// What it was opened by.
    version: u64,
    tls: Arc<TlsSetup>,
    asked: Asked,
}

impl Asker {
    /// Answers those who wait. Whether somebody listens.
    async fn answer(
        &mut self,
        snapshot: &Snapshot,
        turn: &Mutex<()>,
        waiting: Vec<UserQuestion>,
        outcomes: &Sender<super::UsersRead>,
    ) -> bool {
        let is_paused = self.failed.is_some_and(|failed| failed.elapsed() < FAILED_PAUSE);
        let Some(wish) = Wish::of(snapshot).filter(|_| !is_paused) else {
            return give_up(waiting);
        };
        let (told, waiting) = self.recent.split(&wish, waiting);
        if !told.is_empty() {
            // After what they were told is in force, too.
            let read =
                NamesRead { names: Vec::new(), users: GrantedUsers::default(), waiting: told };
            if outcomes.send(super::UsersRead::Names(read)).await.is_err() {
                return false;
            }
        }
        if waiting.is_empty() {
            return true;
        }
        let names: BTreeSet<&String> = waiting.iter().map(|question| &question.name).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let time_max = Duration::from_millis(snapshot.settings.server_users_check_timeout);
        // Nobody's fault: all users are being read.
        let Ok(_turn) = timeout(time_max, turn.lock()).await else {
            return give_up(waiting);
        };
        let read = timeout(time_max, self.ask(snapshot, &wish, &names)).await;
        let late = |_| Err(LearnError::new("no answer in time for a login"));
        let read = read.unwrap_or_else(late);
        report(&read, &mut self.trouble);
        let Ok(users) = read else {
            self.open = None;
            self.failed = Some(Instant::now());
            return give_up(waiting);
        };
        self.failed = None;
        self.recent.told(&waiting);
        let users = GrantedUsers::new(users.into_iter().map(|user| wish.home(user)));
        let read = NamesRead { names, users, waiting };
        outcomes.send(super::UsersRead::Names(read)).await.is_ok()
    }

    /// The accounts of these names. A connection that has gone meanwhile is opened once more.
    async fn ask(
        &mut self,
        snapshot: &Snapshot,
        wish: &Wish,
        names: &[String],
    ) -> Result<Vec<User>, LearnError> {
        let tls = Arc::clone(&self.tls.borrow());
        let is_current =
            |open: &Open| open.version == snapshot.version && Arc::ptr_eq(&open.tls, &tls);
        if self.open.as_ref().is_some_and(|open| !is_current(open)) {
            self.leave().await;
        }
        if let Some(open) = &mut self.open {
            match open.asked.users(Some(names), ANSWER_LEN_MAX).await {
                Ok(users) => return Ok(users),
                Err(_) => self.open = None,
            }
        }
        let account = wish.account(snapshot)?;
        let servers = snapshot.hostgroup(wish.hostgroup).map(|group| group.servers.as_slice());
        let mut servers = servers.unwrap_or_default().iter().filter(can_be_asked);
        let mut asked = open_any(&mut servers, &account, &tls, wish).await?;
        let users = asked.users(Some(names), ANSWER_LEN_MAX).await?;
        self.open = Some(Open { version: snapshot.version, tls, asked });
        Ok(users)
    }

    async fn leave(&mut self) {
        if let Some(open) = self.open.take() {
            open.asked.quit().await;
        }
    }
}

/// A connection to the first server that takes one.
async fn open_any(
    servers: &mut (dyn Iterator<Item = &Arc<Server>> + Send),
    account: &Account,
    tls: &Arc<TlsSetup>,
    wish: &Wish,
) -> Result<Asked, LearnError> {
    let mut failure = wish.nobody();
    for server in servers {
        match Asked::open(server, account, tls).await {
            Ok(asked) => return Ok(asked),
            Err(error) => failure = format!("{}: {error}", server.key.address),
        }
    }
    Err(LearnError::new(failure))
}

fn give_up(waiting: Vec<UserQuestion>) -> bool {
    for question in waiting {
        (question.answer)(None);
    }
    true
}

#[cfg(test)]
mod tests {
    use trunkline_topology::HostgroupId;

    use super::*;

    fn questions(asked: &[(&str, u64)]) -> Vec<UserQuestion> {
        let question = |(name, asked_ms): &(&str, u64)| UserQuestion {
            name: (*name).to_owned(),
            asked_ms: *asked_ms,
            answer: Box::new(|_| {}),
        };
        asked.iter().map(question).collect()
    }

    #[test]
    fn what_another_worker_asked_a_moment_ago_is_not_asked_again() {
        let wish = |account: &str| Wish { account: account.to_owned(), hostgroup: HostgroupId(1) };
        let mut recent = Recent::default();
        recent.told(&questions(&[("app", 5_000), ("app", 5_100), ("other", 4_000)]));
        recent.of = Some(wish("reader"));
        let asked = [("app", 6_099), ("app", 6_100), ("other", 5_100), ("new", 5_000)];
        let (told, others) = recent.split(&wish("reader"), questions(&asked));
        let told: Vec<_> = told.iter().map(|it| (it.name.as_str(), it.asked_ms)).collect();
        assert_eq!(told, [("app", 5_100)]);
        let others: Vec<_> = others.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(others, ["app", "other", "new"]);
        // Other servers may say something else.
        let (told, others) = recent.split(&wish("another"), questions(&[("app", 5_200)]));
        assert!(told.is_empty() && others.len() == 1);
    }
}
