//! What a switchover says of roles. While one is under way, nothing that servers tell makes
//! anybody the writer.

use super::{Cluster, HostId, Kind, Output, Places};

/// What a switchover says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guidance {
    /// The writer finishes what is open on it, and nothing begins there or elsewhere.
    Drain,
    /// Nobody writes. What is still open is lost.
    Close,
    /// This server writes: it has been made to. From now on, roles are decided as ever.
    Open(HostId),
    /// Roles are decided as ever, by what servers tell.
    Release,
}

impl Cluster {
    /// Whether a switchover says who writes.
    pub fn is_guided(&self) -> bool {
        self.is_guided
    }

    pub(super) fn guide(&mut self, now_ms: u64, guidance: Guidance, out: &mut Vec<Output>) {
        match guidance {
            Guidance::Drain => {
                self.is_guided = true;
                match self.policy.kind {
                    Kind::Replication => out.push(Output::Drain),
                    Kind::ReadOnly | Kind::Group(_) => self.take_writes_away(out),
                }
            }
            Guidance::Close => {
                debug_assert!(self.is_guided);
                if self.policy.kind == Kind::Replication {
                    out.push(Output::SetWriter(None));
                }
            }
            Guidance::Open(host) => {
                self.is_guided = false;
                self.open(now_ms, host, out);
            }
            Guidance::Release => {
                self.is_guided = false;
                self.forget_writers(now_ms, out);
            }
        }
    }

    /// Nobody writes before a server has told anew that it takes writes.
    fn forget_writers(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        for host in self.hosts.values_mut() {
            host.due_ms = now_ms + 1;
            if let Some(facts) = host.facts.as_mut().filter(|facts| facts.is_writable) {
                facts.is_writable = false;
                host.writable_ms = None;
                host.asked_ms = now_ms + 1;
                host.told_ms = now_ms + 1;
            }
        }
        if self.policy.kind == Kind::Replication {
            self.last_writer = self.writer.take().or(self.last_writer);
            out.push(Output::SetWriter(None));
        }
    }

    /// Nobody of several writers writes any more; what is under way there goes on.
    fn take_writes_away(&mut self, out: &mut Vec<Output>) {
        for (id, host) in &mut self.hosts {
            if std::mem::take(&mut host.marks.is_writer) {
                out.push(Output::SetPlaces(*id, host.marks.places()));
            }
        }
    }

    fn open(&mut self, now_ms: u64, writer: HostId, out: &mut Vec<Output>) {
        // What was asked before is answered by servers as they were then.
        let known_ms = now_ms + 1;
        for (id, host) in &mut self.hosts {
            let is_it = *id == writer;
            let Some(facts) = &mut host.facts else { continue };
            if !is_it && !facts.is_writable {
                continue;
            }
            facts.is_writable = is_it;
            host.asked_ms = known_ms;
            host.told_ms = known_ms;
            host.due_ms = known_ms;
            host.writable_ms = is_it.then_some(known_ms);
            if is_it {
                facts.sources.clear();
                host.marks.is_fenced = false;
            }
        }
        match self.policy.kind {
            Kind::Replication if self.writer == Some(writer) => {
                out.push(Output::SetWriter(Some(writer)));
            }
            Kind::Replication => {
                self.set_writer(Some(writer), "it was promoted".to_owned(), out);
            }
            Kind::ReadOnly | Kind::Group(_) => {}
        }
    }

    /// What a member does while a switchover says who writes: nobody begins to.
    pub(super) fn without_gains(&self, id: HostId, places: Places) -> Places {
        let writes = places.writes && (!self.is_guided || self.places(id).writes);
        Places { writes, ..places }
    }
}
