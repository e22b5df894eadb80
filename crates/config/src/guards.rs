//! Who may run what, how often, and how much of the servers: the firewall's lists, the limits on
//! rates, and tenants.

use trunkline_rules::{Firewall, FirewallRule, FirewallUser, Limit, LimitScope};
use trunkline_topology::Terms;

/// What one tenant is entitled to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantEntry {
    /// The user's, schema's or label's name; [`ALL`](Self::ALL) stands for each that has no entry.
    pub name: String,
    /// What it is entitled to.
    pub terms: Terms,
}

impl TenantEntry {
    /// The name of the entry that is for each tenant without one.
    pub const ALL: &'static str = "*";
}

/// The lists as the operator wrote them, and the firewall made of them.
#[derive(Debug, Default)]
pub struct Guards {
    /// Active users of the firewall.
    pub firewall_users: Vec<FirewallUser>,
    /// Active rules of the firewall.
    pub firewall_rules: Vec<FirewallRule>,
    /// Limits, in the order of the configuration.
    pub limits: Vec<Limit>,
    /// Tenants, in the order of the configuration.
    pub tenants: Vec<TenantEntry>,
    /// Both lists, ready to be asked; asked only while `firewall_whitelist_enabled` is set.
    pub firewall: Firewall,
}

impl Guards {
    /// What a tenant of this name is entitled to.
    pub fn terms(&self, name: &str) -> Terms {
        let entry = |name: &str| self.tenants.iter().find(|entry| entry.name == name);
        entry(name).or_else(|| entry(TenantEntry::ALL)).map(|entry| entry.terms).unwrap_or_default()
    }

    /// Whether some limit is about a rule.
    pub fn limits_rules(&self) -> bool {
        self.limits.iter().any(|limit| matches!(limit.scope, LimitScope::Rule(_)))
    }
}

impl PartialEq for Guards {
    /// The firewall is made of the lists.
    fn eq(&self, other: &Self) -> bool {
        let Self { firewall_users, firewall_rules, limits, tenants, firewall: _ } = self;
        *firewall_users == other.firewall_users
            && *firewall_rules == other.firewall_rules
            && *limits == other.limits
            && *tenants == other.tenants
    }
}
