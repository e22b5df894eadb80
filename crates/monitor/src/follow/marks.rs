//! Asks writers what they have, so that it is known how old what their replicas show may be.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{HostgroupId, Role, Server, ServerState, causal::CausalBoard};

use super::{ANSWER_TIME_MAX, Clock, RETRY_AFTER, Replica, ask, fresh::Mark, said::Said};
use crate::{
    Account, LearnError,
    conversation::{self, Conversation, Way},
};

/// How often a writer is asked where no bound says more, and at most.
const EVERY_MAX: Duration = Duration::from_millis(250);
const EVERY_MIN: Duration = Duration::from_millis(10);

/// The replicas of one hostgroup, and who may write there.
pub(super) struct Marker {
    pub(super) writers: Vec<Arc<Server>>,
    pub(super) replicas: Vec<Replica>,
    pub(super) account: Option<Account>,
    pub(super) tls: Arc<TlsSetup>,
    pub(super) clock: Clock,
    pub(super) every: Duration,
    pub(super) board: Arc<CausalBoard>,
    /// Whether nobody else says what the writer's entry shows.
    pub(super) tells_writer: bool,
}

/// How often writers are asked: several times within the least bound.
pub(super) fn every(snapshot: &Snapshot) -> Duration {
    let bound = snapshot.causal.bound_min_ms().map(|ms| Duration::from_millis(u64::from(ms)));
    bound.map_or(EVERY_MAX, |bound| (bound / 8).clamp(EVERY_MIN, EVERY_MAX))
}

/// The servers of a hostgroup.
pub(super) fn servers(snapshot: &Snapshot, id: Option<HostgroupId>) -> Vec<Arc<Server>> {
    let group = id.and_then(|id| snapshot.hostgroup(id));
    group.map(|group| group.servers.clone()).unwrap_or_default()
}

impl Marker {
    /// Asks on and on. Whatever goes wrong, the replicas get older and older.
    pub(super) async fn keep_on(self) {
        loop {
            match self.writer().cloned() {
                // What the last one had is shown by who has it; what is asked now is another's.
                Some(writer) => {
                    let failed = self.ask_on(&writer).await;
                    if let Err(error) = failed {
                        let server = &writer.key.address;
                        tracing::debug!(%server, "it is not known what it has: {error}");
                    }
                    if self.tells_writer {
                        writer.health.reached.publish([]);
                    }
                    self.replicas.iter().for_each(|(_, fresh)| fresh.forget_marks());
                    sleep(RETRY_AFTER.min(self.every * 4)).await;
                }
                None => sleep(self.every).await,
            }
        }
    }

    /// The only server that may write. Where there are several, what one has says nothing of the
    /// others.
    fn writer(&self) -> Option<&Arc<Server>> {
        let may_write = |server: &&Arc<Server>| {
            let state = server.health.state((self.clock)());
            server.health.role().is_none_or(Role::is_given)
                && !matches!(state, ServerState::OfflineSoft | ServerState::OfflineHard)
        };
        let mut writers = self.writers.iter().filter(may_write);
        let first = writers.next()?;
        writers.next().is_none().then_some(first)
    }

    /// Ends when it writes no more, or with a failure.
    async fn ask_on(&self, writer: &Arc<Server>) -> Result<(), LearnError> {
        let (mut conversation, flavor) = timeout(ANSWER_TIME_MAX, self.connect(writer))
            .await
            .map_err(|_| LearnError::new("it gave no connection in time"))??;
        let question = match flavor {
            Flavor::MySql => {
                "SELECT @@GLOBAL.log_bin AND @@GLOBAL.gtid_mode LIKE 'ON%', @@GLOBAL.gtid_executed"
            }
            Flavor::MariaDb => "SELECT @@GLOBAL.log_bin, @@GLOBAL.gtid_binlog_pos",
        };
        while self.writer().is_some_and(|it| Arc::ptr_eq(it, writer)) {
            let at_ms = (self.clock)();
            let answer = ask(&mut conversation, question).await?;
            if !super::said::numbers(&answer) {
                return Err(LearnError::new("its writes have no numbers"));
            }
            let had = Said::read(&answer, flavor)?;
            let shown = had.shown(&self.board.origins);
            if self.tells_writer {
                writer.health.reached.publish(shown);
            }
            let mark = Mark { at_ms, had };
            // Another one may write by now, and have written before this one was asked.
            if self.writer().is_some_and(|it| Arc::ptr_eq(it, writer)) {
                for (health, fresh) in &self.replicas {
                    health.reached.set_compared();
                    if let Some(at_ms) = fresh.mark(&mark) {
                        health.reached.set_fresh(at_ms);
                    }
                }
            }
            sleep(self.every).await;
        }
        Ok(())
    }

    async fn connect(&self, writer: &Arc<Server>) -> Result<(Conversation, Flavor), LearnError> {
        let account = conversation::asker(self.account.as_ref())?;
        let way = Way::to(writer, &self.tls);
        let (conversation, greeting) = conversation::open(writer, account, &way).await?;
        Ok((conversation, greeting.flavor()))
    }
}
