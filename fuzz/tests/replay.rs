//! Every target on stable: its seeds as they are, then so many changed ones.
//!
//! `TRUNKLINE_FUZZ_SECONDS` says for how long instead, for each target; `TRUNKLINE_FUZZ_SEED` (1)
//! starts the changes. A failing input is made shorter, written to `artifacts/` and named.

use std::{
    env, fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use trunkline_fuzz::{
    TARGETS,
    mutate::{Random, minimise, mutate},
};

/// The longest input; the same bytes of one packet's worth for all targets.
const INPUT_LEN_MAX: usize = 4_096;
/// One input that takes longer than this is a failure: all targets are meant to be linear.
const INPUT_TIME_MAX: Duration = Duration::from_secs(10);

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The seeds of a target with their files, in the order of their names.
fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = folder("corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let seed = fs::read(&path).expect("a seed");
        (path, seed)
    };
    paths.into_iter().map(read).collect()
}

/// Tries the seeds of a target, and `inputs` changed ones: the same on every machine.
fn fuzz(name: &str, inputs: u64) {
    let (_, target) = TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
    let check = |input: &[u8]| {
        let start = Instant::now();
        let passed = catch_unwind(|| target(input)).is_ok();
        passed && start.elapsed() < INPUT_TIME_MAX
    };
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for (path, seed) in &seeds {
        assert!(check(seed), "the seed {} fails", path.display());
    }
    let seeds: Vec<_> = seeds.into_iter().map(|(_, seed)| seed).collect();
    let seed = number("TRUNKLINE_FUZZ_SEED", 1);
    let seconds = number("TRUNKLINE_FUZZ_SECONDS", 0);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut random = Random::new(seed);
    let mut count = 0;
    while if seconds == 0 { count < inputs } else { Instant::now() < until } {
        let input = mutate(&seeds, &mut random, INPUT_LEN_MAX);
        count += 1;
        if !check(&input) {
            report(name, &minimise(&input, |input| !check(input)), seed);
        }
    }
    println!("{name}: {} seeds, {count} changed ones, seed {seed}", seeds.len());
}

fn report(name: &str, input: &[u8], seed: u64) -> ! {
    let folder = folder("artifacts").join(name);
    fs::create_dir_all(&folder).expect("a folder for the failing input");
    let path = folder.join(format!("seed-{seed}-{}-bytes", input.len()));
    fs::write(&path, input).expect("the failing input is kept");
    panic!("{name} fails (seed {seed}), input in {}: {input:02x?}", path.display());
}

macro_rules! targets {
    ($($name:ident: $inputs:literal),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                fuzz(stringify!($name), $inputs);
            }
        )+

        #[test]
        fn every_target_is_run() {
            let run = [$(stringify!($name)),+];
            assert_eq!(TARGETS.map(|(name, _)| name), run);
        }
    };
}

// Some seconds each, on a machine with two cores.
targets!(
    framing: 300_000,
    compressed: 10_000,
    packets: 400_000,
    commands: 500_000,
    response_relay: 400_000,
    client_handshake: 300_000,
    server_handshake: 300_000,
    server_login: 60_000,
    proxy_header: 30_000,
    admin_port: 800,
    http_requests: 3_000,
    tokens: 60_000,
    digest: 60_000,
    set_statement: 200_000,
    config_file: 20_000,
    rule_patterns: 15_000,
    gtids: 30_000,
    binlog: 40_000,
    worker: 150,
);
