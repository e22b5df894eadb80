//! Rules made ready for evaluation.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use crate::{
    Column, Decision, Effects, RETRIES_MAX, Rule, RuleError,
    address::{self, AddrTest},
    attributes::{self, WeightedFlags},
    index::Index,
    pattern::Pattern,
    prefilter::{PatternTest, Prefilter},
    rewrite::Replacement,
};

/// The most restarts that [`Options::iterations`] can ask for; more are not made. A chain that
/// needs more does not end by itself.
pub const ITERATIONS_MAX: u32 = 1_000;

/// What an evaluation does beyond the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How many times a rule's `flagOUT` sends the evaluation back to the first rule instead
    /// of on to the next; at most [`ITERATIONS_MAX`]. ProxySQL:
    /// `mysql-query_processor_iterations`.
    pub iterations: u32,
}

/// An immutable set of compiled rules, cheap to clone and shared by all workers.
#[derive(Debug, Clone)]
pub struct RuleSet {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) rules: Vec<Compiled>,
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) index: Index,
    pub(crate) prefilter: Prefilter,
    pub(crate) tested: TestedColumns,
    pub(crate) iterations: u32,
    /// Whether any rule rewrites texts.
    pub(crate) rewrites: bool,
}

/// One rule, its columns read.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) id: u32,
    pub(crate) flag_in: u32,
    pub(crate) username: Option<Box<str>>,
    pub(crate) schemaname: Option<Box<str>>,
    pub(crate) client_addr: Option<AddrTest>,
    pub(crate) proxy_addr: Option<IpAddr>,
    pub(crate) proxy_port: Option<u16>,
    pub(crate) digest: Option<u64>,
    pub(crate) match_digest: Option<PatternTest>,
    pub(crate) match_pattern: Option<PatternTest>,
    pub(crate) is_negated: bool,
    pub(crate) flag_out: Option<u32>,
    pub(crate) weighted_flags: Option<Box<WeightedFlags>>,
    pub(crate) replacement: Option<Box<Replacement>>,
    pub(crate) is_last: bool,
    pub(crate) is_shadow: bool,
    /// The label of those on whose account its statements run.
    pub(crate) tenant: Option<Box<str>>,
    /// Whether it counts as matching where its pattern can't be decided: what it keeps off must not
    /// get past it.
    pub(crate) protects: bool,
    pub(crate) effects: Effects,
    /// Whether `effects` say more than where a statement goes.
    pub(crate) has_directives: bool,
}

/// Which columns any rule of a set tests: what a decision can depend on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TestedColumns {
    pub(crate) username: bool,
    pub(crate) schemaname: bool,
    pub(crate) client_addr: bool,
    pub(crate) proxy_addr: bool,
    pub(crate) proxy_port: bool,
    pub(crate) digest: bool,
    pub(crate) match_digest: bool,
    /// Whether a rule that protects tests one of the two.
    pub(crate) protects_by_digest: bool,
}

impl TestedColumns {
    /// Whether any column that says where a client comes from or came to is tested.
    pub(crate) fn has_origin(self) -> bool {
        self.client_addr || self.proxy_addr || self.proxy_port
    }
}

