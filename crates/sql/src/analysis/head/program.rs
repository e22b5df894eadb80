//! Where the definition of a stored program ends.
//!
//! `BEGIN` and `END` are names as well as keywords, so an end that is not beyond doubt is none.

use crate::token::{Token, TokenKind, Tokens};

/// What an `END` closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Begin,
    Case,
}

/// Where a token stands between `WHILE` or `FOR` and the statements of its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoopHead {
    None,
    /// Before its `DO`.
    Open,
    /// Right behind its `DO`.
    Passed,
}

/// The deepest nesting that is followed.
const DEPTH_MAX: usize = 256;

/// Skips to the `;` that ends the stored program, and takes it. False if it is not certain where
/// that is; then the whole text is taken.
pub(super) fn skip(tokens: &mut Tokens<'_>) -> bool {
    let is_certain = skip_body(tokens).is_some();
    if !is_certain {
        tokens.for_each(drop);
    }
    is_certain
}

fn skip_body(tokens: &mut Tokens<'_>) -> Option<()> {
    let mut program = Program {
        blocks: Vec::new(),
        before: [None, None],
        depth: 0,
        awaits_body: true,
        is_declared: false,
        loop_head: LoopHead::None,
    };
    while let Some(token) = tokens.next() {
        if token.kind == TokenKind::Semicolon && program.blocks.is_empty() {
            return (!goes_on(tokens)).then_some(());
        }
        program.take(token, &Next::of(tokens))?;
    }
    program.blocks.is_empty().then_some(())
}

/// A stored program, up to a token.
struct Program<'a> {
    blocks: Vec<Block>,
    /// The last token, and the one before that.
    before: [Option<Token<'a>>; 2],
    /// How many parentheses are open: no block begins within any.
    depth: usize,
    /// A body may begin, without anything that says so: behind the words before the first one, and
    /// behind `DECLARE … HANDLER FOR …`.
    awaits_body: bool,
    /// Within a `DECLARE`.
    is_declared: bool,
    loop_head: LoopHead,
}

