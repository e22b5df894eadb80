//! The parts and folders of the worker (`docs/decisions/0048`): nothing calls outwards or back.
//!
//! Checked are: no chain of calls between methods comes back to where it began, nor between
//! folders; `impl Worker` stands in three files; nothing is `pub(crate)` that only its own folder
//! uses; no struct has more than a dozen fields, but for plain records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Finding;
use super::lexer::{is_word, lines};
use super::tree::Text;

/// Where the worker's files are.
const SOURCES: &str = "crates/worker/src";
/// Files that may have `impl Worker`.
const OF_WORKER: [&str; 3] = ["worker.rs", "incoming.rs", "tick.rs"];
/// Parts of the worker; their methods are what is looked at.
const PARTS: [&str; 12] = [
    "Worker",
    "Commands",
    "Exchange",
    "Core",
    "Clients",
    "Servers",
    "Env",
    "Effects",
    "Statements",
    "Router",
    "Mirrors",
    "Upkeep",
];
/// Fields by which a method reaches a part.
const FIELDS: [&str; 11] = [
    "commands",
    "exchange",
    "core",
    "clients",
    "servers",
    "env",
    "fx",
    "statements",
    "router",
    "mirrors",
    "upkeep",
];
/// Files that stand beside the folders: each calls the folders, and is called by none.
const OUTERMOST: [&str; 4] = ["worker", "incoming", "tick", "bytes"];
/// Structs of more fields: data that is made once and only read, or that moves as a whole.
const RECORDS: [&str; 5] = ["Known", "MovedConn", "MovedSession", "QueryEvent", "Shared"];
const FIELDS_MAX: usize = 12;

/// One method of a part.
struct Method {
    path: PathBuf,
    line: usize,
    /// Names that are called as methods of a part.
    calls: BTreeSet<String>,
}

/// All findings in the worker's files.
pub fn check(files: &[Text]) -> Vec<Finding> {
    let files: Vec<_> = files
        .iter()
        .filter(|file| file.path.starts_with(SOURCES) && !is_test(&file.path))
        .collect();
    let mut findings = Vec::new();
    let mut methods = BTreeMap::new();
    for file in &files {
        collect(file, &mut methods, &mut findings);
        findings.extend(check_fields(file));
    }
    findings.extend(check_visibility(&files));
    let calls: BTreeMap<String, BTreeSet<String>> =
        methods.iter().map(|(name, method)| (name.clone(), method.calls.clone())).collect();
    for circle in circles(&calls) {
        let Some(first) = circle.first().and_then(|name| methods.get(name)) else { continue };
        let message = format!("methods that call each other: {}", circle.join(", "));
        findings.push(Finding::error(&first.path, first.line, message));
    }
    findings.extend(check_folders(&methods));
    findings
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests"))
}

/// The folder of a file, or its own name where it stands beside the folders.
fn own_folder(path: &Path) -> String {
    let inner = path.strip_prefix(SOURCES).unwrap_or(path);
    let first = inner.components().next().map(|part| part.as_os_str().to_string_lossy());
    first.unwrap_or_default().trim_end_matches(".rs").to_owned()
}

/// The folder of a file; files that call all folders have one name, `worker`.
fn folder_of(path: &Path) -> String {
    let folder = own_folder(path);
    match OUTERMOST.contains(&folder.as_str()) {
        true => "worker".to_owned(),
        false => folder,
    }
}

