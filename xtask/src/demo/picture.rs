//! The picture of the topology: applications, the proxy, the primary and its replicas.

use std::time::Duration;

use super::cluster::Position;
use super::live::{Latency, Live, ServerLive};
use super::screen::grouped;

/// Characters of the widest line.
pub const WIDTH: usize = 78;
/// Lines of the picture.
pub const LINES: usize = 20;

/// A server's box with its frame, in characters.
const BOX: usize = 24;
/// Between two boxes.
const GAP: usize = 2;
/// Inside the wide boxes.
const WIDE: usize = 3 * BOX + 2 * GAP - 2;
/// Columns of the wires, counted inside a wide box's frame.
const WIRES: [usize; 3] = [BOX / 2 - 1, BOX + GAP + BOX / 2 - 1, 2 * (BOX + GAP) + BOX / 2 - 1];
/// The column of the wire in a server's box.
const MIDDLE: usize = WIRES[0];
/// Cells of a server's share bar.
const BAR: usize = 12;

/// Everything that the picture shows.
#[derive(Debug)]
pub struct View<'a> {
    /// Since the start of the proxy.
    pub up: Duration,
    /// What goes on at the moment.
    pub doing: &'a str,
    /// Where the proxy listens.
    pub address: &'a str,
    /// The proxy's numbers.
    pub live: &'a Live,
    /// Name, address, role on the wire, and position of each server, the primary first.
    pub servers: &'a [ServerView],
}

/// One server of the picture.
#[derive(Clone, Debug, Default)]
pub struct ServerView {
    /// `primary #1`.
    pub name: String,
    /// `127.0.0.1:3306`.
    pub address: String,
    /// Its hostgroup.
    pub hostgroup: u32,
    /// What that hostgroup takes.
    pub task: &'static str,
    /// Where it is in the primary's log; `None` when it does not answer.
    pub position: Option<Position>,
}

/// The picture, line by line.
pub fn lines(view: &View<'_>) -> Vec<String> {
    let live = view.live;
    let seconds = view.up.as_secs();
    let up = format!("{:02}:{:02}", seconds / 60, seconds % 60);
    let mut lines =
        vec![String::new(), fit(&format!("  Trunkline demo  {up}  {}", view.doing), WIDTH)];
    let clients = format!(
        "{} clients   {} statements/s   {}",
        grouped(live.clients),
        per_second(live.rate),
        long_latency(live.latency),
    );
    let proxy = format!(
        "{}   CPU {:.0} %   {} waiting   {} pinned   {} errors",
        view.address,
        live.cpu_share * 100.0,
        grouped(live.waiting),
        grouped(live.pinned),
        grouped(live.errors),
    );
    wide_box(&mut lines, "applications", &clients, &[], &WIRES[1..2]);
    lines.push(format!("   {}", wires(&[(WIRES[1], '│')])));
    wide_box(&mut lines, "trunkline", &proxy, &WIRES[1..2], &WIRES);
    lines.push(format!("   {}", labels(view)));
    let boxes: Vec<Vec<String>> =
        view.servers.iter().map(|server| server_box(server, live)).collect();
    let height = boxes.first().map_or(0, Vec::len);
    for row in 0..height {
        let cells: Vec<&str> =
            boxes.iter().filter_map(|cells| cells.get(row).map(String::as_str)).collect();
        lines.push(format!("  {}", cells.join(&" ".repeat(GAP))));
    }
    lines
}

/// One line that says the most important of it, for output that is not redrawn.
pub fn brief(view: &View<'_>) -> String {
    let live = view.live;
    let mut line = format!(
        "{}: {} clients, {} statements/s",
        view.doing,
        grouped(live.clients),
        per_second(live.rate)
    );
    if let Some(latency) = live.latency {
        line.push_str(&format!(", p95 {}", duration(latency.p95_us)));
    }
    for server in view.servers {
        let rate = live.servers.get(&server.address).map_or(0.0, |live| live.rate);
        line.push_str(&format!("; {} {}/s", server.name, per_second(rate)));
    }
    line
}

fn wide_box(lines: &mut Vec<String>, name: &str, text: &str, above: &[usize], below: &[usize]) {
    lines.push(format!("  ┌{}┐", edge(&format!(" {name} "), above, '┴')));
    lines.push(format!("  │{}│", centred(text)));
    lines.push(format!("  └{}┘", edge("", below, '┬')));
}

