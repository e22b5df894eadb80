use std::collections::{BTreeMap, BTreeSet};

use trunkline_stats::DigestQuery;

use super::*;
use crate::sample;

fn written(digests_max: usize) -> String {
    metrics_text(&sample::report(DigestQuery::ALL), digests_max)
}

/// Name to value of every series; checks the form of each line.
fn series(text: &str) -> BTreeMap<&str, f64> {
    let mut found = BTreeMap::new();
    let mut metric = "";
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            metric = head.split(' ').next().expect("a name");
        }
        if line.starts_with('#') {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with(metric), "{name} is not under the head of {metric}");
        let value = value.parse().expect(line);
        assert!(found.insert(name, value).is_none(), "{name} is there twice");
    }
    found
}

#[test]
fn every_metric_of_the_manual_is_there_once() {
    let text = written(10);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let (types, others): (Vec<&str>, Vec<&str>) =
        types.partition(|line| line.starts_with("trunkline_"));
    assert!(others.len() > 100);
    let is_proxysqls = |line: &&str| line.starts_with("proxysql_") || line.starts_with("mysql_");
    assert!(others.iter().all(is_proxysqls));
    let tcp = trunkline_stats::TcpCounters::SPECS.iter();
    let tcp = tcp.chain(trunkline_stats::TcpServerCounters::SPECS);
    let counters = Counters::SPECS.iter().chain(ServerCounters::SPECS).chain(tcp);
    let counters: BTreeSet<String> =
        counters.map(|spec| format!("{} counter", spec.metric)).collect();
    let others =
        metrics::ALL.iter().map(|metric| format!("{} {}", metric.name, metric.kind.name()));
    let expected: BTreeSet<String> = others.chain(counters).collect();
    let found: BTreeSet<String> = types.iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(found, expected);
    assert_eq!(types.len(), expected.len());
}

/// Names that dashboards and alerts made for ProxySQL's own `/metrics` ask for, as hosters and the
/// project's documentation list them.
const ASKED_BY_DASHBOARDS: &str = "
    proxysql_access_denied_max_connections_total proxysql_access_denied_max_user_connections_total
    proxysql_access_denied_wrong_password_total proxysql_active_transactions
    proxysql_client_connections_connected proxysql_client_connections_hostgroup_locked
    proxysql_client_connections_non_idle proxysql_client_connections_total
    proxysql_com_backend_stmt_total proxysql_com_frontend_stmt_total proxysql_connpool_conns
    proxysql_connpool_conns_latency_us proxysql_connpool_conns_queries_total
    proxysql_connpool_conns_status proxysql_connpool_conns_total
    proxysql_connpool_data_bytes_total proxysql_connpool_get_conn_failure_total
    proxysql_connpool_get_conn_success_immediate_total
    proxysql_connpool_get_conn_success_latency_awareness_total
    proxysql_connpool_get_conn_success_total proxysql_connpool_memory_bytes mysql_error_total
    proxysql_mysql_max_connections proxysql_mysql_thread_workers
    proxysql_queries_backends_bytes_total
    proxysql_query_cache_count_get_total proxysql_query_cache_entries_total
    proxysql_query_cache_memory_bytes proxysql_questions_total
    proxysql_server_connections_connected proxysql_server_connections_total
    proxysql_slow_queries_total proxysql_stmt_cached proxysql_stmt_client_active
    proxysql_stmt_client_active_unique proxysql_stmt_server_active
    proxysql_stmt_server_active_unique
    proxysql_uptime_seconds_total proxysql_version_info";

#[test]
fn what_dashboards_ask_for_is_there() {
    let text = written(0);
    for name in ASKED_BY_DASHBOARDS.split_whitespace() {
        assert!(text.contains(&format!("\n# TYPE {name} ")), "{name}");
        let sample = [format!("\n{name} "), format!("\n{name}{{")];
        let has_sample = sample.iter().any(|sample| text.contains(sample.as_str()));
        // Errors have no series as long as there are none.
        assert!(has_sample || name == "mysql_error_total", "{name}");
    }
}

