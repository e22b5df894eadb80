//! What each [`Balance`] makes of 64 servers of unequal speeds, beside policies that know of every
//! server what no proxy can know.
//!
//! Statements arrive at random, each for one of several workers, which measure latencies each for
//! itself. A server has so many cores and runs statements in the order in which they come.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use super::*;

const SERVERS: usize = 64;
const WORKERS: u64 = 2;
/// What a statement takes on the slowest servers on average, µs.
const WORK_US: f64 = 1_000.0;

/// Who chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Chooser {
    Ours(Balance),
    /// Join the shortest queue: fewest statements of all servers.
    Shortest,
    /// Join the queue that ends first, speeds and cores being known: the best possible one.
    Soonest,
}

#[derive(Debug, Clone, Copy)]
struct Farm {
    cores: usize,
    /// Part of the capacity that is asked for.
    load: f64,
    /// Whether one statement in twenty takes 20 times as long as the others.
    is_mixed: bool,
    statements: usize,
}

/// Numbers in (0, 1), the same ones for the same seed.
struct Chance(Draws);

impl Chance {
    fn unit(&mut self) -> f64 {
        (self.0.below(1 << 53) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }
}

#[derive(Debug, Clone, Copy)]
struct Statement {
    worker: usize,
    came_us: u64,
    work_us: f64,
}

/// What is in flight on the servers, as one worker sees it.
struct Seen<'a> {
    world: &'a World,
    worker: usize,
}

impl Servers for Seen<'_> {
    fn len(&self) -> usize {
        SERVERS
    }

    fn weight(&self, _at: usize) -> u64 {
        1
    }

    fn in_flight(&self, at: usize) -> u64 {
        self.world.in_flight[at]
    }

    fn latency(&self, at: usize) -> u64 {
        self.world.latencies[self.worker][at].fine()
    }

    fn address(&self, _at: usize) -> Option<&Address> {
        None
    }
}

struct World {
    farm: Farm,
    in_flight: Vec<u64>,
    queues: Vec<VecDeque<Statement>>,
    running: BinaryHeap<Reverse<(u64, usize, usize)>>,
    statements: Vec<Statement>,
    latencies: Vec<Vec<Latency>>,
    took_us: Vec<u64>,
}

/// One to four times as fast as the slowest.
fn speed(server: usize) -> f64 {
    1.0 + 3.0 * (server % 8) as f64 / 7.0
}

impl World {
    fn start(&mut self, server: usize, statement: Statement, now_us: u64) {
        let ends_us = now_us + 1 + (statement.work_us / speed(server)) as u64;
        self.running.push(Reverse((ends_us, server, self.statements.len())));
        self.statements.push(statement);
    }

    fn arrive(&mut self, server: usize, statement: Statement) {
        self.in_flight[server] += 1;
        match self.in_flight[server] as usize <= self.farm.cores {
            true => self.start(server, statement, statement.came_us),
            false => self.queues[server].push_back(statement),
        }
    }

    fn end_first(&mut self) {
        let Some(Reverse((now_us, server, nth))) = self.running.pop() else { return };
        let statement = self.statements[nth];
        let took_us = now_us - statement.came_us;
        self.in_flight[server] -= 1;
        self.took_us.push(took_us);
        self.latencies[statement.worker][server].observe(took_us, now_us);
        if let Some(next) = self.queues[server].pop_front() {
            self.start(server, next, now_us);
        }
    }

    fn choose(&self, chooser: Chooser, worker: usize, draws: &mut Draws) -> usize {
        let first = draws.below(SERVERS as u64) as usize;
        let all = (0..SERVERS).map(|step| (first + step) % SERVERS);
        let found = match chooser {
            Chooser::Ours(balance) => balance.choose(&Seen { world: self, worker }, draws, None),
            Chooser::Shortest => all.min_by_key(|at| self.in_flight[*at]),
            Chooser::Soonest => {
                all.min_by(|one, other| self.end(*one).total_cmp(&self.end(*other)))
            }
        };
        found.expect("a server")
    }

