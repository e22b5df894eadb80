//! What a batch of events finds and does not change: the time, the configuration, what the workers
//! share.

use std::sync::Arc;

use trunkline_config::Snapshot;
use trunkline_protocol::packet::greeting::Greeting;

use crate::{Shared, WorkerOptions, time::Clock};

/// The surroundings of a worker. Only a new batch, a reload and the driver's set-up change them.
pub(crate) struct Env {
    #[cfg(feature = "plants")]
    pub plant: Option<crate::plants::Plant>,
    pub options: WorkerOptions,
    pub snapshot: Arc<Snapshot>,
    pub shared: Arc<Shared>,
    /// What clients are greeted with.
    pub greeting: Arc<Greeting>,
    pub now: Clock,
    /// Since when the worker stops, ms.
    pub stopping: Option<u64>,
    /// Whether the driver has been told that it has stopped.
    pub is_stopped: bool,
    /// Whether the driver can show clients a certificate.
    pub offers_tls: bool,
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
            is_stopped: false,
            offers_tls: false,
        }
    }
}
