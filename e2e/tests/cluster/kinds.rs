//! Clusters of other kinds than replication: ProxySQL's tables, Galera, Group Replication.

use std::collections::BTreeSet;

use trunkline_testkit::{Galera, Group, SqlClient, galera_available, skipped};

use super::*;
use crate::stage::start as start_server;
use crate::wire::{Outcome, Shape, Wire, code};

fn administrator(proxy: &Trunkline) -> Result<SqlClient> {
    SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")
}

/// `hostgroup:port` of every server that the admin port shows as running.
fn running(admin: &mut SqlClient) -> Result<BTreeSet<String>> {
    let rows = admin.sql("SELECT hostgroup_id, port FROM runtime_mysql_servers")?;
    let text = |row: &[Option<String>], at: usize| row.get(at).cloned().flatten();
    let place = |row: &Vec<Option<String>>| Some(format!("{}:{}", text(row, 0)?, text(row, 1)?));
    rows.iter().map(|row| place(row).context("NULL")).collect()
}

fn wait_running(admin: &mut SqlClient, wanted: &[(u32, &Server)]) -> Result<()> {
    let place = |(hostgroup, server): &(u32, &Server)| format!("{hostgroup}:{}", server.port());
    let wanted: BTreeSet<String> = wanted.iter().map(place).collect();
    let mut last = BTreeSet::new();
    wait_until("servers in their hostgroups", SOON, || {
        last = running(admin)?;
        Ok((last == wanted).then_some(()))
    })
    .with_context(|| format!("{last:?}, not {wanted:?}"))
}

#[test]
fn servers_of_mysql_replication_hostgroups_are_where_their_read_only_says() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "servers_of_mysql_replication_hostgroups") {
            continue;
        }
        let replication = replication(flavour, 1)?;
        let (one, two) = (replication.primary(), &replication.replicas()[0]);
        // Listed the wrong way round: read_only decides.
        let proxy = Trunkline::start_database(&format!(
            "workers = 1\ncatalog_wait_ms = 10000\nmonitor_read_only_interval = 100\n\
             [[server]]\nhostgroup = 10\naddress = \"{}\"\n\
             [[server]]\nhostgroup = 20\naddress = \"{}\"\n{}",
            two.address(),
            one.address(),
            user(10)
        ))?;
        let mut admin = administrator(&proxy)?;
        // What is held while servers become a cluster's is given back as it was counted.
        let mut held = client(&proxy, "")?;
        held.sql("BEGIN; SELECT 1 FROM mark.server")?;
        for statement in [
            format!("SET mysql-monitor_username = '{USER}'"),
            format!("SET mysql-monitor_password = '{}'", PASSWORD.replace('\'', "''")),
            "SET mysql-monitor_writer_is_also_reader = 'false'".to_owned(),
            "LOAD MYSQL VARIABLES TO RUNTIME".to_owned(),
            "INSERT INTO mysql_replication_hostgroups VALUES (10, 20, 'read_only', 'shop')"
                .to_owned(),
            "LOAD MYSQL SERVERS TO RUNTIME".to_owned(),
        ] {
            admin.sql(&statement)?;
        }
        wait_running(&mut admin, &[(10, one), (20, two)])?;
        drop(held);
        let used = "SELECT MAX(ConnUsed + ConnFree) FROM stats_mysql_connection_pool";
        let used = admin.value(used)?.context("NULL")?.parse::<u32>()?;
        ensure!(used < 100, "{used} connections");
        // Checks are told as in ProxySQL.
        let check = "SELECT MAX(read_only) FROM monitor.mysql_server_read_only_log
                     WHERE error IS NULL AND port = ";
        let read_only = admin.value(&format!("{check}{}", two.port()))?;
        ensure!(read_only == Some("1".to_owned()), "{read_only:?}");
        let insert = "INSERT INTO mark.note (text) VALUES ('x')";
        client(&proxy, "")?.sql(insert)?;
        // Another module is loaded: servers are what they were loaded as, and keep their roles.
        admin.sql("UPDATE mysql_users SET comment = 'x'")?;
        admin.sql("LOAD MYSQL USERS TO RUNTIME")?;
        wait_running(&mut admin, &[(10, one), (20, two)])?;

        switch_over(&replication, 0)?;
        wait_running(&mut admin, &[(10, two), (20, one)])?;
        client(&proxy, "")?.sql(insert)?;
        // Both take writes, as two masters do.
        one.sql(match flavour {
            Flavour::MariaDb => "SET GLOBAL read_only = 0",
            Flavour::MySql => "SET GLOBAL super_read_only = 0, read_only = 0",
        })?;
        wait_running(&mut admin, &[(10, one), (10, two)])?;
        admin.sql("SET mysql-monitor_writer_is_also_reader = 'true'")?;
        admin.sql("LOAD MYSQL VARIABLES TO RUNTIME")?;
        one.sql("SET GLOBAL read_only = 1")?;
        wait_running(&mut admin, &[(10, two), (20, one)])?;
    }
    Ok(())
}

