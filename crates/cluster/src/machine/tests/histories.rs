//! Histories of servers that die, come back, are cut off and change roles, made from seeds.

use super::*;

/// Numbers that follow from a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn is(&mut self, of_hundred: u64) -> bool {
        self.below(100) < of_hundred
    }
}

/// One server as it really is.
struct Server {
    is_running: bool,
    is_cut_off: bool,
    is_writable: bool,
    source: Option<u32>,
}

/// A question that is under way.
struct Letter {
    arrives_ms: u64,
    id: u32,
    asked_ms: u64,
    answer: Result<Facts, Miss>,
}

struct World {
    dice: Dice,
    servers: Vec<Server>,
    cluster: Cluster,
    now_ms: u64,
    mail: Vec<Letter>,
    /// Whether each server's last answer was that it takes writes.
    told_writable: Vec<bool>,
    is_quiet: bool,
}

const SERVERS: u32 = 4;

impl World {
    fn new(seed: u64) -> Self {
        let server = |id| Server {
            is_running: true,
            is_cut_off: false,
            is_writable: id == 0,
            source: (id != 0).then_some(0),
        };
        let mut world = Self {
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            servers: (0..SERVERS).map(server).collect(),
            cluster: Cluster::new(Policy::default(), None),
            now_ms: 1,
            mail: Vec::new(),
            told_writable: vec![false; SERVERS as usize],
            is_quiet: false,
        };
        for id in 0..SERVERS {
            let host = HostId(id);
            world.on(Input::Member { host, listed: NAMED, endpoint: endpoint(id) });
        }
        world
    }

    fn server(&mut self, id: u32) -> &mut Server {
        self.servers.get_mut(id as usize).expect("a server")
    }

    fn facts(&self, id: u32) -> Facts {
        let server = self.servers.get(id as usize).expect("a server");
        let Some(source) = server.source else {
            return Facts { is_writable: server.is_writable, ..read_only(id) };
        };
        let is_up = self.servers.get(source as usize).is_some_and(|it| it.is_running);
        let receives = if is_up { Thread::Connected } else { Thread::Connecting };
        Facts { is_writable: server.is_writable, ..replica(id, source, receives) }
    }

    fn on(&mut self, input: Input) {
        let mut out = Vec::new();
        self.cluster.on(self.now_ms, input, &mut out);
        // Nobody writes who has not said that it takes writes.
        for output in &out {
            if let Output::SetWriter(Some(writer)) = output {
                assert_eq!(self.told_writable.get(writer.0 as usize), Some(&true), "{writer:?}");
            }
        }
    }

    fn step(&mut self) {
        self.now_ms += 10;
        if !self.is_quiet && self.dice.is(3) {
            self.happen();
        }
        let mut out = Vec::new();
        self.cluster.tick(self.now_ms, &mut out);
        for output in out {
            if let Output::Ask(host) = output {
                self.ask(host.0);
            }
        }
        let (mail, now_ms) = (std::mem::take(&mut self.mail), self.now_ms);
        let (due, later): (Vec<_>, Vec<_>) =
            mail.into_iter().partition(|it| it.arrives_ms <= now_ms);
        self.mail = later;
        for Letter { id, asked_ms, answer, .. } in due {
            if let (Ok(facts), Some(told)) = (&answer, self.told_writable.get_mut(id as usize)) {
                *told = facts.is_writable;
            }
            self.on(Input::Answer { host: HostId(id), asked_ms, answer });
        }
    }

    fn ask(&mut self, id: u32) {
        let (asked_ms, is_quiet) = (self.now_ms, self.is_quiet);
        let delay_ms = if is_quiet { 5 } else { self.dice.below(60) };
        let is_slow = !is_quiet && self.dice.is(3);
        let facts = self.facts(id);
        let answer = match self.server(id) {
            Server { is_cut_off: true, .. } => Err(Miss::TimedOut),
            Server { is_running: false, .. } => Err(Miss::Refused("refused".to_owned())),
            _ if is_slow => Err(Miss::TimedOut),
            _ => Ok(facts),
        };
        let arrives_ms = match answer {
            Err(Miss::TimedOut) => asked_ms + 200,
            Ok(_) | Err(_) => asked_ms + delay_ms,
        };
        self.mail.push(Letter { arrives_ms, id, asked_ms, answer });
    }

    /// Something goes wrong, is mended, or is done by an orchestrator.
    fn happen(&mut self) {
        let id = u32::try_from(self.dice.below(SERVERS.into())).expect("small");
        match self.dice.below(5) {
            0 => self.server(id).is_running = false,
            1 => self.server(id).is_running = true,
            2 => self.server(id).is_cut_off ^= true,
            3 => self.promote(id),
            _ => self.server(id).is_writable = false,
        }
    }

    /// An orchestrator makes a server the primary of all that run.
    fn promote(&mut self, id: u32) {
        if !self.server(id).is_running {
            return;
        }
        for other in (0..SERVERS).filter(|other| *other != id) {
            let server = self.server(other);
            if server.is_running {
                server.is_writable = false;
                server.source = Some(id);
            }
        }
        let server = self.server(id);
        server.is_writable = true;
        server.source = None;
    }
}

#[test]
fn in_the_end_the_one_that_takes_writes_is_the_writer() {
    for seed in 1..=2_000 {
        let mut world = World::new(seed);
        (0..400).for_each(|_| world.step());
        // Everything is mended, and one server promoted.
        world.is_quiet = true;
        for server in &mut world.servers {
            server.is_running = true;
            server.is_cut_off = false;
        }
        let primary = u32::try_from(world.dice.below(SERVERS.into())).expect("small");
        world.promote(primary);
        // A server that was silent for long is asked again within 3 s.
        (0..400).for_each(|_| world.step());
        let writer = world.cluster.writer();
        assert_eq!(writer, Some(HostId(primary)), "seed {seed}");
        for id in (0..SERVERS).filter(|id| *id != primary) {
            assert_eq!(world.cluster.standing(HostId(id)), Standing::Reader, "seed {seed}");
        }
    }
}
