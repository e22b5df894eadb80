//! The API over HTTP, and what an administrator sees in file mode.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, StreamOwned, pki_types::ServerName};
use serde_json::{Value, json};
use trunkline_testkit::{SqlClient, Trunkline, wait_until};

use super::{begin, refusal};
use crate::backends::{self, Config, PASSWORD};
use crate::tls::certs::client;

const SOON: Duration = Duration::from_secs(20);

/// The status and the body of an answer; without a token when that is empty.
pub(crate) fn request(
    proxy: &Trunkline,
    head: &str,
    token: &str,
    body: &str,
) -> Result<(u16, Value)> {
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.http_port()))?;
    stream.set_read_timeout(Some(SOON))?;
    let bearer = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let kind = "Content-Type: application/json";
    let text = format!(
        "{head} HTTP/1.0\r\n{bearer}{kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, serde_json::from_str(body)?))
}

// long: one story, each part of which goes on from the one before.
#[test]
fn every_table_is_json_for_who_has_a_token() -> Result<()> {
    let Some(server) = backends::mariadb("every_table_is_json")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_api")?;
    assert_eq!(request(&proxy, "GET /api/v1/tables", "", "")?.0, 404, "off by default");
    admin
        .sql("SET trunkline-http_api_token = 'all'; SET trunkline-http_api_stats_token = 'some'")?;
    admin.sql("LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    let log = proxy.log();
    ensure!(!log.contains("-> all") && !log.contains("some"), "a token in the log");
    assert_eq!(request(&proxy, "GET /api/v1/tables", "al", "")?.0, 401);

    let (status, tables) = request(&proxy, "GET /api/v1/tables", "all", "")?;
    assert_eq!(status, 200);
    let tables = tables.as_array().context("a list")?.clone();
    ensure!(tables.len() > 100, "{} tables", tables.len());
    for table in &tables {
        let path = format!(
            "GET /api/v1/tables/{}/{}?limit=3",
            table["schema"].as_str().context("a name")?,
            table["table"].as_str().context("a name")?
        );
        let (status, rows) = request(&proxy, &path, "all", "")?;
        ensure!(status == 200 && rows["rows"].is_array(), "{path}: {status} {rows}");
    }
    let path = "GET /api/v1/tables/main/mysql_users?username=adm_api&limit=5";
    let (_, rows) = request(&proxy, path, "all", "")?;
    assert_eq!(rows["rows"][0]["default_hostgroup"], json!(10));
    assert_eq!(rows["rows"].as_array().map(Vec::len), Some(1));
    // Statistics and nothing else.
    assert_eq!(request(&proxy, path, "some", "")?.0, 404);
    let global = "GET /api/v1/tables/stats/stats_mysql_global?Variable_Name=ProxySQL_Uptime";
    assert_eq!(
        request(&proxy, global, "some", "")?.1["rows"][0]["Variable_Name"],
        "ProxySQL_Uptime"
    );
    assert_eq!(request(&proxy, "GET /api/v1/tables/main/mysql_users?nothing=1", "all", "")?.0, 400);

    let run = |token: &str, sql: &str| {
        request(&proxy, "POST /api/v1/statement", token, &json!({ "sql": sql }).to_string())
    };
    let added = run("all", "INSERT INTO mysql_query_rules (rule_id, active) VALUES (9, 0)")?;
    assert_eq!((added.0, &added.1["affected"]), (200, &json!(1)));
    assert_eq!(run("all", "SELECT count(*) AS n FROM mysql_query_rules")?.1["rows"][0]["n"], 1);
    let wrong = run("all", "LOAD MYSQL HATS TO RUNTIME")?;
    assert_eq!((wrong.0, &wrong.1["error"]["code"]), (400, &json!(1064)));
    assert_eq!(run("some", "LOAD MYSQL USERS TO RUNTIME")?.0, 400);
    assert_eq!(run("some", "SELECT password FROM main.mysql_users")?.0, 400);
    assert_eq!(request(&proxy, "POST /api/v1/statement", "all", "no JSON")?.0, 400);

    let (_, described) = request(&proxy, "GET /api/v1/openapi.json", "", "")?;
    assert_eq!(described["openapi"], "3.1.0");
    let paths = described["paths"].as_object().context("paths")?;
    let of_tables = paths.keys().filter(|path| path.starts_with("/api/v1/tables/")).count();
    assert_eq!(of_tables, tables.len());
    for path in ["tables", "statement", "history", "topology", "events"] {
        ensure!(paths.contains_key(&format!("/api/v1/{path}")), "{path}");
    }
    // Who operates is between the two, with a token and on the admin port.
    let load = "LOAD TRUNKLINE VARIABLES TO RUNTIME";
    admin.sql("SET trunkline-http_api_operate_token = 'acts'")?;
    admin.sql("SET trunkline-admin_operate_credentials = 'op:secret'")?;
    admin.sql(load)?;
    assert_eq!(run("acts", "PAUSE HOSTGROUP 10 FOR 5")?.0, 200);
    assert_eq!(run("acts", "RESUME HOSTGROUP 10")?.0, 200);
    assert_eq!(run("some", "RESUME HOSTGROUP 10")?.0, 400);
    assert_eq!(run("acts", load)?.0, 400);
    let mut operator = SqlClient::tcp(proxy.admin_port(), "op", "secret", "")?;
    operator.sql("KILL QUERY 999999").err().context("nobody has that number")?;
    operator.sql("PROXYSQL FLUSH QUERY CACHE")?;
    assert_eq!(refusal(&mut operator, load)?.0, 1045);
    assert_eq!(refusal(&mut operator, "SELECT * FROM main.mysql_users")?.0, 1045);
    ensure!(SqlClient::tcp(proxy.admin_port(), "op", "else", "").is_err());
    ensure!(!proxy.log().contains("secret"), "a password in the log");
    let author = admin.value("SELECT author FROM disk.config_history ORDER BY revision LIMIT 1")?;
    ensure!(author.is_some_and(|author| author.starts_with("admin@")));
    Ok(())
}

#[test]
fn in_file_mode_the_admin_port_shows_the_file_and_its_drift() -> Result<()> {
    let Some(server) = backends::mariadb("in_file_mode_the_admin_port")? else { return Ok(()) };
    backends::account(server, "adm_file")?;
    let settings = "admin_listen = \"{folder}/admin.sock\"";
    let config = Config::new(settings, server).user("adm_file");
    let proxy = Trunkline::start(config.text())?;
    let socket = proxy.socket().with_file_name("admin.sock");
    let mut admin = SqlClient::socket(&socket, "admin", "admin", "")?;
    let users = "SELECT group_concat(username || ' ' || password) FROM runtime_mysql_users";
    assert_eq!(admin.value(users)?.as_deref(), Some("adm_file …"));
    assert!(admin.sql("SHOW DIFF")?.is_empty());
    for sql in [
        "INSERT INTO mysql_users (username) VALUES ('x')",
        "SET mysql-wait_timeout = 5",
        "LOAD MYSQL USERS TO RUNTIME",
        "SAVE MYSQL USERS TO DISK",
        "PROXYSQL READONLY",
    ] {
        let (_, message) = refusal(&mut admin, sql)?;
        ensure!(message.contains("a file's"), "{sql}: {message}");
    }
    // The file has changed and was not loaded yet.
    let file = proxy.config_file();
    let text = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("wait_timeout = 55000\n{text}"))?;
    let drift = admin.sql("SHOW DIFF")?;
    ensure!(format!("{drift:?}").contains("mysql-wait_timeout"), "{drift:?}");
    let mark = proxy.log_mark();
    proxy.signal(trunkline_testkit::Signal::Hangup)?;
    proxy.wait_log(mark, "in force", SOON)?;
    wait_until("no drift", SOON, || Ok(admin.sql("SHOW DIFF")?.is_empty().then_some(())))?;
    let value = "SELECT variable_value FROM runtime_global_variables \
                 WHERE variable_name = 'mysql-wait_timeout'";
    assert_eq!(admin.value(value)?.as_deref(), Some("55000"));
    let mut client = proxy.connect("adm_file", PASSWORD, "")?;
    let rows = "SELECT count(*) FROM stats_mysql_processlist WHERE user = 'adm_file'";
    assert_eq!(admin.value(rows)?.as_deref(), Some("1"));
    admin.sql(&format!("KILL {}", client.connection_id()))?;
    assert!(client.sql("SELECT 1").is_err());
    Ok(())
}

