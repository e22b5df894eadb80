//! Where reads have to see particular writes, and whose.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use trunkline_topology::{
    HostgroupId, ReplicationGroup,
    causal::{CausalReads, Since},
};

use crate::{Config, Hostgroup, Snapshot};

/// The hostgroups whose reads may have to see particular writes.
#[derive(Debug, Clone, Default)]
pub struct CausalPlan {
    readers: BTreeMap<HostgroupId, Arc<CausalReaders>>,
    bound_min_ms: Option<u32>,
}

/// What is known of one of them.
#[derive(Debug, Clone)]
pub struct CausalReaders {
    /// Who answers what none of them can.
    pub writer: Option<HostgroupId>,
    /// Hostgroups with some of the same servers, its own and the writer's among them.
    pub kin: Vec<HostgroupId>,
    /// Hostgroups whose servers are others: what is written there is not to be found here.
    pub foreign: Vec<HostgroupId>,
    /// From when on it is known what is written there; `None`: since the start.
    pub since: Option<Arc<Since>>,
}

impl CausalPlan {
    /// What becomes of reads in this hostgroup; `None` where they have to see nothing in
    /// particular.
    #[inline]
    pub fn readers(&self, id: HostgroupId) -> Option<&Arc<CausalReaders>> {
        self.readers.get(&id)
    }

    /// The least age that anything says reads may have, ms.
    pub fn bound_min_ms(&self) -> Option<u32> {
        self.bound_min_ms
    }

    /// From when on is known what is written, where that is new since this former plan.
    pub fn begun_since(&self, former: &Self) -> Vec<&Since> {
        let of_former = former.readers.values().filter_map(|it| it.since.as_ref());
        let mut known: Vec<&Arc<Since>> = of_former.collect();
        let mut new = Vec::new();
        for since in self.readers.values().filter_map(|it| it.since.as_ref()) {
            if !known.iter().any(|it| Arc::ptr_eq(it, since)) {
                known.push(since);
                new.push(&**since);
            }
        }
        new
    }

    /// `previous`: what this plan follows, if anything.
    pub(crate) fn of(
        config: &Config,
        hostgroups: &BTreeMap<HostgroupId, Hostgroup>,
        groups: &[ReplicationGroup],
        previous: Option<&Snapshot>,
    ) -> Self {
        let begins = Arc::new(Since::default());
        let of_groups = groups.iter().map(|it| (it.reader_hostgroup, Some(it.writer_hostgroup)));
        // Hostgroups that rules send causal reads to.
        let of_rules = config.rule_set.effects().filter_map(|effects| {
            let is_causal = effects.gtid_from_hostgroup.is_some()
                || effects.causal_reads.is_some_and(|reads| reads != CausalReads::Off);
            let readers = effects.destination_hostgroup.filter(|_| is_causal)?;
            Some((readers, effects.gtid_from_hostgroup))
        });
        let mut readers = BTreeMap::new();
        for (id, writer) in of_groups.chain(of_rules) {
            let is_writer = groups.iter().any(|group| group.writer_hostgroup == id);
            if !is_writer && writer != Some(id) {
                readers.entry(id).or_insert_with(|| {
                    let mut own = relations(hostgroups, id, writer);
                    own.since = previous.and_then(|it| since(it, id, &own, hostgroups, &begins));
                    Arc::new(own)
                });
            }
        }
        let said = config.hostgroups.iter().map(|entry| entry.causal_reads);
        let said = said.chain(config.users.iter().map(|user| user.causal_reads));
        let said = said.chain(config.rule_set.effects().map(|effects| effects.causal_reads));
        let bounds =
            said.chain([Some(config.settings.causal_reads)]).filter_map(|reads| match reads {
                Some(CausalReads::Bounded(age_ms)) => Some(age_ms),
                _ => None,
            });
        Self { readers, bound_min_ms: bounds.min() }
    }
}

/// From when on it is known what is written for these readers: `begins`, if nobody has followed it
/// before, or some of it is known under the numbers of other hostgroups.
fn since(
    previous: &Snapshot,
    id: HostgroupId,
    own: &CausalReaders,
    hostgroups: &BTreeMap<HostgroupId, Hostgroup>,
    begins: &Arc<Since>,
) -> Option<Arc<Since>> {
    // Without a writer there is nobody to ask what was written.
    own.writer?;
    let former = previous.causal.readers(id).filter(|it| {
        let here: BTreeSet<String> =
            [Some(id), own.writer].iter().flatten().flat_map(|id| places(hostgroups, id)).collect();
        let was_here = |id: &&HostgroupId| !here.is_disjoint(&places(&previous.hostgroups, id));
        let mut before = previous.hostgroups.keys().filter(was_here).chain(&it.kin);
        previous.has_causal_reads
            && it.writer == own.writer
            && before.all(|it| own.kin.contains(it))
    });
    former.map_or_else(|| Some(Arc::clone(begins)), |it| it.since.clone())
}

/// Where the servers of a hostgroup are.
fn places(hostgroups: &BTreeMap<HostgroupId, Hostgroup>, id: &HostgroupId) -> BTreeSet<String> {
    let servers = hostgroups.get(id).into_iter().flat_map(|group| &group.servers);
    let places = servers.flat_map(|server| {
        let resolved = server.resolved.iter().map(ToString::to_string);
        resolved.chain([server.key.address.to_string()])
    });
    places.collect()
}

