//! Programs one after the other, for some time.

use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use trunkline_testkit::Flavour;

use crate::plan::{Plan, Wish, draw};
use crate::run::{Difference, Verdict, run};
use crate::shrink::shrink;
use crate::stage::Stage;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Programs that ran.
    pub programs: u64,
    /// Steps of theirs, those of shrinking left out.
    pub statements: u64,
    /// Programs that could not be compared to their end.
    pub given_up: u64,
    /// Programs that differed.
    pub differences: u64,
    /// Differences that did not come again in a second run.
    pub unsteady: u64,
    /// Times that servers were started anew, as they or the proxy could not be asked any more.
    pub restarts: u64,
}

/// Servers are started anew this often in one hunt: with more something is wrong with the machine.
const RESTARTS_MAX: u64 = 20;

/// A program that differed.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its seed.
    pub seed: u64,
    /// What is left of it.
    pub plan: Plan,
    /// How it differs.
    pub difference: Difference,
    /// How often it differed again, of three times; 0 when it is unsteady and was not cut down.
    pub repeats: u32,
}

/// A hunt on one family.
pub struct Hunt {
    stage: Stage,
    family: Flavour,
    wish: Wish,
    shrinks: bool,
    /// What was done so far.
    pub tally: Tally,
}

impl Hunt {
    /// Starts servers.
    ///
    /// # Errors
    /// When they can't be had.
    pub fn start(family: Flavour, wish: Wish, shrinks: bool) -> Result<Hunt> {
        let stage = Stage::start(family)?;
        Ok(Hunt { stage, family, wish, shrinks, tally: Tally::default() })
    }

    /// Runs the programs of seeds from `first` on until `time` is over or `found` says that it
    /// is enough. A program whose servers fail is given up and told to `failed`; the next one gets
    /// new servers.
    ///
    /// # Errors
    /// When servers can't be started, or have failed too often.
    pub fn hunt(
        &mut self,
        first: u64,
        time: Duration,
        mut progress: impl FnMut(&Tally),
        mut found: impl FnMut(&Finding) -> bool,
        mut failed: impl FnMut(u64, &Error),
    ) -> Result<()> {
        let began = Instant::now();
        for seed in first.. {
            if began.elapsed() >= time {
                break;
            }
            let finding = match self.seed(seed) {
                Ok(finding) => finding,
                Err(error) if self.tally.restarts < RESTARTS_MAX => {
                    failed(seed, &error);
                    self.tally.given_up += 1;
                    self.tally.restarts += 1;
                    self.stage = Stage::start(self.family)?;
                    None
                }
                Err(error) => return Err(error),
            };
            progress(&self.tally);
            if finding.is_some_and(|finding| found(&finding)) {
                break;
            }
        }
        Ok(())
    }

    /// Runs the program of one seed, and cuts it down when it differs.
    ///
    /// # Errors
    /// When servers or the proxy can't be started or asked.
    pub fn seed(&mut self, seed: u64) -> Result<Option<Finding>> {
        let plan = draw(seed, self.family, &self.wish);
        self.plan(seed, &plan)
    }

    /// Runs a program, and cuts it down when it differs.
    ///
    /// # Errors
    /// When servers or the proxy can't be started or asked.
    pub fn plan(&mut self, seed: u64, plan: &Plan) -> Result<Option<Finding>> {
        self.tally.programs += 1;
        let difference = match run(&mut self.stage, plan, &mut self.tally.statements)? {
            Verdict::Same => return Ok(None),
            Verdict::GivenUp(_) => {
                self.tally.given_up += 1;
                return Ok(None);
            }
            Verdict::Differs(difference) => difference,
        };
        let plan = plan.clone();
        self.tally.differences += 1;
        if !self.shrinks {
            return Ok(Some(Finding { seed, plan, difference, repeats: 1 }));
        }
        let mut uncounted = 0;
        Ok(Some(match shrink(&mut self.stage, &plan, &difference, &mut uncounted)? {
            Some(shrunk) => {
                let (plan, difference) = (shrunk.plan, shrunk.difference);
                Finding { seed, plan, difference, repeats: shrunk.repeats }
            }
            None => {
                self.tally.unsteady += 1;
                Finding { seed, plan, difference, repeats: 0 }
            }
        }))
    }
}
