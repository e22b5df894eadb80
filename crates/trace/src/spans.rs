//! Records of statements as spans: one for the statement, and one within it for each of its stages
//! that took any time. Names of attributes are those of OpenTelemetry's semantic conventions for
//! databases, 1.33 (`db.…`, `server.…`, `user.name`, `error.type`), and ours (`trunkline.…`).

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::SpanKind, status::StatusCode},
};
use trunkline_stats::{
    hostgroup_shown,
    span::{SpanCommand, SpanRecord},
};

/// The conventions that names are of.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.33.0";
/// The trace is sampled; it is known whether the parent is somebody else's.
const FLAGS: u32 = 0x101;
/// It is.
const PARENT_IS_REMOTE: u32 = 0x200;

/// An attribute with a text.
pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

fn number(key: &str, value: impl TryInto<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.try_into().unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// What the process is, for the collector.
pub(crate) fn resource(service_name: &str) -> Resource {
    let attributes = vec![
        text("service.name", service_name),
        text("service.version", env!("CARGO_PKG_VERSION")),
        number("process.pid", std::process::id()),
    ];
    Resource { attributes, ..Resource::default() }
}

/// What has made it.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "trunkline".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// What asks the collector to take these. `began_us`: where the workers' clock begins, µs of Unix
/// time.
pub(crate) fn request(
    records: &[SpanRecord],
    began_us: u64,
    service_name: &str,
) -> ExportTraceServiceRequest {
    let mut spans = Vec::with_capacity(records.len() * 3);
    for record in records {
        put_spans(&mut spans, record, began_us);
    }
    let scope_spans = ScopeSpans { scope: Some(scope()), spans, schema_url: SCHEMA_URL.to_owned() };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource(service_name)),
            scope_spans: vec![scope_spans],
            schema_url: SCHEMA_URL.to_owned(),
        }],
    }
}

/// A stage of a statement.
struct Stage {
    name: &'static str,
    kind: SpanKind,
    from_us: u64,
    to_us: u64,
}

/// The stages, in order. The time in the queue is in two parts if a connection was opened
/// meanwhile.
fn stages(record: &SpanRecord) -> [Stage; 6] {
    let it = &record.moments;
    let stage = |name, from_us, to_us| Stage { name, kind: SpanKind::Internal, from_us, to_us };
    let work = match (record.is_cached, record.has_server) {
        (true, _) => stage("cache", it.sent_us, it.answered_us),
        (false, true) => {
            Stage { kind: SpanKind::Client, ..stage("server", it.sent_us, it.answered_us) }
        }
        (false, false) => stage("server", it.sent_us, it.answered_us),
    };
    [
        stage("queue", it.begun_us, it.connecting_us),
        stage("connect", it.connecting_us, it.connected_us),
        stage("queue", it.connected_us, it.assigned_us),
        stage("sync", it.assigned_us, it.sent_us),
        work,
        stage("relay", it.answered_us, it.ended_us),
    ]
}

fn put_spans(spans: &mut Vec<Span>, record: &SpanRecord, began_us: u64) {
    let at_ns = |us: u64| began_us.saturating_add(us).saturating_mul(1_000);
    let of_server = of_server(record);
    let status =
        record.error.map(|_| Status { code: StatusCode::Error.into(), ..Status::default() });
    let mut attributes = of_statement(record);
    attributes.extend(of_server.iter().cloned());
    let remote = if record.parent.is_some() { PARENT_IS_REMOTE } else { 0 };
    spans.push(Span {
        trace_id: record.trace.to_vec(),
        span_id: record.span.to_vec(),
        parent_span_id: record.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
        flags: FLAGS | remote,
        name: summary(record),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: at_ns(record.moments.begun_us),
        end_time_unix_nano: at_ns(record.moments.ended_us),
        attributes,
        status: status.clone(),
        ..Span::default()
    });
    for (index, stage) in (1..).zip(stages(record)) {
        let is_servers = stage.kind == SpanKind::Client;
        if stage.from_us == stage.to_us && !is_servers {
            continue;
        }
        spans.push(Span {
            trace_id: record.trace.to_vec(),
            span_id: within(record.span, index).to_vec(),
            parent_span_id: record.span.to_vec(),
            flags: FLAGS,
            name: stage.name.to_owned(),
            kind: stage.kind.into(),
            start_time_unix_nano: at_ns(stage.from_us),
            end_time_unix_nano: at_ns(stage.to_us),
            attributes: if is_servers { of_server.clone() } else { Vec::new() },
            status: status.clone().filter(|_| is_servers),
            ..Span::default()
        });
    }
}

