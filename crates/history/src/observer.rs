//! Makes frames of the reports that the workers give anyway: what a frame has is the difference of
//! two of them.

use std::collections::HashMap;

use trunkline_stats::{
    DigestRow, DigestSums, Histogram, Report, ServerCounters, ServerRow, Topology, report::STATES,
};

use crate::{DigestLine, Frame, Mark, ServerLine, Sketch, Sums};

/// Digests whose last state is remembered; all are forgotten when there are more.
const REMEMBERED_MAX: usize = 100_000;

/// What tells rows of the digest table apart.
type DigestKey = (u64, u32, String, String);

/// Remembers the last report, and makes a frame of it and the next.
#[derive(Default)]
pub struct Observer {
    at: u64,
    latency: Histogram,
    queue: Histogram,
    errors: u64,
    servers: HashMap<(u32, String), (ServerCounters, Histogram)>,
    digests: HashMap<DigestKey, DigestSums>,
    refusals: HashMap<String, u64>,
    configuration: u64,
    event: u64,
}

impl Observer {
    /// The frame since the last report; the first time it is only remembered. `figures` are
    /// ProxySQL's numbers. Nothing is made of a report that no worker has answered.
    pub fn frame(
        &mut self,
        report: &Report,
        topology: &Topology,
        figures: Vec<(String, u64)>,
    ) -> Option<Frame> {
        if report.workers.is_empty() {
            return None;
        }
        let now = report.process.now_unix_sec;
        let is_first = self.at == 0;
        let seconds = now.saturating_sub(self.at);
        let errors = report.counters.statement_errors;
        let mut frame = Frame {
            begin: self.at,
            seconds,
            all: sums(&report.latency, &self.latency, errors.saturating_sub(self.errors)),
            queue: sums(&report.queue_wait, &self.queue, 0),
            clients: report.clients_connected(),
            waiting: report.waiting.iter().map(|(id, count)| (*id, *count)).collect(),
            servers: report.servers.iter().map(|row| self.server(row)).collect(),
            digests: self.digests(&report.digests),
            refusals: self.refusals(report),
            figures,
            marks: self.marks(report, topology),
        };
        frame.bound();
        self.at = now;
        self.latency.clone_from(&report.latency);
        self.queue.clone_from(&report.queue_wait);
        self.errors = errors;
        // The clock may have been set back.
        (!is_first && seconds > 0).then_some(frame)
    }

    fn server(&mut self, row: &ServerRow) -> ServerLine {
        let key = (row.hostgroup, row.address.clone());
        let (before, latency) = self
            .servers
            .insert(key, (row.counters, row.latency.clone()))
            // An entry that comes back counts anew.
            .filter(|(before, _)| before.statements <= row.counters.statements)
            .unwrap_or_default();
        let state = STATES.iter().position(|state| *state == row.state).unwrap_or_default();
        let (counters, now) = (&row.counters, &row.connections);
        let connect_errors = counters.connect_err.saturating_sub(before.connect_err);
        ServerLine {
            hostgroup: row.hostgroup,
            address: row.address.clone(),
            state: u8::try_from(state).unwrap_or_default(),
            sums: sums(&row.latency, &latency, counters.errors.saturating_sub(before.errors)),
            connect_errors,
            used: now.leased + now.shared + now.resetting,
            idle: now.idle,
            counters: [
                counters.connect_ok,
                counters.connect_err,
                counters.statements,
                counters.bytes_sent,
                counters.bytes_received,
            ],
        }
    }

    fn digests(&mut self, rows: &[DigestRow]) -> Vec<DigestLine> {
        if self.digests.len() > REMEMBERED_MAX {
            self.digests.clear();
        }
        let mut lines: HashMap<(u64, u32), DigestLine> = HashMap::new();
        for row in rows {
            let key = (row.digest, row.hostgroup, row.username.clone(), row.schemaname.clone());
            let now = row.sums;
            let before = match self.digests.insert(key, now) {
                Some(before) if before.count_star <= now.count_star => before,
                // It left the table and came back, or is new: all that it has came since, if it
                // was first seen since.
                Some(_) | None if now.first_seen >= self.at => DigestSums::default(),
                Some(_) | None => continue,
            };
            let count = now.count_star.saturating_sub(before.count_star);
            if count == 0 {
                continue;
            }
            let line = lines.entry((row.digest, row.hostgroup)).or_insert_with(|| DigestLine {
                digest: row.digest,
                hostgroup: row.hostgroup,
                text: row.digest_text.clone(),
                ..DigestLine::default()
            });
            line.sums.merge(&Sums {
                count,
                errors: now.errors.saturating_sub(before.errors),
                sum_us: now.sum_time.saturating_sub(before.sum_time),
                latency: Sketch::from(&now.latency.since(&before.latency)),
            });
            let since = |now: u64, before: u64| now.saturating_sub(before);
            line.rows_sent += since(now.sum_rows_sent, before.sum_rows_sent);
            line.rows_affected += since(now.sum_rows_affected, before.sum_rows_affected);
        }
        let mut lines: Vec<DigestLine> = lines.into_values().collect();
        lines.sort_by_key(|line| (std::cmp::Reverse(line.sums.sum_us), line.digest));
        lines
    }

