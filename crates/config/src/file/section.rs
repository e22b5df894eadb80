//! The one table of sections and their columns. A section exists by its row in [`SECTIONS`], a
//! column by its row in the section: the key of a file, the column of the admin port's table, and
//! how a value is read all come from there.

use crate::{
    SETTINGS, Wrong,
    error::ErrorKind,
    file::{
        check::Entries,
        cluster::{AuroraDraft, ClusterDraft, GaleraDraft, GroupReplicationDraft},
        fast::FastDraft,
        guard::{FirewallRuleDraft, FirewallUserDraft, LimitDraft, TenantDraft},
        hostgroup::HostgroupDraft,
        replication::ReplicationDraft,
        report::did_you_mean,
        row::Row,
        rule::RuleDraft,
        server::{ServerDraft, SslParamsDraft},
        tcp::TcpDraft,
        user::UserDraft,
    },
    settings::{Given, read_flag, read_number, read_text},
};

/// A list of tables that a file may have, and the table of the admin port that holds the same.
pub struct Section {
    /// Its name in a file.
    pub name: &'static str,
    /// The table of the admin port.
    pub table: &'static str,
    /// What a row of that table is called in messages: its columns in braces.
    pub key: &'static str,
    pub(super) read: fn(&mut Row<'_, '_>, &mut Entries),
    column: fn(&str) -> Option<&'static ColumnInfo>,
    instead_of: fn(&str) -> Option<&'static ColumnInfo>,
}

/// Every section, in the order in which they are read.
pub static SECTIONS: [Section; 16] = [
    section::<ServerDraft>(),
    section::<SslParamsDraft>(),
    section::<HostgroupDraft>(),
    section::<UserDraft>(),
    section::<ReplicationDraft>(),
    section::<GaleraDraft>(),
    section::<GroupReplicationDraft>(),
    section::<AuroraDraft>(),
    section::<ClusterDraft>(),
    section::<RuleDraft>(),
    section::<FastDraft>(),
    section::<FirewallUserDraft>(),
    section::<FirewallRuleDraft>(),
    section::<LimitDraft>(),
    section::<TenantDraft>(),
    section::<TcpDraft>(),
];

impl Section {
    /// The section called `name` in a file.
    pub fn find(name: &str) -> Option<&'static Self> {
        SECTIONS.iter().find(|section| section.name == name)
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&'static ColumnInfo> {
        (self.column)(name)
    }

    /// The column that says the same as `name`, as ProxySQL's table has it.
    pub(super) fn instead_of(&self, name: &str) -> Option<&'static ColumnInfo> {
        (self.instead_of)(name)
    }
}

/// What is being read of one entry of a section; its default is an entry that says nothing.
pub(super) trait Draft: Default + 'static {
    const NAME: &'static str;
    const TABLE: &'static str;
    const KEY: &'static str;
    const COLUMNS: &'static [Column<Self>];

    /// Adds what was read, and reports what no single column can tell.
    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries);
}

const fn section<D: Draft>() -> Section {
    Section {
        name: D::NAME,
        table: D::TABLE,
        key: D::KEY,
        read: read::<D>,
        column: |name| D::COLUMNS.iter().map(|column| &column.info).find(|info| info.name == name),
        instead_of: |name| {
            D::COLUMNS.iter().map(|column| &column.info).find(|info| info.instead_of == Some(name))
        },
    }
}

/// What a column is, whatever its type.
#[derive(Debug, Clone, Copy)]
pub struct ColumnInfo {
    /// Its name: the key of a file, and mostly the column of the table.
    pub name: &'static str,
    /// The JSON column of the table that has it as a member.
    pub member_of: Option<&'static str>,
    /// Another column that says the same.
    instead_of: Option<&'static str>,
    is_needed: bool,
    /// Whether it has no effect, and nothing can go wrong for that: no statement goes to a wrong
    /// place, and nothing in clear that should not.
    pub(super) is_harmless: bool,
}

/// A column of a section that is read into `D`.
pub(super) struct Column<D: 'static> {
    info: ColumnInfo,
    reader: Reader<D>,
}

/// How a value is read.
enum Reader<D: 'static> {
    Flag(fn(&mut D, bool)),
    /// A whole number from the first to the second, both included.
    Number(u32, u32, fn(&mut D, u32)),
    Text(fn(&mut D, String)),
    Value(fn(&mut D, &Given) -> Result<(), Wrong>),
    /// ProxySQL has it, and it has no effect here: it must not be swallowed.
    Later,
}

const fn column<D>(name: &'static str, reader: Reader<D>) -> Column<D> {
    let info = ColumnInfo {
        name,
        member_of: None,
        instead_of: None,
        is_needed: false,
        is_harmless: false,
    };
    Column { info, reader }
}

/// A boolean.
pub(super) const fn flag<D>(name: &'static str, set: fn(&mut D, bool)) -> Column<D> {
    column(name, Reader::Flag(set))
}

