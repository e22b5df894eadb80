//! What has become of spans.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use trunkline_stats::{Exemplar, TraceFigures, span::SpanRecord};

use crate::exemplars::Exemplars;

/// Figures that the exporter writes and reports read.
#[derive(Debug, Default)]
pub struct TraceCounts {
    pub(crate) waiting: AtomicU64,
    pub(crate) delivered: AtomicU64,
    pub(crate) dropped_queue: AtomicU64,
    pub(crate) dropped_refused: AtomicU64,
    pub(crate) dropped_undelivered: AtomicU64,
    pub(crate) dropped_stopped: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) metrics_delivered: AtomicU64,
    pub(crate) spans_rejected: AtomicU64,
    exemplars: Mutex<Exemplars>,
}

/// Adds to a figure.
pub(crate) fn add(figure: &AtomicU64, count: usize) {
    figure.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
}

impl TraceCounts {
    /// Takes statements in as examples. `began_us`: where the workers' clock begins, µs of Unix
    /// time.
    pub(crate) fn note(&self, records: &[SpanRecord], began_us: u64) {
        let mut exemplars = self.exemplars.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().for_each(|record| exemplars.note(record, began_us));
    }

    /// Statements that have spans, the latest of each length.
    pub fn exemplars(&self) -> Vec<Exemplar> {
        self.exemplars.lock().unwrap_or_else(PoisonError::into_inner).list()
    }

    /// The figures now.
    pub fn figures(&self) -> TraceFigures {
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        TraceFigures {
            waiting: read(&self.waiting),
            delivered: read(&self.delivered),
            dropped_queue: read(&self.dropped_queue),
            dropped_refused: read(&self.dropped_refused),
            dropped_undelivered: read(&self.dropped_undelivered),
            dropped_stopped: read(&self.dropped_stopped),
            failures: read(&self.failures),
            metrics_delivered: read(&self.metrics_delivered),
            spans_rejected: read(&self.spans_rejected),
        }
    }
}
