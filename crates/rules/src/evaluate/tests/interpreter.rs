//! Compiled rules against the semantics told plainly.

use proptest::{collection::vec, option, prelude::*, sample::select};
use trunkline_topology::HostgroupId;

use super::{QUESTION, decide, numbered};
use crate::{Hits, Memory, Options, Question, Rule, RuleSet, compile::Compiled};

/// The semantics as they are told, rule by rule, with nothing shared with the compiled way.
fn interpret(rules: &[Rule], iterations: u32, question: &Question<'_>) -> (Vec<u32>, u32) {
    let found = |pattern: &str, rule: &Rule, text: &[u8]| {
        let caseless = rule.re_modifiers.is_some();
        let regex = regex::bytes::RegexBuilder::new(pattern).case_insensitive(caseless).build();
        regex.expect("a plain pattern").is_match(text) != rule.negate_match_pattern
    };
    let differs = |wanted: &Option<String>, value: &[u8]| {
        wanted.as_deref().is_some_and(|wanted| wanted.as_bytes() != value)
    };
    let matches = |rule: &Rule, flag: u32| {
        let digest = question.digest.map(|digest| format!("{digest:#x}")).unwrap_or_default();
        let with_digest = question.digest.is_some();
        rule.active
            && rule.flag_in == flag
            && !differs(&rule.username, question.username.as_bytes())
            && !differs(&rule.schemaname, question.schema)
            && !differs(&rule.digest, digest.as_bytes())
            && rule.proxy_port.is_none_or(|port| Some(port) == question.proxy_port)
            && rule
                .match_digest
                .as_deref()
                .is_none_or(|pattern| !with_digest || found(pattern, rule, question.digest_text))
            && rule
                .match_pattern
                .as_deref()
                .is_none_or(|pattern| found(pattern, rule, question.query))
    };
    let (mut flag, mut left, mut at, mut matched) = (question.flag, iterations, 0, Vec::new());
    while let Some(rule) = rules.get(at) {
        at += 1;
        if !matches(rule, flag) {
            continue;
        }
        matched.push(rule.id);
        flag = rule.flag_out.unwrap_or(flag);
        if rule.apply {
            break;
        }
        if rule.flag_out.is_some() && left > 0 {
            left -= 1;
            at = 0;
        }
    }
    (matched, flag)
}

const PATTERNS: [&str; 40] = [
    "a", "b", "c", "d", "ab", "ba", "aa", "bb", "a.b", "^a", "^b", "a+b", "[ab]c", "(a|b)d", "cd",
    "dc", "^c", "^d", "a?b?c", "abc", "bcd", "cba", "dcb", "A", "B", "C", "D", "AB", "BC", "CD",
    "a.*d", "d.*a", "b.*c", "c.*b", "^..a", "^..b", "^..c", "^...d", "^....", "^......",
];

fn any_rule() -> impl Strategy<Value = Rule> {
    let name = || option::weighted(0.3, select(vec!["x", "y"]).prop_map(str::to_owned));
    let pattern =
        |weight| option::weighted(weight, select(PATTERNS.to_vec()).prop_map(str::to_owned));
    let digest = option::weighted(0.2, select(vec!["0x1", "0x2"]).prop_map(str::to_owned));
    let flags = (
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        any::<bool>(),
    );
    let tests = (name(), name(), option::weighted(0.1, 1u16..3), digest);
    (tests, pattern(0.8), pattern(0.3), 0u32..3, option::weighted(0.3, 0u32..3), flags).prop_map(
        |(
            (username, schemaname, proxy_port, digest),
            digest_pattern,
            pattern,
            flag_in,
            flag_out,
            flags,
        )| {
            Rule {
                active: flags.0,
                username,
                schemaname,
                proxy_port,
                digest,
                match_digest: digest_pattern,
                match_pattern: pattern,
                flag_in,
                flag_out,
                negate_match_pattern: flags.1,
                apply: flags.2,
                re_modifiers: flags.3.then(|| "CASELESS".to_owned()),
                ..Rule::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn compiled_rules_decide_as_rules_read_one_by_one(
        rules in vec(any_rule(), 0..120),
        iterations in 0u32..4,
        questions in vec(
            (
                (0u32..3, 0u16..3, option::weighted(0.9, 0u64..3)),
                "[x-z]",
                "[x-z]",
                "[a-d]{0,7}",
                "[a-d]{0,7}",
            ),
            1..8,
        ),
    ) {
        let rules = numbered(rules);
        let compiled = RuleSet::compile(rules.clone(), Options { iterations }).expect("compiles");
        let mut memory = Memory::new(16);
        for ((flag, port, digest), username, schema, digest_text, query) in &questions {
            let question = Question {
                username,
                schema: schema.as_bytes(),
                flag: *flag,
                proxy_port: Some(*port),
                digest: *digest,
                digest_text: digest_text.as_bytes(),
                query: query.as_bytes(),
                ..QUESTION
            };
            let decision = decide(&compiled, &question);
            let (matched, flag) = interpret(&rules, iterations, &question);
            let ids: Vec<u32> = decision
                .matched()
                .iter()
                .filter_map(|&index| compiled.rule_id(index as usize))
                .collect();
            prop_assert_eq!(&ids, &matched);
            prop_assert_eq!(decision.final_flag, flag);
            let destination = matched.last().copied().map(HostgroupId);
            prop_assert_eq!(decision.effects.destination_hostgroup, destination);
            let mut hits = Hits::new(&compiled);
            for _ in 0..2 {
                prop_assert_eq!(memory.decide(&compiled, &question, &mut hits), &decision);
            }
        }
    }

    #[test]
    fn patterns_joined_in_sets_find_what_each_finds_alone(
        negated in vec(any::<bool>(), PATTERNS.len()),
        caseless in vec(any::<bool>(), PATTERNS.len()),
        digest_text in "[a-dA-D\n]{0,9}",
        query in "[a-dA-D\n]{0,9}",
    ) {
        let rule = |((pattern, negate), caseless): ((&str, &bool), &bool)| Rule {
            match_digest: Some(pattern.to_owned()),
            match_pattern: Some(format!("[b-d]{pattern}|{pattern}[a-c]")),
            negate_match_pattern: *negate,
            re_modifiers: caseless.then(|| "CASELESS".to_owned()),
            ..Rule::default()
        };
        let rules = numbered(PATTERNS.into_iter().zip(&negated).zip(&caseless).map(rule).collect());
        let compiled = RuleSet::compile(rules.clone(), Options::default()).expect("compiles");
        let joined = |rule: &Compiled| rule.match_digest.is_some_and(|test| test.place.is_some());
        prop_assert_eq!(compiled.inner.rules.iter().filter(|rule| joined(rule)).count(), 32);
        let (digest_text, query) = (digest_text.as_bytes(), query.as_bytes());
        let question = Question { digest_text, query, ..QUESTION };
        let matched: Vec<u32> =
            decide(&compiled, &question).matched().iter().map(|index| index + 1).collect();
        prop_assert_eq!(matched, interpret(&rules, 0, &question).0);
    }
}
