//! A failover or a switchover that was cut short, by the end of the proxy or by another
//! configuration: the server that was elected replicates again, so that another one may begin, and
//! after a switchover the old writer takes writes again.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::timeout};
use trunkline_cluster::{
    EventKind, HostId, Reach,
    switchover::{
        Action,
        check::{Family, Survey},
    },
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
        talk::{Failed, Talk},
    },
    Following,
    failing::unix_sec,
    switching::Told,
};

/// How long a server may take to replicate again.
const TIME_MAX: Duration = Duration::from_secs(5);
/// How long one of the other members may take.
const OTHER_TIME_MAX: Duration = Duration::from_secs(2);
/// How long after the beginning of a switchover the old writer is opened again, s: later somebody
/// may have decided otherwise.
const UNDO_SEC_MAX: u64 = 60;
/// How long it is waited before it is tried again, ms.
const RETRY_MS: u64 = 2_000;

/// What was found on the elected server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Found {
    /// Somebody has the lock: it may be a connection of the process before.
    Busy,
    /// It takes writes: it was promoted.
    Promoted,
    /// It was not, and the old writer takes writes again.
    Opened,
    /// It was not, and replicates again, or always did.
    Replica,
    /// It was not, and replicates again; somebody has made another server take writes.
    Overtaken,
    /// Nobody takes writes, and a person has to decide.
    Nobody(String),
    /// It replicates from nobody, or from another one: somebody has changed it.
    Changed,
}

/// Everything about that of one cluster.
#[derive(Default)]
pub(super) struct Mending {
    pub(super) is_under_way: bool,
    /// The failover was one of this process, and has ended without a promotion.
    pub(super) is_own: bool,
    /// What a task has found, of what was noted when it began.
    pub(super) found: Option<(Begun, Result<Found, String>)>,
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
        if let Some((of, found)) = self.mending.found.take() {
            self.mending.is_under_way = false;
            self.take_found(now_ms, &of, found, aids);
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
        let talks = self.talks(tls);
        let known = self.known();
        let is_other = |id: &HostId| *id != host && Some(*id) != old;
        let others = self.in_order(self.servers.keys().copied().filter(is_other));
        let of = begun.clone();
        let pair = Pair { begun, elected: host, old, others };
        let (told, cluster) = (told.clone(), self.configured.entry.name.clone());
        tokio::spawn(async move {
            let (of_task, leaving) = (talks.clone(), talks);
            let found = tokio::spawn(async move { look(pair, &of_task, &known).await });
            let found = found.await.unwrap_or_else(|error| Err(error.to_string()));
            take_leave(leaving);
            // The configuration may have changed meanwhile.
            drop(told.send(Told::Mended(cluster, Box::new((of, found)))).await);
        });
    }

