//! `SET`: a variable of the proxy, or something of a client's session that has no meaning here.

use super::{
    Statement,
    text::{Text, unquoted},
};

/// `SET` of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Its name, such as `mysql-wait_timeout`.
    pub name: String,
    /// Its new value, without quotes.
    pub value: String,
}

/// What clients set for their session, and a session has here whether they do or not.
const SESSION: [&str; 25] = [
    "autocommit",
    "character_set_results",
    "character_set_client",
    "character_set_connection",
    "collation_connection",
    "sql_auto_is_null",
    "sql_log_bin",
    "sql_safe_updates",
    "sql_mode",
    "sql_select_limit",
    "sql_quote_show_create",
    "time_zone",
    "net_read_timeout",
    "net_write_timeout",
    "wait_timeout",
    "interactive_timeout",
    "max_execution_time",
    "foreign_key_checks",
    "unique_checks",
    "tx_isolation",
    "transaction_isolation",
    "lock_wait_timeout",
    "group_concat_max_len",
    "optimizer_switch",
    "session_track_schema",
];

/// Reads a statement that begins with `SET`.
///
/// # Errors
/// When it sets nothing that there is.
pub fn parse(text: &Text, words: &[String]) -> Result<Statement, String> {
    let second = words.get(1).map_or("", String::as_str);
    if matches!(second, "NAMES" | "CHARACTER" | "CHARSET" | "TRANSACTION") {
        return Ok(Statement::NoEffect);
    }
    let rest = text.after(1);
    let scopes = ["@@global.", "@@session.", "@@local.", "@@", "global ", "session ", "local "];
    let lower = rest.to_ascii_lowercase();
    let scope = scopes.iter().find(|scope| lower.starts_with(**scope));
    let rest = rest.get(scope.map_or(0, |scope| scope.len())..).unwrap_or_default();
    if rest.to_ascii_lowercase().starts_with("transaction ") {
        return Ok(Statement::NoEffect);
    }
    let Some((name, value)) = rest.split_once('=') else {
        return Err("SET wants a name, `=` and a value".to_owned());
    };
    let name = unquoted(name.trim().trim_end_matches(':').trim());
    if name.starts_with('@') || SESSION.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(Statement::NoEffect);
    }
    let value = value.trim();
    let value = match unquoted(value) {
        inner if value.starts_with('\'') => inner.replace("''", "'"),
        inner => inner.to_owned(),
    };
    Ok(Statement::Set(Assignment { name: name.to_owned(), value }))
}
