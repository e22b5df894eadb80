//! Targets: the configuration file, and the patterns of rules.

use trunkline_config::{difference, parse};
use trunkline_rules::{Executed, Hits, Memory, Options, Question, Rewrites, Rule, RuleSet};

use crate::choice;

/// A file is refused with errors that can be shown, or makes a snapshot that does not differ
/// from it.
pub fn config_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
    match parse(&text, "fuzz.toml", &no_files) {
        Ok(config) => {
            let snapshot = config.clone().snapshot(None);
            assert!(difference(&snapshot, &config).is_empty(), "a file differs from itself");
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "a refusal has its reasons");
            for error in errors {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// A pattern (the first line) and a text (the others): the rule set that holds it decides the
/// same with and without memory. The first byte chooses modifiers and columns.
pub fn rule_patterns(data: &[u8]) {
    let (how, data) = choice(data);
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (pattern, text) = data.split_at_checked(end).unwrap_or_default();
    let text = text.get(1..).unwrap_or_default();
    let pattern = String::from_utf8_lossy(pattern).into_owned();
    let rule = |id: u32, negated: bool| {
        let on_digest = how & 1 != 0;
        Rule {
            id,
            match_digest: on_digest.then(|| pattern.clone()),
            match_pattern: (!on_digest).then(|| pattern.clone()),
            negate_match_pattern: negated,
            re_modifiers: (how & 2 != 0).then(|| "CASELESS".to_owned()),
            apply: how & 4 != 0,
            replace_pattern: (how & 9 == 8).then(|| "<\\0>".to_owned()),
            ..Rule::default()
        }
    };
    let Ok(rules) = RuleSet::compile(vec![rule(1, false), rule(2, true)], Options::default())
    else {
        return;
    };
    let question = Question {
        username: "app",
        schema: b"shop",
        flag: 0,
        client_addr: None,
        proxy_addr: None,
        proxy_port: None,
        digest: Some(1),
        digest_text: text,
        query: text,
        executed: Executed::AsDigested,
        rewrites: Rewrites::All,
        chance: 0,
    };
    let mut hits = Hits::new(&rules);
    let decision = rules.evaluate(&question, &mut hits);
    let mut memory = Memory::new(8);
    for _ in 0..2 {
        assert_eq!(*memory.decide(&rules, &question, &mut hits), decision);
    }
    // An empty pattern is a column that is not tested, and a rewritten text another text.
    let is_rewritten = decision.rewritten.is_some();
    if !pattern.is_empty() && !is_rewritten && rules.backtracking_rules().next().is_none() {
        assert_eq!(decision.matched().len(), 1, "a text matches a pattern or does not");
    }
}