    /// How long another statement would take, in part of what one takes on the slowest.
    fn end(&self, server: usize) -> f64 {
        let turns = (self.in_flight[server] + 1).max(self.farm.cores as u64) as f64;
        turns / self.farm.cores as f64 / speed(server)
    }
}

/// The median, the 99th percentile and the mean, µs.
fn play(farm: Farm, chooser: Chooser) -> [u64; 3] {
    let mut chance = Chance(Draws::new(15_001));
    let mut draws = Draws::new(42);
    let mut world = World {
        farm,
        in_flight: vec![0; SERVERS],
        queues: vec![VecDeque::new(); SERVERS],
        running: BinaryHeap::new(),
        statements: Vec::new(),
        latencies: vec![vec![Latency::default(); SERVERS]; WORKERS as usize],
        took_us: Vec::new(),
    };
    let speeds: f64 = (0..SERVERS).map(speed).sum();
    let between_us = WORK_US / (speeds * farm.cores as f64 * farm.load);
    let mut next_us = 0.0;
    for _ in 0..farm.statements {
        next_us += chance.exponential() * between_us;
        let came_us = next_us as u64;
        while world.running.peek().is_some_and(|Reverse((at_us, ..))| *at_us < came_us) {
            world.end_first();
        }
        let worker = chance.0.below(WORKERS) as usize;
        let mean_us = match (farm.is_mixed, chance.unit() < 0.05) {
            (false, _) => WORK_US,
            (true, false) => WORK_US * 20.0 / 39.0,
            (true, true) => WORK_US * 400.0 / 39.0,
        };
        let work_us = mean_us * chance.exponential();
        let server = world.choose(chooser, worker, &mut draws);
        world.arrive(server, Statement { worker, came_us, work_us });
    }
    while !world.running.is_empty() {
        world.end_first();
    }
    let mut took_us = world.took_us.split_off(farm.statements / 5);
    took_us.sort_unstable();
    let mean_us = took_us.iter().sum::<u64>() / took_us.len() as u64;
    [took_us[took_us.len() / 2], took_us[took_us.len() * 99 / 100], mean_us]
}

#[test]
fn p2c_is_within_a_tenth_of_the_shortest_queue_of_all() {
    let farm = Farm { cores: 8, load: 0.8, is_mixed: false, statements: 60_000 };
    let [_, ours, _] = play(farm, Chooser::Ours(Balance::P2c));
    let [_, shortest, _] = play(farm, Chooser::Shortest);
    let [_, random, _] = play(farm, Chooser::Ours(Balance::Random));
    assert!(ours * 10 <= shortest * 11, "p99 {ours} µs, of the shortest queue {shortest} µs");
    assert!(random > ours * 4, "p99 {ours} µs, at random {random} µs");
}

#[test]
#[ignore = "prints the table of docs/reports, which takes a minute without optimisation"]
fn table_of_policies() {
    let ours = Balance::WORDS.iter().filter(|(_, kind)| *kind != Balance::Source);
    let mut choosers: Vec<_> = ours.map(|(word, kind)| (*word, Chooser::Ours(*kind))).collect();
    choosers.push(("shortest queue of all", Chooser::Shortest));
    choosers.push(("queue that ends first", Chooser::Soonest));
    println!("| cores | statements | load | policy | p50 ms | p99 ms | mean ms | p99 / shortest |");
    println!("|---:|---|---:|---|---:|---:|---:|---:|");
    for (cores, is_mixed) in [(8, false), (8, true), (1, false)] {
        for load in [0.5, 0.8, 0.9] {
            let farm = Farm { cores, load, is_mixed, statements: 200_000 };
            let shortest = play(farm, Chooser::Shortest)[1] as f64;
            for (name, chooser) in &choosers {
                let [p50, p99, mean] = play(farm, *chooser).map(|us| us as f64 / 1_000.0);
                let kind = if is_mixed { "short and long" } else { "alike" };
                let ratio = p99 * 1_000.0 / shortest;
                println!(
                    "| {cores} | {kind} | {load} | {name} | {p50:.2} | {p99:.2} | {mean:.2} | \
                     {ratio:.2} |"
                );
            }
        }
    }
}