impl RuleSet {
    /// Compiles the active rules of `rules`, in whatever order they come.
    ///
    /// # Errors
    /// Every column of every active rule that cannot be compiled; ids that occur twice.
    pub fn compile(rules: Vec<Rule>, options: Options) -> Result<Self, Vec<RuleError>> {
        let mut rules: Vec<Rule> = rules.into_iter().filter(|rule| rule.active).collect();
        rules.sort_by_key(|rule| rule.id);
        let mut compiler = Compiler::default();
        let mut compiled: Vec<Compiled> =
            rules.into_iter().map(|rule| compiler.rule(rule)).collect();
        if !compiler.errors.is_empty() {
            return Err(compiler.errors);
        }
        let patterns = compiler.patterns;
        protect_ways(&mut compiled, &compiler.unprotected);
        let index = Index::build(&compiled);
        let prefilter = Prefilter::build(&index, &mut compiled, &patterns);
        let mut tested = TestedColumns::default();
        for rule in &compiled {
            tested.add(rule);
        }
        let iterations = options.iterations.min(ITERATIONS_MAX);
        let rules = compiled;
        debug_assert!(rules.is_sorted_by(|one, next| one.id < next.id));
        let rewrites = rules.iter().any(|rule| rule.replacement.is_some());
        let inner = Inner { rules, patterns, index, prefilter, tested, iterations, rewrites };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether there is no active rule.
    pub fn is_empty(&self) -> bool {
        self.inner.rules.is_empty()
    }

    /// Whether an active rule rewrites texts.
    pub fn rewrites(&self) -> bool {
        self.inner.rewrites
    }

    /// How many active rules there are.
    pub fn len(&self) -> usize {
        self.inner.rules.len()
    }

    /// The id of the rule at `index`; indexes run from 0 in ascending id over active rules.
    pub fn rule_id(&self, index: usize) -> Option<u32> {
        self.inner.rules.get(index).map(|rule| rule.id)
    }

    /// The ids of the rules that matched, in the order in which they did, but for shadow rules:
    /// nothing followed from these.
    pub fn matched_ids(&self, decision: &Decision) -> impl Iterator<Item = u32> {
        let matched = decision.matched().iter();
        let rules = matched.filter_map(|index| self.inner.rules.get(*index as usize));
        rules.filter(|rule| !rule.is_shadow).map(|rule| rule.id)
    }

    /// What each active rule asks for, in the order of their ids.
    pub fn effects(&self) -> impl Iterator<Item = &Effects> {
        self.inner.rules.iter().map(|rule| &rule.effects)
    }

    /// The labels of tenants that rules give, with the rules' ids.
    pub fn tenants(&self) -> impl Iterator<Item = (u32, &str)> {
        self.inner.rules.iter().filter_map(|rule| Some((rule.id, rule.tenant.as_deref()?)))
    }

    /// Every active rule's id, by index.
    pub fn rule_ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.inner.rules.iter().map(|rule| rule.id)
    }

    /// Whether the rule of this id counts as matching where its pattern can't be decided: it
    /// answers in a server's place, its attribute `protects` says so, or its `flagOUT` or
    /// `next_query_flagIN` leads to such a rule.
    pub fn protects(&self, rule_id: u32) -> bool {
        let rules = &self.inner.rules;
        let found = rules.binary_search_by_key(&rule_id, |rule| rule.id).ok();
        found.and_then(|at| rules.get(at)).is_some_and(|rule| rule.protects)
    }

    /// Whether a rule that [`protects`](Self::protects) tests a digest: what servers carry out of
    /// a statement beside its digest then matters ([`crate::Executed`]).
    pub fn protects_by_digest(&self) -> bool {
        self.inner.tested.protects_by_digest
    }

    /// The rules with a pattern that a linear-time engine cannot run (look-around,
    /// back-references, possessive quantifiers), each with its column: slow, and given up as
    /// undecided when a search takes too many steps. A rule that [`protects`](Self::protects)
    /// counts as matching then, and any other as not matching.
    pub fn backtracking_rules(&self) -> impl Iterator<Item = (u32, Column)> + '_ {
        self.inner.rules.iter().flat_map(|rule| {
            let columns = [
                (rule.match_digest, Column::MatchDigest),
                (rule.match_pattern, Column::MatchPattern),
            ];
            columns.into_iter().filter_map(|(test, column)| {
                let pattern = self.inner.patterns.get(test?.pattern as usize)?;
                pattern.source().is_none().then_some((rule.id, column))
            })
        })
    }
}

impl Default for RuleSet {
    /// No rules.
    fn default() -> Self {
        let inner = Inner {
            rules: Vec::new(),
            patterns: Vec::new(),
            index: Index::default(),
            prefilter: Prefilter::default(),
            tested: TestedColumns::default(),
            iterations: 0,
            rewrites: false,
        };
        Self { inner: Arc::new(inner) }
    }
}

