//! Limits hold at every instant.
//!
//! A limit that an operator lowers may be passed by what is there already; then the figure must
//! not grow. So each figure is compared with its limit and with what it was before.

use std::collections::BTreeMap;

use super::{Breach, Violation};
use crate::Micros;

/// What there is at one instant. Each limit is the highest of those that a worker goes by.
#[derive(Debug, Clone, Copy)]
pub struct Instant<'a> {
    /// When.
    pub at_us: Micros,
    /// Figures that have a limit.
    pub figures: &'a [Figure],
    /// Pairs of figures that must agree.
    pub pairs: &'a [Pair],
}

/// A figure and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Of what.
    pub what: Limited,
    /// Now.
    pub now: u64,
    /// At most.
    pub max: u64,
}

/// Two ways to count the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Of what.
    pub what: Limited,
    /// As the proxy counts.
    pub counted: u64,
    /// As the world does.
    pub there: u64,
}

/// What has a limit. Numbers are the run's: of servers, users, workers, clients, hostgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limited {
    /// Connections to a server of the configuration, all workers together.
    ServerConnections(usize),
    /// Statements in flight there: at most `pipeline_depth_max` for each connection.
    ServerStatements(usize),
    /// Clients, all workers together.
    Clients,
    /// Sessions of a user.
    UserSessions(usize),
    /// Statements that wait, by worker and hostgroup.
    Queue(usize, u32),
    /// Bytes that wait for a client.
    ClientBytes(usize),
    /// Bytes that wait for a server, by worker.
    ServerBytes(usize),
}

/// Looks at instants.
#[derive(Debug, Default)]
pub struct Limits {
    /// The last value of each figure that was over its limit.
    over: BTreeMap<Limited, u64>,
    /// The last value of each figure that was not zero.
    last: BTreeMap<Limited, u64>,
}

impl Limits {
    /// Adds what this instant breaks.
    pub fn check(&mut self, instant: &Instant<'_>, found: &mut Vec<Violation>) {
        for figure in instant.figures {
            if figure.now <= figure.max {
                self.over.remove(&figure.what);
            } else {
                let before = self.over.insert(figure.what, figure.now);
                let before = before.or_else(|| self.last.get(&figure.what).copied());
                if figure.now > before.unwrap_or(0) {
                    let (what, now, max) = (figure.what, figure.now, figure.max);
                    let evidence = format!("{what:?}: {now}, and at most {max} are allowed");
                    found.push(over(instant.at_us, evidence));
                }
            }
            match figure.now {
                0 => self.last.remove(&figure.what),
                now => self.last.insert(figure.what, now),
            };
        }
        for pair in instant.pairs.iter().filter(|pair| pair.counted != pair.there) {
            let Pair { what, counted, there } = pair;
            let evidence = format!("{what:?}: {counted} counted, and {there} are there");
            found.push(over(instant.at_us, evidence));
        }
    }
}

fn over(at_us: Micros, evidence: String) -> Violation {
    Violation { breach: Breach::OverLimit, client: None, tag: None, at_us, evidence }
}
