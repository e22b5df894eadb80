//! Asking one server about each name.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use trunkline_testkit::{SqlClient, error_code};

/// Names that no server need know of: those of other versions, loadable functions, and what has
/// been in the table before.
const CANDIDATES: &str = include_str!("candidates.txt");
/// The schema that the stored functions are made in.
const SCHEMA: &str = "trunkline_functions";
/// What is tried between the parentheses. A stored function without parameters runs with the first
/// and refuses the others, a function of the server's own may take any of them.
const ARGUMENTS: [&str; 6] = ["", "1", "'a'", "1, 2", "1, 2, 3", "*"];

/// Enough to tell whether a stored function is called: it runs with the first.
const FEW: &[&str] = &["", "1"];

/// Errors: what a text that is no SQL gives.
const SYNTAX: u16 = 1064;
/// There is no such function.
const MISSING: u16 = 1305;
/// As [`MISSING`], said of what would be native without the space before its parenthesis.
const MISSING_SPACED: u16 = 1630;
/// No schema is chosen in which a stored function could be.
const NO_SCHEMA: u16 = 1046;
/// A stored function, called with too many arguments.
const STORED_ARGUMENTS: u16 = 1318;

/// Whose server it is, and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    pub(super) is_mariadb: bool,
    pub(super) major: u8,
    pub(super) minor: u8,
}

/// What a server says of all names.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) version: Version,
    pub(super) by_name: BTreeMap<String, Answer>,
}

/// What a server says of one name. Where something is true, no stored function can be called so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Answer {
    /// `name(` calls something of the server's own.
    pub(super) is_function: bool,
    /// `name(`.
    pub(super) adjacent: bool,
    /// `name (`.
    pub(super) spaced: bool,
    /// `name (` with IGNORE_SPACE.
    pub(super) ignoring_space: bool,
    /// `name(` in MariaDB's sql_mode ORACLE.
    pub(super) oracle: bool,
    /// `` `name`( ``.
    pub(super) quoted: bool,
    /// All this holds with arguments only: `name()` calls a stored function.
    pub(super) is_bare_stored: bool,
    /// `schema.name(`, with and without spaces around the dot.
    pub(super) qualified: bool,
}

/// What was called with some arguments.
#[derive(Debug, Clone, Copy, Default)]
struct Called {
    /// The stored function, without arguments.
    stored_bare: bool,
    /// The stored function, though it has no parameters.
    stored: bool,
    /// Something of the server's own.
    native: bool,
}

/// All names worth asking about: what these servers list, and [`CANDIDATES`].
pub(super) fn candidates(clients: &mut [&mut SqlClient]) -> Result<BTreeSet<String>> {
    let mut names: BTreeSet<String> = CANDIDATES.split_whitespace().map(str::to_owned).collect();
    for client in clients {
        for question in [
            "SELECT name FROM mysql.help_topic",
            "SELECT name FROM mysql.help_keyword",
            "SELECT WORD FROM information_schema.KEYWORDS",
            "SELECT `FUNCTION` FROM information_schema.SQL_FUNCTIONS",
        ] {
            // MySQL has no table of functions, and an account may not see the help.
            let Ok(rows) = client.sql(question) else { continue };
            for name in rows.into_iter().flatten().flatten() {
                let first = name.split([' ', '(']).next().unwrap_or_default();
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let begins = first.starts_with(|c: char| c.is_ascii_alphabetic());
                if begins && first.chars().all(is_name) {
                    names.insert(first.to_ascii_uppercase());
                }
            }
        }
    }
    Ok(names)
}

/// Asks about all names.
pub(super) fn ask(client: &mut SqlClient, names: &BTreeSet<String>) -> Result<Answers> {
    let version = version(client)?;
    println!("asking {version:?}");
    client.sql(&format!("DROP DATABASE IF EXISTS {SCHEMA}"))?;
    client.sql("SET SESSION sql_mode = ''")?;
    let mut by_name = BTreeMap::new();
    let without_schema: Vec<bool> =
        names.iter().map(|name| is_known_without_schema(client, name)).collect();
    client.sql(&format!("CREATE DATABASE {SCHEMA}"))?;
    client.sql(&format!("USE {SCHEMA}"))?;
    for (name, is_known) in names.iter().zip(without_schema) {
        let answer = ask_one(client, name, version.is_mariadb)
            .with_context(|| format!("asking about {name}"))?;
        if answer.adjacent && answer.is_function && !is_known && !answer.is_bare_stored {
            println!("{name}: is not known without a schema, and cannot be a stored function");
        }
        if answer.qualified {
            println!("{name}: no stored function with its schema before it");
        }
        by_name.insert(name.clone(), answer);
    }
    client.sql(&format!("DROP DATABASE {SCHEMA}"))?;
    Ok(Answers { version, by_name })
}

