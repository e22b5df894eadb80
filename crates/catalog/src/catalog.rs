//! What is known of names, for all workers and the control plane: bounded, and never for long.
//!
//! Workers look names up when they judge a statement, not for each one: a judgement holds until
//! [`Catalog::version`] grows or its time is over. `shard` is where entries are, `asks` who waits
//! for what is being asked, `definitions` what DDL makes unknown.

mod asks;
mod definitions;
mod shard;

#[cfg(test)]
mod tests;

use std::{
    hash::BuildHasher,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use asks::Asks;
pub use asks::{ASK_TIME_MAX_MS, ASKS_MAX, Begun, UNTOLD_MS, WAITERS_MAX};
use definitions::Definitions;
pub use definitions::{CopyTicket, DefinitionTicket};
use foldhash::fast::FixedState;
use shard::{Entry, PutOff, Shard};
use trunkline_topology::HostgroupId;

use crate::{Hidden, Name, Object, inquiry::known_anyway};

/// Parts of the table, each behind a lock of its own.
const SHARDS: usize = 16;
/// How long an entry holds until somebody configures it, ms.
const AGE_MAX_MS: u64 = 10_000;
/// Entries until somebody configures it.
const ENTRIES_MAX: usize = 200_000;

/// How long a name is left alone at most that was being defined when it was asked for, ms.
const PUT_OFF_MS: u64 = 200;

/// Where a statement's names without a schema are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The group of servers.
    pub group: HostgroupId,
    /// The session's schema; `None` when none is chosen.
    pub schema: Option<&'a [u8]>,
}

// `cache::Waiter` says the same of who waits for an answer: neither crate knows the other.
/// Who waits for what a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// The worker.
    pub worker: usize,
    /// Its client.
    pub index: u32,
    /// Tells the client from an earlier one at its place.
    pub generation: u32,
}

/// What is known of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It was asked for.
    Object {
        /// What it is.
        object: Object,
        /// From then on it should be asked again, so that it is known at `until_ms` too; ms on the
        /// workers' clock. May be in the past.
        due_ms: u64,
        /// It is this until then.
        until_ms: u64,
        /// Until then it may be something else on servers that replicate: it was a moment ago.
        settled_ms: u64,
    },
    /// It was asked for, and the server answered that there is nothing by this name that the
    /// account may see. A temporary table may have it. Not asked again before this time, ms.
    Absent(u64),
    /// It was asked for, and nobody answered. Not asked again before this time, ms.
    Untold(u64),
    /// Nobody has asked, or too long ago, or it has been defined anew since.
    Unknown,
}

/// What a server said of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// What it is; `None` when the server said nothing.
    pub object: Option<Object>,
    /// A server has answered, and there is nothing by this name that the account may see.
    pub is_absent: bool,
    /// Whether that follows from what other names mean, as it does of views and of tables with
    /// triggers. When any of them is defined anew, this is not known any more.
    pub rests_on_others: bool,
    /// Whether it was a reader that said it, as no writer could be asked.
    pub is_of_reader: bool,
}

impl Told {
    /// Nobody said what it is.
    pub const NOTHING: Self =
        Self { object: None, is_absent: false, rests_on_others: false, is_of_reader: false };
}

/// A moment before a server was asked: what it says is as of then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    order: u64,
    ms: u64,
}

/// What a catalog holds and has done, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Names that are known; some may have expired.
    pub entries: u64,
    /// Names that left because of the limit before their time was over.
    pub evicted: u64,
    /// Names asked for.
    pub asked: u64,
    /// Names that were not asked for because too many were being asked for.
    pub refused: u64,
    /// Names that servers said nothing of.
    pub untold: u64,
    /// Times that names were defined anew through the proxy.
    pub definitions: u64,
    /// Rounds of dictionary queries.
    pub rounds: u64,
    /// Dictionary queries.
    pub queries: u64,
    /// Rounds that failed.
    pub errors: u64,
}

