//! What `mysql_innodb_cluster_metadata` says of a server: MySQL Shell writes it, and MySQL Router
//! goes by it. Its views (`v2_…`) have been the same since version 2.0 of the schema; those of a
//! ClusterSet came with 2.1.

use trunkline_cluster::facts::{Endpoint, Facts, Membership, View};

use super::Table;

/// Which cluster the server belongs to.
pub(super) const OWN: &str = "SELECT cluster_id, cluster_name, cluster_type \
    FROM mysql_innodb_cluster_metadata.v2_this_instance";
/// All servers of all clusters that the metadata knows.
pub(super) const INSTANCES: &str = "SELECT cluster_id, mysql_server_uuid, endpoint, \
    attributes->>'$.tags._hidden' AS is_hidden, attributes->>'$.instance_type' AS instance_type \
    FROM mysql_innodb_cluster_metadata.v2_instances";
/// Who is what in a ReplicaSet, by its newest view.
pub(super) const REPLICA_SET: &str = "SELECT view_id, cluster_id, member_id, member_role \
    FROM mysql_innodb_cluster_metadata.v2_ar_members";
/// Which cluster is what in a ClusterSet, by its newest view.
pub(super) const CLUSTER_SET: &str = "SELECT view_id, clusterset_id, cluster_id, member_role, \
    invalidated FROM mysql_innodb_cluster_metadata.v2_cs_members";

/// The type of a ReplicaSet; the other one is `gr`.
const ASYNCHRONOUS: &str = "ar";

/// What is known of the cluster of a server.
pub(super) struct Own {
    id: String,
    name: String,
    /// Whether it is a ReplicaSet.
    pub(super) is_replica_set: bool,
}

/// The server's cluster; `None` when the metadata does not know the server.
pub(super) fn own(answer: &Table<'_>) -> Option<Own> {
    let text = |name: &str| answer.text(0, &[name]);
    Some(Own {
        id: text("cluster_id")?,
        name: text("cluster_name").unwrap_or_default(),
        is_replica_set: text("cluster_type").as_deref() == Some(ASYNCHRONOUS),
    })
}

/// What one is that the metadata does not know, or that has none.
pub(super) fn stranger(facts: Facts) -> Facts {
    let why = "mysql_innodb_cluster_metadata does not name it as a server of a cluster";
    refuse(facts, why.to_owned())
}

fn refuse(facts: Facts, why: String) -> Facts {
    let mut membership = facts.membership.unwrap_or_default();
    membership.refusal = Some(membership.refusal.unwrap_or(why));
    Facts { membership: Some(membership), ..facts }
}

/// Completes what is known of a server of a ReplicaSet.
pub(super) fn in_replica_set(
    facts: Facts,
    own: &Own,
    members: &Table<'_>,
    instances: &Table<'_>,
) -> Facts {
    let uuid = facts.identity.uuid.clone().unwrap_or_default();
    let is_own = |row: &usize| members.text(*row, &["member_id"]).as_deref() == Some(&uuid);
    let row = members.rows().find(is_own);
    let text = |name: &str| row.and_then(|row| members.text(row, &[name])).unwrap_or_default();
    let is_primary = text("member_role") == "PRIMARY";
    let view =
        text("view_id").parse().ok().map(|number| View { of: own.id.clone(), number }.into());
    let is_writable = facts.is_writable && is_primary;
    let yes = |is_so: bool| if is_so { "YES" } else { "NO" }.to_owned();
    let told = vec![yes(row.is_some()), yes(!is_writable), "0".to_owned()];
    let membership = Membership { view, told, ..Membership::default() };
    let replicas = endpoints(instances, |cluster| cluster == own.id);
    let facts = Facts { is_writable, membership: Some(membership), replicas, ..facts };
    let facts = match row {
        Some(_) => facts,
        None => refuse(facts, format!("it is no member of the ReplicaSet {} any more", own.name)),
    };
    hide(facts, &uuid, instances)
}

