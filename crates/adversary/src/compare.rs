//! Whether two answers are the same to a client that may not know what is behind them.

use crate::client::{Answer, Rows};
use crate::plan::Act;

/// Errors of a connection that has ended.
const LOST: [u16; 4] = [1053, 1927, 2006, 2013];

/// What some servers say of a statement whose connection is killed.
const INTERRUPTED: u16 = 1317;

/// What the proxy says of a transaction whose connection is lost: its session goes on.
const ROLLED_BACK: u16 = 1213;
const ROLLED_BACK_TEXT: &str = "as its connection to";

/// How what the proxy runs in front of a statement begins, and what it runs on another connection.
const PROXYS: [&str; 9] = [
    "KILL ",
    "SET @@SESSION.collation_connection=@@SESSION.collation_connection",
    "SET @@SESSION.autocommit=1,",
    "SET @@SESSION.session_track_system_variables=",
    "SET @@SESSION.last_insert_id=",
    "SELECT FOUND_ROWS()",
    "SET @@SESSION.session_track_transaction_info=",
    "SELECT 1 FROM (SELECT 1) AS t",
    "SELECT SQL_CALC_FOUND_ROWS 1 FROM (SELECT 1",
];

/// The character set and the type at the end of what is compared of a column.
const TYPE_LEN: usize = 3;

/// What stands before the number of a session in texts of errors.
const THREADS: [&[u8]; 2] = [b"owner of thread ", b"Unknown thread id: "];

/// What of two answers is compared, as text; `None` when they are the same.
pub fn difference(act: &Act, proxied: &[Answer], direct: &[Answer]) -> Option<(String, String)> {
    // One that hangs is not one that has ended.
    let hangs = proxied.contains(&Answer::Silent) && !direct.contains(&Answer::Silent);
    if has_lost(proxied) && has_lost(direct) && !hangs {
        return None;
    }
    let (one, other) = (masked(act, proxied), masked(act, direct));
    if one == other || mask_of(act) == Mask::Profiles && are_last(&one, &other) {
        return None;
    }
    Some((shown(proxied), shown(direct)))
}

/// Whether the profiles of one side are the last ones of the other's. A server keeps a number of
/// them: through the proxy the proxy's own among them, directly a `KILL`, which the proxy runs on
/// another connection.
fn are_last(proxied: &[Answer], direct: &[Answer]) -> bool {
    match (proxied, direct) {
        ([Answer::Rows(proxied)], [Answer::Rows(direct)]) => {
            ends_alike(&proxied.rows, &direct.rows)
        }
        _ => false,
    }
}

/// Whether one of two lists that are not empty is the end of the other.
fn ends_alike(one: &[Vec<u8>], other: &[Vec<u8>]) -> bool {
    !one.is_empty() && !other.is_empty() && (one.ends_with(other) || other.ends_with(one))
}

/// Whether the answers differ in nothing but the status flags that they tell.
pub fn differ_in_status(act: &Act, proxied: &[Answer], direct: &[Answer]) -> bool {
    let without = |answers: &[Answer]| {
        let mut answers = masked(act, answers);
        for answer in &mut answers {
            match answer {
                Answer::Ok { status, .. } => *status = 0,
                Answer::Rows(rows) => rows.status = 0,
                Answer::Error(_) | Answer::Lost | Answer::Silent => {}
            }
        }
        answers
    };
    without(proxied) == without(direct)
}

/// Whether the connection has ended.
pub fn has_lost(answers: &[Answer]) -> bool {
    answers.iter().any(|answer| match answer {
        Answer::Lost | Answer::Silent => true,
        Answer::Error(refusal) => LOST.contains(&refusal.code),
        Answer::Ok { .. } | Answer::Rows(_) => false,
    })
}

/// Whether the proxy has passed on that a statement's connection was killed.
pub fn was_struck(answers: &[Answer]) -> bool {
    let is_struck = |answer: &Answer| match answer {
        Answer::Error(refusal) => {
            let is_rolled_back =
                refusal.code == ROLLED_BACK && refusal.text.contains(ROLLED_BACK_TEXT);
            refusal.code == INTERRUPTED || is_rolled_back
        }
        Answer::Ok { .. } | Answer::Rows(_) | Answer::Lost | Answer::Silent => false,
    };
    has_lost(answers) || answers.iter().any(is_struck)
}

/// All of them in a line each.
pub fn shown(answers: &[Answer]) -> String {
    match answers {
        [] => "OK".to_owned(),
        answers => answers.iter().map(ToString::to_string).collect::<Vec<_>>().join("; then "),
    }
}

/// What a statement's answers are allowed to differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mask {
    Nothing,
    /// Numbers and durations of statements, and what the proxy sets in front of them.
    Profiles,
    /// Estimates and times.
    Rows,
}

/// Whether it shows warnings or errors: where the proxy does, columns are UTF-8.
fn shows_conditions(act: &Act) -> bool {
    let (Act::Query(text) | Act::Prepared(text)) = act else { return false };
    text.starts_with(b"SHOW WARNINGS") || text.starts_with(b"SHOW ERRORS")
}

