//! What the query log and the audit log tell of a session, its client did.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::{Breach, Violation, history::SessionHistory, index::Index};

/// What clients begin to say and break off, which may be a whole command.
const BROKEN_OFF: &str = "SELECT 1 FROM nothing";

/// What entries of the slow log begin with: lines of digests or texts, and no JSON.
const SLOW: &str = "# Time: ";

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Violation>) {
    if index.facts().logged.is_empty() {
        return;
    }
    let mut sessions: HashMap<u64, Vec<&SessionHistory>, FixedState> = HashMap::default();
    for (_, session) in index.sessions() {
        if let Some(number) = session.number {
            sessions.entry(number).or_default().push(session);
        }
    }
    for (at_us, line) in &index.facts().logged {
        if let Some(why) = objection(&sessions, line) {
            let evidence = format!("{why}: {line}");
            let (client, tag, at_us) = (None, None, *at_us);
            found.push(Violation { breach: Breach::WrongLog, client, tag, at_us, evidence });
        }
    }
}

/// Why this line is not true.
fn objection(
    sessions: &HashMap<u64, Vec<&SessionHistory>, FixedState>,
    line: &str,
) -> Option<&'static str> {
    let is_slow = line.starts_with(SLOW);
    // MariaDB's form, MySQL's, and a line of JSON.
    let numbers = if is_slow { ["# Thread_id: ", "  Id: "] } else { ["\"thread_id\":"; 2] };
    let Some(number) = numbers.iter().find_map(|it| number_behind(line, it)) else {
        return Some("a line without a session");
    };
    let user = match is_slow {
        true => between(line, "# User@Host: ", "["),
        false => between(line, "\"username\":\"", "\""),
    };
    let Some(user) = user else {
        return Some("a line without a user");
    };
    // Who was refused has none.
    if user.is_empty() {
        return None;
    }
    let theirs = sessions.get(&number).map(Vec::as_slice).unwrap_or_default();
    let mut theirs = theirs.iter().filter(|session| session.user == user).peekable();
    if theirs.peek().is_none() {
        return Some("a line about a session that nobody had");
    }
    // Of digests with literals, and of texts with quotes, there is only the user to compare.
    let text = between(line, "\"query\":\"", "\",\"rows_affected\"")?;
    if text.contains(['?', '\\']) || text.starts_with(BROKEN_OFF) {
        return None;
    }
    // Functions that tell of an earlier statement go to the server as what they tell.
    let answer = ["IF(0, FOUND_ROWS(), ", "CAST("].iter().find_map(|it| text.split_once(it));
    let text = answer.map_or(text, |(before, _)| before);
    let is_said =
        theirs.any(|it| it.exchanges.iter().any(|exchange| has_said(&exchange.text, text)));
    (!is_said).then_some("a statement that its client did not send")
}

/// Whether this was said; a digest lacks comments, and has other white space.
fn has_said(said: &str, logged: &str) -> bool {
    said.contains(logged) || bare(said).contains(&bare(logged))
}

/// A text without comments and white space.
fn bare(text: &str) -> String {
    let pieces = text.split("/*").enumerate();
    let code = pieces.filter_map(|(place, piece)| match place {
        0 => Some(piece),
        _ => piece.split_once("*/").map(|(_, behind)| behind),
    });
    code.flat_map(str::chars).filter(|it| !it.is_ascii_whitespace()).collect()
}

fn number_behind(line: &str, before: &str) -> Option<u64> {
    let rest = line.split_once(before)?.1;
    let end = rest.find(|byte: char| !byte.is_ascii_digit())?;
    rest.get(..end)?.parse().ok()
}

fn between<'a>(line: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let rest = line.split_once(before)?.1;
    rest.split_once(behind).map(|(text, _)| text)
}
