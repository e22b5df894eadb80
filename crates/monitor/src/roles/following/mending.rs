//! A failover that was cut short, by the end of the proxy or by another configuration: the server
//! that was elected replicates again, so that another failover may begin.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use trunkline_cluster::{EventKind, Reach, switchover::Action};
use trunkline_net::TlsSetup;
use trunkline_topology::Secret;

use super::{
    super::{
        Aids,
        actions::Job,
        members::{Talks, take_leave},
        notes::Begun,
        survey::{Baggage, Known, survey},
    },
    Following,
    switching::Told,
};

/// How long a server may take to replicate again.
const TIME_MAX: Duration = Duration::from_secs(5);
/// How long it is waited before it is tried again, ms.
const RETRY_MS: u64 = 2_000;

/// What was found on the elected server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Found {
    /// It takes writes: it was promoted.
    Promoted,
    /// It was not, and replicates again, or always did.
    Replica,
    /// It replicates from nobody, or from another one: somebody has changed it.
    Changed,
}

/// Everything about that of one cluster.
#[derive(Default)]
pub(super) struct Mending {
    is_under_way: bool,
    /// The failover was one of this process, and has ended without a promotion.
    pub(super) is_own: bool,
    pub(super) found: Option<Result<Found, String>>,
    not_before_ms: u64,
    /// What was told last.
    told: String,
}

impl Following {
    /// Looks whether a failover was cut short, and sees to it that its server replicates again.
    pub(in super::super) fn mend(
        &mut self,
        now_ms: u64,
        tls: &Arc<TlsSetup>,
        told: &mpsc::Sender<Told>,
        aids: &Aids,
    ) {
        if let Some(found) = self.mending.found.take() {
            self.mending.is_under_way = false;
            self.take_found(now_ms, found, aids);
        }
        let is_idle = !self.mending.is_under_way
            && !self.failing.is_under_way()
            && !self.switching.is_under_way()
            && !self.rejoining.is_under_way
            && !self.cluster.is_guided();
        if !self.is_enabled || !is_idle || now_ms < self.mending.not_before_ms {
            return;
        }
        let Some(begun) = aids.begun(&self.configured.entry.name) else { return };
        let Some(host) = self.host_at(&begun.elected) else { return };
        if self.cluster.reach(host) != Reach::Up {
            return;
        }
        self.mending.is_under_way = true;
        let mut talks = self.talks(tls);
        talks.retain(|id, _| *id == host);
        let lost = self.host_at(&begun.lost);
        let known: Vec<Known> =
            self.known().into_iter().filter(|it| Some(it.host) == lost).collect();
        let (told, cluster) = (told.clone(), self.configured.entry.name.clone());
        tokio::spawn(async move {
            let (of_task, leaving) = (talks.clone(), talks);
            let found = tokio::spawn(async move { look(begun, &of_task, &known).await });
            let found = found.await.unwrap_or_else(|error| Err(error.to_string()));
            take_leave(leaving);
            // The configuration may have changed meanwhile.
            drop(told.send(Told::Mended(cluster, found)).await);
        });
    }

    fn take_found(&mut self, now_ms: u64, found: Result<Found, String>, aids: &Aids) {
        let name = self.configured.entry.name.clone();
        let Some(begun) = aids.begun(&name) else { return };
        let host = self.host_at(&begun.elected);
        let (kind, text) = match found {
            Ok(found) => {
                aids.end(&name);
                if found == Found::Replica && !begun.position.is_empty() {
                    self.was_not_promoted(now_ms, &begun, aids);
                }
                if std::mem::take(&mut self.mending.is_own) {
                    // What it has come to was told.
                    return;
                }
                let text = match found {
                    Found::Promoted => "it takes writes",
                    Found::Replica => "it was not promoted, and replicates again",
                    Found::Changed => "somebody has changed what it replicates from",
                };
                (EventKind::Failover, text.to_owned())
            }
            Err(why) => {
                self.mending.not_before_ms = now_ms.saturating_add(RETRY_MS);
                (EventKind::FailoverFailed, why)
            }
        };
        let text = format!("a failover was cut short: {text}");
        if self.mending.told != text {
            self.mending.told.clone_from(&text);
            self.tell(now_ms, kind, host, text);
        }
    }
}

/// Looks what the elected server is, under the lock, and has it replicate again.
async fn look(begun: Begun, talks: &Talks, known: &[Known]) -> Result<Found, String> {
    let talk = talks.values().next().ok_or("it is no member any more")?;
    let mut talk = talk.lock().await;
    let claimed = tokio::time::timeout(TIME_MAX, talk.claim()).await;
    if !claimed.map_err(|_| "it does not answer in time")?.map_err(|failed| failed.why)? {
        return Err("another proxy is at it".to_owned());
    }
    let (survey, _) = survey(&mut talk, known, false).await?;
    if survey.is_writable {
        return Ok(Found::Promoted);
    }
    let [source] = survey.sources.as_slice() else { return Ok(Found::Changed) };
    if source.host.is_none() {
        return Ok(Found::Changed);
    }
    if !begun.position.is_empty() && begun.position != survey.position {
        return Err(format!(
            "it was about to be promoted with {}, has {} and is read-only: look at what it has \
             committed, and promote a server, or start its replication",
            begun.position, survey.position
        ));
    }
    let (nobody, nothing) = (Secret::new(String::new()), Baggage::default());
    let job = Job {
        action: &Action::Reattach,
        old: &nothing,
        new: &nothing,
        source: ("", 0),
        account: ("", &nobody),
    };
    let started = talk.within(TIME_MAX, &job).await;
    started.map(|_| Found::Replica).map_err(|failure| failure.why)
}
