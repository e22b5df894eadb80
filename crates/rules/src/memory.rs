//! Decisions remembered, so that rules cost one look-up, whatever their number.

use std::{
    hash::{BuildHasher, Hasher},
    net::IpAddr,
    sync::Arc,
};

use foldhash::fast::FixedState;

use crate::{
    Decision, Executed, Hits, Question, RuleSet,
    compile::{Inner, TestedColumns},
    evaluate::Scratch,
};

/// Places that one hash may be remembered in.
const WAYS: usize = 8;
/// The longest text of user, schema and digest together that is remembered, in bytes; a
/// statement with more is decided anew each time.
const KEY_MAX: usize = 4_096;

/// Decisions of one worker, by what they depend on: user, schema, flag, addresses and digest,
/// each only when some rule tests it.
///
/// A decision for which a rule looked at the statement's own text
/// ([`Decision::depends_on_text`]), or chose by weight, is not remembered. What was remembered for
/// one rule set is forgotten when another one is passed in.
///
/// Bounded: a table of sets of eight places; in a full set, the place that was not used since
/// the set's clock hand last passed makes room. Hashes only find a place: the key itself,
/// the digest's text included, is compared, so a made-up collision cannot misroute a statement.
#[derive(Debug)]
pub struct Memory {
    /// The rules that the entries were decided by. Holding them keeps their address unique.
    rules: Option<Arc<Inner>>,
    sets: Vec<WaySet>,
    counters: MemoryCounters,
    scratch: Scratch,
    /// The latest decision that was not remembered.
    latest: Decision,
}

/// What a [`Memory`] has done since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryCounters {
    /// Decisions that were remembered.
    pub found: u64,
    /// Decisions that took an evaluation.
    pub evaluated: u64,
    /// Entries that made room for others while the memory was full.
    pub evicted: u64,
}

#[derive(Debug, Default)]
struct WaySet {
    hashes: [u64; WAYS],
    entries: [Option<Box<Entry>>; WAYS],
    /// One bit for each place: used since the hand last passed.
    used: u8,
    hand: u8,
}

#[derive(Debug)]
struct Entry {
    numbers: Numbers,
    username: Box<[u8]>,
    schema: Box<[u8]>,
    digest_text: Box<[u8]>,
    decision: Decision,
}

/// The parts of a key that have a fixed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    flag: u32,
    digest: Option<u64>,
    /// `None` where no rule tests any of it, as usual: then it is neither copied nor compared.
    origin: Option<Origin>,
}

/// Where a client comes from and came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin {
    client_addr: Option<IpAddr>,
    proxy_addr: Option<IpAddr>,
    proxy_port: Option<u16>,
}

/// What a decision depends on; columns that no rule tests are left empty.
struct Key<'a> {
    numbers: Numbers,
    username: &'a [u8],
    schema: &'a [u8],
    digest_text: &'a [u8],
}

impl Memory {
    /// An empty memory for about `capacity` decisions (rounded up to 8 times a power of two).
    pub fn new(capacity: usize) -> Self {
        let sets = capacity.div_ceil(WAYS).max(1).next_power_of_two();
        Self {
            rules: None,
            sets: std::iter::repeat_with(WaySet::default).take(sets).collect(),
            counters: MemoryCounters::default(),
            scratch: Scratch::default(),
            latest: Decision::default(),
        }
    }

    /// What has been done so far.
    pub fn counters(&self) -> MemoryCounters {
        self.counters
    }

    /// Decides about one statement and counts the rules that matched, like
    /// [`RuleSet::evaluate`]. HOT: a remembered decision costs one look-up and no allocation.
    pub fn decide(
        &mut self,
        rules: &RuleSet,
        question: &Question<'_>,
        hits: &mut Hits,
    ) -> &Decision {
        let decision = self.decide_uncounted(rules, question);
        hits.add(decision);
        decision
    }

    /// Decides about one statement without counting the rules that matched: they are asked about
    /// it once more.
    pub fn decide_uncounted(&mut self, rules: &RuleSet, question: &Question<'_>) -> &Decision {
        self.keep_up_with(rules);
        let key = Key::of(question, rules.inner.tested);
        let hash = key.hash();
        let set = self.set_of(hash);
        // The key does not say what else servers carry out.
        let is_told =
            question.executed == Executed::AsDigested || !rules.inner.tested.protects_by_digest;
        if is_told && let Some(way) = self.find(set, hash, &key) {
            self.counters.found += 1;
            return self.entry(set, way).map_or(&self.latest, |entry| &entry.decision);
        }
        self.counters.evaluated += 1;
        rules.inner.evaluate(question, &mut self.scratch, &mut self.latest);
        let is_lasting = is_told && !self.latest.depends_on_text && !self.latest.depends_on_chance;
        if is_lasting && key.len() <= KEY_MAX {
            self.insert(set, hash, &key);
        }
        &self.latest
    }

