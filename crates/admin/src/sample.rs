//! A report with something in every place, for tests.

use std::collections::BTreeMap;

use trunkline_stats::{
    AdminFigures, CacheFigures, CacheSums, CatalogFigures, ClientRefusal, Configuration,
    DigestQuery, Holders, HttpFigures, MemoryFigures, Process, Report, ServerGauges, Settings,
    StatementSample, TcpCounters, TcpListenerRow, TcpServerCounters, TcpServerRow, WorkerGauges,
    WorkerStats,
    checks::{CheckKind, CheckRow, CheckSums},
    topology::{ClusterRow, EventRow, EventSum, MemberRow, MonitorFigures, StreamRow, Topology},
};
use trunkline_topology::{RefusalCause, ServerState};

const COMMANDS: &[&str] = &["INSERT", "SELECT", "UPDATE", "UNKNOWN"];

/// The merged report of two workers.
pub(crate) fn report(digests: DigestQuery) -> Report {
    let mut report = Report::merge(vec![worker(0, digests), worker(1, digests)]);
    report.process = Process {
        monitor: MonitorFigures {
            clusters: topology().clusters,
            events: vec![EventSum { cluster: "shop".into(), event: "new_master".into(), count: 2 }],
            checks: vec![CheckSums { kind: "ping".into(), ok: 120, failed: 3 }],
            streams: vec![StreamRow {
                cluster: "shop".into(),
                server: "10.0.0.1:3306".into(),
                position: "0-1-100".into(),
                transactions: 90,
                gaps: 1,
                lag_us: 1_500,
                ..StreamRow::default()
            }],
        },
        certificate_not_after_unix_sec: 2_000_000_000,
        version: "0.1.0".into(),
        process_id: 4242,
        started_unix_sec: 1_700_000_000,
        now_unix_sec: 1_700_007_260,
        workers: 2,
        listen: vec!["0.0.0.0:6033".into(), "unix:/run/trunkline/trunkline.sock".into()],
        configuration: Configuration {
            source: "/etc/trunkline.toml".into(),
            version: 3,
            applied_unix_sec: 1_700_006_960,
            users: 2,
            server_users: 0,
            rules: 4,
            clients_max: 10_000,
            wait_timeout_ms: 28_800_000,
            last_error: None,
        },
        cache: CacheFigures {
            entries: 3,
            bytes: 4_096,
            bytes_max: 268_435_456,
            purged: 2,
            ..CacheFigures::default()
        },
        catalog: CatalogFigures::default(),
        memory: MemoryFigures {
            max: 1_073_741_824,
            total: 786_432,
            charged: [("prepared".to_owned(), 70_000), ("statements".to_owned(), 500_000)].into(),
            waiting: 1,
            waits: 5,
            refusals: [("greediest".to_owned(), 2)].into(),
            freed: 0,
        },
        admin: AdminFigures { admins: 1, denied: 2, ..AdminFigures::default() },
        http: HttpFigures { connections: 1, ..HttpFigures::default() },
        ..Process::default()
    };
    report
}

fn worker(worker: u32, digests: DigestQuery) -> Report {
    let settings = Settings { digests_max: 12, commands: COMMANDS, hash_seed: 1 };
    let mut stats = WorkerStats::new(settings);
    stats.counters.clients_accepted = 1_204;
    stats.counters.clients_disconnected = 600;
    stats.counters.client_refused(ClientRefusal::AccessDenied);
    stats.refused(RefusalCause::NoneOnline);
    *stats.cache_mut(7) = CacheSums { hits: 90, misses: 10, ..CacheSums::default() };
    for round in 0..4_000_u64 {
        let sample = StatementSample {
            username: "app",
            schema: b"shop",
            bytes_in: 120,
            bytes_out: 4_096,
            now_unix_sec: 1_700_000_000 + round,
            ..StatementSample::default()
        };
        stats.statement(&StatementSample {
            digest: Some(0xABCD),
            digest_text: b"SELECT c FROM sbtest WHERE id=?",
            hostgroup: 20,
            kind: 1,
            server: Some(1 + usize::from(round % 2 == 0)),
            latency_us: 180 + round % 40,
            rows_sent: 1,
            ..sample
        });
        if round % 10 == 0 {
            stats.statement(&StatementSample {
                digest: Some(0x1234),
                digest_text:
                    b"UPDATE sbtest SET k=k+? WHERE id=? AND a_long_column_name IN (?,?,?,...)",
                username: "a-service-with-a-long-name",
                hostgroup: 10,
                kind: 2,
                server: Some(0),
                latency_us: 2_000 + round,
                queue_us: round / 4,
                rows_affected: 1,
                error: (round % 1_000 == 0).then_some(1213),
                ..sample
            });
        }
        if round % 200 == 0 {
            stats.statement(&StatementSample {
                digest: Some(round),
                digest_text: b"SELECT \x1b[31m ?",
                hostgroup: 10,
                kind: 1,
                server: Some(0),
                latency_us: if round == 0 { 1_200_000 } else { 900 },
                ..sample
            });
        }
    }
    let mut report = stats.report(gauges(worker), digests);
    report.tcp = vec![listener(worker)];
    report
}

