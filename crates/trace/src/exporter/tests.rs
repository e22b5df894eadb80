use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    thread,
};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest,
};
use tokio::time::sleep;
use trunkline_config::parse;
use trunkline_stats::span::SpanRecord;

use super::*;

/// How long anything may take that is expected to happen.
const SOON: Duration = Duration::from_secs(20);

fn snapshot(trace: &str) -> Arc<Snapshot> {
    let text = format!(
        "[trace]\n{trace}\n[[server]]\naddress = \"a\"\n[[user]]\nname = \"u\"\npassword = \"p\"\n"
    );
    let config = parse(&text, "t", &|_: &str| Err("none".to_owned())).expect("a configuration");
    Arc::new(Snapshot::build(config, None))
}

/// A collector over HTTP that answers with these statuses in turn, each on a connection that stays
/// open; the spans of each request.
fn collector(answers: Vec<(u16, Vec<u8>)>) -> (u16, Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        for (status, body) in answers {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a head");
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
            assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
            assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
            assert!(head.contains("\r\nx-scope: shop\r\n"), "{head}");
            let len = head.split("content-length: ").nth(1).expect("a length");
            let len = len.split("\r\n").next().expect("a line").parse().expect("a number");
            let mut message = vec![0; len];
            stream.read_exact(&mut message).expect("a body");
            let request = ExportTraceServiceRequest::decode(&*message).expect("a request");
            let spans = &request.resource_spans[0].scope_spans[0].spans;
            sender.send(spans.len()).expect("somebody counts");
            let len = body.len();
            write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {len}\r\n\r\n").expect("sent");
            stream.write_all(&body).expect("sent");
        }
    });
    (port, receiver)
}

struct Stand {
    ring: Arc<SpanRing>,
    counts: Arc<TraceCounts>,
    exporter: Exporter,
    snapshots: watch::Sender<Arc<Snapshot>>,
}

fn start(trace: &str, statements: usize) -> Stand {
    let ring = Arc::new(SpanRing::default());
    ring.resize(64);
    let mut records = vec![SpanRecord { operation: "SELECT", ..SpanRecord::default() }; statements];
    assert_eq!(ring.put(&mut records), 0);
    let (sender, receiver) = watch::channel(snapshot(trace));
    let source = Source { rings: vec![Arc::clone(&ring)], started: Instant::now() };
    let counts = Arc::<TraceCounts>::default();
    let metrics: MetricsSource = Arc::new(|| Box::pin(async { Vec::new() }));
    let exporter = Exporter::start(receiver, source, metrics, Arc::clone(&counts));
    Stand { ring, counts, exporter, snapshots: sender }
}

/// Waits until the figures are so.
async fn wait(
    counts: &TraceCounts,
    what: &str,
    is_so: impl Fn(trunkline_stats::TraceFigures) -> bool,
) {
    let begun = Instant::now();
    while !is_so(counts.figures()) {
        assert!(begun.elapsed() < SOON, "{what}: {:?}", counts.figures());
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_may_be_taken_later_is_sent_again_and_the_rest_is_counted() {
    let partial = ExportTracePartialSuccess { rejected_spans: 3, error_message: String::new() };
    let partial = ExportTraceServiceResponse { partial_success: Some(partial) };
    let answers = vec![
        (503, Vec::new()),
        (200, partial.encode_to_vec()),
        (400, Vec::new()),
        (200, b"no message".to_vec()),
    ];
    let (port, requests) = collector(answers);
    let file = std::env::temp_dir().join(format!("trace-headers-{}", std::process::id()));
    std::fs::write(&file, "# whose\nX-Scope: shop\n").expect("a file");
    let trace = format!(
        "otlp = \"http://127.0.0.1:{port}\"\nbatch_max = 2\nheaders_file = \"{}\"",
        file.display()
    );
    let stand = start(&trace, 6);
    wait(&stand.counts, "two are delivered", |it| it.delivered == 4).await;
    let figures = stand.counts.figures();
    assert_eq!((figures.failures, figures.dropped_refused), (2, 2), "{figures:?}");
    assert_eq!((figures.spans_rejected, figures.waiting), (3, 0), "{figures:?}");
    assert_eq!(requests.try_iter().collect::<Vec<_>>(), [2, 2, 2, 2]);
    stand.exporter.finish().await;
    assert_eq!(stand.counts.figures().dropped_stopped, 0);
    std::fs::remove_file(file).expect("removed");
}

#[tokio::test]
async fn the_end_waits_for_a_silent_collector_for_a_second_only() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let trace = format!("otlp = \"grpc://127.0.0.1:{port}\"\ntimeout = 60000\nbatch_max = 1");
    let stand = start(&trace, 3);
    wait(&stand.counts, "they are taken in", |it| it.waiting == 3).await;
    let begun = Instant::now();
    stand.exporter.finish().await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let figures = stand.counts.figures();
    assert_eq!((figures.dropped_stopped, figures.delivered), (3, 0), "{figures:?}");
    drop(listener);
}

#[tokio::test]
async fn nothing_is_kept_while_no_collector_is_configured() {
    let stand = start("sample = 1", 2);
    // A configuration is looked at when it comes.
    stand.snapshots.send_replace(snapshot("sample = 0.5"));
    wait(&stand.counts, "they are dropped", |it| it.dropped_stopped == 2).await;
    assert!(stand.ring.take().is_empty());
    assert_eq!(stand.counts.figures().failures, 0);
}
