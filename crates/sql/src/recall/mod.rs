//! Questions about a session's own past, answered in the text itself: `ROW_COUNT()` becomes the
//! number that it would give.
//!
//! A server answers them for its connection, which may have served another session since.

mod insert_id;
mod item;
mod show;

pub use insert_id::{computes_values, parameters_may_give, text_may_give};
pub use show::{ShowDiagnostics, show_diagnostics};

use crate::{
    set::is_equals,
    token::{Keyword, Modes, Token, TokenKind, Tokens},
};

/// What is known of a session's past. `None` leaves the question to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recalled {
    /// `CONNECTION_ID()`. Answered only where it is all that the statement asks for: beside a
    /// table it is compared with numbers that servers give.
    pub connection_id: Option<u32>,
    /// `ROW_COUNT()`.
    pub row_count: Option<i64>,
    /// `FOUND_ROWS()`.
    pub found_rows: Option<u64>,
    /// `@@warning_count`.
    pub warning_count: Option<u64>,
    /// `@@error_count`.
    pub error_count: Option<u64>,
    /// `@@last_gtid`: domain, server and sequence number; all 0 for none.
    pub last_gtid: Option<Gtid>,
    /// The session has set no tracker, so that `@@session_track_schema` and its like are what new
    /// sessions get, and not what the proxy has set.
    pub has_default_trackers: bool,
}

/// A GTID of MariaDB: domain, server and sequence number.
pub type Gtid = (u32, u32, u64);

/// Whether `%ROWCOUNT` follows, as in `SQL%ROWCOUNT` (MariaDB, Oracle mode).
pub(crate) fn is_row_count(sign: Option<Token<'_>>, word: Option<Token<'_>>) -> bool {
    sign.is_some_and(|token| token.text == b"%") && word.is_some_and(|it| it.is_word(b"ROWCOUNT"))
}

/// Whether this is one of the variables that the proxy sets on servers for itself.
pub(crate) fn is_tracker(name: &[u8]) -> bool {
    TRACKERS.iter().any(|tracker| tracker.as_bytes() == name)
}

/// The variables that the proxy sets on servers for itself.
pub(crate) const TRACKERS: [&str; 4] = [
    "session_track_system_variables",
    "session_track_schema",
    "session_track_state_change",
    "session_track_transaction_info",
];

