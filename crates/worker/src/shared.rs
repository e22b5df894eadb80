//! What workers share: the result cache, which only statements touch that a rule makes cacheable;
//! about users, touched at login and logout only, and how often schemas were
//! defined, which statements read and hardly any changes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use trunkline_budget::Budget;
use trunkline_cache::Cache;
use trunkline_catalog::Catalog;
use trunkline_config::Snapshot;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_session::{
    Credential,
    frontend::{Attribute, ProvenHash},
};
use trunkline_sql::{token::Modes, version::ServerVersion};
use trunkline_topology::{Origin, Secret, User, causal::CausalBoard};

use crate::{
    accept::address_limits::Addresses, accept::host_names::HostNames,
    clients::half_open::HalfOpenCounts, login::current_user::CurrentUsers,
    statement::sql_modes::DefaultModes, upkeep::share::ShareBoard,
};

/// Counts and proofs that hold over all workers.
#[derive(Debug, Default)]
pub struct Shared {
    clients: AtomicU32,
    schemas_defined: AtomicU64,
    finds_by_null: AtomicBool,
    /// See [`Self::hold_begin`].
    holds_begin: AtomicBool,
    /// [`ServerVersion::to_bits`] of the version that all servers have.
    server_version: AtomicU16,
    /// Whether clients are greeted as by MariaDB.
    is_mariadb: AtomicBool,
    globals_set: AtomicU64,
    /// What that may have made of how servers read texts.
    modes_set: Mutex<DefaultModes>,
    users: Mutex<HashMap<String, UserFacts>>,
    public_key_pem: Option<Vec<u8>>,
    verified_max: usize,
    attributes: Vec<Attribute>,
    addresses: Arc<Addresses>,
    half_open: Arc<HalfOpenCounts>,
    host_names: HostNames,
    current_users: CurrentUsers,
    /// Commands of the last second, by worker.
    loads: Mutex<Vec<Option<u64>>>,
    cache: Arc<Cache>,
    catalog: Arc<Catalog>,
    budget: Arc<Budget>,
    causal: Arc<CausalBoard>,
    shares: ShareBoard,
}

#[derive(Debug, Default)]
struct UserFacts {
    connections: Arc<AtomicU32>,
    /// What logins have proven: enough to log in to servers as the user.
    credential: Credential,
    /// `SHA256(SHA256(password))`, proven by a full authentication, and the hash that it proves.
    verified: Option<ProvenHash>,
    /// The user whose passwords these are proofs of.
    proven_of: Option<Arc<User>>,
}

impl UserFacts {
    /// Forgets what was proven of other passwords.
    fn forget_others(&mut self, user: Option<&Arc<User>>) {
        let is_same = |one: &Arc<User>, other: &Arc<User>| {
            Arc::ptr_eq(one, other)
                || (&one.password, &one.retained_password)
                    == (&other.password, &other.retained_password)
        };
        let proven_of = self.proven_of.as_ref();
        if !proven_of.zip(user).is_some_and(|(proven_of, user)| is_same(proven_of, user)) {
            self.credential = Credential::default();
            self.verified = None;
        }
        self.proven_of = user.cloned();
    }
}

impl Shared {
    /// With the public key that clients encrypt their passwords with, and how many proofs of
    /// passwords are remembered at most.
    pub fn new(public_key_pem: Option<Vec<u8>>, verified_max: usize) -> Self {
        Self { public_key_pem, verified_max, ..Self::default() }
    }

    /// Takes over the version that all servers have, unknown where they differ; whether it is
    /// another one. Workers look at it when they are given a greeting.
    pub fn set_server_version(&self, version: ServerVersion) -> bool {
        let bits = version.to_bits();
        self.server_version.swap(bits, Relaxed) != bits
    }

    /// Takes over whose server clients are greeted as.
    pub fn set_flavor(&self, flavor: Flavor) {
        self.is_mariadb.store(flavor == Flavor::MariaDb, Relaxed);
    }

    /// How a new session's text is read, as far as the servers are known.
    pub fn modes(&self) -> Modes {
        let flavor_mariadb = self.is_mariadb.load(Relaxed);
        Modes { flavor_mariadb, version: self.server_version(), ..Modes::default() }
    }

    /// The version that all servers have, as far as it is known.
    pub(crate) fn server_version(&self) -> ServerVersion {
        ServerVersion::from_bits(self.server_version.load(Relaxed))
    }

    /// With what the proxy tells servers of itself when it logs in.
    #[must_use]
    pub fn with_attributes<'a>(
        mut self,
        attributes: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Self {
        let pairs = attributes.into_iter();
        let bytes =
            |(name, value): (&str, String)| (name.as_bytes().into(), value.into_bytes().into());
        self.attributes = pairs.map(bytes).collect();
        self
    }