/// The number of a stage's span, which follows from its statement's; never 0.
fn within(span: [u8; 8], index: u64) -> [u8; 8] {
    let number = u64::from_be_bytes(span).wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mixed = (number ^ number >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ mixed >> 29).max(1).to_be_bytes()
}

/// What the statement does, and to what: `SELECT orders`.
fn summary(record: &SpanRecord) -> String {
    let operation = if record.operation.is_empty() { "statement" } else { record.operation };
    match record.table.bytes() {
        b"" => operation.to_owned(),
        _ => format!("{operation} {}", record.table.text()),
    }
}

/// What is known of a statement whatever has become of it.
fn of_statement(record: &SpanRecord) -> Vec<KeyValue> {
    let mut all = vec![
        text("db.query.summary", summary(record)),
        text("user.name", record.user.text()),
        text("trunkline.digest", format!("0x{:016X}", record.digest)),
        number("trunkline.hostgroup", hostgroup_shown(record.hostgroup)),
        number("trunkline.client", record.client),
        text("trunkline.sampled", record.why.name()),
    ];
    match record.command {
        SpanCommand::Query => {}
        SpanCommand::Prepare => all.push(text("trunkline.command", "prepare")),
        SpanCommand::Execute => all.push(text("trunkline.command", "execute")),
    }
    if !record.text.bytes().is_empty() {
        all.push(text("db.query.text", record.text.text()));
    }
    if let Some(rule) = record.rule {
        all.push(number("trunkline.rule", rule));
    }
    let counts = [
        ("db.response.returned_rows", record.rows_sent),
        ("trunkline.affected_rows", record.rows_affected),
        ("trunkline.retries", record.retries.into()),
        ("trunkline.replays", record.replays.into()),
    ];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    all.extend(counts.map(|(key, count)| number(key, count)));
    if record.is_cached {
        all.push(attribute("trunkline.cached", Value::BoolValue(true)));
    }
    all
}

/// What a server has done with it.
fn of_server(record: &SpanRecord) -> Vec<KeyValue> {
    let system = if record.is_mariadb { "mariadb" } else { "mysql" };
    let mut all = vec![text("db.system.name", system)];
    if !record.operation.is_empty() {
        all.push(text("db.operation.name", record.operation));
    }
    if !record.schema.bytes().is_empty() {
        all.push(text("db.namespace", record.schema.text()));
    }
    if !record.table.bytes().is_empty() {
        all.push(text("db.collection.name", record.table.text()));
    }
    if !record.server.bytes().is_empty() {
        all.push(text("server.address", record.server.text()));
    }
    if record.port != 0 {
        all.push(number("server.port", record.port));
    }
    if let Some(error) = record.error {
        all.push(text("db.response.status_code", error.to_string()));
        all.push(text("error.type", error.to_string()));
    }
    all
}

#[cfg(test)]
mod tests {
    use trunkline_stats::span::{Moments, Sampled, Short};

    use super::*;

    fn record() -> SpanRecord {
        SpanRecord {
            trace: [7; 16],
            span: [8; 8],
            parent: Some([9; 8]),
            why: Sampled::Slow,
            operation: "SELECT",
            moments: Moments {
                begun_us: 10,
                connecting_us: 11,
                connected_us: 13,
                assigned_us: 16,
                sent_us: 20,
                answered_us: 25,
                ended_us: 31,
            },
            hostgroup: 3,
            rule: Some(12),
            digest: 0xAB,
            is_mariadb: true,
            has_server: true,
            server: Short::of(b"db1"),
            port: 3306,
            user: Short::of(b"app"),
            schema: Short::of(b"shop"),
            table: Short::of(b"orders"),
            text: Short::of(b"SELECT ? FROM orders"),
            ..SpanRecord::default()
        }
    }

