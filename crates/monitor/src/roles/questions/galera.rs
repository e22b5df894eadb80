//! What a node of a Galera cluster says of itself.

use trunkline_cluster::facts::{Endpoint, Facts, Membership};

use super::Variables;

/// What is asked beside variables.
pub(super) const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', \
    'wsrep_cluster_status', 'wsrep_local_state', 'wsrep_local_state_comment', \
    'wsrep_local_recv_queue', 'wsrep_incoming_addresses')";

/// `wsrep_local_state` of a node that has all.
const SYNCED: &str = "4";
/// That of one that sends its data to another node, or was taken out of flow control.
const DONOR: &str = "2";

/// Completes what is known of a node by what it says of its cluster.
pub(super) fn complete(facts: Facts, variables: &Variables, status: &Variables) -> Facts {
    let behind = status.text("wsrep_local_recv_queue").parse().unwrap_or_default();
    let yes = |is_so: bool| if is_so { "YES" } else { "NO" }.to_owned();
    let maintained = variables.get("pxc_maint_mode").is_some_and(|mode| mode != "DISABLED");
    let told = vec![
        yes(status.text("wsrep_cluster_status") == "Primary"),
        yes(!facts.is_writable),
        status.text("wsrep_local_recv_queue"),
        status.text("wsrep_local_state"),
        yes(variables.is_on("wsrep_desync")),
        yes(variables.text("wsrep_reject_queries") != "NONE"),
        yes(variables.is_on("wsrep_sst_donor_rejects_queries")),
        yes(maintained),
    ];
    let membership = Membership { refusal: refusal(variables, status), behind, told, view: None };
    let addresses = status.text("wsrep_incoming_addresses");
    let endpoint = |address: &str| {
        let (host, port) = address.trim().rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']).to_owned();
        Some(Endpoint { host, port: port.parse().ok().filter(|port| *port != 0)? })
    };
    let replicas = addresses.split(',').filter_map(endpoint).collect();
    Facts { membership: Some(membership), replicas, ..facts }
}

/// Why a node must not serve.
fn refusal(variables: &Variables, status: &Variables) -> Option<String> {
    if !variables.is_on("wsrep_on") {
        return Some("it is no node of a Galera cluster: its wsrep_on is off".to_owned());
    }
    let is = |of: &Variables, name: &str, value: String| {
        (of.text(name) != value).then(|| format!("its {name} is {}", of.text(name)))
    };
    let rejects = is(variables, "wsrep_reject_queries", "NONE".to_owned());
    let maintained = variables.get("pxc_maint_mode").filter(|mode| mode != "DISABLED");
    is(status, "wsrep_cluster_status", "Primary".to_owned())
        .or_else(|| is(status, "wsrep_ready", "ON".to_owned()))
        .or(rejects)
        .or_else(|| maintained.map(|mode| format!("its pxc_maint_mode is {mode}")))
        .or_else(|| is(variables, "wsrep_desync", "OFF".to_owned()))
        .or_else(|| match status.text("wsrep_local_state").as_str() {
            SYNCED => None,
            DONOR if !variables.is_on("wsrep_sst_donor_rejects_queries") => None,
            _ => Some(format!("it is {}", status.text("wsrep_local_state_comment"))),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::questions::tests::variables;

    const OWN: [(&str, &str); 4] = [
        ("wsrep_on", "ON"),
        ("wsrep_desync", "OFF"),
        ("wsrep_reject_queries", "NONE"),
        ("wsrep_sst_donor_rejects_queries", "OFF"),
    ];
    const STATUS: [(&str, &str); 6] = [
        ("wsrep_local_recv_queue", "3"),
        ("wsrep_local_state", "4"),
        ("wsrep_local_state_comment", "Synced"),
        ("wsrep_incoming_addresses", "10.0.0.1:3306,AUTO,[fe80::1]:3307,10.0.0.3:0"),
        ("wsrep_cluster_status", "Primary"),
        ("wsrep_ready", "ON"),
    ];

    /// Why a node does not serve whose answers differ by these.
    fn refusal_with(changed: &[(&str, &str)]) -> Option<String> {
        let with = |all: &[(&'static str, &'static str)]| {
            let value = |(name, value): &(&'static str, &'static str)| {
                let other = changed.iter().find(|(it, _)| it == name);
                (*name, other.map_or(*value, |(_, value)| *value).to_owned())
            };
            let all: Vec<(&str, String)> = all.iter().map(value).collect();
            let all: Vec<(&str, &str)> = all.iter().map(|(a, b)| (*a, b.as_str())).collect();
            variables(&all)
        };
        let facts = complete(Facts::default(), &with(&OWN), &with(&STATUS));
        facts.membership.and_then(|membership| membership.refusal)
    }

    #[test]
    fn a_node_serves_if_it_is_synced_and_does_not_refuse() {
        let refuses = |changed: &[(&str, &str)], why: &str| {
            assert_eq!(refusal_with(changed).as_deref(), Some(why));
        };
        assert_eq!(refusal_with(&[]), None);
        assert_eq!(refusal_with(&[("wsrep_local_state", "2")]), None);
        refuses(
            &[
                ("wsrep_local_state", "2"),
                ("wsrep_local_state_comment", "Donor/Desynced"),
                ("wsrep_sst_donor_rejects_queries", "ON"),
            ],
            "it is Donor/Desynced",
        );
        refuses(
            &[("wsrep_cluster_status", "non-Primary")],
            "its wsrep_cluster_status is non-Primary",
        );
        refuses(&[("wsrep_desync", "ON")], "its wsrep_desync is ON");
        refuses(&[("wsrep_reject_queries", "ALL")], "its wsrep_reject_queries is ALL");
        refuses(&[("wsrep_ready", "OFF")], "its wsrep_ready is OFF");
        refuses(&[("wsrep_on", "OFF")], "it is no node of a Galera cluster: its wsrep_on is off");
    }

    #[test]
    fn a_node_tells_where_the_others_are() {
        let facts = complete(Facts::default(), &variables(&OWN), &variables(&STATUS));
        let endpoint = |host: &str, port| Endpoint { host: host.to_owned(), port };
        assert_eq!(facts.replicas, [endpoint("10.0.0.1", 3306), endpoint("fe80::1", 3307)]);
        assert_eq!(facts.membership.map(|membership| membership.behind), Some(3));
    }
}
