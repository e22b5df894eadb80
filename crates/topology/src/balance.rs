//! Which server of a hostgroup a statement goes to, as a function of what is known of each.
//!
//! [`Balance::choose`] sees servers by their places in the hostgroup, through [`Servers`]. It keeps
//! nothing: what it is told of latencies is kept in a [`Latency`] for each server.

use std::{
    fmt::{self, Write},
    net::IpAddr,
    str::FromStr,
};

use crate::Address;

/// How a server of a hostgroup is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// The better of two that are drawn by weight: the one with less latency × statements in
    /// flight.
    #[default]
    P2c,
    /// One drawn by weight, as in ProxySQL.
    Random,
    /// The one with the fewest statements in flight for its weight.
    LeastConn,
    /// By the client's address: the same server as long as that is there. The clients of a server
    /// that goes are spread over the others, and nobody else's change.
    Source,
}

impl Balance {
    /// Every kind by the word that configurations use.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("p2c", Self::P2c),
        ("random", Self::Random),
        ("leastconn", Self::LeastConn),
        ("source", Self::Source),
    ];
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.into_iter().find(|(_, kind)| kind == self);
        f.write_str(word.map_or("p2c", |(word, _)| word))
    }
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::WORDS.into_iter().find(|(word, _)| *word == text);
        found.map(|(_, kind)| kind).ok_or_else(|| {
            let words = Self::WORDS.map(|(word, _)| word).join(", ");
            format!("must be one of {words}, not `{text}`")
        })
    }
}

/// What a choice goes by.
pub trait Servers {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The share of the server at this place; 0 when it takes no statements now.
    fn weight(&self, at: usize) -> u64;

    /// Statements in flight there.
    fn in_flight(&self, at: usize) -> u64;

    /// What a statement takes there, in any unit; 0 when that is not known.
    fn latency(&self, at: usize) -> u64;

    /// Where it listens.
    fn address(&self, at: usize) -> Option<&Address>;
}

/// Random numbers for choices, the same ones for the same seed (xorshift64*).
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    /// Begins with `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `end`; 0 when that is 0.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // Of what the shifts leave, numbers behind each other hang together; the product's upper
        // half does not. It lies below `end`.
        let spread = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d);
        u64::try_from((u128::from(spread) * u128::from(end)) >> 64).unwrap_or_default()
    }
}

/// How many times better another server has to be, to be chosen in place of one that was drawn
/// twice; more where the other one is of less weight.
const MUCH: u128 = 2;

impl Balance {
    /// The place of the server that is chosen; `None` when none takes statements. `source` is the
    /// address of the client.
    #[inline]
    pub fn choose(
        self,
        servers: &impl Servers,
        draws: &mut Draws,
        source: Option<IpAddr>,
    ) -> Option<usize> {
        let servers = Weighed::of(servers);
        let total: u64 = (0..servers.len()).map(|at| servers.weight(at)).sum();
        if total == 0 {
            return None;
        }
        match self {
            Self::P2c => better_of_two(&servers, draws, total),
            Self::Random => place(&servers, draws.below(total), None),
            Self::LeastConn => least_busy(&servers, draws.below(total)),
            Self::Source => of_source(&servers, source),
        }
    }
}

/// Servers whose weights were asked for once: a choice looks at them several times, and what they
/// depend on may change meanwhile.
struct Weighed<'a, S> {
    servers: &'a S,
    first: [u64; WEIGHED_MAX],
}

/// Servers of which that is so; the others are asked each time. A hostgroup has few.
const WEIGHED_MAX: usize = 8;

impl<'a, S: Servers> Weighed<'a, S> {
    #[inline]
    fn of(servers: &'a S) -> Self {
        let mut first = [0; WEIGHED_MAX];
        for (at, weight) in first.iter_mut().enumerate().take(servers.len()) {
            *weight = servers.weight(at);
        }
        Self { servers, first }
    }
}

impl<S: Servers> Servers for Weighed<'_, S> {
    #[inline]
    fn len(&self) -> usize {
        self.servers.len()
    }

    #[inline]
    fn weight(&self, at: usize) -> u64 {
        self.first.get(at).copied().unwrap_or_else(|| self.servers.weight(at))
    }

    #[inline]
    fn in_flight(&self, at: usize) -> u64 {
        self.servers.in_flight(at)
    }

    #[inline]
    fn latency(&self, at: usize) -> u64 {
        self.servers.latency(at)
    }

    #[inline]
    fn address(&self, at: usize) -> Option<&Address> {
        self.servers.address(at)
    }
}

/// The server in whose share a number lies, all but one considered.
#[inline]
fn place(servers: &impl Servers, mut left: u64, without: Option<usize>) -> Option<usize> {
    for at in (0..servers.len()).filter(|at| Some(*at) != without) {
        let share = servers.weight(at);
        if left < share {
            return Some(at);
        }
        left -= share;
    }
    None
}

/// Weights decide which servers are compared, latency and statements in flight which of them is
/// taken. So among equals shares are as the weights are; a server that does badly is avoided, and
/// one of little weight gets at most twice its share, however idle it is.
#[inline]
fn better_of_two(servers: &impl Servers, draws: &mut Draws, total: u64) -> Option<usize> {
    let first = place(servers, draws.below(total), None)?;
    let own = servers.weight(first);
    if own == total {
        return Some(first);
    }
    let second = place(servers, draws.below(total), None)?;
    if second != first {
        let (one, other) = costs(servers, first, second);
        return Some(if other < one { second } else { first });
    }
    let third = place(servers, draws.below(total - own), Some(first))?;
    let (one, other) = costs(servers, first, third);
    let others = u128::from(servers.weight(third));
    let is_much_better = other * u128::from(own).max(others) * MUCH < one * others;
    Some(if is_much_better { third } else { first })
}