    fn take_found(&mut self, now_ms: u64, of: &Begun, found: Result<Found, String>, aids: &Aids) {
        let name = self.configured.entry.name.clone();
        // Another one may have begun meanwhile, or a person may have decided.
        let Some(begun) = aids.begun(&name).filter(|begun| begun == of) else { return };
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
            Ok(Found::Nobody(why)) => {
                aids.end(&name);
                self.mending.is_own = false;
                (badly, why)
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
                    Found::Busy | Found::Nobody(_) | Found::Promoted => "it takes writes",
                    Found::Overtaken => {
                        "it was not promoted, and another server takes writes: the old writer \
                         is left as it is"
                    }
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
    /// All other members, in the order in which they are claimed.
    others: Vec<(HostId, String)>,
}

/// Looks what the servers are, under the lock, and has the elected one replicate again. Where an
/// operator wished it, the old writer takes writes again.
// long: one look at two servers under their locks: each answer decides what is next.
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
    let Pair { begun, old, others, .. } = pair;
    let [source] = own.sources.as_slice() else { return Ok(Found::Changed) };
    if source.host.is_none() || source.host != old {
        return Ok(Found::Changed);
    }
    let old = old.and_then(|old| talks.get(&old)).ok_or(gone)?;
    let mut old = old.lock().await;
    let is_elsewhere = !begun.position.is_empty() && begun.position != own.position;
    if is_elsewhere && !source.runs {
        // What it has beyond that may be from the old writer.
        let above = survey(&mut old, known, false).await;
        let (above, _) = above.map_err(|why| {
            format!(
                "it was about to be promoted with {}, has {} and is read-only, and the old writer \
                 can't be asked ({why}): look at what it has committed, and promote a server",
                begun.position, own.position
            )
        })?;
        let ahead = ahead(&own, &above, &mut old).await?;
        if !ahead.is_empty() {
            return Ok(Found::Nobody(format!(
                "it was about to be promoted with {}, has {}, which the old writer lacks in part, \
                 and is read-only: look at what it has committed, and promote a server, or start \
                 its replication",
                begun.position, own.position
            )));
        }
    }
    if !source.runs {
        act(&mut new, &Action::Reattach, &Baggage::default()).await?;
    }
    let Some(wished) = begun.switchover else { return Ok(Found::Replica) };
    if !claimed(&mut old).await? {
        return Ok(Found::Busy);
    }
    let (above, _) = survey(&mut old, known, false).await?;
    if above.is_writable {
        return Ok(Found::Replica);
    }
    let nobody = |why: &str| {
        let text = "nobody writes; make one server writable (SET GLOBAL read_only = 0)";
        Ok(Found::Nobody(format!("{why}: {text}")))
    };
    if !above.sources.is_empty() {
        return nobody("the old writer replicates from another server");
    }
    // The candidate was not a writer meanwhile.
    let ahead = ahead(&own, &above, &mut old).await?;
    match overtaken(&others, talks).await {
        Ok(Claimed::Overtaken) => return Ok(Found::Overtaken),
        Ok(Claimed::Busy) => return Ok(Found::Busy),
        Err(why) if !is_long_ago(wished.unix_sec, unix_sec()) => return Err(why),
        Ok(Claimed::All) | Err(_) => {}
    }
    if new.takes_writes().await.map_err(|it| it.why)? {
        return Ok(Found::Promoted);
    }
    if is_long_ago(wished.unix_sec, unix_sec()) {
        return nobody("that is long ago");
    }
    if !ahead.is_empty() {
        return nobody(&format!("the old writer lacks {ahead}"));
    }
    let baggage = Baggage { runs_events: wished.runs_events, ..Baggage::default() };
    act(&mut old, &Action::Undemote, &baggage).await?;
    Ok(Found::Opened)
}

/// Whether it is too late to open the old writer again. A clock that was put back says nothing.
fn is_long_ago(begun_sec: u64, now_sec: u64) -> bool {
    now_sec.checked_sub(begun_sec).is_none_or(|passed_sec| passed_sec > UNDO_SEC_MAX)
}

/// The transactions of the elected server that the old writer lacks.
async fn ahead(own: &Survey, above: &Survey, old: &mut Talk) -> Result<String, String> {
    match own.family {
        Family::MariaDb => {
            let read =
                |text: &str| Position::parse(text).map_err(|_| format!("`{text}` can't be read"));
            Ok(read(&own.position)?.beyond(&read(&above.position)?).join(","))
        }
        Family::MySql => {
            let position = own.position.clone();
            let lacking = timeout(TIME_MAX, lacking(old, &[position])).await;
            let lacking = lacking.map_err(|_| "the old writer does not answer in time")?;
            Ok(lacking.map_err(|it| it.why)?.concat())
        }
    }
}

/// What came of claiming all other members.
enum Claimed {
    /// All that don't refuse connections are claimed, and read-only.
    All,
    /// One takes writes.
    Overtaken,
    /// Somebody else has the lock of one.
    Busy,
}

/// Claims all other members, and asks them whether they take writes. Those that refuse connections
/// take none.
async fn overtaken(others: &[(HostId, String)], talks: &Talks) -> Result<Claimed, String> {
    let mut is_busy = false;
    for (host, name) in others {
        let Some(talk) = talks.get(host) else { continue };
        let mut talk = talk.lock().await;
        let asked = async {
            let is_claimed = talk.claim().await?;
            Ok::<_, Failed>((is_claimed, talk.takes_writes().await?))
        };
        match timeout(OTHER_TIME_MAX, asked).await {
            Ok(Ok((_, true))) => return Ok(Claimed::Overtaken),
            Ok(Ok((is_claimed, false))) => is_busy |= !is_claimed,
            Ok(Err(failed)) if failed.is_refused => {}
            Ok(Err(failed)) => return Err(unasked(name, &failed.why)),
            Err(_) => {
                talk.forget();
                return Err(unasked(name, "it does not answer in time"));
            }
        }
    }
    Ok(if is_busy { Claimed::Busy } else { Claimed::All })
}

fn unasked(name: &str, why: &str) -> String {
    format!("whether {name} takes writes is not known: {why}")
}

async fn claimed(talk: &mut Talk) -> Result<bool, String> {
    let claimed = timeout(TIME_MAX, talk.claim()).await;
    claimed.map_err(|_| "it does not answer in time")?.map_err(|failed| failed.why)
}

async fn act(talk: &mut Talk, action: &Action, old: &Baggage) -> Result<(), String> {
    let (nobody, new) = (Secret::new(String::new()), Baggage::default());
    let job = Job { action, old, new: &new, source: ("", 0), account: ("", &nobody) };
    talk.within(TIME_MAX, &job).await.map(drop).map_err(|failure| failure.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switchover_is_undone_within_a_minute() {
        let check = |begun, now, expected| assert_eq!(is_long_ago(begun, now), expected, "{now}");
        check(1_000, 1_000, false);
        check(1_000, 1_060, false);
        check(1_000, 1_061, true);
        // The clock was put back.
        check(1_000, 999, true);
    }
}
