//! Plays scripts on direct connections and through the proxy, and compares.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::packet::{ok, status};
use trunkline_testkit::{
    Flavour, Server, SqlClient, Trunkline, mariadb_available, mysql_available, skipped, wait_until,
};

use super::script::{Act, Case, How, Step, bytes, cases};
use super::stand::{Kind, PASSWORD, SOON, Scene, Servers, account_of, schema_name};
use crate::wire::{Endpoint, Outcome, Refused, Shape, Wire, code};

/// What ends a statement together with its connection: directly in one way, through the proxy in
/// another.
const ENDED: [u16; 4] = [1317, 1927, 2006, 2013];

/// Plays all cases of a file on both families; the error lists those that were answered
/// differently.
pub fn holds(scene: Scene, text: &str) -> Result<()> {
    let mut report = String::new();
    for flavour in [Flavour::MariaDb, Flavour::MySql] {
        let found = match flavour {
            Flavour::MariaDb => mariadb_available(),
            Flavour::MySql => mysql_available(),
        };
        if let Err(reason) = found {
            skipped("promises", &reason);
            continue;
        }
        play_all(flavour, &scene, text, &mut report)?;
    }
    ensure!(report.is_empty(), "{report}");
    Ok(())
}

fn play_all(flavour: Flavour, scene: &Scene, text: &str, report: &mut String) -> Result<()> {
    let cases = cases(text)?;
    let is_here = |case: &&Case| {
        case.only.is_none_or(|only| only == flavour) && !case.open.contains(&flavour)
    };
    if !cases.iter().any(|case| is_here(&case)) {
        return Ok(());
    }
    let own;
    let servers = match scene.servers {
        Kind::Shared => Servers::shared(flavour)?,
        Kind::Own(_) | Kind::Replicated => {
            own = Servers::of_one(flavour, scene)?;
            &own
        }
    };
    let began = Instant::now();
    let mut proxy = None;
    let (mut played, mut differ) = (0, 0);
    for case in cases.iter().filter(is_here) {
        let through = match proxy.take() {
            Some(proxy) => proxy,
            None => servers.proxy(scene)?,
        };
        played += 1;
        match play(servers, scene, &through, case) {
            Ok(()) => {
                println!("{}: {}: as directly", flavour.name(), case.name);
                proxy = Some(through);
            }
            // What it left would be in the way of the next case.
            Err(error) => {
                println!("{}: {}: DIFFERS", flavour.name(), case.name);
                differ += 1;
                writeln!(report, "\n{}: case \"{}\": {error:#}", flavour.name(), case.name)?;
            }
        }
    }
    let took = began.elapsed().as_millis();
    println!("{}: {differ} of {played} cases differ, {took} ms", flavour.name());
    Ok(())
}

/// Makes the schemas of a case and plays it.
fn play(servers: &Servers, scene: &Scene, proxy: &Trunkline, case: &Case) -> Result<()> {
    let name = schema_name();
    let [direct, proxied] = ["d", "p"].map(|side| format!("{name}{side}"));
    for server in servers.to_prepare(scene) {
        for schema in [&direct, &proxied] {
            prepare(server, schema, case).with_context(|| format!("setup of {}", case.name))?;
        }
    }
    servers.wait_caught_up()?;
    let rounds = if case.is_once { 1 } else { 2 };
    // The schemas stay: they go away with their servers.
    (1..=rounds).try_for_each(|round| {
        let direct = Side::new(servers, scene, servers.writer()?.into(), &direct, round);
        let proxied = Side::new(servers, scene, proxy.into(), &proxied, round);
        compare(case, direct, proxied).with_context(|| format!("round {round}"))
    })
}

fn prepare(server: &Server, schema: &str, case: &Case) -> Result<()> {
    let mut root = server.root()?;
    root.sql(&format!("CREATE DATABASE {schema}; USE {schema}"))?;
    for statements in &case.setup {
        root.sql(&statements.replace("{db}", schema))?;
    }
    Ok(())
}

fn compare(case: &Case, mut direct: Side<'_>, mut proxied: Side<'_>) -> Result<()> {
    let mut expected = Vec::new();
    for step in &case.steps {
        let answer = direct.step(step).with_context(|| format!("directly, {}", shown(step)))?;
        if let Some(wanted) = &step.wanted {
            ensure!(answer.starts_with(wanted), "{}: directly {answer}", shown(step));
        }
        expected.push(answer);
    }
    drop(direct);
    let mut transcript = String::new();
    for (step, expected) in case.steps.iter().zip(&expected) {
        let answer = proxied.step(step).unwrap_or_else(|error| format!("{error:#}"));
        if &answer != expected {
            proxied.undo(case, step.line);
            bail!(
                "{transcript}\n  {}\n    directly: {expected}\n    got:      {answer}",
                shown(step)
            );
        }
        write!(transcript, "\n  {}\n    {answer}", shown(step))?;
    }
    Ok(())
}

