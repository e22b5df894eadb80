//! Each authentication plug-in, over each transport, before each server, with each real client:
//! who gets in is the table of `docs/manual/plugins.md`, which this writes when it is told to
//! (`TRUNKLINE_WRITE_MANUAL=1`) and otherwise checks.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_protocol::auth::{ed25519, native, parsec, sha256_crypt};
use trunkline_testkit::{
    AuthPlugin, Ecosystem, Flavour, MariaDbTree, MySqlTree, Process, Server, TempFolder, Trunkline,
    find_program, skipped,
};

use crate::{can_run, compare, servers, tree};

/// What the clients log in with, and what the servers are logged in to with.
const PASSWORD: &str = "plug-in secret";
/// The account on the servers.
const BACK: &str = "plugged";
/// How long one client may take on a busy machine.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// One connection, one question.
const SCENARIO: &str = r#"[{"name": "open", "op": "open", "conn": "a"},
{"name": "ask", "op": "query", "conn": "a", "sql": "SELECT 6 * 7"},
{"name": "close", "op": "close", "conn": "a"}]"#;

const PLUGINS: [&str; 6] = [
    "mysql_native_password",
    "caching_sha2_password",
    "sha256_password",
    "client_ed25519",
    "parsec",
    "mysql_clear_password",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Transport {
    Tcp,
    Tls,
    Unix,
}

impl Transport {
    const ALL: [Self; 3] = [Self::Tcp, Self::Tls, Self::Unix];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Unix => "Unix socket",
        }
    }
}

/// A client, by its name in the table.
#[derive(Clone, Copy, Debug)]
enum Client {
    MariaDb,
    /// A later release's, with `parsec`.
    NewerMariaDb,
    MySql,
    Driver(&'static str, Ecosystem, &'static str),
}

const CLIENTS: [Client; 9] = [
    Client::MariaDb,
    Client::NewerMariaDb,
    Client::MySql,
    Client::Driver("PyMySQL", Ecosystem::Python, "pymysql"),
    Client::Driver("go-sql-driver", Ecosystem::Go, "go"),
    Client::Driver("Node mysql2", Ecosystem::Node, "mysql2"),
    Client::Driver("Node mariadb", Ecosystem::Node, "mariadb"),
    Client::Driver("MariaDB Connector/J", Ecosystem::Java, "mariadb"),
    Client::Driver("MySQL Connector/J", Ecosystem::Java, "mysql"),
];

impl Client {
    fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "`mariadb`",
            Self::NewerMariaDb => "`mariadb` 11.8",
            Self::MySql => "`mysql`",
            Self::Driver(name, ..) => name,
        }
    }

    /// Whether its program can be told to use the plug-in and the transport.
    fn has(self, plugin: &str, transport: Transport) -> bool {
        let is_usual = transport != Transport::Unix && plugin != "mysql_clear_password";
        is_usual || !matches!(self, Self::Driver(..))
    }

    /// Why it is not there.
    fn missing(self) -> Result<Option<String>> {
        Ok(match self {
            Self::MariaDb => find_program("mariadb").is_none().then(|| "no mariadb".to_owned()),
            Self::NewerMariaDb => MariaDbTree::find().err(),
            Self::MySql => MySqlTree::find().err(),
            Self::Driver(_, ecosystem, _) => can_run(ecosystem)?.err(),
        })
    }

    /// Whether it gets an answer; what it prints otherwise.
    fn gets_in(self, way: &Way<'_>) -> Result<Result<(), String>> {
        let (command, wanted) = match self {
            Self::MariaDb | Self::NewerMariaDb => {
                let mut command = match self {
                    Self::NewerMariaDb => {
                        let tree = MariaDbTree::find().map_err(anyhow::Error::msg)?;
                        let mut command = tree.command("usr/bin/mariadb");
                        command.arg("--no-defaults");
                        command.arg(format!("--plugin-dir={}", tree.client_plugins().display()));
                        command
                    }
                    Self::MariaDb | Self::MySql | Self::Driver(..) => {
                        let mut command = Command::new(find_program("mariadb").context("mariadb")?);
                        command.arg("--no-defaults");
                        command
                    }
                };
                command.args(["--batch", "--skip-column-names"]);
                match way.transport {
                    Transport::Tcp => command.arg("--skip-ssl"),
                    Transport::Tls => command.args(["--ssl", "--skip-ssl-verify-server-cert"]),
                    Transport::Unix => &mut command,
                };
                (way.place(command), "42")
            }
            Self::MySql => {
                let tree = MySqlTree::find().map_err(anyhow::Error::msg)?;
                let mut command = tree.command("usr/bin/mysql");
                command.args(["--no-defaults", "--batch", "--skip-column-names"]);
                if way.plugin == "mysql_clear_password" {
                    command.arg("--enable-cleartext-plugin");
                }
                match way.transport {
                    Transport::Tcp => {
                        command.args(["--ssl-mode=DISABLED", "--get-server-public-key"])
                    }
                    Transport::Tls => command.arg("--ssl-mode=REQUIRED"),
                    Transport::Unix => command.args(["--get-server-public-key"]),
                };
                (way.place(command), "42")
            }
            Self::Driver(_, ecosystem, driver) => {
                let mut command = ecosystem.command(&tree());
                command.arg(driver).arg(way.scenario);
                command.env("DRIVER_HOST", "127.0.0.1");
                command.env("DRIVER_PORT", way.proxy.port().to_string());
                command.env("DRIVER_USER", way.plugin).env("DRIVER_PASSWORD", PASSWORD);
                let tls = if way.transport == Transport::Tls { "on" } else { "off" };
                command.env("DRIVER_SCHEMA", BACK).env("DRIVER_TLS", tls);
                (command, "ask")
            }
        };
        let output = way.run(command)?;
        let is_in = match self {
            Self::MariaDb | Self::NewerMariaDb | Self::MySql => {
                output.lines().any(|line| line.trim() == wanted)
            }
            Self::Driver(..) => compare::lines(&output)?
                .iter()
                .any(|line| line.step == wanted && says_42(&line.result)),
        };
        Ok(if is_in { Ok(()) } else { Err(output) })
    }
}

