//! Configurations of a plan, as text for the real parser and as facts for the oracle.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use trunkline_config::{Config, parse};
use trunkline_topology::{Address, HostgroupId, Server, ServerKey};

use crate::{
    HostId, Micros,
    oracle::facts::{RuleFact, Setting, Split, UserFact},
};

/// A configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigSpec {
    /// Scalar settings, by name.
    pub settings: BTreeMap<&'static str, u64>,
    /// Settings that are no numbers, by name, as the file says them.
    pub words: BTreeMap<&'static str, Cow<'static, str>>,
    /// Server entries.
    pub servers: Vec<ServerSpec>,
    /// Users.
    pub users: Vec<UserSpec>,
    /// Pairs of hostgroups.
    pub splits: Vec<Split>,
    /// Rules in their order.
    pub rules: Vec<RuleSpec>,
    /// How often statements may run.
    pub limits: Option<LimitSpec>,
    /// Tables that change no answer, as the file says them.
    pub tables: String,
    /// Whether answers are stored for this long, ms. Most texts are a statement's own; found are
    /// the answers of those that are said again ([`Tag::repeated`](crate::statement::Tag)).
    pub cache_ttl_ms: Option<u32>,
}

/// A server entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    /// Hostgroup.
    pub hostgroup: u32,
    /// Which host.
    pub host: HostId,
    /// Weight.
    pub weight: u32,
    /// `rank`: those of a higher one serve while there is none of a lower.
    pub rank: u32,
    /// Places.
    pub max_connections: u32,
    /// `OFFLINE_SOFT`.
    pub is_drained: bool,
    /// `max_replication_lag`, in units of [`LAG_UNIT_US`](super::LAG_UNIT_US); 0 for none.
    pub lag_max: u32,
    /// How the proxy's connections there are compressed, as the file says it.
    pub compression: Option<&'static str>,
    /// Whether they are encrypted, as the file says it.
    pub tls: Option<&'static str>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSpec {
    /// Name.
    pub name: String,
    /// Password, the same at the proxy and at servers.
    pub password: String,
    /// Where its statements go.
    pub hostgroup: u32,
    /// The schema of clients that name none.
    pub schema: Option<&'static str>,
    /// Places.
    pub max_connections: u32,
    /// Whether a transaction stays where it began.
    pub is_transaction_persistent: bool,
    /// Bytes go straight through.
    pub is_fast_forward: bool,
    /// What else it has, as the file says it.
    pub more: String,
}

/// Limits on rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSpec {
    /// What is about each by itself: `user` or `digest`; who has no token left waits for one.
    pub scope: &'static str,
    /// Tokens a second for that.
    pub rate: u32,
    /// Texts that contain this, for which a rule is there, are refused when they wait too long.
    pub contains: &'static str,
}

/// How long statements wait for a token at most, ms.
const LIMIT_WAIT_MS: u32 = 4_000;

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSpec {
    /// Only for this user.
    pub user: Option<String>,
    /// Only for texts that contain this.
    pub contains: Option<&'static str>,
    /// Where to.
    pub hostgroup: Option<u32>,
    /// Answered with an error of this text.
    pub error: Option<&'static str>,
    /// What the text that matches is rewritten to.
    pub rewritten: Option<&'static str>,
    /// Where a copy goes.
    pub mirror: Option<u32>,
    /// What else it has, as the file says it.
    pub more: &'static str,
    /// Whether rules behind it are not looked at.
    pub applies: bool,
}

/// How much longer than the search for a lost `COMMIT` may take its client waits, µs.
const OUTCOME_PATIENCE_US: Micros = 1_000_000;
/// The rule that makes statements cacheable, behind all others.
const CACHE_RULE: u32 = 1_000;
/// The port of every host.
const PORT: u16 = 3_306;
/// The last number of the first host's address.
const FIRST_HOST: usize = 10;

/// Where a host listens.
pub fn address_of(host: HostId) -> Address {
    Address::Tcp { host: format!("192.0.2.{}", FIRST_HOST + host.0), port: PORT }
}

