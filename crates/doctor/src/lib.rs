//! Judges what `trunkline doctor` has found of servers, of the machine and of the configuration:
//! what is dangerous, and what to do about it. Pure: facts in, findings out.
//!
//! Reading order: [`facts`](mod@facts) (what is known), [`finding`] (what is said), then a module
//! for each kind of judgment: `machine` (limits of the kernel), `settings` (the configuration by
//! itself), `server` (each server by itself), `replica` (servers that replicate), `together`
//! (servers beside each other).
#![forbid(unsafe_code)]

pub mod facts;
pub mod finding;

mod machine;
mod replica;
mod server;
mod settings;
mod together;

pub use facts::{Answers, ClusterFacts, Facts, MachineFacts, Pool, ServerFacts, Settings, Source};
pub use finding::{Danger, Finding};

/// Everything that is to be said of these facts, the most dangerous first.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    settings::judge(facts, &mut found);
    machine::judge(facts, &mut found);
    for server in &facts.servers {
        server::judge(facts, server, &mut found);
        replica::judge(facts, server, &mut found);
    }
    together::judge(facts, &mut found);
    // The sort is stable: what is equally dangerous stays in the order of the modules.
    found.sort_by_key(|finding| finding.danger);
    found
}

#[cfg(test)]
mod tests;
