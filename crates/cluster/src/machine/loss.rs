//! Whether the writer is lost, for the monitor, for traffic, and for its replicas.

use super::{Cluster, Host, HostId, Reach};
use crate::facts::{Endpoint, Thread};

/// What is known of a writer that may be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// It is there, or there was none.
    None,
    /// It answers, and takes no writes, and nobody else does: it came back so.
    ReadOnly {
        /// The writer.
        writer: HostId,
    },
    /// It has failed to answer, and that is not enough.
    Doubtful {
        /// The writer.
        writer: HostId,
        /// What is missing.
        why: String,
    },
    /// Nobody hears of it.
    Certain {
        /// The writer.
        writer: HostId,
        /// Whether it refuses connections; otherwise it is silent.
        refuses: bool,
        /// What showed it.
        why: String,
    },
}

/// What the replicas of a server say of it.
#[derive(Default)]
struct Witnesses {
    /// Those that are connected to it, or have not been asked since.
    hear_it: usize,
    /// Those that try to reach it in vain.
    miss_it: usize,
    /// Those that can't say: they are silent, or do not try.
    unknown: usize,
    /// Those that have not heard it for long: it answered without them.
    deaf: usize,
}

impl Cluster {
    /// Whether the writer is lost. A writer that is only slow, or that a replica still hears, is
    /// not; nor is one when more than a minority of its replicas can't say.
    pub fn loss(&self) -> Loss {
        let Some((writer, host)) = self.missing_writer() else {
            let closed = self.closed_writer().map(|writer| Loss::ReadOnly { writer });
            return closed.unwrap_or(Loss::None);
        };
        let refuses = host.refuses();
        let Witnesses { hear_it, miss_it, unknown, deaf } = self.witnesses(writer, host);
        let all = hear_it + miss_it + unknown;
        let doubt = |why: String| Loss::Doubtful { writer, why };
        if hear_it > 0 {
            return doubt(format!("{hear_it} of {all} replicas are connected to it"));
        }
        if miss_it == 0 {
            let without = match deaf {
                0 => String::new(),
                _ => format!(": {deaf} did not replicate while it was there"),
            };
            return doubt(format!("no replica says that it has lost it{without}"));
        }
        if unknown * 2 >= all {
            return doubt(format!("{unknown} of {all} replicas can't say"));
        }
        // One refusal is enough where all replicas were cut off at the same time.
        let is_down = host.reach == Reach::Down || refuses && unknown == 0;
        if !is_down {
            return doubt("it may only be slow".to_owned());
        }
        if let Some(other) = self.contenders().find(|id| *id != writer) {
            let other =
                self.hosts.get(&other).map(|host| host.endpoint.clone()).unwrap_or_default();
            return doubt(format!("{}:{} takes writes", other.host, other.port));
        }
        if let Some(Endpoint { host, port }) = self.silent_rival(writer) {
            return doubt(format!("{host}:{port} took writes when it was asked last"));
        }
        if self.hosts.values().any(|host| host.reach == Reach::Unknown) {
            return doubt("not all members have been asked yet".to_owned());
        }
        if let Some((follower, other)) = self.follower_of_another(writer, host) {
            return doubt(format!("{follower} replicates from {other} since, and not from it"));
        }
        let how = if refuses { "it refuses connections" } else { "it does not answer" };
        let why = format!("{how}, and {miss_it} of {all} replicas have lost it");
        Loss::Certain { writer, refuses, why }
    }

    /// A member that does not answer, and took writes when it did: somebody may have promoted it,
    /// and it was lost before it was chosen. It may have gone on replicating.
    fn silent_rival(&self, writer: HostId) -> Option<Endpoint> {
        let is_rival = |host: &Host| {
            let is_kept_out = host.marks.is_fenced || host.marks.is_replaced || host.marks.is_away;
            host.is_related()
                && host.reach != Reach::Up
                && host.is_writable() == Some(true)
                && host.marks.alias_of.is_none()
                && !is_kept_out
        };
        let mut others = self.hosts.iter().filter(|(id, _)| **id != writer);
        others.find(|(_, host)| is_rival(host)).map(|(_, host)| host.endpoint.clone())
    }

