//! The forms of statements whose names are found.

use super::{References, frame::State, scan::Scan};
use crate::token::{Token, TokenKind, Tokens};

/// A statement whose names are all found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    /// What becomes of them is understood as well.
    pub(super) is_whole: bool,
    /// What follows in the same text is read in another way, or in another schema.
    pub(super) moves_names: bool,
}

/// Reads the statement at the beginning of `tokens`. `None` for what is not understood.
pub(super) fn read(tokens: &Tokens<'_>, found: &mut References) -> Option<Read> {
    let mut scan = Scan::new(tokens, found);
    let stays = Some(Read { is_whole: true, moves_names: false });
    let moves = Some(Read { is_whole: true, moves_names: true });
    let keyword = scan.keyword();
    match keyword.as_bytes() {
        b"SET" => {
            scan.advance();
            let is_whole = set(&mut scan)?;
            return Some(Read { is_whole, moves_names: true });
        }
        b"USE" => {
            scan.advance();
            let token = scan.advance()?;
            scan.part(&token)?;
            return if scan.peek().is_none() { moves } else { None };
        }
        b"PREPARE" => return prepare(&mut scan),
        b"EXECUTE" => {
            scan.advance();
            return if scan.accept(b"IMMEDIATE") { literal(&mut scan) } else { None };
        }
        _ => {}
    }
    let is_whole = statement(&mut scan)?;
    if is_whole { stays } else { Some(Read { is_whole, moves_names: false }) }
}

/// `PREPARE name FROM 'text'`.
fn prepare(scan: &mut Scan<'_, '_>) -> Option<Read> {
    scan.advance();
    scan.advance().filter(Token::is_name)?;
    if scan.accept(b"FROM") { literal(scan) } else { None }
}

/// A text in a string, the names of which are those of the statement that runs it.
fn literal(scan: &mut Scan<'_, '_>) -> Option<Read> {
    let token = scan.advance().filter(|token| token.kind == TokenKind::String)?;
    // What an escape stands for depends on the server's mode.
    let is_plain = !token.text.contains(&b'\\');
    let ends = scan.peek().is_none_or(|token| token.is_word(b"USING"));
    if !is_plain || !ends {
        return None;
    }
    let text = token.unquoted();
    let modes = *scan.modes();
    read(&Tokens::new(&text, &modes), scan.found)
}

/// A statement that is neither `SET` nor `USE`. False where all names are found, and what becomes
/// of them is not understood.
fn statement(scan: &mut Scan<'_, '_>) -> Option<bool> {
    let keyword = scan.keyword();
    match keyword.as_bytes() {
        b"CREATE" => rows_of_query(scan).map(|()| false),
        b"CHECK" | b"REPAIR" => checked(scan).map(|()| false),
        _ => whole(scan).map(|()| true),
    }
}

/// A statement of a form that is understood.
fn whole(scan: &mut Scan<'_, '_>) -> Option<()> {
    if scan.peek()?.kind == TokenKind::Open {
        return scan.run();
    }
    let keyword = scan.keyword();
    match keyword.as_bytes() {
        b"SELECT" | b"WITH" | b"VALUES" | b"TABLE" | b"UPDATE" | b"DELETE" => scan.run(),
        b"INSERT" | b"REPLACE" => {
            scan.advance();
            scan.insert()?;
            scan.run()
        }
        b"EXPLAIN" | b"DESCRIBE" | b"DESC" => {
            scan.advance();
            explain(scan)
        }
        b"ANALYZE" => {
            scan.advance();
            skip_format(scan);
            if is_verb(scan) && !scan.is_next(b"TABLE") {
                return whole(scan);
            }
            None
        }
        b"SHOW" => {
            scan.advance();
            show(scan)
        }
        b"DO" => {
            scan.advance();
            scan.set_state(State::Rest);
            scan.run()
        }
        b"BEGIN" => {
            scan.advance();
            scan.accept(b"WORK");
            scan.peek().is_none().then_some(())
        }
        b"START" => {
            scan.advance();
            if scan.accept(b"TRANSACTION") { without_names(scan) } else { None }
        }
        b"COMMIT" | b"ROLLBACK" | b"SAVEPOINT" => without_names(scan),
        // Where it puts what it gets is seen as an effect.
        b"GET" => {
            scan.advance();
            scan.accept(b"CURRENT");
            if scan.accept(b"DIAGNOSTICS") { scan.skip_rest() } else { None }
        }
        b"LOAD" => {
            scan.advance();
            load(scan)
        }
        b"UNLOCK" => {
            scan.advance();
            if scan.accept(b"TABLES") || scan.accept(b"TABLE") { without_names(scan) } else { None }
        }
        // What is declared to read only is taken for that.
        b"CALL" if scan.calls_known_routine() => {
            scan.advance();
            scan.set_state(State::Rest);
            scan.run()
        }
        b"RELEASE" => {
            scan.advance();
            if scan.accept(b"SAVEPOINT") { without_names(scan) } else { None }
        }
        _ => None,
    }
}

