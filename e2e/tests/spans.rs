//! Spans of statements, as a real collector of OpenTelemetry has them: parents, attributes, stages
//! that sum up, which statements have any, and a collector that is away, slow, or comes back.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_protocol::Capabilities;
use trunkline_testkit::{
    Collector, CollectorPorts, Flavour, SqlClient, Trunkline, collector_program, skipped,
    wait_until,
};

use crate::extensions::{wire, with_attributes};
use crate::stage::{
    SOON, client, fails, is_available, new_schema, one_server, shared_server, text,
};
use crate::wire::{PLAIN, Shape, code};

const TABLES: &str = "CREATE TABLE orders (id INT PRIMARY KEY, a VARCHAR(20)); \
    INSERT INTO orders VALUES (1, 'one'), (2, 'two')";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// One span of a collector's file.
#[derive(Debug, Clone)]
struct Span(Value);

impl Span {
    fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.text("name")
    }

    fn time(&self, key: &str) -> u64 {
        self.text(key).parse().unwrap_or_default()
    }

    fn begin_ns(&self) -> u64 {
        self.time("startTimeUnixNano")
    }

    fn end_ns(&self) -> u64 {
        self.time("endTimeUnixNano")
    }

    fn attribute(&self, key: &str) -> Option<String> {
        let all = self.0.get("attributes")?.as_array()?;
        let found = all.iter().find(|attribute| attribute["key"] == key)?;
        let value = found["value"].as_object()?.values().next()?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    fn is(&self, key: &str, value: &str) -> bool {
        self.attribute(key).as_deref() == Some(value)
    }
}

/// Every span that has come, in the order in which they came.
fn spans(collector: &Collector) -> Result<Vec<Span>> {
    let mut all = Vec::new();
    for line in collector.lines()? {
        let request: Value = serde_json::from_str(&line)?;
        let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
        for resource in list(&request, "resourceSpans") {
            for scope in list(&resource, "scopeSpans") {
                all.extend(list(&scope, "spans").into_iter().map(Span));
            }
        }
    }
    Ok(all)
}

/// Statements' own spans.
fn statements(collector: &Collector) -> Result<Vec<Span>> {
    let mut all = spans(collector)?;
    all.retain(|span| span.attribute("db.query.summary").is_some());
    Ok(all)
}

/// The span of the statement whose digest has this in it, when it has come.
fn statement(collector: &Collector, part: &str) -> Result<Span> {
    let has = |span: &Span| span.attribute("db.query.text").is_some_and(|it| it.contains(part));
    wait_until(&format!("a span of {part}"), SOON, || {
        Ok(statements(collector)?.into_iter().find(has))
    })
}

/// The stages of a statement, checked: they follow each other without a gap, from its beginning to
/// its end.
fn stages(collector: &Collector, whole: &Span) -> Result<Vec<Span>> {
    let mut parts = spans(collector)?;
    parts.retain(|span| {
        span.text("parentSpanId") == whole.text("spanId")
            && span.text("traceId") == whole.text("traceId")
    });
    let mut at = whole.begin_ns();
    for part in &parts {
        ensure!(part.begin_ns() == at, "a gap before {} of {whole:?}", part.name());
        at = part.end_ns();
    }
    ensure!(at == whole.end_ns(), "the stages of {whole:?} end early: {parts:?}");
    Ok(parts)
}

struct Scene {
    ports: CollectorPorts,
    schema: String,
    config: String,
}

impl Scene {
    /// `trace` is the table of that name, in which `{http}` and `{grpc}` are the ports.
    fn new(flavour: Flavour, trace: &str, rules: &str) -> Result<Self> {
        let server = shared_server(flavour)?;
        let schema = new_schema(server, TABLES)?;
        let ports = CollectorPorts::free()?;
        let trace = trace
            .replace("{http}", &ports.http.to_string())
            .replace("{grpc}", &ports.grpc.to_string());
        let config = format!("{}\n{rules}\n[trace]\n{trace}\n", one_server(server, 2, 4));
        Ok(Self { ports, schema, config })
    }

    fn proxy(&self) -> Result<Trunkline> {
        Trunkline::start(&self.config)
    }

    fn client(&self, proxy: &Trunkline) -> Result<SqlClient> {
        client(proxy, &self.schema)
    }
}

fn can_run(flavour: Flavour, test: &str) -> bool {
    let found = collector_program().inspect_err(|reason| skipped(test, reason));
    found.is_ok() && is_available(flavour, test)
}

/// A comment of sqlcommenter.
fn comment(flags: &str) -> String {
    format!("/*action='%2Fa',traceparent='00-{TRACE}-{PARENT}-{flags}'*/")
}