#[test]
fn series_have_the_numbers_of_the_report() {
    let text = written(0);
    let series = series(&text);
    let check = |name: &str, expected: f64| assert_eq!(series.get(name), Some(&expected), "{name}");
    check("trunkline_statements_total", 8_840.0);
    check("trunkline_worker_clients{worker=\"1\"}", 604.0);
    check("trunkline_client_refusals_total{cause=\"access_denied\"}", 2.0);
    check("trunkline_sessions_pinned{reason=\"temporary table\"}", 6.0);
    check("trunkline_rule_hits_total{rule=\"7\"}", 200.0);
    let tcp = "listener=\"0.0.0.0:3307\",hostgroup=\"30\",server=\"192.168.100.102:3306\"";
    check(&format!("trunkline_tcp_server_connections{{{tcp}}}"), 4.0);
    check(&format!("trunkline_tcp_server_connects_total{{{tcp},result=\"ok\"}}"), 21.0);
    check("trunkline_tcp_waiting{listener=\"0.0.0.0:3307\"}", 2.0);
    check("trunkline_command_latency_seconds_bucket{command=\"SELECT\",le=\"0.0005\"}", 8_000.0);
    check("trunkline_command_latency_seconds_bucket{command=\"SELECT\",le=\"0.001\"}", 8_038.0);
    check("trunkline_command_latency_seconds_count{command=\"SELECT\"}", 8_040.0);
    check("trunkline_cluster_writer_changes_total{cluster=\"shop\"}", 2.0);
    check("trunkline_cluster_writers{cluster=\"shop\"}", 1.0);
    check("trunkline_cluster_events_total{cluster=\"shop\",event=\"new_master\"}", 2.0);
    let member = "cluster=\"shop\",server=\"10.0.0.2:3306\"";
    check(&format!("trunkline_cluster_server_role{{{member},role=\"reader\"}}"), 1.0);
    check(&format!("trunkline_cluster_server_role{{{member},role=\"writer\"}}"), 0.0);
    check(&format!("trunkline_cluster_server_reach{{{member},reach=\"up\"}}"), 1.0);
    check(&format!("trunkline_cluster_server_lag_seconds{{{member}}}"), 2.0);
    check(&format!("trunkline_cluster_server_missing_transactions{{{member}}}"), 12.0);
    check(&format!("trunkline_cluster_server_behind_microseconds{{{member}}}"), 340_900.0);
    check(&format!("trunkline_cluster_server_warnings{{{member}}}"), 1.0);
    check("trunkline_binlog_stream_up{cluster=\"shop\"}", 1.0);
    check("trunkline_binlog_transactions_total{cluster=\"shop\"}", 90.0);
    check("trunkline_binlog_gaps_total{cluster=\"shop\"}", 1.0);
    check("trunkline_binlog_lag_microseconds{cluster=\"shop\"}", 1_500.0);
    check("trunkline_monitor_checks_total{check=\"ping\",outcome=\"failed\"}", 3.0);
    let server = "hostgroup=\"20\",server=\"192.168.100.101:3306\"";
    check(&format!("trunkline_server_statements_total{{{server}}}"), 4_000.0);
    check(&format!("trunkline_server_connections{{{server},state=\"idle\"}}"), 8.0);
    check(&format!("trunkline_server_state{{{server},state=\"ONLINE\"}}"), 1.0);
    check(&format!("trunkline_server_state{{{server},state=\"SHUNNED\"}}"), 0.0);
    check(&format!("trunkline_server_latency_seconds_bucket{{{server},le=\"+Inf\"}}"), 4_000.0);
    check(&format!("trunkline_server_latency_seconds_bucket{{{server},le=\"0.000128\"}}"), 0.0);
    check(&format!("trunkline_server_latency_seconds_bucket{{{server},le=\"0.000256\"}}"), 4_000.0);
    check(&format!("trunkline_server_connects_total{{{server},result=\"error\"}}"), 0.0);
}

