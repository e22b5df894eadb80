use std::{net::IpAddr, sync::Arc};

use trunkline_topology::HostgroupId;

use super::*;
use crate::{Answer, ITERATIONS_MAX, Options, Rule};

const QUESTION: Question<'static> = Question {
    username: "alice",
    schema: b"shop",
    flag: 0,
    client_addr: Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7))),
    proxy_addr: Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)),
    proxy_port: Some(6033),
    digest: Some(0xABC),
    digest_text: b"SELECT c FROM t WHERE id=?",
    query: b"SELECT c FROM t WHERE id=5",
    executed: Executed::AsDigested,
    rewrites: Rewrites::All,
    chance: 0,
};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn compile(rules: Vec<Rule>) -> RuleSet {
    RuleSet::compile(rules, Options::default()).expect("rules that compile")
}

/// Gives each rule its place in the list as id and destination.
fn numbered(rules: Vec<Rule>) -> Vec<Rule> {
    let number = |(id, rule)| Rule { id, destination_hostgroup: Some(HostgroupId(id)), ..rule };
    (1..).zip(rules).map(number).collect()
}

fn decide(rules: &RuleSet, question: &Question<'_>) -> Decision {
    let mut hits = Hits::new(rules);
    let decision = rules.evaluate(question, &mut hits);
    let (visits, explained) = rules.explain(question);
    assert_eq!(Decision { visited: decision.visited, ..explained }, decision);
    let is_hit = |visit: &Visit| matches!(visit.outcome, Outcome::Matched | Outcome::Shadowed);
    let matched = visits.into_iter().filter(is_hit);
    let ids: Vec<Option<u32>> =
        decision.matched().iter().map(|&index| rules.rule_id(index as usize)).collect();
    assert_eq!(matched.map(|visit| Some(visit.rule_id)).collect::<Vec<_>>(), ids);
    assert_eq!(hits.by_rule(rules).map(|(_, hits)| hits).sum::<u64>(), ids.len() as u64);
    decision
}

#[track_caller]
fn check(rule: Rule, question: Question<'_>, expected: Outcome) {
    let rules = compile(numbered(vec![rule]));
    let decision = decide(&rules, &question);
    assert_eq!(decision.effects.destination_hostgroup.is_some(), expected == Outcome::Matched);
    let outcomes: Vec<Outcome> = rules.explain(&question).0.iter().map(|v| v.outcome).collect();
    assert_eq!(outcomes, [expected]);
}

/// A rule with the table's defaults but for what `change` does to it.
fn rule(change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule::default();
    change(&mut rule);
    rule
}

#[test]
fn a_rule_without_tests_matches() {
    check(Rule::default(), QUESTION, Outcome::Matched);
    let empty = rule(|rule| {
        rule.username = text("");
        rule.schemaname = text("");
        rule.client_addr = text("");
        rule.proxy_addr = text("");
        rule.digest = text("");
        rule.match_digest = text("");
        rule.match_pattern = text("");
    });
    check(empty, QUESTION, Outcome::Matched);
}

#[test]
fn each_session_column_passes_or_fails_by_itself() {
    use Outcome::{FirstFailed, Matched};
    let q = QUESTION;
    check(rule(|rule| rule.username = text("alice")), q, Matched);
    check(rule(|rule| rule.username = text("Alice")), q, FirstFailed(Column::Username));
    check(rule(|rule| rule.schemaname = text("shop")), q, Matched);
    check(rule(|rule| rule.schemaname = text("Shop")), q, FirstFailed(Column::Schemaname));
    check(rule(|rule| rule.flag_in = 3), q, FirstFailed(Column::FlagIn));
    check(rule(|rule| rule.flag_in = 3), Question { flag: 3, ..q }, Matched);
    check(rule(|rule| rule.flag_in = 0), Question { flag: 3, ..q }, FirstFailed(Column::FlagIn));
}

