//! `SELECT` of what a MySQL server knows and SQLite does not: `@@variables`, `VERSION()`, some
//! functions. Drivers ask for it at connect, and for what there is. The text is rewritten; whatever
//! else is in it is SQLite's.

use super::{
    Command, Statement,
    text::{Text, literal},
};

/// What a session's own functions and variables answer.
pub trait Session {
    /// The value of `@@name`; `None` when there is none of that name.
    fn variable(&self, name: &str) -> Option<String>;
    /// The value of a function without arguments, such as `DATABASE`; `None` for NULL.
    fn function(&self, name: &str) -> Option<String>;
}

/// Functions without arguments that a [`Session`] answers.
const FUNCTIONS: [&str; 8] = [
    "VERSION",
    "DATABASE",
    "SCHEMA",
    "USER",
    "CURRENT_USER",
    "SESSION_USER",
    "SYSTEM_USER",
    "CONNECTION_ID",
];
/// Functions of a moment, in SQLite's words.
const MOMENTS: [(&str, &str); 4] = [
    ("NOW", "datetime('now')"),
    ("UTC_TIMESTAMP", "datetime('now')"),
    ("CURRENT_TIMESTAMP", "datetime('now')"),
    ("SYSDATE", "datetime('now')"),
];

/// Functions with arguments under SQLite's names.
const RENAMED: [(&str, &str); 4] =
    [("UCASE", "upper"), ("LCASE", "lower"), ("LEAST", "min"), ("GREATEST", "max")];
/// Where a row without a table comes from.
const DUAL: &str = "FROM DUAL";

/// Reads a statement that begins with `SELECT`; `None` when it is SQLite's alone.
pub fn parse(text: &Text, words: &[String]) -> Option<Statement> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["SELECT", "CONFIG", "FILE"] => return Some(Statement::Command(Command::SelectConfig)),
        ["SELECT", "CONFIG", "INTO", "OUTFILE", path] => {
            // As it is written: a path is no word.
            let spelled = text.spelled().pop().unwrap_or_else(|| (*path).to_owned());
            let path = super::text::unquoted(&spelled).to_owned();
            return Some(Statement::Command(Command::SaveConfig(path)));
        }
        ["SELECT", "GLOBAL_CHECKSUM()"] => {
            return Some(Statement::Command(Command::GlobalChecksum));
        }
        _ => {}
    }
    let upper = text.as_str().to_uppercase();
    let asks = upper.contains("@@")
        || FUNCTIONS.iter().any(|name| upper.contains(&format!("{name}(")))
        || MOMENTS.iter().any(|(name, _)| upper.contains(&format!("{name}(")))
        || upper.contains("TIMEDIFF(")
        || RENAMED.iter().any(|(name, _)| upper.contains(&format!("{name}(")))
        || upper.contains("ISNULL(")
        || upper.contains(DUAL);
    asks.then_some(Statement::Session)
}

/// The text for SQLite.
///
/// # Errors
/// The name of a variable that there is not.
pub fn rewrite(text: &Text, session: &dyn Session) -> Result<String, String> {
    let sql = text.as_str();
    let body = sql.get("SELECT".len()..).unwrap_or_default();
    let (items, tail) = split_items(body);
    let mut rewritten = Vec::with_capacity(items.len());
    for item in items {
        let trimmed = item.trim();
        let replaced = replace(trimmed, session)?;
        let changed = replaced != trimmed;
        rewritten.push(match changed && !has_alias(trimmed) {
            true => format!("{replaced} AS \"{}\"", trimmed.replace('"', "\"\"")),
            false => replaced,
        });
    }
    let tail = replace(tail, session)?;
    let tail = match without_dual(&tail) {
        Some(rest) => rest.to_owned(),
        None => tail,
    };
    Ok(format!("SELECT {}{tail}", rewritten.join(", ")))
}

/// What follows `FROM DUAL` where a tail begins with it.
fn without_dual(tail: &str) -> Option<&str> {
    let (head, rest) = tail.trim_start().split_at_checked(DUAL.len())?;
    let is_dual = head.eq_ignore_ascii_case(DUAL) && (rest.is_empty() || rest.starts_with(' '));
    is_dual.then_some(rest)
}

