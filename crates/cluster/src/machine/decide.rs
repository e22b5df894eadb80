//! Who writes and who reads, from what is known of all members.

use super::{Cluster, Host, HostId, Kind, Output, Reach, WriterReads};
use crate::{
    EventKind,
    facts::{Source, Thread},
};

/// What is known of the writer.
enum Incumbent {
    /// It writes.
    Writes,
    /// It has said that it is read-only.
    ReadOnly,
    /// Nobody hears of it any more: neither the monitor, nor traffic, nor replicas.
    Lost,
    /// Something is wrong; not enough to take its role away.
    Unclear,
}

impl Cluster {
    /// Gives and takes roles after something has come in.
    pub(super) fn decide(&mut self, out: &mut Vec<Output>) {
        match self.policy.kind {
            Kind::Replication => self.decide_one(out),
            Kind::ReadOnly => self.place_by_read_only(out),
            Kind::Group(group) => self.place_group(group, out),
        }
    }

    /// Decides where only one server may write.
    fn decide_one(&mut self, out: &mut Vec<Output>) {
        if self.is_guided {
            return self.set_readers(out);
        }
        self.unfence_chosen(out);
        match self.writer {
            Some(writer) => self.judge(writer, out),
            None => self.elect(out),
        }
        self.judge_writable(out);
        self.set_readers(out);
    }

    /// Finds members that certainly belong to the cluster, by who replicates from whom. Members of
    /// a group are named by the group itself.
    pub(super) fn relate(&mut self) {
        loop {
            let mut found = Vec::new();
            for (id, host) in &self.hosts {
                let is_grouped = host.facts.as_ref().is_some_and(|it| it.membership.is_some());
                if is_grouped && !host.is_related() {
                    found.push(*id);
                }
                for source in host.facts.iter().flat_map(|facts| &facts.sources) {
                    found.extend(self.new_relative(*id, host, source));
                }
                found.extend(self.new_name(*id, host));
            }
            if found.is_empty() {
                return;
            }
            for id in found {
                if let Some(host) = self.hosts.get_mut(&id) {
                    host.marks.has_relatives = true;
                }
            }
        }
    }

    /// Of a replica and its source the one that the other shows to belong to the cluster.
    fn new_relative(&self, id: HostId, host: &Host, source: &Source) -> Option<HostId> {
        let above = self.member(source)?;
        let is_above_related = self.hosts.get(&above).is_some_and(Host::is_related);
        match (host.is_related(), is_above_related) {
            (false, true) => Some(id),
            (true, false) => Some(above).filter(|above| self.is_really(*above, source)),
            (true, true) | (false, false) => None,
        }
    }

    /// A server that certainly belongs to the cluster does so under each of its names.
    fn new_name(&self, id: HostId, host: &Host) -> Option<HostId> {
        let twin = self.hosts.get(&host.marks.alias_of?)?;
        match (host.is_related(), twin.is_related()) {
            (false, true) => Some(id),
            (true, false) => host.marks.alias_of,
            (true, true) | (false, false) => None,
        }
    }

    /// Whether the member at a source's place is the one that the replica is connected to, as far
    /// as both have told.
    fn is_really(&self, id: HostId, source: &Source) -> bool {
        let facts = self.hosts.get(&id).and_then(|host| host.facts.as_ref());
        let is_told = source.identity.server_id != 0 || source.identity.uuid.is_some();
        facts.is_none_or(|facts| !is_told || facts.identity.is_same(&source.identity))
    }

    /// Members that could become the writer: they take writes and replicate from no member.
    pub fn contenders(&self) -> impl Iterator<Item = HostId> {
        let is_up = |id: &HostId| self.hosts.get(id).is_some_and(Host::is_writable_now);
        self.rivals().filter(is_up)
    }

    /// Contenders, and members that would be some if they answered.
    fn rivals(&self) -> impl Iterator<Item = HostId> {
        let free = self.hosts.iter().filter(|(_, host)| {
            let is_free = host.is_related() && !host.marks.is_fenced && !host.marks.is_replaced;
            is_free && host.may_be_writable() && !self.replicates(host)
        });
        free.map(|(id, _)| *id)
    }

    /// Whether a server replicates from a member, or tries to.
    fn replicates(&self, host: &Host) -> bool {
        let sources = host.facts.iter().flat_map(|facts| &facts.sources);
        let mut running = sources.filter(|source| source.receives != Thread::Stopped);
        running.any(|source| self.member(source).is_some())
    }