    fn spans_of(record: SpanRecord) -> Vec<Span> {
        let mut request = request(&[record], 1_000_000, "proxy");
        request.resource_spans.remove(0).scope_spans.remove(0).spans
    }

    fn shown(span: &Span, key: &str) -> Option<String> {
        let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
        Some(match found.value.clone()?.value? {
            Value::StringValue(text) => text,
            Value::IntValue(number) => number.to_string(),
            Value::BoolValue(flag) => flag.to_string(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn a_statement_is_a_span_with_its_stages_in_it() {
        let spans = spans_of(record());
        let [whole, stages @ ..] = spans.as_slice() else { panic!("no span") };
        assert_eq!(whole.name, "SELECT orders");
        assert_eq!(whole.kind, i32::from(SpanKind::Server));
        assert_eq!(
            (whole.trace_id.as_slice(), whole.span_id.as_slice()),
            (&[7; 16][..], &[8; 8][..])
        );
        assert_eq!((whole.parent_span_id.as_slice(), whole.flags), (&[9; 8][..], 0x301));
        assert_eq!(whole.start_time_unix_nano, 1_000_010_000);
        let names: Vec<_> = stages.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["queue", "connect", "queue", "sync", "server", "relay"]);
        let mut at = whole.start_time_unix_nano;
        let mut ids: Vec<_> = spans.iter().map(|span| span.span_id.clone()).collect();
        for stage in stages {
            assert_eq!(stage.start_time_unix_nano, at, "{}", stage.name);
            assert_eq!(stage.parent_span_id, whole.span_id);
            at = stage.end_time_unix_nano;
        }
        assert_eq!(at, whole.end_time_unix_nano);
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), spans.len());
        for (key, value) in [
            ("db.system.name", "mariadb"),
            ("db.namespace", "shop"),
            ("db.operation.name", "SELECT"),
            ("db.collection.name", "orders"),
            ("db.query.text", "SELECT ? FROM orders"),
            ("db.query.summary", "SELECT orders"),
            ("server.address", "db1"),
            ("server.port", "3306"),
            ("user.name", "app"),
            ("trunkline.hostgroup", "3"),
            ("trunkline.rule", "12"),
            ("trunkline.digest", "0x00000000000000AB"),
            ("trunkline.sampled", "slow"),
        ] {
            assert_eq!(shown(whole, key).as_deref(), Some(value), "{key}");
        }
        assert_eq!(whole.status, None);
    }

    #[test]
    fn what_took_no_time_has_no_span_but_the_server_has() {
        let moments = Moments {
            begun_us: 10,
            connecting_us: 10,
            connected_us: 10,
            assigned_us: 10,
            sent_us: 10,
            answered_us: 10,
            ended_us: 10,
        };
        let spans = spans_of(SpanRecord { moments, parent: None, ..record() });
        let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["SELECT orders", "server"]);
        assert!(spans[0].parent_span_id.is_empty() && spans[0].flags == FLAGS);
        let cached = SpanRecord { moments, has_server: false, is_cached: true, ..record() };
        let spans = spans_of(cached);
        assert_eq!(spans.len(), 1);
        assert_eq!(shown(&spans[0], "trunkline.cached").as_deref(), Some("true"));
    }

    #[test]
    fn an_error_is_told_by_its_number_alone() {
        let spans = spans_of(SpanRecord { error: Some(1062), ..record() });
        for span in spans.iter().filter(|span| span.kind != i32::from(SpanKind::Internal)) {
            let status = span.status.as_ref().expect("a status");
            assert_eq!((status.code, status.message.as_str()), (StatusCode::Error.into(), ""));
            assert_eq!(shown(span, "error.type").as_deref(), Some("1062"));
            assert_eq!(shown(span, "db.response.status_code").as_deref(), Some("1062"));
        }
    }
}
