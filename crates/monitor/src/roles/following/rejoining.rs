//! A server that was the writer, or has left, replicates from the writer again.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot};
use trunkline_cluster::{
    EventKind, HostId, Reach, Standing,
    failover::Mode,
    switchover::{Action, check::Family},
};
use trunkline_net::TlsSetup;
use trunkline_topology::{
    Address, Secret,
    gtid::{BinlogState, GtidSet},
};

use super::{
    super::{
        actions::Job,
        members::{Talks, take_leave},
        survey::{Baggage, Known, survey},
        talk::{Talk, quoted},
    },
    Following,
    switching::{Told, shortened},
};

/// How long a server may take to become read-only.
const DEMOTE_TIME_MAX: Duration = Duration::from_secs(3);
/// How long it may take to replicate.
const FOLLOW_TIME_MAX: Duration = Duration::from_secs(10);
/// How long comparing transactions may take.
const COMPARE_TIME_MAX: Duration = Duration::from_secs(10);

/// Gets what came of a command.
pub(in super::super) type Teller = oneshot::Sender<Result<String, String>>;

/// Why a server does not replicate again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum NotRejoined {
    /// It has transactions that the writer has not.
    Diverged(String),
    /// Something else.
    Failed(String),
}

/// What came of it.
pub(in super::super) struct Rejoined {
    host: HostId,
    result: Result<String, NotRejoined>,
    teller: Option<Teller>,
}

/// Everything about that of one cluster.
#[derive(Default)]
pub(super) struct Rejoining {
    pub(super) is_under_way: bool,
    /// Who was tried without being asked for, and has not left since.
    tried: Option<HostId>,
}

impl Following {
    /// Has a server replicate from the writer, as an operator wishes, or by itself.
    pub(in super::super) fn rejoin(
        &mut self,
        server: &Address,
        teller: Option<Teller>,
        tls: &Arc<TlsSetup>,
        told: &mpsc::Sender<Told>,
    ) {
        match self.prepare_rejoin(server) {
            Ok(work) => {
                self.rejoining.is_under_way = true;
                let (host, talks) = (work.host, self.talks(tls));
                let (told, cluster) = (told.clone(), self.configured.entry.name.clone());
                let known = self.known();
                tokio::spawn(async move {
                    let (of_work, leaving) = (talks.clone(), talks);
                    let done = tokio::spawn(async move { rejoin(work, &of_work, &known).await });
                    let result = done.await.unwrap_or_else(|error| {
                        Err(NotRejoined::Failed(format!("a bug of Trunkline: {error}")))
                    });
                    take_leave(leaving);
                    let rejoined = Box::new(Rejoined { host, result, teller });
                    // The configuration may have changed meanwhile; who asked is told by that.
                    drop(told.send(Told::Rejoined(cluster, rejoined)).await);
                });
            }
            Err(why) => {
                if let Some(teller) = teller {
                    // Who asked may have gone.
                    drop(teller.send(Err(why)));
                }
            }
        }
    }

    fn prepare_rejoin(&self, server: &Address) -> Result<Work, String> {
        let name = &self.configured.entry.name;
        let member = self.configured.members.iter().find(|it| it.address == *server);
        let member = member.ok_or_else(|| format!("{server} is no server of cluster {name}"))?;
        let host = HostId(member.number);
        if self.rejoining.is_under_way
            || self.failing.is_under_way()
            || self.switching.is_under_way()
        {
            return Err(format!("the servers of cluster {name} are being changed"));
        }
        let writer =
            self.cluster.writer().ok_or_else(|| format!("cluster {name} has no writer"))?;
        if writer == host {
            return Err(format!("{server} is the writer"));
        }
        let source = match self.servers.get(&writer).map(|it| &it.writer.key.address) {
            Some(Address::Tcp { host, port }) => (host.clone(), *port),
            Some(Address::Unix(_)) | None => {
                return Err("the writer has no address that other servers could reach".to_owned());
            }
        };
        let account = self.switching.replication()?;
        let is_guide = |id: &HostId| {
            *id != host
                && self.cluster.reach(*id) == Reach::Up
                && self.cluster.source_of(*id) == Some(writer)
        };
        let guide = self.cluster.members().find(is_guide);
        Ok(Work { host, writer, guide, source, account })
    }

