//! Step 5, after the rules: what the firewall allows, and how often.

use std::{collections::BTreeMap, sync::Arc};

use trunkline_config::Guards;
use trunkline_rules::{
    Admission, FirewallAsk, FirewallVerdict, Limit, LimitAsk, LimitScope, Limits,
};
use trunkline_sql::analysis::TransactionEffect;
use trunkline_stats::LimitSums;

use crate::{
    ClientId,
    rooms::{Commands, Core},
    routing::directives::Directives,
    routing::route::Route,
    statement::analysis::Known,
};

/// One worker's share of the limits.
pub(crate) fn share_of(guards: &Guards, workers: usize) -> Limits {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    // They were found right when the configuration was read.
    Limits::new(&guards.limits, workers).unwrap_or_else(|_| Limits::none())
}

impl Core {
    /// What the firewall answers a statement with that is not on its list; `None` lets it go on.
    pub(super) fn ask_firewall(&mut self, id: ClientId, known: &Known, flag: u32) -> Option<Route> {
        let client = self.clients.get(id)?;
        let session = client.session.as_ref()?;
        let settings = &self.env.snapshot.settings;
        let ask = FirewallAsk {
            username: &session.login.user.name,
            client_addr: client.origin.peer.client_addr,
            schema: session.settings.state.schema.name(),
            flag,
            digest: settings.query_digests.then_some((known.digest, &*known.digest_text)),
        };
        let verdict = self.env.snapshot.guards.firewall.judge(&ask);
        match verdict {
            FirewallVerdict::Pass => return None,
            FirewallVerdict::Detected => self.fx.stats.counters.statements_detected += 1,
            FirewallVerdict::Denied => self.fx.stats.counters.statements_refused_firewall += 1,
        }
        let (user, digest) = (Arc::clone(&session.login.user), known.digest);
        let is_denied = verdict == FirewallVerdict::Denied;
        let did = if is_denied { "denied" } else { "would have denied" };
        self.fx.log(true, || {
            let digest = trunkline_sql::digest::format(digest);
            format!("firewall {did} a statement of user {}: digest {digest}", user.name)
        });
        let text = &self.env.snapshot.settings.firewall_whitelist_errormsg;
        is_denied.then(|| Route::Error(Arc::from(text.as_str())))
    }
}

impl Commands {
    /// Takes a token of each limit that is about a statement: it goes on, now or a little later,
    /// or it does not. What ends a transaction is not limited.
    pub(super) fn admit(
        &mut self,
        id: ClientId,
        known: &Known,
        orders: &mut Directives,
    ) -> Option<Route> {
        if known.analysis.transaction != TransactionEffect::None {
            return None;
        }
        let session = self.exchange.core.clients.get(id)?.session.as_ref()?;
        let ask = LimitAsk {
            username: &session.login.user.name,
            rules: &self.router.matched_rules,
            digest: self.exchange.core.env.snapshot.settings.query_digests.then_some(known.digest),
        };
        let place = match self.router.limits.admit(&ask, self.exchange.core.env.now.us) {
            Admission::Now => return None,
            Admission::After(wait_us) => {
                let wait_ms = u32::try_from(wait_us.div_ceil(1_000)).unwrap_or(u32::MAX);
                orders.delay_ms = orders.delay_ms.saturating_add(wait_ms);
                return None;
            }
            Admission::Refused(place) => place,
        };
        self.exchange.core.fx.stats.counters.statements_refused_limit += 1;
        let limit = self.router.guards.limits.get(place)?;
        Some(Route::Limited(Arc::from(refusal(limit))))
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
