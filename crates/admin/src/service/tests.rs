//! Tests of the admin service without sockets and without workers.

mod compatible;
mod loads;

use std::sync::{Arc, Mutex};

use trunkline_budget::Budget;
use trunkline_config::{Config, Snapshot, difference};
use trunkline_stats::{
    DigestQuery, DigestRow, IdleConn, Inventory, PreparedRow, SessionList, SessionQuery,
};
use trunkline_store::{Access, Place, RowSet, Value};
use trunkline_topology::{Address, ReadWriteSplit, ServerState};

use super::*;
use crate::{
    sample,
    source::{
        Answer, ApplyFuture, Ending, FailedLogins, Health, HostgroupTraffic, KillFuture, NotKilled,
        OfCluster, PausedHostgroup, ReportFuture, SessionsFuture, StatusSource, Switched, Traffic,
    },
};

/// Keeps what it is told to serve by.
pub(crate) struct Kept(Mutex<Arc<Snapshot>>, Mutex<Vec<String>>, Arc<Budget>);

impl Kept {
    /// A service over an empty store, and what it is told to serve by.
    pub(crate) fn service() -> (AdminService, Arc<Self>) {
        let store = Store::open(&Place::Memory, Box::new(variable::check)).expect("a store");
        let first = || Ok(crate::import::Imported::default());
        let started = start::in_memory(store, &first).expect("started");
        let snapshot = Arc::new(Snapshot::build(started.config, None));
        let kept = Arc::new(Self(Mutex::new(snapshot), Mutex::default(), Arc::default()));
        let service = AdminService::new(
            started.store,
            Arc::clone(&kept) as Arc<dyn Runtime>,
            Some(Box::new(|| crate::import::cnf_rows(FILE, "test.cnf"))),
        );
        (service, kept)
    }

    /// Lines of the audit log.
    pub(crate) fn audited(&self) -> Vec<String> {
        self.1.lock().expect("not poisoned").clone()
    }
}

impl StatusSource for Kept {
    fn report(&self, digests: DigestQuery) -> ReportFuture<'_> {
        Box::pin(async move { sample::report(digests) })
    }

    fn sessions(&self, _: SessionQuery) -> SessionsFuture<'_> {
        Box::pin(async { SessionList::default() })
    }

    fn health(&self) -> Health {
        Health::Ready
    }

    fn checks(
        &self,
        kind: trunkline_stats::checks::CheckKind,
    ) -> Vec<trunkline_stats::checks::CheckRow> {
        crate::sample::checks(kind)
    }

    fn topology(&self) -> trunkline_stats::Topology {
        sample::topology()
    }

    fn http_allowed_hosts(&self) -> String {
        String::new()
    }
}

