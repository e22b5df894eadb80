//! A failover or a switchover that was cut short, by the end of the proxy or by another
//! configuration: the server that was elected replicates again, so that another one may begin, and
//! after a switchover the old writer takes writes again.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use trunkline_cluster::{
    EventKind, HostId, Reach,
    switchover::{Action, check::Family},
};
use trunkline_net::TlsSetup;
use trunkline_topology::{Secret, gtid::Position};

use super::{
    super::{
        Aids,
        actions::Job,
        members::{Talks, take_leave},
        notes::Begun,
        survey::{Baggage, Known, lacking, survey},
        talk::Talk,
    },
    Following,
    failing::unix_sec,
    switching::Told,
};

/// How long a server may take to replicate again.
const TIME_MAX: Duration = Duration::from_secs(5);
/// How long after the beginning of a switchover the old writer is opened again, s: later somebody
/// may have decided otherwise.
const UNDO_SEC_MAX: u64 = 60;
/// How long it is waited before it is tried again, ms.
const RETRY_MS: u64 = 2_000;

/// What was found on the elected server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Found {
    /// Somebody has the lock: it may be a connection of the process before.
    Busy,
    /// It takes writes: it was promoted.
    Promoted,
    /// It was not, and the old writer takes writes again.
    Opened,
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
        let old = self.host_at(&begun.lost);
        let mut talks = self.talks(tls);
        talks.retain(|id, _| *id == host || Some(*id) == old);
        let known = self.known();
        let is_overtaken = self.cluster.contenders().any(|it| it != host && Some(it) != old);
        let pair = Pair { begun, elected: host, old, is_overtaken };
        let (told, cluster) = (told.clone(), self.configured.entry.name.clone());
        tokio::spawn(async move {
            let (of_task, leaving) = (talks.clone(), talks);
            let found = tokio::spawn(async move { look(pair, &of_task, &known).await });
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
        let (what, well, badly) = match begun.switchover {
            None => ("failover", EventKind::Failover, EventKind::FailoverFailed),
            Some(_) => ("switchover", EventKind::Switchover, EventKind::SwitchoverFailed),
        };
        let (kind, text) = match found {
            Ok(Found::Busy) => {
                self.mending.not_before_ms = now_ms.saturating_add(RETRY_MS);
                return;
            }
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
                    Found::Opened => "it was not promoted, and the old writer takes writes again",
                    Found::Busy | Found::Promoted => "it takes writes",
                    Found::Replica => "it was not promoted, and replicates again",
                    Found::Changed => "somebody has changed what it replicates from",
                };
                (well, text.to_owned())
            }
            Err(why) => {
                self.mending.not_before_ms = now_ms.saturating_add(RETRY_MS);
                (badly, why)
            }
        };
        let text = format!("a {what} was cut short: {text}");
        if self.mending.told != text {
            self.mending.told.clone_from(&text);
            self.tell(now_ms, kind, host, text);
        }
    }
}

/// Who is looked at.
struct Pair {
    begun: Begun,
    elected: HostId,
    /// The one before, where it is a member.
    old: Option<HostId>,
    /// Somebody else takes writes.
    is_overtaken: bool,
}

/// Looks what the servers are, under the lock, and has the elected one replicate again. Where an
/// operator wished it, the old writer takes writes again.
async fn look(pair: Pair, talks: &Talks, known: &[Known]) -> Result<Found, String> {
    let gone = "it is no member any more";
    let new = talks.get(&pair.elected).ok_or(gone)?;
    let mut new = new.lock().await;
    if !claimed(&mut new).await? {
        return Ok(Found::Busy);
    }
    let (own, _) = survey(&mut new, known, false).await?;
    if own.is_writable {
        return Ok(Found::Promoted);
    }
    let Pair { begun, old, is_overtaken, .. } = pair;
    let [source] = own.sources.as_slice() else { return Ok(Found::Changed) };
    if source.host.is_none() || source.host != old {
        return Ok(Found::Changed);
    }
    if !begun.position.is_empty() && begun.position != own.position {
        return Err(format!(
            "it was about to be promoted with {}, has {} and is read-only: look at what it has \
             committed, and promote a server, or start its replication",
            begun.position, own.position
        ));
    }
    act(&mut new, &Action::Reattach, &Baggage::default()).await?;
    let Some(wished) = begun.switchover else { return Ok(Found::Replica) };
    let old = old.and_then(|old| talks.get(&old)).ok_or(gone)?;
    let mut old = old.lock().await;
    if !claimed(&mut old).await? {
        return Ok(Found::Busy);
    }
    let (above, _) = survey(&mut old, known, false).await?;
    if above.is_writable || is_overtaken {
        return Ok(Found::Replica);
    }
    let nobody = |why: &str| {
        Err(format!("{why}: nobody writes; make one server writable (SET GLOBAL read_only = 0)"))
    };
    if !above.sources.is_empty() {
        return nobody("the old writer replicates from another server");
    }
    if unix_sec().saturating_sub(wished.unix_sec) > UNDO_SEC_MAX {
        return nobody("that is long ago");
    }
    // The candidate was not a writer meanwhile.
    let ahead = match own.family {
        Family::MariaDb => {
            let read =
                |text: &str| Position::parse(text).map_err(|_| format!("`{text}` can't be read"));
            read(&own.position)?.beyond(&read(&above.position)?).join(",")
        }
        Family::MySql => {
            let lacking = lacking(&mut old, &[own.position]).await.map_err(|it| it.why)?;
            lacking.concat()
        }
    };
    if !ahead.is_empty() {
        return nobody(&format!("the old writer lacks {ahead}"));
    }
    let baggage = Baggage { runs_events: wished.runs_events, ..Baggage::default() };
    act(&mut old, &Action::Undemote, &baggage).await?;
    Ok(Found::Opened)
}

async fn claimed(talk: &mut Talk) -> Result<bool, String> {
    let claimed = tokio::time::timeout(TIME_MAX, talk.claim()).await;
    claimed.map_err(|_| "it does not answer in time")?.map_err(|failed| failed.why)
}

async fn act(talk: &mut Talk, action: &Action, old: &Baggage) -> Result<(), String> {
    let (nobody, new) = (Secret::new(String::new()), Baggage::default());
    let job = Job { action, old, new: &new, source: ("", 0), account: ("", &nobody) };
    talk.within(TIME_MAX, &job).await.map(drop).map_err(|failure| failure.why)
}
