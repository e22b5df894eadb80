//! The table, and the picture of clients' pauses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Wishes;
use super::fault::Fault;
use super::load::{Client, Seen, Truth};
use crate::stand::Kind;

/// A client's row in the picture, and the picture's width, in its units.
const ROW: usize = 3;
const WIDTH: f64 = 900.0;
/// What is above the rows of a fault, for its title.
const TITLE: usize = 26;
/// What is shown before a fault, ms.
const BEFORE_MS: f64 = 200.0;

/// What came of one fault on servers of one family.
pub struct Line {
    kind: Kind,
    fault: Fault,
    /// The longest pause of any client in each round.
    pauses: Vec<Duration>,
    /// The longest pause of each client in each round.
    all: Vec<Duration>,
    errors: BTreeMap<u16, u32>,
    statements: u64,
    truth: Truth,
    /// How often the old writer did not replicate again.
    pub rebuilt: u32,
    /// The round with the longest pause: from and to of each client, ms since the fault.
    worst: Vec<(f64, f64)>,
}

impl Line {
    pub fn new(kind: Kind, fault: Fault) -> Self {
        Self {
            kind,
            fault,
            pauses: Vec::new(),
            all: Vec::new(),
            errors: BTreeMap::new(),
            statements: 0,
            truth: Truth::default(),
            rebuilt: 0,
            worst: Vec::new(),
        }
    }

    /// Takes what came of a round.
    pub fn take(&mut self, seen: Seen, truth: Truth) {
        let longest = longest(&seen);
        if self.pauses.iter().all(|pause| *pause < longest) {
            let pauses = seen.clients.iter().filter_map(|client| client.pause);
            let since = |at: Instant| match at.checked_duration_since(seen.begun) {
                Some(behind) => behind.as_secs_f64() * 1_000.0,
                None => (seen.begun - at).as_secs_f64() * -1_000.0,
            };
            self.worst = pauses.map(|(from, to)| (since(from), since(to))).collect();
        }
        self.pauses.push(longest);
        self.all.extend(seen.clients.iter().map(Client::longest));
        self.statements += seen.clients.iter().map(|client| client.statements).sum::<u64>();
        for (code, count) in errors(&seen) {
            *self.errors.entry(code).or_default() += count;
        }
        self.truth.lost += truth.lost;
        self.truth.twice += truth.twice;
        self.truth.untrue += truth.untrue;
    }

    /// The promise that was broken, if one was.
    pub fn broken(&self) -> Option<String> {
        let Truth { lost, twice, untrue } = self.truth;
        let is_kept = lost + twice + untrue == 0;
        (!is_kept).then(|| {
            let (server, fault) = (self.kind.name(), self.fault.name());
            format!("{server}, {fault}: {lost} lost, {twice} twice, {untrue} untrue")
        })
    }

    fn row(&self) -> String {
        let Truth { lost, twice, untrue } = self.truth;
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {lost} | {twice} | {untrue} |",
            self.kind.name(),
            self.fault.title(),
            self.pauses.len(),
            median_ms(&self.all),
            median_ms(&self.pauses),
            self.pauses.iter().max().map_or(0, Duration::as_millis),
            self.statements,
            codes(&self.errors),
        )
    }
}

fn longest(seen: &Seen) -> Duration {
    seen.clients.iter().map(Client::longest).max().unwrap_or_default()
}

fn errors(seen: &Seen) -> BTreeMap<u16, u32> {
    let mut all = BTreeMap::new();
    for (code, count) in seen.clients.iter().flat_map(|client| &client.errors) {
        *all.entry(*code).or_default() += count;
    }
    all
}

