//! `[[firewall_user]]`, `[[firewall_rule]]`, `[[limit]]` and `[[tenant]]`.

use std::num::NonZeroU32;

use trunkline_rules::{
    Firewall, FirewallMode, FirewallRule, FirewallUser, Limit, LimitScope, RATE_MAX, read_digest,
};
use trunkline_topology::Terms;

use crate::{
    Guards, Subject, TenantEntry, Wrong,
    error::ErrorKind,
    file::{
        check::Entries,
        report::Report,
        row::Row,
        section::{Column, Draft, comment, flag, needed, number, text, value},
    },
    settings::read_text,
};

/// The largest burst of a tenant, ms: a minute.
const BURST_MAX_MS: u32 = 60_000;
/// The longest wait of a limit, ms: an hour.
const WAIT_MAX_MS: u32 = 3_600_000;

pub(super) struct FirewallUserDraft {
    user: FirewallUser,
    is_active: bool,
}

impl Default for FirewallUserDraft {
    fn default() -> Self {
        let (username, client_address) = (String::new(), String::new());
        let user = FirewallUser { username, client_address, mode: FirewallMode::default() };
        Self { user, is_active: true }
    }
}

impl Draft for FirewallUserDraft {
    const NAME: &'static str = "firewall_user";
    const TABLE: &'static str = "mysql_firewall_whitelist_users";
    const KEY: &'static str = "username {username}";
    const COLUMNS: &'static [Column<Self>] = &[
        flag("active", |it, is_so| it.is_active = is_so),
        text("username", |it, text| it.user.username = text),
        text("client_address", |it, text| it.user.client_address = text),
        value("mode", |it, given| {
            let word = read_text(given)?;
            let unknown = || format!("must be OFF, DETECTING or PROTECTING, not `{word}`");
            it.user.mode = FirewallMode::from_word(word).ok_or_else(unknown)?;
            Ok(())
        }),
        comment(),
    ];

    fn finish(self, _: &mut Row<'_, '_>, entries: &mut Entries) {
        if self.is_active {
            entries.guards.firewall_users.push(self.user);
        }
    }
}

#[derive(Default)]
pub(super) struct FirewallRuleDraft {
    username: String,
    client_address: String,
    schemaname: String,
    flag_in: u32,
    digest: Option<u64>,
    is_off: bool,
}

impl Draft for FirewallRuleDraft {
    const NAME: &'static str = "firewall_rule";
    const TABLE: &'static str = "mysql_firewall_whitelist_rules";
    const KEY: &'static str = "username {username}, digest {digest}";
    const COLUMNS: &'static [Column<Self>] = &[
        flag("active", |it, is_so| it.is_off = !is_so),
        text("username", |it, text| it.username = text),
        text("client_address", |it, text| it.client_address = text),
        text("schemaname", |it, text| it.schemaname = text),
        number("flagIN", 0, u32::MAX, |it, flag| it.flag_in = flag),
        needed(value("digest", |it, given| {
            it.digest = Some(read_digest(read_text(given)?)?);
            Ok(())
        })),
        comment(),
    ];

    fn finish(self, _: &mut Row<'_, '_>, entries: &mut Entries) {
        let Self { username, client_address, schemaname, flag_in, digest, is_off } = self;
        if let (Some(digest), false) = (digest, is_off) {
            let digest_text = None;
            entries.guards.firewall_rules.push(FirewallRule {
                username,
                client_address,
                schemaname,
                flag_in,
                digest,
                digest_text,
            });
        }
    }
}

#[derive(Default)]
pub(super) struct LimitDraft {
    scope: String,
    name: String,
    rate: Option<NonZeroU32>,
    burst: Option<NonZeroU32>,
    wait_max_ms: u32,
    is_off: bool,
}