    /// The member that a source is, by the first of its names.
    pub(super) fn member(&self, source: &Source) -> Option<HostId> {
        let is_there = |host: &Host| host.endpoint == source.endpoint;
        let is_it = |host: &Host| {
            host.facts.as_ref().is_some_and(|it| it.identity.is_same(&source.identity))
        };
        let found = self.hosts.iter().find(|(_, host)| is_there(host));
        let found = found.or_else(|| self.hosts.iter().find(|(_, host)| is_it(host)));
        found.map(|(id, host)| host.marks.alias_of.unwrap_or(*id))
    }

    fn incumbent(&self, id: HostId) -> Incumbent {
        let Some(host) = self.hosts.get(&id) else { return Incumbent::Lost };
        match (host.reach, host.is_writable()) {
            (Reach::Up, Some(true)) => Incumbent::Writes,
            (Reach::Up, Some(false)) => Incumbent::ReadOnly,
            (Reach::Down, _) if !self.is_heard_by_replicas(id, host) => Incumbent::Lost,
            (Reach::Up | Reach::Unknown | Reach::Suspect | Reach::Down, _) => Incumbent::Unclear,
        }
    }

    /// Whether a replica that answers is connected to a server that the monitor does not reach, or
    /// has not been asked since.
    fn is_heard_by_replicas(&self, id: HostId, lost: &Host) -> bool {
        self.hosts.values().filter(|host| host.reach == Reach::Up).any(|host| {
            let sources = host.facts.iter().flat_map(|facts| &facts.sources);
            let mut from_it = sources.filter(|source| self.member(source) == Some(id));
            let is_fresh = host.told_ms >= lost.missing_since_ms();
            from_it.any(|source| source.receives == Thread::Connected || !is_fresh)
        })
    }

    /// Looks whether the writer keeps its role.
    fn judge(&mut self, writer: HostId, out: &mut Vec<Output>) {
        let (since_ms, why) = match self.incumbent(writer) {
            Incumbent::Writes | Incumbent::Unclear => return,
            Incumbent::ReadOnly => (0, "the writer before it is read-only"),
            Incumbent::Lost => {
                let since_ms = self.hosts.get(&writer).map_or(0, Host::missing_since_ms);
                (since_ms, "the writer before it is down")
            }
        };
        let is_read_only = since_ms == 0;
        let is_fresh = |id: &HostId| self.hosts.get(id).is_some_and(|it| it.told_ms >= since_ms);
        let candidates: Vec<HostId> =
            self.contenders().filter(|id| *id != writer && is_fresh(id)).collect();
        let rivals = self.rivals().filter(|id| *id != writer && !candidates.contains(id)).count();
        match candidates.as_slice() {
            [successor] if rivals == 0 => {
                self.shut_out_lost(writer);
                let evidence = format!("it takes writes and replicates from no member; {why}");
                self.set_writer(Some(*successor), evidence, out);
            }
            [] if is_read_only => {
                self.set_writer(None, "it is read-only, and nobody takes writes".to_owned(), out);
            }
            // One that is down keeps its role, and gets nothing: it may come back first.
            [] => {}
            [_] if !is_read_only => {}
            // It is not certain yet that nobody else takes writes.
            [_] => self.set_writer(None, "it is read-only".to_owned(), out),
            several => {
                self.tell_conflict(several.to_vec(), out);
                if is_read_only {
                    let why = "it is read-only, and several servers take writes".to_owned();
                    self.set_writer(None, why, out);
                }
            }
        }
    }

    /// Looks for a writer where there is none.
    fn elect(&mut self, out: &mut Vec<Output>) {
        #[cfg(feature = "plants")]
        if self.has_had_writer && self.has_plant(crate::plants::Plant::HoldForgotten) {
            return;
        }
        let may_be_known = self.has_had_writer || self.hosts.values().all(Host::is_settled);
        if !may_be_known {
            return;
        }
        let candidates: Vec<HostId> = self.rivals().collect();
        match candidates.as_slice() {
            [] => {}
            [writer] if !self.hosts.get(writer).is_some_and(Host::is_writable_now) => {}
            [writer] => {
                if let Some(last) = self.last_writer.filter(|last| last != writer) {
                    self.shut_out_lost(last);
                }
                let why = "it takes writes and replicates from no member".to_owned();
                self.set_writer(Some(*writer), why, out);
            }
            several => self.tell_conflict(several.to_vec(), out),
        }
    }

