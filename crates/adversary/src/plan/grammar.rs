//! Reads the two files that say what is drawn: the schema and the statements.
//!
//! | line | means |
//! |---|---|
//! | `# …` | a comment |
//! | `set NAME = a \| b \| c` | `{NAME}` stands for one of these |
//! | `[TOPIC WEIGHT]` | the lines below are of this topic, drawn as often as its weight says |
//! | `* TEXT` | for both families |
//! | `M TEXT`, `Y TEXT` | for MariaDB, for MySQL |
//!
//! In a text `{a|b}` is one of these, and `;;` parts what one session does in several steps. A
//! byte that is not ASCII is `\xNN`.

use std::collections::BTreeMap;

use trunkline_testkit::Flavour;

use crate::rng::Rng;

const STATEMENTS: &str = include_str!("statements.txt");
const SCHEMA: &str = include_str!("schema.txt");
/// How deep sets may name sets.
const DEPTH_MAX: u32 = 8;

/// Lines of one kind.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Its name.
    pub name: &'static str,
    /// How often it is drawn.
    pub weight: u64,
    /// Its lines for one family.
    pub lines: Vec<&'static str>,
}

/// A file that was read for one family.
#[derive(Clone, Debug)]
pub struct Grammar {
    /// Its topics, in the order of the file.
    pub topics: Vec<Topic>,
    sets: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Grammar {
    /// The statements of sessions.
    pub fn statements(family: Flavour) -> Grammar {
        read(STATEMENTS, family)
    }

    /// The statements that make the schema; a topic's weight is how many programs in a hundred
    /// have each of its lines.
    pub fn schema(family: Flavour) -> Grammar {
        read(SCHEMA, family)
    }

    /// Puts something into each pair of braces.
    pub fn fill(&self, line: &str, rng: &mut Rng) -> String {
        let mut out = String::new();
        self.fill_into(line, rng, DEPTH_MAX, &mut out);
        out
    }

    fn fill_into(&self, line: &str, rng: &mut Rng, depth: u32, out: &mut String) {
        let mut rest = line;
        while let Some((before, behind)) = rest.split_once('{') {
            let Some((inside, after)) = behind.split_once('}') else { break };
            out.push_str(before);
            let choices = match self.sets.get(inside) {
                Some(set) => set.clone(),
                None => inside.split('|').collect(),
            };
            let chosen = rng.pick(&choices).copied().unwrap_or_default();
            match depth {
                0 => out.push_str(chosen),
                _ => self.fill_into(chosen, rng, depth - 1, out),
            }
            rest = after;
        }
        out.push_str(rest);
    }
}

/// The names of all topics of statements.
#[must_use]
pub fn topics() -> Vec<&'static str> {
    Grammar::statements(Flavour::MariaDb).topics.iter().map(|topic| topic.name).collect()
}

/// Parts at each bar that is not within braces.
fn alternatives(text: &'static str) -> Vec<&'static str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b'|' if depth == 0 => {
                parts.push(text.get(from..at).unwrap_or_default().trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(from..).unwrap_or_default().trim());
    parts
}

fn read(text: &'static str, family: Flavour) -> Grammar {
    let mut grammar = Grammar { topics: Vec::new(), sets: BTreeMap::new() };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(set) = line.strip_prefix("set ") {
            let (name, values) = set.split_once('=').unwrap_or_default();
            grammar.sets.insert(name.trim(), alternatives(values));
        } else if let Some(head) = line.strip_prefix('[') {
            let (name, weight) = head.trim_end_matches(']').split_once(' ').unwrap_or_default();
            let weight = weight.trim().parse().unwrap_or(1);
            grammar.topics.push(Topic { name, weight, lines: Vec::new() });
        } else if let Some(topic) = grammar.topics.last_mut() {
            let (mark, rest) = line.split_once(' ').unwrap_or_default();
            let is_ours = match mark {
                "*" => true,
                "M" => family == Flavour::MariaDb,
                "Y" => family == Flavour::MySql,
                _ => false,
            };
            if is_ours {
                topic.lines.push(rest.trim());
            }
        }
    }
    grammar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_files_is_understood() {
        for text in [STATEMENTS, SCHEMA] {
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let is_known =
                    ["#", "set ", "[", "* ", "M ", "Y "].iter().any(|mark| line.starts_with(mark));
                assert!(is_known, "{line}");
            }
        }
        for family in [Flavour::MariaDb, Flavour::MySql] {
            let mut rng = Rng::new(1);
            for grammar in [Grammar::statements(family), Grammar::schema(family)] {
                for line in grammar.topics.iter().flat_map(|topic| &topic.lines) {
                    let text = grammar.fill(line, &mut rng);
                    assert!(!text.contains(['{', '}']), "{line}: {text}");
                }
            }
        }
    }
}
