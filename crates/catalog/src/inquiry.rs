//! What servers' dictionaries are asked of names, and what their rows mean. Who carries questions
//! and answers is not known here.
//!
//! Names are asked for in rounds: what each is; then the definitions of views, the triggers and
//! the columns of tables; then the same of the names that those use. Number and depth are bounded,
//! and what is beyond is taken for the worst.

mod query;
mod schema;

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use foldhash::fast::FixedState;
use query::Topic;
pub use query::{Query, SESSION};
pub(crate) use schema::known as known_anyway;
use trunkline_sql::analysis::TableAccess;

use crate::{
    Hidden, Kind, Name, Object, Told,
    grants::Grants,
    judge::{Use, Verdict, judge_column, judge_trigger, judge_view},
};

/// Names of one query.
const NAMES_MAX: usize = 64;
/// Base tables that one name may depend on.
const BASES_MAX: usize = 256;
/// Rows of one query that are looked at; a query with more says nothing for certain.
const ROWS_MAX: usize = 20_000;
/// Names of one inquiry that were not asked for but are used by those that were.
const USED_MAX: usize = 1_024;
/// How deep views and triggers may use each other.
const ROUNDS_MAX: usize = 12;

/// Privileges that on a whole schema let an account see the names of all its tables and views.
const SHOWING: &[&[u8]] = &[
    b"SELECT",
    b"INSERT",
    b"UPDATE",
    b"DELETE",
    b"CREATE",
    b"DROP",
    b"REFERENCES",
    b"INDEX",
    b"ALTER",
    b"CREATE VIEW",
    b"SHOW VIEW",
    b"TRIGGER",
];
/// The privilege to see triggers.
const TRIGGER: &[&[u8]] = &[b"TRIGGER"];

/// One row of an answer; `None` is NULL.
pub type Row = Vec<Option<Vec<u8>>>;

/// Engines whose tables do nothing but keep rows.
const PLAIN_ENGINES: [&[u8]; 8] =
    [b"InnoDB", b"MyISAM", b"Aria", b"MEMORY", b"ARCHIVE", b"CSV", b"ROCKSDB", b"BLACKHOLE"];

/// An inquiry after names: [`next_query`](Self::next_query) says what to ask,
/// [`answer`](Self::answer) takes what came of it, until there is nothing more to ask.
#[derive(Debug)]
pub struct Inquiry {
    is_mariadb: bool,
    names: Vec<Name>,
    facts: HashMap<Name, Facts, FixedState>,
    grants: Option<Grants>,
    /// Asks for what its role may do, next.
    role: Option<Query>,
    /// What is asked for in this step: names by their numbers in the queries.
    asked: Vec<Name>,
    /// What is still to be asked of these names, last first.
    topics: Vec<Topic>,
    /// Names of this round that are to be asked for.
    to_ask: Vec<Name>,
    /// Names of the next round.
    used: Vec<Name>,
    used_count: usize,
    rounds: usize,
    /// Foreign keys are asked for too.
    has_keys: bool,
}

/// What dictionaries say of one name.
#[derive(Debug, Default)]
struct Facts {
    kind: Option<Kind>,
    /// What happens when rows are read: in virtual columns, or by a view.
    reading: Hidden,
    /// What happens besides when rows are written: in defaults, stored columns, triggers.
    writing: Hidden,
    /// Names that reading it reads.
    reads: Vec<Name>,
    /// Names that writing it uses besides.
    triggered: Vec<(Name, TableAccess)>,
    has_triggers: bool,
    /// A view's definition has come.
    is_defined: bool,
    /// A table's engine is one whose changes are visible when they are committed, and logged by
    /// rows.
    is_tracked: bool,
    /// Tables a change of which changes this one too, by foreign keys.
    parents: Vec<Name>,
    /// More than could be looked at was said of it.
    is_spoilt: bool,
}

