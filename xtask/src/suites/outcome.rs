//! What a suite printed, test by test.

use std::collections::BTreeMap;

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// By the suite's own decision.
    Skipped,
}

/// The form of a suite's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `go test -v`.
    Go,
    /// `pytest -rA`.
    Pytest,
    /// `prove -v`: each assertion is a test, named by its file and number.
    Tap,
    /// PHP's `run-tests.php`.
    Phpt,
}

/// All tests of an output by their names. A test that ran more than once has failed if it did so
/// once.
pub fn read(format: Format, output: &str) -> BTreeMap<String, Outcome> {
    let mut tests = BTreeMap::new();
    let mut add = |name: String, outcome: Outcome| {
        let known = tests.entry(name).or_insert(outcome);
        if outcome == Outcome::Failed {
            *known = outcome;
        }
    };
    let mut file = "";
    for line in output.lines() {
        let found = match format {
            Format::Go => go(line),
            Format::Pytest => pytest(line),
            Format::Phpt => phpt(line),
            Format::Tap => {
                if let Some((name, _)) = line.split_once(" ..")
                    && name.ends_with(".t")
                {
                    file = name;
                }
                tap(file, line)
            }
        };
        if let Some((name, outcome)) = found {
            add(name, outcome);
        }
    }
    tests
}

/// `--- PASS: TestName (0.00s)`, indented for parts of a test.
fn go(line: &str) -> Option<(String, Outcome)> {
    let (word, rest) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    let outcome = match word {
        "PASS" => Outcome::Passed,
        "FAIL" => Outcome::Failed,
        "SKIP" => Outcome::Skipped,
        _ => return None,
    };
    Some((rest.split(' ').next()?.to_owned(), outcome))
}

/// `PASSED tests/x.py::name`, and for the others with a reason behind.
fn pytest(line: &str) -> Option<(String, Outcome)> {
    let (word, rest) = line.split_once(' ')?;
    let outcome = match word {
        "PASSED" | "XFAIL" => Outcome::Passed,
        "FAILED" | "ERROR" => Outcome::Failed,
        "SKIPPED" => Outcome::Skipped,
        _ => return None,
    };
    let name = rest.split_once(" - ").map_or(rest, |(name, _)| name);
    Some((name.to_owned(), outcome))
}

/// `PASS What it tests [ext/x/tests/y.phpt]`, which overwrites `TEST 1/2 [ext/x/tests/y.phpt]`.
fn phpt(line: &str) -> Option<(String, Outcome)> {
    let line = line.rsplit('\r').next()?.trim_start();
    let (word, rest) = line.split_once(' ')?;
    let outcome = match word {
        "PASS" => Outcome::Passed,
        "FAIL" => Outcome::Failed,
        "SKIP" => Outcome::Skipped,
        _ => return None,
    };
    let end = rest.find(".phpt]")?;
    let name = rest.get(..end)?.rsplit_once('[')?.1;
    Some((name.to_owned(), outcome))
}

/// `ok 1 - what`, `not ok 2 - what`; what the author expects to fail or skips (`# SKIP`) counts
/// as skipped, a file that died as a failed test of its own.
fn tap(file: &str, line: &str) -> Option<(String, Outcome)> {
    if line.starts_with("Dubious") || line.starts_with("Bail out!") {
        return Some((format!("{file} (ends)"), Outcome::Failed));
    }
    let (passed, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (Outcome::Failed, rest),
        None => (Outcome::Passed, line.strip_prefix("ok ")?),
    };
    let number: u32 = rest.split(' ').next()?.parse().ok()?;
    let is_skipped = |mark: &str| rest.to_ascii_lowercase().contains(mark);
    let outcome = match is_skipped("# skip") || is_skipped("# todo") {
        true => Outcome::Skipped,
        false => passed,
    };
    Some((format!("{file} {number}"), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: Format, output: &str, expected: &[(&str, Outcome)]) {
        let expected: BTreeMap<String, Outcome> =
            expected.iter().map(|(name, outcome)| ((*name).to_owned(), *outcome)).collect();
        assert_eq!(read(format, output), expected);
    }

    #[test]
    fn every_form_is_read() {
        use Outcome::{Failed, Passed, Skipped};
        check(
            Format::Go,
            "=== RUN   TestA\n--- PASS: TestA (0.1s)\n    --- FAIL: TestB/x (0.00s)\nFAIL",
            &[("TestA", Passed), ("TestB/x", Failed)],
        );
        check(
            Format::Pytest,
            "PASSED t/a.py::b[c d]\nFAILED t/a.py::e - Error: f\nSKIPPED [1] t/a.py:3: why",
            &[("t/a.py::b[c d]", Passed), ("t/a.py::e", Failed), ("[1] t/a.py:3: why", Skipped)],
        );
        check(
            Format::Tap,
            "t/a.t ... \nok 1 - x\nnot ok 2 - y\nok 3 # skip no\nt/b.t .. \nok 1\nDubious, 1",
            &[
                ("t/a.t 1", Passed),
                ("t/a.t 2", Failed),
                ("t/a.t 3", Skipped),
                ("t/b.t 1", Passed),
                ("t/b.t (ends)", Failed),
            ],
        );
        check(
            Format::Phpt,
            "TEST 1/9 [ext/a.phpt]\rPASS It works [ext/a.phpt] \nSKIP x [y] [ext/b.phpt] reason: z\nPASS? no",
            &[("ext/a", Passed), ("ext/b", Skipped)],
        );
    }
}
