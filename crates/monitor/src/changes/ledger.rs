//! What the stream of a cluster makes of the versions of its tables.
//!
//! A change has come when its event has; a server shows it when it says so. Neither follows from
//! the other: answers are kept by what servers show, and end by what has come.

use std::{collections::VecDeque, sync::Arc};

use trunkline_binlog::{Change, Executed, Family, History};
use trunkline_catalog::{Catalog, DefinitionTicket};
use trunkline_topology::{Address, Stripe, TableVersion, TableVersions};

use super::dump::Place;

/// Places of transactions that a MariaDB server may not show yet.
const PLACES_MAX: usize = 10_000;

/// What a server has said of itself.
#[derive(Debug)]
pub(super) enum Said {
    /// All of these can be read there.
    Shows(Executed),
    /// All of these are in its log, and what ends before this position of its log can be read.
    Logged(Executed, (Vec<u8>, u64)),
}

/// Keeps the versions of a cluster's tables.
#[derive(Default)]
pub(super) struct Ledger {
    /// `None` while nobody needs them.
    versions: Option<Arc<TableVersions>>,
    /// How often it began.
    epoch: u32,
    /// The number of the first change since.
    first: u64,
    /// Up to which number each server shows changes.
    shown: Vec<(Address, u64)>,
    /// The numbers behind changes, and where these end in the writer's log, where it numbers no
    /// sets.
    places: VecDeque<(u64, Place)>,
    /// What the writer had at a time, ms on the workers' clock, that has not come yet.
    awaited: Option<(Executed, u64)>,
    /// Names are not known until the writer shows changes up to this number.
    definition: Option<(u64, DefinitionTicket)>,
}

impl Ledger {
    /// Whether it keeps any versions.
    pub(super) fn is_on(&self) -> bool {
        self.versions.is_some()
    }

    /// Whether it keeps these.
    pub(super) fn keeps(&self, versions: &Arc<TableVersions>) -> bool {
        self.versions.as_ref().is_some_and(|it| Arc::ptr_eq(it, versions))
    }

    /// Begins behind what has come: of what was before, nothing is known.
    pub(super) fn begin(
        &mut self,
        versions: Arc<TableVersions>,
        history: &History,
        catalog: &Arc<Catalog>,
    ) {
        self.stop("the binary log is followed anew");
        self.epoch += 1;
        self.first = history.next();
        // What names meant may have changed unseen.
        drop(catalog.begin_other_servers());
        versions.change_all(TableVersion::begin(self.epoch));
        self.versions = Some(versions);
    }

    /// Nothing is known any more.
    pub(super) fn stop(&mut self, why: &str) {
        if let Some(versions) = self.versions.take() {
            versions.stop(why);
        }
        self.shown.clear();
        self.places.clear();
        self.awaited = None;
        self.definition = None;
    }

    fn version(&self, number: u64) -> Option<TableVersion> {
        Some(TableVersion::begin(self.epoch).plus(number.checked_sub(self.first)?))
    }

    /// A change has come, and is the last one of the history.
    pub(super) fn add(
        &mut self,
        change: &Change,
        place: Place,
        history: &History,
        catalog: &Arc<Catalog>,
    ) {
        let number = history.next();
        let (Some(versions), Some(version)) = (self.versions.clone(), self.version(number)) else {
            return;
        };
        let is_mariadb = history.reached().family() == Family::MariaDb;
        if may_define(change) {
            // The new one first: names stay unknown. MariaDB logs what it has carried out.
            let ticket = catalog.begin_other_servers();
            self.definition = (!is_mariadb).then_some((number, ticket));
        }
        match names_all_tables(change) {
            true => change.tables.iter().for_each(|it| {
                let (schema, table) = (it.name.schema.as_bytes(), it.name.table.as_bytes());
                versions.change(Stripe::of(schema, table), version);
            }),
            false => versions.change_all(version),
        }
        if is_mariadb && self.places.len() < PLACES_MAX {
            self.places.push_back((number, place));
        }
        self.tell_awaited(history.reached());
    }

