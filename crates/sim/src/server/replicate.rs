//! Commits travel from the primary to the other hosts, each after its lag.

use super::{Cluster, Look, Wake, host::Commit};
use crate::{HostId, Micros};

impl Cluster {
    /// The primary has something new, or is another one: the others will look.
    pub(super) fn announce(&mut self, now: Micros) {
        for host in &self.hosts {
            if host.id != self.primary && host.is_up {
                self.record.wakes.insert((now + host.spec.lag_us, Wake::Replica(host.id)));
            }
        }
    }

    /// A replica applies what is old enough. One that has something which the primary has not is
    /// brought back to where both agree.
    pub(super) fn replicate(&mut self, id: HostId, now: Micros) {
        if id == self.primary {
            return;
        }
        let Some([replica, primary]) = self.pair(id) else {
            return;
        };
        if !replica.is_up || !primary.is_up {
            return;
        }
        if now < replica.cut_off_until {
            let until = replica.cut_off_until;
            self.record.wakes.insert((until, Wake::Replica(id)));
            return;
        }
        let shared = shared_len(&replica.log, &primary.log);
        if shared < replica.log.len() {
            replica.log.truncate(shared);
            replica.rebuild();
        }
        let mut next_due = None;
        for commit in primary.log.get(shared..).unwrap_or_default() {
            let due = commit.at + replica.spec.lag_us;
            if due > now {
                next_due = Some(due);
                break;
            }
            for (schema, change) in &commit.changes {
                replica.store.apply(*schema, *change);
            }
            replica.log.push(commit.clone());
        }
        if let Some(due) = next_due {
            self.record.wakes.insert((due, Wake::Replica(id)));
        }
    }

    /// What the monitor sees of a host at this time.
    pub fn look_at(&mut self, id: HostId, now: Micros) -> Look {
        if !self.is_up(id) {
            return Look::Silent;
        }
        let Some([replica, primary]) = self.pair(id) else {
            return Look::Primary;
        };
        // One that hears nothing of the primary does not know what it lacks.
        if !primary.is_up || now < replica.cut_off_until {
            return Look::Replica(None);
        }
        let shared = shared_len(&replica.log, &primary.log);
        let lag_us = primary.log.get(shared).map_or(0, |next| now.saturating_sub(next.at));
        Look::Replica(Some(lag_us))
    }

    fn pair(&mut self, replica: HostId) -> Option<[&mut super::host::Host; 2]> {
        self.hosts.get_disjoint_mut([replica.0, self.primary.0]).ok()
    }
}

/// How many commits two logs have in common at their beginning.
fn shared_len(left: &[Commit], right: &[Commit]) -> usize {
    let len = left.len().min(right.len());
    let same_at = |at: usize| {
        let number = |log: &[Commit]| log.get(at).map(|commit| commit.number);
        number(left) == number(right)
    };
    // A log is never changed but at its end, so the last in common decides.
    if len.checked_sub(1).is_none_or(same_at) {
        return len;
    }
    (0..len).take_while(|at| same_at(*at)).count()
}