impl Inquiry {
    /// After these names, of servers of one family.
    pub fn new(names: Vec<Name>, is_mariadb: bool) -> Self {
        let mut inquiry = Self {
            is_mariadb,
            names: Vec::new(),
            facts: HashMap::default(),
            grants: None,
            role: None,
            asked: Vec::new(),
            topics: Vec::new(),
            to_ask: Vec::new(),
            used: Vec::new(),
            used_count: 0,
            rounds: 0,
            has_keys: false,
        };
        for name in &names {
            inquiry.meet(name);
        }
        inquiry.to_ask = std::mem::take(&mut inquiry.used);
        inquiry.used_count = 0;
        inquiry.names = names;
        inquiry
    }

    /// Asks for foreign keys too: [`bases`](Self::bases) needs them.
    #[must_use]
    pub fn with_keys(self) -> Self {
        Self { has_keys: true, ..self }
    }

    /// What is to be asked next; nothing when all is known that can be.
    pub fn next_query(&mut self) -> Option<Query> {
        if let Some(query) = self.role.take() {
            return Some(query);
        }
        loop {
            let Some(topic) = self.topics.pop() else {
                if !self.begin_step() {
                    return None;
                }
                continue;
            };
            if topic == Topic::Grants {
                match self.grants {
                    Some(_) => continue,
                    None => return Some(Query::grants(self.is_mariadb)),
                }
            }
            let numbered = self.asked.iter().enumerate();
            let kind = |name: &Name| self.facts.get(name).and_then(|facts| facts.kind);
            let wanted = numbered.filter(|(_, name)| match topic {
                Topic::Tables | Topic::Grants | Topic::RoleGrants => true,
                Topic::Views => kind(name) == Some(Kind::View),
                Topic::Triggers | Topic::Columns | Topic::Keys => kind(name) == Some(Kind::Table),
            });
            if let Some(query) = Query::of_names(topic, wanted, self.is_mariadb) {
                return Some(query);
            }
        }
    }

    /// Takes the rows that came.
    pub fn answer(&mut self, query: &Query, rows: &[Row]) {
        if query.is_about_grants() {
            let lines = rows.iter().map(|row| text(row, 0));
            self.grants.get_or_insert_default().read(lines);
            self.role = Query::behind_grants(rows);
            return;
        }
        if rows.len() > ROWS_MAX {
            // What is beyond could be of any of them.
            let asked = self.asked.iter();
            asked.for_each(|name| spoil(self.facts.entry(name.clone()).or_default()));
            return;
        }
        for row in rows {
            let (names, values) = self.about(row);
            for name in names {
                match query.topic() {
                    Topic::Tables => self.take_kind(&name, values),
                    Topic::Views => self.take_view(&name, values),
                    Topic::Triggers => self.take_trigger(&name, values),
                    Topic::Columns => self.take_column(&name, values),
                    Topic::Keys => self.take_key(&name, values),
                    Topic::Grants | Topic::RoleGrants => {}
                }
            }
        }
    }