impl Runtime for Kept {
    fn apply(&self, config: Config, _: String) -> ApplyFuture<'_> {
        let mut running = self.0.lock().expect("not poisoned");
        let changes = difference(&running, &config).iter().map(ToString::to_string).collect();
        let next = Snapshot::build(config, Some(&running));
        // All names have an address, but for those that can't have one.
        let names = next.names_to_resolve().into_iter();
        let names = names.filter(|name| !name.to_string().contains(".invalid:"));
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 3306));
        let resolved = names.map(|name| (name, vec![address])).collect();
        *running = Arc::new(next.with_resolved(&resolved).unwrap_or(next));
        Box::pin(async { Ok(changes) })
    }

    fn reload(&self) -> ApplyFuture<'_> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn reload_tls(&self) -> ApplyFuture<'_> {
        Box::pin(async { Err("no certificates here".to_owned()) })
    }

    fn tls(&self) -> Arc<TlsSetup> {
        Arc::default()
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.lock().expect("not poisoned"))
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.2)
    }

    fn digests(&self) -> Answer<'_, Vec<DigestRow>> {
        Box::pin(async { sample::report(DigestQuery::ALL).digests })
    }

    fn inventory(&self, _: usize) -> Answer<'_, Inventory> {
        Box::pin(async {
            let idle =
                IdleConn { server: "a:3306".to_owned(), hostgroup: 3, ..IdleConn::default() };
            let stmt = PreparedRow { text: "SELECT ?".to_owned(), ..PreparedRow::default() };
            Inventory { idle: vec![idle], stmts: vec![stmt] }
        })
    }

    fn audit(&self, line: String) {
        self.1.lock().expect("not poisoned").push(line);
    }

    fn reopen_logs(&self) -> Answer<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn failed_logins(&self) -> Vec<FailedLogins> {
        let origin = trunkline_topology::Origin::machine(std::net::Ipv4Addr::LOCALHOST.into());
        vec![FailedLogins { origin, failures: 4, ago: Duration::from_secs(3) }]
    }

    fn forget_failed_logins(&self) -> u64 {
        1
    }

    fn cluster_order(&self, order: OfCluster) -> ApplyFuture<'_> {
        Box::pin(async move { Ok(vec![format!("{order:?}")]) })
    }

    fn switchover(
        &self,
        cluster: String,
        to: Option<Address>,
        is_check: bool,
    ) -> Answer<'_, Switched> {
        let failed = (cluster != "shop").then(|| format!("there is no cluster `{cluster}`"));
        let to = to.map(|to| to.to_string()).unwrap_or_default();
        let rows = match failed {
            None => vec![vec![to, is_check.to_string()]],
            Some(_) => Vec::new(),
        };
        Box::pin(async move { Switched { columns: vec!["to", "is_check"], rows, failed } })
    }

    fn kill(&self, number: u32, _: bool) -> KillFuture<'_> {
        Box::pin(async move {
            match number {
                5 => Ok(()),
                _ => Err(NotKilled { code: 1094, message: format!("Unknown thread id: {number}") }),
            }
        })
    }

    fn traffic(&self, change: Traffic) -> ApplyFuture<'_> {
        Box::pin(async move { Ok(vec![format!("{change:?}")]) })
    }

    fn hostgroup_traffic(&self, hostgroup: u32, change: HostgroupTraffic) -> ApplyFuture<'_> {
        Box::pin(async move { Ok(vec![format!("{hostgroup} {change:?}")]) })
    }

    fn paused_hostgroups(&self) -> Answer<'_, Vec<PausedHostgroup>> {
        let (since, left) = (Duration::from_secs(1), Duration::from_secs(9));
        let paused = move |hostgroup| PausedHostgroup { hostgroup, since, left };
        Box::pin(async move { vec![paused(10), paused(77)] })
    }

    fn stop(&self, _: Ending) {}

    fn explain(
        &self,
        user: Option<&str>,
        schema: Option<&str>,
        sql: &str,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let user = user.ok_or("EXPLAIN ROUTE needs USER name")?;
        Ok(vec![("asked", format!("{user} {schema:?} {sql}"))])
    }

    fn flush_cache(&self) -> u64 {
        7
    }
}