/// Behind `LOAD`: `DATA … INTO TABLE name …`, or `XML`.
fn load(scan: &mut Scan<'_, '_>) -> Option<()> {
    if !scan.accept_any(&[b"DATA", b"XML"]) {
        return None;
    }
    while !scan.accept(b"INTO") {
        scan.advance()?;
    }
    if !scan.accept(b"TABLE") {
        return None;
    }
    let name = scan.name()?;
    scan.use_table(name, super::TableAccess::Write)?;
    scan.set_state(State::Rest);
    scan.run()
}

/// The query whose rows a table is made of: its names are found, and the new table's is not known
/// to anybody.
fn rows_of_query(scan: &mut Scan<'_, '_>) -> Option<()> {
    let mut is_behind_table = false;
    loop {
        let keyword = scan.keyword();
        let second = scan.peek_second();
        let is_second = |words: &[&[u8]]| {
            second.is_some_and(|token| words.iter().any(|word| token.is_word(word)))
        };
        let is_open = scan.peek().is_some_and(|token| token.kind == TokenKind::Open);
        if is_open && is_second(&[b"SELECT", b"WITH", b"VALUES", b"TABLE"]) {
            return scan.run();
        }
        match keyword.as_bytes() {
            b"SELECT" => return scan.run(),
            // Partitions have `VALUES LESS THAN (…)` and `VALUES IN (…)`.
            b"VALUES" if !is_second(&[b"LESS", b"IN"]) => return scan.run(),
            b"WITH" if !is_second(&[b"SYSTEM", b"PARSER"]) => return scan.run(),
            b"TABLE" if is_behind_table => return scan.run(),
            word => is_behind_table |= word == b"TABLE",
        }
        scan.advance()?;
    }
}

/// Words and names of savepoints.
fn without_names(scan: &mut Scan<'_, '_>) -> Option<()> {
    while let Some(token) = scan.advance() {
        if !token.is_name() && token.kind != TokenKind::Comma {
            return None;
        }
    }
    Some(())
}

/// Whether a statement begins here that can be explained.
fn is_verb(scan: &Scan<'_, '_>) -> bool {
    let is_open = scan.peek().is_some_and(|token| token.kind == TokenKind::Open);
    let words: [&[u8]; 8] =
        [b"SELECT", b"WITH", b"VALUES", b"TABLE", b"INSERT", b"REPLACE", b"UPDATE", b"DELETE"];
    is_open || words.iter().any(|word| scan.is_next(word))
}

/// `FORMAT = name`.
fn skip_format(scan: &mut Scan<'_, '_>) {
    let is_option =
        scan.is_next(b"FORMAT") && scan.peek_second().is_some_and(|token| token.text == b"=");
    if is_option {
        scan.advance();
        scan.advance();
        scan.advance();
    }
}

