//! What rules, and hints in comments, ask for beyond where a statement goes.

use trunkline_config::Settings;
use trunkline_rules::{Effects, Multiplex};
use trunkline_session::tracker::{PinReason, Pins};
use trunkline_sql::hint::Hints;
use trunkline_topology::{LazyTransactions, Pipeline, Ratio, ServerKey};

use crate::{
    cache::CacheOrder, causal::order::CausalOrder, clients::client::Statement, mirror::MirrorOrder,
};

/// What one statement is to be carried out with. 0 is none of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Directives {
    pub(crate) delay_ms: u32,
    pub(crate) timeout_ms: u64,
    /// In place of the setting.
    retries: Option<u32>,
    multiplex: Option<Multiplex>,
    /// Whether it may share a connection; `None` when it is short and fit for it.
    pub(crate) pipeline: Option<Pipeline>,
    pub(crate) written: Written,
    /// The rule that says on whose account it runs.
    pub(crate) tenant_rule: Option<u32>,
    /// Whether it may wait for the first statement of its transaction.
    pub(crate) lazy_transactions: Option<LazyTransactions>,
    /// Whether its answer may come from the cache, and how old it may be.
    pub(crate) cache: Option<CacheOrder>,
    /// Where a copy of it goes.
    pub(crate) mirror: Option<MirrorOrder>,
    /// Which writes it has to see, where it reads on replicas.
    pub(crate) causal: CausalOrder,
}

/// What is written of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Written {
    pub(crate) is_logged: bool,
    /// The part of such statements that have spans.
    pub(crate) trace_sample: Option<Ratio>,
    /// The last rule that matched; only looked for where something is written of statements.
    pub(crate) rule: Option<u32>,
}

impl Directives {
    /// Those of a statement that no rule and no hint says anything of.
    pub(super) fn of_settings(settings: &Settings) -> Self {
        Self {
            delay_ms: u32::try_from(settings.default_query_delay).unwrap_or(u32::MAX),
            timeout_ms: settings.default_query_timeout,
            ..Self::default()
        }
    }

    /// Takes over what rules say.
    pub(super) fn take_effects(&mut self, effects: &Effects) {
        // Every other effect is a matter of the route, or of what is not built yet.
        self.delay_ms = self.delay_ms.saturating_add(effects.delay_ms.unwrap_or(0));
        self.timeout_ms = effects.timeout_ms.map_or(self.timeout_ms, u64::from);
        self.retries = effects.retries.or(self.retries);
        self.multiplex = effects.multiplex.or(self.multiplex);
        self.pipeline = effects.pipeline.or(self.pipeline);
        self.lazy_transactions = effects.lazy_transactions.or(self.lazy_transactions);
        self.tenant_rule = effects.tenant_rule.or(self.tenant_rule);
        self.written.is_logged = effects.log.unwrap_or(self.written.is_logged);
        self.cache = CacheOrder::of_effects(effects).or(self.cache);
        self.mirror = MirrorOrder::of_effects(effects);
        self.causal = self.causal.with_effects(effects);
        self.written.trace_sample = effects.trace_sample.or(self.written.trace_sample);
    }

    /// Whether nothing is asked for that needs a server's answer, or time.
    pub(crate) fn is_plain(&self) -> bool {
        self.delay_ms == 0
            && self.multiplex.is_none()
            && self.cache.is_none()
            && self.mirror.is_none()
            && self.causal == CausalOrder::default()
    }

    /// Holds a session on its connection, or ends that, once its statement has run.
    pub(crate) fn hold(&self, pins: &mut Pins) {
        match self.multiplex {
            Some(Multiplex::Off) => pins.pin(PinReason::Rule),
            Some(Multiplex::On) => pins.unpin(PinReason::Rule),
            // Only what gives a variable a value that can't follow holds a session here.
            Some(Multiplex::IgnoreVariables) | None => {}
        }
    }

    /// Takes over what comments say.
    pub(super) fn take_hints(&mut self, hints: &Hints) {
        self.delay_ms = hints.delay_ms.unwrap_or(self.delay_ms).min(DELAY_MAX_MS);
        self.timeout_ms = hints.timeout_ms.map_or(self.timeout_ms, u64::from);
        if let Some(ttl_ms) = hints.cache_ttl_ms {
            self.cache = CacheOrder::hinted(self.cache, ttl_ms);
        }
        if let Some(hostgroup) = hints.mirror_hostgroup {
            self.mirror = Some(MirrorOrder::hinted(self.mirror, hostgroup));
        }
        self.retries = hints.retries.map(|retries| retries.min(RETRIES_MAX)).or(self.retries);
    }
}

/// The longest that a client can have its own statement held back, ms.
const DELAY_MAX_MS: u32 = 3_600_000;
/// The most retries that a client can ask for.
const RETRIES_MAX: u32 = trunkline_rules::RETRIES_MAX;

impl Statement {
    /// Is carried out on this server and no other, if there is one: with nobody else on its
    /// connection.
    pub(crate) fn run_on(&mut self, server: Option<Box<ServerKey>>) {
        self.target.never_share |= server.is_some();
        self.target.pinned_server = server;
    }

    /// How many of its retries it has used. `default`: how many it has unless a rule or a comment
    /// says it.
    pub(crate) fn retries_used(&self, default: u32) -> u32 {
        let all = self.target.directives.retries.unwrap_or(default);
        all.saturating_sub(self.target.retries_left)
    }

    /// Is carried out with these.
    pub(crate) fn obey(&mut self, directives: Directives) {
        self.target.directives = directives;
        self.target.retries_left = directives.retries.unwrap_or(self.target.retries_left);
        self.target.never_share |= directives.pipeline == Some(Pipeline::Off)
            || directives.multiplex == Some(Multiplex::Off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_go_before_rules_and_rules_before_settings() {
        let settings =
            Settings { default_query_delay: 5, default_query_timeout: 100, ..Settings::default() };
        let mut directives = Directives::of_settings(&settings);
        assert_eq!((directives.delay_ms, directives.timeout_ms), (5, 100));
        let effects = Effects {
            delay_ms: Some(7),
            timeout_ms: Some(0),
            retries: Some(3),
            log: Some(true),
            ..Effects::default()
        };
        directives.take_effects(&effects);
        assert_eq!(
            (directives.delay_ms, directives.timeout_ms, directives.retries),
            (12, 0, Some(3))
        );
        assert!(directives.written.is_logged);
        directives.take_hints(&Hints::parse(b"query_delay=1;query_timeout=9;query_retries=5000"));
        assert_eq!(
            (directives.delay_ms, directives.timeout_ms, directives.retries),
            (1, 9, Some(1_000))
        );
    }
}