/// Completes what is known of a member of a group by what the metadata says of its cluster.
/// `set` is empty where there is no ClusterSet.
pub(super) fn in_cluster(facts: Facts, own: &Own, set: &Table<'_>, instances: &Table<'_>) -> Facts {
    let uuid = facts.identity.uuid.clone().unwrap_or_default();
    let text = |row: usize, name: &str| set.text(row, &[name]).unwrap_or_default();
    let own_row = set.rows().find(|row| text(*row, "cluster_id") == own.id);
    let set_id = own_row.map(|row| text(row, "clusterset_id"));
    let relatives: Vec<String> = match &set_id {
        None => vec![own.id.clone()],
        Some(id) => {
            let of_set = set.rows().filter(|row| text(*row, "clusterset_id") == *id);
            of_set.map(|row| text(row, "cluster_id")).collect()
        }
    };
    let mut facts = facts;
    // The group names its members; those that are not in it just now are known here only.
    let others = endpoints(instances, |cluster| relatives.iter().any(|it| it == cluster));
    facts.replicas.extend(others);
    facts.replicas.sort();
    facts.replicas.dedup();
    let facts = match (own_row, set_id) {
        (Some(row), Some(of)) => {
            let number = text(row, "view_id").parse().ok();
            let mut membership = facts.membership.unwrap_or_default();
            membership.view = number.map(|number| View { of, number }.into());
            let facts = Facts { membership: Some(membership), ..facts };
            let name = &own.name;
            match (text(row, "member_role").as_str(), text(row, "invalidated").as_str()) {
                (_, "1") => refuse(facts, format!("its cluster {name} is invalidated")),
                ("PRIMARY", _) => facts,
                _ => refuse(facts, format!("its cluster {name} is a replica in its ClusterSet")),
            }
        }
        (None, _) | (_, None) => facts,
    };
    hide(facts, &uuid, instances)
}

/// A server that an operator hides gets nothing, and neither does a read replica.
fn hide(facts: Facts, uuid: &str, instances: &Table<'_>) -> Facts {
    let text = |row: usize, name: &str| instances.text(row, &[name]).unwrap_or_default();
    let own = instances.rows().find(|row| text(*row, "mysql_server_uuid") == uuid);
    let Some(own) = own else { return facts };
    if text(own, "is_hidden") == "true" {
        return refuse(facts, "its tag _hidden is set".to_owned());
    }
    match text(own, "instance_type").as_str() {
        "read-replica" => refuse(facts, "it is a read replica".to_owned()),
        _ => facts,
    }
}

fn endpoints(instances: &Table<'_>, is_own: impl Fn(&str) -> bool) -> Vec<Endpoint> {
    let endpoint = |row: usize| {
        instances.text(row, &["cluster_id"]).filter(|cluster| is_own(cluster))?;
        let endpoint = instances.text(row, &["endpoint"])?;
        let (host, port) = endpoint.rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']).to_owned();
        Some(Endpoint { host, port: port.parse().ok()? })
    };
    instances.rows().filter_map(endpoint).collect()
}

#[cfg(test)]
mod tests {
    use trunkline_cluster::facts::Identity;

    use super::*;
    use crate::roles::questions::tests::answer;

    fn server(uuid: &str) -> Facts {
        let identity = Identity { uuid: Some(uuid.to_owned()), server_id: 1 };
        Facts { identity, is_writable: true, ..Facts::default() }
    }

    fn own_of(cluster_type: &str) -> Own {
        let names = ["cluster_id", "cluster_name", "cluster_type"];
        own(&Table(&answer(&names, &[&["c1", "shop", cluster_type]]))).expect("a cluster")
    }

