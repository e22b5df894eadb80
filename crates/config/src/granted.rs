//! Users that servers' grant tables name.

use std::{collections::HashMap, fmt, net::IpAddr, sync::Arc};

use trunkline_topology::{HostName, HostPattern, HostgroupId, User};

/// Users of servers, found by name and by where a client comes from, as servers find them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct GrantedUsers {
    /// The accounts of each name, the most specific host pattern first.
    by_name: HashMap<String, Vec<(HostPattern, Arc<User>)>>,
}

impl GrantedUsers {
    /// Of accounts in any order. Those without a host pattern are left out; of two with one name
    /// and pattern the first counts.
    pub fn new(users: impl IntoIterator<Item = User>) -> Self {
        let mut by_name: HashMap<String, Vec<(HostPattern, Arc<User>)>> = HashMap::new();
        for user in users {
            let Some(host) = user.host.as_deref().map(HostPattern::new) else { continue };
            by_name.entry(user.name.clone()).or_default().push((host, Arc::new(user)));
        }
        for accounts in by_name.values_mut() {
            accounts.sort_by(|(a, _), (b, _)| a.cmp_specific(b));
            accounts.dedup_by(|(a, _), (b, _)| a.text() == b.text());
        }
        Self { by_name }
    }

    /// The account of a client called `name` that comes from `addr`, `None` for a Unix socket, and
    /// from a host of this name. An account with a more specific pattern hides the others, whether
    /// it is active or not.
    pub fn find(&self, name: &str, addr: Option<IpAddr>, host: &HostName) -> Option<&Arc<User>> {
        let mut accounts = self.by_name.get(name)?.iter();
        accounts.find(|(pattern, _)| pattern.includes(addr, host.text())).map(|(_, user)| user)
    }

    /// Whether any account is one of hosts with certain names.
    pub fn names_hosts(&self) -> bool {
        self.by_name.values().flatten().any(|(pattern, _)| pattern.names_hosts())
    }

    /// The account with exactly this name and host pattern.
    pub fn account(&self, name: &str, host: &str) -> Option<&Arc<User>> {
        let mut accounts = self.by_name.get(name)?.iter();
        accounts.find(|(pattern, _)| pattern.text() == host).map(|(_, user)| user)
    }

    /// These users with another default hostgroup: where their statements go that no rule and no
    /// split sends elsewhere.
    pub fn of_hostgroup(&self, default_hostgroup: HostgroupId) -> Self {
        let there = |user: &Arc<User>| User { default_hostgroup, ..User::clone(user) };
        Self::new(self.iter().map(there))
    }

    /// With what `of_names` has of these names, and nothing else of them; `None` where that is the
    /// same.
    pub fn with_names(&self, names: &[String], of_names: &Self) -> Option<Self> {
        let is_same = |name: &String| self.by_name.get(name) == of_names.by_name.get(name);
        if names.iter().all(is_same) {
            return None;
        }
        let mut by_name = self.by_name.clone();
        for name in names {
            match of_names.by_name.get(name) {
                Some(accounts) => by_name.insert(name.clone(), accounts.clone()),
                None => by_name.remove(name),
            };
        }
        Some(Self { by_name })
    }

    /// Whether there is an account of that name, wherever its clients come from.
    pub fn has_name(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// How many accounts there are.
    pub fn len(&self) -> usize {
        self.by_name.values().map(Vec::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.by_name.values().flatten().map(|(_, user)| user)
    }
}

impl fmt::Debug for GrantedUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantedUsers").field("accounts", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use trunkline_topology::{Password, Secret};

    use super::*;

    fn user(name: &str, host: &str) -> User {
        let password = Password::Clear(Secret::new(host.to_owned()));
        User { host: Some(host.to_owned()), ..User::new(name.to_owned(), password) }
    }

    #[test]
    fn the_most_specific_account_is_found() {
        let users = ["%", "10.%", "10.1.2.3", "localhost"].map(|host| user("app", host));
        let users = GrantedUsers::new(users.into_iter().chain([user("other", "10.%")]));
        let find = |name: &str, from: &str| {
            let user = users.find(name, from.parse().ok(), &HostName::Unasked);
            user.and_then(|user| user.host.clone())
        };
        assert_eq!(find("app", "10.1.2.3").as_deref(), Some("10.1.2.3"));
        assert_eq!(find("app", "10.1.2.4").as_deref(), Some("10.%"));
        assert_eq!(find("app", "192.0.2.1").as_deref(), Some("%"));
        assert_eq!(find("app", "a unix socket").as_deref(), Some("localhost"));
        assert_eq!(find("other", "192.0.2.1"), None);
        assert_eq!(find("nobody", "10.1.2.3"), None);
        assert_eq!(users.len(), 5);
        assert!(users.account("app", "10.%").is_some() && users.account("app", "11.%").is_none());
        assert!(!users.names_hosts());
    }

    #[test]
    fn single_names_get_other_accounts() {
        let users = GrantedUsers::new([user("app", "%"), user("app", "10.%"), user("other", "%")]);
        let names = ["app", "new", "never"].map(str::to_owned);
        let told = GrantedUsers::new([user("app", "10.%"), user("new", "%"), user("other", "x")]);
        let now = users.with_names(&names, &told).expect("they have changed");
        assert!(now.account("app", "%").is_none() && now.account("app", "10.%").is_some());
        assert!(now.has_name("new") && !now.has_name("never"));
        assert!(now.account("other", "%").is_some(), "nobody asked for it");
        assert_eq!(now.with_names(&names, &told), None);
        let gone = now.with_names(&names, &GrantedUsers::default()).expect("they have gone");
        assert_eq!(gone.len(), 1);
    }

    #[test]
    fn accounts_go_to_another_hostgroup_together() {
        let users = GrantedUsers::new(["%", "10.%"].map(|host| user("app", host)));
        let moved = users.of_hostgroup(HostgroupId(20));
        let homes: Vec<_> = moved.iter().map(|user| user.default_hostgroup.0).collect();
        assert_eq!(homes, [20, 20]);
        assert!(moved.account("app", "10.%").is_some());
    }

    #[test]
    fn accounts_of_hosts_are_found_where_the_hosts_name_is_known() {
        let users = ["%", "app-%.example.com", "db.example.com"].map(|host| user("app", host));
        let users = GrantedUsers::new(users);
        let find = |host: HostName| {
            let user = users.find("app", "10.1.2.3".parse().ok(), &host);
            user.and_then(|user| user.host.clone())
        };
        let named = |name: &str| HostName::Named(name.into());
        assert!(users.names_hosts());
        assert_eq!(find(named("db.example.com")).as_deref(), Some("db.example.com"));
        assert_eq!(find(HostName::Nameless).as_deref(), Some("%"));
        // Servers rank wildcards by how much text is in front of the first of them.
        assert_eq!(find(named("app-1.example.com")).as_deref(), Some("app-%.example.com"));
    }
}