#[test]
fn each_address_column_passes_or_fails_by_itself() {
    use Outcome::{FirstFailed, Matched};
    let q = QUESTION;
    let local = Question { client_addr: None, proxy_addr: None, proxy_port: None, ..q };
    let addr = |addr: &str| rule(|rule| rule.client_addr = text(addr));
    check(addr("10.0.0.7"), q, Matched);
    check(addr("10.0.%"), q, Matched);
    check(addr("10.1.%"), q, FirstFailed(Column::ClientAddr));
    check(addr("10.1.%"), local, Matched);
    let addr = |addr: &str| rule(|rule| rule.proxy_addr = text(addr));
    check(addr("127.0.0.1"), q, Matched);
    check(addr("::ffff:127.0.0.1"), q, Matched);
    check(addr("127.0.0.2"), q, FirstFailed(Column::ProxyAddr));
    check(addr("127.0.0.1"), local, FirstFailed(Column::ProxyAddr));
    let port = |port: u16| rule(|rule| rule.proxy_port = Some(port));
    check(port(6033), q, Matched);
    check(port(0), q, FirstFailed(Column::ProxyPort));
    check(port(6033), local, FirstFailed(Column::ProxyPort));
}

#[test]
fn each_statement_column_passes_or_fails_by_itself() {
    use Outcome::{FirstFailed, Matched};
    let q = QUESTION;
    let no_digest = Question { digest: None, ..q };
    let digest = |digest: &str| rule(|rule| rule.digest = text(digest));
    check(digest("0x0000000000000ABC"), q, Matched);
    check(digest("0xabc"), q, Matched);
    check(digest("0xABD"), q, FirstFailed(Column::Digest));
    check(digest("0xABC"), no_digest, FirstFailed(Column::Digest));
    let pattern = |pattern: &str| rule(|rule| rule.match_digest = text(pattern));
    check(pattern("^select .* where"), q, Matched);
    check(pattern("id=5"), q, FirstFailed(Column::MatchDigest));
    check(pattern("id=5"), no_digest, Matched);
    let exact = Rule { re_modifiers: None, ..pattern("^select") };
    check(exact, q, FirstFailed(Column::MatchDigest));
    let pattern = |pattern: &str| rule(|rule| rule.match_pattern = text(pattern));
    check(pattern("id=5$"), q, Matched);
    check(pattern("id=6"), q, FirstFailed(Column::MatchPattern));
}

#[test]
fn negation_turns_round_both_pattern_tests_and_no_other() {
    use Outcome::{FirstFailed, Matched};
    let q = QUESTION;
    let negated = |digest: &str, query: &str| {
        rule(|rule| {
            rule.match_digest = text(digest);
            rule.match_pattern = text(query);
            rule.negate_match_pattern = true;
        })
    };
    check(negated("UPDATE", "id=6"), q, Matched);
    check(negated("SELECT", "id=6"), q, FirstFailed(Column::MatchDigest));
    check(negated("UPDATE", "id=5"), q, FirstFailed(Column::MatchPattern));
    check(negated("SELECT", ""), Question { digest: None, ..q }, Matched);
    let of_bob = Rule { username: text("bob"), ..negated("", "") };
    check(of_bob, q, FirstFailed(Column::Username));
}

/// A text that takes `^(a|b|ab)*\1c$` too many steps.
fn undecidable() -> String {
    format!("{}d", "ab".repeat(30))
}

const UNDECIDABLE: &str = r"^(a|b|ab)*\1c$";

#[test]
fn a_search_given_up_passes_neither_a_test_nor_its_negation() {
    let query = undecidable();
    let question = Question { query: query.as_bytes(), ..QUESTION };
    for negate_match_pattern in [false, true] {
        let rule =
            Rule { match_pattern: text(UNDECIDABLE), negate_match_pattern, ..Rule::default() };
        check(rule, question, Outcome::FirstFailed(Column::MatchPattern));
    }
}

