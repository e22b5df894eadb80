//! One pass over the tokens of a statement, looking for what makes it more than a read.

use super::{
    Depends, Effect,
    effect::Effects,
    function::{self, Call, Meaning, Written},
    past,
};
use crate::{
    recall,
    routine::Routines,
    token::{Keyword, Modes, Token, TokenKind, Tokens},
};

/// What the words of a statement tell, whatever kind it is.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Something was seen that a statement which certainly only reads does not have.
    pub(super) may_write: bool,
    /// `FOR UPDATE` was seen.
    pub(super) is_for_update: bool,
    /// As in [`Analysis`](super::Analysis).
    pub(super) locks_or_exports: bool,
    /// It calls a routine that is declared to read only.
    pub(super) calls_declared: bool,
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
    /// As `Judged`, from the query on; before it are definitions of columns.
    JudgedInQuery,
    /// As `Judged`, from the clause `SET`; before it are options and columns.
    JudgedInAssignments,
    /// Often no call: definitions of columns, options and the like.
    Ignored,
}

/// A longer first argument is not looked behind.
const ARGUMENT_TOKENS_MAX: usize = 64;

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
    text: &'a [u8],
    modes: Modes,
    routines: Option<&'a Routines>,
    depth: u32,
    /// One bit for each depth up to 63: a list of tables is being read there.
    table_lists: u64,
    /// The word `TABLE` has been passed.
    is_behind_table: bool,
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

    fn is_previous(&self, kind: TokenKind) -> bool {
        self.previous.is_some_and(|token| token.kind == kind)
    }

    /// Whether the current word is a later part of a dotted name.
    fn is_behind_dot(&self) -> bool {
        self.is_previous(TokenKind::Dot)
    }

    /// Whether it is one for certain: with white space after the dot it may be a keyword.
    fn is_dotted(&self) -> bool {
        self.is_behind_dot()
            && self.previous.is_some_and(|token| token.end() == self.current.offset)
    }

    /// Whether something stands in the parentheses behind the current word.
    fn has_arguments(&self) -> bool {
        self.after.is_some_and(|token| token.kind != TokenKind::Close)
    }
}