#[test]
fn everything_of_a_file_begins_a_database() -> Result<()> {
    let Some(server) = backends::mariadb("everything_of_a_file")? else { return Ok(()) };
    backends::account(server, "adm_seed")?;
    let password = PASSWORD.replace('\\', "\\\\");
    let keys = format!(
        "password = \"front\"\nallow_from = [\"127.0.0.0/8\"]\nbackend_user = \"adm_seed\"\n\
         backend_password = \"{password}\"\nretained_password = \"before\""
    );
    let port = trunkline_testkit::free_port()?;
    let listener = format!(
        "[[tcp_listener]]\naddress = \"127.0.0.1:{port}\"\nhostgroup = 10\nbalance = \"first\"\n"
    );
    let config = Config::new("", server).user_with("seeded", &keys);
    let proxy = Trunkline::start_database(&format!("{}{listener}", config.text()))?;
    for password in ["front", "before"] {
        let mut client = proxy.connect("seeded", password, "")?;
        assert_eq!(client.value("SELECT 1")?.as_deref(), Some("1"), "{password}");
    }
    let mut relayed = SqlClient::tcp(port, "adm_seed", PASSWORD, "")?;
    assert_eq!(relayed.value("SELECT 2")?.as_deref(), Some("2"));
    let mut admin = super::administrator(&proxy)?;
    admin.sql("DELETE FROM trunkline_tcp_listeners")?;
    admin.sql("LOAD MYSQL SERVERS TO RUNTIME")?;
    wait_until("the listener is closed", SOON, || {
        Ok(TcpStream::connect(("127.0.0.1", port)).is_err().then_some(()))
    })?;
    Ok(())
}

