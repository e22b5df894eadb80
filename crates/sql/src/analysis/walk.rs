//! One pass over the tokens of a statement, looking for what makes it more than a read.

use super::{Depends, Effect, effect::Effects, function};
use crate::{
    recall,
    routine::Routines,
    token::{Token, TokenKind, Tokens},
};

/// What the words of a statement tell, whatever kind it is.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Something was seen that a statement which certainly only reads does not have.
    pub(super) may_write: bool,
    /// `FOR UPDATE` was seen.
    pub(super) is_for_update: bool,
    /// A user variable gets a value.
    pub(super) assigns_user_variable: bool,
    pub(super) depends: Depends,
    /// The answer depends on the time, on chance or on who asks.
    pub(super) varies: bool,
    /// The first SELECT, INSERT, REPLACE, UPDATE or DELETE outside parentheses.
    pub(super) verb: Option<Verb>,
}

/// The word that says what a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Select,
    Insert,
    Replace,
    Update,
    Delete,
}

/// What `name (` means in the statement at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// A call, unless the name is a keyword or names the columns of a derived table.
    Judged,
    /// As `Judged`, after the list of columns of INSERT or REPLACE.
    JudgedAfterTarget,
    /// As `Judged`, among the items of SET.
    JudgedInSet,
    /// Often no call: definitions of columns, options and the like.
    Ignored,
}

/// A call of an unknown function that may yet turn out to be a list of columns.
#[derive(Debug, Clone, Copy)]
struct Suspect {
    /// Whether its parenthesis has been passed.
    is_open: bool,
    place: Place,
}

/// Where a list of columns may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `(SELECT …) AS x (a, b)`, where no call can stand.
    Derived,
    /// `WITH x (a, b) AS (SELECT …)`, if `AS (` follows.
    With,
}

struct Walk<'e, 'a> {
    facts: Facts,
    effects: &'e mut Effects,
    calls: Calls,
    is_mariadb: bool,
    routines: Option<&'a Routines>,
    depth: u32,
    suspect: Option<Suspect>,
}

/// The tokens around the current one.
struct Window<'a> {
    before: Option<Token<'a>>,
    previous: Option<Token<'a>>,
    current: Token<'a>,
    next: Option<Token<'a>>,
    after: Option<Token<'a>>,
}

impl<'a> Window<'a> {
    fn is_next(&self, kind: TokenKind) -> bool {
        self.next.is_some_and(|token| token.kind == kind)
    }

    fn is_next_word(&self, word: &[u8]) -> bool {
        self.next.is_some_and(|token| token.is_word(word))
    }

    fn is_previous_word(&self, word: &[u8]) -> bool {
        self.previous.is_some_and(|token| token.is_word(word))
    }

    /// Whether the current word is the second part of a dotted name. A keyword needs white space
    /// after a dot to be one.
    fn is_dotted(&self) -> bool {
        self.previous
            .is_some_and(|token| token.kind == TokenKind::Dot && token.end() == self.current.offset)
    }
}

/// Walks over one statement and its `;`.
pub(super) fn walk(tokens: &mut Tokens<'_>, calls: Calls, effects: &mut Effects) -> Facts {
    let is_mariadb = tokens.modes().flavor_mariadb;
    let facts = Facts::default();
    let routines = tokens.routines();
    let mut walk = Walk { facts, effects, calls, is_mariadb, routines, depth: 0, suspect: None };
    let mut statement = tokens.take_while(|token| token.kind != TokenKind::Semicolon).fuse();
    let (mut before, mut previous) = (None, None);
    let mut current = statement.next();
    let mut next = statement.next();
    while let Some(token) = current {
        let after = statement.next();
        walk.token(&Window { before, previous, current: token, next, after });
        before = previous;
        previous = current;
        current = next;
        next = after;
    }
    if walk.suspect.is_some() {
        walk.unknown_call();
    }
    walk.facts
}

impl Walk<'_, '_> {
    fn token(&mut self, window: &Window<'_>) {
        self.check_suspect(window);
        match window.current.kind {
            TokenKind::Open => {
                self.query_behind_with(window, window.next);
                self.depth = self.depth.saturating_add(1);
            }
            TokenKind::Close => self.depth = self.depth.saturating_sub(1),
            TokenKind::Assign => self.assign(window),
            TokenKind::UserVariable => self.user_variable(window),
            TokenKind::SystemVariable => self.system_variable(window.current.text),
            TokenKind::QuotedIdentifier if window.is_next(TokenKind::Open) => self.call(window),
            // No syntax has these before a parenthesis, but a digest may hide a name as one.
            TokenKind::String | TokenKind::Number if window.is_next(TokenKind::Open) => {
                self.facts.may_write = true;
            }
            TokenKind::Word => self.word(window),
            TokenKind::QuotedIdentifier
            | TokenKind::String
            | TokenKind::Number
            | TokenKind::Parameter
            | TokenKind::Semicolon
            | TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::Operator => {}
        }
    }