const FILE: &str = "
mysql_variables = { wait_timeout=4000 }
mysql_servers = ( { address=\"a\", hostgroup=1 }, { address=\"b\", hostgroup=1, weight=7 } )
mysql_users = ( { username=\"u\", password=\"p\" } )";

struct Fixture {
    service: AdminService,
    kept: Arc<Kept>,
    session: Session,
    runtime: tokio::runtime::Runtime,
}

impl Fixture {
    fn new() -> Self {
        let (service, kept) = Kept::service();
        let session = Session {
            warnings: Vec::new(),
            user: "admin".to_owned(),
            peer: "here".to_owned(),
            id: 7,
            access: Access::Admin,
            schema: "main".to_owned(),
            room: Room::of(&Arc::default(), Access::Admin),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self { service, kept, session, runtime: runtime.expect("a runtime") }
    }

    fn reply(&mut self, sql: &str) -> Reply {
        self.runtime.block_on(self.service.answer(&mut self.session, sql, &[]))
    }

    /// Runs a statement that is done; the line for people.
    fn done(&mut self, sql: &str) -> String {
        match self.reply(sql) {
            Reply::Ok { info, .. } => info,
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn refused(&mut self, sql: &str) -> String {
        match self.reply(sql) {
            Reply::Error(refused) => refused.message,
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn rows(&mut self, sql: &str) -> RowSet {
        match self.reply(sql) {
            Reply::Rows(rows) => rows,
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn value(&mut self, sql: &str) -> Value {
        self.rows(sql).rows.remove(0).remove(0)
    }

    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.kept.snapshot().config)
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn tables_are_loaded_in_any_order() {
    let mut fixture = Fixture::new();
    // The user's hostgroup has no server yet.
    fixture.done(
        "INSERT INTO mysql_users (username, password, default_hostgroup) VALUES ('u', 'p', 5)",
    );
    assert_eq!(fixture.done("LOAD MYSQL USERS TO RUNTIME"), "1 change");
    fixture.done(
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES (5, '/run/m.sock', 0)",
    );
    assert_eq!(fixture.done("LOAD MYSQL SERVERS TO RUNTIME"), "1 change");
    let config = fixture.config();
    assert_eq!((config.users.len(), config.servers.len()), (1, 1));
    assert_eq!(config.servers[0].key.address.to_string(), "unix:/run/m.sock");
    // What is not loaded does not run, and what runs stays.
    fixture.done("DELETE FROM mysql_users");
    fixture.done("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (5, 'b')");
    fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    assert_eq!(fixture.config().users.len(), 1);
    fixture.done("LOAD MYSQL USERS TO RUNTIME");
    assert_eq!(fixture.config().users.len(), 0);
}

#[test]
fn one_user_of_many_is_loaded_alone() {
    let mut fixture = Fixture::new();
    let insert = "INSERT INTO mysql_users (username, password) VALUES";
    fixture.done(&format!("{insert} ('one', 'p'), ('two', 'p')"));
    fixture.done("LOAD MYSQL USERS TO RUNTIME");
    fixture.done("UPDATE mysql_users SET max_connections = 7");
    fixture.done(&format!("{insert} ('Three.3', 'p')"));
    assert_eq!(fixture.done("LOAD MYSQL USER two TO RUNTIME"), "1 change");
    let limits = |fixture: &Fixture| {
        let config = fixture.config();
        let mut limits: Vec<(String, u32)> =
            config.users.iter().map(|user| (user.name.clone(), user.max_connections)).collect();
        limits.sort();
        limits
    };
    let pair = |name: &str, limit| (name.to_owned(), limit);
    assert_eq!(limits(&fixture), [pair("one", 10_000), pair("two", 7)]);
    let shown = "SELECT group_concat(username || max_connections) FROM runtime_mysql_users";
    assert_eq!(fixture.value(shown), text("one10000,two7"));
    // A name that ProxySQL would refuse goes in quotes.
    let refused = fixture.refused("LOAD MYSQL USER Three.3 TO RUNTIME");
    assert!(refused.ends_with(": Invalid name Three.3"), "{refused}");
    fixture.done("load mysql user 'Three.3' to run");
    assert_eq!(limits(&fixture).len(), 3);
    let refused = fixture.refused("LOAD MYSQL USER nobody FROM MEMORY");
    assert!(refused.contains("mysql_users has no user `nobody`"), "{refused}");
    // What was loaded can be loaded again: what ran, and not what MEMORY had.
    fixture.done("DELETE FROM mysql_users");
    let revision = "SELECT max(revision) FROM disk.config_history WHERE command LIKE '%user two%'";
    let Value::Integer(revision) = fixture.value(revision) else { panic!("no revision") };
    fixture.done(&format!("LOAD MYSQL USERS FROM REVISION {revision}"));
    let edited = "SELECT group_concat(username || max_connections) FROM mysql_users";
    assert_eq!(fixture.value(edited), text("one10000,two7"));
}

#[test]
fn wrong_fast_routes_are_named_and_nothing_of_them_runs() {
    let mut fixture = Fixture::new();
    let insert = "INSERT INTO mysql_query_rules_fast_routing
                  (username, schemaname, flagIN, destination_hostgroup, comment) VALUES";
    fixture.done(&format!("{insert} ('u', 's', 0, 5, '')"));
    fixture.done("LOAD MYSQL QUERY RULES TO RUNTIME");
    assert_eq!(fixture.config().fast_routes.len(), 1);
    fixture.done(&format!("{insert} ('v', 's', -1, 5, ''), ('w', 's', 0, 3000000000, '')"));
    fixture.done(&format!("{insert} ('x', 's', 'no', 5, '')"));
    let refused = fixture.refused("LOAD MYSQL QUERY RULES TO RUNTIME");
    for part in ["fast_routing, v, s: flagIN", "w, s: destination_hostgroup", "x, s: `flagIN`"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    // Other modules are loaded with the routes as they run.
    let running = Arc::clone(&fixture.config().fast_routes);
    fixture.done("INSERT INTO mysql_users (username, password) VALUES ('u', 'p')");
    fixture.done("LOAD MYSQL USERS TO RUNTIME");
    assert!(Arc::ptr_eq(&fixture.config().fast_routes, &running));
    assert_eq!(
        fixture.value("SELECT count(*) FROM runtime_mysql_query_rules_fast_routing"),
        Value::Integer(1)
    );
}

#[test]
fn ports_for_http_are_those_that_are_switched_on() {
    let mut fixture = Fixture::new();
    let ports = fixture.service.ports();
    assert_eq!(*ports.borrow(), []);
    fixture.done("SET admin-web_enabled = true");
    fixture.done("SET admin-web_port = 7080");
    fixture.done("LOAD ADMIN VARIABLES TO RUNTIME");
    assert_eq!(*ports.borrow(), [Port::Console(7080)]);
    fixture.done("SET admin-restapi_enabled = true");
    fixture.done("LOAD ADMIN VARIABLES TO RUNTIME");
    assert_eq!(*ports.borrow(), [Port::Console(7080), Port::Http(6070)]);
}

#[test]
fn both_rows_of_a_user_are_one_user() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_users (username, password, frontend, backend)
         VALUES ('u', 'p', 1, 0), ('u', 'p', 0, 1), ('server', 'x', 0, 1)",
    );
    let said = fixture.done("LOAD MYSQL USERS TO RUNTIME");
    assert!(said.contains("mysql_users, username server: no client can log in"), "{said}");
    assert_eq!(fixture.config().users.len(), 1);
    fixture.done("UPDATE mysql_users SET password = 'other' WHERE backend = 1");
    fixture.done("LOAD MYSQL USERS TO RUNTIME");
    let users = fixture.config().users.clone();
    let [user] = users.as_slice() else { panic!("{users:?}") };
    let backend = user.backend.as_ref().expect("another password for servers");
    assert_eq!((&*backend.user, backend.password.expose().as_str()), ("u", "other"));
    fixture.done("UPDATE mysql_users SET password = MYSQL_NATIVE_PASSWORD('p') WHERE backend = 1");
    let error = fixture.refused("LOAD MYSQL USERS TO RUNTIME");
    assert!(error.contains("username u: has a hash as its password for servers"), "{error}");
}

#[test]
fn attributes_of_users_say_what_columns_do_not() {
    let mut fixture = Fixture::new();
    fixture.done(
        r#"INSERT INTO mysql_users (username, password, attributes) VALUES
           ('u', 'p', '{"allow_from": ["10.0.0.0/8", "localhost"], "retained_password": "q"}')"#,
    );
    fixture.done("LOAD MYSQL USERS TO RUNTIME");
    let users = fixture.config().users.clone();
    let [user] = users.as_slice() else { panic!("{users:?}") };
    assert_eq!(user.allow_from.to_string(), "localhost,10.0.0.0/8");
    assert!(user.retained_password.is_some());
    fixture.done("UPDATE mysql_users SET attributes = '{\"allow_from\": [\"10.0.0.1/8\"]}'");
    let error = fixture.refused("LOAD MYSQL USERS TO RUNTIME");
    assert!(error.contains("`10.0.0.1/8` is not a network"), "{error}");
    let mut refused = |attributes: &str| {
        fixture.done(&format!("UPDATE mysql_users SET attributes = '{attributes}'"));
        fixture.refused("LOAD MYSQL USERS TO RUNTIME")
    };
    for attributes in [r#"{"allow_from": "10.0.0.0/8", "hat": 1}"#, "[1]", "5"] {
        let error = refused(attributes);
        assert!(error.ends_with("username u: `attributes` is not supported yet"), "{error}");
    }
    let error = refused(r#"{"backend_user": 5}"#);
    assert!(error.contains("username u: `backend_user` must be a string"), "{error}");
    fixture.done("UPDATE mysql_users SET attributes = '{}'");
    fixture.done("LOAD MYSQL USERS TO RUNTIME");
    assert!(fixture.config().users[0].allow_from.is_empty());
}

#[test]
fn columns_without_effect_are_loaded_with_a_warning_where_that_is_safe() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_servers (hostname, max_latency_ms, status)
         VALUES ('a', 30, 'SHUNNED')",
    );
    let said = fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    assert!(said.contains("1 change; 2 warnings"), "{said}");
    assert_eq!(fixture.config().servers[0].status, ServerState::Online);
    fixture.done(
        "INSERT INTO mysql_aws_aurora_hostgroups (writer_hostgroup, reader_hostgroup, domain_name,
             add_lag_ms)
         VALUES (0, 2, '.a', 40)",
    );
    let said = fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    assert!(said.contains("3 warnings"), "{said}");
    // Other modules are not warned of.
    assert_eq!(fixture.done("LOAD MYSQL USERS TO RUNTIME"), "0 changes");
}

#[test]
fn rules_split_reads_unless_a_hostgroup_says_otherwise() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a'), (2, 'b')");
    fixture.done(
        "INSERT INTO mysql_replication_hostgroups (writer_hostgroup, reader_hostgroup) VALUES (1, 2)",
    );
    fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    let split = |fixture: &Fixture| fixture.config().clusters[0].read_write_split;
    assert_eq!(split(&fixture), ReadWriteSplit::Rules);
    fixture.done(
        "INSERT INTO mysql_hostgroup_attributes (hostgroup_id, hostgroup_settings)
         VALUES (1, '{\"read_write_split\": \"auto\"}')",
    );
    fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    assert_eq!(split(&fixture), ReadWriteSplit::Auto);
}

#[test]
fn rows_of_proxysqls_tables_are_clusters_unless_a_file_says_that_servers_stay() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a'), (5, 'b'),
             (10, 'c')",
    );
    fixture
        .done("INSERT INTO mysql_replication_hostgroups VALUES (1, 2, 'super_read_only', 'shop')");
    fixture.done("INSERT INTO mysql_galera_hostgroups VALUES (5, 6, 7, 8, 1, 2, 2, 100, NULL)");
    fixture.done(
        "INSERT INTO mysql_aws_aurora_hostgroups (writer_hostgroup, reader_hostgroup, domain_name,
             check_interval_ms)
         VALUES (10, 11, '.a', 200)",
    );
    fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    let named = |fixture: &Fixture| {
        let config = fixture.config();
        let clusters = config.clusters.iter();
        clusters.map(|it| format!("{} {} {}", it.name, it.kind, it.check_type)).collect::<Vec<_>>()
    };
    let wanted =
        ["1/2 read_only super_read_only", "5/7 galera read_only", "10/11 aurora read_only"];
    assert_eq!(named(&fixture), wanted);
    let config = fixture.config();
    let aurora = config.clusters.iter().find(|it| it.name == "10/11").expect("a cluster");
    assert_eq!(
        (aurora.check_ms, aurora.max_lag_ms, aurora.port),
        (Some((200, 800)), 600_000, 3306)
    );
    assert_eq!((aurora.domain_name.as_str(), aurora.discovers()), (".a", true));
    fixture.done("UPDATE mysql_galera_hostgroups SET active = 0");
    fixture.done("UPDATE mysql_aws_aurora_hostgroups SET active = 0");
    fixture.done(
        "INSERT INTO mysql_hostgroup_attributes (hostgroup_id, hostgroup_settings)
         VALUES (1, '{\"check_type\": \"none\"}')",
    );
    fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    assert_eq!(named(&fixture), [""; 0]);
    assert_eq!(fixture.config().replication.len(), 1);
}

#[test]
fn a_hostgroups_settings_say_whether_its_statements_share_connections() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a'), (2, 'b')");
    fixture.done(
        "INSERT INTO mysql_hostgroup_attributes (hostgroup_id, hostgroup_settings, comment)
         VALUES (1, '{\"pipeline\": 16, \"balance\": \"random\"}', 'it''s'), (2, '{\"pipeline\": \"off\"}', '')",
    );
    fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    let said = |fixture: &Fixture| {
        let config = fixture.config();
        let entries = config.hostgroups.iter();
        entries
            .map(|entry| format!("{} {} {}", entry.id, entry.pipeline, entry.balance))
            .collect::<Vec<_>>()
    };
    assert_eq!(said(&fixture), ["1 16 random", "2 off p2c"]);
    fixture.done(
        "UPDATE mysql_hostgroup_attributes SET multiplex = 0,
         hostgroup_settings = '{\"pipeline\": \"often\"}' WHERE hostgroup_id = 2",
    );
    let refused = fixture.refused("LOAD MYSQL SERVERS TO RUNTIME");
    assert!(
        refused.contains(
            "mysql_hostgroup_attributes, hostgroup_id 2: `pipeline` must be auto, off or"
        ),
        "{refused}"
    );
    assert_eq!(said(&fixture), ["1 16 random", "2 off p2c"]);
    fixture.done("UPDATE mysql_hostgroup_attributes SET hostgroup_settings = '{}'");
    let done = fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    assert!(
        done.contains("mysql_hostgroup_attributes, hostgroup_id 2: multiplex has no effect yet"),
        "{done}"
    );
    assert_eq!(said(&fixture), ["1 auto p2c"], "a comment alone is kept");
}

#[test]
fn passwords_are_read_in_every_form() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_users (username, password) VALUES
         ('clear', 'it''s \"x\" \\'), ('empty', ''), ('none', NULL),
         ('native', MYSQL_NATIVE_PASSWORD('p')), ('sha2', CACHING_SHA2_PASSWORD('p'))",
    );
    fixture.done("LOAD MYSQL USERS TO RUNTIME");
    use trunkline_topology::{Password, Secret};
    let config = fixture.config();
    let password = |name: &str| {
        config.users.iter().find(|user| user.name == name).expect(name).password.clone()
    };
    let clear = |text: &str| Password::Clear(Secret::new(text.to_owned()));
    assert_eq!(password("clear"), clear("it's \"x\" \\"));
    assert_eq!((password("empty"), password("none")), (clear(""), clear("")));
    assert!(matches!(password("native"), Password::NativeHash(_)));
    assert!(matches!(password("sha2"), Password::Sha2Hash(_)));
}

#[test]
fn settings_run_when_they_are_loaded() {
    let mut fixture = Fixture::new();
    fixture.done("SET mysql-wait_timeout = 5000");
    fixture.done("SET trunkline-pipeline_depth_max = 3");
    fixture.done("SET mysql-multiplexing = false");
    assert_eq!(fixture.kept.snapshot().settings.wait_timeout, 28_800_000);
    let said = fixture.done("LOAD MYSQL VARIABLES TO RUNTIME");
    assert_eq!(said, "1 change; 1 warning, the first one: mysql-multiplexing has no effect");
    let running = fixture.kept.snapshot();
    assert_eq!((running.settings.wait_timeout, running.settings.pipeline_depth_max), (5_000, 64));
    fixture.done("LOAD TRUNKLINE VARIABLES TO RUNTIME");
    assert_eq!(fixture.kept.snapshot().settings.pipeline_depth_max, 3);
    assert_eq!(fixture.value("SELECT @@mysql-wait_timeout"), Value::Integer(5_000));
    let error = fixture.refused("INSERT INTO global_variables VALUES ('mysql-nothing', '1')");
    assert!(error.contains("unknown variable `mysql-nothing`"), "{error}");
}

#[test]
fn what_needs_a_restart_is_shown_as_it_runs() {
    let mut fixture = Fixture::new();
    fixture.done("SET mysql-threads = 3");
    fixture.done("LOAD MYSQL VARIABLES TO RUNTIME");
    let changes = fixture.value("SELECT changes FROM disk.config_history");
    assert_eq!(changes, text("setting workers: 0 -> 3 (needs a restart)"));
    let runs = "SELECT variable_value FROM runtime_global_variables \
                WHERE variable_name = 'mysql-threads'";
    assert_eq!(fixture.value(runs), text("0"));
    assert_eq!(fixture.rows("SHOW DIFF MYSQL VARIABLES").rows.len(), 2);
}

#[test]
fn a_read_only_admin_port_can_be_opened_again() {
    let mut fixture = Fixture::new();
    fixture.done("SET admin-read_only = true");
    fixture.done("LOAD ADMIN VARIABLES TO RUNTIME");
    for sql in ["DELETE FROM mysql_users", "SET mysql-threads = 2", "SAVE MYSQL USERS TO DISK"] {
        assert!(fixture.refused(sql).contains("read-only"), "{sql}");
    }
    fixture.rows("SELECT * FROM mysql_users");
    // What is there already may be loaded, as in ProxySQL.
    fixture.done("LOAD MYSQL USERS TO RUNTIME");
    fixture.done("SET admin-read_only = false");
    fixture.done("LOAD ADMIN VARIABLES TO RUNTIME");
    fixture.done("DELETE FROM mysql_users");
}

#[test]
fn a_revision_is_loaded_again() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_servers (hostname) VALUES ('first')");
    fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    fixture.done("UPDATE mysql_servers SET hostname = 'second'");
    fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    let history = fixture.rows("SHOW HISTORY");
    assert_eq!(history.rows.len(), 2);
    assert_eq!(history.rows[0][2], text("admin@here"));
    fixture.done("LOAD MYSQL SERVERS FROM REVISION 1");
    fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    assert_eq!(fixture.config().servers[0].key.address.to_string(), "first:3306");
    let version = "SELECT version FROM runtime_checksums_values WHERE name = 'mysql_servers'";
    assert_eq!(fixture.value(version), Value::Integer(4));
}

