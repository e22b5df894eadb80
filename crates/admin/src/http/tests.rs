use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use super::{gate::OTHER_PLACES, guard::Limits, *};
use trunkline_stats::{SessionList, SessionRow};

use crate::{
    sample,
    source::{ReportFuture, SessionsFuture},
};

/// Longer than any of these tests needs; a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

struct Fixed {
    health: Health,
    is_stuck: bool,
    has_workers: bool,
}

impl StatusSource for Fixed {
    fn report(&self, digests: DigestQuery) -> ReportFuture<'_> {
        match self.is_stuck {
            true => Box::pin(std::future::pending()),
            false if !self.has_workers => Box::pin(async { Report::default() }),
            false => Box::pin(async move { sample::report(digests) }),
        }
    }

    fn sessions(&self, query: SessionQuery) -> SessionsFuture<'_> {
        let row = |id| SessionRow { id, ..SessionRow::default() };
        let all = if query.pinned_only { 1 } else { 3 };
        let sessions = (0..all).map(row).take(query.rows_max).collect();
        let list = SessionList { total: 3, pinned: 1, sessions, ..SessionList::default() };
        Box::pin(std::future::ready(list))
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn checks(
        &self,
        kind: trunkline_stats::checks::CheckKind,
    ) -> Vec<trunkline_stats::checks::CheckRow> {
        crate::sample::checks(kind)
    }

    fn topology(&self) -> trunkline_stats::Topology {
        sample::topology()
    }

    fn http_allowed_hosts(&self) -> String {
        "test".to_owned()
    }
}

fn source(health: Health) -> Arc<dyn StatusSource> {
    Arc::new(Fixed { health, is_stuck: false, has_workers: true })
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("a bound socket");
    (listener, addr)
}

/// What a server answers to `request`, until it closes the connection.
async fn exchange(addr: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.expect("a listening server");
    // A server that refuses the request may close before it has read all of it.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    let _ = read.expect("the server closes in time");
    String::from_utf8(answer).expect("text")
}

/// Status, head and body of the answer to a GET.
async fn fetch(addr: SocketAddr, path: &str) -> (u16, String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let answer = exchange(addr, request.as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), head.to_ascii_lowercase(), body.to_owned())
}

async fn serve_source(source: Arc<dyn StatusSource>) -> SocketAddr {
    let (listener, addr) = listen().await;
    tokio::spawn(serve(listener, source, None, std::future::pending()));
    addr
}

async fn serve_within(limits: Limits) -> SocketAddr {
    let (listener, addr) = listen().await;
    serve_guarded(listener, limits, Answering::new(source(Health::Ready), None));
    addr
}

fn serve_guarded(listener: TcpListener, limits: Limits, answering: Answering) {
    let listener = GuardedListener::with_limits(listener, limits, Arc::clone(&answering.figures));
    let service = router(answering).into_make_service_with_connect_info::<Caller>();
    let serving = axum::serve(listener, service);
    tokio::spawn(serving.into_future());
}

