//! The rows of `scheduler` that run: each script again and again, never twice at once.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    scripts::{Account, run},
    service::AdminService,
};

/// How long nothing is looked for when there is nothing to run.
const REST: Duration = Duration::from_secs(3_600);

/// One active row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: i64,
    /// The time between two starts.
    pub interval: Duration,
    /// The program.
    pub filename: String,
    /// Its arguments, up to the first that is NULL.
    pub arguments: Vec<String>,
}

/// Runs the jobs for as long as somebody may change them.
pub async fn keep_scheduling(service: Arc<AdminService>, mut jobs: watch::Receiver<Vec<Job>>) {
    let running: Arc<Mutex<HashSet<i64>>> = Arc::default();
    let mut due: HashMap<i64, Instant> = HashMap::new();
    loop {
        let current = jobs.borrow_and_update().clone();
        due.retain(|id, _| current.iter().any(|job| job.id == *id));
        let now = Instant::now();
        for job in &current {
            let at = due.entry(job.id).or_insert(now + job.interval);
            // A shorter interval is in force at once.
            *at = (*at).min(now + job.interval);
            if *at > now {
                continue;
            }
            *at = now + job.interval;
            let is_free = {
                let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
                running.insert(job.id)
            };
            match is_free {
                true => start(&service, job.clone(), Arc::clone(&running)),
                false => tracing::warn!("scheduler {}: it still runs, and is left out", job.id),
            }
        }
        let next = due.values().min().copied().unwrap_or(now + REST);
        tokio::select! {
            changed = jobs.changed() => if changed.is_err() {
                return;
            },
            () = sleep_until(next) => {}
        }
    }
}

fn start(service: &AdminService, job: Job, running: Arc<Mutex<HashSet<i64>>>) {
    let snapshot = service.snapshot();
    let limit = Duration::from_millis(snapshot.settings.script_time_max);
    let account = Account::of(&snapshot.settings);
    tokio::spawn(async move {
        let name = format!("scheduler {}, {}", job.id, job.filename);
        match account {
            Err(reason) => tracing::error!("{name}: {reason}"),
            Ok(account) => match run(&job.filename, &job.arguments, account, limit).await {
                Ok(ended) if ended.code == Some(0) => {}
                Ok(ended) => {
                    let code = ended.code.map_or("a signal".to_owned(), |code| code.to_string());
                    let said = ended.complaint.lines().next().unwrap_or_default().to_owned();
                    tracing::warn!("{name}: ended with {code}: {said}");
                }
                Err(error) => tracing::warn!("{name}: {error}"),
            },
        }
        running.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.id);
    });
}
