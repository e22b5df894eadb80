//! When a server that does not answer is tried again.

/// The first pause, ms.
const PAUSE_MS_MIN: u64 = 500;
/// The longest one, ms.
const PAUSE_MS_MAX: u64 = 30_000;

/// Leaves a server alone after it has failed, each time for longer.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    pause_ms: u64,
    /// It is tried again from then on, ms.
    retry_ms: u64,
}

impl Breaker {
    /// It did not answer.
    pub(super) fn failed(&mut self, now_ms: u64) {
        self.pause_ms = (self.pause_ms * 2).clamp(PAUSE_MS_MIN, PAUSE_MS_MAX);
        self.retry_ms = now_ms + self.pause_ms;
    }

    /// It answered.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// How long to leave it alone, ms.
    pub(super) fn pause_ms(&self, now_ms: u64) -> u64 {
        self.retry_ms.saturating_sub(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_begin_anew_after_an_answer() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.pause_ms(0), 0, "tried at once");
        let pauses: Vec<u64> = (0..8)
            .map(|_| {
                breaker.failed(1_000);
                breaker.pause_ms(1_000)
            })
            .collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(breaker.pause_ms(30_500), 500);
        breaker.answered();
        breaker.failed(0);
        assert_eq!(breaker.pause_ms(0), 500);
    }
}
