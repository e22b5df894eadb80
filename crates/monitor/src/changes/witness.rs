//! Asks the servers of a cluster what can be read on them, while answers are kept until a table
//! changes: an event in a binary log proves nothing of that.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use trunkline_binlog::{Executed, Family};
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{Role, Server, ServerState, TableVersions};

use super::{RETRY_AFTER, Shown, Stream, ledger::Said};
use crate::{
    Account, LearnError,
    conversation::{self, Conversation, Row, Way},
    replication::ask_for_sources,
};

/// How often servers are asked.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// How often it is looked how they are set up.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether anybody needs it.
const NEED_EVERY: Duration = Duration::from_millis(200);
/// How long a question may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// Bytes of an answer: a set with many intervals.
const ANSWER_LEN_MAX: usize = 2 << 20;

/// Settings that matter.
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_format', \
     'gtid_mode', 'log_bin', 'log_replica_updates', 'log_slave_updates', 'read_only', \
     'transaction_isolation', 'tx_isolation', 'wsrep_on')";

/// A connection to a server that is asked.
struct Line {
    conversation: Conversation,
    flavor: Flavor,
}

impl Stream {
    /// Keeps the ledger for as long as any rule needs it.
    pub(super) async fn witness(
        self: &Arc<Self>,
        server: &Arc<Server>,
        account: Option<&Account>,
    ) -> Infallible {
        let mut trouble = String::new();
        loop {
            let Some(versions) = self.wanted() else {
                self.shown().ledger.stop("no rule needs it");
                sleep(NEED_EVERY).await;
                continue;
            };
            let why = match self.ask_all(server, account, &versions, &mut trouble).await {
                Ok(()) => continue,
                Err(error) => error.to_string(),
            };
            self.shown().ledger.stop(&why);
            versions.stop(&why);
            if trouble != why {
                let cluster = &self.cluster;
                tracing::warn!("no answers of cluster {cluster} are kept until changed: {why}");
                trouble = why;
            }
            sleep(RETRY_AFTER).await;
        }
    }

    /// The versions that are to be kept, where any rule needs them.
    fn wanted(&self) -> Option<Arc<TableVersions>> {
        let snapshot = self.snapshots.borrow();
        let cluster = snapshot.clusters.iter().find(|it| it.entry.name == self.cluster)?;
        cluster.versions.clone().filter(|_| snapshot.caches_until_changed)
    }

    /// Asks the writer and its replicas. Ends without an error when nobody needs it any more.
    async fn ask_all(
        self: &Arc<Self>,
        server: &Arc<Server>,
        account: Option<&Account>,
        versions: &Arc<TableVersions>,
        trouble: &mut String,
    ) -> Result<(), LearnError> {
        let account = account.ok_or_else(|| LearnError::new("nobody can ask"))?;
        let mut line = self.open(server, account).await?;
        line.look(true).await?;
        {
            let mut shown = self.shown();
            let Shown { ledger, history, .. } = &mut *shown;
            let history = history.as_ref().ok_or_else(|| LearnError::new("no stream"))?;
            ledger.begin(Arc::clone(versions), history, &self.catalog);
        }
        trouble.clear();
        let mut replicas = JoinSet::new();
        let mut asked: HashMap<String, tokio::task::AbortHandle> = HashMap::new();
        let mut since_look = Duration::ZERO;
        loop {
            self.check_writers(server)?;
            if !self.wanted().is_some_and(|it| Arc::ptr_eq(&it, versions)) {
                return Ok(());
            }
            if !self.shown().ledger.keeps(versions) {
                return Err(LearnError::new("the binary log has transactions without GTIDs"));
            }
            let asked_ms = (self.clock)();
            let said = line.ask(true).await?;
            self.hear(server, true, (said, asked_ms));
            if since_look.is_zero() {
                asked.retain(|_, task| !task.is_finished());
                for replica in self.replicas(server) {
                    let key = replica.key.address.to_string();
                    asked.entry(key).or_insert_with(|| {
                        let (stream, account) = (Arc::clone(self), account.clone());
                        replicas.spawn(stream.ask_replica(replica, account))
                    });
                }
            }
            sleep(ASK_EVERY).await;
            since_look += ASK_EVERY;
            if since_look >= LOOK_EVERY {
                since_look = Duration::ZERO;
                line.look(true).await?;
            }
        }
    }

    fn hear(&self, server: &Server, is_writer: bool, said: (Said, u64)) {
        let mut shown = self.shown();
        let Shown { ledger, history, .. } = &mut *shown;
        if let (Some(history), true) = (history, ledger.is_on()) {
            ledger.hear(&server.key.address, is_writer, said, history);
        }
    }

