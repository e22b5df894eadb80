//! The house style of one text.

use std::path::Path;

use super::Finding;
use super::lexer::{Line, is_word, lines};
use super::tree::Text;

/// Lines of a file: more is an error, more than the second is worth a thought.
const FILE_LINES_MAX: usize = 1_000;
const FILE_LINES_WANTED: usize = 600;
/// Lines of a function, signature and braces included.
const FUNCTION_LINES_WANTED: usize = 70;
/// A comment that begins so says why what stands behind it is longer than that: a function's, among
/// its other comments and attributes; a file's, before its first line of code.
const LONG: &str = "// long: ";
/// Characters of a line; what stands inside string literals doesn't count.
const LINE_WIDTH_MAX: usize = 100;
/// Characters in a line of Markdown outside tables.
const PROSE_WIDTH_MAX: usize = 200;

/// Names that say nothing.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "misc", "common", "manager", "managers", "helper", "helpers"];

/// What a pure crate doesn't touch: everything comes in as an argument.
const IMPURE: [(&str, &str); 15] = [
    ("TcpStream", "a socket"),
    ("TcpListener", "a socket"),
    ("UdpSocket", "a socket"),
    ("UnixStream", "a socket"),
    ("UnixListener", "a socket"),
    ("Instant::now", "the clock"),
    ("SystemTime::now", "the clock"),
    ("std::thread", "threads"),
    ("thread::spawn", "threads"),
    ("thread_local", "a global"),
    ("static mut", "a global"),
    ("std::fs", "files"),
    ("std::env", "the environment"),
    ("tokio", "an executor"),
    ("async", "an executor"),
];

/// Paths that belong to one person's machine: home folders, and this workspace's own place.
pub fn private_paths(root: &Path) -> Vec<String> {
    // Put together here, so that this very line isn't found.
    let mut paths = vec![["", "home", ""].join("/"), ["", "Users", ""].join("/")];
    let home = std::env::var("HOME").unwrap_or_default();
    for place in [home.as_str(), &root.to_string_lossy()] {
        // A clone in `/app` must not forbid that word.
        let depth = place.split('/').filter(|part| !part.is_empty()).count();
        if depth >= 2 || place == ["", "root"].join("/") {
            paths.push(format!("{}/", place.trim_end_matches('/')));
        }
    }
    paths
}

/// All findings of one text. `layer` is that of its crate.
pub fn check(file: &Text, layer: Option<u64>, private: &[String]) -> Vec<Finding> {
    let mut findings = check_paths(file, private);
    if file.path.extension().is_some_and(|extension| extension == "rs") {
        findings.extend(check_rust(file, layer));
    }
    if file.path.extension().is_some_and(|extension| extension == "md") {
        findings.extend(check_prose(file));
    }
    findings
}

/// Lines of prose are short enough to be read and compared; rows of tables can't be broken.
fn check_prose(file: &Text) -> Vec<Finding> {
    let long = |line: &str| {
        let width = line.chars().count();
        (width > PROSE_WIDTH_MAX && !line.trim_start().starts_with('|')).then_some(width)
    };
    let lines = file.text.lines().zip(1..);
    lines
        .filter_map(|(line, number)| {
            let message = format!("{} characters; at most {PROSE_WIDTH_MAX}", long(line)?);
            Some(Finding::error(&file.path, number, message))
        })
        .collect()
}

fn check_paths(file: &Text, private: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in file.text.lines().zip(1..) {
        if let Some(path) = private.iter().find(|path| line.contains(path.as_str())) {
            let message = format!("a path of somebody's machine: {path}");
            findings.push(Finding::error(&file.path, number, message));
        }
    }
    findings
}

fn check_rust(file: &Text, layer: Option<u64>) -> Vec<Finding> {
    let path = &file.path;
    let lines = lines(&file.text);
    let mut findings: Vec<Finding> = check_name(path).into_iter().collect();
    if !file.text.lines().take(5).any(|line| line.contains("@generated")) {
        findings.extend(check_sizes(path, &lines, &file.text));
    }
    findings.extend(check_comments(path, &lines));
    if layer == Some(0) && path.components().any(|part| part.as_os_str() == "src") {
        findings.extend(check_purity(path, &lines));
        if path.ends_with("src/lib.rs") && !file.text.contains("#![forbid(unsafe_code)]") {
            findings.push(Finding::error(path, 0, "no #![forbid(unsafe_code)]"));
        }
    }
    findings
}

