//! Crashes, restarts, promotions and the rest.

use std::collections::BTreeSet;

use trunkline_protocol::packet::{err::put_err, greeting::Flavor};

use super::{Cluster, Wake, conn::Stage, host::Host, spec::ServerFault};
use crate::{HostId, LinkId, Micros, oracle::facts::Effect, statement::Failure};

impl Cluster {
    /// Something goes wrong. What makes no sense (a promotion of a host that is down) does
    /// nothing; returns whether it did something.
    pub fn fault(&mut self, fault: ServerFault, now: Micros) -> bool {
        match fault {
            ServerFault::Crash { host, lose_last } => self.crash(host, lose_last, now),
            ServerFault::Restart { host } => self.restart(host, now),
            ServerFault::Promote { host, catch_up } => self.promote(host, catch_up, now),
            ServerFault::KillConnection { host, nth } => {
                let victim = self.nth_link(host, nth);
                victim.is_some_and(|victim| self.kill(victim, false, now))
            }
            ServerFault::Garbage { host, nth } => {
                let Some(link) = self.nth_link(host, nth) else {
                    return false;
                };
                self.conn_mut(link).map(|conn| conn.sends_garbage = true).is_some()
            }
            ServerFault::ErrorNext { host, code } => {
                let host = self.hosts.get_mut(host.0).filter(|host| host.is_up);
                host.map(|host| host.errors.push_back(failure_of(code))).is_some()
            }
            ServerFault::Slow { host, factor, for_us } => {
                let host = self.hosts.get_mut(host.0);
                host.map(|host| host.slow = (now + for_us, factor)).is_some()
            }
            ServerFault::Lag { host, lag_us } => {
                let Some(server) = self.hosts.get_mut(host.0) else {
                    return false;
                };
                server.spec.lag_us = lag_us;
                self.record.wakes.insert((now, Wake::Replica(host)));
                true
            }
            ServerFault::CutOff { host, for_us } => {
                let host = self.hosts.get_mut(host.0);
                host.map(|host| host.cut_off_until = now + for_us).is_some()
            }
            ServerFault::Hang { host, hangs } => {
                self.hosts.get_mut(host.0).map(|host| host.hangs = hangs).is_some()
            }
        }
    }

    fn nth_link(&self, host: HostId, nth: usize) -> Option<LinkId> {
        let conns = &self.hosts.get(host.0)?.conns;
        conns.keys().nth(nth.checked_rem(conns.len())?).copied()
    }

    fn crash(&mut self, host: HostId, lose_last: usize, now: Micros) -> bool {
        let is_primary = self.primary == host;
        let Some(server) = self.hosts.get_mut(host.0).filter(|server| server.is_up) else {
            return false;
        };
        server.is_up = false;
        server.errors.clear();
        server.slow = (0, 1);
        for link in server.conns.keys().copied().collect::<Vec<_>>() {
            server.close(link, now, true, &mut self.record);
        }
        debug_assert!(server.locks.is_empty() && server.waiting.is_empty());
        let kept = server.log.len().saturating_sub(lose_last);
        if kept < server.log.len() {
            server.log.truncate(kept);
            server.rebuild();
        }
        if is_primary {
            self.mark_lost();
        }
        true
    }

    fn restart(&mut self, host: HostId, now: Micros) -> bool {
        let Some(server) = self.hosts.get_mut(host.0).filter(|server| !server.is_up) else {
            return false;
        };
        server.is_up = true;
        server.up_since = now;
        server.number_anew();
        self.announce(now);
        true
    }

    fn promote(&mut self, host: HostId, catch_up: bool, now: Micros) -> bool {
        let old = self.primary;
        if old == host || !self.hosts.get(host.0).is_some_and(|host| host.is_up) {
            return false;
        }
        if let Some(server) = self.hosts.get_mut(old.0) {
            server.is_read_only = true;
            for link in server.conns.keys().copied().collect::<Vec<_>>() {
                server.close(link, now, false, &mut self.record);
            }
        }
        let caught_up = self.hosts.get(old.0).filter(|server| catch_up && server.is_up);
        let log = caught_up.map(|server| server.log.clone());
        self.primary = host;
        if let Some(server) = self.hosts.get_mut(host.0) {
            server.is_read_only = false;
            if let Some(log) = log {
                server.log = log;
                server.rebuild();
            }
        }
        self.mark_lost();
        self.announce(now);
        true
    }

    /// A connection, or the statement that it runs, is killed.
    pub(super) fn kill(&mut self, victim: LinkId, query_only: bool, now: Micros) -> bool {
        let Some(server) = self.links.get(&victim).and_then(|host| self.hosts.get_mut(host.0))
        else {
            return false;
        };
        let Some(conn) = server.conns.get(&victim) else {
            return false;
        };
        let stage = conn.work.as_ref().map(|work| &work.stage);
        let is_running = matches!(stage, Some(Stage::Serving | Stage::Waiting));
        if is_running {
            server.run_next(victim, now, Some(failure_of(1317)), &mut self.record);
        }
        if query_only {
            let work = server.conns.get_mut(&victim).and_then(|conn| conn.work.as_mut());
            if let Some(work) = work.filter(|work| work.stage == Stage::Reading) {
                work.is_killed = true;
                return true;
            }
            return is_running;
        }
        // MariaDB tells a connection that rests why it ends.
        if server.spec.flavor == Flavor::MariaDb && is_idle(server, victim) {
            let mut bytes = Vec::new();
            put_err(&mut bytes, 0, 1927, b"70100", "Connection was killed");
            server.send(victim, bytes, &mut self.record);
        }
        server.close(victim, now, false, &mut self.record);
        true
    }

    /// What is committed on the primary is there; anything else that was committed is lost.
    fn mark_lost(&mut self) {
        let Some(primary) = self.hosts.get(self.primary.0) else {
            return;
        };
        let there: BTreeSet<usize> = primary.log.iter().map(|commit| commit.number).collect();
        for (number, executions) in self.record.commits.clone().iter().enumerate() {
            let effect = match there.contains(&number) {
                true => Effect::Committed,
                false => Effect::Lost,
            };
            self.record.mark(executions, effect);
        }
    }
}

fn is_idle(server: &Host, link: LinkId) -> bool {
    server.conns.get(&link).is_some_and(|conn| conn.work.is_none())
}

/// The error of this code, as a server would word it.
pub(super) fn failure_of(code: u16) -> Failure {
    match code {
        1213 => {
            let text = "Deadlock found when trying to get lock; try restarting transaction";
            Failure::new(code, b"40001", text)
        }
        1205 => {
            let text = "Lock wait timeout exceeded; try restarting transaction";
            Failure::new(code, b"HY000", text)
        }
        1317 => Failure::new(code, b"70100", "Query execution was interrupted"),
        _ => Failure::new(code, b"HY000", format!("planned error {code}")),
    }
}