    /// With what is known of names.
    #[must_use]
    pub fn with_catalog(self, catalog: Arc<Catalog>) -> Self {
        Self { catalog, ..self }
    }

    /// What causal reads share.
    pub fn causal(&self) -> &Arc<CausalBoard> {
        &self.causal
    }

    /// Who waits for connections that idle sessions of others hold.
    pub(crate) fn share_board(&self) -> &ShareBoard {
        &self.shares
    }

    /// What names mean on the servers.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The memory of all.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// With this budget of memory.
    #[must_use]
    pub fn with_budget(self, budget: Arc<Budget>) -> Self {
        Self { budget, ..self }
    }

    /// What the proxy tells servers of itself.
    pub(crate) fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Answers that any worker may give. It holds nothing until a configuration makes room.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The key that clients encrypt their passwords with.
    pub fn public_key_pem(&self) -> Option<&[u8]> {
        self.public_key_pem.as_deref()
    }

    /// Takes a place for a client under the cap on all clients.
    pub(crate) fn take_client(&self, max: u32) -> bool {
        take(&self.clients, max)
    }

    pub(crate) fn give_back_client(&self) {
        self.clients.fetch_sub(1, Relaxed);
    }

    /// Whether all places under the cap on all clients are taken.
    pub(crate) fn is_full(&self, max: u32) -> bool {
        self.clients.load(Relaxed) >= max
    }

    /// Clients over all workers that have logged in.
    pub fn clients(&self) -> u32 {
        self.clients.load(Relaxed)
    }

    /// What is known of the addresses that clients come from.
    pub(crate) fn addresses(&self) -> &Arc<Addresses> {
        &self.addresses
    }

    /// Clients that have not logged in.
    pub(crate) fn half_open(&self) -> &Arc<HalfOpenCounts> {
        &self.half_open
    }

    /// What hosts are called.
    pub(crate) fn host_names(&self) -> &HostNames {
        &self.host_names
    }

    /// Where failed logins come from: how many in a row, and when the last one was, ms on the
    /// workers' clock.
    pub fn failed_logins(&self) -> Vec<(Origin, u32, u64)> {
        self.addresses.failing()
    }

    /// Forgets them, and nobody has to wait any more; how many names had some.
    pub fn forget_failed_logins(&self) -> usize {
        self.addresses.forget_failing()
    }

    /// What new sessions begin with was set on a server, which may read texts so then.
    pub(crate) fn set_globals(&self, modes: DefaultModes) {
        self.modes_set.lock().unwrap_or_else(PoisonError::into_inner).merge(modes);
        self.globals_set.fetch_add(1, Relaxed);
    }