/// Adds the methods of one file. They stand in `impl` blocks of a part, indented by four spaces.
fn collect(file: &Text, methods: &mut BTreeMap<String, Method>, findings: &mut Vec<Finding>) {
    let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (mut part, mut current): (Option<&str>, Option<String>) = (None, None);
    let mut body = String::new();
    let close = |current: &mut Option<String>,
                 body: &mut String,
                 methods: &mut BTreeMap<String, Method>| {
        if let Some((name, method)) =
            current.take().and_then(|name| methods.get_mut(&name).map(|method| (name, method)))
        {
            method.calls = called(body, name.starts_with("Worker::"));
        }
        body.clear();
    };
    for (number, line) in (1..).zip(lines(&file.text)) {
        let code = line.code.trim_end();
        if let Some(of) = code.strip_prefix("impl ").and_then(|rest| rest.strip_suffix(" {")) {
            part = PARTS.into_iter().find(|part| *part == of);
            let is_outermost = part == Some("Worker");
            if is_outermost && !name.as_deref().is_some_and(|name| OF_WORKER.contains(&name)) {
                let message = format!("`impl Worker` belongs in {}", OF_WORKER.join(", "));
                findings.push(Finding::error(&file.path, number, message));
            }
        } else if code == "}" {
            close(&mut current, &mut body, methods);
            part = None;
        }
        let Some(part) = part else { continue };
        let is_indented = code.starts_with("    ") && !code.starts_with("     ");
        if let Some(declared) = declared(code).filter(|_| is_indented) {
            close(&mut current, &mut body, methods);
            // The worker's interface has methods of the same names as its parts.
            let key =
                if part == "Worker" { format!("Worker::{declared}") } else { declared.into() };
            let method = Method { path: file.path.clone(), line: number, calls: BTreeSet::new() };
            methods.insert(key.clone(), method);
            current = Some(key);
        } else if current.is_some() {
            body.push_str(code.trim());
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

/// What is called as a method of a part: `self.name(`, `self.core.servers.name(`, `Self::name`.
/// `is_workers`: in a method of the worker itself.
fn called(body: &str, is_workers: bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for receiver in ["self", "worker", "Self"] {
        for (at, _) in body.match_indices(receiver) {
            let before = body.get(..at).and_then(|text| text.chars().next_back());
            if before.is_some_and(|c| is_word(c) || c == '.') {
                continue;
            }
            let mut rest = body.get(at + receiver.len()..).unwrap_or_default();
            let separator = if receiver == "Self" { "::" } else { "." };
            let mut is_direct = true;
            while let Some(behind) = rest.trim_start().strip_prefix(separator) {
                let behind = behind.trim_start();
                let end = behind.find(|c: char| !is_word(c)).unwrap_or(behind.len());
                let (name, after) = behind.split_at(end);
                if after.starts_with('(') || receiver == "Self" {
                    found.insert(match is_workers && is_direct {
                        true => format!("Worker::{name}"),
                        false => name.to_owned(),
                    });
                    break;
                }
                if !FIELDS.contains(&name) {
                    break;
                }
                is_direct = false;
                rest = after;
            }
        }
    }
    found
}

/// A finding for each group of folders in which each calls the other.
fn check_folders(methods: &BTreeMap<String, Method>) -> Vec<Finding> {
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for method in methods.values() {
        let from = folder_of(&method.path);
        let to = method.calls.iter().filter_map(|name| methods.get(name));
        let to = to.map(|method| folder_of(&method.path)).filter(|to| *to != from);
        folders.entry(from.clone()).or_default().extend(to);
    }
    circles(&folders)
        .into_iter()
        .map(|circle| {
            let example = circle.first().zip(circle.get(1)).and_then(|(one, other)| {
                methods.iter().find_map(|(name, method)| {
                    let calls = |call: &&String| {
                        methods.get(*call).is_some_and(|it| folder_of(&it.path) == *other)
                    };
                    let call = method.calls.iter().find(calls)?;
                    (folder_of(&method.path) == *one).then(|| format!(" ({name} calls {call})"))
                })
            });
            let message = format!(
                "folders of the worker that call each other: {}{}",
                circle.join(", "),
                example.unwrap_or_default()
            );
            Finding::error(Path::new(SOURCES), 0, message)
        })
        .collect()
}

/// Findings for structs of too many fields.
fn check_fields(file: &Text) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut current: Option<(String, usize, usize)> = None;
    for (number, line) in (1..).zip(lines(&file.text)) {
        let code = line.code.trim_end();
        let opens = code.ends_with('{') && !code.starts_with(' ');
        if let Some((_, rest)) = code.split_once("struct ").filter(|_| opens) {
            let name = rest.split(|c: char| !is_word(c)).next().unwrap_or_default();
            current = Some((name.to_owned(), number, 0));
        } else if code == "}" {
            if let Some((name, at, count)) = current.take()
                && count > FIELDS_MAX
                && !RECORDS.contains(&name.as_str())
            {
                let message = format!("{name} has {count} fields; {FIELDS_MAX} are allowed");
                findings.push(Finding::error(&file.path, at, message));
            }
        } else if let Some((.., count)) = current.as_mut() {
            let is_field = code.starts_with("    ")
                && !code.starts_with("     ")
                && code.split_once(": ").is_some_and(|(name, _)| {
                    let name = name.trim().rsplit(' ').next().unwrap_or_default();
                    !name.is_empty() && name.chars().all(is_word)
                });
            *count += usize::from(is_field);
        }
    }
    findings
}

/// Findings for what is `pub(crate)` and named in no other folder. A name that means several
/// things is used wherever one of them is.
fn check_visibility(files: &[&Text]) -> Vec<Finding> {
    let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut declared_at = Vec::new();
    for file in files {
        let folder = own_folder(&file.path);
        for (number, line) in (1..).zip(lines(&file.text)) {
            for word in line.code.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()) {
                words.entry(word.to_owned()).or_default().insert(folder.clone());
            }
            if let Some(name) = visible(line.code.trim()) {
                declared_at.push((name.to_owned(), file, number, folder.clone()));
            }
        }
    }
    declared_at
        .into_iter()
        .filter(|(name, .., folder)| {
            words.get(name).is_none_or(|folders| folders.iter().all(|used| used == folder))
        })
        .map(|(name, file, number, _)| {
            let message = format!("`{name}` is pub(crate), and only its own folder uses it");
            Finding::error(&file.path, number, message)
        })
        .collect()
}

/// The name of what a line declares as `pub(crate)`; types, modules and re-exports are not looked
/// at.
fn visible(code: &str) -> Option<&str> {
    let rest = code.strip_prefix("pub(crate) ")?;
    let kinds = ["const fn ", "fn ", "const ", "static "];
    let named = kinds.iter().find_map(|kind| rest.strip_prefix(kind));
    // A type is as visible as what has it.
    let others = ["mod ", "use ", "struct ", "enum ", "trait ", "type "];
    let is_other = others.iter().any(|kind| rest.starts_with(kind));
    let name = match named {
        Some(rest) => rest.split(|c: char| !is_word(c)).next()?,
        None => rest.split_once(": ").map(|(name, _)| name).filter(|_| !is_other)?,
    };
    name.chars().all(is_word).then_some(name)
}

/// Groups of names of which each is reached from each other, and names that reach themselves.
fn circles(calls: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        calls.keys().map(|name| (name, reach(calls, name))).collect();
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
fn reach<'a>(calls: &'a BTreeMap<String, BTreeSet<String>>, name: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![name];
    while let Some(name) = open.pop() {
        for call in calls.get(name).into_iter().flatten() {
            if let Some((call, _)) = calls.get_key_value(call)
                && reached.insert(call)
            {
                open.push(call);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let texts: Vec<_> = files
            .iter()
            .map(|(name, text)| Text {
                path: Path::new(SOURCES).join(name),
                text: (*text).to_owned(),
            })
            .collect();
        check(&texts).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn calls_that_come_back_are_found() {
        let text = "impl Core {\n    fn a(&mut self) {\n        self.b();\n    }\n\n    fn \
                    b(&self) {\n        self\n            .servers\n            .c(1)\n    }\n}\n\
                    impl Servers {\n    fn c(&self, x: u8) {\n        self.a();\n        \
                    self.d();\n    }\n    fn d(&self) {}\n}\n";
        assert_eq!(findings(&[("x.rs", text)]), ["methods that call each other: a, b, c"]);
        let text = text.replace("self.a()", "// self.a()");
        assert_eq!(findings(&[("x.rs", &text)]), [] as [&str; 0]);
    }

    #[test]
    fn an_interface_may_have_the_names_of_its_parts() {
        let text = "impl Worker {\n    fn a(&mut self) {\n        self.commands.a()\n    }\n}\n\
                    impl Commands {\n    fn a(&mut self) {}\n}\n";
        assert_eq!(findings(&[("worker.rs", text)]), [] as [&str; 0]);
    }

    #[test]
    fn folders_that_call_each_other_are_found() {
        let one = "impl Core {\n    fn a(&mut self) {\n        self.b()\n    }\n    fn d(&self) \
                   {}\n}\n";
        let other = "impl Core {\n    fn b(&mut self) {}\n    fn c(&mut self) {\n        \
                     self.d()\n    }\n}\n";
        let found = findings(&[("one/x.rs", one), ("other/y.rs", other)]);
        let message = "folders of the worker that call each other: one, other (a calls b)";
        assert_eq!(found, [message]);
        assert_eq!(findings(&[("one/x.rs", one), ("one/y.rs", other)]), [] as [&str; 0]);
    }

    #[test]
    fn the_worker_stands_in_three_files() {
        let text = "impl Worker {\n}\n";
        assert_eq!(findings(&[("tick.rs", text)]), [] as [&str; 0]);
        let message = "`impl Worker` belongs in worker.rs, incoming.rs, tick.rs";
        assert_eq!(findings(&[("servers/x.rs", text)]), [message]);
    }

    #[test]
    fn what_is_visible_too_far_and_what_has_too_many_fields_is_found() {
        let fields: String = (0..13).map(|n| format!("    f{n}: u8,\n")).collect();
        let text = format!("struct Large {{\n{fields}}}\n");
        assert_eq!(findings(&[("x.rs", &text)]), ["Large has 13 fields; 12 are allowed"]);
        let one = "pub(crate) fn used() {}\npub(crate) fn alone() {}\n";
        let found = findings(&[("one/x.rs", one), ("other.rs", "fn x() { used() }\n")]);
        assert_eq!(found, ["`alone` is pub(crate), and only its own folder uses it"]);
    }
}