#[test]
fn labels_are_escaped() {
    assert!(written(0).contains(r#"server="unix:/run/mysqld/\"odd\\name\".sock""#));
    let mut out = String::new();
    text::sample(&mut out, "name", "", &[("label", "a\nb")], "1");
    assert_eq!(out, "name{label=\"a\\nb\"} 1\n");
}

#[test]
fn digests_and_rules_are_bounded() {
    assert!(!written(0).contains("trunkline_digest_statements_total"));
    let three = written(3);
    let rows =
        three.lines().filter(|line| line.starts_with("trunkline_digest_time_seconds_total{"));
    assert_eq!(rows.count(), 3);
    let mut report = sample::report(DigestQuery::NONE);
    report.rule_hits = (0..5_000).map(|rule| (rule, u64::from(rule))).collect();
    let text = metrics_text(&report, 0);
    let rules = text.lines().filter(|line| line.starts_with("trunkline_rule_hits_total{"));
    assert_eq!(rules.count(), RULES_MAX);
    assert!(text.contains("trunkline_rule_hits_total{rule=\"4999\"} 4999"));
}

#[test]
fn seconds_are_exact_and_short() {
    let check = |us: u64, expected: &str| assert_eq!(text::seconds(us), expected);
    check(0, "0");
    check(64, "0.000064");
    check(1_500_000, "1.5");
    check(10_000_000, "10");
}

/// Fields of a message: number, and what is in it (a number's bytes, or those of its length).
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first().expect("a byte");
            *bytes = rest;
            number |= u64::from(first & 0x7F) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        number
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let len = match tag & 7 {
            0 => {
                found.push((tag >> 3, varint(&mut bytes).to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            _ => usize::try_from(varint(&mut bytes)).expect("a length"),
        };
        let (value, rest) = bytes.split_at(len);
        found.push((tag >> 3, value.to_vec()));
        bytes = rest;
    }
    found
}

#[test]
fn protobuf_has_native_histograms_beside_classic_ones() {
    let report = sample::report(DigestQuery::ALL);
    let body = metrics_body(&report, 0, Form::Protobuf);
    // A stream of messages behind their lengths reads as fields of no number that matter here:
    // take the lengths off.
    let mut families = Vec::new();
    let mut rest = body.as_slice();
    while !rest.is_empty() {
        let (mut len, mut shift) = (0_usize, 0);
        loop {
            let (first, after) = rest.split_first().expect("a byte");
            rest = after;
            len |= usize::from(first & 0x7F) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                break;
            }
        }
        let (family, after) = rest.split_at(len);
        families.push(fields(family));
        rest = after;
    }
    let named = |name: &str| {
        let of = |family: &&Vec<(u64, Vec<u8>)>| family.contains(&(1, name.as_bytes().to_vec()));
        families.iter().find(of).unwrap_or_else(|| panic!("no {name}"))
    };
    let whole = |value: u64| value.to_le_bytes().to_vec();
    assert!(named("trunkline_statements_total").contains(&(3, whole(0))));
    assert!(named("proxysql_connpool_conns").contains(&(3, whole(1))));
    let latency = named("trunkline_statement_latency_seconds");
    assert!(latency.contains(&(3, whole(4))));
    let (_, metric) = latency.iter().find(|(number, _)| *number == 4).expect("a series");
    let (_, histogram) = &fields(metric)[0];
    let histogram = fields(histogram);
    let count = report.latency.count();
    assert!(histogram.contains(&(1, whole(count))));
    // sint32: 2 is written as 4.
    assert!(histogram.contains(&(5, whole(4))), "schema 2");
    let is = |number: u64| histogram.iter().filter(move |(found, _)| *found == number);
    assert_eq!(is(3).count(), BUCKET_EXPONENTS.count(), "classic buckets");
    let zeros = is(7).map(|(_, value)| value.clone()).next().expect("zeros");
    let (mut sum, mut last) = (u64::from_le_bytes(zeros.try_into().expect("8 bytes")), 0_i64);
    for (_, delta) in is(13) {
        let delta = u64::from_le_bytes(delta.clone().try_into().expect("8 bytes"));
        let delta = (delta >> 1).cast_signed() ^ -(delta & 1).cast_signed();
        last += delta;
        sum += u64::try_from(last).expect("counts are not negative");
    }
    assert_eq!(sum, count, "every duration is in a native bucket");
    let lengths = is(12).map(|(_, span)| {
        let (_, length) =
            fields(span).into_iter().find(|(number, _)| *number == 2).expect("length");
        u64::from_le_bytes(length.try_into().expect("8 bytes"))
    });
    assert_eq!(lengths.sum::<u64>(), is(13).count() as u64);
}

#[test]
fn buckets_have_the_latest_trace_of_their_length_in_openmetrics() {
    let exemplar = |trace: &str, took_us, ended_unix_ms| trunkline_stats::Exemplar {
        trace: trace.to_owned(),
        span: "b7".to_owned(),
        took_us,
        ended_unix_ms,
    };
    let mut report = Report::default();
    report.process.exemplars = vec![
        exemplar("0a", 64, 5_000),
        exemplar("0b", 65, 5_000),
        exemplar("0c", 100, 6_007),
        exemplar("0d", u64::MAX / 2, 5_000),
    ];
    let bucket = |text: &str, bound: &str| {
        let name = "trunkline_statement_latency_seconds_bucket";
        let begin = format!("{name}{{le=\"{bound}\"}} 0");
        let line = text.lines().find_map(|line| line.strip_prefix(&begin)).map(str::to_owned);
        line.expect(bound)
    };
    let open = text::write_open(&families(&report, 0));
    assert_eq!(bucket(&open, "0.000064"), " # {trace_id=\"0a\",span_id=\"b7\"} 0.000064 5.000");
    assert_eq!(bucket(&open, "0.000128"), " # {trace_id=\"0c\",span_id=\"b7\"} 0.0001 6.007");
    assert_eq!(bucket(&open, "0.000256"), "");
    assert!(bucket(&open, "+Inf").contains("trace_id=\"0d\""));
    // Prometheus's own format has no room for them.
    assert!(!text::write(&families(&report, 0)).contains("trace_id"));
}

#[test]
fn openmetrics_tells_no_name_twice_and_ends() {
    let report = sample::report(DigestQuery::ALL);
    let body = metrics_body(&report, 10, Form::OpenMetrics);
    let text = String::from_utf8(body).expect("UTF-8");
    assert!(text.ends_with("\n# EOF\n"));
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let unique: BTreeSet<&str> = names.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(unique.len(), names.len());
    assert!(names.contains(&"trunkline_statements counter"));
    assert!(names.contains(&"proxysql_connpool_conns gauge"));
    assert!(names.contains(&"proxysql_connpool_conns_total unknown"));
    assert!(text.contains("\ntrunkline_statements_total 8840\n"));
    assert!(text.contains("le=\"1.048576\""));
}
