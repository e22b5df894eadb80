//! Prometheus's text format 0.0.4, and OpenMetrics 1.0, which is stricter about names.
//!
//! Source: prometheus.io, "Exposition formats"; the OpenMetrics specification.

use std::{collections::HashSet, fmt::Write};

use trunkline_stats::{Exemplar, metrics::MetricKind};

use super::{Distribution, Family, Number, Value};

/// All families in the text format. Writing to a `String` does not fail, so results are dropped.
pub(super) fn write(families: &[Family<'_>]) -> String {
    let mut text = String::new();
    for family in families {
        head(&mut text, family.name, family.kind.name(), family.help, false);
        series(&mut text, family, false);
    }
    text
}

/// All families in OpenMetrics, which takes `_total` off the names of counters. Where there is a
/// gauge of the name that is left (ProxySQL has such a pair), the counter's kind is not told.
pub(super) fn write_open(families: &[Family<'_>]) -> String {
    let gauges: HashSet<&str> = families
        .iter()
        .filter(|family| family.kind != MetricKind::Counter)
        .map(|family| family.name)
        .collect();
    let mut text = String::new();
    for family in families {
        let bare = family.name.strip_suffix("_total");
        let (name, kind) = match (family.kind, bare) {
            (MetricKind::Counter, Some(bare)) if !gauges.contains(bare) => (bare, "counter"),
            (MetricKind::Counter, _) => (family.name, "unknown"),
            (MetricKind::Gauge | MetricKind::Histogram, _) => (family.name, family.kind.name()),
        };
        head(&mut text, name, kind, family.help, true);
        series(&mut text, family, true);
    }
    text.push_str("# EOF\n");
    text
}

fn head(text: &mut String, name: &str, kind: &str, help: &str, is_open: bool) {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    let help = if is_open { help.replace('"', "\\\"") } else { help };
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn series(text: &mut String, family: &Family<'_>, is_open: bool) {
    for series in &family.series {
        let labels: Vec<(&str, &str)> =
            series.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        match &series.value {
            Value::Number(number) => sample(text, family.name, "", &labels, &shown(*number)),
            Value::Distribution(of) => distribution(text, family.name, &labels, of, is_open),
        }
    }
}

fn distribution(
    text: &mut String,
    name: &str,
    labels: &[(&str, &str)],
    of: &Distribution<'_>,
    is_open: bool,
) {
    let mut with_bound = |bound: &str, below: u64, exemplar: Option<&Exemplar>| {
        let mut labels = labels.to_vec();
        labels.push(("le", bound));
        let value = below.to_string();
        let exemplar = exemplar.map(example).unwrap_or_default();
        sample(text, name, "_bucket", &labels, &format!("{value}{exemplar}"));
    };
    let mut least_us = 0;
    let mut next = |bound_us: u64| {
        let range = least_us..=bound_us;
        least_us = bound_us.saturating_add(1);
        let within = of.exemplars.iter().filter(|it| is_open && range.contains(&it.took_us));
        within.max_by_key(|it| it.ended_unix_ms)
    };
    for (bound_us, below) in &of.buckets {
        let bound = seconds(*bound_us);
        let exemplar = next(*bound_us);
        match is_open && !bound.contains('.') {
            true => with_bound(&format!("{bound}.0"), *below, exemplar),
            false => with_bound(&bound, *below, exemplar),
        }
    }
    with_bound("+Inf", of.count, next(u64::MAX));
    sample(text, name, "_sum", labels, &seconds(of.sum_us));
    sample(text, name, "_count", labels, &of.count.to_string());
}

/// What follows the value of a bucket in OpenMetrics: a trace to look at.
fn example(of: &Exemplar) -> String {
    let Exemplar { trace, span, took_us, ended_unix_ms } = of;
    let (whole, part) = (ended_unix_ms / 1_000, ended_unix_ms % 1_000);
    let took = seconds(*took_us);
    format!(" # {{trace_id=\"{trace}\",span_id=\"{span}\"}} {took} {whole}.{part:03}")
}

fn shown(number: Number) -> String {
    match number {
        Number::Whole(number) => number.to_string(),
        Number::Micros(us) => seconds(us),
    }
}

/// Microseconds as seconds, exact, without zeros at the end.
pub(super) fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn sample(
    text: &mut String,
    name: &str,
    suffix: &str,
    labels: &[(&str, &str)],
    value: &str,
) {
    text.push_str(name);
    text.push_str(suffix);
    for (index, (label, value)) in labels.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        text.push_str(label);
        text.push_str("=\"");
        escaped(text, value);
        text.push('"');
    }
    if !labels.is_empty() {
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

fn escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}