/// What a judgement was made by ([`Catalog::version`]).
///
/// The lower half counts what was told otherwise before, the upper half how often what holds on was
/// to be asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Version(u64);

impl Version {
    const TOLD: u64 = 1;
    const AGED: u64 = 1 << 32;

    /// Whether nothing is told otherwise since the other one. What is only to be asked for again
    /// holds on.
    pub fn says_as(self, other: Self) -> bool {
        self.0 % Self::AGED == other.0 % Self::AGED
    }
}

/// What names mean.
#[derive(Debug)]
pub struct Catalog {
    version: AtomicU64,
    /// Counts up at each ask and definition, so that they have an order.
    order: AtomicU64,
    shards: [Mutex<Shard>; SHARDS],
    asks: Mutex<Asks>,
    definitions: Definitions,
    entries_max: AtomicUsize,
    age_max_ms: AtomicU64,
    evicted: AtomicU64,
    untold: AtomicU64,
    rounds: AtomicU64,
    queries: AtomicU64,
    errors: AtomicU64,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            version: AtomicU64::new(1),
            order: AtomicU64::new(1),
            shards: Default::default(),
            asks: Mutex::default(),
            definitions: Definitions::default(),
            entries_max: AtomicUsize::new(ENTRIES_MAX),
            age_max_ms: AtomicU64::new(AGE_MAX_MS),
            evicted: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            queries: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }
    }
}

impl Catalog {
    /// Sets how many names it holds at most, and for how long, ms. What is there stays.
    pub fn configure(&self, entries_max: usize, age_max_ms: u64) {
        self.entries_max.store(entries_max, Relaxed);
        self.age_max_ms.store(age_max_ms, Relaxed);
    }

    /// Is another one when anything that was told before is not so any more, or is to be asked for
    /// again. A judgement of another version is void.
    pub fn version(&self) -> Version {
        Version(self.version.load(Relaxed))
    }

    /// What is known of a name.
    pub fn look_up(&self, name: &Name, now_ms: u64) -> Found {
        if let Some(object) = known_anyway(&name.schema, &name.table) {
            let (due_ms, until_ms) = (u64::MAX, u64::MAX);
            return Found::Object { object, due_ms, until_ms, settled_ms: 0 };
        }
        let found = self.shard(name).get(name).copied();
        let Some(entry) = found.filter(|entry| self.holds(name, entry, now_ms)) else {
            return Found::Unknown;
        };
        let Entry { object, due_ms, until_ms, settled_ms, is_of_reader, .. } = entry;
        match object {
            Some(mut object) => {
                if is_of_reader {
                    object.reading.insert(Hidden::SEEN_ON_READER);
                }
                Found::Object { object, due_ms, until_ms, settled_ms }
            }
            None if entry.is_absent => Found::Absent(until_ms),
            None => Found::Untold(until_ms),
        }
    }

    /// The moment to ask a server at: before the first byte of the question is sent.
    pub fn moment(&self, now_ms: u64) -> Moment {
        Moment { order: self.next_order(), ms: now_ms }
    }

    /// Takes over what a server said of a name that it was asked at `moment`. False where that is
    /// void, because the name has been defined anew meanwhile.
    ///
    /// What one account can see of a name is as true for all others: less does not replace more
    /// before its time is over.
    pub fn tell(&self, name: Name, told: Told, moment: Moment, now_ms: u64) -> bool {
        let (from_ms, age_ms) = match told.object {
            Some(_) => (moment.ms, self.age_max_ms.load(Relaxed)),
            None => (now_ms, UNTOLD_MS),
        };
        let entry = Entry {
            object: told.object,
            is_absent: told.is_absent && !told.is_of_reader,
            rests_on_others: told.rests_on_others,
            is_of_reader: told.is_of_reader,
            put_off: PutOff::Not,
            order: moment.order,
            due_ms: from_ms.saturating_add(age_ms / 2),
            until_ms: from_ms.saturating_add(age_ms),
            last: told.object,
            last_order: moment.order,
            settled_ms: 0,
        };
        self.put(name, entry, now_ms)
    }

