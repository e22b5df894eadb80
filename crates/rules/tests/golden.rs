//! What ProxySQL 2.7.1 did with random rule sets, against what these rules decide.
//!
//! The cases that ran with RE2 take part: patterns are PCRE's here, but none of the statements
//! tells the two apart. What a hint in a comment or an open transaction changes is not these
//! rules' affair: it is modelled below or left out, and counted.
#![expect(clippy::indexing_slicing, reason = "a test; an index out of bounds is a failure")]

mod rows;

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;
use serde_json::Value;
use trunkline_rules::{
    Answer, Column, Decision, Executed, Hits, Memory, Options, Question, Rewrites, Rule, RuleSet,
};
use trunkline_sql::digest::{Digest, Digester, Settings};
use trunkline_topology::HostgroupId;

use rows::{number, rule_of, text};

const CASES: &str = include_str!("data/proxysql-rules.jsonl");

#[derive(Deserialize)]
struct Case {
    case: u32,
    settings: BTreeMap<String, String>,
    rules: Vec<BTreeMap<String, Value>>,
    fast_routing: Vec<BTreeMap<String, Value>>,
    clients: Vec<Client>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Client {
    user: String,
    default_hostgroup: u32,
    transaction_persistent: u8,
    schema: String,
    client_addr: IpAddr,
    proxy_addr: IpAddr,
    proxy_port: u16,
}

#[derive(Deserialize)]
struct Step {
    client: usize,
    init_db: Option<String>,
    sql: String,
    observed: Observed,
}

#[derive(Deserialize)]
struct Observed {
    hits: BTreeMap<String, u64>,
    outcome: String,
    hostgroup: Option<u32>,
    backend_text: Option<String>,
    info: Option<String>,
    message: Option<String>,
    stats: Option<Stats>,
}

#[derive(Deserialize)]
struct Stats {
    digest: String,
}

/// What a session remembers between its steps.
struct Session {
    schema: String,
    flag: u32,
    /// The hostgroup of its open transaction.
    transaction: Option<u32>,
}

#[derive(Default)]
struct Tally {
    compared: u32,
    destinations: u32,
    before_rules: u32,
    rewritten: u32,
    hints: u32,
    differences: Vec<String>,
}

/// What ProxySQL makes of a rule that is refused here: an equivalent rule without the refused
/// columns, or `None` for a rule that never matches.
fn tolerated(mut rule: Rule, with_digests: bool) -> Option<Rule> {
    let Err(errors) = RuleSet::compile(vec![rule.clone()], Options::default()) else {
        return Some(rule);
    };
    if errors.iter().any(|error| matches!(error.column, Column::MatchPattern)) {
        // Nothing is found, so nothing is replaced.
        rule.replace_pattern = None;
    }
    for error in errors {
        let is_negated = rule.negate_match_pattern;
        match error.column {
            Column::ReplacePattern => rule.replace_pattern = None,
            Column::Digest => rule.digest = strtoull(rule.digest.as_deref().unwrap_or_default()),
            Column::MatchDigest if is_negated || !with_digests => rule.match_digest = None,
            Column::MatchPattern if is_negated => rule.match_pattern = None,
            _ => return None,
        }
    }
    Some(rule)
}

/// The C function with base 0, as far as the data goes; `None` for 0.
fn strtoull(text: &str) -> Option<String> {
    assert!(!text.starts_with("0x"));
    let (base, digits) = match text.strip_prefix('0') {
        Some(digits) => (8, digits),
        None => (10, text),
    };
    let len = digits.bytes().take_while(|&byte| char::from(byte).is_digit(base)).count();
    let number = u64::from_str_radix(&digits[..len], base).unwrap_or(0);
    (number != 0).then(|| format!("{number:#x}"))
}

#[test]
fn rules_decide_as_proxysql_does() {
    let mut tally = Tally::default();
    let cases = CASES.lines().map(|line| serde_json::from_str::<Case>(line).expect("a case"));
    let number = cases.map(|case| run(&case, &mut tally)).count();
    println!(
        "{number} cases: {} steps compared, {} with their destination, {} rewritten; left out: {} \
         answered before rules; destination set by a hint: {}",
        tally.compared, tally.destinations, tally.rewritten, tally.before_rules, tally.hints
    );
    assert!(tally.compared > 1_500 && tally.destinations > 1_200 && tally.rewritten > 50);
    let shown = tally.differences.join("\n");
    assert!(tally.differences.is_empty(), "{} differences:\n{shown}", tally.differences.len());
}

/// A case's rules: as ProxySQL holds them, and compiled.
struct Loaded {
    rules: RuleSet,
    /// Whether the last rule has `apply`.
    last_applies: bool,
    with_digests: bool,
}

fn load(case: &Case) -> Loaded {
    let setting = |name: &str| case.settings.get(name).map(String::as_str);
    let with_digests = setting("mysql-query_digests") != Some("false");
    let iterations = setting("mysql-query_processor_iterations")
        .map_or(0, |iterations| iterations.parse().expect("iterations"));
    let mut rows: Vec<Rule> = case.rules.iter().map(rule_of).filter(|rule| rule.active).collect();
    rows.sort_by_key(|rule| rule.id);
    let is_loaded = |rule: &&Rule| {
        let addr = rule.client_addr.as_deref().unwrap_or_default();
        !addr.trim_end_matches('%').contains('%')
    };
    let last_applies = rows.iter().rfind(is_loaded).is_some_and(|rule| rule.apply);
    let rules = rows.into_iter().filter_map(|rule| tolerated(rule, with_digests));
    let rules = RuleSet::compile(rules.collect(), Options { iterations });
    let rules = rules.expect("tolerated rules compile");
    Loaded { rules, last_applies, with_digests }
}

fn run(case: &Case, tally: &mut Tally) {
    let loaded = load(case);
    let mut sessions: Vec<Session> = case.clients.iter().map(Session::new).collect();
    let mut memory = Memory::new(64);
    let mut digester = Digester::new();
    let lowercase = case.settings.get("mysql-query_digests_lowercase");
    let lowercase = lowercase.is_some_and(|value| value == "true");
    let settings = Settings { lowercase, ..Settings::default() };
    for (at, step) in case.steps.iter().enumerate() {
        let client = &case.clients[step.client];
        let session = &mut sessions[step.client];
        if let Some(schema) = &step.init_db {
            session.schema.clone_from(schema);
        }
        if session.is_answered_before_rules(&step.sql) {
            assert!(step.observed.hits.is_empty());
            tally.before_rules += 1;
            continue;
        }
        let made = step.observed.stats.as_ref();
        let made = made.map(|_| digester.digest(step.sql.as_bytes(), &settings));
        let question = question_of(client, session, step, made, &loaded);
        let mut hits = Hits::new(&loaded.rules);
        let decision = memory.decide(&loaded.rules, &question, &mut hits).clone();
        assert_eq!(decision, loaded.rules.evaluate(&question, &mut Hits::new(&loaded.rules)));
        let hits: BTreeMap<String, u64> = hits
            .by_rule(&loaded.rules)
            .filter(|(_, count)| *count > 0)
            .map(|(id, count)| (id.to_string(), count))
            .collect();
        if let Some(stats) = &step.observed.stats {
            // Statistics are of the statement as it was sent; rules test it as it came.
            let sent = decision.rewritten.as_deref().unwrap_or(step.sql.as_bytes());
            let shown = digester.digest(sent, &settings).format().to_string();
            assert_eq!(shown, stats.digest, "case {} step {at}: {}", case.case, step.sql);
        }
        session.flag = decision.session_flag().unwrap_or(session.flag);
        tally.compared += 1;
        let hostgroup = hostgroup_of(case, client, session, &decision, loaded.last_applies);
        if let Some(difference) = compare(&hits, step, &decision, hostgroup, tally) {
            let difference = format!("case {} step {at}: {difference}: {}", case.case, step.sql);
            tally.differences.push(difference);
        }
        session.follow(&step.sql, &step.observed);
    }
}

fn question_of<'a>(
    client: &'a Client,
    session: &'a Session,
    step: &'a Step,
    made: Option<Digest<'a>>,
    loaded: &Loaded,
) -> Question<'a> {
    let digest = made.filter(|_| loaded.with_digests);
    Question {
        username: &client.user,
        schema: session.schema.as_bytes(),
        flag: session.flag,
        client_addr: Some(client.client_addr),
        proxy_addr: Some(client.proxy_addr),
        proxy_port: Some(client.proxy_port),
        digest: digest.map(|digest| digest.hash),
        digest_text: digest.map_or(b"", |digest| digest.text),
        query: step.sql.as_bytes(),
        executed: Executed::AsDigested,
        rewrites: Rewrites::All,
        chance: 0,
    }
}