    fn tell_awaited(&mut self, reached: &Executed) {
        let awaited = self.awaited.take_if(|(had, _)| reached.covers(had));
        if let (Some((_, at_ms)), Some(versions)) = (awaited, &self.versions) {
            versions.tell(at_ms);
        }
    }

    /// A server has answered what it was asked at this time, ms on the workers' clock.
    pub(super) fn hear(
        &mut self,
        server: &Address,
        is_writer: bool,
        (said, asked_ms): (Said, u64),
        history: &History,
    ) {
        let before = self.shown.iter().find(|(it, _)| it == server).map(|(_, number)| *number);
        let (has, shown) = match said {
            Said::Shows(has) => {
                let shown = history.first_lacking(&has, before);
                (has, shown)
            }
            Said::Logged(has, (file, position)) => {
                let shown = self.take_places(&file, position).or(before);
                (has, shown)
            }
        };
        let shown = shown.filter(|number| *number >= self.first);
        if let (Some(versions), true) = (&self.versions, shown != before) {
            let version = shown.and_then(|number| self.version(number));
            versions.show(server, version);
            self.shown.retain(|(it, _)| it != server);
            self.shown.extend(shown.map(|number| (server.clone(), number)));
        }
        if is_writer {
            let is_shown = |number: &u64| shown.is_some_and(|shown| shown >= *number);
            self.definition.take_if(|(number, _)| is_shown(number));
            // One at a time: what has to come for a later one comes later.
            self.awaited.get_or_insert((has, asked_ms));
            self.tell_awaited(history.reached());
        }
    }

    /// Nothing is known of a server any more.
    pub(super) fn lose(&mut self, server: &Address) {
        self.shown.retain(|(it, _)| it != server);
        if let Some(versions) = &self.versions {
            versions.show(server, None);
        }
    }

    /// The number up to which all is shown by a server that shows what ends before this position of
    /// its log; `None` when nothing more is known by that.
    ///
    /// A server that begins a file says so before it shows the end of the last one. The first
    /// transaction of a file may come with the file; the end of a later one proves that those
    /// before it are shown.
    fn take_places(&mut self, file: &[u8], position: u64) -> Option<u64> {
        let is_shown = |place: &Place| *place.file == *file && place.end <= position;
        let proof = self.places.iter().rposition(|(_, it)| is_shown(it) && !it.is_first)?;
        self.places.drain(..=proof).next_back().map(|(number, _)| number)
    }
}

/// Whether a change names all tables that it changes.
fn names_all_tables(change: &Change) -> bool {
    // One without any may be the second part of an `XA` transaction.
    change.is_complete && change.statements.is_empty() && !change.tables.is_empty()
}

/// Whether names may mean something else by a change.
fn may_define(change: &Change) -> bool {
    const PLAIN: [&str; 12] = [
        "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "TRUNCATE", "GRANT", "REVOKE", "ANALYZE",
        "FLUSH", "SET", "CALL",
    ];
    !change.is_complete
        || change.statements.iter().any(|statement| !PLAIN.contains(&statement.words.as_str()))
}

#[cfg(test)]
mod tests {
    use trunkline_binlog::{Gtid, StatementChange, TableChange, event::TableName};
    use trunkline_topology::{Basis, Refused, Tables, gtid::Origin};

    use super::*;

    /// A stream of MariaDB's, with its ledger.
    struct Followed {
        ledger: Ledger,
        history: History,
        versions: Arc<TableVersions>,
        catalog: Arc<Catalog>,
    }

    fn server(port: u16) -> Address {
        format!("127.0.0.1:{port}").parse().expect("an address")
    }

    fn position(text: &str) -> Executed {
        Executed::parse(Family::MariaDb, text).expect("a position")
    }

    impl Followed {
        fn new() -> Self {
            let (versions, catalog) = (Arc::<TableVersions>::default(), Arc::default());
            let history = History::new(position("0-1-10"), 100, 1 << 20);
            let mut ledger = Ledger::default();
            ledger.begin(Arc::clone(&versions), &history, &catalog);
            Self { ledger, history, versions, catalog }
        }

