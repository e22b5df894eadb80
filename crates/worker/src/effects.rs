//! What a worker leaves for others: actions for its driver, bytes in outboxes, figures.

use std::{collections::VecDeque, net::IpAddr};

use trunkline_pool::ConnId;
use trunkline_protocol::codec::compressed::Compressor;
use trunkline_stats::WorkerStats;
use trunkline_topology::HostgroupId;

use crate::{
    Action, ClientId, KillAnswer, KillAsker, KillRequest, Side,
    action::LogLine,
    clients::frames::Whole,
    exchange::traced::Spans,
    outbox::{Buffers, Dirty, Relays},
    session_past::Trace,
};

/// Log lines per second and worker; what is beyond is counted only.
pub(crate) const LOG_LINES_PER_SEC: u32 = 20;

/// What has become due in an event, and is looked at when it is over: by then nobody is in the
/// middle of anything.
#[derive(Debug)]
pub(crate) enum Wake {
    /// This client may go on with commands that it has sent ahead.
    Commands(ClientId),
    /// This client's statement looks for a connection again.
    Returning(ClientId),
    /// The next statement of this client's transaction, which is being repeated, may go out.
    Repeat(ClientId),
    /// This client's statement has waited for what an earlier one left, and more is known of that.
    PastTold(ClientId),
    /// Nothing will come of what was fetched for this client from this connection.
    TraceGone(ClientId, ConnId, Trace),
    /// Too many connections have not logged in, of all or of this address.
    HalfOpen(Option<IpAddr>),
    /// This client's login depends on the name of its host.
    NameHost(ClientId),
    /// This connection has become free, and is on no list.
    Freed(ConnId),
    /// A read on this shared connection has been answered: reads that wait may follow there.
    Shared(ConnId),
    /// This client has logged in as a user whose bytes go straight to a server.
    Forward(ClientId),
    /// What this client held is given up: the change of its user, with this body, goes on.
    ChangeUser(ClientId, Box<[u8]>),
    /// Somebody of those who wait for this hostgroup may be served.
    Queue(HostgroupId),
    /// What was in front of a statement on this connection has been answered; a `KILL` for the
    /// statement may have waited for that.
    KillsWait(ConnId),
    /// A `KILL` that might have hit this connection is no longer under way.
    KillOver(ConnId),
    /// The connection that carried this `KILL` has ended.
    KillLost {
        id: u64,
        /// That connection.
        via: ConnId,
        /// Whether its server has certainly not got it, so that another connection may carry it.
        may_go_again: bool,
        /// What whoever asked is told.
        text: String,
    },
    /// A client of this worker asks to end one of this worker's.
    KillAsked(Box<KillRequest>),
    /// This connection can't be used any more, for this reason.
    Lost(ConnId, &'static str),
    /// It is known what came of a `KILL`.
    KillAnswered(KillAsker, KillAnswer),
}

/// What comes of events, until the driver and the statistics have it.
pub(crate) struct Effects {
    pub(crate) actions: Vec<Action>,
    /// In the order in which they became due.
    pub(crate) wakes: VecDeque<Wake>,
    /// Sockets with bytes to write that the driver has not been told of.
    pub(crate) dirty: Dirty<Side>,
    /// Memory of outboxes that are empty, for those that fill.
    pub(crate) buffers: Buffers,
    /// Memory of relays whose responses have ended, for those to come.
    pub(crate) relays: Relays,
    /// The long command that is being looked at: who keeps it needs no copy.
    pub(crate) whole: Option<Whole>,
    pub(crate) compressor: Box<dyn Compressor>,
    /// Sockets whose packed bytes can be unpacked now.
    pub(crate) unpacking: VecDeque<Side>,
    pub(crate) stats: WorkerStats,
    /// Records for spans, until the end of the batch.
    pub(crate) spans: Spans,
    /// Log lines that may yet be written in this second.
    pub(crate) log_budget: u32,
}

impl Effects {
    pub(crate) fn new(compressor: Box<dyn Compressor>, stats: WorkerStats, seed: u64) -> Self {
        Self {
            actions: Vec::new(),
            wakes: VecDeque::new(),
            dirty: Dirty::default(),
            buffers: Buffers::default(),
            relays: Relays::default(),
            whole: None,
            compressor,
            unpacking: VecDeque::new(),
            stats,
            spans: Spans::new(seed),
            log_budget: LOG_LINES_PER_SEC,
        }
    }

    /// Has something looked at when this event is over.
    pub(crate) fn wake(&mut self, wake: Wake) {
        self.wakes.push_back(wake);
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

#[cfg(test)]
mod tests;
