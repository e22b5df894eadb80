//! The tables of the admin port as the other source of a configuration, and as the text of a file.

use std::{fmt::Write, sync::Arc};

use trunkline_rules::FastRoutes;
use trunkline_topology::User;

use crate::{
    Config, ConfigError, Given, Place, Subject,
    error::ErrorKind,
    file::{
        FileSource, Reading,
        report::Source,
        row::Fields,
        section::{SECTIONS, Section},
    },
    variable::{self, toml_of},
};

/// Settings and rows, in the words of a file. They are loaded one table after the other:
/// hostgroups need no server yet, and there may be neither servers nor users.
#[derive(Default)]
pub struct Tables {
    settings: Vec<(&'static str, Given)>,
    /// The rows of each of [`SECTIONS`].
    rows: [Vec<Fields>; SECTIONS.len()],
    names: Names,
}

/// What rows are called, by section.
#[derive(Debug, Default)]
struct Names([Vec<Arc<str>>; SECTIONS.len()]);

/// Parts of a configuration that were made before, and so are not in [`Tables`].
#[derive(Debug, Default)]
pub struct Ready {
    /// Users beside those of the rows.
    pub users: Vec<Arc<User>>,
    /// All fast routing rules.
    pub fast_routes: Arc<FastRoutes>,
}

impl Tables {
    /// Adds the value of a setting.
    pub fn set(&mut self, setting: &'static str, value: Given) {
        self.settings.push((setting, value));
    }

    /// Adds a row that messages call `name`.
    pub fn add(&mut self, section: &Section, name: String, fields: Fields) {
        let lists = self.rows.iter_mut().zip(&mut self.names.0);
        if let Some((rows, names)) = lists
            .zip(&SECTIONS)
            .find_map(|(lists, known)| (known.name == section.name).then_some(lists))
        {
            rows.push(fields);
            names.push(Arc::from(name));
        }
    }

    /// Reads it as a configuration, with what an operator should hear of it: columns that are set
    /// and have no effect.
    ///
    /// # Errors
    /// Every wrong row and column.
    pub fn read(
        self,
        ready: Ready,
        files: &dyn FileSource,
    ) -> Result<(Config, Vec<ConfigError>), Vec<ConfigError>> {
        let mut reading = Reading::new(&self.names, files);
        for (name, given) in &self.settings {
            reading.setting(name, given);
        }
        for (section, rows) in SECTIONS.iter().zip(self.rows) {
            for (index, fields) in rows.into_iter().enumerate() {
                reading.row(section, index, fields);
            }
        }
        reading.finish(Some(ready))
    }

    /// The text of a file that says the same. Columns without effect are comments there.
    pub fn toml(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.settings {
            let _ = writeln!(text, "{name} = {}", toml_of(value));
        }
        for (section, rows) in SECTIONS.iter().zip(&self.rows) {
            let is_harmless =
                |name: &str| section.column(name).is_some_and(|info| info.is_harmless);
            for fields in rows {
                // A hostgroup that nothing is said of need have no server, as it must in a file.
                let is_mute = section.name == "hostgroup"
                    && fields.iter().all(|(name, _)| name == "hostgroup_id" || is_harmless(name));
                let mark = |is_marked| if is_marked { "# without effect: " } else { "" };
                let _ = writeln!(text, "{}[[{}]]", mark(is_mute), section.name);
                for (name, value) in fields {
                    let mark = mark(is_mute || is_harmless(name));
                    let _ = writeln!(text, "{mark}{name} = {}", toml_of(value));
                }
            }
        }
        text
    }
}

impl Source for Names {
    /// The number of the row, over all sections.
    fn locate(&self, subject: &Subject, _: ErrorKind) -> usize {
        let Some(index) = subject.index else { return 0 };
        let before = SECTIONS.iter().zip(&self.0);
        let before = before.take_while(|(section, _)| section.name != subject.section);
        before.map(|(_, names)| names.len()).sum::<usize>().saturating_add(index).saturating_add(1)
    }

    fn place(&self, subject: &Subject, _: usize) -> Place {
        let names = SECTIONS.iter().zip(&self.0).find(|(it, _)| it.name == subject.section);
        let name = subject.index.and_then(|index| names?.1.get(index));
        let variable = |row: &variable::Row| {
            row.setting().is_some_and(|setting| setting.name == subject.column)
        };
        match (name, names) {
            (Some(name), _) => Place::Row(Arc::clone(name)),
            (None, Some((section, _))) => Place::Row(Arc::from(section.table)),
            (None, None) => {
                let found = variable::all().find(variable).map(|row| row.name());
                Place::Row(Arc::from(found.unwrap_or_else(|| subject.to_string())))
            }
        }
    }

    fn other_place(&self, subject: &Subject) -> String {
        format!("in {}", self.place(subject, 0))
    }

    fn within(&self, _: &Section) -> String {
        String::new()
    }

    fn takes_without_effect(&self) -> bool {
        true
    }
}
