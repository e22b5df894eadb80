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

/// The time of a batch, with what is asked of it many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Clock {
    pub(crate) us: u64,
    pub(crate) unix_sec: u64,
    ms: u64,
}

impl From<Now> for Clock {
    fn from(now: Now) -> Self {
        Self { us: now.us, unix_sec: now.unix_sec, ms: now.ms() }
    }
}

impl Clock {
    /// Milliseconds since the arbitrary start.
    pub(crate) fn ms(self) -> u64 {
        self.ms
    }
}
