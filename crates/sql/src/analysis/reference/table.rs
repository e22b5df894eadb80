//! Where a table's name stands.

use super::{
    TableAccess,
    frame::State,
    scan::{Scan, is_reserved},
};
use crate::{
    analysis::TableName,
    token::{Encoding, Token, TokenKind},
};

impl<'a> Scan<'a, '_> {
    /// A table, with its first token taken.
    pub(super) fn table(&mut self, token: &Token<'a>, word: &[u8]) -> Option<()> {
        let is_before = |kind| self.peek().is_some_and(|next| next.kind == kind);
        let (is_call, is_dotted) = (is_before(TokenKind::Open), is_before(TokenKind::Dot));
        match word {
            b"DUAL" if !is_dotted && !is_call => {
                self.set_state(State::Tables);
                return Some(());
            }
            b"LATERAL" if is_call => return Some(()),
            b"JSON_TABLE" if is_call => {
                self.advance();
                self.set_state(State::Tables);
                return self.push(State::Arguments);
            }
            _ => {}
        }
        let name = self.name_from(token, word)?;
        if self.peek().is_some_and(|next| next.kind == TokenKind::Open) {
            // A function that gives a table.
            return None;
        }
        let access = self.frame()?.access;
        self.use_table(name, access)?;
        self.set_state(State::Tables);
        Some(())
    }

    /// Takes `table` or `schema.table`.
    pub(super) fn name(&mut self) -> Option<TableName> {
        let token = self.advance()?;
        let keyword = token.keyword();
        self.name_from(&token, keyword.as_bytes())
    }

    /// A name whose first token is taken.
    fn name_from(&mut self, token: &Token<'a>, word: &[u8]) -> Option<TableName> {
        if is_reserved(word) {
            return None;
        }
        let first = self.part(token)?;
        if !self.accept_kind(TokenKind::Dot) {
            return Some(TableName { schema: None, table: first });
        }
        let token = self.advance()?;
        let table = self.part(&token)?;
        // There are no names of three parts.
        let is_end = self.peek().is_none_or(|next| next.kind != TokenKind::Dot);
        is_end.then_some(TableName { schema: Some(first), table })
    }

    /// One part of a name, without its quotes.
    pub(super) fn part(&mut self, token: &Token<'a>) -> Option<Vec<u8>> {
        if !token.is_name() {
            return None;
        }
        let part = token.unquoted().into_owned();
        if !part.is_ascii() {
            let is_utf8 = self.encoding() == Encoding::Utf8 && std::str::from_utf8(&part).is_ok();
            self.found.is_whole &= is_utf8;
        }
        // ASCII bytes are letters there that are others to the server.
        self.found.is_whole &= match self.encoding() {
            Encoding::Swedish => false,
            Encoding::Unknown => !Encoding::Unknown.may_rename(&part),
            _ => true,
        };
        (!part.is_empty()).then_some(part)
    }

    /// Adds a table, unless it is a common table expression.
    pub(super) fn use_table(&mut self, name: TableName, access: TableAccess) -> Option<()> {
        let is_expression = name.schema.is_none() && self.expressions.contains(&name.table);
        if is_expression && access == TableAccess::Read {
            return Some(());
        }
        self.found.add(name, access)
    }

    /// Behind `UPDATE`.
    pub(super) fn update(&mut self) -> Option<()> {
        while self.accept_any(&[b"LOW_PRIORITY", b"IGNORE"]) {}
        self.frame_mut()?.access = TableAccess::Write;
        self.set_state(State::Table);
        Some(())
    }

    /// Behind `INSERT` or `REPLACE`.
    pub(super) fn insert(&mut self) -> Option<()> {
        while self.accept_any(&[b"LOW_PRIORITY", b"DELAYED", b"HIGH_PRIORITY", b"IGNORE"]) {}
        self.accept(b"INTO");
        let name = self.name()?;
        self.found.add(name, TableAccess::Write)?;
        self.set_state(State::Source);
        Some(())
    }

    /// Behind `DELETE`: `FROM table`, or the targets before or behind `FROM`. A target is a table
    /// of the list that follows, or its alias; so all tables of the list may be written.
    pub(super) fn delete(&mut self) -> Option<()> {
        while self.accept_any(&[b"LOW_PRIORITY", b"QUICK", b"IGNORE"]) {}
        self.frame_mut()?.access = TableAccess::Write;
        let is_from = self.accept(b"FROM");
        let (first, mut count) = (self.target()?, 1_usize);
        while self.accept_kind(TokenKind::Comma) {
            self.target()?;
            count = count.saturating_add(1);
        }
        if is_from && !self.accept(b"USING") {
            let name = first.filter(|_| count == 1)?;
            self.found.add(name, TableAccess::Write)?;
            // One table only: there is no list.
            self.set_state(State::Rest);
            return Some(());
        }
        if !is_from && !self.accept(b"FROM") {
            return None;
        }
        self.set_state(State::Table);
        Some(())
    }

    /// `table`, `schema.table`, or one of them with `.*`; the name if there is no `.*`.
    fn target(&mut self) -> Option<Option<TableName>> {
        let mut parts = Vec::new();
        loop {
            let token = self.advance()?;
            if !parts.is_empty() && token.text == b"*" {
                return Some(None);
            }
            if parts.is_empty() && is_reserved(token.keyword().as_bytes()) {
                return None;
            }
            parts.push(self.part(&token)?);
            if !self.accept_kind(TokenKind::Dot) {
                break;
            }
        }
        let mut parts = parts.into_iter();
        let name = match (parts.next(), parts.next(), parts.next()) {
            (Some(table), None, None) => TableName { schema: None, table },
            (Some(schema), Some(table), None) => TableName { schema: Some(schema), table },
            _ => return None,
        };
        Some(Some(name))
    }

    /// `NEXT VALUE FOR sequence`, behind its first word.
    pub(super) fn value_of_sequence(&mut self) -> Option<()> {
        if self.accept(b"VALUE") && self.accept(b"FOR") {
            let name = self.name()?;
            self.found.add(name, TableAccess::Write)?;
        }
        Some(())
    }

    /// `NEXTVAL(sequence)` and its like, behind the first word.
    pub(super) fn call_of_sequence(&mut self) -> Option<()> {
        if !self.accept_kind(TokenKind::Open) {
            return Some(());
        }
        let name = self.name()?;
        self.found.add(name, TableAccess::Write)?;
        let ends = |next: Token<'_>| matches!(next.kind, TokenKind::Comma | TokenKind::Close);
        if !self.peek().is_some_and(ends) {
            return None;
        }
        self.push(State::Arguments)
    }

    /// `sequence.NEXTVAL`, of which the last token is taken.
    pub(super) fn dotted_sequence(&mut self) -> Option<()> {
        let [_, before, dot, first] = self.before;
        let table = self.part(&before?)?;
        let is_dotted = dot.is_some_and(|dot| dot.kind == TokenKind::Dot);
        let schema = match first.filter(|_| is_dotted) {
            Some(first) => Some(self.part(&first)?),
            None => None,
        };
        self.found.add(TableName { schema, table }, TableAccess::Write)
    }
}