fn version(client: &mut SqlClient) -> Result<Version> {
    let text = client.value("SELECT VERSION()")?.context("no version")?;
    let mut numbers = text.split('.').map(str::parse);
    let mut number = || numbers.next().and_then(Result::ok).context("a version's number");
    let (major, minor) = (number()?, number()?);
    Ok(Version { is_mariadb: text.contains("MariaDB"), major, minor })
}

/// Whether `name(` means something where no schema is chosen that could hold a stored function.
fn is_known_without_schema(client: &mut SqlClient, name: &str) -> bool {
    ARGUMENTS.iter().all(|arguments| {
        let outcome = client.sql(&format!("SELECT {name}({arguments})"));
        let code = outcome.err().and_then(|error| error_code(&error));
        !matches!(code, Some(MISSING | MISSING_SPACED | NO_SCHEMA))
    })
}

fn ask_one(client: &mut SqlClient, name: &str, is_mariadb: bool) -> Result<Answer> {
    client.sql(&format!(
        "CREATE FUNCTION {SCHEMA}.`{name}`() RETURNS INT DETERMINISTIC NO SQL
         BEGIN SET @ran = @ran + 1; RETURN 1; END"
    ))?;
    client.sql("SET @ran = 0")?;
    let mut ran = 0;
    let adjacent = called(client, name, &ARGUMENTS, &mut ran)?;
    let is_bare_stored = adjacent.stored_bare && !adjacent.stored && adjacent.native;
    let mut mode_now = "";
    let mut call = |mode: &'static str, before: &str| -> Result<Called> {
        if mode != mode_now {
            client.sql(&format!("SET SESSION sql_mode = '{mode}'"))?;
            mode_now = mode;
        }
        called(client, before, FEW, &mut ran)
    };
    let is_own = |called: Called| !called.stored && (!called.stored_bare || is_bare_stored);
    let mut qualified = false;
    for dot in [".", ". ", " .", " . "] {
        qualified |= call("", &format!("{SCHEMA}{dot}{name}"))?.native;
        qualified |= call("", &format!("{SCHEMA}{dot}{name} "))?.native;
    }
    let mut answer = Answer {
        is_function: adjacent.native,
        adjacent: is_own(adjacent),
        spaced: is_own(call("", &format!("{name} "))?),
        ignoring_space: is_own(call("IGNORE_SPACE", &format!("{name} \t\n"))?),
        oracle: is_own(adjacent),
        quoted: is_own(call("", &format!("`{name}`"))?),
        is_bare_stored,
        qualified,
    };
    // A comment is no space: with and without IGNORE_SPACE it is as a space without.
    for mode in ["", "IGNORE_SPACE"] {
        answer.spaced &= is_own(call(mode, &format!("{name}/**/"))?);
    }
    answer.spaced &= is_own(call("IGNORE_SPACE", &format!("{name} /**/ "))?);
    if is_mariadb {
        answer.oracle = is_own(call("ORACLE", name)?);
    }
    client.sql("SET SESSION sql_mode = ''")?;
    client.sql(&format!("DROP FUNCTION {SCHEMA}.`{name}`"))?;
    Ok(answer)
}

/// Calls what `before` names. `ran` is how often the stored function has run so far.
fn called(
    client: &mut SqlClient,
    before: &str,
    arguments: &[&str],
    ran: &mut u32,
) -> Result<Called> {
    let mut found = Called::default();
    for arguments in arguments {
        let is_bare = arguments.is_empty();
        match client.sql(&format!("SELECT {before}({arguments})")) {
            Ok(_) => {
                let now = client.value("SELECT @ran")?.unwrap_or_default().parse()?;
                let has_run = std::mem::replace(ran, now) != now;
                found.stored_bare |= has_run && is_bare;
                found.stored |= has_run && !is_bare;
                found.native |= !has_run;
            }
            Err(error) => match error_code(&error).with_context(|| format!("{error:#}"))? {
                STORED_ARGUMENTS => found.stored = true,
                SYNTAX | MISSING | MISSING_SPACED => {}
                _ => found.native = true,
            },
        }
    }
    Ok(found)
}
