//! What a batch of events finds and does not change: the time, the configuration, what the workers
//! share.

use std::sync::Arc;

use trunkline_config::Snapshot;
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_topology::outcome::CommitOutcomes;

use crate::{Shared, WorkerOptions, clients::client::Session, time::Clock};

/// The surroundings of a worker. Only a new batch, a reload and the driver's set-up change them.
pub(crate) struct Env {
    #[cfg(feature = "plants")]
    pub(crate) plant: Option<crate::plants::Plant>,
    pub(crate) options: WorkerOptions,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) shared: Arc<Shared>,
    /// What clients are greeted with.
    pub(crate) greeting: Arc<Greeting>,
    pub(crate) now: Clock,
    /// Since when the worker stops, ms.
    pub(crate) stopping: Option<u64>,
    /// Whether clients have been told that the deadline of the stop is over.
    pub(crate) has_told_stop: bool,
    /// Whether the driver has been told that it has stopped.
    pub(crate) is_stopped: bool,
    /// Whether the driver can show clients a certificate.
    pub(crate) offers_tls: bool,
}

impl Env {
    pub(crate) fn new(
        options: WorkerOptions,
        snapshot: Arc<Snapshot>,
        shared: Arc<Shared>,
        greeting: Arc<Greeting>,
    ) -> Self {
        Self {
            #[cfg(feature = "plants")]
            plant: None,
            options,
            snapshot,
            shared,
            greeting,
            now: Clock::default(),
            stopping: None,
            has_told_stop: false,
            is_stopped: false,
            offers_tls: false,
        }
    }

    /// Whether it is found out for a session what became of a lost `COMMIT`.
    pub(crate) fn wants_outcome(&self, session: &Session) -> bool {
        let by_default = self.snapshot.settings.commit_outcome;
        session.login.user.commit_outcome.unwrap_or(by_default) == CommitOutcomes::Auto
    }

    /// Whether a session's transactions are repeated that are lost with their connection.
    pub(crate) fn wants_replay(&self, session: &Session) -> bool {
        let by_default = self.snapshot.settings.transaction_replay;
        session.login.user.transaction_replay.unwrap_or(by_default)
    }
}
