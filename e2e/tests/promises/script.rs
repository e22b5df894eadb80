//! The scripts of the cases.
//!
//! | line | means |
//! |---|---|
//! | `case: NAME` | a case begins; it goes on until the next |
//! | `on: mariadb`, `on: mysql` | only there |
//! | `once:` | played once instead of twice |
//! | `open: FAMILIES` | not played there: it still differs, for the reason in the note above |
//! | `setup: SQL` | run by root in the case's schema, on every server; above all cases: for each |
//! | `A: SQL` | session A sends a text; all that it answers is compared |
//! | `A! SQL` | the same as a prepared statement: prepared, run and closed by command |
//! | `A^ SQL` | prepared by command and kept, until the session's next `A^` |
//! | `A$ NUMBERS` | what the session keeps is run by command, with these whole numbers, if any, as |
//! | | parameters; all that it answers is compared |
//! | `A? SQL` | a text, of whose answer only the kind is compared: OK, rows or error |
//! | `A~ SQL` | a text, of whose answer nothing is compared |
//! | `A> SQL` | a text is sent and its answer not waited for |
//! | `A* SQL` | the same, prepared and run by command |
//! | `A<` | that answer is read; only whether it is an error is compared |
//! | `A@ COMMAND` | `quit`, `reset`, `ping`, `flags` or `warnings` that a ping tells, `statistics`, |
//! | | `fields TABLE`, `init_db NAME`, `set_option NUMBER`, `change_user LETTER`, `fetch` of none |
//! | `root: SQL` | root on the writer, on one connection for the whole script |
//! | `wait: SQL` | root asks the writer until the first value is 1 |
//! | `sync:` | the replicas have all that the writer has, where there are any |
//! | `kill: STATE` | root kills whose statement is in this state, or else waits in `GET_LOCK` |
//! | `check: SQL` | root asks all servers behind the sessions' backs; their answers are compared |
//! | `times: SQL` | the same of a number on the writer, once nothing runs in the schema; where a |
//! | | killed statement comes varyingly far (MySQL), it is compared with 1, as its most |
//!
//! `{db}` stands for the schema, `{lock}` for a name of this playing alone, `\xNN` for a byte. A
//! line that begins with a space goes on with the line above. ` => VALUE` at the end of a line says
//! what the direct answer begins with, so that no case is about something else than it seems.
//! Sessions log in when they are first named; their letters say as whom
//! ([`super::stand::account_of`]).

use anyhow::{Context, Result, bail};
use trunkline_testkit::Flavour;

/// One script.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub only: Option<Flavour>,
    pub is_once: bool,
    /// Where it is known to differ still.
    pub open: Vec<Flavour>,
    pub setup: Vec<String>,
    pub steps: Vec<Step>,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub struct Step {
    pub line: usize,
    pub act: Act,
    pub text: String,
    /// What the direct answer must begin with.
    pub wanted: Option<String>,
}

/// Who does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Session(char, How),
    Root,
    Wait,
    Sync,
    Kill,
    Check,
    Times,
}

/// How a session says it, and what of the answer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Text,
    Prepared,
    Prepare,
    Execute,
    Kind,
    Unlooked,
    Send,
    SendPrepared,
    Receive,
    Command,
}

/// The cases of a file.
pub fn cases(text: &str) -> Result<Vec<Case>> {
    let mut common = Vec::new();
    let mut cases: Vec<Case> = Vec::new();
    for (line, text) in lines(text) {
        let read = || format!("line {line}: {text}");
        let (head, rest) = split(&text).with_context(read)?;
        match (head, cases.last_mut()) {
            ("case:", _) => cases.push(Case {
                name: rest.to_owned(),
                only: None,
                is_once: false,
                open: Vec::new(),
                setup: common.clone(),
                steps: Vec::new(),
            }),
            ("setup:", None) => common.push(rest.to_owned()),
            ("setup:", Some(case)) => case.setup.push(rest.to_owned()),
            ("on:", Some(case)) => case.only = Some(family(rest).with_context(read)?),
            ("once:", Some(case)) => case.is_once = true,
            ("open:", Some(case)) => {
                let families = rest.split_whitespace().map(family).collect::<Result<_>>();
                case.open = families.with_context(read)?;
            }
            (head, Some(case)) => case.steps.push(step(line, head, rest).with_context(read)?),
            (_, None) => bail!("before the first case: line {line}: {text}"),
        }
    }
    Ok(cases)
}

