//! One group's dictionaries, as one account sees them.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch::Receiver},
    time::{Instant, timeout, timeout_at},
};
use trunkline_catalog::{ASK_TIME_MAX_MS, Catalog, Inquiry, Name, Query, Row, SESSION, Told};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{HostgroupId, Server, ServerState};

use super::DictionaryQuestion;
use crate::{
    Account, LearnError,
    conversation::{self, Conversation, Way},
};

/// How long a connection stays that nobody needs.
pub(super) const IDLE_TIME_MAX: Duration = Duration::from_secs(30);
/// How long one server is tried before the next.
const CONNECT_TIME_MAX: Duration = Duration::from_millis(700);
/// Questions taken together.
const BATCH_MAX: usize = 256;
/// Names of one round, but for those of its last question.
const NAMES_MAX: usize = 64;
/// Bytes of one answer.
const ANSWER_LEN_MAX: usize = 16 << 20;

/// What was said of a name, and the base tables that reading it depends on.
type Answer = (Name, Told, Option<Arc<[Name]>>);

/// Who asks.
pub(super) struct AccountDictionary {
    group: HostgroupId,
    snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    catalog: Arc<Catalog>,
    line: Option<Line>,
    /// What was logged last.
    trouble: Option<String>,
    /// Queries of this round.
    queries: u64,
}

/// A standing connection.
struct Line {
    conversation: Conversation,
    server: Arc<Server>,
    is_mariadb: bool,
    epoch: u32,
    account: Account,
    /// What the account, and its role, might do when it logged in: what it sees goes by that.
    grants: Vec<Vec<Row>>,
}

impl AccountDictionary {
    pub(super) fn new(
        group: HostgroupId,
        snapshots: Receiver<Arc<Snapshot>>,
        tls: Receiver<Arc<TlsSetup>>,
        catalog: Arc<Catalog>,
    ) -> Self {
        Self { group, snapshots, tls, catalog, line: None, trouble: None, queries: 0 }
    }

    /// Answers until nobody has asked for a while.
    pub(super) async fn serve(mut self, mut questions: mpsc::Receiver<DictionaryQuestion>) {
        let mut batch = Vec::new();
        while let Ok(1..) = timeout(IDLE_TIME_MAX, questions.recv_many(&mut batch, BATCH_MAX)).await
        {
            self.rounds(std::mem::take(&mut batch)).await;
        }
        questions.close();
        while let Some(late) = questions.recv().await {
            late.give_up(&self.catalog);
        }
        if let Some(line) = self.line.take() {
            // Nobody needs it any more, whatever the server says.
            drop(line.conversation.quit().await);
        }
    }

    /// Asks for the names of these questions, a round for so many of them. When nobody answers one
    /// round, the others are not tried.
    async fn rounds(&mut self, questions: Vec<DictionaryQuestion>) {
        let mut ahead = questions.into_iter().peekable();
        let mut batch = Vec::new();
        let mut names = 0;
        while let Some(question) = ahead.next() {
            names += question.names.len();
            batch.push(question);
            if names < NAMES_MAX && ahead.peek().is_some() {
                continue;
            }
            names = 0;
            if !self.round(std::mem::take(&mut batch)).await {
                return ahead.for_each(|question| question.give_up(&self.catalog));
            }
        }
    }

    /// Asks for all names of these questions, and tells who waits. False when nobody answered.
    async fn round(&mut self, mut batch: Vec<DictionaryQuestion>) -> bool {
        let begun = Instant::now();
        let Some(account) = batch.last().map(|question| question.account.clone()) else {
            return true;
        };
        let asked_ms = batch.iter().map(|question| question.asked_ms).min().unwrap_or_default();
        let latest_ms = batch.iter().map(|question| question.asked_ms).max().unwrap_or_default();
        let mut names: Vec<Name> = Vec::new();
        batch.iter_mut().for_each(|question| names.append(&mut question.names));
        let moment = self.catalog.moment(asked_ms);
        let deadline = begun + Duration::from_millis(ASK_TIME_MAX_MS);
        let asking = self.ask(&account, &names);
        let answer = timeout_at(deadline, asking).await.unwrap_or_else(|_| {
            Err(LearnError::new(format!("no answer within {ASK_TIME_MAX_MS} ms")))
        });
        let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now_ms = latest_ms.saturating_add(took_ms);
        self.catalog.count_round(std::mem::take(&mut self.queries), answer.is_err());
        let told = match answer {
            Ok(told) => {
                self.trouble = None;
                told
            }
            Err(error) => {
                // What is half said on a connection is not taken up again.
                self.line = None;
                self.report(&account, &error);
                names.iter().map(|name| (name.clone(), Told::NOTHING, None)).collect()
            }
        };
        for (name, told, bases) in told {
            self.catalog.tell_bases(&name, bases, moment);
            self.catalog.tell(name, told, moment, now_ms);
        }
        let waiters = self.catalog.settle(&names);
        // Each takes what it is given to whichever worker the client is on.
        if let Some(question) = batch.pop() {
            (question.told)(waiters);
        }
        self.trouble.is_none()
    }