/// A box's edge with a name at its left and wires that end in it.
fn edge(name: &str, wires: &[usize], joint: char) -> String {
    let name: Vec<char> = name.chars().collect();
    let cell = |column: usize| {
        let letter = column.checked_sub(2).and_then(|index| name.get(index));
        match letter {
            Some(letter) => *letter,
            None if wires.contains(&column) => joint,
            None => '─',
        }
    };
    (0..WIDE).map(cell).collect()
}

fn wires(at: &[(usize, char)]) -> String {
    let end = at.iter().map(|(column, _)| column + 1).max().unwrap_or(0);
    let cell = |column| {
        let wire = at.iter().find(|(wire, _)| *wire == column);
        wire.map_or(' ', |(_, sign)| *sign)
    };
    (0..end).map(cell).collect()
}

/// The wires to the servers, each with the statements that go over it.
fn labels(view: &View<'_>) -> String {
    let mut line = String::new();
    for (wire, server) in WIRES.iter().zip(view.servers) {
        let rate = view.live.servers.get(&server.address).map_or(0.0, |live| live.rate);
        line = fit(&line, *wire);
        line.push_str(&format!("│ {}/s", per_second(rate)));
    }
    line
}

fn server_box(server: &ServerView, live: &Live) -> Vec<String> {
    let unknown = ServerLive::default();
    let numbers = live.servers.get(&server.address).unwrap_or(&unknown);
    let total: f64 = live.servers.values().map(|server| server.rate).sum();
    let share = if total > 0.0 { numbers.rate / total } else { 0.0 };
    let position = match &server.position {
        None => "does not answer".to_owned(),
        Some(position) if position.behind == 0 => format!("GTID {}", position.gtid),
        Some(position) => format!("{} GTIDs behind", grouped(position.behind)),
    };
    let (name, state) = (server.name.as_str(), numbers.state);
    let inside = BOX - 4;
    let rows = [
        format!("{name}{state:>0$}", inside.saturating_sub(name.len())),
        format!("hostgroup {}, {}", server.hostgroup, server.task),
        server.address.clone(),
        format!("{} {:>3.0} %", bar(share), share * 100.0),
        format!("{} statements", grouped(numbers.statements)),
        format!("{} of {} conns busy", numbers.busy, numbers.busy + numbers.idle),
        numbers.latency.map_or_else(
            || "no statements".to_owned(),
            |latency| format!("p95 {}", duration(latency.p95_us)),
        ),
        position,
    ];
    let line = |sign: char| -> String {
        let cell = |column| if column == MIDDLE { sign } else { '─' };
        (0..BOX - 2).map(cell).collect()
    };
    let mut lines = vec![format!("┌{}┐", line('┴'))];
    lines.extend(rows.iter().map(|row| format!("│ {} │", fit(row, inside))));
    lines.push(format!("└{}┘", line('─')));
    lines
}

/// A share of the statements as a bar.
fn bar(share: f64) -> String {
    const EIGHTHS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the bar's length"
    )]
    let filled = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let cell = |index: usize| {
        let eighths = filled.saturating_sub(index * 8).min(8);
        EIGHTHS.get(eighths).copied().unwrap_or(' ')
    };
    (0..BAR).map(cell).collect()
}

/// Exactly so many characters: cut with an ellipsis, or filled with spaces.
fn fit(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length > width {
        let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
        cut.push('…');
        return cut;
    }
    format!("{text}{}", " ".repeat(width - length))
}

fn centred(text: &str) -> String {
    let room = WIDE.saturating_sub(text.chars().count());
    fit(&format!("{}{text}", " ".repeat(room / 2)), WIDE)
}

fn per_second(rate: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and a saturated one is a large number all the same"
    )]
    let whole = rate.round() as u64;
    grouped(whole)
}

fn long_latency(latency: Option<Latency>) -> String {
    latency.map_or_else(
        || "no statements".to_owned(),
        |latency| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a mean of durations is not negative"
            )]
            let mean = latency.mean_us as u64;
            format!("mean {}, p95 {}", duration(mean), duration(latency.p95_us))
        },
    )
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..100_000 => format!("{:.1} ms", us as f64 / 1e3),
        100_000..1_000_000 => format!("{} ms", us / 1_000),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests;
