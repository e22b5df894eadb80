//! Starts what sends spans and metrics to a collector: `trunkline_trace`.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;
use trunkline_admin::{StatusSource, exposition::plain_families};
use trunkline_config::Snapshot;
use trunkline_proxy::DataPlane;
use trunkline_stats::{DigestOrder, DigestQuery};
use trunkline_trace::{Exporter, MetricsFuture, Source};

use super::reporter::Reporter;

/// Rows of each worker's digest table that are looked at: digests are no metrics by OTLP, as they
/// are none in `/metrics` unless they are asked for.
const DIGESTS: DigestQuery = DigestQuery { order: DigestOrder::SumTime, rows_max: 0 };

/// Sends while the configuration says where to.
pub fn start(
    reporter: &Arc<Reporter>,
    plane: &RwLock<DataPlane>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
) -> Exporter {
    let (rings, started) = plane.read().unwrap_or_else(PoisonError::into_inner).spans();
    let counts = reporter.traced();
    let reporter = Arc::clone(reporter);
    let metrics = move || -> MetricsFuture {
        let reporter = Arc::clone(&reporter);
        Box::pin(async move { plain_families(&reporter.report(DIGESTS).await, 0) })
    };
    Exporter::start(snapshots, Source { rings, started }, Arc::new(metrics), counts)
}