    /// `:=`. An item of SET is known to the parser of SET.
    fn assign(&mut self, window: &Window<'_>) {
        self.facts.may_write = true;
        let begins_item =
            |token: Token<'_>| token.kind == TokenKind::Comma || token.is_word(b"SET");
        let is_item = self.calls == Calls::JudgedInSet
            && self.depth == 0
            && window.before.is_some_and(begins_item);
        let assigned = window.previous.filter(|token| token.kind == TokenKind::UserVariable);
        if let (Some(token), false) = (assigned, is_item) {
            let name = crate::set::user_variable_name(token.text);
            self.effects.push(Effect::UserVariableAssigned(Some(name)));
        }
    }

    fn user_variable(&mut self, window: &Window<'_>) {
        self.facts.may_write = true;
        let is_set = window.next.is_some_and(|token| token.text == b"=")
            && window
                .previous
                .is_some_and(|token| token.kind == TokenKind::Comma || token.is_word(b"SET"));
        if window.is_previous_word(b"INTO") {
            self.facts.assigns_user_variable = true;
        } else if !window.is_next(TokenKind::Assign) && !is_set {
            self.facts.depends.insert(Depends::USER_VARIABLE_READ);
        }
    }

    fn system_variable(&mut self, text: &[u8]) {
        self.facts.may_write = true;
        let name = text.rsplit(|byte| matches!(byte, b'.' | b'@')).next().unwrap_or_default();
        let name = crate::token::unquote(name);
        self.facts.depends.insert(match name.to_ascii_lowercase().as_slice() {
            b"identity" | b"last_insert_id" => Depends::LAST_INSERT_ID,
            b"warning_count" | b"error_count" => Depends::DIAGNOSTICS,
            b"pseudo_thread_id" => Depends::CONNECTION_ID,
            name if recall::is_tracker(name) => Depends::TRACKERS,
            _ => Depends::empty(),
        });
    }

    fn word(&mut self, window: &Window<'_>) {
        let keyword = window.current.keyword();
        let upper = keyword.as_bytes();
        if window.is_dotted() {
            // `sequence.NEXTVAL` is a call without parentheses.
            self.facts.may_write |= matches!(upper, b"NEXTVAL" | b"CURRVAL" | b"LASTVAL");
            if window.is_next(TokenKind::Open) {
                self.call(window);
            }
            return;
        }
        let is_before_open = window.is_next(TokenKind::Open);
        match upper {
            b"SELECT" => self.verb(Verb::Select),
            b"TABLE" | b"VALUES" => self.query_behind_with(window, Some(window.current)),
            b"INSERT" if !is_before_open => self.write_verb(Verb::Insert),
            b"REPLACE" if !is_before_open => self.write_verb(Verb::Replace),
            b"UPDATE" => self.write_verb(Verb::Update),
            b"DELETE" => self.write_verb(Verb::Delete),
            b"INTO" | b"LOCK" => self.facts.may_write = true,
            b"FOR" if window.is_next_word(b"UPDATE") => {
                self.facts.may_write = true;
                self.facts.is_for_update = true;
            }
            b"FOR" if window.is_next_word(b"SHARE") => self.facts.may_write = true,
            b"NEXT" | b"PREVIOUS" if window.is_next_word(b"VALUE") => self.facts.may_write = true,
            b"SQL_CALC_FOUND_ROWS" => {
                self.facts.may_write = true;
                self.effects.push(Effect::CalcFoundRows);
            }
            _ => {}
        }
        self.facts.varies |= function::varies(upper, is_before_open, self.has_arguments(window));
        self.end_target(upper);
        if is_before_open && !self.known_call(upper, window) {
            self.call(window);
        }
    }

    /// Whether something stands in the parentheses behind the current word.
    fn has_arguments(&self, window: &Window<'_>) -> bool {
        window.after.is_some_and(|token| token.kind != TokenKind::Close)
    }

    /// Behind the last `)` of common table expressions: a query that does not begin with `SELECT`,
    /// but perhaps with `(`, `first` being its first word.
    fn query_behind_with(&mut self, window: &Window<'_>, first: Option<Token<'_>>) {
        let follows = window.previous.is_some_and(|token| token.kind == TokenKind::Close);
        let first = first.map(|token| token.keyword()).unwrap_or_default();
        if follows && matches!(first.as_bytes(), b"SELECT" | b"TABLE" | b"VALUES") {
            self.verb(Verb::Select);
        }
    }

    fn verb(&mut self, verb: Verb) {
        if self.depth == 0 && self.facts.verb.is_none() {
            self.facts.verb = Some(verb);
        }
    }

    fn write_verb(&mut self, verb: Verb) {
        self.facts.may_write = true;
        self.verb(verb);
    }

