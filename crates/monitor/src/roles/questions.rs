//! What a server of a cluster is asked, and what its answer means.

mod aurora;
mod galera;
mod group;
mod metadata;

use trunkline_cluster::facts::{Endpoint, Facts, Identity, Source, Thread};
use trunkline_config::cluster::{CheckType, ClusterKind};
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::gtid::Position;

use crate::{
    LearnError,
    conversation::{Answer, Conversation},
};

/// Bytes of one answer: a row for each source, with its last errors, or a set of transactions.
pub(super) const ANSWER_LEN_MAX: usize = 4 << 20;
/// What is asked of the variables of both families; a server names those that it has.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', \
    'super_read_only', 'innodb_read_only', 'server_id', 'server_uuid', 'hostname', 'port', \
    'datadir', 'version', 'gtid_executed', 'gtid_current_pos', 'gtid_binlog_pos', \
    'slave_net_timeout', 'replica_net_timeout', 'report_host', 'wsrep_on', 'wsrep_desync', 'wsrep_reject_queries', \
    'wsrep_sst_donor_rejects_queries', 'pxc_maint_mode')";
/// Seconds without a word of its source before a replica notices, as servers have it by default.
const NET_TIMEOUT_DEFAULT_SEC: u64 = 60;

/// What is asked.
#[derive(Debug, Clone)]
pub(super) struct Topic {
    pub(super) kind: ClusterKind,
    pub(super) check_type: CheckType,
    /// What follows the names of Aurora's instances.
    pub(super) domain: String,
    /// The server's port.
    pub(super) port: u16,
    /// Whether more servers are looked for.
    pub(super) discovers: bool,
}

/// Asks a server who it is, whether it takes writes, and who belongs to it.
pub(super) async fn facts_of(
    conversation: &mut Conversation,
    flavor: Flavor,
    topic: &Topic,
) -> Result<Facts, LearnError> {
    let variables = Variables(conversation.ask(VARIABLES, ANSWER_LEN_MAX).await?);
    let facts = Facts {
        identity: variables.identity(),
        is_writable: variables.is_writable(topic.check_type),
        version: variables.text("version"),
        gtid: variables.gtid(),
        ..Facts::default()
    };
    match topic.kind {
        ClusterKind::Replication | ClusterKind::ReadOnly => {
            of_replication(conversation, flavor, topic.discovers, &variables, facts).await
        }
        ClusterKind::RdsMultiAz => {
            let facts = of_replication(conversation, flavor, false, &variables, facts).await?;
            let topology = conversation.ask(aurora::TOPOLOGY, ANSWER_LEN_MAX).await?;
            Ok(Facts { replicas: aurora::topology(&Table(&topology)), ..facts })
        }
        ClusterKind::Aurora => {
            let status = conversation.ask(aurora::STATUS, ANSWER_LEN_MAX).await?;
            let is_writable = variables.is_writable(CheckType::InnodbReadOnly);
            let facts = Facts { is_writable, ..facts };
            let domain = aurora::Domain { name: &topic.domain, port: topic.port };
            Ok(aurora::complete(facts, &Table(&status), domain))
        }
        ClusterKind::InnodbCluster => of_metadata(conversation, flavor, &variables, facts).await,
        ClusterKind::Galera => {
            let status = Variables(conversation.ask(galera::STATUS, ANSWER_LEN_MAX).await?);
            Ok(galera::complete(facts, &variables, &status))
        }
        ClusterKind::GroupReplication => of_group(conversation, facts).await,
    }
}

/// Asks what the metadata of MySQL Shell says of a server.
async fn of_metadata(
    conversation: &mut Conversation,
    flavor: Flavor,
    variables: &Variables,
    facts: Facts,
) -> Result<Facts, LearnError> {
    let own = match conversation.ask(metadata::OWN, ANSWER_LEN_MAX).await {
        Err(error) if is_missing(&error) => return Ok(metadata::stranger(facts)),
        answered => metadata::own(&Table(&answered?)),
    };
    let Some(own) = own else { return Ok(metadata::stranger(facts)) };
    let instances = conversation.ask(metadata::INSTANCES, ANSWER_LEN_MAX).await?;
    if own.is_replica_set {
        let members = conversation.ask(metadata::REPLICA_SET, ANSWER_LEN_MAX).await?;
        let alone = facts.clone();
        let facts = match of_replication(conversation, flavor, false, variables, facts).await {
            // Accounts of MySQL Router may not look, and the metadata says who is what.
            Err(error) if is_denied(&error) => alone,
            answered => answered?,
        };
        return Ok(metadata::in_replica_set(facts, &own, &Table(&members), &Table(&instances)));
    }
    let facts = of_group(conversation, facts).await?;
    let set = match conversation.ask(metadata::CLUSTER_SET, ANSWER_LEN_MAX).await {
        Err(error) if is_missing(&error) => Answer::default(),
        answered => answered?,
    };
    Ok(metadata::in_cluster(facts, &own, &Table(&set), &Table(&instances)))
}