    /// Only what the one writer commits is in its log at once.
    fn check_writers(&self, server: &Server) -> Result<(), LearnError> {
        let snapshot = self.snapshots.borrow();
        let clusters = &mut snapshot.clusters.iter();
        let cluster = clusters.find(|it| it.entry.name == self.cluster);
        let group = cluster.and_then(|it| snapshot.hostgroup(it.entry.writer_hostgroup));
        let servers = group.into_iter().flat_map(|group| &group.servers);
        let mut writers = servers.filter(|it| it.health.role().is_some_and(Role::is_given));
        match (writers.next(), writers.next()) {
            (Some(one), None) if one.key.address == server.key.address => Ok(()),
            (Some(_), Some(_)) => Err(LearnError::new("the cluster has several writers")),
            _ => Err(LearnError::new("the cluster has no writer, or another one")),
        }
    }

    /// The servers that reads may be sent to, beside the writer.
    fn replicas(&self, writer: &Server) -> Vec<Arc<Server>> {
        let snapshot = self.snapshots.borrow();
        let clusters = &mut snapshot.clusters.iter();
        let cluster = clusters.find(|it| it.entry.name == self.cluster);
        let group = cluster.and_then(|it| snapshot.hostgroup(it.entry.reader_hostgroup));
        let servers = group.into_iter().flat_map(|group| &group.servers);
        let is_asked = |it: &&Arc<Server>| {
            let state = it.health.state(u64::MAX);
            it.key.address != writer.key.address
                && !matches!(state, ServerState::OfflineSoft | ServerState::OfflineHard)
        };
        servers.filter(is_asked).cloned().collect()
    }

    /// Asks a replica until it does not answer.
    async fn ask_replica(self: Arc<Self>, server: Arc<Server>, account: Account) {
        let failed = self.ask_replica_on(&server, &account).await;
        self.shown().ledger.lose(&server.key.address);
        if let Err(error) = failed {
            let address = &server.key.address;
            tracing::debug!("it is not known what can be read on {address}: {error}");
        }
        sleep(RETRY_AFTER).await;
    }

    async fn ask_replica_on(
        self: &Arc<Self>,
        server: &Arc<Server>,
        account: &Account,
    ) -> Result<(), LearnError> {
        let mut line = self.open(server, account).await?;
        let mut since_look = Duration::ZERO;
        loop {
            if since_look.is_zero() {
                line.look(false).await?;
                let is_there = |it: &Arc<Server>| it.key.address == server.key.address;
                let (writer, _) = self.writer().ok_or_else(|| LearnError::new("no writer"))?;
                if !self.replicas(&writer).iter().any(is_there) {
                    return Ok(());
                }
            }
            let asked_ms = (self.clock)();
            let said = line.ask(false).await?;
            self.hear(server, false, (said, asked_ms));
            sleep(ASK_EVERY).await;
            since_look += ASK_EVERY;
            if since_look >= LOOK_EVERY {
                since_look = Duration::ZERO;
            }
        }
    }

    async fn open(&self, server: &Arc<Server>, account: &Account) -> Result<Line, LearnError> {
        let tls = Arc::clone(&self.tls.borrow());
        let opening = async {
            let way = Way::to(server, &tls);
            let (conversation, greeting) = conversation::open(server, account, &way).await?;
            Ok(Line { conversation, flavor: greeting.flavor() })
        };
        timed(opening).await
    }
}

async fn timed<T>(asking: impl Future<Output = Result<T, LearnError>>) -> Result<T, LearnError> {
    let asked = timeout(ANSWER_TIME_MAX, asking).await;
    asked.unwrap_or_else(|_| Err(LearnError::new("no answer in time")))
}

impl Line {
    /// What can be read on the server.
    async fn ask(&mut self, is_writer: bool) -> Result<Said, LearnError> {
        timed(self.ask_now(is_writer)).await
    }

    async fn ask_now(&mut self, is_writer: bool) -> Result<Said, LearnError> {
        let (family, question) = match (self.flavor, is_writer) {
            (Flavor::MySql, _) => (Family::MySql, "SELECT @@GLOBAL.gtid_executed"),
            (Flavor::MariaDb, true) => (Family::MariaDb, "SELECT @@GLOBAL.gtid_binlog_pos"),
            (Flavor::MariaDb, false) => (Family::MariaDb, "SELECT @@GLOBAL.gtid_slave_pos"),
        };
        let rows = self.conversation.query(question, ANSWER_LEN_MAX).await?;
        let has = Executed::parse(family, &text(rows.first(), 0))
            .map_err(|error| LearnError::new(format!("what it has can't be read: {error}")))?;
        if self.flavor == Flavor::MySql || !is_writer {
            return Ok(Said::Shows(has));
        }
        // The position is that of the last transaction that can be read. Its log is ahead of it.
        let question = "SHOW SESSION STATUS WHERE Variable_name IN \
             ('Binlog_snapshot_file', 'Binlog_snapshot_position')";
        let rows = self.conversation.query(question, ANSWER_LEN_MAX).await?;
        let value = |name: &str| {
            let row = rows.iter().find(|row| text(Some(row), 0).eq_ignore_ascii_case(name));
            row.map(|row| text(Some(row), 1)).unwrap_or_default()
        };
        let position = value("Binlog_snapshot_position").parse().unwrap_or(0);
        Ok(Said::Logged(has, (value("Binlog_snapshot_file").into_bytes(), position)))
    }

