//! What a worker leaves for others: actions for its driver, bytes in outboxes, figures.

use std::collections::VecDeque;

use trunkline_protocol::codec::compressed::Compressor;
use trunkline_stats::WorkerStats;

use crate::{
    Action, Side,
    action::LogLine,
    outbox::{Buffers, Dirty},
};

/// Log lines per second and worker; what is beyond is counted only.
pub(crate) const LOG_LINES_PER_SEC: u32 = 20;

/// What comes of events, until the driver and the statistics have it.
pub(crate) struct Effects {
    pub actions: Vec<Action>,
    /// Sockets with bytes to write that the driver has not been told of.
    pub dirty: Dirty<Side>,
    /// Memory of outboxes that are empty, for those that fill.
    pub buffers: Buffers,
    pub compressor: Box<dyn Compressor>,
    /// Sockets whose packed bytes can be unpacked now.
    pub unpacking: VecDeque<Side>,
    pub stats: WorkerStats,
    /// Log lines that may yet be written in this second.
    pub log_budget: u32,
}

impl Effects {
    pub(crate) fn new(compressor: Box<dyn Compressor>, stats: WorkerStats) -> Self {
        Self {
            actions: Vec::new(),
            dirty: Dirty::default(),
            buffers: Buffers::default(),
            compressor,
            unpacking: VecDeque::new(),
            stats,
            log_budget: LOG_LINES_PER_SEC,
        }
    }

    /// Leaves something for the driver to do.
    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Writes a line to the log, unless this second has had its lines.
    pub(crate) fn log(&mut self, is_warning: bool, text: impl FnOnce() -> String) {
        match self.log_budget.checked_sub(1) {
            Some(left) => {
                self.log_budget = left;
                self.act(Action::Log(LogLine { is_warning, text: text() }));
            }
            None => self.stats.counters.log_lines_dropped += 1,
        }
    }
}