#[test]
fn a_server_that_answers_no_pings_is_out_until_it_does() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_server_that_answers_no_pings_is_out") {
        return Ok(());
    }
    let server = start_server(Flavour::MariaDb, Options::default())?;
    let proxy = Trunkline::start_database(&format!(
        "workers = 1\nmonitor_account = \"{USER}\"\nmonitor_ping_interval = 100\n\
         monitor_ping_timeout = 100\n[[server]]\nhostgroup = 0\naddress = \"{}\"\n{}",
        server.address(),
        user(0)
    ))?;
    let mut admin = administrator(&proxy)?;
    let mut wait_status = |wanted: &str| {
        let status = "SELECT status FROM runtime_mysql_servers";
        wait_until(wanted, SOON, || Ok((text(&mut admin, status)? == wanted).then_some(())))
    };
    client(&proxy, "")?.sql("DO 1")?;
    server.pause()?;
    wait_status("SHUNNED")?;
    server.resume()?;
    wait_status("ONLINE")?;
    client(&proxy, "")?.sql("DO 1")?;
    let mut rows = |column: &str, table: &str| {
        let found = format!("SELECT COUNT({column}) > 0 FROM monitor.{table}");
        Ok::<_, anyhow::Error>(text(&mut admin, &found)? == "1")
    };
    ensure!(rows("ping_error", "mysql_server_ping_log")?, "no failed ping is shown");
    ensure!(rows("connect_success_time_us", "mysql_server_connect_log")?, "no connect is shown");
    Ok(())
}

fn set_weight(admin: &mut SqlClient, server: &Server, weight: u32) -> Result<()> {
    let port = server.port();
    admin.sql(&format!("UPDATE mysql_servers SET weight = {weight} WHERE port = {port}"))?;
    admin.sql("LOAD MYSQL SERVERS TO RUNTIME").map(drop)
}

/// A node rolls back a transaction for another node's write of the same row, and says so to what
/// comes next: a statement of the proxy's own is never sent with the client's behind it, which
/// would run outside of the transaction.
fn is_rolled_back_as_a_whole(proxy: &Trunkline, [one, other]: [&Server; 2]) -> Result<()> {
    one.sql(
        "CREATE TABLE shop.v (v INT); INSERT INTO shop.v VALUES (0);
         CREATE TABLE shop.ids (id INT AUTO_INCREMENT PRIMARY KEY);
         CREATE FUNCTION shop.f() RETURNS INT NO SQL RETURN 5",
    )?;
    wait_until("the tables", SOON, || Ok(other.value("SELECT v FROM shop.v").ok().map(drop)))?;
    let texts = ["SELECT 1; INSERT INTO t VALUES (20)", "INSERT INTO t VALUES (f() + 15)"];
    // The last one follows a command that the proxy answers.
    for (text, sets_option) in [(texts[0], false), (texts[1], false), (texts[1], true)] {
        let mut session = Wire::login(proxy, USER, PASSWORD, "shop")?;
        session.exchange(code::SET_OPTION, &[0, 0], Shape::Single)?;
        // It has an id that its next connection has not.
        for text in ["INSERT INTO ids VALUES ()", "BEGIN", "UPDATE v SET v = 1"] {
            ensure!(matches!(session.one(text)?, Outcome::Ok { .. }), "{text}");
        }
        other.sql("UPDATE shop.v SET v = v + 100")?;
        wait_until("the other node's write", SOON, || {
            let seen = one.value("SELECT v FROM shop.v")?;
            Ok((seen != Some("0".to_owned())).then_some(()))
        })?;
        if sets_option {
            session.exchange(code::SET_OPTION, &[1, 0], Shape::Single)?;
        }
        let error = session.fails(text)?;
        ensure!([1213, LOST].contains(&error.code), "{text}: {error:?}");
        let found = one.value("SELECT COUNT(*) FROM shop.t WHERE id = 20")?;
        ensure!(found == Some("0".to_owned()), "{text}: it ran outside of its transaction");
        one.sql("UPDATE shop.v SET v = 0")?;
        wait_until("the same row", SOON, || {
            Ok((other.value("SELECT v FROM shop.v")? == Some("0".to_owned())).then_some(()))
        })?;
    }
    one.sql("DROP TABLE shop.v, shop.ids; DROP FUNCTION shop.f").map(drop)
}