/// Whether a result has the answer, as each language shows it.
fn says_42(value: &Value) -> bool {
    value.get("error").is_none() && value.to_string().contains("42")
}

/// How a client comes.
struct Way<'a> {
    proxy: &'a Trunkline,
    plugin: &'static str,
    transport: Transport,
    scenario: &'a Path,
    folder: &'a Path,
}

impl Way<'_> {
    /// Where to, and as whom.
    fn place(&self, mut command: Command) -> Command {
        match self.transport {
            Transport::Tcp | Transport::Tls => {
                command.arg("--host=127.0.0.1").arg(format!("--port={}", self.proxy.port()))
            }
            Transport::Unix => command.arg(format!("--socket={}", self.proxy.socket().display())),
        };
        if self.plugin == "mysql_clear_password" {
            command.arg(format!("--default-auth={}", self.plugin));
        }
        command.arg(format!("--user={}", self.plugin)).arg(format!("--password={PASSWORD}"));
        command.args(["-e", "SELECT 6 * 7", BACK]);
        command
    }

    fn run(&self, command: Command) -> Result<String> {
        let log = self.folder.join("client.log");
        let mut process = Process::spawn("client", command, &log, Some(self.folder))?;
        process.wait(CLIENT_TIMEOUT).with_context(|| process.log_tail())?;
        Ok(process.log())
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let digit = |bits: &[u8]| {
        let value = bits.iter().fold(0, |value, bit| value * 2 + usize::from(bit - b'0'));
        char::from(DIGITS[value << (6 - bits.len())])
    };
    bits.as_bytes().chunks(6).map(digit).collect()
}

/// The password in the form that makes clients use the plug-in.
fn stored(plugin: &str) -> String {
    let salt = b"TwentyBytesOfSaltHer";
    let crypt = || sha256_crypt::stored(PASSWORD.as_bytes(), salt);
    let hash = match plugin {
        "mysql_native_password" => {
            let stage2 = native::stage2(&native::stage1(PASSWORD.as_bytes()));
            format!("*{}", stage2.map(|byte| format!("{byte:02X}")).concat())
        }
        "caching_sha2_password" => String::from_utf8_lossy(&crypt()).into_owned(),
        "sha256_password" => {
            let text = crypt();
            let (salt, digest) = text[7..].split_at(20);
            let (salt, digest) = (salt.escape_ascii(), digest.escape_ascii());
            format!("$5${salt}${digest}")
        }
        "client_ed25519" => base64(&ed25519::public_key(PASSWORD.as_bytes())),
        "parsec" => {
            let salt = *b"eighteen bytes ...";
            let derivation = parsec::Derivation { factor: 0, salt: salt.to_vec() };
            format!("P0:{}:{}", base64(&salt), base64(&derivation.public_key(PASSWORD.as_bytes())))
        }
        _ => return format!("password = \"{PASSWORD}\""),
    };
    format!("password_hash = \"{hash}\"")
}

