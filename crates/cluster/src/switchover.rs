//! Another server becomes the writer, as an operator wishes: one step after the other, each on one
//! server, and before the promotion each with its inverse.
//!
//! The old writer is read-only before another server takes writes, whatever fails or is cut short.
//! What servers are asked and told is done by the caller ([`Order::Do`]), which says what came of
//! it ([`Switchover::done`]); time is a parameter.
//!
//! Reading order: [`check`](mod@check) (what is in the way, and who is promoted), [`gtid`] (who has
//! which transactions), [`Switchover`].

pub mod check;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{HostId, machine::Guidance};

/// How long a step beyond the promotion may take, ms.
const AFTERWARDS_MS: u64 = 10_000;
/// How long the inverse of a step may take, ms: also when there is no time left.
const UNDO_MS: u64 = 5_000;
/// How long the old writer may take to become read-only, ms.
const DEMOTE_MS: u64 = 2_000;

/// How roles move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Replication by GTID.
    Replication,
    /// Group Replication, which has a function for it.
    Group,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How roles move.
    pub way: Way,
    /// Who writes.
    pub old: HostId,
    /// Who shall write.
    pub new: HostId,
    /// Replicas of the old writer that shall replicate from the new one.
    pub others: Vec<HostId>,
    /// How long what is open on the old writer may take to finish, ms.
    pub drain_ms: u64,
    /// How long it may take before the promotion, ms.
    pub time_max_ms: u64,
}

/// What is done on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The old writer becomes read-only, and sessions that could still write end. Gives the
    /// transactions that it has.
    Demote,
    /// It takes writes again.
    Undemote,
    /// The new writer waits until it has these transactions.
    CatchUp(String),
    /// It stops replicating and takes writes.
    Promote,
    /// It is asked whether it takes writes: that is not known.
    LookWhetherWritable,
    /// It replicates again, read-only.
    Reattach,
    /// It forgets whom it has replicated from, and gets the settings of a writer.
    Settle,
    /// A server replicates from the new writer.
    Follow {
        /// Whom it replicates from now on.
        source: HostId,
        /// The transactions that the old writer had when it was demoted, where it is that one: it
        /// must not have more.
        had: Option<String>,
        /// The transactions that the new writer had when it was promoted, where another replica
        /// must not have more.
        most: Option<String>,
    },
    /// The group makes the new writer its primary.
    Appoint,
    /// A server that shall write stops receiving, and applies all that it has received. Gives the
    /// transactions that it has.
    Finish,
    /// A lost writer is made read-only if it answers, or is seen to refuse connections. Gives
    /// `writable` if it takes writes, and anything else where it can't take any.
    Fence,
    /// The operator's program sees to it that a lost writer takes no writes.
    FenceByScript,
    /// Who will write is noted, for a proxy that begins anew.
    Note,
}

impl Action {
    /// Whether it may make somebody the writer or unmake one, or changes what a server replicates
    /// from: no other proxy may be at it.
    pub fn wants_claim(&self) -> bool {
        match self {
            Self::Demote
            | Self::Undemote
            | Self::CatchUp(_)
            | Self::Promote
            | Self::Finish
            | Self::Reattach
            | Self::Follow { .. } => true,
            Self::LookWhetherWritable
            | Self::Settle
            | Self::Appoint
            | Self::Fence
            | Self::FenceByScript
            | Self::Note => false,
        }
    }

    /// Its name in answers and events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Demote => "demote",
            Self::Undemote => "undo demote",
            Self::CatchUp(_) => "catch up",
            Self::Promote => "promote",
            Self::LookWhetherWritable => "look",
            Self::Reattach => "undo promote",
            Self::Settle => "settle",
            Self::Follow { .. } => "repoint",
            Self::Appoint => "appoint",
            Self::Finish => "catch up",
            Self::Fence => "fence",
            Self::FenceByScript => "fence_script",
            Self::Note => "note",
        }
    }
}

/// What a server said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// What was done, in words.
    pub said: String,
    /// What the next step needs: transactions after [`Action::Demote`], and after
    /// [`Action::LookWhetherWritable`] anything but the empty string if it takes writes.
    pub value: String,
}

/// Why a step was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub why: String,
    /// Whether it may have been done all the same: no answer came.
    pub is_unknown: bool,
}

