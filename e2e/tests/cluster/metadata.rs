//! Clusters by what is written down of them: MySQL Shell's metadata, and Amazon's tables. Neither
//! MySQL Shell nor Amazon is here: the tables are made by these tests, with the columns that are
//! documented. Servers and their groups are real.

use trunkline_testkit::Group;

use super::*;
use crate::stage::start as start_server;

/// A schema of MySQL Shell's metadata, as far as MySQL Router reads it, for one cluster of these
/// servers. A view can't name a variable, so a function does.
fn metadata(cluster_type: &str, servers: &[&Server]) -> Result<String> {
    let mut sql = format!(
        "CREATE DATABASE mysql_innodb_cluster_metadata;
         USE mysql_innodb_cluster_metadata;
         CREATE FUNCTION own_uuid() RETURNS VARCHAR(36) DETERMINISTIC NO SQL RETURN @@server_uuid;
         CREATE TABLE clusters (cluster_id VARCHAR(36) PRIMARY KEY, cluster_name VARCHAR(63),
             cluster_type VARCHAR(2));
         INSERT INTO clusters VALUES ('c1', 'shop', '{cluster_type}');
         CREATE TABLE instances (instance_id INT PRIMARY KEY, cluster_id VARCHAR(36),
             mysql_server_uuid VARCHAR(36), addresses JSON, attributes JSON);
         CREATE TABLE members (cluster_id VARCHAR(36), view_id BIGINT, instance_id INT,
             is_primary INT, PRIMARY KEY (cluster_id, view_id, instance_id));
         CREATE TABLE sets (view_id BIGINT PRIMARY KEY, member_role VARCHAR(10));
         CREATE VIEW v2_instances AS SELECT instance_id, cluster_id, mysql_server_uuid,
             addresses->>'$.mysqlClassic' AS endpoint, attributes FROM instances;
         CREATE VIEW v2_this_instance AS SELECT i.cluster_id, i.instance_id, c.cluster_name,
             c.cluster_type FROM v2_instances i JOIN clusters c USING (cluster_id)
             WHERE i.mysql_server_uuid = own_uuid();
         CREATE VIEW v2_ar_members AS SELECT m.view_id, m.cluster_id,
             i.mysql_server_uuid AS member_id, IF(is_primary, 'PRIMARY', 'SECONDARY') AS member_role
             FROM members m JOIN instances i USING (instance_id)
             WHERE m.view_id = (SELECT MAX(view_id) FROM members);
         CREATE VIEW v2_cs_members AS SELECT view_id, 's' AS clusterset_id, 'c1' AS cluster_id,
             member_role, 0 AS invalidated FROM sets
             WHERE view_id = (SELECT MAX(view_id) FROM sets);"
    );
    for (id, server) in (1..).zip(servers) {
        let uuid = server.value("SELECT @@server_uuid")?.context("no id")?;
        let at = server.address();
        sql += &format!(
            "INSERT INTO instances VALUES ({id}, 'c1', '{uuid}',
                 '{{\"mysqlClassic\": \"{at}\"}}', '{{}}');
             INSERT INTO members VALUES ('c1', 1, {id}, {});",
            i32::from(id == 1)
        );
    }
    Ok(sql)
}

fn start_kind(kind: &str, seed: &Server, more: &str) -> Result<Trunkline> {
    Trunkline::start(&format!(
        "workers = 2\ncatalog_wait_ms = 10000\nmonitor_read_only_interval = 200\n\
         monitor_groupreplication_healthcheck_interval = 200\n\
         [[cluster]]\nname = \"shop\"\nkind = \"{kind}\"\nwriter_hostgroup = 10\n\
         reader_hostgroup = 20\nseeds = [\"{}\"]\n{more}\n{}",
        seed.address(),
        user(10)
    ))
}

/// With a group that is there already.
pub(super) fn a_cluster_is_followed_by_its_metadata(group: &Group) -> Result<()> {
    let [one, two, three] = group.members() else { anyhow::bail!("not three members") };
    one.sql(&metadata("gr", &[one, two, three])?)?;
    let proxy = start_kind("innodb_cluster", two, "")?;
    for (member, wanted) in [(one, "writer"), (two, "reader"), (three, "reader")] {
        wait_role(&proxy, member, wanted)?;
    }
    let tag = |value: &str| {
        format!(
            "UPDATE mysql_innodb_cluster_metadata.instances
             SET attributes = '{{\"tags\": {{\"_hidden\": {value}}}}}' WHERE instance_id = 3"
        )
    };
    one.sql(&tag("true"))?;
    wait_role(&proxy, three, "standby")?;
    one.sql(&tag("false"))?;
    wait_role(&proxy, three, "reader")?;
    // A ClusterSet whose primary cluster is another one, and then this one.
    one.sql("INSERT INTO mysql_innodb_cluster_metadata.sets VALUES (1, 'REPLICA')")?;
    wait_role(&proxy, one, "standby")?;
    one.sql("INSERT INTO mysql_innodb_cluster_metadata.sets VALUES (2, 'PRIMARY')")?;
    wait_role(&proxy, one, "writer")?;
    wait_role(&proxy, two, "reader")
}

