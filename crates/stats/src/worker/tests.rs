use proptest::prelude::*;

use super::*;
use crate::digest::DigestOrder;

const COMMANDS: &[&str] = &["INSERT", "SELECT", "UNKNOWN"];

fn stats() -> WorkerStats {
    WorkerStats::new(Settings { digests_max: 100, commands: COMMANDS, hash_seed: 1 })
}

fn server(slot: usize, hostgroup: u32) -> ServerGauges {
    ServerGauges {
        slot,
        hostgroup,
        address: format!("10.0.0.{slot}:3306"),
        state: ServerState::Online,
        connections_max: 100,
        connecting: 0,
        idle: 2,
        leased: 1,
        shared: 0,
        resetting: 0,
    }
}

fn gauges(worker: u32) -> WorkerGauges {
    WorkerGauges {
        pinned: 1,
        client_stmts: 2,
        server_stmts: 3,
        texts: crate::StmtTexts::default(),
        clients_encrypted: 2,
        clients_half_open: 4,
        server_connections_encrypted: 1,
        worker,
        servers: vec![server(1, 20), server(0, 10)],
        pins: BTreeMap::from([("temporary table".to_owned(), 1)]),
        waiting: BTreeMap::from([(10, u64::from(worker))]),
        held: BTreeMap::from([(10, 1)]),
        limits: BTreeMap::new(),
        tenants: BTreeMap::new(),
        mirrors_running: 0,
        mirrors_waiting: 0,
        rule_hits: BTreeMap::from([(5, 2)]),
        rule_undecided: BTreeMap::from([(5, 1)]),
    }
}

#[test]
fn a_statement_counts_everywhere_it_belongs() {
    let mut stats = stats();
    stats.counters.clients_accepted = 3;
    stats.counters.clients_disconnected = 1;
    stats.statement(&StatementSample {
        digest: Some(9),
        digest_text: b"INSERT INTO t VALUES (?)",
        username: "app",
        kind: 0,
        server: Some(1),
        latency_us: 700,
        queue_us: 30,
        rows_affected: 1,
        bytes_in: 40,
        bytes_out: 11,
        error: Some(1062),
        ..StatementSample::default()
    });
    let report = stats.report(gauges(0), DigestQuery::ALL);
    assert_eq!(report.clients_connected(), 2);
    let counters = report.counters;
    assert_eq!((counters.statements, counters.statement_errors, counters.rows_affected), (1, 1, 1));
    assert_eq!((counters.client_bytes_received, counters.client_bytes_sent), (40, 11));
    assert_eq!(report.queue_wait.max_us(), 30);
    assert_eq!(report.latency.max_us(), 700);
    assert_eq!((report.commands[0].command.as_str(), report.commands.len()), ("INSERT", 1));
    let [idle, busy] = report.servers.as_slice() else { panic!("two servers") };
    assert_eq!((idle.hostgroup, idle.counters.statements), (10, 0));
    assert_eq!((busy.counters.statements, busy.counters.errors), (1, 1));
    assert_eq!(busy.latency.max_us(), 700);
    assert_eq!(report.digests[0].digest_text, "INSERT INTO t VALUES (?)");
}

#[test]
fn a_statement_that_the_proxy_answered_counts_for_no_server() {
    let mut stats = stats();
    stats.statement(&StatementSample { latency_us: 5, ..StatementSample::default() });
    let report = stats.report(gauges(0), DigestQuery::ALL);
    assert_eq!(report.counters.statements, 1);
    assert!(report.servers.iter().all(|server| server.counters == ServerCounters::default()));
    assert!(report.digests.is_empty());
}

#[test]
fn a_slot_given_to_another_server_begins_at_0() {
    let mut stats = stats();
    stats.server_mut(1).connect_ok = 4;
    stats.reset_server(1);
    stats.reset_server(77);
    assert_eq!(*stats.server_mut(1), ServerCounters::default());
}

