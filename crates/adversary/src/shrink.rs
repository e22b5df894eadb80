//! Cuts a program that differs down to a short one that still differs in the same question.

use anyhow::Result;

use crate::plan::{Account, Act, Plan, Profile, Step, used};
use crate::run::{Difference, Verdict, run};
use crate::stage::Stage;

/// Runs that shrinking may take.
const RUNS_MAX: u32 = 250;

/// A program that was cut down.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What is left of it.
    pub plan: Plan,
    /// How it differs.
    pub difference: Difference,
    /// How often the program that is left has differed, of three times.
    pub repeats: u32,
}

struct Shrinker<'a> {
    stage: &'a mut Stage,
    best: Plan,
    difference: Difference,
    runs: u32,
    statements: &'a mut u64,
}

/// The shortest program found that still differs at the same question; `None` when the program
/// does not differ again.
///
/// # Errors
/// When servers or the proxy can't be started or asked.
pub fn shrink(
    stage: &mut Stage,
    plan: &Plan,
    difference: &Difference,
    statements: &mut u64,
) -> Result<Option<Shrunk>> {
    let mut best = plan.clone();
    // What comes behind the first difference has no part in it.
    if let Some(step) = difference.step {
        best.steps.truncate(step + 1);
    }
    let difference = difference.clone();
    let mut shrinker = Shrinker { stage, best: best.clone(), difference, runs: 0, statements };
    if !shrinker.keeps(best)? {
        return Ok(None);
    }
    loop {
        let before = (shrinker.best.steps.len(), shrinker.best.setup.len());
        shrinker.round()?;
        let after = (shrinker.best.steps.len(), shrinker.best.setup.len());
        if before == after || shrinker.runs >= RUNS_MAX {
            break;
        }
    }
    shrinker.simplify()?;
    let mut repeats = 0;
    for _ in 0..3 {
        repeats += u32::from(shrinker.keeps(shrinker.best.clone())?);
    }
    let (plan, difference) = (shrinker.best, shrinker.difference);
    Ok(Some(Shrunk { plan, difference, repeats }))
}

impl Shrinker<'_> {
    fn round(&mut self) -> Result<()> {
        for session in 0..self.best.accounts.len() {
            let mut plan = self.best.clone();
            plan.steps.retain(|step| step.session != session);
            self.try_out(plan)?;
        }
        self.cut(
            |plan| plan.steps.len(),
            |plan, from, until| {
                drop(plan.steps.drain(from..until));
            },
        )?;
        self.cut(
            |plan| plan.setup.len(),
            |plan, from, until| {
                drop(plan.setup.drain(from..until));
            },
        )
    }

    /// Takes away as much as possible of a list: halves first, then ever smaller parts.
    fn cut(
        &mut self,
        len: impl Fn(&Plan) -> usize,
        remove: impl Fn(&mut Plan, usize, usize),
    ) -> Result<()> {
        let mut part = len(&self.best).div_ceil(2);
        while part > 0 {
            // From the end, as what matters often stands there together.
            let mut until = len(&self.best);
            while until > 0 {
                let from = until.saturating_sub(part);
                let mut plan = self.best.clone();
                remove(&mut plan, from, until);
                self.try_out(plan)?;
                until = from.min(len(&self.best));
            }
            part /= 2;
        }
        Ok(())
    }

    /// A program that is easier to read.
    fn simplify(&mut self) -> Result<()> {
        let mut plan = self.best.clone();
        plan.profile = Profile::One;
        self.try_out(plan)?;
        if self.best.profile == Profile::Rules {
            let mut plan = self.best.clone();
            plan.profile = Profile::Split;
            self.try_out(plan)?;
        }
        let mut plan = self.best.clone();
        plan.accounts.fill(Account::Ada);
        self.try_out(plan)?;
        for at in 0..self.best.steps.len() {
            let mut plan = self.best.clone();
            let Some(step) = plan.steps.get_mut(at) else { continue };
            if let Act::Prepared(text) = &step.act {
                step.act = Act::Query(text.clone());
                self.try_out(plan)?;
            }
        }
        self.close_ranks()
    }

    /// Without sessions that do nothing.
    fn close_ranks(&mut self) -> Result<()> {
        for session in (0..self.best.accounts.len()).rev() {
            let mut plan = self.best.clone();
            let is_named = |step: &Step| {
                let killed = matches!(step.act, Act::Kill { target, .. } if target == session);
                step.session == session || killed
            };
            if plan.accounts.len() < 2 || plan.steps.iter().any(is_named) {
                continue;
            }
            plan.accounts.remove(session);
            for step in &mut plan.steps {
                step.session -= usize::from(step.session > session);
                if let Act::Kill { target, .. } = &mut step.act {
                    *target -= usize::from(*target > session);
                }
            }
            self.try_out(plan)?;
        }
        Ok(())
    }

    /// Keeps the program if it still differs, without what no step names any longer: making the
    /// schema takes most of the time.
    fn try_out(&mut self, mut plan: Plan) -> Result<bool> {
        plan.setup = used(plan.setup, &plan.steps);
        if self.runs >= RUNS_MAX || plan == self.best {
            return Ok(false);
        }
        self.keeps(plan)
    }

    fn keeps(&mut self, plan: Plan) -> Result<bool> {
        self.runs += 1;
        let Verdict::Differs(found) = run(self.stage, &plan, self.statements)? else {
            return Ok(false);
        };
        let is_kept = found.is_like(&self.difference) || self.is_renamed(&found);
        if is_kept {
            self.best = plan;
            self.difference = found;
        }
        Ok(is_kept)
    }

    /// A prepared statement that became a plain one asks the same.
    fn is_renamed(&self, found: &Difference) -> bool {
        let plain = |what: &str| what.trim_start_matches(".prepared ").to_owned();
        plain(&found.what) == plain(&self.difference.what)
    }
}
