//! Step 5, after the rules: what the firewall allows, and how often.

use std::collections::BTreeMap;

use trunkline_config::Guards;
use trunkline_rules::{Admission, FirewallVerdict, Limit, LimitAsk, LimitScope, Limits};
use trunkline_sql::analysis::TransactionEffect;
use trunkline_stats::LimitSums;

use crate::{
    clients::client::Client,
    rooms::{Commands, Core},
    routing::directives::Directives,
    routing::ruling::Ruling,
    statement::analysis::Known,
};

/// One worker's share of the limits.
pub(crate) fn share_of(guards: &Guards, workers: usize) -> Limits {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    Limits::new(&guards.limits, workers)
}

impl Core {
    /// Counts, and tells of, what the firewall thinks of a statement that is not on its list.
    #[inline]
    pub(super) fn note_verdict(&mut self, client: &mut Client, known: &Known, ruling: &Ruling) {
        match ruling.verdict {
            None | Some(FirewallVerdict::Pass) => {}
            Some(FirewallVerdict::Detected) => self.tell_of_verdict(client, known, false),
            Some(FirewallVerdict::Denied) => self.tell_of_verdict(client, known, true),
        }
    }

    #[cold]
    fn tell_of_verdict(&mut self, client: &mut Client, known: &Known, is_denied: bool) {
        match is_denied {
            false => self.fx.stats.counters.statements_detected += 1,
            true => self.fx.stats.counters.statements_refused_firewall += 1,
        }
        let (user, digest) = (&client.session.login.user, known.digest);
        let did = if is_denied { "denied" } else { "would have denied" };
        self.fx.log(true, || {
            let digest = trunkline_sql::digest::format(digest);
            format!("firewall {did} a statement of user {}: digest {digest}", user.name)
        });
    }
}

impl Commands {
    /// Takes a token of each limit that is about a statement: it goes on, now or a little later,
    /// or it does not. What ends a transaction is not limited. The limit that refuses it, by its
    /// place in the configuration.
    pub(super) fn admit(
        &mut self,
        client: &mut Client,
        known: &Known,
        directives: &mut Directives,
    ) -> Option<usize> {
        if known.analysis.transaction != TransactionEffect::None {
            return None;
        }
        let ask = LimitAsk {
            username: &client.session.login.user.name,
            rules: &self.router.matched_rules,
            digest: self.exchange.core.env.snapshot.settings.query_digests.then_some(known.digest),
        };
        match self.router.limits.admit(&ask, self.exchange.core.env.now.us) {
            Admission::Now => None,
            Admission::After(wait_us) => {
                let wait_ms = u32::try_from(wait_us.div_ceil(1_000)).unwrap_or(u32::MAX);
                directives.delay_ms = directives.delay_ms.saturating_add(wait_ms);
                None
            }
            Admission::Refused(place) => {
                self.exchange.core.fx.stats.counters.statements_refused_limit += 1;
                (place < self.router.guards.limits.len()).then_some(place)
            }
        }
    }

    /// What a statement is told that a limit refuses.
    pub(super) fn limit_text(&self, place: usize) -> String {
        self.router.guards.limits.get(place).map(refusal).unwrap_or_default()
    }

    /// What each limit has done.
    pub(crate) fn limit_sums(&self) -> BTreeMap<u32, LimitSums> {
        let sums = self.router.limits.counters().map(|counters| LimitSums {
            passed: counters.passed,
            delayed: counters.delayed,
            refused: counters.refused,
        });
        (0..).zip(sums).collect()
    }
}

fn refusal(limit: &Limit) -> String {
    let of = match &limit.scope {
        LimitScope::User(Some(user)) => format!("user '{user}'"),
        LimitScope::User(None) => "each user".to_owned(),
        LimitScope::Rule(id) => format!("rule {id}"),
        LimitScope::Digest(Some(digest)) => {
            format!("digest {}", trunkline_sql::digest::format(*digest))
        }
        LimitScope::Digest(None) => "each digest".to_owned(),
    };
    format!("the limit of {} statements a second for {of} is exceeded", limit.rate)
}

#[cfg(test)]
mod tests;