    /// A replica that was repointed since the writer was lost, for all that is known, and to whom:
    /// somebody may have promoted that one. Not if it replicates from the lost one itself, or was
    /// lost before.
    fn follower_of_another(&self, lost: HostId, host: &Host) -> Option<(String, String)> {
        let name = |host: &Host| format!("{}:{}", host.endpoint.host, host.endpoint.port);
        let since_ms = host.missing_since_ms();
        for (id, replica) in &self.hosts {
            let is_one = replica.marks.alias_of.is_none() && !replica.marks.is_away;
            let is_repointed = replica.reach == Reach::Up && replica.sources_ms >= since_ms;
            let source = self.source_of(*id).filter(|_| *id != lost && is_one && is_repointed);
            let Some(source) = source.filter(|source| *source != lost) else { continue };
            let Some(above) = self.hosts.get(&source) else { continue };
            let is_kept_out = above.marks.is_fenced || above.marks.is_replaced;
            let is_below = above.reach == Reach::Up
                && above.has_source()
                && self.source_of(source) == Some(lost);
            if !is_kept_out && !is_below {
                return Some((name(replica), name(above)));
            }
        }
        None
    }

    /// The writer, or who wrote last, if it does not answer.
    fn missing_writer(&self) -> Option<(HostId, &Host)> {
        let known = self.writer.or(self.last_writer);
        let id = known.or_else(|| self.source_of_all())?;
        let host = self.hosts.get(&id)?;
        match host.reach {
            Reach::Suspect | Reach::Down if !host.marks.is_away => Some((id, host)),
            Reach::Suspect | Reach::Down | Reach::Unknown | Reach::Up => None,
        }
    }

    /// Who wrote last, if it answers and takes no writes, and nobody does.
    fn closed_writer(&self) -> Option<HostId> {
        let known = self.writer.or(self.last_writer);
        let id = known.or_else(|| self.source_of_all())?;
        let host = self.hosts.get(&id).filter(|host| host.reach == Reach::Up)?;
        let is_closed = host.is_writable() == Some(false) && !host.marks.is_away;
        let leads = self.hosts.keys().any(|other| self.source_of(*other) == Some(id));
        let is_alone = self.contenders().next().is_none() && self.source_of(id).is_none();
        (is_closed && leads && is_alone).then_some(id)
    }

    /// The one member that all replicas replicate from; for a proxy that begins without a writer.
    fn source_of_all(&self) -> Option<HostId> {
        let related = self.hosts.iter().filter(|(_, host)| host.is_related());
        let mut sources = related.filter_map(|(id, _)| self.source_of(*id));
        let first = sources.next()?;
        sources.all(|source| source == first).then_some(first)
    }

    /// Whether a member refuses connections.
    pub fn refuses(&self, id: HostId) -> bool {
        self.hosts.get(&id).is_some_and(Host::refuses)
    }

    fn witnesses(&self, lost: HostId, host: &Host) -> Witnesses {
        let mut found = Witnesses::default();
        for (id, replica) in &self.hosts {
            let is_one = replica.marks.alias_of.is_none() && !replica.marks.is_away;
            if *id == lost || !is_one || replica.refuses() {
                continue;
            }
            let sources = replica.facts.iter().flat_map(|facts| &facts.sources);
            let mut from_it = sources.filter(|source| self.member(source) == Some(lost));
            let Some(source) = from_it.next() else { continue };
            if replica.is_deaf(host) {
                found.deaf += 1;
                continue;
            }
            let is_fresh = replica.told_ms >= host.missing_since_ms();
            match (replica.reach, source.receives) {
                (Reach::Up, _) if !is_fresh => found.hear_it += 1,
                (Reach::Up, Thread::Connected) => found.hear_it += 1,
                (Reach::Up, Thread::Connecting) => found.miss_it += 1,
                (Reach::Up | Reach::Unknown | Reach::Suspect | Reach::Down, _) => {
                    found.unknown += 1;
                }
            }
        }
        found
    }

    /// An operator works on a member, or has finished: it takes no statements meanwhile, is not
    /// elected, and that it does not answer is no loss.
    pub(super) fn set_away(&mut self, id: HostId, is_away: bool) {
        if let Some(host) = self.hosts.get_mut(&id) {
            host.marks.is_away = is_away;
        }
    }

    /// Whether an operator works on a member.
    pub fn is_away(&self, id: HostId) -> bool {
        self.hosts.get(&id).is_some_and(|host| host.marks.is_away)
    }
}
