//! Reports as pages want them: small, with rates and with the latency of the moment.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use trunkline_stats::{
    DigestOrder, DigestRow, Histogram, Report, SessionList, hostgroup_shown,
    report::{ServerRow, state_name},
};

/// What was reported before, to tell what happened since.
#[derive(Default)]
pub(super) struct Clock {
    before: Option<(Instant, Report)>,
}

impl Clock {
    /// The picture of *now*. Rates and latency are those since the last picture, and missing in
    /// the first one.
    pub(super) fn now(&mut self, report: Report) -> Value {
        let at = Instant::now();
        let before = self.before.as_ref();
        let seconds = before.map(|(then, _)| at.duration_since(*then).as_secs_f64());
        let then = before.map(|(_, report)| report);
        let since = Since { seconds, then };
        let picture = picture(&report, &since);
        self.before = Some((at, report));
        picture
    }
}

struct Since<'a> {
    seconds: Option<f64>,
    then: Option<&'a Report>,
}

impl Since<'_> {
    /// How often something happened in a second.
    fn rate(&self, now: u64, of: impl Fn(&Report) -> Option<u64>) -> Value {
        match (self.seconds, self.then) {
            (Some(seconds), Some(then)) if seconds > 0.0 => {
                rate(now.saturating_sub(of(then).unwrap_or_default()), seconds)
            }
            _ => Value::Null,
        }
    }

    /// The latency since then, µs.
    fn latency(&self, now: &Histogram, of: impl Fn(&Report) -> Option<&Histogram>) -> Value {
        let since = match self.then {
            Some(then) => of(then).map_or_else(|| now.clone(), |before| now.since(before)),
            None => return Value::Null,
        };
        match since.count() {
            0 => Value::Null,
            _ => json!([since.quantile(0.5), since.quantile(0.95), since.quantile(0.99)]),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people needs no more than 52 bits")]
fn rate(count: u64, seconds: f64) -> Value {
    json!((count as f64 / seconds * 10.0).round() / 10.0)
}

fn picture(report: &Report, since: &Since<'_>) -> Value {
    let (process, counters) = (&report.process, &report.counters);
    let refused = |report: &Report| {
        let mut refusals = report.counters.iter();
        let sum = refusals
            .by_ref()
            .filter(|(spec, _)| spec.metric == "trunkline_client_refusals_total")
            .map(|(_, count)| count);
        Some(sum.sum())
    };
    let servers: Vec<Value> = report.servers.iter().map(|row| server(row, since)).collect();
    let workers: Vec<Value> = report
        .workers
        .iter()
        .map(|row| {
            let of = |report: &Report| {
                let found = report.workers.iter().find(|other| other.worker == row.worker);
                found.map(|other| other.statements)
            };
            let rate = since.rate(row.statements, of);
            json!({ "worker": row.worker, "clients": row.clients, "rate": rate })
        })
        .collect();
    json!({
        "t": unix_ms(),
        "up": process.now_unix_sec.saturating_sub(process.started_unix_sec),
        "version": process.version,
        "pid": process.process_id,
        "listen": process.listen,
        "configuration": process.configuration,
        "is_paused": process.is_paused,
        "clients": report.clients_connected(),
        "half_open": report.clients_half_open,
        "encrypted": report.clients_encrypted,
        "pinned": report.pinned,
        "pins": report.pins,
        "waiting": report.waiting,
        "held": report.held,
        "rate": since.rate(counters.statements, |it| Some(it.counters.statements)),
        "errors": since.rate(counters.statement_errors, |it| Some(it.counters.statement_errors)),
        "refused": since.rate(refused(report).unwrap_or_default(), refused),
        "accepted": since.rate(counters.clients_accepted, |it| Some(it.counters.clients_accepted)),
        "received": since.rate(counters.client_bytes_received, |it| {
            Some(it.counters.client_bytes_received)
        }),
        "sent": since.rate(counters.client_bytes_sent, |it| Some(it.counters.client_bytes_sent)),
        "latency": since.latency(&report.latency, |it| Some(&it.latency)),
        "queue": since.latency(&report.queue_wait, |it| Some(&it.queue_wait)),
        "buckets": distribution(report, since),
        "memory": { "max": process.memory.max, "total": process.memory.total,
            "resident": process.kernel.resident },
        "cache": cache(report, since),
        "servers": servers,
        "workers": workers,
    })
}

/// What charts show of a picture: the moment (ms), rate, errors, p50, p95, p99, clients, waiting
/// statements, pinned sessions.
pub(super) fn point(picture: &Value) -> Value {
    let of = |name: &str| picture.get(name).cloned().unwrap_or_default();
    let latency = of("latency");
    let quantile = |at: usize| latency.get(at).cloned().unwrap_or_default();
    let waiting = of("waiting");
    let waiting = waiting.as_object().into_iter().flat_map(Map::values);
    let waiting: u64 = waiting.filter_map(Value::as_u64).sum();
    let (rate, errors, clients, pinned) = (of("rate"), of("errors"), of("clients"), of("pinned"));
    let [p50, p95, p99] = [quantile(0), quantile(1), quantile(2)];
    json!([of("t"), rate, errors, p50, p95, p99, clients, waiting, pinned])
}

/// Statements since the last picture by latency: from, to (µs), how many.
fn distribution(report: &Report, since: &Since<'_>) -> Value {
    let Some(then) = since.then else { return json!([]) };
    let since = report.latency.since(&then.latency);
    let buckets: Vec<_> =
        since.buckets().map(|(from, to, count)| json!([from, to, count])).collect();
    Value::Array(buckets)
}

fn cache(report: &Report, since: &Since<'_>) -> Value {
    let (cache, counters) = (&report.process.cache, &report.counters);
    json!({
        "entries": cache.entries,
        "bytes": cache.bytes,
        "max": cache.bytes_max,
        "lookups": since.rate(counters.cache_lookups, |it| Some(it.counters.cache_lookups)),
        "hits": since.rate(counters.cache_hits, |it| Some(it.counters.cache_hits)),
    })
}

fn server(row: &ServerRow, since: &Since<'_>) -> Value {
    fn find<'a>(report: &'a Report, row: &ServerRow) -> Option<&'a ServerRow> {
        let mut rows = report.servers.iter();
        rows.find(|other| other.hostgroup == row.hostgroup && other.address == row.address)
    }
    let connections: Map<String, Value> = row
        .connections
        .by_state()
        .into_iter()
        .map(|(name, n)| (name.to_owned(), n.into()))
        .collect();
    let statements = row.counters.statements;
    json!({
        "hostgroup": row.hostgroup,
        "address": row.address,
        "state": state_name(row.state),
        "max": row.connections_max,
        "connections": connections,
        "statements": statements,
        "rate": since.rate(statements, |it| find(it, row).map(|it| it.counters.statements)),
        "latency": since.latency(&row.latency, |it| find(it, row).map(|it| &it.latency)),
        "counters": row.counters,
    })
}

