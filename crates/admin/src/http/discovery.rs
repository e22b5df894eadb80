//! `/sd`: the servers as targets for Prometheus' `http_sd_configs`.

use std::collections::{BTreeMap, HashSet};

use axum::{extract::State, http::StatusCode, response::Response};
use serde::Serialize;
use trunkline_stats::{
    DigestQuery, Report, ServerRow,
    report::state_name,
    topology::{ClusterRow, MemberRow},
};
use trunkline_topology::{Address, ServerState};

use super::{Refusal, Source, json, report, text};

const HOSTGROUP: &str = "__meta_trunkline_hostgroup";
const STATUS: &str = "__meta_trunkline_status";
const CLUSTER: &str = "__meta_trunkline_cluster";
const ROLE: &str = "__meta_trunkline_role";
const REACH: &str = "__meta_trunkline_reach";

/// A group of targets, as Prometheus wants it. What is not known has no label.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct TargetGroup {
    targets: [String; 1],
    labels: BTreeMap<&'static str, String>,
}

/// `GET /sd`. Prometheus keeps the targets that it had when the answer is an error, and forgets
/// those that a list lacks: a list that nobody could make is an error.
pub(super) async fn targets(State(answering): Source) -> Result<Response, Refusal> {
    let report = report(&answering, DigestQuery::NONE).await?;
    if report.workers.is_empty() {
        let reason = "no worker has said which servers there are".to_owned();
        return Ok(text(StatusCode::SERVICE_UNAVAILABLE, reason));
    }
    json(&groups(&report))
}

/// One group for each hostgroup that a server is in, and one for each member of a cluster that is
/// in none. A hostgroup where the server only stands by is left out, unless it serves in no other.
/// Unix sockets are left out: nothing elsewhere can connect to them.
fn groups(report: &Report) -> Vec<TargetGroup> {
    let members = members(&report.process.monitor.clusters);
    let mut known: HashSet<&str> = HashSet::new();
    let (standby, serving): (Vec<&ServerRow>, Vec<&ServerRow>) =
        report.servers.iter().partition(|server| server.state == ServerState::Standby);
    known.extend(serving.iter().map(|server| server.address.as_str()));
    let idle = standby.into_iter().filter(|server| known.insert(&server.address));
    let idle: Vec<&ServerRow> = idle.collect();
    let listed = serving.into_iter().chain(idle).map(|server| {
        let of = members.get(server.address.as_str()).map(Vec::as_slice).unwrap_or_default();
        let here = |cluster: &ClusterRow| {
            [cluster.writer_hostgroup, cluster.reader_hostgroup].contains(&server.hostgroup)
        };
        let member = of.iter().find(|(cluster, _)| here(cluster)).or(of.first());
        let mut labels = member.map(labels_of).unwrap_or_default();
        labels.insert(HOSTGROUP, server.hostgroup.to_string());
        labels.insert(STATUS, state_name(server.state).to_owned());
        (server.address.as_str(), labels)
    });
    let unlisted = members.iter().filter(|(address, _)| !known.contains(*address));
    let unlisted = unlisted.filter_map(|(address, of)| Some((*address, labels_of(of.first()?))));
    listed
        .chain(unlisted)
        .filter(|(address, _)| matches!(address.parse(), Ok(Address::Tcp { .. })))
        .map(|(address, labels)| TargetGroup { targets: [address.to_owned()], labels })
        .collect()
}

type Member<'a> = (&'a ClusterRow, &'a MemberRow);

/// The members of clusters by address; a server may be in several.
fn members(clusters: &[ClusterRow]) -> BTreeMap<&str, Vec<Member<'_>>> {
    let mut members: BTreeMap<&str, Vec<Member<'_>>> = BTreeMap::new();
    for cluster in clusters {
        for member in &cluster.servers {
            members.entry(&member.address).or_default().push((cluster, member));
        }
    }
    members
}

fn labels_of((cluster, member): &Member<'_>) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (CLUSTER, cluster.name.clone()),
        (ROLE, member.role.clone()),
        (REACH, member.reach.clone()),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sample;

    fn shown(report: &Report) -> Value {
        serde_json::to_value(groups(report)).expect("JSON")
    }

    fn member(address: &str, role: &str) -> MemberRow {
        let reach = "down".to_owned();
        MemberRow { address: address.into(), role: role.into(), reach, ..MemberRow::default() }
    }

    #[test]
    fn servers_have_the_labels_that_are_known_and_sockets_are_left_out() {
        assert_eq!(
            shown(&sample::report(DigestQuery::NONE)),
            json!([
                { "targets": ["db-primary.prod.example.internal:3306"], "labels": {
                    "__meta_trunkline_hostgroup": "10", "__meta_trunkline_status": "ONLINE" } },
                { "targets": ["192.168.100.101:3306"], "labels": {
                    "__meta_trunkline_hostgroup": "20", "__meta_trunkline_status": "ONLINE" } },
                { "targets": ["10.0.0.1:3306"], "labels": {
                    "__meta_trunkline_cluster": "shop", "__meta_trunkline_role": "writer",
                    "__meta_trunkline_reach": "up" } },
                { "targets": ["10.0.0.2:3306"], "labels": {
                    "__meta_trunkline_cluster": "shop", "__meta_trunkline_role": "reader",
                    "__meta_trunkline_reach": "up" } },
            ])
        );
    }

    #[test]
    fn a_server_of_two_clusters_has_the_labels_of_its_hostgroups() {
        let mut report = sample::report(DigestQuery::NONE);
        let address = "192.168.100.101:3306";
        let server = report.servers.iter_mut().find(|server| server.address == address);
        let server = server.expect("a server");
        server.state = ServerState::OfflineHard;
        report.servers = vec![server.clone()];
        let cluster = |name: &str, reader_hostgroup, role| ClusterRow {
            name: name.into(),
            reader_hostgroup,
            servers: vec![member(address, role)],
            ..ClusterRow::default()
        };
        report.process.monitor.clusters =
            vec![cluster("first", 7, "reader"), cluster("second", 20, "standby")];
        assert_eq!(
            shown(&report),
            json!([{ "targets": [address], "labels": {
                "__meta_trunkline_hostgroup": "20", "__meta_trunkline_status": "OFFLINE_HARD",
                "__meta_trunkline_cluster": "second", "__meta_trunkline_role": "standby",
                "__meta_trunkline_reach": "down" } }])
        );
    }

    /// Members of a cluster are in both of its hostgroups, and serve in one.
    #[test]
    fn a_server_that_stands_by_is_listed_only_if_it_does_so_everywhere() {
        let mut report = sample::report(DigestQuery::NONE);
        let server = report.servers.pop().expect("a server");
        let row = |hostgroup, address: &str, state| ServerRow {
            hostgroup,
            address: address.into(),
            state,
            ..server.clone()
        };
        report.process.monitor.clusters.clear();
        report.servers = vec![
            row(10, "a:3306", ServerState::Standby),
            row(10, "b:3306", ServerState::Standby),
            row(20, "a:3306", ServerState::Shunned),
            row(20, "b:3306", ServerState::Standby),
        ];
        assert_eq!(
            shown(&report),
            json!([
                { "targets": ["a:3306"], "labels": {
                    "__meta_trunkline_hostgroup": "20", "__meta_trunkline_status": "SHUNNED" } },
                { "targets": ["b:3306"], "labels": {
                    "__meta_trunkline_hostgroup": "10", "__meta_trunkline_status": "STANDBY" } },
            ])
        );
    }
}