fn compare(
    hits: &BTreeMap<String, u64>,
    step: &Step,
    decision: &Decision,
    hostgroup: u32,
    tally: &mut Tally,
) -> Option<String> {
    let (observed, sql) = (&step.observed, &step.sql);
    if *hits != observed.hits {
        return Some(format!("hits {hits:?}, observed {:?}", observed.hits));
    }
    if let Some(sent) = &observed.backend_text {
        let text = decision.rewritten.as_deref().unwrap_or(sql.as_bytes());
        if *text != *sent.as_bytes() {
            return Some(format!("text {:?}, observed {sent:?}", String::from_utf8_lossy(text)));
        }
        tally.rewritten += u32::from(decision.rewritten.is_some());
    }
    let answer = decision.answer();
    let agrees = match observed.outcome.as_str() {
        "ok" if observed.backend_text.is_none() => {
            // `USE` and the version's comment are answered by the proxy, whatever rules say.
            let is_own =
                sql.to_ascii_lowercase().starts_with("use ") || sql.contains("@@version_comment");
            let info = observed.info.as_deref().unwrap_or_default();
            is_own || matches!(answer, Some(Answer::Ok(text)) if **text == *info)
        }
        "error" => {
            let message = observed.message.as_deref().unwrap_or_default();
            matches!(answer, Some(Answer::Error(text)) if **text == *message)
        }
        "backend" if answer.is_some() => false,
        "backend" if sql.contains("hostgroup=") && sql.contains("/*") => {
            tally.hints += 1;
            true
        }
        "backend" => {
            tally.destinations += 1;
            observed.hostgroup == Some(hostgroup)
        }
        other => panic!("outcome {other}"),
    };
    (!agrees).then(|| {
        format!(
            "hostgroup {hostgroup}, answer {answer:?}, observed {} {:?} {:?} {:?}",
            observed.outcome, observed.hostgroup, observed.info, observed.message
        )
    })
}

