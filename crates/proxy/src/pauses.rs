//! Hostgroups that an operator has paused.

use std::{
    sync::PoisonError,
    time::{Duration, Instant},
};

use trunkline_topology::HostgroupId;

use crate::{DataPlane, mailbox::Mail};

/// A paused hostgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Which one.
    pub hostgroup: HostgroupId,
    /// How long it has been paused.
    pub since: Duration,
    /// How long it will be.
    pub left: Duration,
}

/// From when to when a hostgroup is paused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    since: Instant,
    until: Instant,
}

impl DataPlane {
    /// Holds what is new in a hostgroup, for at most that long; what is under way there goes on,
    /// and open transactions do. Gives whether it was paused already, and whether all workers hold
    /// by now: one that is busy for longer than `timeout` will later.
    pub fn pause_hostgroup(
        &self,
        hostgroup: HostgroupId,
        within: Duration,
        timeout: Duration,
    ) -> (bool, bool) {
        let now = Instant::now();
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.retain(|_, span| span.until > now);
        let before = pauses.get(&hostgroup).copied();
        let since = before.map_or(now, |span| span.since);
        pauses.insert(hostgroup, Span { since, until: now + within });
        let for_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        // Under the lock, so that workers hear of pauses and their ends in one order.
        (before.is_some(), self.tell_pause(hostgroup, Some(for_ms), timeout))
    }

    /// What is held in a hostgroup goes on. False when it was not paused.
    pub fn resume_hostgroup(&self, hostgroup: HostgroupId, timeout: Duration) -> bool {
        let now = Instant::now();
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        pauses.retain(|_, span| span.until > now);
        let was_paused = pauses.remove(&hostgroup).is_some();
        if was_paused {
            self.tell_pause(hostgroup, None, timeout);
        }
        was_paused
    }

    /// The hostgroups that are paused now.
    pub fn paused_hostgroups(&self) -> Vec<Pause> {
        let now = Instant::now();
        let pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        let pauses = pauses.iter().filter(|(_, span)| span.until > now);
        let pause = |(hostgroup, span): (&HostgroupId, &Span)| Pause {
            hostgroup: *hostgroup,
            since: now.saturating_duration_since(span.since),
            left: span.until.saturating_duration_since(now),
        };
        pauses.map(pause).collect()
    }

    fn tell_pause(&self, hostgroup: HostgroupId, for_ms: Option<u64>, timeout: Duration) -> bool {
        let answers = self.ask(timeout, |done| Mail::PauseHostgroup(hostgroup, for_ms, done)).len();
        answers == self.workers()
    }
}
