//! Query rules: compile, evaluate, remember, explain.
//!
//! Reading order: [`Rule`] (a row of `mysql_query_rules`), [`RuleSet`] (rules compiled for
//! evaluation), [`Question`] and [`Decision`] (what goes in and what comes out), [`Memory`]
//! (decisions that need no second evaluation), [`FastRoutes`] (user and schema to hostgroup),
//! [`Firewall`] (what a user may run), [`Limits`] (how often).
//!
//! Semantics are ProxySQL's: rules are visited in ascending id, a rule whose tests all pass
//! takes effect (the last one wins, column by column), `flagOUT` changes the flag that later
//! rules must have as `flagIN`, `apply` ends the scan. On purpose different:
//!
//! | ProxySQL 2.7.1 | here |
//! |---|---|
//! | a broken pattern makes the rule dead, or always true when negated | refused at load |
//! | `client_addr` with `%` before its end: the rule is left out | refused at load |
//! | `client_addr` that no address can equal: the rule is dead | refused at load |
//! | `digest` without `0x`: another number, the rule is dead | refused at load |
//! | unreadable or zero `digest`: the column is not tested | refused at load |
//! | a last rule with `apply` stops fast routing even when it did not match | only a match does |
//! | a replacement that names a group that is not there: the text stays | refused at load |
//! | attributes with `flagOUTs` of no weight | refused at load |
//! | a search that takes too many steps: the rule does not match | it does if it protects |
//! | a rewrite is as long as it gets | one that adds more than 1 MiB is left out |
//! | a duplicate id cannot be entered | refused at load |
//!
//! A rule protects that answers with `error_msg`, whose attribute `protects` says so, or whose
//! `flagOUT` leads to such a rule: what it keeps off must not get past it because a search takes
//! too long.
#![forbid(unsafe_code)]

mod address;
mod attributes;
mod compile;
mod decision;
mod evaluate;
mod fast;
mod firewall;
mod hits;
mod index;
mod limit;
mod memory;
mod pattern;
mod prefilter;
mod rewrite;
mod rule;

pub use compile::{ITERATIONS_MAX, Options, RuleSet, read_digest};
pub use decision::{Answer, Decision, Effects, Executed, Outcome, Question, Rewrites, Visit};
pub use evaluate::unrewritten;
pub use fast::{
    FAST_NAME_MAX, FastRoute, FastRouteError, FastRoutes, FastRoutesBuilder, SameRoute,
};
pub use firewall::{
    Firewall, FirewallAsk, FirewallError, FirewallLearner, FirewallMode, FirewallRule,
    FirewallUser, FirewallVerdict,
};
pub use hits::Hits;
pub use limit::{
    Admission, BUCKETS_MAX, Limit, LimitAsk, LimitCounters, LimitScope, Limits, RATE_MAX,
};
pub use memory::{Memory, MemoryCounters};
pub use rewrite::GROWTH_MAX;
pub use rule::{Column, Multiplex, RETRIES_MAX, Rule, RuleError};
