//! Transactions and writes whose connections are lost, so that it has to be found out what became
//! of them, and that they have to be repeated.

use super::{Fault, Plan};
use crate::{
    HostId, Micros,
    client::{ClientSpec, Deed, Step, rows::own_key},
    rng::Rng,
    server::ServerFault,
    statement::{Act, BeginForm, Statement, Tag, Template},
};

/// Tags of what is added begin here; nothing else comes so far.
const TAGS_FROM: u64 = 960_000;
/// A slot that scripts do not use.
const SLOT: u8 = 4;
/// Keys that all clients write.
const SHARED_KEYS: u64 = 5;
/// While so long connections are lost, µs.
const SPAN_US: Micros = 1_500_000;
/// The longest that a crashed server is away, µs.
const AWAY_US: Micros = 300_000;
/// The longest that a client rests between two statements of these, µs.
const REST_US: Micros = 6_000;
/// Of 100 answers, so many are sent a while after their statement has run.
const LATE_REPLIES: u64 = 60;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 5) {
        return;
    }
    let repeats = rng.chance(1, 2);
    let time_ms = rng.pick(&[100, 400, 3_000]).copied().unwrap_or(400);
    for config in &mut plan.configs {
        config.words.insert("commit_outcome", "\"auto\"".into());
        config.settings.insert("commit_outcome_timeout", time_ms);
        if repeats {
            config.words.insert("transaction_replay", "true".into());
        }
    }
    plan.cluster.hosts.iter_mut().for_each(|host| host.late_replies = LATE_REPLIES);
    let mut adding = Adding { rng, tags: TAGS_FROM };
    for client in plan.clients.iter_mut().filter(|client| !client.is_direct) {
        if adding.rng.chance(2, 3) {
            adding.writes(client);
        }
    }
    lose(rng, plan);
}

/// Connections are lost again and again, mostly those to the primary.
fn lose(rng: &mut Rng, plan: &mut Plan) {
    for _ in 0..rng.between(8, 40) {
        let host = match rng.chance(3, 4) {
            true => plan.cluster.primary,
            false => HostId(rng.index(plan.cluster.hosts.len())),
        };
        let (at, nth) = (rng.below(SPAN_US), rng.index(12));
        let fault = match rng.below(10) {
            0..=3 => Fault::CutHost(host, nth),
            4 => Fault::HalfCloseHost(host, nth),
            5..=8 => Fault::Server(ServerFault::KillConnection { host, nth }),
            _ => {
                let restart = Fault::Server(ServerFault::Restart { host });
                plan.faults.push((at + 1 + rng.below(AWAY_US), restart));
                let lose_last = if rng.chance(1, 3) { 1 + rng.index(4) } else { 0 };
                Fault::Server(ServerFault::Crash { host, lose_last })
            }
        };
        plan.faults.push((at, fault));
    }
}

struct Adding<'a> {
    rng: &'a mut Rng,
    tags: u64,
}

impl Adding<'_> {
    fn tag(&mut self, place: usize) -> Tag {
        self.tags += 1;
        Tag::new(place, self.tags)
    }

    fn say(&mut self, place: usize, act: Act) -> Deed {
        Deed::Query(vec![Statement::new(self.tag(place), act)])
    }

    /// Transactions and writes in autocommit, at the beginning of its script.
    fn writes(&mut self, client: &mut ClientSpec) {
        let place = client.place;
        let mut deeds = Vec::new();
        let prepares = self.rng.chance(1, 3);
        if prepares {
            let tag = self.tag(place);
            deeds.push(Deed::Prepare { slot: SLOT, template: Template::Put, tag });
        }
        for _ in 0..self.rng.between(4, 16) {
            if self.rng.chance(1, 2) {
                deeds.push(self.change(place, prepares));
                continue;
            }
            deeds.push(self.say(place, Act::Begin(BeginForm::Begin)));
            for _ in 0..self.rng.between(1, 4) {
                let deed = match self.rng.chance(1, 3) {
                    true => {
                        let key = self.key(place);
                        self.say(place, Act::Read { key })
                    }
                    false => self.change(place, prepares),
                };
                deeds.push(deed);
            }
            let end = if self.rng.chance(7, 8) { Act::Commit } else { Act::Rollback };
            deeds.push(self.say(place, end));
            if self.rng.chance(1, 4) {
                deeds.push(self.say(place, Act::LastInsertId));
            }
        }
        if prepares {
            deeds.push(Deed::Close(SLOT));
        }
        let steps: Vec<_> = deeds
            .into_iter()
            .map(|deed| Step { pause_us: self.rng.below(REST_US), deed })
            .collect();
        client.script.splice(0..0, steps);
    }

    fn key(&mut self, place: usize) -> u64 {
        match self.rng.chance(1, 2) {
            true => own_key(place, self.rng.below(4)),
            false => 1 + self.rng.below(SHARED_KEYS),
        }
    }

    fn change(&mut self, place: usize, prepares: bool) -> Deed {
        let key = self.key(place);
        if prepares && self.rng.chance(1, 3) {
            let (slot, tag, value) = (SLOT, self.tag(place), key);
            return Deed::Execute { slot, tag, value, cursor: false, long_data: false };
        }
        let act = match self.rng.below(6) {
            0 | 1 => Act::Insert,
            2 => Act::Update { key },
            3 => Act::Delete { key },
            4 => Act::InsertIgnore { key },
            _ => Act::Put { key },
        };
        self.say(place, act)
    }
}
