//! Another server becomes the writer, since the one that was is lost.
//!
//! [`Watch`] says when it begins: `Cluster::loss` is certain, and nothing forbids it. [`Failover`]
//! is what is done then, one step after the other: members are asked and one is elected
//! ([`elect`](mod@elect)), it applies what it has received, the old writer is fenced, the elected
//! one is promoted, clients are let in, and the others replicate from it. Nobody is promoted before
//! the old writer is fenced, or an operator has said beforehand that it need not be. A lost writer
//! that only says nothing takes its time to be found silent: it is asked while the elected one
//! still applies, and once more behind that.
//!
//! What servers are asked and told is done by the caller ([`Order`]), which says what came of it;
//! time is a parameter.

pub mod elect;
mod past;
#[cfg(test)]
mod tests;
mod unsure;
mod watch;

use std::collections::BTreeMap;

use crate::{
    HostId,
    machine::Guidance,
    switchover::{Action, Done, Failure, Row},
};

use elect::{Elected, NotElected};
pub use past::Past;
pub use watch::{Mode, Verdict, Watch};

/// How long a server may take to apply what it has received, ms: there is nobody else.
const FINISH_MS: u64 = 600_000;
/// How long the lost writer may take to show that it is none any more, ms.
const FENCE_MS: u64 = 1_000;
/// How long it may take when it was asked for so long already, and has said nothing, ms.
const FENCE_AGAIN_MS: u64 = 200;
/// How long a promotion may take, ms.
const PROMOTE_MS: u64 = 10_000;
/// How long noting who will write may take, ms.
const NOTE_MS: u64 = 2_000;
/// How long a step beyond the promotion, or an inverse, may take, ms.
const AFTERWARDS_MS: u64 = 10_000;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Who is lost.
    pub old: HostId,
    /// How long the operator's program for fencing may run, ms; `None` if there is none.
    pub script_ms: Option<u64>,
    /// Whether a successor is promoted where the lost writer can't be fenced.
    pub promote_unreachable: bool,
    /// Whether it is only said what would be done.
    pub is_advice: bool,
}

/// What the caller has to do. The orders of a switchover are nearly the same and apart, as each has
/// an end of its own and this one an election: whoever carries them out matches on all of either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Claim the failover on most of the servers, ask all of them, elect, and say what came of it
    /// in any case ([`Failover::elected`]).
    Elect,
    /// Say this of roles.
    Guide(Guidance),
    /// Do this on a server, and say what came of it in any case ([`Failover::done`]).
    Do {
        /// The number of the step.
        step: u32,
        /// The server.
        host: HostId,
        /// What is done.
        action: Action,
        /// How long it may take, ms.
        within_ms: u64,
    },
    /// A step has ended.
    Tell(Row),
    /// It is over.
    End(Outcome),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The new writer writes. The steps that failed behind the promotion.
    Done(Vec<String>),
    /// Nobody was promoted, or it is not known whether somebody was.
    Failed {
        /// Why, and what a person should do.
        why: String,
        /// Whether it waits for a person; otherwise it may be tried again.
        is_stuck: bool,
    },
    /// What would be done.
    Advice(String),
}

/// Where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Nothing has begun.
    Waiting,
    /// Members are asked.
    Electing { since_ms: u64 },
    /// One step is under way.
    Doing(Doing),
    /// Whether the elected server was promoted is to be found out, when it answers.
    Unsure { not_before_ms: u64 },
    /// Steps behind the promotion are under way.
    Afterwards(Afterwards),
    /// It is over.
    Ended,
}

/// A step under way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Doing {
    /// Its number.
    step: u32,
    host: HostId,
    action: Action,
    since_ms: u64,
}

/// What the lost writer says while the elected server still applies what it has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Early {
    /// It has answered, or was not asked.
    #[default]
    Told,
    /// It is asked.
    Asked { step: u32, since_ms: u64 },
    /// It has said nothing in all its time.
    Silent,
}

/// Steps under way behind the promotion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Afterwards {
    /// By their numbers.
    left: BTreeMap<u32, Doing>,
    is_settling: bool,
    failed: Vec<String>,
}