/// Walks over one statement and its `;`.
pub(super) fn walk(tokens: &mut Tokens<'_>, calls: Calls, effects: &mut Effects) -> Facts {
    let mut walk = Walk {
        facts: Facts::default(),
        effects,
        calls,
        text: tokens.text(),
        modes: *tokens.modes(),
        routines: tokens.routines(),
        depth: 0,
        table_lists: 0,
        is_behind_table: false,
        suspect: None,
    };
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
                self.table_lists &= !self.depth_bit();
            }
            TokenKind::Close => self.depth = self.depth.saturating_sub(1),
            TokenKind::Assign => self.assign(window),
            TokenKind::UserVariable => self.user_variable(window),
            TokenKind::SystemVariable => self.system_variable(window),
            TokenKind::QuotedIdentifier => self.quoted(window),
            // No syntax has these before a parenthesis, but a digest may hide a name as one.
            TokenKind::String | TokenKind::Number if window.is_next(TokenKind::Open) => {
                self.facts.may_write = true;
            }
            TokenKind::Word => self.word(window),
            TokenKind::String
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
        let is_item = self.begins_item(window.before);
        let assigned = window.previous.filter(|token| token.kind == TokenKind::UserVariable);
        if let (Some(token), false) = (assigned, is_item) {
            let name = crate::set::user_variable_name(token.text);
            self.effects.push(Effect::UserVariableAssigned(Some(name)));
        }
    }

    /// Whether an item of SET begins behind this token. Anywhere else `@a = 1` is a comparison.
    fn begins_item(&self, before: Option<Token<'_>>) -> bool {
        self.calls == Calls::JudgedInSet
            && self.depth == 0
            && before.is_some_and(|it| it.kind == TokenKind::Comma || it.is_word(b"SET"))
    }

    fn user_variable(&mut self, window: &Window<'_>) {
        self.facts.may_write = true;
        let is_set = window.next.is_some_and(|token| token.text == b"=")
            && self.begins_item(window.previous);
        if window.is_previous_word(b"INTO") {
            self.facts.assigns_user_variable = true;
        } else if !window.is_next(TokenKind::Assign) && !is_set {
            self.facts.depends.insert(Depends::USER_VARIABLE_READ);
        }
    }

    fn system_variable(&mut self, window: &Window<'_>) {
        self.facts.may_write = true;
        self.facts.varies = true;
        let text = window.current.text;
        let mut name = text.rsplit(|byte| matches!(byte, b'.' | b'@')).next().unwrap_or_default();
        // White space may stand around the dot behind the scope.
        if let (true, Some(after)) = (window.is_next(TokenKind::Dot), window.after) {
            name = after.text;
        }
        let name = crate::token::unquote(name).to_ascii_lowercase();
        self.facts.depends.insert(past::of_variable(&name));
    }

    fn word(&mut self, window: &Window<'_>) {
        let keyword = window.current.keyword();
        let upper = keyword.as_bytes();
        self.facts.depends.insert(past::of_table(upper));
        if window.is_behind_dot() {
            self.part_of_name(upper);
        }
        if window.is_dotted() {
            if window.is_next(TokenKind::Open) {
                self.call(window);
            }
            return;
        }
        let is_before_open = window.is_next(TokenKind::Open);
        self.clause(upper);
        let is_clause = upper == b"SET" && !window.is_previous_word(b"CHARACTER");
        if is_clause && self.calls == Calls::JudgedInAssignments {
            self.calls = Calls::Judged;
        }
        match upper {
            b"SELECT" => self.verb(Verb::Select),
            b"TABLE" | b"VALUES" => self.query_behind_with(window, Some(window.current)),
            b"INSERT" if !is_before_open => self.write_verb(Verb::Insert),
            b"REPLACE" if !is_before_open => self.write_verb(Verb::Replace),
            b"UPDATE" => self.write_verb(Verb::Update),
            b"DELETE" => self.write_verb(Verb::Delete),
            b"INTO" if !is_export(window) => self.facts.may_write = true,
            b"INTO" | b"LOCK" => self.lock_or_export(),
            b"FOR" if window.is_next_word(b"UPDATE") => {
                self.lock_or_export();
                self.facts.is_for_update = true;
            }
            b"FOR" if window.is_next_word(b"SHARE") => self.lock_or_export(),
            b"NEXT" if window.is_next_word(b"VALUE") => self.advance_sequence(),
            b"PREVIOUS" if window.is_next_word(b"VALUE") => self.tell_of(Depends::SEQUENCE),
            // Oracle mode's `SQL%ROWCOUNT`; elsewhere it is the remainder of two columns.
            b"SQL" if recall::is_row_count(window.next, window.after) => {
                self.facts.may_write = true;
                self.facts.depends.insert(Depends::ROW_COUNT | Depends::FOUND_ROWS);
            }
            b"SQL_CALC_FOUND_ROWS" => {
                self.facts.may_write = true;
                self.effects.push(Effect::CalcFoundRows);
            }
            _ => {}
        }
        self.facts.varies |= function::varies(upper, is_before_open, window.has_arguments());
        self.end_target(upper, window);
        if !is_before_open || self.is_clause_of_table(upper, window) {
            return;
        }
        if window.is_behind_dot() || !self.known_call(upper, window) {
            self.call(window);
        }
    }

    /// A name in quotes. Before a parenthesis servers take some of them for their own functions,
    /// others for stored ones.
    fn quoted(&mut self, window: &Window<'_>) {
        let name = window.current.unquoted();
        let keyword = Keyword::new(&name);
        self.facts.depends.insert(past::of_table(keyword.as_bytes()));
        if window.is_behind_dot() {
            self.part_of_name(keyword.as_bytes());
        }
        if window.is_next(TokenKind::Open) {
            self.meant(keyword.as_bytes(), window);
            self.call(window);
        }
    }

    /// A word behind a dot: `sequence.NEXTVAL` is a call without parentheses in Oracle mode, with
    /// or without quotes, and with white space around the dot.
    fn part_of_name(&mut self, upper: &[u8]) {
        let Modes { flavor_mariadb, oracle, guesses_quotes, .. } = self.modes;
        // Who does not know of quotes does not know of ORACLE.
        let is_call = flavor_mariadb && (oracle || guesses_quotes);
        match upper {
            b"NEXTVAL" if is_call => self.advance_sequence(),
            b"CURRVAL" if is_call => self.tell_of(Depends::SEQUENCE),
            // The mode may be another one than is known.
            b"NEXTVAL" | b"CURRVAL" | b"LASTVAL" => self.facts.may_write = true,
            _ => {}
        }
    }

    fn lock_or_export(&mut self) {
        self.facts.may_write = true;
        self.facts.locks_or_exports = true;
    }

    fn advance_sequence(&mut self) {
        self.facts.may_write = true;
        self.facts.varies = true;
        self.effects.push(Effect::SequenceAdvanced);
    }

    /// The answer depends on the connection's past.
    fn tell_of(&mut self, depends: Depends) {
        self.facts.may_write = true;
        self.facts.depends.insert(depends);
    }

    /// The current depth's place in `table_lists`.
    fn depth_bit(&self) -> u64 {
        1_u64.checked_shl(self.depth).unwrap_or(0)
    }

    /// Notes where lists of tables begin and end.
    fn clause(&mut self, upper: &[u8]) {
        match upper {
            b"FROM" | b"JOIN" => self.table_lists |= self.depth_bit(),
            b"SELECT" | b"WHERE" | b"GROUP" | b"HAVING" | b"ORDER" | b"LIMIT" | b"WINDOW"
            | b"UNION" | b"EXCEPT" | b"INTERSECT" | b"PROCEDURE" | b"RETURNING" | b"SET"
            | b"VALUES" | b"FOR" | b"INTO" => self.table_lists &= !self.depth_bit(),
            _ => {}
        }
    }

    /// Whether a word before a parenthesis is part of a clause in which no call can stand, though
    /// some server lets a stored function have the name.
    fn is_clause_of_table(&self, upper: &[u8], window: &Window<'_>) -> bool {
        match upper {
            // `MATCH (a) AGAINST (…)`: nothing that is called stands behind a parenthesis.
            b"AGAINST" => window.is_previous(TokenKind::Close),
            // `JSON_TABLE(…, '$' COLUMNS (…))`: nor behind a string.
            b"COLUMNS" => window.is_previous(TokenKind::String),
            b"JSON_TABLE" => {
                self.table_lists & self.depth_bit() != 0
                    && (window.is_previous(TokenKind::Comma)
                        || window.is_previous_word(b"FROM")
                        || window.is_previous_word(b"JOIN"))
            }
            _ => false,
        }
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

    /// After the table of an INSERT and its columns, `name (` is a call, and so it is in the query
    /// that a table is made of.
    fn end_target(&mut self, upper: &[u8], window: &Window<'_>) {
        let ends = match self.calls {
            Calls::JudgedAfterTarget => {
                matches!(upper, b"VALUES" | b"VALUE" | b"SELECT" | b"SET" | b"WITH" | b"TABLE")
            }
            Calls::JudgedInQuery => match upper {
                b"SELECT" => true,
                // Partitions have `VALUES LESS THAN (…)` and `VALUES IN (…)`.
                b"VALUES" => !window.is_next_word(b"LESS") && !window.is_next_word(b"IN"),
                b"TABLE" => std::mem::replace(&mut self.is_behind_table, true),
                _ => false,
            },
            Calls::Judged | Calls::JudgedInSet | Calls::JudgedInAssignments | Calls::Ignored => {
                false
            }
        };
        if ends {
            self.calls = Calls::Judged;
        }
    }

    /// Handles calls of functions with a meaning of their own, and what is harmless.
    fn known_call(&mut self, upper: &[u8], window: &Window<'_>) -> bool {
        let written = Written::of(self.text, &window.current, window.next);
        let call = Call { upper, written, has_arguments: window.has_arguments() };
        // With one argument it may be a stored function; of two or more it makes a point.
        if upper == b"POINT" && written == Written::Adjacent && self.has_more_arguments(window) {
            return true;
        }
        if is_soft_option(upper) && !window.previous.is_some_and(|token| begins_options(&token)) {
            return false;
        }
        match self.meant(upper, window) {
            true => function::is_native(&call, &self.modes),
            false => function::is_harmless(&call, &self.modes),
        }
    }

    /// Whether the call at hand has more than one argument.
    fn has_more_arguments(&self, window: &Window<'_>) -> bool {
        let Some(rest) = window.next.and_then(|open| self.text.get(open.end()..)) else {
            return false;
        };
        let mut depth = 0_u32;
        for token in Tokens::new(rest, &self.modes).take(ARGUMENT_TOKENS_MAX) {
            match token.kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close if depth == 0 => return false,
                TokenKind::Close => depth -= 1,
                TokenKind::Comma if depth == 0 => return true,
                _ => {}
            }
        }
        false
    }

    /// What a call of this name does if it is one of the server's own functions. Whether the name
    /// has such a meaning.
    fn meant(&mut self, upper: &[u8], window: &Window<'_>) -> bool {
        // In a definition `DEFAULT (…)` is no call.
        let is_definition =
            upper == b"DEFAULT" && matches!(self.calls, Calls::Ignored | Calls::JudgedInQuery);
        let meaning = function::meaning(upper, self.modes.flavor_mariadb);
        let Some(meaning) = meaning.filter(|_| !is_definition) else {
            return false;
        };
        match meaning {
            Meaning::Past(depends) => self.facts.depends.insert(depends),
            Meaning::LastInsertId => {
                if window.has_arguments() {
                    self.effects.push(Effect::LastInsertIdAssigned);
                }
                self.facts.depends.insert(Depends::LAST_INSERT_ID);
            }
            // Which locks, and whether at all, is seen in the simplest statements only.
            Meaning::Lock => self.effects.push(Effect::GetLock(None)),
            Meaning::Unlock => self.effects.push(Effect::ReleaseLock(None)),
            Meaning::Sequence => self.effects.push(Effect::SequenceAdvanced),
            Meaning::Server => {}
        }
        self.facts.may_write = true;
        self.facts.varies = true;
        true
    }

    /// A name that is not known stands before a parenthesis.
    fn call(&mut self, window: &Window<'_>) {
        match self.calls {
            Calls::Ignored
            | Calls::JudgedAfterTarget
            | Calls::JudgedInQuery
            | Calls::JudgedInAssignments => {
                self.facts.may_write = true;
                return;
            }
            Calls::Judged | Calls::JudgedInSet => {}
        }
        if self.is_of_known_routine(window) {
            self.facts.calls_declared = true;
            // What it reads may change by itself, as far as can be seen.
            self.facts.varies = true;
            return;
        }
        if self.suspect.is_some() || window.is_behind_dot() {
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
        self.facts.varies = true;
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

/// Whether the current word puts what is selected into a file of the server's.
fn is_export(window: &Window<'_>) -> bool {
    window.is_next_word(b"OUTFILE") || window.is_next_word(b"DUMPFILE")
}

/// Whether it is an option of `SELECT` that may be a stored function's name elsewhere (MariaDB).
fn is_soft_option(upper: &[u8]) -> bool {
    matches!(upper, b"SQL_CACHE" | b"SQL_NO_CACHE" | b"SQL_BUFFER_RESULT")
}

/// Whether options of a `SELECT` may follow a token.
fn begins_options(token: &Token<'_>) -> bool {
    let is_option = matches!(
        token.keyword().as_bytes(),
        b"SELECT"
            | b"ALL"
            | b"DISTINCT"
            | b"DISTINCTROW"
            | b"HIGH_PRIORITY"
            | b"STRAIGHT_JOIN"
            | b"SQL_SMALL_RESULT"
            | b"SQL_BIG_RESULT"
            | b"SQL_BUFFER_RESULT"
            | b"SQL_CALC_FOUND_ROWS"
            | b"SQL_CACHE"
            | b"SQL_NO_CACHE"
    );
    token.kind == TokenKind::Word && is_option
}
