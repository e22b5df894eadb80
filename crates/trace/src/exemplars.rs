//! The latest statement with spans of each length: traces to look at, from a histogram.

use std::fmt::Write;

use trunkline_stats::{Exemplar, span::SpanRecord};

/// Lengths are told apart by powers of two of µs, up to 2³¹.
const LENGTHS: usize = 32;

/// The latest of each length.
#[derive(Debug, Default)]
pub(crate) struct Exemplars([Option<Kept>; LENGTHS]);

#[derive(Debug, Clone, Copy)]
struct Kept {
    trace: [u8; 16],
    span: [u8; 8],
    took_us: u64,
    ended_unix_ms: u64,
}

impl Exemplars {
    /// Takes one in. `began_us`: where the workers' clock begins, µs of Unix time.
    pub(crate) fn note(&mut self, record: &SpanRecord, began_us: u64) {
        let took_us = record.moments.ended_us.saturating_sub(record.moments.begun_us);
        // The least power of two that is not less.
        let exponent = took_us
            .checked_next_power_of_two()
            .map_or(LENGTHS, |power| usize::try_from(power.trailing_zeros()).unwrap_or(LENGTHS));
        if let Some(place) = self.0.get_mut(exponent.min(LENGTHS - 1)) {
            let ended_unix_ms = began_us.saturating_add(record.moments.ended_us) / 1_000;
            let (trace, span) = (record.trace, record.span);
            *place = Some(Kept { trace, span, took_us, ended_unix_ms });
        }
    }

    /// All there are.
    pub(crate) fn list(&self) -> Vec<Exemplar> {
        let list = self.0.iter().flatten();
        list.map(|kept| Exemplar {
            trace: hex(&kept.trace),
            span: hex(&kept.span),
            took_us: kept.took_us,
            ended_unix_ms: kept.ended_unix_ms,
        })
        .collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use trunkline_stats::span::Moments;

    use super::*;

    fn record(trace: u8, took_us: u64) -> SpanRecord {
        let moments = Moments { begun_us: 10, ended_us: 10 + took_us, ..Moments::default() };
        SpanRecord { trace: [trace; 16], span: [0xAB; 8], moments, ..SpanRecord::default() }
    }

    #[test]
    fn the_latest_of_each_length_is_kept() {
        let mut exemplars = Exemplars::default();
        for (trace, took_us) in [(1, 0), (2, 100), (3, 128), (4, 129), (5, u64::MAX - 10)] {
            exemplars.note(&record(trace, took_us), 5_000_000);
        }
        let list = exemplars.list();
        let shown: Vec<_> = list.iter().map(|it| (&it.trace[..2], it.took_us)).collect();
        assert_eq!(shown, [("01", 0), ("03", 128), ("04", 129), ("05", u64::MAX - 10)]);
        assert_eq!((list[1].span.as_str(), list[1].ended_unix_ms), ("abababababababab", 5_000));
    }
}
