//! The console over a plain listener: TLS around it is tested end to end.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use trunkline_stats::{
    DigestQuery, SessionList, SessionQuery, Topology,
    checks::{CheckKind, CheckRow},
};

use super::{hub::Topic, types::Types, *};
use crate::{
    past::lines::Asked,
    sample,
    service::tests::Kept,
    source::{Health, ReportFuture, SessionsFuture},
};

/// Longer than any of these tests needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Counts how often it is asked.
#[derive(Default)]
struct Counting {
    reports: AtomicUsize,
}

impl StatusSource for Counting {
    fn report(&self, digests: DigestQuery) -> ReportFuture<'_> {
        self.reports.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { sample::report(digests) })
    }

    fn sessions(&self, _: SessionQuery) -> SessionsFuture<'_> {
        Box::pin(async { SessionList::default() })
    }

    fn health(&self) -> Health {
        Health::Ready
    }

    fn topology(&self) -> Topology {
        sample::topology()
    }

    fn checks(&self, kind: CheckKind) -> Vec<CheckRow> {
        sample::checks(kind)
    }

    fn http_allowed_hosts(&self) -> String {
        String::new()
    }
}

/// A console, and where it is.
struct Fixture {
    kept: Arc<Kept>,
    console: Arc<Console>,
    addr: SocketAddr,
}

/// Status, head in lower case, and body of an answer.
type Answer = (u16, String, String);

impl Fixture {
    async fn new() -> Self {
        let (service, kept) = Kept::service();
        let console = Console::new(Arc::new(service), Arc::new(Counting::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("a bound socket");
        let figures = Arc::clone(console.service.figures());
        let listener = GuardedListener::with_limits(listener, Limits::default(), figures);
        let service = router(Arc::clone(&console)).into_make_service_with_connect_info::<Caller>();
        tokio::spawn(axum::serve(listener, service).into_future());
        Self { kept, console, addr }
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let kind = "Content-Type: application/json";
        let len = body.len();
        request.push_str(&format!("{kind}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"));
        request.push_str(body);
        let mut stream = TcpStream::connect(self.addr).await.expect("a listening server");
        stream.write_all(request.as_bytes()).await.expect("a server that reads");
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        read.expect("the server closes in time").expect("an answer");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), head.to_ascii_lowercase(), body.to_owned())
    }

    async fn try_login(&self, user: &str, password: &str) -> Answer {
        let body = json!({ "user": user, "password": password }).to_string();
        self.ask("POST", "/console/login", &[], &body).await
    }

    async fn log_in(&self, user: &str, password: &str) -> Page<'_> {
        let (status, head, body) = self.try_login(user, password).await;
        assert_eq!(status, 200, "{body}");
        let cookie = head.split("set-cookie: __host-trunkline=").nth(1).expect("a cookie");
        let (secret, attributes) = cookie.split_once(';').expect("attributes");
        let attributes = attributes.lines().next().expect("a line").trim();
        assert_eq!(attributes, "path=/; secure; httponly; samesite=strict");
        let told: Value = serde_json::from_str(&body).expect("JSON");
        let cookie = format!("__Host-trunkline={secret}");
        Page { fixture: self, cookie, token: text(&told, "csrf"), role: text(&told, "role") }
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// A page whose visitor has logged in.
struct Page<'a> {
    fixture: &'a Fixture,
    cookie: String,
    token: String,
    role: String,
}

impl Page<'_> {
    async fn get(&self, path: &str) -> Answer {
        self.fixture.ask("GET", path, &[("Cookie", &self.cookie)], "").await
    }

    async fn run(&self, sql: &str) -> (u16, Value) {
        self.run_json(json!({ "sql": sql })).await
    }

    async fn run_json(&self, body: Value) -> (u16, Value) {
        let headers = [("Cookie", self.cookie.as_str()), ("X-CSRF-Token", &self.token)];
        let body = body.to_string();
        let (status, _, body) =
            self.fixture.ask("POST", "/console/statement", &headers, &body).await;
        (status, serde_json::from_str(&body).expect("JSON"))
    }
}