impl<'a> Program<'a> {
    /// Takes the next token; `None` when it is not certain what it is.
    fn take(&mut self, token: Token<'a>, next: &Next) -> Option<()> {
        let [before, earlier] = self.before;
        self.before = [Some(token), before];
        match token.kind {
            TokenKind::Open => self.depth = self.depth.saturating_add(1),
            TokenKind::Close => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        let is_first = self.depth == 0 && before.as_ref().is_some_and(is_before_statement);
        if !is_part_of_name(before.as_ref(), next) {
            let keyword = token.keyword();
            match keyword.as_bytes() {
                b"BEGIN" => {
                    let is_certain = self.begins_block(before?, earlier, next);
                    self.open(Block::Begin).filter(|()| is_certain)?;
                }
                b"CASE" if !before.is_some_and(|before| before.is_word(b"END")) => {
                    self.open(Block::Case)?;
                }
                b"END" => self.end(before?, next)?,
                b"DECLARE" => self.is_declared = is_first,
                b"HANDLER" => self.awaits_body |= self.is_declared,
                _ => {}
            }
        }
        let is_over = token.kind == TokenKind::Semicolon;
        self.loop_head = match self.loop_head {
            _ if is_first && (token.is_word(b"WHILE") || token.is_word(b"FOR")) => LoopHead::Open,
            LoopHead::Open if self.depth == 0 && token.is_word(b"DO") => LoopHead::Passed,
            LoopHead::Open if !is_over => LoopHead::Open,
            _ => LoopHead::None,
        };
        self.is_declared &= !is_over;
        self.awaits_body &= !is_over && !is_verb(&token, before.as_ref());
        Some(())
    }

    /// Whether a `BEGIN` behind these two tokens certainly begins a block: it may be a name.
    fn begins_block(&self, before: Token<'_>, earlier: Option<Token<'_>>, next: &Next) -> bool {
        let is_here = match before.is_word(b"DO") {
            // `DO begin IS NULL` is a statement, and `UPDATE do begin SET …` has a table's alias.
            true => self.loop_head == LoopHead::Passed || self.awaits_body && next.is_verb,
            false => is_before_statement(&before) || self.awaits_body && ends_head(before, earlier),
        };
        is_here && self.depth == 0 && next.may_follow_begin
    }

    /// A block begins. In a `CASE`, a `BEGIN` may be a value's name.
    fn open(&mut self, block: Block) -> Option<()> {
        let is_value = block == Block::Begin && self.blocks.last() == Some(&Block::Case);
        (!is_value && self.blocks.len() < DEPTH_MAX).then(|| self.blocks.push(block))
    }

    fn end(&mut self, before: Token<'_>, next: &Next) -> Option<()> {
        let is_after_statement = before.kind == TokenKind::Semicolon;
        if next.is_kept_word {
            // `END IF` and its like: what it ends was not counted as begun.
            return is_after_statement.then_some(());
        }
        match self.blocks.pop()? {
            Block::Begin => (is_after_statement || before.is_word(b"BEGIN")).then_some(()),
            Block::Case => may_end_value(&before).then_some(()),
        }
    }
}

/// What the token behind the current one says of it.
struct Next {
    is_dot: bool,
    /// `END` before it ends something other than `BEGIN` or `CASE`.
    is_kept_word: bool,
    may_follow_begin: bool,
    /// It begins a statement, and can't go on with an expression or name it.
    is_verb: bool,
}

impl Next {
    fn of(tokens: &Tokens<'_>) -> Self {
        let next = tokens.clone().next();
        let keyword = next.map(|token| token.keyword()).unwrap_or_default();
        Self {
            is_dot: next.is_some_and(|token| token.kind == TokenKind::Dot),
            is_kept_word: matches!(
                keyword.as_bytes(),
                b"IF" | b"LOOP" | b"REPEAT" | b"WHILE" | b"FOR"
            ),
            may_follow_begin: next.is_some_and(|token| token.is_name()),
            is_verb: matches!(
                keyword.as_bytes(),
                b"DECLARE"
                    | b"SET"
                    | b"SELECT"
                    | b"INSERT"
                    | b"UPDATE"
                    | b"DELETE"
                    | b"REPLACE"
                    | b"CALL"
                    | b"IF"
                    | b"CASE"
                    | b"WHILE"
                    | b"LOOP"
                    | b"REPEAT"
            ),
        }
    }
}

/// Whether a word is a part of a name with dots.
fn is_part_of_name(before: Option<&Token<'_>>, next: &Next) -> bool {
    next.is_dot || before.is_some_and(|token| token.kind == TokenKind::Dot)
}

/// Whether a statement of a stored program can begin behind this token.
fn is_before_statement(token: &Token<'_>) -> bool {
    let is_word = matches!(
        token.keyword().as_bytes(),
        b"BEGIN" | b"THEN" | b"ELSE" | b"DO" | b"LOOP" | b"REPEAT"
    );
    is_word || token.kind == TokenKind::Semicolon || token.text == b":"
}

/// Whether the words before a body can be over with this token, so that a `BEGIN` behind it is no
/// name. Words that name things are followed by names: `IN begin INT`, `CREATE VIEW begin AS …`.
fn ends_head(token: Token<'_>, before: Option<Token<'_>>) -> bool {
    let is_behind =
        |words: &[&[u8]]| before.is_some_and(|before| words.iter().any(|it| before.is_word(it)));
    match token.kind {
        TokenKind::Close | TokenKind::String | TokenKind::Number | TokenKind::QuotedIdentifier => {
            true
        }
        TokenKind::Word => {
            // A character set, a collation, a trigger's neighbour: `CHARACTER SET latin1 BEGIN`.
            is_behind(&[b"CHARSET", b"SET", b"COLLATE", b"FOLLOWS", b"PRECEDES", b"SECURITY"])
                || ends_characteristic(&token)
                || is_type(&token)
        }
        TokenKind::UserVariable
        | TokenKind::SystemVariable
        | TokenKind::Parameter
        | TokenKind::Semicolon
        | TokenKind::Comma
        | TokenKind::Dot
        | TokenKind::Open
        | TokenKind::Assign
        | TokenKind::Operator => false,
    }
}

/// The last words of what is said of a program, a trigger or a handler.
fn ends_characteristic(token: &Token<'_>) -> bool {
    matches!(
        token.keyword().as_bytes(),
        b"DETERMINISTIC" | b"SQL" | b"DATA" | b"ROW" | b"SQLEXCEPTION" | b"SQLWARNING" | b"FOUND"
    )
}

/// Words that a type ends with.
fn is_type(token: &Token<'_>) -> bool {
    matches!(
        token.keyword().as_bytes(),
        b"INT"
            | b"INTEGER"
            | b"TINYINT"
            | b"SMALLINT"
            | b"MEDIUMINT"
            | b"BIGINT"
            | b"UNSIGNED"
            | b"ZEROFILL"
            | b"BOOL"
            | b"BOOLEAN"
            | b"DECIMAL"
            | b"NUMERIC"
            | b"FLOAT"
            | b"DOUBLE"
            | b"REAL"
            | b"DATE"
            | b"TIME"
            | b"DATETIME"
            | b"TIMESTAMP"
            | b"YEAR"
            | b"CHAR"
            | b"TEXT"
            | b"TINYTEXT"
            | b"MEDIUMTEXT"
            | b"LONGTEXT"
            | b"BLOB"
            | b"TINYBLOB"
            | b"MEDIUMBLOB"
            | b"LONGBLOB"
            | b"JSON"
            | b"UUID"
    )
}

/// Whether an expression, or a statement of `CASE`, can be over with this token.
fn may_end_value(token: &Token<'_>) -> bool {
    match token.kind {
        TokenKind::Word => !matches!(
            token.keyword().as_bytes(),
            b"CASE"
                | b"WHEN"
                | b"THEN"
                | b"ELSE"
                | b"AND"
                | b"OR"
                | b"NOT"
                | b"XOR"
                | b"DIV"
                | b"MOD"
                | b"LIKE"
                | b"IN"
                | b"IS"
                | b"BETWEEN"
                | b"REGEXP"
                | b"RLIKE"
        ),
        TokenKind::QuotedIdentifier
        | TokenKind::String
        | TokenKind::Number
        | TokenKind::UserVariable
        | TokenKind::SystemVariable
        | TokenKind::Parameter
        | TokenKind::Semicolon
        | TokenKind::Close => true,
        TokenKind::Comma
        | TokenKind::Dot
        | TokenKind::Open
        | TokenKind::Assign
        | TokenKind::Operator => false,
    }
}

/// Whether the body of one statement has begun, so that a `BEGIN` behind it is a name.
fn is_verb(token: &Token<'_>, before: Option<&Token<'_>>) -> bool {
    let is_behind = |words: &[&[u8]]| {
        before.is_some_and(|before| words.iter().any(|word| before.is_word(word)))
    };
    match token.keyword().as_bytes() {
        // The first word is the definition's own.
        b"CREATE" | b"ALTER" => before.is_some(),
        b"INSERT" | b"UPDATE" | b"DELETE" => !is_behind(&[b"BEFORE", b"AFTER", b"OR"]),
        b"REPLACE" => !is_behind(&[b"OR"]),
        b"HANDLER" => !is_behind(&[b"CONTINUE", b"EXIT", b"UNDO"]),
        b"SELECT" | b"WITH" | b"VALUES" | b"TABLE" | b"CALL" | b"RETURN" | b"LOCK" | b"UNLOCK"
        | b"LOAD" | b"GRANT" | b"REVOKE" | b"RENAME" | b"DROP" | b"TRUNCATE" | b"SHOW"
        | b"EXPLAIN" | b"DESCRIBE" | b"DESC" | b"XA" | b"PREPARE" | b"EXECUTE" | b"ANALYZE"
        | b"CHECK" | b"OPTIMIZE" | b"REPAIR" | b"FLUSH" | b"KILL" | b"PURGE" | b"RESET"
        | b"CACHE" | b"CHANGE" | b"START" | b"COMMIT" | b"ROLLBACK" | b"SAVEPOINT" | b"SIGNAL"
        | b"RESIGNAL" | b"GET" | b"OPEN" | b"FETCH" | b"CLOSE" => true,
        _ => false,
    }
}

/// The longest text behind a stored program, in bytes, that is looked through for more of it.
const REST_MAX: usize = 16_384;

/// Whether more of the program may follow: whatever holds `;` ends with an `END`.
fn goes_on(tokens: &Tokens<'_>) -> bool {
    let (rest, mut is_dotted) = (tokens.clone(), false);
    for token in rest {
        let is_far = token.end() > tokens.offset() + REST_MAX;
        if is_far || token.is_word(b"END") && !is_dotted {
            return true;
        }
        is_dotted = token.kind == TokenKind::Dot;
    }
    false
}
