//! Two hours of a shop, the second of which has a search without its index and a replica that is
//! shunned. With `TRUNKLINE_REPORT`, the report is written to that path, for the manual's picture.

use trunkline_history::{DigestLine, Frame, History, Mark, ServerLine, Sketch, Sums};

use std::fs;

use super::*;

const BEGIN: u64 = 1_795_852_800;
const SEARCH: &str = "SELECT id , name FROM item WHERE name LIKE ? ORDER BY price LIMIT ?";

fn sums(count: u64, us: u64, errors: u64) -> Sums {
    let mut latency = Sketch::default();
    for (place, share) in [(8, 50), (11, 35), (18, 10), (45, 5)] {
        latency.add(us * place / 10, count * share / 100);
    }
    Sums { count, errors, sum_us: count * us, latency }
}

fn digest(digest: u64, text: &str, hostgroup: u32, sums: Sums, rows: u64) -> DigestLine {
    let rows_sent = rows * sums.count;
    DigestLine { digest, hostgroup, text: text.to_owned(), sums, rows_sent, rows_affected: 0 }
}

/// Ten seconds, `at` seconds after the begin.
fn frame(at: u64) -> Frame {
    let is_late = at >= 3_600 + 900;
    let wave = 40 + (at / 10 % 37) + (at / 10 % 11) * 3;
    let search =
        if is_late { sums(wave * 6, 9_000 + wave * 60, 0) } else { sums(wave * 6, 700, 0) };
    let mut digests = vec![
        digest(1, "SELECT * FROM item WHERE id = ?", 20, sums(wave * 60, 300, 0), 1),
        digest(2, SEARCH, 20, search, if is_late { 240 } else { 20 }),
        digest(
            3,
            "UPDATE stock SET amount = amount - ? WHERE item = ?",
            10,
            sums(wave * 4, 900, 1),
            0,
        ),
        digest(4, "INSERT INTO basket VALUES (...)", 10, sums(wave * 5, 650, 0), 0),
    ];
    if at >= 3_600 {
        digests.push(digest(9, "SELECT COUNT(*) FROM audit", 20, sums(2, 80_000, 0), 1));
    }
    let mut all = Sums::default();
    digests.iter().for_each(|line| all.merge(&line.sums));
    let server = |hostgroup, number: u32, state| ServerLine {
        hostgroup,
        address: format!("10.0.0.{number}:3306"),
        state,
        sums: sums(wave * 30, if hostgroup == 20 && is_late { 2_400 } else { 420 }, 0),
        ..ServerLine::default()
    };
    let is_shunned = (3_600 + 900..3_600 + 1_500).contains(&at);
    Frame {
        begin: BEGIN + at,
        seconds: 10,
        all,
        queue: if is_late { sums(wave / 2, 4_000, 0) } else { Sums::default() },
        clients: 200 + wave,
        servers: vec![server(10, 1, 0), server(20, 2, 0), server(20, 3, u8::from(is_shunned))],
        digests,
        refusals: if is_shunned {
            vec![("statement: queue_full".to_owned(), 3)]
        } else {
            Vec::new()
        },
        marks: match at {
            4_490 => vec![Mark { at: BEGIN + at, what: "configuration 7 in force".to_owned() }],
            _ => Vec::new(),
        },
        ..Frame::default()
    }
}

#[test]
fn a_report_says_what_changed_and_why() {
    let folder = std::env::temp_dir().join(format!("trunkline-report-{}", std::process::id()));
    drop(fs::remove_dir_all(&folder));
    let mut history = History::open(&folder, 100_000_000).expect("a folder");
    for at in (0..7_200).step_by(10) {
        history.add(&frame(at)).expect("written");
    }
    let args = ReportArgs {
        config: None,
        data_dir: None,
        history: Some(folder.clone()),
        from: "2026-11-28 09:00".to_owned(),
        to: "2026-11-28T10:00:00Z".to_owned(),
        compare: None,
        output: Some(folder.join("report.html")),
    };
    assert_eq!(time::parse(&args.from, 0).expect("a time"), BEGIN + 3_600);
    assert!(run(&args).is_ok());
    let html = fs::read_to_string(folder.join("report.html")).expect("written");
    if let Some(path) = std::env::var_os("TRUNKLINE_REPORT") {
        fs::write(path, &html).expect("written");
    }
    for told in [
        "2026-11-28 09:00:00 to 2026-11-28 10:00:00 UTC",
        "compared with 2026-11-28 08:00:00 to 2026-11-28 09:00:00",
        "1 statement got slower",
        "each statement sends",
        "10.0.0.3:3306 was SHUNNED at some time",
        "configuration 7 in force",
        "SELECT COUNT(*) FROM audit",
        "statement: queue_full",
        "hostgroup 20: latency, 95 %",
    ] {
        assert!(html.contains(told), "{told}");
    }
    assert!(!html.contains("The history has"), "all of it is known");
    assert!(!html.contains("NaN") && !html.contains("inf "), "{html}");
    // Whole days are read at a coarser resolution, and what is not known is said.
    let day = ReportArgs { from: "2026-11-28".to_owned(), to: "2026-11-29".to_owned(), ..args };
    assert!(run(&day).is_ok());
    let html = fs::read_to_string(folder.join("report.html")).expect("written");
    assert!(html.contains("The history has 8 % of it"), "what is missing is said");
    let none = ReportArgs { from: "2026-11-29".to_owned(), to: "2026-11-28".to_owned(), ..day };
    assert!(run(&none).is_err());
    fs::remove_dir_all(&folder).expect("removed");
}