fn shown(step: &Step) -> String {
    match step.act {
        Act::Session(letter, how) => format!("line {}: {letter} {how:?} {}", step.line, step.text),
        Act::Root | Act::Wait | Act::Sync | Act::Kill | Act::Check | Act::Times => {
            format!("line {}: {:?} {}", step.line, step.act, step.text)
        }
    }
}

/// The sessions of one side of the comparison.
struct Side<'a> {
    servers: &'a Servers,
    scene: &'a Scene,
    endpoint: Endpoint,
    schema: &'a str,
    round: u32,
    sessions: BTreeMap<char, Wire>,
    /// What sessions keep prepared.
    kept: BTreeMap<char, Vec<u8>>,
    roots: Vec<SqlClient>,
}

impl<'a> Side<'a> {
    fn new(
        servers: &'a Servers,
        scene: &'a Scene,
        endpoint: Endpoint,
        schema: &'a str,
        round: u32,
    ) -> Side<'a> {
        let (sessions, kept, roots) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Side { servers, scene, endpoint, schema, round, sessions, kept, roots }
    }

    fn scene_servers(&self) -> &'a [Arc<Server>] {
        self.servers.of(self.scene)
    }

    /// Does what a line says; what counts of the answer, as text.
    fn step(&mut self, step: &Step) -> Result<String> {
        let lock = format!("{}lock{}", self.schema, self.round);
        let text = step.text.replace("{lock}", &lock).replace("{db}", self.schema);
        let answer = match step.act {
            Act::Session(letter, how) => self.session(letter, how, &text)?,
            Act::Root => {
                self.root(0)?.sql(&text)?;
                String::new()
            }
            Act::Wait => {
                wait_until(&text, SOON, || {
                    Ok((self.root(0)?.value(&text)? == one()).then_some(()))
                })?;
                String::new()
            }
            Act::Sync => {
                self.servers.wait_caught_up()?;
                String::new()
            }
            Act::Kill => {
                self.kill(if text.is_empty() { "User lock%" } else { &text })?;
                String::new()
            }
            Act::Check => {
                self.servers.wait_caught_up()?;
                let count = self.scene_servers().len();
                let answers = (0..count).map(|index| self.root(index)?.sql(&text));
                format!("{:?}", answers.collect::<Result<Vec<_>>>()?)
            }
            Act::Times => self.times(&text)?,
        };
        Ok(answer.replace(&lock, "{lock}").replace(self.schema, "{db}"))
    }

    /// Takes back what a script that ended early has set for all, as its last lines would.
    fn undo(&mut self, case: &Case, line: usize) {
        let rest = case.steps.iter().filter(|step| step.line > line);
        for step in rest.filter(|step| step.text.starts_with("SET GLOBAL")) {
            self.step(step).ok();
        }
    }

    /// Root's connection to a server.
    fn root(&mut self, index: usize) -> Result<&mut SqlClient> {
        while self.roots.len() <= index {
            let server = self.scene_servers().get(self.roots.len()).context("no such server")?;
            let mut root = server.root()?;
            root.sql(&format!("USE {}", self.schema))?;
            self.roots.push(root);
        }
        self.roots.get_mut(index).context("no connection of root")
    }

    /// Kills the connection of what runs in the schema, once it is in such a state.
    fn kill(&mut self, state: &str) -> Result<()> {
        let running = format!(
            "SELECT id FROM information_schema.processlist WHERE db = '{}' AND command IN \
             ('Query', 'Execute') AND state LIKE '{state}'",
            self.schema
        );
        let root = self.root(0)?;
        let id = wait_until("a statement runs", SOON, || {
            let rows = root.sql(&running)?;
            Ok(rows.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
        })?;
        root.sql(&format!("KILL {id}"))?;
        Ok(())
    }

    /// How often something happened, when no statement is left that may do it.
    fn times(&mut self, text: &str) -> Result<String> {
        let running = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}' AND command IN \
             ('Query', 'Execute') AND id <> CONNECTION_ID()",
            self.schema
        );
        let root = self.root(0)?;
        wait_until("nothing runs", SOON, || {
            Ok((root.value(&running)?.as_deref() == Some("0")).then_some(()))
        })?;
        let times: u64 = root.value(text)?.context("no number")?.parse()?;
        Ok(match self.servers.writer()?.flavour() {
            Flavour::MariaDb => times.to_string(),
            Flavour::MySql if times <= 1 => "once at most".to_owned(),
            Flavour::MySql => format!("{times} times"),
        })
    }

    fn session(&mut self, letter: char, how: How, text: &str) -> Result<String> {
        if how == How::Command && text == "quit" {
            if let Some(mut wire) = self.sessions.remove(&letter) {
                wire.send(code::QUIT, b"").ok();
            }
            return Ok(String::new());
        }
        let schema = self.schema.to_owned();
        let wire = match self.sessions.entry(letter) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let own = if matches!(letter, 'M' | 'N') { "" } else { &schema };
                let user = account_of(letter);
                let wire = Wire::login(self.endpoint.clone(), user, PASSWORD, own)
                    .with_context(|| format!("{letter} logs in"))?;
                wire.set_read_timeout(SOON)?;
                entry.insert(wire)
            }
        };
        Ok(match how {
            How::Text => all(&query(wire, text), Form::Text),
            How::Prepared => all(&prepared(wire, text), Form::Binary),
            How::Prepare => {
                let made = wire.exchange(code::STMT_PREPARE, &bytes(text), Shape::Prepare)?;
                let Some([0, id @ ..]) = made.get(4..9) else {
                    return Ok(all(&wire.outcomes(&made)?, Form::Binary));
                };
                self.kept.insert(letter, id.to_vec());
                String::new()
            }
            How::Execute => {
                let id = self.kept.get(&letter).context("nothing is kept")?;
                let body = execution_of(id, text)?;
                let answer = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
                all(&wire.outcomes(&answer)?, Form::Binary)
            }
            How::Kind => kind(&query(wire, text)),
            How::Unlooked => {
                query(wire, text);
                String::new()
            }
            How::Send => {
                wire.send(code::QUERY, &bytes(text))?;
                String::new()
            }
            How::SendPrepared => {
                send_prepared(wire, text)?;
                String::new()
            }
            How::Receive => match kind(&receive(wire)) {
                answer if answer.contains("error") => "error".to_owned(),
                _ => "success".to_owned(),
            },
            How::Command => command(wire, text, &schema)?,
        })
    }
}

