//! What pages look at: each topic is produced once for all who look, and not at all while nobody
//! does.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;
use trunkline_stats::{DigestOrder, DigestQuery, SessionQuery};

use super::figures::{Clock, point, sessions, statements};
use crate::{
    figures::Figures,
    http::{REPORT_TIME_MAX, rows_of_each_worker},
    source::StatusSource,
};

/// Points of charts that are kept for whoever looks next: ten minutes.
const HISTORY_MAX: usize = 600;
/// Rows of a list.
pub(super) const ROWS_MAX: usize = 200;

/// What can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    /// Rates, latency, connections: the whole in one picture.
    Now,
    /// Clusters and events.
    Topology,
    /// Clients, and what holds them.
    Sessions,
    /// The heaviest digests by a column.
    Statements(&'static str),
}

impl Topic {
    /// The name of its events.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Topology => "topology",
            Self::Sessions => "sessions",
            Self::Statements(_) => "statements",
        }
    }

    fn interval(self) -> Duration {
        match self {
            Self::Now => Duration::from_secs(1),
            Self::Topology | Self::Sessions | Self::Statements(_) => Duration::from_secs(2),
        }
    }
}

/// What a topic says at a moment, in JSON. Empty before the first time.
pub(super) type Told = Arc<str>;

/// All topics that are looked at.
pub(super) struct Hub {
    source: Arc<dyn StatusSource>,
    figures: Arc<Figures>,
    topics: Mutex<HashMap<Topic, watch::Sender<Told>>>,
    history: Mutex<VecDeque<String>>,
}

impl Hub {
    pub(super) fn new(source: Arc<dyn StatusSource>, figures: Arc<Figures>) -> Arc<Self> {
        let (topics, history) = (Mutex::default(), Mutex::default());
        Arc::new(Self { source, figures, topics, history })
    }

    /// Looks at a topic, for as long as the receiver is there.
    pub(super) fn look(self: &Arc<Self>, topic: Topic) -> watch::Receiver<Told> {
        let mut topics = self.topics();
        if let Some(sender) = topics.get(&topic) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(Told::from(""));
        topics.insert(topic, sender.clone());
        drop(topics);
        tokio::spawn(produce(Arc::clone(self), topic, sender));
        receiver
    }

    /// The last points of *now*, the oldest first, as one array.
    pub(super) fn history(&self) -> String {
        let history = self.kept();
        let list: Vec<&str> = history.iter().map(String::as_str).collect();
        format!("[{}]", list.join(","))
    }

    fn keep(&self, point: String) {
        let mut history = self.kept();
        if history.len() == HISTORY_MAX {
            history.pop_front();
        }
        history.push_back(point);
    }

    /// Whether nobody looks any more; it is produced no longer then.
    fn is_over(&self, topic: Topic) -> bool {
        let mut topics = self.topics();
        let is_over = topics.get(&topic).is_none_or(|sender| sender.receiver_count() == 0);
        if is_over {
            topics.remove(&topic);
        }
        is_over
    }

    /// Whether anything is produced.
    #[cfg(test)]
    pub(super) fn is_looked_at(&self) -> bool {
        !self.topics().is_empty()
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<Topic, watch::Sender<Told>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a topic says now; `None` when workers do not answer.
    async fn tell(&self, topic: Topic, clock: &mut Clock) -> Option<String> {
        let source = &self.source;
        let told = async {
            match topic {
                Topic::Now => {
                    let mut report = source.report(DigestQuery::NONE).await;
                    self.figures.fill(&mut report.process);
                    let picture = clock.now(report);
                    self.keep(point(&picture).to_string());
                    picture.to_string()
                }
                Topic::Topology => {
                    serde_json::to_string(&source.topology()).unwrap_or_else(|_| "{}".to_owned())
                }
                Topic::Sessions => {
                    let query = SessionQuery { rows_max: ROWS_MAX, pinned_only: false };
                    sessions(&source.sessions(query).await).to_string()
                }
                Topic::Statements(order) => {
                    let order = DigestOrder::from_name(order).unwrap_or(DigestOrder::SumTime);
                    let query = rows_of_each_worker(order, ROWS_MAX);
                    statements(source.report(query).await, order, ROWS_MAX).to_string()
                }
            }
        };
        tokio::time::timeout(REPORT_TIME_MAX, told).await.ok()
    }
}

/// Tells of a topic until nobody looks.
async fn produce(hub: Arc<Hub>, topic: Topic, sender: watch::Sender<Told>) {
    let mut clock = Clock::default();
    while !hub.is_over(topic) {
        if let Some(told) = hub.tell(topic, &mut clock).await {
            sender.send_replace(Told::from(told));
        }
        // A page that asks for other topics is away for a moment only.
        tokio::time::sleep(topic.interval()).await;
    }
}
