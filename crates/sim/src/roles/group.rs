//! Servers that certify each other's writes: who is in the group, who has a majority, who is the
//! primary.

use super::Kind;
use crate::rng::Rng;

/// How long a server that comes back takes to have all, ms.
const JOINING_MS: u64 = 400;

/// What a server is in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It takes part.
    Online,
    /// It gets what it lacks, until then.
    Joining(u64),
    /// It was put out, or has left.
    Out,
}

/// What a server knows, and since when.
#[derive(Debug, Clone, Copy)]
struct Member {
    state: State,
    /// How long it has not reached a majority, ms.
    alone_ms: u64,
    /// How long the others have not reached it, ms.
    missed_ms: u64,
}

/// The group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    is_single: bool,
    members: Vec<Member>,
    primary: Option<usize>,
    /// How long until a member notices that it is alone, and until the others put it out, ms.
    notices_ms: u64,
    expels_ms: u64,
}

impl Group {
    pub(super) fn new(kind: Kind, is_single: bool, all: u32, rng: &mut Rng) -> Self {
        let member = Member { state: State::Online, alone_ms: 0, missed_ms: 0 };
        let count = usize::try_from(all.count_ones()).unwrap_or_default();
        let notices_ms = rng.between(100, 800);
        Self {
            is_single: is_single && kind == Kind::Group,
            members: vec![member; count],
            primary: Some(0),
            notices_ms,
            expels_ms: notices_ms + rng.between(200, 1_500),
        }
    }

    pub(super) fn primary(&self) -> Option<usize> {
        self.primary.filter(|_| self.is_single)
    }

    fn state(&self, id: usize) -> State {
        self.members.get(id).map_or(State::Out, |it| it.state)
    }

    fn set(&mut self, id: usize, state: State) {
        if let Some(member) = self.members.get_mut(id) {
            *member = Member { state, alone_ms: 0, missed_ms: 0 };
        }
    }

    fn online(&self) -> impl Iterator<Item = usize> {
        let all = self.members.iter().enumerate();
        all.filter(|(_, it)| it.state == State::Online).map(|(id, _)| id)
    }

    /// Whether it takes part, so that it knows the others.
    pub(super) fn has(&self, id: usize) -> bool {
        self.state(id) == State::Online
    }

    /// Whether it would take writes, by its place in the group.
    pub(super) fn is_writer(&self, id: usize) -> bool {
        !self.is_single || self.primary == Some(id)
    }

    /// Whether a write commits there: a member without a majority waits with it.
    pub(super) fn may_write(&self, id: usize) -> bool {
        let member = self.members.get(id);
        member.is_some_and(|it| it.state == State::Online && it.alone_ms == 0) && self.is_writer(id)
    }

    /// Why it must not serve, as far as it has noticed.
    pub(super) fn refusal(&self, id: usize) -> Option<String> {
        let member = self.members.get(id)?;
        match member.state {
            State::Online if member.alone_ms < self.notices_ms => None,
            State::Online => Some("it reaches no majority".to_owned()),
            State::Joining(_) => Some("it is joining".to_owned()),
            State::Out => Some("it is out of the group".to_owned()),
        }
    }

    pub(super) fn restarted(&mut self, id: usize, now_ms: u64) {
        let is_first = self.online().next().is_none();
        self.set(id, if is_first { State::Out } else { State::Joining(now_ms + JOINING_MS) });
    }

    pub(super) fn leave(&mut self, id: usize) {
        self.set(id, State::Out);
    }

    /// Somebody makes a member the primary.
    pub(super) fn choose(&mut self, id: usize) {
        if self.has(id) {
            self.primary = Some(id);
        }
    }

    /// All that runs joins; if nobody is in the group, `first` begins it anew.
    pub(super) fn bootstrap(&mut self, first: usize, now_ms: u64) {
        let ids: Vec<usize> = (0..self.members.len()).collect();
        for id in ids {
            self.set(id, State::Joining(now_ms + JOINING_MS));
        }
        self.set(first, State::Online);
        self.primary = Some(first);
    }

    pub(super) fn step(
        &mut self,
        now_ms: u64,
        step_ms: u64,
        are_connected: impl Fn(usize, usize) -> bool,
        runs: impl Fn(usize) -> bool,
    ) {
        let online: Vec<usize> = self.online().collect();
        let majority = |id: usize| {
            let reached = online.iter().filter(|it| are_connected(id, **it)).count();
            reached * 2 > online.len()
        };
        let well: Vec<usize> =
            online.iter().copied().filter(|it| runs(*it) && majority(*it)).collect();
        for (id, member) in self.members.iter_mut().enumerate() {
            let is_well = well.contains(&id);
            member.alone_ms = if is_well { 0 } else { member.alone_ms + step_ms };
            // A majority puts out whom it does not reach.
            let is_missed = !is_well && well.len() * 2 > online.len();
            member.missed_ms = if is_missed { member.missed_ms + step_ms } else { 0 };
            if member.state == State::Online && member.missed_ms >= self.expels_ms {
                *member = Member { state: State::Out, alone_ms: 0, missed_ms: 0 };
            }
            let can_join = runs(id) && well.iter().any(|it| are_connected(id, *it));
            match member.state {
                State::Joining(until_ms) if until_ms <= now_ms && can_join => {
                    *member = Member { state: State::Online, alone_ms: 0, missed_ms: 0 };
                }
                State::Out if can_join => {
                    *member = Member { state: State::Joining(now_ms + JOINING_MS), ..*member };
                }
                State::Online | State::Joining(_) | State::Out => {}
            }
        }
        let is_there = self.primary.is_some_and(|it| self.has(it));
        if !is_there && !well.is_empty() {
            self.primary = well.iter().copied().find(|it| self.has(*it));
        }
    }
}
