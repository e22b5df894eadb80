//! What is different between two periods: digests that got slower, and why.

use std::collections::BTreeMap;

use trunkline_history::{DigestLine, Period, ServerLine, Sums};
use trunkline_stats::report::{STATES, state_name};

/// Statements that a digest must have in both periods to be compared.
const COUNT_MIN: u64 = 20;
/// From which factor on latency, rows or frequency have changed.
const FACTOR: f64 = 1.3;
/// Digests that are told of.
const TOLD_MAX: usize = 20;

/// One digest over all hostgroups in one period.
#[derive(Debug, Clone, Default)]
pub struct Digest {
    /// Its text.
    pub text: String,
    /// Its statements.
    pub sums: Sums,
    /// Rows sent.
    pub rows: u64,
    /// Its statements by hostgroup.
    pub hostgroups: BTreeMap<u32, u64>,
}

/// How a digest has changed.
#[derive(Debug, Clone)]
pub struct Change {
    /// The digest.
    pub digest: u64,
    /// Before.
    pub before: Digest,
    /// Now.
    pub now: Digest,
    /// How much time its statements of now take more than they would have taken before, µs.
    pub cost_us: i128,
    /// Why, as far as the numbers tell.
    pub why: Vec<String>,
}

/// The digests of a period.
pub fn digests(period: &Period) -> BTreeMap<u64, Digest> {
    let mut digests: BTreeMap<u64, Digest> = BTreeMap::new();
    for line in &period.total.digests {
        let DigestLine { digest, hostgroup, text, sums, rows_sent, .. } = line;
        let of = digests.entry(*digest).or_default();
        if of.text.is_empty() {
            of.text.clone_from(text);
        }
        of.sums.merge(sums);
        of.rows = of.rows.saturating_add(*rows_sent);
        *of.hostgroups.entry(*hostgroup).or_default() += sums.count;
    }
    digests
}

/// Digests that got slower, those that cost most first.
pub fn slower(before: &Period, now: &Period) -> Vec<Change> {
    let (old, new) = (digests(before), digests(now));
    let mut changes: Vec<Change> = new
        .iter()
        .filter(|(digest, _)| **digest != 0)
        .filter_map(|(digest, now)| {
            let before = old.get(digest)?;
            let is_seen = before.sums.count >= COUNT_MIN && now.sums.count >= COUNT_MIN;
            let is_slower = is_more(before.sums.mean_us(), now.sums.mean_us())
                || is_more(before.sums.latency.quantile(0.95), now.sums.latency.quantile(0.95));
            let longer = i128::from(now.sums.mean_us()) - i128::from(before.sums.mean_us());
            let cost_us = longer * i128::from(now.sums.count);
            let change = |why| Change {
                digest: *digest,
                before: before.clone(),
                now: now.clone(),
                cost_us,
                why,
            };
            (is_seen && is_slower && cost_us > 0).then(|| change(Vec::new()))
        })
        .collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.cost_us));
    changes.truncate(TOLD_MAX);
    for change in &mut changes {
        change.why = why(change, before, now);
    }
    changes
}

/// Digests that take time now and were not there before, the heaviest first.
pub fn new(before: &Period, now: &Period) -> Vec<(u64, Digest)> {
    let old = digests(before);
    let mut found: Vec<(u64, Digest)> = digests(now)
        .into_iter()
        .filter(|(digest, _)| *digest != 0 && !old.contains_key(digest))
        .collect();
    found.sort_by_key(|(_, it)| std::cmp::Reverse(it.sums.sum_us));
    found.truncate(TOLD_MAX);
    found
}

#[expect(clippy::cast_precision_loss, reason = "a factor for people")]
fn factor(before: u64, now: u64) -> f64 {
    now as f64 / before.max(1) as f64
}

