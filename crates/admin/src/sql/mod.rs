//! What an administrator's statement asks for, from its text alone. What is no command of the
//! admin port goes to SQLite.
//!
//! Reading order: [`text`] (a text made comparable), [`Statement`] (everything that is known),
//! then its families: [`movement`] (`LOAD`, `SAVE`), [`show`], [`set`], [`select`] (what drivers
//! ask at connect), [`command`] (`PROXYSQL`, `KILL` and others).
//!
//! Source: ProxySQL's documentation of its admin commands; the statements that `mysql`, `mariadb`,
//! PyMySQL and Connector/J send.

pub mod text;

pub mod movement;

pub mod show;

pub mod set;

pub mod select;

pub mod command;

#[cfg(test)]
mod tests;

pub use command::Command;
pub use movement::{Movement, Origin};
pub use set::Assignment;
pub use show::{Filter, Show};

use text::Text;
use trunkline_store::tables::Schema;

/// What a statement asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// Nothing: spaces, comments or `;`.
    Empty,
    /// `LOAD` or `SAVE`.
    Move(Movement),
    /// `LOAD MYSQL USER name TO RUNTIME`.
    LoadUser(String),
    /// `SHOW`, `DESCRIBE` and the like.
    Show(Show),
    /// `SET` of a variable of the proxy.
    Set(Assignment),
    /// What every client may send and has no meaning here: `BEGIN`, `SET NAMES`.
    NoEffect,
    /// `USE`.
    Use(String),
    /// A command of the admin port.
    Command(Command),
    /// A `SELECT` of what only a server knows; SQLite gets the text that [`select::rewrite`] makes.
    Session,
    /// A statement for SQLite, as it is or in SQLite's words.
    Sql(String),
}

/// Reads a statement.
///
/// # Errors
/// What is wrong with a statement that begins like a command and is none.
pub fn parse(sql: &str) -> Result<Statement, String> {
    let text = Text::new(sql);
    let words = text.words();
    let [first, rest @ ..] = words.as_slice() else {
        return Ok(Statement::Empty);
    };
    let parsed = match first.as_str() {
        "LOAD" | "SAVE" => match movement::user(&text, &words)? {
            Some(name) => Some(Statement::LoadUser(name)),
            None => movement::parse(&text, &words).map(Some)?,
        },
        "SHOW" | "DESCRIBE" | "DESC" => show::parse(&text, &words)?.map(Statement::Show),
        "EXPLAIN" => command::explain(&text, &words).or_else(|| show::explain(&words)),
        "SET" => Some(set::parse(&text, &words)?),
        "USE" => {
            let name = text.spelled().get(1).map(|name| text::unquoted(name).to_owned());
            name.map(Statement::Use)
        }
        "BEGIN" | "COMMIT" | "ROLLBACK" | "LOCK" | "UNLOCK" => Some(Statement::NoEffect),
        "START" if rest.first().is_some_and(|word| word == "TRANSACTION") => {
            Some(Statement::NoEffect)
        }
        "SELECT" => select::parse(&text, &words),
        "TRUNCATE" => truncate(&text),
        "DROP" | "CREATE" => restored(&text, &words),
        "PROXYSQL" | "KILL" | "PAUSE" | "RESUME" | "HELP" | "?" | "CHECKSUM" | "PULL"
        | "SIGNAL" | "LOGENTRY" | "FLUSH" | "SWITCHOVER" | "CHECK" | "REJOIN" | "MAINTENANCE"
        | "CLEAR" => command::parse(&text, &words)?.map(Statement::Command),
        _ => None,
    };
    Ok(parsed.unwrap_or_else(|| Statement::Sql(text.as_str().to_owned())))
}

/// What the dump of a table of ours begins with when it is restored: `DROP TABLE IF EXISTS t`
/// empties the table, `CREATE TABLE t` finds it there, as `CREATE DATABASE d` does the schema, and
/// `DROP VIEW IF EXISTS t` finds no view. Variables are never gone; their rows are replaced.
fn restored(text: &Text, words: &[String]) -> Option<Statement> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (at, is_drop) = match words.as_slice() {
        ["DROP", "TABLE", "IF", "EXISTS", _] => (4, true),
        ["CREATE", "TABLE", "IF", "NOT", "EXISTS", ..] => (5, false),
        ["CREATE", "TABLE", ..] => (2, false),
        ["DROP", "VIEW", "IF", "EXISTS", _] => (4, false),
        ["CREATE", "DATABASE" | "SCHEMA", rest @ ..] => {
            let name = text::unquoted(rest.last()?);
            let is_there = Schema::ALL.into_iter().any(|it| name.eq_ignore_ascii_case(it.name()));
            return is_there.then_some(Statement::NoEffect);
        }
        _ => return None,
    };
    let spelled = text.spelled();
    let name = spelled.get(at)?.split('(').next()?;
    let name = match name.split_once('.') {
        Some((schema, name)) if text::unquoted(schema).eq_ignore_ascii_case("main") => name,
        Some(_) => return None,
        None => name,
    };
    let table = trunkline_store::tables::find(text::unquoted(name))?;
    match is_drop {
        true if !table.name.starts_with("runtime_") => {
            Some(Statement::Sql(format!("DELETE FROM {}", table.name)))
        }
        true | false => Some(Statement::NoEffect),
    }
}

/// `TRUNCATE [TABLE] t` is `DELETE FROM t` in SQLite.
fn truncate(text: &Text) -> Option<Statement> {
    let words = text.spelled();
    let name = match words.as_slice() {
        [_, table, name] if table.eq_ignore_ascii_case("TABLE") => name,
        [_, name] => name,
        _ => return None,
    };
    let bare = name.rsplit('.').next().unwrap_or(name);
    let bare = text::unquoted(bare);
    if bare.starts_with("stats_mysql_query_digest") {
        return Some(Statement::Command(Command::TruncateDigests));
    }
    Some(Statement::Sql(format!("DELETE FROM {name}")))
}