impl TestedColumns {
    fn add(&mut self, rule: &Compiled) {
        self.username |= rule.username.is_some();
        self.schemaname |= rule.schemaname.is_some();
        self.client_addr |= rule.client_addr.is_some();
        self.proxy_addr |= rule.proxy_addr.is_some();
        self.proxy_port |= rule.proxy_port.is_some();
        self.digest |= rule.digest.is_some();
        self.match_digest |= rule.match_digest.is_some();
        self.protects_by_digest |=
            rule.protects && (rule.digest.is_some() || rule.match_digest.is_some());
    }
}

/// What the compilation of one set gathers.
#[derive(Default)]
struct Compiler {
    patterns: Vec<Pattern>,
    /// Patterns by text and case-insensitivity: rules often share one.
    known: HashMap<(String, bool), Result<u32, String>>,
    ids: HashSet<u32>,
    /// Rules that say of themselves that they do not protect.
    unprotected: HashSet<u32>,
    errors: Vec<RuleError>,
}

impl Compiler {
    /// Compiles one rule. A column that cannot be read is noted as an error, and the rule that
    /// comes back is not used then.
    // long: one line for each column.
    fn rule(&mut self, rule: Rule) -> Compiled {
        let id = rule.id;
        if !self.ids.insert(id) {
            self.refuse(id, Column::RuleId, "another active rule has the same id".to_owned());
        }
        let (is_caseless, is_global) = (rule.is_caseless(), rule.is_global());
        let client_addr = filled(rule.client_addr).map(|text| AddrTest::compile(&text));
        let proxy_addr = filled(rule.proxy_addr).map(|text| address::exact(&text));
        let digest = filled(rule.digest).map(|text| read_digest(&text));
        let match_digest = filled(rule.match_digest).map(|text| self.pattern(text, is_caseless));
        let match_digest = self.read(id, Column::MatchDigest, match_digest);
        let match_pattern = filled(rule.match_pattern).map(|text| self.pattern(text, is_caseless));
        let has_pattern = match_pattern.is_some();
        let match_pattern = self.read(id, Column::MatchPattern, match_pattern);
        let replacement =
            rule.replace_pattern.and_then(|text| match (match_pattern, has_pattern) {
                (Some(test), _) => Some(self.replacement(&text, test, is_global)),
                // That the pattern is broken was said already.
                (None, true) => None,
                (None, false) => Some(Err("there is no match_pattern to replace".to_owned())),
            });
        let attributes = rule.attributes.map(|text| attributes::read(&text));
        let attributes = self.read(id, Column::Attributes, attributes).unwrap_or_default();
        if rule.cache_ttl_ms == Some(0) {
            self.refuse(id, Column::CacheTtl, "0 ms is no time to keep a result".to_owned());
        }
        if attributes.protects == Some(false) {
            self.unprotected.insert(id);
        }
        if let Some(retries) = rule.retries.filter(|retries| *retries > RETRIES_MAX) {
            self.refuse(id, Column::Retries, format!("{retries} is more than {RETRIES_MAX}"));
        }
        let answers = rule.error_msg.is_some() || rule.ok_msg.is_some();
        let protects = attributes.protects.unwrap_or(answers);
        let caches = rule.cache_ttl_ms.is_some() || attributes.caches_until_changed;
        let effects = Effects {
            destination_hostgroup: rule.destination_hostgroup,
            cache_ttl_ms: rule.cache_ttl_ms,
            cache_rule: caches.then_some(id),
            cache_until_changed: attributes.caches_until_changed.then_some(true),
            cache_age_max_ms: attributes.cache_age_max_ms,
            cache_always: attributes.caches_always.then_some(true),
            cache_empty_result: rule.cache_empty_result,
            cache_timeout_ms: rule.cache_timeout_ms,
            reconnect: rule.reconnect,
            timeout_ms: rule.timeout_ms,
            retries: rule.retries,
            delay_ms: rule.delay_ms,
            next_query_flag: rule.next_query_flag_in,
            mirror_flag: rule.mirror_flag_out,
            mirror_hostgroup: rule.mirror_hostgroup,
            mirror_compares: attributes.compares_mirror.then_some(true),
            error_msg: rule.error_msg.map(Arc::from),
            ok_msg: rule.ok_msg.map(Arc::from),
            sticky_conn: rule.sticky_conn,
            multiplex: rule.multiplex,
            gtid_from_hostgroup: rule.gtid_from_hostgroup,
            log: rule.log,
            tenant_rule: attributes.tenant.as_ref().map(|_| id),
            pipeline: rule.pipeline.or(attributes.pipeline),
            lazy_transactions: rule.lazy_transactions.or(attributes.lazy_transactions),
            causal_reads: rule.causal_reads.or(attributes.causal_reads),
            trace_sample: rule.trace_sample.or(attributes.trace_sample),
        };
        Compiled {
            id,
            flag_in: rule.flag_in,
            username: filled(rule.username).map(String::into_boxed_str),
            schemaname: filled(rule.schemaname).map(String::into_boxed_str),
            client_addr: self.read(id, Column::ClientAddr, client_addr),
            proxy_addr: self.read(id, Column::ProxyAddr, proxy_addr),
            proxy_port: rule.proxy_port,
            digest: self.read(id, Column::Digest, digest),
            match_digest,
            match_pattern,
            is_negated: rule.negate_match_pattern,
            flag_out: rule.flag_out,
            weighted_flags: attributes.flags.map(Box::new),
            replacement: self.read(id, Column::ReplacePattern, replacement).map(Box::new),
            is_last: rule.apply,
            tenant: attributes.tenant,
            is_shadow: rule.shadow || attributes.is_shadow == Some(true),
            protects,
            has_directives: effects.has_directives(),
            effects,
        }
    }

