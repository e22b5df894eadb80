//! One table of the file, read key by key. It remembers which keys were asked for, so that what
//! is left over is unknown and what was asked for is what to suggest.

use std::ops::RangeInclusive;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::{
    SETTINGS,
    file::report::{Report, did_you_mean},
    settings::{Given, read_flag, read_number, read_text},
};

/// One table of a section.
pub(super) struct Table<'a> {
    section: &'static str,
    index: usize,
    fields: &'a DeTable<'a>,
    /// Byte offset of the table's beginning.
    pub(super) start: usize,
    asked: Vec<&'static str>,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        section: &'static str,
        index: usize,
        fields: &'a DeTable<'a>,
        start: usize,
    ) -> Self {
        Self { section, index, fields, start, asked: Vec::with_capacity(24) }
    }

    /// Which table of its section it is, counted from 0.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Where the value of `name` is; the table's beginning when it has none.
    pub(super) fn place(&self, name: &str) -> usize {
        self.fields.get(name).map_or(self.start, |value| value.span().start)
    }

    /// Whether the table has `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// A text; `None` when it is absent or (then reported) no text.
    pub(super) fn text(&mut self, report: &mut Report<'_>, name: &'static str) -> Option<String> {
        self.value(report, name, |given| read_text(given).map(str::to_owned))
    }

    /// A boolean; `None` as in [`Self::text`].
    pub(super) fn flag(&mut self, report: &mut Report<'_>, name: &'static str) -> Option<bool> {
        self.value(report, name, read_flag)
    }

    /// A whole number within `range`; `None` as in [`Self::text`].
    pub(super) fn number(
        &mut self,
        report: &mut Report<'_>,
        name: &'static str,
        range: RangeInclusive<u32>,
    ) -> Option<u32> {
        let (min, max) = (u64::from(*range.start()), u64::from(*range.end()));
        self.value(report, name, |given| {
            let number = read_number(given, min, max)?;
            u32::try_from(number).map_err(|_| format!("is too large: {number}"))
        })
    }

    /// Asks for `name` and reports a value that `read` refuses.
    pub(super) fn value<T>(
        &mut self,
        report: &mut Report<'_>,
        name: &'static str,
        read: impl FnOnce(&Given) -> Result<T, String>,
    ) -> Option<T> {
        self.asked.push(name);
        let value = self.fields.get(name)?;
        let given = given(value.get_ref());
        let read = read(&given);
        given.wipe();
        match read {
            Ok(value) => Some(value),
            Err(reason) => {
                let message = format!("`{name}` in [[{}]] {reason}", self.section);
                self.error(report, name, message);
                None
            }
        }
    }

    /// Whether `name` is a table itself.
    pub(super) fn is_table(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|value| matches!(value.get_ref(), DeValue::Table(_)))
    }

    /// The fields of a table within this one: names, and values where they are texts.
    pub(super) fn fields_of(&mut self, name: &'static str) -> Vec<(String, Option<String>)> {
        self.asked.push(name);
        let Some(DeValue::Table(fields)) = self.fields.get(name).map(Spanned::get_ref) else {
            return Vec::new();
        };
        let pair = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let key: &std::borrow::Cow<'_, str> = key.get_ref();
            (key.clone().into_owned(), read_text(&given(value.get_ref())).ok().map(str::to_owned))
        };
        fields.iter().map(pair).collect()
    }

    /// The one of two names for the same thing that the table uses: `name` unless only `other`
    /// is there. Both at once are reported.
    pub(super) fn either(
        &mut self,
        report: &mut Report<'_>,
        name: &'static str,
        other: &'static str,
    ) -> &'static str {
        self.asked.extend([name, other]);
        match (self.has(name), self.has(other)) {
            (true, true) => {
                let section = self.section;
                let message =
                    format!("`{name}` and `{other}` in [[{section}]] mean the same; give one");
                self.error(report, other, message);
                name
            }
            (false, true) => other,
            (true, false) | (false, false) => name,
        }
    }

    /// Reports an error at the value of `name`, or at the table when it has none.
    pub(super) fn error(&self, report: &mut Report<'_>, name: &str, message: String) {
        let key = format!("{}[{}].{name}", self.section, self.index);
        report.add(self.place(name), &key, message);
    }

    /// Reports that `name` is missing.
    pub(super) fn missing(&self, report: &mut Report<'_>, name: &str) {
        self.error(report, name, format!("`{name}` is missing in [[{}]]", self.section));
    }

    /// Reports every key that nobody asked for. `later` are columns of ProxySQL's table that
    /// have no effect here, and so must not be swallowed.
    pub(super) fn finish(&self, report: &mut Report<'_>, later: &[&str]) {
        for key in self.fields.keys() {
            let name: &str = key.get_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let section = self.section;
            let message = if later.contains(&name) {
                format!("`{name}` in [[{section}]] is not supported yet")
            } else if SETTINGS.iter().any(|row| row.name == name) {
                format!("`{name}` is a setting; it must stand above the first [[{section}]]")
            } else {
                let guess = did_you_mean(name, self.asked.iter().copied());
                format!("unknown key `{name}` in [[{section}]]{guess}")
            };
            report.add(key.span().start, &format!("{section}[{}].{name}", self.index), message);
        }
    }
}

/// A TOML value without its spelling.
pub(super) fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::Text(text.clone().into_owned()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or(Given::Other("a number beyond 128 bits"), Given::Integer),
        DeValue::Float(_) => Given::Other("a number with a fraction"),
        DeValue::Boolean(flag) => Given::Boolean(*flag),
        DeValue::Datetime(_) => Given::Other("a date"),
        DeValue::Array(items) => {
            Given::List(items.iter().map(Spanned::get_ref).map(given).collect())
        }
        DeValue::Table(_) => Given::Other("a table"),
    }
}
