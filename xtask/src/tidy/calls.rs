//! The worker's methods call downwards only: no chain of calls comes back to where it began.
//!
//! Finishing one client's statement must never run another's on its stack; whatever has become due
//! is pushed as a wake instead (`crates/worker/src/incoming.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Finding;
use super::lexer::{is_word, lines};
use super::tree::Text;

/// Where the methods are that are looked at.
const SOURCES: &str = "crates/worker/src";

/// One method of the worker.
struct Method {
    path: PathBuf,
    line: usize,
    /// Names that are called as methods of the worker.
    calls: BTreeSet<String>,
}

/// A finding for each group of methods that call each other in a circle.
pub fn check(files: &[Text]) -> Vec<Finding> {
    let mut methods = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.starts_with(SOURCES)) {
        collect(&file.path, &file.text, &mut methods);
    }
    circles(&methods)
        .into_iter()
        .filter_map(|circle| {
            let first = methods.get(circle.first()?)?;
            let message = format!("methods of Worker that call each other: {}", circle.join(", "));
            Some(Finding::error(&first.path, first.line, message))
        })
        .collect()
}

/// Adds the methods of one file. They stand in `impl Worker` blocks, indented by four spaces.
fn collect(path: &Path, text: &str, methods: &mut BTreeMap<String, Method>) {
    let (mut is_inside, mut current) = (false, None);
    for (number, line) in (1..).zip(lines(text)) {
        let code = line.code.as_str();
        match code {
            "impl Worker {" => is_inside = true,
            "}" => (is_inside, current) = (false, None),
            _ => {}
        }
        if !is_inside {
            continue;
        }
        let is_indented = code.starts_with("    ") && !code.starts_with("     ");
        if let Some(name) = declared(code).filter(|_| is_indented) {
            let method = Method { path: path.to_owned(), line: number, calls: BTreeSet::new() };
            methods.insert(name.to_owned(), method);
            current = Some(name.to_owned());
        }
        if let Some(method) = current.as_ref().and_then(|name| methods.get_mut(name)) {
            method.calls.extend(called(code));
        }
    }
}

/// The name of the function that is declared in a line.
fn declared(code: &str) -> Option<&str> {
    let (before, rest) = code.split_once("fn ")?;
    let is_head = before
        .split_whitespace()
        .all(|word| word.starts_with("pub") || word == "const" || word.ends_with(')'));
    let name = rest.split(|c: char| !is_word(c)).next()?;
    (is_head && !name.is_empty()).then_some(name)
}

/// What is called as `self.name(`, `worker.name(`, or named as `Self::name`.
fn called(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for receiver in ["self.", "worker.", "Self::"] {
        for (at, _) in code.match_indices(receiver) {
            let rest = code.get(at + receiver.len()..).unwrap_or_default();
            let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
            let is_call = rest.get(name.len()..).is_some_and(|rest| rest.starts_with('('));
            if is_call || receiver == "Self::" {
                found.push(name);
            }
        }
    }
    found
}

/// Groups of methods in which each is reached from each other, and methods that call themselves.
fn circles(methods: &BTreeMap<String, Method>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        methods.keys().map(|name| (name, reach(methods, name))).collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, from_here) in &reached {
        if !from_here.contains(name) || !seen.insert(*name) {
            continue;
        }
        let returns = |other: &&&String| reached.get(**other).is_some_and(|it| it.contains(name));
        let circle: Vec<_> = from_here.iter().filter(returns).copied().collect();
        seen.extend(&circle);
        circles.push(circle.into_iter().cloned().collect());
    }
    circles
}

/// All that is called from `name`, and from there.
fn reach<'a>(methods: &'a BTreeMap<String, Method>, name: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![name];
    while let Some(name) = open.pop() {
        let calls = methods.get(name).into_iter().flat_map(|method| &method.calls);
        for call in calls.filter(|call| methods.contains_key(*call)) {
            if reached.insert(call) {
                open.push(call);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let path = Path::new(SOURCES).join("x.rs");
        let found = check(&[Text { path, text: text.to_owned() }]);
        found.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn calls_that_come_back_are_found() {
        let text = "impl Worker {\n    fn a(&mut self) {\n        self.b();\n    }\n\n    pub(crate) fn \
                    b(&self) {\n        self.c(1)\n    }\n    fn c(&self, x: u8) {\n        \
                    self.a();\n        self.d();\n    }\n    fn d(&self) {}\n}\n";
        assert_eq!(findings(text), ["methods of Worker that call each other: a, b, c"]);
        let text = text.replace("self.a()", "// self.a()");
        assert!(findings(&text).is_empty());
        let other = text.replace("impl Worker", "impl Other");
        assert!(findings(&other).is_empty());
    }
}
