//! Draws a program from a seed.

use std::collections::{HashSet, VecDeque};

use trunkline_testkit::Flavour;

use super::grammar::{Grammar, Topic};
use super::script::act_of;
use super::{Account, Act, Plan, Profile, Step};
use crate::rng::Rng;

/// Steps of a program, about.
const STEPS: u64 = 70;
/// The most sessions.
const SESSIONS_MAX: u64 = 5;
/// How often another line is drawn for one that is not wanted.
const LINES_TRIED: u32 = 100;

/// What programs are drawn from.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Only these topics and those that look; all when empty.
    pub only: Vec<String>,
    /// Not these topics.
    pub without: Vec<String>,
    /// No lines that contain one of these.
    pub avoid: Vec<String>,
    /// Only this profile.
    pub profile: Option<Profile>,
}

impl Wish {
    fn takes(&self, topic: &Topic) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == topic.name);
        let is_wanted = self.only.is_empty() || topic.name == "look" || named(&self.only);
        is_wanted && !named(&self.without)
    }

    fn takes_line(&self, line: &str) -> bool {
        !self.avoid.iter().any(|word| line.contains(word.as_str()))
    }
}

/// The program of a seed.
#[must_use]
pub fn draw(seed: u64, family: Flavour, wish: &Wish) -> Plan {
    let mut rng = Rng::new(seed);
    let profile = match rng.below(10) {
        0..=3 => Profile::One,
        4..=7 => Profile::Split,
        _ => Profile::Rules,
    };
    let profile = wish.profile.unwrap_or(profile);
    let sessions = 2 + rng.below(SESSIONS_MAX - 1);
    let accounts: Vec<Account> =
        (0..sessions).map(|_| if rng.chance(1, 5) { Account::Bob } else { Account::Ada }).collect();
    let setup = schema(&mut rng, family);
    let steps = steps(&mut rng, family, profile, accounts.len(), wish);
    let setup = used(setup, &steps);
    Plan { family, profile, accounts, setup, steps }
}

fn schema(rng: &mut Rng, family: Flavour) -> Vec<String> {
    let grammar = Grammar::schema(family);
    let mut setup = Vec::new();
    for topic in &grammar.topics {
        for line in &topic.lines {
            let text = grammar.fill(line, rng);
            if rng.chance(topic.weight, 100) {
                setup.extend(text.split(";;").map(|one| one.trim().to_owned()));
            }
        }
    }
    setup
}

/// What the steps name, and what that names in turn: making the schema takes most of the time.
pub(crate) fn used(setup: Vec<String>, steps: &[Step]) -> Vec<String> {
    let mut text: String = steps.iter().map(|step| format!("{}\n", step.act)).collect();
    let mut kept = vec![false; setup.len()];
    loop {
        let words: HashSet<String> = words(&text).map(str::to_owned).collect();
        let before = text.len();
        for (statement, kept) in setup.iter().zip(&mut kept) {
            let object = object(statement);
            if !*kept && words.contains(&object) {
                *kept = true;
                text += statement;
                text.push('\n');
            }
        }
        if text.len() == before {
            break;
        }
    }
    setup.into_iter().zip(kept).filter_map(|(statement, kept)| kept.then_some(statement)).collect()
}

/// The name that a statement of the schema is about: what it makes, or fills; a trigger's table.
fn object(statement: &str) -> String {
    let mut names = words(statement);
    let name = match statement.split_once(" ON ") {
        Some((_, table)) if statement.starts_with("CREATE TRIGGER") => words(table).next(),
        _ => names.nth(2),
    };
    name.unwrap_or_default().to_owned()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

fn steps(
    rng: &mut Rng,
    family: Flavour,
    profile: Profile,
    sessions: usize,
    wish: &Wish,
) -> Vec<Step> {
    let grammar = Grammar::statements(family);
    // A program has few topics, so that what belongs together meets.
    let topics: Vec<&Topic> = grammar
        .topics
        .iter()
        .filter(|topic| wish.takes(topic) && (topic.name == "look" || rng.chance(1, 2)))
        .filter(|topic| profile == Profile::One || !topic.name.starts_with("one-"))
        .collect();
    let total = topics.iter().map(|topic| topic.weight).sum();
    let count = STEPS / 2 + rng.below(STEPS);
    let mut waiting: Vec<VecDeque<String>> = vec![VecDeque::new(); sessions];
    let mut steps = Vec::new();
    let mut session = 0;
    while u64::try_from(steps.len()).unwrap_or(u64::MAX) < count && total > 0 {
        // Somebody else in two cases of three.
        if rng.chance(2, 3) {
            session = rng.index(sessions);
        }
        let Some(queue) = waiting.get_mut(session) else { break };
        if queue.is_empty() || rng.chance(1, 6) {
            let line = line(rng, &topics, total, wish);
            let text = grammar.fill(line, rng);
            let text = if wish.takes_line(&text) { text } else { ".ping".to_owned() };
            queue.extend(text.split(";;").map(|one| one.trim().to_owned()));
        }
        let Some(text) = queue.pop_front() else { continue };
        let other = Plan::session_name(rng.index(sessions));
        let text = text.replace("<other>", &other.to_string());
        if let Ok(act) = act_of(&text) {
            let act = match act {
                Act::Query(text) if rng.chance(1, 10) => prepared(text, wish),
                act => act,
            };
            let is_global = matches!(&act, Act::Query(text) | Act::Prepared(text)
                if text.starts_with(b"SET GLOBAL"));
            steps.push(Step { session, act });
            if is_global {
                // Sessions that are older follow their connections.
                steps.extend((0..sessions).map(|session| Step { session, act: Act::Reconnect }));
            }
        }
    }
    steps
}

/// A text as a prepared statement, where it can be one: the proxy does not prepare a `KILL`, and a
/// prepared `GET DIAGNOSTICS` is told of its connection.
fn prepared(text: Vec<u8>, wish: &Wish) -> Act {
    let is_left = text.starts_with(b"KILL") || text.starts_with(b"GET");
    let act = Act::Prepared(text.clone());
    match is_left || !wish.takes_line(&act.to_string()) {
        true => Act::Query(text),
        false => act,
    }
}

fn line(rng: &mut Rng, topics: &[&Topic], total: u64, wish: &Wish) -> &'static str {
    for _ in 0..LINES_TRIED {
        let mut at = rng.below(total);
        let topic = topics.iter().find(|topic| {
            let is_here = at < topic.weight;
            at = at.saturating_sub(topic.weight);
            is_here
        });
        let lines = topic.map(|topic| topic.lines.as_slice()).unwrap_or_default();
        match rng.pick(lines) {
            Some(line) if wish.takes_line(line) => return line,
            Some(_) => {}
            None => break,
        }
    }
    ".ping"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_program_again() {
        for family in [Flavour::MariaDb, Flavour::MySql] {
            for seed in 0..60 {
                let plan = draw(seed, family, &Wish::default());
                assert_eq!(plan, draw(seed, family, &Wish::default()));
                assert_eq!(Plan::read(&plan.to_string()).unwrap(), plan, "seed {seed}");
                assert!(plan.steps.iter().all(|step| step.session < plan.accounts.len()));
            }
        }
    }
}