    /// Somebody has replaced a writer that did not say that it takes no writes any more: it may
    /// come back without knowing it, while its successor is lost too.
    fn shut_out_lost(&mut self, former: HostId) {
        if !self.policy.fails_over || matches!(self.incumbent(former), Incumbent::ReadOnly) {
            return;
        }
        if let Some(host) = self.hosts.get_mut(&former) {
            host.marks.is_replaced = true;
        }
    }

    /// Whether a member was lost as the writer and replaced, and does not replicate since.
    pub fn is_replaced(&self, id: HostId) -> bool {
        self.hosts.get(&id).is_some_and(|host| host.marks.is_replaced)
    }

    pub(super) fn set_writer(
        &mut self,
        writer: Option<HostId>,
        evidence: String,
        out: &mut Vec<Output>,
    ) {
        let before = std::mem::replace(&mut self.writer, writer);
        debug_assert!(before != writer);
        self.last_writer = before.filter(|_| writer.is_none());
        self.conflict.clear();
        if let Some(host) = writer.and_then(|id| self.hosts.get_mut(&id)) {
            host.marks.is_replaced = false;
        }
        if let Some(host) = before.and_then(|id| self.hosts.get_mut(&id)) {
            host.marks.has_written = true;
        }
        out.push(Output::SetWriter(writer));
        match writer {
            Some(_) => {
                self.has_had_writer = true;
                Self::tell(out, EventKind::NewMaster, writer, evidence);
            }
            None => Self::tell(out, EventKind::LostMaster, before, evidence),
        }
    }

    /// A fenced server that every other member follows, read-only, was made the primary by
    /// somebody.
    fn unfence_chosen(&mut self, out: &mut Vec<Output>) {
        let is_shut_out = |host: &Host| host.marks.is_fenced || host.marks.is_replaced;
        let fenced: Vec<HostId> =
            self.hosts.iter().filter(|(_, host)| is_shut_out(host)).map(|(id, _)| *id).collect();
        for id in fenced {
            // One that was replaced may be followed by those that do not know it yet, while the new
            // one is down.
            let is_replaced = self.hosts.get(&id).is_some_and(|host| host.marks.is_replaced);
            let mut others = self
                .hosts
                .iter()
                .filter(|(other, host)| **other != id && host.marks.alias_of.is_none());
            let is_followed = others.clone().any(|(_, host)| self.is_connected(host, id));
            let is_chosen = is_followed
                && others.all(|(_, host)| {
                    host.reach == Reach::Down && !is_replaced
                        || host.is_writable() == Some(false) && self.is_connected(host, id)
                });
            if let Some(host) = self.hosts.get_mut(&id).filter(|_| is_chosen) {
                host.marks.is_fenced = false;
                host.marks.is_replaced = false;
                let evidence = "every other member replicates from it".to_owned();
                Self::tell(out, EventKind::Unfenced, Some(id), evidence);
            }
        }
    }

    /// Whether a server receives from the member `id`.
    fn is_connected(&self, host: &Host, id: HostId) -> bool {
        let mut sources = host.facts.iter().flat_map(|facts| &facts.sources);
        sources.any(|it| it.receives == Thread::Connected && self.member(it) == Some(id))
    }

    fn tell_conflict(&mut self, several: Vec<HostId>, out: &mut Vec<Output>) {
        if self.conflict == several {
            return;
        }
        let count = several.len();
        let evidence = format!(
            "{count} servers take writes and replicate from no member: no writer is chosen before \
             all but one are read-only"
        );
        for id in &several {
            Self::tell(out, EventKind::Conflict, Some(*id), evidence.clone());
        }
        self.conflict = several;
    }