#[test]
fn statements_are_spans_of_their_parents_and_what_is_slow_or_fails_is_told_of() -> Result<()> {
    let test = "statements_are_spans_of_their_parents_and_what_is_slow_or_fails_is_told_of";
    if !can_run(Flavour::MariaDb, test) {
        return Ok(());
    }
    let rules = "[[rule]]\nid = 7\nmatch_digest = \"COUNT\"\napply = true\n\
                 attributes = '{\"trace_sample\": 1}'\n";
    // Nothing is slow but what sleeps.
    let trace = "otlp = \"http://127.0.0.1:{http}\"\nsample = 0\nslow_ms = 3000\n\
                 service_name = \"shop-db\"";
    let scene = Scene::new(Flavour::MariaDb, trace, rules)?;
    let collector = Collector::start(&scene.ports)?;
    let proxy = scene.proxy()?;
    let mut client = scene.client(&proxy)?;
    ensure!(text(&mut client, "SELECT a FROM orders WHERE id = 2")? == "two");
    let unsampled = format!("SELECT a, 1 FROM orders WHERE id = 1 {}", comment("00"));
    ensure!(text(&mut client, &unsampled)? == "one");
    let sampled = format!("SELECT a FROM orders WHERE id = 1 {}", comment("01"));
    ensure!(text(&mut client, &sampled)? == "one");
    let wrong = sampled.replace("-01'", "-01-02'");
    ensure!(text(&mut client, &wrong.replace("SELECT a", "SELECT a, 3"))? == "one");
    ensure!(text(&mut client, "SELECT COUNT(*) FROM orders")? == "2");
    fails(&mut client, "INSERT INTO orders VALUES (1, 'secret value')", 1062)?;
    ensure!(text(&mut client, "SELECT SLEEP(3.2)")? == "0");

    let parented = statement(&collector, "SELECT a FROM orders")?;
    ensure!(parented.text("traceId") == TRACE, "{parented:?}");
    ensure!(parented.text("parentSpanId") == PARENT, "{parented:?}");
    let server = shared_server(Flavour::MariaDb)?.address();
    let (host, port) = server.rsplit_once(':').context("a port")?;
    for (key, value) in [
        ("db.system.name", "mariadb"),
        ("db.namespace", scene.schema.as_str()),
        ("db.operation.name", "SELECT"),
        ("db.collection.name", "orders"),
        ("db.query.text", "SELECT a FROM orders WHERE id = ?"),
        ("db.query.summary", "SELECT orders"),
        ("db.response.returned_rows", "1"),
        ("server.address", host),
        ("server.port", port),
        ("user.name", "app"),
        ("trunkline.hostgroup", "0"),
        ("trunkline.sampled", "parent"),
    ] {
        ensure!(parented.is(key, value), "{key} is not {value} in {parented:?}");
    }
    let parts = stages(&collector, &parented)?;
    ensure!(parts.iter().any(|part| part.name() == "server"), "{parts:?}");

    let by_rule = statement(&collector, "SELECT COUNT(*)")?;
    ensure!(by_rule.is("trunkline.sampled", "ratio") && by_rule.is("trunkline.rule", "7"));
    ensure!(by_rule.text("parentSpanId").is_empty(), "{by_rule:?}");
    let failed = statement(&collector, "INSERT INTO orders")?;
    ensure!(failed.is("trunkline.sampled", "failed") && failed.is("error.type", "1062"));
    ensure!(failed.0["status"]["code"] == 2, "{failed:?}");
    let slow = statement(&collector, "SELECT SLEEP")?;
    ensure!(slow.is("trunkline.sampled", "slow"), "{slow:?}");
    let parts = stages(&collector, &slow)?;
    let on_server = parts.iter().find(|part| part.name() == "server").context("no server")?;
    ensure!(on_server.end_ns() - on_server.begin_ns() >= 3_000_000_000, "{parts:?}");
    // What was not to be told of has had time to come, as what came behind it is there.
    let told = statements(&collector)?;
    ensure!(told.len() == 4, "{told:#?}");
    ensure!(told.iter().all(|span| !span.0.to_string().contains("secret value")));
    let named = collector.lines()?.iter().all(|line| line.contains("\"shop-db\""));
    ensure!(named, "another name");
    ensure!(proxy.metric("trunkline_trace_parents_ignored_total", "")? == Some(1.0));
    ensure!(proxy.metric("trunkline_trace_statements_total", "")? == Some(4.0));
    Ok(())
}

