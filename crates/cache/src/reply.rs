//! A stored answer.

use trunkline_protocol::response::ReplyFormat;
use trunkline_topology::Basis;

/// One server's whole answer to one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its packets in the server's framing, numbered from 1. A relay from `format` makes any
    /// client's own of it.
    pub bytes: Box<[u8]>,
    /// The framing of `bytes`.
    pub format: ReplyFormat,
    /// When its statement was sent, µs: data may have changed since then.
    pub sent_us: u64,
    /// How old its data was then, µs: not 0 when it comes from the shared cache, where this
    /// process may not have run yet when it was asked for.
    pub before_us: u64,
    /// From when on it is renewed by the first who asks, while others still get it, µs.
    pub soft_us: u64,
    /// From when on nobody gets it, µs.
    pub expires_us: u64,
    /// What it depends on, where it is good until that changes.
    pub basis: Option<Basis>,
}

impl Reply {
    /// How old its data is, µs.
    pub fn age_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.sent_us).saturating_add(self.before_us)
    }

    /// Whether somebody who takes answers up to `ttl_us` old may have it.
    pub fn is_good(&self, ttl_us: u64, now_us: u64) -> bool {
        now_us < self.expires_us && self.age_us(now_us) < ttl_us
    }

    /// Whether it is time to renew it.
    pub fn is_soft(&self, now_us: u64) -> bool {
        now_us >= self.soft_us
    }
}
