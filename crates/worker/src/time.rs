//! The time of one batch of events.

/// Read once per batch by the driver; the worker knows no other clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// Microseconds since an arbitrary start; never goes back.
    pub us: u64,
    /// Seconds since 1970, for people.
    pub unix_sec: u64,
}

impl Now {
    /// Milliseconds since the arbitrary start.
    pub fn ms(self) -> u64 {
        self.us / 1_000
    }
}
