//! Servers as they are, whatever anybody knows of them.

use trunkline_cluster::facts::{Endpoint, Facts, Identity, Membership, Source, Thread};

use super::{Kind, Outcome, STEP_MS, group::Group};
use crate::rng::Rng;

/// One step in so many brings something.
const EVENT_EVERY: u64 = 45;
/// How long a replica takes its source for connected that is silent, at most, ms.
const NET_TIMEOUT_MS: u64 = 4_000;

/// One server.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) is_running: bool,
    pub(super) is_writable: bool,
    pub(super) source: Option<usize>,
    /// What the proxy sends arrives.
    pub(super) hears: bool,
    /// What it sends the proxy arrives.
    pub(super) is_heard: bool,
    /// It answers statements in time and questions too late.
    pub(super) is_slow: bool,
    /// Servers that it reaches, bit by bit.
    pub(super) reaches: u32,
    /// Until when it takes its source for connected, ms.
    believes_until_ms: u64,
    pub(super) lie: Option<Lie>,
    /// How often it has crashed: connections of an earlier life are cut.
    pub(super) life: u32,
}

/// What a server says that is not so.
#[derive(Debug, Clone)]
pub(super) enum Lie {
    /// What it said once.
    Stale(Box<Facts>),
    /// That it is connected to its source.
    Connected,
    /// That it is read-only.
    ReadOnly,
}

/// What happens later.
#[derive(Debug, Clone, Copy)]
enum Change {
    Writable(usize, bool),
    Follows(usize, Option<usize>),
    Runs(usize),
}

/// All servers, and chance.
pub(super) struct Nature {
    pub(super) now_ms: u64,
    pub(super) kind: Kind,
    pub(super) servers: Vec<Server>,
    pub(super) group: Group,
    /// Nothing goes wrong any more.
    pub(super) is_quiet: bool,
    pub(super) rng: Rng,
    /// Replicas know the `server_uuid` of their source (MySQL), or only its `server_id`.
    knows_uuids: bool,
    /// Replicas know their source under a name that only servers use.
    has_inner_names: bool,
    later: Vec<(u64, Change)>,
    with_trace: bool,
    pub(super) outcome: Outcome,
}

/// Where a server is, by one of its names.
pub(super) fn endpoint(server: usize, is_inner: bool) -> Endpoint {
    let name = if is_inner { "inner" } else { "db" };
    Endpoint { host: format!("{name}{server}"), port: 3306 }
}

/// The server at an endpoint.
pub(super) fn server_at(endpoint: &Endpoint) -> Option<usize> {
    let digits = endpoint.host.trim_start_matches(|it: char| !it.is_ascii_digit());
    digits.parse().ok()
}

fn bit(server: usize) -> u32 {
    1 << server
}

impl Nature {
    pub(super) fn new(kind: Kind, mut rng: Rng, with_trace: bool) -> Self {
        let count = 2 + rng.index(6);
        let all = bit(count) - 1;
        let is_open = |id: usize| kind != Kind::Replication && kind != Kind::ReadOnly || id == 0;
        let servers = (0..count).map(|id| Server {
            is_running: true,
            is_writable: is_open(id),
            source: (!kind.certifies() && id != 0).then_some(0),
            hears: true,
            is_heard: true,
            is_slow: false,
            reaches: all,
            believes_until_ms: 0,
            lie: None,
            life: 0,
        });
        let servers: Vec<Server> = servers.collect();
        let is_single = rng.chance(2, 3);
        Self {
            now_ms: 1,
            kind,
            servers,
            group: Group::new(kind, is_single, all, &mut rng),
            is_quiet: false,
            knows_uuids: rng.chance(1, 2),
            has_inner_names: rng.chance(1, 4),
            later: Vec::new(),
            with_trace,
            rng,
            outcome: Outcome::default(),
        }
    }

    pub(super) fn note(&mut self, what: &'static str, text: impl FnOnce() -> String) {
        self.outcome.count(what);
        if self.with_trace {
            let (sec, ms) = (self.now_ms / 1_000, self.now_ms % 1_000);
            self.outcome.trace.push(format!("{sec}.{ms:03} {what}: {}", text()));
        }
    }

    pub(super) fn server(&self, id: usize) -> Option<&Server> {
        self.servers.get(id)
    }

    fn change(&mut self, id: usize, change: impl FnOnce(&mut Server)) {
        if let Some(server) = self.servers.get_mut(id) {
            change(server);
        }
    }

    pub(super) fn ids(&self) -> std::ops::Range<usize> {
        0..self.servers.len()
    }

    /// Whether one server reaches another, both ways.
    pub(super) fn are_connected(&self, one: usize, other: usize) -> bool {
        let reaches = |from: usize, to: usize| {
            self.server(from).is_some_and(|it| it.is_running && it.reaches & bit(to) != 0)
        };
        reaches(one, other) && reaches(other, one)
    }