    /// Looks whether the server is set up so that answers may be kept.
    async fn look(&mut self, is_writer: bool) -> Result<(), LearnError> {
        timed(self.look_now(is_writer)).await
    }

    async fn look_now(&mut self, is_writer: bool) -> Result<(), LearnError> {
        let rows = self.conversation.query(SETTINGS, ANSWER_LEN_MAX).await?;
        let settings = Settings::of(&rows);
        settings.check(is_writer).map_or(Ok(()), |why| Err(LearnError::new(why)))?;
        if !is_writer {
            return Ok(());
        }
        let log = match self.flavor {
            Flavor::MariaDb => "SHOW MASTER STATUS",
            Flavor::MySql => "SHOW BINARY LOG STATUS",
        };
        let mut rows = self.conversation.query(log, ANSWER_LEN_MAX).await;
        if rows.as_ref().is_err_and(|error| error.to_string().starts_with("error 1064")) {
            // Before MySQL 8.2.
            rows = self.conversation.query("SHOW MASTER STATUS", ANSWER_LEN_MAX).await;
        }
        let rows = rows?;
        let filters = [text(rows.first(), 2), text(rows.first(), 3)];
        if filters.iter().any(|filter| !filter.is_empty()) {
            return Err(LearnError::new(
                "its binary log is filtered (binlog_do_db, binlog_ignore_db)",
            ));
        }
        if !settings.logs_replicated() {
            let sources = ask_for_sources(&mut self.conversation, self.flavor, ANSWER_LEN_MAX);
            if !sources.await?.rows.is_empty() {
                let why = "it replicates from another server, and does not log that \
                           (log_replica_updates, log_slave_updates)";
                return Err(LearnError::new(why));
            }
        }
        Ok(())
    }
}

/// Settings of a server, by their names.
struct Settings(HashMap<String, String>);

impl Settings {
    fn of(rows: &[Row]) -> Self {
        let pair = |row: &Row| {
            let (name, value) = (text(Some(row), 0), text(Some(row), 1));
            (name.to_ascii_lowercase(), value.to_ascii_uppercase())
        };
        Self(rows.iter().map(pair).collect())
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.0.get(name).is_some_and(|it| it == value)
    }

    fn logs_replicated(&self) -> bool {
        self.is("log_replica_updates", "ON") || self.is("log_slave_updates", "ON")
    }

    /// Why no answers of it may be kept, if that is so.
    fn check(&self, is_writer: bool) -> Option<&'static str> {
        let is_dirty = ["transaction_isolation", "tx_isolation"]
            .iter()
            .any(|name| self.is(name, "READ-UNCOMMITTED"));
        if is_dirty {
            return Some("its transaction_isolation is READ-UNCOMMITTED");
        }
        let has_row_format = self.0.get("binlog_format").is_none_or(|it| it == "ROW");
        let checks = [
            (self.is("log_bin", "ON"), "it has no binary log (log_bin)"),
            (has_row_format, "its binlog_format is not ROW"),
            (self.0.get("gtid_mode").is_none_or(|it| it == "ON"), "its gtid_mode is not ON"),
            (self.is("read_only", "OFF"), "it is read_only"),
            (!self.is("wsrep_on", "ON"), "nodes of Galera may each write"),
        ];
        checks.into_iter().find(|(is_so, _)| is_writer && !is_so).map(|(_, why)| why)
    }
}

fn text(row: Option<&Row>, at: usize) -> String {
    let value = row.and_then(|row| row.get(at)).and_then(Option::as_ref);
    String::from_utf8_lossy(value.map_or(&[][..], Vec::as_slice)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_can_write_unseen_is_refused() {
        let check = |is_writer, changed: &[(&str, &str)], expected: Option<&str>| {
            let mut settings = HashMap::from([
                ("log_bin", "ON"),
                ("gtid_mode", "ON"),
                ("binlog_format", "ROW"),
                ("read_only", "OFF"),
                ("transaction_isolation", "REPEATABLE-READ"),
            ]);
            settings.extend(changed.iter().copied());
            let cell = |text: &str| Some(text.as_bytes().to_vec());
            let rows: Vec<Row> =
                settings.iter().map(|(name, value)| vec![cell(name), cell(value)]).collect();
            assert_eq!(Settings::of(&rows).check(is_writer), expected, "{changed:?}");
        };
        check(true, &[], None);
        check(true, &[("binlog_format", "MIXED")], Some("its binlog_format is not ROW"));
        check(true, &[("gtid_mode", "ON_PERMISSIVE")], Some("its gtid_mode is not ON"));
        check(true, &[("read_only", "ON")], Some("it is read_only"));
        check(false, &[("read_only", "ON"), ("log_bin", "OFF")], None);
        check(true, &[("log_bin", "OFF")], Some("it has no binary log (log_bin)"));
        check(true, &[("wsrep_on", "ON")], Some("nodes of Galera may each write"));
        let dirty = Some("its transaction_isolation is READ-UNCOMMITTED");
        check(false, &[("tx_isolation", "READ-UNCOMMITTED")], dirty);
    }
}
