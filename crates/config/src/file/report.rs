//! Errors collected, and where what they are about stands.

use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::{
    ConfigError, Place, Subject,
    error::ErrorKind,
    file::{grouped, section::Section},
};

/// What a configuration is read from.
pub(super) trait Source {
    /// Where a subject stands, as a number in whose order errors are told.
    fn locate(&self, subject: &Subject, kind: ErrorKind) -> usize;

    /// Where a subject stands, in words for people.
    fn place(&self, subject: &Subject, at: usize) -> Place;

    /// Where a subject stands, to be said behind another place: `on line 7`.
    fn other_place(&self, subject: &Subject) -> String;

    /// ` in [[user]]` where that is worth saying.
    fn within(&self, section: &Section) -> String;

    /// Whether columns that are harmless without effect are taken with a warning.
    fn takes_without_effect(&self) -> bool;
}

/// Every error found so far.
pub(super) struct Report<'a> {
    source: &'a dyn Source,
    /// With their places in the order of the source.
    errors: Vec<(usize, ConfigError)>,
    warnings: Vec<ConfigError>,
}

impl<'a> Report<'a> {
    pub(super) fn new(source: &'a dyn Source) -> Self {
        Self { source, errors: Vec::new(), warnings: Vec::new() }
    }

    /// Adds an error.
    pub(super) fn add(&mut self, kind: ErrorKind, subject: Subject, message: String) {
        let at = self.source.locate(&subject, kind);
        let place = self.source.place(&subject, at);
        self.errors.push((at, ConfigError { kind, subject, place, message }));
    }

    /// Adds a warning about a column that has no effect, where such are taken; whether they are.
    pub(super) fn warn(&mut self, subject: Subject, message: String) -> bool {
        let is_taken = self.source.takes_without_effect();
        if is_taken {
            let place = self.source.place(&subject, 0);
            let kind = ErrorKind::NotSupported;
            self.warnings.push(ConfigError { kind, subject, place, message });
        }
        is_taken
    }

    /// Where a subject stands, behind another place: `on line 7`.
    pub(super) fn other_place(&self, subject: &Subject) -> String {
        self.source.other_place(subject)
    }

    pub(super) fn within(&self, section: &Section) -> String {
        self.source.within(section)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// The warnings.
    ///
    /// # Errors
    /// All errors, in the order of their places.
    pub(super) fn finish(mut self) -> Result<Vec<ConfigError>, Vec<ConfigError>> {
        self.errors.sort_by_key(|(at, _)| *at);
        let mut errors: Vec<ConfigError> = self.errors.into_iter().map(|(_, it)| it).collect();
        errors.dedup();
        if errors.is_empty() { Ok(self.warnings) } else { Err(errors) }
    }
}

/// A text and what it holds.
pub(super) struct Text<'a> {
    file: Arc<str>,
    text: &'a str,
    /// Byte offset of each line's first byte, ascending; the first is 0.
    line_starts: Vec<usize>,
    pub(super) document: DeTable<'a>,
}

impl<'a> Text<'a> {
    /// Reads a text.
    ///
    /// # Errors
    /// Its syntax errors alone, since what follows from a half-read file would mislead.
    pub(super) fn read(file: &str, text: &'a str) -> Result<Self, Vec<ConfigError>> {
        let after_newline = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = [0].into_iter().chain(after_newline.map(|(at, _)| at + 1)).collect();
        let (document, mut syntax_errors) = DeTable::parse_recoverable(text);
        let document = document.into_inner();
        let read = Self { file: Arc::from(file), text, line_starts, document };
        syntax_errors.sort_by_key(|error| error.span().unwrap_or_default().start);
        let mut errors: Vec<ConfigError> =
            syntax_errors.iter().map(|error| read.syntax_error(error)).collect();
        errors.dedup();
        if errors.is_empty() { Ok(read) } else { Err(errors) }
    }

    fn syntax_error(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or_default();
        // Only a key is shown: what else is unexpected may be an unquoted password.
        let message = match (error.message(), self.text.get(span.clone())) {
            ("duplicate key", Some(key)) => format!("duplicate key `{}`", key.trim()),
            (message, _) => message.to_owned(),
        };
        let place = self.place_at(span.start);
        ConfigError { kind: ErrorKind::Syntax, subject: Subject::setting(""), place, message }
    }

    /// The line of byte `at`, counted from 1.
    fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    fn place_at(&self, at: usize) -> Place {
        let line = self.line(at);
        let start = self.line_starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(start..at.min(self.text.len())).unwrap_or("");
        Place::Text { file: Arc::clone(&self.file), line, column: before.chars().count() + 1 }
    }
}

impl Source for Text<'_> {
    /// A byte offset: that of the value, or of the name when that is what is wrong; of the table
    /// that has no such column.
    fn locate(&self, subject: &Subject, kind: ErrorKind) -> usize {
        let section = Section::find(subject.section);
        let (fields, start) = match (section, subject.index) {
            (None, _) => (Some(&self.document), 0),
            (Some(section), index) => {
                let Some(value) = self.document.get(section.name) else { return 0 };
                let entry = match (value.get_ref(), index) {
                    (DeValue::Array(rows), Some(index)) => rows.get(index).unwrap_or(value),
                    _ => value,
                };
                (entry.get_ref().as_table().filter(|_| index.is_some()), entry.span().start)
            }
        };
        let name: &str = &subject.column;
        let other = section.and_then(|section| section.instead_of(name));
        let find = |name: &str| fields.and_then(|fields| fields.get_key_value(name));
        let in_group = || {
            let (table, member) = grouped(name).filter(|_| section.is_none())?;
            let members = self.document.get(table)?.get_ref().as_table()?;
            members.get_key_value(member)
        };
        match find(name).or_else(|| find(other?.name)).or_else(in_group) {
            Some((key, _))
                if matches!(kind, ErrorKind::UnknownColumn | ErrorKind::NotSupported) =>
            {
                key.span().start
            }
            Some((_, value)) => value.span().start,
            None => start,
        }
    }

    fn place(&self, _: &Subject, at: usize) -> Place {
        self.place_at(at)
    }

    fn other_place(&self, subject: &Subject) -> String {
        format!("on line {}", self.line(self.locate(subject, ErrorKind::Duplicate)))
    }

    fn within(&self, section: &Section) -> String {
        format!(" in [[{}]]", section.name)
    }

    fn takes_without_effect(&self) -> bool {
        false
    }
}

/// `; did you mean …?` with the nearest of `known`, or nothing where none is near.
pub(crate) fn did_you_mean<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    let name = name.to_ascii_lowercase();
    // A long unknown key is nobody's typing error, and comparing is quadratic.
    if name.len() > 64 {
        return String::new();
    }
    let distance = |other: &str| strsim::damerau_levenshtein(&name, &other.to_ascii_lowercase());
    known
        .map(|other| (distance(other), other))
        .filter(|(distance, other)| *distance <= (other.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| format!("; did you mean `{other}`?"))
        .unwrap_or_default()
}
