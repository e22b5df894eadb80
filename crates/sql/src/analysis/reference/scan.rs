//! One pass over a statement with a stack of parentheses.
//!
//! What keeps it sound: a table's name stands only behind words that are reserved in both
//! families (`FROM`, `JOIN`, `STRAIGHT_JOIN`, `INTO`, `UPDATE`, `TABLE`, `USING`), behind the
//! commas of their lists, and in the forms of sequences. Each such word, wherever it stands, is
//! either understood or ends the scan, and a list is left only at words that are reserved in both
//! families, so no alias can look like its end.

use super::{
    References, TableAccess,
    frame::{Definition, Frame, State},
};
use crate::{
    analysis::cursor::Cursor,
    token::{Encoding, Keyword, Modes, Token, TokenKind, Tokens},
};

/// The most parentheses inside one another.
const FRAMES_MAX: usize = 128;
/// The most common table expressions that are visible at one place.
const EXPRESSIONS_MAX: usize = 64;

pub(super) struct Scan<'a, 'r> {
    cursor: Cursor<'a>,
    pub(super) found: &'r mut References,
    frames: Vec<Frame>,
    /// The names of the common table expressions that are visible.
    pub(super) expressions: Vec<Vec<u8>>,
    /// The tokens that were taken, the last one first.
    taken: [Option<Token<'a>>; 5],
    /// Those before the one at hand.
    pub(super) before: [Option<Token<'a>>; 4],
}

/// Whether a word names no table unless it is quoted or stands behind a dot: each is reserved in
/// both families.
pub(super) fn is_reserved(word: &[u8]) -> bool {
    matches!(
        word,
        b"SELECT"
            | b"FROM"
            | b"JOIN"
            | b"STRAIGHT_JOIN"
            | b"WHERE"
            | b"GROUP"
            | b"HAVING"
            | b"ORDER"
            | b"LIMIT"
            | b"INTO"
            | b"FOR"
            | b"LOCK"
            | b"PROCEDURE"
            | b"FETCH"
            | b"UNION"
            | b"EXCEPT"
            | b"INTERSECT"
            | b"SET"
            | b"WITH"
            | b"TABLE"
            | b"VALUES"
            | b"UPDATE"
            | b"DELETE"
            | b"INSERT"
            | b"REPLACE"
            | b"ON"
            | b"USING"
            | b"AS"
            | b"BY"
            | b"USE"
            | b"FORCE"
            | b"IGNORE"
            | b"INDEX"
            | b"KEY"
            | b"INNER"
            | b"CROSS"
            | b"LEFT"
            | b"RIGHT"
            | b"NATURAL"
            | b"RECURSIVE"
            | b"DISTINCT"
    )
}

impl<'a, 'r> Scan<'a, 'r> {
    pub(super) fn new(tokens: &Tokens<'a>, found: &'r mut References) -> Self {
        Self {
            cursor: Cursor::new(tokens),
            found,
            frames: vec![Frame::new(State::Query, 0)],
            expressions: Vec::new(),
            taken: [None; 5],
            before: [None; 4],
        }
    }

    /// Whether the statement is a `CALL` of a routine that is declared to read only.
    pub(super) fn calls_known_routine(&self) -> bool {
        let mut cursor = self.cursor.clone();
        cursor.next();
        cursor.table_name().is_some_and(|routine| self.cursor.knows(&routine))
    }

    /// Takes what is left of a statement in which no table can be named.
    pub(super) fn skip_rest(&mut self) -> Option<()> {
        while self.advance().is_some() {}
        Some(())
    }

    /// Reads to the end of the statement.
    pub(super) fn run(&mut self) -> Option<()> {
        while let Some(token) = self.advance() {
            self.token(&token)?;
        }
        let is_whole = self.frames.len() == 1 && self.frame()?.state.may_end();
        is_whole.then_some(())
    }

    fn token(&mut self, token: &Token<'a>) -> Option<()> {
        self.check_operator(token)?;
        match token.kind {
            TokenKind::Open => self.open(),
            TokenKind::Close => self.close(),
            TokenKind::Comma => self.comma(),
            TokenKind::Word | TokenKind::QuotedIdentifier => self.word(token),
            TokenKind::String
            | TokenKind::Number
            | TokenKind::UserVariable
            | TokenKind::SystemVariable
            | TokenKind::Parameter
            | TokenKind::Semicolon
            | TokenKind::Dot
            | TokenKind::Assign
            | TokenKind::Operator => self.expression(),
        }
    }

    /// A token that may only stand in an expression.
    fn expression(&mut self) -> Option<()> {
        match self.frame()?.state {
            State::Query | State::OpenTables | State::Table | State::Defined => return None,
            State::Open => self.set_state(State::Arguments),
            State::Source => self.set_state(State::Rest),
            State::Tables | State::Items | State::Rest | State::Arguments => {}
        }
        Some(())
    }

    /// No operator of SQL is unknown: `[` quotes names and `\N` is a literal in some modes.
    pub(super) fn check_operator(&self, token: &Token<'a>) -> Option<()> {
        let known = b"*+-/%=<>!&|^~{}:";
        let is_known = token.text.iter().all(|byte| known.contains(byte));
        (token.kind != TokenKind::Operator || is_known).then_some(())
    }

    fn open(&mut self) -> Option<()> {
        let frame = self.frame()?;
        let access = frame.access;
        let (inner, outer) = match frame.state {
            State::Query | State::Defined => (State::Query, State::Rest),
            State::Open => (State::Open, State::Arguments),
            State::OpenTables | State::Table => (State::OpenTables, State::Tables),
            State::Source => (State::Open, State::Source),
            stays @ (State::Tables | State::Items | State::Rest | State::Arguments) => {
                (State::Open, stays)
            }
        };
        self.set_state(outer);
        self.push(inner)?;
        if inner == State::OpenTables {
            self.frame_mut()?.access = access;
        }
        Some(())
    }

    /// Enters a pair of parentheses.
    pub(super) fn push(&mut self, state: State) -> Option<()> {
        if self.frames.len() >= FRAMES_MAX {
            return None;
        }
        self.frames.push(Frame::new(state, self.expressions.len()));
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        let frame = self.frames.pop()?;
        self.expressions.truncate(frame.visible);
        // What is left must hold the parenthesis.
        let outer = self.frames.last_mut()?;
        if !frame.state.may_end() {
            return None;
        }
        if let Some(definition) = frame.defines {
            outer.state = State::Defined;
            if let Definition::Named(name) = definition {
                self.define(name)?;
            }
        }
        Some(())
    }

    fn comma(&mut self) -> Option<()> {
        match self.frame()?.state {
            State::Tables => self.set_state(State::Table),
            State::Defined => return self.definition(),
            State::Query
            | State::Open
            | State::OpenTables
            | State::Table
            | State::Items
            | State::Rest
            | State::Arguments
            | State::Source => return self.expression(),
        }
        Some(())
    }

    fn word(&mut self, token: &Token<'a>) -> Option<()> {
        let keyword = match self.is_part(token) {
            true => Keyword::default(),
            false => token.keyword(),
        };
        let word = keyword.as_bytes();
        // Before a dot it is a name to the server, or a mistake.
        let is_before_dot =
            |next: Token<'_>| next.kind == TokenKind::Dot && next.offset == token.end();
        if is_reserved(word) && self.peek().is_some_and(is_before_dot) {
            return None;
        }
        match self.frame()?.state {
            State::Table => return self.table(token, word),
            State::OpenTables if !matches!(word, b"SELECT" | b"WITH" | b"VALUES" | b"TABLE") => {
                return self.table(token, word);
            }
            State::Query | State::Open | State::OpenTables | State::Source | State::Defined => {
                if self.begin(word)? {
                    return Some(());
                }
            }
            State::Tables | State::Items | State::Rest | State::Arguments => {}
        }
        match word {
            b"" | b"CURRVAL" => self.sequence(token),
            b"SELECT" | b"TABLE" | b"UPDATE" | b"DELETE" => None,
            b"INSERT" | b"REPLACE" => {
                let is_call = self.peek().is_some_and(|next| next.kind == TokenKind::Open);
                is_call.then_some(())
            }
            b"NEXT" | b"PREVIOUS" => self.value_of_sequence(),
            b"NEXTVAL" | b"LASTVAL" | b"SETVAL" => {
                self.sequence(token)?;
                self.call_of_sequence()
            }
            _ => self.clause(word),
        }
    }

    /// `sequence.NEXTVAL`; its name may also be of a column.
    fn sequence(&mut self, token: &Token<'a>) -> Option<()> {
        let [last, ..] = self.before;
        let is_dotted = last.is_some_and(|last| last.kind == TokenKind::Dot);
        let keyword = Keyword::new(&token.unquoted());
        let is_value = matches!(keyword.as_bytes(), b"NEXTVAL" | b"CURRVAL" | b"LASTVAL");
        match is_dotted && is_value && self.is_mariadb() {
            true => self.dotted_sequence(),
            false => Some(()),
        }
    }

    /// A word where a query may begin. False if it is to be read as one of an expression.
    fn begin(&mut self, word: &[u8]) -> Option<bool> {
        let (state, is_outmost) = (self.frame()?.state, self.frames.len() == 1);
        match word {
            b"SELECT" => {
                self.frame_mut()?.access = TableAccess::Read;
                self.set_state(State::Items);
            }
            b"VALUES" => self.set_state(State::Rest),
            b"TABLE" => {
                let name = self.name()?;
                self.use_table(name, TableAccess::Read)?;
                self.set_state(State::Rest);
            }
            b"WITH" if state != State::Defined => {
                self.frame_mut()?.is_recursive = self.accept(b"RECURSIVE");
                self.definition()?;
            }
            b"ALL" | b"DISTINCT" if state == State::Query => {}
            b"UPDATE" if is_outmost && matches!(state, State::Query | State::Defined) => {
                self.update()?;
            }
            b"DELETE" if is_outmost && matches!(state, State::Query | State::Defined) => {
                self.delete()?;
            }
            b"CYCLE" if state == State::Defined => {
                while !self.accept(b"RESTRICT") {
                    self.advance()?;
                }
            }
            b"PARTITION" if state == State::Source => {}
            _ => {
                self.expression()?;
                return Some(false);
            }
        }
        Some(true)
    }

    /// `name [(columns)] AS (`.
    fn definition(&mut self) -> Option<()> {
        let token = self.advance()?;
        let name = self.part(&token)?;
        if self.accept_kind(TokenKind::Open) {
            while !self.accept_kind(TokenKind::Close) {
                let token = self.advance()?;
                if !token.is_name() && token.kind != TokenKind::Comma {
                    return None;
                }
            }
        }
        if !(self.accept(b"AS") && self.accept_kind(TokenKind::Open)) {
            return None;
        }
        let definition = match self.frame()?.is_recursive {
            true => {
                self.define(name)?;
                Definition::Recursive
            }
            false => Definition::Named(name),
        };
        self.push(State::Query)?;
        self.frame_mut()?.defines = Some(definition);
        Some(())
    }

    fn define(&mut self, name: Vec<u8>) -> Option<()> {
        self.expressions.push(name);
        (self.expressions.len() <= EXPRESSIONS_MAX).then_some(())
    }

    /// Forgets the common table expressions of the parenthesis at hand.
    pub(super) fn leave_expressions(&mut self) -> Option<()> {
        let visible = self.frame()?.visible;
        self.expressions.truncate(visible);
        Some(())
    }

    pub(super) fn is_outmost(&self) -> bool {
        self.frames.len() == 1
    }

    pub(super) fn is_mariadb(&self) -> bool {
        self.cursor.modes().flavor_mariadb
    }

    pub(super) fn modes(&self) -> &Modes {
        self.cursor.modes()
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.cursor.modes().encoding
    }

    pub(super) fn frame(&self) -> Option<&Frame> {
        self.frames.last()
    }

    pub(super) fn frame_mut(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }

    pub(super) fn set_state(&mut self, state: State) {
        if let Some(frame) = self.frames.last_mut() {
            frame.state = state;
        }
    }

    /// Whether a word is no keyword: it is quoted, or stands right behind a dot.
    pub(super) fn is_part(&self, token: &Token<'a>) -> bool {
        let [last, ..] = self.before;
        token.kind == TokenKind::QuotedIdentifier
            || last.is_some_and(|dot| dot.kind == TokenKind::Dot && dot.end() == token.offset)
    }

    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.cursor.peek()
    }

    pub(super) fn peek_second(&self) -> Option<Token<'a>> {
        self.cursor.peek_second()
    }

    /// A copy of the reader, to look ahead with.
    pub(super) fn ahead(&self) -> Cursor<'a> {
        self.cursor.clone()
    }

    pub(super) fn keyword(&self) -> Keyword {
        self.cursor.keyword()
    }

    pub(super) fn is_next(&self, word: &[u8]) -> bool {
        self.peek().is_some_and(|token| token.is_word(word))
    }

    /// Takes the next token.
    pub(super) fn advance(&mut self) -> Option<Token<'a>> {
        let token = self.cursor.next()?;
        let [first, second, third, fourth, _] = self.taken;
        self.before = [first, second, third, fourth];
        self.taken = [Some(token), first, second, third, fourth];
        Some(token)
    }

    /// Takes the next token if it is the keyword `word`.
    pub(super) fn accept(&mut self, word: &[u8]) -> bool {
        self.is_next(word) && self.advance().is_some()
    }

    pub(super) fn accept_any(&mut self, words: &[&[u8]]) -> bool {
        words.iter().any(|word| self.accept(word))
    }

    pub(super) fn accept_kind(&mut self, kind: TokenKind) -> bool {
        self.peek().is_some_and(|token| token.kind == kind) && self.advance().is_some()
    }
}