/// One question in a text.
struct Question {
    /// Its first byte and the one after its last.
    start: usize,
    end: usize,
    answer: Answer,
    /// Whether it is an item of the select list and needs its name kept.
    is_item: bool,
    /// Whether it is an item that has a name of its own.
    is_named: bool,
    /// The expression around it, from its first byte to behind its last, that is an item of the
    /// select list and gives its text for a name.
    expression: Option<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    ConnectionId(u32),
    Signed(i64),
    Unsigned(u64),
    FoundRows(i64),
    Gtid(Gtid),
    /// The server's variable of this name for new sessions.
    Global(&'static str),
}

/// Statements that are no blocks of others, however they go on: what they ask for is what was so
/// before them.
const PLAIN: [&[u8]; 7] = [b"SELECT", b"INSERT", b"REPLACE", b"UPDATE", b"DELETE", b"SET", b"DO"];

/// `text` with the questions replaced whose answers are known; `None` when there are none, or the
/// text is one that servers may read differently, or one that is stored. Of several parts the
/// first one may change the answers: behind it, and where it may be a block of statements, only
/// `CONNECTION_ID()` is known. Holds no more than the questions, however many tokens there are.
pub fn recall(text: &[u8], modes: &Modes, known: &Recalled) -> Option<Vec<u8>> {
    let mut tokens = Tokens::new(text, modes);
    let mut reads_table = false;
    let (mut is_first, mut has_parts, mut is_stored) = (true, false, false);
    let (mut is_plain, mut first_end) = (false, None);
    for token in tokens.by_ref() {
        reads_table |= token.is_word(b"FROM");
        is_stored |= is_first && (token.is_word(b"CREATE") || token.is_word(b"ALTER"));
        is_plain |= is_first && PLAIN.iter().any(|word| token.is_word(word));
        let ends = token.kind == TokenKind::Semicolon;
        has_parts |= first_end.is_some() && !ends;
        first_end = first_end.or(ends.then_some(token.offset));
        is_first = false;
    }
    if tokens.has_versioned() || tokens.is_ambiguous() || !tokens.is_complete() || is_stored {
        return None;
    }
    let mut questions = questions(Tokens::new(text, modes), known, modes.oracle);
    if has_parts {
        let answered_to = first_end.filter(|_| is_plain).unwrap_or_default();
        questions.retain(|question| {
            question.end <= answered_to || matches!(question.answer, Answer::ConnectionId(_))
        });
    }
    let are_all_items = questions.iter().all(|question| question.is_item || question.is_named);
    if reads_table || !are_all_items {
        questions.retain(|question| !matches!(question.answer, Answer::ConnectionId(_)));
    }
    item::find_expressions(&mut questions, Tokens::new(text, modes));
    answered(text, modes, &questions)
}

/// `text` with the answers in it; `None` if there are none.
fn answered(text: &[u8], modes: &Modes, questions: &[Question]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() + 32);
    let mut at = 0;
    for (index, question) in questions.iter().enumerate() {
        out.extend_from_slice(text.get(at..question.start)?);
        out.extend_from_slice(question.answer.text(modes).as_bytes());
        if question.is_item {
            put_name(&mut out, text.get(question.start..question.end)?);
        }
        at = question.end;
        let next = questions.get(index + 1).map_or(usize::MAX, |next| next.start);
        if let Some((start, end)) = question.expression.filter(|(_, end)| next >= *end) {
            out.extend_from_slice(text.get(at..end)?);
            put_name(&mut out, text.get(start..end)?);
            at = end;
        }
    }
    if at == 0 {
        return None;
    }
    out.extend_from_slice(text.get(at..)?);
    Some(out)
}

impl Answer {
    /// As an expression of the type that the question has.
    fn text(self, modes: &Modes) -> String {
        match self {
            Self::ConnectionId(number) => format!("CAST({number} AS UNSIGNED)"),
            Self::Signed(number) => signed(number),
            Self::Unsigned(number) => unsigned(number),
            Self::FoundRows(number) if modes.flavor_mariadb => signed(number),
            // MySQL warns of each one that it sees (1287).
            Self::FoundRows(number) => format!("IF(0, FOUND_ROWS(), {})", signed(number)),
            Self::Gtid((0, 0, 0)) => "''".to_owned(),
            Self::Gtid((domain, server, number)) => format!("'{domain}-{server}-{number}'"),
            Self::Global(name) => format!("@@GLOBAL.{name}"),
        }
    }
}

/// A number of 64 bits in SQL. MariaDB gives a cast the type that its argument is long enough for.
fn signed(number: i64) -> String {
    format!("CAST('{number:020}' AS SIGNED)")
}

/// As [`signed`], for a number without a sign: what `@@warning_count` is.
pub fn unsigned(number: u64) -> String {
    format!("CAST('{number:020}' AS UNSIGNED)")
}

/// Names what stands before it.
fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    out.extend_from_slice(b" AS `");
    for byte in name {
        if *byte == b'`' {
            out.push(b'`');
        }
        out.push(*byte);
    }
    out.push(b'`');
}

