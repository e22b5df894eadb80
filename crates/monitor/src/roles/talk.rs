//! One server and what is said to it during a switchover, on one connection.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};
use trunkline_cluster::switchover::{Done, Failure, check::Family};
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::Server;

use super::{
    actions::{self, Job},
    questions::ANSWER_LEN_MAX,
};
use crate::{
    Account, LearnError,
    conversation::{self, Answer, Conversation, Way},
};

/// The lock that says on a server that somebody is changing roles.
pub(super) const LOCK: &str = "trunkline_switchover";
/// How long it may take until a statement that was given up has ended, and how often that is looked
/// at.
const GONE_TIME_MAX: Duration = Duration::from_secs(2);
const GONE_LOOK: Duration = Duration::from_millis(20);

/// Why a server has not done something.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) why: String,
    /// It did not answer: it may have done it.
    pub(super) is_unknown: bool,
    /// Nobody listens there.
    pub(super) is_refused: bool,
}

impl From<LearnError> for Failed {
    fn from(error: LearnError) -> Self {
        // What a server has answered with an error it has not done.
        let (why, is_unknown) = (error.to_string(), !error.is_answer());
        Self { why, is_unknown, is_refused: error.is_refused() }
    }
}

impl Failed {
    pub(super) fn known(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_unknown: false, is_refused: false }
    }
}

/// A connection that has logged in.
struct Connected {
    conversation: Conversation,
    flavor: Flavor,
    /// What the server calls it.
    thread: u32,
    /// Whether it has the lock.
    has_lock: bool,
}

/// What is said to one server.
pub(super) struct Talk {
    pub(super) server: Arc<Server>,
    way: Way,
    account: Option<Account>,
    connected: Option<Connected>,
    /// The family, once it is known.
    flavor: Option<Flavor>,
    /// A connection that was given up in the middle of a statement, which may still run.
    given_up: Option<u32>,
    /// The lock was taken there: no connection without it changes anything.
    is_claimed: bool,
}

impl Talk {
    pub(super) fn new(server: Arc<Server>, way: Way, account: Option<Account>) -> Self {
        Self {
            server,
            way,
            account,
            connected: None,
            flavor: None,
            given_up: None,
            is_claimed: false,
        }
    }

    /// The connection is not used again; what runs there may still do so.
    pub(super) fn forget(&mut self) {
        if let Some(connected) = self.connected.take() {
            self.given_up = Some(connected.thread);
        }
    }

    /// The connection is not used again; nothing runs there that matters.
    pub(super) fn drop_connection(&mut self) {
        self.connected = None;
    }