    fn keep_up_with(&mut self, rules: &RuleSet) {
        if self.rules.as_ref().is_some_and(|known| Arc::ptr_eq(known, &rules.inner)) {
            return;
        }
        self.rules = Some(Arc::clone(&rules.inner));
        self.sets.fill_with(WaySet::default);
    }

    #[expect(clippy::cast_possible_truncation, reason = "masked to the number of sets")]
    fn set_of(&self, hash: u64) -> usize {
        debug_assert!(self.sets.len().is_power_of_two());
        hash as usize & (self.sets.len() - 1)
    }

    fn entry(&self, set: usize, way: usize) -> Option<&Entry> {
        self.sets.get(set)?.entries.get(way)?.as_deref()
    }

    fn find(&mut self, set: usize, hash: u64, key: &Key<'_>) -> Option<usize> {
        let set = self.sets.get_mut(set)?;
        let places = set.hashes.iter().zip(&set.entries);
        let way = places.enumerate().find_map(|(way, (&known, entry))| {
            let entry = entry.as_deref().filter(|_| known == hash)?;
            key.is_of(entry).then_some(way)
        })?;
        set.used |= 1 << way;
        Some(way)
    }

    fn insert(&mut self, set: usize, hash: u64, key: &Key<'_>) {
        let Some(set) = self.sets.get_mut(set) else {
            return;
        };
        let way = set.make_room();
        let (Some(known), Some(entry)) = (set.hashes.get_mut(way), set.entries.get_mut(way)) else {
            return;
        };
        self.counters.evicted += u64::from(entry.is_some());
        *known = hash;
        *entry = Some(Box::new(Entry {
            numbers: key.numbers,
            username: key.username.into(),
            schema: key.schema.into(),
            digest_text: key.digest_text.into(),
            decision: self.latest.clone(),
        }));
        set.used |= 1 << way;
    }
}

impl WaySet {
    /// A free place, or the first behind the hand that was not used since the hand passed it.
    fn make_room(&mut self) -> usize {
        if let Some(free) = self.entries.iter().position(Option::is_none) {
            return free;
        }
        // Ends within two rounds: the first clears every bit.
        loop {
            let way = self.hand;
            self.hand = (way + 1) % 8;
            let bit = 1 << way;
            if self.used & bit == 0 {
                return usize::from(way);
            }
            self.used &= !bit;
        }
    }
}

impl<'a> Key<'a> {
    fn of(question: &Question<'a>, tested: TestedColumns) -> Self {
        let looks_at_digest = tested.digest || tested.match_digest;
        let text = tested.match_digest && question.digest.is_some();
        Self {
            numbers: Numbers {
                flag: question.flag,
                digest: question.digest.filter(|_| looks_at_digest),
                origin: tested.has_origin().then(|| Origin {
                    client_addr: question.client_addr.filter(|_| tested.client_addr),
                    proxy_addr: question.proxy_addr.filter(|_| tested.proxy_addr),
                    proxy_port: question.proxy_port.filter(|_| tested.proxy_port),
                }),
            },
            username: if tested.username { question.username.as_bytes() } else { b"" },
            schema: if tested.schemaname { question.schema } else { b"" },
            digest_text: if text { question.digest_text } else { b"" },
        }
    }

    fn len(&self) -> usize {
        self.username.len() + self.schema.len() + self.digest_text.len()
    }

    /// The digest stands for its text here. What no rule tests is empty and left out.
    #[inline]
    fn hash(&self) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        hasher.write_u64(self.numbers.digest.unwrap_or_default());
        hasher.write_u32(self.numbers.flag);
        for name in [self.username, self.schema] {
            if !name.is_empty() {
                hasher.write(name);
            }
        }
        if let Some(origin) = &self.numbers.origin {
            for addr in [origin.client_addr, origin.proxy_addr] {
                match addr {
                    None => {}
                    Some(IpAddr::V4(addr)) => hasher.write_u32(addr.to_bits()),
                    Some(IpAddr::V6(addr)) => hasher.write_u128(addr.to_bits()),
                }
            }
            hasher.write_u16(origin.proxy_port.unwrap_or_default());
        }
        hasher.finish()
    }

    fn is_of(&self, entry: &Entry) -> bool {
        self.numbers == entry.numbers
            && is_same(self.username, &entry.username)
            && is_same(self.schema, &entry.schema)
            && is_same(self.digest_text, &entry.digest_text)
    }
}

/// Compares bytes, and does not look for any where there are none: an empty slice may point
/// nowhere, and glibc's `memcmp` on AMD then spends 145 ns on a masked load from that address.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

const _: () = assert!(WAYS == u8::BITS as usize, "a set's places have one bit each");

#[cfg(test)]
mod tests;
