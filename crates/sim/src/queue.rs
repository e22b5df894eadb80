//! Virtual time: events in the order in which they happen.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::Micros;

/// Events by time; those of one instant in the order in which they were put in.
#[derive(Debug)]
pub struct Queue<E> {
    entries: BinaryHeap<Entry<E>>,
    next: u64,
    now: Micros,
}

#[derive(Debug)]
struct Entry<E> {
    at: Micros,
    number: u64,
    event: E,
}

impl<E> Queue<E> {
    /// Nothing to come, at time 0.
    pub fn new() -> Self {
        Self { entries: BinaryHeap::new(), next: 0, now: 0 }
    }

    /// The time of the event that was taken last.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// Lets `event` happen at `at`, or now when that is past.
    pub fn put(&mut self, at: Micros, event: E) {
        let number = self.next;
        self.next += 1;
        self.entries.push(Entry { at: at.max(self.now), number, event });
    }

    /// The next event; time moves on to it.
    pub fn take(&mut self) -> Option<E> {
        let entry = self.entries.pop()?;
        debug_assert!(entry.at >= self.now, "time goes back");
        self.now = entry.at;
        Some(entry.event)
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Micros> {
        self.entries.peek().map(|entry| entry.at)
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap gives the greatest first, so the earliest is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_they_were_put_in() {
        let mut queue = Queue::new();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            queue.put(at, event);
        }
        assert_eq!((queue.take(), queue.now()), (Some('a'), 1));
        queue.put(0, 'A');
        let rest: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(rest, ['A', 'b', 'c', 'd']);
    }
}