    /// Two servers of one cluster and one of another.
    fn instances(hidden: &str, instance_type: &str) -> crate::conversation::Answer {
        answer(
            &["cluster_id", "mysql_server_uuid", "endpoint", "is_hidden", "instance_type"],
            &[
                &["c1", "u1", "db1:3306", hidden, instance_type],
                &["c1", "u2", "[fe80::1]:3307", "NULL", "NULL"],
                &["c2", "u3", "db3:3306", "NULL", "NULL"],
            ],
        )
    }

    fn ports(facts: &Facts) -> Vec<&str> {
        facts.replicas.iter().map(|it| it.host.as_str()).collect()
    }

    fn refusal(facts: &Facts) -> Option<&str> {
        facts.membership.as_ref()?.refusal.as_deref()
    }

    #[test]
    fn in_a_replica_set_the_newest_view_says_who_is_the_primary() {
        let columns = ["view_id", "cluster_id", "member_id", "member_role"];
        let members =
            answer(&columns, &[&["4", "c1", "u1", "PRIMARY"], &["4", "c1", "u2", "SECONDARY"]]);
        let all = instances("NULL", "NULL");
        let look = |uuid: &str| {
            in_replica_set(server(uuid), &own_of("ar"), &Table(&members), &Table(&all))
        };
        let (one, two, three) = (look("u1"), look("u2"), look("u3"));
        assert_eq!([one.is_writable, two.is_writable], [true, false]);
        assert_eq!((refusal(&one), refusal(&two)), (None, None));
        let view = Box::new(View { of: "c1".to_owned(), number: 4 });
        assert_eq!(one.membership.clone().and_then(|it| it.view), Some(view));
        assert_eq!(ports(&one), ["db1", "fe80::1"]);
        assert_eq!(refusal(&three), Some("it is no member of the ReplicaSet shop any more"));
    }

    #[test]
    fn of_a_cluster_set_only_the_primary_cluster_serves() {
        let columns = ["view_id", "clusterset_id", "cluster_id", "member_role", "invalidated"];
        let look = |role: &str, invalidated: &str| {
            let set = answer(
                &columns,
                &[&["9", "s", "c1", role, invalidated], &["9", "s", "c2", "REPLICA", "0"]],
            );
            let all = instances("NULL", "NULL");
            in_cluster(server("u1"), &own_of("gr"), &Table(&set), &Table(&all))
        };
        assert_eq!(refusal(&look("PRIMARY", "0")), None);
        let said = "its cluster shop is a replica in its ClusterSet";
        assert_eq!(refusal(&look("REPLICA", "0")), Some(said));
        assert_eq!(refusal(&look("NULL", "1")), Some("its cluster shop is invalidated"));
        // All clusters of the set are known, since another one may be the primary next.
        let facts = look("PRIMARY", "0");
        assert_eq!(ports(&facts), ["db1", "db3", "fe80::1"]);
        let view = Box::new(View { of: "s".to_owned(), number: 9 });
        assert_eq!(facts.membership.and_then(|it| it.view), Some(view));
        // Without a set, only its own.
        let (none, all) = (answer(&columns, &[]), instances("NULL", "NULL"));
        let facts = in_cluster(server("u1"), &own_of("gr"), &Table(&none), &Table(&all));
        assert_eq!(ports(&facts), ["db1", "fe80::1"]);
    }

    #[test]
    fn hidden_servers_and_read_replicas_get_nothing() {
        let look = |hidden: &str, instance_type: &str| {
            let (none, all) = (answer(&[], &[]), instances(hidden, instance_type));
            let facts = in_cluster(server("u1"), &own_of("gr"), &Table(&none), &Table(&all));
            refusal(&facts).map(str::to_owned)
        };
        assert_eq!(look("false", "group-member"), None);
        assert_eq!(look("true", "NULL").as_deref(), Some("its tag _hidden is set"));
        assert_eq!(look("NULL", "read-replica").as_deref(), Some("it is a read replica"));
        let facts = stranger(server("u1"));
        assert!(refusal(&facts).is_some_and(|why| why.contains("does not name it")));
    }
}
