use std::collections::{BTreeMap, BTreeSet};

use trunkline_stats::DigestQuery;

use super::*;
use crate::sample;

fn text(digests_max: usize) -> String {
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
    let text = text(10);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let (types, others): (Vec<&str>, Vec<&str>) =
        types.partition(|line| line.starts_with("trunkline_"));
    assert!(others.len() > 20 && others.iter().all(|line| line.starts_with("proxysql_")));
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

#[test]
fn series_have_the_numbers_of_the_report() {
    let text = text(0);
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
    assert!(text(0).contains(r#"server="unix:/run/mysqld/\"odd\\name\".sock""#));
    let mut out = Exposition::default();
    out.sample("name", "", &[("label", "a\nb")], 1);
    assert_eq!(out.text, "name{label=\"a\\nb\"} 1\n");
}

#[test]
fn digests_and_rules_are_bounded() {
    assert!(!text(0).contains("trunkline_digest_statements_total"));
    let three = text(3);
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
    let check = |us: u64, expected: &str| assert_eq!(seconds(us), expected);
    check(0, "0");
    check(64, "0.000064");
    check(1_500_000, "1.5");
    check(10_000_000, "10");
}