#[test]
fn digests_begin_anew_when_they_are_read_with_a_reset() {
    let mut fixture = Fixture::new();
    let count =
        "SELECT count_star FROM stats_mysql_query_digest WHERE digest = '0x000000000000ABCD'";
    assert_eq!(fixture.value(count), Value::Integer(8_000));
    assert!(!fixture.rows("SELECT * FROM stats_mysql_query_digest_reset").rows.is_empty());
    // The sample's counters stand still.
    assert!(fixture.rows("SELECT * FROM stats_mysql_query_digest").rows.is_empty());
}

#[test]
fn every_table_of_statistics_can_be_read() {
    let mut fixture = Fixture::new();
    let tables = fixture.rows("SHOW TABLES FROM stats").rows;
    assert!(tables.len() > 25, "{}", tables.len());
    for row in tables {
        let Value::Text(name) = &row[0] else { panic!("{row:?}") };
        fixture.rows(&format!("SELECT * FROM stats.{name}"));
        fixture.rows(&format!("DESCRIBE {name}"));
        fixture.rows(&format!("SHOW CREATE TABLE stats.{name}"));
    }
    assert_eq!(fixture.rows("SELECT * FROM stats_mysql_connection_pool").rows.len(), 3);
    let uptime = "SELECT Variable_Value FROM stats_mysql_global \
                  WHERE Variable_Name = 'ProxySQL_Uptime'";
    assert_eq!(fixture.value(uptime), text("7260"));
    assert!(!fixture.rows("SELECT * FROM stats_refusals").rows.is_empty());
    assert_eq!(fixture.rows("SHOW TOPOLOGY").rows.len(), 2);
    // One that nobody holds anything in has a row all the same.
    let paused = fixture.rows("SHOW PAUSED HOSTGROUPS").rows;
    assert!(paused.iter().any(|row| row.first() == Some(&text("77"))), "{paused:?}");
    assert_eq!(fixture.done("PAUSE HOSTGROUP 10 FOR 5"), "10 Pause(Some(5s))");
    assert_eq!(fixture.done("RESUME HOSTGROUP 10"), "10 Resume");
    assert_eq!(fixture.rows("SELECT * FROM stats_cluster_events").rows.len(), 1);
    let executed = "SELECT hostname || ' ' || port || ' ' || gtid_executed || ' ' || events \
                    FROM stats_mysql_gtid_executed";
    assert_eq!(fixture.value(executed), text("10.0.0.2 3306 0-1-77 0"));
    assert!(!fixture.rows("SHOW COLLATION").rows.is_empty());
    fixture.rows("HELP");
    fixture.rows("SHOW PROMETHEUS METRICS");
}

