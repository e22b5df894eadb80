//! Follows replicas, so that reads go to those that show what their session has written.
//!
//! One connection to each: the replica is asked to wait for the next transaction, and then what it
//! has executed. It answers when its engine has committed that, so what it says is visible; events
//! of a binary log would prove nothing. Writers are asked whether their writes have numbers.

mod said;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::watch::Receiver,
    task::JoinHandle,
    time::{sleep, timeout},
};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{Address, Server, ServerHealth, causal::CausalBoard};

use crate::{
    Account, LearnError,
    conversation::{self, Answer, Conversation, Way},
};
use said::{Said, Seen};

/// Bytes of one answer: a set with many intervals.
const ANSWER_LEN_MAX: usize = 2 << 20;
/// How long a server may take to answer beyond what it was asked to wait.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// How long after a failure a server is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often a writer is asked whether its writes have numbers.
const WRITER_EVERY: Duration = Duration::from_secs(1);
/// The least time between two answers of a replica as long as no read waits: a busy one has a
/// thousand transactions a second, and need not be asked after each.
const PAUSE: Duration = Duration::from_millis(1);

/// Tells workers that a replica shows more.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// Follows replicas and looks at writers as long as any read has to see particular writes. Ends
/// with whoever publishes snapshots.
pub async fn keep_following_replicas(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    board: Arc<CausalBoard>,
    bell: Bell,
) {
    let mut tasks: HashMap<Address, Task> = HashMap::new();
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let account = Account::of_monitor(&snapshot, false);
        let wanted = wanted(&snapshot);
        tasks.retain(|address, task| {
            let is_same = |entries: &Entries| task.is_for(entries, account.as_ref());
            let stays = wanted.get(address).is_some_and(is_same);
            if !stays {
                task.end();
            }
            stays
        });
        for (address, entries) in wanted {
            tasks.entry(address).or_insert_with(|| {
                let follower = Follower {
                    entries: entries.clone(),
                    account: account.clone(),
                    tls: Arc::clone(&tls.borrow()),
                    board: Arc::clone(&board),
                    bell: Arc::clone(&bell),
                };
                let account = account.clone();
                Task { entries, account, handle: tokio::spawn(follower.keep_on()) }
            });
        }
        if snapshots.changed().await.is_err() {
            return tasks.values().for_each(Task::end);
        }
    }
}

/// What a server is in the configuration.
#[derive(Clone)]
struct Entries {
    /// How it is reached.
    server: Arc<Server>,
    /// Its entries among replicas.
    replicas: Vec<Arc<ServerHealth>>,
    /// All its entries.
    all: Vec<Arc<ServerHealth>>,
}

/// The servers to be asked, by address: replicas, and those that may write.
fn wanted(snapshot: &Snapshot) -> BTreeMap<Address, Entries> {
    let mut wanted: BTreeMap<Address, Entries> = BTreeMap::new();
    if !snapshot.has_causal_reads {
        return wanted;
    }
    for server in snapshot.mysql_servers() {
        let entries = wanted.entry(server.key.address.clone()).or_insert_with(|| Entries {
            server: Arc::clone(server),
            replicas: Vec::new(),
            all: Vec::new(),
        });
        entries.all.push(Arc::clone(&server.health));
        if snapshot.reader_group(server.key.hostgroup).is_some() {
            entries.replicas.push(Arc::clone(&server.health));
        }
    }
    wanted
}

/// A follower at work.
struct Task {
    entries: Entries,
    account: Option<Account>,
    handle: JoinHandle<()>,
}

impl Task {
    fn is_for(&self, entries: &Entries, account: Option<&Account>) -> bool {
        let places = |all: &[Arc<ServerHealth>]| all.iter().map(Arc::as_ptr).collect::<Vec<_>>();
        let of = |it: &Entries| (places(&it.replicas), places(&it.all), it.server.resolved.clone());
        !self.handle.is_finished()
            && self.account.as_ref() == account
            && of(&self.entries) == of(entries)
    }

    /// Ends it; nothing is known of the server any more.
    fn end(&self) {
        self.handle.abort();
        self.entries.forget();
    }
}

impl Entries {
    fn forget(&self) {
        for health in &self.all {
            health.reached.clear();
            health.reached.set_numbers(false);
        }
    }
}

struct Follower {
    entries: Entries,
    account: Option<Account>,
    tls: Arc<TlsSetup>,
    board: Arc<CausalBoard>,
    bell: Bell,
}

impl Follower {
    /// Follows the server, and tries again after each failure.
    async fn keep_on(self) {
        let mut trouble = String::new();
        loop {
            let Err(error) = self.follow(&mut trouble).await;
            self.entries.forget();
            let reason = error.to_string();
            if trouble != reason {
                let server = &self.entries.server.key.address;
                tracing::warn!(
                    %server,
                    "it can't be followed, so causal reads go to others: {reason}"
                );
                trouble = reason;
            }
            sleep(RETRY_AFTER).await;
        }
    }

    /// Ends with a failure only.
    async fn follow(&self, trouble: &mut String) -> Result<std::convert::Infallible, LearnError> {
        let (mut conversation, flavor) = timeout(ANSWER_TIME_MAX, self.connect())
            .await
            .map_err(|_| LearnError::new("it gave no connection in time"))??;
        let mut seen = Seen::new(flavor);
        let mut last = None;
        loop {
            let numbers = said::numbers(&ask(&mut conversation, said::numbering(flavor)).await?);
            self.entries.all.iter().for_each(|health| health.reached.set_numbers(numbers));
            if last.replace(numbers) != Some(numbers) && !numbers {
                let server = &self.entries.server.key.address;
                tracing::warn!(
                    %server,
                    "its writes have no numbers (binary log or gtid_mode off): sessions that write \
                     there read from the writer"
                );
            }
            if self.entries.replicas.is_empty() {
                trouble.clear();
                sleep(WRITER_EVERY).await;
                continue;
            }
            self.follow_for_a_while(&mut conversation, &mut seen).await?;
            trouble.clear();
        }
    }

    /// Follows a replica until it is time to look at its settings again.
    async fn follow_for_a_while(
        &self,
        conversation: &mut Conversation,
        seen: &mut Seen,
    ) -> Result<(), LearnError> {
        let until = tokio::time::Instant::now() + WRITER_EVERY;
        while tokio::time::Instant::now() < until {
            let answer = ask(conversation, &seen.question()).await?;
            let said = Said::read(&answer, seen.flavor())?;
            if seen.take(&said) {
                let shown = said.shown(&self.board.origins);
                for health in &self.entries.replicas {
                    health.reached.publish(shown.iter().cloned());
                }
                if self.board.is_waited() {
                    (self.bell)();
                }
            }
            if !self.board.is_waited() {
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    async fn connect(&self) -> Result<(Conversation, Flavor), LearnError> {
        let account = self.account.as_ref().ok_or_else(|| {
            LearnError::new("nobody can ask: no user has a password that opens servers")
        })?;
        let server = &self.entries.server;
        let mut conversation = conversation::connect(server).await?;
        let (greeting, header, payload) = conversation.greeting().await?;
        let way = Way::to(server, &self.tls);
        conversation.log_in(account, &way, header, payload).await?;
        Ok((conversation, greeting.flavor()))
    }
}

async fn ask(conversation: &mut Conversation, question: &str) -> Result<Answer, LearnError> {
    let answer = timeout(ANSWER_TIME_MAX, conversation.ask(question, ANSWER_LEN_MAX)).await;
    answer.map_err(|_| LearnError::new("it gave no answer in time"))?
}