/// Asks what a member of a group is.
async fn of_group(conversation: &mut Conversation, facts: Facts) -> Result<Facts, LearnError> {
    let members = conversation.ask(group::MEMBERS, ANSWER_LEN_MAX).await?;
    let behind = conversation.ask(group::BEHIND, ANSWER_LEN_MAX).await?;
    Ok(group::complete(facts, &Table(&members), &Table(&behind)))
}

/// Asks whom a server replicates from and to.
async fn of_replication(
    conversation: &mut Conversation,
    flavor: Flavor,
    asks_replicas: bool,
    variables: &Variables,
    facts: Facts,
) -> Result<Facts, LearnError> {
    let (sources, replicas) = match flavor {
        Flavor::MariaDb => ("SHOW ALL SLAVES STATUS", "SHOW SLAVE HOSTS"),
        Flavor::MySql => ("SHOW REPLICA STATUS", "SHOW REPLICAS"),
    };
    let sources = match conversation.ask(sources, ANSWER_LEN_MAX).await {
        Err(error) if is_unknown(&error) => {
            conversation.ask("SHOW SLAVE STATUS", ANSWER_LEN_MAX).await?
        }
        answered => answered?,
    };
    let mut advice = variables.advice(!sources.rows.is_empty());
    let mut below = Vec::new();
    if asks_replicas {
        let answer = match conversation.ask(replicas, ANSWER_LEN_MAX).await {
            Err(error) if is_unknown(&error) => {
                conversation.ask("SHOW SLAVE HOSTS", ANSWER_LEN_MAX).await
            }
            answered => answered,
        };
        match answer {
            Ok(answer) => below = Table(&answer).endpoints("Host", "Port"),
            Err(error) if error.to_string().starts_with("error ") => {
                advice.push(format!("its replicas can't be discovered: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Facts { sources: sources_of(&sources), replicas: below, advice, ..facts })
}

/// Whether a server does not know a statement.
fn is_unknown(error: &LearnError) -> bool {
    error.to_string().starts_with("error 1064")
}

/// Whether a server does not have a table or a schema.
fn is_missing(error: &LearnError) -> bool {
    let error = error.to_string();
    error.starts_with("error 1146") || error.starts_with("error 1049")
}

/// Whether a privilege is missing that is no table's.
fn is_denied(error: &LearnError) -> bool {
    error.to_string().starts_with("error 1227")
}

/// Names and values, as `SHOW VARIABLES` and `SHOW STATUS` give them.
pub(super) struct Variables(pub(super) Answer);

impl Variables {
    fn get(&self, name: &str) -> Option<String> {
        let row = self.0.rows.iter().find(|row| {
            let is_it = |it: &Vec<u8>| it.eq_ignore_ascii_case(name.as_bytes());
            row.first().and_then(Option::as_ref).is_some_and(is_it)
        })?;
        let value = row.get(1)?.as_deref()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    /// Names and values of those whose names begin so.
    pub(super) fn beginning_with(&self, begin: &str) -> Vec<(String, String)> {
        let text =
            |value: &Option<Vec<u8>>| Some(String::from_utf8_lossy(value.as_deref()?).into_owned());
        let pair = |row: &Vec<Option<Vec<u8>>>| Some((text(row.first()?)?, text(row.get(1)?)?));
        let pairs = self.0.rows.iter().filter_map(pair);
        pairs.filter(|(name, _)| name.starts_with(begin)).collect()
    }

    /// Whether a variable is anything but off. Newer MariaDB has more words than two for
    /// `read_only`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value.as_str(), "OFF" | "0" | ""))
    }

    fn is_writable(&self, check_type: CheckType) -> bool {
        let (read_only, innodb) = (self.is_on("read_only"), self.is_on("innodb_read_only"));
        let is_read_only = match check_type {
            CheckType::ReadOnly => read_only,
            CheckType::InnodbReadOnly => innodb,
            CheckType::SuperReadOnly => self.is_on("super_read_only"),
            CheckType::Either => read_only || innodb,
            CheckType::Both => read_only && innodb,
        };
        !is_read_only
    }

    /// MariaDB has no `server_uuid`: no two servers of a host have one data directory. Copies of a
    /// machine may have one name.
    fn identity(&self) -> Identity {
        let place = || {
            let parts = ["hostname", "port", "datadir", "server_id"].map(|name| self.text(name));
            parts.join("/")
        };
        Identity {
            uuid: Some(self.get("server_uuid").unwrap_or_else(place)),
            server_id: self.text("server_id").parse().unwrap_or_default(),
        }
    }

    fn gtid(&self) -> String {
        if let Some(executed) = self.get("gtid_executed") {
            return executed.replace('\n', "");
        }
        // A server of MariaDB leaves out of the first what it has written under a mark.
        let position = |name| Position::parse(&self.text(name)).unwrap_or_default();
        position("gtid_current_pos").union(&position("gtid_binlog_pos")).to_string()
    }

    /// What should be otherwise.
    fn advice(&self, is_replica: bool) -> Vec<String> {
        let mut advice = Vec::new();
        let name = match self.get("replica_net_timeout") {
            Some(_) => "replica_net_timeout",
            None => "slave_net_timeout",
        };
        let timeout_sec: u64 = self.text(name).parse().unwrap_or_default();
        if is_replica && timeout_sec >= NET_TIMEOUT_DEFAULT_SEC {
            advice.push(format!(
                "{name} is {timeout_sec} s: so long it does not notice that its source is silent"
            ));
        }
        if is_replica && self.text("report_host").is_empty() {
            advice.push("report_host is not set: its source does not tell where it is".to_owned());
        }
        advice
    }
}

/// An answer whose columns are read by their names, of which servers have several.
pub(super) struct Table<'a>(pub(super) &'a Answer);

impl Table<'_> {
    /// The numbers of its rows.
    pub(super) fn rows(&self) -> std::ops::Range<usize> {
        0..self.0.rows.len()
    }

    fn column(&self, names: &[&str]) -> Option<usize> {
        let is_it = |column: &Vec<u8>| {
            names.iter().any(|name| column.eq_ignore_ascii_case(name.as_bytes()))
        };
        self.0.columns.iter().position(is_it)
    }

    pub(super) fn text(&self, row: usize, names: &[&str]) -> Option<String> {
        let value = self.0.rows.get(row)?.get(self.column(names)?)?.as_deref()?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    fn endpoints(&self, host: &str, port: &str) -> Vec<Endpoint> {
        let endpoint = |row| {
            let host = self.text(row, &[host]).filter(|host| !host.is_empty())?;
            let port = self.text(row, &[port])?.parse().ok()?;
            Some(Endpoint { host, port })
        };
        self.rows().filter_map(endpoint).collect()
    }
}

pub(super) fn sources_of(answer: &Answer) -> Vec<Source> {
    let table = Table(answer);
    let source = |row: usize| {
        let text = |names: &[&str]| table.text(row, names);
        let host = text(&["Source_Host", "Master_Host"]).filter(|host| !host.is_empty())?;
        let port = text(&["Source_Port", "Master_Port"])?.parse().ok()?;
        let receives = match text(&["Replica_IO_Running", "Slave_IO_Running"]).as_deref() {
            Some("Yes") => Thread::Connected,
            Some("Connecting" | "Preparing") => Thread::Connecting,
            _ => Thread::Stopped,
        };
        let applies = text(&["Replica_SQL_Running", "Slave_SQL_Running"]);
        let lag = text(&["Seconds_Behind_Source", "Seconds_Behind_Master"]);
        let uuid = text(&["Source_UUID", "Master_UUID"]).filter(|uuid| !uuid.is_empty());
        let server_id = text(&["Source_Server_Id", "Master_Server_Id"]);
        let errors = [text(&["Last_IO_Error"]), text(&["Last_SQL_Error"])];
        let errors = errors.into_iter().flatten().filter(|error| !error.is_empty());
        Some(Source {
            endpoint: Endpoint { host, port },
            identity: Identity {
                uuid,
                server_id: server_id.and_then(|id| id.parse().ok()).unwrap_or_default(),
            },
            receives,
            applies: applies.as_deref() == Some("Yes"),
            lag_sec: lag.and_then(|lag| lag.parse().ok()),
            error: errors.collect::<Vec<_>>().join("; "),
        })
    };
    (0..answer.rows.len()).filter_map(source).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn row(values: &[&str]) -> Vec<Option<Vec<u8>>> {
        let value = |text: &&str| (*text != "NULL").then(|| text.as_bytes().to_vec());
        values.iter().map(value).collect()
    }

    pub(super) fn answer(columns: &[&str], rows: &[&[&str]]) -> Answer {
        let columns = columns.iter().map(|name| name.as_bytes().to_vec()).collect();
        let rows = rows.iter().map(|values| row(values)).collect();
        Answer { columns, rows, warnings: 0 }
    }

    pub(super) fn variables(values: &[(&str, &str)]) -> Variables {
        let rows = values.iter().map(|(name, value)| row(&[name, value])).collect();
        Variables(Answer { rows, ..Answer::default() })
    }

    #[test]
    fn what_read_only_means_by_check_type_and_version() {
        use CheckType::{Both, Either, InnodbReadOnly, ReadOnly, SuperReadOnly};
        let check = |values: &[(&str, &str)], check_type, wanted| {
            assert_eq!(variables(values).is_writable(check_type), wanted, "{values:?}");
        };
        check(&[("read_only", "OFF")], ReadOnly, true);
        check(&[("read_only", "ON")], ReadOnly, false);
        check(&[("read_only", "NO_LOCK_NO_ADMIN")], ReadOnly, false);
        check(&[("read_only", "ON"), ("super_read_only", "OFF")], SuperReadOnly, true);
        let one = [("read_only", "ON"), ("innodb_read_only", "OFF")];
        check(&one, Either, false);
        check(&one, Both, true);
        check(&one, InnodbReadOnly, true);
    }

    #[test]
    fn who_a_server_is() {
        let mysql = variables(&[("server_uuid", "u-1"), ("server_id", "7")]);
        let wanted = Identity { uuid: Some("u-1".to_owned()), server_id: 7 };
        assert_eq!(mysql.identity(), wanted);
        let place = [("hostname", "h"), ("port", "3306"), ("datadir", "/d/"), ("server_id", "1")];
        let wanted = Identity { uuid: Some("h/3306//d//1".to_owned()), server_id: 1 };
        assert_eq!(variables(&place).identity(), wanted);
    }

    #[test]
    fn sources_are_read_by_the_names_of_both_families() {
        let old = answer(
            &[
                "Master_Host",
                "Master_Port",
                "Slave_IO_Running",
                "Slave_SQL_Running",
                "Seconds_Behind_Master",
                "Master_Server_Id",
                "Last_IO_Error",
            ],
            &[
                &["10.0.0.1", "3306", "Yes", "Yes", "3", "1", ""],
                &["10.0.0.2", "3307", "Connecting", "No", "NULL", "2", "refused"],
            ],
        );
        let sources = sources_of(&old);
        let [first, second] = sources.as_slice() else { panic!("two: {sources:?}") };
        assert_eq!(
            (first.receives, first.applies, first.lag_sec),
            (Thread::Connected, true, Some(3))
        );
        assert_eq!((second.receives, second.applies), (Thread::Connecting, false));
        assert_eq!((second.lag_sec, second.error.as_str()), (None, "refused"));
        let new = answer(
            &[
                "Source_Host",
                "Source_Port",
                "Replica_IO_Running",
                "Replica_SQL_Running",
                "Seconds_Behind_Source",
                "Source_Server_Id",
                "Source_UUID",
            ],
            &[
                &["db1", "3306", "No", "Yes", "0", "4", "u-4"],
                &["NULL", "0", "No", "Yes", "0", "0", ""],
            ],
        );
        let sources = sources_of(&new);
        let [only] = sources.as_slice() else { panic!("one: {sources:?}") };
        assert_eq!(only.identity, Identity { uuid: Some("u-4".to_owned()), server_id: 4 });
        assert_eq!(only.receives, Thread::Stopped);
    }

    #[test]
    fn replicas_are_where_they_say() {
        let hosts = answer(
            &["Server_id", "Host", "Port", "Master_id"],
            &[&["2", "10.0.0.2", "3306", "1"], &["3", "", "3306", "1"]],
        );
        let wanted = [Endpoint { host: "10.0.0.2".to_owned(), port: 3306 }];
        assert_eq!(Table(&hosts).endpoints("Host", "Port"), wanted);
    }

    #[test]
    fn a_replica_that_would_not_notice_a_silent_source_is_told_of() {
        let slow = [("slave_net_timeout", "60"), ("report_host", "h")];
        assert_eq!(variables(&slow).advice(true).len(), 1);
        assert_eq!(variables(&slow).advice(false).len(), 0);
        assert_eq!(variables(&[("replica_net_timeout", "4")]).advice(true).len(), 1);
    }
}