#[test]
fn nodes_of_galera_write_back_up_and_go() -> Result<()> {
    if let Err(reason) = galera_available() {
        skipped("nodes_of_galera_write_back_up_and_go", &reason);
        return Ok(());
    }
    let galera = Galera::start(3)?;
    let [one, two, three] = galera.nodes() else { anyhow::bail!("not three nodes") };
    one.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
    one.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)")?;
    let proxy = Trunkline::start_database(&format!(
        "workers = 2\ncatalog_wait_ms = 10000\nmonitor_galera_healthcheck_interval = 200\n\
         monitor_account = \"{USER}\"\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\nweight = 100\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\nweight = 10\n\
         [[server]]\nhostgroup = 10\naddress = \"{}\"\nweight = 1\n\
         [[galera]]\nwriter_hostgroup = 10\nbackup_writer_hostgroup = 11\n\
         reader_hostgroup = 20\noffline_hostgroup = 99\nwriter_is_also_reader = 2\n{}",
        one.address(),
        two.address(),
        three.address(),
        user(10)
    ))?;
    let mut admin = administrator(&proxy)?;
    let backs_up = |server| [(11, server), (20, server)];
    let begin = [&[(10, &**one)][..], &backs_up(&**two), &backs_up(&**three)].concat();
    wait_running(&mut admin, &begin)?;
    let mut session = client(&proxy, "shop")?;
    session.sql("INSERT INTO t VALUES (1)")?;
    is_rolled_back_as_a_whole(&proxy, [&**one, &**two])?;

    // A writer that is replaced while it is well finishes transactions, and holds nothing else.
    let mut holding = client(&proxy, "shop")?;
    holding.sql("SELECT GET_LOCK('job', 0)")?;
    let mut open = client(&proxy, "shop")?;
    open.sql("BEGIN; INSERT INTO t VALUES (10)")?;
    set_weight(&mut admin, two, 1_000)?;
    let replaced = [&[(10, &**two)][..], &backs_up(&**one), &backs_up(&**three)].concat();
    wait_running(&mut admin, &replaced)?;
    fails(&mut holding, "DO 1", LOST)?;
    open.sql("INSERT INTO t VALUES (11)")?;
    open.sql("COMMIT")?;
    ensure!(open.value("SELECT COUNT(*) FROM t WHERE id > 9")? == Some("2".to_owned()));
    session.sql("DELETE FROM t WHERE id > 9")?;
    set_weight(&mut admin, two, 10)?;
    wait_running(&mut admin, &begin)?;

    // A node that is taken out of flow control for a backup serves no more.
    three.sql("SET GLOBAL wsrep_desync = ON")?;
    let with_offline = [&[(10, &**one)][..], &backs_up(&**two), &[(99, &**three)]].concat();
    wait_running(&mut admin, &with_offline)?;
    three.sql("SET GLOBAL wsrep_desync = OFF")?;
    wait_running(&mut admin, &begin)?;

    // The writer is lost: the one with the next weight writes.
    one.kill_hard()?;
    let without_first = [&[(99, &**one), (10, &**two)][..], &backs_up(&**three)].concat();
    wait_running(&mut admin, &without_first)?;
    client(&proxy, "shop")?.sql("INSERT INTO t VALUES (2)")?;
    ensure!(three.value("SELECT COUNT(*) FROM shop.t")? == Some("2".to_owned()));

    // One of two that is cut off has no majority, and neither has the other.
    two.kill_hard()?;
    wait_running(&mut admin, &[(99, &**one), (99, &**two), (99, &**three)])?;
    Ok(())
}

