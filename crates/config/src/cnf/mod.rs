//! libconfig's syntax, which `proxysql.cnf` is written in: text to named values with their lines.
//!
//! Source: libconfig's manual, "Configuration File Grammar".

#[cfg(test)]
mod tests;

use std::{iter::Peekable, str::CharIndices};

/// How deep groups and lists may lie in each other.
const DEPTH_MAX: usize = 32;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum CnfValue {
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// Text.
    Text(String),
    /// `[…]` or `(…)`.
    List(Vec<CnfEntry>),
    /// `{…}`.
    Group(Vec<CnfEntry>),
}

/// A value with its name and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct CnfEntry {
    /// Its name; empty within a list.
    pub name: String,
    /// What it is.
    pub value: CnfValue,
    /// Its line, counted from 1.
    pub line: usize,
}

/// What is wrong, and on which line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct CnfError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// Reads a text.
///
/// # Errors
/// The first thing that is wrong; what follows it can't be judged.
pub fn parse_cnf(text: &str) -> Result<Vec<CnfEntry>, CnfError> {
    let mut reader = Reader { text, chars: text.char_indices().peekable(), line: 1, depth: 0 };
    reader.entries(None)
}

struct Reader<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    line: usize,
    depth: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, message: impl Into<String>) -> Result<T, CnfError> {
        Err(CnfError { line: self.line, message: message.into() })
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, char)| *char)
    }

    fn next(&mut self) -> Option<char> {
        let (_, char) = self.chars.next()?;
        if char == '\n' {
            self.line += 1;
        }
        Some(char)
    }

    /// What has not been read yet.
    fn rest(&mut self) -> &str {
        let at = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        self.text.get(at..).unwrap_or_default()
    }

    /// Goes over spaces and comments.
    fn skip(&mut self) -> Result<(), CnfError> {
        loop {
            let rest = self.rest();
            if rest.starts_with(char::is_whitespace) {
                self.next();
            } else if rest.starts_with('#') || rest.starts_with("//") {
                while self.peek().is_some_and(|char| char != '\n') {
                    self.next();
                }
            } else if rest.starts_with("/*") {
                self.next();
                self.next();
                while !self.rest().starts_with("*/") {
                    if self.next().is_none() {
                        return self.fail("a comment is not closed");
                    }
                }
                self.next();
                self.next();
            } else if rest.starts_with("@include") {
                return self.fail("@include is not supported");
            } else {
                return Ok(());
            }
        }
    }

    /// Named values up to `end`, or the end of the text.
    fn entries(&mut self, end: Option<char>) -> Result<Vec<CnfEntry>, CnfError> {
        let mut entries: Vec<CnfEntry> = Vec::new();
        loop {
            self.skip()?;
            match self.peek() {
                None if end.is_none() => return Ok(entries),
                None => return self.fail("a group is not closed"),
                char if char == end => {
                    self.next();
                    return Ok(entries);
                }
                Some(';' | ',') => {
                    self.next();
                    continue;
                }
                Some(_) => {}
            }
            let line = self.line;
            let name = self.name()?;
            if entries.iter().any(|entry| entry.name == name) {
                return self.fail(format!("`{name}` is there twice"));
            }
            self.skip()?;
            match self.next() {
                Some('=' | ':') => {}
                _ => return self.fail(format!("`=` is missing behind `{name}`")),
            }
            let value = self.value()?;
            entries.push(CnfEntry { name, value, line });
        }
    }

    fn name(&mut self) -> Result<String, CnfError> {
        let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '*');
        let mut name = String::new();
        while let Some(char) = self.peek().filter(|char| is_part(*char)) {
            name.push(char);
            self.next();
        }
        match (name.is_empty(), self.peek()) {
            (false, _) => Ok(name),
            (true, Some(char)) => self.fail(format!("`{char}` is not the beginning of a name")),
            (true, None) => self.fail("a name is missing"),
        }
    }

    fn value(&mut self) -> Result<CnfValue, CnfError> {
        self.skip()?;
        match self.peek() {
            Some('{') => {
                self.next();
                self.deeper(|reader| reader.entries(Some('}')).map(CnfValue::Group))
            }
            Some('(') => {
                self.next();
                self.deeper(|reader| reader.list(')'))
            }
            Some('[') => {
                self.next();
                self.deeper(|reader| reader.list(']'))
            }
            Some('"') => self.text().map(CnfValue::Text),
            Some(_) => self.scalar(),
            None => self.fail("a value is missing"),
        }
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CnfError>,
    ) -> Result<T, CnfError> {
        if self.depth >= DEPTH_MAX {
            return self.fail(format!("more than {DEPTH_MAX} groups or lists in each other"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn list(&mut self, end: char) -> Result<CnfValue, CnfError> {
        let mut items = Vec::new();
        loop {
            self.skip()?;
            match self.peek() {
                None => return self.fail("a list is not closed"),
                Some(char) if char == end => {
                    self.next();
                    return Ok(CnfValue::List(items));
                }
                Some(',') => {
                    self.next();
                }
                Some(_) => {
                    let line = self.line;
                    let value = self.value()?;
                    items.push(CnfEntry { name: String::new(), value, line });
                }
            }
        }
    }

    /// A text; several behind each other are one.
    fn text(&mut self) -> Result<String, CnfError> {
        let mut text = String::new();
        while self.peek() == Some('"') {
            self.next();
            loop {
                match self.next() {
                    None => return self.fail("a text is not closed"),
                    Some('"') => break,
                    Some('\\') => self.escape(&mut text)?,
                    Some(char) => text.push(char),
                }
            }
            self.skip()?;
        }
        Ok(text)
    }

    fn escape(&mut self, text: &mut String) -> Result<(), CnfError> {
        match self.next() {
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('f') => text.push('\u{C}'),
            Some('x') => {
                let digits: String = [self.next(), self.next()].into_iter().flatten().collect();
                match u8::from_str_radix(&digits, 16) {
                    Ok(byte) => text.push(char::from(byte)),
                    Err(_) => return self.fail(format!("`\\x{digits}` is no character")),
                }
            }
            Some(char @ ('"' | '\\')) => text.push(char),
            // libconfig keeps the backslash of what it does not know, and so patterns work.
            Some(char) => text.extend(['\\', char]),
            None => return self.fail("a text is not closed"),
        }
        Ok(())
    }

    fn scalar(&mut self) -> Result<CnfValue, CnfError> {
        let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '+' | '-');
        let mut word = String::new();
        while let Some(char) = self.peek().filter(|char| is_part(*char)) {
            word.push(char);
            self.next();
        }
        match word.to_ascii_lowercase().as_str() {
            "true" => return Ok(CnfValue::Boolean(true)),
            "false" => return Ok(CnfValue::Boolean(false)),
            _ => {}
        }
        let digits = word.trim_end_matches(['L', 'l']);
        let integer = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        };
        if let Some(number) = integer {
            return Ok(CnfValue::Integer(number));
        }
        match word.parse() {
            Ok(number)
                if word.starts_with(|char: char| char.is_ascii_digit() || "+-.".contains(char)) =>
            {
                Ok(CnfValue::Float(number))
            }
            Ok(_) | Err(_) if word.is_empty() => {
                let found = self.peek().map_or(String::new(), String::from);
                self.fail(format!("`{found}` is not the beginning of a value"))
            }
            Ok(_) | Err(_) => self.fail(format!("`{word}` is no value; a text needs quotes")),
        }
    }
}