#[test]
fn the_file_is_loaded_module_by_module() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'b'), (1, 'c')");
    let affected = match fixture.reply("LOAD MYSQL SERVERS FROM CONFIG") {
        Reply::Ok { affected, .. } => affected,
        other => panic!("{other:?}"),
    };
    assert_eq!(affected, 2);
    let servers = "SELECT group_concat(hostname || weight) FROM \
                   (SELECT hostname, weight FROM mysql_servers ORDER BY hostname)";
    assert_eq!(fixture.value(servers), text("a1,b7,c1"));
    assert_eq!(fixture.value("SELECT count(*) FROM mysql_users"), Value::Integer(0));
    fixture.done("LOAD MYSQL VARIABLES FROM CONFIG");
    let timeout = "SELECT variable_value FROM global_variables \
                   WHERE variable_name = 'mysql-wait_timeout'";
    assert_eq!(fixture.value(timeout), text("4000"));
}

#[test]
fn rows_of_the_file_that_do_not_fit_are_named_by_their_lines_and_none_is_loaded() {
    let mut fixture = Fixture::new();
    fixture.service.file = Some(Arc::new(Box::new(|| {
        let file = "mysql_servers = (\n { address=\"a\", port=99999 },\n { address=\"new\" },\n \
                    { address=\"c\", weight=-4 } )";
        crate::import::cnf_rows(file, "x.cnf")
    })));
    let refused = fixture.refused("LOAD MYSQL SERVERS FROM CONFIG");
    for named in ["nothing was loaded: x.cnf:2: mysql_servers: ", "port", "x.cnf:4: ", "weight"] {
        assert!(refused.contains(named), "{refused}");
    }
    let new = "SELECT count(*) FROM mysql_servers WHERE hostname = 'new'";
    assert_eq!(fixture.value(new), Value::Integer(0));
}

#[test]
fn changes_are_in_the_audit_log_without_their_texts() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_users (username, password) VALUES ('u', 'hidden''too')");
    fixture.refused("LOAD MYSQL HATS TO RUNTIME");
    fixture.done("LOAD MYSQL USERS TO RUNTIME");
    fixture.rows("SELECT * FROM mysql_users");
    fixture.done("SET admin-stats_credentials = 's:hidden'");
    let lines = fixture.kept.1.lock().expect("not poisoned").clone();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("hidden")), "{lines:?}");
    let first: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!(first["event"], "Admin_Statement");
    assert_eq!(first["username"], "admin");
    let text = "INSERT INTO mysql_users (username, password) VALUES (?, ?)";
    assert_eq!(first["extra_info"], text);
    assert!(lines[1].contains("\"errno\":1064"), "{}", lines[1]);
    assert!(lines[3].contains("SET admin-stats_credentials = ?"), "{}", lines[3]);
}
