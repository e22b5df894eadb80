//! How many statements one server runs at once, whatever they are.

use trunkline_topology::Concurrency;

use crate::Width;

/// The statements that a server may run at once.
#[derive(Debug, Default)]
pub(crate) enum Limit {
    #[default]
    Off,
    Fixed(u32),
    Auto(Box<Width>),
}

impl Limit {
    /// Takes over what an operator says. What has been found out stays.
    pub(crate) fn set(&mut self, concurrency: Concurrency) {
        *self = match (concurrency, std::mem::take(self)) {
            (Concurrency::Off, _) => Self::Off,
            (Concurrency::Fixed(max), _) => Self::Fixed(max.max(1)),
            (Concurrency::Auto, Self::Auto(width)) => Self::Auto(width),
            (Concurrency::Auto, _) => Self::Auto(Box::new(Width::wide())),
        };
    }

    /// How many; `None` without a limit.
    #[inline]
    pub(crate) fn max(&self) -> Option<u32> {
        match self {
            Self::Off => None,
            Self::Fixed(max) => Some(*max),
            Self::Auto(width) => Some(width.max()),
        }
    }

    /// A statement found as many running as may.
    pub(crate) fn note_full(&mut self) {
        if let Self::Auto(width) = self {
            width.note_full();
        }
    }

    /// So many run.
    pub(crate) fn note_running(&mut self, running: u32) {
        if let Self::Auto(width) = self {
            width.note_running(running);
        }
    }

    /// A statement was answered at `now_us`, and took the server so long.
    pub(crate) fn answered(&mut self, now_us: u64, took_us: u64) {
        if let Self::Auto(width) = self {
            width.answered(now_us, took_us);
        }
    }
}

#[cfg(test)]
mod tests;