fn check_name(path: &Path) -> Option<Finding> {
    let parts = path.iter().filter_map(|part| part.to_str());
    let empty = parts.map(|part| part.trim_end_matches(".rs")).find(|p| EMPTY_NAMES.contains(p))?;
    Some(Finding::error(path, 0, format!("{empty:?} says nothing; name what it holds")))
}

fn check_sizes(path: &Path, lines: &[Line], text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let count = text.lines().count();
    if count > FILE_LINES_MAX {
        let message = format!("{count} lines; at most {FILE_LINES_MAX}");
        findings.push(Finding::error(path, 0, message));
    } else if count > FILE_LINES_WANTED && !says_why_long(lines) {
        let message = format!("{count} lines; {FILE_LINES_WANTED} are wanted");
        findings.push(Finding::warning(path, 0, message));
    }
    for (line, number) in lines.iter().zip(1..) {
        if line.width > LINE_WIDTH_MAX && !is_unbreakable(&line.comment) {
            let message = format!("{} characters; at most {LINE_WIDTH_MAX}", line.width);
            findings.push(Finding::error(path, number, message));
        }
    }
    for Function { name, line, length } in functions(lines) {
        let before = lines.get(..line.saturating_sub(1)).unwrap_or_default();
        if length > FUNCTION_LINES_WANTED && !says_why_long(before.iter().rev()) {
            let message = format!("{name} has {length} lines; {FUNCTION_LINES_WANTED} are wanted");
            findings.push(Finding::warning(path, line, message));
        }
    }
    findings
}

/// Whether a reason is given in these lines, up to the first with code.
fn says_why_long<'a>(lines: impl IntoIterator<Item = &'a Line>) -> bool {
    let is_code = |line: &Line| !matches!(line.code.trim().chars().next(), None | Some('#'));
    let mut comments = lines.into_iter().take_while(|line| !is_code(line));
    let has_reason = |comment: &str| comment.strip_prefix(LONG).is_some_and(|it| it.len() > 10);
    comments.any(|line| has_reason(&line.comment))
}

/// An address, or a row of a table in a comment.
fn is_unbreakable(comment: &str) -> bool {
    let text = comment.trim_start_matches(['/', '!']).trim_start();
    text.starts_with('|') || comment.contains("://")
}

fn check_comments(path: &Path, lines: &[Line]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in lines.iter().zip(1..) {
        let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
        let mark = marks.into_iter().find(|mark| has_word(&line.comment, mark));
        // `(#12)` names the issue where it is told.
        if let Some(mark) = mark.filter(|_| !line.comment.contains("(#")) {
            let message = format!("{mark} without an issue's number");
            findings.push(Finding::error(path, number, message));
        }
    }
    findings
}

fn check_purity(path: &Path, lines: &[Line]) -> Vec<Finding> {
    if path.ends_with("tests.rs") || path.iter().any(|part| part == "tests") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, number) in product_part(lines).iter().zip(1..) {
        let impure = IMPURE.iter().find(|(word, _)| has_word(&line.code, word));
        if let Some((word, what)) = impure {
            let message = format!("{word} in layer 0: it takes {what} as an argument, if at all");
            findings.push(Finding::error(path, number, message));
        }
    }
    findings
}

/// What stands before the module of tests, which is the last of a file.
fn product_part(lines: &[Line]) -> &[Line] {
    let is_tests = |pair: &[Line]| match pair {
        [mark, module] => {
            let module = module.code.trim();
            mark.code.trim() == "#[cfg(test)]"
                && module.starts_with("mod ")
                && module.ends_with('{')
        }
        _ => false,
    };
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    lines.get(..end).unwrap_or(lines)
}

/// Whether `word` stands in `text` and isn't part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, found)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + found.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    length: usize,
}

/// All functions, those inside others too.
fn functions(lines: &[Line]) -> Vec<Function> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        for (at, _) in line.code.match_indices("fn ") {
            let before = line.code.get(..at).and_then(|before| before.chars().next_back());
            let behind = line.code.get(at + 3..).unwrap_or_default();
            let name: String = behind.chars().take_while(|c| is_word(*c)).collect();
            if before.is_some_and(is_word) || name.is_empty() {
                continue;
            }
            let rest = lines.get(index + 1..).unwrap_or_default();
            let codes = std::iter::once(behind).chain(rest.iter().map(|line| line.code.as_str()));
            if let Some(length) = body_length(codes) {
                found.push(Function { name, line: index + 1, length });
            }
        }
    }
    found
}

