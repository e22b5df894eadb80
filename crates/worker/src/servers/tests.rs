use std::sync::Arc;

use trunkline_pool::{AccountId, ConnId, ConnState};
use trunkline_protocol::{
    capability::Capabilities,
    packet::{greeting::Flavor, tracker_filter::TrackerFilter},
    response::{Outcome, ServerError},
};
use trunkline_session::tracker::{Charset, Schema, SessionState};
use trunkline_stats::ResetReason;

use super::{
    Accounts, Servers,
    conn::{AccountKey, Conn, ConnPhase, OTHERS_TURN},
    dirt::{Dirt, may_last},
    trackers::ask_trackers,
};
use crate::tests::{Reply, TWO_SERVERS, TestWorker, analysis, snapshot, tells_gtid};

fn account(user: &str) -> AccountKey {
    AccountKey { user: user.into(), backend: None, behaviour: Capabilities::EMPTY }
}

#[test]
fn an_account_has_one_number() {
    let mut accounts = Accounts::default();
    let first = accounts.intern(account("app"));
    assert_eq!(accounts.intern(account("app")), first);
    assert_eq!(accounts.key(first), Some(&account("app")));
}

#[test]
fn accounts_that_behave_otherwise_are_others() {
    let mut accounts = Accounts::default();
    let plain = accounts.intern(account("app"));
    let behaviour = Capabilities::MULTI_STATEMENTS;
    let other = accounts.intern(AccountKey { behaviour, ..account("app") });
    assert_ne!(plain, other);
}

#[test]
fn a_number_that_was_never_given_is_no_accounts() {
    assert_eq!(Accounts::default().key(AccountId(0)), None);
}

#[test]
fn servers_know_an_account_by_its_own_name_or_the_one_configured() {
    assert_eq!(account("app").server_user(), "app");
    let backend = Some("service".into());
    assert_eq!(AccountKey { backend, ..account("app") }.server_user(), "service");
}

#[test]
fn an_account_that_servers_grant_has_its_host_behind_its_name() {
    let granted = account("app\0%.example.com");
    assert!(granted.is_granted() && !account("app").is_granted());
    assert_eq!(granted.server_user(), "app");
}

/// The connections of a worker with two servers, none of which is open.
struct Fixture {
    servers: Servers,
    account: AccountId,
}

impl Fixture {
    fn new() -> Self {
        let mut servers = Servers::new(1);
        servers.pool.apply(snapshot(TWO_SERVERS).servers());
        let account = servers.logins.accounts.intern(account("app"));
        Self { servers, account }
    }

    /// A connection to the first server, on no list.
    fn open(&mut self) -> ConnId {
        let (slot, server) = self.servers.pool.slots().next().expect("a server");
        let hostgroup = server.server.key.hostgroup;
        let state = Arc::new(SessionState::new(Schema::None, Charset::Unknown));
        let (place, account) = ((slot, hostgroup), self.account);
        self.servers.conns.insert_with(|id| Conn::new(id, place, account, ConnPhase::Ready, state))
    }

    /// Has something done with a connection that is lent.
    fn lend<R>(&mut self, id: ConnId, work: impl FnOnce(&mut Servers, &mut Conn) -> R) -> R {
        let mut conn = self.servers.conns.lend(id).expect("a connection");
        let done = work(&mut self.servers, &mut conn);
        self.servers.conns.take_back(id, conn);
        done
    }

    fn set_state(&mut self, id: ConnId, state: ConnState) {
        self.lend(id, |servers, conn| servers.set_state(conn, state));
    }

    fn conn(&mut self, id: ConnId) -> &mut Conn {
        self.servers.conns.get_mut(id).expect("a connection")
    }

    fn count(&self, state: ConnState) -> u32 {
        let (_, slot) = self.servers.pool.slots().next().expect("a server");
        slot.counts().of(state)
    }
}

#[test]
fn a_connection_is_on_one_list_at_a_time() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    for state in ConnState::ALL {
        fixture.set_state(id, state);
        let counted = ConnState::ALL.into_iter().filter(|it| fixture.count(*it) > 0);
        let expected = (state != ConnState::Unlisted).then_some(state);
        assert!(counted.eq(expected), "{state:?}");
        assert_eq!(fixture.conn(id).list, state);
    }
}

#[test]
fn the_same_state_twice_counts_once() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    fixture.set_state(id, ConnState::Leased);
    fixture.set_state(id, ConnState::Leased);
    assert_eq!(fixture.count(ConnState::Leased), 1);
}

#[test]
fn a_connection_that_has_ended_is_on_no_list_and_is_not_found() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    fixture.set_state(id, ConnState::Idle);
    fixture.lend(id, |servers, conn| {
        servers.forget(conn);
        assert!(conn.is_closed() && conn.list == ConnState::Unlisted);
    });
    assert_eq!(fixture.count(ConnState::Idle), 0);
    assert!(fixture.servers.conns.get(id).is_none());
}

