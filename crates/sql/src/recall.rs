//! Questions about a session's own past, answered in the text itself: `ROW_COUNT()` becomes the
//! number that it would give.
//!
//! A server answers them for its connection, which may have served another session since.

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
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    ConnectionId(u32),
    Signed(i64),
    Unsigned(u64),
    Gtid(Gtid),
    /// The server's variable of this name for new sessions.
    Global(&'static str),
}

/// `text` with the questions replaced whose answers are known; `None` when there are none, or the
/// text is one that servers may read differently, or one that is stored. In one of several parts
/// an earlier one may change the answers: there only `CONNECTION_ID()` is known. Holds no
/// more than the questions, however many tokens there are.
pub fn recall(text: &[u8], modes: &Modes, known: &Recalled) -> Option<Vec<u8>> {
    let mut tokens = Tokens::new(text, modes);
    let mut reads_table = false;
    let (mut is_first, mut is_over, mut has_parts, mut is_stored) = (true, false, false, false);
    for token in tokens.by_ref() {
        reads_table |= token.is_word(b"FROM");
        is_stored |= is_first && (token.is_word(b"CREATE") || token.is_word(b"ALTER"));
        let ends = token.kind == TokenKind::Semicolon;
        has_parts |= is_over && !ends;
        is_over |= ends;
        is_first = false;
    }
    if tokens.has_versioned() || tokens.is_ambiguous() || !tokens.is_complete() || is_stored {
        return None;
    }
    let known = match has_parts {
        true => Recalled { connection_id: known.connection_id, ..Recalled::default() },
        false => *known,
    };
    let questions = questions(Tokens::new(text, modes), &known);
    let are_all_items = questions.iter().all(|question| question.is_item || question.is_named);
    let mut out = Vec::with_capacity(text.len() + 32);
    let mut at = 0;
    for question in &questions {
        let original = text.get(question.start..question.end)?;
        let number = match question.answer {
            Answer::ConnectionId(_) if reads_table || !are_all_items => continue,
            Answer::ConnectionId(number) => format!("CAST({number} AS UNSIGNED)"),
            Answer::Signed(number) => signed(number),
            Answer::Unsigned(number) => unsigned(number),
            Answer::Gtid((0, 0, 0)) => "''".to_owned(),
            Answer::Gtid((domain, server, number)) => format!("'{domain}-{server}-{number}'"),
            Answer::Global(name) => format!("@@GLOBAL.{name}"),
        };
        out.extend_from_slice(text.get(at..question.start)?);
        out.extend_from_slice(number.as_bytes());
        if question.is_item {
            out.extend_from_slice(b" AS `");
            put_doubled(&mut out, original);
            out.push(b'`');
        }
        at = question.end;
    }
    if at == 0 {
        return None;
    }
    out.extend_from_slice(text.get(at..)?);
    Some(out)
}

/// A number of 64 bits in SQL. MariaDB gives a cast the type that its argument is long enough for.
fn signed(number: i64) -> String {
    format!("CAST('{number:020}' AS SIGNED)")
}

/// As [`signed`], for a number without a sign: what `@@warning_count` is.
pub fn unsigned(number: u64) -> String {
    format!("CAST('{number:020}' AS UNSIGNED)")
}

/// A name as it stands between backticks.
fn put_doubled(out: &mut Vec<u8>, name: &[u8]) {
    for byte in name {
        if *byte == b'`' {
            out.push(b'`');
        }
        out.push(*byte);
    }
}