fn is_more(before: u64, now: u64) -> bool {
    factor(before, now) >= FACTOR
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// What part of the statements do something, and did.
fn percent(is: f64, was: f64, decimals: usize, what: &str) -> String {
    let (is, was) = (is * 100.0, was * 100.0);
    format!("{is:.decimals$} % {what} (before: {was:.decimals$} %)")
}

fn why(change: &Change, before: &Period, now: &Period) -> Vec<String> {
    let mut why = Vec::new();
    let (old, new) = (&change.before, &change.now);
    // Hundredths, so that less than a row for each statement is seen.
    let rows = |it: &Digest| it.rows.saturating_mul(100).checked_div(it.sums.count).unwrap_or(0);
    if is_more(rows(old), rows(new)) && rows(new) > 200 {
        why.push(format!(
            "each statement sends {:.1} times as many rows ({} instead of {})",
            factor(rows(old), rows(new)),
            rows(new) / 100,
            rows(old) / 100,
        ));
    }
    for (hostgroup, count) in &new.hostgroups {
        let was = share(old.hostgroups.get(hostgroup).copied().unwrap_or(0), old.sums.count);
        let is = share(*count, new.sums.count);
        if is - was > 0.2 {
            why.push(percent(is, was, 0, &format!("run in hostgroup {hostgroup}")));
        }
    }
    let errors = |it: &Digest| share(it.sums.errors, it.sums.count);
    if errors(new) - errors(old) > 0.01 {
        why.push(percent(errors(new), errors(old), 1, "end with an error"));
    }
    let per_second = |period: &Period, it: &Digest| period.rate(it.sums.count);
    let (was, is) = (per_second(before, old), per_second(now, new));
    if is >= 1.5 * was {
        why.push(format!("it runs {:.1} times as often", is / was.max(f64::MIN_POSITIVE)));
    }
    why.extend(of_hostgroups(change, before, now));
    let (queued, were) = (now.total.queue.sum_us, before.total.queue.sum_us);
    if now.rate(queued) > 2.0 * before.rate(were)
        && u128::from(queued) > change.cost_us.unsigned_abs() / 20
    {
        why.push(format!(
            "statements waited for connections: {:.1} ms a second over all (before: {:.1} ms)",
            now.rate(queued) / 1_000.0,
            before.rate(were) / 1_000.0
        ));
    }
    if why.is_empty() {
        why.push(
            "nothing else changed here: its plan (EXPLAIN), its locks or the size of its tables"
                .to_owned(),
        );
    }
    why
}

/// What happened to the servers that a digest runs on.
fn of_hostgroups(change: &Change, before: &Period, now: &Period) -> Vec<String> {
    let mut why = Vec::new();
    for hostgroup in change.now.hostgroups.keys() {
        // The digest itself is no reason for itself.
        let others = |period: &Period| {
            let of = period.total.digests.iter();
            let of = of.filter(|it| it.hostgroup == *hostgroup && it.digest != change.digest);
            of.fold((0_u64, 0_u64), |(count, us), it| {
                (count.saturating_add(it.sums.count), us.saturating_add(it.sums.sum_us))
            })
        };
        let mean = |(count, us): (u64, u64)| us.checked_div(count).unwrap_or_default();
        let (was, is) = (others(before), others(now));
        if was.0 >= COUNT_MIN && is.0 >= COUNT_MIN && is_more(mean(was), mean(is)) {
            why.push(format!(
                "everything else in hostgroup {hostgroup} became slower, too: {} instead of {}",
                duration(mean(is)),
                duration(mean(was))
            ));
        }
        let of_group = |period: &Period| {
            let servers = period.total.servers.iter();
            servers.filter(|it| it.hostgroup == *hostgroup).cloned().collect::<Vec<ServerLine>>()
        };
        let old = of_group(before);
        for server in of_group(now) {
            let known = old.iter().find(|it| it.address == server.address);
            let was = known.map_or(0, |it| it.state);
            let state = STATES.get(usize::from(server.state)).copied().map_or("", state_name);
            if server.state > was && state != "STANDBY" {
                why.push(format!("{} was {state} at some time", server.address));
            }
        }
    }
    why
}

/// `1.2 ms`.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        1_000_000..120_000_000 => format!("{:.2} s", us as f64 / 1e6),
        120_000_000..7_200_000_000 => format!("{:.0} min", us as f64 / 60e6),
        _ => format!("{:.0} h", us as f64 / 3_600e6),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_history::{Frame, Sketch};

    use super::*;

    fn line(digest: u64, hostgroup: u32, count: u64, us: u64, rows: u64) -> DigestLine {
        let mut latency = Sketch::default();
        latency.add(us, count);
        let sums = Sums { count, errors: 0, sum_us: us * count, latency };
        let text = format!("SELECT {digest}");
        DigestLine { digest, hostgroup, text, sums, rows_sent: rows * count, rows_affected: 0 }
    }

    fn period(digests: Vec<DigestLine>) -> Period {
        let total = Frame { seconds: 3_600, digests, ..Frame::default() };
        Period { from: 0, to: 3_600, known: 3_600, total, ..Period::default() }
    }

    #[test]
    fn what_got_slower_is_found_with_its_reason() {
        let before = period(vec![
            line(1, 20, 1_000, 500, 1),
            line(2, 20, 1_000, 500, 1),
            line(3, 20, 1_000, 500, 1),
            line(4, 20, 1_000, 500, 1),
            line(5, 20, 5, 500, 1),
        ]);
        let now = period(vec![
            // More rows, another hostgroup, more often, the same, too few, new.
            line(1, 20, 1_000, 5_000, 90),
            line(2, 10, 1_000, 1_500, 1),
            line(3, 20, 4_000, 900, 1),
            line(4, 20, 1_000, 505, 1),
            line(5, 20, 5, 50_000, 1),
            line(6, 20, 10, 70, 1),
        ]);
        let changes = slower(&before, &now);
        let told: Vec<(u64, &str)> =
            changes.iter().map(|it| (it.digest, it.why[0].as_str())).collect();
        assert_eq!(
            told,
            [
                (1, "each statement sends 90.0 times as many rows (90 instead of 1)"),
                (3, "it runs 4.0 times as often"),
                (2, "100 % run in hostgroup 10 (before: 0 %)"),
            ]
        );
        assert_eq!(new(&before, &now).iter().map(|it| it.0).collect::<Vec<_>>(), [6]);
        assert!(slower(&before, &before).is_empty());
    }

    #[test]
    fn servers_are_a_reason_for_all_that_run_there() {
        let before = period(vec![line(1, 20, 1_000, 500, 1), line(2, 20, 1_000, 500, 1)]);
        let mut now = period(vec![line(1, 20, 1_000, 900, 1), line(2, 20, 1_000, 900, 1)]);
        let server = ServerLine { hostgroup: 20, address: "a:1".to_owned(), ..Default::default() };
        now.total.servers = vec![ServerLine { state: 1, ..server }];
        let changes = slower(&before, &now);
        assert_eq!(
            changes[0].why,
            [
                "everything else in hostgroup 20 became slower, too: 900 µs instead of 500 µs",
                "a:1 was SHUNNED at some time"
            ]
        );
    }
}
