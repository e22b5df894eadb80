//! Texts that are said again and again, so that stored answers are found; statements that are
//! copied to other servers; and clients that are busy for long enough to change workers.

use super::{ConfigSpec, Plan, RuleSpec, ServerSpec};
use crate::{
    HostId, Micros,
    client::{ClientSpec, Deed, Step, rows::own_key},
    rng::Rng,
    statement::{Act, BeginForm, Statement, Tag, Template},
};

/// Gets copies, and nothing else.
const MIRROR: u32 = 30;
/// Tags of what is added begin here; nothing else comes so far.
const TAGS_FROM: u64 = 930_000;
/// A slot that scripts do not use.
const SLOT: u8 = 5;
/// How long who says a text again may rest in between, µs.
const REST_US: Micros = 8_000;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    let stores = plan.configs.iter().any(|config| config.cache_ttl_ms.is_some());
    let mut adding = Adding { rng, tags: TAGS_FROM };
    if stores && adding.rng.chance(1, 2) {
        adding.give_some(plan, Adding::again);
    }
    let moves = plan.configs.iter().any(|config| config.setting("rebalance_threshold") > 0);
    let mut of_moves = adding.rng.split("moves", 0);
    if moves && plan.workers > 1 && of_moves.chance(2, 3) {
        let mut adding = Adding { rng: &mut of_moves, tags: adding.tags };
        adding.give_some(plan, Adding::long);
    }
    if rng.chance(1, 6) {
        mirror(rng, plan);
    }
}

/// A rule sends copies to a hostgroup of its own, of the same hosts.
fn mirror(rng: &mut Rng, plan: &mut Plan) {
    let host = HostId(rng.index(plan.cluster.hosts.len()));
    let max_connections = rng.pick(&[20, 3, 1]).copied().unwrap_or(3);
    // Where the proxy is not told that the servers are replicas, it copies what writes, too: the
    // operator's affair, who is told not to.
    let is_told = |config: &ConfigSpec| {
        let is_in = |server: &ServerSpec| server.host == host;
        !config.splits.is_empty() && config.servers.iter().any(is_in)
    };
    let contains = (!plan.configs.iter().all(is_told)).then_some("SELECT");
    let rule = RuleSpec { mirror: Some(MIRROR), contains, ..RuleSpec::default() };
    let server_tls = plan.configs.first().and_then(|config| config.servers.first()?.tls);
    let (queue_max, running_max) = (rng.between(1, 20), rng.between(1, 8));
    for config in &mut plan.configs {
        config.settings.insert("mirror_max_queue_length", queue_max);
        config.settings.insert("mirror_max_concurrency", running_max);
        config.servers.push(ServerSpec {
            hostgroup: MIRROR,
            host,
            rank: 0,
            weight: 1,
            max_connections,
            is_drained: false,
            lag_max: 0,
            compression: None,
            tls: server_tls,
        });
        config.rules.insert(0, rule.clone());
    }
}

struct Adding<'a> {
    rng: &'a mut Rng,
    tags: u64,
}

impl Adding<'_> {
    /// Half of the clients that do not speak to a server themselves get something.
    fn give_some(&mut self, plan: &mut Plan, add: fn(&mut Self, &mut ClientSpec)) {
        for client in plan.clients.iter_mut().filter(|client| !client.is_direct) {
            if self.rng.chance(1, 2) {
                add(self, client);
            }
        }
    }

    fn tag(&mut self, place: usize) -> Tag {
        self.tags += 1;
        Tag::new(place, self.tags)
    }

    fn say(&mut self, place: usize, act: Act) -> Deed {
        let tag = self.tag(place);
        Deed::Query(vec![Statement::new(tag, act)])
    }

    /// Texts of its own and of everybody's: before and behind writes, and within transactions,
    /// where no stored answer is right.
    fn again(&mut self, client: &mut ClientSpec) {
        let place = client.place;
        let key = own_key(place, 50);
        let own = || Deed::Query(vec![Statement::new(Tag::repeated(place, 0), Act::Read { key })]);
        let mut deeds = Vec::new();
        for round in 0..self.rng.between(1, 3) {
            deeds.push(self.say(place, Act::Put { key }));
            deeds.extend([own(), own()]);
            if round == 1 {
                deeds.push(self.say(place, Act::Begin(BeginForm::Begin)));
                deeds.push(self.say(place, Act::Put { key }));
                deeds.push(own());
                let end = if self.rng.chance(1, 2) { Act::Commit } else { Act::Rollback };
                deeds.push(self.say(place, end));
                deeds.push(own());
            }
            for _ in 0..self.rng.below(4) {
                deeds.push(self.everybodys());
            }
            if self.rng.chance(1, 3) {
                deeds.push(self.say(place, Act::RowCount));
            }
        }
        if self.rng.chance(1, 2) {
            let (slot, template, value) = (SLOT, Template::Read, key);
            let tag = Tag::repeated(place, 1);
            deeds.push(Deed::Prepare { slot, template, tag: self.tag(place) });
            for _ in 0..3 {
                deeds.push(Deed::Execute { slot, tag, value, cursor: false, long_data: false });
            }
            deeds.push(Deed::Close(slot));
        }
        self.put_first(client, deeds, REST_US);
    }

    /// What several say, each in its own schema and with its own settings.
    fn everybodys(&mut self) -> Deed {
        let number = self.rng.below(6);
        let act = match number {
            0..=3 => Act::Read { key: 1 + number },
            4 => Act::Numbers { rows: 20, width: 100 },
            _ => Act::Length { text: "the same for all".to_owned() },
        };
        Deed::Query(vec![Statement::new(Tag::shared(number), act)])
    }

    /// Short statements for some seconds, so that its worker has something to give away.
    fn long(&mut self, client: &mut ClientSpec) {
        let count = self.rng.between(20, 80);
        let place = client.place;
        let deeds = (0..count).map(|_| {
            let key = own_key(place, self.rng.below(4));
            let act = if self.rng.chance(1, 6) { Act::Put { key } } else { Act::Read { key } };
            self.say(place, act)
        });
        let deeds = deeds.collect();
        self.put_first(client, deeds, 70_000);
    }

    /// At the beginning: no transaction is open there, and autocommit is on.
    fn put_first(&mut self, client: &mut ClientSpec, deeds: Vec<Deed>, rest_us: Micros) {
        let steps: Vec<_> = deeds
            .into_iter()
            .map(|deed| Step { pause_us: self.rng.below(rest_us), deed })
            .collect();
        client.script.splice(0..0, steps);
    }
}