#[test]
fn workers_gauges_are_summed_and_the_worse_state_is_shown() {
    let stats = stats();
    let mut second = gauges(3);
    second.servers[0].state = ServerState::Shunned;
    let reports =
        vec![stats.report(gauges(0), DigestQuery::NONE), stats.report(second, DigestQuery::NONE)];
    let merged = Report::merge(reports);
    assert_eq!(merged.workers.iter().map(|row| row.worker).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(merged.pins["temporary table"], 2);
    assert_eq!((merged.waiting[&10], merged.held[&10], merged.rule_hits[&5]), (3, 2, 4));
    let [writer, reader] = merged.servers.as_slice() else { panic!("two servers") };
    assert_eq!((writer.connections.idle, writer.connections_max), (4, 100));
    assert_eq!((writer.state, reader.state), (ServerState::Online, ServerState::Shunned));
}

#[test]
fn a_reader_that_wants_few_digests_gets_the_heaviest() {
    let mut stats = stats();
    for digest in 1..=20 {
        stats.statement(&StatementSample {
            digest: Some(digest),
            digest_text: b"SELECT ?",
            latency_us: digest,
            ..StatementSample::default()
        });
    }
    let query = DigestQuery { order: DigestOrder::SumTime, rows_max: 2 };
    let report = stats.report(gauges(0), query);
    assert_eq!(report.digests.iter().map(|row| row.digest).collect::<Vec<_>>(), [20, 19]);
    assert_eq!(report.digest_rows(), 20);
}

prop_compose! {
    fn any_sample()(
        digest in 0_u64..20,
        names in 0_usize..3,
        kind in 0_usize..3,
        server in prop::option::of(0_usize..2),
        latency_us in 0_u64..1 << 36,
        waited in any::<bool>(),
        rows in any::<u64>(),
        error in prop::option::of(any::<u16>()),
        now_unix_sec in 0_u64..1 << 32,
    ) -> StatementSample<'static> {
        StatementSample {
            digest: Some(digest),
            digest_text: b"SELECT ?",
            username: ["", "app", "admin"][names],
            schema: [b"".as_slice(), b"a", b"\xFF"][names],
            hostgroup: if digest % 2 == 0 { 10 } else { 20 },
            kind,
            server,
            latency_us,
            queue_us: if waited { latency_us } else { 0 },
            rows_sent: rows,
            rows_affected: rows,
            bytes_in: 10,
            bytes_out: 20,
            error,
            now_unix_sec,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn two_halves_merged_equal_the_whole(
        samples in prop::collection::vec((any_sample(), any::<bool>()), 0..60),
    ) {
        let (mut left, mut right, mut whole) = (stats(), stats(), stats());
        for (sample, on_left) in &samples {
            let half = if *on_left { &mut left } else { &mut right };
            half.statement(sample);
            whole.statement(sample);
        }
        let report = |stats: &WorkerStats| {
            let gauges = WorkerGauges { servers: gauges(0).servers, ..WorkerGauges::default() };
            stats.report(gauges, DigestQuery::ALL)
        };
        let (left, right) = (report(&left), report(&right));
        let mut merged = Report::merge(vec![left.clone(), right.clone()]);
        let mut expected = Report::merge(vec![report(&whole), report(&stats())]);
        // One line a worker is not a sum.
        merged.workers.clear();
        expected.workers.clear();
        prop_assert_eq!(&merged, &expected);
        let mut swapped = Report::merge(vec![right, left]);
        swapped.workers.clear();
        prop_assert_eq!(swapped, merged);
    }
}

#[test]
fn statements_beyond_long_query_time_are_slow_and_commands_are_told_apart() {
    let mut stats = WorkerStats::new(Settings { digests_max: 10, commands: &["A"], hash_seed: 1 });
    let run = |stats: &mut WorkerStats, latency_us| {
        stats.statement(&StatementSample { latency_us, ..StatementSample::default() });
    };
    run(&mut stats, 5_000_000);
    stats.slow_above_us = 1_000;
    for latency_us in [0, 1_000, 1_001, 9_999] {
        run(&mut stats, latency_us);
    }
    assert_eq!(stats.counters.statements_slow, 2);
    for kind in [0x02, 0x03, 0x16, 0x17, 0x17, 0xFA, 0x19, 0x0E] {
        stats.counters.command(Some(kind));
    }
    stats.counters.command(None);
    let counters = &stats.counters;
    assert_eq!((counters.commands, counters.schemas_chosen), (9, 1));
    let stmts = (counters.stmts_prepared, counters.stmts_executed, counters.stmts_closed);
    assert_eq!(stmts, (1, 3, 1));
}