const WIDE: Limits = Limits {
    connections: 8,
    request_bytes: REQUEST_BYTES,
    request_time: PATIENCE,
    idle_time: PATIENCE,
};
const REQUEST_BYTES: usize = 1_000;
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn routes_answer_in_their_formats() {
    let addr = serve_source(source(Health::Ready)).await;
    let (status, head, body) = fetch(addr, "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(body.contains("\ntrunkline_statements_total 8840\n"));
    assert!(!body.contains("trunkline_digest_errors_total"));
    let (_, _, body) = fetch(addr, "/metrics?digests=2").await;
    assert_eq!(body.matches("\ntrunkline_digest_errors_total{").count(), 2);
    let (status, head, body) = fetch(addr, "/status").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    let mut report: Report = serde_json::from_str(&body).expect("a report");
    assert_eq!(report.process.http.connections, 1, "this one");
    let counted = sample::report(DigestQuery::NONE).process;
    (report.process.admin, report.process.http) = (counted.admin, counted.http);
    assert!(report.process.kernel.resident > 0, "the kernel's");
    report.process.kernel = counted.kernel;
    let query = rows_of_each_worker(DigestOrder::SumTime, STATUS_DIGESTS);
    // What is too much for JSON is left out of it.
    let shown = |report: &Report| serde_json::to_value(report).expect("a report");
    assert_eq!(shown(&report), shown(&sample::report(query)));
}

/// Prometheus forgets what a list lacks, so none is made while no worker tells of servers.
#[tokio::test]
async fn targets_are_an_error_rather_than_an_empty_list() {
    let addr = serve_source(source(Health::Ready)).await;
    let (status, head, body) = fetch(addr, "/sd").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    let groups: Value = serde_json::from_str(&body).expect("json");
    assert_eq!(groups[0]["targets"][0], "db-primary.prod.example.internal:3306");
    let silent = Fixed { health: Health::Ready, is_stuck: false, has_workers: false };
    let (status, _, body) = fetch(serve_source(Arc::new(silent)).await, "/sd").await;
    assert_eq!((status, body.as_str()), (503, "no worker has said which servers there are\n"));
}

#[tokio::test]
async fn digests_come_in_the_order_and_number_asked_for() {
    let addr = serve_source(source(Health::Ready)).await;
    let get = async |path: &str| {
        let (status, _, body) = fetch(addr, path).await;
        assert_eq!(status, 200, "{path}");
        serde_json::from_str::<Value>(&body).expect("json")
    };
    let page = get("/status/digests?limit=2&order=count_star").await;
    assert_eq!(page["digests"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["digests"][0]["digest"], "0x000000000000ABCD");
    assert_eq!(page["digests"][0]["count_star"], 8_000);
    assert_eq!(page["digests"][0]["digest_text"], "SELECT c FROM sbtest WHERE id=?");
    assert_eq!(page["order"], "count_star");
    assert!(page["evicted"].as_u64() > Some(0));
    let page = get("/status/digests").await;
    assert_eq!(page["order"], "sum_time");
    assert_eq!(page["digests"].as_array().map(Vec::len), Some(12));
}

#[tokio::test]
async fn wrong_requests_are_told_what_is_right() {
    let addr = serve_source(source(Health::Ready)).await;
    let check = async |path: &str, expected_status: u16, expected: &str| {
        let (status, _, body) = fetch(addr, path).await;
        assert_eq!(status, expected_status, "{path}");
        assert!(body.contains(expected), "{path}: {body}");
    };
    for route in ["/metrics", "/sd", "/healthz", "/readyz", "/status", "/status/digests"] {
        check("/favicon.ico", 404, &format!("GET {route} ")).await;
    }
    check("/status/digests?limit=x", 400, "`limit=x` is not a number from 0 to 10000").await;
    check("/status/digests?order=name", 400, "known: sum_time").await;
    check("/metrics?digest=5", 400, "unknown parameter `digest`; known: digests").await;
    let answer = exchange(
        addr,
        b"POST /status HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
          Connection: close\r\n\r\n",
    );
    assert!(answer.await.starts_with("HTTP/1.1 405 "));
    let answer = exchange(addr, b"\x16\x03\x01 not http at all\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn readiness_turns_before_health() {
    let check = async |health: Health, healthz: (u16, &str), readyz: (u16, &str)| {
        let addr = serve_source(source(health)).await;
        for (path, expected) in [("/healthz", healthz), ("/readyz", readyz)] {
            let (status, _, body) = fetch(addr, path).await;
            assert_eq!((status, body.trim_end()), expected, "{path}");
        }
    };
    check(Health::Ready, (200, "ok"), (200, "ok")).await;
    check(Health::NotReady("stopping".into()), (200, "ok"), (503, "stopping")).await;
    check(Health::Failed("no worker".into()), (503, "no worker"), (503, "no worker")).await;
}

#[tokio::test]
async fn workers_that_do_not_answer_do_not_hold_a_request() {
    let (listener, addr) = listen().await;
    let stuck = Arc::new(Fixed { health: Health::Ready, is_stuck: true, has_workers: true });
    let answering = Answering { report_time: SHORT, ..Answering::new(stuck, None) };
    tokio::spawn(axum::serve(listener, router(answering)).into_future());
    let (status, _, body) = fetch(addr, "/status").await;
    assert_eq!((status, body.as_str()), (503, "the workers did not answer within 50ms\n"));
}

#[tokio::test]
async fn slow_idle_and_long_requests_end_with_the_connection() {
    let slow = serve_within(Limits { request_time: SHORT, ..WIDE }).await;
    assert!(!exchange(slow, b"GET /status HT").await.contains("200 OK"));
    assert!(!exchange(slow, b"").await.contains("200 OK"));
    let idle = serve_within(Limits { idle_time: SHORT, ..WIDE }).await;
    let answer = exchange(idle, b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let short = serve_within(WIDE).await;
    let long = format!("GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n", "x".repeat(REQUEST_BYTES));
    assert!(!exchange(short, long.as_bytes()).await.contains("404"));
    assert_eq!(fetch(short, "/healthz").await.0, 200);
}

/// Connections that nobody uses any more, or slowly, give way to those that come.
#[tokio::test]
async fn idle_and_slow_connections_keep_nobody_out() {
    let places = 4;
    let addr = serve_within(Limits { connections: places, ..WIDE }).await;
    let mut open = Vec::new();
    for kind in 0..4 * places {
        let mut stream = TcpStream::connect(addr).await.expect("a listening server");
        let request: &[u8] = match kind % 4 {
            0 => b"",
            1 => b"GET /status HT",
            3 => UNFINISHED,
            _ => b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n",
        };
        stream.write_all(request).await.expect("written");
        if kind % 4 == 2 {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).await.expect("an answer");
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
        open.push(stream);
    }
    let begun = std::time::Instant::now();
    for path in ["/healthz", "/readyz", "/metrics", "/status"] {
        assert_eq!(fetch(addr, path).await.0, 200, "{path}");
    }
    assert!(begun.elapsed() < PATIENCE / 3, "nobody's limit was waited for");
    let (_, _, metrics) = fetch(addr, "/metrics").await;
    assert!(!metrics.contains("trunkline_http_refusals_total{cause=\"displaced\"} 0\n"));
}

/// A request whose body never comes.
const UNFINISHED: &[u8] = b"POST /api/v1/statement HTTP/1.1\r\nHost: test\r\n\
    Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";

#[tokio::test]
async fn unfinished_requests_have_no_places() {
    let (listener, addr) = listen().await;
    let answering =
        Answering { places: Places::of(1, 2), ..Answering::new(source(Health::Ready), None) };
    serve_guarded(listener, WIDE, answering);
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(addr).await.expect("a listening server");
        stream.write_all(UNFINISHED).await.expect("written");
        open.push(stream);
    }
    for _ in 0..50 {
        assert_eq!(fetch(addr, "/status").await.0, 200);
    }
}

#[test]
fn statements_about_statistics_have_few_places() {
    let places = Places::new();
    let taken: Vec<_> = std::iter::from_fn(|| places.take_for_statistics()).collect();
    assert!(taken.len() < OTHER_PLACES / 2, "{} of {OTHER_PLACES}", taken.len());
    assert!(places.take("/api/v1/statement").is_ok());
}

/// Requests that are being worked on take no place of a probe, and are not closed for others.
#[tokio::test]
async fn probes_have_places_of_their_own() {
    let (listener, addr) = listen().await;
    let stuck = Arc::new(Fixed { health: Health::Ready, is_stuck: true, has_workers: true });
    let answering = Answering { places: Places::of(1, 2), ..Answering::new(stuck, None) };
    let answering = Answering { report_time: PATIENCE, ..answering };
    serve_guarded(listener, Limits { connections: 5, ..WIDE }, answering);
    let mut working = Vec::new();
    for path in ["/status", "/", "/metrics"] {
        let mut stream = TcpStream::connect(addr).await.expect("a listening server");
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        working.push(stream);
    }
    // When others are refused, the three are being worked on.
    for path in ["/sessions", "/metrics"] {
        while fetch(addr, path).await.0 != 503 {
            tokio::task::yield_now().await;
        }
    }
    assert!(fetch(addr, "/sessions").await.1.contains("retry-after: 1"));
    let mut silent = Vec::new();
    for _ in 0..10 {
        silent.push(TcpStream::connect(addr).await.expect("a listening server"));
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(fetch(addr, path).await.0, 200, "{path}");
    }
    for stream in &mut working {
        let mut byte = [0; 1];
        let early = tokio::time::timeout(SHORT, stream.read(&mut byte)).await;
        assert!(early.is_err(), "none of them was closed");
    }
}

#[tokio::test]
async fn requests_of_foreign_pages_are_refused() {
    let addr = serve_source(source(Health::Ready)).await;
    let ask = async |head: &str| {
        let request = format!("{head}\r\nConnection: close\r\n\r\n");
        let answer = exchange(addr, request.as_bytes()).await;
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(ask("GET /healthz HTTP/1.1\r\nHost: evil.example").await, "421");
    assert_eq!(ask("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:6070").await, "200");
    assert_eq!(ask("GET /status HTTP/1.0").await, "200");
    let foreign = "GET /status HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example";
    assert_eq!(ask(foreign).await, "403");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let post = format!("POST /api/v1/statement HTTP/1.1\r\nHost: test\r\nContent-Type: {kind}");
        assert_eq!(ask(&post).await, "415", "{kind}");
    }
    assert_eq!(ask("POST /sync/run HTTP/1.1\r\nHost: test").await, "415");
}

#[tokio::test]
async fn the_server_ends_when_it_is_told_to() {
    let (listener, addr) = listen().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move { drop(stopped.await) };
    let serving = tokio::spawn(serve(listener, source(Health::Ready), None, shutdown));
    assert_eq!(fetch(addr, "/healthz").await.0, 200);
    let _silent = TcpStream::connect(addr).await.expect("a listening server");
    stop.send(()).expect("the server waits for it");
    let ended = tokio::time::timeout(PATIENCE, serving).await.expect("it ends in time");
    ended.expect("no panic").expect("no error");
}

#[tokio::test]
async fn sessions_are_bounded_and_asked_for_by_pins() {
    let addr = serve_source(source(Health::Ready)).await;
    let rows = async |path: &str| {
        let (status, _, body) = fetch(addr, path).await;
        assert_eq!(status, 200, "{path}: {body}");
        let list: SessionList = serde_json::from_str(&body).expect("a list");
        list.sessions.len()
    };
    assert_eq!(rows("/sessions").await, 3);
    assert_eq!(rows("/sessions?limit=2").await, 2);
    assert_eq!(rows("/sessions?pinned=1").await, 1);
    assert_eq!(fetch(addr, "/sessions?limit=10001").await.0, 400);
    assert_eq!(fetch(addr, "/sessions?pins=1").await.0, 400);
}