    /// After the table of an INSERT and its columns, `name (` is a call.
    fn end_target(&mut self, upper: &[u8]) {
        let ends = matches!(upper, b"VALUES" | b"VALUE" | b"SELECT" | b"SET" | b"WITH" | b"TABLE");
        if ends && self.calls == Calls::JudgedAfterTarget {
            self.calls = Calls::Judged;
        }
    }

    /// Handles calls of functions with a meaning of their own, and what is harmless.
    fn known_call(&mut self, upper: &[u8], window: &Window<'_>) -> bool {
        let depends = match upper {
            b"LAST_INSERT_ID" => {
                if window.after.is_some_and(|token| token.kind != TokenKind::Close) {
                    self.effects.push(Effect::LastInsertIdAssigned);
                }
                Depends::LAST_INSERT_ID
            }
            b"ROW_COUNT" => Depends::ROW_COUNT,
            b"FOUND_ROWS" => Depends::FOUND_ROWS,
            b"CONNECTION_ID" | b"PS_CURRENT_THREAD_ID" => Depends::CONNECTION_ID,
            // Which locks, and whether at all, is seen in the simplest statements only.
            b"GET_LOCK" => {
                self.effects.push(Effect::GetLock(None));
                Depends::empty()
            }
            b"RELEASE_LOCK" | b"RELEASE_ALL_LOCKS" => {
                self.effects.push(Effect::ReleaseLock(None));
                Depends::empty()
            }
            // These tell of the server or change it; they leave nothing in the session.
            b"IS_FREE_LOCK" | b"IS_USED_LOCK" | b"LOAD_FILE" | b"PS_THREAD_ID" => Depends::empty(),
            b"MASTER_POS_WAIT" | b"SOURCE_POS_WAIT" | b"MASTER_GTID_WAIT" => Depends::empty(),
            b"WAIT_FOR_EXECUTED_GTID_SET" | b"BINLOG_GTID_POS" => Depends::empty(),
            _ => return function::is_harmless(upper, self.is_mariadb),
        };
        self.facts.may_write = true;
        self.facts.depends.insert(depends);
        true
    }

    /// A name that is not known stands before a parenthesis.
    fn call(&mut self, window: &Window<'_>) {
        match self.calls {
            Calls::Ignored | Calls::JudgedAfterTarget => {
                self.facts.may_write = true;
                return;
            }
            Calls::Judged | Calls::JudgedInSet => {}
        }
        if self.is_of_known_routine(window) {
            // What it reads may change by itself, as far as can be seen.
            self.facts.varies = true;
            return;
        }
        if self.suspect.is_some() || window.is_dotted() {
            self.unknown_call();
            return;
        }
        let is_close =
            |token: Option<Token<'_>>| token.is_some_and(|token| token.kind == TokenKind::Close);
        let previous = window.previous.map(|token| token.keyword());
        let place = match previous.unwrap_or_default().as_bytes() {
            b"WITH" | b"RECURSIVE" => Some(Place::With),
            b"AS" if is_close(window.before) => Some(Place::Derived),
            _ if is_close(window.previous) => Some(Place::Derived),
            // The comma after the query of another common table expression.
            _ if window.previous.is_some_and(|token| token.kind == TokenKind::Comma)
                && is_close(window.before) =>
            {
                Some(Place::With)
            }
            _ => None,
        };
        match place {
            Some(place) => self.suspect = Some(Suspect { is_open: false, place }),
            None => self.unknown_call(),
        }
    }

    fn is_of_known_routine(&self, window: &Window<'_>) -> bool {
        let Some(routines) = self.routines else {
            return false;
        };
        let is_dot = |token: &Token<'_>| token.kind == TokenKind::Dot;
        let name = window.current.unquoted();
        match window.previous.filter(is_dot) {
            None => routines.knows(None, &name),
            // What stands before the dot may be written in other ways, which are not known.
            Some(_) => window
                .before
                .filter(Token::is_name)
                .is_some_and(|schema| routines.knows(Some(&schema.unquoted()), &name)),
        }
    }

    fn unknown_call(&mut self) {
        self.facts.may_write = true;
        self.facts.depends.insert(Depends::UNKNOWN_FUNCTION);
    }

    /// Decides whether what is in the suspect's parentheses is a list of columns.
    fn check_suspect(&mut self, window: &Window<'_>) {
        let Some(suspect) = self.suspect.as_mut() else {
            return;
        };
        let is_list = match window.current.kind {
            TokenKind::Open if !suspect.is_open => {
                suspect.is_open = true;
                true
            }
            TokenKind::Close => {
                let is_with = window.is_next_word(b"AS")
                    && window.after.is_some_and(|token| token.kind == TokenKind::Open);
                let is_list = suspect.place == Place::Derived || is_with;
                self.suspect = None;
                is_list
            }
            TokenKind::Word | TokenKind::QuotedIdentifier => !window.is_next(TokenKind::Open),
            TokenKind::Comma => true,
            _ => false,
        };
        if !is_list {
            self.suspect = None;
            self.unknown_call();
        }
    }
}
