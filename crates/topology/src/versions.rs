//! When tables were changed last, so that an answer that is kept is known to be what its servers
//! would say now.
//!
//! The control plane follows a cluster's binary log and counts what comes: a change has a version,
//! and later ones have higher versions. An answer is *as of* a version when its server showed all
//! changes up to that one before it was asked. It holds as long as none of its tables has a version
//! beyond that.
//!
//! **Invariant:** the version of a change is stored before anything that tells that it has come:
//! before [`TableVersions::tell`] names a time behind it, and before [`TableVersions::show`] says
//! that a server shows it.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
};

use crate::Address;

/// Versions that are kept. Tables whose names have one hash share one, and lose answers together.
const STRIPES: usize = 4_096;
/// Changes of one connection to a log have less than so many numbers.
const NUMBER_BITS: u32 = 40;

/// A version: which connection to the log it comes from, and the change's number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableVersion(u64);

impl TableVersion {
    /// Of what came before the first change of a connection, which is the `epoch`-th.
    pub fn begin(epoch: u32) -> Self {
        Self(u64::from(epoch) << NUMBER_BITS)
    }

    /// Of the change before which so many came on the connection.
    #[must_use]
    pub fn plus(self, changes: u64) -> Self {
        debug_assert!(changes < 1 << NUMBER_BITS, "numbers of changes have room");
        Self(self.0.saturating_add(changes))
    }
}

/// Where a table's version is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stripe(u16);

impl Stripe {
    /// That of a table, whatever the case of its names.
    pub fn of(schema: &[u8], table: &[u8]) -> Self {
        // FNV-1a; no name has a zero byte in it.
        let bytes = schema.iter().chain(&[0]).chain(table);
        let hash = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01B3)
        });
        let folded = (hash ^ (hash >> 32)) % STRIPES as u64;
        Self(u16::try_from(folded).unwrap_or_default())
    }
}

/// The versions of a cluster's tables.
pub struct TableVersions {
    stripes: Box<[AtomicU64]>,
    /// That of the last change whose tables are not known.
    all: AtomicU64,
    /// All that was committed before this time has come, ms on the workers' clock; 0 while that is
    /// not known.
    told_ms: AtomicU64,
    /// Up to which version each server shows changes.
    shown: RwLock<Vec<(Address, TableVersion)>>,
    /// Why nothing is known.
    trouble: Mutex<String>,
}

impl fmt::Debug for TableVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableVersions").field("told_ms", &self.told_ms).finish_non_exhaustive()
    }
}

impl Default for TableVersions {
    fn default() -> Self {
        Self {
            stripes: std::iter::repeat_with(AtomicU64::default).take(STRIPES).collect(),
            all: AtomicU64::new(0),
            told_ms: AtomicU64::new(0),
            shown: RwLock::default(),
            trouble: Mutex::new("the binary log is not followed yet".to_owned()),
        }
    }
}

impl TableVersions {
    /// A table has changed.
    pub fn change(&self, stripe: Stripe, version: TableVersion) {
        if let Some(cell) = self.stripes.get(usize::from(stripe.0)) {
            cell.fetch_max(version.0, Release);
        }
    }

    /// Any table may have changed.
    pub fn change_all(&self, version: TableVersion) {
        self.all.fetch_max(version.0, Release);
    }

    /// All that was committed before this time has come, ms on the workers' clock.
    pub fn tell(&self, at_ms: u64) {
        self.told_ms.fetch_max(at_ms, Release);
    }

    /// A server shows all changes up to this version; `None` when that is not known any more.
    pub fn show(&self, server: &Address, version: Option<TableVersion>) {
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        let place = shown.iter().position(|(address, _)| address == server);
        match (place.and_then(|at| shown.get_mut(at)), version) {
            (Some((_, known)), Some(version)) => *known = version,
            (None, Some(version)) => shown.push((server.clone(), version)),
            (Some(_), None) => shown.retain(|(address, _)| address != server),
            (None, None) => {}
        }
    }

