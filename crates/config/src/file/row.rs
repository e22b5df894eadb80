//! One entry of a section while it is read, whether a table of a file or a row of the admin port.

use std::borrow::Cow;

use crate::{
    Subject, Wrong,
    error::ErrorKind,
    file::{
        FileSource,
        report::Report,
        section::{ColumnInfo, Section},
    },
    settings::Given,
};

/// Columns with their values.
pub type Fields = Vec<(Cow<'static, str>, Given)>;

/// One entry.
pub(super) struct Row<'r, 'a> {
    section: &'static Section,
    /// Which entry of its section it is, counted from 0.
    pub(super) index: usize,
    pub(super) fields: &'r Fields,
    pub(super) files: &'a dyn FileSource,
    report: &'r mut Report<'a>,
    refused: Vec<&'static str>,
}

impl<'r, 'a> Row<'r, 'a> {
    pub(super) fn new(
        section: &'static Section,
        index: usize,
        fields: &'r Fields,
        files: &'a dyn FileSource,
        report: &'r mut Report<'a>,
    ) -> Self {
        Self { section, index, fields, files, report, refused: Vec::new() }
    }

    /// Its value of `name`.
    pub(super) fn given(&self, name: &str) -> Option<&'r Given> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, given)| given)
    }

    /// Whether it has `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.given(name).is_some()
    }

    /// Whether it has `name` with a value that was refused and reported.
    pub(super) fn is_refused(&self, name: &str) -> bool {
        self.refused.contains(&name)
    }

    /// ` in [[user]]` where that is worth saying.
    pub(super) fn within(&self) -> String {
        self.report.within(self.section)
    }

    /// A column of it.
    pub(super) fn subject(&self, column: impl Into<Cow<'static, str>>) -> Subject {
        Subject::column(self.section.name, self.index, column)
    }

    /// Reports an error about a column.
    pub(super) fn error(
        &mut self,
        kind: ErrorKind,
        column: impl Into<Cow<'static, str>>,
        message: String,
    ) {
        let subject = self.subject(column);
        self.report.add(kind, subject, message);
    }

    /// Reports a value that was refused.
    pub(super) fn refuse(&mut self, column: &'static str, wrong: Wrong) {
        self.refused.push(column);
        let message = format!("`{column}`{} {}", self.within(), wrong.reason);
        self.error(wrong.kind, column, message);
    }

    /// Reports that `column` is missing.
    pub(super) fn missing(&mut self, column: &'static str) {
        let message = format!("`{column}` is missing{}", self.within());
        self.error(ErrorKind::Missing, column, message);
    }

    /// Reports a column that is not supported yet, or warns of it.
    pub(super) fn has_no_effect(&mut self, column: &ColumnInfo) {
        let name = column.name;
        let warning = format!("{name} has no effect yet");
        if column.is_harmless && self.report.warn(self.subject(name), warning) {
            return;
        }
        let message = format!("`{name}`{} is not supported yet", self.within());
        self.error(ErrorKind::NotSupported, name, message);
    }
}
