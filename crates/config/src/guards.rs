//! Who may run what, and how often: the firewall's lists and the limits on rates.

use trunkline_rules::{Firewall, FirewallRule, FirewallUser, Limit, LimitScope};

/// The lists as the operator wrote them, and the firewall made of them.
#[derive(Debug, Default)]
pub struct Guards {
    /// Active users of the firewall.
    pub firewall_users: Vec<FirewallUser>,
    /// Active rules of the firewall.
    pub firewall_rules: Vec<FirewallRule>,
    /// Limits, in the order of the configuration.
    pub limits: Vec<Limit>,
    /// Both lists, ready to be asked; asked only while `firewall_whitelist_enabled` is set.
    pub firewall: Firewall,
}

impl Guards {
    /// Whether some limit is about a rule.
    pub fn limits_rules(&self) -> bool {
        self.limits.iter().any(|limit| matches!(limit.scope, LimitScope::Rule(_)))
    }
}

impl PartialEq for Guards {
    /// The firewall is made of the lists.
    fn eq(&self, other: &Self) -> bool {
        let Self { firewall_users, firewall_rules, limits, firewall: _ } = self;
        *firewall_users == other.firewall_users
            && *firewall_rules == other.firewall_rules
            && *limits == other.limits
    }
}
