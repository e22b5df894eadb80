//! The metrics of `/metrics` as messages of OTLP: the same names, labels as attributes.

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
        ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point,
    },
};
use trunkline_stats::metrics::{MetricKind, PlainFamily, PlainSeries, PlainValue};

use crate::spans::{resource, scope, text};

/// When counting began, and when it was looked at, ns of Unix time.
#[derive(Debug, Clone, Copy)]
struct Span {
    from_ns: u64,
    to_ns: u64,
}

/// What asks the collector to take these. `began_us` and `now_us` are µs of Unix time.
pub(crate) fn request(
    families: &[PlainFamily],
    (began_us, now_us): (u64, u64),
    service_name: &str,
) -> ExportMetricsServiceRequest {
    let span =
        Span { from_ns: began_us.saturating_mul(1_000), to_ns: now_us.saturating_mul(1_000) };
    let metrics = families.iter().filter(|family| !family.series.is_empty());
    let metrics = metrics.map(|family| metric(family, span)).collect();
    let scope_metrics =
        vec![ScopeMetrics { scope: Some(scope()), metrics, schema_url: String::new() }];
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource(service_name)),
            scope_metrics,
            schema_url: String::new(),
        }],
    }
}

fn metric(family: &PlainFamily, span: Span) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let points = || family.series.iter().filter_map(|series| point(series, span)).collect();
    let data = match family.kind {
        MetricKind::Gauge => Data::Gauge(Gauge { data_points: points() }),
        MetricKind::Counter => Data::Sum(Sum {
            data_points: points(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        MetricKind::Histogram => Data::Histogram(Histogram {
            data_points: family.series.iter().filter_map(|it| distribution(it, span)).collect(),
            aggregation_temporality: cumulative,
        }),
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: if family.name.contains("_seconds") { "s" } else { "" }.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn attributes(series: &PlainSeries) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    series.labels.iter().map(|(name, value)| text(name, value.clone())).collect()
}

fn point(series: &PlainSeries, span: Span) -> Option<NumberDataPoint> {
    let value = match &series.value {
        PlainValue::Whole(number) => {
            number_data_point::Value::AsInt(i64::try_from(*number).unwrap_or(i64::MAX))
        }
        PlainValue::Float(number) => number_data_point::Value::AsDouble(*number),
        PlainValue::Distribution { .. } => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: span.from_ns,
        time_unix_nano: span.to_ns,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

/// Counts below each bound become counts between bounds, with those beyond the last one.
fn distribution(series: &PlainSeries, span: Span) -> Option<HistogramDataPoint> {
    let PlainValue::Distribution { bounds, below, count, sum } = &series.value else {
        return None;
    };
    let mut so_far = 0;
    let mut bucket_counts: Vec<u64> = Vec::with_capacity(below.len() + 1);
    for below in below.iter().chain([count]) {
        bucket_counts.push(below.saturating_sub(so_far));
        so_far = so_far.max(*below);
    }
    Some(HistogramDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: span.from_ns,
        time_unix_nano: span.to_ns,
        // The parts are what is there; a total that was read a moment before may be less.
        count: bucket_counts.iter().sum(),
        sum: Some(*sum),
        bucket_counts,
        explicit_bounds: bounds.clone(),
        ..HistogramDataPoint::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_below_become_counts_between() {
        let value = PlainValue::Distribution {
            bounds: vec![0.1, 1.0],
            below: vec![2, 5],
            count: 6,
            sum: 7.5,
        };
        let series = PlainSeries { labels: vec![("command", "SELECT".to_owned())], value };
        let family = PlainFamily {
            name: "trunkline_x_seconds",
            kind: MetricKind::Histogram,
            help: "X.",
            series: vec![series],
        };
        let request = request(&[family], (1, 2), "proxy");
        let metric = &request.resource_metrics[0].scope_metrics[0].metrics[0];
        let Some(Data::Histogram(histogram)) = &metric.data else { panic!("{metric:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((point.bucket_counts.as_slice(), point.count), (&[2, 3, 1][..], 6));
        assert_eq!((point.explicit_bounds.as_slice(), point.sum), (&[0.1, 1.0][..], Some(7.5)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1_000, 2_000));
        assert_eq!(point.attributes, [text("command", "SELECT")]);
        assert_eq!(metric.unit, "s");
    }

    #[test]
    fn counters_and_gauges_are_told_apart_and_empty_families_left_out() {
        let family = |kind, series| PlainFamily { name: "trunkline_x", kind, help: "X.", series };
        let one = || PlainSeries { labels: Vec::new(), value: PlainValue::Whole(3) };
        let families = [
            family(MetricKind::Counter, vec![one()]),
            family(MetricKind::Gauge, vec![one()]),
            family(MetricKind::Gauge, Vec::new()),
        ];
        let request = request(&families, (1, 2), "proxy");
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let [counter, gauge] = metrics.as_slice() else { panic!("{metrics:?}") };
        assert!(matches!(&counter.data, Some(Data::Sum(sum)) if sum.is_monotonic));
        assert!(matches!(&gauge.data, Some(Data::Gauge(_))));
    }
}