    /// Takes over the base tables that reading a name depends on, of the same answer as what it is.
    pub fn tell_bases(&self, name: &Name, bases: Option<Arc<[Name]>>, moment: Moment) {
        let names_max = self.entries_max.load(Relaxed) / SHARDS;
        self.shard(name).put_bases(name, moment.order, bases, names_max);
    }

    /// The base tables that reading a name depends on; `None` where these are not known.
    pub fn bases(&self, name: &Name, now_ms: u64) -> Option<Arc<[Name]>> {
        let shard = self.shard(name);
        let entry = shard.get(name).filter(|entry| self.holds(name, entry, now_ms))?;
        let is_sure = entry.object.is_some() && !entry.is_of_reader && entry.settled_ms <= now_ms;
        is_sure.then(|| shard.bases(name, entry.order)).flatten()
    }

    /// Stores what a name means, as of now and until a time of the caller's choice, ms.
    pub fn store(&self, name: Name, object: Option<Object>, until_ms: u64) {
        let rests_on_others = object.is_some_and(|it| it.kind == crate::Kind::View);
        let order = self.next_order();
        let due_ms = until_ms;
        let entry = Entry {
            object,
            is_absent: false,
            rests_on_others,
            is_of_reader: false,
            put_off: PutOff::Not,
            order,
            due_ms,
            until_ms,
            last: object,
            last_order: order,
            settled_ms: 0,
        };
        self.put(name, entry, 0);
    }

    /// All names of the group are to be asked for again: its servers may be others now.
    pub fn age(&self, group: HostgroupId) {
        for shard in &self.shards {
            lock(shard).age(group);
        }
        self.judge_anew();
    }

    /// A round of dictionary queries is over, and had so many of them.
    pub fn count_round(&self, queries: u64, is_failed: bool) {
        self.rounds.fetch_add(1, Relaxed);
        self.queries.fetch_add(queries, Relaxed);
        self.errors.fetch_add(u64::from(is_failed), Relaxed);
    }

    /// What it holds and has done.
    pub fn figures(&self) -> Figures {
        let entries = self.shards.iter().map(|shard| lock(shard).len()).sum::<usize>();
        let asks = lock(&self.asks);
        Figures {
            entries: u64::try_from(entries).unwrap_or(u64::MAX),
            evicted: self.evicted.load(Relaxed),
            asked: asks.begun,
            refused: asks.refused,
            untold: self.untold.load(Relaxed),
            definitions: self.definitions.count(),
            rounds: self.rounds.load(Relaxed),
            queries: self.queries.load(Relaxed),
            errors: self.errors.load(Relaxed),
        }
    }

    fn put(&self, name: Name, new: Entry, now_ms: u64) -> bool {
        if new.object.is_none() {
            self.untold.fetch_add(1, Relaxed);
        }
        if !self.holds(&name, &new, now_ms) {
            let until_ms = now_ms.saturating_add(PUT_OFF_MS);
            let nothing = Entry { object: None, is_absent: false, last: None, ..new };
            let put_off = match self.definitions.is_under_way(&name, new.rests_on_others) {
                true => PutOff::WhileDefined,
                false => PutOff::ForAWhile,
            };
            let entry = Entry { put_off, until_ms, ..nothing };
            // While it is being defined nobody asks in a loop.
            let mut shard = self.shard(&name);
            let entry = self.behind(&name, shard.get(&name), entry, now_ms);
            shard.put(name, entry, self.entries_max.load(Relaxed) / SHARDS);
            return false;
        }
        let mut shard = self.shard(&name);
        let new = self.behind(&name, shard.get(&name), new, now_ms);
        let known = shard.get(&name).copied().filter(|entry| self.holds(&name, entry, now_ms));
        if let Some(known) = known
            && known.is_of_reader <= new.is_of_reader
            && is_less(new.object, known.object)
        {
            let due_ms = now_ms.saturating_add(UNTOLD_MS).max(known.due_ms);
            shard.put(name, Entry { due_ms, ..known }, usize::MAX);
            return true;
        }
        let entries_max = self.entries_max.load(Relaxed) / SHARDS;
        let left = shard.put(name, new, entries_max);
        drop(shard);
        if let Some(left) = left {
            let evicted = left.values().filter(|entry| entry.until_ms > now_ms).count();
            self.evicted.fetch_add(u64::try_from(evicted).unwrap_or(u64::MAX), Relaxed);
        }
        match known {
            Some(known) if known.object != new.object => self.outdate(),
            // Who says so counts for what is judged from here on, and contradicts nothing.
            Some(known) if known.is_of_reader != new.is_of_reader => self.judge_anew(),
            Some(_) | None => {}
        }
        true
    }