/// The host that a server's address leads to.
pub fn host_of(server: &Server) -> Option<HostId> {
    host_of_ip(server.resolved.first()?.ip())
}

/// The host that an address of a plan's configuration names.
pub fn host_at(address: &Address) -> Option<HostId> {
    host_of_ip(address.literal()?)
}

fn host_of_ip(address: std::net::IpAddr) -> Option<HostId> {
    let std::net::IpAddr::V4(address) = address else { return None };
    let [192, 0, 2, last] = address.octets() else { return None };
    usize::from(last).checked_sub(FIRST_HOST).map(HostId)
}

/// The key of a server entry.
pub fn key_of(hostgroup: u32, host: HostId) -> ServerKey {
    ServerKey { hostgroup: HostgroupId(hostgroup), address: address_of(host) }
}

impl ConfigSpec {
    /// A setting's value; 0 when it is not given.
    pub fn setting(&self, name: &str) -> u64 {
        self.settings.get(name).copied().unwrap_or_default()
    }

    /// The text of the configuration file.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for (name, value) in &self.settings {
            let _ = writeln!(out, "{name} = {value}");
        }
        for (name, value) in &self.words {
            let _ = writeln!(out, "{name} = {value}");
        }
        for server in &self.servers {
            let _ = writeln!(
                out,
                "[[server]]\nhostgroup = {}\naddress = \"{}\"\nweight = {}\nmax_connections = {}",
                server.hostgroup,
                address_of(server.host),
                server.weight,
                server.max_connections
            );
            if server.rank > 0 {
                let _ = writeln!(out, "rank = {}", server.rank);
            }
            if server.lag_max > 0 {
                let _ = writeln!(out, "max_replication_lag = {}", server.lag_max);
            }
            if server.is_drained {
                out.push_str("status = \"OFFLINE_SOFT\"\n");
            }
            if let Some(word) = server.compression {
                let _ = writeln!(out, "compression = \"{word}\"");
            }
            if let Some(word) = server.tls {
                let _ = writeln!(out, "tls = \"{word}\"");
            }
        }
        for user in &self.users {
            put_user(&mut out, user);
        }
        for split in &self.splits {
            let how = if split.is_auto { "auto" } else { "rules" };
            let _ = writeln!(
                out,
                "[[replication]]\nwriter_hostgroup = {}\nreader_hostgroup = {}\n\
                 read_write_split = \"{how}\"",
                split.writer, split.reader
            );
        }
        for (place, rule) in self.rules.iter().enumerate() {
            put_rule(&mut out, place + 1, rule);
        }
        if let Some(limits) = &self.limits {
            self.put_limits(&mut out, limits);
        }
        if let Some(ttl_ms) = self.cache_ttl_ms {
            let _ = writeln!(
                out,
                "[[rule]]\nid = {CACHE_RULE}\nmatch_digest = \"^SELECT\"\ncache_ttl = {ttl_ms}"
            );
        }
        out.push_str(&self.tables);
        out
    }

    fn put_limits(&self, out: &mut String, limits: &LimitSpec) {
        let LimitSpec { scope, rate, contains } = limits;
        let _ = writeln!(
            out,
            "[[limit]]\nscope = \"{scope}\"\nrate = {rate}\nburst = 10\n\
             wait_max_ms = {LIMIT_WAIT_MS}"
        );
        let rules = self.rules.iter();
        for (place, _) in rules.enumerate().filter(|(_, rule)| rule.contains == Some(contains)) {
            let id = place + 1;
            let _ = writeln!(
                out,
                "[[limit]]\nscope = \"rule\"\nname = \"{id}\"\nrate = 20\nburst = 4\n\
                 wait_max_ms = 3"
            );
        }
    }

    /// What the real parser makes of it.
    ///
    /// # Panics
    /// When the parser does not like it: plans are to be valid.
    pub fn config(&self) -> Config {
        let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
        let text = self.to_toml();
        match parse(&text, "plan.toml", &no_files) {
            Ok(config) => config,
            Err(errors) => panic!("the plan's configuration is wrong: {errors:?}\n{text}"),
        }
    }

    /// What the oracle is to know of it.
    pub fn facts(&self, from_us: Micros) -> Setting {
        let mut hostgroups: BTreeMap<u32, Vec<HostId>> = BTreeMap::new();
        for server in &self.servers {
            hostgroups.entry(server.hostgroup).or_default().push(server.host);
        }
        let user = |user: &UserSpec| {
            let fact = UserFact {
                password: user.password.clone(),
                hostgroup: user.hostgroup,
                is_transaction_persistent: user.is_transaction_persistent,
                is_forwarded: user.is_fast_forward,
            };
            (user.name.clone(), fact)
        };
        let rule = |rule: &RuleSpec| RuleFact {
            user: rule.user.clone(),
            contains: rule.contains.map(str::to_owned),
            hostgroup: rule.hostgroup,
            is_answered: rule.error.is_some(),
            applies: rule.applies,
        };
        Setting {
            from_us,
            until_us: Micros::MAX,
            hostgroups,
            splits: self.splits.clone(),
            users: self.users.iter().map(user).collect(),
            rules: self.rules.iter().map(rule).collect(),
            retries_max: u32::try_from(self.setting("query_retries_on_failure")).unwrap_or(1),
            repeats: self.words.get("transaction_replay").is_some_and(|word| word == "true"),
            outcome_max_us: match self.words.contains_key("commit_outcome") {
                true => self.setting("commit_outcome_timeout") * 1_000 + OUTCOME_PATIENCE_US,
                false => 0,
            },
            query_timeout_us: self.setting("default_query_timeout") * 1_000,
            queue_wait_max_us: self.setting("connect_timeout_server_max") * 1_000,
            wait_timeout_us: self.setting("wait_timeout") * 1_000,
            login_max_us: self.setting("connect_timeout_client") * 1_000,
            limited: self.limits.map(|limits| limits.contains),
            limit_wait_us: self.limits.map_or(0, |_| Micros::from(LIMIT_WAIT_MS) * 1_000),
            cache_ttl_us: Micros::from(self.cache_ttl_ms.unwrap_or_default()) * 1_000,
            mirrors: self.rules.iter().filter_map(|rule| rule.mirror).collect(),
        }
    }
}

