//! Short runs that are written down, for what a seed has found: seeds mean other runs when the
//! code that draws plans changes.

use trunkline_sim::{
    Outcome,
    client::{Deed, Leaving, Reading, Step},
    plan::{Limits, Plan},
    run,
    statement::{Act, Statement, Tag, Template},
};

/// Takes writes.
const WRITER: u32 = 10;

/// A calm world with a writer and readers elsewhere, and one client that says this.
fn play(deeds: Vec<Deed>) -> Outcome {
    play_with(&[], deeds)
}

/// The same with these settings.
fn play_with(settings: &[(&'static str, u64)], deeds: Vec<Deed>) -> Outcome {
    let limits = Limits { clients: (1, 1), statements: (1, 1), faults: false };
    let has_readers = |plan: &Plan| {
        let config = plan.configs.first();
        plan.cluster.hosts.len() > 1
            && config.is_some_and(|config| config.splits.iter().any(|split| split.is_auto))
    };
    let mut plans = (0..).map(|seed| Plan::from_seed(seed, &limits));
    let mut plan = plans.find(has_readers).expect("plans never end");
    plan.configs.truncate(1);
    let primary = plan.cluster.primary;
    let config = plan.configs.first_mut().expect("a plan has one");
    config.rules.clear();
    config.settings.extend(settings.iter().copied());
    config.servers.retain(|server| (server.hostgroup == WRITER) == (server.host == primary));
    let client = plan.clients.first_mut().expect("one was asked for");
    let user = config.users.iter().find(|user| user.name == "app").expect("there is one");
    client.identity.user.clone_from(&user.name);
    client.identity.password.clone_from(&user.password);
    client.identity.schema = Some("shop".to_owned());
    (client.refusal, client.is_direct) = (None, false);
    (client.ahead_max, client.reading, client.leaving) = (1, Reading::Eager, Leaving::Politely);
    client.script = deeds.into_iter().map(|deed| Step { pause_us: 0, deed }).collect();
    run(&plan, true)
}

fn tag(number: u64) -> Tag {
    Tag::new(0, number)
}

fn say(number: u64, act: Act) -> Deed {
    Deed::Query(vec![Statement::new(tag(number), act)])
}

/// Lines of the trace that show the proxy send this to a host.
fn sent(outcome: &Outcome, what: &str) -> Vec<String> {
    let trace = outcome.trace.to_string();
    let lines = trace.lines().filter(|line| line.contains("proxy -> host") && line.contains(what));
    lines.map(str::to_owned).collect()
}

#[test]
fn what_may_write_goes_to_the_writer_while_a_cursor_is_open_on_a_reader() {
    let fetch = || Deed::Fetch { slot: 0, rows: 2 };
    let outcome = play(vec![
        Deed::Prepare { slot: 0, template: Template::Numbers, tag: tag(1) },
        Deed::Execute { slot: 0, tag: tag(2), value: 9, cursor: true, long_data: false },
        fetch(),
        say(3, Act::Insert),
        fetch(),
        say(4, Act::LockTables { write: true }),
        say(5, Act::Insert),
        say(6, Act::UnlockTables),
        fetch(),
        say(7, Act::SetTransaction { session: false, isolation: None, read_only: Some(true) }),
        say(8, Act::Read { key: 1 }),
        say(9, Act::Insert),
    ]);
    assert_eq!(outcome.violations, []);
    let cursors = sent(&outcome, r"\x17\x01\x00\x00\x00\x01");
    assert_eq!(cursors.len(), 1);
    assert!(!cursors[0].contains("host 0"), "{cursors:?}");
    for what in ["INSERT", "LOCK TABLES"] {
        let lines = sent(&outcome, what);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.contains("host 0")), "{lines:?}");
    }
}

#[test]
fn reads_on_readers_are_held_back_too() {
    let outcome = play_with(&[("default_query_delay", 50)], vec![say(1, Act::Read { key: 1 })]);
    assert_eq!(outcome.violations, []);
    let trace = outcome.trace.to_string();
    let at = |what: &str| {
        let line = trace.lines().find(|line| line.contains(what) && line.contains("FROM kv"));
        let time = line.and_then(|line| line.split_whitespace().next()).expect(&trace);
        time.parse::<f64>().expect("a time")
    };
    let delay = at("-> host") - at("client 0 -> proxy");
    assert!((0.05..0.2).contains(&delay), "{delay}");
}
