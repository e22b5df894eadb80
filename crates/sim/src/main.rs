//! Runs many seeds on all cores, or one seed with its trace. `cargo xtask sim` builds and runs it.

use std::{
    collections::BTreeMap,
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use trunkline_sim::{
    Outcome,
    plan::{Limits, Plan},
    run, seeds,
    shrink::shrink,
};

/// How often progress is shown where no terminal is.
const LOGGED_EVERY: Duration = Duration::from_secs(20);
/// Violations of one seed that are shown.
const SHOWN_MAX: usize = 10;

#[derive(Parser)]
#[command(name = "cargo xtask sim", about = "Simulates the data plane, seed by seed")]
struct Arguments {
    /// How many seeds to run
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first of them; by default another one each time
    #[arg(long)]
    first: Option<u64>,
    /// Runs this seed alone, shows what it broke, and cuts it down
    #[arg(long)]
    seed: Option<u64>,
    /// With --seed: prints the whole trace of the run as it is
    #[arg(long)]
    trace: bool,
    /// With --seed: cuts down to what still shows a line with this text
    #[arg(long)]
    about: Option<String>,
    /// Does not cut failing runs down
    #[arg(long)]
    no_shrink: bool,
    /// Threads; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// Goes on after this many failing seeds no more
    #[arg(long, default_value_t = 10)]
    failures_max: usize,
    /// Where traces of failing runs are written
    #[arg(long, default_value = "target/sim")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_good = match arguments.seed {
        Some(seed) => run_one(&arguments, seed),
        None => run_many(&arguments),
    };
    match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Sums over many runs.
#[derive(Default)]
struct Sums {
    statements: AtomicU64,
    bytes: AtomicU64,
    virtual_us: AtomicU64,
    faults: Mutex<BTreeMap<&'static str, u64>>,
}

impl Sums {
    fn add(&self, outcome: &Outcome) {
        self.statements.fetch_add(outcome.statements, Relaxed);
        self.bytes.fetch_add(outcome.bytes, Relaxed);
        self.virtual_us.fetch_add(outcome.ended_us, Relaxed);
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, count) in &outcome.faults {
            *faults.entry(kind).or_default() += count;
        }
    }
}

fn run_many(arguments: &Arguments) -> bool {
    let first = arguments.first.unwrap_or_else(seed_of_now);
    let threads = arguments.threads.unwrap_or_else(cores).max(1);
    println!("seeds {first} to {} on {threads} threads", first + arguments.seeds.max(1) - 1);
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sums, failed) = (Sums::default(), Mutex::new(Vec::new()));
    let start = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Relaxed);
                        if number >= arguments.seeds || is_over.load(Relaxed) {
                            return;
                        }
                        let seed = first + number;
                        let outcome = run(&Plan::from_seed(seed, &Limits::default()), false);
                        sums.add(&outcome);
                        if !outcome.is_good() {
                            show_failure(seed, &outcome);
                            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                            failed.push(seed);
                            is_over.fetch_or(failed.len() >= arguments.failures_max, Relaxed);
                        }
                    }
                })
            })
            .collect();
        let mut shown_at = start;
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(200));
            show_progress(arguments.seeds, &next, &sums, start, &mut shown_at);
        }
    });
    let ran = next.into_inner().min(arguments.seeds);
    show_sums(ran, threads, &sums, start);
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let (Some(seed), false) = (failed.first(), arguments.no_shrink) {
        explain(arguments, *seed);
    }
    failed.is_empty()
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Another number each time, with room for the seeds that follow.
fn seed_of_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs()) * 1_000_000
}

