//! ProxySQL's variables: the one table of their names, values and meanings, and what becomes of
//! each here. Settings that ProxySQL does not have are variables `trunkline-…`.
//!
//! Source: ProxySQL 2.7.1's documentation of its variables.

mod mysql;

mod monitor;

mod admin;

#[cfg(test)]
mod tests;

use crate::{
    ErrorKind, Reload, SETTINGS, Settings, Wrong,
    file::did_you_mean,
    settings::{Given, Range, Setting},
};

/// The prefix of variables that only Trunkline has.
pub const OWN_PREFIX: &str = "trunkline-";

/// What values a variable takes, where no setting says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// `true` or `false`, also written 1 and 0.
    Flag,
    /// Whole numbers from the first to the second, both included.
    Numbers(i64, i64),
    /// One of these.
    Words(&'static [&'static str]),
    /// Any text but an empty one.
    Needed,
    /// Any text.
    Text,
    /// `false`, also written 0: what `true` would do is not done, for this reason. To take it and
    /// do nothing would leave people without a protection that they count on.
    Off(&'static str),
    /// None: it can't be set.
    ReadOnly,
}

/// What becomes of a variable here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It is this setting.
    Setting(&'static str),
    /// The admin port acts on it.
    Admin,
    /// It is kept and shown, and has no effect.
    Ignored,
}

/// One variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name with its prefix; empty for a setting's own, see [`Row`].
    pub name: &'static str,
    /// Its default in ProxySQL, for what is no setting.
    pub default: &'static str,
    /// What values it takes, for what is no setting.
    pub values: Values,
    /// What becomes of it.
    pub support: Support,
    /// What it is about.
    pub meaning: &'static str,
}

/// ProxySQL's version that names and tables are of, then Trunkline's: tools read the first.
pub const VERSION: &str = concat!("2.7.1-trunkline-", env!("CARGO_PKG_VERSION"));

/// One variable as the admin port shows it.
#[derive(Debug, Clone, Copy)]
pub enum Row {
    /// ProxySQL has it.
    Shared(&'static Variable),
    /// Only Trunkline has it.
    Own(&'static Setting),
}

/// Every variable: ProxySQL's, then Trunkline's own.
pub fn all() -> impl Iterator<Item = Row> {
    let own = SETTINGS.iter().filter(|row| is_own(row));
    shared().map(Row::Shared).chain(own.map(Row::Own))
}

/// Every variable, ordered by name.
pub fn by_name() -> Vec<Row> {
    let mut rows: Vec<Row> = all().collect();
    rows.sort_by_cached_key(Row::name);
    rows
}

/// What ProxySQL has.
fn shared() -> impl Iterator<Item = &'static Variable> {
    mysql::PARTS.into_iter().chain([monitor::VARIABLES, admin::VARIABLES]).flatten()
}

/// Whether a setting is a variable that ProxySQL does not have.
fn is_own(row: &Setting) -> bool {
    let is_it = |variable: &Variable| variable.support == Support::Setting(row.name);
    !shared().any(is_it)
}

/// The variable called `name`, whatever its case.
pub fn find(name: &str) -> Option<Row> {
    all().find(|row| row.is_named(name))
}

/// Judges a value.
///
/// # Errors
/// What is wrong, with the name, the value and what would be right.
pub fn check(name: &str, value: &str) -> Result<(), String> {
    let row = find(name).ok_or_else(|| {
        let names: Vec<String> = all().map(|row| row.name()).collect();
        let guess = did_you_mean(name, names.iter().map(String::as_str));
        format!("unknown variable `{name}`{guess}")
    })?;
    row.check(value)
}

impl Row {
    /// Its full name.
    pub fn name(&self) -> String {
        match self {
            Self::Shared(variable) => variable.name.to_owned(),
            Self::Own(setting) => format!("{OWN_PREFIX}{}", setting.name),
        }
    }

