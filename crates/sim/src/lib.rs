//! The simulator: workers, servers, clients and operators in one world that follows from a seed.
//!
//! Nothing here reads a clock, a socket or chance of its own: time is virtual, links are queues
//! of bytes, and every choice comes from the seed. So a run that fails fails again.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

pub mod client;
pub mod driver;
pub mod failovers;
pub mod operator;
pub mod oracle;
pub mod packing;
pub mod plan;
pub mod queue;
pub mod rng;
pub mod roles;
pub mod sealing;
pub mod seeds;
pub mod server;
pub mod session;
pub mod shrink;
pub mod statement;
pub mod trace;
pub mod wire;

mod world;

/// Virtual time, in microseconds since the run began.
pub type Micros = u64;

/// A server host, by its place in the plan's cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// One TCP connection of either side, unique for the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// What a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Promises that it broke, in the order of time.
    pub violations: Vec<oracle::Violation>,
    /// Why it ended by a panic, if it did.
    pub panic: Option<String>,
    /// Statements that servers ran.
    pub statements: u64,
    /// Events.
    pub events: u64,
    /// Turns of the workers' loops.
    pub batches: u64,
    /// Bytes that arrived anywhere.
    pub bytes: u64,
    /// How long it took, in virtual time.
    pub ended_us: Micros,
    /// How often each kind of fault and act came, and other things worth counting.
    pub faults: BTreeMap<&'static str, u64>,
    /// What happened, if it was to be written down.
    pub trace: trace::Trace,
}

/// How much of a violation's evidence tells kinds of failure apart, in characters.
const WORDS_LEN: usize = 30;

impl Outcome {
    /// Whether nothing was broken.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.panic.is_none()
    }

    /// What was broken first, in few words: runs that fail with the same words fail alike.
    pub fn failure(&self) -> Option<String> {
        match (&self.panic, self.violations.first()) {
            (Some(_), _) => Some("Panic".to_owned()),
            (None, Some(violation)) => {
                let words = violation.evidence.chars().filter(|it| !it.is_ascii_digit());
                let words: String = words.take(WORDS_LEN).collect();
                Some(format!("{:?} {words}", violation.breach))
            }
            (None, None) => None,
        }
    }
}

/// Plays a plan and checks what came of it.
pub fn run(plan: &plan::Plan, with_trace: bool) -> Outcome {
    let mut world = world::World::new(plan, with_trace);
    match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(()) => world.into_outcome(),
        Err(reason) => {
            let text = reason.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| reason.downcast_ref::<&str>().copied());
            let panic = Some(text.unwrap_or("a panic without words").to_owned());
            Outcome { panic, ..world.into_outcome() }
        }
    }
}

/// Plays what a seed stands for.
pub fn run_seed(seed: u64) -> Outcome {
    run(&plan::Plan::from_seed(seed, &plan::Limits::default()), false)
}