    /// Has a lost writer rejoin that is back, without being asked for, where failovers are
    /// automatic.
    pub(in super::super) fn look_at_rejoin(
        &mut self,
        tls: &Arc<TlsSetup>,
        told: &mpsc::Sender<Told>,
    ) {
        let Some(address) = self.failing.lost_by_failover() else { return };
        let member = self.configured.members.iter().find(|it| it.address.to_string() == address);
        let Some((host, address)) = member.map(|it| (HostId(it.number), it.address.clone())) else {
            return;
        };
        if self.cluster.reach(host) != Reach::Up {
            self.rejoining.tried = None;
            return;
        }
        let writer = self.cluster.writer().filter(|it| self.cluster.reach(*it) == Reach::Up);
        let is_alone = matches!(self.cluster.standing(host), Standing::Fenced | Standing::Standby);
        let is_due = self.failing.mode() == Mode::Auto
            && self.rejoining.tried != Some(host)
            && !self.rejoining.is_under_way
            && !self.failing.is_under_way()
            && writer.is_some_and(|writer| writer != host)
            && is_alone
            && !self.cluster.is_away(host);
        if is_due {
            self.rejoining.tried = Some(host);
            self.rejoin(&address, None, tls, told);
        }
    }

    /// Takes what came of it.
    pub(super) fn take_rejoined(&mut self, now_ms: u64, rejoined: Rejoined) {
        self.rejoining.is_under_way = false;
        let Rejoined { host, result, teller } = rejoined;
        let (kind, text) = match &result {
            Ok(said) => (EventKind::Rejoined, said.clone()),
            Err(NotRejoined::Diverged(errant)) => (
                EventKind::Diverged,
                format!(
                    "it has transactions that the writer has not: {errant}. Look at them in its \
                     binary log, then build it anew, or commit empty ones in their place on the \
                     writer and REJOIN"
                ),
            ),
            Err(NotRejoined::Failed(why)) => {
                (EventKind::FailoverFailed, format!("it does not replicate again: {why}"))
            }
        };
        self.tell(now_ms, kind, Some(host), text.clone());
        if let Some(teller) = teller {
            // Who asked may have gone.
            drop(teller.send(result.map_err(|_| text)));
        }
    }

    /// An operator works on a server, or has finished.
    pub(in super::super) fn maintain(
        &mut self,
        now_ms: u64,
        server: &Address,
        is_on: bool,
    ) -> Result<String, String> {
        let name = &self.configured.entry.name;
        let member = self.configured.members.iter().find(|it| it.address == *server);
        let member = member.ok_or_else(|| format!("{server} is no server of cluster {name}"))?;
        let host = HostId(member.number);
        if is_on && self.cluster.standing(host) == Standing::Writer {
            return Err(format!("{server} is the writer: SWITCHOVER {name} first"));
        }
        self.on(now_ms, trunkline_cluster::Input::Away(host, is_on));
        let text = match is_on {
            true => "it is in maintenance: it takes no statements and is not elected",
            false => "its maintenance is over",
        };
        self.tell(now_ms, EventKind::Maintenance, Some(host), text.to_owned());
        Ok(format!("{server}: {text}"))
    }
}

/// Who replicates from whom.
struct Work {
    host: HostId,
    writer: HostId,
    /// Who does so already.
    guide: Option<HostId>,
    source: (String, u16),
    account: Arc<(String, Secret<String>)>,
}

