//! Spans of statements, and where they go.

macro_rules! traces {
    ([$($before:tt)*] $next:ident $($later:ident)*) => { $next! { [$($before)*

    /// The collector of OpenTelemetry that spans of statements go to:
    /// `http://host[:port][/path]` for OTLP over HTTP, `grpc://host[:port]` for gRPC. A file may
    /// have this and the other settings `trace_…` in a table `[trace]`, without the prefix. Empty
    /// makes no spans.
    trace_otlp: Option<Collector> = None, Range::All, "", Live, "0.1.0";

    /// The part of statements that have spans, among those that name no parent. It is decided as
    /// they begin, whatever comes of them; rules and users may say otherwise (`trace_sample`).
    trace_sample: Ratio = Ratio::of_millionths(10_000), Range::All, "", Live, "0.1.0";

    /// A statement that takes as long as this has spans, sampled or not. 0 does not look at how
    /// long they take.
    trace_slow_ms: u64 = 200, Range::Numbers(0, 20 * DAY_MS), "ms", Live, "0.1.0";

    /// Whether a statement that ends with an error has spans, sampled or not.
    trace_failed: bool = true, Range::All, "", Live, "0.1.0";

    /// Whether clients decide which of their statements have spans, by the flag of their
    /// `traceparent`. Without it, a statement with a parent is sampled as any other, and belongs to
    /// its parent all the same.
    trace_follow_parent: bool = true, Range::All, "", Live, "0.1.0";

    /// Whether spans have the digest's text: the statement with `?` in place of literals.
    trace_text: bool = true, Range::All, "", Live, "0.1.0";

    /// What the proxy is called in spans (`service.name`).
    trace_service_name: String = "trunkline".to_owned(), Range::Text(128), "", Live, "0.1.0";

    /// File with headers for the collector, each in a line: `name: value`. It is read whenever a
    /// connection is opened.
    trace_headers_file: String = String::new(), Range::Text(4_096), "", Live, "0.1.0";

    /// Statements of one worker whose spans wait to be taken from it. What finds no room is
    /// counted and has no spans (`trunkline_trace_ring_full_total`).
    trace_ring_max: usize = 2_048, Range::Numbers(16, 65_536), "statements", Live, "0.1.0";

    /// Statements whose spans wait for the collector. What finds no room is counted and has no
    /// spans.
    trace_queue_max: usize = 8_192, Range::Numbers(16, 1_048_576), "statements", Live, "0.1.0";

    /// The most statements whose spans are sent at once.
    trace_batch_max: usize = 512, Range::Numbers(1, 8_192), "statements", Live, "0.1.0";

    /// How long the collector may take to answer before what it was sent is sent again.
    trace_timeout: u64 = 5_000, Range::Numbers(10, 60_000), "ms", Live, "0.1.0";

    /// How often the metrics of `/metrics` are sent to the collector as well. 0 does not.
    trace_metrics_interval: u64 = 0, Range::Numbers(0, DAY_MS), "ms", Live, "0.1.0";

    ] $($later)* } };
}
