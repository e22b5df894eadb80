//! What servers of Amazon's clusters say of themselves: those of Aurora in
//! `information_schema.replica_host_status`, those of an RDS Multi-AZ DB cluster in
//! `mysql.rds_topology`.

use trunkline_cluster::facts::{Endpoint, Facts, Identity, Membership};

use super::Table;

/// Who an Aurora server is, and which servers there are: instances that are gone stay in the table
/// for a while. What a server is called is the first part of its endpoint.
pub(super) const STATUS: &str = "SELECT SERVER_ID, SESSION_ID, REPLICA_LAG_IN_MILLISECONDS, \
    SERVER_ID = @@aurora_server_id AS IS_OWN FROM information_schema.replica_host_status \
    WHERE LAST_UPDATE_TIMESTAMP > NOW() - INTERVAL 3 MINUTE OR SESSION_ID = 'MASTER_SESSION_ID'";
/// Where the servers of an RDS Multi-AZ DB cluster are.
pub(super) const TOPOLOGY: &str = "SELECT id, endpoint, port FROM mysql.rds_topology";

/// What the writer's session is called.
const WRITER: &str = "MASTER_SESSION_ID";

/// Where servers of an Aurora cluster are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Domain<'a> {
    /// What follows a server's name, with a dot in front; empty where nothing is discovered.
    pub(super) name: &'a str,
    pub(super) port: u16,
}

/// Completes what is known of an Aurora server.
pub(super) fn complete(facts: Facts, status: &Table<'_>, domain: Domain<'_>) -> Facts {
    let text = |row: usize, name: &str| status.text(row, &[name]).unwrap_or_default();
    let own = status.rows().find(|row| text(*row, "IS_OWN") == "1");
    let is_writer = own.is_some_and(|own| text(own, "SESSION_ID") == WRITER);
    let lag = own.map(|own| text(own, "REPLICA_LAG_IN_MILLISECONDS")).unwrap_or_default();
    // It is a fraction in some versions.
    let behind = match is_writer {
        true => 0,
        false => lag.split('.').next().and_then(|ms| ms.parse().ok()).unwrap_or_default(),
    };
    let refusal = match own {
        Some(_) => None,
        None => Some("information_schema.replica_host_status does not name it".to_owned()),
    };
    let endpoint = |row: usize| {
        let id = text(row, "SERVER_ID");
        let is_known = !id.is_empty() && !domain.name.is_empty();
        is_known.then(|| Endpoint { host: format!("{id}{}", domain.name), port: domain.port })
    };
    let replicas = status.rows().filter_map(endpoint).collect();
    let is_writable = facts.is_writable && is_writer;
    // Instances that were restored from one snapshot share `server_uuid`.
    let identity = match own {
        Some(own) => Identity { uuid: Some(text(own, "SERVER_ID")), ..facts.identity },
        None => facts.identity,
    };
    let told = vec![u8::from(!is_writable).to_string()];
    let membership = Membership { refusal, behind, told, ..Membership::default() };
    Facts { identity, is_writable, membership: Some(membership), replicas, ..facts }
}

/// Where the other servers of an RDS Multi-AZ DB cluster are.
pub(super) fn topology(answer: &Table<'_>) -> Vec<Endpoint> {
    answer.endpoints("endpoint", "port")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::questions::tests::answer;

    const COLUMNS: [&str; 4] = ["SERVER_ID", "SESSION_ID", "REPLICA_LAG_IN_MILLISECONDS", "IS_OWN"];

    fn look(own: &str, domain: &str) -> Facts {
        let is_own = |id: &str| if id == own { "1" } else { "0" };
        let status = answer(
            &COLUMNS,
            &[&["db-1", WRITER, "0", is_own("db-1")], &["db-2", "3e7a", "19.6", is_own("db-2")]],
        );
        let facts = Facts { is_writable: true, ..Facts::default() };
        complete(facts, &Table(&status), Domain { name: domain, port: 3306 })
    }

    #[test]
    fn the_writer_has_the_masters_session() {
        let domain = ".abc.eu-west-1.rds.amazonaws.com";
        let (one, two) = (look("db-1", domain), look("db-2", domain));
        assert_eq!([one.is_writable, two.is_writable], [true, false]);
        let behind = |facts: &Facts| facts.membership.as_ref().map(|it| it.behind);
        assert_eq!((behind(&one), behind(&two)), (Some(0), Some(19)));
        let hosts: Vec<_> = one.replicas.iter().map(|it| it.host.as_str()).collect();
        assert_eq!(hosts, ["db-1", "db-2"].map(|id| format!("{id}{domain}")));
        assert!(!one.identity.is_same(&two.identity));
        assert_eq!(look("db-1", "").replicas, []);
    }

    #[test]
    fn a_server_that_the_cluster_does_not_name_does_not_serve() {
        let refusal = look("db-3", "").membership.and_then(|it| it.refusal);
        assert!(refusal.is_some_and(|why| why.contains("does not name it")));
    }

    #[test]
    fn servers_of_multi_az_clusters_are_where_the_table_says() {
        let rows = answer(
            &["id", "endpoint", "port"],
            &[&["1", "db-1.abc.eu-west-1.rds.amazonaws.com", "3306"]],
        );
        let wanted = "db-1.abc.eu-west-1.rds.amazonaws.com".to_owned();
        assert_eq!(topology(&Table(&rows)), [Endpoint { host: wanted, port: 3306 }]);
    }
}