    fn replacement(
        &self,
        text: &str,
        test: PatternTest,
        is_global: bool,
    ) -> Result<Replacement, String> {
        let groups = self.patterns.get(test.pattern as usize).map_or(0, Pattern::groups);
        Replacement::compile(text, groups, is_global)
    }

    fn refuse(&mut self, rule_id: u32, column: Column, reason: String) {
        self.errors.push(RuleError { rule_id, column, reason });
    }

    fn read<T>(&mut self, id: u32, column: Column, value: Option<Result<T, String>>) -> Option<T> {
        match value? {
            Ok(value) => Some(value),
            Err(reason) => {
                self.refuse(id, column, reason);
                None
            }
        }
    }

    fn pattern(&mut self, text: String, is_caseless: bool) -> Result<PatternTest, String> {
        let patterns = &mut self.patterns;
        let known = self.known.entry((text, is_caseless)).or_insert_with_key(|(text, caseless)| {
            let pattern = Pattern::compile(text, *caseless)?;
            let number = u32::try_from(patterns.len());
            patterns.push(pattern);
            number.map_err(|_| "more than 4294967295 patterns".to_owned())
        });
        known.clone().map(|pattern| PatternTest { pattern, place: None })
    }
}

/// Has those rules protect, too, that send statements on to where a rule protects: what passes them
/// by never gets there.
fn protect_ways(rules: &mut [Compiled], unprotected: &HashSet<u32>) {
    let mut guarded: HashSet<u32> =
        rules.iter().filter(|rule| rule.protects).map(|rule| rule.flag_in).collect();
    loop {
        let before = guarded.len();
        for rule in rules.iter_mut().filter(|rule| !unprotected.contains(&rule.id)) {
            let weighted = rule.weighted_flags.iter().flat_map(|flags| flags.flags());
            let next = rule.effects.next_query_flag;
            let mut ways = rule.flag_out.into_iter().chain(weighted).chain(next);
            let leads = ways.any(|to| guarded.contains(&to));
            if leads && !rule.protects {
                rule.protects = true;
                guarded.insert(rule.flag_in);
            }
        }
        if guarded.len() == before {
            return;
        }
    }
}

/// A test column's text; the empty string is not tested.
fn filled(column: Option<String>) -> Option<String> {
    column.filter(|text| !text.is_empty())
}

/// Reads a digest as tables have it.
///
/// # Errors
/// What it is instead.
pub fn read_digest(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let is_hex = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = digits.filter(is_hex).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number
        .filter(|&number| number != 0)
        .ok_or_else(|| format!("`{text}` is not a digest (0x and up to 16 hex digits, not 0)"))
}

const fn assert_shared<T: Send + Sync>() {}
/// Workers share one set.
const _: () = assert_shared::<RuleSet>();