async fn rejoin(work: Work, talks: &Talks, known: &[Known]) -> Result<String, NotRejoined> {
    let failed = |why: String| NotRejoined::Failed(why);
    let none = || failed("it is no member any more".to_owned());
    let own = talks.get(&work.host).ok_or_else(none)?;
    let above = talks.get(&work.writer).ok_or_else(none)?;
    let (mut own, mut above) = (own.lock().await, above.lock().await);
    let (own_survey, own_baggage) = survey(&mut own, known, false).await.map_err(failed)?;
    if !own_survey.missing.is_empty() {
        let missing = own_survey.missing.join(", ");
        return Err(failed(format!("the account for switchovers lacks {missing} there")));
    }
    if !own.claim().await.map_err(|it| failed(it.why))? {
        return Err(failed("another proxy is at it".to_owned()));
    }
    // Who the writer is may have changed since it was looked at.
    let of_writer = |why: String| failed(format!("the writer: {why}"));
    if !above.claim().await.map_err(|it| of_writer(it.why))? {
        return Err(of_writer("another proxy is at it".to_owned()));
    }
    let takes_writes = above.takes_writes().await.map_err(|it| of_writer(it.why))?;
    if !takes_writes {
        return Err(of_writer("it is read-only by now".to_owned()));
    }
    let family = own_survey.family;
    let mut example = match work.guide.and_then(|guide| talks.get(&guide)) {
        Some(guide) => {
            let mut guide = guide.lock().await;
            survey(&mut guide, known, false).await.ok().map(|(_, baggage)| baggage)
        }
        None => None,
    };
    let new = example.take().unwrap_or_else(|| Baggage {
        options: match family {
            Family::MariaDb => ", MASTER_CONNECT_RETRY=1".to_owned(),
            Family::MySql => ", SOURCE_CONNECT_RETRY=1, GET_SOURCE_PUBLIC_KEY=1".to_owned(),
        },
        ..Baggage::default()
    });
    let job = |action| Job {
        action,
        old: &own_baggage,
        new: &new,
        source: (&work.source.0, work.source.1),
        account: (&work.account.0, &work.account.1),
    };
    let demoted = own.within(DEMOTE_TIME_MAX, &job(&Action::Demote)).await;
    let position = demoted.map_err(|it| failed(format!("demote: {}", it.why)))?.value;
    // Nothing is committed there any more. Whatever it has, it stays read-only: other proxies may
    // not have noticed that it was replaced.
    same(&mut own, &mut above, family).await?;
    let follow = Action::Follow { source: work.writer, had: Some(position), most: None };
    let followed = own.within(FOLLOW_TIME_MAX, &job(&follow)).await;
    followed.map(|done| done.said).map_err(|it| failed(it.why))
}

/// Sees to it that a server has nothing that the writer has not.
async fn same(own: &mut Talk, above: &mut Talk, family: Family) -> Result<(), NotRejoined> {
    let compared = tokio::time::timeout(COMPARE_TIME_MAX, beyond(own, above, family));
    let late = || NotRejoined::Failed("it does not answer in time".to_owned());
    let beyond = compared.await.map_err(|_| late())?.map_err(NotRejoined::Failed)?;
    match beyond.is_empty() {
        true => Ok(()),
        false => Err(NotRejoined::Diverged(shortened(&beyond))),
    }
}

/// What a server has and the writer has not.
async fn beyond(own: &mut Talk, above: &mut Talk, family: Family) -> Result<String, String> {
    let unread = |text: &str| format!("`{text}` can't be read");
    match family {
        Family::MariaDb => {
            let state = "SELECT @@global.gtid_binlog_state";
            let own = own.value(state).await.map_err(|it| it.why)?;
            let above = above.value(state).await.map_err(|it| it.why)?;
            let read = |text: &str| BinlogState::parse(text).map_err(|_| unread(text));
            Ok(read(&own)?.beyond(&read(&above)?).join(","))
        }
        Family::MySql => {
            let executed = "SELECT @@global.gtid_executed";
            let own = own.value(executed).await.map_err(|it| it.why)?.replace('\n', "");
            GtidSet::parse(&own).map_err(|_| unread(&own))?;
            let own = quoted(&own);
            let sql = format!("SELECT GTID_SUBTRACT({own}, @@global.gtid_executed)");
            Ok(above.value(&sql).await.map_err(|it| it.why)?.replace('\n', ""))
        }
    }
}