#[test]
fn first_statements_connect_and_those_that_wait_queue() -> Result<()> {
    let test = "first_statements_connect_and_those_that_wait_queue";
    if !can_run(Flavour::MariaDb, test) {
        return Ok(());
    }
    let trace = "otlp = \"grpc://127.0.0.1:{grpc}\"\nsample = 1\n";
    let scene = Scene::new(Flavour::MariaDb, trace, "")?;
    let collector = Collector::start(&scene.ports)?;
    // One worker and one connection.
    let config = scene.config.replace("workers = 2", "workers = 1");
    let config = config.replace("max_connections = 4", "max_connections = 1");
    let proxy = Trunkline::start(&config)?;
    // Nothing has been asked of the server before: a login without a schema asks for nothing.
    let mut opener = client(&proxy, "")?;
    let qualified = format!("SELECT MIN(id) FROM {}.orders", scene.schema);
    ensure!(text(&mut opener, &qualified)? == "1");
    let opened = statement(&collector, "SELECT MIN(id)")?;
    let parts = stages(&collector, &opened)?;
    ensure!(parts.iter().any(|part| part.name() == "connect"), "{parts:?}");
    let mut first = scene.client(&proxy)?;
    let mut second = scene.client(&proxy)?;
    // The only connection has one session's state when another one comes.
    second.sql("SET sort_buffer_size = 300000")?;
    first.sql("SET @a = 1; BEGIN; UPDATE orders SET a = 'x' WHERE id = 1")?;
    let waiting = std::thread::spawn(move || second.sql("SELECT id FROM orders WHERE a = 'two'"));
    wait_until("it waits", SOON, || {
        let waiting = proxy.metric("trunkline_statements_waiting", "")?;
        Ok((waiting.unwrap_or_default() >= 1.0).then_some(()))
    })?;
    drop(first);
    waiting.join().map_err(|_| anyhow::anyhow!("it panicked"))??;
    let queued = statement(&collector, "SELECT id FROM orders WHERE a")?;
    let parts = stages(&collector, &queued)?;
    let waited = parts.iter().find(|part| part.name() == "queue").context("no queue")?;
    ensure!(waited.end_ns() > waited.begin_ns(), "{parts:?}");
    ensure!(parts.iter().any(|part| part.name() == "server"), "{parts:?}");
    let awaited = proxy.metric("trunkline_statement_state_waits_total", "")?;
    ensure!(awaited.unwrap_or_default() >= 1.0, "no statement has waited for its state");
    wait_until("a stage sync", SOON, || {
        Ok(spans(&collector)?.iter().any(|span| span.name() == "sync").then_some(()))
    })?;
    for whole in statements(&collector)? {
        stages(&collector, &whole)?;
    }
    // What is left is sent at the end.
    let mut last = scene.client(&proxy)?;
    ensure!(text(&mut last, "SELECT MAX(id) FROM orders")? == "2");
    drop(last);
    let status = proxy.terminate(SOON)?;
    ensure!(status.success(), "{status}");
    statement(&collector, "SELECT MAX(id)")?;
    Ok(())
}

#[test]
fn query_attributes_name_a_parent_of_texts_and_executions() -> Result<()> {
    let test = "query_attributes_name_a_parent_of_texts_and_executions";
    if !can_run(Flavour::MySql, test) {
        return Ok(());
    }
    let trace = "otlp = \"grpc://127.0.0.1:{grpc}\"\nsample = 0\nslow_ms = 0\nfailed = false";
    let scene = Scene::new(Flavour::MySql, trace, "")?;
    let collector = Collector::start(&scene.ports)?;
    let proxy = scene.proxy()?;
    let mut wire = wire(&proxy, &scene.schema, PLAIN | Capabilities::QUERY_ATTRIBUTES)?;
    let value = format!("00-{TRACE}-{PARENT}-01");
    let named = [("other", "x"), ("traceparent", value.as_str())];
    let body = with_attributes(&named, "SELECT a FROM orders WHERE id = 1");
    wire.exchange(code::QUERY, &body, Shape::Results)?;
    let prepared =
        wire.exchange(code::STMT_PREPARE, b"SELECT id FROM orders WHERE id > ?", Shape::Prepare)?;
    let id = prepared.get(5..9).context("no id")?.to_vec();
    let number = 0_i64.to_le_bytes();
    let mut execution =
        [&id[..], b"\x08\x01\0\0\0\x02\0\x01\x08\0\0\xFD\0\x0Btraceparent"].concat();
    execution.extend_from_slice(&number);
    execution.push(u8::try_from(value.len())?);
    execution.extend_from_slice(value.as_bytes());
    wire.exchange(code::STMT_EXECUTE, &execution, Shape::Results)?;
    for (part, command) in [("SELECT a FROM", None), ("SELECT id FROM", Some("execute"))] {
        let span = statement(&collector, part)?;
        ensure!(span.text("traceId") == TRACE && span.text("parentSpanId") == PARENT, "{span:?}");
        ensure!(span.attribute("trunkline.command").as_deref() == command, "{span:?}");
        ensure!(span.is("db.system.name", "mysql"), "{span:?}");
    }
    Ok(())
}