    /// How servers may read texts by what was set on them.
    pub(crate) fn modes_set(&self) -> DefaultModes {
        *self.modes_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often that happened.
    pub(crate) fn globals_set(&self) -> u64 {
        self.globals_set.load(Relaxed)
    }

    /// A schema was made or has got other defaults. How often that had happened before.
    pub(crate) fn define_schema(&self) -> u64 {
        self.schemas_defined.fetch_add(1, Relaxed)
    }

    /// How often that happened.
    pub(crate) fn schemas_defined(&self) -> u64 {
        self.schemas_defined.load(Relaxed)
    }

    /// A server has `sql_auto_is_null` on for new sessions.
    pub(crate) fn find_by_null(&self) {
        self.finds_by_null.store(true, Relaxed);
    }

    /// Whether a server was met that has.
    pub(crate) fn finds_by_null(&self) -> bool {
        self.finds_by_null.load(Relaxed)
    }

    /// A server of a Galera cluster holds the `BEGIN` of new sessions.
    pub(crate) fn hold_begin(&self) {
        self.holds_begin.store(true, Relaxed);
    }

    /// Whether a server was met that does.
    pub(crate) fn holds_begin(&self) -> bool {
        self.holds_begin.load(Relaxed)
    }

    /// Says how busy a worker is, and gives what all of them have said last, if all have. Once a
    /// second.
    pub(crate) fn share_load(&self, worker: usize, workers: usize, load: u64) -> Option<Vec<u64>> {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.resize(workers, None);
        if let Some(own) = loads.get_mut(worker) {
            *own = Some(load);
        }
        loads.iter().copied().collect()
    }

    /// The worker takes no clients any more: until it says again how busy it is, nobody moves any.
    pub(crate) fn withdraw_load(&self, worker: usize) {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = loads.get_mut(worker) {
            *own = None;
        }
    }

    fn users(&self) -> MutexGuard<'_, HashMap<String, UserFacts>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place under the user's cap; the counter is given back by [`UserPlace`]'s drop.
    pub(crate) fn take_user(&self, name: &str, max: u32) -> Option<UserPlace> {
        let connections = Arc::clone(&self.users().entry(name.to_owned()).or_default().connections);
        take(&connections, max).then(|| UserPlace(connections))
    }

    /// Connections of a user over all workers.
    pub fn user_connections(&self, name: &str) -> u32 {
        self.users().get(name).map_or(0, |user| user.connections.load(Relaxed))
    }

    /// The proof of an earlier full authentication against this very hash.
    pub(crate) fn verified(&self, name: &str, hash: &[u8]) -> Option<[u8; 32]> {
        let users = self.users();
        let (known, proof) = users.get(name)?.verified.as_ref()?;
        (known.expose() == hash).then_some(*proof)
    }

    /// Remembers the proof of a full authentication.
    pub(crate) fn remember_verified(
        &self,
        user: &Arc<User>,
        hash: Secret<Vec<u8>>,
        proof: [u8; 32],
    ) {
        let mut users = self.users();
        let remembered = users.values().filter(|user| user.verified.is_some()).count();
        let facts = users.entry(user.key().into_owned()).or_default();
        facts.forget_others(Some(user));
        if facts.verified.is_some() || remembered < self.verified_max {
            facts.verified = Some((hash, proof));
        }
    }

    /// Adds what a login has proven to what earlier ones did; returns all of it.
    pub(crate) fn learn_credential(&self, user: &Arc<User>, proven: &Credential) -> Credential {
        let mut users = self.users();
        let facts = users.entry(user.key().into_owned()).or_default();
        facts.forget_others(Some(user));
        facts.credential.learn(proven);
        facts.credential.clone()
    }

    /// Forgets what was proven of passwords that the configuration no longer has, and users that it
    /// no longer has and that nobody is connected as.
    pub(crate) fn apply_users(&self, snapshot: &Snapshot) {
        self.users().retain(|key, facts| {
            if let Some(user) = &facts.proven_of {
                let today = snapshot.today(user).filter(|today| today.active).cloned();
                facts.forget_others(today.as_ref());
            }
            snapshot.has_key(key) || facts.connections.load(Relaxed) > 0
        });
    }

    /// What servers were asked of single names.
    pub(crate) fn current_users(&self) -> &CurrentUsers {
        &self.current_users
    }
}

fn take(counter: &AtomicU32, max: u32) -> bool {
    counter.fetch_update(Relaxed, Relaxed, |count| (count < max).then_some(count + 1)).is_ok()
}

/// One of a user's places; given back when dropped.
#[derive(Debug)]
pub(crate) struct UserPlace(Arc<AtomicU32>);

impl UserPlace {
    /// One that counts for nobody.
    pub(crate) fn uncounted() -> Self {
        Self(Arc::new(AtomicU32::new(1)))
    }
}

impl Drop for UserPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use trunkline_topology::Password;

    use super::*;

    #[test]
    fn a_users_cap_holds_and_places_come_back() {
        let shared = Shared::default();
        let first = shared.take_user("app", 1);
        assert!(first.is_some() && shared.take_user("app", 1).is_none());
        assert!(shared.take_user("other", 1).is_some());
        drop(first);
        assert!(shared.take_user("app", 1).is_some());
    }

    fn user(name: &str, hash: &str) -> Arc<User> {
        let hash = format!("$A$005${}{hash:d>43}", "s".repeat(20));
        Arc::new(User::new(name.to_owned(), Password::from_hash(&hash).expect("a hash")))
    }

    fn verify(shared: &Shared, user: &Arc<User>) {
        let hash = user.password.slow_hash().expect("it has one").clone();
        shared.remember_verified(user, hash, [7; 32]);
    }

    fn is_verified(shared: &Shared, user: &User) -> bool {
        let hash = user.password.slow_hash().expect("it has one");
        shared.verified(&user.key(), hash.expose()) == Some([7; 32])
    }

    #[test]
    fn a_proof_holds_for_its_own_hash_only() {
        let shared = Shared::new(None, 1);
        let app = user("app", "one");
        verify(&shared, &app);
        assert!(is_verified(&shared, &app) && !is_verified(&shared, &user("app", "changed")));
        let beyond = user("beyond the limit", "one");
        verify(&shared, &beyond);
        assert!(!is_verified(&shared, &beyond));
    }

    #[test]
    fn what_was_proven_of_another_password_is_forgotten() {
        let shared = Shared::new(None, 16);
        let (before, now) = (user("app", "one"), user("app", "two"));
        let proven = Credential::from_clear(b"one");
        verify(&shared, &before);
        shared.learn_credential(&before, &proven);
        // The very same user, read again, has proven it still.
        let same = user("app", "one");
        let learned = |user| shared.learn_credential(user, &Credential::default());
        assert_eq!(learned(&same).clear, proven.clear);
        assert!(is_verified(&shared, &same));
        assert_eq!(learned(&now).clear, None);
        assert!(!is_verified(&shared, &before));
    }
}