/// Where the statement goes, fast routing and an open transaction included.
fn hostgroup_of(
    case: &Case,
    client: &Client,
    session: &Session,
    decision: &Decision,
    last_applies: bool,
) -> u32 {
    if let Some(hostgroup) = session.transaction.filter(|_| client.transaction_persistent == 1) {
        return hostgroup;
    }
    let fast = |user: &str| {
        let row = case.fast_routing.iter().find(|row| {
            text(row, "username").as_deref() == Some(user)
                && text(row, "schemaname").as_deref() == Some(&session.schema)
                && number(row, "flagIN").unwrap_or(0) == decision.final_flag
        })?;
        number(row, "destination_hostgroup")
    };
    // ProxySQL also skips fast routing when the last rule has `apply` and did not match.
    let is_skipped = decision.applied || last_applies;
    let fast =
        Some(()).filter(|()| !is_skipped).and_then(|()| fast(&client.user).or_else(|| fast("")));
    let by_rules = decision.effects.destination_hostgroup.map(|HostgroupId(number)| number);
    fast.or(by_rules).unwrap_or(client.default_hostgroup)
}

impl Session {
    fn new(client: &Client) -> Self {
        Self { schema: client.schema.clone(), flag: 0, transaction: None }
    }

    fn is_answered_before_rules(&self, sql: &str) -> bool {
        let text = sql.to_ascii_lowercase();
        let ends = self.transaction.is_none() && matches!(text.as_str(), "commit" | "rollback");
        ends || text.starts_with("set names") || text.starts_with("set autocommit")
    }

    fn follow(&mut self, sql: &str, observed: &Observed) {
        let text = sql.to_ascii_lowercase();
        if let Some(schema) = text.strip_prefix("use ") {
            self.schema = schema.trim().trim_matches('`').to_owned();
        }
        if observed.outcome != "backend" {
            return;
        }
        if text.starts_with("begin") || text.starts_with("start transaction") {
            self.transaction = observed.hostgroup;
        } else if text.starts_with("commit") || text.starts_with("rollback") {
            self.transaction = None;
        }
    }
}
