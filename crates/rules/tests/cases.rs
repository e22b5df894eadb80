//! What rules mean, case by case: `data/rules.jsonl`, one JSON object a line.
//!
//! | member | |
//! |---|---|
//! | `about` | what the case shows |
//! | `differs` | where ProxySQL does otherwise, how |
//! | `iterations` | `query_processor_iterations`, 0 when absent |
//! | `rules` | rows of `mysql_query_rules`, with defaults for absent columns |
//! | `refused` | the column that the rules are refused for |
//! | `asks` | statements, and what is decided |
//!
//! A member of `asks` that is absent has the value in [`Ask::default`], or is not compared.

mod rows;

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::{Map, Value};
use trunkline_rules::{
    Answer, Decision, Effects, Executed, Hits, Memory, Options, Question, Rewrites, RuleSet,
};
use trunkline_sql::digest::{Digester, Settings};

use rows::{Row, rule_of};

const CASES: &str = include_str!("data/rules.jsonl");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    about: String,
    #[serde(default)]
    differs: Option<String>,
    #[serde(default)]
    iterations: u32,
    rules: Vec<Row>,
    #[serde(default)]
    refused: Option<String>,
    #[serde(default)]
    asks: Vec<Ask>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Ask {
    user: String,
    schema: String,
    flag: u32,
    client_addr: Option<IpAddr>,
    proxy_addr: Option<IpAddr>,
    proxy_port: Option<u16>,
    sql: String,
    digests: bool,
    execute: bool,
    chance: u64,
    /// Ids of the rules that matched, in order.
    hits: Vec<u32>,
    /// All columns that the decision sets, but for those in other members.
    effects: Option<Map<String, Value>>,
    final_flag: Option<u32>,
    applied: Option<bool>,
    by_chance: Option<bool>,
    /// `ok TEXT` or `error TEXT`.
    answer: Option<String>,
    #[serde(deserialize_with = "given")]
    session_flag: Option<Option<u32>>,
    #[serde(deserialize_with = "given")]
    text: Option<Option<String>>,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            user: "alice".to_owned(),
            schema: "shop".to_owned(),
            flag: 0,
            client_addr: "10.0.0.7".parse().ok(),
            proxy_addr: "127.0.0.1".parse().ok(),
            proxy_port: Some(6_033),
            sql: "SELECT c FROM t WHERE id=5".to_owned(),
            digests: true,
            execute: false,
            chance: 1,
            hits: Vec::new(),
            effects: None,
            final_flag: None,
            applied: None,
            by_chance: None,
            answer: None,
            session_flag: None,
            text: None,
        }
    }
}

/// Tells `null` from what is absent.
fn given<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

