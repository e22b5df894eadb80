//! On whose account statements run. A worker tells up to [`TENANTS_MAX`] tenants apart; the rest
//! share one account. `docs/decisions/0091`.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use foldhash::fast::FixedState;
use trunkline_config::TenantEntry;
use trunkline_pool::{Place, TENANTS_MAX, TenantId, Waiter};
use trunkline_stats::TenantSums;
use trunkline_topology::{TenantScope, Terms};

use crate::{ClientId, clients::client::Client, rooms::Core, servers::conn::Conn};

/// The tenants that a worker has met, and what they have used.
#[derive(Debug)]
pub(crate) struct Tenants {
    scope: TenantScope,
    by_name: HashMap<Box<str>, TenantId, FixedState>,
    /// By [`TenantId`]; the first is of all that are not told apart.
    sums: Vec<TenantSums>,
    /// Whom rules name, by their numbers.
    by_rule: HashMap<u32, TenantId, FixedState>,
}

impl Default for Tenants {
    fn default() -> Self {
        Self {
            scope: TenantScope::Off,
            by_name: HashMap::with_hasher(FixedState::default()),
            sums: vec![TenantSums::default()],
            by_rule: HashMap::with_hasher(FixedState::default()),
        }
    }
}

impl Tenants {
    /// A tenant by its name, and whether it is new. Beyond the limit it is one of the others.
    fn intern(&mut self, name: &str) -> (TenantId, bool) {
        if name.is_empty() {
            return (TenantId::OTHERS, false);
        }
        if let Some(id) = self.by_name.get(name) {
            return (*id, false);
        }
        if self.sums.len() >= TENANTS_MAX {
            return (TenantId::OTHERS, false);
        }
        let id = TenantId::new(self.sums.len());
        self.by_name.insert(name.into(), id);
        self.sums.push(TenantSums::default());
        (id, true)
    }

    fn sums_mut(&mut self, tenant: TenantId) -> Option<&mut TenantSums> {
        self.sums.get_mut(tenant.index())
    }

    /// What a tenant is called; empty for all that are not told apart.
    pub(crate) fn name(&self, tenant: TenantId) -> &str {
        let found = self.by_name.iter().find(|(_, id)| **id == tenant);
        found.map_or("", |(name, _)| name)
    }

    /// Every tenant by its name, with what it has used.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, TenantId, TenantSums)> {
        let others = std::iter::once(("", TenantId::OTHERS));
        let named = self.by_name.iter().map(|(name, id)| (&**name, *id));
        let sums = |id: TenantId| self.sums.get(id.index()).copied().unwrap_or_default();
        others.chain(named).map(move |(name, id)| (name, id, sums(id)))
    }
}

impl Core {
    /// Takes over what the configuration says of tenants, and of what servers run at once.
    pub(crate) fn apply_sharing(&mut self) {
        let snapshot = Arc::clone(&self.env.snapshot);
        let (settings, options) = (&snapshot.settings, &self.env.options);
        let concurrency = settings.server_concurrency.share_of(options.index, options.workers);
        let tenants = &mut self.servers.sharing.tenants;
        tenants.scope = settings.tenant_by;
        tenants.by_rule.clear();
        if tenants.scope == TenantScope::Off {
            return self.servers.pool.set_sharing(concurrency, None);
        }
        // Those with an entry are told apart, however many others come.
        for entry in snapshot.guards.tenants.iter().filter(|it| it.name != TenantEntry::ALL) {
            tenants.intern(&entry.name);
        }
        if tenants.scope == TenantScope::Rule {
            for (rule, label) in snapshot.rules.tenants() {
                let (id, _) = tenants.intern(label);
                tenants.by_rule.insert(rule, id);
            }
        }
        let mut terms = vec![Terms::default(); tenants.sums.len()];
        for (name, id, _) in tenants.rows() {
            if let Some(terms) = terms.get_mut(id.index()) {
                *terms = snapshot.guards.terms(name);
            }
        }
        self.servers.pool.set_sharing(concurrency, Some(terms));
    }

    /// On whose account the statement runs that a client has under way.
    pub(crate) fn name_tenant(&mut self, client: &mut Client) -> TenantId {
        let Some((statement, session)) = client.running_mut() else { return TenantId::OTHERS };
        if let Some(tenant) = statement.target.tenant {
            return tenant;
        }
        let tenants = &mut self.servers.sharing.tenants;
        let name = match tenants.scope {
            TenantScope::Off => Cow::Borrowed(""),
            TenantScope::User => Cow::Borrowed(&*session.login.user.name),
            TenantScope::Schema => String::from_utf8_lossy(session.settings.state.schema.name()),
            TenantScope::Rule => {
                let rule = statement.target.directives.tenant_rule;
                let tenant = rule.and_then(|rule| tenants.by_rule.get(&rule)).copied();
                let tenant = tenant.unwrap_or_default();
                statement.target.tenant = Some(tenant);
                return tenant;
            }
        };
        let (tenant, is_new) = tenants.intern(&name);
        statement.target.tenant = Some(tenant);
        if is_new {
            let terms = self.env.snapshot.guards.terms(&name);
            self.servers.pool.add_terms(tenant, terms);
        }
        tenant
    }

    /// How the statement under way counts that is about to be sent.
    #[cold]
    pub(crate) fn take_place(&mut self, client: &mut Client, is_alone: bool) -> Place {
        Place { tenant: self.name_tenant(client), is_alone }
    }

    /// A statement that was counted is over, and took the server so long, µs.
    #[cold]
    pub(crate) fn end_place(&mut self, conn: &Conn, place: Place, took_us: u64) {
        let now_us = self.env.now.us;
        self.servers.pool.end(conn.slot, place, took_us, now_us);
        if let Some(sums) = self.servers.sharing.tenants.sums_mut(place.tenant) {
            sums.statements += 1;
            sums.server_time_us += took_us;
        }
    }

    /// A statement that has waited gets a connection.
    pub(crate) fn count_queue_time(&mut self, waiter: &Waiter<ClientId>) {
        let waited_us = self.env.now.us.saturating_sub(waiter.since_us);
        let counters = &mut self.fx.stats.counters;
        counters.statements_queued += 1;
        counters.queue_time_us += waited_us;
        if self.servers.pool.has_tenants()
            && let Some(sums) = self.servers.sharing.tenants.sums_mut(waiter.tenant)
        {
            sums.queued += 1;
            sums.queue_time_us += waited_us;
        }
    }

    /// A statement is refused that could not begin in time.
    pub(crate) fn count_late(&mut self, tenant: TenantId) {
        self.fx.stats.counters.statements_late += 1;
        if let Some(sums) = self.servers.sharing.tenants.sums_mut(tenant) {
            sums.late += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_beyond_the_limit_share_one_account() {
        let mut tenants = Tenants::default();
        assert_eq!(tenants.intern(""), (TenantId::OTHERS, false));
        let (first, is_new) = tenants.intern("first");
        assert!(is_new && first != TenantId::OTHERS);
        for nth in 0..2 * TENANTS_MAX {
            tenants.intern(&format!("t{nth}"));
        }
        assert_eq!(tenants.intern("late"), (TenantId::OTHERS, false));
        assert_eq!(tenants.intern("first"), (first, false));
        assert_eq!(tenants.name(first), "first");
        assert_eq!(tenants.rows().count(), TENANTS_MAX);
    }
}