    fn refusals(&mut self, report: &Report) -> Vec<(String, u64)> {
        let mut refusals = Vec::new();
        for (spec, count) in report.counters.refusals() {
            let who = if spec.metric.contains("client") { "client" } else { "statement" };
            let cause = format!("{who}: {}", spec.label.map_or("", |(_, cause)| cause));
            let before = self.refusals.insert(cause.clone(), count).unwrap_or_default();
            let since = count.saturating_sub(before);
            if since > 0 {
                refusals.push((cause, since));
            }
        }
        refusals
    }

    fn marks(&mut self, report: &Report, topology: &Topology) -> Vec<Mark> {
        let mut marks = Vec::new();
        let process = &report.process;
        if self.at == 0 {
            let what = format!("trunkline {} started", process.version);
            marks.push(Mark { at: process.started_unix_sec, what });
            self.event = topology.events.last().map_or(0, |event| event.id);
        } else if process.configuration.version != self.configuration {
            let what = format!("configuration {} in force", process.configuration.version);
            marks.push(Mark { at: process.configuration.applied_unix_sec, what });
        }
        self.configuration = process.configuration.version;
        for event in topology.events.iter().filter(|event| event.id > self.event) {
            let of = if event.server.is_empty() { "" } else { ": " };
            let what = format!("cluster {}: {}{of}{}", event.cluster, event.event, event.server);
            marks.push(Mark { at: event.at, what });
        }
        self.event = topology.events.last().map_or(self.event, |event| event.id);
        marks
    }
}

fn sums(now: &Histogram, before: &Histogram, errors: u64) -> Sums {
    let since = now.since(before);
    let (count, sum_us) = (since.count(), since.sum_us());
    Sums { count, errors, sum_us, latency: Sketch::from(&since) }
}

#[cfg(test)]
mod tests {
    use trunkline_stats::WorkerRow;

    use super::*;

    fn report(now: u64, statements: u64) -> Report {
        let mut report = Report::default();
        report.process.now_unix_sec = now;
        report.workers.push(WorkerRow::default());
        (0..statements).for_each(|_| report.latency.record(1_000));
        report.counters.statement_errors = statements / 10;
        let mut sums = DigestSums { count_star: statements, ..DigestSums::default() };
        sums.sum_time = statements * 1_000;
        (0..statements).for_each(|_| sums.latency.record(1_000));
        report.digests.push(DigestRow {
            hostgroup: 10,
            schemaname: "s".to_owned(),
            username: "u".to_owned(),
            digest: 7,
            digest_text: "SELECT ?".to_owned(),
            sums,
        });
        report
    }

    #[test]
    fn a_frame_has_what_came_between_two_reports() {
        let mut observer = Observer::default();
        let topology = Topology::default();
        assert_eq!(observer.frame(&Report::default(), &topology, Vec::new()), None);
        assert_eq!(observer.frame(&report(100, 50), &topology, Vec::new()), None);
        let frame = observer.frame(&report(110, 80), &topology, Vec::new()).expect("a frame");
        assert_eq!((frame.begin, frame.seconds), (100, 10));
        assert_eq!((frame.all.count, frame.all.errors, frame.all.sum_us), (30, 3, 30_000));
        assert_eq!(frame.digests.len(), 1);
        assert_eq!((frame.digests[0].sums.count, frame.digests[0].sums.latency.count()), (30, 30));
        // Nothing came, and nothing is shown of it.
        let frame = observer.frame(&report(120, 80), &topology, Vec::new()).expect("a frame");
        assert_eq!((frame.all.count, frame.digests.len()), (0, 0));
        // Digests that were there before, and were not seen by this observer, are not counted.
        let mut late = Observer::default();
        let empty = Report { digests: Vec::new(), ..report(100, 0) };
        assert_eq!(late.frame(&empty, &topology, Vec::new()), None);
        let mut known = report(110, 80);
        known.digests[0].sums.first_seen = 90;
        let frame = late.frame(&known, &topology, Vec::new()).expect("a frame");
        assert!(frame.digests.is_empty());
        known.digests[0].sums.count_star += 1;
        known.process.now_unix_sec = 120;
        let frame = late.frame(&known, &topology, Vec::new()).expect("a frame");
        assert_eq!(frame.digests[0].sums.count, 1);
    }
}