/// Lines with their numbers, joined with those that go on with them.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match joined.last_mut().filter(|_| line.starts_with(' ')) {
            Some((_, last)) => {
                last.push(' ');
                last.push_str(line.trim());
            }
            None => joined.push((index + 1, line.to_owned())),
        }
    }
    joined
}

/// The head of a line, up to its sign, and the rest.
fn split(line: &str) -> Result<(&str, &str)> {
    let end = line.find([':', '!', '^', '$', '?', '~', '>', '*', '<', '@']).context("no sign")?;
    let (head, rest) = line.split_at(end + 1);
    Ok((head, rest.trim()))
}

fn family(name: &str) -> Result<Flavour> {
    match name {
        "mariadb" => Ok(Flavour::MariaDb),
        "mysql" => Ok(Flavour::MySql),
        other => bail!("no family is called {other}"),
    }
}

fn step(line: usize, head: &str, rest: &str) -> Result<Step> {
    let act = match head {
        "root:" => Act::Root,
        "wait:" => Act::Wait,
        "sync:" => Act::Sync,
        "kill:" => Act::Kill,
        "check:" => Act::Check,
        "times:" => Act::Times,
        _ => session(head)?,
    };
    let (text, wanted) = match (rest.strip_prefix("=> "), rest.rsplit_once(" => ")) {
        (Some(wanted), _) => ("", Some(wanted.to_owned())),
        (None, Some((text, wanted))) => (text, Some(wanted.to_owned())),
        (None, None) => (rest, None),
    };
    Ok(Step { line, act, text: text.to_owned(), wanted })
}

fn session(head: &str) -> Result<Act> {
    let mut chars = head.chars();
    let (letter, sign) = (chars.next().context("no session")?, chars.next().context("no sign")?);
    let how = match sign {
        ':' => How::Text,
        '!' => How::Prepared,
        '^' => How::Prepare,
        '$' => How::Execute,
        '?' => How::Kind,
        '~' => How::Unlooked,
        '>' => How::Send,
        '*' => How::SendPrepared,
        '<' => How::Receive,
        _ => How::Command,
    };
    if !letter.is_ascii_uppercase() || chars.next().is_some() {
        bail!("{head} is neither a word of scripts nor a session");
    }
    Ok(Act::Session(letter, how))
}

/// The bytes of a statement: `\xNN` is a byte, everything else stands for itself.
pub fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\x") {
        let number = rest.get(at + 2..at + 4).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let (before, behind) = rest.split_at(at);
        bytes.extend_from_slice(before.as_bytes());
        match number {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(4..).unwrap_or_default();
            }
            None => {
                bytes.extend_from_slice(b"\\x");
                rest = behind.get(2..).unwrap_or_default();
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[test]
fn a_script_is_read_line_by_line() -> Result<()> {
    let text = "setup: CREATE TABLE t (a INT)\n# a note\ncase: one\non: mysql\nA: SELECT 1,\n  2\n\
                B< \ncheck: SELECT ':' => :\n";
    let cases = cases(text)?;
    let case = cases.first().context("no case")?;
    assert_eq!((case.name.as_str(), case.only, case.setup.len()), ("one", Some(Flavour::MySql), 1));
    let acts: Vec<Act> = case.steps.iter().map(|step| step.act).collect();
    let first = Act::Session('A', How::Text);
    assert_eq!(acts, [first, Act::Session('B', How::Receive), Act::Check]);
    assert_eq!(case.steps[0].text, "SELECT 1, 2");
    assert_eq!(case.steps[2].wanted.as_deref(), Some(":"));
    assert_eq!(bytes("a\\xFFb\\x"), b"a\xFFb\\x");
    Ok(())
}