/// Leaves out the types of user variables that are NULL: one that is not set has the type that its
/// name got first on the connection.
fn leave_null_types(act: &Act, rows: &mut Rows) {
    let texts = rows.text();
    let is_binary = matches!(act, Act::Prepared(_));
    for (at, column) in rows.columns.iter_mut().enumerate() {
        let is_variable = column.windows(2).any(|part| part == b".@");
        let is_null = |row: &Vec<Option<String>>| row.get(at).is_some_and(Option::is_none);
        if is_variable && (is_binary || texts.iter().all(is_null)) {
            column.truncate(column.len().saturating_sub(TYPE_LEN));
        }
    }
}

/// Leaves out the number of a session in the text of an error, which is the proxy's there.
fn hide_thread(row: &mut Vec<u8>) {
    let place = |row: &[u8]| {
        THREADS.iter().find_map(|thread| row.windows(thread.len()).position(|it| it == *thread))
    };
    if place(row).is_some() {
        row.retain(|byte| !byte.is_ascii_digit());
        // The lengths before the texts count the digits.
        row.drain(..place(row).unwrap_or_default());
    }
}

fn mask_of(act: &Act) -> Mask {
    let (Act::Query(text) | Act::Prepared(text) | Act::Strike(text)) = act else {
        return Mask::Nothing;
    };
    let text = String::from_utf8_lossy(text).trim_start().to_ascii_uppercase();
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    match () {
        // MariaDB shows freed memory as the text of a prepared one.
        () if begins(&["SHOW PROFILES"]) && matches!(act, Act::Prepared(_)) => Mask::Rows,
        () if begins(&["SHOW PROFILES"]) => Mask::Profiles,
        // MySQL takes a variable's character set for what it was when the text was prepared.
        () if text.contains("COLLATION(@") && matches!(act, Act::Prepared(_)) => Mask::Rows,
        () if begins(&["EXPLAIN", "ANALYZE SELECT", "ANALYZE FORMAT", "DESC SELECT"]) => Mask::Rows,
        () => Mask::Nothing,
    }
}

fn masked(act: &Act, answers: &[Answer]) -> Vec<Answer> {
    let mask = mask_of(act);
    let one = |answer: &Answer| match answer {
        Answer::Error(refusal) => {
            let mut refusal = refusal.clone();
            refusal.text.clear();
            Answer::Error(refusal)
        }
        Answer::Rows(rows) => {
            let mut rows = rows.clone();
            rows.columns = rows.essence();
            if shows_conditions(act) {
                rows.columns.clear();
            }
            leave_null_types(act, &mut rows);
            match mask {
                Mask::Nothing => rows.rows.iter_mut().for_each(hide_thread),
                Mask::Rows => rows.rows.clear(),
                Mask::Profiles => {
                    let texts = rows.text().into_iter().filter_map(|row| row.into_iter().nth(2)?);
                    let is_proxys =
                        |text: &String| PROXYS.iter().any(|begin| text.starts_with(begin));
                    let sessions = texts.filter(|text| !is_proxys(text));
                    rows.rows = sessions.map(String::into_bytes).collect();
                }
            }
            Answer::Rows(rows)
        }
        Answer::Ok { affected, insert_id, status, info, .. }
            if matches!(act, Act::Ping | Act::Schema(_)) =>
        {
            // MySQL tells here how many warnings the statement before had.
            let (affected, insert_id, info) = (*affected, *insert_id, info.clone());
            Answer::Ok { affected, insert_id, warnings: 0, status: *status, info }
        }
        Answer::Ok { .. } | Answer::Lost | Answer::Silent => answer.clone(),
    };
    answers.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Refusal;

    #[test]
    fn flags_that_are_old_are_told_from_other_differences() {
        let ok = |affected, status| {
            vec![Answer::Ok { affected, insert_id: 0, warnings: 0, status, info: String::new() }]
        };
        assert!(differ_in_status(&Act::Ping, &ok(0, 2), &ok(0, 3)));
        assert!(!differ_in_status(&Act::Ping, &ok(1, 2), &ok(0, 2)));
    }

    #[test]
    fn profiles_may_lack_the_oldest_ones_on_either_side() {
        let rows = |texts: &[&str]| -> Vec<Vec<u8>> {
            texts.iter().map(|text| text.as_bytes().to_vec()).collect()
        };
        assert!(ends_alike(&rows(&["b", "c"]), &rows(&["a", "b", "c"])));
        assert!(ends_alike(&rows(&["a", "b", "c"]), &rows(&["b", "c"])));
        assert!(!ends_alike(&rows(&["a", "c"]), &rows(&["a", "b", "c"])));
        assert!(!ends_alike(&rows(&["a", "b"]), &rows(&["a", "b", "c"])));
        assert!(!ends_alike(&rows(&[]), &rows(&["a"])));
    }

    #[test]
    fn texts_of_errors_and_ways_of_being_lost_do_not_count() {
        let error = |code, text: &str| {
            let (sqlstate, text) = ("HY000".to_owned(), text.to_owned());
            vec![Answer::Error(Refusal { code, sqlstate, text })]
        };
        let act = Act::Query(b"SELECT 1".to_vec());
        assert_eq!(difference(&act, &error(1146, "a"), &error(1146, "b")), None);
        assert!(difference(&act, &error(1146, "a"), &error(1147, "a")).is_some());
        assert_eq!(difference(&act, &error(2013, "a"), &[Answer::Lost]), None);
        assert!(difference(&act, &[], &[Answer::Lost]).is_some());
        assert!(difference(&act, &[Answer::Silent], &[Answer::Lost]).is_some());
        assert_eq!(difference(&act, &[Answer::Silent], &[Answer::Silent]), None);
    }
}