    /// The names that a row is about, and what it says of them.
    fn about<'a>(&self, row: &'a Row) -> (Vec<Name>, &'a [Option<Vec<u8>>]) {
        if self.is_mariadb {
            let name = number(row).and_then(|at| self.asked.get(at)).cloned();
            return (name.into_iter().collect(), row.get(1..).unwrap_or_default());
        }
        let (schema, table) = (text(row, 0), text(row, 1));
        let of = |is_same: fn(&[u8], &[u8]) -> bool| {
            let all = self.asked.iter();
            all.filter(|it| is_same(&it.schema, schema) && is_same(&it.table, table))
                .cloned()
                .collect::<Vec<_>>()
        };
        let mut names = of(|one, other| one == other);
        if names.is_empty() {
            // A server that keeps names in lower case finds them in any.
            names = of(<[u8]>::eq_ignore_ascii_case);
        }
        (names, row.get(2..).unwrap_or_default())
    }

    /// What the names mean, as far as somebody said.
    pub fn finish(self) -> Vec<(Name, Told)> {
        let told = |name: &Name| {
            let told = self.told(name);
            (name.clone(), told)
        };
        self.names.iter().map(told).collect()
    }

    /// Takes the next names to be asked for; false when there are none.
    fn begin_step(&mut self) -> bool {
        if self.to_ask.is_empty() && self.rounds < ROUNDS_MAX {
            self.rounds += 1;
            self.to_ask = std::mem::take(&mut self.used);
        }
        let place = self.to_ask.len().saturating_sub(NAMES_MAX);
        self.asked = self.to_ask.split_off(place);
        self.topics =
            vec![Topic::Columns, Topic::Triggers, Topic::Views, Topic::Grants, Topic::Tables];
        if self.has_keys {
            self.topics.insert(0, Topic::Keys);
        }
        !self.asked.is_empty()
    }

    /// A name was met: it is asked for unless it has been, or is known without.
    fn meet(&mut self, name: &Name) {
        if self.facts.contains_key(name) {
            return;
        }
        let known = schema::known(&name.schema, &name.table);
        let facts = match known {
            Some(Object { kind, reading, writing }) => {
                Facts { kind: Some(kind), reading, writing, ..Facts::default() }
            }
            None if self.used_count >= USED_MAX.max(self.names.len()) && !self.names.is_empty() => {
                return;
            }
            None => {
                self.used_count += 1;
                self.used.push(name.clone());
                Facts::default()
            }
        };
        self.facts.insert(name.clone(), facts);
    }

    fn take_kind(&mut self, name: &Name, row: &[Option<Vec<u8>>]) {
        let facts = self.facts.entry(name.clone()).or_default();
        let kind = kind_of(text(row, 0), text(row, 1));
        // Two rows of one name: which one a statement means is not known here.
        facts.kind = Some(match facts.kind {
            None => kind,
            Some(_) => Kind::Other,
        });
        facts.is_tracked = text(row, 1).eq_ignore_ascii_case(b"InnoDB")
            // Servers write there without a word in their logs.
            && !name.schema.eq_ignore_ascii_case(b"mysql");
        match facts.kind {
            Some(Kind::Sequence) => {
                facts.reading = Hidden::READS_SESSION | Hidden::VARIES;
                facts.writing = Hidden::UNKNOWN;
            }
            Some(Kind::Other) => spoil(facts),
            Some(Kind::Table) if !rolls_back(text(row, 1)) => {
                facts.writing.insert(Hidden::STAYS_WRITTEN);
            }
            Some(Kind::Table | Kind::View) | None => {}
        }
    }

    fn take_view(&mut self, name: &Name, row: &[Option<Vec<u8>>]) {
        let verdict = match whole_text(row, 0) {
            // Who may not see it gets an empty one.
            Some(definition) if !definition.is_empty() => judge_view(definition, self.is_mariadb),
            Some(_) | None => Verdict::unseen_view(),
        };
        let uses = self.names_of(name, verdict.uses);
        let facts = self.facts.entry(name.clone()).or_default();
        facts.is_defined = true;
        facts.reading.insert(verdict.hidden);
        facts.reads = uses.into_iter().map(|(name, _)| name).collect();
    }

    fn take_trigger(&mut self, name: &Name, row: &[Option<Vec<u8>>]) {
        let (sql_mode, charset) = (text(row, 1), text(row, 2));
        let verdict = match whole_text(row, 0) {
            Some(body) => judge_trigger(body, sql_mode, charset, self.is_mariadb),
            None => Verdict::unknown(),
        };
        let uses = self.names_of(name, verdict.uses);
        let facts = self.facts.entry(name.clone()).or_default();
        facts.has_triggers = true;
        facts.writing.insert(verdict.hidden | Hidden::GIVES_VALUES);
        facts.triggered.extend(uses);
    }

    fn take_column(&mut self, name: &Name, row: &[Option<Vec<u8>>]) {
        let (extra, generated) = (text(row, 1), whole_text(row, 2));
        let is_mariadb = self.is_mariadb;
        let is_virtual = contains(extra, b"VIRTUAL");
        // MySQL shows a literal without its quotes; MariaDB shows every default as an expression.
        let is_expression = is_mariadb || contains(extra, b"DEFAULT_GENERATED");
        let default = match row.first().is_some_and(Option::is_some) && is_expression {
            true => whole_text(row, 0).map(|text| judge_column(text, is_mariadb)),
            false => Some(Hidden::empty()),
        };
        let generated = generated.map(|text| match text.is_empty() {
            true => Hidden::empty(),
            false => judge_column(text, is_mariadb),
        });
        let facts = self.facts.entry(name.clone()).or_default();
        facts.writing.insert(default.unwrap_or(Hidden::UNKNOWN));
        let generated = generated.unwrap_or(Hidden::UNKNOWN);
        facts.writing.insert(generated);
        if is_virtual {
            facts.reading.insert(generated);
        }
    }

    fn take_key(&mut self, name: &Name, row: &[Option<Vec<u8>>]) {
        let (schema, table) = (text(row, 0).into(), text(row, 1).into());
        let parent = Name { group: name.group, schema, table };
        self.meet(&parent);
        self.facts.entry(name.clone()).or_default().parents.push(parent);
    }

    /// All base tables that reading a name depends on; `None` where these are not known, or changes
    /// of some are not told by their servers' logs.
    pub fn bases(&self, name: &Name) -> Option<Arc<[Name]>> {
        let mut seen: HashSet<&Name, FixedState> = HashSet::default();
        let (mut ahead, mut bases) = (vec![name], Vec::new());
        while let Some(name) = ahead.pop() {
            if !seen.insert(name) {
                continue;
            }
            let facts = self.facts.get(name)?;
            let is_plain = name.schema.is_ascii() && name.table.is_ascii() && !facts.is_spoilt;
            if !is_plain || facts.reading.has(Hidden::UNKNOWN) || bases.len() >= BASES_MAX {
                return None;
            }
            match facts.kind? {
                Kind::View if facts.is_defined => ahead.extend(&facts.reads),
                Kind::Table if facts.is_tracked && self.sees_keys(name) => {
                    bases.push(name.clone());
                    ahead.extend(&facts.parents);
                }
                Kind::View | Kind::Table | Kind::Sequence | Kind::Other => return None,
            }
        }
        Some(bases.into())
    }

    /// The names that a view or trigger of `owner`'s schema uses, which are met by that.
    fn names_of(&mut self, owner: &Name, uses: Vec<Use>) -> Vec<(Name, TableAccess)> {
        let full = |used: Use| {
            let schema = used.schema.unwrap_or_else(|| owner.schema.clone());
            (Name { group: owner.group, schema, table: used.table }, used.access)
        };
        let names: Vec<_> = uses.into_iter().map(full).collect();
        names.iter().for_each(|(name, _)| self.meet(name));
        names
    }

    fn told(&self, name: &Name) -> Told {
        let facts = self.facts.get(name);
        let Some((facts, kind)) = facts.and_then(|facts| Some((facts, facts.kind?))) else {
            // Servers may find a name in another case than it is written in.
            let is_ascii = name.schema.is_ascii() && name.table.is_ascii();
            let is_absent = is_ascii && self.sees_names(name);
            return Told { is_absent, ..Told::NOTHING };
        };
        let object = Object {
            kind,
            reading: self.hidden_behind(name, TableAccess::Read),
            writing: self.hidden_behind(name, TableAccess::Write),
        };
        let rests_on_others = kind == Kind::View || facts.has_triggers;
        Told { object: Some(object), rests_on_others, ..Told::NOTHING }
    }

    /// All that may happen when a name is used so, in whatever it uses.
    fn hidden_behind(&self, name: &Name, access: TableAccess) -> Hidden {
        let mut hidden = Hidden::empty();
        let mut seen: HashSet<(&Name, bool, bool), FixedState> = HashSet::default();
        let mut ahead = VecDeque::from([(name, access, false)]);
        while let Some((name, access, is_of_view)) = ahead.pop_front() {
            let writes = access == TableAccess::Write;
            if !seen.insert((name, writes, is_of_view)) {
                continue;
            }
            let known = self.facts.get(name).and_then(|facts| Some((facts, facts.kind?)));
            let Some((facts, kind)) = known else {
                // A view reads no temporary table: it is there, and may be a view itself.
                hidden.insert(if is_of_view { Hidden::OPAQUE } else { Hidden::UNKNOWN });
                continue;
            };
            hidden.insert(facts.reading);
            // Virtual columns may read the session.
            if kind == Kind::Table && self.is_mariadb && !self.sees_columns(name) {
                hidden.insert(Hidden::UNKNOWN);
            }
            if kind == Kind::View {
                if !facts.is_defined {
                    hidden.insert(Hidden::UNKNOWN);
                }
                ahead.extend(facts.reads.iter().map(|it| (it, access, true)));
            }
            if writes {
                hidden.insert(facts.writing);
                if kind == Kind::Table && !self.sees_triggers(name) {
                    hidden.insert(Hidden::UNKNOWN);
                }
                let triggered = facts.triggered.iter();
                ahead.extend(triggered.map(|(name, access)| (name, *access, false)));
            }
        }
        hidden
    }

    /// Whether the account is shown every table and view of a name's schema: what it is not shown
    /// is not there.
    fn sees_names(&self, name: &Name) -> bool {
        let grants = self.grants.as_ref();
        grants.is_some_and(|grants| grants.hold_on_schema(name, SHOWING, self.is_mariadb))
    }

    /// Whether the account is shown all columns of a table.
    fn sees_columns(&self, name: &Name) -> bool {
        const READABLE: &[&[u8]] = &[b"SELECT", b"INSERT", b"UPDATE", b"REFERENCES"];
        let grants = self.grants.as_ref();
        grants.is_some_and(|grants| grants.hold(name, READABLE, self.is_mariadb))
    }

    /// Whether it is shown all triggers and all columns.
    fn sees_triggers(&self, name: &Name) -> bool {
        let grants = self.grants.as_ref();
        grants.is_some_and(|grants| grants.hold(name, TRIGGER, self.is_mariadb))
            && self.sees_columns(name)
    }

    /// Whether foreign keys were asked for and it is shown all of them, and triggers and columns.
    /// MariaDB shows none for privileges on the table alone.
    fn sees_keys(&self, name: &Name) -> bool {
        let grants = self.grants.as_ref();
        let on_schema = |grants: &Grants| grants.hold_on_schema(name, TRIGGER, self.is_mariadb);
        self.has_keys
            && self.sees_triggers(name)
            && (!self.is_mariadb || grants.is_some_and(on_schema))
    }
}

