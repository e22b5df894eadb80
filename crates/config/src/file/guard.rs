//! `[[firewall_user]]`, `[[firewall_rule]]` and `[[limit]]`.

use trunkline_rules::{
    Firewall, FirewallMode, FirewallRule, FirewallUser, Limit, LimitScope, Limits, RATE_MAX,
    read_digest,
};

use crate::{
    Guards,
    file::{report::Report, table::Table},
    settings::read_text,
};

/// The longest wait of a limit, ms: an hour.
const WAIT_MAX_MS: u32 = 3_600_000;

/// Reads one `[[firewall_user]]`.
pub(super) fn read_user(table: &mut Table<'_>, report: &mut Report<'_>, guards: &mut Guards) {
    let username = table.text(report, "username").unwrap_or_default();
    let client_address = table.text(report, "client_address").unwrap_or_default();
    let mode = table.value(report, "mode", |given| {
        let word = read_text(given)?;
        let mode = FirewallMode::from_word(word);
        mode.ok_or_else(|| format!("must be OFF, DETECTING or PROTECTING, not `{word}`"))
    });
    let is_active = table.flag(report, "active").unwrap_or(true);
    table.text(report, "comment");
    table.finish(report, &[]);
    if is_active {
        let mode = mode.unwrap_or_default();
        guards.firewall_users.push(FirewallUser { username, client_address, mode });
    }
}

/// Reads one `[[firewall_rule]]`.
pub(super) fn read_rule(table: &mut Table<'_>, report: &mut Report<'_>, guards: &mut Guards) {
    let username = table.text(report, "username").unwrap_or_default();
    let client_address = table.text(report, "client_address").unwrap_or_default();
    let schemaname = table.text(report, "schemaname").unwrap_or_default();
    let flag_in = table.number(report, "flagIN", 0..=u32::MAX).unwrap_or(0);
    let digest = table.value(report, "digest", |given| read_digest(read_text(given)?));
    if !table.has("digest") {
        table.missing(report, "digest");
    }
    let is_active = table.flag(report, "active").unwrap_or(true);
    table.text(report, "comment");
    table.finish(report, &[]);
    if let (Some(digest), true) = (digest, is_active) {
        let digest_text = None;
        guards.firewall_rules.push(FirewallRule {
            username,
            client_address,
            schemaname,
            flag_in,
            digest,
            digest_text,
        });
    }
}

/// Reads one `[[limit]]`.
pub(super) fn read_limit(table: &mut Table<'_>, report: &mut Report<'_>, guards: &mut Guards) {
    let name = table.text(report, "name").unwrap_or_default();
    let scope = table.value(report, "scope", |given| scope_of(read_text(given)?, &name));
    if !table.has("scope") {
        table.missing(report, "scope");
    }
    let rate = table.number(report, "rate", 1..=RATE_MAX);
    if !table.has("rate") {
        table.missing(report, "rate");
    }
    let burst = table.number(report, "burst", 1..=u32::MAX);
    let wait_max_ms = table.number(report, "wait_max_ms", 0..=WAIT_MAX_MS).unwrap_or(0);
    let is_active = table.flag(report, "active").unwrap_or(true);
    table.text(report, "comment");
    table.finish(report, &[]);
    if let (Some(scope), Some(rate), true) = (scope, rate, is_active) {
        let burst = burst.unwrap_or(rate);
        let limit = Limit { scope, rate, burst, wait_max_ms };
        match Limits::new(std::slice::from_ref(&limit), 1) {
            Ok(_) => guards.limits.push(limit),
            Err(errors) => {
                let reasons = errors.iter().map(|(_, error)| error.to_string());
                table.error(report, "rate", reasons.collect::<Vec<_>>().join(", "));
            }
        }
    }
}

/// What a limit is about; an empty name is each user or digest by itself.
fn scope_of(word: &str, name: &str) -> Result<LimitScope, String> {
    match (word, name) {
        ("user", "") => Ok(LimitScope::User(None)),
        ("user", name) => Ok(LimitScope::User(Some(name.to_owned()))),
        ("digest", "") => Ok(LimitScope::Digest(None)),
        ("digest", name) => read_digest(name).map(|digest| LimitScope::Digest(Some(digest))),
        ("rule", name) => match name.parse() {
            Ok(id) => Ok(LimitScope::Rule(id)),
            Err(_) => Err(format!("rule needs a rule's number as `name`, not `{name}`")),
        },
        (other, _) => Err(format!("must be user, rule or digest, not `{other}`")),
    }
}

/// Compiles the firewall's lists, and reports rows that are wrong.
pub(super) fn finish(mut guards: Guards, at: usize, report: &mut Report<'_>) -> Guards {
    match Firewall::compile(&guards.firewall_users, &guards.firewall_rules) {
        Ok(firewall) => guards.firewall = firewall,
        Err(errors) => {
            for error in errors {
                report.add(at, "firewall_user", error.to_string());
            }
        }
    }
    guards
}