fn listener(worker: u32) -> TcpListenerRow {
    let server = TcpServerRow {
        hostgroup: 30,
        address: "192.168.100.102:3306".to_owned(),
        state: ServerState::Online,
        weight: 1,
        connections: 2,
        counters: TcpServerCounters {
            connected: 10 + u64::from(worker),
            connect_failures: 1,
            bytes_to_server: 1_000,
            bytes_to_client: 9_000_000,
            reads: 70,
        },
    };
    TcpListenerRow {
        listener: "0.0.0.0:3307".to_owned(),
        hostgroup: 30,
        connections: 3,
        waiting: 1,
        connections_max: 500,
        counters: TcpCounters { accepted: 20, refused: 2, ..TcpCounters::default() },
        servers: vec![server],
    }
}

fn gauges(worker: u32) -> WorkerGauges {
    let server = |slot: usize, hostgroup: u32, address: &str, state| ServerGauges {
        slot,
        hostgroup,
        address: address.to_owned(),
        state,
        connections_max: 1_000,
        connecting: 1,
        idle: 4,
        leased: 2,
        shared: 0,
        resetting: 1,
    };
    WorkerGauges {
        clients_encrypted: 2,
        clients_half_open: 4,
        server_connections_encrypted: 1,
        worker,
        servers: vec![
            server(0, 10, "db-primary.prod.example.internal:3306", ServerState::Online),
            server(1, 20, "192.168.100.101:3306", ServerState::Online),
            server(2, 20, "unix:/run/mysqld/\"odd\\name\".sock", ServerState::Shunned),
        ],
        pinned: 3,
        client_stmts: 5,
        server_stmts: 7,
        // Both workers have the first two.
        texts: [(1, true, false), (2, true, true), (10 + u64::from(worker), false, true)]
            .map(|(hash, clients, servers)| (hash, Holders { clients, servers }))
            .into_iter()
            .collect(),
        pins: BTreeMap::from([("temporary table".to_owned(), 3), ("lock".to_owned(), 1)]),
        waiting: BTreeMap::from([(10, 2), (20, 0)]),
        held: BTreeMap::from([(0, 1)]),
        limits: BTreeMap::new(),
        mirrors_running: 0,
        mirrors_waiting: 0,
        rule_hits: BTreeMap::from([(1, 5), (7, 100)]),
        tenants: BTreeMap::new(),
        rule_undecided: BTreeMap::from([(7, 3)]),
    }
}

/// A cluster of two servers, of which one has just become the writer.
pub fn topology() -> Topology {
    let writer = MemberRow {
        address: "10.0.0.1:3306".to_owned(),
        role: "writer".to_owned(),
        reach: "up".to_owned(),
        writable: Some(true),
        version: "10.11.19-MariaDB".to_owned(),
        ..MemberRow::default()
    };
    let reader = MemberRow {
        address: "10.0.0.2:3306".to_owned(),
        role: "reader".to_owned(),
        writable: Some(false),
        source: Some("10.0.0.1:3306".to_owned()),
        lag_sec: Some(2),
        missing: Some(12),
        behind_us: Some(340_900),
        gtid: "0-1-77".to_owned(),
        warnings: vec!["report_host is not set".to_owned()],
        ..writer.clone()
    };
    let cluster = ClusterRow {
        name: "shop".to_owned(),
        kind: "replication".to_owned(),
        servers: vec![writer, reader],
        ..ClusterRow::default()
    };
    let event = EventRow {
        id: 1,
        cluster: "shop".to_owned(),
        event: "new_master".to_owned(),
        server: "10.0.0.1:3306".to_owned(),
        ..EventRow::default()
    };
    Topology { clusters: vec![cluster], events: vec![event] }
}

/// Checks of a server, of which the last one failed.
pub fn checks(kind: CheckKind) -> Vec<CheckRow> {
    let told = match kind {
        CheckKind::Connect | CheckKind::Ping => 0,
        CheckKind::ReadOnly | CheckKind::ReplicationLag => 1,
        CheckKind::GroupReplication => 3,
        CheckKind::Galera => 8,
    };
    let row = |started_us, error: Option<&str>| CheckRow {
        kind,
        address: "10.0.0.1:3306".to_owned(),
        started_us,
        took_us: if error.is_none() { 250 } else { 0 },
        told: if error.is_none() { vec!["1".to_owned(); told] } else { Vec::new() },
        error: error.map(str::to_owned),
    };
    vec![row(1_700_000_000_000_000, None), row(1_700_000_001_000_000, Some("no answer"))]
}