/// Any of it may do anything.
fn spoil(facts: &mut Facts) {
    facts.is_spoilt = true;
    facts.reading = Hidden::UNKNOWN;
    facts.writing = Hidden::UNKNOWN;
}

/// Whether what is written to an engine's tables is undone with its transaction.
fn rolls_back(engine: &[u8]) -> bool {
    const TRANSACTIONAL: [&[u8]; 2] = [b"InnoDB", b"ROCKSDB"];
    TRANSACTIONAL.iter().any(|known| known.eq_ignore_ascii_case(engine))
}

fn kind_of(table_type: &[u8], engine: &[u8]) -> Kind {
    match table_type {
        b"BASE TABLE" | b"SYSTEM VERSIONED" => {
            match PLAIN_ENGINES.iter().any(|plain| plain.eq_ignore_ascii_case(engine)) {
                true => Kind::Table,
                false => Kind::Other,
            }
        }
        b"VIEW" => Kind::View,
        b"SEQUENCE" => Kind::Sequence,
        _ => Kind::Other,
    }
}

/// The number of the name that a row is about.
fn number(row: &Row) -> Option<usize> {
    std::str::from_utf8(text(row, 0)).ok()?.parse().ok()
}

fn text(row: &[Option<Vec<u8>>], at: usize) -> &[u8] {
    row.get(at).and_then(Option::as_deref).unwrap_or_default()
}

/// A text that was not cut on its way; NULL is an empty one.
fn whole_text(row: &[Option<Vec<u8>>], at: usize) -> Option<&[u8]> {
    Some(text(row, at)).filter(|text| text.len() <= query::TEXT_MAX)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}