    /// Whether the proxy may know of a server what is so.
    pub(super) fn is_plain(&self, id: usize) -> bool {
        self.server(id).is_some_and(|it| {
            it.is_running && it.hears && it.is_heard && !it.is_slow && it.lie.is_none()
        })
    }

    /// Whether it takes a write that arrives.
    pub(super) fn takes_writes(&self, id: usize) -> bool {
        let Some(server) = self.server(id) else { return false };
        match self.kind.certifies() {
            false => server.is_writable,
            true => server.is_writable && self.group.may_write(id),
        }
    }

    pub(super) fn receives(&self, id: usize) -> Thread {
        let Some(server) = self.server(id) else { return Thread::Stopped };
        let Some(source) = server.source else { return Thread::Stopped };
        let believes = self.now_ms < server.believes_until_ms;
        match self.are_connected(id, source) || believes {
            true => Thread::Connected,
            false => Thread::Connecting,
        }
    }

    /// What a server says now, if it tells the truth.
    fn truth(&self, id: usize) -> Facts {
        let Some(server) = self.server(id) else { return Facts::default() };
        let number = u64::try_from(id).unwrap_or_default() + 1;
        let identity = Identity { uuid: Some(format!("uuid-{id}")), server_id: number };
        let sources = server.source.into_iter().map(|source| Source {
            endpoint: endpoint(source, self.has_inner_names),
            identity: Identity {
                uuid: self.knows_uuids.then(|| format!("uuid-{source}")),
                server_id: u64::try_from(source).unwrap_or_default() + 1,
            },
            receives: self.receives(id),
            applies: true,
            lag_sec: Some(0),
            error: String::new(),
        });
        let sources: Vec<Source> = sources.collect();
        let below = self.ids().filter(|other| {
            self.server(*other).is_some_and(|it| it.source == Some(id))
                && self.are_connected(id, *other)
        });
        let others = self.ids().filter(|_| self.kind.certifies() && self.group.has(id));
        let replicas = below.chain(others).map(|it| endpoint(it, false)).collect();
        let is_writable = match self.kind.certifies() {
            false => server.is_writable,
            true => server.is_writable && self.group.is_writer(id),
        };
        let membership = self
            .kind
            .certifies()
            .then(|| Membership { refusal: self.group.refusal(id), ..Membership::default() });
        Facts { identity, is_writable, sources, replicas, membership, ..Facts::default() }
    }

    /// What a server says now.
    pub(super) fn facts(&self, id: usize) -> Facts {
        let truth = self.truth(id);
        match self.server(id).and_then(|it| it.lie.as_ref()) {
            None => truth,
            Some(Lie::Stale(facts)) => Facts::clone(facts),
            Some(Lie::ReadOnly) => Facts { is_writable: false, ..truth },
            Some(Lie::Connected) => {
                let mut facts = truth;
                facts.sources.iter_mut().for_each(|it| it.receives = Thread::Connected);
                facts
            }
        }
    }