    fn is_named(&self, name: &str) -> bool {
        match self {
            Self::Shared(variable) => variable.name.eq_ignore_ascii_case(name),
            Self::Own(setting) => {
                name.split_at_checked(OWN_PREFIX.len()).is_some_and(|(prefix, rest)| {
                    prefix.eq_ignore_ascii_case(OWN_PREFIX)
                        && rest.eq_ignore_ascii_case(setting.name)
                })
            }
        }
    }

    /// The setting that it is, if it is one.
    pub fn setting(&self) -> Option<&'static Setting> {
        match self {
            Self::Own(setting) => Some(setting),
            Self::Shared(Variable { support: Support::Setting(name), .. }) => {
                SETTINGS.iter().find(|row| row.name == *name)
            }
            Self::Shared(_) => None,
        }
    }

    /// Its value until it is set.
    pub fn default_value(&self) -> String {
        match (self, self.setting()) {
            (_, Some(setting)) => self.spelled(&value_of(setting, &Settings::default())),
            (Self::Shared(variable), None) => variable.default.to_owned(),
            (Self::Own(_), None) => String::new(),
        }
    }

    /// A value that it takes, as it is shown once it runs: `true` or `false`, or 0 or 1, for what
    /// is on or off, whatever was written.
    pub fn spelled(&self, value: &str) -> String {
        let is_flag = match self.setting() {
            Some(setting) => setting.kind == "boolean",
            None => {
                matches!(self, Self::Shared(Variable { values: Values::Flag | Values::Off(_), .. }))
            }
        };
        let is_numbered =
            matches!(self, Self::Shared(Variable { values: Values::Numbers(0, 1), .. }));
        match flag(value).filter(|_| is_flag) {
            Some(is_on) if is_numbered => u8::from(is_on).to_string(),
            Some(is_on) => is_on.to_string(),
            None => value.to_owned(),
        }
    }

    /// Judges a value.
    ///
    /// # Errors
    /// What is wrong, with the name, the value and what would be right.
    pub fn check(&self, value: &str) -> Result<(), String> {
        let complain = |reason: String| Err(format!("{} {reason}", self.name()));
        if let Some(setting) = self.setting() {
            let given = given(setting, value);
            let is_typed = match setting.kind {
                "integer" => matches!(given, Given::Integer(_)),
                "boolean" => matches!(given, Given::Boolean(_)),
                _ => true,
            };
            if !is_typed {
                return complain(format!("must be {}, not `{value}`", self.range()));
            }
            return match Settings::default().set(setting.name, &given) {
                Ok(_) => Ok(()),
                Err(Wrong { kind: ErrorKind::Secret, reason }) => complain(reason),
                Err(wrong) if wrong.reason.contains(value) => complain(wrong.reason),
                Err(wrong) => complain(format!("{}, not `{value}`", wrong.reason)),
            };
        }
        let Self::Shared(variable) = self else { return Ok(()) };
        let is_right = match variable.values {
            Values::Flag => flag(value).is_some(),
            Values::Off(reason) => match flag(value) {
                Some(true) => return complain(format!("can't be `{value}`: {reason}")),
                is_on => is_on == Some(false),
            },
            Values::Numbers(min, max) => {
                value.parse().is_ok_and(|number: i64| (min..=max).contains(&number))
            }
            Values::Words(words) => words.contains(&value),
            Values::Needed => !value.is_empty(),
            Values::Text => true,
            // What a dump of this version has for it.
            Values::ReadOnly if value == VERSION => true,
            Values::ReadOnly => return complain("can't be set: it is read-only".to_owned()),
        };
        match is_right {
            true => Ok(()),
            false => complain(format!("must be {}, not `{value}`", self.range())),
        }
    }