/// Why everything is undone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Undo {
    why: String,
    is_stuck: bool,
}

/// One failover.
#[derive(Debug, Clone)]
pub struct Failover {
    plan: Plan,
    state: State,
    /// The number of the step that was ordered last.
    step: u32,
    elected: Option<Elected>,
    early: Early,
    /// The transactions of the new writer when it was promoted.
    position: String,
    /// Nobody writes, as far as this goes.
    is_closed: bool,
    /// Why it is undone as soon as the step under way has ended.
    undo: Option<Undo>,
    /// The lost writer answers the monitor again.
    is_back: bool,
    /// Whether the elected server was promoted was not to be found out at once.
    is_unsure: bool,
    #[cfg(feature = "plants")]
    pub(crate) plant: Option<crate::plants::Plant>,
}

impl Failover {
    /// One that has not begun.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            state: State::Waiting,
            step: 0,
            elected: None,
            early: Early::default(),
            position: String::new(),
            is_closed: false,
            undo: None,
            is_back: false,
            is_unsure: false,
            #[cfg(feature = "plants")]
            plant: None,
        }
    }

    /// What is to be done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Who was elected.
    pub fn chosen(&self) -> Option<&Elected> {
        self.elected.as_ref()
    }

    /// The transactions of the new writer when it had applied everything.
    pub fn position(&self) -> &str {
        &self.position
    }

    /// Whether it is over.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Begins.
    pub fn begin(&mut self, now_ms: u64, out: &mut Vec<Order>) {
        debug_assert!(self.state == State::Waiting);
        self.state = State::Electing { since_ms: now_ms };
        out.push(Order::Elect);
    }

    /// Members were asked.
    pub fn elected(
        &mut self,
        now_ms: u64,
        result: Result<Elected, NotElected>,
        out: &mut Vec<Order>,
    ) {
        let State::Electing { since_ms } = self.state else { return };
        let ms = now_ms.saturating_sub(since_ms);
        let elected = match result {
            Ok(elected) => elected,
            Err(NotElected { why, is_stuck }) => {
                self.tell("elect", self.plan.old, ms, Err(why.clone()), out);
                return self.fail(Undo { why, is_stuck }, out);
            }
        };
        let mut said = format!("it has {}", elected.position);
        if !elected.missing.is_empty() {
            said.push_str(&format!(", and not all that the lost writer had: {}", elected.missing));
        }
        self.tell("elect", elected.new, ms, Ok(said), out);
        for (host, why) in &elected.passed_over {
            self.tell("pass over", *host, ms, Ok(why.clone()), out);
        }
        let new = elected.new;
        self.elected = Some(elected);
        if self.plan.is_advice {
            self.state = State::Ended;
            return out.push(Order::End(Outcome::Advice(self.advice())));
        }
        if let Some(undo) = self.undo.take() {
            return self.fail(undo, out);
        }
        self.order(now_ms, new, Action::Finish, FINISH_MS, out);
        self.step += 1;
        let (step, host, action) = (self.step, self.plan.old, Action::Fence);
        self.early = Early::Asked { step, since_ms: now_ms };
        out.push(Order::Do { step, host, action, within_ms: FENCE_MS });
    }

    fn advice(&self) -> String {
        let others = self.elected.as_ref().map_or(0, |elected| elected.others.len());
        let fence = match (self.plan.script_ms, self.plan.promote_unreachable) {
            (Some(_), _) => "fence_script would run unless the old one is read-only or refuses",
            (None, true) => "it would be promoted even if the old one can't be reached",
            (None, false) => "only if the old one is read-only or refuses connections",
        };
        format!("it would become the writer, and {others} others would replicate from it; {fence}")
    }

    /// The lost writer answers: nobody is promoted any more.
    pub fn returned(&mut self, why: &str, out: &mut Vec<Order>) {
        match &self.state {
            State::Electing { .. } => {
                self.fail(Undo { why: why.to_owned(), is_stuck: false }, out);
            }
            State::Doing(Doing { action: Action::Finish, .. }) => {
                let undo = Undo { why: why.to_owned(), is_stuck: false };
                self.undo.get_or_insert(undo);
            }
            // Fencing finds out what it is; nobody replaces one that can't be asked and answers.
            State::Doing(Doing { action: Action::Fence | Action::FenceByScript, .. }) => {
                self.is_back = true;
            }
            // Behind that, it is fenced.
            State::Waiting
            | State::Doing(_)
            | State::Unsure { .. }
            | State::Afterwards(_)
            | State::Ended => {}
        }
    }

    /// Somebody else has made another member take writes: nobody is promoted any more.
    pub fn overtaken(&mut self, why: &str, out: &mut Vec<Order>) {
        let undo = Undo { why: why.to_owned(), is_stuck: true };
        match &self.state {
            State::Electing { .. } | State::Unsure { .. } => self.fail(undo, out),
            State::Doing(Doing {
                action: Action::Finish | Action::Fence | Action::FenceByScript | Action::Note,
                ..
            }) => {
                self.undo.get_or_insert(undo);
            }
            State::Waiting | State::Doing(_) | State::Afterwards(_) | State::Ended => {}
        }
    }

    /// A server of it is no member any more, or the configuration has changed.
    pub fn abandon(&mut self, why: &str, out: &mut Vec<Order>) {
        if !self.has_ended() {
            self.fail(Undo { why: why.to_owned(), is_stuck: true }, out);
        }
    }

    /// A step has ended.
    pub fn done(
        &mut self,
        now_ms: u64,
        step: u32,
        result: Result<Done, Failure>,
        out: &mut Vec<Order>,
    ) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Doing(doing) if step == doing.step => self.next(now_ms, doing, result, out),
            State::Doing(doing) => {
                self.state = State::Doing(doing);
                self.heard_early(step, &result);
            }
            State::Afterwards(afterwards) => {
                self.state = self.next_behind(now_ms, step, result, afterwards, out);
            }
            // An answer of an earlier step is none.
            state @ (State::Waiting
            | State::Electing { .. }
            | State::Unsure { .. }
            | State::Ended) => self.state = state,
        }
    }

    /// The lost writer was asked while the elected server still applied. What it says counts only
    /// if it keeps everybody from being promoted: it is asked once more before that.
    fn heard_early(&mut self, step: u32, result: &Result<Done, Failure>) {
        if !matches!(self.early, Early::Asked { step: asked, .. } if asked == step) {
            return;
        }
        self.early = if result.is_ok() { Early::Told } else { Early::Silent };
        if result.as_ref().is_ok_and(|done| done.value == "writable") {
            let why = "the old writer answers, and takes writes".to_owned();
            self.undo.get_or_insert(Undo { why, is_stuck: false });
        }
    }

    /// Whether the lost writer is one, in the time that it has not had yet.
    fn fence(&mut self, now_ms: u64, out: &mut Vec<Order>) {
        let (host, action) = (self.plan.old, Action::Fence);
        let within_ms = match std::mem::take(&mut self.early) {
            Early::Asked { step, since_ms } => {
                self.state = State::Doing(Doing { step, host, action, since_ms });
                return;
            }
            Early::Silent => FENCE_AGAIN_MS,
            Early::Told => FENCE_MS,
        };
        self.order(now_ms, host, action, within_ms, out);
    }

    // long: one arm for each step and how it ends.
    fn next(
        &mut self,
        now_ms: u64,
        doing: Doing,
        result: Result<Done, Failure>,
        out: &mut Vec<Order>,
    ) {
        let Doing { host, action, since_ms, .. } = doing;
        let told = match (&action, &result) {
            (_, Ok(done)) => Ok(done.said.clone()),
            (Action::LookWhetherWritable, Err(failure)) => Err(format!(
                "stuck: whether it was promoted is not known: {}. The server that takes writes \
                 becomes the writer",
                failure.why
            )),
            (_, Err(failure)) => Err(failure.why.clone()),
        };
        // That it can't be looked at is told once.
        if told.is_ok() || !self.is_unsure {
            self.tell(action.name(), host, now_ms.saturating_sub(since_ms), told, out);
        }
        let Some(new) = self.elected.as_ref().map(|it| it.new) else {
            return self.fail(Undo { why: "nobody is elected".to_owned(), is_stuck: true }, out);
        };
        let is_before =
            matches!(action, Action::Finish | Action::Fence | Action::FenceByScript | Action::Note);
        if let Some(undo) = self.undo.take_if(|_| is_before) {
            return self.undo(now_ms, undo, out);
        }
        match (action, result) {
            (Action::Finish, Ok(done)) => {
                self.position = done.value;
                #[cfg(feature = "plants")]
                if self.plant == Some(crate::plants::Plant::FenceSkipped) {
                    self.early = Early::Told;
                    return self.close(now_ms, new, out);
                }
                self.fence(now_ms, out);
            }
            (Action::Finish, Err(failure)) => {
                let why = format!("{}: mend its replication, or promote a server", failure.why);
                self.undo(now_ms, Undo { why, is_stuck: true }, out);
            }
            (Action::Fence, Ok(done)) if done.value == "writable" => {
                let why = "the old writer answers, and takes writes".to_owned();
                self.undo(now_ms, Undo { why, is_stuck: false }, out);
            }
            (Action::Fence | Action::FenceByScript, Err(failure)) if self.is_back => {
                let why = format!("the old writer answers again, and {}", failure.why);
                self.undo(now_ms, Undo { why, is_stuck: false }, out);
            }
            (Action::Fence, Err(failure)) => self.not_fenced(now_ms, failure, out),
            (Action::FenceByScript, Err(failure)) if !self.plan.promote_unreachable => {
                let why = format!(
                    "the old writer can't be fenced: {}. Make sure that it takes no writes, and \
                     promote a server, or bring it back",
                    failure.why
                );
                self.undo(now_ms, Undo { why, is_stuck: true }, out);
            }
            (Action::Fence, Ok(_)) | (Action::FenceByScript, Ok(_) | Err(_)) => {
                self.close(now_ms, new, out);
            }
            // What can't be noted is no reason to leave clients without a writer.
            (Action::Note, _) => self.order(now_ms, new, Action::Promote, PROMOTE_MS, out),
            (Action::Promote, Ok(_)) => self.promoted(now_ms, new, out),
            (Action::Promote, Err(failure)) if failure.is_unknown => {
                self.order(now_ms, new, Action::LookWhetherWritable, AFTERWARDS_MS, out);
            }
            (Action::Promote, Err(failure)) => {
                let why = format!("it can't be promoted: {}", failure.why);
                self.undo(now_ms, Undo { why, is_stuck: true }, out);
            }
            (Action::LookWhetherWritable, result) => self.looked(now_ms, result, out),
            // An inverse has ended, well or not.
            (Action::Reattach, _) => {
                let why = "it was undone".to_owned();
                let undo = self.undo.take().unwrap_or(Undo { why, is_stuck: true });
                self.fail(undo, out);
            }
            (
                Action::Demote
                | Action::Undemote
                | Action::CatchUp(_)
                | Action::Settle
                | Action::Follow { .. }
                | Action::Appoint,
                _,
            ) => debug_assert!(false, "no step before the promotion"),
        }
    }

    /// The lost writer is neither read-only nor gone.
    fn not_fenced(&mut self, now_ms: u64, failure: Failure, out: &mut Vec<Order>) {
        let (old, new) = (self.plan.old, self.elected.as_ref().map(|it| it.new));
        match (self.plan.script_ms, self.plan.promote_unreachable, new) {
            (Some(within_ms), _, _) => {
                self.order(now_ms, old, Action::FenceByScript, within_ms, out);
            }
            (None, true, Some(new)) => self.close(now_ms, new, out),
            (None, _, _) => {
                let why = format!(
                    "the old writer can't be fenced ({}): make sure that it takes no writes, and \
                     promote a server; fence_script or promote_unreachable would have done so",
                    failure.why
                );
                self.undo(now_ms, Undo { why, is_stuck: true }, out);
            }
        }
    }

    /// Nobody writes any more, until the elected server does.
    fn close(&mut self, now_ms: u64, new: HostId, out: &mut Vec<Order>) {
        self.is_closed = true;
        out.extend([Order::Guide(Guidance::Drain), Order::Guide(Guidance::Close)]);
        self.order(now_ms, new, Action::Note, NOTE_MS, out);
    }

    /// The elected server goes on as a replica.
    fn undo(&mut self, now_ms: u64, undo: Undo, out: &mut Vec<Order>) {
        self.undo = Some(undo);
        match self.elected.as_ref().map(|elected| elected.new) {
            Some(new) => self.order(now_ms, new, Action::Reattach, AFTERWARDS_MS, out),
            None => self.state = State::Ended,
        }
    }

    /// It ends, and roles are as servers tell.
    fn fail(&mut self, Undo { why, is_stuck }: Undo, out: &mut Vec<Order>) {
        self.state = State::Ended;
        if std::mem::take(&mut self.is_closed) {
            out.push(Order::Guide(Guidance::Release));
        }
        out.push(Order::End(Outcome::Failed { why, is_stuck }));
    }

    /// The new writer takes writes: clients may.
    fn promoted(&mut self, now_ms: u64, new: HostId, out: &mut Vec<Order>) {
        self.is_closed = false;
        out.push(Order::Guide(Guidance::Open(new)));
        let others = self.elected.as_ref().map(|it| it.others.clone()).unwrap_or_default();
        let mut afterwards = Afterwards::default();
        for host in others {
            // It may have got more from a lost writer that was back for a moment.
            let most = Some(self.position.clone()).filter(|position| !position.is_empty());
            let action = Action::Follow { source: new, had: None, most };
            self.order_behind(now_ms, host, action, &mut afterwards, out);
        }
        if afterwards.left.is_empty() {
            afterwards.is_settling = true;
            self.order_behind(now_ms, new, Action::Settle, &mut afterwards, out);
        }
        self.state = State::Afterwards(afterwards);
    }

    fn next_behind(
        &mut self,
        now_ms: u64,
        step: u32,
        result: Result<Done, Failure>,
        mut afterwards: Afterwards,
        out: &mut Vec<Order>,
    ) -> State {
        let Some(Doing { host, action, since_ms, .. }) = afterwards.left.remove(&step) else {
            return State::Afterwards(afterwards);
        };
        let told = result.map(|done| done.said).map_err(|failure| failure.why);
        if let Err(why) = &told {
            afterwards.failed.push(format!("{}: {why}", action.name()));
        }
        self.tell(action.name(), host, now_ms.saturating_sub(since_ms), told, out);
        let new = self.elected.as_ref().map(|elected| elected.new);
        if let (true, false, Some(new)) = (afterwards.left.is_empty(), afterwards.is_settling, new)
        {
            afterwards.is_settling = true;
            self.order_behind(now_ms, new, Action::Settle, &mut afterwards, out);
        }
        match afterwards.left.is_empty() {
            true => {
                out.push(Order::End(Outcome::Done(afterwards.failed)));
                State::Ended
            }
            false => State::Afterwards(afterwards),
        }
    }

    fn order(
        &mut self,
        now_ms: u64,
        host: HostId,
        action: Action,
        within_ms: u64,
        out: &mut Vec<Order>,
    ) {
        self.step += 1;
        let step = self.step;
        self.state = State::Doing(Doing { step, host, action: action.clone(), since_ms: now_ms });
        out.push(Order::Do { step, host, action, within_ms });
    }

    fn order_behind(
        &mut self,
        now_ms: u64,
        host: HostId,
        action: Action,
        afterwards: &mut Afterwards,
        out: &mut Vec<Order>,
    ) {
        self.step += 1;
        let (step, within_ms) = (self.step, AFTERWARDS_MS);
        let doing = Doing { step, host, action: action.clone(), since_ms: now_ms };
        afterwards.left.insert(step, doing);
        out.push(Order::Do { step, host, action, within_ms });
    }

    fn tell(
        &self,
        step: &'static str,
        host: HostId,
        ms: u64,
        result: Result<String, String>,
        out: &mut Vec<Order>,
    ) {
        out.push(Order::Tell(Row { step, host, ms, result }));
    }
}