/// What the caller has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Say this of roles.
    Guide(Guidance),
    /// Do this on a server, and say what came of it in any case.
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

/// A step that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub step: &'static str,
    /// The server.
    pub host: HostId,
    /// How long it took, ms.
    pub ms: u64,
    /// What was done, or why not.
    pub result: Result<String, String>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The new writer writes. The steps that failed behind the promotion.
    Done(Vec<String>),
    /// Why not, and what is so now.
    Failed(String),
}

/// Where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Nothing has begun.
    Waiting,
    /// What is open on the old writer finishes.
    Draining { since_ms: u64, until_ms: u64 },
    /// One step is under way.
    Doing(Doing),
    /// Steps behind the promotion are under way.
    Afterwards(Afterwards),
    /// It is over.
    Ended,
}

/// A step under way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Doing {
    action: Action,
    since_ms: u64,
    /// Why everything is undone, if it is.
    failed: Option<String>,
}

/// Steps under way behind the promotion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Afterwards {
    /// By their numbers.
    left: BTreeMap<u32, (HostId, Action, u64)>,
    /// Whether the new writer gets the settings of one: when it has its replicas, as it waits for
    /// them with semi-synchronous replication.
    is_settling: bool,
    failed: Vec<String>,
}

/// One switchover.
#[derive(Debug, Clone)]
pub struct Switchover {
    plan: Plan,
    state: State,
    /// The number of the step that was ordered last.
    step: u32,
    /// When it must be promoted, ms.
    deadline_ms: u64,
    /// The old writer has said that it is read-only.
    is_demoted: bool,
    /// The transactions of the old writer.
    position: String,
    /// Why it is given up, as soon as the step under way has ended.
    abandoned: Option<String>,
    /// Somebody else has made another server the writer.
    is_overtaken: bool,
}

impl Switchover {
    /// One that has not begun.
    pub fn new(plan: Plan) -> Self {
        debug_assert!(plan.old != plan.new);
        Self {
            plan,
            state: State::Waiting,
            step: 0,
            deadline_ms: 0,
            is_demoted: false,
            position: String::new(),
            abandoned: None,
            is_overtaken: false,
        }
    }

    /// What is to be done.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether the caller has to say how much is still open on the old writer.
    pub fn is_draining(&self) -> bool {
        matches!(self.state, State::Draining { .. })
    }

    /// Whether it is over.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Begins.
    pub fn begin(&mut self, now_ms: u64, out: &mut Vec<Order>) {
        debug_assert!(self.state == State::Waiting);
        self.deadline_ms = now_ms.saturating_add(self.plan.time_max_ms);
        let until_ms = now_ms.saturating_add(self.plan.drain_ms).min(self.deadline_ms);
        self.state = State::Draining { since_ms: now_ms, until_ms };
        out.push(Order::Guide(Guidance::Drain));
    }

    /// So many connections are in use on the old writer.
    pub fn open(&mut self, now_ms: u64, connections: u32, out: &mut Vec<Order>) {
        let State::Draining { since_ms, until_ms } = self.state else { return };
        if connections > 0 && now_ms < until_ms {
            return;
        }
        let said = match connections {
            0 => "everything has finished".to_owned(),
            open => format!("connections that are ended, with what was open on them: {open}"),
        };
        out.push(Order::Guide(Guidance::Close));
        self.tell("drain", self.plan.old, now_ms.saturating_sub(since_ms), Ok(said), out);
        match self.plan.way {
            Way::Replication => self.order(now_ms, self.plan.old, Action::Demote, out),
            Way::Group => self.order(now_ms, self.plan.new, Action::Appoint, out),
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
            State::Doing(doing) if step == self.step => self.next(now_ms, doing, result, out),
            State::Afterwards(mut afterwards) => {
                self.ended_afterwards(now_ms, step, result, &mut afterwards, out);
                let is_last = afterwards.left.is_empty();
                if is_last && !std::mem::replace(&mut afterwards.is_settling, true) {
                    self.order_behind(now_ms, self.plan.new, Action::Settle, &mut afterwards, out);
                }
                self.state = match afterwards.left.is_empty() {
                    true => {
                        out.push(Order::End(Outcome::Done(afterwards.failed)));
                        State::Ended
                    }
                    false => State::Afterwards(afterwards),
                };
            }
            // An answer of an earlier step is none.
            state @ (State::Waiting | State::Draining { .. } | State::Doing(_) | State::Ended) => {
                self.state = state
            }
        }
    }