/// Whose servers are the same as those of readers and their writer.
fn relations(
    hostgroups: &BTreeMap<HostgroupId, Hostgroup>,
    readers: HostgroupId,
    writer: Option<HostgroupId>,
) -> CausalReaders {
    let places = |id: &HostgroupId| places(hostgroups, id);
    let own: Vec<HostgroupId> = [Some(readers), writer].into_iter().flatten().collect();
    let here: BTreeSet<String> = own.iter().flat_map(places).collect();
    let shares = |id: &HostgroupId| own.contains(id) || !here.is_disjoint(&places(id));
    let mut kin: Vec<HostgroupId> =
        hostgroups.keys().copied().chain(own.iter().copied()).filter(shares).collect();
    kin.sort_unstable();
    kin.dedup();
    let foreign = hostgroups.keys().copied().filter(|id| !kin.contains(id)).collect();
    CausalReaders { writer, kin, foreign, since: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Snapshot, parse};

    fn snapshot(text: &str) -> Snapshot {
        let user = "[[user]]\nname = 'u'\npassword = 'p'\ndefault_hostgroup = 10\n";
        let no_files = |_: &str| Err("no files here".to_owned());
        let config = parse(&format!("{user}{text}"), "t", &no_files);
        config.expect("a configuration").snapshot(None)
    }

    fn server(hostgroup: u32, port: u16) -> String {
        format!("[[server]]\nhostgroup = {hostgroup}\naddress = '127.0.0.1:{port}'\n")
    }

    #[test]
    fn hostgroups_with_the_same_servers_are_kin_and_others_are_foreign() {
        let servers = [(10, 1), (20, 2), (30, 2), (50, 5), (60, 6)].map(|(it, at)| server(it, at));
        let group = |writer, reader| {
            format!(
                "[[replication]]\nwriter_hostgroup = {writer}\nreader_hostgroup = {reader}\n\
                 read_write_split = 'auto'\n"
            )
        };
        let text = format!("{}{}{}", servers.concat(), group(10, 20), group(50, 60));
        let snapshot = snapshot(&text);
        let id = HostgroupId;
        let readers = snapshot.causal.readers(id(20)).expect("readers");
        assert_eq!(readers.writer, Some(id(10)));
        assert_eq!(readers.kin, [id(10), id(20), id(30)]);
        assert_eq!(readers.foreign, [id(50), id(60)]);
        assert!(snapshot.causal.readers(id(10)).is_none() && !snapshot.has_causal_reads);
    }

    #[test]
    fn rules_make_reads_causal_where_they_send_them() {
        let servers = [server(10, 1), server(20, 2)].concat();
        let rule = "[[rule]]\nid = 1\nmatch_digest = '^SELECT'\ndestination_hostgroup = 20\n";
        let with = |line: &str| snapshot(&format!("{servers}{rule}{line}\n"));
        let plain = with("apply = true");
        assert!(!plain.has_causal_reads && plain.causal.readers(HostgroupId(20)).is_none());
        let from = with("gtid_from_hostgroup = 10");
        let writer = from.causal.readers(HostgroupId(20)).and_then(|it| it.writer);
        assert!(from.has_causal_reads && writer == Some(HostgroupId(10)));
        for line in ["causal_reads = 'user'", "attributes = '{\"causal_reads\":\"user\"}'"] {
            assert!(with(line).has_causal_reads, "{line}");
        }
    }

    #[test]
    fn what_was_written_before_is_not_known_behind_a_reload_that_switches_on_or_renumbers() {
        let config = |causal: &str, servers: &[(u32, u16)], writer: u32, reader: u32| {
            let servers: String = servers.iter().map(|(it, at)| server(*it, *at)).collect();
            let group = format!(
                "[[replication]]\nwriter_hostgroup = {writer}\nreader_hostgroup = {reader}\n"
            );
            let user =
                format!("[[user]]\nname = 'u'\npassword = 'p'\ndefault_hostgroup = {writer}\n");
            let text = format!("causal_reads = '{causal}'\n{user}{servers}{group}");
            let no_files = |_: &str| Err("no files here".to_owned());
            parse(&text, "t", &no_files).expect("a configuration")
        };
        let since = |it: &Snapshot, reader: u32| {
            it.causal.readers(HostgroupId(reader)).expect("readers").since.clone()
        };
        let plain = [(10, 1), (20, 2)];
        let first = config("user", &plain, 10, 20).snapshot(None);
        assert!(since(&first, 20).is_none());
        // The same again, and one more hostgroup with the same servers.
        let same = config("session", &[(10, 1), (20, 2), (30, 1)], 10, 20).snapshot(Some(&first));
        assert!(since(&same, 20).is_none());
        // That goes, and what was written there is not asked for any more.
        let fewer = config("session", &plain, 10, 20).snapshot(Some(&same));
        assert!(since(&fewer, 20).is_some());
        assert_eq!(fewer.causal.begun_since(&same.causal).len(), 1);
        let later = config("session", &plain, 10, 20).snapshot(Some(&fewer));
        let (of_fewer, of_later) = (since(&fewer, 20), since(&later, 20));
        assert!(of_fewer.zip(of_later).is_some_and(|(one, two)| Arc::ptr_eq(&one, &two)));
        assert_eq!(later.causal.begun_since(&fewer.causal).len(), 0);
        let renumbered = config("user", &[(30, 1), (40, 2)], 30, 40).snapshot(Some(&first));
        assert!(since(&renumbered, 40).is_some());
        let moved = config("user", &[(10, 1), (20, 2), (50, 3)], 10, 20).snapshot(None);
        let moved = config("user", &[(10, 3), (20, 2), (50, 4)], 10, 20).snapshot(Some(&moved));
        assert!(since(&moved, 20).is_some());
        let off = config("off", &plain, 10, 20).snapshot(Some(&first));
        let on = config("session", &plain, 10, 20).snapshot(Some(&off));
        assert!(since(&on, 20).is_some());
    }
}
