//! What the rules are asked, and what they answer.

use std::{net::IpAddr, sync::Arc};

use trunkline_topology::{HostgroupId, LazyTransactions, Pipeline, Ratio, causal::CausalReads};

use crate::{Column, Multiplex};

/// One statement, as far as rules look at it.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Frontend user.
    pub username: &'a str,
    /// The session's current schema; empty when it has none.
    pub schema: &'a [u8],
    /// The flag to start with: 0, or what [`Decision::session_flag`] left for this session.
    pub flag: u32,
    /// The client's address; `None` when unknown (a Unix socket), and then not tested.
    pub client_addr: Option<IpAddr>,
    /// The listener's address; `None` (a Unix socket) passes no test of it.
    pub proxy_addr: Option<IpAddr>,
    /// The listener's port; `None` (a Unix socket) passes no test of it.
    pub proxy_port: Option<u16>,
    /// The statement's digest; `None` when digests are switched off: rules with a `digest` do
    /// not match then, and `match_digest` is not tested.
    pub digest: Option<u64>,
    /// The text that the digest is the hash of; without meaning when there is no digest.
    pub digest_text: &'a [u8],
    /// What servers carry out of it: rules that protect are tested on that as well.
    pub executed: Executed<'a>,
    /// The statement.
    pub query: &'a [u8],
    /// Which rules may rewrite it.
    pub rewrites: Rewrites,
    /// A number by chance, for rules that choose by weight.
    pub chance: u64,
}

/// Which rules may rewrite a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewrites {
    /// All.
    All,
    /// Those that protect. The text of an execution was rewritten when it was prepared, but such a
    /// rule may have been loaded since.
    Protecting,
    /// None.
    None,
}

/// What servers carry out of a statement, where that is more than its digest says: a digest leaves
/// out `/*! */`, what is behind its longest length, and what it takes for the rest of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Executed<'a> {
    /// What the digest says.
    #[default]
    AsDigested,
    /// What another digest says, that of the text as a server reads it.
    Otherwise {
        /// Its hash.
        digest: u64,
        /// Its text, however long.
        text: &'a [u8],
    },
    /// It may be anything.
    Unknown,
}

/// What the rules say about one statement. A column that no matching rule sets is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What the columns of the matching rules say.
    pub effects: Effects,
    /// The statement as rules rewrote it; `None` when none did.
    pub rewritten: Option<Vec<u8>>,
    /// The rule that protects and rewrote it, if one did: the statement must not run as it was.
    pub must_rewrite: Option<u32>,
    /// How many rewrites were left out because the text would have grown by more than
    /// [`crate::GROWTH_MAX`], or because looking for places took too long.
    pub rewrites_skipped: u32,
    /// The flag at the end, which fast routing looks up.
    pub final_flag: u32,
    /// Whether a matching rule's `apply` ended the evaluation; fast routing is then skipped.
    pub applied: bool,
    /// Whether a rule looked at the statement's own text: the decision then holds for this
    /// text only. Otherwise it holds for every statement with the same user, schema, flag,
    /// addresses and digest.
    pub depends_on_text: bool,
    /// Whether a rule chose by weight: the next statement may fare otherwise.
    pub depends_on_chance: bool,
    /// Whether a matching rule sets anything but a hostgroup.
    pub has_directives: bool,
    /// How many rules were tested one by one, matching or not.
    pub visited: u32,
    pub(crate) matched: Vec<u32>,
    pub(crate) undecided: Vec<u32>,
}

/// What matching rules set; `None` where no rule did. See the columns' documentation in
/// [`crate::Rule`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// Where the statement goes; `None`: the user's default hostgroup, or the automatic split.
    pub destination_hostgroup: Option<HostgroupId>,
    /// `cache_ttl`, ms.
    pub cache_ttl_ms: Option<u32>,
    /// Which rule's `cache_ttl` that is, or attribute `cache` with `until-changed`.
    pub cache_rule: Option<u32>,
    /// Attribute `cache`: answers are kept until a table changes that they depend on.
    pub cache_until_changed: Option<bool>,
    /// Attribute `cache_age_max_ms`: how old what is known of changes may be.
    pub cache_age_max_ms: Option<u32>,
    /// Attribute `cache`: statements whose answers may vary, or that call stored functions, are
    /// cached too.
    pub cache_always: Option<bool>,
    /// `cache_empty_result`.
    pub cache_empty_result: Option<bool>,
    /// `cache_timeout`, ms.
    pub cache_timeout_ms: Option<u32>,
    /// `reconnect`.
    pub reconnect: Option<bool>,
    /// `timeout`, ms.
    pub timeout_ms: Option<u32>,
    /// `retries`.
    pub retries: Option<u32>,
    /// `delay`, ms.
    pub delay_ms: Option<u32>,
    /// `next_query_flagIN`; see [`Decision::session_flag`].
    pub next_query_flag: Option<u32>,
    /// `mirror_flagOUT`.
    pub mirror_flag: Option<u32>,
    /// `mirror_hostgroup`.
    pub mirror_hostgroup: Option<HostgroupId>,
    /// Attribute `mirror`: the answers to a statement and to its copy are compared.
    pub mirror_compares: Option<bool>,
    /// The error to answer with; see [`Decision::answer`].
    pub error_msg: Option<Arc<str>>,
    /// The OK text to answer with; see [`Decision::answer`].
    pub ok_msg: Option<Arc<str>>,
    /// `sticky_conn`.
    pub sticky_conn: Option<bool>,
    /// `multiplex`.
    pub multiplex: Option<Multiplex>,
    /// `gtid_from_hostgroup`.
    pub gtid_from_hostgroup: Option<HostgroupId>,
    /// `log`.
    pub log: Option<bool>,
    /// Which rule's attribute `tenant` says on whose account it runs; see
    /// [`crate::RuleSet::tenants`].
    pub tenant_rule: Option<u32>,
    /// `pipeline`.
    pub pipeline: Option<Pipeline>,
    /// `lazy_transactions`.
    pub lazy_transactions: Option<LazyTransactions>,
    /// `causal_reads`.
    pub causal_reads: Option<CausalReads>,
    /// Attribute `trace_sample`: the part of the statements that have spans.
    pub trace_sample: Option<Ratio>,
}