#[test]
fn a_collector_that_is_away_or_slow_holds_nobody_and_gets_what_was_kept() -> Result<()> {
    let test = "a_collector_that_is_away_or_slow_holds_nobody_and_gets_what_was_kept";
    if !can_run(Flavour::MariaDb, test) {
        return Ok(());
    }
    let trace = "otlp = \"http://127.0.0.1:{http}\"\nsample = 1\nqueue_max = 16\n\
                 batch_max = 1\ntimeout = 300\nmetrics_interval = 200";
    let scene = Scene::new(Flavour::MariaDb, trace, "")?;
    // It takes connections, and says nothing.
    let silent = TcpListener::bind(("127.0.0.1", scene.ports.http))?;
    let proxy = scene.proxy()?;
    let mut client = scene.client(&proxy)?;
    for _ in 0..40 {
        ensure!(text(&mut client, "SELECT a FROM orders WHERE id = 2")? == "two");
    }
    ensure!(text(&mut client, "SELECT MIN(id) FROM orders")? == "1");
    let metric = |name: &str, labels: &str| -> Result<f64> {
        Ok(proxy.metric(name, labels)?.unwrap_or_default())
    };
    wait_until("it fails, and the oldest leave", SOON, || {
        let failures = metric("trunkline_trace_failures_total", "")?;
        let dropped = metric("trunkline_trace_dropped_total", "cause=\"queue\"")?;
        Ok((failures >= 1.0 && dropped >= 20.0).then_some(()))
    })?;
    ensure!(metric("trunkline_trace_delivered_total", "")? == 0.0);
    ensure!(metric("trunkline_trace_statements_waiting", "")? <= 17.0);
    ensure!(proxy.log().contains("takes no spans"), "{}", proxy.log());
    drop(silent);
    let collector = Collector::start(&scene.ports)?;
    // What came last was kept.
    statement(&collector, "SELECT MIN(id)")?;
    wait_until("the metrics come", SOON, || {
        let lines = collector.lines()?;
        let has = |line: &String| {
            line.contains("\"trunkline_statements_total\"")
                && line.contains("\"trunkline_statement_latency_seconds\"")
        };
        Ok(lines.iter().any(has).then_some(()))
    })?;
    ensure!(metric("trunkline_trace_delivered_total", "")? >= 1.0);
    ensure!(proxy.log().contains("takes spans again"), "{}", proxy.log());
    drop(collector);
    let silent = TcpListener::bind(("127.0.0.1", scene.ports.http))?;
    ensure!(text(&mut client, "SELECT 1 + 1")? == "2");
    drop(client);
    let begin = Instant::now();
    ensure!(proxy.terminate(SOON)?.success());
    ensure!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    drop(silent);
    Ok(())
}

#[test]
fn spans_can_be_switched_on_and_off_on_the_admin_port() -> Result<()> {
    let test = "spans_can_be_switched_on_and_off_on_the_admin_port";
    if !can_run(Flavour::MariaDb, test) {
        return Ok(());
    }
    let scene = Scene::new(Flavour::MariaDb, "sample = 1", "")?;
    let collector = Collector::start(&scene.ports)?;
    let proxy = Trunkline::start_database(&scene.config)?;
    let mut client = scene.client(&proxy)?;
    ensure!(text(&mut client, "SELECT a FROM orders WHERE id = 2")? == "two");
    let mut admin = SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")?;
    let load = "LOAD TRUNKLINE VARIABLES TO RUNTIME";
    let wrong = admin.sql("SET trunkline-trace_otlp = 'https://127.0.0.1'");
    let error = format!("{:#}", wrong.err().context("it took TLS")?);
    ensure!(error.contains("must begin with `http://` or `grpc://`"), "{error}");
    let wrong = admin.sql("SET trunkline-trace_sample = '1.5'");
    let error = format!("{:#}", wrong.err().context("it took 1.5")?);
    ensure!(error.contains("must be 0 to 1"), "{error}");
    let http = scene.ports.http;
    admin.sql(&format!("SET trunkline-trace_otlp = 'http://127.0.0.1:{http}'; {load}"))?;
    ensure!(text(&mut client, "SELECT MIN(id) FROM orders")? == "1");
    statement(&collector, "SELECT MIN(id)")?;
    admin.sql(&format!("SET trunkline-trace_otlp = ''; {load}"))?;
    ensure!(text(&mut client, "SELECT MAX(id) FROM orders")? == "2");
    admin.sql(&format!("SET trunkline-trace_otlp = 'http://127.0.0.1:{http}'; {load}"))?;
    ensure!(text(&mut client, "SELECT COUNT(id) FROM orders")? == "2");
    statement(&collector, "SELECT COUNT(id)")?;
    let told = statements(&collector)?;
    let has = |part: &str| {
        told.iter().any(|it| it.attribute("db.query.text").is_some_and(|it| it.contains(part)))
    };
    ensure!(!has("MAX(id)") && !has("SELECT a FROM"), "{told:#?}");
    Ok(())
}
