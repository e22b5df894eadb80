//! An analysis is remembered for a clean digest: whatever has the same digest must have the same
//! analysis, unless the analysis says that it depends on literals.

use std::collections::HashMap;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use trunkline_sql::{
    analysis::{Analysis, analyse},
    digest::{Digester, Settings},
    token::Modes,
};

/// Statements made of pieces that digests shorten, so that many have the same digest.
fn statements() -> impl Strategy<Value = String> {
    let item = prop::sample::select(vec![
        "1",
        "2",
        "'a'",
        "\"b\"",
        "-1",
        "1.5",
        "NULL",
        "a",
        "@x",
        "f(1)",
        "1a",
        "1a(2)",
        "0x1",
        "'' (1)",
        "(1,2)",
        "(1,f(2))",
        "ABS(1)",
        "@@y",
        "+f(1)",
        "N'x'",
        "\"f\"(1)",
        "1e",
        ".5",
        "a.b(1)",
        "s.nextval",
        "a b",
        "`q`(1)",
        "CURRENT_DATE",
        "?",
        "now ('a')",
        "now('a')",
        "now -('a')",
        "now - (1)",
        "a -(1)",
        "a (1)",
        "a +(1)",
        "a(1)",
        "d. abs(1)",
        "d.abs(1)",
        "d .abs(1)",
        "abs (1)",
        "@@session . last_insert_id",
        "s . nextval",
        "t.a -(1)",
        "a*(1)",
        "a * (1)",
        "1 -(1)",
    ]);
    let list = prop::collection::vec(item, 1..7).prop_map(|items| items.join(","));
    let head = prop::sample::select(vec![
        "SELECT ",
        "SELECT * FROM t WHERE a IN (",
        "INSERT INTO t VALUES (",
        "SET a=1, b=(",
        "SELECT (",
        "CALL p(",
        "DO f(",
        "SELECT 1 LIMIT ",
        "SELECT LAST_INSERT_ID(",
        "KILL ",
        "SELECT 1 IN (",
    ]);
    let tail =
        prop::sample::select(vec!["", ")", ") FOR UPDATE", " FROM t", "); DELETE FROM t", " -1"]);
    (head, list, tail).prop_map(|(head, list, tail)| format!("{head}{list}{tail}"))
}

#[test]
fn what_has_the_same_clean_digest_has_the_same_analysis() {
    let mut digester = Digester::new();
    let settings = Settings::default();
    let mut runner = TestRunner::deterministic();
    let mut known: HashMap<(bool, Vec<u8>), (String, Analysis)> = HashMap::new();
    let strategy = statements();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for _ in 0..30_000 {
        let text = strategy.new_tree(&mut runner).expect("a statement").current();
        for ansi_quotes in [false, true] {
            let digest = digester.digest(text.as_bytes(), &settings);
            let modes = Modes { ansi_quotes, ..Modes::default() };
            let analysis = analyse(text.as_bytes(), &modes);
            if !digest.is_clean {
                continue;
            }
            let key = (ansi_quotes, digest.text.to_vec());
            let Some((other, expected)) = known.get(&key) else {
                if !analysis.depends_on_literals() {
                    known.insert(key, (text.clone(), analysis));
                }
                continue;
            };
            compared += usize::from(*other != text);
            if *expected != analysis {
                wrong.push(format!("{other}\n{text}\n{expected:?}\n{analysis:?}"));
            }
        }
    }
    assert!(compared > 1_000, "{compared}");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.iter().take(12).cloned().collect::<Vec<_>>().join("\n\n")
    );
}