/// What it costs to send another statement to each of two servers. Where the latency of either is
/// not known yet, only what is in flight counts.
#[inline]
fn costs(servers: &impl Servers, one: usize, other: usize) -> (u128, u128) {
    let (mut latency, mut others) = (servers.latency(one), servers.latency(other));
    if latency == 0 || others == 0 {
        (latency, others) = (1, 1);
    }
    let cost = |at, latency| u128::from(servers.in_flight(at) + 1) * u128::from(latency);
    (cost(one, latency), cost(other, others))
}

/// The server with the fewest statements for its weight; of those alike, the one that is drawn or
/// the next.
fn least_busy(servers: &impl Servers, drawn: u64) -> Option<usize> {
    let mut best = place(servers, drawn, None)?;
    let len = servers.len();
    for step in 1..len {
        let at = (best + step) % len;
        let (share, bests) = (servers.weight(at), servers.weight(best));
        let (busy, bests_busy) = (servers.in_flight(at), servers.in_flight(best));
        let is_less =
            u128::from(busy) * u128::from(bests) < u128::from(bests_busy) * u128::from(share);
        if share > 0 && is_less {
            best = at;
        }
    }
    Some(best)
}

/// Rendezvous hashing: each server draws a [`lot`] for the client, and the best one wins.
fn of_source(servers: &impl Servers, source: Option<IpAddr>) -> Option<usize> {
    let client = source_hash(source);
    let lots = (0..servers.len()).filter_map(|at| {
        let weight = servers.weight(at);
        let address = servers.address(at).filter(|_| weight > 0)?;
        Some((at, lot(client, address, weight)))
    });
    let best = lots.reduce(|one, other| if other.1 > one.1 { other } else { one });
    best.map(|(at, _)| at)
}

/// FNV-1a; its parameters are the published ones (64 bits).
struct Fnv(u64);

impl Fnv {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// A client's address as a number, the same on every worker and every proxy. `None` is a Unix
/// socket.
pub fn source_hash(source: Option<IpAddr>) -> u64 {
    let mut hash = Fnv(Fnv::BASIS);
    match source.map(|ip| ip.to_canonical()) {
        Some(IpAddr::V4(ip)) => hash.add(&ip.octets()),
        Some(IpAddr::V6(ip)) => hash.add(&ip.octets()),
        None => {}
    }
    hash.0
}

/// The lot that a server draws for a client ([`source_hash`]): the best of all servers' lots wins,
/// each as often as its weight says. When a server leaves, only its own clients go elsewhere, and
/// they come back with it.
pub fn lot(client: u64, address: &Address, weight: u64) -> f64 {
    let mut hash = Fnv(client);
    // A hash takes any text.
    let _ = write!(hash, "{address}");
    // Between 0 and 1, neither included; 53 bits are exact.
    let unit = ((mix(hash.0) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -(weight.max(1) as f64) / unit.ln()
}

/// Spreads the bits of a hash; the finaliser of SplitMix64.
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// What statements take on one server: a moving average over time that rises with every slower
/// statement at once, and falls slowly (peak-EWMA). One statement alone raises it to
/// [`RISE_MAX`](Self::RISE_MAX) times what it was at most: a report is no slow server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// In 1/16 µs.
    average: u64,
    /// When it was told of a statement last, µs.
    told_us: u64,
}

/// The time in which most of a difference is forgotten, as a power of two of µs: 1.05 s.
const FORGET_LOG2: u32 = 20;
/// Of what [`Latency`] keeps, in 1 µs.
const FRACTIONS: u64 = 16;

impl Latency {
    /// How much one statement may raise the average.
    pub const RISE_MAX: u64 = 4;
    /// A statement that takes longer counts as this, µs: an hour.
    const LONGEST_US: u64 = 3_600_000_000;

    /// A statement took the server so long.
    #[inline]
    pub fn observe(&mut self, took_us: u64, now_us: u64) {
        let took = took_us.min(Self::LONGEST_US) * FRACTIONS + 1;
        let since_us = now_us.saturating_sub(self.told_us).min(1 << FORGET_LOG2);
        self.told_us = now_us;
        self.average = match self.average {
            0 => took,
            average if took > average => took.min(average * Self::RISE_MAX),
            average => average - (((average - took) * since_us) >> FORGET_LOG2),
        };
    }

    /// When it was told of a statement last, µs.
    pub fn told_us(&self) -> u64 {
        self.told_us
    }

    /// A statement has taken so long and is not over: the server has gone silent.
    pub fn is_at_least(&mut self, us: u64) {
        self.average = self.average.max(us.min(Self::LONGEST_US) * FRACTIONS);
    }

    /// A second is over. Of a server that was given nothing meanwhile it is forgotten little by
    /// little how slow it was, so that it is tried again.
    pub fn second_over(&mut self, now_us: u64) {
        if now_us.saturating_sub(self.told_us) >= 1 << FORGET_LOG2 {
            self.average -= self.average / 4;
        }
    }

    /// What a statement takes, in 1/16 µs; 0 when that is not known.
    #[inline]
    pub fn fine(&self) -> u64 {
        self.average
    }

    /// What a statement takes, µs.
    pub fn us(&self) -> u64 {
        self.average / FRACTIONS
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "times and counts of a played second")]
mod simulation;
#[cfg(test)]
mod tests;