#[test]
fn only_a_free_connection_is_taken() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    for (state, expected) in
        [(ConnState::Leased, false), (ConnState::Idle, true), (ConnState::Freed, true)]
    {
        fixture.set_state(id, state);
        let is_taken = fixture.lend(id, Servers::take_free);
        assert_eq!(is_taken, expected, "{state:?}");
    }
    assert_eq!(fixture.conn(id).list, ConnState::Unlisted);
}

#[test]
fn the_connection_used_last_is_taken_first() {
    let mut fixture = Fixture::new();
    let (first, second) = (fixture.open(), fixture.open());
    fixture.set_state(first, ConnState::Idle);
    fixture.set_state(second, ConnState::Idle);
    let slot = fixture.conn(first).slot;
    let account = fixture.account;
    assert_eq!(fixture.servers.pop_idle(slot, account), Some(second));
    assert_eq!(fixture.conn(second).list, ConnState::Unlisted);
    assert_eq!(fixture.servers.pop_idle(slot, AccountId(99)), None);
}

#[test]
fn a_connection_that_rested_longest_is_given_away_first() {
    let mut fixture = Fixture::new();
    let (first, second) = (fixture.open(), fixture.open());
    fixture.set_state(first, ConnState::Idle);
    fixture.set_state(second, ConnState::Idle);
    let slot = fixture.conn(first).slot;
    assert_eq!(fixture.servers.take_oldest_idle(slot), Some(first));
    assert_eq!(fixture.count(ConnState::Idle), 1);
}

#[test]
fn between_events_every_connection_is_on_a_list() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    assert!(!fixture.servers.are_listed());
    fixture.set_state(id, ConnState::Freed);
    assert!(!fixture.servers.are_listed());
    fixture.set_state(id, ConnState::Idle);
    assert!(fixture.servers.are_listed());
}

#[test]
fn a_gtid_that_a_connection_has_told_before_is_not_new() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    let conn = fixture.conn(id);
    assert_eq!(conn.new_gtid(&tells_gtid("0-1-5")), Some((0, 1, 5)));
    assert_eq!(conn.new_gtid(&tells_gtid("0-1-5")), None);
    assert_eq!(conn.new_gtid(&Outcome::default()), None);
    assert_eq!(conn.new_gtid(&tells_gtid("0-1-6")), Some((0, 1, 6)));
}

#[test]
fn only_mariadb_keeps_others_conditions() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    let conn = fixture.conn(id);
    conn.left.conditions_turn = Some(OTHERS_TURN);
    assert!(!conn.keeps_others_conditions());
    conn.server.flavor = Flavor::MariaDb;
    assert!(conn.keeps_others_conditions());
    conn.left.conditions_turn = Some(conn.holder.turn);
    assert!(!conn.keeps_others_conditions());
}

#[test]
fn a_statement_without_conditions_makes_those_before_anothers() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    let conn = fixture.conn(id);
    conn.left.conditions_turn = Some(3);
    conn.outdate_conditions(&Outcome { warnings: 1, ..Outcome::default() }, false);
    conn.outdate_conditions(&Outcome::default(), true);
    assert_eq!(conn.left.conditions_turn, Some(3));
    conn.outdate_conditions(&Outcome::default(), false);
    assert_eq!(conn.left.conditions_turn, Some(OTHERS_TURN));
}

#[test]
fn dirt_is_the_worst_that_was_left() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    let conn = fixture.conn(id);
    conn.soil(Dirt::Ends);
    conn.soil(Dirt::Reset(ResetReason::Unknown));
    assert_eq!(conn.left.dirt, Some(Dirt::Ends));
}

#[test]
fn dirt_is_a_matter_for_the_next_session_only() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    let conn = fixture.conn(id);
    conn.soil(Dirt::Reset(ResetReason::Unknown));
    assert!(!conn.has_others_dirt());
    conn.holder.turn += 1;
    assert!(conn.has_others_dirt());
}

#[test]
fn a_reset_takes_back_what_it_can() {
    let mut fixture = Fixture::new();
    let id = fixture.open();
    let conn = fixture.conn(id);
    conn.soil(Dirt::Reset(ResetReason::Unknown));
    conn.was_reset();
    assert_eq!(conn.left.dirt, None);
    conn.soil(Dirt::Ends);
    conn.was_reset();
    assert_eq!(conn.left.dirt, Some(Dirt::Ends));
}

fn lasts(text: &str) -> bool {
    let mut world = TestWorker::new();
    let mut statement = world.statement(text);
    statement.meaning.proof.hidden = trunkline_catalog::Hidden::empty();
    may_last(&statement)
}

#[test]
fn what_a_reset_takes_back_does_not_last() {
    for text in ["INSERT INTO t VALUES (1)", "CREATE TEMPORARY TABLE t (a INT)", "USE s"] {
        assert!(!lasts(text), "{text}");
    }
}

#[test]
fn what_a_reset_leaves_may_last() {
    for text in ["SET ROLE r", "SET profiling = 1", "CALL p()", "DO 1; DO 2", "BACKUP LOCK t"] {
        assert!(lasts(text), "{text}");
    }
}

