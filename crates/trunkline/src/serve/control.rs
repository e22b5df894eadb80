//! What the admin port asks of the supervisor.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use trunkline_admin::{ApplyFuture, Health, ReportFuture, Runtime, SessionsFuture, StatusSource};
use trunkline_config::{Config, Snapshot};
use trunkline_stats::{DigestQuery, SessionQuery};

use super::reporter::Reporter;

/// Requests that may wait for the supervisor.
const REQUESTS_MAX: usize = 16;

/// One request.
pub(super) enum Request {
    /// Serve by another configuration from now on.
    Apply {
        config: Box<Config>,
        /// Where it comes from.
        source: String,
        /// Gets a line for each change, or why nothing has changed.
        done: oneshot::Sender<Result<Vec<String>, String>>,
    },
    /// Read certificates and keys anew.
    ReloadTls { done: oneshot::Sender<Result<Vec<String>, String>> },
    /// End the process.
    Stop { is_slow: bool },
}

/// The admin port's end.
pub(super) struct Control {
    reporter: Arc<Reporter>,
    requests: mpsc::Sender<Request>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
}

impl Control {
    /// Both ends.
    pub(super) fn new(
        reporter: Arc<Reporter>,
        snapshots: watch::Receiver<Arc<Snapshot>>,
    ) -> (Self, mpsc::Receiver<Request>) {
        let (requests, asked) = mpsc::channel(REQUESTS_MAX);
        (Self { reporter, requests, snapshots }, asked)
    }
}

impl StatusSource for Control {
    fn report(&self, digests: DigestQuery) -> ReportFuture<'_> {
        self.reporter.report(digests)
    }

    fn sessions(&self, query: SessionQuery) -> SessionsFuture<'_> {
        self.reporter.sessions(query)
    }

    fn health(&self) -> Health {
        self.reporter.health()
    }
}

impl Runtime for Control {
    fn apply(&self, config: Config, source: String) -> ApplyFuture<'_> {
        Box::pin(async move {
            let (done, changes) = oneshot::channel();
            let request = Request::Apply { config: Box::new(config), source, done };
            let stopping = || "the process stops".to_owned();
            self.requests.send(request).await.map_err(|_| stopping())?;
            changes.await.map_err(|_| stopping())?
        })
    }

    fn reload_tls(&self) -> ApplyFuture<'_> {
        Box::pin(async move {
            let (done, changes) = oneshot::channel();
            let stopping = || "the process stops".to_owned();
            let request = Request::ReloadTls { done };
            self.requests.send(request).await.map_err(|_| stopping())?;
            changes.await.map_err(|_| stopping())?
        })
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshots.borrow())
    }

    fn explain(
        &self,
        user: Option<&str>,
        schema: Option<&str>,
        sql: &str,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let snapshot = self.snapshot();
        let user = match user {
            Some(name) => snapshot.user(name).ok_or_else(|| format!("there is no user `{name}`")),
            None => {
                let mut active = snapshot.config.users.iter().filter(|user| user.active);
                match (active.next(), active.next()) {
                    (Some(user), None) => Ok(user),
                    _ => Err("EXPLAIN ROUTE needs USER name before the statement".to_owned()),
                }
            }
        }?;
        Ok(crate::explain::rows(&snapshot, user, schema, None, None, sql))
    }

    fn flush_cache(&self) -> u64 {
        self.reporter.flush_cache()
    }

    fn stop(&self, is_slow: bool) {
        // A full queue stops anyway before long; there is nobody to tell.
        drop(self.requests.try_send(Request::Stop { is_slow }));
    }
}