/// The later value wins, field by field; a field that is not listed does not compile.
macro_rules! overlay {
    ($earlier:expr, $later:expr; $($field:ident),+ $(,)?) => {{
        let Effects { $($field),+ } = $later;
        $( if $field.is_some() {
            $earlier.$field.clone_from($field);
        } )+
    }};
}

impl Effects {
    /// Whether anything but the hostgroup is set.
    pub(crate) fn has_directives(&self) -> bool {
        *self != Self { destination_hostgroup: self.destination_hostgroup, ..Self::default() }
    }

    /// Takes over what a later rule sets.
    pub(crate) fn take(&mut self, later: &Self) {
        overlay!(self, later;
            destination_hostgroup, cache_ttl_ms, cache_rule, cache_until_changed,
            cache_age_max_ms, cache_always, cache_empty_result, cache_timeout_ms, reconnect,
            timeout_ms, retries, delay_ms, next_query_flag, mirror_flag, mirror_hostgroup,
            mirror_compares, error_msg, ok_msg, sticky_conn, multiplex, gtid_from_hostgroup, log,
            tenant_rule, pipeline, lazy_transactions, causal_reads, trace_sample,
        );
    }
}

/// How the proxy answers a statement itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// An OK packet with this text.
    Ok(&'a Arc<str>),
    /// Error 1148, state 42000, with this text.
    Error(&'a Arc<str>),
}

impl Decision {
    /// Indexes of the rules that matched, in the order in which they did; a rule occurs again
    /// when iterations came back to it. [`crate::RuleSet::rule_id`] names them.
    pub fn matched(&self) -> &[u32] {
        &self.matched
    }

    /// Indexes of the rules of which it could not be decided whether their pattern matches, because
    /// the search took too many steps. Those that protect are among [`matched`](Self::matched).
    pub fn undecided(&self) -> &[u32] {
        &self.undecided
    }

    /// How the proxy answers without asking a server. `OK_msg` wins over `error_msg`.
    pub fn answer(&self) -> Option<Answer<'_>> {
        let ok = self.effects.ok_msg.as_ref().map(Answer::Ok);
        ok.or_else(|| self.effects.error_msg.as_ref().map(Answer::Error))
    }

    /// The flag that the session's later statements start with, when this decision changes it.
    /// A statement that the proxy answers leaves the session's flag alone.
    pub fn session_flag(&self) -> Option<u32> {
        self.effects.next_query_flag.filter(|_| self.answer().is_none())
    }

    /// Forgets everything but the buffer for matches.
    pub(crate) fn restart(&mut self, flag: u32) {
        let mut matched = std::mem::take(&mut self.matched);
        matched.clear();
        *self = Self { final_flag: flag, matched, ..Self::default() };
    }
}

/// One rule's part in an evaluation, for `EXPLAIN ROUTE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The rule.
    pub rule_id: u32,
    /// The flag that the evaluation had when it came to the rule.
    pub flag: u32,
    /// What came of it.
    pub outcome: Outcome,
    /// Whether it could not be decided if its pattern matches; `outcome` is what that counts as.
    pub is_undecided: bool,
    /// The flag that the evaluation went on with.
    pub flag_after: u32,
    /// Whether the rule rewrote the statement.
    pub rewrote: bool,
}

/// What became of a visited rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Every test passed.
    Matched,
    /// Every test passed; the rule is a shadow, so that nothing followed.
    Shadowed,
    /// This column's test was the first that failed.
    FirstFailed(Column),
}
