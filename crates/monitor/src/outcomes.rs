//! What became of a `COMMIT` whose answer was lost: asks the server that it was sent to, or the one
//! that writes in its place. Whom, and what counts, is decided in [`trunkline_topology::outcome`].
//! Whether accounts have the privileges for it is looked at beforehand ([`rights`]).

pub mod rights;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc, watch::Receiver},
    time::{Instant, sleep, timeout_at},
};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{
    Role, Server,
    gtid::TEXT_LEN_MAX,
    outcome::{CommitMark, Ended, Evidence, Input, Outcome, Reading, Search, Step, Unknown, Where},
};

use crate::{
    Account, LearnError,
    conversation::{self, Conversation, Row, Way},
};

/// Searches under way at once.
const SEARCHES_MAX: usize = 64;
/// A moment.
const MOMENT: Duration = Duration::from_millis(20);
/// How long a server has for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// The thread of a server that the lost connection had.
#[derive(Debug, Clone, Copy)]
pub struct LostThread {
    /// Its number.
    pub number: u32,
    /// How old the connection is at least, ms.
    pub age_ms: u64,
    /// The server's family.
    pub flavor: Flavor,
}

/// A `COMMIT`, or a write in autocommit, whose answer was lost.
pub struct OutcomeQuestion {
    /// The server that it was sent to.
    pub server: Arc<Server>,
    /// The connection's thread there.
    pub thread: LostThread,
    /// What its transactions are known by.
    pub mark: CommitMark,
    /// Whose connection it was.
    pub account: Account,
    /// The longest that the search may take.
    pub time_max: Duration,
    /// Is told what was found, and gets the mark back if all is known that was committed under it.
    pub answer: Box<dyn FnOnce(Outcome, Option<CommitMark>) + Send>,
}

/// Answers questions until nobody asks any more, each within its time.
pub async fn keep_finding(
    snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    mut questions: mpsc::Receiver<OutcomeQuestion>,
) {
    let turns = Arc::new(Semaphore::new(SEARCHES_MAX));
    while let Some(question) = questions.recv().await {
        let (snapshots, tls, turns) = (snapshots.clone(), tls.clone(), Arc::clone(&turns));
        tokio::spawn(async move {
            let until = Instant::now() + question.time_max;
            let OutcomeQuestion { server, thread, mark, account, answer, .. } = question;
            // The semaphore is never closed, so that there always is a permit in the end.
            let Ok(_turn) = timeout_at(until, turns.acquire()).await else {
                return answer(Outcome::Unknown(Unknown::Busy), None);
            };
            let begun = Instant::now();
            let mut finder =
                Finder { snapshots, tls, server, thread, mark, account, begun, log: None };
            let mut search = Search::default();
            let mut step = search.begin();
            let outcome = loop {
                if let Step::Answer(outcome) = step {
                    break outcome;
                }
                let input = timeout_at(until, finder.perform(step)).await;
                step = search.on(input.unwrap_or(Input::Late));
            };
            let is_known = finder.settle(outcome);
            answer(outcome, is_known.then_some(finder.mark));
        });
    }
}

/// Who carries out the steps of a search.
struct Finder {
    snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    server: Arc<Server>,
    thread: LostThread,
    mark: CommitMark,
    account: Account,
    /// When the search began.
    begun: Instant,
    /// What was read last.
    log: Option<String>,
}

/// What is said to one server, as whom it is needed.
struct Talk {
    conversation: Conversation,
    /// The server's number for this connection.
    own: u32,
}

impl Finder {
    async fn perform(&mut self, step: Step) -> Input {
        match step {
            Step::Find { after_a_moment } => {
                pause(after_a_moment).await;
                Input::Found(self.whom().map_or(Where::Nowhere, |(place, _)| place))
            }
            Step::Enter => {
                self.enter().await.map_or(Input::Broken, |is_later| Input::Entered { is_later })
            }
            Step::End { after_a_moment } => {
                pause(after_a_moment).await;
                self.end().await.map_or(Input::Broken, Input::Thread)
            }
            Step::Read { on_new, after_a_moment } => {
                pause(after_a_moment).await;
                self.read(on_new).await.map_or(Input::Broken, Input::Read)
            }
            Step::Answer(_) => Input::Late,
        }
    }

