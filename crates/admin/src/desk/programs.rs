//! Programs of others: what the scheduler runs, and what is asked for over HTTP.

use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use trunkline_store::{Access, Answer, Layer, SqlError, Store, Value};

use super::{Desk, Refused};
use crate::scheduler::Job;

/// Scripts that may run at once for who asks over HTTP.
pub(super) const SCRIPTS_MAX: usize = 16;

/// A row of `restapi_routes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The program.
    pub script: String,
    /// How long it may run.
    pub timeout_ms: u64,
}

impl Desk {
    /// What the scheduler runs, from now on.
    pub fn jobs(&self) -> watch::Receiver<Vec<Job>> {
        self.jobs.subscribe()
    }

    /// Places for scripts that are asked for over HTTP.
    pub(crate) fn script_places(&self) -> &Semaphore {
        &self.script_places
    }

    /// The rows of `scheduler` that run now are others.
    pub(super) async fn renew_jobs(&self) -> Result<(), Refused> {
        let jobs = self.with_store(|store| Ok(jobs(store)?)).await?;
        self.jobs.send_replace(jobs);
        Ok(())
    }

    /// The route for a request, where `admin-restapi_enabled` allows any.
    pub(crate) async fn route(&self, method: &str, uri: &str) -> Result<Option<Route>, Refused> {
        let is_on = self.running_variable("admin-restapi_enabled").await?;
        if !matches!(is_on.as_str(), "true" | "1") {
            return Ok(None);
        }
        let params = [method, uri].map(|text| Value::Text(text.to_owned()));
        let answer = self
            .with_store(move |store| {
                let sql = "SELECT script, timeout_ms FROM main.runtime_restapi_routes \
                           WHERE active = 1 AND upper(method) = ? AND uri = ? LIMIT 1";
                Ok(store.run(sql, &params, Access::Internal)?)
            })
            .await?;
        let Answer::Rows(rows) = answer else { return Ok(None) };
        Ok(rows.rows.first().and_then(|row| match row.as_slice() {
            [Value::Text(script), Value::Integer(timeout_ms)] => Some(Route {
                script: script.clone(),
                timeout_ms: u64::try_from(*timeout_ms).unwrap_or_default(),
            }),
            _ => None,
        }))
    }
}

/// The active rows of `runtime_scheduler`.
pub(super) fn jobs(store: &Store) -> Result<Vec<Job>, SqlError> {
    let rows = store.rows(Layer::Runtime, "scheduler")?;
    let job = |row: &Vec<Value>| match row.as_slice() {
        [
            Value::Integer(id),
            Value::Integer(1),
            Value::Integer(interval_ms),
            Value::Text(filename),
            arguments @ ..,
        ] => Some(Job {
            id: *id,
            interval: Duration::from_millis(u64::try_from(*interval_ms).unwrap_or(100).max(100)),
            filename: filename.clone(),
            arguments: arguments
                .iter()
                .take(5)
                .map_while(|argument| match argument {
                    Value::Text(text) => Some(text.clone()),
                    Value::Integer(number) => Some(number.to_string()),
                    Value::Null | Value::Real(_) | Value::Blob(_) => None,
                })
                .collect(),
        }),
        _ => None,
    };
    Ok(rows.iter().filter_map(job).collect())
}
