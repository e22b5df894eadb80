//! What only some runs have: compression, files, GTIDs, crowds, and faults that go with them.
//!
//! It is drawn from a stream of its own, behind everything else, so that what is added here
//! leaves the rest of a seed's plan as it was.

use trunkline_protocol::{Capabilities, packet::greeting::Flavor};

use super::{Fault, Plan, RuleSpec};
use crate::{
    HostId, Micros,
    client::{ClientSpec, Deed, Step, rows::own_key},
    rng::Rng,
    server::ServerFault,
    statement::{Act, Setting, Statement, Tag, Template, Upload},
};

/// Tags of what is added begin here; scripts never come so far.
const TAGS_FROM: u64 = 900_000;
/// A slot that scripts do not use.
const BULK_SLOT: u8 = 7;
/// Another one.
const PAST_SLOT: u8 = 6;
/// How long who asks for its past may rest in between, so that others come there, µs.
const PAST_PAUSE_US: Micros = 3_000;
/// A crowd comes within this time, µs.
const GATHER_US: Micros = 30_000;
/// What goes with a crowd goes wrong while it is there, µs.
const CROWDED_US: Micros = 250_000;
/// When anything else goes wrong, µs.
const SPAN_US: Micros = 1_500_000;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan, has_faults: bool) {
    let flavor = plan.cluster.hosts.first().map_or(Flavor::MariaDb, |host| host.flavor);
    if rng.chance(1, 4) {
        compress(rng, plan, flavor);
    }
    let mut adding = Adding { rng, tags: TAGS_FROM };
    if adding.rng.chance(1, 3) {
        adding.give_some(plan, Adding::files);
    }
    if flavor == Flavor::MySql && adding.rng.chance(1, 2) {
        adding.give_some(plan, Adding::gtids);
    }
    if flavor == Flavor::MariaDb && adding.rng.chance(1, 3) {
        adding.give_some(plan, Adding::bulk);
    }
    if adding.rng.chance(1, 4) {
        adding.give_some(plan, Adding::past);
    }
    match adding.rng.below(12) {
        0..=2 => {
            adding.give_some(plan, Adding::short_reads);
            if has_faults {
                slow_down(adding.rng, plan);
            }
        }
        3 | 4 => {
            adding.give_some(plan, Adding::large_reads);
            if has_faults {
                cut(adding.rng, plan);
            }
        }
        5 | 6 => adding.give_some(plan, Adding::much_ahead),
        _ => {}
    }
    if rng.chance(1, 6) {
        limit_time(rng, plan);
    }
    if rng.chance(1, 6) {
        rewrite(plan);
    }
    if rng.chance(1, 8) {
        let most = 2 + rng.index(8);
        plan.cluster.hosts.iter_mut().for_each(|host| host.prepared_max = most);
    }
    if has_faults && rng.chance(1, 4) {
        fail_further(rng, plan);
    }
}

/// Servers, clients or both compress.
fn compress(rng: &mut Rng, plan: &mut Plan, flavor: Flavor) {
    let words: &[Option<&'static str>] = match flavor {
        Flavor::MariaDb => &[None, Some("zlib")],
        Flavor::MySql => &[None, Some("zlib"), Some("zstd")],
    };
    let word = rng.pick(words).copied().flatten();
    for config in &mut plan.configs {
        config.servers.iter_mut().for_each(|server| server.compression = word);
    }
    let zstd = Capabilities::ZSTD_COMPRESSION_ALGORITHM;
    for client in &mut plan.clients {
        client.capabilities = client.capabilities
            | match rng.below(4) {
                0 | 1 => Capabilities::COMPRESS,
                2 if flavor == Flavor::MySql => zstd,
                _ => Capabilities::EMPTY,
            };
    }
}

