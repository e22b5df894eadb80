//! What waits for the collector, and when it is tried again; pure.

use std::{collections::VecDeque, time::Duration};

use trunkline_stats::span::SpanRecord;

/// How long the first of those that wait may wait for others before they are sent.
pub(crate) const LINGER: Duration = Duration::from_millis(500);
/// The pause after the first failure; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Records that wait, the oldest first, each with when it came.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<(Duration, SpanRecord)>,
}

impl Queue {
    /// Takes records in, at this time. The oldest leave where there are more than `max`; how many.
    pub(crate) fn take_in(
        &mut self,
        records: impl IntoIterator<Item = SpanRecord>,
        now: Duration,
        max: usize,
    ) -> usize {
        let mut dropped = 0;
        for record in records {
            while self.waiting.len() >= max.max(1) {
                self.waiting.pop_front();
                dropped += 1;
            }
            self.waiting.push_back((now, record));
        }
        dropped
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether it is time to send some: there are enough, or the first has waited for long.
    pub(crate) fn is_due(&self, now: Duration, batch_max: usize) -> bool {
        self.waiting.len() >= batch_max
            || self.waiting.front().is_some_and(|(since, _)| now >= *since + LINGER)
    }

    /// The next ones to be sent.
    pub(crate) fn batch(&mut self, batch_max: usize) -> Vec<SpanRecord> {
        let count = self.waiting.len().min(batch_max.max(1));
        self.waiting.drain(..count).map(|(_, record)| record).collect()
    }

    /// Forgets all; how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        let count = self.waiting.len();
        self.waiting.clear();
        count
    }
}

/// When what failed is tried again.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    /// Nothing is sent before.
    until: Duration,
}

impl Backoff {
    /// An attempt has failed at this time; the collector may have named a pause.
    pub(crate) fn fail(&mut self, now: Duration, asked: Option<Duration>) {
        let own = PAUSE_MIN.saturating_mul(1 << self.failures.min(16));
        let pause = asked.unwrap_or(own).clamp(PAUSE_MIN, PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        self.until = now + pause;
    }

    /// An attempt has succeeded.
    pub(crate) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// Whether the last attempt failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Whether something may be sent.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn records(from: u32, to: u32) -> impl Iterator<Item = SpanRecord> {
        (from..to).map(|client| SpanRecord { client, ..SpanRecord::default() })
    }

    #[test]
    fn the_oldest_leave_a_full_queue() {
        let mut queue = Queue::default();
        assert_eq!(queue.take_in(records(0, 3), SECOND, 4), 0);
        assert_eq!(queue.take_in(records(3, 6), SECOND, 4), 2);
        let sent: Vec<u32> = queue.batch(3).iter().map(|record| record.client).collect();
        assert_eq!((sent, queue.len()), (vec![2, 3, 4], 1));
        assert_eq!((queue.clear(), queue.len()), (1, 0));
    }

    #[test]
    fn a_batch_is_due_when_it_is_full_or_has_waited() {
        let mut queue = Queue::default();
        assert!(!queue.is_due(SECOND, 1));
        queue.take_in(records(0, 2), SECOND, 8);
        assert!(!queue.is_due(SECOND, 3));
        assert!(queue.is_due(SECOND, 2));
        assert!(queue.is_due(SECOND + LINGER, 3));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::default();
        assert!(backoff.is_over(Duration::ZERO) && !backoff.has_failed());
        let mut now = SECOND;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            backoff.fail(now, None);
            assert!(backoff.has_failed() && !backoff.is_over(now));
            let mut pause = Duration::ZERO;
            while !backoff.is_over(now + pause) {
                pause += PAUSE_MIN;
            }
            pauses.push(pause.as_millis());
            now += pause;
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        backoff.fail(now, Some(3 * SECOND));
        assert!(!backoff.is_over(now + 2 * SECOND) && backoff.is_over(now + 3 * SECOND));
        backoff.fail(now, Some(3_600 * SECOND));
        assert!(backoff.is_over(now + PAUSE_MAX));
        backoff.succeed();
        assert!(backoff.is_over(Duration::ZERO) && !backoff.has_failed());
    }
}
