use std::{fs, path::Path};

use trunkline_stats::DigestQuery;

use super::*;
use crate::sample;

fn check_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    if std::env::var_os("TRUNKLINE_UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder of golden texts");
        fs::write(&path, text).expect("a writable golden text");
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        golden == text,
        "the text differs from tests/data/{name}; if it should, run with TRUNKLINE_UPDATE=1:\n{text}"
    );
}

#[test]
fn a_full_report_reads_well() {
    check_golden("status.txt", &status_text(&sample::report(DigestQuery::ALL)));
}

#[test]
fn a_fresh_process_reads_well() {
    let mut report =
        Report { process: sample::report(DigestQuery::NONE).process, ..Report::default() };
    report.process.configuration.last_error = Some("line 7: unknown key `wieght`".into());
    check_golden("status-fresh.txt", &status_text(&report));
}

#[test]
fn no_line_is_too_wide_and_nothing_steers_the_terminal() {
    let mut report = sample::report(DigestQuery::ALL);
    for server in &mut report.servers {
        server.hostgroup = u32::MAX;
        server.state = trunkline_topology::ServerState::OfflineSoft;
        server.address = "name.".repeat(60);
        server.connections_max = u64::MAX;
    }
    report.process.listen = vec!["[::1]:6033".into(); 40];
    report.pins.insert("p".repeat(300), 1);
    let text = status_text(&report);
    for line in text.lines() {
        assert!(line.chars().count() <= COLUMNS_MAX, "{line}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}
