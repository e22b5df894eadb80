//! `LOAD` and `SAVE`: what is moved, from where, to where.

use trunkline_store::{Layer, Module};

use super::{Command, Statement, text::Text};

/// Where rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Another layer.
    Layer(Layer),
    /// The configuration file.
    ConfigFile,
    /// An earlier revision.
    Revision(i64),
}

/// One `LOAD` or `SAVE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Movement {
    /// What is moved.
    pub module: Module,
    /// From where.
    pub from: Origin,
    /// To where.
    pub to: Layer,
}

/// Reads a statement that begins with `LOAD` or `SAVE`, in any of its spellings.
///
/// # Errors
/// What there is instead of what was written.
pub fn parse(text: &Text, words: &[String]) -> Result<Statement, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [verb, rest @ ..] = words.as_slice() else { return Ok(Statement::Empty) };
    if let ["CONFIG", "TO", "FILE", _] = rest {
        // As it is written: a path is no word.
        let path = text.spelled().pop().unwrap_or_default();
        let path = super::text::unquoted(&path).to_owned();
        return Ok(Statement::Command(Command::SaveConfig(path)));
    }
    if let (&"SAVE", ["MYSQL", "DIGEST", "TO", "DISK"]) = (verb, rest) {
        return Ok(Statement::Command(Command::SaveDigests));
    }
    let at = rest.iter().position(|word| matches!(*word, "FROM" | "TO"));
    let Some((names, [direction, place @ ..])) = at.and_then(|at| rest.split_at_checked(at)) else {
        return Err(format!("{verb} wants FROM or TO, and a layer"));
    };
    let module = module(&names.join(" "))?;
    let (from, to) = ends(verb, direction, place)?;
    Ok(Statement::Move(Movement { module, from, to }))
}

/// The name in `LOAD MYSQL USER name TO RUNTIME`; `None` when it is another statement.
///
/// # Errors
/// A name that ProxySQL would refuse, and is not quoted.
pub fn user(text: &Text, words: &[String]) -> Result<Option<String>, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (["LOAD", "MYSQL", "USER", _, "TO", "RUNTIME" | "RUN"]
    | ["LOAD", "MYSQL", "USER", _, "FROM", "MEMORY" | "MEM"]) = words.as_slice()
    else {
        return Ok(None);
    };
    let name = text.spelled().get(3).cloned().unwrap_or_default();
    let bare = super::text::unquoted(&name).to_owned();
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-+_".contains(char);
    match bare != name || name.chars().all(is_plain) {
        true => Ok(Some(bare)),
        false => Err(format!("Invalid name {name}")),
    }
}

fn module(name: &str) -> Result<Module, String> {
    let found = Module::ALL.into_iter().find(|module| module.name() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = Module::ALL.iter().map(|module| module.name()).collect();
        format!("there is nothing called `{name}` to load or save; there is {}", names.join(", "))
    })
}

fn ends(verb: &str, direction: &str, place: &[&str]) -> Result<(Origin, Layer), String> {
    use Layer::{Disk, Memory, Runtime};
    let layer = Origin::Layer;
    Ok(match (verb, direction, place) {
        ("LOAD", "FROM", ["DISK"]) | ("LOAD", "TO", ["MEMORY" | "MEM"]) => (layer(Disk), Memory),
        ("SAVE", "TO", ["DISK"]) | ("SAVE", "FROM", ["MEMORY" | "MEM"]) => (layer(Memory), Disk),
        ("LOAD", "TO", ["RUNTIME" | "RUN"]) | ("LOAD", "FROM", ["MEMORY" | "MEM"]) => {
            (layer(Memory), Runtime)
        }
        ("SAVE", "FROM", ["RUNTIME" | "RUN"]) | ("SAVE", "TO", ["MEMORY" | "MEM"]) => {
            (layer(Runtime), Memory)
        }
        ("LOAD", "FROM", ["CONFIG"]) => (Origin::ConfigFile, Memory),
        ("LOAD", "FROM", ["REVISION", number]) => {
            let number = number.parse();
            (Origin::Revision(number.map_err(|_| "a revision is a number".to_owned())?), Memory)
        }
        _ => {
            let place = place.join(" ");
            return Err(format!("{verb} can't go {direction} `{place}`"));
        }
    })
}
