//! Spans of statements, and the metrics, to a collector of OpenTelemetry, by OTLP over HTTP or
//! gRPC (`docs/decisions/0090`).
//!
//! Reading order: [`exporter`] (the task that empties the workers' rings and sends), [`queue`]
//! (what waits, and when to try again), [`spans`] and [`numbers`] (records and metrics as
//! messages of OTLP), [`link`] (the connection to the collector), [`counts`].
#![forbid(unsafe_code)]

mod counts;
mod exemplars;
mod exporter;
mod headers;
mod link;
mod numbers;
mod queue;
mod spans;

pub use counts::TraceCounts;
pub use exporter::{Exporter, MetricsFuture, MetricsSource, Source};