    /// A new entry behind the one before it: what was something else then, or may have been since,
    /// settles for as long as names are held.
    fn behind(&self, name: &Name, before: Option<&Entry>, new: Entry, now_ms: u64) -> Entry {
        let known = before.and_then(|it| Some((it.last?, it.last_order)));
        let settled_ms = before.map_or(0, |it| it.settled_ms);
        if new.last.is_none() {
            let (last, last_order) = known.map_or((None, 0), |(last, order)| (Some(last), order));
            return Entry { last, last_order, settled_ms, ..new };
        }
        let begun_since = |order| self.definitions.begun_since(name, new.rests_on_others, order);
        let is_other = match known {
            // To see more or less of it is no change. A second definition may have brought back
            // what a first one had taken away.
            Some((last, order)) => {
                let is_same = new.last == Some(last)
                    || is_less(new.last, Some(last))
                    || is_less(Some(last), new.last);
                !is_same || begun_since(order) > 1
            }
            // Nobody knows what it was before its definition.
            None => begun_since(0) > 0,
        };
        let settled_ms = match is_other {
            true => now_ms.saturating_add(self.age_max_ms.load(Relaxed)),
            false => settled_ms,
        };
        Entry { settled_ms, ..new }
    }

    /// Whether the time of an entry is not over, and nothing has been defined anew that it speaks
    /// of.
    fn holds(&self, name: &Name, entry: &Entry, now_ms: u64) -> bool {
        let rests_on_others = entry.rests_on_others;
        let is_told = || match entry.put_off {
            PutOff::Not => self.definitions.is_after(name, rests_on_others, entry.order),
            PutOff::WhileDefined => self.definitions.is_under_way(name, rests_on_others),
            PutOff::ForAWhile => true,
        };
        entry.until_ms > now_ms && is_told()
    }

    /// What is judged from here on may be judged otherwise, though what was told still holds.
    fn judge_anew(&self) {
        self.version.fetch_add(Version::AGED, Relaxed);
    }

    /// What was told before is not so any more.
    fn outdate(&self) {
        self.version.fetch_add(Version::TOLD, Relaxed);
    }

    fn next_order(&self) -> u64 {
        // Orders itself with definitions on other threads, whose stores are sequential too.
        self.order.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
    }

    fn shard(&self, name: &Name) -> MutexGuard<'_, Shard> {
        let hash = FixedState::default().hash_one(name);
        // The low bits place an entry in its shard's own table.
        let place = usize::try_from((hash >> 32) % SHARDS as u64).unwrap_or_default();
        let [first, ..] = &self.shards;
        lock(self.shards.get(place).unwrap_or(first))
    }
}

/// Whether an answer only says that less can be seen than is known already.
fn is_less(new: Option<Object>, known: Option<Object>) -> bool {
    let (Some(known), new) = (known, new) else { return false };
    let Some(new) = new else { return true };
    let hides =
        |new: Hidden, known: Hidden| new.has(Hidden::UNKNOWN) && !known.has(Hidden::UNKNOWN);
    new.kind == known.kind
        && (hides(new.reading, known.reading) || hides(new.writing, known.writing))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