    /// Does something within this time. What is given up is ended before anything else is said.
    pub(super) async fn within(
        &mut self,
        time_max: Duration,
        job: &Job<'_>,
    ) -> Result<Done, Failure> {
        let worked = timeout(time_max, async {
            self.end_given_up().await?;
            if self.is_claimed && job.action.wants_claim() && !self.claim().await? {
                return Err(Failed::known("another proxy has claimed it meanwhile"));
            }
            actions::perform(self, job, time_max).await
        });
        match worked.await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(Failed { why, is_unknown, .. })) => {
                if is_unknown {
                    self.forget();
                }
                Err(Failure { why, is_unknown })
            }
            Err(_) => {
                self.forget();
                let why = format!("it has not been done within {} ms", time_max.as_millis());
                Err(Failure { why, is_unknown: true })
            }
        }
    }

    /// Takes the lock there, if this connection has it not; whether that was possible.
    pub(super) async fn claim(&mut self) -> Result<bool, Failed> {
        if self.connected().await?.has_lock {
            return Ok(true);
        }
        let has_lock = self.value(&format!("SELECT GET_LOCK('{LOCK}', 0)")).await? == "1";
        self.connected().await?.has_lock = has_lock;
        self.is_claimed |= has_lock;
        Ok(has_lock)
    }

    /// Sees to it that nothing runs any more that was given up.
    async fn end_given_up(&mut self) -> Result<(), Failed> {
        let Some(thread) = self.given_up else { return Ok(()) };
        // It may have gone already.
        match self.execute(&format!("KILL {thread}")).await {
            Err(failed) if failed.is_unknown => return Err(failed),
            Ok(()) | Err(_) => {}
        }
        let look =
            format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {thread}");
        let until = Instant::now() + GONE_TIME_MAX;
        while self.value(&look).await? != "0" {
            if Instant::now() >= until {
                let why = "a statement that was given up still runs there";
                let why = why.to_owned();
                return Err(Failed { why, is_unknown: true, is_refused: false });
            }
            sleep(GONE_LOOK).await;
        }
        self.given_up = None;
        Ok(())
    }

    pub(super) async fn family(&mut self) -> Result<Family, Failed> {
        let flavor = match self.flavor {
            Some(flavor) => flavor,
            None => self.connected().await?.flavor,
        };
        Ok(match flavor {
            Flavor::MariaDb => Family::MariaDb,
            Flavor::MySql => Family::MySql,
        })
    }

    async fn connected(&mut self) -> Result<&mut Connected, Failed> {
        if self.connected.is_none() {
            let connected = self.open().await?;
            self.flavor = Some(connected.flavor);
            self.connected = Some(connected);
        }
        self.connected.as_mut().ok_or_else(|| Failed::known("it is not connected"))
    }

    async fn open(&mut self) -> Result<Connected, Failed> {
        let account = self.account.as_ref().ok_or_else(|| {
            Failed::known(
                "nobody can log in: neither `switchover_account` nor `monitor_account` names a \
                 user with a password",
            )
        })?;
        let mut conversation = conversation::connect(&self.server).await?;
        let (greeting, header, payload) = conversation.greeting().await?;
        conversation.log_in(account, &self.way, header, payload).await?;
        let (flavor, thread) = (greeting.flavor(), greeting.connection_id);
        // Texts are quoted in this way; and the lock ends with the connection, which must not end
        // while another server takes its time.
        conversation.execute("SET SESSION sql_mode = '', wait_timeout = 28800").await?;
        Ok(Connected { conversation, flavor, thread, has_lock: false })
    }

    pub(super) async fn execute(&mut self, sql: &str) -> Result<(), Failed> {
        Ok(self.connected().await?.conversation.execute(sql).await?)
    }

    pub(super) async fn ask(&mut self, sql: &str) -> Result<Answer, Failed> {
        Ok(self.connected().await?.conversation.ask(sql, ANSWER_LEN_MAX).await?)
    }

    /// The first value of the first row; empty where there is none.
    pub(super) async fn value(&mut self, sql: &str) -> Result<String, Failed> {
        let answer = self.ask(sql).await?;
        let value = answer.rows.first().and_then(|row| row.first()?.as_deref());
        Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default())
    }

    /// Whether the server takes writes.
    pub(super) async fn takes_writes(&mut self) -> Result<bool, Failed> {
        let read_only = self.value("SELECT @@global.read_only").await?;
        Ok(matches!(read_only.as_str(), "0" | "OFF"))
    }

    /// Takes leave.
    pub(super) async fn end(&mut self) {
        if let Some(connected) = self.connected.take() {
            // How the server takes the farewell changes nothing.
            drop(connected.conversation.quit().await);
        }
    }
}

/// Does something in a task of its own: whatever becomes of that, there is an outcome.
pub(super) async fn caught(
    work: impl Future<Output = Result<Done, Failure>> + Send + 'static,
) -> Result<Done, Failure> {
    let ended = tokio::spawn(work).await;
    ended.unwrap_or_else(|error| {
        let why = format!("a bug of Trunkline: {error}");
        Err(Failure { why, is_unknown: true })
    })
}

/// A text of a statement.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_server_has_answered_is_known_not_to_be_done() {
        let check = |error: LearnError, is_unknown| {
            assert_eq!(Failed::from(error.clone()).is_unknown, is_unknown, "{error}");
        };
        check(LearnError::answered("error 1290: read-only".to_owned()), false);
        check(LearnError::new("error 7 of the system"), true);
        check(LearnError::from(std::io::Error::other("error -3: closed")), true);
    }

    #[tokio::test]
    async fn a_step_that_panics_has_an_outcome() {
        let panics = async {
            if std::hint::black_box(true) {
                panic!("planted");
            }
            Ok(Done::default())
        };
        let failure = caught(panics).await.expect_err("a failure");
        assert!(failure.is_unknown && failure.why.contains("panic"), "{failure:?}");
    }
}