impl Drop for Side<'_> {
    fn drop(&mut self) {
        for wire in self.sessions.values_mut() {
            wire.send(code::QUIT, b"").ok();
        }
    }
}

fn one() -> Option<String> {
    Some("1".to_owned())
}

fn query(wire: &mut Wire, text: &str) -> Vec<Outcome> {
    match wire.send(code::QUERY, &bytes(text)) {
        Ok(()) => receive(wire),
        Err(_) => vec![lost()],
    }
}

fn receive(wire: &mut Wire) -> Vec<Outcome> {
    let outcomes = wire.reply_bytes(Shape::Results).and_then(|bytes| wire.outcomes(&bytes));
    outcomes.unwrap_or_else(|_| vec![lost()])
}

/// The server's own error for a connection that ends.
fn lost() -> Outcome {
    let (sqlstate, text) = ("HY000".to_owned(), "the connection was closed".to_owned());
    Outcome::Error(crate::wire::ErrorPacket { code: 2013, sqlstate, text })
}

/// Prepares by command, runs and closes.
fn prepared(wire: &mut Wire, text: &str) -> Vec<Outcome> {
    let run = |wire: &mut Wire| -> Result<Vec<Outcome>> {
        let made = wire.exchange(code::STMT_PREPARE, &bytes(text), Shape::Prepare)?;
        let Some([0, id @ ..]) = made.get(4..9) else {
            return wire.outcomes(&made);
        };
        let answer = wire.exchange(code::STMT_EXECUTE, &execution(id), Shape::Results)?;
        wire.send(code::STMT_CLOSE, id)?;
        wire.outcomes(&answer)
    };
    run(wire).unwrap_or_else(|_| vec![lost()])
}

/// Prepares by command and has it run; the answer is read later.
fn send_prepared(wire: &mut Wire, text: &str) -> Result<()> {
    let made = wire.exchange(code::STMT_PREPARE, &bytes(text), Shape::Prepare)?;
    match made.get(4..9) {
        Some([0, id @ ..]) => wire.send(code::STMT_EXECUTE, &execution(id)),
        _ => bail!("not prepared: {:?}", wire.outcomes(&made)?),
    }
}

/// The body of a COM_STMT_EXECUTE without parameters.
fn execution(id: &[u8]) -> Vec<u8> {
    let mut body = id.to_vec();
    body.extend_from_slice(&[0, 1, 0, 0, 0]);
    body
}