impl Draft for LimitDraft {
    const NAME: &'static str = "limit";
    const TABLE: &'static str = "trunkline_limits";
    const KEY: &'static str = "{scope} {name}";
    const COLUMNS: &'static [Column<Self>] = &[
        flag("active", |it, is_so| it.is_off = !is_so),
        needed(text("scope", |it, text| it.scope = text)),
        text("name", |it, text| it.name = text),
        needed(number("rate", 1, RATE_MAX, |it, rate| it.rate = NonZeroU32::new(rate))),
        number("burst", 1, u32::MAX, |it, burst| it.burst = NonZeroU32::new(burst)),
        number("wait_max_ms", 0, WAIT_MAX_MS, |it, ms| it.wait_max_ms = ms),
        comment(),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let is_read = row.has("scope") && !row.is_refused("scope");
        let scope = is_read.then(|| scope_of(&self.scope, &self.name)).transpose();
        let scope = scope.unwrap_or_else(|wrong| {
            row.refuse("scope", wrong);
            None
        });
        let (Some(scope), Some(rate), false) = (scope, self.rate, self.is_off) else { return };
        let (burst, wait_max_ms) = (self.burst.unwrap_or(rate), self.wait_max_ms);
        entries.guards.limits.push(Limit { scope, rate, burst, wait_max_ms });
    }
}

#[derive(Default)]
pub(super) struct TenantDraft {
    name: String,
    terms: Terms,
    is_off: bool,
}

impl Draft for TenantDraft {
    const NAME: &'static str = "tenant";
    const TABLE: &'static str = "trunkline_tenants";
    const KEY: &'static str = "name {name}";
    const COLUMNS: &'static [Column<Self>] = &[
        flag("active", |it, is_so| it.is_off = !is_so),
        needed(text("name", |it, text| it.name = text)),
        number("weight", 1, Terms::WEIGHT_MAX, |it, weight| it.terms.weight = weight),
        number("share_min", 0, Terms::SHARES_MAX, |it, share| it.terms.share_min = share),
        number("share_max", 1, 100, |it, share| it.terms.share_max = share),
        number("burst_ms", 0, BURST_MAX_MS, |it, ms| it.terms.burst_ms = ms),
        number("priority", 0, Terms::PRIORITY_MAX, |it, priority| it.terms.priority = priority),
        comment(),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let Self { name, terms, is_off } = self;
        if is_off || name.is_empty() {
            return;
        }
        let tenants = &mut entries.guards.tenants;
        if tenants.iter().any(|entry| entry.name == name) {
            row.refuse("name", format!("`{name}` is there twice").into());
        }
        if name == TenantEntry::ALL && terms.share_min > 0 {
            let why = "is for one tenant: nothing can be guaranteed to each of unknown number";
            row.refuse("share_min", why.to_owned().into());
        }
        if terms.share_min > terms.share_max {
            row.refuse("share_min", format!("is above share_max, {}", terms.share_max).into());
        }
        let sum: u32 = tenants.iter().map(|entry| entry.terms.share_min).sum();
        if sum + terms.share_min > Terms::SHARES_MAX {
            let sum = sum + terms.share_min;
            let why =
                format!("makes {sum} per cent of all tenants, more than {}", Terms::SHARES_MAX);
            row.refuse("share_min", why.into());
        }
        tenants.push(TenantEntry { name, terms });
    }
}

/// What a limit is about; an empty name is each user or digest by itself.
fn scope_of(word: &str, name: &str) -> Result<LimitScope, Wrong> {
    match (word, name) {
        ("user", "") => Ok(LimitScope::User(None)),
        ("user", name) => Ok(LimitScope::User(Some(name.to_owned()))),
        ("digest", "") => Ok(LimitScope::Digest(None)),
        ("digest", name) => Ok(LimitScope::Digest(Some(read_digest(name)?))),
        ("rule", name) => match name.parse() {
            Ok(id) => Ok(LimitScope::Rule(id)),
            Err(_) => Err(format!("rule needs a rule's number as `name`, not `{name}`").into()),
        },
        (other, _) => Err(format!("must be user, rule or digest, not `{other}`").into()),
    }
}

/// Compiles the firewall's lists, and reports rows that are wrong.
pub(super) fn finish(guards: &mut Guards, report: &mut Report<'_>) {
    match Firewall::compile(&guards.firewall_users, &guards.firewall_rules) {
        Ok(firewall) => guards.firewall = firewall,
        Err(errors) => {
            for error in errors {
                let subject = Subject::section(FirewallUserDraft::NAME);
                report.add(ErrorKind::Invalid, subject, error.to_string());
            }
        }
    }
}