#[test]
fn the_ports_of_proxysql_are_answered_when_they_are_switched_on() -> Result<()> {
    let Some(server) = backends::mariadb("the_ports_of_proxysql")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_ports")?;
    let (port, web_port) = (trunkline_testkit::free_port()?, trunkline_testkit::free_port()?);
    let get = |path: &str| trunkline_testkit::http_get(port, path);
    admin.sql(&format!("SET admin-restapi_port = {port}"))?;
    admin.sql("SET admin-restapi_enabled = true")?;
    admin.sql(&format!("SET admin-web_port = {web_port}"))?;
    admin.sql("SET admin-web_enabled = true")?;
    ensure!(get("/").is_err(), "nothing was loaded yet");
    admin.sql("LOAD ADMIN VARIABLES TO RUNTIME")?;
    let page = wait_until("the page", SOON, || Ok(get("/").ok()))?;
    assert_eq!(page.0, 200);
    ensure!(page.1.contains("trunkline") && page.1.contains("GET /metrics"), "{}", page.1);
    ensure!(get("/metrics")?.1.contains("proxysql_questions_total"));
    assert_eq!(get("/nothing")?.0, 404);
    the_console_is_a_page_over_tls(web_port)?;
    admin.sql("SET admin-restapi_enabled = false")?;
    admin.sql("SET admin-web_enabled = false")?;
    admin.sql("LOAD ADMIN VARIABLES TO RUNTIME")?;
    for port in [port, web_port] {
        wait_until("nobody answers", SOON, || {
            Ok(TcpStream::connect(("127.0.0.1", port)).is_err().then_some(()))
        })?;
    }
    assert_eq!(proxy.http("/healthz")?.0, 200, "the other port goes on");
    Ok(())
}

/// The web console: over TLS alone, and what it shows is for accounts of the admin port.
fn the_console_is_a_page_over_tls(port: u16) -> Result<()> {
    let ask = |request: &str, body: &str| -> Result<String> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_read_timeout(Some(SOON))?;
        let name = ServerName::try_from("localhost")?;
        let conn = ClientConnection::new(client(&[&TLS13, &TLS12], None)?, name)?;
        let mut stream = StreamOwned::new(conn, socket);
        let kind = "Content-Type: application/json";
        let len = body.len();
        let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        write!(stream, "{head}{kind}\r\nContent-Length: {len}\r\n\r\n{body}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let page = ask("GET /", "")?;
    ensure!(page.starts_with("HTTP/1.1 200") && page.contains("<title>Trunkline"), "{page}");
    let script = ask("GET /console.js", "")?;
    ensure!(script.len() > 50_000, "several records: {} bytes", script.len());
    ensure!(ask("GET /console/session", "")?.starts_with("HTTP/1.1 401"));
    let answer = ask("POST /console/login", r#"{"user":"stats","password":"stats"}"#)?;
    ensure!(answer.starts_with("HTTP/1.1 200") && answer.contains("__Host-trunkline="), "{answer}");
    ensure!(answer.contains(r#""role":"look""#), "{answer}");
    // Whoever asks without TLS gets no word of it.
    let clear = trunkline_testkit::http_get(port, "/");
    ensure!(clear.is_err(), "{clear:?}");
    Ok(())
}
