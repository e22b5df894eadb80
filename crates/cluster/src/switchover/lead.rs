//! Replicas that replicate from the new writer before clients notice anything. Where commits wait
//! for a replica (semi-synchronous replication), the new writer's first ones would otherwise wait
//! until one has been repointed.
//!
//! Each way through it is a tree in which everything arrives: the new writer replicates from the
//! old one meanwhile. If nobody is promoted, they replicate from the old one again.

use super::{Action, Afterwards, Done, Failure, Order, Outcome, State, Switchover, Way};

/// Replicas are being repointed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Moving {
    steps: Afterwards,
    /// They go back, since nobody was promoted, and why.
    back: Option<String>,
}

#[cfg(test)]
impl Moving {
    /// The steps under way.
    pub(super) fn steps(&self) -> &std::collections::BTreeMap<u32, (crate::HostId, Action, u64)> {
        &self.steps.left
    }
}

impl Switchover {
    /// Has the other replicas replicate from the new writer, where that is wanted. False where
    /// there is nothing to wait for.
    pub(super) fn lead(&mut self, now_ms: u64, out: &mut Vec<Order>) -> bool {
        if !self.plan.leads || self.plan.way != Way::Replication || self.plan.others.is_empty() {
            return false;
        }
        self.has_led = true;
        self.move_others(now_ms, None, out);
        true
    }

    /// It has failed, and the old writer writes: the other replicas go back to it.
    pub(super) fn lead_back(&mut self, now_ms: u64, why: String, out: &mut Vec<Order>) {
        match self.has_led {
            true => self.move_others(now_ms, Some(why), out),
            false => out.push(Order::End(Outcome::Failed(why))),
        }
    }

    fn move_others(&mut self, now_ms: u64, back: Option<String>, out: &mut Vec<Order>) {
        let source = if back.is_some() { self.plan.old } else { self.plan.new };
        let mut moving = Moving { steps: Afterwards::default(), back };
        for host in self.plan.others.clone() {
            let action = Action::Follow { source, had: None, most: None };
            self.order_behind(now_ms, host, action, &mut moving.steps, out);
        }
        self.state = State::Moving(moving);
    }

    /// One of them has been repointed, or could not be.
    pub(super) fn moved(
        &mut self,
        now_ms: u64,
        step: u32,
        result: Result<Done, Failure>,
        mut moving: Moving,
        out: &mut Vec<Order>,
    ) {
        let host = moving.steps.left.get(&step).map(|(host, ..)| *host);
        // Who could not be is repointed behind the promotion, as without this.
        self.led.extend(host.filter(|_| result.is_ok() && moving.back.is_none()));
        self.ended_afterwards(now_ms, step, result, &mut moving.steps, out);
        if !moving.steps.left.is_empty() {
            self.state = State::Moving(moving);
            return;
        }
        match (moving.back, self.abandoned.take()) {
            (Some(why), _) => out.push(Order::End(Outcome::Failed(why))),
            (None, Some(why)) => self.leave(why, out),
            (None, None) => self.drain(now_ms, out),
        }
    }

    /// What is added to why it has ended, where nobody knows who will write.
    pub(super) fn led_words(&self) -> &'static str {
        match self.led.is_empty() {
            true => "",
            false => "; other replicas replicate from the server that was to become the writer",
        }
    }
}
