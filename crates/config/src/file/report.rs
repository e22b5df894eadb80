//! Errors collected, and their places in the text.

use crate::ConfigError;

/// Every error found so far in one text.
pub(super) struct Report<'a> {
    file: &'a str,
    text: &'a str,
    /// Byte offset of each line's first byte, ascending; the first is 0.
    line_starts: Vec<usize>,
    errors: Vec<ConfigError>,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let after_newline = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = [0].into_iter().chain(after_newline.map(|(at, _)| at + 1)).collect();
        Self { file, text, line_starts, errors: Vec::new() }
    }

    /// Adds an error at byte `at`.
    pub(super) fn add(&mut self, at: usize, key: &str, message: String) {
        let (line, column) = self.place(at);
        let (file, key) = (self.file.to_owned(), key.to_owned());
        self.errors.push(ConfigError { file, line, column, key, message });
    }

    /// The line of byte `at`, counted from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors, in the order of their places.
    pub(super) fn finish(mut self) -> Vec<ConfigError> {
        self.errors.sort_by_key(|error| (error.line, error.column));
        self.errors.dedup();
        self.errors
    }

    /// Line and column (in characters) of byte `at`, both counted from 1.
    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.line(at);
        let start = self.line_starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(start..at.min(self.text.len())).unwrap_or("");
        (line, before.chars().count() + 1)
    }
}

/// The line of byte `at` of a text, counted from 1.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    Report::new("", text).line(at)
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
