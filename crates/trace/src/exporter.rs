//! The task that empties the workers' rings, and sends what was in them. No worker waits for it,
//! and the end of the process waits for it for a second at most.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hyper::body::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};
use trunkline_config::{Collector, Settings, Snapshot};
use trunkline_stats::{metrics::PlainFamily, span::SpanRing};

use crate::{
    counts::{TraceCounts, add},
    link::{Failure, Link, Signal},
    numbers,
    queue::{Backoff, Queue},
    spans,
};

/// How often rings are emptied.
const TICK: Duration = Duration::from_millis(50);
/// How long something is tried to be sent before it is given up.
const RETRY_TIME_MAX: Duration = Duration::from_secs(60);
/// How long the end of the process waits for what is left to be sent.
const FINISH_TIME_MAX: Duration = Duration::from_secs(1);

/// Where records come from.
#[derive(Debug, Clone)]
pub struct Source {
    /// A ring of each worker.
    pub rings: Vec<Arc<SpanRing>>,
    /// Where the workers' clock begins.
    pub started: Instant,
}

impl Source {
    /// Where the workers' clock begins, µs of Unix time; the calendar may have been set.
    fn began_unix_us(&self) -> u64 {
        unix_us().saturating_sub(micros(self.started.elapsed()))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn unix_us() -> u64 {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The metrics as they come.
pub type MetricsFuture = Pin<Box<dyn Future<Output = Vec<PlainFamily>> + Send>>;

/// Whom the metrics are to be had from.
pub type MetricsSource = Arc<dyn Fn() -> MetricsFuture + Send + Sync>;

/// The running task.
#[derive(Debug)]
pub struct Exporter {
    finish: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Starts the task on the current runtime. It sends while the configuration names a collector.
    pub fn start(
        snapshots: watch::Receiver<Arc<Snapshot>>,
        source: Source,
        metrics: MetricsSource,
        counts: Arc<TraceCounts>,
    ) -> Self {
        let (finish, finished) = oneshot::channel();
        let task = Task {
            source,
            metrics,
            counts,
            queue: Queue::default(),
            backoff: Backoff::default(),
            link: None,
            sending: None,
            metrics_due: Duration::ZERO,
        };
        Self { finish, task: tokio::spawn(task.run(snapshots, finished)) }
    }

    /// Sends what is left, when the workers have ended. Takes a second at most.
    pub async fn finish(self) {
        drop(self.finish);
        // A collector that does not answer is no reason to stay.
        drop(timeout(FINISH_TIME_MAX + TICK, self.task).await);
    }
}

/// Something that is being sent, or will be again.
struct Parcel {
    signal: Signal,
    message: Bytes,
    /// Statements whose spans it has.
    statements: usize,
    /// When it was made, on the task's clock.
    made: Duration,
}

/// What came of an attempt, and the link.
type Attempt = Pin<Box<dyn Future<Output = (Link, Result<Bytes, Failure>)> + Send>>;

/// A parcel on its way.
struct Sending {
    parcel: Parcel,
    /// `None` between attempts.
    attempt: Option<Attempt>,
}

struct Task {
    source: Source,
    metrics: MetricsSource,
    counts: Arc<TraceCounts>,
    queue: Queue,
    backoff: Backoff,
    /// Not there while it is being used.
    link: Option<Link>,
    sending: Option<Sending>,
    /// When the metrics are sent next.
    metrics_due: Duration,
}

impl Task {
    async fn run(
        mut self,
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        mut finished: oneshot::Receiver<()>,
    ) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_on = snapshots.borrow().settings.trace_otlp.is_some();
            let is_over = tokio::select! {
                _ = tick.tick(), if is_on => false,
                changed = snapshots.changed() => changed.is_err(),
                outcome = attempt_of(&mut self.sending) => {
                    let settings = Arc::clone(&snapshots.borrow());
                    self.attempted(outcome, &settings.settings);
                    false
                }
                _ = &mut finished => true,
            };
            let snapshot = Arc::clone(&snapshots.borrow());
            if is_over {
                return self.finish(&snapshot.settings).await;
            }
            self.step(&snapshot.settings).await;
        }
    }

    /// The time on the task's clock.
    fn now(&self) -> Duration {
        self.source.started.elapsed()
    }

    /// Takes in what there is, and begins to send what is due.
    async fn step(&mut self, settings: &Settings) {
        self.take_in(settings);
        let Some(collector) = settings.trace_otlp.clone() else { return self.rest() };
        if self.sending.is_none() {
            let now = self.now();
            if self.queue.is_due(now, settings.trace_batch_max) {
                self.pack(settings);
            } else if settings.trace_metrics_interval > 0 && now >= self.metrics_due {
                self.metrics_due = now + Duration::from_millis(settings.trace_metrics_interval);
                self.pack_metrics(settings).await;
            }
        }
        self.attempt(&collector, settings);
        self.tell_waiting();
    }

    fn take_in(&mut self, settings: &Settings) {
        let now = self.now();
        for ring in &self.source.rings {
            let records = ring.take();
            self.counts.note(&records, self.source.began_unix_us());
            let dropped = self.queue.take_in(records, now, settings.trace_queue_max);
            add(&self.counts.dropped_queue, dropped);
        }
        self.tell_waiting();
    }

    fn tell_waiting(&self) {
        let sending = self.sending.as_ref().map_or(0, |sending| sending.parcel.statements);
        let waiting = u64::try_from(self.queue.len() + sending).unwrap_or(u64::MAX);
        self.counts.waiting.store(waiting, Ordering::Relaxed);
    }

    /// No collector is configured.
    fn rest(&mut self) {
        let sending = self.sending.take().map_or(0, |sending| sending.parcel.statements);
        add(&self.counts.dropped_stopped, self.queue.clear() + sending);
        (self.link, self.backoff, self.metrics_due) = (None, Backoff::default(), Duration::ZERO);
        self.tell_waiting();
    }

    /// Makes a parcel of the statements that have waited for longest.
    fn pack(&mut self, settings: &Settings) {
        let records = self.queue.batch(settings.trace_batch_max);
        let began_us = self.source.began_unix_us();
        let request = spans::request(&records, began_us, &settings.trace_service_name);
        self.sending = Some(Sending {
            parcel: Parcel {
                signal: Signal::Traces,
                message: request.encode_to_vec().into(),
                statements: records.len(),
                made: self.now(),
            },
            attempt: None,
        });
    }

    async fn pack_metrics(&mut self, settings: &Settings) {
        let families = (self.metrics)().await;
        let span = (self.source.began_unix_us(), unix_us());
        let request = numbers::request(&families, span, &settings.trace_service_name);
        self.sending = Some(Sending {
            parcel: Parcel {
                signal: Signal::Metrics,
                message: request.encode_to_vec().into(),
                statements: 0,
                made: self.now(),
            },
            attempt: None,
        });
    }

    /// Begins an attempt to send what is to be sent, unless one is under way or it is too early.
    fn attempt(&mut self, collector: &Collector, settings: &Settings) {
        let now = self.now();
        let Some(sending) = self.sending.as_mut().filter(|sending| sending.attempt.is_none())
        else {
            return;
        };
        if !self.backoff.is_over(now) {
            return;
        }
        let file = Path::new(&settings.trace_headers_file);
        let file: Option<&Path> = Some(file).filter(|file| !file.as_os_str().is_empty());
        let link = self.link.take().filter(|link| link.is_to(collector, file));
        let mut link =
            link.unwrap_or_else(|| Link::new(collector.clone(), file.map(PathBuf::from)));
        let (signal, message) = (sending.parcel.signal, sending.parcel.message.clone());
        let time_max = Duration::from_millis(settings.trace_timeout);
        sending.attempt = Some(Box::pin(async move {
            let sent = timeout(time_max, link.send(signal, message)).await;
            let late = || Failure::Later(format!("no answer within {time_max:?}"), None);
            let sent = sent.unwrap_or_else(|_| Err(late()));
            (link, sent)
        }));
    }

    /// An attempt is over.
    fn attempted(&mut self, (link, sent): (Link, Result<Bytes, Failure>), settings: &Settings) {
        self.link = Some(link);
        let now = self.now();
        let Some(mut sending) = self.sending.take() else { return };
        let statements = sending.parcel.statements;
        match sent {
            Ok(answer) => self.delivered(&sending.parcel, &answer),
            Err(Failure::Never(why)) => {
                self.failed(&why, settings);
                // It may take the next one.
                self.backoff.fail(now, None);
                add(&self.counts.dropped_refused, statements);
            }
            Err(Failure::Later(why, asked)) => {
                self.failed(&why, settings);
                self.backoff.fail(now, asked);
                // Metrics are sent anew in place of old ones.
                let is_old = now >= sending.parcel.made + RETRY_TIME_MAX;
                match is_old || sending.parcel.signal == Signal::Metrics {
                    true => add(&self.counts.dropped_undelivered, statements),
                    false => {
                        sending.attempt = None;
                        self.sending = Some(sending);
                    }
                }
            }
        }
        self.tell_waiting();
    }

    fn delivered(&mut self, parcel: &Parcel, answer: &[u8]) {
        if self.backoff.has_failed() {
            tracing::info!("the collector takes spans again");
        }
        self.backoff.succeed();
        add(&self.counts.delivered, parcel.statements);
        match parcel.signal {
            Signal::Metrics => add(&self.counts.metrics_delivered, 1),
            Signal::Traces => {
                // An answer that can't be read is as good as an empty one: it was taken.
                let rejected = ExportTraceServiceResponse::decode(answer).ok();
                let rejected = rejected.and_then(|answer| answer.partial_success);
                let rejected = rejected.map_or(0, |partial| partial.rejected_spans);
                add(&self.counts.spans_rejected, usize::try_from(rejected).unwrap_or(0));
            }
        }
    }

    /// Complains of the first failure, until something has succeeded.
    fn failed(&self, why: &str, settings: &Settings) {
        add(&self.counts.failures, 1);
        if !self.backoff.has_failed() {
            let collector = settings.trace_otlp.as_ref().map(ToString::to_string);
            let collector = collector.unwrap_or_default();
            tracing::warn!("the collector {collector} takes no spans: {why}");
        }
    }

    /// Sends what is left, as far as that takes a second.
    async fn finish(mut self, settings: &Settings) {
        let flushed = timeout(FINISH_TIME_MAX, self.flush(settings)).await;
        let left = self.sending.take().map_or(0, |sending| sending.parcel.statements);
        let left = left + self.queue.clear();
        add(&self.counts.dropped_stopped, left);
        if left > 0 || flushed.is_err() {
            tracing::warn!("spans of {left} statements were not delivered");
        }
    }

    async fn flush(&mut self, settings: &Settings) {
        self.take_in(settings);
        let Some(collector) = settings.trace_otlp.clone() else { return };
        loop {
            if self.sending.is_none() {
                if self.queue.len() == 0 {
                    return;
                }
                self.pack(settings);
            }
            self.attempt(&collector, settings);
            if self.sending.as_ref().is_some_and(|sending| sending.attempt.is_none()) {
                // It has failed before: there is no time to wait.
                return;
            }
            let outcome = attempt_of(&mut self.sending).await;
            self.attempted(outcome, settings);
        }
    }
}

/// What comes of the attempt that is under way; nothing ever does without one.
async fn attempt_of(sending: &mut Option<Sending>) -> (Link, Result<Bytes, Failure>) {
    match sending.as_mut().and_then(|sending| sending.attempt.as_mut()) {
        Some(attempt) => attempt.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