    /// Who may say it: the server itself while nobody else has its role, else whoever has it now.
    fn whom(&self) -> Option<(Where, Arc<Server>)> {
        let old = (Where::Old, Arc::clone(&self.server));
        let (cell, member) = match self.server.health.role() {
            Some(Role::Writer { cell, member }) => (cell, *member),
            Some(Role::Shared { .. }) | None => return Some(old),
        };
        let writer = cell.writer()?;
        if writer == member {
            return Some(old);
        }
        let snapshot = self.snapshots.borrow();
        let group = snapshot.hostgroup(self.server.key.hostgroup)?;
        let is_it = |server: &&Arc<Server>| {
            matches!(server.health.role(), Some(Role::Writer { cell: other, member })
                if Arc::ptr_eq(other, cell) && *member == writer)
        };
        group.servers.iter().find(is_it).map(|server| (Where::New, Arc::clone(server)))
    }

    /// Logs in as whom the connection belonged to.
    async fn talk_to(&self, server: &Arc<Server>) -> Result<Talk, LearnError> {
        self.talk_as(server, &self.account).await
    }

    async fn talk_as(&self, server: &Arc<Server>, account: &Account) -> Result<Talk, LearnError> {
        let way = {
            let tls = Arc::clone(&self.tls.borrow());
            Way::to(server, &tls)
        };
        let (conversation, greeting) = conversation::open(server, account, &way).await?;
        Ok(Talk { conversation, own: greeting.connection_id })
    }

    /// Whether the old server has begun to run since the connection was made.
    async fn enter(&self) -> Result<bool, LearnError> {
        let talk = async {
            let mut talk = self.talk_to(&self.server).await?;
            if talk.own <= self.thread.number {
                // It counts anew.
                return Ok(true);
            }
            let uptime = "SHOW GLOBAL STATUS LIKE 'Uptime'";
            let rows = talk.conversation.query(uptime, TEXT_LEN_MAX).await?;
            let uptime = rows.first().and_then(|row| number(row, 1)).unwrap_or(u64::MAX);
            drop(talk.conversation.quit().await);
            // Both are rounded so that one that has not begun anew is never taken for one that has.
            let since_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let age_ms = self.thread.age_ms.saturating_add(since_ms);
            Ok(uptime.saturating_add(2).saturating_mul(1_000) < age_ms)
        };
        within(talk).await
    }

    /// Has the old server end the thread. There is none of its number when nothing of it is under
    /// way any more: servers take a thread off their list behind all that it does.
    async fn end(&self) -> Result<Ended, LearnError> {
        let talk = async {
            let mut talk = self.talk_to(&self.server).await?;
            if talk.own <= self.thread.number {
                // It counts anew by now: another client's thread may have that number.
                return Ok(Ended::Gone);
            }
            let kill = format!("KILL {}", self.thread.number);
            let said = match talk.conversation.execute(&kill).await {
                Ok(()) => Ended::Told,
                Err(error) if is(&error, NO_SUCH_THREAD) => Ended::Gone,
                Err(error) if error.is_answer() => Ended::Refused,
                Err(error) => return Err(error),
            };
            drop(talk.conversation.quit().await);
            Ok(said)
        };
        within(talk).await
    }

    /// Reads the log of the old server, or of the one that writes now.
    async fn read(&mut self, on_new: bool) -> Result<Evidence, LearnError> {
        let wanted = if on_new { Where::New } else { Where::Old };
        let server = match self.whom() {
            Some((place, server)) if place == wanted => server,
            Some(_) | None => return Err(LearnError::new("another server writes by now")),
        };
        let (log, evidence) = within(self.read_log(&server, on_new)).await?;
        self.log = Some(log);
        Ok(evidence)
    }

    async fn read_log(
        &self,
        server: &Arc<Server>,
        on_new: bool,
    ) -> Result<(String, Evidence), LearnError> {
        let flavor = self.thread.flavor;
        // What is being received is looked at before the log: then nothing comes in between.
        let receives = on_new && self.receives(server).await?;
        let mut talk = self.talk_to(server).await?;
        let asks = match flavor {
            Flavor::MySql => {
                "SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_mode = 'ON' AND @@GLOBAL.log_bin"
            }
            Flavor::MariaDb => {
                "SELECT @@GLOBAL.gtid_binlog_state, @@GLOBAL.log_bin, @@GLOBAL.log_slave_updates"
            }
        };
        let rows = talk.conversation.query(asks, TEXT_LEN_MAX).await?;
        let row = rows.first().ok_or_else(|| LearnError::new("it says nothing of its log"))?;
        let log = text(row, 0);
        let logs = number(row, 1) == Some(1)
            && (flavor == Flavor::MySql || !on_new || number(row, 2) == Some(1));
        let reading = self.mark.read(&log).map_err(|error| LearnError::new(error.to_string()))?;
        let awaits_replicas = !on_new && awaits_replicas(&mut talk).await?;
        drop(talk.conversation.quit().await);
        // What is there is there, whatever is left out.
        let is_complete = match reading {
            Reading::AllTold if logs => self.logs_all(server).await?,
            Reading::Untold | Reading::Behind | Reading::AllTold => false,
        };
        Ok((log, Evidence { reading, is_complete, receives, awaits_replicas }))
    }