fn put_user(out: &mut String, user: &UserSpec) {
    let _ = writeln!(
        out,
        "[[user]]\nname = \"{}\"\npassword = \"{}\"\ndefault_hostgroup = {}\n\
         max_connections = {}\ntransaction_persistent = {}\nfast_forward = {}",
        user.name,
        user.password,
        user.hostgroup,
        user.max_connections,
        user.is_transaction_persistent,
        user.is_fast_forward
    );
    if let Some(schema) = user.schema {
        let _ = writeln!(out, "default_schema = \"{schema}\"");
    }
    out.push_str(&user.more);
}

fn put_rule(out: &mut String, id: usize, rule: &RuleSpec) {
    let _ = writeln!(out, "[[rule]]\nid = {id}\napply = {}", rule.applies);
    if let Some(user) = &rule.user {
        let _ = writeln!(out, "username = \"{user}\"");
    }
    if let Some(part) = rule.contains {
        let _ = writeln!(out, "match_pattern = \"{part}\"");
    }
    if let Some(hostgroup) = rule.hostgroup {
        let _ = writeln!(out, "destination_hostgroup = {hostgroup}");
    }
    if let Some(text) = rule.rewritten {
        let _ = writeln!(out, "replace_pattern = \"{text}\"");
    }
    if let Some(hostgroup) = rule.mirror {
        let _ = writeln!(
            out,
            "mirror_hostgroup = {hostgroup}\nattributes = '{{\"mirror\": \"compare\"}}'"
        );
    }
    if let Some(text) = rule.error {
        let _ = writeln!(out, "error_msg = \"{text}\"");
    }
    out.push_str(rule.more);
}
