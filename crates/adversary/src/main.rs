//! `cargo xtask adversary` builds this and runs it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Error, Result, bail};
use clap::{Parser, ValueEnum};
use trunkline_adversary::{Finding, Hunt, Plan, Profile, Tally, Wish, topics};
use trunkline_testkit::{Flavour, mariadb_available, mysql_available};

/// How often progress is shown.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Family {
    Mariadb,
    Mysql,
    Both,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileName {
    One,
    Split,
    Rules,
}

#[derive(Parser)]
#[command(name = "cargo xtask adversary", about = "Looks for what differs through the proxy")]
struct Arguments {
    /// How long, for each family
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Runs this seed alone, and cuts it down when it differs
    #[arg(long)]
    seed: Option<u64>,
    /// The first of many seeds; by default another one each time
    #[arg(long)]
    first: Option<u64>,
    /// Whose servers
    #[arg(long, value_enum, default_value = "both")]
    family: Family,
    /// Goes on behind a difference; each kind is shown once
    #[arg(long)]
    keep_going: bool,
    /// Does not cut programs down
    #[arg(long)]
    no_shrink: bool,
    /// Prints the program of --seed and runs nothing
    #[arg(long)]
    print: bool,
    /// Runs the programs of a file, as they were printed
    #[arg(long)]
    script: Option<PathBuf>,
    /// Only these topics of statements, and those that look
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Not these topics
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// No lines of the grammar with one of these words
    #[arg(long, value_delimiter = ',')]
    avoid: Vec<String>,
    /// Only this profile
    #[arg(long, value_enum)]
    profile: Option<ProfileName>,
}

impl Arguments {
    fn wish(&self) -> Result<Wish> {
        let known = topics();
        for name in self.only.iter().chain(&self.without) {
            if !known.contains(&name.as_str()) {
                bail!("no topic {name}: there are {}", known.join(", "));
            }
        }
        let profile = self.profile.map(|name| match name {
            ProfileName::One => Profile::One,
            ProfileName::Split => Profile::Split,
            ProfileName::Rules => Profile::Rules,
        });
        let (only, without) = (self.only.clone(), self.without.clone());
        Ok(Wish { only, without, avoid: self.avoid.clone(), profile })
    }

    /// What replays this hunt's seeds.
    fn command(&self, family: Flavour, seed: u64) -> String {
        let mut text = format!("cargo xtask adversary --family {} --seed {seed}", family.name());
        for (name, list) in
            [("only", &self.only), ("without", &self.without), ("avoid", &self.avoid)]
        {
            if !list.is_empty() {
                text += &format!(" --{name} '{}'", list.join(","));
            }
        }
        if let Some(profile) = self.profile {
            text += &format!(" --profile {}", format!("{profile:?}").to_lowercase());
        }
        text
    }
}

fn main() -> ExitCode {
    match begin(&Arguments::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("adversary: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what was asked for; how many programs differed.
fn begin(arguments: &Arguments) -> Result<u64> {
    if let Some(path) = &arguments.script {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        return scripts(arguments, &Plan::read_all(&text)?);
    }
    let families: &[Flavour] = match arguments.family {
        Family::Mariadb => &[Flavour::MariaDb],
        Family::Mysql => &[Flavour::MySql],
        Family::Both => &[Flavour::MariaDb, Flavour::MySql],
    };
    let mut differences = 0;
    for family in families {
        let found = match family {
            Flavour::MariaDb => mariadb_available(),
            Flavour::MySql => mysql_available(),
        };
        if let Err(reason) = found {
            println!("SKIPPED: {}: {reason}", family.name());
            continue;
        }
        differences += hunt(arguments, *family)?;
        if differences > 0 && !arguments.keep_going {
            break;
        }
    }
    Ok(differences)
}

fn scripts(arguments: &Arguments, plans: &[Plan]) -> Result<u64> {
    let mut differences = 0;
    for family in [Flavour::MariaDb, Flavour::MySql] {
        let plans: Vec<_> = plans.iter().filter(|plan| plan.family == family).collect();
        if plans.is_empty() {
            continue;
        }
        let mut hunt = Hunt::start(family, Wish::default(), !arguments.no_shrink)?;
        for (number, plan) in (0..).zip(plans) {
            match hunt.plan(number, plan)? {
                Some(finding) => show(&finding, "the same command"),
                None => println!("---- {number}: no difference"),
            }
        }
        println!("{}: {}", family.name(), line(&hunt.tally));
        differences += hunt.tally.differences;
    }
    Ok(differences)
}

fn hunt(arguments: &Arguments, family: Flavour) -> Result<u64> {
    let wish = arguments.wish()?;
    if let Some(seed) = arguments.seed.filter(|_| arguments.print) {
        print!("{}", trunkline_adversary::draw(seed, family, &wish));
        return Ok(0);
    }
    let mut hunt = Hunt::start(family, wish, !arguments.no_shrink)?;
    if let Some(seed) = arguments.seed {
        match hunt.seed(seed)? {
            Some(finding) => show(&finding, &arguments.command(family, seed)),
            None => println!("{}: seed {seed}: no difference", family.name()),
        }
        return Ok(hunt.tally.differences);
    }
    let first = arguments.first.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs() * 1_000
    });
    let mut kinds = BTreeSet::new();
    let mut logged = Instant::now();
    let progress = |tally: &Tally| {
        if logged.elapsed() >= LOGGED_EVERY {
            logged = Instant::now();
            println!("{}: {}", family.name(), line(tally));
        }
    };
    let found = |finding: &Finding| {
        if kinds.insert(kind(finding)) {
            show(finding, &arguments.command(family, finding.seed));
        }
        !arguments.keep_going
    };
    let failed = |seed: u64, error: &Error| {
        println!("---- seed {seed}: given up, servers are started anew: {error:#}");
    };
    let time = Duration::from_secs(arguments.seconds);
    let outcome = hunt.hunt(first, time, progress, found, failed);
    println!("{}: {} ({} kinds)", family.name(), line(&hunt.tally), kinds.len());
    outcome?;
    Ok(hunt.tally.differences)
}

fn line(tally: &Tally) -> String {
    format!(
        "{} programs, {} statements, {} given up, {} differences, {} of them unsteady, \
         {} times new servers",
        tally.programs,
        tally.statements,
        tally.given_up,
        tally.differences,
        tally.unsteady,
        tally.restarts
    )
}

/// Two findings with the same statements are of a kind, whoever says them and with what numbers.
fn kind(finding: &Finding) -> String {
    let steps = finding.plan.steps.iter().map(|step| step.act.to_string());
    let text: String = steps.collect::<Vec<_>>().join("\n");
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

fn show(finding: &Finding, command: &str) {
    println!("---- seed {}", finding.seed);
    match finding.repeats {
        0 => println!("unsteady: it did not differ in a second run; the whole program:"),
        repeats => println!("repeats {repeats} of 3"),
    }
    print!("{}", finding.plan);
    println!("-- {}", finding.difference.to_string().trim_end().replace('\n', "\n-- "));
    println!("-- again: {command}");
}