fn codes(errors: &BTreeMap<u16, u32>) -> String {
    let words = errors.iter().map(|(code, count)| match code {
        0 => format!("{count} × cut"),
        code => format!("{count} × {code}"),
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "0".to_owned() } else { words.join(", ") }
}

fn median_ms(all: &[Duration]) -> u128 {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map_or(0, Duration::as_millis)
}

/// A round in words.
pub fn told(seen: &Seen, truth: &Truth) -> String {
    format!(
        "longest pause {} ms, errors {}, {} lost, {} twice, {} untrue",
        longest(seen).as_millis(),
        codes(&errors(seen)),
        truth.lost,
        truth.twice,
        truth.untrue
    )
}

/// The table.
pub(super) fn text(lines: &[Line], clients: u32, wishes: &Wishes) -> String {
    let how = if wishes.asynchronous { "asynchronous" } else { "semi-synchronous" };
    let cut = match (wishes.replay, wishes.outcomes) {
        (true, true) => "run again, and what became of a lost COMMIT is found out",
        (true, false) => "run again",
        (false, true) => "are rolled back, and what became of a lost COMMIT is found out",
        (false, false) => "are rolled back",
    };
    let mut text = format!(
        "Three servers of a kind, {how} replication, {clients} clients that write; transactions \
         that are cut {cut}.\nA pause is the time between two successes of a client. *Untrue*: \
         rows that are there of transactions\nwhose client was told 1213.\n\n\
         | servers | fault | rounds | a client's pause, median ms | longest of a round, median ms | \
         longest, ms | statements | errors | lost | twice | untrue |\n\
         |---|---|---:|---:|---:|---:|---:|---|---:|---:|---:|\n"
    );
    for line in lines {
        text.push_str(&line.row());
        text.push('\n');
    }
    for line in lines.iter().filter(|line| line.rebuilt > 0) {
        let (server, fault) = (line.kind.name(), line.fault.name());
        let count = line.rebuilt;
        // A `fmt::Write` to a string does not fail.
        _ = writeln!(
            text,
            "\n{server}, {fault}: the old writer did not replicate again by itself in {count} rounds."
        );
    }
    text
}

/// Writes the page, and the picture beside it.
pub fn write(path: &Path, table: &str, lines: &[Line]) -> Result<()> {
    let picture = path.with_extension("svg");
    let name = picture.file_name().context("a page without a name")?.to_string_lossy();
    let page = format!(
        "# Failovers, measured\n\n{table}\nThe longest pause of each client in the worst round of \
         each fault:\n\n![Pauses of clients]({name})\n"
    );
    fs::write(path, page).with_context(|| format!("{} can't be written", path.display()))?;
    fs::write(&picture, svg(lines))?;
    Ok(())
}

/// The picture: for each fault its worst round, a bar for each client.
fn svg(lines: &[Line]) -> String {
    let ends = lines.iter().flat_map(|line| &line.worst).map(|(_, to)| *to);
    let most_ms = ends.fold(1_000.0, f64::max);
    let x = |ms: f64| (ms.max(-BEFORE_MS) + BEFORE_MS) / (most_ms + BEFORE_MS) * WIDTH;
    let height: usize = lines.iter().map(|line| TITLE + ROW * line.worst.len() + ROW).sum();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let mut top = 0;
    for line in lines {
        let (server, fault) = (line.kind.name(), line.fault.title());
        let longest = line.pauses.iter().max().map_or(0, Duration::as_millis);
        svg.push_str(&format!(
            "<text x=\"4\" y=\"{}\">{server}: {fault}; longest pause {longest} ms</text>\n",
            top + 16
        ));
        top += TITLE;
        let bottom = top + ROW * line.worst.len();
        let ticks = (0..1_000_u32).map(|tick| f64::from(tick) * 500.0);
        for tick_ms in ticks.take_while(|tick_ms| *tick_ms <= most_ms) {
            let at = x(tick_ms);
            let color = if tick_ms == 0.0 { "#c00" } else { "#ddd" };
            svg.push_str(&format!(
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\" \
                 stroke=\"{color}\"/>\n"
            ));
        }
        for (row, (from, to)) in line.worst.iter().enumerate() {
            let (left, right) = (x(*from), x(*to));
            svg.push_str(&format!(
                "<rect x=\"{left:.1}\" y=\"{}\" width=\"{:.1}\" height=\"2\" fill=\"#36c\"/>\n",
                top + ROW * row,
                (right - left).max(0.5)
            ));
        }
        top = bottom + ROW;
    }
    svg.push_str("</svg>\n");
    svg
}