/// The items of a select list, and what follows them, which begins with a space.
fn split_items(body: &str) -> (Vec<&str>, &str) {
    let mut items = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    let mut quote: Option<char> = None;
    for (at, char) in body.char_indices() {
        if let Some(open) = quote {
            if char == open {
                quote = None;
            }
            continue;
        }
        match char {
            '\'' | '"' | '`' => quote = Some(char),
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                items.push(body.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            ' ' if depth == 0 && begins_tail(body.get(at..).unwrap_or_default()) => {
                items.push(body.get(start..at).unwrap_or_default());
                return (items, body.get(at..).unwrap_or_default());
            }
            _ => {}
        }
    }
    items.push(body.get(start..).unwrap_or_default());
    (items, "")
}

fn begins_tail(rest: &str) -> bool {
    let word = rest.trim_start().split([' ', '(']).next().unwrap_or_default();
    let tails = ["FROM", "WHERE", "LIMIT", "ORDER", "GROUP", "UNION", "HAVING"];
    tails.iter().any(|tail| tail.eq_ignore_ascii_case(word))
}

/// Whether an item names its column itself.
fn has_alias(item: &str) -> bool {
    let words: Vec<&str> = item.split(' ').collect();
    let Some((last, before)) = words.split_last() else { return false };
    let is_name = last.chars().all(|char| char.is_alphanumeric() || "_`'\"$".contains(char));
    let after_as = before.last().is_some_and(|word| word.eq_ignore_ascii_case("AS"));
    after_as || (is_name && !before.is_empty() && !ends_with_operator(before))
}

fn ends_with_operator(words: &[&str]) -> bool {
    words.last().is_some_and(|word| word.ends_with(['+', '-', '*', '/', '|', '=', '(', ',']))
}

/// Puts values for what only a session knows.
fn replace(part: &str, session: &dyn Session) -> Result<String, String> {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    let mut before = ' ';
    while let Some(char) = rest.chars().next() {
        if matches!(char, '\'' | '"' | '`') {
            let len =
                rest.get(1..).and_then(|inner| inner.find(char)).map_or(rest.len(), |n| n + 2);
            let (quoted, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
            out.push_str(quoted);
            (rest, before) = (after, char);
            continue;
        }
        if let Some(after) = rest.strip_prefix("@@") {
            let (name, after) = variable_name(after);
            let value = session.variable(name);
            let value = value.ok_or_else(|| format!("Unknown system variable '{name}'"))?;
            out.push_str(&as_sql(&value));
            (rest, before) = (after, '0');
            continue;
        }
        let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
        if is_word(char) && !is_word(before) && before != '.' {
            let len = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
            let (word, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
            if out.trim_end().ends_with(',') && is_integer_kind(word, after) {
                // The kind of a `CONVERT(value, kind)`: each number is one here.
                out.truncate(out.trim_end().len() - 1);
                (rest, before) = (after.get(" INTEGER".len()..).unwrap_or_default(), 'a');
                continue;
            }
            let (text, after) = call(word, after, session);
            out.push_str(&text);
            (rest, before) = (after, 'a');
            continue;
        }
        out.push(char);
        before = char;
        rest = rest.get(char.len_utf8()..).unwrap_or_default();
    }
    Ok(out)
}

/// Whether a word begins `UNSIGNED INTEGER)` or `SIGNED INTEGER)`.
fn is_integer_kind(word: &str, after: &str) -> bool {
    let is_sign = ["UNSIGNED", "SIGNED"].iter().any(|it| it.eq_ignore_ascii_case(word));
    is_sign && after.get(..9).is_some_and(|it| it.eq_ignore_ascii_case(" INTEGER)"))
}

/// The name of a variable without its scope, and what follows. Names of the proxy's variables have
/// a `-`.
fn variable_name(rest: &str) -> (&str, &str) {
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.' | '`');
    let mut len = rest.find(|char| !is_part(char)).unwrap_or(rest.len());
    let head = rest.get(..len).unwrap_or_default();
    let is_own = ["mysql", "admin", "trunkline"].iter().any(|name| head.ends_with(name));
    if is_own && rest.get(len..).is_some_and(|tail| tail.starts_with('-')) {
        let more = rest.get(len + 1..).unwrap_or_default();
        len += 1 + more.find(|char| !is_part(char)).unwrap_or(more.len());
    }
    let (name, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
    let lower = name.to_ascii_lowercase();
    let scope = ["global.", "session.", "local."].iter().find(|scope| lower.starts_with(**scope));
    (name.get(scope.map_or(0, |scope| scope.len())..).unwrap_or_default(), after)
}

/// A call of a function without arguments, or the word as it is.
fn call<'a>(word: &str, after: &'a str, session: &dyn Session) -> (String, &'a str) {
    let open = after.trim_start().strip_prefix('(').map(str::trim_start);
    let upper = word.to_uppercase();
    if open.is_some() {
        match RENAMED.iter().find(|(name, _)| *name == upper) {
            Some((_, name)) => return ((*name).to_owned(), after),
            None if upper == "ISNULL" => return ("NULL IS".to_owned(), after),
            None if upper == "CONVERT" && after.to_uppercase().contains(" INTEGER)") => {
                return (String::new(), after);
            }
            None => {}
        }
    }
    let Some(inside) = open else {
        return match upper == "CURRENT_USER" {
            true => (session.function(&upper).map_or("NULL".into(), |v| literal(&v)), after),
            false => (word.to_owned(), after),
        };
    };
    if upper == "TIMEDIFF"
        && let Some(end) = inside.rfind(')')
    {
        // Connectors ask so for the offset of the time zone; here it is UTC.
        return ("'00:00:00'".to_owned(), inside.get(end + 1..).unwrap_or_default());
    }
    let Some(tail) = inside.strip_prefix(')') else { return (word.to_owned(), after) };
    if FUNCTIONS.contains(&upper.as_str()) {
        let value = session.function(&upper);
        return (value.map_or("NULL".to_owned(), |value| as_sql(&value)), tail);
    }
    match MOMENTS.iter().find(|(name, _)| *name == upper) {
        Some((_, sql)) => ((*sql).to_owned(), tail),
        None => (word.to_owned(), after),
    }
}

/// A value as SQL: whole numbers as they are, all else as text.
fn as_sql(value: &str) -> String {
    match value.parse::<i64>() {
        Ok(number) if number.to_string() == value => value.to_owned(),
        Ok(_) | Err(_) => literal(value),
    }
}
