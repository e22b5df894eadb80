//! What rules, fast routing and the firewall say of a statement.

use std::sync::Arc;

use trunkline_config::Snapshot;
use trunkline_rules::{Answer, Decision, FirewallVerdict};
use trunkline_topology::HostgroupId;

use crate::{routing::asker::Asker, statement::analysis::Known};

/// Who names a hostgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Rule,
    FastRouting,
}

/// What a statement is answered with, in a server's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// A rule's OK, with this text.
    Ok(Arc<str>),
    /// A rule's error, with this text.
    Error(Arc<str>),
    /// The firewall's error.
    Denied,
}

/// What rules, fast routing and the firewall say of a statement.
#[derive(Debug, Default)]
pub(crate) struct Ruling {
    pub(super) answer: Option<Said>,
    /// The hostgroup that is named, and by whom.
    pub(super) named: Option<(HostgroupId, By)>,
    /// The rule without whose rewrite the statement must not run.
    pub(super) must_rewrite: Option<u32>,
    /// What the firewall thinks of the statement; `None` where it is not asked.
    pub(super) verdict: Option<FirewallVerdict>,
}

impl Ruling {
    /// `decision` is what the rules say, where there are any. Fast routing goes before a rule's
    /// hostgroup, unless the rule's `apply` ended the evaluation. A rule's answer goes before the
    /// firewall's. `judged`: what the firewall looks at, and the flag that the rules have reached
    /// for it, if that is another one.
    #[inline]
    pub(super) fn of(
        snapshot: &Snapshot,
        asker: &Asker<'_>,
        judged: (&Known, Option<u32>),
        decision: Option<&Decision>,
    ) -> Self {
        let mut ruling = decision.map_or_else(Self::default, Self::of_copy);
        let flag = decision.map_or(asker.flag, |decision| decision.final_flag);
        if !decision.is_some_and(|decision| decision.applied) && !snapshot.fast_routes.is_empty() {
            let fast = snapshot.fast_routes.find(&asker.user.name, asker.schema, flag);
            ruling.named = fast.map(|fast| (fast, By::FastRouting)).or(ruling.named);
        }
        if snapshot.settings.firewall_whitelist_enabled {
            let (known, reached) = judged;
            let ask = asker.firewall_ask(&snapshot.settings, known, reached.unwrap_or(flag));
            let verdict = snapshot.guards.firewall.judge(&ask);
            let is_denied = verdict == FirewallVerdict::Denied;
            ruling.answer = ruling.answer.or(is_denied.then_some(Said::Denied));
            ruling.verdict = Some(verdict);
        }
        ruling
    }

    /// What rules say of a copy: neither fast routing nor the firewall is asked about one.
    pub(crate) fn of_copy(decision: &Decision) -> Self {
        let answer = decision.answer().map(|answer| match answer {
            Answer::Ok(text) => Said::Ok(Arc::clone(text)),
            Answer::Error(text) => Said::Error(Arc::clone(text)),
        });
        let named = decision.effects.destination_hostgroup.map(|named| (named, By::Rule));
        Self { answer, named, must_rewrite: decision.must_rewrite, verdict: None }
    }
}