    /// Nothing is known from now on, and why.
    pub fn stop(&self, why: &str) {
        self.told_ms.store(0, Release);
        self.shown.write().unwrap_or_else(PoisonError::into_inner).clear();
        why.clone_into(&mut self.trouble.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Why nothing is known; `None` when something is.
    pub fn trouble(&self) -> Option<String> {
        let is_stopped = self.told_ms.load(Acquire) == 0;
        is_stopped.then(|| self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Up to which version a server shows changes. Asked before a statement is sent there.
    pub fn shown(&self, server: &Address) -> Option<TableVersion> {
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        shown.iter().find(|(address, _)| address == server).map(|(_, version)| *version)
    }

    /// The version of the last change whose tables are not known, as of definitions.
    pub fn last_of_all(&self) -> TableVersion {
        TableVersion(self.all.load(Acquire))
    }

    /// Whether all that was committed before `now_ms - age_max_ms` has come, and what was committed
    /// by `own_ms`.
    pub fn is_told(&self, now_ms: u64, age_max_ms: u64, own_ms: u64) -> bool {
        let told_ms = self.told_ms.load(Acquire);
        told_ms > own_ms && now_ms.saturating_sub(told_ms) <= age_max_ms
    }
}

/// Tables that an answer depends on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// `schema.table` of each.
    names: Box<[Box<str>]>,
    stripes: Box<[Stripe]>,
}

impl Tables {
    /// These, by schema and name.
    pub fn new<'a>(names: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let (names, stripes): (Vec<Box<str>>, Vec<Stripe>) = names
            .map(|(schema, table)| {
                let text = |name| String::from_utf8_lossy(name);
                let name = format!("{}.{}", text(schema), text(table));
                (name.into_boxed_str(), Stripe::of(schema, table))
            })
            .unzip();
        Self { names: names.into(), stripes: stripes.into() }
    }

    /// `schema.table` of each.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }
}

/// Why an answer that is kept is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused<'a> {
    /// It is not known that nothing has changed: the log is behind or cut, or has not shown yet
    /// what the session has written.
    Late,
    /// This table has changed; `None`: any may have.
    Changed(Option<&'a str>),
}

/// What an answer depends on, and since when.
#[derive(Debug, Clone)]
pub struct Basis {
    versions: Arc<TableVersions>,
    tables: Arc<Tables>,
    /// The last change of unknown tables when it became known what it depends on.
    known_at: TableVersion,
    /// `None` until its statement is sent, and where its server may not show all that has come.
    as_of: Option<TableVersion>,
}

impl PartialEq for Basis {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.versions, &other.versions)
            && self.tables == other.tables
            && self.as_of == other.as_of
    }
}

impl Eq for Basis {}

impl Basis {
    /// Of an answer that will depend on these tables. `known_at`: what
    /// [`TableVersions::last_of_all`] was before it was found out that it does.
    pub fn new(versions: Arc<TableVersions>, tables: Arc<Tables>, known_at: TableVersion) -> Self {
        Self { versions, tables, known_at, as_of: None }
    }

    /// Its statement is about to be sent to a server.
    pub fn send(&mut self, server: &Address) {
        let is_known = self.versions.last_of_all() == self.known_at;
        self.as_of = self.versions.shown(server).filter(|_| is_known);
    }

    /// Whether the answer may be kept: nothing has changed since its server was known to show all.
    pub fn may_be_kept(&self) -> bool {
        self.versions.last_of_all() == self.known_at && self.changed().is_none()
    }

    /// The first of its tables that has changed since.
    fn changed(&self) -> Option<Option<&str>> {
        let Some(as_of) = self.as_of else { return Some(None) };
        if self.versions.last_of_all() > as_of {
            return Some(None);
        }
        let place = self.tables.stripes.iter().position(|stripe| {
            let cell = self.versions.stripes.get(usize::from(stripe.0));
            cell.is_none_or(|cell| cell.load(Acquire) > as_of.0)
        });
        place.map(|at| self.tables.names.get(at).map(AsRef::as_ref))
    }

