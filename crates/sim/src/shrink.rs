//! Cuts a plan that fails down to a short one that still fails, in the same way.

use crate::{
    Outcome,
    plan::Plan,
    run,
    wire::{Chop, PipeSpec},
};

/// Runs that shrinking may take.
const RUNS_MAX: u32 = 1_500;

/// A shrinker at work.
struct Shrinker<'a> {
    best: Plan,
    fails: &'a dyn Fn(&Outcome) -> bool,
    runs: u32,
    progress: &'a mut dyn FnMut(&str),
}

/// The shortest plan found whose outcome still `fails`. `progress` is told now and then how far
/// it has come.
pub fn shrink(
    plan: &Plan,
    fails: &dyn Fn(&Outcome) -> bool,
    progress: &mut dyn FnMut(&str),
) -> Plan {
    let mut shrinker = Shrinker { best: plan.clone(), fails, runs: 0, progress };
    loop {
        let before = size(&shrinker.best);
        shrinker.round();
        if size(&shrinker.best) == before || shrinker.runs >= RUNS_MAX {
            return shrinker.best;
        }
    }
}

/// What shrinking makes smaller.
fn size(plan: &Plan) -> usize {
    let scripts = plan.clients.iter().enumerate().filter(|(at, _)| !plan.absent.contains(at));
    let steps: usize = scripts.map(|(_, client)| 1 + client.script.len()).sum();
    steps + plan.acts.len() + plan.faults.len() + plan.workers
}

impl Shrinker<'_> {
    fn round(&mut self) {
        let present = |plan: &Plan| {
            (0..plan.clients.len()).filter(|at| !plan.absent.contains(at)).collect::<Vec<_>>()
        };
        self.cut(
            |plan| present(plan).len(),
            |plan, from, until| {
                let gone: Vec<_> =
                    present(plan).into_iter().skip(from).take(until - from).collect();
                plan.absent.extend(gone);
            },
        );
        self.cut(
            |plan| plan.faults.len(),
            |plan, from, until| {
                drop(plan.faults.drain(from..until));
            },
        );
        self.cut(
            |plan| plan.acts.len(),
            |plan, from, until| {
                drop(plan.acts.drain(from..until));
            },
        );
        for client in present(&self.best) {
            self.cut(
                |plan| plan.clients.get(client).map_or(0, |client| client.script.len()),
                |plan, from, until| {
                    if let Some(client) = plan.clients.get_mut(client) {
                        drop(client.script.drain(from..until));
                    }
                },
            );
        }
        self.simplify();
        let text = format!("{} runs, {} parts left", self.runs, size(&self.best));
        (self.progress)(&text);
    }

    /// Takes away as much as possible of a list: halves first, then ever smaller parts.
    fn cut(&mut self, len: impl Fn(&Plan) -> usize, remove: impl Fn(&mut Plan, usize, usize)) {
        let mut part = len(&self.best);
        while part > 0 {
            let mut from = 0;
            while from < len(&self.best) {
                let until = (from + part).min(len(&self.best));
                let mut plan = self.best.clone();
                remove(&mut plan, from, until);
                if !self.try_out(plan) {
                    from = until;
                }
            }
            part /= 2;
        }
    }

    /// A world that is easier to read.
    fn simplify(&mut self) {
        for workers in 1..self.best.workers {
            if self.try_out(Plan { workers, ..self.best.clone() }) {
                break;
            }
        }
        let plain = |pipe: PipeSpec| PipeSpec { jitter_us: 0, chop: Chop::Whole, ..pipe };
        let mut plan = self.best.clone();
        plan.client_pipe = plain(plan.client_pipe);
        plan.host_pipes.iter_mut().for_each(|pipe| *pipe = plain(*pipe));
        self.try_out(plan);
        self.try_out(Plan { reaction_us: 0, ..self.best.clone() });
        self.try_out(Plan { writes_many: false, ..self.best.clone() });
    }

    /// Keeps the plan if it still fails.
    fn try_out(&mut self, plan: Plan) -> bool {
        if self.runs >= RUNS_MAX || plan == self.best {
            return false;
        }
        self.runs += 1;
        let fails = (self.fails)(&run(&plan, false));
        if fails {
            self.best = plan;
        }
        fails
    }
}
