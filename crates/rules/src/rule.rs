//! A query rule as it is configured, and why one is refused.

use std::fmt;

use thiserror::Error;
use trunkline_topology::{HostgroupId, LazyTransactions, Pipeline, Ratio, causal::CausalReads};

/// One row of `mysql_query_rules`.
///
/// A test column that is `None` or the empty string is not tested. Source: ProxySQL 2.7.1,
/// table `mysql_query_rules`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// `rule_id`: rules are visited in ascending order. No two rules of a set share one.
    pub id: u32,
    /// An inactive rule is as good as absent, whatever its columns hold. This one default
    /// differs from the table's (0): a rule written down in a file is meant to work.
    pub active: bool,
    /// Frontend user, exact and case-sensitive.
    pub username: Option<String>,
    /// The session's current schema, exact and case-sensitive.
    pub schemaname: Option<String>,
    /// `flagIN`: the flag that the evaluation must have reached. Evaluation starts with 0 or
    /// with the session's [`Rule::next_query_flag_in`].
    pub flag_in: u32,
    /// Client's address: an IP address, the beginning of one and `%`, or a network
    /// (`10.0.0.0/8`, which ProxySQL has not). `localhost` is taken too, and is no IP address's
    /// name. Not tested when the address is unknown.
    pub client_addr: Option<String>,
    /// Address of the listener that the client came in by: an IP address.
    pub proxy_addr: Option<String>,
    /// Port of that listener.
    pub proxy_port: Option<u16>,
    /// The statement's digest as `stats_mysql_query_digest` shows it: `0x` and 1 to 16 hex
    /// digits, not zero. Never matches while digests are switched off.
    pub digest: Option<String>,
    /// Pattern searched for in the digest's text; not tested while digests are switched off.
    pub match_digest: Option<String>,
    /// Pattern searched for in the statement's text.
    pub match_pattern: Option<String>,
    /// Turns round both pattern tests: they pass when the pattern is not found.
    pub negate_match_pattern: bool,
    /// Comma-separated words. One that begins with `CASELESS` (in any case) makes the patterns
    /// ignore the case of ASCII letters, one that begins with `GLOBAL` makes
    /// [`Rule::replace_pattern`] replace every place. As in ProxySQL white space around a word
    /// belongs to it, unknown words mean nothing, and `None` or `""` is case-sensitive.
    pub re_modifiers: Option<String>,
    /// `flagOUT`: the flag that the evaluation goes on with. It wins over the weighted choice of
    /// [`Rule::attributes`].
    pub flag_out: Option<u32>,
    /// What stands in place of what `match_pattern`, which it needs, finds in the statement's
    /// text: `\0` is all that was found, `\1` to `\9` are its groups, `\\` is a backslash. The
    /// first place only, unless `re_modifiers` has `GLOBAL`. Later rules see the new text.
    pub replace_pattern: Option<String>,
    /// Where the statement goes.
    pub destination_hostgroup: Option<HostgroupId>,
    /// How long the result may be served from the cache, ms; not 0.
    pub cache_ttl_ms: Option<u32>,
    /// Whether a result without rows is cached.
    pub cache_empty_result: Option<bool>,
    /// Accepted and without effect, as in ProxySQL.
    pub cache_timeout_ms: Option<u32>,
    /// Accepted and without effect, as in ProxySQL.
    pub reconnect: Option<bool>,
    /// How long the statement may run before it is ended on its server, ms; 0 sets no limit.
    pub timeout_ms: Option<u32>,
    /// How often it is sent again when its connection breaks, where that is safe; at most
    /// [`RETRIES_MAX`].
    pub retries: Option<u32>,
    /// How long it is held back before it goes its way, ms.
    pub delay_ms: Option<u32>,
    /// `next_query_flagIN`: the flag that the session's later statements start with.
    pub next_query_flag_in: Option<u32>,
    /// `mirror_flagOUT`: the flag that a copy's own evaluation starts with.
    pub mirror_flag_out: Option<u32>,
    /// Where a copy goes.
    pub mirror_hostgroup: Option<HostgroupId>,
    /// The statement is answered with this error (1148, 42000). Empty counts.
    pub error_msg: Option<String>,
    /// The statement is answered with an OK packet that says this. Empty counts.
    pub ok_msg: Option<String>,
    /// Accepted and without effect, as in ProxySQL.
    pub sticky_conn: Option<bool>,
    /// Whether the session stays on the connection that runs the statement.
    pub multiplex: Option<Multiplex>,
    /// The server must have what the session last wrote through this hostgroup.
    pub gtid_from_hostgroup: Option<HostgroupId>,
    /// Whether the statement is logged.
    pub log: Option<bool>,
    /// Ends the evaluation.
    pub apply: bool,
    /// A JSON object, or empty. `flagOUTs`, a list of objects with `id` and `weight`, is a
    /// weighted choice of `flagOUT`; `pipeline` and `shadow` are the fields of these names, where
    /// those are not set; other members mean nothing.
    pub attributes: Option<String>,
    /// Not a column of ProxySQL's, whose users write it as a member of `attributes`. Whether the
    /// statement may share a server connection with other sessions' statements.
    pub pipeline: Option<Pipeline>,
    /// Not a column of ProxySQL's, whose users write it as a member of `attributes`. Whether a
    /// `BEGIN`, `COMMIT` or `SET autocommit` waits for the first statement of its transaction.
    pub lazy_transactions: Option<LazyTransactions>,
    /// Not a column of ProxySQL's, whose users write it as a member of `attributes`. Which writes a
    /// read has to see that goes to replicas.
    pub causal_reads: Option<CausalReads>,
    /// Not a column of ProxySQL's, whose users write it as a member of `attributes`. The part of
    /// the statements that have spans.
    pub trace_sample: Option<Ratio>,
    /// Not a column of ProxySQL's. The rule is tested and counted, and does nothing.
    pub shadow: bool,
    /// For people.
    pub comment: Option<String>,
}

