//! How long many fast routing rules take to load, what they take in memory, and what a search
//! costs: `cargo run --release -p trunkline-icount --example fast_routing -- 1000000`.

use std::{fmt::Write, hint::black_box, time::Instant};

use anyhow::{Context, Result, anyhow};
use trunkline_rules::FastRoutes;

/// Searches that are timed.
const SEARCHES: u32 = 1_000_000;

fn main() -> Result<()> {
    let argument = std::env::args().nth(1).context("usage: fast_routing NUMBER")?;
    let count: u32 = argument.parse().context("how many rules")?;
    let mut lines = String::new();
    for number in 0..count {
        let to = number % 2;
        writeln!(lines, "tenant_{}\tcustomer_{number}_production\t0\t{to}", number % 1_000)?;
    }
    let bytes = lines.len();
    // The file is read when it is asked for, and dropped when it has been understood.
    let file = std::env::temp_dir().join(format!("fast-routing-{}.tsv", std::process::id()));
    std::fs::write(&file, lines)?;
    let source = |_: &str| std::fs::read_to_string(&file).map_err(|error| error.to_string());
    let text = "fast_routing_file='x'\n[[server]]\naddress='a'\n[[server]]\nhostgroup=1\n\
                address='b'\n[[user]]\nname='u'\npassword='p'\n";
    let before = resident()?;
    let begin = Instant::now();
    let config = trunkline_config::parse(text, "t", &source);
    let config = config.map_err(|errors| anyhow!("{errors:?}"));
    std::fs::remove_file(&file)?;
    let config = config?;
    println!("{count} rules of {bytes} bytes loaded in {:.0?}", begin.elapsed());
    let table = config.fast_routes.memory();
    let (after, peak) = (resident()? - before, peak()? - before);
    println!("table {table} bytes, resident {after} more, at most {peak} more while loading");
    for sessions in [1_000.min(count), count] {
        for (what, flag) in [("found", 0), ("not found", 1)] {
            let each = time(&config.fast_routes, count, sessions, flag);
            println!("{sessions} sessions in schemas of their own: {what}: {each} ns each");
        }
    }
    Ok(())
}

/// Nanoseconds of one search, in any order but that of the file.
fn time(routes: &FastRoutes, count: u32, sessions: u32, flag: u32) -> u128 {
    let names: Vec<_> = (0..sessions)
        .map(|number| {
            let number = number.wrapping_mul(2_654_435_761) % count;
            (format!("tenant_{}", number % 1_000), format!("customer_{number}_production"))
        })
        .collect();
    let begin = Instant::now();
    let mut searches = 0;
    while searches < SEARCHES {
        for (user, schema) in &names {
            black_box(routes.find(black_box(user), schema.as_bytes(), flag));
        }
        searches += sessions;
    }
    begin.elapsed().as_nanos() / u128::from(searches)
}

fn status(name: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
    let kib: u64 = line.trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1_024)
}

fn resident() -> Result<u64> {
    status("VmRSS:")
}

fn peak() -> Result<u64> {
    status("VmHWM:")
}
