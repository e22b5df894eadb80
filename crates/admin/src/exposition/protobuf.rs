//! Messages `io.prometheus.client.MetricFamily`, each behind its length: the one form that native
//! histograms have.
//!
//! Source: prometheus/client_model, `metrics.proto`; "Protocol Buffers: Encoding".
//!
//! | message | fields |
//! |---|---|
//! | `MetricFamily` | 1 name, 2 help, 3 type (0 counter, 1 gauge, 4 histogram), 4 metric |
//! | `Metric` | 1 label, 2 gauge, 3 counter, 7 histogram; the first two of `LabelPair` are its texts |
//! | `Gauge`, `Counter` | 1 value |
//! | `Histogram` | 1 sample_count, 2 sample_sum, 3 bucket, 5 schema, 6 zero_threshold, 7 zero_count, 12 positive_span, 13 positive_delta |
//! | `Bucket` | 1 cumulative_count, 2 upper_bound |
//! | `BucketSpan` | 1 offset, 2 length |

use trunkline_stats::metrics::MetricKind;

use super::{Distribution, Family, Number, Series, Value, native};

/// All families that have series.
pub(super) fn write(families: &[Family<'_>]) -> Vec<u8> {
    let mut out = Message::default();
    for family in families.iter().filter(|family| !family.series.is_empty()) {
        let mut message = Message::default();
        message.text(1, family.name);
        message.text(2, family.help);
        message.whole(
            3,
            match family.kind {
                MetricKind::Counter => 0,
                MetricKind::Gauge => 1,
                MetricKind::Histogram => 4,
            },
        );
        for series in &family.series {
            message.message(4, &metric(family.kind, series));
        }
        out.varint(message.len());
        out.0.extend_from_slice(&message.0);
    }
    out.0
}

fn metric(kind: MetricKind, series: &Series<'_>) -> Message {
    let mut message = Message::default();
    for (name, value) in &series.labels {
        let mut label = Message::default();
        label.text(1, name);
        label.text(2, value);
        message.message(1, &label);
    }
    match &series.value {
        Value::Number(number) => {
            let mut value = Message::default();
            value.double(1, float(*number));
            message.message(if kind == MetricKind::Counter { 3 } else { 2 }, &value);
        }
        Value::Distribution(of) => message.message(7, &histogram(of)),
    }
    message
}

fn histogram(of: &Distribution<'_>) -> Message {
    let mut message = Message::default();
    message.whole(1, of.count);
    message.double(2, float(Number::Micros(of.sum_us)));
    for (bound_us, below) in &of.buckets {
        let mut bucket = Message::default();
        bucket.whole(1, *below);
        bucket.double(2, float(Number::Micros(*bound_us)));
        message.message(3, &bucket);
    }
    let Some(fine) = of.fine else { return message };
    let found = native::Native::of(fine);
    message.signed(5, i64::from(native::SCHEMA));
    message.double(6, native::ZERO_MAX);
    message.whole(7, found.zeros);
    spans(&mut message, &found.buckets);
    message
}

/// Runs of neighbouring buckets, each with its distance from the end of the one before; then each
/// count as its difference from the one before.
fn spans(message: &mut Message, buckets: &[(i32, u64)]) {
    let mut next = 0_i32;
    for run in buckets.chunk_by(|(a, _), (b, _)| a.saturating_add(1) == *b) {
        let Some((first, _)) = run.first() else { continue };
        let mut span = Message::default();
        span.signed(1, i64::from(first.saturating_sub(next)));
        span.whole(2, run.len() as u64);
        message.message(12, &span);
        next = first.saturating_add(i32::try_from(run.len()).unwrap_or(i32::MAX));
    }
    if buckets.is_empty() {
        // A span of nothing tells an empty native histogram from one that has classic buckets only.
        message.message(12, &Message::default());
    }
    let mut before = 0_i64;
    for (_, count) in buckets {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        message.signed(13, count - before);
        before = count;
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
pub(super) fn float(number: Number) -> f64 {
    match number {
        Number::Whole(number) => number as f64,
        Number::Micros(us) => us as f64 / 1e6,
    }
}

/// A message as it grows.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// A field's number with how its value is written: 0 a varint, 1 eight bytes, 2 a length.
    fn tag(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn whole(&mut self, field: u64, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    /// The sign goes to the lowest bit.
    fn signed(&mut self, field: u64, number: i64) {
        self.whole(field, (number << 1 ^ number >> 63).cast_unsigned());
    }

    fn double(&mut self, field: u64, number: f64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, field: u64, text: &str) {
        self.tag(field, 2);
        self.varint(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.tag(field, 2);
        self.varint(message.len());
        self.0.extend_from_slice(&message.0);
    }
}