    /// One of the two servers is no member any more. What was done before the promotion is undone,
    /// as soon as the step under way has ended; who writes then is as servers tell.
    pub fn abandon(&mut self, why: &str, out: &mut Vec<Order>) {
        match &self.state {
            State::Waiting | State::Draining { .. } => self.leave(why.to_owned(), out),
            State::Doing(_) => {
                self.abandoned.get_or_insert_with(|| why.to_owned());
            }
            State::Afterwards(_) | State::Ended => {}
        }
    }

    /// Somebody else has made another member take writes. It is given up, and the old writer stays
    /// read-only if it is.
    pub fn overtaken(&mut self, why: &str, out: &mut Vec<Order>) {
        self.is_overtaken = true;
        self.abandon(why, out);
    }

    fn next(
        &mut self,
        now_ms: u64,
        doing: Doing,
        result: Result<Done, Failure>,
        out: &mut Vec<Order>,
    ) {
        let Doing { action, since_ms, failed } = doing;
        let host = self.host_of(&action);
        let told = result.as_ref().map(|it| it.said.clone()).map_err(|it| it.why.clone());
        self.tell(action.name(), host, now_ms.saturating_sub(since_ms), told, out);
        self.is_demoted |= action == Action::Demote && result.is_ok();
        let goes_on = matches!(action, Action::Demote | Action::CatchUp(_));
        match (result, self.abandoned.clone()) {
            (Ok(_), Some(why)) if goes_on => {
                self.undo(now_ms, self.plan.old, Action::Undemote, why, out);
            }
            (Ok(_), Some(why)) if action == Action::Undemote => {
                self.leave(format!("{why}; it was undone"), out);
            }
            (Ok(done), _) => self.after(now_ms, &action, done.value, failed, out),
            (Err(failure), _) => self.after_failure(now_ms, &action, &failure, failed, out),
        }
    }

    /// A step was done; `failed` is why everything is undone, if it is.
    fn after(
        &mut self,
        now_ms: u64,
        action: &Action,
        value: String,
        failed: Option<String>,
        out: &mut Vec<Order>,
    ) {
        let (old, new) = (self.plan.old, self.plan.new);
        let why = failed.unwrap_or_default();
        match action {
            Action::Demote => {
                self.position.clone_from(&value);
                self.order(now_ms, new, Action::CatchUp(value), out);
            }
            Action::CatchUp(_) => self.order(now_ms, new, Action::Promote, out),
            Action::Promote | Action::Appoint => self.promoted(now_ms, out),
            Action::LookWhetherWritable if !value.is_empty() => self.promoted(now_ms, out),
            Action::LookWhetherWritable => self.undo(now_ms, new, Action::Reattach, why, out),
            Action::Reattach => self.undo(now_ms, old, Action::Undemote, why, out),
            Action::Undemote => {
                out.push(Order::Guide(Guidance::Open(old)));
                out.push(Order::End(Outcome::Failed(format!(
                    "{why}; it was undone, and the writer is the one before"
                ))));
            }
            Action::Settle
            | Action::Follow { .. }
            | Action::Finish
            | Action::Fence
            | Action::FenceByScript
            | Action::Note => debug_assert!(false, "no step of a switchover's first half"),
        }
    }

    /// A step was not done.
    fn after_failure(
        &mut self,
        now_ms: u64,
        action: &Action,
        failure: &Failure,
        failed: Option<String>,
        out: &mut Vec<Order>,
    ) {
        let (old, new) = (self.plan.old, self.plan.new);
        let own = format!("{}: {}", action.name(), failure.why);
        let why = failed.clone().unwrap_or_else(|| own.clone());
        match action {
            Action::Demote | Action::CatchUp(_) => {
                self.undo(now_ms, old, Action::Undemote, why, out);
            }
            Action::Promote if failure.is_unknown => {
                self.undo(now_ms, new, Action::LookWhetherWritable, why, out);
            }
            Action::Promote => self.undo(now_ms, new, Action::Reattach, why, out),
            // It did not take writes: the old writer may, whatever becomes of this one.
            Action::Reattach => self.undo(now_ms, old, Action::Undemote, why, out),
            Action::Undemote => self.leave(
                format!(
                    "{why}; {own}. Nobody writes: make one server writable \
                     (SET GLOBAL read_only = 0), the old writer if it can be reached"
                ),
                out,
            ),
            Action::LookWhetherWritable => self.leave(
                format!(
                    "{why}; {own}. Whether the new writer takes writes is not known, and the old \
                     one does not: the one that does becomes the writer as soon as it is seen"
                ),
                out,
            ),
            Action::Appoint => {
                self.leave(format!("{why}; the writer is whom the group has as its primary"), out);
            }
            Action::Settle
            | Action::Follow { .. }
            | Action::Finish
            | Action::Fence
            | Action::FenceByScript
            | Action::Note => debug_assert!(false, "no step of a switchover's first half"),
        }
    }