    /// Logs once that names are not known, and why.
    fn report(&mut self, account: &Account, error: &LearnError) {
        let reason = error.to_string();
        if self.trouble.as_ref() != Some(&reason) {
            let group = self.group;
            tracing::warn!(
                "what tables are in hostgroup {group} is not known to user {}: {reason}; their \
                 statements go the careful way",
                account.user
            );
            self.trouble = Some(reason);
        }
    }

    async fn ask(&mut self, account: &Account, names: &[Name]) -> Result<Vec<Answer>, LearnError> {
        let is_standing = self.keep_line(account);
        if is_standing {
            // A connection that rested may have been closed: then a new one is tried.
            if let Ok(told) = self.inquire(names).await {
                return Ok(told);
            }
        }
        self.line = None;
        let snapshot = Arc::clone(&self.snapshots.borrow());
        let tls = Arc::clone(&self.tls.borrow());
        let group = self.group;
        let mut failure = LearnError::new(format!("hostgroup {group} has no server to ask"));
        for server in servers_of(&snapshot, group) {
            let opening = Line::open(&server, account, &tls);
            let opened = timeout(CONNECT_TIME_MAX, opening).await;
            let opened = opened.unwrap_or_else(|_| Err(LearnError::new("no connection in time")));
            let asked = match opened {
                Ok(line) => {
                    self.line = Some(line);
                    self.inquire(names).await
                }
                Err(error) => Err(error),
            };
            match asked {
                Ok(told) => return Ok(told),
                Err(error) => {
                    self.line = None;
                    failure = LearnError::new(format!("{}: {error}", server.key.address));
                }
            }
        }
        Err(failure)
    }

    /// Whether there is a connection that these may use.
    fn keep_line(&mut self, account: &Account) -> bool {
        let Some(line) = &self.line else { return false };
        let health = &line.server.health;
        let is_good = line.epoch == health.epoch() && can_be_asked(&line.server);
        let snapshot = self.snapshots.borrow();
        let is_next = || {
            let servers = servers_of(&snapshot, self.group);
            // A reader is asked for as long as no writer comes before it.
            let is_before = |server: &&Arc<Server>| {
                server.key.hostgroup == self.group || server.key == line.server.key
            };
            match line.is_to_reader(self.group) {
                true => servers.iter().find(is_before).is_some_and(|it| it.key == line.server.key),
                false => servers.iter().any(|server| server.key == line.server.key),
            }
        };
        is_good && line.account == *account && is_next()
    }

    async fn inquire(&mut self, names: &[Name]) -> Result<Vec<Answer>, LearnError> {
        let Some(line) = &mut self.line else { return Err(LearnError::new("no connection")) };
        let mut inquiry = Inquiry::new(names.to_vec(), line.is_mariadb);
        if self.snapshots.borrow().caches_until_changed {
            inquiry = inquiry.with_keys();
        }
        let mut known = line.grants.iter();
        while let Some(query) = inquiry.next_query() {
            self.queries += 1;
            let answer = line.conversation.ask(query.sql(), ANSWER_LEN_MAX).await?;
            if answer.warnings > 0 {
                let warnings = line.conversation.query("SHOW WARNINGS", ANSWER_LEN_MAX).await?;
                refuse_parts(&warnings)?;
            }
            let rows = answer.rows;
            if query.is_about_grants() && known.next() != Some(&rows) {
                let text = format!("what user {} may do has changed", line.account.user);
                return Err(LearnError::new(text));
            }
            inquiry.answer(&query, &rows);
        }
        let is_of_reader = line.is_to_reader(self.group);
        let bases: Vec<_> = names.iter().map(|name| inquiry.bases(name)).collect();
        let told = inquiry.finish().into_iter().zip(bases);
        Ok(told.map(|((name, told), bases)| (name, Told { is_of_reader, ..told }, bases)).collect())
    }
}

