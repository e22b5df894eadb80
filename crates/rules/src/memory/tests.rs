use std::net::Ipv4Addr;

use super::*;
use crate::{Options, Rewrites, Rule};

const QUESTION: Question<'static> = Question {
    username: "alice",
    schema: b"shop",
    flag: 0,
    client_addr: None,
    proxy_addr: None,
    proxy_port: Some(6033),
    digest: Some(0xABC),
    digest_text: b"SELECT ?",
    query: b"SELECT 1",
    executed: Executed::AsDigested,
    rewrites: Rewrites::All,
    chance: 0,
};

/// Each differs from [`QUESTION`] in one part.
const OTHERS: [Question<'static>; 9] = [
    Question { username: "bob", ..QUESTION },
    Question { schema: b"app", ..QUESTION },
    Question { flag: 1, ..QUESTION },
    Question { client_addr: ADDR, ..QUESTION },
    Question { proxy_addr: ADDR, ..QUESTION },
    Question { proxy_port: Some(1), ..QUESTION },
    Question { digest: Some(1), ..QUESTION },
    Question { digest: None, ..QUESTION },
    Question { digest_text: b"UPDATE ?", ..QUESTION },
];

const ADDR: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));

fn compile(rules: Vec<Rule>) -> RuleSet {
    let rules = (1..).zip(rules).map(|(id, rule)| Rule { id, ..rule }).collect();
    RuleSet::compile(rules, Options::default()).expect("rules that compile")
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_statement_is_evaluated_once_and_counted_each_time() {
    let rules = compile(vec![Rule { match_digest: text("^SELECT"), ..Rule::default() }]);
    let mut memory = Memory::new(100);
    let mut hits = Hits::new(&rules);
    for other_text in [&b"SELECT 1"[..], b"SELECT 2", b"SELECT 3"] {
        let question = Question { query: other_text, ..QUESTION };
        assert_eq!(memory.decide(&rules, &question, &mut hits).matched(), [0]);
    }
    assert_eq!(memory.counters(), MemoryCounters { found: 2, evaluated: 1, evicted: 0 });
    assert_eq!(hits.count(0), 3);
}

#[test]
fn every_tested_part_of_a_question_tells_entries_apart_and_no_other_does() {
    let evaluated = |rule: Rule| {
        let rules = compile(vec![rule]);
        let mut memory = Memory::new(100);
        let mut hits = Hits::new(&rules);
        memory.decide(&rules, &QUESTION, &mut hits);
        OTHERS
            .iter()
            .enumerate()
            .filter_map(|(number, question)| {
                let before = memory.counters().evaluated;
                memory.decide(&rules, question, &mut hits);
                (memory.counters().evaluated > before).then_some(number)
            })
            .collect::<Vec<_>>()
    };
    let rule = |change: fn(&mut Rule)| {
        let mut rule = Rule::default();
        change(&mut rule);
        rule
    };
    assert_eq!(evaluated(rule(|_| {})), [2]);
    assert_eq!(evaluated(rule(|rule| rule.username = text("x"))), [0, 2]);
    assert_eq!(evaluated(rule(|rule| rule.schemaname = text("x"))), [1, 2]);
    assert_eq!(evaluated(rule(|rule| rule.client_addr = text("10.%"))), [2, 3]);
    assert_eq!(evaluated(rule(|rule| rule.proxy_addr = text("10.0.0.1"))), [2, 4]);
    assert_eq!(evaluated(rule(|rule| rule.proxy_port = Some(2))), [2, 5]);
    assert_eq!(evaluated(rule(|rule| rule.digest = text("0x2"))), [2, 6, 7]);
    assert_eq!(evaluated(rule(|rule| rule.match_digest = text("a"))), [2, 6, 7, 8]);
}

#[test]
fn the_boundary_between_user_and_schema_is_part_of_the_key() {
    let rules =
        compile(vec![Rule { username: text("a"), schemaname: text("bc"), ..Rule::default() }]);
    let mut memory = Memory::new(8);
    let mut hits = Hits::new(&rules);
    let one = Question { username: "a", schema: b"bc", ..QUESTION };
    let other = Question { username: "ab", schema: b"c", ..QUESTION };
    assert_eq!(memory.decide(&rules, &one, &mut hits).matched().len(), 1);
    assert_eq!(memory.decide(&rules, &other, &mut hits).matched().len(), 0);
}

#[test]
fn a_made_up_digest_collision_does_not_get_the_other_statements_decision() {
    let rules = compile(vec![Rule { match_digest: text("DROP"), ..Rule::default() }]);
    let mut memory = Memory::new(8);
    let mut hits = Hits::new(&rules);
    memory.decide(&rules, &QUESTION, &mut hits);
    let twin = Question { digest_text: b"DROP TABLE t", ..QUESTION };
    assert_eq!(memory.decide(&rules, &twin, &mut hits).matched(), [0]);
}

#[test]
fn a_decision_by_the_statements_text_is_made_anew() {
    let by_text = Rule { match_pattern: text("id=5"), ..Rule::default() };
    let rules = compile(vec![by_text]);
    let mut memory = Memory::new(8);
    let mut hits = Hits::new(&rules);
    for (query, matched) in [(&b"id=5"[..], 1), (b"id=6", 0), (b"id=5", 1)] {
        let question = Question { query, ..QUESTION };
        assert_eq!(memory.decide(&rules, &question, &mut hits).matched().len(), matched);
    }
    assert_eq!(memory.counters().found, 0);
}

#[test]
fn other_rules_make_it_forget() {
    let to = |username: &str| compile(vec![Rule { username: text(username), ..Rule::default() }]);
    let (alice, bob) = (to("alice"), to("bob"));
    let mut memory = Memory::new(8);
    let mut hits = Hits::new(&alice);
    for (rules, matched) in [(&alice, 1), (&bob, 0), (&alice.clone(), 1), (&alice, 1)] {
        assert_eq!(memory.decide(rules, &QUESTION, &mut hits).matched().len(), matched);
    }
    assert_eq!(memory.counters().found, 1);
}

#[test]
fn it_stays_within_its_capacity_and_keeps_what_is_used() {
    let rules = compile(vec![Rule { digest: text("0x1"), ..Rule::default() }]);
    let mut memory = Memory::new(64);
    let mut hits = Hits::new(&rules);
    let ask = |memory: &mut Memory, hits: &mut Hits, digest: u64| {
        let question = Question { digest: Some(digest), ..QUESTION };
        let before = memory.counters().found;
        let matched = memory.decide(&rules, &question, hits).matched().len();
        assert_eq!(matched, usize::from(digest == 1));
        memory.counters().found > before
    };
    let mut kept = 0;
    for digest in 0..10_000 {
        kept += u32::from(ask(&mut memory, &mut hits, 1));
        ask(&mut memory, &mut hits, digest);
    }
    let filled = memory.sets.iter().flat_map(|set| &set.entries).flatten().count();
    assert!(filled <= 64, "{filled}");
    assert!(memory.counters().evicted > 9_000);
    assert!(kept > 9_990, "a statement in use is not forgotten: {kept}");
}

#[test]
fn a_key_too_long_is_not_remembered() {
    let rules = compile(vec![Rule { match_digest: text("x"), ..Rule::default() }]);
    let mut memory = Memory::new(8);
    let mut hits = Hits::new(&rules);
    let long = vec![b'y'; KEY_MAX + 1];
    let question = Question { digest_text: &long, ..QUESTION };
    memory.decide(&rules, &question, &mut hits);
    memory.decide(&rules, &question, &mut hits);
    assert_eq!(memory.counters(), MemoryCounters { found: 0, evaluated: 2, evicted: 0 });
}