/// Shows how far it is: over and over in a terminal's line, now and then in a log. `shown_at` is
/// when that was last.
fn show_progress(
    wanted: u64,
    next: &AtomicU64,
    sums: &Sums,
    start: Instant,
    shown_at: &mut Instant,
) {
    let is_terminal = std::io::stderr().is_terminal();
    if !is_terminal && shown_at.elapsed() < LOGGED_EVERY {
        return;
    }
    *shown_at = Instant::now();
    let ran = next.load(Relaxed).min(wanted);
    let statements = sums.statements.load(Relaxed);
    let rate = statements as f64 / start.elapsed().as_secs_f64();
    let faults = sums.faults.lock().unwrap_or_else(PoisonError::into_inner).values().sum::<u64>();
    let line =
        format!("{ran}/{wanted} seeds, {statements} statements ({rate:.0}/s), {faults} faults");
    match is_terminal {
        true => eprint!("\r{line} "),
        false => eprintln!("{line}"),
    }
}

fn show_sums(ran: u64, threads: usize, sums: &Sums, start: Instant) {
    let statements = sums.statements.load(Relaxed);
    let seconds = start.elapsed().as_secs_f64();
    let rate = statements as f64 / seconds;
    println!(
        "\n{ran} seeds in {seconds:.1} s: {statements} statements ({rate:.0}/s, {:.0} a minute and \
         thread), {} MB, {} s of virtual time",
        rate * 60.0 / threads as f64,
        sums.bytes.load(Relaxed) / 1_000_000,
        sums.virtual_us.load(Relaxed) / 1_000_000,
    );
    for (kind, count) in &*sums.faults.lock().unwrap_or_else(PoisonError::into_inner) {
        println!("    {count:>10}  {kind}");
    }
}

fn show_failure(seed: u64, outcome: &Outcome) {
    println!("\nseed {seed} failed; replay it: cargo xtask sim --seed {seed}");
    for line in lines(outcome).iter().take(SHOWN_MAX) {
        println!("    {line}");
    }
}

/// What a run broke, line by line.
fn lines(outcome: &Outcome) -> Vec<String> {
    let panic = outcome.panic.iter().map(|panic| format!("panic: {panic}"));
    panic.chain(outcome.violations.iter().map(ToString::to_string)).collect()
}

fn run_one(arguments: &Arguments, seed: u64) -> bool {
    let kept = seeds::kept().into_iter().find(|kept| kept.seed == seed);
    if let Some(kept) = kept {
        println!("a kept seed: {}", kept.found);
    }
    let outcome = run(&Plan::from_seed(seed, &Limits::default()), arguments.trace);
    if arguments.trace {
        print!("{}", outcome.trace);
    }
    if outcome.is_good() {
        println!(
            "seed {seed} is good: {} statements, {} events, {:.3} s of virtual time",
            outcome.statements,
            outcome.events,
            outcome.ended_us as f64 / 1e6
        );
        return true;
    }
    show_failure(seed, &outcome);
    if !arguments.no_shrink {
        explain(arguments, seed);
    }
    false
}

/// Cuts a failing run down and writes its trace.
fn explain(arguments: &Arguments, seed: u64) {
    println!("\ncutting seed {seed} down");
    let plan = Plan::from_seed(seed, &Limits::default());
    let wanted = run(&plan, false).failure();
    let fails = |outcome: &Outcome| match &arguments.about {
        Some(about) => lines(outcome).iter().any(|line| line.contains(about)),
        None => outcome.failure() == wanted,
    };
    let plan = shrink(&plan, &fails, &mut |text| println!("    {text}"));
    let outcome = run(&plan, true);
    show_failure(seed, &outcome);
    match write_trace(&arguments.folder, seed, &plan, &outcome) {
        Ok(path) => println!("what is left of it, and its trace: {}", path.display()),
        Err(error) => println!("the trace could not be written: {error}\n{}", outcome.trace),
    }
}

fn write_trace(
    folder: &Path,
    seed: u64,
    plan: &Plan,
    outcome: &Outcome,
) -> std::io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{seed}.txt"));
    let lines = lines(outcome).join("\n");
    let text = format!("seed {seed}\n{lines}\n\n{plan:#?}\n\n{}", outcome.trace);
    fs::write(&path, text)?;
    Ok(path)
}