/// `oracle` is whether `sql_mode` may be that.
fn questions(mut tokens: Tokens<'_>, known: &Recalled, oracle: bool) -> Vec<Question> {
    let mut found = Vec::new();
    let mut depth = 0_u32;
    // Within the select list of the statement itself.
    let mut is_listing = false;
    let mut previous: Option<Token<'_>> = None;
    while let Some(token) = tokens.next() {
        match token.kind {
            TokenKind::Open => depth = depth.saturating_add(1),
            TokenKind::Close => depth = depth.saturating_sub(1),
            TokenKind::Semicolon => is_listing = false,
            TokenKind::Word if depth == 0 => {
                is_listing |= token.is_word(b"SELECT");
                is_listing &= !token.is_word(b"FROM") && !token.is_word(b"INTO");
            }
            _ => {}
        }
        let Some((answer, last)) = question(&token, previous, &mut tokens, known, oracle) else {
            previous = Some(token);
            continue;
        };
        let follows = |token: Token<'_>| {
            token.is_word(b"SELECT") || token.kind == TokenKind::Comma && depth == 0 && is_listing
        };
        let next = tokens.clone().next();
        let is_whole = previous.is_some_and(follows);
        let ends = next.is_none_or(|next| {
            matches!(next.kind, TokenKind::Comma | TokenKind::Semicolon | TokenKind::Close)
                || next.is_word(b"FROM")
        });
        found.push(Question {
            start: token.offset,
            end: last.end(),
            answer,
            is_item: is_whole && ends,
            is_named: is_whole && next.is_some_and(|next| next.is_word(b"AS")),
            expression: None,
        });
        previous = Some(last);
    }
    found
}

/// The answer to the question that begins with `token`, and its last token. `after` is what comes
/// behind `token`, and then what comes behind the question.
fn question<'t>(
    token: &Token<'t>,
    previous: Option<Token<'t>>,
    after: &mut Tokens<'t>,
    known: &Recalled,
    oracle: bool,
) -> Option<(Answer, Token<'t>)> {
    if token.kind == TokenKind::SystemVariable {
        if let Some(name) = tracker_of(token).filter(|_| known.has_default_trackers) {
            // What is assigned to is no question.
            let is_set = after.clone().next().is_some_and(|next| is_equals(&next));
            return (!is_set).then_some((Answer::Global(name), *token));
        }
        let lower = token.text.to_ascii_lowercase();
        if let b"@@last_gtid" | b"@@session.last_gtid" | b"@@local.last_gtid" = &*lower {
            return Some((Answer::Gtid(known.last_gtid?), *token));
        }
        let answer = match lower.as_slice() {
            b"@@warning_count" | b"@@session.warning_count" | b"@@local.warning_count" => {
                known.warning_count
            }
            b"@@error_count" | b"@@session.error_count" | b"@@local.error_count" => {
                known.error_count
            }
            _ => None,
        };
        return answer.map(|answer| (Answer::Unsigned(answer), *token));
    }
    if !token.is_name() || previous.is_some_and(|token| token.kind == TokenKind::Dot) {
        return None;
    }
    let name = token.unquoted();
    let keyword = Keyword::new(&name);
    // Quoted, `ROW_COUNT` is a stored function's name, and `SQL` a column's.
    let is_word = token.kind == TokenKind::Word;
    if !is_word && !matches!(keyword.as_bytes(), b"CONNECTION_ID" | b"FOUND_ROWS") {
        return None;
    }
    if keyword.as_bytes() == b"SQL" && oracle {
        let mut ahead = after.clone();
        let (sign, word) = (ahead.next(), ahead.next());
        let word = word.filter(|word| is_row_count(sign, Some(*word)))?;
        *after = ahead;
        // Source: MariaDB, `Item_func_oracle_sql_rowcount::val_int`.
        let number = match known.row_count? {
            -1 => i64::try_from(known.found_rows?).ok()?,
            number => number,
        };
        return Some((Answer::Signed(number), word));
    }
    let answer = match keyword.as_bytes() {
        b"CONNECTION_ID" => Answer::ConnectionId(known.connection_id?),
        b"ROW_COUNT" => Answer::Signed(known.row_count?),
        b"FOUND_ROWS" => Answer::FoundRows(i64::try_from(known.found_rows?).ok()?),
        _ => return None,
    };
    let mut ahead = after.clone();
    let (open, close) = (ahead.next()?, ahead.next()?);
    if open.kind != TokenKind::Open || close.kind != TokenKind::Close {
        return None;
    }
    *after = ahead;
    Some((answer, close))
}

