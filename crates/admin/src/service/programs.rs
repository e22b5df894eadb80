//! Programs of others: what the scheduler runs, and what is asked for over HTTP.

use std::{collections::HashMap, time::Duration};

use tokio::sync::{Semaphore, watch};
use trunkline_store::{Access, Answer, Layer, SqlError, Store, Value};

use super::{AdminService, Refused};
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

/// A port of the loopback that variables switch on, and what is answered there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Port {
    /// What `http_listen` answers.
    Http(u16),
    /// The web console.
    Console(u16),
}

impl Port {
    /// Its number.
    pub fn number(self) -> u16 {
        let (Self::Http(number) | Self::Console(number)) = self;
        number
    }
}

impl AdminService {
    /// What the scheduler runs, from now on.
    pub fn jobs(&self) -> watch::Receiver<Vec<Job>> {
        self.jobs.subscribe()
    }

    /// Ports of the loopback beside `http_listen` and `console_listen`, from now on.
    pub fn ports(&self) -> watch::Receiver<Vec<Port>> {
        self.ports.subscribe()
    }

    /// The variables `admin-…` that run now are others.
    pub(super) async fn renew_ports(&self) -> Result<(), Refused> {
        let ports = self.with_store(|store| Ok(ports(store)?)).await?;
        self.ports.send_replace(ports);
        Ok(())
    }

    /// Places for scripts that are asked for over HTTP.
    pub(crate) fn script_places(&self) -> &Semaphore {
        &self.script_places
    }

    /// The rows of `scheduler` that run now are others.
    pub(super) async fn renew_jobs(&self) -> Result<(), Refused> {
        let jobs = self.with_store(|store| Ok(jobs(store, Layer::Runtime)?)).await?;
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

/// ProxySQL's two ports for HTTP, where they are switched on.
pub(super) fn ports(store: &Store) -> Result<Vec<Port>, SqlError> {
    let variables: HashMap<String, String> =
        store.variables(Layer::Runtime, "admin-")?.into_iter().collect();
    let value = |name: &str| variables.get(name).map_or("", String::as_str);
    let on = |name: &str| matches!(value(name), "true" | "1");
    let port = |switch: &str, port: &str| match on(switch) {
        true => value(port).parse().ok(),
        false => None,
    };
    let console = port("admin-web_enabled", "admin-web_port").map(Port::Console);
    let http = port("admin-restapi_enabled", "admin-restapi_port").map(Port::Http);
    Ok(console.into_iter().chain(http).collect())
}

/// The active rows of `scheduler`, in a layer.
pub(super) fn jobs(store: &Store, layer: Layer) -> Result<Vec<Job>, SqlError> {
    let rows = store.rows(layer, "scheduler")?;
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
