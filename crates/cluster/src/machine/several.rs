//! Roles that several servers may have at a time: each by what it says of itself.

use std::cmp::Reverse;

use super::{Cluster, Host, HostId, Listed, Output, Reach, WriterReads};
use crate::EventKind;

/// What a server does in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Places {
    /// It writes, and others may as well.
    pub writes: bool,
    /// It would write if a writer failed.
    pub backs_up: bool,
    /// It takes reads.
    pub reads: bool,
    /// It does not serve its group, or cannot be reached: nothing goes on there.
    pub is_out: bool,
}

/// How many servers of a group write, and which read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The most that write; others that could are backup writers.
    pub writers_max: u32,
    /// Write sets that a reader may have received and not applied yet; 0 for any number.
    pub behind_max: u64,
}

/// What a member of a group is good for.
enum Fitness {
    /// To write.
    Writes,
    /// To read.
    Reads,
    /// Nothing new, and why.
    Nothing(String),
    /// Nothing at all, and why.
    Out(String),
}

/// Where a member goes; `None` where it stays as it is.
type Wanted = (HostId, Option<(Places, String)>);

impl Cluster {
    /// Who takes writes is a writer, and the others are readers. One that was never a reader does
    /// not become one for being a writer.
    pub(super) fn place_by_read_only(&mut self, out: &mut Vec<Output>) {
        let writer_reads = self.policy.writer_reads != WriterReads::No;
        let place = |host: &Host| {
            let was_reader = host.marks.is_reader || host.listed.reads;
            match host.is_writable()? {
                true => {
                    let reads = writer_reads && was_reader;
                    let places = Places { writes: true, reads, ..Places::default() };
                    Some((places, "it takes writes".to_owned()))
                }
                false => {
                    let places = Places { reads: true, ..Places::default() };
                    Some((places, "it is read-only".to_owned()))
                }
            }
        };
        let wanted = self.hosts.iter().map(|(id, host)| (*id, place(host))).collect();
        self.place_all(wanted, out);
    }

    /// The servers with the greatest weight write, as many as may; those that write already before
    /// others of the same weight.
    pub(super) fn place_group(&mut self, group: Group, out: &mut Vec<Output>) {
        let is_known = self.has_had_writer
            || self.policy.begins_as_listed
            || self.hosts.values().all(Host::is_settled);
        if !is_known {
            return;
        }
        let (mut candidates, mut wanted) = (Vec::new(), Vec::new());
        for (id, host) in &self.hosts {
            let places = match fitness(host, group) {
                None => None,
                Some(Fitness::Writes) => match self.newer_view(host) {
                    None => {
                        candidates.push((*id, host));
                        continue;
                    }
                    Some((own, newer)) => {
                        let why = format!("what it knows of roles is of view {own}, not {newer}");
                        Some((Places::default(), why))
                    }
                },
                Some(Fitness::Reads) => {
                    let places = Places { reads: true, ..Places::default() };
                    Some((places, "it is read-only".to_owned()))
                }
                Some(Fitness::Nothing(why)) => Some((Places::default(), why)),
                Some(Fitness::Out(why)) => {
                    Some((Places { is_out: true, ..Places::default() }, why))
                }
            };
            wanted.push((*id, places));
        }
        candidates.sort_by_key(|(_, host)| {
            let Listed { weight, .. } = host.listed;
            (Reverse(weight), !host.marks.is_writer, host.endpoint.clone())
        });
        let reads = self.policy.writer_reads;
        for (place, (id, _)) in candidates.into_iter().enumerate() {
            let places = match u32::try_from(place).is_ok_and(|it| it < group.writers_max) {
                true => {
                    let reads = reads == WriterReads::Yes;
                    (Places { writes: true, reads, ..Places::default() }, "it takes writes")
                }
                false => {
                    let reads = reads != WriterReads::No;
                    (Places { backs_up: true, reads, ..Places::default() }, "others write")
                }
            };
            wanted.push((id, Some((places.0, places.1.to_owned()))));
        }
        self.place_all(wanted, out);
    }

    /// The view that a member knows and a newer one that another member has told of: the former may
    /// have been replaced without knowing it.
    fn newer_view(&self, host: &Host) -> Option<(u64, u64)> {
        let view = |host: &Host| host.facts.as_ref()?.membership.as_ref()?.view.clone();
        let own = view(host)?;
        let others = self.hosts.values().filter_map(view).filter(|it| it.of == own.of);
        let newest = others.map(|it| it.number).max()?;
        (newest > own.number).then_some((own.number, newest))
    }

    /// Sets what members do. Whoever loses a role loses it before another one gets it.
    fn place_all(&mut self, wanted: Vec<Wanted>, out: &mut Vec<Output>) {
        let (gains, losses): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(id, wanted)| {
            wanted.as_ref().is_some_and(|(it, _)| it.writes && !self.places(*id).writes)
        });
        for (id, wanted) in losses.into_iter().chain(gains) {
            let Some((places, why)) = wanted else { continue };
            let places = self.without_gains(id, places);
            let Some(host) = self.hosts.get_mut(&id) else { continue };
            let before = host.marks.places();
            if before == places {
                continue;
            }
            host.marks.is_writer = places.writes;
            host.marks.is_backup = places.backs_up;
            host.marks.is_reader = places.reads;
            host.marks.is_out = places.is_out;
            self.has_had_writer |= places.writes;
            out.push(Output::SetPlaces(id, places));
            let kind = match (before, places) {
                (Places { writes: false, .. }, Places { writes: true, .. }) => EventKind::NewMaster,
                (Places { writes: true, .. }, Places { writes: false, .. }) => {
                    EventKind::LostMaster
                }
                (Places { reads: false, .. }, Places { reads: true, .. }) => EventKind::NewSlave,
                (Places { reads: true, .. }, Places { reads: false, .. }) => EventKind::LostSlave,
                (Places { .. }, Places { .. }) => continue,
            };
            Self::tell(out, kind, Some(id), why);
        }
    }
}

/// What a member is good for; `None` when it has not told yet.
fn fitness(host: &Host, group: Group) -> Option<Fitness> {
    if host.marks.alias_of.is_some() {
        return Some(Fitness::Nothing("it is a member under another name already".to_owned()));
    }
    if host.reach == Reach::Down {
        return Some(Fitness::Out("it can't be reached".to_owned()));
    }
    let facts = host.facts.as_ref()?;
    let membership = facts.membership.clone().unwrap_or_default();
    let behind_max = group.behind_max;
    Some(match membership.refusal {
        Some(why) => Fitness::Out(why),
        None if facts.is_writable => Fitness::Writes,
        None if behind_max > 0 && membership.behind > behind_max => {
            let behind = membership.behind;
            Fitness::Nothing(format!("it is {behind} write sets behind, more than {behind_max}"))
        }
        None => Fitness::Reads,
    })
}