/// Statements may take so long, and are held back.
fn limit_time(rng: &mut Rng, plan: &mut Plan) {
    for config in &mut plan.configs {
        for (name, values) in
            [("default_query_timeout", [0, 20, 60, 300]), ("default_query_delay", [0, 0, 1, 5])]
        {
            config.settings.insert(name, rng.pick(&values).copied().unwrap_or_default());
        }
    }
}

/// A rule rewrites texts, to what they were.
fn rewrite(plan: &mut Plan) {
    let contains = Some("REPLACE INTO kv");
    let rule = RuleSpec { contains, rewritten: contains, ..RuleSpec::default() };
    plan.configs.iter_mut().for_each(|config| config.rules.insert(0, rule.clone()));
}

struct Adding<'a> {
    rng: &'a mut Rng,
    tags: u64,
}

impl Adding<'_> {
    /// Half of the clients get something.
    fn give_some(&mut self, plan: &mut Plan, add: fn(&mut Self, &mut ClientSpec)) {
        for client in &mut plan.clients {
            if self.rng.chance(1, 2) {
                add(self, client);
            }
        }
    }

    fn statement(&mut self, place: usize, act: Act) -> Step {
        self.tags += 1;
        let statement = Statement::new(Tag::new(place, self.tags), act);
        Step { pause_us: 0, deed: Deed::Query(vec![statement]) }
    }

    /// Says several things, one right behind the other.
    fn burst(&mut self, client: &mut ClientSpec, at: usize, acts: Vec<Act>) {
        let steps: Vec<_> = acts.into_iter().map(|act| self.statement(client.place, act)).collect();
        client.script.splice(at..at, steps);
    }

    fn somewhere(&mut self, client: &ClientSpec) -> usize {
        self.rng.index(client.script.len() + 1)
    }

    /// Files that servers ask for; a few clients never said that they send any.
    fn files(&mut self, client: &mut ClientSpec) {
        if self.rng.chance(7, 8) {
            client.capabilities.insert(Capabilities::LOCAL_FILES);
        }
        for _ in 0..self.rng.between(1, 3) {
            let key = own_key(client.place, self.rng.below(4));
            let skipped = match self.rng.below(4) {
                0 => self.rng.below(2_000),
                _ => self.rng.below(40),
            };
            let upload = Upload { key, skipped, is_there: self.rng.chance(7, 8) };
            let at = self.somewhere(client);
            self.burst(client, at, vec![Act::Load(upload), Act::Read { key }]);
        }
    }

    /// The names of its commits, where the client can understand them.
    fn gtids(&mut self, client: &mut ClientSpec) {
        client.capabilities.insert(Capabilities::SESSION_TRACK);
        let setting = Setting::Tracker("gtids".to_owned(), "OWN_GTID".to_owned());
        self.burst(client, 0, vec![Act::Set(vec![setting])]);
    }

    /// Executions for many rows at once.
    fn bulk(&mut self, client: &mut ClientSpec) {
        // One that speaks to its server itself gets what that one can do.
        if client.is_direct {
            return;
        }
        client.capabilities.insert(Capabilities::STMT_BULK_OPERATIONS);
        let (slot, place) = (BULK_SLOT, client.place);
        let mut tag = || {
            self.tags += 1;
            Tag::new(place, self.tags)
        };
        let key = own_key(place, tag().0);
        let mut deeds = vec![Deed::Prepare { slot, template: Template::Put, tag: tag() }];
        for rows in [1, 5, 40] {
            deeds.push(Deed::Bulk { slot, key, tags: (0..rows).map(|_| tag()).collect() });
        }
        deeds.push(Deed::Query(vec![Statement::new(tag(), Act::Read { key })]));
        deeds.push(Deed::Close(slot));
        let at = self.somewhere(client);
        let steps = deeds.into_iter().map(|deed| Step { pause_us: 0, deed });
        client.script.splice(at..at, steps);
    }

    /// Prepared statements that ask for what an earlier statement left.
    fn past(&mut self, client: &mut ClientSpec) {
        // One that speaks to its server itself has another number there.
        if client.is_direct {
            return;
        }
        let (slot, place) = (PAST_SLOT, client.place);
        let template = self.rng.pick(&Template::PAST).copied().unwrap_or(Template::LastInsertId);
        let mut tag = || {
            self.tags += 1;
            Tag::new(place, self.tags)
        };
        let mut deeds = vec![Deed::Prepare { slot, template, tag: tag() }];
        for act in [
            Act::Insert,
            Act::CalcFoundRows { rows: 9, limit: 2 },
            Act::Put { key: own_key(place, 1) },
        ] {
            deeds.push(Deed::Query(vec![Statement::new(tag(), act)]));
            for _ in 0..2 {
                let (tag, value) = (tag(), 0);
                deeds.push(Deed::Execute { slot, tag, value, cursor: false, long_data: false });
            }
        }
        deeds.push(Deed::Close(slot));
        let steps: Vec<_> = deeds
            .into_iter()
            .map(|deed| Step { pause_us: self.rng.below(PAST_PAUSE_US), deed })
            .collect();
        client.script.splice(0..0, steps);
    }

    /// Reads that others follow on the same connection.
    fn short_reads(&mut self, client: &mut ClientSpec) {
        client.starts_us = self.rng.below(GATHER_US);
        let count = self.rng.between(10, 40);
        let acts = (0..count).map(|_| Act::Read { key: own_key(client.place, self.rng.below(4)) });
        let acts = acts.collect();
        self.burst(client, 0, acts);
    }

    /// Answers that take a while to pass.
    fn large_reads(&mut self, client: &mut ClientSpec) {
        client.starts_us = self.rng.below(GATHER_US);
        let count = self.rng.between(2, 6);
        let acts = (0..count).map(|_| Act::Numbers {
            rows: self.rng.between(20, 200),
            width: self.rng.between(50, 600),
        });
        let acts = acts.collect();
        self.burst(client, 0, acts);
    }

    /// Long commands, many of them before the first answer.
    fn much_ahead(&mut self, client: &mut ClientSpec) {
        client.ahead_max = 24;
        let count = self.rng.between(12, 24);
        let acts = (0..count).map(|_| {
            let len = usize::try_from(self.rng.between(2_000, 9_000)).unwrap_or_default();
            Act::Length { text: "z".repeat(len) }
        });
        let acts = acts.collect();
        let at = self.somewhere(client);
        self.burst(client, at, acts);
    }
}