impl Line {
    /// Whether what it says is a reader's word, which proves nothing for the writer: what a reader
    /// has not got yet it does not know.
    fn is_to_reader(&self, group: HostgroupId) -> bool {
        self.server.key.hostgroup != group
    }

    async fn open(
        server: &Arc<Server>,
        account: &Account,
        tls: &Arc<TlsSetup>,
    ) -> Result<Self, LearnError> {
        let epoch = server.health.epoch();
        let mut conversation = conversation::connect(server).await?;
        let (greeting, header, payload) = conversation.greeting().await?;
        let is_mariadb = greeting.flavor() == Flavor::MariaDb;
        conversation.log_in(account, &Way::to(server, tls), header, payload).await?;
        conversation.execute(SESSION).await?;
        let mut grants = Vec::new();
        let mut next = Some(Query::grants(is_mariadb));
        while let Some(query) = next {
            let rows = conversation.query(query.sql(), ANSWER_LEN_MAX).await?;
            next = Query::behind_grants(&rows);
            grants.push(rows);
        }
        let (server, account) = (Arc::clone(server), account.clone());
        Ok(Self { conversation, server, is_mariadb, epoch, account, grants })
    }
}

/// MariaDB leaves a table out of the dictionary's answer, with a warning, where it can't open it
/// within its time: another session has it locked (1205), it would be a deadlock (1213), or the
/// statement was interrupted.
const LEAVES_OUT: [&[u8]; 5] = [b"1205", b"1213", b"1317", b"1969", b"3024"];

/// Fails where these warnings, rows of `SHOW WARNINGS`, say that an answer is not whole.
fn refuse_parts(warnings: &[Row]) -> Result<(), LearnError> {
    let value = |row: &Row, at: usize| row.get(at).cloned().flatten().unwrap_or_default();
    let leaves_out = |row: &&Row| LEAVES_OUT.contains(&value(row, 1).as_slice());
    let Some(row) = warnings.iter().find(leaves_out) else { return Ok(()) };
    let text = value(row, 2);
    let text = String::from_utf8_lossy(&text);
    Err(LearnError::new(format!("the dictionary has left a table out: {text}")))
}

/// The servers of a group that may be asked: its writers first, then its readers.
pub(super) fn servers_of(snapshot: &Snapshot, group: HostgroupId) -> Vec<Arc<Server>> {
    let readers = snapshot.writer_group(group).map(|it| it.reader_hostgroup);
    let ids = [group].into_iter().chain(readers.filter(|id| *id != group));
    let groups = ids.filter_map(|id| snapshot.hostgroup(id));
    let mut servers: Vec<_> = groups.flat_map(|it| it.servers.iter().cloned()).collect();
    servers.retain(can_be_asked);
    // Those that answer come first; the sort keeps writers in front of readers.
    servers.sort_by_key(|server| server.health.state(0) == ServerState::Shunned);
    servers
}

fn can_be_asked(server: &Arc<Server>) -> bool {
    let state = server.health.state(u64::MAX);
    !matches!(state, ServerState::OfflineSoft | ServerState::OfflineHard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_leaves_a_locked_table_out_is_none() {
        let warning = |code: &str, text: &str| -> Row {
            ["Warning", code, text].map(|it| Some(it.as_bytes().to_vec())).into()
        };
        let invalid = warning("1356", "View 'd.v' references invalid table(s)");
        assert!(refuse_parts(&[]).is_ok());
        assert!(refuse_parts(std::slice::from_ref(&invalid)).is_ok());
        let locked = warning("1205", "Lock wait timeout exceeded; try restarting transaction");
        let error = refuse_parts(&[invalid, locked]).expect_err("a table is missing");
        assert!(error.to_string().contains("Lock wait timeout"), "{error}");
    }
}