    /// What values it takes, in words.
    pub fn range(&self) -> String {
        if let Some(setting) = self.setting() {
            return match setting.range {
                Range::All if setting.kind == "boolean" => "true or false".to_owned(),
                Range::All => setting.kind.to_owned(),
                range @ (Range::Numbers(..) | Range::Text(_)) => range.to_string(),
            };
        }
        let Self::Shared(variable) = self else { return String::new() };
        match variable.values {
            Values::Flag => "true or false".to_owned(),
            Values::Off(_) => "false".to_owned(),
            Values::Numbers(min, max) => format!("{min} to {max}"),
            Values::Words(words) => words.join(" or "),
            Values::Needed => "text, not empty".to_owned(),
            Values::Text => "text".to_owned(),
            Values::ReadOnly => "read-only".to_owned(),
        }
    }

    /// `implemented`, `mapped` (to a setting with another name) or `ignored`.
    pub fn support_word(&self) -> &'static str {
        match self {
            Self::Own(_) => "implemented",
            Self::Shared(variable) => match variable.support {
                Support::Setting(name) if variable.name.ends_with(name) => "implemented",
                Support::Setting(_) => "mapped",
                Support::Admin => "implemented",
                Support::Ignored => "ignored",
            },
        }
    }

    /// `live`, `restart`, or nothing where a change has no effect.
    pub fn reload_word(&self) -> &'static str {
        match (self, self.setting().map(|setting| setting.reload)) {
            (_, Some(Reload::Live)) => "live",
            (_, Some(Reload::Restart)) => "restart",
            (Self::Shared(Variable { support: Support::Admin, .. }), None) => "live",
            (_, None) => "",
        }
    }

    /// What it is about.
    pub fn meaning(&self) -> String {
        match self {
            Self::Own(setting) => setting.doc.split_whitespace().collect::<Vec<_>>().join(" "),
            Self::Shared(variable) => match variable.support {
                Support::Setting(name) if !variable.name.ends_with(name) => {
                    format!("{}; the setting `{name}`", variable.meaning)
                }
                Support::Setting(_) | Support::Admin | Support::Ignored => {
                    variable.meaning.to_owned()
                }
            },
        }
    }

    /// Its setting, and what the setting is given by this value; `None` when it is no setting.
    pub fn given(&self, value: &str) -> Option<(&'static str, Given)> {
        self.setting().map(|setting| (setting.name, given(setting, value)))
    }
}

/// A setting's value as its variable has it.
pub fn value_of(setting: &Setting, settings: &Settings) -> String {
    match setting.name {
        "listen" => {
            let listen = settings.listen.iter().map(ToString::to_string);
            listen.map(|text| text.replace("unix:", "")).collect::<Vec<_>>().join(";")
        }
        // Beside which file it is depends on the mode; there is no text for that.
        "state_file" => String::new(),
        name => settings.show(name).unwrap_or_default(),
    }
}

/// A variable's text as the value that its setting takes.
fn given(setting: &Setting, value: &str) -> Given {
    let text = || Given::Text(value.to_owned());
    match setting.kind {
        "integer" => value.trim().parse().map_or_else(|_| text(), Given::Integer),
        "boolean" => flag(value).map_or_else(text, Given::Boolean),
        "list of addresses" => {
            let entries = value.split([';', ',']).map(str::trim).filter(|entry| !entry.is_empty());
            let list = entries.map(|entry| match entry.starts_with('/') {
                true => Given::Text(format!("unix:{entry}")),
                false => Given::Text(entry.to_owned()),
            });
            Given::List(list.collect())
        }
        _ => text(),
    }
}

fn flag(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// A value as a file writes it.
pub fn toml_of(given: &Given) -> String {
    match given {
        Given::Integer(number) => number.to_string(),
        Given::Fraction(text) => text.clone(),
        Given::Boolean(flag) => flag.to_string(),
        Given::Text(text) => quoted(text),
        Given::List(items) => {
            format!("[{}]", items.iter().map(toml_of).collect::<Vec<_>>().join(", "))
        }
        Given::Table(members) => {
            let members =
                members.iter().map(|(name, value)| format!("{name} = {}", toml_of(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        Given::Other(name) => quoted(name),
    }
}

/// A text as a basic string of TOML.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            char if char.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(char))),
            char => out.push(char),
        }
    }
    out.push('"');
    out
}