#[test]
fn a_cluster_of_galera_is_discovered_from_one_seed() -> Result<()> {
    if let Err(reason) = galera_available() {
        skipped("a_cluster_of_galera_is_discovered_from_one_seed", &reason);
        return Ok(());
    }
    let galera = Galera::start(2)?;
    let [one, two] = galera.nodes() else { anyhow::bail!("not two nodes") };
    one.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
    let proxy = Trunkline::start(&format!(
        "workers = 1\nmonitor_galera_healthcheck_interval = 200\n\
         [[cluster]]\nname = \"shop\"\nkind = \"galera\"\nwriter_hostgroup = 10\n\
         reader_hostgroup = 20\nwriter_is_also_reader = \"backups\"\nseeds = [\"{}\"]\n{}",
        two.address(),
        user(10)
    ))?;
    wait_role(&proxy, two, "writer")?;
    wait_role(&proxy, one, "backup_writer")?;
    two.stop_gracefully()?;
    wait_role(&proxy, one, "writer")
}

#[test]
fn the_primary_of_a_group_is_followed() -> Result<()> {
    if !is_available(Flavour::MySql, "the_primary_of_a_group_is_followed") {
        return Ok(());
    }
    let group = Group::start(3)?;
    let [one, two, three] = group.members() else { anyhow::bail!("not three members") };
    one.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
    one.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)")?;
    one.sql(
        "CREATE USER switcher IDENTIFIED BY 'switcher';
         GRANT GROUP_REPLICATION_ADMIN, PROCESS ON *.* TO switcher;
         GRANT SELECT ON performance_schema.* TO switcher; CREATE DATABASE mark",
    )?;
    switchover::make_table(one)?;
    let proxy = switchover::with_admin("group_replication", &group.members()[2..])?;
    for (member, wanted) in [(one, "writer"), (two, "reader"), (three, "reader")] {
        wait_role(&proxy, member, wanted)?;
    }
    metadata::a_cluster_is_followed_by_its_metadata(&group)?;
    client(&proxy, "shop")?.sql("INSERT INTO t VALUES (1)")?;
    let id = two.value("SELECT @@server_uuid")?.context("no id")?;
    let mut holding = client(&proxy, "shop")?;
    holding.sql("SELECT GET_LOCK('job', 0)")?;
    let mut free = client(&proxy, "shop")?;
    free.sql("DO 1")?;
    one.sql(&format!("SELECT group_replication_set_as_primary('{id}')"))?;
    wait_role(&proxy, two, "writer")?;
    wait_role(&proxy, one, "reader")?;
    // What a session held on the former primary is lost; others go on on the new one.
    fails(&mut holding, "DO 1", LOST)?;
    free.sql("INSERT INTO t VALUES (2)")?;
    // The proxy has the group appoint another one, while clients write.
    let members = [Arc::clone(two), Arc::clone(one), Arc::clone(three)];
    switchover::switch_and_compare(&proxy, &members)?;
    wait_role(&proxy, two, "writer")?;
    // The primary leaves its group, and takes writes: the group elects another one by itself.
    let mut holding = client(&proxy, "shop")?;
    holding.sql("SELECT GET_LOCK('job', 0)")?;
    two.sql("STOP GROUP_REPLICATION; SET GLOBAL super_read_only = 0, read_only = 0")?;
    let written = client(&proxy, "shop")?.sql("INSERT INTO t VALUES (3)");
    written.context("a write waits for the next primary")?;
    wait_role(&proxy, two, "standby")?;
    fails(&mut holding, "INSERT INTO t VALUES (4)", LOST)?;
    ensure!(two.value("SELECT COUNT(*) FROM shop.t WHERE id > 2")? == Some("0".to_owned()));
    Ok(())
}