/// Clients as pages show them.
pub(super) fn sessions(list: &SessionList) -> Value {
    json!({ "t": unix_ms(), "total": list.total, "pinned": list.pinned, "rows": list.sessions,
        "resets": list.resets })
}

/// The first rows of the digest table by a column.
pub(super) fn statements(mut report: Report, order: DigestOrder, rows_max: usize) -> Value {
    let in_tables = report.digest_rows();
    report.sort_digests(order);
    report.digests.truncate(rows_max);
    let rows: Vec<Value> = report.digests.iter().map(digest).collect();
    json!({
        "t": unix_ms(),
        "order": order.name(),
        "rows": rows,
        "in_tables": in_tables,
        "evicted": report.digests_evicted,
        "all_time": report.latency.sum_us(),
        "all_count": report.latency.count(),
    })
}

/// A digest. Its number has more bits than numbers in JavaScript.
fn digest(row: &DigestRow) -> Value {
    let sums = &row.sums;
    let quantile = |share: f64| sums.latency.quantile(share, sums.max_time);
    json!({
        "digest": digest_name(row.digest),
        "hostgroup": hostgroup_shown(row.hostgroup),
        "user": row.username,
        "schema": row.schemaname,
        "text": row.digest_text,
        "count": sums.count_star,
        "time": sums.sum_time,
        "min": sums.min_time,
        "max": sums.max_time,
        "p50": quantile(0.5),
        "p95": quantile(0.95),
        "p99": quantile(0.99),
        "sent": sums.sum_rows_sent,
        "affected": sums.sum_rows_affected,
        "errors": sums.errors,
        "first": sums.first_seen,
        "last": sums.last_seen,
    })
}

/// A digest's number as tables show it.
pub(super) fn digest_name(digest: u64) -> String {
    format!("0x{digest:016X}")
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn rates_are_those_since_the_picture_before() {
        let mut clock = Clock::default();
        let report = sample::report(trunkline_stats::DigestQuery::ALL);
        let first = clock.now(report.clone());
        assert!(first["rate"].is_null() && first["latency"].is_null(), "{first}");
        let mut next = report.clone();
        next.counters.statements += 100;
        next.latency.record(1_000);
        let Some((then, before)) = clock.before.take() else { panic!("nothing is kept") };
        clock.before = then.checked_sub(std::time::Duration::from_secs(10)).map(|at| (at, before));
        let second = clock.now(next);
        let rate = second["rate"].as_f64().expect("a rate");
        assert!((9.0..=10.0).contains(&rate), "{rate}");
        let median = second["latency"][0].as_u64().expect("a median");
        assert!((875..=1_125).contains(&median), "{median}");
        assert_eq!(second["buckets"].as_array().map(Vec::len), Some(1));
        assert!(second["servers"][0]["latency"].is_null(), "nothing came to it");
        let point = point(&second);
        assert_eq!(point.as_array().map(Vec::len), Some(9));
        assert_eq!((&point[1], &point[3]), (&second["rate"], &second["latency"][0]));
    }

    #[test]
    fn digests_are_texts_and_rows_are_bounded() {
        let report = sample::report(trunkline_stats::DigestQuery::ALL);
        assert!(report.digests.len() > 1, "the sample has too few digests");
        let told = statements(report, DigestOrder::CountStar, 1);
        assert_eq!(told["rows"].as_array().map(Vec::len), Some(1));
        let digest = told["rows"][0]["digest"].as_str().expect("a text");
        assert!(digest.starts_with("0x") && digest.len() == 18, "{digest}");
    }
}