/// The body of a COM_STMT_EXECUTE with these numbers, at most eight, as parameters.
fn execution_of(id: &[u8], numbers: &str) -> Result<Vec<u8>> {
    let numbers = numbers.split_whitespace().map(str::parse).collect::<Result<Vec<i64>, _>>()?;
    let mut body = execution(id);
    if !numbers.is_empty() {
        // None is NULL, and their types are here: BIGINT.
        body.extend_from_slice(&[0, 1]);
        body.extend(numbers.iter().flat_map(|_| [8, 0]));
        body.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
    Ok(body)
}

fn command(wire: &mut Wire, text: &str, schema: &str) -> Result<String> {
    let (name, argument) = text.split_once(' ').unwrap_or((text, ""));
    let outcome = match name {
        "ping" => wire.single(code::PING, b""),
        "reset" => wire.single(code::RESET_CONNECTION, b""),
        "flags" => return flags(wire),
        "warnings" => {
            return Ok(match wire.single(code::PING, b"")? {
                Outcome::Ok { warnings, .. } => format!("{warnings} warnings"),
                other => format!("{other:?}"),
            });
        }
        "statistics" => {
            wire.exchange(code::STATISTICS, b"", Shape::Single)?;
            return Ok("told".to_owned());
        }
        "fetch" => {
            let body = [&u32::MAX.to_le_bytes()[..], &1_u32.to_le_bytes()].concat();
            return Ok(all(&[wire.single(code::STMT_FETCH, &body)?], Form::Text));
        }
        "set_option" => {
            let option: u16 = argument.parse()?;
            wire.exchange(code::SET_OPTION, &option.to_le_bytes(), Shape::Single)?;
            return Ok("set".to_owned());
        }
        "fields" => {
            let body = [argument.as_bytes(), b"\0"].concat();
            wire.exchange(code::FIELD_LIST, &body, Shape::UntilEof)?;
            return Ok("described".to_owned());
        }
        "init_db" => wire.single(code::INIT_DB, argument.as_bytes()),
        "change_user" => {
            let (letter, password) = argument.split_once(' ').unwrap_or((argument, PASSWORD));
            let user = account_of(letter.chars().next().context("change_user to nobody")?);
            match wire.change_user(user, password, schema) {
                Ok(()) => return Ok("changed".to_owned()),
                Err(error) => Ok(Outcome::Error(error.downcast::<Refused>()?.0)),
            }
        }
        other => bail!("no command is called {other}"),
    };
    let outcome = outcome.unwrap_or_else(|_| lost());
    Ok(one_of(&outcome, Form::Text))
}

/// What the login and an OK packet now say of transactions.
fn flags(wire: &mut Wire) -> Result<String> {
    let shown = |flags: u16| flags & (status::IN_TRANS | status::AUTOCOMMIT);
    let login = ok::parse(&wire.ok, wire.capabilities.contains(Capabilities::SESSION_TRACK))?;
    let login = shown(login.status);
    Ok(format!("{login} at the login, {} now", shown(wire.single(code::PING, b"")?.status())))
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Binary,
}

/// All that is compared of an answer: rows, what an OK packet counts, an error's number.
fn all(outcomes: &[Outcome], form: Form) -> String {
    let parts: Vec<String> = outcomes.iter().map(|outcome| one_of(outcome, form)).collect();
    parts.join("; ")
}

fn one_of(outcome: &Outcome, form: Form) -> String {
    match outcome {
        Outcome::Ok { affected, insert_id, info, .. } => {
            format!("ok, {affected} rows, id {insert_id} {info}").trim_end().to_owned()
        }
        Outcome::Error(error) if ENDED.contains(&error.code) => "error: ended".to_owned(),
        Outcome::Error(error) => format!("error {} ({})", error.code, error.sqlstate),
        Outcome::Rows { rows, .. } if rows.is_empty() => "{}".to_owned(),
        Outcome::Rows { rows, .. } if form == Form::Binary => {
            let rows: Vec<String> = rows.iter().map(|row| row.escape_ascii().to_string()).collect();
            format!("rows {rows:?}")
        }
        Outcome::Rows { .. } => {
            let value = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
            let row = |row: Vec<Option<String>>| {
                row.into_iter().map(value).collect::<Vec<_>>().join(", ")
            };
            let rows: Vec<String> = outcome.text_rows().into_iter().map(row).collect();
            format!("{{{}}}", rows.join(" | "))
        }
    }
}

fn kind(outcomes: &[Outcome]) -> String {
    let kind = |outcome: &Outcome| match outcome {
        Outcome::Ok { .. } => "ok",
        Outcome::Rows { .. } => "rows",
        Outcome::Error(_) => "error",
    };
    outcomes.iter().map(kind).collect::<Vec<_>>().join("; ")
}
