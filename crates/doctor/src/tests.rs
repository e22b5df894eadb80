//! Each finding by the facts that it needs.

use super::*;

/// A server that nothing is to be said of.
fn server(address: &str, changed: &[(&str, &str)]) -> ServerFacts {
    let usual = [
        ("version", "8.4.2"),
        ("server_id", address),
        ("max_connections", "500"),
        ("read_only", "OFF"),
        ("log_bin", "ON"),
        ("log_replica_updates", "ON"),
        ("gtid_mode", "ON"),
        ("rpl_semi_sync_source_enabled", "ON"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("sync_binlog", "1"),
        ("wait_timeout", "28800"),
        ("skip_name_resolve", "ON"),
        ("autocommit", "ON"),
        ("event_scheduler", "OFF"),
        ("replica_net_timeout", "4"),
        ("max_allowed_packet", "67108864"),
    ];
    let variables = usual.iter().chain(changed);
    let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let answers = Answers {
        variables: variables.collect(),
        sources: Some(Vec::new()),
        superusers: Some(vec!["root".to_owned()]),
        ..Answers::default()
    };
    ServerFacts {
        address: address.to_owned(),
        is_private: true,
        pools: vec![Pool { hostgroup: 0, max_connections: 100, is_writer: true }],
        answers: Ok(answers),
        lacking: Vec::new(),
    }
}

fn replica(address: &str, changed: &[(&str, &str)]) -> ServerFacts {
    let changed: Vec<_> = [("read_only", "ON")].iter().chain(changed).copied().collect();
    let mut replica = server(address, &changed);
    replica.pools = vec![Pool { hostgroup: 1, max_connections: 100, is_writer: false }];
    with_answers(&mut replica, |answers| answers.sources = Some(vec![source()]));
    replica
}

fn source() -> Source {
    let host = "a:3306".to_owned();
    Source { host, runs: true, is_by_gtid: true, error: String::new() }
}

fn with_answers(server: &mut ServerFacts, change: impl FnOnce(&mut Answers)) {
    change(server.answers.as_mut().expect("answers"));
}

/// A cluster of these servers, whose writer the proxy replaces.
fn cluster(servers: Vec<ServerFacts>) -> Facts {
    let cluster = ClusterFacts {
        name: "shop".to_owned(),
        is_replication: true,
        fails_over: true,
        servers: servers.iter().map(|server| server.address.clone()).collect(),
    };
    Facts { clusters: vec![cluster], servers, ..alone(Vec::new()) }
}

fn alone(servers: Vec<ServerFacts>) -> Facts {
    let settings = Settings {
        max_allowed_packet: 67_108_864,
        ping_interval_ms: 120_000,
        applications: vec!["app".to_owned()],
        ..Settings::default()
    };
    Facts { settings, servers, ..Facts::default() }
}

/// Holds the findings, as `danger about: the beginning`, against these beginnings.
#[track_caller]
fn check(facts: &Facts, expected: &[&str]) {
    let found = examine(facts);
    let lines: Vec<String> =
        found.iter().map(|it| format!("{} {}: {}", it.danger, it.about, it.what)).collect();
    let are_right = lines.len() == expected.len()
        && lines.iter().zip(expected).all(|(line, begin)| line.starts_with(begin));
    assert!(are_right, "expected {expected:#?}, found {lines:#?}");
    assert!(found.iter().all(|it| !it.advice.is_empty()));
}

#[test]
fn nothing_is_said_of_a_cluster_that_is_as_it_should_be() {
    check(&cluster(vec![server("a:3306", &[]), replica("b:3306", &[])]), &[]);
    check(&alone(vec![server("a:3306", &[])]), &[]);
}

#[test]
fn a_server_that_does_not_answer_is_dangerous() {
    let mut silent = server("a:3306", &[]);
    silent.answers = Err("Connection refused".to_owned());
    check(&alone(vec![silent]), &["danger a:3306: it could not be asked: Connection refused"]);
}

#[test]
fn a_replica_that_takes_writes_is_dangerous() {
    let facts = cluster(vec![server("a:3306", &[]), replica("b:3306", &[("read_only", "OFF")])]);
    let expected = [
        "danger b:3306: it replicates, and read_only is OFF",
        "danger cluster shop: a:3306, b:3306 take writes",
    ];
    check(&facts, &expected);
    let words = [("read_only", "NO_LOCK_NO_ADMIN")];
    check(&cluster(vec![server("a:3306", &[]), replica("b:3306", &words)]), &[]);
}

#[test]
fn replication_that_has_stopped_is_dangerous_and_says_why() {
    let mut stopped = replica("b:3306", &[]);
    let error = "Duplicate entry".to_owned();
    with_answers(&mut stopped, |answers| {
        answers.sources = Some(vec![Source { runs: false, error, is_by_gtid: false, ..source() }]);
    });
    let expected = [
        "danger b:3306: its replication from a:3306 does not run (Duplicate entry)",
        "warning b:3306: it replicates by positions of files",
    ];
    check(&cluster(vec![server("a:3306", &[]), stopped]), &expected);
}

#[test]
fn what_a_failover_needs_is_asked_for_where_there_is_one() {
    let changed = [
        ("log_bin", "OFF"),
        ("log_replica_updates", "OFF"),
        ("gtid_mode", "OFF"),
        ("rpl_semi_sync_source_enabled", "OFF"),
    ];
    let mut facts = cluster(vec![server("a:3306", &changed)]);
    let expected = [
        "danger a:3306: it writes no binary log",
        "danger a:3306: it does not log what it replicates",
        "danger a:3306: gtid_mode is not ON: a lost writer of shop",
        "warning a:3306: it replicates without waiting for anybody",
    ];
    check(&facts, &expected);
    facts.clusters.iter_mut().for_each(|cluster| cluster.fails_over = false);
    check(&facts, &[]);
    facts.settings.has_causal_reads = true;
    check(&facts, &["warning a:3306: gtid_mode is not ON: causal reads"]);
}

#[test]
fn a_monitor_that_may_not_look_is_told() {
    let mut blind = server("a:3306", &[]);
    with_answers(&mut blind, |answers| answers.sources = None);
    check(&cluster(vec![blind.clone()]), &["warning a:3306: the monitor's account may not see"]);
    check(&alone(vec![blind]), &[]);
}

#[test]
fn what_accounts_lack_to_find_out_about_lost_commits_is_told() {
    let mut lax = server("a:3306", &[]);
    lax.lacking = vec![("lost COMMITs of `app`".to_owned(), "GRANT BINLOG REPLAY".to_owned())];
    check(&alone(vec![lax]), &["warning a:3306: lost COMMITs of `app`"]);
}

#[test]
fn applications_that_write_in_spite_of_read_only_are_told() {
    let mut lax = replica("b:3306", &[]);
    with_answers(&mut lax, |answers| answers.superusers = Some(vec!["app".to_owned()]));
    let facts = cluster(vec![server("a:3306", &[]), lax]);
    check(&facts, &["warning b:3306: account app of the application may write in spite"]);
}

#[test]
fn more_connections_than_a_server_takes_are_told() {
    let mut narrow =
        server("a:3306", &[("max_connections", "100"), ("max_user_connections", "50")]);
    narrow.pools.push(Pool { hostgroup: 1, max_connections: 20, is_writer: false });
    let expected = [
        "warning a:3306: it takes 100 connections, and this proxy alone may open 120",
        "warning a:3306: max_user_connections is 50",
    ];
    check(&alone(vec![narrow]), &expected);
    check(&alone(vec![server("a:3306", &[("max_user_connections", "0")])]), &[]);
}

#[test]
fn limits_of_servers_that_are_lower_than_the_proxys_are_told() {
    let changed = [
        ("max_allowed_packet", "16777216"),
        ("wait_timeout", "60"),
        ("max_prepared_stmt_count", "9999"),
    ];
    let mut facts = alone(vec![server("a:3306", &changed)]);
    facts.settings.statements_per_connection = 100;
    let expected = [
        "warning a:3306: wait_timeout is 60 s, and idle connections are pinged every 120 s",
        "note a:3306: max_prepared_stmt_count is 9999, and up to 10000",
        "note a:3306: max_allowed_packet is 16777216 there and 67108864 here",
    ];
    check(&facts, &expected);
    // What is closed here first is not closed there.
    facts.settings.idle_timeout_ms = 30_000;
    check(&facts, expected.get(1..).unwrap_or_default());
}

#[test]
fn a_writer_that_may_lose_what_it_committed_is_told() {
    let changed = [("innodb_flush_log_at_trx_commit", "2"), ("sync_binlog", "0")];
    let expected =
        ["warning a:3306: innodb_flush_log_at_trx_commit is 2", "warning a:3306: sync_binlog is 0"];
    check(&alone(vec![server("a:3306", &changed)]), &expected);
    // A replica can get it again.
    check(&cluster(vec![server("a:3306", &[]), replica("b:3306", &changed)]), &[]);
}

#[test]
fn habits_that_surprise_behind_a_proxy_are_told() {
    let changed = [
        ("init_connect", "SET @x = 1"),
        ("autocommit", "OFF"),
        ("skip_name_resolve", "OFF"),
        ("binlog_format", "STATEMENT"),
    ];
    let expected = [
        "warning a:3306: init_connect runs `SET @x = 1` once for each connection",
        "warning a:3306: binlog_format is STATEMENT",
        "note a:3306: autocommit is off",
        "note a:3306: skip_name_resolve is off",
    ];
    check(&alone(vec![server("a:3306", &changed)]), &expected);
}

#[test]
fn a_clock_that_differs_by_more_than_the_question_took_is_told() {
    let mut late = server("a:3306", &[]);
    with_answers(&mut late, |answers| {
        (answers.clock_ahead_ms, answers.clock_error_ms) = (-5_000, 100);
    });
    check(&alone(vec![late.clone()]), &["warning a:3306: its clock is 4900 ms behind"]);
    with_answers(&mut late, |answers| answers.clock_error_ms = 4_500);
    check(&alone(vec![late]), &[]);
}

#[test]
fn habits_of_replicas_are_told() {
    let changed = [("replica_net_timeout", "60"), ("event_scheduler", "ON")];
    let expected = [
        "note b:3306: it notices a source that has gone silent after 60 s",
        "note b:3306: event_scheduler is ON on a replica",
    ];
    check(&cluster(vec![server("a:3306", &[]), replica("b:3306", &changed)]), &expected);
}

#[test]
fn servers_that_differ_where_they_may_not_are_told() {
    let changed = [("lower_case_table_names", "1"), ("sql_mode", "ANSI")];
    let other = [("lower_case_table_names", "0"), ("sql_mode", "")];
    let expected = [
        "danger hostgroup 0: lower_case_table_names differs: `0` on b:3306; `1` on a:3306: names of",
        "warning hostgroup 0: sql_mode differs: `` on b:3306; `ANSI` on a:3306: statements mean",
    ];
    let servers = vec![server("a:3306", &changed), server("b:3306", &other)];
    check(&alone(servers), &expected);
}

#[test]
fn servers_that_are_taken_for_one_are_told() {
    let same = [("server_id", "7")];
    let facts = cluster(vec![server("a:3306", &same), replica("b:3306", &same)]);
    check(&facts, &["danger cluster shop: a:3306 and b:3306 have the same server_id (7)"]);
}

#[test]
fn a_replica_that_is_older_than_its_source_is_told() {
    let facts = cluster(vec![
        server("a:3306", &[("version", "9.7.0")]),
        replica("b:3306", &[("version", "8.4.2-debug")]),
    ]);
    check(&facts, &["warning cluster shop: b:3306 runs 8.4.2-debug, which is older than 9.7.0"]);
    let newer = replica("b:3306", &[("version", "8.4.9")]);
    check(&cluster(vec![server("a:3306", &[]), newer]), &[]);
}

#[test]
fn limits_of_the_machine_are_told() {
    let mut facts = alone(vec![server("a:3306", &[])]);
    facts.machine = MachineFacts {
        open_files_max: Some(1_024),
        open_files_needed: 20_000,
        somaxconn: Some(128),
        local_ports: Some(1_050),
        tracked: Some((900, 1_000)),
        memory: Some(1 << 30),
        memory_max: 2 << 30,
    };
    let expected = [
        "warning machine: a process may open 1024 files, and the configuration may need 20000",
        "warning machine: 1050 ports are there for connections to one server, and up to 100",
        "warning machine: the firewall tracks 900 connections of at most 1000",
        "warning machine: memory_max is 2147483648 bytes, and there are 1073741824",
        "note machine: net.core.somaxconn is 128",
    ];
    check(&facts, &expected);
}

#[test]
fn the_configuration_is_judged_by_itself() {
    let mut facts = alone(Vec::new());
    facts.warnings = vec!["p.toml holds a clear password".to_owned()];
    facts.settings.open_listeners = vec!["0.0.0.0:6033".to_owned()];
    facts.settings.unwatched = vec![(0, 1)];
    let expected = [
        "warning configuration: nobody watches who writes in hostgroups 0 and 1",
        "warning configuration: p.toml holds a clear password",
        "note configuration: clients of 0.0.0.0:6033 may log in without TLS",
    ];
    check(&facts, &expected);
}
