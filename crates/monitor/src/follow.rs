//! Follows replicas, so that reads go to those that show what their session has written.
//!
//! One connection to each: the replica is asked to wait for the next transaction, and then what it
//! has executed. It answers when its engine has committed that, so what it says is visible; events
//! of a binary log would prove nothing. Writers are asked whether their writes have numbers.

mod fresh;
mod marks;
mod said;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
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
use trunkline_topology::{
    Address, HostgroupId, Server, ServerHealth, ServerKey, causal::CausalBoard,
};

use crate::{
    Account, LearnError,
    conversation::{self, Answer, Conversation, Way},
};
use fresh::Freshness;
use marks::Marker;
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

/// The time on the workers' clock, ms.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Follows replicas and looks at writers as long as any read has to see particular writes. Ends
/// with whoever publishes snapshots.
pub async fn keep_following_replicas(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    board: Arc<CausalBoard>,
    (bell, clock): (Bell, Clock),
) {
    let mut tasks: HashMap<Address, Task> = HashMap::new();
    let mut fresh = HashMap::new();
    let mut markers: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let account = Account::of_monitor(&snapshot, false);
        fresh = freshness(&snapshot, fresh);
        let wanted = wanted(&snapshot, &fresh);
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
                    claim: Arc::default(),
                };
                let (account, claim) = (account.clone(), Arc::clone(&follower.claim));
                let handle = tokio::spawn(follower.keep_on());
                Task { entries, account, claim, handle }
            });
        }
        markers.drain(..).for_each(|marker| marker.abort());
        for marker in self::markers(&snapshot, &fresh, &tls.borrow(), (&board, &clock)) {
            markers.push(tokio::spawn(marker.keep_on()));
        }
        if snapshots.changed().await.is_err() {
            markers.iter().for_each(JoinHandle::abort);
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
    replicas: Vec<Replica>,
    /// All its entries.
    all: Vec<Arc<ServerHealth>>,
}

/// How fresh the entries of servers are that are read from.
type Fresh = HashMap<ServerKey, Replica>;
/// An entry, and how fresh it is.
type Replica = (Arc<ServerHealth>, Arc<Freshness>);

/// How fresh each entry of a server is that is read from. What is known of it stays known.
fn freshness(snapshot: &Snapshot, mut before: Fresh) -> Fresh {
    if !snapshot.has_causal_reads {
        return Fresh::new();
    }
    let readers =
        snapshot.mysql_servers().filter(|it| snapshot.causal.readers(it.key.hostgroup).is_some());
    let of = |server: &Arc<Server>| {
        let known = before.remove(&server.key);
        let known = known.filter(|(health, _)| Arc::ptr_eq(health, &server.health));
        let entry = known.unwrap_or_else(|| (Arc::clone(&server.health), Arc::default()));
        (server.key.clone(), entry)
    };
    readers.map(of).collect()
}

/// Who asks writers what they have, one for each hostgroup of replicas.
fn markers(
    snapshot: &Snapshot,
    fresh: &Fresh,
    tls: &Arc<TlsSetup>,
    (board, clock): (&Arc<CausalBoard>, &Clock),
) -> Vec<Marker> {
    let mut groups: BTreeMap<HostgroupId, Vec<Replica>> = BTreeMap::new();
    for (key, entry) in fresh {
        groups.entry(key.hostgroup).or_default().push(entry.clone());
    }
    let of = |(id, replicas)| {
        let writer = snapshot.causal.readers(id).and_then(|it| it.writer);
        Marker {
            writers: marks::servers(snapshot, writer),
            tells_writer: writer.is_some_and(|it| snapshot.causal.readers(it).is_none()),
            board: Arc::clone(board),
            replicas,
            account: Account::of_monitor(snapshot, false),
            tls: Arc::clone(tls),
            clock: Arc::clone(clock),
            every: marks::every(snapshot),
        }
    };
    groups.into_iter().map(of).collect()
}

/// The servers to be asked, by address: replicas, and those that may write.
fn wanted(snapshot: &Snapshot, fresh: &Fresh) -> BTreeMap<Address, Entries> {
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
        entries.replicas.extend(fresh.get(&server.key).cloned());
    }
    wanted
}

/// A follower at work.
struct Task {
    entries: Entries,
    account: Option<Account>,
    claim: Arc<Claim>,
    handle: JoinHandle<()>,
}

/// Whether a follower may still say what its server shows: one that was ended may be at work.
#[derive(Debug, Default)]
struct Claim(Mutex<bool>);

impl Claim {
    /// Says it, unless the follower was ended.
    fn say(&self, say: impl FnOnce()) {
        let is_over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_over {
            say();
        }
    }

    /// Nothing is said from now on; `last` is.
    fn end(&self, last: impl FnOnce()) {
        let mut is_over = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *is_over = true;
        last();
    }
}

impl Task {
    fn is_for(&self, entries: &Entries, account: Option<&Account>) -> bool {
        let places = |all: &[Arc<ServerHealth>]| all.iter().map(Arc::as_ptr).collect::<Vec<_>>();
        let of = |it: &Entries| {
            let replicas: Vec<_> =
                it.replicas.iter().map(|(_, fresh)| Arc::as_ptr(fresh)).collect();
            (replicas, places(&it.all), it.server.resolved.clone())
        };
        !self.handle.is_finished()
            && self.account.as_ref() == account
            && of(&self.entries) == of(entries)
    }

    /// Ends it; nothing is known of the server any more.
    fn end(&self) {
        self.handle.abort();
        self.claim.end(|| self.entries.forget());
    }
}

impl Entries {
    fn forget(&self) {
        for (_, fresh) in &self.replicas {
            fresh.forget();
        }
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
    claim: Arc<Claim>,
}

impl Follower {
    /// Follows the server, and tries again after each failure.
    async fn keep_on(self) {
        let mut trouble = String::new();
        loop {
            let Err(error) = self.follow(&mut trouble).await;
            self.claim.say(|| self.entries.forget());
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
            self.claim.say(|| {
                self.entries.all.iter().for_each(|it| it.reached.set_numbers(numbers));
            });
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
                self.claim.say(|| {
                    for (health, fresh) in &self.entries.replicas {
                        health.reached.publish(shown.iter().cloned());
                        if let Some(at_ms) = fresh.says(&said) {
                            health.reached.set_fresh(at_ms);
                        }
                    }
                });
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
        let account = conversation::asker(self.account.as_ref())?;
        let server = &self.entries.server;
        let way = Way::to(server, &self.tls);
        let (conversation, greeting) = conversation::open(server, account, &way).await?;
        Ok((conversation, greeting.flavor()))
    }
}

async fn ask(conversation: &mut Conversation, question: &str) -> Result<Answer, LearnError> {
    let answer = timeout(ANSWER_TIME_MAX, conversation.ask(question, ANSWER_LEN_MAX)).await;
    answer.map_err(|_| LearnError::new("it gave no answer in time"))?
}