    /// Whether its servers would say the same now: all that was committed up to `age_max_ms` ago
    /// has come, all that the session had written by `own_ms`, and none of its tables has changed.
    ///
    /// # Errors
    /// Why that is not so.
    pub fn look(&self, now_ms: u64, age_max_ms: u64, own_ms: u64) -> Result<(), Refused<'_>> {
        // The time first: what has come by then is seen behind it.
        if !self.versions.is_told(now_ms, age_max_ms, own_ms) {
            return Err(Refused::Late);
        }
        self.changed().map_or(Ok(()), |table| Err(Refused::Changed(table)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16) -> Address {
        format!("127.0.0.1:{port}").parse().expect("an address")
    }

    fn basis(versions: &Arc<TableVersions>, tables: &[&str]) -> Basis {
        let names = tables.iter().map(|table| (&b"shop"[..], table.as_bytes()));
        let known_at = versions.last_of_all();
        Basis::new(Arc::clone(versions), Arc::new(Tables::new(names)), known_at)
    }

    fn begun(epoch: u32) -> (Arc<TableVersions>, TableVersion) {
        let versions = Arc::<TableVersions>::default();
        let begin = TableVersion::begin(epoch);
        versions.change_all(begin);
        versions.show(&server(1), Some(begin));
        versions.tell(100);
        (versions, begin)
    }

    #[test]
    fn an_answer_holds_until_one_of_its_tables_changes() {
        let (versions, begin) = begun(1);
        let mut answer = basis(&versions, &["item", "part"]);
        assert!(!answer.may_be_kept(), "it has not been sent");
        answer.send(&server(1));
        assert!(answer.may_be_kept());
        assert_eq!(answer.look(150, 50, 0), Ok(()));
        versions.change(Stripe::of(b"shop", b"other"), begin.plus(1));
        assert_eq!(answer.look(150, 50, 0), Ok(()));
        versions.change(Stripe::of(b"SHOP", b"Part"), begin.plus(2));
        assert_eq!(answer.look(150, 50, 0), Err(Refused::Changed(Some("shop.part"))));
        assert!(!answer.may_be_kept());
    }

    #[test]
    fn an_answer_of_a_server_that_lacks_a_change_is_not_kept() {
        let (versions, begin) = begun(1);
        versions.change(Stripe::of(b"shop", b"item"), begin.plus(1));
        let mut answer = basis(&versions, &["item"]);
        answer.send(&server(1));
        assert!(!answer.may_be_kept(), "the change has come and may not be visible");
        // That it becomes visible while the statement runs proves nothing of what that read.
        versions.show(&server(1), Some(begin.plus(1)));
        assert!(!answer.may_be_kept());
        answer.send(&server(2));
        assert!(!answer.may_be_kept(), "nothing is known of this server");
        answer.send(&server(1));
        assert!(answer.may_be_kept());
    }

    #[test]
    fn nothing_holds_longer_than_is_told_nor_over_own_writes() {
        let (versions, _) = begun(1);
        let mut answer = basis(&versions, &["item"]);
        answer.send(&server(1));
        assert_eq!(answer.look(151, 50, 0), Err(Refused::Late));
        assert_eq!(answer.look(110, 50, 100), Err(Refused::Late), "written in the same ms");
        assert_eq!(answer.look(110, 50, 99), Ok(()));
        versions.stop("cut");
        assert_eq!(answer.look(110, 50, 0), Err(Refused::Late));
        assert_eq!(versions.trouble().as_deref(), Some("cut"));
        answer.send(&server(1));
        assert!(!answer.may_be_kept());
    }

    #[test]
    fn definitions_and_other_connections_end_all_answers() {
        let (versions, begin) = begun(1);
        let mut answer = basis(&versions, &["item"]);
        answer.send(&server(1));
        versions.change_all(begin.plus(1));
        assert_eq!(answer.look(110, 50, 0), Err(Refused::Changed(None)));
        // What an answer depends on was found out before the definition.
        versions.show(&server(1), Some(begin.plus(1)));
        answer.send(&server(1));
        assert!(!answer.may_be_kept());
        let mut answer = basis(&versions, &[]);
        answer.send(&server(1));
        assert_eq!(answer.look(110, 50, 0), Ok(()));
        versions.change_all(TableVersion::begin(2));
        assert_eq!(answer.look(110, 50, 0), Err(Refused::Changed(None)));
    }
}
