//! Short runs that are written down, for what a seed has found: seeds mean other runs when the
//! code that draws plans changes.

use std::collections::BTreeSet;

use trunkline_protocol::{Capabilities, packet::greeting::Flavor};
use trunkline_sim::{
    HostId, Outcome,
    client::{Deed, Leaving, Reading, Step},
    plan::{Fault, Limits, Plan, RuleSpec},
    run,
    server::ServerFault,
    statement::{
        Act, BeginForm, PreparedSql, Scope, SetValue, Setting, Statement, Tag, Template, Upload,
        Value, Variable,
    },
};

/// Takes writes.
const WRITER: u32 = 10;

/// A calm world with a writer and readers elsewhere, and one client that says this.
fn play(deeds: Vec<Deed>) -> Outcome {
    play_with(&[], deeds)
}

/// A calm world with these settings, and one client that says this.
fn play_with(settings: &[(&'static str, u64)], deeds: Vec<Deed>) -> Outcome {
    let steps = deeds.into_iter().map(|deed| Step { pause_us: 0, deed }).collect();
    run(&world(settings, vec![steps]), true)
}

/// Whether all servers of a plan are MySQL's, and texts to them can be read in the trace.
fn is_mysql_uncompressed(plan: &Plan) -> bool {
    let mut servers = plan.configs.iter().flat_map(|config| &config.servers);
    plan.cluster.hosts.iter().all(|host| host.flavor == Flavor::MySql)
        && servers.all(|server| server.compression.is_none())
}

/// A calm world with a writer and readers elsewhere, and as many clients as there are scripts.
fn world(settings: &[(&'static str, u64)], scripts: Vec<Vec<Step>>) -> Plan {
    world_with(|_| true, settings, scripts)
}

/// A calm world with a writer and readers elsewhere, drawn from the first plan that is like this,
/// and as many clients as there are scripts.
fn world_with(
    is_it: impl Fn(&Plan) -> bool,
    settings: &[(&'static str, u64)],
    scripts: Vec<Vec<Step>>,
) -> Plan {
    let clients = scripts.len() as u64;
    let limits = Limits { clients: (clients, clients), statements: (1, 1), faults: false };
    let has_readers = |plan: &Plan| {
        let config = plan.configs.first();
        plan.cluster.hosts.len() > 1
            && is_it(plan)
            && config.is_some_and(|config| config.splits.iter().any(|split| split.is_auto))
    };
    let mut plans = (0..).map(|seed| Plan::from_seed(seed, &limits));
    let mut plan = plans.find(has_readers).expect("plans never end");
    plan.configs.truncate(1);
    plan.hides_definitions = false;
    let primary = plan.cluster.primary;
    let config = plan.configs.first_mut().expect("a plan has one");
    config.rules.clear();
    config.settings.extend(settings.iter().copied());
    config.servers.retain(|server| (server.hostgroup == WRITER) == (server.host == primary));
    let user = config.users.iter().find(|user| user.name == "app").expect("there is one");
    for (client, script) in plan.clients.iter_mut().zip(scripts) {
        client.identity.user.clone_from(&user.name);
        client.identity.password.clone_from(&user.password);
        client.identity.schema = Some("shop".to_owned());
        (client.refusal, client.is_direct, client.starts_us) = (None, false, 0);
        (client.ahead_max, client.reading, client.leaving) = (1, Reading::Eager, Leaving::Politely);
        client.script = script;
    }
    plan
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
        // Its names are known from then on, so that it is prepared where it runs.
        say(10, Act::Numbers { rows: 1, width: 1 }),
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
    // Executed by its number, or as what was prepared just before it on another reader.
    let mut cursors = sent(&outcome, r"\x17\x01\x00\x00\x00\x01");
    cursors.extend(sent(&outcome, r"\x17\xff\xff\xff\xff\x01"));
    assert_eq!(cursors.len(), 1, "{cursors:?}");
    assert!(!cursors[0].contains("host 0"), "{cursors:?}");
    for what in ["INSERT", "LOCK TABLES"] {
        let lines = sent(&outcome, what);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.contains("host 0")), "{lines:?}");
    }
}

#[test]
fn a_read_uses_up_what_is_said_of_the_next_transaction_behind_one_that_left_a_reader() {
    let outcome = play(vec![
        say(1, Act::Begin(BeginForm::ReadOnly)),
        say(7, Act::Read { key: 2 }),
        say(2, Act::InsertRefused(0)),
        say(3, Act::Commit),
        say(4, Act::SetTransaction { session: false, isolation: None, read_only: Some(true) }),
        say(5, Act::Read { key: 1 }),
        say(6, Act::Insert),
    ]);
    assert_eq!(outcome.violations, []);
    // What may write takes the transaction to the writer, and what it may have left holds it there.
    let began = sent(&outcome, "START TRANSACTION READ ONLY");
    let on_writer: Vec<bool> = began.iter().map(|line| line.contains("-> host 0")).collect();
    assert_eq!(on_writer, [false, true], "{began:?}");
    for what in ["SET TRANSACTION", "1000005 AS tag", "INSERT INTO log"] {
        let lines = sent(&outcome, what);
        assert!(lines.len() == 1 && lines[0].contains("-> host 0"), "{what}: {lines:?}");
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

#[test]
fn a_statement_out_of_its_time_is_not_ended_by_way_of_the_state_before_it() {
    let at_once = |deed| Step { pause_us: 0, deed };
    let variable = Setting::User { name: 0, value: Some(5) };
    // The session gets its variable on a reader; the writer is told of it in front of the second
    // write, and takes longer for that than a statement may take.
    // On MariaDB a write waits for that.
    let mut plan = world_with(
        is_mysql_uncompressed,
        &[("default_query_timeout", 30)],
        vec![vec![
            at_once(say(1, Act::Insert)),
            at_once(say(2, Act::Begin(BeginForm::ReadOnly))),
            at_once(say(3, Act::Read { key: 1 })),
            at_once(say(4, Act::Set(vec![variable]))),
            at_once(say(5, Act::Commit)),
            Step { pause_us: 500_000, deed: say(6, Act::Insert) },
        ]],
    );
    let host = plan.cluster.primary;
    let slow = ServerFault::Slow { host, factor: 2_000, for_us: 250_000 };
    plan.faults.push((400_000, Fault::Server(slow)));
    let outcome = run(&plan, true);
    assert_eq!(outcome.violations, []);
    let writes = sent(&outcome, "SET @`u0`=5");
    assert!(writes.iter().any(|line| line.contains("INSERT")), "{}", outcome.trace);
}

#[test]
fn kills_share_a_connection_beyond_the_limit_and_each_is_sent_once() {
    let scripts = (0..3).map(|place| {
        let sleep = Statement::new(Tag::new(place, 1), Act::Sleep { ms: 400 });
        vec![Step { pause_us: 2_000 * place as u64, deed: Deed::Query(vec![sleep]) }]
    });
    let mut plan = world(&[("default_query_timeout", 30)], scripts.collect());
    plan.workers = 1;
    for server in plan.configs.iter_mut().flat_map(|config| &mut config.servers) {
        server.max_connections = 2;
    }
    for host in (0..plan.cluster.hosts.len()).map(HostId) {
        let slow = ServerFault::Slow { host, factor: 300, for_us: 1_000_000 };
        plan.faults.push((25_000, Fault::Server(slow)));
    }
    let outcome = run(&plan, true);
    assert_eq!(outcome.violations, []);
    let lines = sent(&outcome, "KILL QUERY").join("\n");
    let ended: Vec<_> = lines.split("KILL QUERY ").skip(1).collect();
    let numbers: BTreeSet<_> = ended.iter().map(|text| text.split_whitespace().next()).collect();
    assert_eq!((ended.len(), numbers.len()), (3, 3), "{lines}");
}

#[test]
fn an_idle_connection_lost_with_nothing_but_warnings_ends_no_session() {
    let script = vec![
        Step { pause_us: 0, deed: say(1, Act::Warn) },
        Step { pause_us: 500_000, deed: say(2, Act::Insert) },
        Step { pause_us: 0, deed: say(3, Act::ShowWarnings) },
    ];
    let mut plan = world(&[], vec![script]);
    for host in (0..plan.cluster.hosts.len()).map(HostId) {
        let cuts = (0..8).map(|nth| (100_000, Fault::CutHost(host, nth)));
        plan.faults.extend(cuts);
    }
    let outcome = run(&plan, true);
    assert_eq!(outcome.violations, []);
    let trace = outcome.trace.to_string();
    let said = |what: &str| {
        let mut lines = trace.lines().filter(|line| line.contains("client 0 -> proxy"));
        lines.any(|line| line.contains(what))
    };
    assert!(trace.contains("fault: CutHost"), "{trace}");
    assert!(said("INSERT INTO log") && said("SHOW WARNINGS"), "{trace}");
    assert_eq!(sent(&outcome, "INSERT INTO log").len(), 1, "{trace}");
    assert!(!trace.contains("Lost connection"), "{trace}");
}

/// Lines of the trace in which a client is told this.
fn told(outcome: &Outcome, what: &str) -> Vec<String> {
    let trace = outcome.trace.to_string();
    let lines =
        trace.lines().filter(|line| line.contains("proxy -> client") && line.contains(what));
    lines.map(str::to_owned).collect()
}

#[test]
fn what_begins_to_write_leaves_the_reader_where_a_transaction_only_read() {
    let lock = Act::LockTables { write: true };
    for (begins, ends) in [(Act::Begin(BeginForm::Begin), Act::Commit), (lock, Act::UnlockTables)] {
        let outcome = play(vec![
            say(1, Act::Begin(BeginForm::ReadOnly)),
            say(2, Act::Read { key: 1 }),
            say(3, begins),
            say(4, Act::Insert),
            say(5, ends),
            say(6, Act::Insert),
        ]);
        assert_eq!(outcome.violations, []);
        // On the writer it is read-only until the server has understood what ends it.
        let began = sent(&outcome, "READ ONLY");
        let (first, others) = began.split_first().expect("it has begun");
        assert!(!first.contains("host 0"), "{began:?}");
        let is_ended = |it: &String| it.contains("BEGIN") || it.contains("LOCK TABLES");
        assert!(others.iter().all(|it| it.contains("host 0") && is_ended(it)), "{began:?}");
        let writes = sent(&outcome, "INSERT");
        assert!(writes.len() == 2 && writes.iter().all(|it| it.contains("host 0")), "{writes:?}");
        assert_eq!(told(&outcome, "read-only"), Vec::<String>::new());
    }
}

#[test]
fn behind_a_statement_out_of_its_time_the_session_is_told_that_and_no_interruption() {
    let outcome = play_with(
        &[("default_query_timeout", 30)],
        vec![
            say(1, Act::Begin(BeginForm::Begin)),
            say(2, Act::Sleep { ms: 400 }),
            say(3, Act::ShowWarnings),
            say(4, Act::Commit),
        ],
    );
    assert_eq!(outcome.violations, []);
    // The error, and then the row that tells of it.
    assert!(!sent(&outcome, "KILL QUERY").is_empty(), "{}", outcome.trace);
}

#[test]
fn a_statement_whose_place_in_the_queue_was_taken_meanwhile_is_refused() {
    // The first leaves a connection in its schema. The second, of another user, has the only place
    // in the queue while its own connection does not come up. The third has no schema, so that the
    // first one's connection has to log in anew, and it would have to wait for that.
    let say = |client, act| Deed::Query(vec![Statement::new(Tag::new(client, 1), act)]);
    let at = |pause_us, deed| Step { pause_us, deed };
    let mut plan = world(
        &[("queue_max", 1), ("default_query_timeout", 0), ("max_connections", 1_000)],
        vec![
            vec![at(0, say(0, Act::Put { key: 1 }))],
            vec![at(0, say(1, Act::Insert))],
            vec![at(100_000, say(2, Act::Begin(BeginForm::Begin)))],
        ],
    );
    plan.workers = 1;
    plan.offers_tls = false;
    let config = plan.configs.first_mut().expect("a plan has one");
    config.words.insert("lazy_transactions", "\"off\"".into());
    for server in config.servers.iter_mut().filter(|server| server.hostgroup == WRITER) {
        (server.max_connections, server.tls) = (2, None);
    }
    for user in &mut config.users {
        (user.schema, user.max_connections) = (None, 1_000);
    }
    let other = config.users.iter().find(|user| user.name == "web").expect("there is one").clone();
    for (place, client) in plan.clients.iter_mut().enumerate() {
        client.starts_us = 10_000 * place as u64;
        client.capabilities = Capabilities::DEPRECATE_EOF;
        client.leaving = Leaving::Never;
        client.identity.default_schema = None;
    }
    let [_, second, third] = plan.clients.as_mut_slice() else { panic!("three clients") };
    (second.identity.user, second.identity.password) = (other.name, other.password);
    second.starts_us = 70_000;
    third.identity.schema = None;
    let host = plan.cluster.primary;
    for (at, hangs) in [(60_000, true), (300_000, false)] {
        plan.faults.push((at, Fault::Server(ServerFault::Hang { host, hangs })));
    }
    let outcome = run(&plan, true);
    assert_eq!(outcome.violations, []);
    let refused = told(&outcome, "1 statements wait already");
    assert!(refused.len() == 1 && refused[0].contains("client 2"), "{}", outcome.trace);
}

#[test]
fn a_statement_goes_on_when_another_connection_of_its_session_is_lost() {
    let upload = Upload { key: 100, skipped: 0, is_there: true };
    for (act, text) in [(Act::Insert, "INSERT INTO log"), (Act::Load(upload), "LOAD DATA")] {
        let at = |pause_us, deed| Step { pause_us, deed };
        // With rows to be fetched from a reader, something takes its time on the writer.
        let mut plan = world(
            &[("default_query_timeout", 0)],
            vec![vec![
                at(0, Deed::Prepare { slot: 0, template: Template::Numbers, tag: tag(1) }),
                at(
                    0,
                    Deed::Execute {
                        slot: 0,
                        tag: tag(2),
                        value: 9,
                        cursor: true,
                        long_data: false,
                    },
                ),
                at(0, Deed::Fetch { slot: 0, rows: 2 }),
                at(300_000, say(3, act)),
                at(0, say(4, Act::Database)),
            ]],
        );
        let client = plan.clients.first_mut().expect("one client");
        client.capabilities.insert(Capabilities::LOCAL_FILES);
        let host = plan.cluster.primary;
        let slow = ServerFault::Slow { host, factor: 5_000, for_us: 600_000 };
        plan.faults.push((250_000, Fault::Server(slow)));
        for reader in (0..plan.cluster.hosts.len()).map(HostId).filter(|it| *it != host) {
            plan.faults.extend((0..8).map(|nth| (320_000, Fault::CutHost(reader, nth))));
        }
        plan.faults.sort_by_key(|(at, _)| *at);
        let outcome = run(&plan, true);
        assert_eq!(outcome.violations, []);
        assert_eq!(sent(&outcome, text).len(), 1, "{}", outcome.trace);
        // The next one is told.
        let trace = outcome.trace.to_string();
        let lost = trace.find(r"it held the session\'s cursor");
        assert!(lost.is_some() && lost > trace.find("DATABASE() AS v"), "{trace}");
    }
}

#[test]
fn what_the_last_statement_left_is_asked_where_it_ran() {
    let of = PreparedSql::Read { tag: tag(3), key: 1 };
    let deeds = [
        say(1, Act::Begin(BeginForm::ReadOnly)),
        say(2, Act::PrepareSql { name: 1, of }),
        say(4, Act::Commit),
        say(5, Act::CalcFoundRows { rows: 2, limit: 1 }),
        say(6, Act::FoundRows),
    ];
    let steps = deeds.map(|deed| Step { pause_us: 0, deed });
    // What it prepares takes its transaction to the writer, where a rule sends what counts.
    let mut plan = world(&[], vec![steps.to_vec()]);
    let config = plan.configs.first_mut().expect("a plan has one");
    config.rules.push(RuleSpec {
        contains: Some("SQL_CALC_FOUND_ROWS"),
        hostgroup: Some(WRITER),
        applies: true,
        ..RuleSpec::default()
    });
    let outcome = run(&plan, true);
    assert_eq!(outcome.violations, []);
    for (what, is_on_writer) in [("PREPARE p1", true), ("SQL_CALC", true), ("FOUND_ROWS()", true)] {
        let lines = sent(&outcome, what);
        assert_eq!(lines.len(), 1, "{what}: {lines:?}");
        assert_eq!(lines[0].contains("-> host 0"), is_on_writer, "{lines:?}");
    }
}

#[test]
fn a_login_survives_the_loss_of_the_connection_that_tried_its_schema() {
    let mut plan = world(&[], vec![vec![Step { pause_us: 0, deed: say(1, Act::Database) }]]);
    let host = plan.cluster.primary;
    let slow = ServerFault::Slow { host, factor: 5_000, for_us: 200_000 };
    plan.faults.push((0, Fault::Server(slow)));
    plan.faults.push((100_000, Fault::Server(ServerFault::KillConnection { host, nth: 0 })));
    let outcome = run(&plan, true);
    assert_eq!(outcome.violations, []);
    let tries = sent(&outcome, r"\x02shop");
    let on_primary = tries.iter().filter(|line| line.contains("-> host 0")).count();
    assert_eq!(on_primary, 2, "{}", outcome.trace);
    assert_eq!(told(&outcome, "2013"), [""; 0]);
    assert_eq!(told(&outcome, "DATABASE").len() + told(&outcome, r"\x04shop").len(), 1);
}

#[test]
fn a_compressed_connection_serves_on_after_it_has_changed_workers() {
    let scripts = (0..6).map(|place| {
        let say = |number, act| {
            let statement = Statement::new(Tag::new(place, number), act);
            Step { pause_us: 30 * number, deed: Deed::Query(vec![statement]) }
        };
        (1..30).map(|number| say(number, Act::Numbers { rows: 400, width: 500 })).collect()
    });
    let settings = [("client_buffer_max", 16_384), ("default_query_timeout", 0)];
    let mut plan = world(&settings, scripts.collect());
    // Packed, a result is short: it is to come in pieces all the same.
    (plan.workers, plan.seed, plan.scratch_len, plan.offers_tls) = (2, 1, 64, false);
    for server in plan.configs.iter_mut().flat_map(|config| &mut config.servers) {
        (server.max_connections, server.compression) = (1, Some("zlib"));
    }
    // All of them are there, on both workers.
    plan.configs.iter_mut().flat_map(|config| &mut config.users).for_each(|user| {
        user.max_connections = 1_000;
    });
    for client in &mut plan.clients {
        client.reading = Reading::Slow { every: 8_000, pause_us: 300 };
    }
    let outcome = run(&plan, true);
    assert_eq!(outcome.violations, []);
    let handed_over = outcome.faults.get("hand_over").copied().unwrap_or_default();
    assert!(handed_over > 10, "{handed_over}");
}

#[test]
fn what_is_only_prepared_holds_nobody_without_autocommit() {
    let autocommit_off = Setting::Variable {
        scope: Scope::Plain,
        variable: Variable::Autocommit,
        value: SetValue::Literal(Value::Flag(false)),
    };
    let at = |pause_us, deed| Step { pause_us, deed };
    // While the first rests, the second needs the only connection.
    let mut plan = world(
        &[("default_query_timeout", 0), ("connect_timeout_server_max", 500)],
        vec![
            vec![
                at(0, say(1, Act::Set(vec![autocommit_off]))),
                at(0, Deed::Prepare { slot: 0, template: Template::Put, tag: tag(2) }),
                at(2_000_000, say(3, Act::Commit)),
            ],
            vec![at(400_000, Deed::Query(vec![Statement::new(Tag::new(1, 1), Act::Insert)]))],
        ],
    );
    plan.workers = 1;
    for server in plan.configs.iter_mut().flat_map(|config| &mut config.servers) {
        server.max_connections = 1;
    }
    let outcome = run(&plan, true);
    assert_eq!(outcome.violations, []);
    assert_eq!(sent(&outcome, "REPLACE INTO kv").len(), 1, "{}", outcome.trace);
    assert_eq!(sent(&outcome, "INSERT INTO log").len(), 1, "{}", outcome.trace);
    assert_eq!(told(&outcome, "Max connect timeout"), Vec::<String>::new());
}