#[tokio::test]
async fn who_logs_in_may_do_what_their_account_may() {
    let fixture = Fixture::new().await;
    let admin = fixture.log_in("admin", "admin").await;
    assert_eq!(admin.role, "configure");
    let (status, answer) = admin.run("LOAD MYSQL SERVERS TO RUNTIME").await;
    assert_eq!(status, 200, "{answer}");
    let stats = fixture.log_in("stats", "stats").await;
    assert_eq!(stats.role, "look");
    let (status, answer) = stats.run("LOAD MYSQL SERVERS TO RUNTIME").await;
    assert_eq!(status, 400, "{answer}");
    assert!(text(&answer["error"], "message").contains("not allowed"), "{answer}");
    let (status, answer) = stats.run("SELECT count(*) AS n FROM stats_mysql_query_digest").await;
    assert_eq!(status, 200, "{answer}");
    let lines = fixture.kept.audited().join("\n");
    for wanted in [
        r#""event":"Admin_Connect_OK""#,
        r#""client_addr":"127.0.0.1""#,
        r#""extra_info":"LOAD MYSQL SERVERS TO RUNTIME""#,
        r#""username":"stats""#,
    ] {
        assert!(lines.contains(wanted), "{wanted}: {lines}");
    }
}

#[tokio::test]
async fn lines_of_the_past_are_for_who_has_logged_in() {
    let fixture = Fixture::new().await;
    let ask = async |path: &str, cookie: &str| {
        fixture.ask("GET", path, &[("Cookie", cookie)], "").await.0
    };
    assert_eq!(ask("/console/history?last=600", "").await, 401);
    let stats = fixture.log_in("stats", "stats").await;
    assert_eq!(ask("/console/history?last=1", &stats.cookie).await, 400);
    assert_eq!(ask("/console/history?last=600", &stats.cookie).await, 404, "no history is kept");
}

#[tokio::test]
async fn who_decided_on_another_configuration_is_told_and_nothing_is_done() {
    let fixture = Fixture::new().await;
    let page = fixture.log_in("admin", "admin").await;
    let version = fixture.console.service.snapshot().version;
    page.run("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, '10.0.0.1')").await;
    let load = |expected: u64| {
        let sql = "LOAD MYSQL SERVERS TO RUNTIME";
        page.run_json(json!({ "sql": sql, "expect_version": expected }))
    };
    let (status, answer) = load(version + 1).await;
    assert_eq!(status, 409, "{answer}");
    let servers = || fixture.console.service.snapshot().config.servers.len();
    assert_eq!(servers(), 0, "nothing was loaded");
    let (status, answer) = load(version).await;
    assert_eq!((status, servers()), (200, 1), "{answer}");
}

#[tokio::test]
async fn what_administrators_did_is_shown_to_administrators() {
    let fixture = Fixture::new().await;
    let admin = fixture.log_in("admin", "admin").await;
    admin.run("SET admin-stats_credentials = 'stats:hush'").await;
    let (status, _, body) = admin.get("/console/audit").await;
    assert_eq!(status, 200);
    let told: Value = serde_json::from_str(&body).expect("JSON");
    let lines = told["lines"].as_array().expect("lines");
    assert_eq!(text(&lines[0], "event"), "Admin_Connect_OK");
    assert_eq!(text(&lines[1], "extra_info"), "SET admin-stats_credentials = ?");
    let stats = fixture.log_in("stats", "stats").await;
    assert_eq!(stats.get("/console/audit").await.0, 403);
}