    /// Lets time pass.
    pub(super) fn step(&mut self) {
        let now_ms = self.now_ms;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.later).into_iter().partition(|(at_ms, _)| *at_ms <= now_ms);
        self.later = later;
        for (_, change) in due {
            self.apply(change);
        }
        if !self.is_quiet && self.rng.chance(1, EVENT_EVERY) {
            self.happen();
        }
        for id in self.ids() {
            let Some(source) = self.server(id).and_then(|it| it.source) else { continue };
            // A source that dies cuts its connections; one that is cut off is only silent.
            let is_dead = self.server(source).is_none_or(|it| !it.is_running);
            let (is_connected, quiet) = (self.are_connected(id, source), self.is_quiet);
            self.change(id, |it| {
                if is_connected && !quiet {
                    it.believes_until_ms = now_ms + NET_TIMEOUT_MS;
                } else if is_dead {
                    it.believes_until_ms = 0;
                }
            });
        }
        if self.kind.certifies() {
            self.step_group();
        }
    }

    fn step_group(&mut self) {
        let (now_ms, mut group) = (self.now_ms, self.group.clone());
        group.step(
            now_ms,
            STEP_MS,
            |one, other| self.are_connected(one, other),
            |id| self.server(id).is_some_and(|it| it.is_running),
        );
        if group.primary() != self.group.primary() {
            let primary = group.primary();
            self.note("primaries of groups", || format!("{primary:?}"));
        }
        self.group = group;
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Writable(id, is_writable) => {
                if self.server(id).is_some_and(|it| it.is_running) {
                    self.note("read_only set", || format!("{id}: writable {is_writable}"));
                    self.change(id, |it| it.is_writable = is_writable);
                }
            }
            Change::Follows(id, source) => {
                if self.server(id).is_some_and(|it| it.is_running) {
                    self.note("replication set", || format!("{id} follows {source:?}"));
                    self.follow(id, source);
                }
            }
            Change::Runs(id) => {
                self.note("restarted", || id.to_string());
                self.change(id, |it| it.is_running = true);
                self.group.restarted(id, self.now_ms);
            }
        }
    }

    fn follow(&mut self, id: usize, source: Option<usize>) {
        self.change(id, |it| {
            it.source = source.filter(|source| *source != id);
            it.believes_until_ms = 0;
        });
    }

    fn crash(&mut self, id: usize) {
        self.note("crashed", || id.to_string());
        self.change(id, |it| {
            it.is_running = false;
            it.life += 1;
        });
    }

    fn after(&mut self, most_ms: u64, change: Change) {
        let at_ms = self.now_ms + self.rng.below(most_ms);
        self.later.push((at_ms, change));
    }

    /// Something goes wrong, is mended, or is done by somebody.
    fn happen(&mut self) {
        let id = self.rng.index(self.servers.len());
        match self.rng.below(20) {
            0 => self.crash(id),
            1..=3 => self.apply(Change::Runs(id)),
            4 => {
                // What restarts for a moment comes back as it was.
                self.crash(id);
                self.after(2_000, Change::Runs(id));
            }
            5 => {
                let (hears, is_heard) = (self.rng.chance(1, 2), self.rng.chance(1, 2));
                self.note("cut off from the proxy", || format!("{id}: {hears}, {is_heard}"));
                self.change(id, |it| (it.hears, it.is_heard) = (hears, is_heard));
            }
            6 | 7 => self.change(id, |it| (it.hears, it.is_heard) = (true, true)),
            8 => {
                self.note("cut off from servers", || id.to_string());
                let reaches = u32::try_from(self.rng.below(1 << self.servers.len()));
                self.change(id, |it| it.reaches = reaches.unwrap_or_default());
            }
            9 | 10 => self.change(id, |it| it.reaches = u32::MAX),
            11 => {
                self.note("slow", || id.to_string());
                self.change(id, |it| it.is_slow = true);
            }
            12 => self.change(id, |it| it.is_slow = false),
            13 => {
                let lie = match self.rng.below(4) {
                    0 => Lie::Connected,
                    1 => Lie::ReadOnly,
                    _ => Lie::Stale(Box::new(self.truth(id))),
                };
                self.note("lies", || format!("{id}: {lie:?}"));
                self.change(id, |it| it.lie = Some(lie));
            }
            14 | 15 => self.change(id, |it| it.lie = None),
            16 => {
                let is_writable = self.rng.chance(1, 2);
                self.apply(Change::Writable(id, is_writable));
            }
            17 => self.restart_alone(id),
            18 | 19 => self.promote(id),
            _ => {}
        }
    }

    /// A server comes back as if it had never been a replica.
    fn restart_alone(&mut self, id: usize) {
        if self.kind.certifies() {
            return self.group.leave(id);
        }
        self.note("came back alone", || id.to_string());
        self.crash(id);
        self.change(id, |it| {
            it.is_running = true;
            it.is_writable = true;
            it.source = None;
        });
    }

    /// Somebody makes a server the primary: with care, in a hurry, or half of it.
    fn promote(&mut self, id: usize) {
        if self.kind.certifies() {
            return self.group.choose(id);
        }
        if self.server(id).is_none_or(|it| !it.is_running) {
            return;
        }
        let style = self.rng.below(4);
        self.note("promoted", || format!("{id}, style {style}"));
        let is_hasty = style == 1;
        for other in self.ids().filter(|other| *other != id) {
            if style != 2 && !is_hasty {
                self.apply(Change::Writable(other, false));
            }
            if style != 3 {
                self.after(1_500, Change::Follows(other, Some(id)));
                self.after(1_500, Change::Writable(other, false));
            }
        }
        let most_ms = if is_hasty { 1 } else { 800 };
        self.after(most_ms, Change::Follows(id, None));
        self.after(most_ms, Change::Writable(id, true));
    }

    /// From now on everything is well: one server writes, and all others follow it.
    pub(super) fn mend(&mut self) {
        let primary = self.rng.index(self.servers.len());
        self.note("mended", || format!("{primary} is the primary"));
        self.is_quiet = true;
        self.later.clear();
        let (now_ms, certifies) = (self.now_ms, self.kind.certifies());
        for id in self.ids() {
            let was_running = self.server(id).is_some_and(|it| it.is_running);
            self.change(id, |it| {
                it.is_running = true;
                (it.hears, it.is_heard, it.is_slow, it.lie) = (true, true, false, None);
                it.reaches = u32::MAX;
                it.is_writable = certifies || id == primary;
            });
            if !certifies {
                self.follow(id, Some(primary));
            }
            if !was_running {
                self.group.restarted(id, now_ms);
            }
        }
        self.group.bootstrap(primary, now_ms);
    }
}