        /// The next transaction comes, which changes a table, or all for all that is known.
        fn come(&mut self, number: u64, table: Option<&str>, (file, end): (&str, u64)) {
            let gtid = Gtid { origin: Origin::Domain(0), server: 1, number };
            let name =
                |table: &str| TableName { schema: "shop".to_owned(), table: table.to_owned() };
            let changed = |table: &str| TableChange {
                name: Arc::new(name(table)),
                inserted: 1,
                updated: 0,
                deleted: 0,
                is_counted: true,
            };
            let ddl =
                StatementChange { schema: "shop".to_owned(), words: "ALTER TABLE".to_owned() };
            let change = Change {
                gtid,
                at_us: 0,
                tables: table.map(changed).into_iter().collect(),
                statements: if table.is_some() { vec![] } else { vec![ddl] },
                is_complete: true,
            };
            let is_first =
                self.ledger.places.back().is_none_or(|it| *it.1.file != *file.as_bytes());
            let place = Place { file: Arc::from(file.as_bytes()), end, is_first };
            let change = self.history.push(change, 0);
            self.ledger.add(&change, place, &self.history, &self.catalog);
        }

        fn hear(&mut self, port: u16, said: Said, asked_ms: u64) {
            self.ledger.hear(&server(port), port == 1, (said, asked_ms), &self.history);
        }

        /// An answer of a table, by a server, as it is sent now.
        fn answer(&self, port: u16, table: &str) -> Basis {
            let tables = Tables::new(std::iter::once((&b"shop"[..], table.as_bytes())));
            let known_at = self.versions.last_of_all();
            let mut basis = Basis::new(Arc::clone(&self.versions), Arc::new(tables), known_at);
            basis.send(&server(port));
            basis
        }
    }

    fn logged(has: &str, file: &str, at: u64) -> Said {
        Said::Logged(position(has), (file.as_bytes().to_vec(), at))
    }

    #[test]
    fn a_time_is_told_when_all_that_the_writer_had_then_has_come() {
        let mut it = Followed::new();
        it.hear(1, Said::Shows(position("0-1-10")), 100);
        assert!(it.versions.is_told(100, 0, 0));
        it.hear(1, Said::Shows(position("0-1-12")), 200);
        it.come(11, Some("item"), ("a", 1_000));
        assert!(!it.versions.is_told(200, 0, 0), "12 has not come");
        // Another question does not put it off.
        it.hear(1, Said::Shows(position("0-1-14")), 300);
        it.come(12, Some("item"), ("a", 2_000));
        assert!(it.versions.is_told(200, 0, 0) && !it.versions.is_told(300, 0, 0));
    }

    #[test]
    fn answers_end_by_what_has_come_and_are_kept_by_what_is_shown() {
        let mut it = Followed::new();
        it.hear(1, Said::Shows(position("0-1-10")), 100);
        let before = it.answer(1, "item");
        assert_eq!(before.look(100, 0, 0), Ok(()));
        it.come(11, Some("item"), ("a", 1_000));
        assert_eq!(before.look(100, 0, 0), Err(Refused::Changed(Some("shop.item"))));
        assert!(!it.answer(1, "item").may_be_kept(), "it may not be visible yet");
        assert!(it.answer(1, "part").may_be_kept());
        it.hear(2, Said::Shows(position("0-1-11")), 150);
        assert!(it.answer(2, "item").may_be_kept(), "this one shows it");
        assert!(!it.answer(1, "item").may_be_kept());
        it.hear(1, Said::Shows(position("0-1-11")), 200);
        assert!(it.answer(1, "item").may_be_kept());
        it.ledger.lose(&server(2));
        assert!(!it.answer(2, "item").may_be_kept());
    }