/// Behind `EXPLAIN`: a statement, or a table with perhaps a column or a pattern.
fn explain(scan: &mut Scan<'_, '_>) -> Option<()> {
    let options: [&[u8]; 3] = [b"EXTENDED", b"PARTITIONS", b"ANALYZE"];
    // Alone it is the name of a table.
    if scan.peek_second().is_some() && scan.accept_any(&options) {
        skip_format(scan);
        return if is_verb(scan) { whole(scan) } else { None };
    }
    skip_format(scan);
    if is_verb(scan) {
        return whole(scan);
    }
    let name = scan.name()?;
    scan.use_table(name, super::TableAccess::Read)?;
    let is_column =
        |kind| matches!(kind, TokenKind::Word | TokenKind::QuotedIdentifier | TokenKind::String);
    if scan.peek().is_some_and(|token| is_column(token.kind)) {
        scan.advance();
    }
    scan.peek().is_none().then_some(())
}

/// Behind `SHOW`: only its condition can use tables. MariaDB opens what it describes, and computes
/// what is constant in a view.
fn show(scan: &mut Scan<'_, '_>) -> Option<()> {
    if scan.modes().flavor_mariadb {
        described(scan)?;
    }
    while let Some(token) = scan.advance() {
        if scan.is_part(&token) {
            continue;
        }
        match token.keyword().as_bytes() {
            b"WHERE" => {
                scan.set_state(State::Rest);
                return scan.run();
            }
            b"SELECT" => return None,
            _ => scan.check_operator(&token)?,
        }
    }
    Some(())
}

/// Uses the table whose columns, indexes or definition are shown, if it is one's.
fn described(scan: &mut Scan<'_, '_>) -> Option<()> {
    while scan.accept_any(&[b"FULL", b"EXTENDED"]) {}
    if scan.accept(b"CREATE") {
        if !scan.accept_any(&[b"TABLE", b"VIEW"]) {
            return Some(());
        }
        while scan.accept_any(&[b"IF", b"NOT", b"EXISTS"]) {}
    } else {
        let parts: [&[u8]; 5] = [b"COLUMNS", b"FIELDS", b"INDEX", b"INDEXES", b"KEYS"];
        if !scan.accept_any(&parts) || !scan.accept_any(&[b"FROM", b"IN"]) {
            return Some(());
        }
    }
    let mut name = scan.name()?;
    if scan.accept_any(&[b"FROM", b"IN"]) {
        let token = scan.advance()?;
        name.schema = Some(scan.part(&token)?);
    }
    scan.use_table(name, super::TableAccess::Read)
}

/// Tables that are looked at as a whole: found, and what becomes of them is not understood.
fn checked(scan: &mut Scan<'_, '_>) -> Option<()> {
    scan.advance();
    scan.accept_any(&[b"NO_WRITE_TO_BINLOG", b"LOCAL"]);
    if !scan.accept_any(&[b"TABLE", b"TABLES", b"VIEW"]) {
        return None;
    }
    loop {
        let name = scan.name()?;
        scan.use_table(name, super::TableAccess::Read)?;
        if !scan.accept_kind(TokenKind::Comma) {
            return Some(());
        }
    }
}

/// Behind `SET`.
fn set(scan: &mut Scan<'_, '_>) -> Option<bool> {
    let keyword = scan.keyword();
    match keyword.as_bytes() {
        b"PASSWORD" | b"DEFAULT" | b"RESOURCE" => return None,
        b"STATEMENT" if scan.peek_second().is_some_and(|token| token.is_name()) => {
            scan.advance();
            return set_statement(scan);
        }
        _ => {}
    }
    scan.set_state(State::Rest);
    scan.run().map(|()| true)
}

/// `SET STATEMENT name = value, … FOR statement`, with literal values.
fn set_statement(scan: &mut Scan<'_, '_>) -> Option<bool> {
    while let Some(token) = scan.advance() {
        match token.kind {
            TokenKind::Word if token.is_word(b"FOR") => return statement(scan),
            // It may change how the text itself is read.
            TokenKind::Word | TokenKind::QuotedIdentifier
                if token.unquoted().eq_ignore_ascii_case(b"SQL_MODE") =>
            {
                return None;
            }
            TokenKind::Word | TokenKind::QuotedIdentifier => {}
            TokenKind::String | TokenKind::Number | TokenKind::Comma => {}
            TokenKind::Operator if matches!(token.text, b"=" | b"-") => {}
            _ => return None,
        }
    }
    None
}
