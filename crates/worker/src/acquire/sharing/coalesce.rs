//! When the driver leaves its sockets alone for a moment, so that more answers come at once.
//!
//! A busy server answers the statements of a shared connection one by one, and a driver that looks
//! at each answer as it comes reads and writes for every one of them. When many statements are
//! under way and few events came, the next look is put off by a small part of what a statement
//! takes: several answers then come in one read, and what their clients send next leaves in one
//! write (`docs/decisions/0018`).

/// Below this many statements in flight to a server, too little would gather.
const IN_FLIGHT_MIN: u64 = 16;
/// A batch that brought more than one in this many of the statements in flight is large enough.
const GATHERED_SHARE: u64 = 4;
/// A pause is at most one in this many of what statements take: their wait grows by little more
/// than half of that.
const LATENCY_SHARE: u64 = 8;
/// A shorter pause costs more than what it gathers is worth, µs.
const PAUSE_US_MIN: u64 = 10;
/// Answers from longer ago say nothing of now, µs.
const FRESH_US: u64 = 10_000;

/// What the last batches brought on shared connections.
#[derive(Debug, Default)]
pub(crate) struct Coalescing {
    /// Statements sent and answered in this batch.
    events: u64,
    answers: u64,
    /// What the answered ones took in sum, µs.
    took_us: u64,
    /// Statements under way to the busiest server.
    in_flight: u64,
    /// The last batch with answers: its number of statements in flight, what one took, and when.
    last_in_flight: u64,
    last_took_us: u64,
    last_us: u64,
}

impl Coalescing {
    /// A statement was sent on a shared connection.
    pub(crate) fn sent(&mut self) {
        self.events += 1;
    }

    /// One was answered after `took_us`, with about `in_flight` under way to the same server.
    pub(crate) fn answered(&mut self, took_us: u64, in_flight: u64) {
        self.events += 1;
        self.answers += 1;
        self.took_us += took_us;
        self.in_flight = self.in_flight.max(in_flight);
    }

    /// The batch that ran at `now_us` is over: how long to leave the sockets alone, µs.
    pub(crate) fn pause_us(&mut self, now_us: u64, max_us: u64) -> u64 {
        let events = std::mem::take(&mut self.events);
        if let Some(took_us) = self.took_us.checked_div(self.answers) {
            self.last_took_us = took_us;
            self.last_in_flight = self.in_flight;
            self.last_us = now_us;
            (self.answers, self.took_us, self.in_flight) = (0, 0, 0);
        }
        let is_fresh = now_us.saturating_sub(self.last_us) <= FRESH_US;
        let is_busy = is_fresh && self.last_in_flight >= IN_FLIGHT_MIN;
        if events == 0 || !is_busy || events * GATHERED_SHARE > self.last_in_flight {
            return 0;
        }
        let pause_us = (self.last_took_us / LATENCY_SHARE).min(max_us);
        if pause_us < PAUSE_US_MIN { 0 } else { pause_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One batch of `answers` that took `took_us` each, while `in_flight` are under way.
    fn after(answers: u64, took_us: u64, in_flight: u64) -> u64 {
        let mut coalescing = Coalescing::default();
        (0..answers).for_each(|_| coalescing.answered(took_us, in_flight));
        coalescing.pause_us(1_000_000, 200)
    }

    #[test]
    fn few_answers_of_many_that_are_under_way_are_waited_for() {
        assert_eq!(after(2, 800, 32), 100);
        assert_eq!(after(9, 800, 32), 0, "enough came already");
        assert_eq!(after(2, 800, 8), 0, "too few are under way");
    }

    #[test]
    fn a_pause_is_a_small_part_of_what_statements_take_and_has_a_limit() {
        assert_eq!(after(1, 79, 64), 0, "a fast server is not kept waiting");
        assert_eq!(after(1, 80, 64), 10);
        assert_eq!(after(1, 100_000, 64), 200);
        let mut coalescing = Coalescing::default();
        coalescing.answered(800, 64);
        assert_eq!(coalescing.pause_us(0, 0), 0, "switched off");
    }

    #[test]
    fn statements_sent_are_waited_with_as_long_as_the_last_answers_say_something() {
        let mut coalescing = Coalescing::default();
        coalescing.answered(800, 32);
        assert_eq!(coalescing.pause_us(1_000, 200), 100);
        assert_eq!(coalescing.pause_us(1_100, 200), 0, "nothing came");
        coalescing.sent();
        assert_eq!(coalescing.pause_us(2_000, 200), 100);
        coalescing.sent();
        assert_eq!(coalescing.pause_us(1_000 + FRESH_US + 1, 200), 0);
    }
}