#[tokio::test]
async fn wrong_passwords_are_refused_alike_and_then_have_to_wait() {
    let fixture = Fixture::new().await;
    let (status, _, wrong) = fixture.try_login("admin", "wrong").await;
    assert_eq!(status, 401);
    let (status, head, unknown) = fixture.try_login("nobody", "wrong").await;
    assert_eq!((status, &unknown), (401, &wrong));
    assert!(!head.contains("set-cookie"), "{head}");
    assert_eq!(fixture.try_login("", "").await.0, 401, "no token is set");
    let max = fixture.console.service.snapshot().settings.admin_failed_logins_max;
    for _ in 1..max {
        assert_eq!(fixture.try_login("admin", "wrong").await.0, 401);
    }
    let (status, _, body) = fixture.try_login("admin", "admin").await;
    assert_eq!(status, 429, "{body}");
    assert_eq!(fixture.try_login("stats", "stats").await.0, 200, "others go on");
    assert!(fixture.kept.audited().join("\n").contains(r#""event":"Admin_Connect_ERR""#));
}

#[tokio::test]
async fn nothing_is_told_or_changed_without_a_login_and_nothing_changed_by_other_pages() {
    let fixture = Fixture::new().await;
    for path in ["/console/session", "/console/stream?now", "/console/digests"] {
        assert_eq!(fixture.ask("GET", path, &[], "").await.0, 401, "{path}");
    }
    let body = r#"{"sql":"LOAD MYSQL SERVERS TO RUNTIME"}"#;
    assert_eq!(fixture.ask("POST", "/console/statement", &[], body).await.0, 401);
    let page = fixture.log_in("admin", "admin").await;
    let cookie = ("Cookie", page.cookie.as_str());
    let before = fixture.kept.audited().len();
    let none = fixture.ask("POST", "/console/statement", &[cookie], body).await;
    let wrong = [cookie, ("X-CSRF-Token", "0")];
    let wrong = fixture.ask("POST", "/console/statement", &wrong, body).await;
    assert_eq!((none.0, wrong.0), (403, 403), "{}", none.2);
    let own = ("X-CSRF-Token", page.token.as_str());
    let foreign = [cookie, own, ("Origin", "https://evil.example")];
    assert_eq!(fixture.ask("POST", "/console/statement", &foreign, body).await.0, 403);
    let form = [cookie, own, ("Content-Type", "text/plain")];
    assert_ne!(fixture.ask("POST", "/console/statement", &form, body).await.0, 200);
    assert_eq!(fixture.kept.audited().len(), before, "nothing was run");
    assert_eq!(fixture.ask("POST", "/console/logout", &[cookie], "").await.0, 403);
    assert_eq!(fixture.ask("POST", "/console/logout", &[cookie, own], "").await.0, 200);
    assert_eq!(page.get("/console/session").await.0, 401);
}

#[tokio::test]
async fn another_password_ends_the_visits_of_the_one_before() {
    let fixture = Fixture::new().await;
    let (admin, stats) =
        (fixture.log_in("admin", "admin").await, fixture.log_in("stats", "stats").await);
    let (status, answer) =
        admin.run("SET admin-stats_credentials = 'stats:another;ada:secret'").await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(stats.get("/console/session").await.0, 200, "nothing was loaded yet");
    assert_eq!(admin.run("LOAD ADMIN VARIABLES TO RUNTIME").await.0, 200);
    assert_eq!(stats.get("/console/session").await.0, 401);
    assert_eq!(admin.get("/console/session").await.0, 200);
    assert_eq!(fixture.log_in("ada", "secret").await.role, "look");
}

#[tokio::test]
async fn tokens_of_the_api_are_accounts_without_a_name() {
    let fixture = Fixture::new().await;
    let admin = fixture.log_in("admin", "admin").await;
    admin.run("SET trunkline-http_api_stats_token = 'only looks'").await;
    let (status, answer) = admin.run("LOAD TRUNKLINE VARIABLES TO RUNTIME").await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(fixture.log_in("", "only looks").await.role, "look");
    assert_eq!(fixture.try_login("", "else").await.0, 401);
}

#[tokio::test]
async fn who_operates_configures_nothing() {
    let fixture = Fixture::new().await;
    let admin = fixture.log_in("admin", "admin").await;
    admin.run("SET trunkline-admin_operate_credentials = 'op:secret'").await;
    admin.run("SET trunkline-http_api_operate_token = 'operates'").await;
    let (status, answer) = admin.run("LOAD TRUNKLINE VARIABLES TO RUNTIME").await;
    assert_eq!(status, 200, "{answer}");
    for (user, password) in [("op", "secret"), ("", "operates")] {
        let operator = fixture.log_in(user, password).await;
        assert_eq!(operator.role, "operate");
        for sql in [
            "PAUSE HOSTGROUP 1",
            "RESUME HOSTGROUP 1",
            "PROXYSQL PAUSE",
            "PROXYSQL RESUME",
            "PROXYSQL FLUSH QUERY CACHE",
            "PROXYSQL SHUTDOWN SLOW",
            "SELECT count(*) AS n FROM stats_mysql_query_digest",
        ] {
            let (status, answer) = operator.run(sql).await;
            assert_eq!(status, 200, "{sql}: {answer}");
        }
        for sql in [
            "LOAD MYSQL SERVERS TO RUNTIME",
            "LOAD MYSQL USER u TO RUNTIME",
            "SAVE MYSQL SERVERS TO DISK",
            "SET mysql-wait_timeout = 1000",
            "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, '10.0.0.1')",
            "DELETE FROM stats_mysql_global",
            "SELECT * FROM mysql_users",
            "SELECT * FROM runtime_mysql_query_rules",
            "SELECT @@trunkline-admin_operate_credentials",
            "SELECT CONFIG FILE",
            "SHOW DIFF",
            "SHOW BUNDLE",
            "PROXYSQL SHUTDOWN",
            "PROXYSQL RESTART",
            "PROXYSQL READONLY",
            "PROXYSQL RELOAD CONFIG",
            "PROXYSQL RELOAD TLS",
            "TRUNCATE stats_mysql_query_digest",
            "SAVE MYSQL DIGEST TO DISK",
            "ATTACH DATABASE '/tmp/never' AS never",
        ] {
            let (status, answer) = operator.run(sql).await;
            assert_eq!(status, 400, "{sql}: {answer}");
        }
        let shown = operator.run("SHOW VARIABLES LIKE '%operate%'").await.1;
        assert!(shown["rows"].as_array().is_some_and(Vec::is_empty), "{shown}");
        let headers = [("Cookie", operator.cookie.as_str())];
        assert_eq!(fixture.ask("GET", "/console/audit", &headers, "").await.0, 403);
    }
    let lines = fixture.kept.audited().join("\n");
    assert!(lines.contains(r#""username":"op""#), "{lines}");
    assert!(!lines.contains("secret"), "{lines}");
}

/// The page's types.
fn page_types() -> Types {
    Types::read(include_str!("../../../../../web/src/api.ts"))
}

#[tokio::test]
async fn what_pages_are_told_has_the_types_that_they_expect() {
    let (fixture, types) = (Fixture::new().await, page_types());
    let check = |name: &str, value: &Value| {
        let wrong = types.check(name, value);
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    };
    for (topic, name) in [
        (Topic::Now, "Now"),
        (Topic::Topology, "Topology"),
        (Topic::Statements("sum_time"), "Digests"),
    ] {
        let mut told = fixture.console.hub.look(topic);
        let looked = tokio::time::timeout(PATIENCE, told.wait_for(|text| !text.is_empty())).await;
        let text = Arc::clone(&looked.expect("in time").expect("told"));
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let rows = ["servers", "clusters", "rows"].iter().find_map(|rows| value.get(*rows));
        assert!(rows.and_then(Value::as_array).is_some_and(|rows| !rows.is_empty()), "{name}");
        check(name, &value);
    }
    let holds = vec![trunkline_stats::HeldConn::default()];
    let row = trunkline_stats::SessionRow { holds, ..Default::default() };
    let list = SessionList { sessions: vec![row], ..SessionList::default() };
    check("Clients", &super::figures::sessions(&list));
    let admin = fixture.log_in("admin", "admin").await;
    check("Rows", &admin.run("SELECT 1 AS n, 'x' AS t, NULL AS z").await.1);
    check("Done", &admin.run("SET mysql-wait_timeout = 1000").await.1);
    let headers = [("Cookie", admin.cookie.as_str())];
    for (path, name) in [("session", "Session"), ("digests?order=sum_time&search=", "Digests")] {
        let answer = fixture.ask("GET", &format!("/console/{path}"), &headers, "").await;
        check(name, &serde_json::from_str(&answer.2).expect("JSON"));
    }
    let folder = std::env::temp_dir().join(format!("trunkline-types-{}", std::process::id()));
    let mut history = trunkline_history::History::open(&folder, 1_000_000).expect("opened");
    let begin = 1_790_553_600;
    let frame = trunkline_history::Frame { begin, seconds: 10, ..Default::default() };
    history.add(&frame).expect("written");
    let asked = Asked::parse(Some("last=600&digests=0x1")).expect("fits");
    check("History", &asked.read(&folder, begin + 10).expect("read"));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn the_description_of_the_api_has_the_pages_types() {
    let (types, description) = (page_types(), crate::http::api::description());
    let schemas = description["components"]["schemas"].as_object().expect("schemas");
    assert!(schemas.contains_key("History") && schemas.contains_key("Topology"));
    for (name, schema) in schemas {
        assert_eq!(*schema, types.schema(name), "{name}");
    }
    // Every reference leads somewhere.
    let text = description.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap_or_default();
        assert!(schemas.contains_key(name), "{name}");
    }
    for path in ["/api/v1/history", "/api/v1/topology", "/api/v1/events"] {
        assert!(description["paths"].get(path).is_some(), "{path}");
    }
}

#[tokio::test]
async fn every_answer_forbids_scripts_of_others() {
    let fixture = Fixture::new().await;
    for (path, expected) in [("/", 200), ("/console.js", 200), ("/nothing", 404)] {
        let (status, head, _) = fixture.ask("GET", path, &[], "").await;
        assert_eq!(status, expected, "{path}");
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"));
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert!(!head.contains("unsafe-"), "{head}");
    }
    let (_, head, _) = fixture.ask("GET", "/console.js", &[], "").await;
    let tag = head.split("etag: ").nth(1).and_then(|rest| rest.lines().next()).expect("a tag");
    let known = fixture.ask("GET", "/console.js", &[("If-None-Match", tag)], "").await;
    assert_eq!((known.0, known.2.len()), (304, 0));
}

#[tokio::test]
async fn a_search_among_digests_finds_texts_users_and_numbers() {
    let fixture = Fixture::new().await;
    let page = fixture.log_in("stats", "stats").await;
    let all: Value =
        serde_json::from_str(&page.get("/console/digests?order=count_star").await.2).expect("JSON");
    let rows = all["rows"].as_array().expect("rows").clone();
    assert!(rows.len() > 1);
    let digest = text(&rows[0], "digest");
    let found = page.get(&format!("/console/digests?search={}", digest.to_lowercase())).await;
    let found: Value = serde_json::from_str(&found.2).expect("JSON");
    assert_eq!(text(&found["rows"][0], "digest"), digest);
    assert!(found["found"].as_u64() < all["found"].as_u64(), "{found}");
    assert_eq!(page.get("/console/digests?order=digest_text").await.0, 400);
}

#[tokio::test]
async fn workers_are_asked_once_for_all_who_look_and_not_at_all_for_nobody() {
    let source = Arc::new(Counting::default());
    let hub = Hub::new(Arc::clone(&source) as _, Arc::default());
    let asked = || source.reports.load(Ordering::Relaxed);
    let mut lookers: Vec<_> = (0..10).map(|_| hub.look(Topic::Now)).collect();
    assert_eq!(asked(), 0);
    for round in 1..=2 {
        for looker in &mut lookers {
            looker.changed().await.expect("a picture");
            assert!(looker.borrow_and_update().starts_with('{'));
        }
        assert_eq!(asked(), round, "ten of them");
    }
    let history: Value = serde_json::from_str(&hub.history()).expect("JSON");
    assert_eq!(history.as_array().map(Vec::len), Some(2));
    drop(lookers);
    let gone = async {
        while hub.is_looked_at() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("nothing is produced for nobody");
    assert_eq!(asked(), 2);
    let mut again = hub.look(Topic::Now);
    again.changed().await.expect("a picture");
    assert_eq!(asked(), 3);
}

#[tokio::test]
async fn a_stream_has_all_its_topics_and_ends_with_the_visit() {
    let fixture = Fixture::new().await;
    let page = fixture.log_in("stats", "stats").await;
    let mut stream = TcpStream::connect(fixture.addr).await.expect("a listening server");
    let request = format!(
        "GET /console/stream?now&topology&sessions&statements=sum_time&history HTTP/1.1\r\n\
         Host: localhost\r\nCookie: {}\r\n\r\n",
        page.cookie
    );
    stream.write_all(request.as_bytes()).await.expect("a server that reads");
    let mut seen = String::new();
    let wanted = ["hello", "history", "now", "topology", "sessions", "statements"];
    let mut buf = vec![0; 65_536];
    while !wanted.iter().all(|name| seen.contains(&format!("event: {name}\n"))) {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut buf)).await;
        let read = read.expect("in time").expect("events");
        assert_ne!(read, 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&buf[..read]));
    }
    assert!(seen.contains("text/event-stream"), "{seen}");
    let headers = [("Cookie", page.cookie.as_str()), ("X-CSRF-Token", &page.token)];
    assert_eq!(fixture.ask("POST", "/console/logout", &headers, "").await.0, 200);
    while !seen.contains("event: bye\n") {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut buf)).await;
        let read = read.expect("in time").expect("events");
        assert_ne!(read, 0, "it ended without a word");
        seen.push_str(&String::from_utf8_lossy(&buf[..read]));
    }
}