    #[test]
    fn the_end_of_a_transaction_in_a_file_proves_what_is_before_it() {
        let mut it = Followed::new();
        it.hear(1, logged("0-1-10", "a", 500), 100);
        assert!(!it.answer(1, "item").may_be_kept(), "the last one may be on its way still");
        it.come(11, Some("item"), ("a", 1_000));
        it.hear(1, logged("0-1-11", "a", 1_000), 200);
        assert!(!it.answer(1, "part").may_be_kept(), "it is the first that came of the file");
        it.come(12, Some("item"), ("a", 2_000));
        it.hear(1, logged("0-1-12", "a", 1_999), 300);
        assert!(!it.answer(1, "part").may_be_kept());
        it.hear(1, logged("0-1-12", "a", 2_000), 400);
        assert!(it.answer(1, "item").may_be_kept());
        // A new file is named before the end of the last one is shown.
        it.come(13, Some("item"), ("a", 3_000));
        it.hear(1, logged("0-1-13", "b", 400), 500);
        assert!(!it.answer(1, "item").may_be_kept());
        it.come(14, Some("other"), ("b", 1_000));
        it.hear(1, logged("0-1-14", "b", 1_000), 600);
        assert!(!it.answer(1, "item").may_be_kept());
        it.come(15, Some("other"), ("b", 2_000));
        it.hear(1, logged("0-1-15", "b", 2_000), 700);
        assert!(it.answer(1, "item").may_be_kept());
    }

    #[test]
    fn definitions_end_all_answers_and_make_names_unknown_until_they_are_shown() {
        let mut it = Followed::new();
        it.hear(1, Said::Shows(position("0-1-10")), 100);
        let before = it.answer(1, "item");
        let version = it.catalog.version();
        it.come(11, None, ("a", 1_000));
        assert_eq!(before.look(100, 0, 0), Err(Refused::Changed(None)));
        assert!(it.catalog.version() != version && it.ledger.definition.is_none());
        it.hear(1, Said::Shows(position("0-1-11")), 300);
        assert!(it.answer(1, "item").may_be_kept());
        // MySQL logs what is not visible yet.
        let ticket = it.catalog.begin_other_servers();
        it.ledger.definition = Some((2, ticket));
        it.come(12, Some("item"), ("a", 2_000));
        it.hear(1, Said::Shows(position("0-1-11")), 400);
        assert!(it.ledger.definition.is_some());
        it.hear(1, Said::Shows(position("0-1-12")), 500);
        assert!(it.ledger.definition.is_none());
    }

    #[test]
    fn nothing_of_one_connection_holds_on_the_next() {
        let mut it = Followed::new();
        it.hear(1, Said::Shows(position("0-1-10")), 100);
        let before = it.answer(1, "item");
        let Followed { ledger, history, versions, catalog } = &mut it;
        ledger.begin(Arc::clone(versions), history, catalog);
        assert_eq!(before.look(100, 0, 0), Err(Refused::Late));
        it.hear(1, Said::Shows(position("0-1-10")), 200);
        assert_eq!(before.look(200, 0, 0), Err(Refused::Changed(None)));
        assert!(it.answer(1, "item").may_be_kept());
        it.ledger.stop("cut");
        assert!(!it.answer(1, "item").may_be_kept());
        assert_eq!(it.versions.trouble().as_deref(), Some("cut"));
    }

    #[test]
    fn what_names_no_table_may_have_changed_any() {
        let change = |tables: usize, words: &[&str]| Change {
            gtid: Gtid { origin: Origin::Domain(0), server: 1, number: 1 },
            at_us: 0,
            tables: (0..tables)
                .map(|_| TableChange {
                    name: Arc::new(TableName { schema: "s".to_owned(), table: "t".to_owned() }),
                    inserted: 0,
                    updated: 0,
                    deleted: 0,
                    is_counted: false,
                })
                .collect(),
            statements: words
                .iter()
                .map(|words| StatementChange { schema: String::new(), words: (*words).to_owned() })
                .collect(),
            is_complete: true,
        };
        assert!(names_all_tables(&change(1, &[])));
        assert!(!names_all_tables(&change(0, &[])), "XA COMMIT");
        assert!(!names_all_tables(&change(1, &["UPDATE"])));
        assert!(!names_all_tables(&Change { is_complete: false, ..change(1, &[]) }));
        assert!(!may_define(&change(1, &["UPDATE"])) && may_define(&change(0, &["CREATE VIEW"])));
        assert!(may_define(&change(0, &[""])), "what is not understood");
    }
}
