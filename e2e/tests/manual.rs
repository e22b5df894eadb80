//! The manual's table of commands and session state: what it says is what these tests run.

mod statements;

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Server, Trunkline};

use crate::sessions::SETTINGS;
use crate::stage::{
    FLAVOURS, PASSWORD, USER, before, is_available, new_schema, shared_server, wait_pins,
};
use crate::ties::TIES;
use crate::wire::{MODERN, Outcome, Shape, Wire, code, login};

/// What becomes of a command or statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Answered as directly, and the session is free afterwards.
    Works,
    /// Answered as directly, and the session is held for this reason.
    Pins(&'static str),
    /// This error, and why.
    Refused(u16, &'static str),
    /// This flavour has nothing of the kind.
    Absent,
}

use Fate::{Absent, Pins, Refused, Works};
use statements::{ELSEWHERE, STATEMENTS};

/// A command and what becomes of it.
struct Command {
    name: &'static str,
    code: u8,
    body: &'static [u8],
    shape: Shape,
    /// On MariaDB and on MySQL.
    fates: [Fate; 2],
}

const fn command(
    name: &'static str,
    code: u8,
    body: &'static [u8],
    shape: Shape,
    fates: [Fate; 2],
) -> Command {
    Command { name, code, body, shape, fates }
}

/// The server's own answer.
const GONE: Fate = Refused(1047, "servers have dropped it");
const NOT_FOR_CLIENTS: Fate = Refused(1047, "it acts on the whole server");
const NO_STATEMENT: Fate = Refused(1243, "no such statement, as directly");

/// Statements are prepared and run before the table is: 1 reads, and 2 reads with a cursor.
const COMMANDS: [Command; 26] = [
    command("COM_QUERY", code::QUERY, b"SELECT 1", Shape::Results, [Works, Works]),
    command("COM_INIT_DB", code::INIT_DB, b"mysql", Shape::Single, [Works, Works]),
    command("COM_FIELD_LIST", code::FIELD_LIST, b"t\0%", Shape::UntilEof, [Works, Works]),
    command("COM_STATISTICS", code::STATISTICS, b"", Shape::Single, [Works, Works]),
    command("COM_PING", code::PING, b"", Shape::Single, [Works, Works]),
    command("COM_RESET_CONNECTION", code::RESET_CONNECTION, b"", Shape::Single, [Works, Works]),
    command("COM_SET_OPTION", code::SET_OPTION, &[0, 0], Shape::Single, [Works, Works]),
    command(
        "COM_PROCESS_INFO",
        0x0A,
        b"",
        Shape::Results,
        [Works, Refused(1047, "MySQL has dropped it")],
    ),
    command(
        "COM_PROCESS_KILL",
        code::PROCESS_KILL,
        &[0xFF, 0xFF, 0xFF, 0x7F],
        Shape::Single,
        [Refused(1094, "no such session"), Refused(1094, "no such session")],
    ),
    command("COM_STMT_PREPARE", code::STMT_PREPARE, b"SELECT ?", Shape::Prepare, [Works, Works]),
    command("COM_STMT_EXECUTE", code::STMT_EXECUTE, EXECUTE, Shape::Results, [Works, Works]),
    command(
        "COM_STMT_EXECUTE, with a cursor",
        code::STMT_EXECUTE,
        CURSOR,
        Shape::Results,
        [Pins("cursor"), Pins("cursor")],
    ),
    command("COM_STMT_FETCH", code::STMT_FETCH, FETCH, Shape::UntilEof, [Works, Works]),
    command("COM_STMT_RESET", code::STMT_RESET, &[2, 0, 0, 0], Shape::Single, [Works, Works]),
    command(
        "COM_STMT_RESET, of no statement",
        code::STMT_RESET,
        &[9, 0, 0, 0],
        Shape::Single,
        [NO_STATEMENT, NO_STATEMENT],
    ),
    command(
        "COM_STMT_SEND_LONG_DATA",
        code::STMT_SEND_LONG_DATA,
        &[1, 0, 0, 0, 0, 0, b'x'],
        Shape::Nothing,
        [Works, Works],
    ),
    command("COM_STMT_CLOSE", code::STMT_CLOSE, &[1, 0, 0, 0], Shape::Nothing, [Works, Works]),
    command(
        "COM_STMT_BULK_EXECUTE",
        code::STMT_BULK_EXECUTE,
        &[1, 0, 0, 0, 0, 0],
        Shape::Results,
        [
            Refused(1295, "not agreed on by this client, as directly"),
            Refused(1295, "MySQL has none"),
        ],
    ),
    command("COM_CREATE_DB", 0x05, b"x", Shape::Single, [GONE, GONE]),
    command("COM_DROP_DB", 0x06, b"x", Shape::Single, [GONE, GONE]),
    command("COM_REFRESH", 0x07, &[1], Shape::Single, [NOT_FOR_CLIENTS, NOT_FOR_CLIENTS]),
    command("COM_SHUTDOWN", 0x08, b"", Shape::Single, [NOT_FOR_CLIENTS, NOT_FOR_CLIENTS]),
    command("COM_DEBUG", 0x0D, b"", Shape::Single, [NOT_FOR_CLIENTS, NOT_FOR_CLIENTS]),
    command("COM_TABLE_DUMP", 0x13, b"x", Shape::Single, [GONE, GONE]),
    command("COM_SLEEP, COM_CONNECT and others of servers", 0x00, b"", Shape::Single, [GONE, GONE]),
    command("a code that nobody knows", 0x63, b"x", Shape::Single, [GONE, GONE]),
];

const EXECUTE: &[u8] = b"\x01\0\0\0\0\x01\0\0\0\0\x01\x08\0\x01\0\0\0\0\0\0\0";
const CURSOR: &[u8] = b"\x02\0\0\0\x01\x01\0\0\0";
const FETCH: &[u8] = b"\x02\0\0\0\x09\0\0\0";

impl Fate {
    /// As the manual says it.
    fn shown(self) -> String {
        match self {
            Works => "works".to_owned(),
            Pins(reason) => format!("pins (`{reason}`)"),
            Refused(code, why) => format!("refused ({code}: {why})"),
            Absent => "–".to_owned(),
        }
    }
}

fn run_on(server: &Server, flavour: Flavour) -> Result<()> {
    let schema = new_schema(server, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")?;
    let proxy = before(server, 1, 2)?;
    let place = FLAVOURS.iter().position(|one| *one == flavour).context("a flavour")?;
    for command in &COMMANDS {
        run_one(&proxy, &schema, command, command.fates[place])
            .with_context(|| command.name.to_owned())?;
    }
    Ok(())
}

fn run_one(proxy: &Trunkline, schema: &str, command: &Command, fate: Fate) -> Result<()> {
    let mut client = Wire::login_with(proxy, login(USER, PASSWORD, schema, MODERN))?;
    for text in ["SELECT ?", "SELECT a FROM t"] {
        client.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
    }
    if matches!(command.code, code::STMT_FETCH | code::STMT_RESET) {
        client.exchange(code::STMT_EXECUTE, CURSOR, Shape::Results)?;
    }
    // An error takes the place of any answer.
    let shape = if matches!(fate, Refused(..)) { Shape::Single } else { command.shape };
    let reply = client.exchange(command.code, command.body, shape)?;
    let error = match reply.get(4) {
        Some(0xFF) => client.outcomes(&reply)?.pop().and_then(|one| one.error().cloned()),
        Some(_) | None => None,
    };
    let expected = if let Refused(code, _) = fate { Some(code) } else { None };
    ensure!(error.as_ref().map(|error| error.code) == expected, "{error:?}");
    let is_held = if let Pins(reason) = fate { Some(reason) } else { None };
    if command.code != code::STMT_RESET || expected.is_none() {
        wait_pins(proxy, is_held.as_slice())?;
    }
    // The session goes on.
    let one = client.one("SELECT 5")?;
    ensure!(matches!(one, Outcome::Rows { .. }), "{one:?}");
    Ok(())
}

#[test]
fn each_command_fares_as_the_manual_says() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "each_command_fares_as_the_manual_says") {
            run_on(shared_server(flavour)?, flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn each_statement_fares_as_the_manual_says() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "each_statement_fares_as_the_manual_says") {
            statements::run_on(shared_server(flavour)?, flavour)
                .with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn the_tests_that_the_manual_names_are_there() -> Result<()> {
    for (what, _, file, test) in &ELSEWHERE {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("{what}: {file}"))?;
        ensure!(text.contains(&format!("fn {test}()")), "{what}: no test {test} in {file}");
    }
    Ok(())
}

/// The page, from the tables that the tests run.
fn page() -> Result<String> {
    let mut page = String::from(
        "# Commands and session state, on each family of servers\n\n\
         <!-- Written by e2e/tests/manual.rs (TRUNKLINE_UPDATE=1); do not edit. -->\n\n\
         Each row is run by the end-to-end tests against MariaDB 10.11 and MySQL 9.7: *works* is \
         an answer without an error,\nwith the session free to use any connection afterwards; *pins* \
         holds it on its connection for that reason; *refused*\nis an error, and the session goes \
         on. [limits.md](limits.md) says what differs in detail.\n\n\
         ## Commands\n\n| command | MariaDB 10.11 | MySQL 9.7 |\n|---|---|---|\n",
    );
    for command in &COMMANDS {
        let [mariadb, mysql] = command.fates.map(Fate::shown);
        writeln!(page, "| {} | {mariadb} | {mysql} |", command.name)?;
    }
    page.push_str(
        "\n## Statements\n\n\
         What a session asks about itself and its past is as directly, though another session has \
         used the server connections since; what a warning holds is free a second later.\n\n\
         | behind | statement | MariaDB 10.11 | MySQL 9.7 |\n|---|---|---|---|\n",
    );
    for statement in &STATEMENTS {
        let begin: Vec<_> = statement.begin.iter().map(|text| format!("`{text}`")).collect();
        let [mariadb, mysql] = statement.fates.map(Fate::shown);
        writeln!(page, "| {} | `{}` | {mariadb} | {mysql} |", begin.join("; "), statement.text)?;
    }
    page.push_str(
        "\n## What has tests of its own\n\n\
         | what | MariaDB 10.11 | MySQL 9.7 | test in `e2e/tests` |\n|---|---|---|---|\n",
    );
    for (what, without, file, test) in &ELSEWHERE {
        let [mariadb, mysql] = FLAVOURS.map(|flavour| match *without == Some(flavour) {
            true => Absent.shown(),
            false => Works.shown(),
        });
        writeln!(page, "| {what} | {mariadb} | {mysql} | `{file}`: `{test}` |")?;
    }
    page.push_str(
        "\n## What holds a session\n\n\
         | behind these statements | MariaDB 10.11 | MySQL 9.7 | until |\n|---|---|---|---|\n",
    );
    for tie in &TIES {
        let statements: Vec<_> = tie.begin.iter().map(|text| format!("`{text}`")).collect();
        let reasons: Vec<_> = tie.reasons.iter().map(|reason| format!("`{reason}`")).collect();
        let pins = format!("pins ({})", reasons.join(", "));
        let [mariadb, mysql] = FLAVOURS.map(|flavour| match tie.only {
            Some(only) if only != flavour => "–",
            Some(_) | None => &pins,
        });
        let until = match tie.end {
            "" => "the session's end or reset".to_owned(),
            end => format!("`{end}`"),
        };
        writeln!(page, "| {} | {mariadb} | {mysql} | {until} |", statements.join("; "))?;
    }
    page.push_str(
        "\n## What follows its session\n\n\
         What a server refuses of it is refused in the same words.\n\n\
         | statements | MariaDB 10.11 | MySQL 9.7 |\n|---|---|---|\n",
    );
    for statements in &SETTINGS {
        let statements: Vec<_> = statements.iter().map(|text| format!("`{text}`")).collect();
        writeln!(page, "| {} | works | works |", statements.join("; "))?;
    }
    page.push('\n');
    page.push_str(include_str!("manual/proven.md"));
    Ok(page)
}

#[test]
fn the_manuals_table_is_what_the_tests_run() -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/manual/sessions.md");
    let page = page()?;
    if std::env::var_os("TRUNKLINE_UPDATE").is_some() {
        std::fs::write(&path, &page)?;
    }
    let known = std::fs::read_to_string(&path).context("docs/manual/sessions.md")?;
    ensure!(known == page, "docs/manual/sessions.md is out of date (TRUNKLINE_UPDATE=1 writes it)");
    Ok(())
}