fn a_host(rng: &mut Rng, plan: &Plan) -> HostId {
    HostId(rng.index(plan.cluster.hosts.len()))
}

/// Servers take long now and then while they are crowded.
fn slow_down(rng: &mut Rng, plan: &mut Plan) {
    for _ in 0..rng.between(2, 6) {
        let (host, factor) = (a_host(rng, plan), rng.between(20, 200));
        let for_us = rng.between(1_000, 60_000);
        let fault = Fault::Server(ServerFault::Slow { host, factor, for_us });
        plan.faults.push((rng.below(CROWDED_US), fault));
    }
}

/// Connections are cut while much passes on them.
fn cut(rng: &mut Rng, plan: &mut Plan) {
    for _ in 0..rng.between(4, 12) {
        let fault = Fault::CutHost(a_host(rng, plan), rng.index(8));
        plan.faults.push((rng.below(CROWDED_US), fault));
    }
}

/// Faults that came to the world later than the others.
fn fail_further(rng: &mut Rng, plan: &mut Plan) {
    for _ in 0..rng.between(1, 3) {
        let (host, at) = (a_host(rng, plan), rng.below(SPAN_US));
        let for_us = rng.between(1_000, 1_000_000);
        let fault = match rng.below(2) {
            0 => Fault::HalfCloseHost(host, rng.index(8)),
            _ => Fault::Server(ServerFault::CutOff { host, for_us }),
        };
        plan.faults.push((at, fault));
    }
}