/// The proxy with one user for each plug-in, named like it.
fn before(server: &Server) -> Result<Trunkline> {
    server.create_user(BACK, PASSWORD, AuthPlugin::ServerDefault)?;
    servers::fresh_schema(server, BACK)?;
    let mut config = format!(
        "workers = 2\n[[server]]\nhostgroup = 0\naddress = \"{}\"\nmax_connections = 10\n",
        server.address()
    );
    for plugin in PLUGINS {
        write!(
            config,
            "[[user]]\nname = \"{plugin}\"\n{}\nbackend_user = \"{BACK}\"\n\
             backend_password = \"{PASSWORD}\"\n",
            stored(plugin)
        )?;
    }
    Trunkline::start(&config)
}

fn manual() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/manual/plugins.md")
}

/// One line of the table: whether each client gets in; nothing for those that are not there.
type Row = BTreeMap<&'static str, bool>;

fn rows(server: &Server, flavour: Flavour) -> Result<Vec<(String, Row)>> {
    let proxy = before(server)?;
    let folder = TempFolder::new("plugins")?;
    let scenario = folder.path().join("scenario.json");
    std::fs::write(&scenario, SCENARIO)?;
    let mut rows = Vec::new();
    for plugin in PLUGINS {
        for transport in Transport::ALL {
            let mut row = Row::new();
            for client in CLIENTS.into_iter().filter(|client| client.has(plugin, transport)) {
                if let Some(reason) = client.missing()? {
                    skipped(&format!("plug-ins with {}", client.name()), &reason);
                    continue;
                }
                let way = Way {
                    proxy: &proxy,
                    plugin,
                    transport,
                    scenario: &scenario,
                    folder: folder.path(),
                };
                let outcome = client.gets_in(&way)?;
                if let Err(output) = &outcome {
                    eprintln!("{plugin} {} {}: {output}", transport.name(), client.name());
                }
                row.insert(client.name(), outcome.is_ok());
            }
            let server = flavour.name();
            rows.push((format!("| `{plugin}` | {} | {server} |", transport.name()), row));
        }
    }
    Ok(rows)
}

/// A line as the page has it; what is not there is taken from the page.
fn line(head: &str, row: &Row, page: &str) -> String {
    let before = page.lines().find(|line| line.starts_with(head)).unwrap_or_default();
    let cells: Vec<&str> =
        before.trim_start_matches(head).trim_end_matches('|').split('|').collect();
    let mut line = head.to_owned();
    for (at, client) in CLIENTS.iter().enumerate() {
        let cell = match row.get(client.name()) {
            Some(true) => "yes",
            Some(false) => "no",
            None => cells.get(at).map_or("", |cell| cell.trim()),
        };
        let _ = write!(line, " {cell} |");
    }
    line
}

fn check(flavour: Flavour) -> Result<()> {
    let test = format!("plug-ins on {}", flavour.name());
    let Some(server) = servers::shared(flavour, &test)? else { return Ok(()) };
    let rows = rows(server, flavour)?;
    let page = std::fs::read_to_string(manual())?;
    let lines: Vec<(String, String)> =
        rows.iter().map(|(head, row)| (head.clone(), line(head, row, &page))).collect();
    if std::env::var_os("TRUNKLINE_WRITE_MANUAL").is_some() {
        let mut written = String::new();
        for old in page.lines() {
            let new = lines.iter().find(|(head, _)| old.starts_with(head.as_str()));
            writeln!(written, "{}", new.map_or(old, |(_, line)| line))?;
        }
        std::fs::write(manual(), written)?;
        return Ok(());
    }
    for (head, line) in &lines {
        let old = page.lines().find(|old| old.starts_with(head.as_str()));
        ensure!(
            old == Some(line.as_str()),
            "docs/manual/plugins.md has {old:?}, and it is {line:?}; run with \
             TRUNKLINE_WRITE_MANUAL=1"
        );
    }
    Ok(())
}

#[test]
fn clients_get_in_as_the_manual_says_before_mariadb() -> Result<()> {
    check(Flavour::MariaDb)
}

#[test]
fn clients_get_in_as_the_manual_says_before_mysql() -> Result<()> {
    check(Flavour::MySql)
}
