//! The words between the tables of a statement.

use super::{frame::State, scan::Scan};
use crate::token::TokenKind;

impl Scan<'_, '_> {
    /// A word in a list of tables, or in an expression.
    pub(super) fn clause(&mut self, word: &[u8]) -> Option<()> {
        let state = self.frame()?.state;
        let is_list = state == State::Tables;
        match word {
            b"FROM" => return self.from(state),
            b"JOIN" | b"STRAIGHT_JOIN" if is_list => self.set_state(State::Table),
            // An option of SELECT.
            b"STRAIGHT_JOIN" if state == State::Items => {}
            b"JOIN" | b"STRAIGHT_JOIN" => return None,
            b"UNION" | b"EXCEPT" | b"INTERSECT" => self.set_state(State::Query),
            b"WHERE" | b"HAVING" | b"LIMIT" | b"PROCEDURE" | b"FETCH" => self.leave_list(),
            b"GROUP" | b"ORDER" if is_list => {
                self.leave_list();
                return self.accept(b"BY").then_some(());
            }
            b"LOCK" if is_list => {
                self.leave_list();
                return self.accept(b"IN").then_some(());
            }
            b"WINDOW" if is_list && self.is_window() => self.leave_list(),
            b"INTO" => return self.destination(state),
            b"FOR" if state != State::Arguments => return self.for_clause(is_list),
            b"ON" if self.is_next(b"DUPLICATE") => return self.on_duplicate(),
            b"USING" if is_list => {
                return self.peek().is_some_and(|next| next.kind == TokenKind::Open).then_some(());
            }
            b"USING" if state != State::Arguments => return None,
            // In MySQL it may be the alias of a table.
            b"RETURNING" if self.is_outmost() && self.is_mariadb() => {
                self.leave_expressions()?;
                self.leave_list();
            }
            b"SET" => self.leave_list(),
            b"WITH" => {
                let words: [&[u8]; 5] = [b"ROLLUP", b"QUERY", b"TIES", b"LOCAL", b"CUBE"];
                return self.accept_any(&words).then_some(());
            }
            _ => {}
        }
        Some(())
    }

    fn leave_list(&mut self) {
        if self.frame().is_some_and(|frame| frame.state == State::Tables) {
            self.set_state(State::Rest);
        }
    }

    fn from(&mut self, state: State) -> Option<()> {
        let [last, ..] = self.before;
        let follows = |word: &[u8]| last.is_some_and(|last| last.is_word(word));
        match state {
            // `IS DISTINCT FROM` is no list of tables.
            State::Items if !follows(b"DISTINCT") => {
                self.set_state(State::Table);
                Some(())
            }
            // That of a function.
            State::Arguments => Some(()),
            State::Tables if follows(b"SYSTEM_TIME") => Some(()),
            State::Query
            | State::Open
            | State::OpenTables
            | State::Table
            | State::Tables
            | State::Items
            | State::Rest
            | State::Source
            | State::Defined => None,
        }
    }

    /// `WINDOW name AS (`: elsewhere it may be the alias of a table.
    fn is_window(&self) -> bool {
        let mut ahead = self.ahead();
        ahead.name().is_some() && ahead.accept(b"AS") && ahead.accept_kind(TokenKind::Open)
    }

    /// `INTO @x, @y` or a file.
    fn destination(&mut self, state: State) -> Option<()> {
        let is_variable = self.peek().is_some_and(|next| next.kind == TokenKind::UserVariable);
        let is_target = is_variable || self.is_next(b"OUTFILE") || self.is_next(b"DUMPFILE");
        self.leave_list();
        (is_target && state != State::Arguments).then_some(())
    }

    /// `FOR UPDATE`, `FOR SYSTEM_TIME`, or the `FOR` of an index hint.
    fn for_clause(&mut self, is_list: bool) -> Option<()> {
        if self.accept_any(&[b"UPDATE", b"SHARE"]) {
            self.leave_list();
            return Some(());
        }
        let is_history = is_list && self.is_next(b"SYSTEM_TIME");
        let is_hint = is_list && self.accept_any(&[b"JOIN", b"ORDER", b"GROUP"]);
        (is_history || is_hint).then_some(())
    }

    /// `ON DUPLICATE KEY UPDATE`, where the query before is over; or a condition on a column of
    /// this name.
    fn on_duplicate(&mut self) -> Option<()> {
        let mut ahead = self.ahead();
        if !(ahead.accept(b"DUPLICATE") && ahead.accept(b"KEY")) {
            return Some(());
        }
        self.leave_expressions()?;
        self.set_state(State::Rest);
        self.advance();
        self.advance();
        self.accept(b"UPDATE").then_some(())
    }
}
