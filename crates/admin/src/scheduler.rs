//! The rows of `scheduler` that run: each script again and again, never twice at once.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{scripts::run_and_tell, service::AdminService};

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

/// What keeps jobs from running: why no script can (`refused`), or what their files are. Looks at
/// the files.
pub(crate) fn warnings(jobs: &[Job], refused: Option<String>) -> Vec<String> {
    match (jobs, refused) {
        ([], _) => Vec::new(),
        (jobs, Some(reason)) => {
            let ids: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
            vec![format!("scheduler {}: can't run: {reason}", ids.join(", "))]
        }
        (jobs, None) => jobs.iter().filter_map(warning).collect(),
    }
}

fn warning(job: &Job) -> Option<String> {
    // Programs without a path are looked for when they run.
    if !job.filename.contains('/') {
        return None;
    }
    let reason = match fs::metadata(&job.filename) {
        Err(error) => error.to_string(),
        Ok(found) if !found.is_file() => "it is no file".to_owned(),
        Ok(found) if found.mode() & 0o111 == 0 => "nobody may execute it".to_owned(),
        Ok(_) => return None,
    };
    Some(format!("scheduler {}: {} can't run: {reason}", job.id, job.filename))
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
    tokio::spawn(async move {
        let name = format!("scheduler {}, {}", job.id, job.filename);
        run_and_tell(&name, &job.filename, &job.arguments, &snapshot.settings).await;
        running.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.id);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_job_from_running_is_told() {
        let job = |id: i64, filename: &str| Job {
            id,
            interval: REST,
            filename: filename.to_owned(),
            arguments: Vec::new(),
        };
        let check = |jobs: &[Job], refused: Option<&str>, expected: &[&str]| {
            assert_eq!(warnings(jobs, refused.map(str::to_owned)), expected);
        };
        let jobs = [job(3, "/bin/sh"), job(5, "/no/such"), job(6, "/"), job(7, "/etc/passwd")];
        check(
            &jobs,
            None,
            &[
                "scheduler 5: /no/such can't run: No such file or directory (os error 2)",
                "scheduler 6: / can't run: it is no file",
                "scheduler 7: /etc/passwd can't run: nobody may execute it",
            ],
        );
        check(&[job(1, "sh")], None, &[]);
        check(&jobs[..2], Some("root"), &["scheduler 3, 5: can't run: root"]);
        check(&[], Some("root"), &[]);
    }
}