/// The tracker whose value in the session a token is.
fn tracker_of(token: &Token<'_>) -> Option<&'static str> {
    let text = token.text.to_ascii_lowercase();
    let scoped = text.strip_prefix(b"@@")?;
    let name = scoped.strip_prefix(b"session.").or_else(|| scoped.strip_prefix(b"local."));
    let name = name.unwrap_or(scoped);
    TRACKERS.into_iter().find(|tracker| tracker.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Recalled = Recalled {
        connection_id: Some(7),
        row_count: Some(-1),
        found_rows: Some(3),
        warning_count: Some(2),
        error_count: Some(1),
        last_gtid: Some((0, 1, 25)),
        has_default_trackers: true,
    };

    fn check(text: &str, expected: Option<&str>) {
        let modes = Modes { flavor_mariadb: true, ..Modes::default() };
        let recalled = recall(text.as_bytes(), &modes, &KNOWN);
        let recalled = recalled.map(|text| String::from_utf8(text).expect("utf-8"));
        assert_eq!(recalled.as_deref(), expected, "{text}");
    }

    #[test]
    fn a_count_of_rows_by_its_oracle_name_is_a_question_in_oracle_mode_only() {
        check("SELECT SQL%ROWCOUNT", None);
        let modes = Modes { flavor_mariadb: true, oracle: true, ..Modes::default() };
        let recalled = recall(b"SELECT SQL%ROWCOUNT", &modes, &KNOWN);
        let expected = b"SELECT CAST('00000000000000000003' AS SIGNED) AS `SQL%ROWCOUNT`";
        assert_eq!(recalled.as_deref(), Some(&expected[..]));
    }

    #[test]
    // long: one list of cases.
    fn questions_become_their_answers_and_keep_their_names() {
        for (text, expected) in [
            ("SELECT @@last_gtid", "SELECT '0-1-25' AS `@@last_gtid`"),
            (
                "SELECT ROW_COUNT()",
                "SELECT CAST('-0000000000000000001' AS SIGNED) AS `ROW_COUNT()`",
            ),
            (
                "select found_rows( ), 1;",
                "select CAST('00000000000000000003' AS SIGNED) AS `found_rows( )`, 1;",
            ),
            ("SELECT 1, ROW_COUNT() AS n", "SELECT 1, CAST('-0000000000000000001' AS SIGNED) AS n"),
            (
                "SELECT @@session_track_schema, @@Session.session_track_state_change",
                "SELECT @@GLOBAL.session_track_schema AS `@@session_track_schema`, \
                 @@GLOBAL.session_track_state_change AS `@@Session.session_track_state_change`",
            ),
            (
                "SET @@session_track_schema = 1, session_track_system_variables = \
                 IF(LOCATE('*', @@session_track_system_variables) > 0, 'a', 'b')",
                "SET @@session_track_schema = 1, session_track_system_variables = \
                 IF(LOCATE('*', @@GLOBAL.session_track_system_variables) > 0, 'a', 'b')",
            ),
            (
                "SELECT ROW_COUNT() + 1",
                "SELECT CAST('-0000000000000000001' AS SIGNED) + 1 AS `ROW_COUNT() + 1`",
            ),
            (
                "SELECT DISTINCT 1, @@last_gtid = '' , ROW_COUNT() < @@error_count n FROM t",
                "SELECT DISTINCT 1, '0-1-25' = '' AS `@@last_gtid = ''` , \
                 CAST('-0000000000000000001' AS SIGNED) < \
                 CAST('00000000000000000001' AS UNSIGNED) n FROM t",
            ),
            (
                "SELECT IF(ROW_COUNT(), ROW_COUNT(), 2)",
                "SELECT IF(CAST('-0000000000000000001' AS SIGNED), \
                 CAST('-0000000000000000001' AS SIGNED), 2) AS `IF(ROW_COUNT(), ROW_COUNT(), 2)`",
            ),
            (
                "SELECT (SELECT @@last_gtid)",
                "SELECT (SELECT '0-1-25' AS `@@last_gtid`) AS `(SELECT @@last_gtid)`",
            ),
            (
                "INSERT INTO t VALUES (1, ROW_COUNT())",
                "INSERT INTO t VALUES (1, CAST('-0000000000000000001' AS SIGNED))",
            ),
            (
                "SET @a = ROW_COUNT(), @b = 1",
                "SET @a = CAST('-0000000000000000001' AS SIGNED), @b = 1",
            ),
            (
                "SELECT @@warning_count",
                "SELECT CAST('00000000000000000002' AS UNSIGNED) AS `@@warning_count`",
            ),
            (
                "SELECT @@session.error_count, @@version",
                "SELECT CAST('00000000000000000001' AS UNSIGNED) AS `@@session.error_count`, \
                 @@version",
            ),
            (
                "SELECT a FROM t WHERE b = FOUND_ROWS() ORDER BY 1, FOUND_ROWS()",
                "SELECT a FROM t WHERE b = CAST('00000000000000000003' AS SIGNED) ORDER BY 1, \
                 CAST('00000000000000000003' AS SIGNED)",
            ),
            ("SELECT CONNECTION_ID()", "SELECT CAST(7 AS UNSIGNED) AS `CONNECTION_ID()`"),
            (
                "SELECT `found_rows` ()",
                "SELECT CAST('00000000000000000003' AS SIGNED) AS ```found_rows`` ()`",
            ),
            ("SELECT CONNECTION_ID() AS id, 'x'", "SELECT CAST(7 AS UNSIGNED) AS id, 'x'"),
        ] {
            check(text, Some(expected));
        }
    }

    #[test]
    fn a_server_that_warns_of_found_rows_sees_it() {
        let recalled = recall(b"SELECT FOUND_ROWS()", &Modes::default(), &KNOWN);
        let expected = b"SELECT IF(0, FOUND_ROWS(), CAST('00000000000000000003' AS SIGNED)) \
            AS `FOUND_ROWS()`";
        assert_eq!(recalled.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn of_several_parts_the_first_one_is_answered() {
        let count = "CAST('-0000000000000000001' AS SIGNED)";
        let item = format!("{count} AS `ROW_COUNT()`");
        for (text, expected) in [
            ("SELECT ROW_COUNT(); DO 1", format!("SELECT {item}; DO 1")),
            (
                "SET @q = ROW_COUNT(), @w = 1; SELECT @q, ROW_COUNT()",
                format!("SET @q = {count}, @w = 1; SELECT @q, ROW_COUNT()"),
            ),
            (
                "SELECT ROW_COUNT(); SELECT CONNECTION_ID()",
                format!("SELECT {item}; SELECT CAST(7 AS UNSIGNED) AS `CONNECTION_ID()`"),
            ),
        ] {
            check(text, Some(&expected));
        }
        for text in [
            "SELECT 1; SELECT ROW_COUNT()",
            "WHILE ROW_COUNT() > 0 DO DELETE FROM t LIMIT 1; END WHILE",
            "BEGIN NOT ATOMIC DELETE FROM t; SELECT ROW_COUNT(); END",
            "CREATE TABLE x AS SELECT ROW_COUNT(); DO 1",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn what_is_no_question_stays() {
        for text in [
            "SELECT 'ROW_COUNT()'",
            "SELECT s.ROW_COUNT()",
            "SELECT ROW_COUNT",
            "SELECT `ROW_COUNT`(), `FOUND_ROWS`",
            "SELECT @@global.warning_count",
            "SELECT IS_USED_LOCK('x') = CONNECTION_ID()",
            "SELECT * FROM p WHERE id = CONNECTION_ID()",
            "SELECT CONNECTION_ID() FROM t",
            "SELECT CONNECTION_ID() + 1",
            "/*!50000 SELECT ROW_COUNT() */",
        ] {
            check(text, None);
        }
    }
}
