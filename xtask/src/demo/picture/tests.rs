//! The picture as a whole, and its parts.

use super::*;

fn server(name: &str, port: u16, hostgroup: u32, behind: u64) -> ServerView {
    ServerView {
        name: name.into(),
        address: format!("127.0.0.1:{port}"),
        hostgroup,
        task: "reader",
        position: Some(Position { gtid: "0-1-98".into(), behind }),
    }
}

fn live(servers: &[ServerView]) -> Live {
    let latency = Some(Latency { mean_us: 310.4, p95_us: 1_190 });
    let numbers =
        |rate| ServerLive { state: "ONLINE", rate, statements: 100, busy: 1, idle: 3, latency };
    let rates = [1_200.4, 900.0, 300.0];
    let servers = servers.iter().zip(rates);
    Live {
        clients: 14,
        rate: 2_400.4,
        latency,
        waiting: 2,
        pinned: 1,
        cpu_share: 0.074,
        errors: 0,
        servers: servers.map(|(server, rate)| (server.address.clone(), numbers(rate))).collect(),
    }
}

#[test]
fn the_picture_has_straight_edges_and_its_announced_size() {
    let servers = [
        server("primary #1", 13_001, 10, 0),
        server("replica #2", 13_002, 20, 0),
        server("replica #3", 13_003, 20, 34_567),
    ];
    let live = live(&servers);
    let view = View {
        up: Duration::from_secs(83),
        doing: "sysbench",
        address: "127.0.0.1:6033",
        live: &live,
        servers: &servers,
    };
    let lines = lines(&view);
    let picture = lines.join("\n");
    assert_eq!(lines.len(), LINES, "{picture}");
    assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{picture}");
    // Each joint has a wire or a box's edge below and above it.
    let rows: Vec<Vec<char>> = lines.iter().map(|line| line.chars().collect()).collect();
    let at = |row: usize, column: usize| rows[row].get(column).copied().unwrap_or(' ');
    for (row, cells) in rows.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            match cell {
                '┬' => assert_eq!(at(row + 1, column), '│', "{picture}"),
                '┴' => assert_eq!(at(row - 1, column), '│', "{picture}"),
                _ => {}
            }
        }
    }
    for text in [
        "14 clients   2,400 statements/s   mean 310 µs, p95 1.2 ms",
        "127.0.0.1:6033   CPU 7 %   2 waiting   1 pinned   0 errors",
        "│ 1,200/s ",
        "│ GTID 0-1-98          │",
        "│ 34,567 GTIDs behind  │",
        "██████        50 %",
    ] {
        assert!(picture.contains(text), "{text} is not in\n{picture}");
    }
    let plain = "sysbench: 14 clients, 2,400 statements/s, p95 1.2 ms; primary #1 1,200/s; \
        replica #2 900/s; replica #3 300/s";
    assert_eq!(brief(&view), plain);
}

#[test]
fn durations_have_a_fitting_unit() {
    for (us, text) in [
        (999, "999 µs"),
        (1_000, "1.0 ms"),
        (99_900, "99.9 ms"),
        (100_000, "100 ms"),
        (2_500_000, "2.5 s"),
    ] {
        assert_eq!(duration(us), text);
    }
}

#[test]
fn a_bar_fills_in_eighths() {
    assert_eq!(bar(0.0).trim_end(), "");
    assert_eq!(bar(1.0), "█".repeat(BAR));
    assert_eq!(bar(0.5 / 12.0).trim_end(), "▌");
}