#[test]
fn a_read_leaves_nothing_that_lasts() {
    let mut world = TestWorker::new();
    let mut statement = world.statement("SELECT f()");
    assert!(may_last(&statement));
    statement.meaning.is_read = true;
    assert!(!may_last(&statement));
}

fn asked(text: &str) -> TrackerFilter {
    let mut told = TrackerFilter::DEFAULT;
    ask_trackers(&mut told, &analysis(text));
    told
}

#[test]
fn a_client_is_told_what_it_asks_for() {
    assert_ne!(asked("SET session_track_system_variables = '*'"), TrackerFilter::DEFAULT);
    assert_ne!(asked("SET session_track_schema = 0"), TrackerFilter::DEFAULT);
}

#[test]
fn a_default_is_what_new_sessions_are_told() {
    let mut told = asked("SET session_track_system_variables = '*'");
    ask_trackers(&mut told, &analysis("SET session_track_system_variables = DEFAULT"));
    assert_eq!(told, TrackerFilter::DEFAULT);
}

#[test]
fn what_is_asked_for_others_changes_nothing() {
    assert_eq!(asked("SET GLOBAL session_track_system_variables = '*'"), TrackerFilter::DEFAULT);
    assert_eq!(asked("SET @session_track_schema = 1"), TrackerFilter::DEFAULT);
    assert_eq!(asked("SELECT 1"), TrackerFilter::DEFAULT);
}

#[test]
fn a_new_connection_has_its_trackers_switched_on() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    assert!(world.heard()[0].starts_with("SET @@SESSION.session_track_system_variables=x'2A'"));
}

/// A worker whose only connection got this in answer to the `SET` of its trackers, and has answered
/// a client since; what was logged of it.
fn trackers_refused(code: u16, text: &str) -> (TestWorker, ConnId, Vec<String>) {
    let mut world = TestWorker::new();
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    let conn = world.conns()[0];
    world.come_up(conn);
    let asked = world.asked()[0].clone();
    world.reply(&asked, Reply::Error(code, text));
    let logged = world.logged();
    world.reply("SELECT 1", Reply::Rows(&["1"]));
    assert_eq!(world.answer(client), "rows 1");
    (world, conn, logged)
}

#[test]
fn a_server_that_refuses_trackers_is_said_in_the_log() {
    let error = "Unknown system variable 'session_track_schema'";
    let (world, conn, logged) = trackers_refused(1193, error);
    assert!(logged.iter().any(|it| it.contains("refused session trackers")), "{logged:?}");
    assert!(world.conns().contains(&conn));
}

#[test]
fn a_connection_whose_trackers_were_interrupted_serves_no_other_session() {
    let (world, conn, _) = trackers_refused(1317, "Query execution was interrupted");
    assert!(!world.conns().contains(&conn), "it went back to the pool");
}

#[test]
fn a_connection_that_ends_gives_its_place_back_and_says_goodbye() {
    use crate::Action;
    let config = format!("idle_connection_timeout = 3000\n{TWO_SERVERS}");
    let mut world = TestWorker::with(&config);
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    world.actions();
    world.pass_ms(3_200);
    let farewells: Vec<_> = world
        .actions()
        .into_iter()
        .filter_map(|action| match action {
            Action::CloseServer { farewell, .. } => Some(farewell),
            _ => None,
        })
        .collect();
    assert_eq!(farewells, [&[1, 0, 0, 0, 1][..]]);
    let connections = world.core().servers.pool.slots();
    assert!(connections.map(|(_, slot)| slot.server.health.connections()).sum::<u32>() == 0);
}

#[test]
fn so_many_connections_rest_and_no_more() {
    let mut world = TestWorker::with(&format!("idle_connections_max = 1\n{TWO_SERVERS}"));
    let clients = [(); 4].map(|()| world.log_in());
    for client in clients {
        world.ask(client, "SELECT SLEEP(1)");
    }
    for _ in clients {
        world.reply("SELECT SLEEP(1)", Reply::Rows(&["0"]));
    }
    let core = world.core();
    let idle = core.servers.pool.slots().map(|(_, slot)| slot.counts().of(ConnState::Idle));
    let idle: Vec<_> = idle.collect();
    assert!(idle.iter().all(|count| *count <= 1) && idle.contains(&1), "{idle:?}");
}

#[test]
fn a_set_for_new_sessions_closes_connections_that_have_the_old_value() {
    let mut world = TestWorker::new();
    let (client, other) = (world.log_in(), world.log_in());
    world.run(other, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    world.run(client, "SET GLOBAL time_zone = '+01:00'", Reply::Ok);
    assert_eq!(world.conns(), []);
}

#[test]
fn an_error_leaves_conditions_of_its_sessions_turn() {
    let error = ServerError { code: 1, sqlstate: *b"HY000", message: Box::default() };
    let mut fixture = Fixture::new();
    let id = fixture.open();
    let conn = fixture.conn(id);
    conn.left.conditions_turn = Some(3);
    conn.outdate_conditions(&Outcome { error: Some(error), ..Outcome::default() }, false);
    assert_eq!(conn.left.conditions_turn, Some(3));
}
