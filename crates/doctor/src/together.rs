//! Servers beside each other: what differs that may not, and what is the same that may not be.

use std::collections::BTreeMap;

use crate::{
    facts::{Answers, ClusterFacts, Facts},
    finding::{Danger, Finding},
};

/// Variables that have to be the same for a statement to mean the same on all servers.
const SAME: [(&str, Danger, &str); 8] = [
    ("lower_case_table_names", Danger::Severe, "names of tables are other tables there"),
    ("sql_mode", Danger::Warning, "statements mean something else, or fail, on some of them"),
    ("character_set_server", Danger::Warning, "new tables and texts differ"),
    ("collation_server", Danger::Warning, "comparisons and new tables differ"),
    ("time_zone", Danger::Warning, "NOW() and TIMESTAMP columns differ"),
    ("tx_isolation", Danger::Note, "transactions see different things"),
    ("transaction_isolation", Danger::Note, "transactions see different things"),
    ("max_allowed_packet", Danger::Warning, "what one takes may stop another's replication"),
];

pub(crate) fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    for (name, servers) in groups(facts) {
        same_numbers(&name, &servers, found);
        for (variable, danger, consequence) in SAME {
            differing(&name, &servers, (variable, danger, consequence), found);
        }
    }
    for cluster in facts.clusters.iter().filter(|cluster| cluster.is_replication) {
        writers(cluster, facts, found);
        versions(cluster, facts, found);
    }
}

type Group<'a> = Vec<(&'a str, &'a Answers)>;

/// Servers that stand for each other: those of a cluster, or of a hostgroup.
fn groups(facts: &Facts) -> Vec<(String, Group<'_>)> {
    let mut groups: Vec<(String, Group<'_>)> = Vec::new();
    for cluster in &facts.clusters {
        groups.push((format!("cluster {}", cluster.name), members(cluster, facts)));
    }
    let mut hostgroups: BTreeMap<u32, Group<'_>> = BTreeMap::new();
    for server in &facts.servers {
        let is_in_cluster = facts.clusters.iter().any(|it| it.servers.contains(&server.address));
        let Ok(answers) = &server.answers else { continue };
        for pool in server.pools.iter().filter(|_| !is_in_cluster) {
            let group = hostgroups.entry(pool.hostgroup).or_default();
            group.push((&server.address, answers));
        }
    }
    groups.extend(hostgroups.into_iter().map(|(id, group)| (format!("hostgroup {id}"), group)));
    groups
}

fn members<'a>(cluster: &ClusterFacts, facts: &'a Facts) -> Group<'a> {
    let servers = facts.servers.iter().filter(|it| cluster.servers.contains(&it.address));
    servers.filter_map(|it| Some((it.address.as_str(), it.answers.as_ref().ok()?))).collect()
}

fn differing(
    name: &str,
    servers: &Group<'_>,
    (variable, danger, consequence): (&str, Danger, &str),
    found: &mut Vec<Finding>,
) {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (address, answers) in servers {
        if let Some(value) = answers.text(variable) {
            values.entry(value).or_default().push(address);
        }
    }
    if values.len() > 1 {
        let each: Vec<String> = values
            .iter()
            .map(|(value, addresses)| format!("`{value}` on {}", addresses.join(", ")))
            .collect();
        let what = format!("{variable} differs: {}: {consequence}", each.join("; "));
        let advice = format!("give {variable} one value on all of them");
        found.push(Finding::new(danger, name, what, advice));
    }
}

/// Two servers with one `server_id` do not replicate from each other, and are taken for one.
fn same_numbers(name: &str, servers: &Group<'_>, found: &mut Vec<Finding>) {
    for variable in ["server_id", "server_uuid"] {
        let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (address, answers) in servers {
            if let Some(value) = answers.text(variable) {
                owners.entry(value).or_default().push(address);
            }
        }
        for (value, addresses) in owners.into_iter().filter(|(_, addresses)| addresses.len() > 1) {
            let what = format!(
                "{} have the same {variable} ({value}): they do not replicate from each other, and \
                 are taken for one server",
                addresses.join(" and ")
            );
            let advice = match variable {
                "server_id" => "give each a server_id of its own",
                _ => "remove auto.cnf from the data folder of one of them, and restart it",
            };
            found.push(Finding::new(Danger::Severe, name, what, advice));
        }
    }
}

/// Two servers of a cluster that both take writes.
fn writers(cluster: &ClusterFacts, facts: &Facts, found: &mut Vec<Finding>) {
    let writable: Vec<&str> = members(cluster, facts)
        .into_iter()
        .filter(|(_, answers)| answers.is_on("read_only") == Some(false))
        .map(|(address, _)| address)
        .collect();
    if writable.len() > 1 {
        let what =
            format!("{} take writes: each may have what the others lack", writable.join(", "));
        let advice = "SET GLOBAL read_only = ON on all but the writer, and look for differences";
        let name = format!("cluster {}", cluster.name);
        found.push(Finding::new(Danger::Severe, name, what, advice));
    }
}

/// A replica that is older than its source.
fn versions(cluster: &ClusterFacts, facts: &Facts, found: &mut Vec<Finding>) {
    let servers = members(cluster, facts);
    let series = |answers: &Answers| {
        let (major, minor, _) = answers.version();
        (answers.is_mariadb, major, minor)
    };
    let sources = servers.iter().filter(|(_, answers)| !answers.replicates());
    let Some((writer, newest)) = sources.max_by_key(|(_, answers)| series(answers)) else { return };
    for (address, answers) in servers.iter().filter(|(_, answers)| answers.replicates()) {
        if answers.is_mariadb == newest.is_mariadb && series(answers) < series(newest) {
            let what = format!(
                "{address} runs {}, which is older than {} of {writer}: what the newer one writes it \
                 may not understand",
                answers.text("version").unwrap_or_default(),
                newest.text("version").unwrap_or_default(),
            );
            let name = format!("cluster {}", cluster.name);
            found.push(Finding::new(Danger::Warning, name, what, "upgrade replicas first"));
        }
    }
}
