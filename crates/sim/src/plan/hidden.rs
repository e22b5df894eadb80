//! Statements that do more than their texts show: by a view over a function that writes, by
//! triggers that leave something in the session, and on the way to an error. Others look whether
//! anything of that is to be seen.

use super::Plan;
use crate::{
    Micros,
    client::{ClientSpec, Deed, HIDDEN_USER, Step, rows::own_key},
    rng::Rng,
    statement::{Act, Statement, Tag, Template},
};

/// Tags of what is added begin here; nothing else comes so far.
const TAGS_FROM: u64 = 920_000;
/// User variables that scripts set and look at as well.
const USERS: u64 = 3;
/// Locks that triggers take and scripts do not, from this number on.
const LOCKS_FROM: u64 = 4;
/// How many of them.
const LOCKS: u64 = 3;
/// A slot that scripts do not use.
const SLOT: u8 = 4;
/// How long who says such a thing may rest in between, so that others come there, µs.
const REST_US: Micros = 4_000;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 2) {
        return;
    }
    plan.hides_definitions = rng.chance(1, 3);
    let hides = plan.hides_definitions;
    let user = match hides {
        true => HIDDEN_USER,
        false => u8::try_from(rng.below(USERS)).unwrap_or_default(),
    };
    let mut adding = Adding { rng, tags: TAGS_FROM, hides, user };
    for client in plan.clients.iter_mut().filter(|client| !client.is_direct) {
        if adding.rng.chance(1, 3) {
            for _ in 0..adding.rng.between(1, 3) {
                let acts = adding.hidden(client.place);
                adding.put_somewhere(client, acts);
            }
        }
        if adding.rng.chance(1, 4) {
            adding.prepare(client);
        }
        for _ in 0..adding.rng.between(1, 5) {
            let acts = vec![adding.look()];
            adding.put_somewhere(client, acts);
        }
    }
}

struct Adding<'a> {
    rng: &'a mut Rng,
    tags: u64,
    /// No account sees triggers, so that nobody knows what they leave: of a variable of their own
    /// they may.
    hides: bool,
    /// The user variable that triggers set: one in a plan, so that others look at the same.
    user: u8,
}

impl Adding<'_> {
    fn lock(&mut self) -> u8 {
        u8::try_from(LOCKS_FROM + self.rng.below(LOCKS)).unwrap_or_default()
    }

    /// A statement that does more than it says, and a look at what it did.
    fn hidden(&mut self, place: usize) -> Vec<Act> {
        let user = self.user;
        let key = own_key(place, self.rng.below(4));
        // A lock that nobody knows of is not given back by whoever took it.
        match self.rng.below(if self.hides { 4 } else { 6 }) {
            0 => vec![Act::ReadAudited, Act::LastInsertId],
            1 => vec![Act::InsertMarked(user), Act::ShowUser(user)],
            2 | 3 => vec![Act::InsertRefused(user), Act::ShowUser(user)],
            4 => vec![Act::InsertAssigning { key, name: user }, Act::ShowUser(user)],
            _ => {
                let lock = self.lock();
                let mut acts = vec![Act::InsertGuarded(lock)];
                if self.rng.chance(1, 2) {
                    acts.push(Act::ReleaseLock(lock));
                }
                acts
            }
        }
    }

    /// One that is prepared by command; nobody looks whether its variable stayed, where it may not.
    fn prepare(&mut self, client: &mut ClientSpec) {
        let template = self.rng.pick(&Template::HIDDEN).copied().unwrap_or(Template::Audited);
        let mut deeds = vec![Deed::Prepare { slot: SLOT, template, tag: self.tag(client.place) }];
        for _ in 0..self.rng.between(1, 3) {
            let tag = self.tag(client.place);
            let (slot, value) = (SLOT, 0);
            deeds.push(Deed::Execute { slot, tag, value, cursor: false, long_data: false });
        }
        deeds.push(Deed::Close(SLOT));
        let at = self.rng.index(client.script.len() + 1);
        let steps: Vec<_> = deeds.into_iter().map(|deed| self.rest(deed)).collect();
        client.script.splice(at..at, steps);
    }

    /// A look at what others may have left.
    fn look(&mut self) -> Act {
        match !self.hides && self.rng.chance(1, 4) {
            true => Act::ReleaseLock(self.lock()),
            false => Act::ShowUser(self.user),
        }
    }

    fn put_somewhere(&mut self, client: &mut ClientSpec, acts: Vec<Act>) {
        let drawn = self.rng.index(client.script.len() + 1);
        // Refused in a transaction that only reads, it leaves a variable on a reader of which the
        // proxy does not know the value, and the writer has none.
        let at = match acts.first() {
            Some(Act::InsertAssigning { .. }) => 0,
            _ => drawn,
        };
        let steps: Vec<_> = acts.into_iter().map(|act| self.step(client.place, act)).collect();
        client.script.splice(at..at, steps);
    }

    fn step(&mut self, place: usize, act: Act) -> Step {
        let statement = Statement::new(self.tag(place), act);
        self.rest(Deed::Query(vec![statement]))
    }

    fn rest(&mut self, deed: Deed) -> Step {
        Step { pause_us: self.rng.below(REST_US), deed }
    }

    fn tag(&mut self, place: usize) -> Tag {
        self.tags += 1;
        Tag::new(place, self.tags)
    }
}