#[test]
fn a_rule_that_protects_matches_where_that_cannot_be_decided() {
    let query = undecidable();
    let question = Question { query: query.as_bytes(), digest_text: query.as_bytes(), ..QUESTION };
    let denies = |rule: Rule| Rule { error_msg: text("no"), ..rule };
    for negate_match_pattern in [false, true] {
        let by_text =
            Rule { match_pattern: text(UNDECIDABLE), negate_match_pattern, ..Rule::default() };
        let by_digest =
            Rule { match_digest: text(UNDECIDABLE), negate_match_pattern, ..Rule::default() };
        for rule in [by_text, by_digest] {
            check(denies(rule.clone()), question, Outcome::Matched);
            let swallows = Rule { ok_msg: text("as if"), ..rule.clone() };
            check(swallows, question, Outcome::Matched);
            let attributes = |said: &str| Rule { attributes: text(said), ..rule.clone() };
            // A route to a quarantine, say.
            check(attributes(r#"{"protects":true}"#), question, Outcome::Matched);
            let rules = compile(numbered(vec![denies(attributes(r#"{"protects":false}"#))]));
            assert!(decide(&rules, &question).matched().is_empty());
        }
    }
}

#[test]
fn what_leads_to_a_rule_that_protects_protects_too() {
    let rule = |id, flag_in| Rule { id, flag_in, ..Rule::default() };
    let undecidable = |rule| Rule { match_pattern: text(UNDECIDABLE), ..rule };
    let rules = compile(vec![
        undecidable(Rule { flag_out: Some(1), ..rule(1, 0) }),
        undecidable(Rule {
            attributes: text(r#"{"flagOUTs":[{"id":2,"weight":1}]}"#),
            ..rule(2, 1)
        }),
        undecidable(Rule { flag_out: Some(7), ..rule(3, 0) }),
        undecidable(Rule {
            flag_out: Some(1),
            attributes: text(r#"{"protects":false}"#),
            ..rule(4, 0)
        }),
        Rule { error_msg: text("no"), ..rule(5, 2) },
        // What it lets pass, the session's next statements are not denied.
        Rule { next_query_flag_in: Some(2), ..undecidable(rule(6, 9)) },
    ]);
    let protect: Vec<_> = (1..=6).filter(|id| rules.protects(*id)).collect();
    assert_eq!(protect, [1, 2, 5, 6]);
    let query = self::undecidable();
    let decision = decide(&rules, &Question { query: query.as_bytes(), ..QUESTION });
    assert_eq!(decision.answer(), Some(Answer::Error(&Arc::from("no"))));
    assert_eq!(decision.undecided(), [0, 1]);
}

/// What was tried against rules that deny.
#[test]
fn padding_gets_no_statement_past_a_rule_that_denies() {
    let paddings = [
        format!("/* {} */", "x".repeat(140_000)),
        " ".repeat(3_000_000),
        "a".repeat(40),
        String::new(),
    ];
    for pattern in [r"(?<!no)secrets(?!\w)", r"(a*)*\1secrets", r"^(?!.*public)", "secrets"] {
        let rule = Rule { match_pattern: text(pattern), error_msg: text("no"), ..Rule::default() };
        let rules = compile(numbered(vec![rule]));
        for padding in &paddings {
            for query in [
                format!("{padding} SELECT * FROM secrets"),
                format!("SELECT * {padding} FROM secrets"),
                format!("SELECT * FROM secrets {padding}"),
            ] {
                let decision = decide(&rules, &Question { query: query.as_bytes(), ..QUESTION });
                let len = query.len();
                assert!(decision.answer().is_some(), "{pattern} passes {len} bytes");
            }
        }
    }
}

#[test]
fn a_rule_that_protects_looks_at_what_servers_execute() {
    let executed = |text| Executed::Otherwise { digest: 0xDEF, text };
    let hidden = executed(b"SELECT p FROM secret");
    let harmless = executed(b"SELECT a FROM t");
    let is_denied = |rule: Rule, executed| {
        let rules = compile(numbered(vec![rule]));
        let question = Question { executed, ..QUESTION };
        let mut memory = crate::Memory::new(8);
        let mut hits = Hits::new(&rules);
        // What is remembered of another statement with this digest does not count.
        memory.decide(&rules, &QUESTION, &mut hits);
        let decision = memory.decide(&rules, &question, &mut hits).clone();
        assert_eq!(decision.matched(), decide(&rules, &question).matched());
        decision.effects.destination_hostgroup.is_some()
    };
    let by_text =
        || Rule { match_digest: text("secret"), error_msg: text("no"), ..Rule::default() };
    let by_hash = || Rule { digest: text("0xDEF"), error_msg: text("no"), ..Rule::default() };
    for rule in [by_text, by_hash] {
        assert!(is_denied(rule(), hidden));
        assert!(is_denied(rule(), Executed::Unknown));
        assert!(!is_denied(rule(), Executed::AsDigested));
        assert!(!is_denied(Rule { error_msg: None, ..rule() }, hidden), "it does not protect");
    }
    assert!(!is_denied(by_text(), harmless));
    let other_than = || Rule { match_digest: text("id="), negate_match_pattern: true, ..by_text() };
    assert!(is_denied(other_than(), harmless));
    assert!(!is_denied(other_than(), Executed::AsDigested));
}

#[test]
fn what_is_undecided_is_counted_and_told() {
    let rules = compile(numbered(vec![
        Rule { match_digest: text(UNDECIDABLE), error_msg: text("no"), ..Rule::default() },
        Rule { match_digest: text("^x"), ..Rule::default() },
        Rule { match_digest: text(UNDECIDABLE), ..Rule::default() },
    ]));
    let digest_text = undecidable();
    let question = Question { digest_text: digest_text.as_bytes(), ..QUESTION };
    let mut hits = Hits::new(&rules);
    // The second time it is remembered.
    let mut memory = crate::Memory::new(8);
    for _ in 0..2 {
        assert_eq!(memory.decide(&rules, &question, &mut hits).undecided(), [0, 2]);
    }
    assert_eq!(hits.undecided_by_rule(&rules).collect::<Vec<_>>(), [(1, 2), (3, 2)]);
    assert_eq!(hits.by_rule(&rules).collect::<Vec<_>>(), [(1, 2), (2, 0), (3, 0)]);
    let told = rules.explain(&question).0;
    let told: Vec<_> = told.iter().map(|visit| visit.is_undecided).collect();
    assert_eq!(told, [true, false, true]);
}

#[test]
fn a_statement_that_a_rule_which_protects_cannot_rewrite_does_not_run() {
    let rewrite = |attributes: &str| {
        let rules = compile(numbered(vec![Rule {
            match_pattern: text(UNDECIDABLE),
            replace_pattern: text("masked"),
            attributes: text(attributes),
            ..Rule::default()
        }]));
        let query = undecidable();
        let decision = decide(&rules, &Question { query: query.as_bytes(), ..QUESTION });
        let error = decision.effects.error_msg.as_deref().map(str::to_owned);
        (decision.rewrites_skipped, error)
    };
    assert_eq!(rewrite(""), (0, None));
    let text = "rule 1 protects and could not rewrite this statement".to_owned();
    assert_eq!(rewrite(r#"{"protects":true}"#), (1, Some(text)));
}

#[test]
fn issue_16_what_is_prepared_is_rewritten_by_rules_that_protect() {
    let rewritten = |attributes: &str, rewrites: Rewrites| {
        let rules = compile(numbered(vec![Rule {
            match_pattern: text("^SELECT"),
            replace_pattern: text("DO"),
            attributes: text(attributes),
            ..Rule::default()
        }]));
        let decision = decide(&rules, &Question { rewrites, ..QUESTION });
        (decision.rewritten.is_some(), decision.must_rewrite)
    };
    let protects = r#"{"protects":true}"#;
    assert_eq!(rewritten(protects, Rewrites::Protecting), (true, Some(1)));
    assert_eq!(rewritten("", Rewrites::Protecting), (false, None));
    assert_eq!(rewritten("", Rewrites::All), (true, None));
    assert_eq!(rewritten(protects, Rewrites::None), (false, None));
}

#[test]
fn a_decision_says_whether_more_than_a_hostgroup_is_asked_for() {
    let has_directives =
        |rules: Vec<Rule>| decide(&compile(numbered(rules)), &QUESTION).has_directives;
    assert!(!has_directives(vec![Rule::default(), Rule { apply: true, ..Rule::default() }]));
    let delays = Rule { delay_ms: Some(0), ..Rule::default() };
    assert!(has_directives(vec![delays.clone(), Rule::default()]));
    assert!(!has_directives(vec![Rule { username: text("somebody else"), ..delays }]));
}

#[test]
fn rules_run_in_ascending_id_and_the_last_match_wins_column_by_column() {
    let rule = |id, hostgroup, error: Option<&str>| Rule {
        id,
        destination_hostgroup: Some(HostgroupId(hostgroup)),
        error_msg: error.map(str::to_owned),
        ..Rule::default()
    };
    let rules = compile(vec![rule(30, 3, None), rule(10, 1, Some("no")), rule(20, 2, None)]);
    let decision = decide(&rules, &QUESTION);
    assert_eq!(decision.effects.destination_hostgroup, Some(HostgroupId(3)));
    assert_eq!(decision.answer(), Some(Answer::Error(&Arc::from("no"))));
    assert_eq!(decision.matched(), [0, 1, 2]);
    assert!(!decision.applied);
}

#[test]
fn apply_ends_the_evaluation_only_where_it_matches() {
    let apply = Rule { apply: true, ..Rule::default() };
    let other = Rule { username: text("bob"), ..apply.clone() };
    let rules = compile(numbered(vec![other, apply, Rule::default()]));
    let decision = decide(&rules, &QUESTION);
    assert_eq!((decision.matched(), decision.applied), (&[1][..], true));
    let rules =
        compile(numbered(vec![Rule { username: text("bob"), apply: true, ..Rule::default() }]));
    assert!(!decide(&rules, &QUESTION).applied);
}

#[test]
fn a_chain_goes_to_higher_ids_only() {
    let link = |flag_in, flag_out| Rule { flag_in, flag_out, ..Rule::default() };
    let rules =
        compile(numbered(vec![link(5, None), link(0, Some(5)), link(0, None), link(5, Some(7))]));
    let decision = decide(&rules, &QUESTION);
    assert_eq!(decision.matched(), [1, 3]);
    assert_eq!(decision.final_flag, 7);
}

#[test]
fn iterations_send_a_chain_back_to_the_top() {
    let link = |flag_in, flag_out| Rule { flag_in, flag_out, ..Rule::default() };
    let rules = numbered(vec![link(5, None), link(0, Some(5)), link(5, Some(6)), link(6, Some(0))]);
    let check = |iterations, expected: &[u32]| {
        let rules = RuleSet::compile(rules.clone(), Options { iterations }).expect("compiles");
        assert_eq!(decide(&rules, &QUESTION).matched(), expected, "{iterations}");
    };
    check(0, &[1, 2, 3]);
    check(1, &[1, 0, 2, 3]);
    check(2, &[1, 0, 2, 3]);
    check(3, &[1, 0, 2, 3, 1, 2, 3]);
    let endless = vec![Rule { id: 1, flag_out: Some(0), ..Rule::default() }];
    let rules = RuleSet::compile(endless, Options { iterations: u32::MAX }).expect("compiles");
    assert_eq!(decide(&rules, &QUESTION).matched().len(), ITERATIONS_MAX as usize + 1);
}

#[test]
fn an_answered_statement_leaves_the_sessions_flag_alone() {
    let next = Rule { id: 1, next_query_flag_in: Some(4), ..Rule::default() };
    let decision = decide(&compile(vec![next.clone()]), &QUESTION);
    assert_eq!((decision.session_flag(), decision.answer()), (Some(4), None));
    let ok = Rule { ok_msg: text(""), error_msg: text("no"), ..next };
    let decision = decide(&compile(vec![ok]), &QUESTION);
    assert_eq!(decision.session_flag(), None);
    assert_eq!(decision.answer(), Some(Answer::Ok(&Arc::from(""))));
}

#[test]
fn only_a_look_at_the_statements_text_makes_a_decision_depend_on_it() {
    let by_text = Rule { match_pattern: text("id"), ..Rule::default() };
    let check = |rule: Rule, expected: bool| {
        let rules = compile(numbered(vec![rule]));
        assert_eq!(decide(&rules, &QUESTION).depends_on_text, expected);
    };
    check(by_text.clone(), true);
    check(Rule { match_pattern: text("no"), ..Rule::default() }, true);
    check(Rule { username: text("bob"), ..by_text.clone() }, false);
    check(Rule { match_digest: text("UPDATE"), ..by_text.clone() }, false);
    check(Rule { flag_in: 1, ..by_text }, false);
}

#[test]
fn inactive_rules_are_as_good_as_absent() {
    let off = Rule { active: false, match_digest: text("("), ..Rule::default() };
    let rules = compile(numbered(vec![off.clone(), off]));
    assert!(rules.is_empty());
    assert_eq!(decide(&rules, &QUESTION), Decision::default());
}

#[test]
fn every_refused_rule_is_named_with_its_columns() {
    let rules = vec![
        Rule { id: 4, match_digest: text("("), match_pattern: text("[a-"), ..Rule::default() },
        Rule { id: 2, client_addr: text("127.0.%.5"), digest: text("zzz"), ..Rule::default() },
        Rule { id: 3, proxy_addr: text("host"), digest: text("0x0"), ..Rule::default() },
        Rule { id: 3, digest: text("1E092DAEFFBBF262"), ..Rule::default() },
    ];
    let errors = RuleSet::compile(rules, Options::default()).expect_err("broken rules");
    let shown: Vec<(u32, &str)> = errors.iter().map(|e| (e.rule_id, e.column.name())).collect();
    let expected = [
        (2, "client_addr"),
        (2, "digest"),
        (3, "proxy_addr"),
        (3, "digest"),
        (3, "rule_id"),
        (3, "digest"),
        (4, "match_digest"),
        (4, "match_pattern"),
    ];
    assert_eq!(shown, expected);
    assert_eq!(errors[6].to_string(), "rule 4: match_digest: pattern `(`: missing )");
}

#[test]
fn slow_patterns_are_reported() {
    let slow =
        Rule { match_digest: text("^(?!SELECT)"), match_pattern: text("a"), ..Rule::default() };
    let rules = compile(numbered(vec![Rule { match_digest: text("a"), ..Rule::default() }, slow]));
    assert_eq!(rules.backtracking_rules().collect::<Vec<_>>(), [(2, Column::MatchDigest)]);
}

#[test]
fn among_twenty_thousand_rules_only_candidates_are_visited() {
    let schemas = (0..20_000).map(|number| Rule {
        schemaname: Some(format!("schema_{number}")),
        match_digest: text("^SELECT"),
        apply: true,
        ..Rule::default()
    });
    let users = (0..5_000).map(|number| Rule {
        username: Some(format!("user_{number}")),
        schemaname: text("shop"),
        ..Rule::default()
    });
    let digests = (1..5_000).map(|number| Rule {
        digest: Some(format!("{number:#x}")),
        flag_in: number % 7,
        ..Rule::default()
    });
    let rules = compile(numbered(schemas.chain(users).chain(digests).collect()));
    assert_eq!(rules.len(), 29_999);
    let check = |question: Question<'_>, visited: u32, destination: Option<u32>| {
        let mut hits = Hits::new(&rules);
        let decision = rules.evaluate(&question, &mut hits);
        assert_eq!(decision.visited, visited);
        assert_eq!(decision.effects.destination_hostgroup, destination.map(HostgroupId));
    };
    check(Question { schema: b"schema_12345", ..QUESTION }, 1, Some(12_346));
    check(Question { schema: b"none", ..QUESTION }, 0, None);
    check(Question { username: "user_42", ..QUESTION }, 1, Some(20_043));
    let both = Question { username: "user_42", digest: Some(4_900), ..QUESTION };
    check(both, 2, Some(29_900));
}

mod interpreter;

#[test]
fn shadow_rules_are_not_among_those_that_something_follows_from() {
    let rule = |id, shadow| Rule { id, shadow, match_digest: text("SELECT"), ..Rule::default() };
    let rules = compile(vec![rule(3, false), rule(5, true)]);
    let question = Question { digest_text: b"SELECT ?", ..QUESTION };
    let decision = decide(&rules, &question);
    assert_eq!(decision.matched(), [0, 1]);
    assert_eq!(rules.matched_ids(&decision).collect::<Vec<_>>(), [3]);
}