    /// It ends, and roles are as servers tell.
    fn leave(&mut self, why: String, out: &mut Vec<Order>) {
        self.state = State::Ended;
        out.push(Order::Guide(Guidance::Release));
        out.push(Order::End(Outcome::Failed(why)));
    }

    /// The new writer takes writes: clients may. What is left goes on forward.
    fn promoted(&mut self, now_ms: u64, out: &mut Vec<Order>) {
        let Plan { way, old, new, ref others, .. } = self.plan;
        out.push(Order::Guide(Guidance::Open(new)));
        if way == Way::Group {
            self.state = State::Ended;
            out.push(Order::End(Outcome::Done(Vec::new())));
            return;
        }
        let follow = |had| Action::Follow { source: new, had, most: None };
        let mut actions = vec![(old, follow(Some(self.position.clone())))];
        actions.extend(others.iter().map(|host| (*host, follow(None))));
        let mut afterwards = Afterwards::default();
        for (host, action) in actions {
            self.order_behind(now_ms, host, action, &mut afterwards, out);
        }
        self.state = State::Afterwards(afterwards);
    }

    /// A step behind the promotion.
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
        afterwards.left.insert(step, (host, action.clone(), now_ms));
        out.push(Order::Do { step, host, action, within_ms });
    }

    fn ended_afterwards(
        &mut self,
        now_ms: u64,
        step: u32,
        result: Result<Done, Failure>,
        afterwards: &mut Afterwards,
        out: &mut Vec<Order>,
    ) {
        let Some((host, action, since_ms)) = afterwards.left.remove(&step) else { return };
        let told = result.map(|done| done.said).map_err(|failure| failure.why);
        if let Err(why) = &told {
            afterwards.failed.push(format!("{}: {why}", action.name()));
        }
        self.tell(action.name(), host, now_ms.saturating_sub(since_ms), told, out);
    }

    fn host_of(&self, action: &Action) -> HostId {
        match action {
            Action::Demote
            | Action::Undemote
            | Action::Follow { .. }
            | Action::Fence
            | Action::FenceByScript => self.plan.old,
            Action::CatchUp(_)
            | Action::Promote
            | Action::LookWhetherWritable
            | Action::Reattach
            | Action::Settle
            | Action::Appoint
            | Action::Finish
            | Action::Note => self.plan.new,
        }
    }

    /// The next step, in the time that is left before the promotion.
    fn order(&mut self, now_ms: u64, host: HostId, action: Action, out: &mut Vec<Order>) {
        let left_ms = self.deadline_ms.saturating_sub(now_ms).max(1);
        let within_ms = match action {
            Action::Demote => left_ms.min(DEMOTE_MS),
            _ => left_ms,
        };
        self.start(now_ms, host, action, within_ms, None, out);
    }

    /// The next step back.
    fn undo(
        &mut self,
        now_ms: u64,
        host: HostId,
        action: Action,
        why: String,
        out: &mut Vec<Order>,
    ) {
        if action == Action::Undemote && self.is_overtaken {
            let stays = if self.is_demoted { "stays" } else { "may be" };
            let why = format!("{why}; the old writer {stays} read-only, as another server writes");
            return self.leave(why, out);
        }
        self.start(now_ms, host, action, UNDO_MS, Some(why), out);
    }

    fn start(
        &mut self,
        now_ms: u64,
        host: HostId,
        action: Action,
        within_ms: u64,
        failed: Option<String>,
        out: &mut Vec<Order>,
    ) {
        debug_assert!(host == self.host_of(&action));
        self.step += 1;
        let step = self.step;
        self.state = State::Doing(Doing { action: action.clone(), since_ms: now_ms, failed });
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