#[test]
fn a_replica_set_is_followed_by_its_metadata() -> Result<()> {
    if !is_available(Flavour::MySql, "a_replica_set_is_followed_by_its_metadata") {
        return Ok(());
    }
    let replication = replication(Flavour::MySql, 1)?;
    let (one, two) = (replication.primary(), &replication.replicas()[0]);
    one.sql(&metadata("ar", &[one, two])?)?;
    replication.wait_caught_up(SOON)?;
    let proxy = start_kind("innodb_cluster", two, "")?;
    wait_role(&proxy, one, "writer")?;
    wait_role(&proxy, two, "reader")?;
    wait_who(&proxy, WRITER, "primary")?;
    // Servers change first, and then what is written down of them.
    switch_over(&replication, 0)?;
    wait_role(&proxy, one, "reader")?;
    two.sql(
        "INSERT INTO mysql_innodb_cluster_metadata.members
         VALUES ('c1', 2, 1, 0), ('c1', 2, 2, 1)",
    )?;
    wait_role(&proxy, two, "writer")?;
    // The old primary comes back, and knows nothing of the new view.
    one.sql(
        "STOP REPLICA; SET GLOBAL super_read_only = 0, read_only = 0; SET sql_log_bin = 0;
         DELETE FROM mysql_innodb_cluster_metadata.members WHERE view_id = 2",
    )?;
    wait_role(&proxy, one, "standby")?;
    wait_role(&proxy, two, "writer")
}

#[test]
fn servers_of_a_multi_az_cluster_are_where_its_table_says() -> Result<()> {
    if !is_available(Flavour::MariaDb, "servers_of_a_multi_az_cluster") {
        return Ok(());
    }
    let replication = replication(Flavour::MariaDb, 1)?;
    let (one, two) = (replication.primary(), &replication.replicas()[0]);
    one.sql(&format!(
        "CREATE TABLE mysql.rds_topology (id INT PRIMARY KEY, endpoint TEXT, port INT);
         INSERT INTO mysql.rds_topology VALUES (1, '127.0.0.1', {}), (2, '127.0.0.1', {})",
        one.port(),
        two.port()
    ))?;
    let proxy = start_kind("rds_multi_az", one, "")?;
    wait_role(&proxy, one, "writer")?;
    wait_role(&proxy, two, "reader")
}

/// A server as Aurora's: a proxy in front of it that gives it the name and the table.
fn as_aurora(server: &Server, id: &str) -> Result<Trunkline> {
    Trunkline::start(&format!(
        "workers = 1\n[[server]]\nhostgroup = 0\naddress = \"{}\"\n\
         [[rule]]\nid = 1\nmatch_pattern = '@@aurora_server_id'\nreplace_pattern = \"'{id}'\"\n\
         apply = false\n\
         [[rule]]\nid = 2\nmatch_pattern = 'information_schema.replica_host_status'\n\
         replace_pattern = 'aurora.replica_host_status'\napply = true\n{}",
        server.address(),
        user(0)
    ))
}

#[test]
fn the_writer_of_aurora_is_followed() -> Result<()> {
    if !is_available(Flavour::MariaDb, "the_writer_of_aurora_is_followed") {
        return Ok(());
    }
    let start = |id| start_server(Flavour::MariaDb, Options::id(id));
    let (one, two) = (start(1)?, start(2)?);
    let set = |writer: &str| -> Result<()> {
        for server in [&one, &two] {
            let session = |id: &str| if id == writer { "MASTER_SESSION_ID" } else { "s" };
            server.sql(&format!(
                "CREATE OR REPLACE TABLE aurora.replica_host_status (SERVER_ID VARCHAR(100),
                     SESSION_ID VARCHAR(100), REPLICA_LAG_IN_MILLISECONDS DOUBLE,
                     LAST_UPDATE_TIMESTAMP DATETIME(6));
                 INSERT INTO aurora.replica_host_status VALUES ('db-1', '{}', 20, NOW(6)),
                     ('db-2', '{}', 20, NOW(6))",
                session("db-1"),
                session("db-2")
            ))?;
        }
        Ok(())
    };
    for (server, name) in [(&one, "one"), (&two, "two")] {
        server.sql(&format!(
            "CREATE DATABASE aurora; CREATE DATABASE mark;
             CREATE TABLE mark.server AS SELECT '{name}' AS name"
        ))?;
    }
    set("db-1")?;
    let fronts = [as_aurora(&one, "db-1")?, as_aurora(&two, "db-2")?];
    let seeds: Vec<_> = fronts.iter().map(|it| format!("\"127.0.0.1:{}\"", it.port())).collect();
    let proxy = Trunkline::start(&format!(
        "workers = 1\ncatalog_wait_ms = 10000\nmonitor_read_only_interval = 200\n\
         [[cluster]]\nname = \"shop\"\nkind = \"aurora\"\nwriter_hostgroup = 10\n\
         reader_hostgroup = 20\nmax_lag_ms = 1000\nseeds = [{}]\n{}",
        seeds.join(", "),
        user(10)
    ))?;
    wait_who(&proxy, WRITER, "one")?;
    wait_who(&proxy, WHO, "two")?;
    set("db-2")?;
    wait_who(&proxy, WRITER, "two")?;
    wait_who(&proxy, WHO, "one")
}