/// A whole number of `min` to `max`.
pub(super) const fn number<D>(
    name: &'static str,
    min: u32,
    max: u32,
    set: fn(&mut D, u32),
) -> Column<D> {
    column(name, Reader::Number(min, max, set))
}

/// A text.
pub(super) const fn text<D>(name: &'static str, set: fn(&mut D, String)) -> Column<D> {
    column(name, Reader::Text(set))
}

/// Whatever `set` reads.
pub(super) const fn value<D>(
    name: &'static str,
    set: fn(&mut D, &Given) -> Result<(), Wrong>,
) -> Column<D> {
    column(name, Reader::Value(set))
}

/// A column of ProxySQL's table that comes with a later feature.
pub(super) const fn later<D>(name: &'static str) -> Column<D> {
    column(name, Reader::Later)
}

/// What is read when the entry is finished, since more than its own value is needed.
pub(super) const fn at_end<D>(name: &'static str) -> Column<D> {
    value(name, |_, _| Ok(()))
}

/// A comment that nobody reads but people.
pub(super) const fn comment<D>() -> Column<D> {
    text("comment", |_, _| {})
}

/// It must be there.
pub(super) const fn needed<D>(mut column: Column<D>) -> Column<D> {
    column.info.is_needed = true;
    column
}

/// It says the same as the column `name`; only one of them may be there.
pub(super) const fn instead_of<D>(name: &'static str, mut column: Column<D>) -> Column<D> {
    column.info.instead_of = Some(name);
    column
}

/// The admin port has it as a member of the column `name`, which holds JSON.
pub(super) const fn member_of<D>(name: &'static str, mut column: Column<D>) -> Column<D> {
    column.info.member_of = Some(name);
    column
}

/// It may be set in a row and left without effect.
pub(super) const fn harmless<D>(mut column: Column<D>) -> Column<D> {
    column.info.is_harmless = true;
    column
}

impl<D> Column<D> {
    fn read(&self, draft: &mut D, given: &Given) -> Result<(), Wrong> {
        match &self.reader {
            Reader::Flag(set) => set(draft, read_flag(given)?),
            Reader::Number(min, max, set) => set(draft, read_u32(given, *min, *max)?),
            Reader::Text(set) => set(draft, read_text(given)?.to_owned()),
            Reader::Value(set) => set(draft, given)?,
            Reader::Later => {}
        }
        Ok(())
    }
}

pub(super) fn read_u32(given: &Given, min: u32, max: u32) -> Result<u32, Wrong> {
    let number = read_number(given, u64::from(min), u64::from(max))?;
    Ok(u32::try_from(number).map_err(|_| format!("is too large: {number}"))?)
}

/// Reads one of `words`.
pub(super) fn read_word<T>(
    given: &Given,
    words: &[&str],
    from_word: impl Fn(&str) -> Option<T>,
) -> Result<T, Wrong> {
    let word = read_text(given)?;
    let unknown = || format!("must be {}, not `{word}`", words.join(", "));
    Ok(from_word(word).ok_or_else(unknown)?)
}

/// Reads every column of an entry.
fn read<D: Draft>(row: &mut Row<'_, '_>, entries: &mut Entries) {
    let mut draft = D::default();
    for (name, given) in row.fields {
        match D::COLUMNS.iter().find(|column| column.info.name == *name) {
            None => unknown::<D>(row, name),
            Some(Column { info, reader: Reader::Later }) => row.has_no_effect(info),
            Some(column) => {
                if let Err(wrong) = column.read(&mut draft, given) {
                    row.refuse(column.info.name, wrong);
                }
            }
        }
    }
    for Column { info, .. } in D::COLUMNS {
        if let Some(other) = info.instead_of
            && row.has(info.name)
            && row.has(other)
        {
            let (name, within) = (info.name, row.within());
            let message = format!("`{other}` and `{name}`{within} mean the same; give one");
            row.error(ErrorKind::Conflict, name, message);
        }
        let is_given = |info: &ColumnInfo| {
            let other = D::COLUMNS.iter().find(|other| other.info.instead_of == Some(info.name));
            row.has(info.name) || other.is_some_and(|other| row.has(other.info.name))
        };
        if info.is_needed && !is_given(info) {
            row.missing(info.name);
        }
    }
    draft.finish(row, entries);
}

fn unknown<D: Draft>(row: &mut Row<'_, '_>, name: &str) {
    let within = row.within();
    let message = if SETTINGS.iter().any(|row| row.name == name) {
        format!("`{name}` is a setting; it must stand above the first [[{}]]", D::NAME)
    } else {
        let is_known = |column: &&Column<D>| !matches!(column.reader, Reader::Later);
        let known = D::COLUMNS.iter().filter(is_known).map(|column| column.info.name);
        format!("unknown key `{name}`{within}{}", did_you_mean(name, known))
    };
    row.error(ErrorKind::UnknownColumn, name.to_owned(), message);
}