    /// Fences who takes writes beside a writer that was asked since and writes.
    fn judge_writable(&mut self, out: &mut Vec<Output>) {
        let Some((writer, incumbent)) = self.writer.and_then(|id| Some((id, self.hosts.get(&id)?)))
        else {
            return;
        };
        if !incumbent.is_writable_now() {
            return;
        }
        let told_ms = incumbent.told_ms;
        let is_sure = |host: &Host| host.writable_ms.is_some_and(|since_ms| since_ms < told_ms);
        let beside: Vec<(HostId, bool)> = self
            .hosts
            .iter()
            .filter(|(id, host)| **id != writer && host.is_writable_now() && is_sure(host))
            .filter(|(_, host)| !host.marks.is_fenced)
            .map(|(id, host)| (*id, self.replicates(host)))
            .collect();
        for (id, replicates) in beside {
            let Some(host) = self.hosts.get_mut(&id) else { continue };
            if !replicates {
                host.marks.is_fenced = true;
                let evidence = "it takes writes and is not the writer".to_owned();
                Self::tell(out, EventKind::Fenced, Some(id), evidence);
            } else if !std::mem::replace(&mut host.marks.is_told, true) {
                let evidence = "its read_only is off, and it is not the writer".to_owned();
                Self::tell(out, EventKind::WritableReplica, Some(id), evidence);
            }
        }
    }

    /// Gives and takes the readers' role.
    fn set_readers(&mut self, out: &mut Vec<Output>) {
        let wanted: Vec<(HostId, bool)> = self
            .hosts
            .iter()
            .filter_map(|(id, host)| Some((*id, self.should_read(*id, host)?)))
            .collect();
        for (id, is_reader) in wanted {
            let Some(host) = self.hosts.get_mut(&id) else { continue };
            if host.marks.is_reader == is_reader {
                continue;
            }
            host.marks.is_reader = is_reader;
            out.push(Output::SetReader(id, is_reader));
            if self.writer != Some(id) {
                let (kind, why) = match is_reader {
                    true => (EventKind::NewSlave, "it replicates from a member"),
                    false => (EventKind::LostSlave, "it replicates from no member"),
                };
                Self::tell(out, kind, Some(id), why.to_owned());
            }
        }
    }

    /// Whether a member should take reads; `None` where it keeps what it has.
    fn should_read(&self, id: HostId, host: &Host) -> Option<bool> {
        let has_none = host.marks.is_fenced || host.marks.is_away;
        if has_none || host.marks.alias_of.is_some() || !host.is_related() {
            return Some(false);
        }
        if self.writer == Some(id) {
            return Some(self.policy.writer_reads == WriterReads::Yes);
        }
        let facts = host.facts.as_ref()?;
        // A fenced server may have been given writes that the writer has not.
        let is_good = |id: HostId| self.hosts.get(&id).is_some_and(|it| !it.marks.is_fenced);
        let is_replica = facts.sources.iter().any(|it| self.member(it).is_some_and(is_good));
        match (is_replica, facts.is_writable) {
            (true, _) => Some(true),
            (false, false) => Some(false),
            // It may become the writer, or be fenced.
            (false, true) => None,
        }
    }

    /// Finds members that are one server under several names: only one of them gets a role. That is
    /// the name that has it already, or was fenced.
    pub(super) fn find_aliases(&mut self, out: &mut Vec<Output>) {
        let identity = |host: &Host| host.facts.as_ref().map(|facts| facts.identity.clone());
        let identified: Vec<_> =
            self.hosts.iter().filter_map(|(id, host)| Some((*id, identity(host)?))).collect();
        let rank = |id: HostId| {
            let marks = self.hosts.get(&id).map(|host| host.marks).unwrap_or_default();
            let has_role = marks.is_writer || marks.is_reader;
            (self.writer != Some(id), !marks.is_fenced, !has_role, id)
        };
        let mut found = Vec::new();
        for (id, own) in &identified {
            let same = identified.iter().filter(|(_, other)| own.is_same(other));
            let first = same.map(|(id, _)| *id).min_by_key(|id| rank(*id));
            found.push((*id, first.filter(|first| first != id)));
        }
        for (id, first) in found {
            let endpoint = first.and_then(|it| self.hosts.get(&it)).map(|it| it.endpoint.clone());
            let Some(host) = self.hosts.get_mut(&id) else { continue };
            let before = std::mem::replace(&mut host.marks.alias_of, first);
            if let Some(endpoint) = endpoint {
                host.marks.is_fenced = false;
                if before.is_none() {
                    let evidence = format!(
                        "it is the same server as {}:{}, by server_uuid or server_id",
                        endpoint.host, endpoint.port
                    );
                    Self::tell(out, EventKind::SameServer, Some(id), evidence);
                }
            }
        }
    }
}
