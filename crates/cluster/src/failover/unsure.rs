//! A promotion of which nobody knows whether it was done: the elected server can't be reached.
//!
//! The failover stays, and so do its claims: as long as the elected server may take writes, no
//! other proxy may promote another one. Roles are as servers tell meanwhile.

use super::{AFTERWARDS_MS, Action, Failover, Failure, Guidance, Order, State, Undo};
use crate::switchover::Done;

/// How long it is waited before the elected server is looked at again, ms.
const AGAIN_MS: u64 = 2_000;

impl Failover {
    /// Whether it is not known whether the elected server was promoted.
    pub fn is_unsure(&self) -> bool {
        self.is_unsure && !self.has_ended()
    }

    /// The elected server has said whether it takes writes, or nothing.
    pub(super) fn looked(
        &mut self,
        now_ms: u64,
        result: Result<Done, Failure>,
        out: &mut Vec<Order>,
    ) {
        let new = self.elected.as_ref().map(|elected| elected.new);
        match (result, new) {
            (Ok(done), Some(new)) if !done.value.is_empty() => self.promoted(now_ms, new, out),
            (Ok(_), _) if self.is_unsure => {
                // It may have been promoted, and have begun anew since: it is compared before it
                // replicates again.
                let why = "it is read-only, and may have taken writes: look at what it has \
                           committed, and promote a server";
                self.fail(Undo { why: why.to_owned(), is_stuck: true }, out);
            }
            (Ok(_), _) => {
                let why = "the promotion was not done".to_owned();
                self.undo(now_ms, Undo { why, is_stuck: true }, out);
            }
            (Err(_), _) => {
                self.is_unsure = true;
                self.state = State::Unsure { not_before_ms: now_ms.saturating_add(AGAIN_MS) };
                if std::mem::take(&mut self.is_closed) {
                    out.push(Order::Guide(Guidance::Release));
                }
            }
        }
    }

    /// The elected server answers the monitor: it is looked at, if that is still to be done.
    pub fn reached(&mut self, now_ms: u64, out: &mut Vec<Order>) {
        let State::Unsure { not_before_ms } = self.state else { return };
        let Some(new) = self.elected.as_ref().map(|elected| elected.new) else { return };
        if now_ms >= not_before_ms {
            self.order(now_ms, new, Action::LookWhetherWritable, AFTERWARDS_MS, out);
        }
    }
}
