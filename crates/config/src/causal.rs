//! Where reads have to see particular writes, and whose.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use trunkline_topology::{HostgroupId, ReplicationGroup, causal::CausalReads};

use crate::{Config, Hostgroup};

/// The hostgroups whose reads may have to see particular writes.
#[derive(Debug, Clone, Default)]
pub struct CausalPlan {
    readers: BTreeMap<HostgroupId, Arc<CausalReaders>>,
    bound_min_ms: Option<u32>,
}

/// What is known of one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CausalReaders {
    /// Who answers what none of them can.
    pub writer: Option<HostgroupId>,
    /// Hostgroups with some of the same servers, its own and the writer's among them.
    pub kin: Vec<HostgroupId>,
    /// Hostgroups whose servers are others: what is written there is not to be found here.
    pub foreign: Vec<HostgroupId>,
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

    pub(crate) fn of(
        config: &Config,
        hostgroups: &BTreeMap<HostgroupId, Hostgroup>,
        groups: &[ReplicationGroup],
    ) -> Self {
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
                readers.entry(id).or_insert_with(|| Arc::new(relations(hostgroups, id, writer)));
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

/// Whose servers are the same as those of readers and their writer.
fn relations(
    hostgroups: &BTreeMap<HostgroupId, Hostgroup>,
    readers: HostgroupId,
    writer: Option<HostgroupId>,
) -> CausalReaders {
    let places = |id: &HostgroupId| {
        let servers = hostgroups.get(id).into_iter().flat_map(|group| &group.servers);
        let places = servers.flat_map(|server| {
            let resolved = server.resolved.iter().map(ToString::to_string);
            resolved.chain([server.key.address.to_string()])
        });
        places.collect::<BTreeSet<String>>()
    };
    let own: Vec<HostgroupId> = [Some(readers), writer].into_iter().flatten().collect();
    let here: BTreeSet<String> = own.iter().flat_map(places).collect();
    let shares = |id: &HostgroupId| own.contains(id) || !here.is_disjoint(&places(id));
    let mut kin: Vec<HostgroupId> =
        hostgroups.keys().copied().chain(own.iter().copied()).filter(shares).collect();
    kin.sort_unstable();
    kin.dedup();
    let foreign = hostgroups.keys().copied().filter(|id| !kin.contains(id)).collect();
    CausalReaders { writer, kin, foreign }
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
        let expected = CausalReaders {
            writer: Some(id(10)),
            kin: vec![id(10), id(20), id(30)],
            foreign: vec![id(50), id(60)],
        };
        assert_eq!(snapshot.causal.readers(id(20)).map(|it| &**it), Some(&expected));
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
}
