//! What servers say of a name is asked for when somebody logs in with it, unless that was done a
//! moment ago: an account that has changed or gone is none any more, whatever was proven of it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use trunkline_session::frontend::{Accounts, ClientHandshake};
use trunkline_topology::Attempt;

use super::LoginAccounts;
use crate::{
    Action, ClientId,
    rooms::{Core, Exchange, Lender},
};

/// What servers said of a name is current for so long, ms.
const CURRENT_MS: u64 = 1_000;
/// The longest name that servers are asked for, bytes: MariaDB's are 128 characters.
const NAME_LEN_MAX: usize = 384;
/// Names of which it is known since when they are; those beyond it are asked for each time.
const NAMES_MAX: usize = 16_384;

/// When servers were asked for single names, over all workers.
#[derive(Debug, Default)]
pub(crate) struct CurrentUsers {
    /// ms, from the moment of the question.
    asked_ms: Mutex<HashMap<String, u64>>,
}

impl CurrentUsers {
    /// The servers have answered a question of that moment.
    fn told(&self, name: String, asked_ms: u64, now_ms: u64) {
        let mut names = self.asked_ms.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX && !names.contains_key(&name) {
            names.retain(|_, asked_ms| is_current(*asked_ms, now_ms));
        }
        if names.len() < NAMES_MAX || names.contains_key(&name) {
            let known_ms = names.entry(name).or_default();
            *known_ms = asked_ms.max(*known_ms);
        }
    }

    fn is_current(&self, name: &str, now_ms: u64) -> bool {
        let names = self.asked_ms.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(name).is_some_and(|asked_ms| is_current(*asked_ms, now_ms))
    }

    /// Other servers are asked from now on.
    pub(crate) fn forget(&self) {
        self.asked_ms.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn is_current(asked_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(asked_ms) < CURRENT_MS
}

impl LoginAccounts<'_> {
    /// Whether servers are to be asked for a name. Of names that are nobody's those that go a
    /// servers' user's way, so that both wait alike.
    pub(super) fn is_to_be_asked(&self, name: &str) -> bool {
        let settings = &self.env.snapshot.settings;
        if settings.server_users_account.is_empty() || settings.server_users_check_timeout == 0 {
            return false;
        }
        let snapshot = &self.env.snapshot;
        let (addr, host) = (self.peer.client_addr, &self.peer.host_name);
        let user = snapshot.user_from(name, addr, host).or_else(|| snapshot.stand_in(name));
        let is_servers = user.is_none_or(|user| user.host.is_some());
        is_servers
            && (1..=NAME_LEN_MAX).contains(&name.len())
            && !self.env.shared.current_users().is_current(name, self.env.now.ms())
            // Whoever has to wait is not judged.
            && self.wait(name, Attempt::Begins).is_none()
    }
}

impl Core {
    /// Has the servers asked for a name, unless this worker has already.
    pub(super) fn look_up_user(&mut self, client: ClientId, name: String) {
        let looking_up = &mut self.clients.logins.looking_up_user;
        if let Some(waiting) = looking_up.get_mut(&name) {
            return waiting.push(client);
        }
        looking_up.insert(name.clone(), vec![client]);
        self.fx.act(Action::LookUpUser { name, asked_ms: self.env.now.ms() });
    }
}

impl Exchange {
    /// See [`Worker::user_looked_up`](crate::Worker::user_looked_up).
    pub(crate) fn on_user_looked_up(&mut self, name: String, asked_ms: Option<u64>) {
        let counters = &mut self.core.fx.stats.counters;
        match asked_ms {
            Some(_) => counters.server_users_told += 1,
            None => counters.server_users_untold += 1,
        }
        let waiting = self.core.clients.logins.looking_up_user.remove(&name).unwrap_or_default();
        if let Some(asked_ms) = asked_ms {
            self.core.env.shared.current_users().told(name, asked_ms, self.core.env.now.ms());
        }
        for id in waiting {
            self.with_entry(id, |exchange, client| {
                exchange.login_resumed(client, ClientHandshake::on_user_looked_up);
            });
        }
    }
}

#[cfg(test)]
mod tests;