#[test]
fn every_case_is_decided_as_it_is_written() {
    let mut differences = Vec::new();
    let (mut cases, mut asks) = (0, 0);
    for line in CASES.lines() {
        let case: Case = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let rules = case.rules.iter().map(rule_of).collect();
        let compiled = RuleSet::compile(rules, Options { iterations: case.iterations });
        let note = case.differs.as_deref().unwrap_or_default();
        cases += 1;
        let rules = match (compiled, &case.refused) {
            (Ok(rules), None) => rules,
            (Err(errors), Some(column)) => {
                let columns: Vec<_> = errors.iter().map(|error| error.column.name()).collect();
                if columns != [column] {
                    differences.push(format!("{}: refused for {columns:?} {note}", case.about));
                }
                continue;
            }
            (compiled, expected) => {
                let found = compiled.map(|rules| rules.len());
                differences.push(format!("{}: {found:?}, not {expected:?} {note}", case.about));
                continue;
            }
        };
        for (place, ask) in case.asks.iter().enumerate() {
            asks += 1;
            if let Some(difference) = compare(&rules, ask) {
                differences.push(format!("{}, ask {place}: {difference} {note}", case.about));
            }
        }
    }
    assert!(cases > 100 && asks > 100, "{cases} cases, {asks} asks");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The columns of `mysql_query_rules`, and ours.
const COLUMNS: [&str; 37] = [
    "rule_id",
    "active",
    "username",
    "schemaname",
    "flagIN",
    "client_addr",
    "proxy_addr",
    "proxy_port",
    "digest",
    "match_digest",
    "match_pattern",
    "negate_match_pattern",
    "re_modifiers",
    "flagOUT",
    "replace_pattern",
    "destination_hostgroup",
    "cache_ttl",
    "cache_empty_result",
    "cache_timeout",
    "reconnect",
    "timeout",
    "retries",
    "delay",
    "next_query_flagIN",
    "mirror_flagOUT",
    "mirror_hostgroup",
    "error_msg",
    "OK_msg",
    "sticky_conn",
    "multiplex",
    "gtid_from_hostgroup",
    "log",
    "apply",
    "attributes",
    "comment",
    "shadow",
    "pipeline",
];

#[test]
fn every_column_is_in_a_case_alone_and_in_a_chain() {
    let cases: Vec<Case> =
        CASES.lines().map(|line| serde_json::from_str(line).expect("a case")).collect();
    let used = |column: &str, is_alone: bool| {
        let has = |case: &&Case| {
            case.refused.is_none()
                && (case.rules.len() == 1) == is_alone
                && case.rules.iter().any(|rule| rule.contains_key(column))
        };
        cases.iter().any(|case| has(&case))
    };
    for column in COLUMNS {
        assert!(used(column, true), "{column} in a rule by itself");
        assert!(used(column, false), "{column} in one of several rules");
    }
    for rule in cases.iter().flat_map(|case| &case.rules) {
        assert!(rule.keys().all(|column| COLUMNS.contains(&column.as_str())), "{rule:?}");
    }
}

fn compare(rules: &RuleSet, ask: &Ask) -> Option<String> {
    let mut digester = Digester::new();
    let digest = digester.digest(ask.sql.as_bytes(), &Settings::default());
    let question = Question {
        username: &ask.user,
        schema: ask.schema.as_bytes(),
        flag: ask.flag,
        client_addr: ask.client_addr,
        proxy_addr: ask.proxy_addr,
        proxy_port: ask.proxy_port,
        digest: ask.digests.then_some(digest.hash),
        digest_text: if ask.digests { digest.text } else { b"" },
        query: ask.sql.as_bytes(),
        executed: Executed::AsDigested,
        rewrites: match ask.execute {
            true => Rewrites::Protecting,
            false => Rewrites::All,
        },
        chance: ask.chance,
    };
    let mut hits = Hits::new(rules);
    let decision = rules.evaluate(&question, &mut hits);
    // However it is asked, it is decided alike.
    let mut memory = Memory::new(8);
    for _ in 0..2 {
        assert_eq!(memory.decide(rules, &question, &mut hits), &decision);
    }
    let mut explained: Decision = rules.explain(&question).1;
    explained.visited = decision.visited;
    assert_eq!(explained, decision);

    let ids: Vec<u32> =
        decision.matched().iter().filter_map(|index| rules.rule_id(*index as usize)).collect();
    let answer = decision.answer().map(|answer| match answer {
        Answer::Ok(text) => format!("ok {text}"),
        Answer::Error(text) => format!("error {text}"),
    });
    let text = decision.rewritten.as_ref().map(|text| String::from_utf8_lossy(text).into_owned());
    let effects = shown(&decision.effects);
    let differs = |expected: bool, what: String| (!expected).then_some(what);
    differs(ids == ask.hits, format!("hits {ids:?}, not {:?}", ask.hits))
        .or(differs(
            ask.effects.as_ref().is_none_or(|wanted| *wanted == effects),
            format!("effects {effects:?}, not {:?}", ask.effects),
        ))
        .or(differs(
            ask.final_flag.is_none_or(|flag| flag == decision.final_flag),
            format!("final flag {}", decision.final_flag),
        ))
        .or(differs(
            ask.applied.is_none_or(|applied| applied == decision.applied),
            format!("applied {}", decision.applied),
        ))
        .or(differs(
            ask.by_chance.is_none_or(|by_chance| by_chance == decision.depends_on_chance),
            format!("by chance {}", decision.depends_on_chance),
        ))
        .or(differs(ask.answer.is_none() || ask.answer == answer, format!("answer {answer:?}")))
        .or(differs(
            ask.session_flag.is_none_or(|flag| flag == decision.session_flag()),
            format!("session flag {:?}", decision.session_flag()),
        ))
        .or(differs(
            ask.text.as_ref().is_none_or(|wanted| *wanted == text),
            format!("text {text:?}"),
        ))
}

/// The effects by column; a field that is not shown does not compile.
fn shown(effects: &Effects) -> Map<String, Value> {
    let Effects {
        destination_hostgroup,
        cache_ttl_ms,
        cache_rule: _,
        cache_always: _,
        cache_until_changed: _,
        cache_age_max_ms: _,
        cache_empty_result,
        cache_timeout_ms,
        reconnect,
        timeout_ms,
        retries,
        delay_ms,
        next_query_flag,
        mirror_flag,
        mirror_hostgroup,
        mirror_compares: _,
        tenant_rule: _,
        error_msg,
        ok_msg,
        sticky_conn,
        multiplex,
        gtid_from_hostgroup,
        log,
        pipeline,
        lazy_transactions,
        causal_reads,
        trace_sample: _,
    } = effects;
    let number = |value: &Option<u32>| value.map(Value::from);
    let flag = |value: &Option<bool>| value.map(u32::from).map(Value::from);
    let text = |value: &Option<std::sync::Arc<str>>| value.as_deref().map(Value::from);
    let columns = [
        ("destination_hostgroup", destination_hostgroup.map(|id| Value::from(id.0))),
        ("cache_ttl", number(cache_ttl_ms)),
        ("cache_empty_result", flag(cache_empty_result)),
        ("cache_timeout", number(cache_timeout_ms)),
        ("reconnect", flag(reconnect)),
        ("timeout", number(timeout_ms)),
        ("retries", number(retries)),
        ("delay", number(delay_ms)),
        ("next_query_flagIN", number(next_query_flag)),
        ("mirror_flagOUT", number(mirror_flag)),
        ("mirror_hostgroup", mirror_hostgroup.map(|id| Value::from(id.0))),
        ("error_msg", text(error_msg)),
        ("OK_msg", text(ok_msg)),
        ("sticky_conn", flag(sticky_conn)),
        ("multiplex", multiplex.map(|multiplex| Value::from(multiplex.number()))),
        ("gtid_from_hostgroup", gtid_from_hostgroup.map(|id| Value::from(id.0))),
        ("log", flag(log)),
        ("pipeline", pipeline.map(|pipeline| Value::from(pipeline.to_string()))),
        ("lazy_transactions", lazy_transactions.map(|mode| Value::from(mode.to_string()))),
        ("causal_reads", causal_reads.map(|reads| Value::from(reads.to_string()))),
    ];
    let set = columns.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    set.collect()
}