/// The most that [`Rule::retries`] can ask for, as in ProxySQL's table.
pub const RETRIES_MAX: u32 = 1_000;

/// `multiplex`: whether a session stays on the connection that runs its statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multiplex {
    /// 0: it stays, until a rule with 1, or the session's end or reset.
    Off,
    /// 1: what a rule with 0 began ends.
    On,
    /// 2: variables in this statement's text do not hold it.
    IgnoreVariables,
}

impl Multiplex {
    /// The value that the column's number stands for.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::On),
            2 => Some(Self::IgnoreVariables),
            _ => None,
        }
    }

    /// The column's number.
    pub fn number(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::On => 1,
            Self::IgnoreVariables => 2,
        }
    }
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            id: 0,
            active: true,
            username: None,
            schemaname: None,
            flag_in: 0,
            client_addr: None,
            proxy_addr: None,
            proxy_port: None,
            digest: None,
            match_digest: None,
            match_pattern: None,
            negate_match_pattern: false,
            re_modifiers: Some("CASELESS".to_owned()),
            flag_out: None,
            replace_pattern: None,
            destination_hostgroup: None,
            cache_ttl_ms: None,
            cache_empty_result: None,
            cache_timeout_ms: None,
            reconnect: None,
            timeout_ms: None,
            retries: None,
            delay_ms: None,
            next_query_flag_in: None,
            mirror_flag_out: None,
            mirror_hostgroup: None,
            error_msg: None,
            ok_msg: None,
            sticky_conn: None,
            multiplex: None,
            gtid_from_hostgroup: None,
            log: None,
            apply: false,
            attributes: None,
            pipeline: None,
            lazy_transactions: None,
            causal_reads: None,
            trace_sample: None,
            shadow: false,
            comment: None,
        }
    }
}

impl Rule {
    /// Whether the patterns ignore case. Words are compared by their beginning, so `case` is
    /// not enough and `CASELESSX` is.
    pub(crate) fn is_caseless(&self) -> bool {
        self.has_modifier(b"CASELESS")
    }

    /// Whether every place is replaced, and not only the first.
    pub(crate) fn is_global(&self) -> bool {
        self.has_modifier(b"GLOBAL")
    }

    fn has_modifier(&self, wanted: &[u8]) -> bool {
        self.re_modifiers.as_deref().unwrap_or_default().split(',').any(|word| {
            let head = word.as_bytes().get(..wanted.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(wanted))
        })
    }
}

/// Why a rule is not taken into a set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("rule {rule_id}: {column}: {reason}")]
pub struct RuleError {
    /// The refused rule's id.
    pub rule_id: u32,
    /// The column that it is refused for.
    pub column: Column,
    /// What is wrong with the column's value, value included.
    pub reason: String,
}

/// A column that a rule tests, or is refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// The id; never a failed test.
    RuleId,
    /// The flag that the evaluation must have reached.
    FlagIn,
    /// The frontend user.
    Username,
    /// The current schema.
    Schemaname,
    /// The client's address.
    ClientAddr,
    /// The listener's address.
    ProxyAddr,
    /// The listener's port.
    ProxyPort,
    /// The digest's number.
    Digest,
    /// The digest's text.
    MatchDigest,
    /// The statement's text.
    MatchPattern,
    /// What replaces a part of that text; never a failed test, like all that follow.
    ReplacePattern,
    /// How long a result is cached.
    CacheTtl,
    /// How often a statement is sent again.
    Retries,
    /// The attributes.
    Attributes,
}

impl Column {
    /// The column's name in `mysql_query_rules`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RuleId => "rule_id",
            Self::FlagIn => "flagIN",
            Self::Username => "username",
            Self::Schemaname => "schemaname",
            Self::ClientAddr => "client_addr",
            Self::ProxyAddr => "proxy_addr",
            Self::ProxyPort => "proxy_port",
            Self::Digest => "digest",
            Self::MatchDigest => "match_digest",
            Self::MatchPattern => "match_pattern",
            Self::ReplacePattern => "replace_pattern",
            Self::CacheTtl => "cache_ttl",
            Self::Retries => "retries",
            Self::Attributes => "attributes",
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_compared_by_their_beginning_and_not_trimmed() {
        let check = |modifiers: Option<&str>, expected: bool| {
            let rule = Rule { re_modifiers: modifiers.map(str::to_owned), ..Rule::default() };
            assert_eq!(rule.is_caseless(), expected, "{modifiers:?}");
        };
        check(Some("CASELESS"), true);
        check(Some("caseless,GLOBAL"), true);
        check(Some("GLOBAL,CASELESSX"), true);
        check(Some("CASELESS, GLOBAL"), true);
        check(Some("GLOBAL, CASELESS"), false);
        check(Some("case"), false);
        check(Some("OTHER"), false);
        check(Some(""), false);
        check(None, false);
        assert!(Rule::default().is_caseless());
    }

    #[test]
    fn an_error_names_rule_column_and_reason() {
        let error =
            RuleError { rule_id: 7, column: Column::MatchDigest, reason: "missing )".to_owned() };
        assert_eq!(error.to_string(), "rule 7: match_digest: missing )");
    }
}