    /// As whom it is asked what applications' accounts may not ask.
    async fn talk_as_monitor(&self, server: &Arc<Server>) -> Result<Talk, LearnError> {
        let account = Account::of_monitor(&self.snapshots.borrow(), false);
        match account {
            Some(account) => self.talk_as(server, &account).await,
            None => self.talk_to(server).await,
        }
    }

    /// Whether every transaction is logged: no schema is left out, and members of a group do not
    /// take blocks of numbers while some are only taken to be told.
    async fn logs_all(&self, server: &Arc<Server>) -> Result<bool, LearnError> {
        let mut talk = self.talk_as_monitor(server).await?;
        let mut rows = Err(LearnError::new("nothing was asked"));
        for asks in ["SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"] {
            rows = talk.conversation.query(asks, TEXT_LEN_MAX).await;
            if !matches!(&rows, Err(error) if is(error, UNKNOWN_COMMAND)) {
                break;
            }
        }
        let rows = match rows {
            Err(error) if error.is_answer() => return Ok(false),
            other => other?,
        };
        let is_all =
            rows.first().is_some_and(|row| text(row, 2).is_empty() && text(row, 3).is_empty());
        if self.thread.flavor == Flavor::MySql && self.mark.is_filled() {
            let asks = "SELECT COUNT(*) FROM performance_schema.replication_group_members \
                        WHERE member_state <> 'OFFLINE'";
            let rows = talk.conversation.query(asks, TEXT_LEN_MAX).await;
            let alone = rows.is_ok_and(|rows| rows.first().and_then(|it| number(it, 0)) == Some(0));
            return Ok(is_all && alone);
        }
        drop(talk.conversation.quit().await);
        Ok(is_all)
    }

    /// Whether a server replicates, or has done so and may go on: what it has not got yet may come.
    async fn receives(&self, server: &Arc<Server>) -> Result<bool, LearnError> {
        let asks = match self.thread.flavor {
            Flavor::MySql => "SHOW REPLICA STATUS",
            Flavor::MariaDb => "SHOW ALL SLAVES STATUS",
        };
        let mut talk = self.talk_as_monitor(server).await?;
        let rows = talk.conversation.query(asks, TEXT_LEN_MAX).await?;
        drop(talk.conversation.quit().await);
        Ok(!rows.is_empty())
    }

    /// Takes over what has been committed under the mark. Whether that is known.
    fn settle(&mut self, outcome: Outcome) -> bool {
        match (outcome, &self.log) {
            (Outcome::Committed | Outcome::NotCommitted, Some(log)) => {
                self.mark.settle(log).is_ok()
            }
            _ => false,
        }
    }
}

/// Whether a server lets no `COMMIT` through before a replica has it.
async fn awaits_replicas(talk: &mut Talk) -> Result<bool, LearnError> {
    let asks = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('rpl_semi_sync_master_enabled', \
                'rpl_semi_sync_source_enabled') AND Value = 'ON'";
    Ok(!talk.conversation.query(asks, TEXT_LEN_MAX).await?.is_empty())
}

/// There is no thread of that number.
const NO_SUCH_THREAD: &str = "error 1094:";
/// The server does not know the statement.
const UNKNOWN_COMMAND: &str = "error 1064:";

fn is(error: &LearnError, number: &str) -> bool {
    error.is_answer() && error.to_string().starts_with(number)
}

async fn pause(after_a_moment: bool) {
    if after_a_moment {
        sleep(MOMENT).await;
    }
}

async fn within<T>(talk: impl Future<Output = Result<T, LearnError>>) -> Result<T, LearnError> {
    let until = Instant::now() + ANSWER_TIME_MAX;
    let late = |_| LearnError::new("it did not answer in time");
    timeout_at(until, talk).await.map_err(late)?
}

fn text(row: &Row, at: usize) -> String {
    let value = row.get(at).and_then(Option::as_deref).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

fn number(row: &Row, at: usize) -> Option<u64> {
    text(row, at).parse().ok()
}
