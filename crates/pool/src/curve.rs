//! How shared connections do on servers of 2 to 64 cores: a played server and clients that each
//! ask again when they are answered, with the pool's own choice between them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use crate::{
    AccountId, Asker, ConnId,
    ConnState::{Connecting, Idle, Shared, Unlisted},
    Pool, SharedChoice, SlotId,
    group::tests::{GROUP, NEW, server},
};

const ACCOUNT: AccountId = AccountId(1);
const DEPTH_MAX: usize = 64;
/// From a client to its server and back, µs, beside what the server takes.
const WAY_US: u64 = 100;
/// What the proxy takes for a statement, one after the other, µs.
const PROXY_US: u64 = 6;
/// What it takes to open a connection, µs.
const OPEN_US: u64 = 500;
/// How long is played at most, µs; figures are of the last quarter.
const LENGTH_US: u64 = 4_000_000;
/// Statements that are played at most.
const STATEMENTS_MAX: u64 = 100_000;

/// What statements take on the server, µs.
#[derive(Debug, Clone, Copy)]
enum Mix {
    All(u64),
    /// One in twenty takes the second.
    OneIn20(u64, u64),
}

impl Mix {
    fn of(self, nth: u64) -> u64 {
        match self {
            Self::All(us) => us,
            Self::OneIn20(short, long) => match nth.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59 {
                0 | 1 if nth % 8 < 6 => long,
                _ => short,
            },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client's statement arrives.
    Asks,
    /// The proxy has come to it.
    Read(u64),
    /// A connection is open.
    Opened,
    /// The statement in front of a connection is done.
    Done(u32),
}

/// A server of so many cores behind a pool, or with a connection for each statement.
struct World {
    pool: Pool<u64>,
    slot: SlotId,
    is_pooled: bool,
    cores_free: u32,
    /// When the proxy has done what has arrived.
    proxy_until_us: u64,
    mix: Mix,
    now_us: u64,
    nth: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Statements by connection, the one that runs in front: when each arrived.
    conns: BTreeMap<u32, VecDeque<u64>>,
    /// Connections whose front statement waits for a core.
    ready: VecDeque<u32>,
    /// Statements without a connection: when each arrived.
    waiting: VecDeque<u64>,
    next_conn: u32,
    busy: u64,
    answered: u64,
    latencies: Vec<u64>,
    conns_sum: u64,
}

/// What came of it.
#[derive(Debug)]
struct Figures {
    per_second: u64,
    p99_us: u64,
    conns: f64,
}

impl World {
    fn new(cores: u32, mix: Mix, is_pooled: bool) -> Self {
        let mut pool = Pool::new(7);
        let servers = [server(1, 1, 1_000)];
        pool.apply(servers.iter());
        let slot = pool.slot_of(&servers[0].key).expect("it is there");
        Self {
            pool,
            slot,
            is_pooled,
            cores_free: cores,
            proxy_until_us: 0,
            mix,
            now_us: 1_000_000,
            nth: 0,
            events: BinaryHeap::new(),
            conns: BTreeMap::new(),
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            next_conn: 0,
            busy: 0,
            answered: 0,
            latencies: Vec::new(),
            conns_sum: 0,
        }
    }

    fn play(cores: u32, clients: u64, mix: Mix, is_pooled: bool) -> Figures {
        let mut world = Self::new(cores, mix, is_pooled);
        for client in 0..clients {
            world.at(client * WAY_US / clients.max(1), Event::Asks);
        }
        let begin_us = world.now_us;
        let mut late = (begin_us, 0);
        while let Some(Reverse((at_us, _, event))) = world.events.pop() {
            let (played_us, answered) = (at_us - begin_us, world.answered);
            if played_us >= LENGTH_US || answered >= STATEMENTS_MAX {
                break;
            }
            let is_late = played_us >= LENGTH_US * 3 / 4 || answered >= STATEMENTS_MAX * 3 / 4;
            if is_late && late.0 == begin_us {
                late = (at_us, answered);
                world.latencies.clear();
                world.conns_sum = 0;
            }
            world.now_us = at_us;
            world.step(event);
        }
        let answered = world.answered - late.1;
        world.latencies.sort_unstable();
        let p99 = world.latencies.len() * 99 / 100;
        Figures {
            per_second: answered * 1_000_000 / (world.now_us - late.0).max(1),
            p99_us: world.latencies.get(p99).copied().unwrap_or_default(),
            conns: world.conns_sum as f64 / answered.max(1) as f64,
        }
    }

    fn at(&mut self, in_us: u64, event: Event) {
        self.nth += 1;
        self.events.push(Reverse((self.now_us + in_us, self.nth, event)));
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Asks => {
                self.proxy_until_us = self.proxy_until_us.max(self.now_us) + PROXY_US;
                self.at(self.proxy_until_us - self.now_us, Event::Read(self.now_us));
            }
            Event::Read(since_us) if self.is_pooled => self.choose(since_us),
            Event::Read(since_us) => {
                let conn = self.opened();
                self.follow(conn, since_us);
            }
            Event::Opened => {
                let conn = self.opened();
                self.slot().relist(ACCOUNT, NEW, Connecting, Unlisted);
                self.share(conn);
            }
            Event::Done(conn) => self.done(conn),
        }
    }

    fn slot(&mut self) -> &mut crate::Slot {
        self.pool.slot_mut(self.slot).expect("it stays")
    }

    fn opened(&mut self) -> u32 {
        self.next_conn += 1;
        self.conns.insert(self.next_conn, VecDeque::new());
        self.next_conn
    }

    fn choose(&mut self, since_us: u64) {
        let conns = &self.conns;
        let depth = |conn: ConnId| conns.get(&conn.index).map(VecDeque::len);
        let now_ms = self.now_us / 1_000;
        let asker = Asker { account: ACCOUNT, now_ms, source: None, only: None };
        match self.pool.choose_shared(GROUP, &asker, DEPTH_MAX, depth) {
            Some(SharedChoice::Join(_, conn)) => self.follow(conn.index, since_us),
            Some(SharedChoice::Idle(conn)) => {
                self.waiting.push_front(since_us);
                self.share(conn.index);
            }
            Some(SharedChoice::Open(_)) => {
                self.slot().relist(ACCOUNT, NEW, Unlisted, Connecting);
                self.waiting.push_back(since_us);
                self.at(OPEN_US, Event::Opened);
            }
            None => self.waiting.push_back(since_us),
        }
    }

    fn id(conn: u32) -> ConnId {
        ConnId { index: conn, generation: 0 }
    }

    /// A connection is shared from now on, by those who wait first.
    fn share(&mut self, conn: u32) {
        self.slot().relist(ACCOUNT, Self::id(conn), Unlisted, Shared);
        for _ in 0..DEPTH_MAX {
            let Some(since_us) = self.waiting.pop_front() else { break };
            self.follow(conn, since_us);
        }
        if self.conns.get(&conn).is_some_and(VecDeque::is_empty) {
            self.rest(conn);
        }
    }

    fn rest(&mut self, conn: u32) {
        let id = Self::id(conn);
        self.slot().relist(ACCOUNT, id, Shared, Unlisted);
        self.slot().relist(ACCOUNT, id, Unlisted, Idle);
    }

    fn follow(&mut self, conn: u32, since_us: u64) {
        let queue = self.conns.get_mut(&conn).expect("it is open");
        queue.push_back(since_us);
        if queue.len() == 1 {
            self.busy += 1;
            self.ready.push_back(conn);
            self.run();
        }
    }

    fn run(&mut self) {
        while self.cores_free > 0
            && let Some(conn) = self.ready.pop_front()
        {
            self.cores_free -= 1;
            let service_us = self.mix.of(self.nth);
            self.at(service_us, Event::Done(conn));
        }
    }

    fn done(&mut self, conn: u32) {
        self.cores_free += 1;
        self.answered += 1;
        self.conns_sum += self.busy;
        let now_us = self.now_us;
        let queue = self.conns.get_mut(&conn).expect("it is open");
        let since_us = queue.pop_front().expect("its front is done");
        self.latencies.push(now_us - since_us);
        let is_quiet = queue.is_empty();
        match is_quiet {
            true => self.busy -= 1,
            false => self.ready.push_back(conn),
        }
        self.at(WAY_US, Event::Asks);
        self.run();
        if !self.is_pooled {
            if is_quiet {
                self.conns.remove(&conn);
            }
            return;
        }
        self.slot().shared_width().answered(now_us, now_us - since_us);
        if is_quiet {
            self.rest(conn);
            let waits = !self.waiting.is_empty();
            if waits && let Some(idle) = self.slot().pop_idle(ACCOUNT) {
                self.share(idle.index);
            }
        }
    }
}

/// One line of the curve for each number of cores and clients, and whether it is too slow.
fn lines(mix: Mix) -> Vec<(String, bool)> {
    let mut lines = Vec::new();
    for cores in [2, 8, 64] {
        for clients in [8, 64, 512] {
            let alone = World::play(cores, clients, mix, false);
            let shared = World::play(cores, clients, mix, true);
            let share = shared.per_second * 100 / alone.per_second.max(1);
            let p99 = shared.p99_us as f64 / alone.p99_us.max(1) as f64;
            let conns = shared.conns;
            let line =
                format!("| {cores} | {mix:?} | {clients} | {share} % | × {p99:.1} | {conns:.0} |");
            lines.push((line, share < 88));
        }
    }
    lines
}

/// Draws the curve of `docs/decisions/0010`; with `--nocapture` it is shown.
#[test]
fn servers_of_any_size_are_kept_busy_by_few_connections() {
    let mixes = [Mix::All(50), Mix::All(400), Mix::All(2_000), Mix::OneIn20(100, 2_000)];
    let curve: Vec<_> = mixes.into_iter().flat_map(lines).collect();
    println!("| cores | statements, µs | clients | of a connection each | p99 | connections |");
    println!("|---:|---|---:|---:|---:|---:|");
    curve.iter().for_each(|(line, _)| println!("{line}"));
    let missed: Vec<_> = curve.iter().filter(|(_, is_slow)| *is_slow).collect();
    assert!(missed.is_empty(), "too slow: {missed:?}");
}