/// Lines up to the brace that closes the body; `None` when a semicolon ends the signature.
fn body_length<'a>(codes: impl Iterator<Item = &'a str>) -> Option<usize> {
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (code, number) in codes.zip(1..) {
        for c in code.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                ';' if brackets == 0 && braces == 0 => return None,
                '{' => braces += 1,
                '}' if braces == 1 => return Some(number),
                '}' => braces -= 1,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str, layer: Option<u64>) -> Vec<String> {
        let file = Text { path: path.into(), text: text.to_owned() };
        let private = ["/elsewhere/me/".to_owned()];
        check(&file, layer, &private).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn pure_sources_touch_nothing() {
        let path = "crates/sql/src/a.rs";
        let impure =
            "use std::net::{IpAddr, TcpStream};\nlet t = Instant::now();\nasync fn f() {}\n";
        assert_eq!(messages(path, impure, Some(0)).len(), 3);
        assert_eq!(messages(path, impure, Some(1)), [""; 0]);
        let pure = "use std::net::IpAddr; // not tokio\nlet a = \"tokio\"; let asynchronous = 1;\n\
            #[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
        assert_eq!(messages(path, pure, Some(0)), [""; 0]);
        let after = "#[cfg(test)]\nmod tests;\nuse std::thread;\n";
        assert_eq!(messages(path, after, Some(0)).len(), 1);
    }

    #[test]
    fn a_pure_crate_forbids_unsafe_code() {
        let found = messages("crates/sql/src/lib.rs", "//! x\n", Some(0));
        assert_eq!(found, ["no #![forbid(unsafe_code)]"]);
    }

    #[test]
    fn lengths_are_counted() {
        let body = "    f();\n".repeat(69);
        let text = format!("trait T {{ fn g(&self); }}\nfn long(a: [u8; 2]) -> u8 {{\n{body}}}\n");
        let found = messages("crates/net/src/a.rs", &text, Some(1));
        assert_eq!(found, ["long has 71 lines; 70 are wanted"]);
        let said = text.replace("fn long", "// long: one table of bytes\n#[inline]\nfn long");
        assert_eq!(messages("crates/net/src/a.rs", &said, Some(1)), [""; 0]);
        let elsewhere = format!("// long: one table of bytes\nfn f() {{}}\n{text}");
        assert_eq!(messages("crates/net/src/a.rs", &elsewhere, Some(1)).len(), 1);
        let bare = text.replace("fn long", "// long: \nfn long");
        assert_eq!(messages("crates/net/src/a.rs", &bare, Some(1)).len(), 1);
        let file = format!("//! x\n\nfn f() {{}}\n{}", "//\n".repeat(600));
        assert_eq!(messages("a.rs", &file, None), ["603 lines; 600 are wanted"]);
        let said = file.replace("//! x", "//! x\n\n// long: one table of bytes");
        assert_eq!(messages("a.rs", &said, None), [""; 0]);
        let file = "//\n".repeat(1_001);
        assert_eq!(messages("a.rs", &file, None), ["1001 lines; at most 1000"]);
        assert_eq!(messages("a.rs", &format!("// @generated\n{file}"), None), [""; 0]);
        let wide = format!("let {} = 1;\nlet a = \"{}\";\n", "a".repeat(99), "b".repeat(200));
        assert_eq!(messages("a.rs", &wide, None), ["108 characters; at most 100"]);
    }

    #[test]
    fn names_marks_and_paths_are_found() {
        assert_eq!(messages("crates/a/src/helpers/mod.rs", "", None).len(), 1);
        let mark = concat!("// TO", "DO: later\n// TO", "DO (#12): later\n");
        assert_eq!(messages("a.rs", mark, None).len(), 1);
        let found = messages("a.md", "see /elsewhere/me/notes\n", None);
        assert_eq!(found, ["a path of somebody's machine: /elsewhere/me/"]);
    }

    #[test]
    fn long_lines_of_prose_are_found_outside_tables() {
        let long = "word ".repeat(50);
        let text = format!("{long}\n| {long} |\nshort\n");
        let file = Text { path: "docs/x.md".into(), text };
        let found: Vec<_> = check(&file, None, &[]).into_iter().map(|it| it.line).collect();
        assert_eq!(found, [1]);
    }
}