fn questions(mut tokens: Tokens<'_>, known: &Recalled) -> Vec<Question> {
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
        let Some((answer, last)) = question(&token, previous, &mut tokens, known) else {
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
    if keyword.as_bytes() == b"SQL" {
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
        b"FOUND_ROWS" => Answer::Signed(i64::try_from(known.found_rows?).ok()?),
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

/// What a `SHOW WARNINGS` and its like asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShowDiagnostics {
    /// `SHOW ERRORS`: only those of level `Error`.
    pub errors_only: bool,
    /// How many are asked for instead of themselves.
    pub counts: bool,
    /// How many are left out at the front.
    pub offset: u64,
    /// How many are shown at most.
    pub limit: u64,
}

/// A longer `SHOW` is none of diagnostics.
const SHOW_TOKENS_MAX: usize = 16;

/// Reads `SHOW {WARNINGS | ERRORS} [LIMIT …]` and `SHOW COUNT(*) {WARNINGS | ERRORS}`; `None` for
/// anything else.
pub fn show_diagnostics(text: &[u8], modes: &Modes) -> Option<ShowDiagnostics> {
    let mut tokens = Tokens::new(text, modes);
    let is_end = |token: &Token<'_>| token.kind == TokenKind::Semicolon;
    let mut all: Vec<Token<'_>> = tokens.by_ref().take(SHOW_TOKENS_MAX).collect();
    let is_longer = !tokens.by_ref().all(|token| is_end(&token));
    if is_longer || tokens.has_versioned() || tokens.is_ambiguous() || !tokens.is_complete() {
        return None;
    }
    while all.last().is_some_and(is_end) {
        all.pop();
    }
    let (first, rest) = all.split_first()?;
    if !first.is_word(b"SHOW") {
        return None;
    }
    let (counts, rest) = match rest {
        [count, open, star, close, rest @ ..]
            if count.is_word(b"COUNT")
                && open.kind == TokenKind::Open
                && star.text == b"*"
                && close.kind == TokenKind::Close =>
        {
            (true, rest)
        }
        rest => (false, rest),
    };
    let (what, rest) = rest.split_first()?;
    let errors_only = what.is_word(b"ERRORS");
    if !errors_only && !what.is_word(b"WARNINGS") {
        return None;
    }
    let number = |token: &Token<'_>| std::str::from_utf8(token.text).ok()?.parse().ok();
    let (offset, limit) = match rest {
        [] => (0, u64::MAX),
        [word, count] if word.is_word(b"LIMIT") && !counts => (0, number(count)?),
        [word, offset, comma, count]
            if word.is_word(b"LIMIT") && comma.kind == TokenKind::Comma && !counts =>
        {
            (number(offset)?, number(count)?)
        }
        [word, count, by, offset] if word.is_word(b"LIMIT") && by.is_word(b"OFFSET") && !counts => {
            (number(offset)?, number(count)?)
        }
        _ => return None,
    };
    Some(ShowDiagnostics { errors_only, counts, offset, limit })
}

/// Whether an `INSERT` or `REPLACE` can have been given an AUTO_INCREMENT value by something that
/// is no literal. `digest_text` is the statement's digest, where literals are `?`.
pub fn computes_values(digest_text: &[u8]) -> bool {
    let harmless: [&[u8]; 12] = [
        b"VALUES",
        b"VALUE",
        b"NULL",
        b"DEFAULT",
        b"TRUE",
        b"FALSE",
        b"NOW",
        b"CURRENT_TIMESTAMP",
        b"UTC_TIMESTAMP",
        b"CURDATE",
        b"CURTIME",
        b"UUID",
    ];
    let tokens = Tokens::new(digest_text, &Modes::default());
    let values = tokens.skip_while(|token| {
        !token.is_word(b"VALUES") && !token.is_word(b"VALUE") && !token.is_word(b"SELECT")
    });
    let mut is_empty = true;
    for token in values {
        is_empty = false;
        let is_plain = match token.kind {
            TokenKind::Parameter
            | TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::Open
            | TokenKind::Close
            | TokenKind::Semicolon
            | TokenKind::Number => true,
            TokenKind::Word => harmless.contains(&token.keyword().as_bytes()),
            _ => false,
        };
        if !is_plain {
            return true;
        }
    }
    // `INSERT … SET`, `INSERT … TABLE`, a digest that was cut off.
    is_empty
}

/// Whether `bytes`, a statement with its literals or the parameters of a prepared one, may hold
/// `number`: as decimal digits, or as an integer of the smallest size that takes it or a larger
/// one, or as a floating-point number.
pub fn mentions(bytes: &[u8], number: u64) -> bool {
    let digits = number.to_string();
    let is_number_there = memchr::memmem::find_iter(bytes, &digits).any(|at| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + digits.len());
        !before.is_some_and(|byte| matches!(byte, b'1'..=b'9'))
            && !after.is_some_and(u8::is_ascii_digit)
    });
    let has = |wanted: &[u8]| memchr::memmem::find(bytes, wanted).is_some();
    let size = match number {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        0x1_0000_0000.. => 8,
    };
    let is_written_otherwise = has(b"0x") || has(b"0X") || has(b"x'") || has(b"X'");
    #[expect(clippy::cast_precision_loss, reason = "what a driver would have done")]
    let float = (number as f64).to_le_bytes();
    is_number_there
        || is_written_otherwise
        || has(number.to_le_bytes().get(..size).unwrap_or_default())
        || has(&float)
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
        let recalled = recall(text.as_bytes(), &Modes::default(), &KNOWN);
        let recalled = recalled.map(|text| String::from_utf8(text).expect("utf-8"));
        assert_eq!(recalled.as_deref(), expected, "{text}");
    }

    #[test]
    fn questions_become_their_answers_and_keep_their_names() {
        for (text, expected) in [
            ("SELECT @@last_gtid", "SELECT '0-1-25' AS `@@last_gtid`"),
            (
                "SELECT SQL%ROWCOUNT",
                "SELECT CAST('00000000000000000003' AS SIGNED) AS `SQL%ROWCOUNT`",
            ),
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
            ("SELECT ROW_COUNT() + 1", "SELECT CAST('-0000000000000000001' AS SIGNED) + 1"),
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

    #[test]
    fn every_form_of_show_warnings_is_read() {
        let read = |text: &str| show_diagnostics(text.as_bytes(), &Modes::default());
        let of = |errors_only, counts, offset, limit| {
            Some(ShowDiagnostics { errors_only, counts, offset, limit })
        };
        assert_eq!(read("show warnings;"), of(false, false, 0, u64::MAX));
        assert_eq!(read("SHOW ERRORS LIMIT 2"), of(true, false, 0, 2));
        assert_eq!(read("SHOW WARNINGS LIMIT 1, 5"), of(false, false, 1, 5));
        assert_eq!(read("SHOW WARNINGS LIMIT 5 OFFSET 1"), of(false, false, 1, 5));
        assert_eq!(read("SHOW COUNT(*) ERRORS"), of(true, true, 0, u64::MAX));
        for text in ["SHOW TABLES", "SHOW WARNINGS; SELECT 1", "SHOW WARNINGS LIMIT x", "SELECT 1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn only_literals_are_not_computed() {
        for (text, expected) in [
            ("INSERT INTO t (a, b) VALUES (?, ?)", false),
            ("INSERT INTO t VALUES (?,NOW()),(?,DEFAULT)", false),
            ("INSERT INTO t VALUES (?,?),...", false),
            ("INSERT INTO t VALUES (? + ?)", true),
            ("INSERT INTO t SELECT ?", true),
            ("INSERT INTO t SET a = ?", true),
            ("INSERT INTO t VALUES (?) ON DUPLICATE KEY UPDATE a = ?", true),
            ("INSERT INTO t VALUES (f(?))", true),
        ] {
            assert_eq!(computes_values(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_number_is_found_however_it_is_written() {
        for (text, number, expected) in [
            (&b"INSERT INTO t VALUES (50, 1)"[..], 50, true),
            (b"INSERT INTO t VALUES ('0050', 1)", 50, true),
            (b"INSERT INTO t VALUES (150, 501)", 50, false),
            (b"INSERT INTO t VALUES (0x32)", 50, true),
            (b"\x39\x30\x00\x00", 0x3039, true),
            (b"INSERT INTO t VALUES ('text')", 70_000, false),
        ] {
            assert_eq!(mentions(text, number), expected, "{text:?} {number}");
        }
        assert!(mentions(&12_345_678_f64.to_le_bytes(), 12_345_678));
    }
}
